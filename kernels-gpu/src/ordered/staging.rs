//! Staging of a leaf's pairs in shared memory, where the tiles of a block arrange them in key order before
//! they write them out.
//!
//! The pairs of a leaf are not sorted. If each lane wrote its own pairs, every sector of the output would be
//! written several times, a piece each time, and the write rate of the L2 cache is limited. From shared
//! memory, each lane writes adjacent pairs, and neighbouring lanes the following ones.
//!
//! There is space for the pairs of two leaves, so that those of a short range are written all at once.
use crate::keyed::Slot;
use core::marker::PhantomData;
use simt::{Convergence, Shared, SharedShape, Thread, Tile, device, fault, trap};

/// Maximum number of threads of a block whose tiles have a staging area.
const THREADS: usize = 128;

/// Staging areas of a block's tiles.
struct Places<S, const W: u32, const L: usize>(PhantomData<S>);

impl<S: Slot, const W: u32, const L: usize> SharedShape for Places<S, W, L> {
    type Word = S::Word;
    const LEN: usize = THREADS / W as usize * each(W, L);
}

/// Returns the number of words of a tile: twice as many as a node has, and one more, so that the areas of
/// different tiles begin in different banks.
const fn each(lanes: u32, words: usize) -> usize {
    2 * lanes as usize * words + 1
}

/// A tile's staging area of [`Staging::ROOM`] words.
#[derive(Clone, Copy)]
pub struct Staging<S: Slot, const W: u32, const L: usize>(Option<Shared<S::Word>>);

#[device(caller)]
impl<S: Slot, const W: u32, const L: usize> Staging<S, W, L> {
    /// Whether staging is faster than writing each pair to its destination at once. Measured: it is where
    /// lanes have many consecutive pairs.
    pub const PAYS: bool = L >= 4;
    /// Number of words of a tile's staging area.
    pub const ROOM: u32 = 2 * W * L as u32;

    /// Returns the staging area of the calling tile. Ends the launch in blocks of more than 128 threads.
    pub fn of(tile: Tile<W, impl Convergence>) -> Self {
        let first = Thread::index_in_block() - tile.rank();
        if first >= THREADS as u32 {
            fault("pairs are collected in a block of more than 128 threads: that takes CollectWide");
            trap();
        }
        let words = Shared::of::<Places<S, W, L>>();
        // SAFETY: each tile of the first `THREADS` threads has its area in the array.
        Self(Some(unsafe { words.part(first / W * each(W, L) as u32, Self::ROOM as usize) }))
    }

    /// Returns an empty staging area.
    #[device]
    pub fn none() -> Self {
        Self(None)
    }

    /// Returns the part from `place` on.
    ///
    /// # Safety
    /// - The staging area has at least `place` words.
    pub unsafe fn from(self, place: u32) -> Self {
        // SAFETY: the caller's promise.
        Self(self.0.map(|words| unsafe { words.part(place, words.len().wrapping_sub(place as usize)) }))
    }

    /// Stores a word at index `place`.
    ///
    /// # Safety
    /// - `place` is within the staging area.
    pub unsafe fn put(self, place: u32, word: S::Word) {
        let Some(words) = self.0 else { return };
        // SAFETY: the caller's promise.
        unsafe { words.store_unchecked(place, word) }
    }

    /// Returns the word at index `place`.
    ///
    /// # Safety
    /// - `place` is within the staging area.
    pub unsafe fn get(self, place: u32) -> S::Word {
        let Some(words) = self.0 else { return S::EMPTY };
        // SAFETY: the caller's promise.
        unsafe { words.load_unchecked(place) }
    }
}
