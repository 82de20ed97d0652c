//! Runs: concurrent launches whose blocks are distributed to workers one by one.
use super::failure::Failure;
use super::launch::{BlockId, Launch, RESIDENT_LANES, in_turns};
use super::options::Mode;
use super::world::World;
use simt_macros::device;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval after which a running launch gets one more thread.
const THREAD_PAYS_AFTER: Duration = Duration::from_micros(100);

/// State shared by the workers of concurrent launches.
pub struct Run {
    pub world: Arc<World>,
    pub launches: Arc<[Launch]>,
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
    pub fn new(world: Arc<World>, launches: Arc<[Launch]>) -> Self {
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

    /// Returns `true` if one more worker may start, and counts it.
    pub fn admits_worker(&self) -> bool {
        let more = |active| (active < self.workers).then_some(active + 1);
        self.active.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Counts the first worker.
    pub fn begin(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps the thread of a worker, to be joined by [`Self::join_helpers`].
    pub fn add_helper(&self, helper: JoinHandle<()>) {
        self.helpers.lock().unwrap_or_else(PoisonError::into_inner).push(helper);
    }

    /// Waits for the threads of all other workers.
    pub fn join_helpers(&self) {
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
