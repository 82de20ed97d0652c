//! The exploring mode: one host thread, and a scheduling decision before every operation that other lanes can
//! observe.
//!
//! A lane calls [`Explorer::step`] before each access, collective, barrier and fence. The scheduler picks the
//! next lane. If it is the same lane, it continues at once; else the lane is suspended and [`execute`]
//! resumes the other. Between two such points no other lane runs, so each access is atomic and the run
//! depends only on the choices.
pub mod early;
mod inject;
mod pct;
mod random;
mod record;
mod replay;
mod schedule;
mod scheduler;
mod trace;
mod weak;

pub use schedule::Schedule;
pub use trace::{Choices, Trace, TraceError};

use super::block::Block;
use super::crash::StoreLog;
use super::detect::clock::Time;
use super::detect::order::{Actor, Orders, granules};
use super::detect::race::{Mark, Races};
use super::detect::stale::History;
use super::detect::versions::Versions;
use super::failure::FailureKind;
use super::lane::Lane;
use super::launch::RESIDENT_LANES;
use super::memory::access::Access;
use super::memory::atomics;
use super::mutant::Operation;
use super::options::{Options, WeakMemory};
use super::site::Site;
use super::worker::{Worker, hang};
use crate::{Order, Scope};
use early::Early;
use inject::Injector;
use scheduler::{Runnable, Scheduler};
use std::cell::{Cell, RefCell};
use trace::Recording;

/// Consecutive spin hints of every lane, without a write in between, after which a launch is reported as
/// hung.
const IDLE_SPINS: u32 = 64;

/// Exploration of one run.
pub struct Explorer {
    schedule: Schedule,
    before: Vec<Choices>,
    step_limit: u64,
    steps: Cell<u64>,
    /// The next lane, once decided.
    next: Cell<Option<u32>>,
    decisions: RefCell<Decisions>,
    idle: RefCell<Idle>,
    memory: Option<RefCell<MemoryModel>>,
    injector: Option<Injector>,
    stores: RefCell<Option<StoreLog>>,
    early: Option<RefCell<Early>>,
}

struct Decisions {
    scheduler: Box<dyn Scheduler>,
    runnable: Runnable,
    recording: Recording,
}

impl Decisions {
    /// Picks the next lane. An error means that the schedule does not fit the program.
    fn pick(&mut self, current: Option<u32>) -> Result<Option<u32>, ()> {
        if self.runnable.lanes().is_empty() {
            return Ok(None);
        }
        let lane = self.scheduler.next(&self.runnable, current).ok_or(())?;
        self.recording.lane(lane);
        Ok(Some(lane))
    }
}

/// Lanes that have only executed spin hints since the last write.
#[derive(Default)]
struct Idle {
    spins: Vec<u32>,
    lanes: usize,
}

impl Idle {
    fn reset(&mut self) {
        self.spins.clear();
        self.lanes = 0;
    }

    fn spin(&mut self, lane: u32) {
        let lane = lane as usize;
        if self.spins.len() <= lane {
            self.spins.resize(lane + 1, 0);
        }
        self.spins[lane] = self.spins[lane].saturating_add(1);
        self.lanes += usize::from(self.spins[lane] == IDLE_SPINS);
    }
}

/// State of the detectors and of the memory model.
#[derive(Default)]
struct MemoryModel {
    orders: Orders,
    races: Option<Races>,
    history: Option<History>,
    versions: Option<Versions>,
}

impl MemoryModel {
    /// Returns the model that the options require, if any.
    fn of(options: &Options) -> Option<Self> {
        let races = options.detect.races.then(Races::default);
        let history = options.stale_l1.then(History::default);
        let versions = (options.weak_memory != WeakMemory::Off).then(Versions::default);
        let orders = Orders::new(options.weak_memory == WeakMemory::Hardware);
        let watches = races.is_some() || history.is_some() || versions.is_some();
        watches.then_some(Self { orders, races, history, versions })
    }
}

