//! Strong reads where memory is weak: which versions there are, which one is read, and what the lane learns
//! by it.
use super::super::block::Block;
use super::super::detect::order::granules;
use super::super::detect::versions::Version;
use super::super::failure::FailureKind;
use super::super::lane::Lane;
use super::super::memory::atomics;
use super::super::memory::global::Access;
use super::{Explorer, MemoryModel, actor};
use crate::Order;

impl Explorer {
    /// The time whose values a strong read returns; none: the newest. Every other read returns the newest.
    pub(super) fn choose_version(&self, lane: &Lane, access: &Access) -> Option<u32> {
        let times = self.memory.as_ref().map_or(Vec::new(), |memory| memory.borrow().readable(lane, access));
        let older = times.get(1..).filter(|older| !older.is_empty())?;
        let choice = self.option(lane, 2 * older.len() as u32) as usize;
        choice.checked_sub(older.len()).map(|choice| older[choice])
    }

    /// A weak read has returned `value`, of which the `i`-th granule has a part: addresses may depend on it.
    pub(super) fn depend(&self, lane: &Lane, access: &Access, i: usize, value: u128) {
        if let Some(memory) = &self.memory {
            memory.borrow_mut().depend(lane, access, i, value);
        }
    }

    /// Memory that kernels have freed is allocated again.
    pub fn reuse(&self, start: usize, bytes: usize) {
        if let Some(memory) = &self.memory {
            memory.borrow_mut().versions.iter_mut().for_each(|versions| versions.reuse(start, bytes));
        }
    }

    /// Looks for a write to memory that was allocated again which is not ordered after those before it was
    /// freed.
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
    /// The times of the versions that the access may read, the newest first. None where memory is not weak.
    fn readable(&self, lane: &Lane, access: &Access) -> Vec<u32> {
        let Some(versions) = &self.versions else { return Vec::new() };
        let floor = |place| self.orders.floor(lane.number, place);
        versions.readable(floor, granules(access.address, access.bytes).map(|(granule, _)| granule))
    }

    /// A strong read of what stands there.
    pub(super) fn read_newest(&mut self, lane: &Lane, access: &Access) {
        for (granule, bytes) in granules(access.address, access.bytes) {
            self.orders.read(actor(lane), granule, bytes, access.order, access.scope);
            let newest = self.versions.as_ref().and_then(|versions| versions.newest(granule));
            if let Some((place, time)) = newest {
                self.orders.observe_read(lane.number, place, time);
            }
        }
    }

    /// A strong read of what stood there at `time`; gives the value.
    pub(super) fn read_version(&mut self, lane: &Lane, access: &Access, newest: u128, time: u32) -> u128 {
        let (orders, mut value) = (&mut self.orders, newest);
        let Some(versions) = &self.versions else { return newest };
        for (i, (granule, bytes)) in granules(access.address, access.bytes).enumerate() {
            let Some((place, version)) = versions.at(granule, time) else { continue };
            value = with_granule(value, access, i, version.value);
            orders.read_version(actor(lane), &version.releases, bytes, access.order, access.scope);
            orders.observe_read(lane.number, place, version.time);
        }
        value
    }

    /// What the newest write of this value showed is seen by reads that depend on it.
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

    /// Whether a write of before the memory was freed is not known to the lane, so that it may still replace
    /// what the lane writes now.
    fn may_be_replaced(&self, lane: &Lane, access: &Access) -> bool {
        let Some(versions) = &self.versions else { return false };
        let floor = |place| self.orders.floor(lane.number, place);
        granules(access.address, access.bytes)
            .any(|(granule, _)| versions.is_unseen_of_before(granule, floor))
    }

    /// The lane writes `new`: the newest version from now on.
    pub(super) fn add_versions(&mut self, lane: &Lane, access: &Access, new: u128) {
        let Some(versions) = &mut self.versions else { return };
        let time = versions.tick();
        for (i, (granule, _)) in granules(access.address, access.bytes).enumerate() {
            let old = granule_value(granule);
            let releases = self.orders.published_at(granule);
            let value = granule_after(old, access, i, new);
            let place = versions.push(granule, old, Version { time, value, releases });
            self.orders.observe_write(lane.number, place, time);
        }
    }

    /// The lanes exchange registers.
    pub(super) fn exchange(&mut self, lanes: impl Iterator<Item = u32>) {
        if self.versions.is_some() {
            self.orders.exchange(&lanes.collect::<Vec<_>>());
        }
    }

    /// A lane of the block reads the device's clock. All lanes of its block take part: they may have executed
    /// what it measures.
    pub(super) fn read_clock(&mut self, block: &Block) {
        if self.versions.is_some() {
            let lanes: Vec<_> = block.lanes().iter().map(|lane| lane.number).collect();
            self.orders.read_clock(&lanes);
        }
    }
}

/// The bytes of a granule that holds a byte of a live buffer, or of a block's array.
pub(super) fn granule_value(granule: usize) -> u64 {
    // SAFETY: the memory of both is aligned to 16 bytes and padded.
    unsafe { atomics::load(granule * 8, 8, Order::Relaxed) as u64 }
}

/// The bits that an access covers of a granule, from the granule's lowest bit on.
fn covered(access: &Access) -> u64 {
    u64::MAX >> (64 - 8 * access.bytes.min(8)) << shift(access)
}

/// Where in its first granule an access begins, in bits.
fn shift(access: &Access) -> usize {
    access.address % 8 * 8
}

/// The value that an access reads, where its `i`-th granule holds `granule`.
pub(super) fn with_granule(value: u128, access: &Access, i: usize, granule: u64) -> u128 {
    let mask = u128::from(covered(access) >> shift(access)) << (64 * i);
    let part = u128::from(granule >> shift(access)) << (64 * i);
    value & !mask | part & mask
}

/// The `i`-th granule of an access, which held `old`, when the access has written `new`.
fn granule_after(old: u64, access: &Access, i: usize, new: u128) -> u64 {
    let part = ((new >> (64 * i)) as u64) << shift(access);
    old & !covered(access) | part & covered(access)
}
