//! Launches as data.
use crate::{Grid, Kernel};
use std::fmt;

/// Maximum number of lanes with a stack. Each stack takes two of the memory mappings that a process may have
/// (65 530 on Linux).
pub const RESIDENT_LANES: u32 = 1 << 14;
const RESIDENT_BLOCKS_PER_WORKER: u32 = 64;

/// Returns the number of blocks that a worker keeps resident.
pub fn resident_per_worker(workers: u32, threads: u32) -> u32 {
    (RESIDENT_LANES / (workers * threads.clamp(1, 1024))).clamp(1, RESIDENT_BLOCKS_PER_WORKER)
}

/// A kernel with its arguments and its grid, for
/// [`Emulator::launch_all`](super::public::Emulator::launch_all).
///
/// ```
/// use simt::emulator::{Emulator, Launch, Options};
/// use simt::{Grid, kernel};
///
/// #[kernel]
/// fn nothing() {}
///
/// let launches = vec![Launch::new(Grid::new(1, 32), Nothing {}), Launch::new(Grid::new(2, 1), Nothing {})];
/// Emulator::new(Options::default()).launch_all(launches)?;
/// # Ok::<(), simt::emulator::Failure>(())
/// ```
///
/// # Cost
///
/// `new` allocates on the host the kernel's arguments and its name.
pub struct Launch {
    pub(super) grid: Grid,
    pub(super) name: String,
    pub(super) body: Box<dyn Fn() + Send + Sync>,
}

impl Launch {
    /// Creates a launch of `kernel` for every thread of `grid`.
    pub fn new<K: Kernel + Send + Sync + 'static>(grid: Grid, kernel: K) -> Self {
        Self { grid, name: K::symbol(), body: Box::new(move || kernel.run()) }
    }
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch").field("kernel", &self.name).field("grid", &self.grid).finish_non_exhaustive()
    }
}

/// A block of a run.
#[derive(Clone, Copy, Debug)]
pub struct BlockId {
    pub launch: usize,
    pub block: u32,
}

/// Returns the blocks of all launches in turn, so that launches that depend on each other are resident
/// together.
pub fn in_turns(launches: &[Launch]) -> Vec<BlockId> {
    let most = launches.iter().map(|launch| launch.grid.blocks).max().unwrap_or(0);
    let ids = |block| (0..launches.len()).map(move |launch| BlockId { launch, block });
    (0..most).flat_map(ids).filter(|id| id.block < launches[id.launch].grid.blocks).collect()
}
