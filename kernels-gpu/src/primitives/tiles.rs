//! How blocks walk over an array that is scanned: vectors of 16 bytes, tiles, and what a tile learns of those
//! before it.
//!
//! ```text
//! a tile:   warp 0                  | warp 1                  | ...
//! a warp:   vector 0 of 32 lanes, 16 bytes each | vector 1 | ...      one load a vector
//! ```
//!
//! Every lane adds up its vector; the lanes' sums are scanned by five shuffles, vector after vector; the
//! warps' sums go through shared memory. The first warp publishes the tile's sum and looks back, 32 tiles at
//! a time ([`super::carry`]).
//!
//! # A tile ahead
//!
//! A block that looks back waits, and what it waits for is often a load of another block that was slow to
//! come. A walk that goes `AHEAD` has as many blocks as run side by side, and each loads its next tile before
//! it looks back for the one at hand, so that memory has work meanwhile:
//!
//! ```text
//! load first │ sum  publish  load next │ look back │ store │ sum  publish  load next │ look back │ ...
//!                            ask for the one after next       ask for the one after next
//! ```
//!
//! The numbers come from the counter, each asked for a tile before it is needed. They are not dealt out by
//! the block's index (`index + k * blocks`), which would save the counter: a block that has not begun yet
//! would own tiles that running blocks wait for, and it may not begin before one of those ends. With a
//! counter a tile has an owner that runs. *The wait ends*: a block works on its tiles in ascending order, for
//! each number it got was larger than those before. So the smallest tile that is not done is its owner's tile
//! at hand; all before it are done, so it waits for nobody.
use super::carry::Carry;
use super::lookback::{Monoid, Values, scan_lanes};
use super::scan::Operator;
use super::{ticket, unrolled};
use core::marker::PhantomData;
use simt::{Block, Global, GlobalSlice, Order, Scope, Shared, Thread, Tile, Word, opaque, shared};

/// What elements are to a scan: all of one array, or of segments.
pub trait Grouping: Copy {
    /// How elements are combined.
    type Operator: Operator;
    /// How sums are.
    type Monoid: Monoid;

    /// Which of the `count` elements from `place` on begin a segment, a bit an element. All are bits of one
    /// word: `place` is a multiple of `count`, which is a power of two.
    fn heads(self, place: usize, count: usize) -> u32;

    /// An element as a sum.
    fn sum(element: Element<Self>, begins: bool) -> Sum<Self>;

    /// What the elements of the last segment come to.
    fn value(sum: Sum<Self>) -> Element<Self>;
}

/// What a grouping's elements are.
pub type Element<G> = <<G as Grouping>::Operator as Monoid>::Value;

/// What they come to.
pub type Sum<G> = <<G as Grouping>::Monoid as Monoid>::Value;

/// All elements are of one array.
#[derive(Clone, Copy, Debug)]
pub struct Whole<O>(pub PhantomData<O>);

impl<O: Operator> Grouping for Whole<O> {
    type Operator = O;
    type Monoid = O;

    #[inline(always)]
    fn heads(self, _place: usize, _count: usize) -> u32 {
        0
    }

    #[inline(always)]
    fn sum(element: O::Value, _begins: bool) -> O::Value {
        element
    }

    #[inline(always)]
    fn value(sum: O::Value) -> O::Value {
        sum
    }
}

/// A walk by `THREADS` threads a block with `VECTORS` vectors each, of `WIDE` elements; a tile ahead where
/// `AHEAD` says so. Look-back waits for `NAP` nanoseconds before it looks, and looks again
/// (`Values::before`).
#[derive(Clone, Copy)]
pub struct Walk<
    G: Grouping,
    const THREADS: u32,
    const VECTORS: usize,
    const WIDE: usize,
    const AHEAD: bool,
    const NAP: u32,
> {
    /// The elements.
    pub from: GlobalSlice<Element<G>>,
    /// What tiles publish: zero before.
    pub status: GlobalSlice<u64>,
    /// The counter that gives tiles their numbers: one word, zero before.
    pub tickets: GlobalSlice<u32>,
    /// What the elements are.
    pub grouping: G,
}

impl<
    G: Grouping,
    const THREADS: u32,
    const VECTORS: usize,
    const WIDE: usize,
    const AHEAD: bool,
    const NAP: u32,
