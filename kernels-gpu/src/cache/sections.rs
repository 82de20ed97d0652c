//! The sections of a batch: its elements by tables, and the warps that process them.
//!
//! ```text
//! elements   | table 0           | table 1 | table 2 ...
//! warps      | 0 | 1 | 2 |       | 3 | 4   | 5 ...
//! ```
//!
//! A warp processes elements of one table, so its lanes share the table's view. For `n` elements per warp,
//! the warps of table `t`, whose elements begin with the `first`, begin with warp `first / n + t`, rounded
//! down. These are enough: the first of the next table is by one more than by the quotient of the elements.
use simt::{Thread, bound, device};

/// Maximum number of tables of a batch.
pub const MOST_TABLES: usize = 16;

/// The elements of a batch by tables: those of table `t` begin at `ends[t - 1]` and end before `ends[t]`.
/// Ends do not decrease; those beyond the last table are equal to the last one's.
///
/// ```
/// use phalanx_kernels::cache::{MOST_TABLES, Sections};
///
/// let (one, two) = (Sections::of(&[100]), Sections::of(&[70, 100]));
/// assert_eq!((one.threads(1), two.threads(1), two.threads(4)), (128, 160, 64));
/// assert!(MOST_TABLES == 16);
/// ```
///
/// # Cost
///
/// `of` copies the ends, at most 64 bytes, on the host. `threads` is arithmetic.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Sections {
    ends: [u32; MOST_TABLES],
    tables: u32,
}

impl Sections {
    /// Returns the sections of at most [`MOST_TABLES`] tables with these ends, which do not decrease. Other
    /// ends are left out.
    pub fn of(ends: &[u32]) -> Self {
        let (tables, last) = (ends.len().min(MOST_TABLES), ends.last().copied().unwrap_or(0));
        let mut all = [last; MOST_TABLES];
        all[..tables].copy_from_slice(&ends[..tables]);
        Self { ends: all, tables: tables as u32 }
    }

    /// Returns the number of threads that process the elements, `each` elements per thread.
    pub fn threads(self, each: u32) -> usize {
        let warps = self.ends[MOST_TABLES - 1] / (32 * each.max(1)) + self.tables;
        32 * warps as usize
    }
}

/// The section of a batch that the calling warp processes.
#[derive(Clone, Copy)]
pub(super) struct Section {
    /// Number of the table.
    pub table: u32,
    /// Index of the section's first element.
    pub first: u32,
    /// Index behind its last element.
    pub end: u32,
    /// Number of the section's first warp.
    first_warp: u32,
}

#[device]
impl Section {
    /// Returns whether the section has the element with this index.
    pub fn has(self, index: u32) -> bool {
        self.first <= index && index < self.end
    }

    /// Returns the index of the first of the calling thread's elements, `each` per thread. It is not below
    /// the section's end if there is none.
    pub fn index(self, each: u32) -> u32 {
        self.first + (Thread::index() as u32 - 32 * self.first_warp) * each
    }
}

#[device]
impl Sections {
    /// Returns the section of the calling warp, if threads process `each` elements each.
    pub(super) fn of_warp(&self, each: u32) -> Section {
        let warp = Thread::index() as u32 / 32;
        let mut section = Section { table: 0, first: 0, end: self.ends[0], first_warp: 0 };
        let mut table = 1;
        while table < bound(MOST_TABLES as u32) as usize {
            let (first, end) = (self.ends[table - 1], self.ends[table]);
            let first_warp = first / (32 * each) + table as u32;
            if warp >= first_warp {
                section = Section { table: table as u32, first, end, first_warp };
            }
            table += 1;
        }
        section
    }
}
