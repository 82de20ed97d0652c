//! Who is a process: the threads that enter and leave together.
use simt::{Block, Independent, Thread, Tile};

/// Threads that enter and leave epochs together.
pub trait Group: Copy + Send + Sync + 'static {
    /// Processes in a block, at most.
    const A_BLOCK: usize;

    /// The calling thread's place among the threads of the process.
    fn rank() -> u32;

    /// Threads of the process.
    fn size() -> u32;

    /// The process's number in its block.
    fn number() -> u32;

    /// The process's number in the grid.
    fn index() -> u32;

    /// Waits for the threads of the process; what they wrote is seen.
    fn sync();
}

/// A process a block. All its threads enter and leave together.
#[derive(Clone, Copy, Debug)]
pub struct Blocks;

impl Group for Blocks {
    const A_BLOCK: usize = 1;

    #[inline(always)]
    fn rank() -> u32 {
        Thread::index_in_block()
    }

    #[inline(always)]
    fn size() -> u32 {
        Thread::block_size()
    }

    #[inline(always)]
    fn number() -> u32 {
        0
    }

    #[inline(always)]
    fn index() -> u32 {
        Thread::block_index()
    }

    #[inline(always)]
    #[track_caller]
    fn sync() {
        Block::sync();
    }
}

/// A process a tile of `W` lanes, in blocks of at most `MOST` tiles: for kernels whose blocks do not meet.
/// Each tile looks and frees by itself, so blocks cost less where they can be had.
#[derive(Clone, Copy, Debug)]
pub struct Tiles<const W: u32, const MOST: usize>;

impl<const W: u32, const MOST: usize> Group for Tiles<W, MOST> {
    const A_BLOCK: usize = MOST;

    #[inline(always)]
    fn rank() -> u32 {
        Thread::lane() % W
    }

    #[inline(always)]
    fn size() -> u32 {
        W
    }

    #[inline(always)]
    fn number() -> u32 {
        Thread::index_in_block() / W
    }

    #[inline(always)]
    fn index() -> u32 {
        Thread::index() as u32 / W
    }

    #[inline(always)]
    #[track_caller]
    fn sync() {
        Tile::<W, Independent>::this().sync();
    }
}
