//! Early writes: a write that becomes visible to other lanes before earlier reads of its lane (the litmus
//! test load buffering, LB), as in the promising semantics (Kang et al., POPL 2017).
//!
//! Device code runs natively, so a read needs its value at once, and what a lane will write is known only
//! once it has run. Therefore a launch is run twice. The first attempt has no early writes, and records what
//! each lane does. Its writes to memory are then undone, and the second attempt makes some of the recorded
//! writes visible early: *promises*. When the lane comes to the write, it must fulfil the promise:
//!
//! 1. The lane has accessed the same addresses at the same source lines as in the first attempt, and writes
//!    the same value.
//! 2. Each of its reads whose value may derive from a promise returned another value in the first attempt.
//!    The written value then does not depend on it: no value comes out of thin air.
//! 3. The lane's view does not exclude the write's time. Its releases reach those that have read the write,
//!    which have acquired nothing from it.
//!
//! If one of these fails, or a promise remains at the end, the second attempt is abandoned, and memory gets
//! the contents that the first left.
//!
//! Points 1 and 2 prove independence only if a branch that depends on a read shows in the addresses or in the
//! value, or is taken otherwise for the value of the first attempt. So kernels that test a value before they
//! write may show outcomes that no GPU shows.
use super::super::detect::clock::Time;
use super::super::detect::order::{Actor, Release, granules, sees};
use super::super::lane::Lane;
use super::super::memory::access::Access;
use super::super::memory::atomics;
use super::super::memory::registry::{Found, Registry};
use super::super::mutant;
use super::super::options::{Options, WeakMemory};
use super::super::worker::hang;
use super::weak::{between, granule_value};
use super::{Decisions, Explorer, Idle, MemoryModel, Runnable, actor, current};
use crate::{Order, Scope};
use std::cell::{Cell, RefCell};

/// Steps before a write at which it may become visible.
const WINDOW: u32 = 16;

/// Maximum number of promises of an attempt.
const PROMISES: u32 = 3;

/// An access of a lane to global memory.
#[derive(Clone, Copy)]
struct Action {
    access: Access,
    read: Option<u128>,
    written: Option<u128>,
    /// Steps of the lane so far.
    step: u32,
    /// Whether the value read may derive from a promise.
    tainted: bool,
}

/// A read of a promised write, or of a read-modify-write that continues it.
struct Reader {
    actor: Actor,
    granule: usize,
    bytes: u8,
    how: (Order, Scope),
    /// Whether the lane has since acquired what the write may release.
    acquired: bool,
    /// Accesses of the lane at the read.
    actions: usize,
}

/// A write that becomes visible early.
struct Promise {
    lane: u32,
    /// Index of the write among the lane's accesses.
    index: usize,
    action: Action,
    /// Step of the lane before which it becomes visible.
    step: u32,
    /// Time of the write, once visible, and of the read-modify-writes that continue it.
    chain: Vec<Time>,
    readers: Vec<Reader>,
    fulfilled: bool,
}

/// State of a lane in an attempt.
#[derive(Default)]
struct Course {
    actions: Vec<Action>,
    steps: u32,
    /// Whether its later writes may derive from a promise.
    tainted: bool,
    /// Whether it received such a value otherwise than by a strong read.
    dirty: bool,
}

/// A write to memory.
struct Change {
    access: Access,
    old: u128,
    new: u128,
}

/// State of an attempt.
#[derive(Default)]
pub struct Early {
    courses: Vec<Course>,
    changes: Vec<Change>,
    /// Accesses of each lane in the first attempt.
    earlier: Vec<Vec<Action>>,
    promises: Vec<Promise>,
    shared_is_tainted: bool,
    abandoned: bool,
}

impl Early {
    /// Returns the state of a first attempt, if the options ask for early writes.
    pub fn of(options: &Options) -> Option<Self> {
        let wanted = options.early_writes && options.weak_memory != WeakMemory::Off;
        (wanted && options.faults.is_empty() && mutant::mutant().is_none()).then(Self::default)
    }

    fn course(&mut self, lane: u32) -> &mut Course {
        let lane = lane as usize;
        if self.courses.len() <= lane {
            self.courses.resize_with(lane + 1, Course::default);
        }
        &mut self.courses[lane]
    }

    /// Returns the index of the lane's promise that its next access has to fulfil.
    fn due(&mut self, lane: u32) -> Option<usize> {
        let index = self.course(lane).actions.len();
        self.promises.iter().position(|promise| promise.lane == lane && promise.index == index)
    }

