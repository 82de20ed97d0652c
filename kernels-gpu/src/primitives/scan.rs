//! Scans in one pass: each tile adds up its elements, learns what stands before it ([`super::lookback`]), and writes its part.
//!
//! ```text
//! a tile:   warp 0                  | warp 1                  | ...
//! a warp:   vector 0 of 32 lanes, 16 bytes each | vector 1 | ...      one load a vector
//! ```
//!
//! Every lane adds up its vector; the lanes' sums are scanned by five shuffles, vector after vector; the warps' sums go through shared memory. The first
//! warp publishes the tile's sum and looks back, 32 tiles at a time.
use super::lookback::{Flag, Published, Values, fold};
use super::{ticket, unrolled};
use core::marker::PhantomData;
use simt::{
    Block, Global, GlobalSlice, Instance, Order, Scope, Shared, Shuffle, Thread, Tile, Word, kernel, shared,
};

/// An associative operation with an identity.
pub trait Operator: Copy + Send + Sync + 'static {
    /// What it combines.
    type Value: Word + Published;
    /// What changes nothing.
    const IDENTITY: Self::Value;

    /// `first` and then `second`.
    fn combine(first: Self::Value, second: Self::Value) -> Self::Value;

    /// Combines a value in memory with another one. The order in which threads do that does not matter: all these operators commute.
    fn combine_at(place: Global<Self::Value>, value: Self::Value);
}

macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident = $combine:ident, $fetch:ident, $identity:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<T>(PhantomData<fn() -> T>);

        operators!(of $name, $combine, $fetch, $identity; u32 u64);
    )*};
    (of $name:ident, $combine:ident, $fetch:ident, $identity:ident; $($word:ident)*) => {$(
        impl Operator for $name<$word> {
            type Value = $word;
            const IDENTITY: $word = $word::$identity;

            #[inline(always)]
            fn combine(first: $word, second: $word) -> $word {
                first.$combine(second)
            }

            #[inline(always)]
            #[track_caller]
            fn combine_at(place: Global<$word>, value: $word) {
                place.$fetch(value, Order::Relaxed, Scope::Device);
            }
        }
    )*};
}
operators! {
    /// The sum, wrapping.
    Sum = wrapping_add, fetch_add, MIN;
    /// The smallest.
    Min = min, fetch_min, MAX;
    /// The largest.
    Max = max, fetch_max, MIN;
}

/// How a scan is done: the operator, and the size of a tile.
pub trait ScanPlan: Copy + Send + Sync + 'static {
    /// The operator.
    type Operator: Operator;
    /// Threads a block.
    const THREADS: u32;
    /// Elements a thread.
    const ITEMS: usize;

    /// What a thread of [`scan`] does.
    fn scan(scan: Job<Scanned<Self>>);
}

/// What a plan scans.
pub type Scanned<P> = <<P as ScanPlan>::Operator as Operator>::Value;

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

/// A scan by `THREADS` threads a block with `VECTORS` vectors each, of `WIDE` elements.
#[derive(Clone, Copy, Debug)]
pub struct Vectors<O, const THREADS: u32, const VECTORS: usize, const WIDE: usize>(PhantomData<fn() -> O>);

impl<O: Operator, const THREADS: u32, const VECTORS: usize, const WIDE: usize> ScanPlan
    for Vectors<O, THREADS, VECTORS, WIDE>
{
    type Operator = O;
    const THREADS: u32 = THREADS;
    const ITEMS: usize = VECTORS * WIDE;

    #[inline(always)]
    #[track_caller]
    fn scan(job: Job<O::Value>) {
        const { assert!(WIDE * size_of::<O::Value>() == 16 && THREADS.is_multiple_of(32)) };
        let tile = ticket(job.tickets.at(0));
        let lane = Thread::lane() as usize;
        let warp = tile as usize * (THREADS / 32) as usize + (Thread::index_in_block() / 32) as usize;
        let first = warp * 32 * VECTORS * WIDE + lane * WIDE;
        Part::<O, VECTORS, WIDE> { job, first, of: PhantomData }.run(tile, THREADS / 32);
    }
}

/// Scans `from`. A block for each [`ScanPlan::THREADS`]` * `[`ScanPlan::ITEMS`] elements.
#[kernel]
pub fn scan<P: ScanPlan + Instance>(job: Job<Scanned<P>>) {
    P::scan(job);
}

/// A lane's vectors.
#[derive(Clone, Copy)]
struct Part<O: Operator, const VECTORS: usize, const WIDE: usize> {
    job: Job<O::Value>,
    first: usize,
    of: PhantomData<O>,
}

impl<O: Operator, const VECTORS: usize, const WIDE: usize> Part<O, VECTORS, WIDE> {
    /// Elements from one vector of a lane to its next.
    const STRIDE: usize = 32 * WIDE;

