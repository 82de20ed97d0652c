//! Scans in one pass: each tile adds up its elements, learns what stands before it ([`super::lookback`]), and
//! writes its part. How: [`super::tiles`].
use super::lookback::Monoid;
use super::tiles::{Summed, Walk, Whole};
use core::marker::PhantomData;
use simt::{Global, GlobalSlice, Instance, Order, Scope, Tile, Word, kernel};

/// An associative operation on words that arrays are scanned and reduced by.
pub trait Operator: Monoid<Value: Word> {
    /// Combines a value in memory with another one. The order in which threads do that does not matter: all
    /// these operators commute.
    fn combine_at(place: Global<Self::Value>, value: Self::Value);
}

macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident = $combine:ident, $fetch:ident, $reduce:ident, $identity:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<T>(PhantomData<fn() -> T>);

        operators!(of $name, u32, $combine, $fetch, $identity; {
            /// One instruction: in which order 32 bits are combined does not matter.
            #[inline(always)]
            #[track_caller]
            fn fold(warp: Tile<32>, value: u32) -> u32 {
                warp.$reduce(value)
            }
        });
        operators!(of $name, u64, $combine, $fetch, $identity; {});
    )*};
    (of $name:ident, $word:ident, $combine:ident, $fetch:ident, $identity:ident; {$($fold:item)?}) => {
        impl Monoid for $name<$word> {
            type Value = $word;
            const IDENTITY: $word = $word::$identity;

            #[inline(always)]
            fn combine(first: $word, second: $word) -> $word {
                first.$combine(second)
            }

            $($fold)?
        }

        impl Operator for $name<$word> {
            #[inline(always)]
            #[track_caller]
            fn combine_at(place: Global<$word>, value: $word) {
                place.$fetch(value, Order::Relaxed, Scope::Device);
            }
        }
    };
}
operators! {
    /// The sum, wrapping.
    Sum = wrapping_add, fetch_add, reduce_add, MIN;
    /// The smallest.
    Min = min, fetch_min, reduce_min, MAX;
    /// The largest.
    Max = max, fetch_max, reduce_max, MIN;
}

/// How a scan is done: the operator, and the size of a tile.
pub trait ScanPlan: Copy + Send + Sync + 'static {
    /// The operator.
    type Operator: Operator;
    /// Threads a block.
    const THREADS: u32;
    /// Elements a thread.
    const ITEMS: usize;
    /// Whether blocks work on one tile after the other, loading a tile ahead; else on one.
    const AHEAD: bool;

    /// What a thread of [`scan`] does.
    fn scan(scan: Job<Scanned<Self>>);
}

/// What a plan scans.
pub type Scanned<P> = <<P as ScanPlan>::Operator as Monoid>::Value;

/// A scan.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Job<T> {
    /// What is scanned.
    pub from: GlobalSlice<T>,
    /// Takes the results: as many as `from` has, or one more, which takes the whole's. May be `from` itself.
    pub to: GlobalSlice<T>,
    /// What tiles publish: zero before.
    pub status: GlobalSlice<u64>,
    /// The counter that gives tiles their numbers: one word, zero before.
    pub tickets: GlobalSlice<u32>,
    /// Whether an element counts towards its own result.
    pub inclusive: u32,
}

/// A scan by a [`Walk`] with these numbers.
#[derive(Clone, Copy, Debug)]
pub struct Vectors<
    O,
    const THREADS: u32,
    const VECTORS: usize,
    const WIDE: usize,
    const AHEAD: bool = false,
    const NAP: u32 = 0,
>(PhantomData<fn() -> O>);

impl<
    O: Operator,
    const THREADS: u32,
    const VECTORS: usize,
    const WIDE: usize,
    const AHEAD: bool,
    const NAP: u32,
> ScanPlan for Vectors<O, THREADS, VECTORS, WIDE, AHEAD, NAP>
{
    type Operator = O;
    const THREADS: u32 = THREADS;
    const ITEMS: usize = VECTORS * WIDE;
    const AHEAD: bool = AHEAD;

    #[inline(always)]
    #[track_caller]
    fn scan(job: Job<O::Value>) {
        let Job { from, to, status, tickets, inclusive } = job;
        let walk = Walk::<_, THREADS, VECTORS, WIDE, AHEAD, NAP> {
            from,
            status,
            tickets,
            grouping: Whole::<O>(PhantomData),
        };
        let write = |summed: Summed<_, VECTORS, WIDE>| {
            summed.part.store(to, summed.results(inclusive != 0), (0, from.len()));
        };
        walk.run(write, |whole| {
            if to.len() > from.len() {
                to.write(from.len(), whole);
            }
        });
    }
}

/// Scans `from`. A block for each [`ScanPlan::THREADS`]` * `[`ScanPlan::ITEMS`] elements;
/// [`ScanPlan::AHEAD`], any number of blocks.
#[kernel]
pub fn scan<P: ScanPlan + Instance>(job: Job<Scanned<P>>) {
    P::scan(job);
}

/// Takes a type by its name: see `simt::instances!`.
pub trait Visitor {
    /// What it makes of it.
    type Output;

    /// Is shown the type.
    fn visit<P: ScanPlan + Instance>(self) -> Self::Output;
}
