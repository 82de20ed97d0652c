//! Buckets: the unit that a tile reads at once.
//!
//! A bucket of `W * L` slots is read by `W` lanes, `L` slots each, 16 bytes a load. Neighbouring lanes read neighbouring 16 bytes:
//!
//! ```text
//! 128 bytes, W = 4, L = 4 (slots of 8 bytes)
//! byte   0        16       32       48       64       80       96       112
//!        | lane 0 | lane 1 | lane 2 | lane 3 | lane 0 | lane 1 | lane 2 | lane 3 |
//!         j=0 j=1                             j=2 j=3
//! ```
//!
//! The slots of a bucket are ordered by (lane, j). Where the probing scheme keeps a filter, it takes the first slot.
use super::slot::Slot;
use core::marker::PhantomData;
use simt::{Global, Order, Scope};

/// A bucket in memory.
#[derive(Clone, Copy, Debug)]
pub struct Bucket<S, const W: u32, const L: usize> {
    base: Global<u64>,
    of: PhantomData<S>,
}

impl<S: Slot, const W: u32, const L: usize> Bucket<S, W, L> {
    /// Slots in a bucket, the filter's included.
    pub const SLOTS: u32 = W * L as u32;
    /// Bytes in a bucket.
    pub const BYTES: usize = Self::SLOTS as usize * size_of::<S::Word>();

    /// The bucket at `base`.
    ///
    /// # Safety
    /// - [`Self::BYTES`] bytes from `base` on are a bucket of a live table, aligned to 16 bytes.
    #[inline(always)]
    pub unsafe fn at(base: Global<u64>) -> Self {
        Self { base, of: PhantomData }
    }

    #[inline(always)]
    fn byte(rank: u32, j: usize) -> usize {
        if L == 1 {
            return rank as usize * size_of::<S::Word>();
        }
        let chunk = (j / S::PER_CHUNK) * W as usize + rank as usize;
        chunk * 16 + (j % S::PER_CHUNK) * size_of::<S::Word>()
    }

    /// The `j`-th slot of lane `rank`.
    #[inline(always)]
    pub fn slot(self, rank: u32, j: usize) -> Global<S::Word> {
        // SAFETY: `byte` gives a multiple of the word's size within the bucket.
        unsafe { self.base.cast::<u8>().offset(Self::byte(rank, j)).cast() }
    }

    /// The slots of lane `rank`, each read in one access.
    #[inline(always)]
    #[track_caller]
    pub fn load(self, rank: u32) -> Lane<S, L> {
        const { assert!(L == 1 || L % S::PER_CHUNK == 0, "a lane reads whole chunks of 16 bytes") };
        let mut words = [S::EMPTY; L];
        if L == 1 {
            words[0] = self.slot(rank, 0).load(Order::Relaxed, Scope::Device);
            return Lane(words);
        }
        let mut j = 0;
        while j < L {
            // SAFETY: slot `j` begins a chunk of the bucket.
            let (first, second) = unsafe { S::load_chunk(self.slot(rank, j).cast()) };
            words[j] = first;
            if S::PER_CHUNK == 2 {
                words[j + 1] = second;
            }
            j += S::PER_CHUNK;
        }
        Lane(words)
    }

    /// The filter of the keys that went on to another bucket: a *cleared* bit says that some key with that bit did.
    #[inline(always)]
    pub fn filter(self) -> Global<u64> {
        self.base
    }
}

/// What a lane has read of a bucket. Masks have bit `j` for its `j`-th slot.
#[derive(Clone, Copy, Debug)]
pub struct Lane<S: Slot, const L: usize>([S::Word; L]);

impl<S: Slot, const L: usize> Lane<S, L> {
    /// The lane of a tile that reads nothing.
    #[inline(always)]
    pub fn blank() -> Self {
        Self([S::EMPTY; L])
    }

    #[inline(always)]
    fn mask(&self, is: impl Fn(S::Word) -> bool) -> u32 {
        let (mut mask, mut j) = (0, 0);
        while j < L {
            mask |= (is(self.0[j]) as u32) << j;
            j += 1;
        }
        mask
    }

    /// The slots that hold `key`.
    #[inline(always)]
    pub fn matching(&self, key: S::Stored) -> u32 {
        self.mask(|word| S::key(word) == key)
    }

    /// The slots that never held a pair.
    #[inline(always)]
    pub fn empty(&self) -> u32 {
        self.mask(S::is_empty)
    }

    /// The slots that hold no pair.
    #[inline(always)]
    pub fn vacant(&self) -> u32 {
        self.mask(|word| !S::is_live(word))
    }

    /// The slots that another tile is about to fill.
    #[inline(always)]
    pub fn busy(&self) -> u32 {
        self.mask(S::is_busy)
    }

    /// The word of slot `j`; of the last slot where there is no such one. A chain of selections: an indexed array would go to
    /// local memory.
    #[inline(always)]
    pub fn pick(&self, j: u32) -> S::Word {
        let mut word = self.0[L - 1];
        let mut i = L - 1;
        while i > 0 {
            i -= 1;
            if j == i as u32 {
                word = self.0[i];
            }
        }
        word
    }

    /// The filter of the bucket, in the lane that read it (rank 0).
    #[inline(always)]
    pub fn filter(&self) -> u64 {
        use simt::Word;
        self.0[0].widen() as u64
    }
}
