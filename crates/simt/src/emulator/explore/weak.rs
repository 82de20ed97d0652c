//! Strong reads with weak memory: the readable versions, the choice of one, and its effect on the lane's
//! view.
use super::super::block::Block;
use super::super::detect::clock::Time;
use super::super::detect::order::{Release, granules};
use super::super::detect::versions::Version;
use super::super::failure::FailureKind;
use super::super::lane::Lane;
use super::super::memory::access::Access;
use super::super::memory::atomics;
use super::{Explorer, MemoryModel, actor};
use crate::Order;

impl Explorer {
    /// Chooses the time whose values a strong read returns; `None` for the newest. The newest has probability
    /// one half.
    pub(super) fn choose_version(&self, lane: &Lane, access: &Access) -> Option<Time> {
        let times = self.memory.as_ref().map_or(Vec::new(), |memory| memory.borrow().readable(lane, access));
        let older = times.get(1..).filter(|older| !older.is_empty())?;
        self.choose_older(lane, older)
    }

    /// Chooses one of the older alternatives, or `None` for the newest, with probability one half.
    pub(super) fn choose_older<T: Copy>(&self, lane: &Lane, older: &[T]) -> Option<T> {
        let choice = self.option(lane, 2 * older.len() as u32) as usize;
        choice.checked_sub(older.len()).map(|choice| older[choice])
    }

    /// Chooses the time of a strong write that later writes of others overtake; `None` for the newest. Stores
    /// that are recorded for crashes are not overtaken: the record has them in the order of their execution.
    pub(super) fn choose_place(&self, lane: &Lane, access: &Access) -> Option<Time> {
        if access.order == Order::Weak || self.stores.borrow().is_some() {
            return None;
        }
        let gaps = self.memory.as_ref().map_or(Vec::new(), |memory| memory.borrow().gaps(lane, access));
        if gaps.is_empty() {
            return None;
        }
        self.choose_older(lane, &gaps).map(between)
    }

    /// Executes a read-modify-write of an older version, which the scheduler chooses. Returns that version's
    /// value; `None` if it chooses the newest, or if other writes have to follow the older one directly.
    pub(super) fn update_older(
        &self,
        lane: &Lane,
        access: &Access,
        new: &impl Fn(u128) -> Option<u128>,
    ) -> Option<u128> {
        if self.stores.borrow().is_some() {
            return None;
        }
        let time = self.choose_version(lane, access)?;
        // SAFETY: the caller of `update` promises that the bytes are valid.
        let newest = unsafe { super::current(access) };
        let memory = self.memory.as_ref()?;
        let old = memory.borrow().value_at(access, newest, time);
        let gap = memory.borrow().gaps(lane, access).into_iter().find(|gap| gap.0 <= time && time < gap.1);
        let new = new(old);
        if new.is_some() && gap.is_none() {
            return None;
        }
        let new = new.and_then(|new| self.replaced(access, old, new));
        self.watch(lane, access, new.is_some());
        memory.borrow_mut().read_version(lane, access, newest, time);
        self.note(lane, access, (Some(old), new), time);
        if let (Some(new), Some(gap)) = (new, gap) {
            self.notice(lane, access, new);
            self.continues(&memory.borrow(), access, time, between(gap));
            self.overtaken(lane, access, true, (new, between(gap)));
        }
        Some(old)
    }

    /// Records a write at an older time, which leaves the memory unchanged.
    pub(super) fn overtaken(&self, lane: &Lane, access: &Access, updates: bool, (new, time): (u128, Time)) {
        let (Some(memory), tainted) = (&self.memory, self.taints(lane)) else { return };
        let memory = &mut *memory.borrow_mut();
        memory.insert_versions(lane, access, (updates, tainted), (new, time));
        if matches!(access.order, Order::Release | Order::AcqRel) {
            memory.orders.advance(lane.number);
        }
    }

    /// Records that a weak read has returned `value`, including a part of the `i`-th granule, on which
    /// addresses may depend.
    pub(super) fn depend(&self, lane: &Lane, access: &Access, i: usize, value: u128) {
        if let Some(memory) = &self.memory {
            memory.borrow_mut().depend(lane, access, i, value);
        }
    }

