//! Where the tiles of a block put the pairs of a leaf in order before they write them out.
//!
//! Pairs lie in a leaf in no order. Lanes that each wrote their own would write every sector of the output
//! several times, a piece each time, and the L2 cache takes only so many writes. Out of shared memory each
//! lane writes pairs that lie side by side, and neighbouring lanes those behind.
//!
//! There is room for two leaves' pairs, so that a short range's are written all at once.
use crate::keyed::Slot;
use core::marker::PhantomData;
use simt::{Convergence, Shared, SharedShape, Thread, Tile, fault, trap};

/// The most threads of a block whose tiles have places.
const THREADS: usize = 128;

/// The places of a block's tiles.
struct Places<S, const W: u32, const L: usize>(PhantomData<S>);

impl<S: Slot, const W: u32, const L: usize> SharedShape for Places<S, W, L> {
    type Word = S::Word;
    const LEN: usize = THREADS / W as usize * each(W, L);
}

/// Words of a tile: twice as many as a node has, and one more, so that tiles' places begin in different
/// banks.
const fn each(lanes: u32, words: usize) -> usize {
    2 * lanes as usize * words + 1
}

/// A tile's places, [`Stage::ROOM`] of them.
#[derive(Clone, Copy)]
pub struct Stage<S: Slot, const W: u32, const L: usize>(Option<Shared<S::Word>>);

impl<S: Slot, const W: u32, const L: usize> Stage<S, W, L> {
    /// Whether it is quicker than to write each pair where it belongs. Measured; it is where lanes have many
    /// pairs in a row.
    pub const PAYS: bool = L >= 4;
    /// How many places a tile has.
    pub const ROOM: u32 = 2 * W * L as u32;

    /// Those of the calling tile. Ends the launch in blocks of more than 128 threads.
    #[inline(always)]
    #[track_caller]
    pub fn of<C: Convergence>(tile: Tile<W, C>) -> Self {
        let first = Thread::index_in_block() - tile.rank();
        if first >= THREADS as u32 {
            fault("pairs are collected in a block of more than 128 threads: that takes CollectWide");
            trap();
        }
        let words = Shared::of::<Places<S, W, L>>();
        // SAFETY: each tile of the first `THREADS` threads has its places in the array.
        Self(Some(unsafe { words.part(first / W * each(W, L) as u32, Self::ROOM as usize) }))
    }

    /// None.
    #[inline(always)]
    pub fn none() -> Self {
        Self(None)
    }

    /// The places from one on.
    ///
    /// # Safety
    /// - There are as many before it.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn from(self, place: u32) -> Self {
        // SAFETY: the caller's promise.
        Self(self.0.map(|words| unsafe { words.part(place, words.len().wrapping_sub(place as usize)) }))
    }

    /// Puts a word at a place.
    ///
    /// # Safety
    /// - There is such a place.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn put(self, place: u32, word: S::Word) {
        let Some(words) = self.0 else { return };
        // SAFETY: the caller's promise.
        unsafe { words.store_unchecked(place, word) }
    }

    /// The word at a place.
    ///
    /// # Safety
    /// - There is such a place.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn get(self, place: u32) -> S::Word {
        let Some(words) = self.0 else { return S::EMPTY };
        // SAFETY: the caller's promise.
        unsafe { words.load_unchecked(place) }
    }
}