    /// Returns `true` if the lane's course until a promised write is that of the first attempt, and the write
    /// does not depend on promises.
    fn is_justified(&mut self, promise: usize) -> bool {
        let Promise { lane, index, .. } = self.promises[promise];
        let (course, earlier) = (&self.courses[lane as usize], &self.earlier[lane as usize]);
        let is_same = |(now, before): (&Action, &Action)| {
            same_place(&now.access, &before.access) && (!now.tainted || now.read != before.read)
        };
        !course.dirty && course.actions.iter().zip(&earlier[..index]).all(is_same)
    }

    /// Marks the readers of a lane that have acquired what they have read, of those that are `which`.
    fn acquire(&mut self, lane: u32, which: impl Fn(&Reader) -> bool) {
        let readers = self.promises.iter_mut().flat_map(|promise| &mut promise.readers);
        for reader in readers.filter(|reader| reader.actor.lane == lane && which(reader)) {
            reader.acquired = true;
        }
    }
}

fn same_place(a: &Access, b: &Access) -> bool {
    a.address == b.address && a.bytes == b.bytes && std::ptr::eq(a.site, b.site)
}

/// Returns `true` if the access is to a buffer, not to shared memory.
fn is_global(lane: &Lane, access: &Access) -> bool {
    let registry = &lane.worker().run.world.registry;
    matches!(registry.find_anywhere(access.address, access.bytes), Found::Live(_))
}

impl Explorer {
    fn with_early<T>(&self, body: impl FnOnce(&mut Early) -> T) -> Option<T> {
        self.early.as_ref().map(|early| body(&mut early.borrow_mut()))
    }

    /// Ends an attempt whose promises cannot be fulfilled.
    fn abandon(&self, lane: &Lane) -> ! {
        self.with_early(|early| early.abandoned = true);
        lane.end_launch(hang(std::slice::from_ref(lane), self.steps.get()))
    }

    /// Counts a step of the lane, and makes the writes visible that it has promised for this step.
    pub(super) fn promise(&self, lane: &Lane) {
        let Some(early) = &self.early else { return };
        let due: Vec<_> = {
            let early = &mut *early.borrow_mut();
            let course = early.course(lane.number);
            course.steps += 1;
            let steps = course.steps;
            let is_due = |promise: &Promise| promise.lane == lane.number && promise.step == steps;
            (0..early.promises.len()).filter(|&i| is_due(&early.promises[i])).collect()
        };
        due.into_iter().for_each(|index| self.show(lane, index));
    }

    /// Makes a promised write visible, at a time that the lane does not exclude.
    fn show(&self, lane: &Lane, index: usize) {
        let Some(action) = self.with_early(|early| early.promises[index].action) else { return };
        let (Some(value), Some(memory)) = (action.written, &self.memory) else { return };
        if lane.worker().run.world.registry.poison_at(action.access.address).is_some() {
            self.abandon(lane);
        }
        let gaps = memory.borrow().gaps(lane, &action.access);
        let gap = if gaps.is_empty() { None } else { self.choose_older(lane, &gaps) };
        let place = gap.map(between);
        if place.is_none() {
            self.idle.borrow_mut().reset();
            self.change(lane, &action.access, value);
        }
        let time = memory.borrow_mut().show(lane, &action.access, action.read.is_some(), (value, place));
        if place.is_none() {
            // SAFETY: the lane made this access in the first attempt, and buffers live on during launches.
            unsafe { atomics::store(action.access.address, action.access.bytes, value, action.access.order) };
        }
        self.with_early(|early| early.promises[index].chain.push(time));
    }

    /// Records that the lane writes to memory.
    pub(super) fn change(&self, lane: &Lane, access: &Access, new: u128) {
        if self.early.is_none() || !is_global(lane, access) {
            return;
        }
        // SAFETY: the access has been checked, or made in the first attempt.
        let old = unsafe { current(access) };
        self.with_early(|early| early.changes.push(Change { access: *access, old, new }));
    }

    /// Records an access of the lane, which reads the version at `time`.
    pub(super) fn note(&self, lane: &Lane, access: &Access, done: (Option<u128>, Option<u128>), time: Time) {
        if self.early.is_none() || !is_global(lane, access) {
            return;
        }
        let (read, written) = done;
        let tainted = read.is_some() && self.is_tainted(access, time);
        let is_weak = access.order == Order::Weak;
        self.with_early(|early| {
            let course = early.course(lane.number);
            let step = course.steps;
            course.tainted |= tainted;
            course.dirty |= tainted && is_weak;
            course.actions.push(Action { access: *access, read, written, step, tainted });
        });
        if read.is_some() && !is_weak {
            self.observe(lane, access, time);
        }
    }

