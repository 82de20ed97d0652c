//! Strong reads where memory is weak: which versions there are, which one is read, and what the lane learns
//! by it.
use super::super::block::Block;
use super::super::detect::order::granules;
use super::super::detect::versions::Version;
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
