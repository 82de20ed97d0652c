//! The bitmaps of a pool: which slabs are live, which are retired, and how many faults there were.
//!
//! Slabs are numbers here; what a number's [`Handle`](super::Handle) is, and where the slab lies, the
//! [`Pool`](super::Pool) says.
use simt::{Global, Order, Scope, fault};

/// Words of a block's bitmap.
pub const BLOCK_WORDS: u32 = 32;

/// The bitmaps as kernels see them: one bit a slab, 32 words a block.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bitmaps {
    live: Global<u32>,
    retired: Global<u32>,
    faults: Global<u64>,
    units: u32,
}

impl Bitmaps {
    /// Bitmaps of `units` slabs.
    ///
    /// # Safety
    /// - `live` and `retired` point to [`Self::words_for`]`(units)` words, aligned to 128 bytes, and `faults`
    ///   to one word, of device memory that lives as long as the view is used.
    /// - The bits of `live` beyond `units` are set, those of `retired` are not, and nothing but kernels of
    ///   this family writes any.
    pub unsafe fn new(live: *mut u32, retired: *mut u32, faults: *mut u64, units: u32) -> Self {
        // SAFETY: the caller's promise; all accesses of kernels that run side by side are relaxed.
        let (live, retired, faults) =
            unsafe { (Global::new(live), Global::new(retired), Global::new(faults)) };
        Self { live, retired, faults, units }
    }

    /// Words of a bitmap of `units` slabs: whole blocks, at least one.
    pub const fn words_for(units: usize) -> usize {
        let blocks = units.div_ceil(32 * BLOCK_WORDS as usize);
        (if blocks == 0 { 1 } else { blocks }) * BLOCK_WORDS as usize
    }

    /// Slabs.
    #[inline(always)]
    pub fn units(self) -> u32 {
        self.units
    }

    /// Words that have bits of slabs; those up to the end of the last block have none.
    #[inline(always)]
    pub fn words(self) -> u32 {
        self.units.div_ceil(32)
    }

    /// Blocks, the last of which may lack some slabs.
    #[inline(always)]
    pub fn blocks(self) -> u32 {
        self.units.div_ceil(32 * BLOCK_WORDS)
    }

    /// The bits of word `index` that are slabs.
    #[inline(always)]
    pub(super) fn mask(self, index: u32) -> u32 {
        let slabs = self.units - index * 32;
        if slabs >= 32 { u32::MAX } else { (1 << slabs) - 1 }
    }

    /// The word `index` of the live slabs.
    ///
    /// # Safety
    /// - `index` is below [`Self::words_for`]`(units)`.
    /// - What is written keeps the bits beyond the pool's slabs set, and those of slabs in use.
    #[inline(always)]
    pub unsafe fn word(self, index: u32) -> Global<u32> {
        // SAFETY: the caller's promise.
        unsafe { self.live.offset(index as usize) }
    }

    /// The word `index` of the retired slabs.
    ///
    /// # Safety
    /// - `index` is below [`Self::words_for`]`(units)`.
    #[inline(always)]
    pub(super) unsafe fn retired(self, index: u32) -> Global<u32> {
        // SAFETY: the caller's promise.
        unsafe { self.retired.offset(index as usize) }
    }

    /// Counts misuses, and tells of them where somebody listens.
    #[inline(always)]
    #[track_caller]
    pub(super) fn fault(self, many: u32, message: &'static str) {
        self.faults.fetch_add(many as u64, Order::Relaxed, Scope::Device);
        fault(message);
    }

    /// What a word of the live slabs says.
    ///
    /// # Safety
    /// - `index` is below [`Self::words_for`]`(units)`.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn look(self, index: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.word(index) }.load_hot(Order::Relaxed, Scope::Device)
    }

    /// [`Pool::take`](super::Pool::take).
    ///
    /// # Safety
    /// - As there.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn take(self, index: u32, bits: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.word(index) }.fetch_or_hot(bits, Order::Relaxed, Scope::Device)
    }

    /// [`Pool::give`](super::Pool::give).
    ///
    /// # Safety
    /// - As there.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn give(self, index: u32, bits: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.word(index) }.fetch_and_hot(!bits, Order::Relaxed, Scope::Device)
    }

    /// Looks whether all of `many` slabs that were to be freed were live. Fewer `bits` than that are slabs
    /// named twice.
    #[inline(always)]
    #[track_caller]
    pub(super) fn check_freed(self, old: u32, bits: u32, many: u32) {
        let freed = (old & bits).count_ones();
        if freed != many {
            self.fault(many - freed, "a slab was freed that is not live: freed twice, or never allocated");
        }
    }

    /// Marks a live slab for [`slab_reclaim`](super::kernels::slab_reclaim). `number` is below
    /// [`Self::units`].
    #[inline(always)]
    #[track_caller]
    pub(super) fn retire(self, number: u32) {
        if !self.is_live(number) {
            return self.fault(1, "a slab was retired that is not live");
        }
        let bit = 1 << (number % 32);
        // SAFETY: the word of a slab's bit.
        let old = unsafe { self.retired(number / 32) }.fetch_or_hot(bit, Order::Relaxed, Scope::Device);
        if old & bit != 0 {
            self.fault(1, "a slab was retired twice");
        }
    }

    /// Marks slab `number`, below [`Self::units`], as retired, whether it is or not, or takes that back. Runs
    /// alone.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn mark(self, number: u32, retired: bool) {
        // SAFETY: the word of a slab's bit.
        let (word, bit) = (unsafe { self.retired(number / 32) }, 1 << (number % 32));
        if retired {
            word.fetch_or_hot(bit, Order::Relaxed, Scope::Device);
        } else {
            word.fetch_and_hot(!bit, Order::Relaxed, Scope::Device);
        }
    }

    /// Whether slab `number`, below [`Self::units`], is marked as retired.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn is_marked(self, number: u32) -> bool {
        // SAFETY: the word of a slab's bit.
        let word = unsafe { self.retired(number / 32) }.load_hot(Order::Relaxed, Scope::Device);
        word >> (number % 32) & 1 != 0
    }

    /// Writes the word `index` of the live slabs, if there is one, so that the first `count` slabs are live
    /// and no others. Runs alone.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn reset(self, index: u64, count: u64) {
        if index >= Self::words_for(self.units as usize) as u64 {
            return;
        }
        let below = |end: u64| match end.saturating_sub(32 * index) {
            many @ 0..32 => (1 << many) - 1,
            _ => u32::MAX,
        };
        // SAFETY: the index was checked.
        let word = unsafe { self.word(index as u32) };
        word.store(below(count) | !below(self.units as u64), Order::Relaxed, Scope::Device);
    }

    /// Whether slab `number`, below [`Self::units`], is allocated (retired ones are, until they are
    /// reclaimed).
    #[inline(always)]
    #[track_caller]
    pub(crate) fn is_live(self, number: u32) -> bool {
        // SAFETY: the word of a slab's bit.
        let word = unsafe { self.look(number / 32) };
        word >> (number % 32) & 1 != 0
    }
}
