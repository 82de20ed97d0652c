//! Iteration of blocks over a scanned array: vectors of 16 bytes, tiles, and the prefixes of tiles.
//!
//! ```text
//! a tile:   warp 0                  | warp 1                  | ...
//! a warp:   vector 0 of 32 lanes, 16 bytes each | vector 1 | ...      one load per vector
//! ```
//!
//! Every lane adds up its vector; the lanes' sums are scanned by five shuffles, vector after vector; the
//! warps' sums go through shared memory. The first warp publishes the tile's sum and looks back, 32 tiles at
//! a time ([`super::carry`]).
//!
//! # A tile ahead
//!
//! A block in look-back waits, often for another block's slow load. With `AHEAD` the grid has only as many
//! blocks as are resident at a time, and each loads its next tile before it looks back for the current one,
//! so that the memory stays busy meanwhile:
//!
//! ```text
//! load first │ sum  publish  load next │ look back │ store │ sum  publish  load next │ look back │ ...
//!                            draw the number after next                    draw the number after next
//! ```
//!
//! Tile numbers come from the counter, each requested one tile before it is needed. They are not derived from
//! the block's index (`index + k * blocks`), although that would save the counter: a block that has not begun
//! yet would own tiles that running blocks wait for, and it may not begin before one of those ends. With a
//! counter every tile in progress is owned by a running block. *The wait ends*: a block processes its tiles
//! in ascending order, because each number that it draws is larger than those before. So the smallest
//! unfinished tile is its owner's current tile; all tiles before it are finished, so it waits for no other.
//!
//! # Cost
//!
//! [`Walk::run`] loads each vector of 16 bytes once, executes five shuffles per vector and two barriers per
//! tile. [`Grouping`]'s methods read the tile's share of the flags, or are arithmetic. [`Part::store`] is one
//! store of 16 bytes, or of each element at an end of the array or if the array's vectors are not aligned.
use super::carry::Carry;
use super::lookback::{Monoid, Values, scan_lanes};
use super::operator::Operator;
use super::{is_aligned, ticket, unrolled};
use core::marker::PhantomData;
use simt::{Block, Global, GlobalSlice, Order, Scope, Shared, Thread, Tile, Word, black_box, device, shared};

/// Grouping of the scanned elements: one array, or segments.
pub trait Grouping: Copy {
    /// Operator that combines elements.
    type Operator: Operator;
    /// Operation that combines sums.
    type Monoid: Monoid;

    /// Returns a bit mask of which of the `count` elements from `place` on begin a segment. All bits come
    /// from one word: `place` is a multiple of `count`, which is a power of two.
    fn heads(self, place: usize, count: usize) -> u32;

    /// Converts an element to a sum.
    fn sum(element: Element<Self>, begins: bool) -> Sum<Self>;

    /// Returns the combination of the elements of the last segment in `sum`.
    fn value(sum: Sum<Self>) -> Element<Self>;
}

/// Element type of a grouping.
pub type Element<G> = <<G as Grouping>::Operator as Monoid>::Value;

/// Type of the sums of a grouping.
pub type Sum<G> = <<G as Grouping>::Monoid as Monoid>::Value;

/// All elements belong to one array.
#[derive(Clone, Copy, Debug)]
pub struct Whole<O>(pub PhantomData<O>);

#[device]
impl<O: Operator> Grouping for Whole<O> {
    type Operator = O;
    type Monoid = O;

    fn heads(self, _place: usize, _count: usize) -> u32 {
        0
    }

    fn sum(element: O::Value, _begins: bool) -> O::Value {
        element
    }

    fn value(sum: O::Value) -> O::Value {
        sum
    }
}

/// An iteration over an array by `THREADS` threads per block with `VECTORS` vectors each, of `WIDE` elements;
/// one tile ahead if `AHEAD`. Look-back pauses for `NAP` nanoseconds before each read (see `Values::before`).
#[derive(Clone, Copy)]
pub struct Walk<
    G: Grouping,
    const THREADS: u32,
    const VECTORS: usize,
    const WIDE: usize,
    const AHEAD: bool,
    const NAP: u32,