impl Explorer {
    /// Creates an exploration by `schedule` of the launch that follows the launches `before`.
    pub fn new(options: &Options, schedule: &Schedule, before: &[Choices]) -> Self {
        Self {
            schedule: schedule.clone(),
            before: before.to_vec(),
            step_limit: options.step_limit,
            steps: Cell::new(0),
            next: Cell::new(None),
            decisions: RefCell::new(Decisions {
                scheduler: schedule.start(before.len()),
                runnable: Runnable::default(),
                recording: Recording::default(),
            }),
            idle: RefCell::default(),
            memory: MemoryModel::of(options).map(RefCell::new),
            injector: Injector::new(&options.faults),
            stores: RefCell::default(),
            early: Early::of(options).map(RefCell::new),
        }
    }

    /// Adds the stores of the run to a record.
    pub fn recording(self, stores: Option<StoreLog>) -> Self {
        // A record has the stores of one attempt, without early ones.
        let early = self.early.filter(|_| stores.is_none());
        Self { stores: RefCell::new(stores), early, ..self }
    }

    pub fn schedule(&self) -> Schedule {
        self.schedule.clone()
    }

    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// Returns the choices of the launch so far.
    pub fn choices(&self) -> Choices {
        self.decisions.borrow().recording.choices()
    }

    /// Returns the choices so far.
    pub fn trace(&self) -> Trace {
        let mut launches = self.before.clone();
        launches.push(self.choices());
        Trace::new(launches)
    }

    /// Returns the injected faults as text.
    pub fn faults(&self) -> Vec<String> {
        self.injector.as_ref().map_or(Vec::new(), Injector::texts)
    }

    /// Returns `true` if a fault leaves out the barrier at `site`.
    pub fn skips_barrier(&self, site: Site) -> bool {
        self.injector.as_ref().is_some_and(|injector| {
            injector.execute_at(Operation::Barrier, Scope::Block, site);
            injector.skips(site)
        })
    }

    /// Returns the scope of a fence; `None` if a fault leaves it out.
    fn scope_of_fence(&self, scope: Scope, site: Site) -> Option<Scope> {
        let Some(injector) = &self.injector else { return Some(scope) };
        injector.execute_at(Operation::Fence, scope, site);
        (!injector.skips(site)).then(|| injector.narrow(site, scope))
    }

    /// Returns a condition, which a fault may have made true.
    pub fn recheck(&self, holds: bool, site: Site) -> bool {
        self.injector.as_ref().map_or(holds, |injector| {
            injector.execute_at(Operation::Recheck, Scope::Block, site);
            holds || injector.skips(site)
        })
    }

    /// Returns a bound, which a fault may have shifted.
    pub fn bound(&self, bound: u32, site: Site) -> u32 {
        self.injector.as_ref().map_or(bound, |injector| {
            injector.execute_at(Operation::Bound, Scope::Block, site);
            injector.shift(site, bound)
        })
    }

    /// Returns `true` if a fault splits the read-modify-write.
    pub fn tears(&self, access: &Access) -> bool {
        self.injector.as_ref().is_some_and(|injector| injector.tears(access))
    }

    /// Executes the lane's delayed stores that are due after its operation at `site`: all if there is none.
    pub fn store_late(&self, lane: &Lane, site: Option<Site>) {
        let Some(injector) = &self.injector else { return };
        for (access, word) in injector.take_due(lane.number, site) {
            self.step(lane);
            // SAFETY: checked when the kernel executed the store; freed memory stays mapped during launches.
            unsafe { self.write(lane, &access, word) };
        }
    }

    /// Notes that the lane has come to an operation at `site`, after its delayed stores that are due.
    pub fn reach(&self, lane: &Lane, site: Site) {
        if let Some(passed) = lane.passed.get() {
            self.store_late(lane, Some(passed));
        }
        lane.passed.set(Some(site));
    }

