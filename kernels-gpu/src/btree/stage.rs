//! Where the tiles of a block put the pairs of a leaf in order before they write them out.
//!
//! Pairs lie in a leaf in no order. Lanes that each wrote their own would write every sector of the output several times, a piece each time, and the
//! L2 cache takes only so many writes. Out of shared memory neighbouring lanes write neighbouring pairs.
//!
//! A lane that reads nodes alone has a row of its own, for more than one leaf. The lanes of the warp write out each other's rows.
use crate::keyed::Slot;
use core::marker::PhantomData;
use simt::{Convergence, Shared, SharedShape, Thread, Tile};

/// Threads of a block whose tiles have places.
const THREADS: usize = 128;

/// Words for each lane: a tile's share of a node's, or a row.
struct Places<S, const L: usize>(PhantomData<S>);

impl<S: Slot, const L: usize> SharedShape for Places<S, L> {
    type Word = S::Word;
    const LEN: usize = THREADS * each(L);
}

/// Words of a lane. A row has room for two leaves' pairs at least, and an odd number, so that rows begin in different banks.
const fn each(words: usize) -> usize {
    if words > 4 { 2 * words + 1 } else { words }
}

/// A tile's places.
#[derive(Clone, Copy)]
pub struct Stage<S: Slot, const W: u32, const L: usize> {
    words: Shared<S::Word>,
    first: u32,
}

impl<S: Slot, const W: u32, const L: usize> Stage<S, W, L> {
    /// Whether it is quicker than to write each pair where it belongs. Measured; it is where tiles are narrow, and each lane has many pairs from all over the leaf.
    pub const PAYS: bool = L >= 4;

    /// Places of a tile.
    pub const ROOM: u32 = if W == 1 { 2 * L as u32 } else { W * L as u32 };

    /// Those of the calling tile. In blocks of more than 128 threads the tiles behind those have none.
    #[inline(always)]
    #[track_caller]
    pub fn of<C: Convergence>(tile: Tile<W, C>) -> Option<Self> {
        let first = Thread::index_in_block() - tile.rank();
        let has_places = first < THREADS as u32;
        has_places.then(|| Self { words: Shared::of::<Places<S, L>>(), first: first * each(L) as u32 })
    }

    /// Puts a word at a place below [`Self::ROOM`].
    #[inline(always)]
    #[track_caller]
    pub fn put(self, place: u32, word: S::Word) {
        debug_assert!(place < Self::ROOM);
        // SAFETY: a tile of the first `THREADS` threads has `ROOM` places from its first one on.
        unsafe { self.words.store_unchecked(self.first + place, word) }
    }

    /// The row of the lane so many behind the caller, or before it.
    #[inline(always)]
    pub fn beside(self, lanes: i32) -> Self {
        Self { first: self.first.wrapping_add_signed(lanes * each(L) as i32), ..self }
    }

    /// The word at a place.
    #[inline(always)]
    #[track_caller]
    pub fn get(self, place: u32) -> S::Word {
        debug_assert!(place < Self::ROOM);
        // SAFETY: as in `put`.
        unsafe { self.words.load_unchecked(self.first + place) }
    }
}
