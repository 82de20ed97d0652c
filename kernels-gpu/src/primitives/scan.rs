//! Scans in one pass: each tile adds up its elements, learns what stands before it ([`super::lookback`]), and writes its part.
//!
//! ```text
//! a tile:   warp 0                  | warp 1                  | ...
//! a warp:   vector 0 of 32 lanes, 16 bytes each | vector 1 | ...      one load a vector
//! ```
//!
//! Every lane adds up its vector; the lanes' sums are scanned by five shuffles, vector after vector; the warps' sums go through shared memory. The first
//! warp publishes the tile's sum and looks back, 32 tiles at a time ([`super::carry`]).
//!
//! # A tile ahead
//!
//! A block that looks back waits, and what it waits for is often a load of another block that was slow to come. A plan that works
//! [`ScanPlan::AHEAD`] has as many blocks as run side by side, and each loads its next tile before it looks back for the one at hand, so that memory
//! has work meanwhile:
//!
//! ```text
//! load first │ sum  publish  load next │ look back │ store │ sum  publish  load next │ look back │ store │ ...
//!                            ask for the one after next       ask for the one after next
//! ```
//!
//! The numbers come from the counter, each asked for a tile before it is needed. They are not dealt out by the block's index (`index + k * blocks`), which would save
//! the counter: a block that has not begun yet would own tiles that running blocks wait for, and it may not begin before one of those ends. With a counter
//! a tile has an owner that runs. *The wait ends*: a block works on its tiles in ascending order, for each number it got was larger than those before. So
//! the smallest tile that is not done is its owner's tile at hand; all before it are done, so it waits for nobody.
use super::carry::Carry;
use super::lookback::{Monoid, Values, scan_lanes};
use super::{ticket, unrolled};
use core::marker::PhantomData;
use simt::{
    Block, Global, GlobalSlice, Instance, Order, Scope, Shared, Thread, Tile, Word, kernel, opaque, shared,
};

/// An associative operation on words that arrays are scanned and reduced by.
pub trait Operator: Monoid<Value: Word> {
    /// Combines a value in memory with another one. The order in which threads do that does not matter: all these operators commute.
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

/// A scan by `THREADS` threads a block with `VECTORS` vectors each, of `WIDE` elements; a tile ahead where `AHEAD` says so. Look-back waits for `NAP`
/// nanoseconds before it looks, and looks again ([`Values::before`]).
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
        const { assert!(WIDE * size_of::<O::Value>() == 16 && THREADS.is_multiple_of(32)) };
        let mut tile = ticket(job.tickets.at(0));
        let tiles = job.from.len().div_ceil(THREADS as usize * VECTORS * WIDE) as u32;
        // Of blocks that work ahead, one that begins late may find all tiles taken.
        if AHEAD && tile >= tiles {
            return;
        }
        let part = |tile: u32| Part::<O, VECTORS, WIDE>::of(job, tile, THREADS);
        let mut items = part(tile).load();
        let carry = Carry::<O>::new(Values::of(job.status), THREADS / 32);
        let claims = Claims::of(job.tickets, tiles);
        let mut next = if AHEAD { claims.first() } else { NONE };
        loop {
            let (before, total) = sums::<O, VECTORS, WIDE>(&items);
            let announced = carry.announce(tile, total);
            let mut following = items;
            if AHEAD && next != NONE {
                following = part(next).load();
                claims.ask();
            }
            let (prefix, whole) = carry.learn(announced, NAP);
            part(opaque(tile)).store(items, before, prefix);
            if tile == tiles - 1 && Thread::index_in_block() == 0 && job.to.len() > job.from.len() {
                job.to.write(job.from.len(), whole);
            }
            if next == NONE {
                return;
            }
            (tile, items, next) = (next, following, claims.told());
        }
    }
}

/// Scans `from`. A block for each [`ScanPlan::THREADS`]` * `[`ScanPlan::ITEMS`] elements; [`ScanPlan::AHEAD`], any number of blocks.
#[kernel]
pub fn scan<P: ScanPlan + Instance>(job: Job<Scanned<P>>) {
    P::scan(job);
}

/// No tile.
const NONE: u32 = u32::MAX;

/// The numbers of tiles that a block works on after its first one. A thread of the last warp asks, for the first one is busy looking back.
#[derive(Clone, Copy)]
struct Claims {
    counter: Global<u32>,
    tiles: u32,
    /// Where the number is told.
    slot: Shared<u32>,
}

impl Claims {
    #[inline(always)]
    #[track_caller]
    fn of(tickets: GlobalSlice<u32>, tiles: u32) -> Self {
        Self { counter: tickets.at(0), tiles, slot: shared!([u32; 1]) }
    }

    /// The second tile. Blocks that are as many as tiles have none, and ask for none. May have a barrier of the block.
    #[inline(always)]
    #[track_caller]
    fn first(self) -> u32 {
        if self.tiles <= Thread::grid_size() {
            return NONE;
        }
        self.ask();
        Block::sync();
        self.told()
    }