    /// Decides which lane runs next, before an operation of `lane` that others can observe.
    #[inline(always)]
    pub fn step(&self, lane: &Lane) {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        if self.early.is_some() {
            self.promise(lane);
        }
        if steps > self.step_limit {
            self.give_up(lane);
        }
        let picked = self.decisions.borrow_mut().pick(Some(lane.number));
        match picked {
            Ok(next) if next == Some(lane.number) => {}
            Ok(next) => {
                self.next.set(next);
                lane.suspend();
            }
            Err(()) => self.mismatch(lane),
        }
        if let (Some(injector), Some(site)) = (&self.injector, lane.passed.get()) {
            injector.pass(lane.number, site);
        }
    }

    #[cold]
    fn give_up(&self, lane: &Lane) -> ! {
        lane.end_launch(hang(std::slice::from_ref(lane), self.steps.get()))
    }

    #[cold]
    fn mismatch(&self, lane: &Lane) -> ! {
        let kind = FailureKind::TraceMismatch { step: self.steps.get() };
        lane.end_launch(lane.failure(kind, None, None))
    }

    /// Suspends the lane until another lane wakes it.
    pub fn wait(&self, lane: &Lane) {
        self.decisions.borrow_mut().runnable.remove(lane.number);
        lane.suspend();
    }

    pub fn wake(&self, lane: u32) {
        let mut decisions = self.decisions.borrow_mut();
        decisions.runnable.insert(lane);
        decisions.scheduler.wakes(lane);
    }

    pub fn ended(&self, lane: &Lane) {
        self.decisions.borrow_mut().runnable.remove(lane.number);
        self.idle.borrow_mut().reset();
    }

    /// Executes a spin hint of the lane.
    pub fn spin(&self, lane: &Lane, site: Site) {
        self.reach(lane, site);
        let idle = {
            let mut idle = self.idle.borrow_mut();
            idle.spin(lane.number);
            idle.lanes
        };
        if idle >= self.decisions.borrow().runnable.lanes().len() {
            self.give_up(lane);
        }
        self.decisions.borrow_mut().scheduler.spins(lane.number);
        self.step(lane);
    }

    /// Synchronizes lanes at a collective or barrier that orders memory.
    pub fn synchronize(&self, lanes: impl Iterator<Item = u32>) {
        if let Some(memory) = &self.memory {
            let lanes: Vec<_> = lanes.collect();
            memory.borrow_mut().orders.meet(&lanes);
            self.mix(&lanes);
        }
    }

    /// Records a collective that exchanges registers but orders nothing.
    pub fn exchange(&self, lanes: impl Iterator<Item = u32>) {
        if let Some(memory) = &self.memory {
            let lanes: Vec<_> = lanes.collect();
            memory.borrow_mut().exchange(&lanes);
            self.mix(&lanes);
        }
    }

    /// Records a read of the device's clock.
    pub fn read_clock(&self, lane: &Lane) {
        if let Some(memory) = &self.memory {
            memory.borrow_mut().read_clock(lane.block());
        }
    }

    pub fn fence(&self, lane: &Lane, scope: Scope, site: Site) {
        let Some(scope) = self.scope_of_fence(scope, site) else { return };
        if let Some(memory) = &self.memory {
            memory.borrow_mut().orders.fence(lane.number, scope);
        }
        self.fenced(lane);
        self.settle(lane, scope);
    }

    /// Executes a sequentially consistent fence.
    pub fn fence_sc(&self, lane: &Lane, scope: Scope, site: Site) {
        let Some(scope) = self.scope_of_fence(scope, site) else { return };
        if let Some(memory) = &self.memory {
            memory.borrow_mut().orders.fence_sc(actor(lane), scope);
        }
        self.fenced(lane);
        self.settle(lane, scope);
    }

    /// Executes a read of global memory that holds `newest`. Returns the value that the lane reads.
    pub fn load(&self, lane: &Lane, access: &Access, newest: u128) -> u128 {
        let access = &self.reordered(Operation::Load, access);
        let word = self.read(lane, access, newest);
        self.injector.as_ref().map_or(word, |injector| {
            let word = injector.substitute(access, newest, word);
            injector.see(lane, access, word);
            word
        })
    }