> Walk<G, THREADS, VECTORS, WIDE, AHEAD, NAP>
{
    /// Calls `finish` with each of the block's tiles, as soon as what stands before it is known; and, behind
    /// the last tile of all, one thread calls `end` with what the array comes to.
    #[inline(always)]
    #[track_caller]
    pub fn run(self, finish: impl Fn(Summed<G, VECTORS, WIDE>), end: impl Fn(Sum<G>)) {
        const { assert!(WIDE * size_of::<Element<G>>() == 16 && THREADS.is_multiple_of(32)) };
        let mut tile = ticket(self.tickets.at(0));
        let tiles = self.from.len().div_ceil(THREADS as usize * VECTORS * WIDE) as u32;
        // Of blocks that work ahead, one that begins late may find all tiles taken.
        if AHEAD && tile >= tiles {
            return;
        }
        let load = |tile| Loaded::<G, VECTORS, WIDE>::of(self.from, self.grouping, Part::of(tile, THREADS));
        let mut loaded = load(tile);
        let carry = Carry::<G::Monoid>::new(Values::of(self.status), THREADS / 32);
        let claims = Claims::of(self.tickets, tiles);
        let mut next = if AHEAD { claims.first() } else { NONE };
        loop {
            let (before, total) = loaded.sums();
            let announced = carry.announce(tile, total);
            let mut following = loaded;
            if AHEAD && next != NONE {
                following = load(next);
                claims.ask();
            }
            let (prefix, whole) = carry.learn(announced, NAP);
            // Opaque: else the part's place would be kept in registers since it was loaded.
            let part = Part::of(opaque(tile), THREADS);
            finish(Summed { part, loaded, before, prefix });
            if tile == tiles - 1 && Thread::index_in_block() == 0 {
                end(whole);
            }
            if next == NONE {
                return;
            }
            (tile, loaded, next) = (next, following, claims.told());
        }
    }
}

/// No tile.
const NONE: u32 = u32::MAX;

/// The numbers of tiles that a block works on after its first one. A thread of the last warp asks, for the
/// first one is busy looking back.
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

    /// The second tile. Blocks that are as many as tiles have none, and ask for none. May have a barrier of
    /// the block.
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

/// A lane's vectors of a tile: the place of the first element.
#[derive(Clone, Copy)]
pub struct Part<const VECTORS: usize, const WIDE: usize> {
    first: usize,
}

impl<const VECTORS: usize, const WIDE: usize> Part<VECTORS, WIDE> {
    /// Elements from one vector of a lane to its next.
    const STRIDE: usize = 32 * WIDE;
    /// From the first to the end of the last.
    const SPAN: usize = (VECTORS - 1) * Self::STRIDE + WIDE;

    #[inline(always)]
    fn of(tile: u32, threads: u32) -> Self {
        let of_warp = (VECTORS * Self::STRIDE) as u32;
        let offset = Thread::index_in_block() / 32 * of_warp + Thread::lane() * WIDE as u32;
        Self { first: tile as usize * (threads / 32 * of_warp) as usize + offset as usize }
    }

    /// The place of an element.
    #[inline(always)]
    pub fn place(self, vector: usize, i: usize) -> usize {
        self.first + vector * Self::STRIDE + i
    }

    /// How far from the first element `place` is; what lies beyond the vectors counts as their end.
    #[inline(always)]
    pub fn distance(self, place: usize) -> u32 {
        place.saturating_sub(self.first).min(Self::SPAN) as u32
    }

    /// Calls `body` with the elements from distance `begin` up to `end`: vector, place in it, distance.
    #[inline(always)]
    #[track_caller]
    fn each(self, begin: u32, end: u32, mut body: impl FnMut(usize, usize, usize)) {
        unrolled::<VECTORS>(|v| {
            unrolled::<WIDE>(|i| {
                let distance = v * Self::STRIDE + i;
                if begin <= distance as u32 && (distance as u32) < end {
                    body(v, i, distance);
                }
            });
        });
    }

    #[inline(always)]
    #[track_caller]
    fn load<T: Word>(self, from: GlobalSlice<T>, rest: T) -> [[T; WIDE]; VECTORS] {
        let mut items = [[rest; WIDE]; VECTORS];
        let end = self.distance(from.len());
        if end == 0 {
            return items;
        }
        let first = from.at(self.first);
        if end as usize == Self::SPAN {
            // SAFETY: all vectors lie in the array, and it is aligned to more than a vector.
            unrolled::<VECTORS>(|v| unsafe {
                items[v] = first.offset(v * Self::STRIDE).load_vec(Order::Weak, Scope::Device);
            });
        } else {
            self.each(0, end, |v, i, distance| {
                // SAFETY: there are so many elements from the first on.
                items[v][i] = unsafe { first.offset(distance) }.load(Order::Weak, Scope::Device);
            });
        }
        items
    }

