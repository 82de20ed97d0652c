//! The shared memory of a block: one array per source line or type that declares one.
use super::super::failure::FailureKind;
use super::super::lane::Lane;
use super::super::site::Site;
use super::atomics::{self, Update};
use super::global::Access;
use crate::{Order, Scope};
use std::any::TypeId;
use std::cell::{Cell, RefCell};

/// Identity of an array.
#[derive(Clone, Copy)]
pub enum Key {
    /// Declaring line: its function and its location. (Identical functions may be merged; locations never
    /// are.)
    Line(usize, Site),
    /// A type that states the array's shape.
    Shape(TypeId),
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Line(function, site), Self::Line(other, place)) => {
                function == other && std::ptr::eq(*site, *place)
            }
            (Self::Shape(shape), Self::Shape(other)) => shape == other,
            _ => false,
        }
    }
}

/// Contents of uninitialised shared memory.
const JUNK: u128 = 0xa5a5_a5a5_5a5a_5a5a_0000_0000_ffff_ffff;

struct Array {
    key: Key,
    words: Box<[Cell<u128>]>,
    /// Per byte: whether it was written. Empty unless tracked.
    written: Box<[Cell<bool>]>,
}

/// The arrays of a block that have been declared so far.
#[derive(Default)]
pub struct SharedMemory {
    arrays: RefCell<Vec<Array>>,
}

impl SharedMemory {
    /// Returns the address of the array `key`, which has `bytes` bytes; creates it on first use.
    fn array(&self, key: Key, bytes: usize, track_written: bool) -> u64 {
        let mut arrays = self.arrays.borrow_mut();
        if let Some(array) = arrays.iter().find(|array| array.key == key) {
            return array.words.as_ptr() as u64;
        }
        let words: Box<[_]> = (0..bytes.div_ceil(16).max(1)).map(|_| Cell::new(JUNK)).collect();
        let written = (0..if track_written { bytes } else { 0 }).map(|_| Cell::new(false)).collect();
        let address = words.as_ptr() as u64;
        arrays.push(Array { key, words, written });
        address
    }

    /// Calls `body` with the address and the size of each array.
    pub fn each(&self, mut body: impl FnMut(usize, usize)) {
        self.arrays
            .borrow()
            .iter()
            .for_each(|array| body(array.words.as_ptr() as usize, 16 * array.words.len()));
    }

    /// Marks a write, or returns `true` if the bytes read have been written.
    fn written(&self, address: usize, bytes: usize, writes: bool) -> bool {
        let arrays = self.arrays.borrow();
        let array = arrays.iter().find_map(|array| {
            let offset = address.wrapping_sub(array.words.as_ptr() as usize);
            array.written.get(offset..offset.saturating_add(bytes))
        });
        let Some(written) = array else { return true };
        if writes {
            written.iter().for_each(|byte| byte.set(true));
        }
        written.iter().all(Cell::get)
    }
}

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

/// Adds to 4 bytes; returns the old value.
///
/// # Safety
/// - As for [`load`].
#[inline(never)]
pub unsafe fn fetch_add(address: u64, value: u32, site: Site) -> u32 {
    let access = Access { order: Order::Relaxed, ..weak(address, 4, site) };
    let lane = enter(&access, false);
    match lane.explorer() {
        None => {
            // SAFETY: the caller's obligation.
            unsafe { atomics::update(access.address, 4, Update::Add, value.into(), Order::Relaxed) as u32 }
        }
        Some(explorer) => {
            let sum = |old| Some(Update::Add.apply(old, value.into(), 4));
            // SAFETY: the caller's obligation.
            unsafe { explorer.update(lane, &access, sum) as u32 }
        }
    }
}
