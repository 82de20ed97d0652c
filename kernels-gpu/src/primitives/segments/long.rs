//! Gathers the segments that fit into no block for a radix sort, and scatters them back.
//!
//! ```text
//! array       . . a a a a a . . . . b b b b b b b .          two long segments
//! gathered    a a a a a b b b b b b b   contiguous, each element with its key, its segment's index in the
//!                                       list, and its index in the array
//! sorted      by key, then by number: so the segments keep their order, and each is sorted
//! ```
//!
//! Each element is sorted as two words. For 32-bit keys, number and key form the first word and the index is
//! the second; for 64-bit keys the first word is the key and the second has number and index, and a second
//! sort orders by the number. Only the device knows the number of elements, so the kernels of the sort read
//! it there.
//!
//! # Cost
//!
//! Reads and writes each element of a long segment once. [`LongPlan::pack`] and [`LongPlan::unpack`] are
//! shifts in registers, without access to memory.
use super::{List, Segments};
use crate::primitives::sort::Keys;
use simt::{GlobalSlice, Instance, Thread, Word, device, kernel};

/// The representation of keys of long segments while they are sorted.
///
/// ```
/// use phalanx_kernels::primitives::segments::long::LongPlan;
/// use phalanx_kernels::primitives::sort::Keys;
///
/// let (first, beside) = Keys::<u32>::pack(7, 2, 1000); // key 7 of the second listed segment
/// assert_eq!(Keys::<u32>::unpack(first, beside), (7, 2, 1000));
/// ```
pub trait LongPlan: Copy + Send + Sync + 'static {
    /// Key type.
    type Key: Word;
    /// Type of the second word.
    type Beside: Word;

    /// Packs a key with its segment's index in the list and its index in the array.
    fn pack(key: Self::Key, number: u32, place: u32) -> (u64, Self::Beside);

    /// Unpacks the words that [`Self::pack`] returned.
    fn unpack(first: u64, beside: Self::Beside) -> (Self::Key, u32, u32);
}

#[device]
impl LongPlan for Keys<u32> {
    type Key = u32;
    type Beside = u32;

    fn pack(key: u32, number: u32, place: u32) -> (u64, u32) {
        ((number as u64) << 32 | key as u64, place)
    }

    fn unpack(first: u64, beside: u32) -> (u32, u32, u32) {
        (first as u32, (first >> 32) as u32, beside)
    }
}

#[device]
impl LongPlan for Keys<u64> {
    type Key = u64;
    type Beside = u64;

    fn pack(key: u64, number: u32, place: u32) -> (u64, u64) {
        (key, (number as u64) << 32 | place as u64)
    }

    fn unpack(first: u64, beside: u64) -> (u64, u32, u32) {
        (first, (beside >> 32) as u32, beside as u32)
    }
}

/// Long segments, and their elements gathered in one array.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Gathered<B> {
    /// All segments.
    pub segments: Segments,
    /// The long segments, with their starts among the gathered elements.
    pub list: List,
    /// First word of each element.
    pub firsts: GlobalSlice<u64>,
    /// Second word of each element.
    pub besides: GlobalSlice<B>,
}

#[device(caller)]
impl<B: Word> Gathered<B> {
    /// Returns the number of elements.
    fn len(self) -> usize {
        (self.list.counts.read(1) as usize).min(self.firsts.len())
    }

    /// Returns the list index of the segment to which a gathered element belongs: the last one that starts at
    /// or before it.
    fn number(self, gathered: usize) -> u32 {
        let (mut low, mut high) = (0, self.list.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.list.starts.read(middle) as usize <= gathered {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (low as u32).saturating_sub(1)
    }

    /// Returns the array index of element `gathered` of the list's segment `number`, or `None` if there is no
    /// such segment or index.
    fn place(self, gathered: usize, number: u32, len: usize) -> Option<usize> {
        let number = number as usize;
        if number >= self.list.len() {
            return None;
        }
        let begin = self.segments.offsets.read(self.list.segments.read(number) as usize) as usize;
        let place = begin.wrapping_add(gathered.wrapping_sub(self.list.starts.read(number) as usize));
        (place < len).then_some(place)
    }

    /// Calls `body` with the thread's share of the gathered indices.
    fn each(self, mut body: impl FnMut(usize)) {
        let (mut gathered, len) = (Thread::index(), self.len());
        while gathered < len {
            body(gathered);
            gathered += Thread::count();
        }
    }
}

/// Gathers the keys of long segments. Works with any grid.
#[kernel]
pub fn take_long<P: LongPlan + Instance>(keys: GlobalSlice<P::Key>, to: Gathered<P::Beside>) {
    to.each(|gathered| {
        let number = to.number(gathered);
        if let Some(place) = to.place(gathered, number, keys.len()) {
            let (first, beside) = P::pack(keys.read(place), number, place as u32);
            to.firsts.write(gathered, first);
            to.besides.write(gathered, beside);
        }
    });
}

/// Scatters the keys back in their new order, and writes the source index of each to `order` if that is not
/// empty. Works with any grid.
#[kernel]
pub fn put_long<P: LongPlan + Instance>(
    from: Gathered<P::Beside>,
    keys: GlobalSlice<P::Key>,
    order: GlobalSlice<u32>,
) {
    from.each(|gathered| {
        let (key, number, source) = P::unpack(from.firsts.read(gathered), from.besides.read(gathered));
        if let Some(place) = from.place(gathered, number, keys.len()) {
            keys.write(place, key);
            if !order.is_empty() {
                order.write(place, source);
            }
        }
    });
}