    fn read(&self, lane: &Lane, access: &Access, newest: u128) -> u128 {
        self.watch(lane, access, false);
        if let Some(past) = self.read_early(lane, access, newest) {
            return past;
        }
        let Some(memory) = &self.memory else { return newest };
        if access.order == Order::Weak {
            let value = self.load_weak(lane, access, newest);
            self.note(lane, access, (Some(value), None), Time::MAX);
            return value;
        }
        let chosen = self.choose_version(lane, access);
        let value = match chosen {
            None => {
                memory.borrow_mut().read_newest(lane, access);
                newest
            }
            Some(time) => memory.borrow_mut().read_version(lane, access, newest, time),
        };
        self.note(lane, access, (Some(value), None), chosen.unwrap_or(Time::MAX));
        value
    }

    fn load_weak(&self, lane: &Lane, access: &Access, newest: u128) -> u128 {
        let mut value = newest;
        for (i, (granule, bytes)) in granules(access.address, access.bytes).enumerate() {
            let stale = self.memory.as_ref().map_or(Vec::new(), |memory| {
                let memory = memory.borrow();
                let stale = |history: &History| history.stale(&memory.orders, lane.number, granule, bytes);
                memory.history.as_ref().map_or(Vec::new(), stale)
            });
            if let Some(old) = self.choose(lane, &stale) {
                value = weak::with_granule(value, access, i, old);
            }
            self.depend(lane, access, i, value);
        }
        value
    }

    /// Chooses one of the stale values, or `None` for the newest.
    fn choose(&self, lane: &Lane, stale: &[u64]) -> Option<u64> {
        if stale.is_empty() {
            return None;
        }
        match self.option(lane, stale.len() as u32 + 1) {
            0 => None,
            choice => Some(stale[choice as usize - 1]),
        }
    }

    /// Lets the scheduler choose one of `0..options`.
    fn option(&self, lane: &Lane, options: u32) -> u32 {
        self.choose_freely(options).unwrap_or_else(|| self.mismatch(lane))
    }

    /// Lets the scheduler choose one of `0..options`; `None` if the schedule does not fit the program.
    fn choose_freely(&self, options: u32) -> Option<u32> {
        let mut decisions = self.decisions.borrow_mut();
        let choice = decisions.scheduler.choose(options);
        choice.inspect(|&choice| decisions.recording.option(choice))
    }

    /// Records a read of shared memory.
    pub fn load_shared(&self, lane: &Lane, access: &Access) {
        self.share(lane, access, false);
        self.watch(lane, access, false);
    }

    /// Returns the access with the order and the scope that a fault requires.
    fn reordered(&self, operation: Operation, access: &Access) -> Access {
        self.injector.as_ref().map_or(*access, |injector| {
            injector.execute(operation, access);
            injector.reorder(access)
        })
    }

    /// Notes for faults that the lane has written `word`.
    fn notice(&self, lane: &Lane, access: &Access, word: u128) {
        if let Some(injector) = &self.injector {
            injector.wrote(lane.number, access.site);
            injector.see(lane, access, word);
        }
    }

    /// Returns the past value of a word that a fault makes the lane read.
    fn read_early(&self, lane: &Lane, access: &Access, newest: u128) -> Option<u128> {
        self.injector.as_ref().and_then(|injector| injector.read_early(lane, access, newest))
    }

    /// Returns the word that is written instead of `new`; `None` if a fault leaves the write out.
    fn replaced(&self, access: &Access, old: u128, new: u128) -> Option<u128> {
        self.injector.as_ref().map_or(Some(new), |injector| injector.replace(access, old, new))
    }

    /// Executes a write.
    ///
    /// # Safety
    /// - The bytes are valid for writes.
    pub unsafe fn store(&self, lane: &Lane, access: &Access, new: u128) {
        let access = self.reordered(Operation::Store, access);
        // SAFETY: the caller's obligation.
        let old = unsafe { current(&access) };
        let Some(word) = self.replaced(&access, old, new) else { return };
        if !self.injector.as_ref().is_some_and(|injector| injector.delay(lane.number, &access, word)) {
            // SAFETY: the caller's obligation.
            unsafe { self.write(lane, &access, word) };
        }
    }

