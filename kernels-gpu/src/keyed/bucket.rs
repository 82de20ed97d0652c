//! Buckets: the unit that a tile reads at once.
//!
//! A bucket of `W * L` slots is read by `W` lanes, `L` slots each, 16 bytes per load. Neighbouring lanes read
//! neighbouring 16-byte chunks:
//!
//! ```text
//! 128 bytes, W = 4, L = 4 (slots of 8 bytes)
//! byte   0        16       32       48       64       80       96       112
//!        | lane 0 | lane 1 | lane 2 | lane 3 | lane 0 | lane 1 | lane 2 | lane 3 |
//!         j=0 j=1                             j=2 j=3
//! ```
//!
//! The slots of a bucket are ordered by (lane, j).
use super::slot::{Chunk, Slot};
use core::marker::PhantomData;
use simt::{Convergence, Global, Order, Scope, Tile, device};

/// A bucket in memory.
#[derive(Clone, Copy, Debug)]
pub struct Bucket<S, const W: u32, const L: usize> {
    base: Global<u64>,
    of: PhantomData<S>,
}

#[device]
impl<S: Slot, const W: u32, const L: usize> Bucket<S, W, L> {
    /// Number of slots in a bucket.
    pub const SLOTS: u32 = W * L as u32;
    /// Number of bytes in a bucket.
    pub const BYTES: usize = Self::SLOTS as usize * size_of::<S::Word>();

    /// Returns the address of the bucket.
    pub(crate) fn base(self) -> Global<u64> {
        self.base
    }

    /// Returns the bucket at `base`.
    ///
    /// # Safety
    /// - The [`Self::BYTES`] bytes from `base` on are a bucket of a live table, aligned to 16 bytes, for as
    ///   long as the bucket is used.
    pub unsafe fn at(base: Global<u64>) -> Self {
        Self { base, of: PhantomData }
    }

    fn byte(rank: u32, j: usize) -> usize {
        if L == 1 {
            return rank as usize * size_of::<S::Word>();
        }
        let chunk = (j / S::PER_CHUNK) * W as usize + rank as usize;
        chunk * 16 + (j % S::PER_CHUNK) * size_of::<S::Word>()
    }

    /// Returns the `j`-th slot of lane `rank`.
    ///
    /// # Safety
    /// - `rank` is below `W`, and `j` is below `L`.
    pub(crate) unsafe fn slot(self, rank: u32, j: usize) -> Global<S::Word> {
        // SAFETY: `byte` returns a multiple of the word's size within the bucket.
        unsafe { self.base.cast::<u8>().offset(Self::byte(rank, j)).cast() }
    }

    /// Reads the slots of lane `rank`, which is below `W`, each in one access of this order, if `wanted`.
    /// Otherwise reads nothing and returns arbitrary words.
    #[device(caller)]
    pub(crate) fn load(self, rank: u32, wanted: bool, order: Order) -> Lane<S, L> {
        const { assert!(L == 1 || L.is_multiple_of(S::PER_CHUNK), "a lane reads whole chunks of 16 bytes") };
        let mut words = [S::EMPTY; L];
        if L == 1 && S::PER_CHUNK > 1 {
            // SAFETY: the rank is below `W`, so the slot lies in the bucket.
            [words[0]] = unsafe { self.slot(rank, 0).load_vec_if::<1>(wanted, order, Scope::Device) };
            return Lane { words };
        }
        let mut j = 0;
        while j < L {
            // SAFETY: slot `j` begins a chunk of the bucket.
            let chunk = unsafe { S::Chunk::load_if(self.slot(rank, j), wanted, order) };
            let mut i = 0;
            while i < S::PER_CHUNK {
                words[j + i] = chunk.word(i);
                i += 1;
            }
            j += S::PER_CHUNK;
        }
        Lane { words }
    }

    /// As [`Self::load`], one chunk of 16 bytes per lane after the other, up to the first in which a lane of
    /// the tile has a word for which `is` holds. Chunks that were not read appear empty: only for operations
    /// that do not write, which ask for empty slots only if they have not found the key. All lanes call it.
    #[device(caller)]
    pub(crate) fn load_in_steps(
        self,
        tile: Tile<W, impl Convergence>,
        mut wanted: bool,
        order: Order,
        is: impl Fn(S::Word) -> bool,
    ) -> Lane<S, L> {
        let mut words = [S::EMPTY; L];
        let mut j = 0;
        while j < L {
            // SAFETY: the rank is below `W`, and slot `j` begins a chunk of the bucket.
            let chunk = unsafe { S::Chunk::load_if(self.slot(tile.rank(), j), wanted, order) };
            let (mut i, mut found) = (0, false);
            while i < S::PER_CHUNK {
                words[j + i] = if wanted { chunk.word(i) } else { S::EMPTY };
                found |= is(words[j + i]);
                i += 1;
            }
            wanted &= !tile.any(found);
            j += S::PER_CHUNK;
        }
        Lane { words }
    }
}

/// The slots of a bucket or a node that one lane has read.
#[derive(Clone, Copy, Debug)]
pub struct Lane<S: Slot, const L: usize> {
    pub(crate) words: [S::Word; L],
}

/// A slot of a lane, and the word read from it.
#[derive(Clone, Copy, Debug)]
pub struct SlotMatch<W> {
    /// Whether such a slot exists. If not, the other fields are arbitrary.
    pub exists: bool,
    /// Index of the slot among the lane's slots, or its position in the node.
    pub index: u32,
    /// Word that was read.
    pub word: W,
}

#[device]
impl<S: Slot, const L: usize> Lane<S, L> {
    /// Returns a lane of empty slots.
    pub fn nothing() -> Self {
        Self { words: [S::EMPTY; L] }
    }

    /// Returns the words of the lane's slots.
    pub fn words(&self) -> [S::Word; L] {
        self.words
    }

    /// Returns the lane with `word` in each slot `j` for which `is(j)` holds.
    pub fn with(mut self, word: S::Word, is: impl Fn(usize) -> bool) -> Self {
        let mut j = 0;
        while j < L {
            self.words[j] = if is(j) { word } else { self.words[j] };
            j += 1;
        }
        self
    }

    /// Returns the lane's first slot for which `is(j, word)` holds.
    pub fn first(&self, is: impl FnMut(u32, S::Word) -> bool) -> SlotMatch<S::Word> {
        self.find::<false>(0, is)
    }

    /// Returns the slot of lane `rank` that is the last for which `is(position, word)` holds.
    pub fn last(&self, rank: u32, is: impl FnMut(u32, S::Word) -> bool) -> SlotMatch<S::Word> {
        self.find::<true>(rank, is)
    }

    /// Returns the first slot for which `is(j, word)` holds, or the last one for which `is(position, word)`
    /// holds. Written as a chain of selections, because the compiler would place an indexed array in local
    /// memory.
    fn find<const LAST: bool>(
        &self,
        rank: u32,
        mut is: impl FnMut(u32, S::Word) -> bool,
    ) -> SlotMatch<S::Word> {
        let mut found = SlotMatch { exists: false, index: 0, word: self.words[if LAST { 0 } else { L - 1 }] };
        let mut i = 0;
        while i < L {
            let j = if LAST { i } else { L - 1 - i };
            // The product once per slot, not before the loop: the compiler then compares ranks, in one
            // instruction less.
            let index = if LAST { rank * L as u32 + j as u32 } else { j as u32 };
            let holds = is(index, self.words[j]);
            found = SlotMatch {
                exists: found.exists | holds,
                index: if holds { index } else { found.index },
                word: if holds { self.words[j] } else { found.word },
            };
            i += 1;
        }
        found
    }
}
