//! Sums over an array, and histograms: each block or warp adds its partial result by one atomic operation per
//! word.
//!
//! # Cost
//!
//! Reads each element once; an atomic per block for a sum. A histogram executes an atomic per element, in
//! shared memory if the bins fit there, and then an atomic in device memory per bin and block.
//! [`reduce_begin`] writes one word.
use super::lookback::Monoid;
use super::operator::Operator;
use simt::{Block, GlobalSlice, Instance, Order, Scope, Thread, Tile, Word, kernel, shared};

/// An operator by which arrays are reduced.
pub trait Reduced: Copy + Send + Sync + 'static {
    /// Type of the operator.
    type Operator: Operator;
}

/// A reduction by operator `O`.
#[derive(Clone, Copy, Debug)]
pub struct By<O>(core::marker::PhantomData<fn() -> O>);

impl<O: Operator> Reduced for By<O> {
    type Operator = O;
}

impl<O: Operator> Instance for By<O> {
    const NAME: &'static str = O::NAME;
}

type Value<R> = <<R as Reduced>::Operator as Monoid>::Value;

/// Writes the identity to all of `results`. At most one thread per word.
#[kernel]
pub fn reduce_begin<R: Reduced + Instance>(results: GlobalSlice<Value<R>>) {
    let mut place = Thread::index();
    while place < results.len() {
        results.write(place, R::Operator::IDENTITY);
        place += Thread::count();
    }
}

/// Combines all of `from` with `result[0]`. Works with any grid of whole warps.
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

/// A word type whose values are counted.
pub trait Binned: Copy + Send + Sync + 'static {
    /// Type of the words.
    type Word: Word;
}

impl<T: Word> Binned for super::words::Ordered<T> {
    type Word = T;
}

/// Maximum number of bins that a block counts in shared memory.
pub const OWN_BINS: usize = 2048;

/// Adds to `bins[v]` the number of words `w` of `from` with `w >> shift == v`. Ignores words without a bin.
/// Works with any grid.
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
