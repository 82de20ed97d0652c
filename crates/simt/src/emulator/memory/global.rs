//! Accesses to global memory: the scheduling step, the check, the detectors, and then the access itself. All
//! stores to global memory use this module.
//!
//! None of this is inlined into kernels, which call it. Inlining it at each of the thousands of accesses took
//! most of the time to compile kernels for the host.
use super::super::explore::Explorer;
use super::super::failure::FailureKind;
use super::super::lane::Lane;
use super::super::site::Site;
use super::access::{Access, How};
use super::atomics::{self, Update};
use super::check::{Use, check};
use crate::Scope;
use simt_macros::device;

/// Executes the scheduling step and the check of an access.
#[device]
fn enter(access: &Access, usage: Use) -> &'static Lane {
    let lane = Lane::current();
    lane.step(access.site);
    check(lane, access.address, access.bytes, usage, access.site);
    lane
}

/// Reads a word.
///
/// # Safety
/// - The bytes are valid for reads, as far as disabled detection leaves this unchecked.
#[inline(never)]
pub unsafe fn load(address: usize, how: How, site: Site) -> u128 {
    let access = how.at(address, site);
    let lane = enter(&access, Use::Read);
    // SAFETY: checked, or the caller's obligation.
    let newest = unsafe { atomics::load(access.address, access.bytes, access.order) };
    match lane.explorer() {
        None => newest,
        Some(explorer) => explorer.load(lane, &access, newest),
    }
}

/// Writes a word.
///
/// # Safety
/// - As for [`load`], for writes.
#[inline(never)]
pub unsafe fn store(address: usize, how: How, site: Site, value: u128) {
    let access = how.at(address, site);
    let lane = enter(&access, Use::Write);
    if let Some(explorer) = lane.explorer() {
        // SAFETY: checked, or the caller's obligation.
        return unsafe { explorer.store(lane, &access, value) };
    }
    lane.worker().progressed();
    // SAFETY: checked, or the caller's obligation.
    unsafe { atomics::store(access.address, access.bytes, value, access.order) }
}

/// Writes `new` if the word is `current`; returns the old word.
///
/// # Safety
/// - As for [`load`], for reads and writes.
#[inline(never)]
pub unsafe fn compare_exchange(address: usize, how: How, site: Site, current: u128, new: u128) -> u128 {
    let access = how.at(address, site);
    let lane = enter(&access, Use::Update);
    if access.bytes == 1 || access.bytes == 16 && !lane.worker().run.world.options.cas128 {
        lane.fail(FailureKind::Trap, access.site, None);
    }
    if let Some(explorer) = lane.explorer() {
        // SAFETY: checked, or the caller's obligation.
        return unsafe { modify(lane, explorer, &access, |old| (old == current).then_some(new)) };
    }
    // SAFETY: checked, or the caller's obligation.
    let old = unsafe { atomics::compare_exchange(access.address, access.bytes, current, new, access.order) };
    if old == current {
        lane.worker().progressed();
    }
    old
}

/// Executes one read-modify-write; returns the old word.
///
/// # Safety
/// - As for [`load`], for reads and writes.
#[inline(never)]
pub unsafe fn update(address: usize, how: How, site: Site, update: Update, value: u128) -> u128 {
    let access = how.at(address, site);
    let lane = enter(&access, Use::Update);
    if !matches!(access.bytes, 4 | 8) {
        lane.fail(FailureKind::Trap, access.site, None);
    }
    if let Some(explorer) = lane.explorer() {
        let new = |old| Some(update.apply(old, value, access.bytes));
        // SAFETY: checked, or the caller's obligation.
        return unsafe { modify(lane, explorer, &access, new) };
    }
    lane.worker().progressed();
    // SAFETY: checked, or the caller's obligation.
    unsafe { atomics::update(access.address, access.bytes, update, value, access.order) }
}

/// Executes a read-modify-write in exploring mode: `new` returns the word to write, if any. Returns the old
/// word.
///
/// # Safety
/// - As for [`load`], for reads and writes.
unsafe fn modify(
    lane: &Lane,
    explorer: &Explorer,
    access: &Access,
    new: impl Fn(u128) -> Option<u128>,
) -> u128 {
    if !explorer.tears(access) {
        // SAFETY: the caller's obligation.
        return unsafe { explorer.update(lane, access, new) };
    }
    let (address, how) = (access.address, How::from(access));
    // SAFETY: the caller's obligation.
    let old = unsafe { load(address, how, access.site) };
    if let Some(new) = new(old) {
        // SAFETY: the caller's obligation.
        unsafe { store(address, how, access.site, new) };
    }
    old
}

/// Executes an acquire-release fence.
pub fn fence(scope: Scope, site: Site) {
    let lane = Lane::current();
    lane.step(site);
    match lane.explorer() {
        None => atomics::fence(),
        Some(explorer) => explorer.fence(lane, scope, site),
    }
}

/// Executes a sequentially consistent fence.
pub fn fence_sc(scope: Scope, site: Site) {
    let lane = Lane::current();
    lane.step(site);
    match lane.explorer() {
        None => atomics::fence_sc(),
        Some(explorer) => explorer.fence_sc(lane, scope, site),
    }
}
