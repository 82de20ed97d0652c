//! Sums over an array, and histograms: what each block has goes to its place by one atomic.
use super::lookback::Monoid;
use super::scan::Operator;
use simt::{Block, GlobalSlice, Instance, Order, Scope, Thread, Tile, Word, kernel, shared};

/// An operator that arrays are reduced by.
pub trait Reduced: Copy + Send + Sync + 'static {
    /// The operator.
    type Operator: Operator;
}

/// An operator as what arrays are reduced by.
#[derive(Clone, Copy, Debug)]
pub struct By<O>(core::marker::PhantomData<fn() -> O>);

impl<O: Operator> Reduced for By<O> {
    type Operator = O;
}

type Value<R> = <<R as Reduced>::Operator as Monoid>::Value;

/// Writes what changes nothing to all of `results`. A thread a word, or fewer.
#[kernel]
pub fn reduce_begin<R: Reduced + Instance>(results: GlobalSlice<Value<R>>) {
    let mut place = Thread::index();
    while place < results.len() {
        results.write(place, R::Operator::IDENTITY);
        place += Thread::count();
    }
}

/// Combines all of `from` with `result[0]`. Any grid of whole warps.
#[kernel]
pub fn reduce<R: Reduced + Instance>(from: GlobalSlice<Value<R>>, result: GlobalSlice<Value<R>>) {
    let (mut place, mut sum) = (Thread::index(), R::Operator::IDENTITY);
    while place < from.len() {
        sum = R::Operator::combine(sum, from.read(place));
        place += Thread::count();
    }
    let warp = Tile::<32>::lockstep();
    let sum = R::Operator::fold(warp, sum);
    if warp.rank() == 0 {
        R::Operator::combine_at(result.at(0), sum);
    }
}

/// A word whose values are counted.
pub trait Binned: Copy + Send + Sync + 'static {
    /// The word.
    type Word: Word;
}

impl<T: Word> Binned for super::words::Ordered<T> {
    type Word = T;
}

/// The most bins that a block counts by itself.
pub const OWN_BINS: usize = 2048;

/// Adds to `bins[v]` how many words `w` of `from` have `w >> shift == v`. Those without a bin are left out.
/// Any grid.
#[kernel]
pub fn bin_words<B: Binned + Instance>(from: GlobalSlice<B::Word>, shift: u32, bins: GlobalSlice<u32>) {
    let own = shared!([u32; OWN_BINS]);
    let is_own = bins.len() <= OWN_BINS;
    let each_bin = |body: &dyn Fn(usize)| {
        let mut bin = Thread::index_in_block() as usize;
        while is_own && bin < bins.len() {
            body(bin);
            bin += Thread::block_size() as usize;
        }
    };
    each_bin(&|bin| own.store(bin, 0));
    Block::sync();
    let mut place = Thread::index();
    while place < from.len() {
        let bin = from.read(place).widen() >> shift;
        if bin < bins.len() as u128 {
            match is_own {
                true => own.fetch_add(bin as usize, 1),
                false => bins.at(bin as usize).fetch_add(1, Order::Relaxed, Scope::Device),
            };
        }
        place += Thread::count();
    }
    Block::sync();
    each_bin(&|bin| {
        let count = own.load(bin);
        if count > 0 {
            bins.at(bin).fetch_add(count, Order::Relaxed, Scope::Device);
        }
    });
}

/// Takes a type by its name: see `simt::instances!`.
pub trait Visitor {
    /// What it makes of it.
    type Output;

    /// Is shown the type.
    fn visit<P: Reduced + Instance>(self) -> Self::Output;
}
