//! Where the tiles of a block put the pairs of a leaf in order before they write them out.
//!
//! Pairs lie in a leaf in no order. Lanes that each wrote their own would write every sector of the output several times, a piece each time, and the
//! L2 cache takes only so many writes. Out of shared memory neighbouring lanes write neighbouring pairs.
use crate::keyed::Slot;
use core::marker::PhantomData;
use simt::{Convergence, Shared, SharedShape, Thread, Tile};

/// Threads of a block whose tiles have places.
const THREADS: usize = 128;

/// A node's words for each tile.
struct Places<S, const L: usize>(PhantomData<S>);

impl<S: Slot, const L: usize> SharedShape for Places<S, L> {
    type Word = S::Word;
    const LEN: usize = THREADS * L;
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

    /// Those of the calling tile. In blocks of more than 128 threads the tiles behind those have none.
    #[inline(always)]
    #[track_caller]
    pub fn of<C: Convergence>(tile: Tile<W, C>) -> Option<Self> {
        let first = Thread::index_in_block() - tile.rank();
        let has_places = first < THREADS as u32;
        has_places.then(|| Self { words: Shared::of::<Places<S, L>>(), first: first * L as u32 })
    }

    /// Puts a word at a place below the number of a node's words.
    #[inline(always)]
    #[track_caller]
    pub fn put(self, place: u32, word: S::Word) {
        debug_assert!(place < W * L as u32);
        // SAFETY: a tile of the first `THREADS` threads has `W * L` places from its first one on, as many as a node has words.
        unsafe { self.words.store_unchecked(self.first + place, word) }
    }

    /// The word at a place.
    #[inline(always)]
    #[track_caller]
    pub fn get(self, place: u32) -> S::Word {
        debug_assert!(place < W * L as u32);
        // SAFETY: as in `put`.
        unsafe { self.words.load_unchecked(self.first + place) }
    }
}
