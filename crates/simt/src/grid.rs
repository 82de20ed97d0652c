//! The shape of a launch, as the host states it.
use core::fmt;

/// How many blocks a launch has, and how many threads each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Blocks, at least 1.
    pub blocks: u32,
    /// Threads a block, 1 to 1024. Warps are made of 32; the last may be shorter.
    pub threads: u32,
}

impl Grid {
    /// `blocks` blocks of `threads` threads.
    pub const fn new(blocks: u32, threads: u32) -> Self {
        Self { blocks, threads }
    }

    /// The smallest grid of whole blocks with a thread for each of `items`; one block where there are none.
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
