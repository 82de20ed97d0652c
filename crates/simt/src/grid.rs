//! The shape of a launch.
use core::fmt;

/// Number of blocks of a launch, and of threads per block.
///
/// ```
/// use simt::Grid;
///
/// assert_eq!(Grid::for_items(1000, 128), Grid::new(8, 128));
/// ```
///
/// # Cost
///
/// O(1) on the host, at compile time too: `for_items` divides once. No launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Number of blocks, at least 1.
    pub blocks: u32,
    /// Number of threads per block, 1 to 1024. Warps have 32 threads; the last may be shorter.
    pub threads: u32,
}

impl Grid {
    /// Creates a grid of `blocks` blocks with `threads` threads each.
    pub const fn new(blocks: u32, threads: u32) -> Self {
        Self { blocks, threads }
    }

    /// Returns the smallest grid of whole blocks with a thread per item; at least one block.
    pub const fn for_items(items: usize, threads: u32) -> Self {
        let wanted = items.div_ceil(if threads == 0 { 1 } else { threads as usize });
        let blocks = if wanted > u32::MAX as usize { u32::MAX } else { wanted as u32 };
        Self { blocks: if blocks == 0 { 1 } else { blocks }, threads }
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} blocks of {} threads", self.blocks, self.threads)
    }
}
