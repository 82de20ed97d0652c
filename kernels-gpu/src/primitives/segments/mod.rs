//! Operations on the segments of an array: scans, sums and sorts of each segment.
//!
//! Segment `s` is the range from `offsets[s]` to `offsets[s + 1]`. No kernel processes segments one by one:
//! lengths may be arbitrary, and many empty segments cost no more than their offsets.
//!
//! ```text
//! offsets   0     3 3        8   10          (segments of 3, 0, 5 and 2 elements)
//! heads     1 0 0 1 0 0 0 0  1 0  1   by `list_segments`: one bit per element, one after the last segment
//! ```
//!
//! | file | contents |
//! |---|---|
//! | this one | the head bits, and the list of segments that are longer than some length |
//! | [`scan`] | scans of all segments in one pass, and their sums |
//! | [`short`] | sorts segments that fit into a block, several per block |
//! | [`long`] | gathers the other segments for a radix sort by segment and key, and scatters them back |
//!
//! # Offsets that do not ascend
//!
//! The host does not validate offsets. If they descend or reach beyond the array, results are unspecified,
//! but nothing outside the buffers is accessed and every kernel ends: segments are cut off at the array's
//! end, segments that end before they begin are empty, and every kernel checks indices that another kernel
//! has computed.
//!
//! ```
//! use phalanx_kernels::primitives::segments::{List, Segments, words};
//!
//! assert_eq!(words(64), 3); // one bit per element, and one more
//!
//! /// Returns the length of the first listed segment of an array of `len` elements that none precedes.
//! fn first_length(segments: Segments, list: List, len: u32) -> u32 {
//!     let (begin, end) = segments.range(len as usize);
//!     if list.is_empty() || begin >= end || !segments.begins(begin) || segments.word(begin / 32) == 0 {
//!         return 0;
//!     }
//!     let (begin, end) = segments.ends(list.segments.read(list.len() - 1) as usize, len);
//!     end - begin
//! }
//! ```
//!
//! # Cost
//!
//! [`list_segments`] reads each offset, and executes an atomic on the head bits per segment.
//! [`Segments::range`] is two loads; [`Segments::word`] and [`Segments::begins`] one load of the head bits.
//! [`List::len`] is one load.
pub mod long;
pub mod scan;
pub mod short;

use super::carry::Carry;
use super::lookback::{Monoid, Values, scan_lanes};
use super::{ticket, unrolled};
use simt::{GlobalSlice, Order, Scope, Thread, Tile, device, kernel};

/// The segments of an array.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Segments {
    /// Start of each segment, and end of the last: one element more than there are segments.
    pub offsets: GlobalSlice<u32>,
    /// One bit per element, lowest first: set if a segment begins there, or the last one ends just before.
    /// [`words`] words.
    pub heads: GlobalSlice<u32>,
}

/// Returns the number of words for the bits of `len` elements.
pub const fn words(len: usize) -> usize {
    len / 32 + 1
}

#[device(caller)]
impl Segments {
    /// Returns the range of indices that lie in a segment, for an array of `len` elements.
    pub fn range(self, len: usize) -> (usize, usize) {
        let begin = self.offsets.read(0) as usize;
        let end = self.offsets.read(self.offsets.len() - 1) as usize;
        (begin, end.min(len))
    }

    /// Returns the start and the end of a segment, for an array of `len` elements; an empty segment may lie
    /// anywhere.
    pub fn ends(self, segment: usize, len: u32) -> (u32, u32) {
        let (begin, end) = (self.offsets.read(segment), self.offsets.read(segment + 1).min(len));
        (begin, if end > begin { end } else { begin })
    }

    /// Returns a word of the bits; zero beyond them.
    pub fn word(self, number: usize) -> u32 {
        if number < self.heads.len() { self.heads.read(number) } else { 0 }
    }

    /// Returns whether a segment begins at an index.
    pub fn begins(self, place: usize) -> bool {
        self.word(place / 32) >> (place % 32) & 1 != 0
    }
}

/// Number of threads per block of [`list_segments`].
pub const THREADS: u32 = 256;