    fn is_tainted(&self, access: &Access, time: Time) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.borrow().is_tainted(access, time))
    }

    /// Returns `true` if what the lane writes may derive from a promise.
    pub(super) fn taints(&self, lane: &Lane) -> bool {
        self.with_early(|early| early.course(lane.number).tainted) == Some(true)
    }

    /// Records a strong read of the version at `time` for the promises that it may concern.
    fn observe(&self, lane: &Lane, access: &Access, time: Time) {
        let Some(memory) = &self.memory else { return };
        let (memory, how) = (memory.borrow(), (access.order, access.scope));
        let acquires = matches!(access.order, Order::Acquire | Order::AcqRel);
        for (granule, bytes) in granules(access.address, access.bytes) {
            let read = memory.time_at(granule, time);
            self.with_early(|early| {
                if acquires {
                    early.acquire(lane.number, |reader| reader.granule == granule);
                }
                let actions = early.course(lane.number).actions.len();
                let open = early.promises.iter_mut().filter(|promise| !promise.fulfilled);
                for promise in
                    open.filter(|p| p.lane != lane.number && p.chain.iter().any(|t| Some(*t) == read))
                {
                    let (actor, acquired) = (actor(lane), acquires);
                    promise.readers.push(Reader { actor, granule, bytes, how, acquired, actions });
                }
            });
        }
    }

    /// Records that the lane's read-modify-write at `time` continues the version at `read`.
    pub(super) fn continues(&self, memory: &MemoryModel, access: &Access, read: Time, time: Time) {
        let Some((granule, _)) = granules(access.address, access.bytes).next() else { return };
        let read = memory.time_at(granule, read);
        self.with_early(|early| {
            let of_chain = |promise: &&mut Promise| promise.chain.iter().any(|t| Some(*t) == read);
            early.promises.iter_mut().filter(of_chain).for_each(|promise| promise.chain.push(time));
        });
    }

    /// Records a fence of the lane for the promises that it has read.
    pub(super) fn fenced(&self, lane: &Lane) {
        self.with_early(|early| early.acquire(lane.number, |_| true));
    }

    /// Records that lanes exchange registers, whose values may derive from promises.
    pub(super) fn mix(&self, lanes: &[u32]) {
        self.with_early(|early| {
            if lanes.iter().any(|&lane| early.course(lane).tainted) {
                lanes
                    .iter()
                    .for_each(|&lane| (early.course(lane).tainted, early.course(lane).dirty) = (true, true));
            }
        });
    }

    /// Records an access of the lane to shared memory.
    pub(super) fn share(&self, lane: &Lane, access: &Access, writes: bool) {
        if self.early.is_none() || is_global(lane, access) {
            return;
        }
        self.with_early(|early| {
            let tainted = early.shared_is_tainted;
            let course = early.course(lane.number);
            (course.tainted, course.dirty) = (course.tainted | tainted, course.dirty | tainted);
            let taints = course.tainted && writes;
            early.shared_is_tainted |= taints;
        });
    }

    /// Fulfils the lane's promise that is due, if any: the lane writes what `new` returns for the value that
    /// it reads. Returns this value.
    pub(super) fn fulfil(
        &self,
        lane: &Lane,
        access: &Access,
        updates: bool,
        new: &dyn Fn(u128) -> Option<u128>,
    ) -> Option<u128> {
        let (index, action, time, justified) = self.with_early(|early| {
            let index = early.due(lane.number)?;
            let Promise { action, ref chain, .. } = early.promises[index];
            let time = chain.first().copied();
            Some((index, action, time, early.is_justified(index)))
        })??;
        let memory = self.memory.as_ref()?;
        let before = time.unwrap_or(0).saturating_sub(1);
        // SAFETY: the caller checked the access.
        let old = memory.borrow().value_at(access, unsafe { current(access) }, before);
        let is_same = same_place(access, &action.access)
            && (access.order, access.scope) == (action.access.order, action.access.scope)
            && new(old) == action.written;
        let fits = time.is_some_and(|time| memory.borrow().admits(lane, access, time));
        if !is_same || !justified || !fits || updates != action.read.is_some() {
            self.abandon(lane);
        }
        self.watch(lane, access, true);
        if updates {
            memory.borrow_mut().read_version(lane, access, old, before);
        }
        self.settle_promise(lane, access, index);
        self.note(lane, access, (updates.then_some(old), action.written), before);
        Some(old)
    }

    /// Publishes what a fulfilled promise releases.
    fn settle_promise(&self, lane: &Lane, access: &Access, index: usize) {
        let (Some(memory), Some(early)) = (&self.memory, &self.early) else { return };
        let settled = {
            let (memory, early) = (&mut *memory.borrow_mut(), &mut *early.borrow_mut());
            let promise = &mut early.promises[index];
            promise.fulfilled = true;
            let releases = memory.fulfil(lane, access, &promise.chain);
            let keeps = memory.orders.has_dependencies();
            let readers = std::mem::take(&mut promise.readers);
            let mut settled = true;
            for reader in readers {
                let continued = early.courses[reader.actor.lane as usize].actions.len() > reader.actions;
                let release = releases.iter().find(|(granule, _)| *granule == reader.granule);
                let Some((granule, release)) = release else { continue };
                let (release, bytes) = (std::slice::from_ref(release), reader.bytes);
                if !sees(release, reader.actor, bytes, reader.how.1) {
                    continue;
                }
                settled &= !(reader.acquired || keeps && continued);
                memory.orders.read_version(reader.actor, *granule, release, bytes, reader.how);
            }
            settled
        };
        if !settled {
            self.abandon(lane);
        }
    }

    /// Returns `true` if all promises have been fulfilled.
    pub fn is_settled(&self) -> bool {
        self.with_early(|early| !early.abandoned && early.promises.iter().all(|promise| promise.fulfilled))
            .unwrap_or(true)
    }

    /// Turns the explorer of a first attempt into that of a second one, with promises that the scheduler
    /// chooses, and undoes the writes of the first attempt.
    ///
    /// # Errors
    /// As it was, if the scheduler chooses no promises.
    pub fn again(self, options: &Options, registry: &Registry, outcome: &Outcome) -> Result<Self, Box<Self>> {
        let Some(promises) = self.choose_promises() else { return Err(Box::new(self)) };
        outcome.undo(registry);
        let Self { decisions, early, .. } = self;
        let Decisions { scheduler, recording, .. } = decisions.into_inner();
        let decisions = Decisions { scheduler, recording, runnable: Runnable::default() };
        let first = early.map(RefCell::into_inner).unwrap_or_default();
        let earlier = first.courses.into_iter().map(|course| course.actions).collect();
        let early = Early { promises, earlier, ..Early::default() };
        Ok(Self {
            steps: Cell::new(0),
            next: Cell::new(None),
            decisions: RefCell::new(decisions),
            idle: RefCell::new(Idle::default()),
            memory: MemoryModel::of(options).map(RefCell::new),
            early: Some(RefCell::new(early)),
            ..self
        })
    }

    /// Chooses writes of the first attempt that become visible early in the second.
    fn choose_promises(&self) -> Option<Vec<Promise>> {
        let early = self.early.as_ref()?.borrow();
        let choose = |options: usize| self.choose_freely(options as u32).unwrap_or(0) as usize;
        let lanes: Vec<_> =
            (0..early.courses.len()).filter(|&lane| !promisable(&early.courses[lane]).is_empty()).collect();
        if lanes.is_empty() || choose(2) == 0 {
            return None;
        }
        let mut promises: Vec<Promise> = Vec::new();
        for _ in 0..=choose(PROMISES as usize) {
            let lane = lanes[choose(lanes.len())];
            let writes = promisable(&early.courses[lane]);
            let index = writes[choose(writes.len())];
            let action = early.courses[lane].actions[index];
            let step = action.step - choose(action.step.clamp(1, WINDOW) as usize) as u32;
            let lane = lane as u32;
            if !promises.iter().any(|promise| (promise.lane, promise.index) == (lane, index)) {
                let (chain, readers, fulfilled) = (Vec::new(), Vec::new(), false);
                promises.push(Promise { lane, index, action, step, chain, readers, fulfilled });
            }
        }
        Some(promises)
    }
}

