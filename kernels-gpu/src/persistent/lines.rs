//! The lines of a cache of items, as kernels see them.
//!
//! # Cost
//!
//! Arithmetic in registers.
use simt::{Global, GlobalSlice, Order, Scope, device};

/// Maximum number of lines of a group.
pub const MOST_LINES: u32 = 15;

/// The cache of a table as kernels see it.
///
/// ```
/// use phalanx_kernels::persistent::CacheView;
///
/// // 10 groups with 4.8 lines each.
/// assert_eq!(CacheView::lines(10, (4.8 * 65536.0) as u32), 47);
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CacheView {
    /// Words of the lines, group by group: [`Self::lines`] times the words of an item.
    pub lines: GlobalSlice<u32>,
    /// A byte for each position, 0 before. Empty: the choice of items is random.
    pub heat: GlobalSlice<u32>,
    /// Hits and misses, or empty if they are not counted.
    pub counts: GlobalSlice<u64>,
    /// Lines of a group, in units of 2^-16, at most [`MOST_LINES`] of them. 0: there is no cache.
    pub share: u32,
    /// Number of the launch: it selects the warps that note reads, and the items of a random choice.
    pub turn: u32,
    /// The byte that marks an item as read by this launch; 0: reads are counted.
    pub stamp: u32,
}

#[device]
impl CacheView {
    /// Returns no cache. `nothing` is any pointer; it is never accessed.
    pub(super) fn none(nothing: Global<u32>) -> Self {
        // SAFETY: no element of an empty slice is ever accessed.
        unsafe {
            let (lines, counts) = (nothing.as_ptr(), nothing.as_ptr().cast());
            let lines = GlobalSlice::from_raw_parts(lines, 0);
            let counts = GlobalSlice::from_raw_parts(counts, 0);
            Self { lines, heat: lines, counts, share: 0, turn: 0, stamp: 0 }
        }
    }

    /// Returns the number of lines of the first `groups` groups.
    pub fn lines(groups: u32, share: u32) -> u64 {
        (groups as u64 * share as u64) >> 16
    }

    /// Returns the number of lines of a group.
    pub(super) fn lines_of(self, group: u32) -> u32 {
        (Self::lines(group + 1, self.share) - Self::lines(group, self.share)) as u32
    }

    /// Counts a lookup that has found its key in a copy, or in the image.
    pub(super) fn count(self, is_hit: bool) {
        if !self.counts.is_empty() {
            // mutation: tear unreached, because explorers require many hits and many misses, and not their
            // exact numbers.
            self.counts.at(!is_hit as usize).fetch_add(1, Order::Relaxed, Scope::Device);
        }
    }
}
