//! Sorts the segments that fit into a block, several per block; every element is read once and written once.
//!
//! ```text
//! array      ....|  chunk of block b          |  chunk of block b + 1 ...
//! window         |  chunk                     |  MOST elements more |
//! sorted by b        ^^^^^^^^ ^^^^^ ^^^^^^^^^^^^^^^^   segments of at most MOST elements that begin here
//! ```
//!
//! A block knows segments only by their head bits. It merges runs of 1, 2, 4, ... elements within each
//! segment until the longest segment is one run: each element finds its position by a binary search in the
//! neighbouring run, all elements at once. Of equal keys those of the left run come first, so the sort is
//! stable.
//!
//! Elements outside all segments keep their positions.
//!
//! # Cost
//!
//! [`ShortPlan::sort`] reads each key once from device memory, sorts by merges in shared memory, and writes
//! each key once.
use super::Segments;
use crate::primitives::sort::SortKey;
use crate::primitives::{Tiled, plan_name, tile_name, unrolled};
use core::marker::PhantomData;
use simt::{
    Block, GlobalSlice, Instance, Name, Shared, SharedShape, Thread, Tile, Word, black_box, device, kernel,
    shared,
};

/// The key type of a sort of short segments and the size of its windows.
///
/// ```
/// use phalanx_kernels::primitives::segments::short::{Job, ShortPlan};
///
/// /// Sorts, as the entry point does.
/// fn sort_by<P: ShortPlan>(job: Job<P::Key>) {
///     P::sort(job);
/// }
/// ```
pub trait ShortPlan: Tiled {
    /// Key type.
    type Key: SortKey + Ord;
    /// Number of threads per block.
    const THREADS: u32;
    /// Number of elements of a block's chunk.
    const CHUNK: usize;
    /// Maximum number of elements of a short segment.
    const MOST: usize;

    /// Body of [`sort_short_segments`], for one thread.
    fn sort(job: Job<Self::Key>);
}

/// The arguments of the sort.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Job<K> {
    /// Keys to sort.
    pub from: GlobalSlice<K>,
    /// Destination of the keys. May be `from` itself.
    pub to: GlobalSlice<K>,
    /// Destination of the source index of each key; or empty.
    pub order: GlobalSlice<u32>,
    /// Segments of the keys.
    pub segments: Segments,
}

/// A sort by `THREADS` threads per block, each with `ITEMS` elements of the window. A third of the window
/// lies beyond the chunk.
#[derive(Clone, Copy, Debug)]
pub struct Window<K, const THREADS: u32, const ITEMS: usize>(PhantomData<fn() -> K>);

impl<K, const THREADS: u32, const ITEMS: usize> Window<K, THREADS, ITEMS> {
    const LEN: usize = THREADS as usize * ITEMS;
}

impl<K: SortKey + Ord, const THREADS: u32, const ITEMS: usize> Instance for Window<K, THREADS, ITEMS> {
    const NAME: &'static str = const { &plan_name::<Self>() }.as_str();
}

impl<K: SortKey + Ord, const THREADS: u32, const ITEMS: usize> Tiled for Window<K, THREADS, ITEMS> {
    type Types = K;
    const TYPES: &'static str = const { &Name::of("").unsigned::<K>() }.as_str();
    const TILE: &'static str = const { &tile_name(THREADS, ITEMS) }.as_str();
}

impl<K: SortKey + Ord, const THREADS: u32, const ITEMS: usize> ShortPlan for Window<K, THREADS, ITEMS> {
    type Key = K;
    const THREADS: u32 = THREADS;
    const CHUNK: usize = Self::LEN - Self::MOST;
    const MOST: usize = Self::LEN / 3;

    #[device(caller)]
    fn sort(job: Job<K>) {
        if Thread::block_size() != THREADS {
            simt::trap();
        }
        Sorter::<K, THREADS, ITEMS>::new(job).run();
    }
}

/// Sorts each segment of at most [`ShortPlan::MOST`] elements and leaves the others unchanged. The grid has
/// one block for each [`ShortPlan::CHUNK`] elements.
#[kernel]
pub fn sort_short_segments<P: ShortPlan + Instance>(job: Job<P::Key>) {
    P::sort(job);
}

/// An array in a block's shared memory, selected by `WHICH`: [`KEYS`], and so on.
struct Array<T, const WHICH: u8, const THREADS: u32, const ITEMS: usize>(PhantomData<T>);

/// The keys of the window.
const KEYS: u8 = 0;
/// The original slot in the window of each key.
const SOURCES: u8 = 1;
/// The window's head bits.
const BITS: u8 = 2;
/// For each word of [`BITS`], the nearest heads before and after it.
const NEIGHBOURS: u8 = 3;