    /// Asks for a tile. Relaxed, as for [`ticket`].
    #[inline(always)]
    #[track_caller]
    fn ask(self) {
        if Thread::index_in_block() == Thread::block_size() - 1 {
            self.slot.store(0, self.counter.fetch_add(1, Order::Relaxed, Scope::Device));
        }
    }

    /// The tile that was asked for before the last barrier.
    #[inline(always)]
    #[track_caller]
    fn told(self) -> u32 {
        let tile = self.slot.load(0);
        if tile < self.tiles { tile } else { NONE }
    }
}

/// What stands before each of the lane's vectors in its warp, and what the warp comes to.
#[inline(always)]
#[track_caller]
fn sums<O: Operator, const VECTORS: usize, const WIDE: usize>(
    items: &[[O::Value; WIDE]; VECTORS],
) -> ([O::Value; VECTORS], O::Value) {
    let (mut before, mut total) = ([O::IDENTITY; VECTORS], O::IDENTITY);
    let warp = Tile::<32>::lockstep();
    unrolled::<VECTORS>(|v| {
        let sum = items[v].into_iter().fold(O::IDENTITY, O::combine);
        let upto = scan_lanes::<O>(warp, sum, 32);
        let below = warp.shuffle_up(upto, 1);
        before[v] = O::combine(total, if warp.rank() == 0 { O::IDENTITY } else { below });
        total = O::combine(total, warp.shuffle(upto, 31));
    });
    (before, total)
}

/// A lane's vectors of a tile: where the first one begins, and how many elements there are from there on.
#[derive(Clone, Copy)]
struct Part<O: Operator, const VECTORS: usize, const WIDE: usize> {
    job: Job<O::Value>,
    first: usize,
    left: u32,
    of: PhantomData<O>,
}

impl<O: Operator, const VECTORS: usize, const WIDE: usize> Part<O, VECTORS, WIDE> {
    /// Elements from one vector of a lane to its next.
    const STRIDE: usize = 32 * WIDE;
    /// From the first to the end of the last.
    const SPAN: usize = (VECTORS - 1) * Self::STRIDE + WIDE;

    #[inline(always)]
    fn of(job: Job<O::Value>, tile: u32, threads: u32) -> Self {
        let warp = tile as usize * (threads / 32) as usize + (Thread::index_in_block() / 32) as usize;
        let first = warp * VECTORS * Self::STRIDE + Thread::lane() as usize * WIDE;
        let left = job.from.len().saturating_sub(first).min(Self::SPAN) as u32;
        Self { job, first, left, of: PhantomData }
    }

    #[inline(always)]
    #[track_caller]
    fn load(self) -> [[O::Value; WIDE]; VECTORS] {
        let mut items = [[O::IDENTITY; WIDE]; VECTORS];
        if self.left == 0 {
            return items;
        }
        let first = self.job.from.at(self.first);
        if self.left as usize == Self::SPAN {
            // SAFETY: all vectors lie in the array, and it is aligned to more than a vector.
            unrolled::<VECTORS>(|v| unsafe {
                items[v] = first.offset(v * Self::STRIDE).load_vec(Order::Weak, Scope::Device);
            });
        } else {
            self.each_left(|v, i, place| {
                // SAFETY: there are so many elements from the first on.
                items[v][i] = unsafe { first.offset(place) }.load(Order::Weak, Scope::Device);
            });
        }
        items
    }

    /// Calls `body` with the elements that there are in the last tile: vector, place in it, distance from the first.
    #[inline(always)]
    #[track_caller]
    fn each_left(self, mut body: impl FnMut(usize, usize, usize)) {
        unrolled::<VECTORS>(|v| {
            unrolled::<WIDE>(|i| {
                let place = v * Self::STRIDE + i;
                if (place as u32) < self.left {
                    body(v, i, place);
                }
            });
        });
    }

    #[inline(always)]
    #[track_caller]
    fn store(self, items: [[O::Value; WIDE]; VECTORS], before: [O::Value; VECTORS], prefix: O::Value) {
        let mut results = items;
        unrolled::<VECTORS>(|v| {
            let mut sum = O::combine(prefix, before[v]);
            unrolled::<WIDE>(|i| {
                let after = O::combine(sum, items[v][i]);
                results[v][i] = if self.job.inclusive != 0 { after } else { sum };
                sum = after;
            });
        });
        if self.left == 0 {
            return;
        }
        let first = self.job.to.at(self.first);
        if self.left as usize == Self::SPAN {
            // SAFETY: as in `load`; the results have as many places.
            unrolled::<VECTORS>(|v| unsafe {
                first.offset(v * Self::STRIDE).store_vec(results[v], Order::Weak, Scope::Device);
            });
        } else {
            self.each_left(|v, i, place| {
                // SAFETY: as in `load`.
                unsafe { first.offset(place) }.store(results[v][i], Order::Weak, Scope::Device);
            });
        }
    }
}

/// Takes a type by its name: see `simt::instances!`.
pub trait Visitor {
    /// What it makes of it.
    type Output;

    /// Is shown the type.
    fn visit<P: ScanPlan + Instance>(self) -> Self::Output;
}