    /// Executes a write that no fault affects.
    ///
    /// # Safety
    /// - As for [`Self::store`].
    unsafe fn write(&self, lane: &Lane, access: &Access, word: u128) {
        self.notice(lane, access, word);
        self.idle.borrow_mut().reset();
        self.share(lane, access, true);
        if self.fulfil(lane, access, false, &|_| Some(word)).is_some() {
            return;
        }
        self.watch(lane, access, true);
        self.watch_reuse(lane, access);
        self.record(lane, access, word);
        self.note(lane, access, (None, Some(word)), Time::MAX);
        if let Some(time) = self.choose_place(lane, access) {
            return self.overtaken(lane, access, false, (word, time));
        }
        self.written(lane, access, false, word);
        // SAFETY: the caller's obligation.
        unsafe { atomics::store(access.address, access.bytes, word, access.order) };
    }

    /// Executes a read-modify-write: `new` returns the word that replaces the current one, or `None` if the
    /// operation only reads. Returns the word before.
    ///
    /// # Safety
    /// - The bytes are valid for reads and writes.
    pub unsafe fn update(&self, lane: &Lane, access: &Access, new: impl Fn(u128) -> Option<u128>) -> u128 {
        let access = self.reordered(Operation::Update, access);
        let strong = if access.order == Order::Weak { Order::Relaxed } else { access.order };
        let access = Access { order: strong, ..access };
        self.share(lane, &access, true);
        if let Some(old) = self.fulfil(lane, &access, true, &new) {
            return old;
        }
        if let Some(old) = self.update_older(lane, &access, &new) {
            return old;
        }
        // SAFETY: the caller's obligation.
        let old = unsafe { current(&access) };
        let new = new(old).and_then(|new| self.replaced(&access, old, new));
        self.watch(lane, &access, new.is_some());
        if let Some(memory) = &self.memory {
            memory.borrow_mut().read_newest(lane, &access);
        }
        self.note(lane, &access, (Some(old), new), Time::MAX);
        if let Some(new) = new {
            self.notice(lane, &access, new);
            self.idle.borrow_mut().reset();
            self.record(lane, &access, new);
            self.written(lane, &access, true, new);
            // SAFETY: the caller's obligation.
            unsafe { atomics::store(access.address, access.bytes, new, access.order) };
        }
        old
    }

    fn written(&self, lane: &Lane, access: &Access, update: bool, new: u128) {
        if let Some(injector) = &self.injector {
            // SAFETY: the caller checked the bytes before it writes them.
            injector.overwrite(access, unsafe { current(access) });
        }
        self.change(lane, access, new);
        let tainted = self.taints(lane);
        let Some(memory) = &self.memory else { return };
        let memory = &mut *memory.borrow_mut();
        let timestamp = memory.orders.timestamp(lane.number);
        for (granule, bytes) in granules(access.address, access.bytes) {
            memory.orders.write(actor(lane), granule, bytes, (access.order, access.scope), update);
            if let Some(history) = &mut memory.history {
                history.overwrite(granule, bytes, weak::granule_value(granule), timestamp);
            }
        }
        let time = memory.add_versions(lane, access, (update, tainted), new);
        if matches!(access.order, Order::Release | Order::AcqRel) {
            memory.orders.advance(lane.number);
        }
        if update && time > 0 {
            self.continues(memory, access, time - 1, time);
        }
    }

    /// Forgets the shared memory of an ended block, since another block may reuse it.
    fn block_ended(&self, block: &Block) {
        let Some(memory) = &self.memory else { return };
        let memory = &mut *memory.borrow_mut();
        block.shared.each(|address, bytes| {
            memory.orders.forget(address, bytes);
            memory.races.iter_mut().for_each(|races| races.forget(address, bytes));
            memory.history.iter_mut().for_each(|history| history.forget(address, bytes));
            memory.versions.iter_mut().for_each(|versions| versions.forget(address, bytes));
        });
    }

