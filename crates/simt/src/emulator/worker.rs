//! A thread of the host that executes blocks, and the rules by which lanes and blocks take turns in fast
//! mode.
//!
//! A warp's turn lasts until all its lanes wait, rest or have ended. A lane rests when it says that it spins,
//! or when the turn has used up its steps. A block whose lanes all rest makes room for the worker's next
//! resident block; when all of these have rested several times, the worker starts one more block, up to a
//! bound.
use super::block::{Block, Pass};
use super::explore::Explorer;
use super::failure::FailureKind;
use super::lane::{self, Lane};
use super::launch::{Run, resident_per_worker};
use super::memory::access::RangeCache;
use super::options::Detect;
use super::panics;
use super::stacks::Stacks;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Steps that the lanes of a warp make in one turn, in all, if they do not wait.
const TURN: u32 = 32 * 1024;
/// What a lane that used up its turn adds to the steps spent waiting. It may do useful work, only it writes
/// nothing.
pub const PREEMPTION_WEIGHT: u64 = 8;
/// How many times the resident blocks rest before one more is started.
const PATIENCE: usize = 8;

/// A thread of the host that executes blocks.
pub struct Worker {
    pub run: Arc<Run>,
    pub ranges: RangeCache,
    detect: Detect,
    pub stacks: Stacks,
    explorer: Option<Explorer>,
    fuel: Cell<u32>,
    steps: Cell<u64>,
    waited: Cell<u64>,
    quiet: Cell<bool>,
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
            fuel: Cell::new(TURN),
            steps: Cell::new(0),
            waited: Cell::new(0),
            quiet: Cell::new(false),
        }
    }

    #[inline(always)]
    pub fn explorer(&self) -> Option<&Explorer> {
        self.explorer.as_ref()
    }

    #[inline(always)]
    pub fn detect(&self) -> Detect {
        self.detect
    }

    /// Steps made so far in fast mode.
    pub fn steps(&self) -> u64 {
        self.steps.get() + u64::from(TURN - self.fuel.get())
    }

    /// Uses up a step of the turn; no when none is left.
    #[inline(always)]
    pub fn burn(&self) -> bool {
        let fuel = self.fuel.get();
        self.fuel.set(fuel.saturating_sub(1));
        fuel != 0
    }

    pub fn start_turn(&self) {
        self.fuel.set(TURN);
    }

    pub fn end_turn(&self) {
        self.steps.set(self.steps.get() + u64::from(TURN - self.fuel.get()));
        self.fuel.set(TURN);
        if self.run.wants_worker() {
            self.run.add_worker();
        }
    }

    /// A lane wrote, or ended: the launch is not hung.
    #[inline(always)]
    pub fn progressed(&self) {
        self.waited.set(0);
    }

    /// A lane waited for others.
    pub fn waited(&self, steps: u64) {
        self.waited.set(self.waited.get() + steps);
    }

    /// Fast mode: executes blocks until none is left or the launch has failed.
    pub fn execute(&self) {
        // Outlives a panic, whose lane is one of these.
        let mut resident = Vec::new();
        self.guarded(|| self.take_turns(&mut resident));
        drop(resident);
        self.run.worker_left(self.quiet.get());
        self.run.count_steps(self.steps());
    }

    /// Runs lanes, and makes a panic of one a failure.
    pub fn guarded(&self, body: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
            match lane::take_current() {
                Some(lane) => panics::report(lane, payload.as_ref()),
                None => std::panic::resume_unwind(payload),
            }
        }
    }

    #[allow(clippy::vec_box)] // lanes point to their block, which must not move
    fn take_turns(&self, resident: &mut Vec<Box<Block>>) {
        let (mut at, mut rests) = (0, 0);
        loop {
            let more = resident.is_empty() || rests >= PATIENCE * resident.len() && self.has_room(resident);
            if more && let Some(id) = self.run.next_block() {
                at = resident.len();
                rests = 0;
                resident.push(Block::new(self, id, 0));
            }
            let Some(block) = resident.get(at) else { break };
            match block.pass() {
                Pass::Failed => break,
                Pass::Finished => drop(resident.swap_remove(at)),
                Pass::Resting => {
                    self.rest(block);
                    rests += 1;
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

    /// All lanes of a block rest: lets other threads of the host run, and sees whether anybody gets further
    /// at all.
    fn rest(&self, block: &Block) {
        self.ranges.refresh(&self.run.world.registry);
        let quiet = self.waited.get() >= self.run.world.options.step_limit;
        if quiet != self.quiet.replace(quiet) {
            self.run.set_quiet(quiet);
        }
        if quiet && self.run.all_quiet() {
            self.run.fail(hang(block.lanes(), self.waited.get()));
        }
        std::thread::yield_now();
    }
}

/// Nobody gets further: blames a lane that has not ended.
pub fn hang(lanes: &[Lane], steps: u64) -> super::failure::Failure {
    let waits = |lane: &&Lane| !matches!(lane.place.get(), lane::Place::Ended);
    let lane = lanes.iter().find(waits).unwrap_or(&lanes[0]);
    lane.failure(
        FailureKind::Hang { steps },
        lane.place.get().site().or(lane.passed.get()).map(Into::into),
        None,
    )
}