    #[inline(always)]
    #[track_caller]
    fn run(self, tile: u32, warps: u32) {
        let items = self.load();
        let (mut before, mut total) = ([O::IDENTITY; VECTORS], O::IDENTITY);
        let warp = Tile::<32>::lockstep();
        unrolled::<VECTORS>(|v| {
            let sum = items[v].into_iter().fold(O::IDENTITY, O::combine);
            let upto = scan_lanes(warp, sum, O::combine);
            let below = warp.shuffle_up(upto, 1);
            before[v] = O::combine(total, if warp.rank() == 0 { O::IDENTITY } else { below });
            total = O::combine(total, warp.shuffle(upto, 31));
        });
        let status = Values::of::<O::Value>(self.job.status);
        let (prefix, whole) = before_warp(status, tile, warps, total, O::IDENTITY, O::combine);
        self.store(items, before, prefix);
        let len = self.job.from.len();
        if tile == Thread::grid_size() - 1 && Thread::index_in_block() == 0 && self.job.to.len() > len {
            self.job.to.write(len, whole);
        }
    }

    /// Whether all of the warp's vectors lie in the array.
    #[inline(always)]
    fn is_whole(self) -> bool {
        let rest = (Thread::lane() as usize) * WIDE;
        self.first - rest + VECTORS * Self::STRIDE <= self.job.from.len()
    }

    #[inline(always)]
    #[track_caller]
    fn load(self) -> [[O::Value; WIDE]; VECTORS] {
        let mut items = [[O::IDENTITY; WIDE]; VECTORS];
        if self.is_whole() {
            let first = self.job.from.at(self.first);
            // SAFETY: all vectors lie in the array, and it is aligned to more than a vector.
            unrolled::<VECTORS>(|v| unsafe {
                items[v] = first.offset(v * Self::STRIDE).load_vec(Order::Weak, Scope::Device);
            });
        } else {
            self.each_left(|v, i, place| items[v][i] = self.job.from.read(place));
        }
        items
    }

