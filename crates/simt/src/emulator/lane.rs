//! A lane: one thread of a kernel, as a coroutine with its own stack.
use super::block::{Block, Warp};
use super::collective::Kind;
use super::explore::Explorer;
use super::failure::{Failure, FailureDetails, FailureKind, Party};
use super::site::{Site, SourceLine};
use super::stacks::{LaneStack, Stacks};
use super::worker::Worker;
use corosensei::trap::{CoroutineTrapHandler, TrapHandlerRegs};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use simt_macros::device;
use std::cell::{Cell, UnsafeCell};
use std::ptr;

type Fiber = Coroutine<(), (), (), LaneStack>;

thread_local! {
    static CURRENT: Cell<*const Lane> = const { Cell::new(ptr::null()) };
}

/// State of a lane that is not running.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Runnable.
    Ready,
    /// Waits for the other lanes of a mask.
    Collective(Kind, Site),
    /// Waits for the other threads of its block.
    Barrier(Site),
    /// Its kernel function has returned.
    Ended,
}

impl Place {
    /// Returns the source line at which the lane waits.
    pub fn site(self) -> Option<Site> {
        match self {
            Self::Collective(_, site) | Self::Barrier(site) => Some(site),
            Self::Ready | Self::Ended => None,
        }
    }
}

/// One thread of a kernel.
pub struct Lane {
    /// Index in the block.
    pub thread: u32,
    /// Index in the warp.
    pub lane: u32,
    /// Index among all lanes of the run, in order of creation.
    pub number: u32,
    pub block_index: u32,
    pub block_size: u32,
    pub grid_size: u32,
    pub place: Cell<Place>,
    /// Source line of the lane's last step, named if it hangs or overflows its stack.
    pub passed: Cell<Option<Site>>,
    /// Lowest address of the stack that the kernel may use.
    floor: Cell<usize>,
    /// Ends the lane from a signal's handler.
    trap: Cell<Option<CoroutineTrapHandler<()>>>,
    /// Whether the lane overflowed its stack and was ended.
    overflowed: Cell<bool>,
    warp: *const Warp,
    block: *const Block,
    worker: *const Worker,
    yielder: Cell<*const Yielder<(), ()>>,
    fiber: UnsafeCell<Option<Fiber>>,
}

impl Lane {
    /// Creates a lane that is not yet started. `block` and its warps must outlive it and not move.
    pub fn new(block: &Block, warp: &Warp, worker: &Worker, thread: u32) -> Self {
        Self {
            thread,
            lane: thread % 32,
            number: block.first_number + thread,
            block_index: block.index,
            block_size: block.threads,
            grid_size: block.grid_size,
            place: Cell::new(Place::Ready),
            passed: Cell::new(None),
            floor: Cell::new(0),
            trap: Cell::new(None),
            overflowed: Cell::new(false),
            warp,
            block,
            worker,
            yielder: Cell::new(ptr::null()),
            fiber: UnsafeCell::new(None),
        }
    }