    /// Records that memory freed by kernels is allocated again.
    pub fn reuse(&self, start: usize, bytes: usize) {
        if let Some(memory) = &self.memory {
            memory.borrow_mut().versions.iter_mut().for_each(|versions| versions.reuse(start, bytes));
        }
    }

    /// Fails if a write to reallocated memory is not ordered after the writes before the memory was freed.
    pub(super) fn watch_reuse(&self, lane: &Lane, access: &Access) {
        let replaced =
            self.memory.as_ref().is_some_and(|memory| memory.borrow().may_be_replaced(lane, access));
        if replaced {
            let kind = FailureKind::UnorderedReuse { address: access.address, bytes: access.bytes };
            lane.fail(kind, access.site, None);
        }
    }
}

impl MemoryModel {
    /// Returns the times of the versions that the access may read, the newest first. Empty unless memory is
    /// weak.
    fn readable(&self, lane: &Lane, access: &Access) -> Vec<Time> {
        let Some(versions) = &self.versions else { return Vec::new() };
        let floor = |place| self.orders.floor(lane.number, place);
        versions.readable(floor, granules(access.address, access.bytes).map(|(granule, _)| granule))
    }

    /// Returns the pairs of times between which the lane's write may be placed. Empty unless memory is weak.
    pub(super) fn gaps(&self, lane: &Lane, access: &Access) -> Vec<(Time, Time)> {
        let Some(versions) = &self.versions else { return Vec::new() };
        let floor = |place| self.orders.floor(lane.number, place);
        versions.gaps(floor, granules(access.address, access.bytes))
    }

    /// Returns the value of the version at `time`.
    pub(super) fn value_at(&self, access: &Access, newest: u128, time: Time) -> u128 {
        let Some(versions) = &self.versions else { return newest };
        let numbered = granules(access.address, access.bytes).enumerate();
        numbered.fold(newest, |value, (i, (granule, _))| match versions.at(granule, time) {
            Some((_, version)) => with_granule(value, access, i, version.value),
            None => value,
        })
    }

    /// Records a strong read of the newest version.
    pub(super) fn read_newest(&mut self, lane: &Lane, access: &Access) {
        for (granule, bytes) in granules(access.address, access.bytes) {
            self.orders.read(actor(lane), granule, bytes, (access.order, access.scope));
            let newest = self.versions.as_ref().and_then(|versions| versions.newest(granule));
            if let Some((place, time)) = newest {
                self.orders.observe_read(lane.number, place, time);
            }
        }
    }

    /// Records a strong read of the version at `time`; returns its value.
    pub(super) fn read_version(&mut self, lane: &Lane, access: &Access, newest: u128, time: Time) -> u128 {
        let value = self.value_at(access, newest, time);
        let (orders, how) = (&mut self.orders, (access.order, access.scope));
        let Some(versions) = &self.versions else { return newest };
        for (granule, bytes) in granules(access.address, access.bytes) {
            let Some((place, version)) = versions.at(granule, time) else { continue };
            orders.read_version(actor(lane), granule, &version.releases, bytes, how);
            orders.observe_read(lane.number, place, version.time);
        }
        value
    }

    /// Makes the releases of the newest write of this value visible to later, dependent reads.
    fn depend(&mut self, lane: &Lane, access: &Access, i: usize, value: u128) {
        let Some(versions) = self.versions.as_ref().filter(|_| self.orders.has_dependencies()) else {
            return;
        };
        let Some((granule, bytes)) = granules(access.address, access.bytes).nth(i) else { return };
        let is_same = |version: &Version| with_granule(value, access, i, version.value) == value;
        if let Some(version) = versions.newest_that(granule, is_same) {
            self.orders.depend(actor(lane), &version.releases, bytes);
        }
    }

    /// Returns `true` if the lane does not know a write from before the memory was freed, so that this write
    /// may still replace the lane's.
    fn may_be_replaced(&self, lane: &Lane, access: &Access) -> bool {
        let Some(versions) = &self.versions else { return false };
        let floor = |place| self.orders.floor(lane.number, place);
        granules(access.address, access.bytes)
            .any(|(granule, _)| versions.is_unseen_of_before(granule, floor))
    }