/// Returns the indices of the strong writes of a lane that follow a read.
fn promisable(course: &Course) -> Vec<usize> {
    let first = course.actions.iter().position(|action| action.read.is_some()).unwrap_or(usize::MAX);
    let is_write = |action: &Action| action.written.is_some() && action.access.order != Order::Weak;
    (0..course.actions.len()).filter(|&i| i > first && is_write(&course.actions[i])).collect()
}

/// Writes to memory of an attempt, in order.
pub struct Outcome(Vec<Change>);

impl Outcome {
    /// Returns what the explorer's attempt has written.
    pub fn of(explorer: &Explorer) -> Self {
        Self(explorer.with_early(|early| std::mem::take(&mut early.changes)).unwrap_or_default())
    }

    /// Undoes the writes, and allows accesses to memory that the attempt has freed.
    pub fn undo(&self, registry: &Registry) {
        registry.forget_poison();
        for Change { access, old, .. } in self.0.iter().rev() {
            // SAFETY: the lanes made these accesses, no lane runs, and buffers live on during launches.
            unsafe { atomics::store(access.address, access.bytes, *old, Order::Relaxed) };
        }
    }

    /// Writes it again.
    pub fn redo(&self) {
        for Change { access, new, .. } in &self.0 {
            // SAFETY: as for `undo`.
            unsafe { atomics::store(access.address, access.bytes, *new, Order::Relaxed) };
        }
    }
}

