//! Groups: the threads that enter and leave together as one participant.
use simt::{Block, Independent, Thread, Tile, device};

/// Threads that enter and leave epochs together.
pub trait Group: Copy + Send + Sync + 'static {
    /// Maximum number of participants in a block.
    const A_BLOCK: usize;

    /// Returns the calling thread's rank among the threads of the participant.
    fn rank() -> u32;

    /// Returns the number of threads of the participant.
    fn size() -> u32;

    /// Returns the participant's index in its block.
    fn number() -> u32;

    /// Returns the participant's index in the grid.
    fn index() -> u32;

    /// Synchronizes the threads of the participant; earlier writes become visible to all of them.
    fn sync();
}

/// One participant per block. All its threads enter and leave together.
#[derive(Clone, Copy, Debug)]
pub struct Blocks;

#[device]
impl Group for Blocks {
    const A_BLOCK: usize = 1;

    fn rank() -> u32 {
        Thread::index_in_block()
    }

    fn size() -> u32 {
        Thread::block_size()
    }

    fn number() -> u32 {
        0
    }

    fn index() -> u32 {
        Thread::block_index()
    }

    #[device(caller)]
    fn sync() {
        Block::sync();
    }
}

/// One participant per tile of `W` lanes, in blocks of at most `MOST` tiles: for kernels without barriers of
/// the block. Each tile checks announcements and frees items by itself, so [`Blocks`] costs less where it can
/// be used.
#[derive(Clone, Copy, Debug)]
pub struct Tiles<const W: u32, const MOST: usize>;

#[device]
impl<const W: u32, const MOST: usize> Group for Tiles<W, MOST> {
    const A_BLOCK: usize = MOST;

    fn rank() -> u32 {
        Thread::lane() % W
    }

    fn size() -> u32 {
        W
    }

    fn number() -> u32 {
        Thread::index_in_block() / W
    }

    fn index() -> u32 {
        Thread::index() as u32 / W
    }

    #[device(caller)]
    fn sync() {
        Tile::<W, Independent>::this().sync();
    }
}
