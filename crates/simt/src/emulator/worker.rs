//! A host thread that executes blocks, and the scheduling of lanes and blocks in fast mode.
//!
//! A warp's turn lasts until all its lanes wait, have yielded or have ended. A lane yields when it executes a
//! spin hint, or when the turn's quantum is used up. When all lanes of a block have yielded, the worker
//! switches to its next resident block. When all of these have yielded several times, the worker starts one
//! more block, up to a bound.
use super::block::{Block, Pass};
use super::explore::Explorer;
use super::failure::FailureKind;
use super::lane::{self, Lane};
use super::launch::resident_per_worker;
use super::memory::ranges::RangeCache;
use super::options::Detect;
use super::panics;
use super::run::Run;
use super::stacks::Stacks;
use simt_macros::device;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Quantum of a warp: total steps of its lanes in one turn.
const TURN: u32 = 32 * 1024;
/// Waiting steps counted for a lane that used up its quantum. The lane may do useful work, but it writes
/// nothing.
pub const PREEMPTION_WEIGHT: u64 = 8;
/// Passes in which every resident block yields, before another block is started.
const PATIENCE: usize = 8;

/// A host thread that executes blocks.
pub struct Worker {
    pub run: Arc<Run>,
    pub ranges: RangeCache,
    detect: Detect,
    pub stacks: Stacks,
    explorer: Option<Explorer>,
    quantum: Cell<u32>,
    steps: Cell<u64>,
    waited: Cell<u64>,
    idle: Cell<bool>,
}

impl Worker {
    pub fn new(run: Arc<Run>, explorer: Option<Explorer>) -> Self {
        let detect = run.world.options.detect;
        let ranges = RangeCache::new(detect);
        let stacks = Stacks::new(run.world.options.stack_bytes);
        Self {
            run,
            ranges,
            detect,
            stacks,
            explorer,
            quantum: Cell::new(TURN),
            steps: Cell::new(0),
            waited: Cell::new(0),
            idle: Cell::new(false),
        }
    }

    /// Ends the worker's use of its explorer.
    pub fn into_explorer(self) -> Option<Explorer> {
        self.explorer
    }

    #[device]
    pub fn explorer(&self) -> Option<&Explorer> {
        self.explorer.as_ref()
    }

    #[device]
    pub fn detect(&self) -> Detect {
        self.detect
    }

    /// Returns the steps made so far in fast mode.
    pub fn steps(&self) -> u64 {
        self.steps.get() + u64::from(TURN - self.quantum.get())
    }

    /// Uses up a step of the quantum; returns `false` if none is left.
    #[device]
    pub fn use_quantum(&self) -> bool {
        let fuel = self.quantum.get();
        self.quantum.set(fuel.saturating_sub(1));
        fuel != 0
    }

    pub fn start_turn(&self) {
        self.quantum.set(TURN);
    }

    pub fn end_turn(&self) {
        self.steps.set(self.steps.get() + u64::from(TURN - self.quantum.get()));
        self.quantum.set(TURN);
        if self.run.wants_worker() {
            add_worker(&self.run);
        }
    }

    /// Notes that a lane wrote or ended, so the launch is not hung.
    #[device]
    pub fn progressed(&self) {
        self.waited.set(0);
    }

    /// Notes that a lane waited for others.
    pub fn waited(&self, steps: u64) {
        self.waited.set(self.waited.get() + steps);
    }

    /// Executes blocks until none is left or the launch has failed (fast mode).
    pub fn execute(&self) {
        // Declared outside of `guarded`, so that a panicking lane outlives its panic.
        let mut resident = Vec::new();
        self.guarded(|| self.take_turns(&mut resident));
        drop(resident);
        self.run.worker_left(self.idle.get());
        self.run.count_steps(self.steps());
    }

    /// Runs lanes, and turns a panic of a lane into a failure.
    pub fn guarded(&self, body: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
            match lane::take_current() {
                Some(lane) => {
                    let (kind, line) = panics::take_failure(payload.as_ref());
                    self.run.fail(lane.failure(kind, line, None));
                }
                None => std::panic::resume_unwind(payload),
            }
        }
    }

    #[allow(clippy::vec_box)] // lanes point to their block, which must not move
    fn take_turns(&self, resident: &mut Vec<Box<Block>>) {
        let (mut at, mut yields) = (0, 0);
        loop {
            let more = resident.is_empty() || yields >= PATIENCE * resident.len() && self.has_room(resident);
            if more && let Some(id) = self.run.next_block() {
                at = resident.len();
                yields = 0;
                resident.push(Block::new(self, id, 0));
            }
            let Some(block) = resident.get(at) else { break };
            match block.pass() {
                Pass::Failed => break,
                Pass::Finished => drop(resident.swap_remove(at)),
                Pass::Yielded => {
                    self.yield_block(block);
                    yields += 1;
                    at += 1;
                }
            }
            at = if at < resident.len() { at } else { 0 };
        }
    }

    fn has_room(&self, resident: &[Box<Block>]) -> bool {
        let workers = self.run.workers();
        resident.len() < resident_per_worker(workers, resident[0].threads) as usize
    }

    /// Lets other host threads run after all lanes of a block have yielded, and fails if no worker makes
    /// progress.
    fn yield_block(&self, block: &Block) {
        self.ranges.refresh(&self.run.world.registry);
        let quiet = self.waited.get() >= self.run.world.options.step_limit;
        if quiet != self.idle.replace(quiet) {
            self.run.set_idle(quiet);
        }
        if quiet && self.run.all_quiet() {
            self.run.fail(hang(block.lanes(), self.waited.get()));
        }
        std::thread::yield_now();
    }
}

/// Executes the blocks of a run until all have been executed, on this thread and, if it takes longer, on
/// more.
pub fn execute(run: &Arc<Run>) {
    run.begin();
    Worker::new(run.clone(), None).execute();
    run.join_helpers();
}

/// Executes blocks on one more thread, unless all workers are active.
fn add_worker(run: &Arc<Run>) {
    if run.admits_worker() {
        let helped = run.clone();
        run.add_helper(std::thread::spawn(move || Worker::new(helped, None).execute()));
    }
}

/// Returns a hang failure that names a lane that has not ended.
pub fn hang(lanes: &[Lane], steps: u64) -> super::failure::Failure {
    let waits = |lane: &&Lane| !matches!(lane.place.get(), lane::Place::Ended);
    let lane = lanes.iter().find(waits).unwrap_or(&lanes[0]);
    lane.failure(
        FailureKind::Hang { steps },
        lane.place.get().site().or(lane.passed.get()).map(Into::into),
        None,
    )
}