    /// Returns the lane that runs on this host thread. The reference must not be kept beyond the current call
    /// from device code.
    #[device]
    pub fn current() -> &'static Self {
        let lane = CURRENT.get();
        assert!(!lane.is_null(), "device code runs only inside a launched kernel");
        // SAFETY: `resume` set it to a lane whose block outlives the calling coroutine.
        unsafe { &*lane }
    }

    /// Returns the lane that runs on this host thread, if any.
    pub fn try_current() -> Option<&'static Self> {
        let lane = CURRENT.get();
        // SAFETY: as in `current`.
        (!lane.is_null()).then(|| unsafe { &*lane })
    }

    #[device]
    pub fn warp(&self) -> &Warp {
        // SAFETY: the warp outlives its lanes, as `new` requires.
        unsafe { &*self.warp }
    }

    #[device]
    pub fn block(&self) -> &Block {
        // SAFETY: the block outlives its lanes, as `new` requires.
        unsafe { &*self.block }
    }

    #[device]
    pub fn worker(&self) -> &Worker {
        // SAFETY: a worker outlives the blocks it executes.
        unsafe { &*self.worker }
    }

    /// Returns the exploration that the lane is part of, in exploring mode.
    #[device]
    pub fn explorer(&self) -> Option<&Explorer> {
        self.worker().explorer()
    }

    /// Returns `true` if a fault leaves out the lane's barrier at `site`.
    pub fn skips(&self, site: Site) -> bool {
        self.explorer().is_some_and(|explorer| explorer.skips_barrier(site))
    }

    /// Returns the lane's bit in the masks of its warp.
    #[device]
    pub fn bit(&self) -> u32 {
        1 << self.lane
    }

    pub fn is_ready(&self) -> bool {
        self.warp().ready.get() & self.bit() != 0
    }

    /// Runs the lane until it waits, yields or ends. A panic of the kernel propagates.
    // Inlined, like the functions that suspend a lane: the processor mispredicts each return that follows a
    // switch of stacks, because it predicts the address from the last calls, which were on the other stack.
    #[inline(always)]
    pub fn resume(&self) {
        CURRENT.set(self);
        // SAFETY: only the scheduler's thread accesses the coroutine, and never from within the coroutine.
        let fiber = unsafe { &mut *self.fiber.get() };
        if fiber.is_none() {
            *fiber = Some(self.start());
        }
        let state = fiber.as_mut().map_or(CoroutineResult::Return(()), |fiber| fiber.resume(()));
        CURRENT.set(ptr::null());
        if state == CoroutineResult::Return(()) {
            self.returned();
        }
    }

    /// Handles the end of the coroutine.
    #[inline(never)]
    fn returned(&self) {
        self.give_back_stack();
        if self.overflowed.get() {
            let location = self.passed.get().map(Into::into);
            self.worker().run.fail(self.failure(self.stack_overflow(), location, None));
        }
    }

    fn start(&self) -> Fiber {
        let lane: *const Self = self;
        let stack = self.worker().stacks.take(self.lane);
        self.floor.set(Stacks::floor(&stack));
        let fiber = Coroutine::with_stack(stack, move |yielder, ()| {
            // SAFETY: the lane owns its coroutine and so outlives it, and the block does not move the lane.
            let lane = unsafe { &*lane };
            lane.yielder.set(yielder);
            lane.block().run_body();
            if let Some(explorer) = lane.explorer() {
                explorer.store_late(lane, None);
            }
            lane.block().lane_ended(lane);
        });
        self.trap.set(Some(fiber.trap_handler()));
        fiber
    }

    fn stack_overflow(&self) -> FailureKind {
        FailureKind::StackOverflow { bytes: self.worker().run.world.options.stack_bytes }
    }

    /// Returns `true` if the address lies in the guard page below the lane's stack, or in the part of the
    /// stack that only the emulator uses.
    pub fn is_guard(&self, address: usize) -> bool {
        address < self.floor.get() && self.trap.get().is_some_and(|trap| trap.stack_ptr_in_bounds(address))
    }

    /// Notes an overflow of the lane's stack. Returns the registers with which the lane ends.
    ///
    /// # Safety
    /// - The lane is interrupted in a function that owns nothing of the host. A signal's handler continues it
    ///   with the registers.
    pub unsafe fn overflow(&self) -> Option<TrapHandlerRegs> {
        self.overflowed.set(true);
        // SAFETY: the lane's coroutine is running, and its frames own nothing (the caller's obligation).
        self.trap.get().map(|trap| unsafe { trap.setup_trap_handler(|| ()) })
    }

    fn give_back_stack(&self) {
        // SAFETY: as in `resume`.
        if let Some(fiber) = unsafe { (*self.fiber.get()).take() } {
            self.worker().stacks.put(fiber.into_stack());
        }
    }

    /// Switches to another lane; returns when this lane is resumed.
    #[inline(always)]
    pub fn suspend(&self) {
        // SAFETY: set when the coroutine began, and this method is called from within it.
        unsafe { (*self.yielder.get()).suspend(()) };
    }

    /// Suspends the lane until another lane wakes it.
    #[inline(always)]
    pub fn wait(&self, place: Place) {
        self.place.set(place);
        let warp = self.warp();
        warp.ready.set(warp.ready.get() & !self.bit());
        match self.explorer() {
            None => self.suspend(),
            Some(explorer) => explorer.wait(self),
        }
    }

    /// Precedes every operation that other lanes can observe; the lane may yield here.
    #[inline(always)]
    pub fn step(&self, site: Site) {
        let here = 0u8;
        if (&raw const here).addr() < self.floor.get() {
            self.fail(self.stack_overflow(), site, None);
        }
        let worker = self.worker();
        if let Some(explorer) = worker.explorer() {
            explorer.reach(self, site); // needs the last step's site, and notes this one
            return explorer.step(self);
        }
        self.passed.set(Some(site));
        if !worker.use_quantum() {
            self.preempt(site);
        }
    }

    /// Yields because the warp has used up its quantum (fast mode).
    #[cold]
    fn preempt(&self, site: Site) {
        self.worker().waited(super::worker::PREEMPTION_WEIGHT);
        self.yield_at(site);
    }

    /// Executes a spin hint (fast mode).
    pub fn spin(&self, site: Site) {
        self.worker().waited(1);
        self.yield_at(site);
    }

    fn yield_at(&self, site: Site) {
        self.passed.set(Some(site));
        let warp = self.warp();
        warp.yielded.set(warp.yielded.get() | self.bit());
        self.suspend();
    }

    /// Ends the launch with a failure of this lane.
    #[cold]
    pub fn fail(&self, kind: FailureKind, site: Site, other: Option<Party>) -> ! {
        self.fail_as(self, kind, site, other)
    }

    /// Ends the launch with a failure of `culprit`.
    #[cold]
    pub fn fail_as(&self, culprit: &Self, kind: FailureKind, site: Site, other: Option<Party>) -> ! {
        self.end_launch(culprit.failure(kind, Some(site.into()), other))
    }

    /// Ends the launch with a failure.
    #[cold]
    pub fn end_launch(&self, failure: Failure) -> ! {
        self.worker().run.fail(failure);
        loop {
            self.suspend();
        }
    }

    /// Returns a failure of this lane, without reporting it.
    pub fn failure(&self, kind: FailureKind, location: Option<SourceLine>, other: Option<Party>) -> Failure {
        let explorer = self.explorer();
        let (schedule, trace) = (explorer.map(Explorer::schedule), explorer.map(Explorer::trace));
        let faults = explorer.map_or(Vec::new(), Explorer::faults);
        let kernel = self.block().kernel_name().to_owned();
        let (block, thread) = (self.block_index, self.thread);
        FailureDetails { kind, kernel, location, block, thread, other, schedule, trace, faults }.into()
    }

    /// Describes this lane as the other party of a failure.
    pub fn party(&self, action: &str, site: Site) -> Party {
        Party {
            action: action.to_owned(),
            location: site.into(),
            block: self.block_index,
            thread: self.thread,
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(mut fiber) = self.fiber.get_mut().take() {
            // SAFETY: the stack holds the kernel's locals, which a GPU does not drop either when a launch
            // fails, and frames of this crate, which own nothing across a suspension.
            unsafe { fiber.force_reset() };
            self.worker().stacks.put(fiber.into_stack());
        }
    }
}

/// Takes the current lane, after its panic has reached the scheduler.
pub fn take_current() -> Option<&'static Lane> {
    let lane = Lane::try_current();
    CURRENT.set(ptr::null());
    lane
}