/// Number of segments per thread of [`list_segments`].
pub const ITEMS: usize = 8;

/// A list of segments.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// Indices of the listed segments, ascending, as far as they fit.
    pub segments: GlobalSlice<u32>,
    /// For each listed segment, the number of elements of those before it in the list. As long as `segments`,
    /// or empty.
    pub starts: GlobalSlice<u32>,
    /// Number of listed segments, and the number of their elements. Two words.
    pub counts: GlobalSlice<u32>,
}

#[device(caller)]
impl List {
    /// Returns the number of listed segments that fit.
    pub fn len(self) -> usize {
        (self.counts.read(0) as usize).min(self.segments.len())
    }

    /// Returns whether the list is empty.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Sum of listed segments: their number and the number of their elements.
#[derive(Clone, Copy, Debug)]
struct Listed;

impl Monoid for Listed {
    type Value = (u32, u32);
    const IDENTITY: (u32, u32) = (0, 0);

    #[device]
    fn combine(first: (u32, u32), second: (u32, u32)) -> (u32, u32) {
        (first.0.wrapping_add(second.0), first.1.wrapping_add(second.1))
    }
}

/// Sets the head bits of an array of `len` elements, which are zero before. Lists the segments of more than
/// `least` elements if the list has capacity for any. The grid has one block for each [`THREADS`]` *
/// `[`ITEMS`] segments.
#[kernel]
pub fn list_segments(
    segments: Segments,
    len: u32,
    least: u32,
    list: List,
    status: GlobalSlice<u64>,
    tickets: GlobalSlice<u32>,
) {
    let lists = !list.segments.is_empty();
    let tile = if lists { ticket(tickets.at(0)) } else { Thread::block_index() };
    let (warp, warps) = (Tile::<32>::lockstep(), THREADS / 32);
    let number = tile as usize * warps as usize + (Thread::index_in_block() / 32) as usize;
    let first = number * 32 * ITEMS + warp.rank() as usize;
    let mut lengths = [0; ITEMS];
    unrolled::<ITEMS>(|i| lengths[i] = mark(segments, first + 32 * i, len));
    if !lists {
        return;
    }
    let (mut sums, mut total) = ([Listed::IDENTITY; ITEMS], Listed::IDENTITY);
    unrolled::<ITEMS>(|i| {
        let own = if lengths[i] > least { (1, lengths[i]) } else { Listed::IDENTITY };
        sums[i] = Listed::combine(total, scan_lanes::<Listed>(warp, own, 32));
        total = warp.shuffle(sums[i], 31);
    });
    let carry = Carry::<Listed>::new(Values::of(status), warps);
    let (prefix, whole) = carry.learn(carry.announce(tile, total), 0);
    unrolled::<ITEMS>(|i| {
        let (upto, elements) = Listed::combine(prefix, sums[i]);
        if lengths[i] > least && upto as usize <= list.segments.len() {
            list.segments.write(upto as usize - 1, (first + 32 * i) as u32);
            if !list.starts.is_empty() {
                list.starts.write(upto as usize - 1, elements.wrapping_sub(lengths[i]));
            }
        }
    });
    if tile == Thread::grid_size() - 1 && Thread::index_in_block() == 0 {
        list.counts.write(0, whole.0);
        list.counts.write(1, whole.1);
    }
}

/// Sets the bit of a segment if it is not empty, and the bit after the last segment. Returns the segment's
/// length, or 0 if there is no such segment.
///
/// Relaxed: the bits are read in the next launch.
#[device(caller)]
fn mark(segments: Segments, segment: usize, len: u32) -> u32 {
    if segment + 1 >= segments.offsets.len() {
        return 0;
    }
    let (begin, end) = segments.ends(segment, len);
    let set = |place: u32| {
        let word = segments.heads.at(place as usize / 32);
        word.fetch_or(1 << (place % 32), Order::Relaxed, Scope::Device);
    };
    if begin < end {
        set(begin);
    }
    if segment + 2 == segments.offsets.len() {
        set(segments.range(len as usize).1 as u32);
    }
    end - begin
}