impl<T: Word, const WHICH: u8, const THREADS: u32, const ITEMS: usize> SharedShape
    for Array<T, WHICH, THREADS, ITEMS>
{
    type Word = T;
    const LEN: usize = THREADS as usize * ITEMS / if WHICH <= SOURCES { 1 } else { 32 };
}

/// The segment of a slot of the window: its first slot and the slot after its last, if this block sorts it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Span(u32);

#[device]
impl Span {
    /// Span of a slot outside all segments, or in a segment that this block does not sort.
    const NONE: Self = Self(0);

    fn new(begin: u32, end: u32) -> Self {
        Self(begin | end << 16)
    }

    fn begin(self) -> u32 {
        self.0 & 0xffff
    }

    fn end(self) -> u32 {
        self.0 >> 16
    }

    fn len(self) -> u32 {
        self.end() - self.begin()
    }
}

/// A block's work. A thread handles the slots `i * THREADS + thread`.
#[derive(Clone, Copy)]
struct Sorter<K: SortKey, const THREADS: u32, const ITEMS: usize> {
    job: Job<K>,
    /// Array index of the window's first slot.
    first: usize,
    /// Range of the indices that lie in segments.
    range: (usize, usize),
    keys: Shared<K>,
    sources: Shared<u32>,
    bits: Shared<u32>,
    neighbours: Shared<u32>,
}

#[device(caller)]
impl<K: SortKey + Ord, const THREADS: u32, const ITEMS: usize> Sorter<K, THREADS, ITEMS> {
    const LEN: u32 = THREADS * ITEMS as u32;
    const MOST: u32 = <Window<K, THREADS, ITEMS> as ShortPlan>::MOST as u32;
    const CHUNK: u32 = <Window<K, THREADS, ITEMS> as ShortPlan>::CHUNK as u32;

    fn new(job: Job<K>) -> Self {
        const { assert!(ITEMS <= 32 && Self::CHUNK.is_multiple_of(32) && Self::LEN < 1 << 16) };
        Self {
            job,
            first: Thread::block_index() as usize * Self::CHUNK as usize,
            range: job.segments.range(job.from.len()),
            keys: Shared::of::<Array<K, KEYS, THREADS, ITEMS>>(),
            sources: Shared::of::<Array<u32, SOURCES, THREADS, ITEMS>>(),
            bits: Shared::of::<Array<u32, BITS, THREADS, ITEMS>>(),
            neighbours: Shared::of::<Array<u32, NEIGHBOURS, THREADS, ITEMS>>(),
        }
    }

    fn run(self) {
        self.find_heads();
        let spans = self.load();
        let (longest, mut width) = (Self::longest(&spans), 1);
        while width < longest {
            self.merge(&spans, width);
            width *= 2;
        }
        self.write(&spans);
    }

    #[device]
    fn slot(i: usize) -> u32 {
        i as u32 * THREADS + Thread::index_in_block()
    }

    /// Reads the window's head bits, and finds the nearest heads before and after each word.
    fn find_heads(self) {
        let (word, words) = (Thread::index_in_block() as usize, self.bits.len());
        if word < words {
            self.bits.store(word, self.job.segments.word(self.first / 32 + word));
        }
        Block::sync();
        if word < words {
            let last = (0..word).rev().find(|&word| self.bits.load(word) != 0);
            let next = (word + 1..words).find(|&word| self.bits.load(word) != 0);
            let behind_last =
                last.map_or(0, |word| 32 * word as u32 + 32 - self.bits.load(word).leading_zeros());
            let next =
                next.map_or(Self::LEN, |word| 32 * word as u32 + self.bits.load(word).trailing_zeros());
            self.neighbours.store(word, behind_last | next << 16);
        }
        Block::sync();
    }

    /// Returns the span of a slot that lies in a segment.
    fn span(self, slot: u32) -> Span {
        let (word, upto) = (slot / 32, u32::MAX >> (31 - slot % 32));
        let (bits, near) = (self.bits.load(word as usize), self.neighbours.load(word as usize));
        // Counted from 1; 0 stands for a segment that begins before the window.
        let begin =
            if bits & upto != 0 { 32 * word + 32 - (bits & upto).leading_zeros() } else { near & 0xffff };
        // A segment without an end in the window is too long, because the window extends `MOST` beyond the
        // chunk.
        let end = if bits & !upto != 0 { 32 * word + (bits & !upto).trailing_zeros() } else { near >> 16 };
        let is_own = begin > 0 && begin <= Self::CHUNK && end - (begin - 1) <= Self::MOST;
        if is_own { Span::new(begin - 1, end) } else { Span::NONE }
    }

