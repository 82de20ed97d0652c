//! Accesses to global memory: the step, the check, the detectors, and then the access itself. All stores pass
//! here.
//!
//! None of this goes into the kernels: they call it. What one access takes, inlined at each of the thousands
//! of lines that make one, was most of what a compiler spent on kernels for the host.
use super::super::failure::FailureKind;
use super::super::lane::{Lane, Site};
use super::access::{Use, check};
use super::atomics::{self, Update};
use crate::{Order, Scope};

/// An access: which bytes, how ordered, and by which line of source.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub address: usize,
    /// 1, 4, 8 or 16.
    pub bytes: usize,
    pub order: Order,
    pub scope: Scope,
    pub site: Site,
}

/// All of an access but the place and the line: what the compiler knows of it, in one register.
#[derive(Clone, Copy, Debug)]
pub struct How {
    bytes: u8,
    order: Order,
    scope: Scope,
}

impl How {
    /// That of words of a type.
    #[inline(always)]
    pub const fn of<T>(order: Order, scope: Scope) -> Self {
        Self { bytes: size_of::<T>() as u8, order, scope }
    }

    /// The bytes of the word.
    #[inline(always)]
    pub const fn bytes(self) -> usize {
        self.bytes as usize
    }

    #[inline(always)]
    fn at(self, address: usize, site: Site) -> Access {
        Access { address, bytes: self.bytes(), order: self.order, scope: self.scope, site }
    }
}

/// What every access begins with.
#[inline(always)]
fn enter(access: &Access, usage: Use) -> &'static Lane {
    let lane = Lane::current();
    lane.step(access.site);
    check(lane, access.address, access.bytes, usage, access.site);
    lane
}

/// Reads.
///
/// # Safety
/// - The bytes are valid for reads. (Those that `check` cannot vouch for because detection is off.)
#[inline(never)]
pub unsafe fn load(address: usize, how: How, site: Site) -> u128 {
    let access = how.at(address, site);
    let lane = enter(&access, Use::Read);
    // SAFETY: checked, or the caller's.
    let newest = unsafe { atomics::load(access.address, access.bytes, access.order) };
    match lane.explorer() {
        None => newest,
        Some(explorer) => explorer.load(lane, &access, newest),
    }
}

/// Writes.
///
/// # Safety
/// - As for [`load`], for writes.
#[inline(never)]
pub unsafe fn store(address: usize, how: How, site: Site, value: u128) {
    let access = how.at(address, site);
    let lane = enter(&access, Use::Write);
    match lane.explorer() {
        None => lane.worker().progressed(),
        // SAFETY: checked, or the caller's.
        Some(explorer) => explorer.store(lane, &access, unsafe { peek(&access) }, value),
    }
    // SAFETY: checked, or the caller's.
    unsafe { atomics::store(access.address, access.bytes, value, access.order) }
}

/// Writes `new` if `current` stands there; gives what stood there.
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
        // SAFETY: checked, or the caller's.
        let old = unsafe { peek(&access) };
        explorer.update(lane, &access, old, (old == current).then_some(new));
    }
    // SAFETY: checked, or the caller's.
    let old = unsafe { atomics::compare_exchange(access.address, access.bytes, current, new, access.order) };
    if old == current {
        lane.worker().progressed();
    }
    old
}

/// One read-modify-write; gives what stood there.
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
    match lane.explorer() {
        None => lane.worker().progressed(),
        Some(explorer) => {
            // SAFETY: checked, or the caller's.
            let old = unsafe { peek(&access) };
            explorer.update(lane, &access, old, Some(update.apply(old, value, access.bytes)));
        }
    }
    // SAFETY: checked, or the caller's.
    unsafe { atomics::update(access.address, access.bytes, update, value, access.order) }
}

/// What stands there, while no other lane runs.
unsafe fn peek(access: &Access) -> u128 {
    // SAFETY: the caller's.
    unsafe { atomics::load(access.address, access.bytes, Order::Relaxed) }
}

/// Orders the lane's accesses before with those after.
pub fn fence(scope: Scope, site: Site) {
    let lane = Lane::current();
    lane.step(site);
    match lane.explorer() {
        None => atomics::fence(),
        Some(explorer) => explorer.fence(lane, scope),
    }
}

/// A [`fence`] that is in one order with all others of its kind.
pub fn fence_sc(scope: Scope, site: Site) {
    let lane = Lane::current();
    lane.step(site);
    match lane.explorer() {
        None => atomics::fence_sc(),
        Some(explorer) => explorer.fence_sc(lane, scope),
    }
}
