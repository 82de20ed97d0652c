//! Sizes of tables, and the arena that they come from.
//!
//! ```text
//! arena    | slab 0 | slab 1 | ...            | ... slab `len` - 1 |      taken from the front
//! state    | used, 8 bytes | list of free tables of each size: 52 words | no table: all ones
//! ```
//!
//! A table in a list of free ones has the index of the next one in its first link; all its other bytes are
//! ones. Launches that take tables add none to a list, and those that add take none: so a head that is read
//! and swapped has the same successor.
use super::link::Link;
use simt::{Global, Order, Scope, device};

/// Bytes of a slab.
pub const SLAB_BYTES: usize = 128;
/// Number of sizes of tables.
pub const CLASSES: u32 = 52;
/// First word of the arena's state with a list of free tables.
pub const ARENA_LISTS: usize = 2;
/// Words of the arena's state.
pub const ARENA_WORDS: usize = ARENA_LISTS + CLASSES as usize;
/// Maximum number of slabs of an arena.
pub const MOST_ARENA: u32 = 1 << 27;

/// Returns the number of buckets of a table of class `class`: 2, 3, 4, 6, 8, 12, ...
///
/// ```
/// use phalanx_kernels::graph::{buckets_of, class_for};
///
/// assert_eq!([0, 1, 2, 3, 4].map(buckets_of), [2, 3, 4, 6, 8]);
/// assert_eq!([1, 2, 3, 5, 7].map(class_for), [0, 0, 1, 3, 4]);
/// ```
#[device]
pub const fn buckets_of(class: u32) -> u32 {
    (2 + class % 2) << (class / 2)
}

/// Returns the smallest class whose tables have at least `buckets` buckets, which is at most 2^26.
#[device]
pub const fn class_for(buckets: u32) -> u32 {
    if buckets <= 2 {
        return 0;
    }
    // The classes of 2^k and 3 x 2^(k - 1) buckets are 2 k - 2 and 2 k - 1.
    let log = 31 - (buckets - 1).leading_zeros();
    let class = 2 * log - 1;
    if buckets <= buckets_of(class) { class } else { class + 1 }
}

/// Returns the class of a table for `edges` edges with `slots` slots per bucket, at a load of at most
/// `tenths` tenths, or `None` if no class has as many buckets. `tenths` is 1 to 10.
///
/// ```
/// use phalanx_kernels::graph::{buckets_of, growth_class};
///
/// assert_eq!(growth_class(38, 30, 6).map(buckets_of), Some(3));
/// assert_eq!(growth_class(1 << 20, 30, 6).map(buckets_of), Some(65_536));
/// assert_eq!(growth_class(126, 30, 7).map(buckets_of), Some(6));
/// assert_eq!(growth_class(u64::MAX, 30, 6), None);
/// ```
#[device]
pub const fn growth_class(edges: u64, slots: u32, tenths: u32) -> Option<u32> {
    if edges > (slots as u64) << 40 {
        return None;
    }
    let buckets = (edges * 10).div_ceil(slots as u64 * tenths as u64);
    if buckets <= MOST_ARENA as u64 / 2 { Some(class_for(buckets as u32)) } else { None }
}

/// The arena as a kernel sees it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Arena {
    slabs: Global<u64>,
    state: Global<u32>,
    len: u32,
}

impl Arena {
    /// Returns the arena of `len` slabs.
    ///
    /// # Safety
    /// - `slabs` points to `len` slabs and `state` to [`ARENA_WORDS`] words of device memory, aligned to
    ///   [`SLAB_BYTES`], that outlive all uses of the arena. `len` is at most [`MOST_ARENA`].
    /// - At first all bytes are ones, except the first two words of the state, which are 0. Only kernels of a
    ///   graph have written to them.
    pub unsafe fn new(slabs: *mut u64, state: *mut u32, len: u32) -> Self {
        // SAFETY: the caller's obligation.
        unsafe { Self { slabs: Global::new(slabs), state: Global::new(state), len } }
    }
}

#[device]
impl Arena {
    /// Returns the address of a slab.
    ///
    /// # Safety
    /// - Nothing is accessed through the pointer unless `index` is below the number of slabs.
    pub(super) unsafe fn slab(self, index: u32) -> Global<u64> {
        // SAFETY: the caller's obligation.
        unsafe { self.slabs.offset(index as usize * (SLAB_BYTES / 8)) }
    }

    /// Returns the location of the link of a slab.
    ///
    /// # Safety
    /// - As for [`Self::slab`].
    unsafe fn link(self, index: u32) -> Global<u32> {
        // SAFETY: the last word of the slab.
        unsafe { self.slab(index).cast::<u32>().offset(SLAB_BYTES / 4 - 1) }
    }

    fn head(self, class: u32) -> Global<u32> {
        // SAFETY: a word of the state.
        unsafe { self.state.offset(ARENA_LISTS + (class % CLASSES) as usize) }
    }

    /// Takes a table, whose bytes are all ones, and returns the index of its first slab. Returns `None` if
    /// the arena has no room. No table is freed in the same launch.
    pub(super) fn allocate(self, class: u32) -> Option<u32> {
        let (head, none) = (self.head(class), Link::NONE.to_word());
        let mut first = head.load(Order::Relaxed, Scope::Device);
        while first != none {
            // SAFETY: a list of free tables has slabs of the arena.
            let link = unsafe { self.link(first) };
            let next = link.load(Order::Relaxed, Scope::Device);
            match head.compare_exchange(first, next, Order::Relaxed, Scope::Device) {
                Ok(_) => {
                    link.store(none, Order::Relaxed, Scope::Device);
                    return Some(first);
                }
                Err(other) => first = other,
            }
        }
        self.extend(buckets_of(class))
    }

    /// Takes slabs that were in no table before. A table that is too large for the rest is taken and given
    /// back: meanwhile others may find too little room, too. A loop of compare-and-swaps would take a time
    /// that is quadratic in the number of lanes.
    fn extend(self, slabs: u32) -> Option<u32> {
        // SAFETY: the first two words of the state, which is aligned to 128 bytes. 64 bits do not overflow.
        let used = unsafe { self.state.cast::<u64>() };
        let (slabs, len) = (slabs as u64, self.len as u64);
        if slabs > len.saturating_sub(used.load(Order::Relaxed, Scope::Device)) {
            return None;
        }
        let first = used.fetch_add(slabs, Order::Relaxed, Scope::Device);
        if first + slabs > len {
            used.fetch_add(slabs.wrapping_neg(), Order::Relaxed, Scope::Device);
            return None;
        }
        Some(first as u32)
    }

    /// Adds a table, whose bytes are all ones, to the list of its class. No table is taken in the same
    /// launch, and nothing uses this one any more.
    ///
    /// # Safety
    /// - `base` is the first slab of a table of this class.
    pub(super) unsafe fn free(self, class: u32, base: u32) {
        let head = self.head(class);
        let mut first = head.load(Order::Relaxed, Scope::Device);
        loop {
            // SAFETY: the caller's obligation.
            unsafe { self.link(base) }.store(first, Order::Relaxed, Scope::Device);
            match head.compare_exchange(first, base, Order::Relaxed, Scope::Device) {
                Ok(_) => return,
                Err(other) => first = other,
            }
        }
    }
}
