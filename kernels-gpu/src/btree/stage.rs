//! Where the tiles of a block put the pairs of a leaf in order before they write them out.
//!
//! Pairs lie in a leaf in no order. Lanes that each wrote their own would write every sector of the output several times, a piece each time, and the
//! L2 cache takes only so many writes. Out of shared memory neighbouring lanes write neighbouring pairs.
//!
//! There is room for two leaves' pairs, so that a short range's are written all at once.
use crate::keyed::Slot;
use core::marker::PhantomData;
use simt::{Convergence, Shared, SharedShape, Thread, Tile};

/// Threads of a block whose tiles have places.
const THREADS: usize = 128;

/// Words for each lane, of its tile's places.
struct Places<S, const L: usize>(PhantomData<S>);

impl<S: Slot, const L: usize> SharedShape for Places<S, L> {
    type Word = S::Word;
    const LEN: usize = THREADS * each(L);
}

/// Words of a lane: twice as many as it has of a node, and one more, so that tiles' places begin in different banks.
const fn each(words: usize) -> usize {
    2 * words + 1
}

/// A tile's places.
#[derive(Clone, Copy)]
pub struct Stage<S: Slot, const W: u32, const L: usize> {
    words: Option<Shared<S::Word>>,
    first: u32,
    room: u32,
}

impl<S: Slot, const W: u32, const L: usize> Stage<S, W, L> {
    /// Whether it is quicker than to write each pair where it belongs. Measured; it is where lanes have many pairs in a row.
    pub const PAYS: bool = L >= 4;

    /// Those of the calling tile. In blocks of more than 128 threads the tiles behind those have none.
    #[inline(always)]
    #[track_caller]
    pub fn of<C: Convergence>(tile: Tile<W, C>) -> Self {
        let first = Thread::index_in_block() - tile.rank();
        let room = if first < THREADS as u32 { 2 * W * L as u32 } else { 0 };
        Self { words: Some(Shared::of::<Places<S, L>>()), first: first * each(L) as u32, room }
    }

    /// None.
    #[inline(always)]
    pub fn none() -> Self {
        Self { words: None, first: 0, room: 0 }
    }

    /// How many.
    #[inline(always)]
    pub fn room(self) -> u32 {
        self.room
    }

    /// The places from one on.
    #[inline(always)]
    pub fn from(self, place: u32) -> Self {
        Self { first: self.first + place, ..self }
    }

    /// Puts a word at a place below that room.
    #[inline(always)]
    #[track_caller]
    pub fn put(self, place: u32, word: S::Word) {
        let Some(words) = self.words else { return };
        // SAFETY: a tile of the first `THREADS` threads has its room from its first place on.
        unsafe { words.store_unchecked(self.first + place, word) }
    }

    /// The word at a place.
    #[inline(always)]
    #[track_caller]
    pub fn get(self, place: u32) -> S::Word {
        let Some(words) = self.words else { return S::EMPTY };
        // SAFETY: as in `put`.
        unsafe { words.load_unchecked(self.first + place) }
    }
}
