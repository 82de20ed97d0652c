//! Shared memory of the warps that copy rows: see [`super::rows`].
use crate::keyed::Scalar;
use crate::slab::Handle;
use simt::{Shared, Thread, device};

/// Number of threads per block.
pub const ROW_THREADS: u32 = 128;

/// Warps of a block.
pub(super) const WARPS: u32 = ROW_THREADS / 32;

/// Most groups of 32 vertices that a warp takes at a time.
pub(super) const GROUPS: usize = 2;

/// Shared memory of a warp.
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
        Self { words, first: Thread::index_in_block() / 32 % WARPS * len as u32, len: len as u32 }
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
        Self { words, first: Thread::index_in_block() / 32 % WARPS * Self::WORDS as u32 }
    }

    /// Returns the index of a word: the `place`-th of the array `array`.
    fn at(self, array: u32, place: u32) -> u32 {
        self.first + array * (32 * GROUPS as u32) + place % (32 * GROUPS as u32)
    }

    /// Adds the chain of a vertex, whose number among those of the warp is `vertex`.
    pub(super) fn push(self, place: u32, handle: Handle, vertex: u32) {
        // SAFETY: words of the warp.
        unsafe {
            self.words.store_unchecked(self.at(0, place), handle.to_word());
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
