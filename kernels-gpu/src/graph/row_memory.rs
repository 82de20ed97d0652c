//! Shared memory of warps: those that copy rows (see [`super::rows`]), and those that count triangles.
use crate::keyed::Scalar;
use crate::slab::Handle;
use simt::{Shared, Thread, Tile, device};

/// Number of threads per block.
pub const ROW_THREADS: u32 = 128;

/// Warps of a block.
pub(super) const WARPS: u32 = ROW_THREADS / 32;

/// Most groups of 32 vertices that a warp takes at a time.
pub(super) const GROUPS: usize = 2;

/// Returns the index of the calling warp's first word, if each of [`WARPS`] warps of a block has `len`.
#[device]
fn first_of_warp(len: u32) -> u32 {
    Thread::index_in_block() / 32 % WARPS * len
}

/// The `LEN` words of a warp in the shared memory of its block.
#[derive(Clone, Copy)]
pub(super) struct WarpWords<const LEN: u32> {
    words: Shared<u32>,
    first: u32,
}

#[device]
impl<const LEN: u32> WarpWords<LEN> {
    /// Number of words of a block.
    pub const BLOCK: usize = (WARPS * LEN) as usize;

    /// Returns the calling warp's part of the [`Self::BLOCK`] words of its block.
    pub fn new(words: Shared<u32>) -> Self {
        assert!(words.len() >= Self::BLOCK);
        Self { words, first: first_of_warp(LEN) }
    }

    /// Returns the index of a word in those of the block. A place behind the last one means the last one.
    fn at(self, place: u32) -> u32 {
        self.first + place.min(LEN - 1)
    }

    pub(super) fn load(self, place: u32) -> u32 {
        // SAFETY: a word of the warp.
        unsafe { self.words.load_unchecked(self.at(place)) }
    }

    pub(super) fn store(self, place: u32, word: u32) {
        // SAFETY: a word of the warp.
        unsafe { self.words.store_unchecked(self.at(place), word) }
    }

    /// Sets bits of a word.
    pub(super) fn or(self, place: u32, bits: u32) {
        // SAFETY: a word of the warp.
        unsafe { self.words.or_unchecked(self.at(place), bits) }
    }

    /// Sets all words to zero. The lanes of the warp call it together.
    pub fn clear(self) {
        const { assert!(LEN.is_multiple_of(128), "each lane stores four words at a time") };
        let mut place = 4 * Thread::lane();
        while place < LEN {
            // SAFETY: four words of the warp, of an array that is aligned to 16 bytes.
            // mutation: skip performance, because a bit too many only costs a look-up in the table (see
            // `groups.rs`).
            unsafe { self.words.cast::<u128>().store_unchecked((self.first + place) / 4, 0) };
            place += 128;
        }
        Tile::<32>::lockstep().sync();
    }
}

/// Shared memory of a warp that copies rows.
#[derive(Clone, Copy)]
pub(super) struct Stage {
    words: Shared<u32>,
    /// Index of the warp's first word.
    pub(super) first: u32,
    /// Number of words.
    len: u32,
}

#[device]
impl Stage {
    /// Returns the calling warp's part of the block's words, of which each of [`WARPS`] warps has `len`.
    /// There may be two parts for each, of which this is the first one.
    pub(super) fn of_warp(words: Shared<u32>, len: usize) -> Self {
        assert!(words.len() >= WARPS as usize * len);
        Self { words, first: first_of_warp(len as u32), len: len as u32 }
    }

    /// Returns the other of two stages. There are two.
    pub(super) fn other(self) -> Self {
        let half = WARPS * self.len;
        assert!(self.words.len() >= 2 * half as usize);
        Self { first: if self.first < half { self.first + half } else { self.first - half }, ..self }
    }

    /// Returns the number of edges for which there is room.
    pub(super) const fn room<D: Scalar>(self, has_data: bool) -> u32 {
        self.len / if has_data { 1 + size_of::<D>() as u32 / 4 } else { 1 }
    }

    /// Stores an edge in the word `at` of the block, and in those of its data.
    ///
    /// # Safety
    /// - `at` is that of a place of the warp below the room: [`Self::first`] and the place.
    pub(super) unsafe fn store<D: Scalar>(self, has_data: bool, at: u32, (target, data): (u32, D)) {
        let (room, bits) = (self.room::<D>(has_data), data.to_u64());
        // SAFETY: the warp's words begin at `first`, and are as many as the room needs.
        unsafe {
            self.words.store_unchecked(at, target);
            if has_data {
                self.words.store_unchecked(at + room, bits as u32);
                if size_of::<D>() == 8 {
                    self.words.store_unchecked(at + 2 * room, (bits >> 32) as u32);
                }
            }
        }
    }

    /// Loads an edge.
    ///
    /// # Safety
    /// - `place` is below the room.
    pub(super) unsafe fn load<D: Scalar>(self, has_data: bool, place: u32) -> (u32, D) {
        let (room, at) = (self.room::<D>(has_data), self.first + place);
        // SAFETY: as in `store`.
        unsafe {
            let target = self.words.load_unchecked(at);
            if !has_data {
                return (target, D::narrow(0));
            }
            let high = if size_of::<D>() == 8 { self.words.load_unchecked(at + 2 * room) } else { 0 };
            let bits = self.words.load_unchecked(at + room) as u64 | (high as u64) << 32;
            (target, D::narrow(bits as u128))
        }
    }
}

/// Shared memory in which a warp collects the chains of slabs of its vertices.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    words: Shared<u32>,
    first: u32,
}

#[device]
impl Queue {
    /// Number of words of a warp: a handle and a vertex for each chain, and a number for each vertex.
    pub(super) const WORDS: usize = 3 * 32 * GROUPS;

    /// Returns the calling warp's part of the block's words.
    pub(super) fn of_warp(words: Shared<u32>) -> Self {
        assert!(words.len() >= WARPS as usize * Self::WORDS);
        Self { words, first: first_of_warp(Self::WORDS as u32) }
    }

    /// Returns the index of a word: the `place`-th of the array `array`.
    fn at(self, array: u32, place: u32) -> u32 {
        self.first + array * (32 * GROUPS as u32) + place % (32 * GROUPS as u32)
    }

    /// Adds the chain of a vertex, whose number among those of the warp is `vertex`.
    pub(super) fn push(self, place: u32, handle: Handle, vertex: u32) {
        // SAFETY: words of the warp.
        unsafe {
            // mutation: late equivalent, because the next write follows before the barrier of `Rows::queue`.
            self.words.store_unchecked(self.at(0, place), handle.to_word());
            // mutation: late equivalent, because the next write follows before the barrier of `Rows::queue`.
            self.words.store_unchecked(self.at(1, place), vertex);
        }
        self.set(vertex, 0);
    }

    /// Returns a chain: its first slab, and the number of its vertex.
    pub(super) fn chain(self, place: u32) -> (Handle, u32) {
        // SAFETY: words of the warp.
        unsafe {
            let handle = self.words.load_unchecked(self.at(0, place));
            (Handle::from_word(handle), self.words.load_unchecked(self.at(1, place)))
        }
    }

    /// Returns the number of a vertex that has a chain.
    pub(super) fn number(self, vertex: u32) -> u32 {
        // SAFETY: a word of the warp.
        unsafe { self.words.load_unchecked(self.at(2, vertex)) }
    }

    pub(super) fn set(self, vertex: u32, number: u32) {
        // SAFETY: a word of the warp.
        unsafe { self.words.store_unchecked(self.at(2, vertex), number) };
    }
}