> {
    /// Elements to scan.
    pub from: GlobalSlice<Element<G>>,
    /// Words in which tiles publish their sums; zero before.
    pub status: GlobalSlice<u64>,
    /// Ticket counter for the tiles' numbers: one word, zero before.
    pub tickets: GlobalSlice<u32>,
    /// Grouping of the elements.
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
    /// Calls `finish` with each of the block's tiles as soon as its prefix is known. After the last tile of
    /// all, one thread calls `end` with the total of the array.
    #[device(caller)]
    pub fn run(self, finish: impl Fn(Summed<G, VECTORS, WIDE>), end: impl Fn(Sum<G>)) {
        const { assert!(WIDE * size_of::<Element<G>>() == 16 && THREADS.is_multiple_of(32)) };
        let mut tile = ticket(self.tickets.at(0));
        let tiles = self.from.len().div_ceil(THREADS as usize * VECTORS * WIDE) as u32;
        // With `AHEAD`, a block that begins late may find all tiles taken.
        if AHEAD && tile >= tiles {
            return;
        }
        let load = |tile| Loaded::<G, VECTORS, WIDE>::of(self.from, self.grouping, Part::of(tile, THREADS));
        let mut loaded = load(tile);
        let carry = Carry::<G::Monoid>::new(Values::of(self.status), THREADS / 32);
        let claims = TileClaims::of(self.tickets, tiles);
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
            // `black_box`: otherwise the part's position would stay in registers from the load on.
            let part = Part::of(black_box(tile), THREADS);
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

/// Number that stands for no tile.
pub(crate) const NONE: u32 = u32::MAX;

/// The numbers of the tiles that a block processes after its first one. A thread of the last warp draws them,
/// because the first warp is busy with look-back.
#[derive(Clone, Copy)]
pub(crate) struct TileClaims {
    counter: Global<u32>,
    tiles: u32,
    /// Shared word through which the block receives the number.
    slot: Shared<u32>,
}

#[device(caller)]
impl TileClaims {
    pub(crate) fn of(tickets: GlobalSlice<u32>, tiles: u32) -> Self {
        Self { counter: tickets.at(0), tiles, slot: shared!([u32; 1]) }
    }

    /// Returns the block's second tile. If there are as many blocks as tiles there is none, and none is
    /// drawn. May contain a barrier of the block.
    pub(crate) fn first(self) -> u32 {
        if self.tiles <= Thread::grid_size() {
            return NONE;
        }
        self.ask();
        Block::sync();
        self.told()
    }

    /// Draws a tile number. Relaxed, as for [`ticket`]. Between this call and the next one of
    /// [`Self::told`] there is a barrier of the block, and another one before the next call.
    pub(crate) fn ask(self) {
        if Thread::index_in_block() == Thread::block_size() - 1 {
            self.slot.store(0, self.counter.fetch_add(1, Order::Relaxed, Scope::Device));
        }
    }

    /// Returns the tile number that was drawn before the last barrier.
    pub(crate) fn told(self) -> u32 {
        let tile = self.slot.load(0);
        if tile < self.tiles { tile } else { NONE }
    }
}

/// Position of a lane's vectors in a tile: the index of their first element.
#[derive(Clone, Copy)]
pub struct Part<const VECTORS: usize, const WIDE: usize> {
    first: usize,
}

#[device]
impl<const VECTORS: usize, const WIDE: usize> Part<VECTORS, WIDE> {
    /// Distance from one vector of a lane to its next, in elements.
    const STRIDE: usize = 32 * WIDE;
    /// Distance from the lane's first element to the end of its last vector.
    const SPAN: usize = (VECTORS - 1) * Self::STRIDE + WIDE;

    fn of(tile: u32, threads: u32) -> Self {
        let of_warp = (VECTORS * Self::STRIDE) as u32;
        let offset = Thread::index_in_block() / 32 * of_warp + Thread::lane() * WIDE as u32;
        Self { first: tile as usize * (threads / 32 * of_warp) as usize + offset as usize }
    }

    /// Returns the index of an element.
    pub fn place(self, vector: usize, i: usize) -> usize {
        self.first + vector * Self::STRIDE + i
    }

    /// Returns the distance of `place` from the first element, clamped to the span of the vectors.
    pub fn distance(self, place: usize) -> u32 {
        place.saturating_sub(self.first).min(Self::SPAN) as u32
    }

    /// Calls `body` with the elements at distances `begin` to `end`: vector, index in it, distance.
    #[device(caller)]
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

    #[device(caller)]
    fn load<T: Word>(self, from: GlobalSlice<T>, rest: T) -> [[T; WIDE]; VECTORS] {
        let mut items = [[rest; WIDE]; VECTORS];
        let end = self.distance(from.len());
        if end == 0 {
            return items;
        }
        let first = from.at(self.first);
        if end as usize == Self::SPAN && is_aligned(from, WIDE) {
            // SAFETY: all vectors lie in the array and are aligned, as its first one is.
            unrolled::<VECTORS>(|v| unsafe {
                items[v] = first.offset(v * Self::STRIDE).load_vec(Order::Weak, Scope::Device);
            });
        } else {
            self.each(0, end, |v, i, distance| {
                // SAFETY: the distance is below `end`, so the element lies in the array.
                items[v][i] = unsafe { first.offset(distance) }.load(Order::Weak, Scope::Device);
            });
        }
        items
    }

    /// Writes the results for indices `begin` to `end` of the array. Ends the launch if `to` is too short.
    #[device(caller)]
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
        // SAFETY: all writes are below `end`, which has been checked.
        let first = unsafe { Global::new(to.as_ptr().wrapping_add(self.first)) };
        if (begin, end as usize) == (0, Self::SPAN) && is_aligned(to, WIDE) {
            // SAFETY: as in `load`; the results have the same number of elements.
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

#[device(caller)]
impl<G: Grouping, const VECTORS: usize, const WIDE: usize> Loaded<G, VECTORS, WIDE> {
    fn of(from: GlobalSlice<Element<G>>, grouping: G, part: Part<VECTORS, WIDE>) -> Self {
        let mut heads = [0; VECTORS];
        unrolled::<VECTORS>(|v| heads[v] = grouping.heads(part.place(v, 0), WIDE));
        Self { items: part.load(from, G::Operator::IDENTITY), heads }
    }

    #[device]
    fn begins(&self, v: usize, i: usize) -> bool {
        self.heads[v] >> i & 1 != 0
    }

    /// Returns the sum before each of the lane's vectors in its warp, and the sum of the warp.
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
            // `black_box`: otherwise both operands stay in registers until they are combined for the results.
            before[v] = black_box(G::Monoid::combine(total, below));
            total = G::Monoid::combine(total, warp.shuffle(upto, 31));
        });
        (before, total)
    }
}

/// A lane's vectors of a tile, with their prefixes.
#[derive(Clone, Copy)]
pub struct Summed<G: Grouping, const VECTORS: usize, const WIDE: usize> {
    /// Position of the vectors.
    pub part: Part<VECTORS, WIDE>,
    loaded: Loaded<G, VECTORS, WIDE>,
    /// Sum before each vector within the warp.
    before: [Sum<G>; VECTORS],
    /// Sum of all elements before the warp.
    prefix: Sum<G>,
}

#[device(caller)]
impl<G: Grouping, const VECTORS: usize, const WIDE: usize> Summed<G, VECTORS, WIDE> {
    /// Returns whether a segment begins at an element.
    #[device]
    pub fn begins(&self, vector: usize, i: usize) -> bool {
        self.loaded.begins(vector, i)
    }

    /// Calls `body` with each element: vector, index in it, the combination of the elements before it in its
    /// segment, and the sum up to and including it.
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

    /// Returns the results of a scan, inclusive or exclusive.
    pub fn results(&self, inclusive: bool) -> [[Element<G>; WIDE]; VECTORS] {
        let mut results = self.loaded.items;
        self.each(|v, i, before, upto| results[v][i] = if inclusive { G::value(upto) } else { before });
        results
    }
}