impl MemoryModel {
    /// Returns the time of the version of a granule that is the newest at `time`.
    fn time_at(&self, granule: usize, time: Time) -> Option<Time> {
        Some(self.versions.as_ref()?.at(granule, time)?.1.time)
    }

    fn is_tainted(&self, access: &Access, time: Time) -> bool {
        let Some(versions) = &self.versions else { return false };
        let version = |(granule, _)| versions.at(granule, time);
        granules(access.address, access.bytes).filter_map(version).any(|(_, version)| version.tainted)
    }

    /// Returns `true` if the lane may write at `time`.
    fn admits(&self, lane: &Lane, access: &Access, time: Time) -> bool {
        let Some(versions) = &self.versions else { return false };
        granules(access.address, access.bytes).all(|(granule, _)| {
            let found = versions.at(granule, time).filter(|(_, version)| version.time == time);
            found.is_some_and(|(place, _)| time > self.orders.floor(lane.number, place))
        })
    }

    /// Adds the version of a promised write, at an older time or as the newest. Returns its time.
    fn show(
        &mut self,
        lane: &Lane,
        access: &Access,
        updates: bool,
        (new, place): (u128, Option<Time>),
    ) -> Time {
        let Some(versions) = &mut self.versions else { return 0 };
        let time = place.unwrap_or_else(|| versions.advance());
        for (i, (granule, bytes)) in granules(access.address, access.bytes).enumerate() {
            let how = (Order::Weak, access.scope);
            let (before, mut releases) = match versions.at(granule, time) {
                Some((_, version)) => (version.value, version.releases.clone()),
                None => (granule_value(granule), Vec::new()),
            };
            self.orders.write_over(&mut releases, actor(lane), (granule, bytes), how, updates);
            if place.is_none() {
                self.orders.write(actor(lane), granule, bytes, how, updates);
            }
            versions.push(
                granule,
                before,
                super::weak::version(access, i, (time, before, new), (updates, true), releases),
            );
        }
        time
    }

    /// Publishes what the lane releases by a promised write, with the versions that continue it. Returns the
    /// releases by granule.
    fn fulfil(&mut self, lane: &Lane, access: &Access, chain: &[Time]) -> Vec<(usize, Release)> {
        let (Some(versions), Some(&time)) = (&mut self.versions, chain.first()) else { return Vec::new() };
        let (mut published, how) = (Vec::new(), (access.order, access.scope));
        for (granule, bytes) in granules(access.address, access.bytes) {
            let mut releases = Vec::new();
            self.orders.write_over(&mut releases, actor(lane), (granule, bytes), how, true);
            let Some(place) = versions.at(granule, time).map(|(place, _)| place) else { continue };
            self.orders.observe_write(lane.number, place, time);
            let newest = versions.newest(granule).map(|(_, newest)| newest);
            for release in releases {
                chain.iter().for_each(|&time| versions.release_at(granule, time, &release));
                if chain.iter().any(|time| Some(*time) == newest) {
                    self.orders.publish(granule, &release);
                }
                published.push((granule, release));
            }
        }
        if matches!(access.order, Order::Release | Order::AcqRel) {
            self.orders.advance(lane.number);
        }
        published
    }
}