    /// Calls `body` with the elements that there are in the last tile.
    #[inline(always)]
    #[track_caller]
    fn each_left(self, mut body: impl FnMut(usize, usize, usize)) {
        unrolled::<VECTORS>(|v| {
            unrolled::<WIDE>(|i| {
                let place = self.first + v * Self::STRIDE + i;
                if place < self.job.from.len() {
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
        if self.is_whole() {
            let first = self.job.to.at(self.first);
            // SAFETY: as in `load`; the results have as many places.
            unrolled::<VECTORS>(|v| unsafe {
                first.offset(v * Self::STRIDE).store_vec(results[v], Order::Weak, Scope::Device);
            });
        } else {
            self.each_left(|v, i, place| self.job.to.write(place, results[v][i]));
        }
    }
}

/// What the lanes up to each come to. All lanes of the warp call it together.
#[inline(always)]
#[track_caller]
pub fn scan_lanes<V: Shuffle>(warp: Tile<32>, value: V, combine: impl Fn(V, V) -> V) -> V {
    let (mut sum, mut by) = (value, 1);
    while by < 32 {
        let below = warp.shuffle_up(sum, by);
        sum = if warp.rank() >= by { combine(below, sum) } else { sum };
        by *= 2;
    }
    sum
}

/// The most warps of a block, and the most words of a value.
const MOST: usize = 32 * 3;

/// Values in shared memory, word by word.
#[derive(Clone, Copy)]
struct Slots(Shared<u32>);

impl Slots {
    #[inline(always)]
    #[track_caller]
    fn put<V: Published>(self, slot: u32, value: V) {
        for word in 0..V::WORDS {
            self.0.store(slot as usize * V::WORDS + word, value.word(word));
        }
    }

    #[inline(always)]
    #[track_caller]
    fn get<V: Published>(self, slot: u32) -> V {
        V::from_words(|word| self.0.load(slot as usize * V::WORDS + word))
    }
}

/// Of the calling warp, whose elements come to `total`: what stands before it in the array; and what the array comes to up to the tile's end. All
/// threads of the block call it together, and once.
#[inline(always)]
#[track_caller]
pub fn before_warp<V: Published>(
    status: Values,
    tile: u32,
    warps: u32,
    total: V,
    identity: V,
    combine: impl Fn(V, V) -> V + Copy,
) -> (V, V) {
    let (totals, ends) = (Slots(shared!([u32; MOST])), Slots(shared!([u32; 6])));
    let (warp, mine) = (Tile::<32>::lockstep(), Thread::index_in_block() / 32);
    if warp.rank() == 0 {
        totals.put(mine, total);
    }
    Block::sync();
    if mine == 0 {
        let own = if warp.rank() < warps { totals.get(warp.rank()) } else { identity };
        let sum = fold(warp, own, combine);
        let before = look_back(status, tile, sum, identity, combine);
        if warp.rank() == 0 {
            ends.put(0, before);
            ends.put(1, combine(before, sum));
        }
    }
    Block::sync();
    let mut prefix = ends.get(0);
    for other in 0..mine {
        prefix = combine(prefix, totals.get(other));
    }
    (prefix, ends.get(1))
}

/// Publishes what a tile comes to, and gives what stands before it. One warp of the block calls it.
#[inline(always)]
#[track_caller]
fn look_back<V: Published>(
    status: Values,
    tile: u32,
    sum: V,
    identity: V,
    combine: impl Fn(V, V) -> V + Copy,
) -> V {
    let publishes = Thread::lane() == 0;
    if tile == 0 {
        if publishes {
            status.publish(tile, sum, Flag::Inclusive);
        }
        return identity;
    }
    if publishes {
        status.publish(tile, sum, Flag::Partial);
    }
    let before = status.before(tile, identity, combine);
    if publishes {
        status.publish(tile, combine(before, sum), Flag::Inclusive);
    }
    before
}

/// Sums over runs of equal neighbouring keys.
pub trait Runs: Copy + Send + Sync + 'static {
    /// The keys.
    type Key: Word;
    /// How values of a run are combined.
    type Operator: Operator;
}

/// Runs of keys of a type under an operator.
#[derive(Clone, Copy, Debug)]
pub struct RunsOf<K, O>(PhantomData<fn() -> (K, O)>);

impl<K: Word, O: Operator> Runs for RunsOf<K, O> {
    type Key = K;
    type Operator = O;
}

/// What the values of runs are.
pub type RunValue<R> = <<R as Runs>::Operator as Operator>::Value;

/// Threads a block of [`reduce_runs`].
pub const RUN_THREADS: u32 = 256;

/// Elements a thread of [`reduce_runs`].
pub const RUN_ITEMS: usize = 8;

/// Combines the values of each run of equal neighbouring keys: run number `r` has its key in `run_keys[r]`, and its values' combination in
/// `run_values[r]`. Their number goes to `count[0]`. No `values` stand for ones.
///
/// A scan of pairs: the number of runs that begin, and the combination of the values since the last of them. The last element of a run has both.
#[kernel]
pub fn reduce_runs<R: Runs + Instance>(
    keys: GlobalSlice<R::Key>,
    values: GlobalSlice<RunValue<R>>,
    run_keys: GlobalSlice<R::Key>,
    run_values: GlobalSlice<RunValue<R>>,
    count: GlobalSlice<u32>,
    status: GlobalSlice<u64>,
    tickets: GlobalSlice<u32>,
) {
    let tile = ticket(tickets.at(0));
    let (warp, len) = (Tile::<32>::lockstep(), keys.len());
    let warps = RUN_THREADS / 32;
    let number = tile as usize * warps as usize + (Thread::index_in_block() / 32) as usize;
    let first = number * 32 * RUN_ITEMS + warp.rank() as usize;
    let identity = (0, R::Operator::IDENTITY);
    let (mut sums, mut total) = ([identity; RUN_ITEMS], identity);
    unrolled::<RUN_ITEMS>(|i| {
        let place = first + 32 * i;
        let mut own = identity;
        if place < len {
            let begins = place == 0 || keys.read(place - 1) != keys.read(place);
            let one = <RunValue<R> as Word>::narrow(1);
            own = (begins as u32, if values.is_empty() { one } else { values.read(place) });
        }
        let upto = scan_lanes(warp, own, in_runs::<R::Operator>);
        sums[i] = in_runs::<R::Operator>(total, upto);
        total = warp.shuffle(sums[i], 31);
    });
    let status = Values::of::<(u32, RunValue<R>)>(status);
    let (prefix, whole) = before_warp(status, tile, warps, total, identity, in_runs::<R::Operator>);
    unrolled::<RUN_ITEMS>(|i| {
        let place = first + 32 * i;
        if place < len && (place == len - 1 || keys.read(place) != keys.read(place + 1)) {
            let (runs, value) = in_runs::<R::Operator>(prefix, sums[i]);
            run_keys.write(runs as usize - 1, keys.read(place));
            run_values.write(runs as usize - 1, value);
        }
    });
    if tile == Thread::grid_size() - 1 && Thread::index_in_block() == 0 {
        count.write(0, whole.0);
    }
}

/// Combines what runs have: where one begins in the second, the first's values do not count.
#[inline(always)]
fn in_runs<O: Operator>(first: (u32, O::Value), second: (u32, O::Value)) -> (u32, O::Value) {
    let value = if second.0 > 0 { second.1 } else { O::combine(first.1, second.1) };
    (first.0 + second.0, value)
}

/// Takes a type by its name: see `simt::instances!`.
pub trait Visitor {
    /// What it makes of it.
    type Output;

    /// Is shown the type.
    fn visit<P: ScanPlan + Instance>(self) -> Self::Output;
}

/// Takes a type by its name: see `simt::instances!`.
pub trait RunVisitor {
    /// What it makes of it.
    type Output;

    /// Is shown the type.
    fn visit<P: Runs + Instance>(self) -> Self::Output;
}