    /// Reads the keys that the block sorts. Copies the keys of the chunk that are outside all segments.
    fn load(self) -> [Span; ITEMS] {
        let mut spans = [Span::NONE; ITEMS];
        unrolled::<ITEMS>(|i| {
            let slot = Self::slot(i);
            let place = self.first + slot as usize;
            if (self.range.0..self.range.1).contains(&place) {
                spans[i] = self.span(slot);
                if spans[i] != Span::NONE {
                    self.put(slot, self.job.from.read(place), slot);
                }
            } else if place < self.job.from.len() && slot < Self::CHUNK {
                self.write_result(place, self.job.from.read(place), place);
            }
        });
        spans
    }

    /// Returns to all threads the length of the block's longest segment. Contains a barrier.
    fn longest(spans: &[Span; ITEMS]) -> u32 {
        let of_warps = shared!([u32; 32]);
        let warp = Tile::<32>::lockstep();
        let own = spans.iter().map(|span| span.len()).fold(0, u32::max);
        let of_warp = warp.reduce_max(own);
        if warp.rank() == 0 {
            of_warps.store(Thread::index_in_block() as usize / 32, of_warp);
        }
        Block::sync();
        (0..THREADS as usize / 32).map(|warp| of_warps.load(warp)).fold(0, u32::max)
    }

    /// Merges neighbouring runs of `width` elements. Must be called after a barrier; ends with one.
    fn merge(self, spans: &[Span; ITEMS], width: u32) {
        let mut keys = [K::LAST; ITEMS];
        // Source and target in one word: registers limit the number of resident blocks.
        let mut moves = [Span::NONE; ITEMS];
        unrolled::<ITEMS>(|i| {
            if spans[i].len() > width {
                let slot = Self::slot(i);
                // SAFETY: slots are below the window's length. (If offsets are inconsistent, some slots have
                // not been written.)
                let source = unsafe { self.sources.load_unchecked(slot) } & 0xffff;
                // SAFETY: as above.
                keys[i] = unsafe { self.keys.load_unchecked(slot) };
                // `black_box`: otherwise values derived from spans stay in registers from one merge to the
                // next.
                let span = Span(black_box(spans[i].0));
                moves[i] = Span::new(source, self.place(span, slot, keys[i], width));
            }
        });
        Block::sync();
        unrolled::<ITEMS>(|i| {
            if spans[i].len() > width {
                self.put(moves[i].end(), keys[i], moves[i].begin());
            }
        });
        Block::sync();
    }

    /// Returns the slot to which a key moves when its run is merged with the neighbouring run.
    fn place(self, span: Span, slot: u32, key: K, width: u32) -> u32 {
        let (begin, end) = (span.begin(), span.end());
        let in_segment = slot - begin;
        let is_right = in_segment & width != 0;
        // The run and its neighbour differ in this bit of the index in the segment.
        let low = end.min(begin + ((in_segment ^ width) & !(width - 1)));
        let smaller = self.rank(key, low, end.min(low + width), is_right);
        let pair = in_segment & !(2 * width - 1);
        begin + pair + (in_segment & (width - 1)) + smaller
    }

    /// Returns how many keys in the sorted slots from `low` to `high` come before `key`. Keys equal to it
    /// count if `equal`.
    fn rank(self, key: K, low: u32, high: u32, equal: bool) -> u32 {
        let (mut from, mut to) = (low, high);
        while from < to {
            let middle = (from + to) / 2;
            // SAFETY: `high` is at most the end of a segment in the window.
            let other = unsafe { self.keys.load_unchecked(middle) };
            if other < key || equal && other == key {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from - low
    }

    fn put(self, slot: u32, key: K, source: u32) {
        // SAFETY: slots are below the window's length; a merge moves keys within their segment.
        unsafe { self.keys.store_unchecked(slot, key) };
        // SAFETY: as above.
        unsafe { self.sources.store_unchecked(slot, source) };
    }

    fn write(self, spans: &[Span; ITEMS]) {
        unrolled::<ITEMS>(|i| {
            if spans[i] != Span::NONE {
                let slot = Self::slot(i);
                // SAFETY: slots are below the window's length.
                let (key, source) =
                    unsafe { (self.keys.load_unchecked(slot), self.sources.load_unchecked(slot)) };
                self.write_result(self.first + slot as usize, key, self.first + source as usize);
            }
        });
    }

    fn write_result(self, place: usize, key: K, source: usize) {
        self.job.to.write(place, key);
        if !self.job.order.is_empty() {
            self.job.order.write(place, source as u32);
        }
    }
}