    /// Fails if the access races with an earlier one.
    fn watch(&self, lane: &Lane, access: &Access, writes: bool) {
        let Some(memory) = &self.memory else { return };
        let race = {
            let memory = &mut *memory.borrow_mut();
            let mark = mark(&mut memory.orders, lane, access, writes);
            let races = memory.races.as_mut();
            races
                .and_then(|races| races.access(&memory.orders, access.address, access.bytes, &mark))
                .zip(Some(mark))
        };
        if let Some((earlier, mark)) = race {
            let kind =
                FailureKind::DataRace { address: access.address, bytes: access.bytes, access: mark.action() };
            lane.fail(kind, access.site, Some(earlier.party()));
        }
    }
}

/// Returns the current word, while no other lane runs.
///
/// # Safety
/// - The bytes are valid for reads.
unsafe fn current(access: &Access) -> u128 {
    // SAFETY: the caller's obligation.
    unsafe { atomics::load(access.address, access.bytes, Order::Relaxed) }
}

fn actor(lane: &Lane) -> Actor {
    Actor { lane: lane.number, block: (lane.block().launch as u64) << 32 | u64::from(lane.block_index) }
}

fn mark(orders: &mut Orders, lane: &Lane, access: &Access, writes: bool) -> Mark {
    Mark {
        timestamp: orders.timestamp(lane.number),
        actor: actor(lane),
        writes,
        weak: access.order == Order::Weak,
        narrow: access.scope == Scope::Block,
        site: access.site,
        block: lane.block_index,
        thread: lane.thread,
    }
}

/// Runs the launches of the worker's run to their end. Returns the number of steps, and the choices.
pub fn execute(worker: &Worker) -> (u64, Choices) {
    let Some(explorer) = worker.explorer() else { return (0, Choices::default()) };
    // Declared outside of `guarded`, so that a panicking lane outlives its panic.
    let mut blocks = Vec::new();
    worker.guarded(|| execute_blocks(worker, explorer, &mut blocks));
    drop(blocks);
    (explorer.steps(), explorer.choices())
}

/// Runs the blocks. Each block has a slot with as many lane numbers as the largest block, so a lane's number
/// determines its slot.
fn execute_blocks(worker: &Worker, explorer: &Explorer, slots: &mut Vec<Option<Box<Block>>>) {
    let lanes = worker.run.launches.iter().map(|launch| launch.grid.threads).max().unwrap_or(1);
    for slot in 0..RESIDENT_LANES / lanes {
        match start_block(worker, explorer, slot * lanes) {
            Some(block) => slots.push(Some(block)),
            None => break,
        }
    }
    while !worker.run.has_failed() {
        let picked = match explorer.next.take() {
            Some(lane) => Ok(Some(lane)),
            None => explorer.decisions.borrow_mut().pick(None),
        };
        let Ok(picked) = picked else { return report_mismatch(worker, explorer, slots) };
        let Some(number) = picked else { return report_deadlock(worker, slots) };
        let slot = &mut slots[(number / lanes) as usize];
        let Some(block) = slot else { return };
        block.lane(number % lanes).resume();
        if block.is_finished() {
            explorer.block_ended(block);
            *slot = start_block(worker, explorer, number / lanes * lanes);
        }
    }
}

fn start_block(worker: &Worker, explorer: &Explorer, first_number: u32) -> Option<Box<Block>> {
    let block = Block::new(worker, worker.run.next_block()?, first_number);
    block.lanes().iter().for_each(|lane| explorer.wake(lane.number));
    Some(block)
}

fn report_mismatch(worker: &Worker, explorer: &Explorer, slots: &[Option<Box<Block>>]) {
    if let Some(block) = slots.iter().flatten().next() {
        let kind = FailureKind::TraceMismatch { step: explorer.steps() };
        worker.run.fail(block.lane(0).failure(kind, None, None));
    }
}

/// Reports a deadlock when no lane can run, unless all have ended.
fn report_deadlock(worker: &Worker, slots: &[Option<Box<Block>>]) {
    if let Some(block) = slots.iter().flatten().next() {
        worker.run.fail(block.deadlock());
    }
}
