//! Gathers the segments that fit into no block for a radix sort, and puts them back.
//!
//! ```text
//! array       . . a a a a a . . . . b b b b b b b .          two long segments
//! gathered    a a a a a b b b b b b b   side by side, each element with its key, its segment's number in
//!                                       the list, and its place
//! sorted      by key, then by number: so the segments stand where they stood, each sorted
//! ```
//!
//! Two words an element are sorted: of short keys, number and key together beside the place; of long keys the
//! key beside number and place, which are sorted by the number afterwards. How many elements there are is
//! known on the device alone, so the sort's kernels read it there.
use super::{List, Segments};
use crate::primitives::sort::Keys;
use simt::{GlobalSlice, Instance, Thread, Word, kernel};

/// What keys of long segments become while they are sorted.
pub trait LongPlan: Copy + Send + Sync + 'static {
    /// The key.
    type Key: Word;
    /// What goes beside the first word.
    type Beside: Word;

    /// A key with its segment's number in the list and its place.
    fn pack(key: Self::Key, number: u32, place: u32) -> (u64, Self::Beside);

    /// What [`Self::pack`] was given.
    fn unpack(first: u64, beside: Self::Beside) -> (Self::Key, u32, u32);
}

impl LongPlan for Keys<u32> {
    type Key = u32;
    type Beside = u32;

    #[inline(always)]
    fn pack(key: u32, number: u32, place: u32) -> (u64, u32) {
        ((number as u64) << 32 | key as u64, place)
    }

    #[inline(always)]
    fn unpack(first: u64, beside: u32) -> (u32, u32, u32) {
        (first as u32, (first >> 32) as u32, beside)
    }
}

impl LongPlan for Keys<u64> {
    type Key = u64;
    type Beside = u64;

    #[inline(always)]
    fn pack(key: u64, number: u32, place: u32) -> (u64, u64) {
        (key, (number as u64) << 32 | place as u64)
    }

    #[inline(always)]
    fn unpack(first: u64, beside: u64) -> (u64, u32, u32) {
        (first, (beside >> 32) as u32, beside as u32)
    }
}

/// Long segments, and their elements side by side.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Gathered<B> {
    /// The segments.
    pub segments: Segments,
    /// Those of them that are long, with where each begins among the gathered elements.
    pub list: List,
    /// A word of each element.
    pub firsts: GlobalSlice<u64>,
    /// Another one.
    pub besides: GlobalSlice<B>,
}

impl<B: Word> Gathered<B> {
    /// Elements.
    #[inline(always)]
    #[track_caller]
    fn len(self) -> usize {
        (self.list.counts.read(1) as usize).min(self.firsts.len())
    }

    /// The number of the segment that a gathered element is of: the last one that begins up to there.
    #[inline(always)]
    #[track_caller]
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

    /// The place in the array that a gathered place of segment `number` stands for, if there are both.
    #[inline(always)]
    #[track_caller]
    fn place(self, gathered: usize, number: u32, len: usize) -> Option<usize> {
        let number = number as usize;
        if number >= self.list.len() {
            return None;
        }
        let begin = self.segments.offsets.read(self.list.segments.read(number) as usize) as usize;
        let place = begin.wrapping_add(gathered.wrapping_sub(self.list.starts.read(number) as usize));
        (place < len).then_some(place)
    }

    /// Calls `body` with the thread's share of the gathered places.
    #[inline(always)]
    #[track_caller]
    fn each(self, mut body: impl FnMut(usize)) {
        let (mut gathered, len) = (Thread::index(), self.len());
        while gathered < len {
            body(gathered);
            gathered += Thread::count();
        }
    }
}

/// Gathers the keys of long segments. Any grid.
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

/// Puts them back in their new order, and tells where each comes from where `order` is not empty. Any grid.
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