    /// Adds the lane's write of `new` as the newest version, which is (of a read-modify-write, tainted).
    /// Returns its time.
    pub(super) fn add_versions(&mut self, lane: &Lane, access: &Access, is: (bool, bool), new: u128) -> Time {
        let Some(versions) = &mut self.versions else { return 0 };
        let time = versions.advance();
        for (i, (granule, _)) in granules(access.address, access.bytes).enumerate() {
            let old = granule_value(granule);
            let releases = self.orders.published_at(granule);
            let place = versions.push(granule, old, version(access, i, (time, old, new), is, releases));
            self.orders.observe_write(lane.number, place, time);
        }
        time
    }

    /// Adds the lane's write of `new` at an older time, which lies in one of [`Self::gaps`].
    fn insert_versions(&mut self, lane: &Lane, access: &Access, is: (bool, bool), (new, time): (u128, Time)) {
        let Some(versions) = &mut self.versions else { return };
        let how = (access.order, access.scope);
        for (i, (granule, bytes)) in granules(access.address, access.bytes).enumerate() {
            let Some((_, before)) = versions.at(granule, time) else { continue };
            let mut releases = before.releases.clone();
            let old = before.value;
            self.orders.write_over(&mut releases, actor(lane), (granule, bytes), how, is.0);
            let place = versions.push(granule, old, version(access, i, (time, old, new), is, releases));
            self.orders.observe_write(lane.number, place, time);
        }
    }

    /// Records that the lanes exchange registers.
    pub(super) fn exchange(&mut self, lanes: &[u32]) {
        if self.versions.is_some() {
            self.orders.exchange(lanes);
        }
    }

    /// Records that a lane reads the device's clock. All lanes of its block take part, since they may have
    /// executed the operation that the lane measures.
    pub(super) fn read_clock(&mut self, block: &Block) {
        if self.versions.is_some() {
            let lanes: Vec<_> = block.lanes().iter().map(|lane| lane.number).collect();
            self.orders.read_clock(&lanes);
        }
    }
}

/// Returns the version of the `i`-th granule of an access, which held `old`, after the access has written
/// `new` at `time`. It is (of a read-modify-write, tainted).
pub(super) fn version(
    access: &Access,
    i: usize,
    (time, old, new): (Time, u64, u128),
    (updates, tainted): (bool, bool),
    releases: Vec<Release>,
) -> Version {
    let bytes = granules(access.address, access.bytes).nth(i).map_or(0, |(_, bytes)| bytes);
    Version { time, bytes, updates, tainted, value: granule_after(old, access, i, new), releases }
}

/// Returns a time between two.
pub(super) fn between((low, high): (Time, Time)) -> Time {
    low + (high - low) / 2
}

/// Reads a granule that holds a byte of a live buffer or of a block's shared memory.
pub(super) fn granule_value(granule: usize) -> u64 {
    // SAFETY: the memory of both is aligned to 16 bytes and padded.
    unsafe { atomics::load(granule * 8, 8, Order::Relaxed) as u64 }
}

/// Returns the mask of the granule bits that an access covers.
fn covered(access: &Access) -> u64 {
    u64::MAX >> (64 - 8 * access.bytes.min(8)) << shift(access)
}

/// Returns the bit offset of an access in its first granule.
fn shift(access: &Access) -> usize {
    access.address % 8 * 8
}

/// Returns `value`, the value of an access, with the part from its `i`-th granule replaced by that of
/// `granule`.
pub(super) fn with_granule(value: u128, access: &Access, i: usize, granule: u64) -> u128 {
    let mask = u128::from(covered(access) >> shift(access)) << (64 * i);
    let part = u128::from(granule >> shift(access)) << (64 * i);
    value & !mask | part & mask
}

/// Returns the value of the `i`-th granule of an access, which held `old`, after the access has written
/// `new`.
fn granule_after(old: u64, access: &Access, i: usize, new: u128) -> u64 {
    let part = ((new >> (64 * i)) as u64) << shift(access);
    old & !covered(access) | part & covered(access)
}
