//! Accesses to the shared memory of a block, which has one array per source line or type that declares one.
use super::super::failure::FailureKind;
use super::super::lane::Lane;
use super::super::site::Site;
use super::access::Access;
use super::arrays::Key;
use super::atomics::{self, Update};
use crate::{Order, Scope};

/// Returns the address of the array `key` in the calling lane's block.
pub fn array(key: Key, bytes: usize) -> u64 {
    let lane = Lane::current();
    lane.block().shared.array(key, bytes, lane.worker().detect().uninitialized)
}

fn enter(access: &Access, writes: bool) -> &'static Lane {
    let lane = Lane::current();
    lane.step(access.site);
    if lane.worker().detect().uninitialized
        && !lane.block().shared.written(access.address, access.bytes, writes)
    {
        lane.fail(FailureKind::Uninitialized { bytes: access.bytes, within: None }, access.site, None);
    }
    lane
}

fn weak(address: u64, bytes: usize, site: Site) -> Access {
    Access { address: address as usize, bytes, order: Order::Weak, scope: Scope::Block, site }
}

/// Reads a word.
///
/// # Safety
/// - The bytes lie in an array of the block, aligned.
#[inline(never)]
pub unsafe fn load(address: u64, bytes: usize, site: Site) -> u128 {
    let access = weak(address, bytes, site);
    let lane = enter(&access, false);
    // SAFETY: the caller's obligation.
    unsafe { read(lane, &access) }
}

/// Reads a word that may be uninitialised.
///
/// # Safety
/// - As for [`load`].
#[inline(never)]
pub unsafe fn load_uninit(address: u64, bytes: usize, site: Site) -> u128 {
    let (lane, access) = (Lane::current(), weak(address, bytes, site));
    lane.step(site);
    // SAFETY: the caller's obligation.
    unsafe { read(lane, &access) }
}

/// # Safety
/// - As for [`load`].
unsafe fn read(lane: &Lane, access: &Access) -> u128 {
    if let Some(explorer) = lane.explorer() {
        explorer.load_shared(lane, access);
    }
    // SAFETY: the caller's obligation.
    unsafe { atomics::load(access.address, access.bytes, Order::Weak) }
}

/// Writes a word.
///
/// # Safety
/// - As for [`load`].
#[inline(never)]
pub unsafe fn store(address: u64, bytes: usize, value: u128, site: Site) {
    let access = weak(address, bytes, site);
    let lane = enter(&access, true);
    match lane.explorer() {
        // SAFETY: the caller's obligation.
        None => unsafe { atomics::store(access.address, bytes, value, Order::Weak) },
        // SAFETY: the caller's obligation.
        Some(explorer) => unsafe { explorer.store(lane, &access, value) },
    }
}

/// Executes a relaxed read-modify-write of 4 bytes; returns the old value.
///
/// # Safety
/// - As for [`load`].
#[inline(never)]
pub unsafe fn update(address: u64, update: Update, value: u32, site: Site) -> u32 {
    let access = Access { order: Order::Relaxed, ..weak(address, 4, site) };
    let lane = enter(&access, false);
    match lane.explorer() {
        None => {
            // SAFETY: the caller's obligation.
            unsafe { atomics::update(access.address, 4, update, value.into(), Order::Relaxed) as u32 }
        }
        Some(explorer) => {
            let new = |old| Some(update.apply(old, value.into(), 4));
            // SAFETY: the caller's obligation.
            unsafe { explorer.update(lane, &access, new) as u32 }
        }
    }
}
