//! Launches as data, and runs: concurrent launches whose blocks are distributed to workers one by one.
use super::failure::Failure;
use super::machine::World;
use super::options::Mode;
use super::worker::Worker;
use crate::{Grid, Kernel, device};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum number of lanes with a stack. Each stack takes two of the memory mappings that a process may have
/// (65 530 on Linux).
pub const RESIDENT_LANES: u32 = 1 << 14;
const RESIDENT_BLOCKS_PER_WORKER: u32 = 64;
/// Interval after which a running launch gets one more thread.
const THREAD_PAYS_AFTER: Duration = Duration::from_micros(100);

/// Returns the number of blocks that a worker keeps resident.
pub fn resident_per_worker(workers: u32, threads: u32) -> u32 {
    (RESIDENT_LANES / (workers * threads.clamp(1, 1024))).clamp(1, RESIDENT_BLOCKS_PER_WORKER)
}

/// A kernel with its arguments and its grid, for
/// [`Emulator::launch_all`](super::public::Emulator::launch_all).
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

/// State shared by the workers of concurrent launches.
pub struct Run {
    pub world: Arc<World>,
    pub launches: Vec<Launch>,
    /// Blocks in start order; `None` for a single launch, whose blocks start in index order.
    order: Option<Vec<BlockId>>,
    next: AtomicU64,
    workers: u32,
    active: AtomicU32,
    idle: AtomicU32,
    steps: AtomicU64,
    started: Instant,
    helpers: Mutex<Vec<JoinHandle<()>>>,
    failed: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

impl Run {
    pub fn new(world: Arc<World>, launches: Vec<Launch>) -> Self {
        let order = (launches.len() > 1).then(|| in_turns(&launches));
        let blocks = launches.iter().map(|launch| u64::from(launch.grid.blocks)).sum();
        let threads = launches.iter().map(|launch| launch.grid.threads).max().unwrap_or(1);
        let workers = match world.options.mode {
            Mode::Fast { workers } => {
                (workers.max(1) as u64).min(blocks).min(u64::from(RESIDENT_LANES / threads)) as u32
            }
            Mode::Explore(_) => 1,
        };
        Self {
            world,
            launches,
            order,
            next: AtomicU64::new(0),
            workers,
            active: AtomicU32::new(0),
            idle: AtomicU32::new(0),
            steps: AtomicU64::new(0),
            started: Instant::now(),
            helpers: Mutex::default(),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    pub fn workers(&self) -> u32 {
        self.workers
    }

    /// Takes the next block.
    pub fn next_block(&self) -> Option<BlockId> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        match &self.order {
            Some(order) => order.get(next as usize).copied(),
            None if next < u64::from(self.launches[0].grid.blocks) => {
                Some(BlockId { launch: 0, block: next as u32 })
            }
            None => None,
        }
    }

    #[device]
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Ends the run. Only the first failure is kept.
    pub fn fail(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.failed.store(true, Ordering::Relaxed);
    }

    pub fn take_failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Notes that a worker has made no progress for long, or makes progress again.
    pub fn set_idle(&self, quiet: bool) {
        if quiet {
            self.idle.fetch_add(1, Ordering::Relaxed);
        } else {
            self.idle.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub fn all_quiet(&self) -> bool {
        self.idle.load(Ordering::Relaxed) >= self.active.load(Ordering::Relaxed)
    }

    /// Returns `true` if another worker would find a block, and the launch has run long enough to justify a
    /// thread.
    pub fn wants_worker(&self) -> bool {
        let active = self.active.load(Ordering::Relaxed);
        let blocks =
            self.order.as_ref().map_or(u64::from(self.launches[0].grid.blocks), |order| order.len() as u64);
        active < self.workers
            && self.next.load(Ordering::Relaxed) < blocks
            && self.started.elapsed() >= THREAD_PAYS_AFTER * active
    }

    /// Executes blocks on one more thread, unless all workers are active.
    pub fn add_worker(self: &Arc<Self>) {
        let more = |active| (active < self.workers).then_some(active + 1);
        if self.active.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
            let run = self.clone();
            let helper = std::thread::spawn(move || Worker::new(run, None).execute());
            self.helpers.lock().unwrap_or_else(PoisonError::into_inner).push(helper);
        }
    }

    /// Executes blocks on this thread until all have been executed.
    pub fn execute(self: &Arc<Self>) {
        self.active.fetch_add(1, Ordering::Relaxed);
        Worker::new(self.clone(), None).execute();
        let next = || self.helpers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        while let Some(helper) = next() {
            helper.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload));
        }
    }

    pub fn worker_left(&self, quiet: bool) {
        if quiet {
            self.set_idle(false);
        }
        self.active.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn count_steps(&self, steps: u64) {
        self.steps.fetch_add(steps, Ordering::Relaxed);
    }

    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }
}

/// Returns the blocks of all launches in turn, so that launches that depend on each other are resident
/// together.
fn in_turns(launches: &[Launch]) -> Vec<BlockId> {
    let most = launches.iter().map(|launch| launch.grid.blocks).max().unwrap_or(0);
    let ids = |block| (0..launches.len()).map(move |launch| BlockId { launch, block });
    (0..most).flat_map(ids).filter(|id| id.block < launches[id.launch].grid.blocks).collect()
}
