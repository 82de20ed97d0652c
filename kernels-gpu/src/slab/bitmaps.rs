//! The bitmaps of a pool: live slabs, retired slabs, and the number of faults.
//!
//! Slabs are numbers here; the [`Pool`](super::Pool) converts a number to a [`Handle`](super::Handle) and to
//! the slab's address.
use simt::{Global, Order, Scope, device, fault};

/// Number of words of a block's bitmap.
pub const BLOCK_WORDS: u32 = 32;

/// The bitmaps as kernels see them: one bit per slab, 32 words per block.
///
/// ```
/// use phalanx_kernels::slab::Bitmaps;
/// use simt::{Order, Scope};
///
/// assert_eq!(Bitmaps::words_for(1025), 64); // two blocks
///
/// /// Counts the live slabs, by one thread.
/// ///
/// /// # Safety
/// /// - As for `Bitmaps::new`.
/// unsafe fn count_live(live: *mut u32, retired: *mut u32, faults: *mut u64, units: u32) -> u32 {
///     // SAFETY: the caller's obligation.
///     let bitmaps = unsafe { Bitmaps::new(live, retired, faults, units) };
///     assert!(bitmaps.units() == units && bitmaps.words() <= 32 * bitmaps.blocks());
///     // SAFETY: the index is below the number of words.
///     let word = |index| unsafe { bitmaps.word(index) }.load(Order::Relaxed, Scope::Device);
///     (0..bitmaps.words()).map(|index| word(index).count_ones()).sum()
/// }
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bitmaps {
    live: Global<u32>,
    retired: Global<u32>,
    faults: Global<u64>,
    units: u32,
}

impl Bitmaps {
    /// Returns the bitmaps of `units` slabs.
    ///
    /// # Safety
    /// - `live` and `retired` point to [`Self::words_for`]`(units)` words, aligned to 128 bytes, and `faults`
    ///   to one word, of device memory that outlives all uses of the view.
    /// - The bits of `live` beyond `units` are set, those of `retired` are clear, and only kernels of this
    ///   family write any of them.
    pub unsafe fn new(live: *mut u32, retired: *mut u32, faults: *mut u64, units: u32) -> Self {
        // SAFETY: the caller's obligation; all accesses of kernels that run concurrently are relaxed.
        let (live, retired, faults) =
            unsafe { (Global::new(live), Global::new(retired), Global::new(faults)) };
        Self { live, retired, faults, units }
    }

    /// Returns the number of words of a bitmap of `units` slabs: whole blocks, at least one.
    pub const fn words_for(units: usize) -> usize {
        let blocks = units.div_ceil(32 * BLOCK_WORDS as usize);
        (if blocks == 0 { 1 } else { blocks }) * BLOCK_WORDS as usize
    }

    /// Returns the number of slabs.
    #[device]
    pub fn units(self) -> u32 {
        self.units
    }

    /// Returns the number of words with bits of slabs. The last block may have further words without any.
    #[device]
    pub fn words(self) -> u32 {
        self.units.div_ceil(32)
    }

    /// Returns the number of blocks. The last block may have fewer slabs than the others.
    #[device]
    pub fn blocks(self) -> u32 {
        self.units.div_ceil(32 * BLOCK_WORDS)
    }

    /// Returns the mask of the bits of word `index` that belong to slabs.
    #[device]
    pub(super) fn mask(self, index: u32) -> u32 {
        let slabs = self.units - index * 32;
        if slabs >= 32 { u32::MAX } else { (1 << slabs) - 1 }
    }

    /// Returns the location of word `index` of the live bitmap.
    ///
    /// # Safety
    /// - `index` is below [`Self::words_for`]`(units)`.
    /// - Writes keep the bits beyond the pool's slabs set, and the bits of slabs in use.
    #[device]
    pub unsafe fn word(self, index: u32) -> Global<u32> {
        // SAFETY: the caller's obligation.
        unsafe { self.live.offset(index as usize) }
    }

    /// Returns the location of word `index` of the retired bitmap.
    ///
    /// # Safety
    /// - `index` is below [`Self::words_for`]`(units)`.
    #[device]
    pub(super) unsafe fn retired(self, index: u32) -> Global<u32> {
        // SAFETY: the caller's obligation.
        unsafe { self.retired.offset(index as usize) }
    }