    /// Writes the results from place `begin` of the array up to `end`. Ends the launch where `to` does not
    /// reach that far.
    #[inline(always)]
    #[track_caller]
    pub fn store<T: Word>(
        self,
        to: GlobalSlice<T>,
        results: [[T; WIDE]; VECTORS],
        (begin, end): (usize, usize),
    ) {
        let (begin, end) = (self.distance(begin), self.distance(end));
        if end <= begin {
            return;
        }
        if self.first + end as usize > to.len() {
            simt::trap();
        }
        // SAFETY: what is written is below `end`, which was checked.
        let first = unsafe { Global::new(to.as_ptr().wrapping_add(self.first)) };
        if (begin, end as usize) == (0, Self::SPAN) {
            // SAFETY: as in `load`; the results have as many places.
            unrolled::<VECTORS>(|v| unsafe {
                first.offset(v * Self::STRIDE).store_vec(results[v], Order::Weak, Scope::Device);
            });
        } else {
            self.each(begin, end, |v, i, distance| {
                // SAFETY: as in `load`.
                unsafe { first.offset(distance) }.store(results[v][i], Order::Weak, Scope::Device);
            });
        }
    }
}

/// The elements of a lane's vectors, and which of them begin a segment.
#[derive(Clone, Copy)]
struct Loaded<G: Grouping, const VECTORS: usize, const WIDE: usize> {
    items: [[Element<G>; WIDE]; VECTORS],
    heads: [u32; VECTORS],
}

impl<G: Grouping, const VECTORS: usize, const WIDE: usize> Loaded<G, VECTORS, WIDE> {
    #[inline(always)]
    #[track_caller]
    fn of(from: GlobalSlice<Element<G>>, grouping: G, part: Part<VECTORS, WIDE>) -> Self {
        let mut heads = [0; VECTORS];
        unrolled::<VECTORS>(|v| heads[v] = grouping.heads(part.place(v, 0), WIDE));
        Self { items: part.load(from, G::Operator::IDENTITY), heads }
    }

    #[inline(always)]
    fn begins(&self, v: usize, i: usize) -> bool {
        self.heads[v] >> i & 1 != 0
    }

    /// What stands before each of the lane's vectors in its warp, and what the warp comes to.
    #[inline(always)]
    #[track_caller]
    fn sums(&self) -> ([Sum<G>; VECTORS], Sum<G>) {
        let (mut before, mut total) = ([G::Monoid::IDENTITY; VECTORS], G::Monoid::IDENTITY);
        let warp = Tile::<32>::lockstep();
        unrolled::<VECTORS>(|v| {
            let mut sum = G::Monoid::IDENTITY;
            unrolled::<WIDE>(|i| {
                sum = G::Monoid::combine(sum, G::sum(self.items[v][i], self.begins(v, i)));
            });
            let upto = scan_lanes::<G::Monoid>(warp, sum, 32);
            let below = warp.shuffle_up(upto, 1);
            let below = if warp.rank() == 0 { G::Monoid::IDENTITY } else { below };
            // Opaque: else both are kept in registers until they are combined for the results.
            before[v] = opaque(G::Monoid::combine(total, below));
            total = G::Monoid::combine(total, warp.shuffle(upto, 31));
        });
        (before, total)
    }
}

/// A lane's vectors of a tile, of which is known what stands before them.
#[derive(Clone, Copy)]
pub struct Summed<G: Grouping, const VECTORS: usize, const WIDE: usize> {
    /// The places.
    pub part: Part<VECTORS, WIDE>,
    loaded: Loaded<G, VECTORS, WIDE>,
    /// What stands before each vector in the warp.
    before: [Sum<G>; VECTORS],
    /// What stands before the warp.
    prefix: Sum<G>,
}

impl<G: Grouping, const VECTORS: usize, const WIDE: usize> Summed<G, VECTORS, WIDE> {
    /// Whether a segment begins at an element.
    #[inline(always)]
    pub fn begins(&self, vector: usize, i: usize) -> bool {
        self.loaded.begins(vector, i)
    }

    /// Calls `body` with each element: vector, place in it, what stands before it in its segment, and what
    /// there is up to it.
    #[inline(always)]
    #[track_caller]
    pub fn each(&self, mut body: impl FnMut(usize, usize, Element<G>, Sum<G>)) {
        unrolled::<VECTORS>(|v| {
            let mut sum = G::Monoid::combine(self.prefix, self.before[v]);
            unrolled::<WIDE>(|i| {
                let begins = self.loaded.begins(v, i);
                let before = if begins { G::Operator::IDENTITY } else { G::value(sum) };
                sum = G::Monoid::combine(sum, G::sum(self.loaded.items[v][i], begins));
                body(v, i, before, sum);
            });
        });
    }

    /// The results of a scan, inclusive or not.
    #[inline(always)]
    #[track_caller]
    pub fn results(&self, inclusive: bool) -> [[Element<G>; WIDE]; VECTORS] {
        let mut results = self.loaded.items;
        self.each(|v, i, before, upto| results[v][i] = if inclusive { G::value(upto) } else { before });
        results
    }
}
