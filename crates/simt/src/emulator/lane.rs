//! A lane: one thread of a kernel, as a coroutine with a stack of its own.
use super::block::{Block, Warp};
use super::collective::Kind;
use super::explore::Explorer;
use super::failure::{Failure, FailureDetails, FailureKind, Party, SourceLine};
use super::worker::Worker;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, UnsafeCell};
use std::panic::Location;
use std::ptr;

/// The line of kernel source that an access or a collective stands on.
pub type Site = &'static Location<'static>;

type Fiber = Coroutine<(), (), (), DefaultStack>;

thread_local! {
    static CURRENT: Cell<*const Lane> = const { Cell::new(ptr::null()) };
}

/// What a lane does that is not running.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Able to run.
    Ready,
    /// Waits for the other lanes of a mask.
    Collective(Kind, Site),
    /// Waits for the other threads of its block.
    Barrier(Site),
    /// Its kernel function returned.
    Ended,
}

impl Place {
    /// The line of source that the lane waits at.
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
    /// Index among all lanes of the run, in the order in which they were made.
    pub number: u32,
    pub block_index: u32,
    pub block_size: u32,
    pub grid_size: u32,
    pub place: Cell<Place>,
    /// Where the lane last came by: the place to name when it hangs.
    pub passed: Cell<Option<Site>>,
    warp: *const Warp,
    block: *const Block,
    worker: *const Worker,
    yielder: Cell<*const Yielder<(), ()>>,
    fiber: UnsafeCell<Option<Fiber>>,
}

impl Lane {
    /// A lane that is not yet started. `block` and its warps outlive it and stay where they are.
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
            warp,
            block,
            worker,
            yielder: Cell::new(ptr::null()),
            fiber: UnsafeCell::new(None),
        }
    }

    /// The lane that runs on this thread of the host. Not to be kept beyond the call of the seam that asks.
    #[inline(always)]
    pub fn current() -> &'static Self {
        let lane = CURRENT.get();
        assert!(!lane.is_null(), "device code runs only inside a launched kernel");
        // SAFETY: `resume` set it to a lane whose block outlives the coroutine that is asking.
        unsafe { &*lane }
    }

    /// The lane that runs on this thread of the host, if one does.
    pub fn try_current() -> Option<&'static Self> {
        let lane = CURRENT.get();
        // SAFETY: as in `current`.
        (!lane.is_null()).then(|| unsafe { &*lane })
    }

    #[inline(always)]
    pub fn warp(&self) -> &Warp {
        // SAFETY: the warp outlives its lanes, by `new`'s condition.
        unsafe { &*self.warp }
    }

    #[inline(always)]
    pub fn block(&self) -> &Block {
        // SAFETY: the block outlives its lanes, by `new`'s condition.
        unsafe { &*self.block }
    }

    #[inline(always)]
    pub fn worker(&self) -> &Worker {
        // SAFETY: a worker outlives the blocks it executes.
        unsafe { &*self.worker }
    }

    /// The exploration that the lane is part of, in exploring mode.
    #[inline(always)]
    pub fn explorer(&self) -> Option<&Explorer> {
        self.worker().explorer()
    }

    /// The lane's bit in the masks of its warp.
    #[inline(always)]
    pub fn bit(&self) -> u32 {
        1 << self.lane
    }

    pub fn is_ready(&self) -> bool {
        self.warp().ready.get() & self.bit() != 0
    }

    /// Lets the lane run until it waits, yields or ends. A panic of the kernel passes through.
    pub fn resume(&self) {
        CURRENT.set(self);
        // SAFETY: only the scheduler's thread touches the coroutine, and never from within the coroutine.
        let fiber = unsafe { &mut *self.fiber.get() };
        let state = fiber.get_or_insert_with(|| self.start()).resume(());
        CURRENT.set(ptr::null());
        if state == CoroutineResult::Return(()) {
            self.give_back_stack();
        }
    }

    fn start(&self) -> Fiber {
        let lane: *const Self = self;
        Coroutine::with_stack(self.worker().stacks.take(), move |yielder, ()| {
            // SAFETY: the lane outlives its coroutine: it owns it, and its block does not move it.
            let lane = unsafe { &*lane };
            lane.yielder.set(yielder);
            lane.block().run_body();
            lane.block().lane_ended(lane);
        })
    }

    fn give_back_stack(&self) {
        // SAFETY: as in `resume`.
        if let Some(fiber) = unsafe { (*self.fiber.get()).take() } {
            self.worker().stacks.put(fiber.into_stack());
        }
    }

    /// Goes on with another lane; returns when this one is resumed.
    #[inline(always)]
    pub fn suspend(&self) {
        // SAFETY: set when the coroutine began, and this is called from within it.
        unsafe { (*self.yielder.get()).suspend(()) };
    }

    /// Waits until another lane wakes this one.
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

    /// What precedes every step of a lane that others could notice: the place where it may have to give way.
    #[inline(always)]
    pub fn step(&self, site: Site) {
        let worker = self.worker();
        match worker.explorer() {
            Some(explorer) => {
                self.passed.set(Some(site));
                explorer.step(self);
            }
            None if worker.burn() => {}
            None => self.preempt(site),
        }
    }

    /// Fast mode: the warp has had its turn.
    #[cold]
    fn preempt(&self, site: Site) {
        self.worker().waited(super::worker::PREEMPTION_WEIGHT);
        self.rest(site);
    }

    /// Fast mode: says that the lane only waits.
    pub fn spin(&self, site: Site) {
        self.worker().waited(1);
        self.rest(site);
    }

    fn rest(&self, site: Site) {
        self.passed.set(Some(site));
        let warp = self.warp();
        warp.resting.set(warp.resting.get() | self.bit());
        self.suspend();
    }

    /// Ends the launch.
    #[cold]
    pub fn fail(&self, kind: FailureKind, site: Site, other: Option<Party>) -> ! {
        self.fail_as(self, kind, site, other)
    }

    /// Ends the launch for what `culprit` did.
    #[cold]
    pub fn fail_as(&self, culprit: &Self, kind: FailureKind, site: Site, other: Option<Party>) -> ! {
        self.worker().run.fail(culprit.failure(kind, Some(site.into()), other));
        loop {
            self.suspend();
        }
    }

    /// A failure of this lane, which is not yet reported.
    pub fn failure(&self, kind: FailureKind, location: Option<SourceLine>, other: Option<Party>) -> Failure {
        let (schedule, trace) = match self.explorer() {
            Some(explorer) => (Some(explorer.schedule()), Some(explorer.trace())),
            None => (None, None),
        };
        let kernel = self.block().kernel_name().to_owned();
        let (block, thread) = (self.block_index, self.thread);
        FailureDetails { kind, kernel, location, block, thread, other, schedule, trace }.into()
    }

    /// This lane as the other party of a failure.
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
            // SAFETY: what is on the stack is the kernel's locals, which a GPU does not drop either when a
            // launch fails, and frames of this crate, which hold nothing across a suspension.
            unsafe { fiber.force_reset() };
            self.worker().stacks.put(fiber.into_stack());
        }
    }
}

/// The lane that panicked, once its panic has reached the scheduler.
pub fn take_current() -> Option<&'static Lane> {
    let lane = Lane::try_current();
    CURRENT.set(ptr::null());
    lane
}