    /// Counts `many` faults, and reports them to the emulator.
    #[device(caller)]
    pub(super) fn fault(self, many: u32, message: &'static str) {
        self.faults.fetch_add(many as u64, Order::Relaxed, Scope::Device);
        fault(message);
    }

    /// Loads word `index` of the live bitmap.
    ///
    /// # Safety
    /// - `index` is below [`Self::words_for`]`(units)`.
    #[device(caller)]
    pub(super) unsafe fn load_free(self, index: u32) -> u32 {
        // SAFETY: the caller's obligation.
        unsafe { self.word(index) }.load_hot(Order::Relaxed, Scope::Device)
    }

    /// As [`Pool::take`](super::Pool::take).
    ///
    /// # Safety
    /// - As for [`Pool::take`](super::Pool::take).
    #[device(caller)]
    pub(super) unsafe fn take(self, index: u32, bits: u32) -> u32 {
        // SAFETY: the caller's obligation.
        unsafe { self.word(index) }.fetch_or_hot(bits, Order::Relaxed, Scope::Device)
    }

    /// As [`Pool::give`](super::Pool::give).
    ///
    /// # Safety
    /// - As for [`Pool::give`](super::Pool::give).
    #[device(caller)]
    pub(super) unsafe fn give(self, index: u32, bits: u32) -> u32 {
        // SAFETY: the caller's obligation.
        unsafe { self.word(index) }.fetch_and_hot(!bits, Order::Relaxed, Scope::Device)
    }

    /// Checks that all of `many` freed slabs were live, and counts a fault for each that was not. If `bits`
    /// has fewer than `many` set bits, some slab was named twice.
    #[device(caller)]
    pub(super) fn check_freed(self, old: u32, bits: u32, many: u32) {
        let freed = (old & bits).count_ones();
        if freed != many {
            self.fault(many - freed, "a slab was freed that is not live: freed twice, or never allocated");
        }
    }

    /// Marks a live slab for [`slab_reclaim`](super::kernels::slab_reclaim). `number` is below
    /// [`Self::units`].
    #[device(caller)]
    pub(super) fn retire(self, number: u32) {
        if !self.is_live(number) {
            return self.fault(1, "a slab was retired that is not live");
        }
        let bit = 1 << (number % 32);
        // SAFETY: the word that contains the slab's bit.
        let old = unsafe { self.retired(number / 32) }.fetch_or_hot(bit, Order::Relaxed, Scope::Device);
        if old & bit != 0 {
            self.fault(1, "a slab was retired twice");
        }
    }

    /// Sets or clears the retired mark of slab `number`, below [`Self::units`], whatever it was before.
    /// Requires exclusive access to the pool.
    #[device(caller)]
    pub(crate) fn mark(self, number: u32, retired: bool) {
        // SAFETY: the word that contains the slab's bit.
        let (word, bit) = (unsafe { self.retired(number / 32) }, 1 << (number % 32));
        if retired {
            word.fetch_or_hot(bit, Order::Relaxed, Scope::Device);
        } else {
            word.fetch_and_hot(!bit, Order::Relaxed, Scope::Device);
        }
    }

    /// Returns whether slab `number`, below [`Self::units`], is marked as retired.
    #[device(caller)]
    pub(crate) fn is_marked(self, number: u32) -> bool {
        // SAFETY: the word that contains the slab's bit.
        let word = unsafe { self.retired(number / 32) }.load_hot(Order::Relaxed, Scope::Device);
        word >> (number % 32) & 1 != 0
    }

    /// Writes word `index` of the live bitmap, if there is one, so that exactly the first `count` slabs are
    /// live. Requires exclusive access to the pool.
    #[device(caller)]
    pub(crate) fn reset(self, index: u64, count: u64) {
        if index >= Self::words_for(self.units as usize) as u64 {
            return;
        }
        let below = |end: u64| match end.saturating_sub(32 * index) {
            many @ 0..32 => (1 << many) - 1,
            _ => u32::MAX,
        };
        // SAFETY: the index has been checked.
        let word = unsafe { self.word(index as u32) };
        word.store(below(count) | !below(self.units as u64), Order::Relaxed, Scope::Device);
    }

    /// Returns whether slab `number`, below [`Self::units`], is allocated. Retired slabs count as allocated
    /// until they are reclaimed.
    #[device(caller)]
    pub(crate) fn is_live(self, number: u32) -> bool {
        // SAFETY: the word that contains the slab's bit.
        let word = unsafe { self.load_free(number / 32) };
        word >> (number % 32) & 1 != 0
    }
}
