//! Entry points of batches. Each thread brings an element; the tiles of a warp search its keys, its lanes
//! lock and claim slots and write keys, and the whole warp moves values of other sizes than 8 bytes.
//!
//! # Cost
//!
//! A search reads, in each of the key's groups, the version and the fingerprints of its buckets: one line of
//! 128 bytes, unless a group has more than 64 slots. A lookup then reads the item: a line of the image. A
//! lookup of an absent key reads no line of the image, except for each of the 16 383 fingerprints that agrees
//! by chance. Beside changes, a lookup reads a version again.
//!
//! Elements of a warp with equal keys change the table once: to find them takes a match, two shuffles and a
//! ballot, and for keys of several words a read of those of the group's leader.
//!
//! An insertion searches twice, takes two compare-and-swaps of a word of fingerprints and one atomic on a
//! word of slot bits, and writes the item and a word for its page. An update in place takes a
//! compare-and-swap and an atomic; one by a new item takes two compare-and-swaps, four atomics on
//! fingerprints, two on the group's version and one on the slot bits. A removal takes one each on the
//! fingerprint, the slot bit and the version.
use super::change::{Changes, Insert, InsertNew, Remove, Update, change};
use super::keys::{Keys, Wanted};
use super::kind::Config;
use super::layout::NOWHERE;
use super::mode::{Cached, Mode, Watching};
use super::rows::{CopyOut, move_rows, value_at};
use super::search::Search;
use super::view::PersistentView;
use crate::keyed::Outcome;
use crate::keyed::kernels::write_if;
use simt::{
    BoundedSlice, GlobalSlice, Instance, Lockstep, Order, Scope, Thread, Tile, device, kernel, recheck,
};

/// Elements of a lookup.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Lookups {
    /// Words of the keys, one key behind the other. A count is one of keys.
    pub keys: BoundedSlice<u64>,
    /// Output: words of the values of the keys that are present.
    pub values: GlobalSlice<u32>,
    /// Output: an outcome for each key, if wanted.
    pub outcomes: GlobalSlice<u8>,
}

/// Looks keys up, beside changes.
#[kernel]
pub fn persistent_get<C: Search + Instance>(view: PersistentView<C>, batch: Lookups) {
    get::<C, Watching>(view, batch);
}

/// Looks keys up, beside changes, also in the cache. Tables without one need fewer registers by
/// [`persistent_get`].
#[kernel]
pub fn persistent_get_cached<C: Search + Instance>(view: PersistentView<C>, batch: Lookups) {
    get::<C, Cached>(view, batch);
}

/// Returns whether keys are present, beside changes.
#[kernel]
pub fn persistent_contains<C: Search + Instance>(view: PersistentView<C>, batch: Lookups) {
    contains::<C, Watching>(view, batch);
}

/// Returns whether keys are present, beside changes, also by the cache.
#[kernel]
pub fn persistent_contains_cached<C: Search + Instance>(view: PersistentView<C>, batch: Lookups) {
    contains::<C, Cached>(view, batch);
}

/// Places keys and values; replaces the values of keys that are present.
#[kernel]
pub fn persistent_insert<C: Search + Instance>(view: PersistentView<C>, batch: Changes) {
    change::<C, Insert>(view, batch);
}

/// Places the keys that are absent, with their values.
#[kernel]
pub fn persistent_insert_new<C: Search + Instance>(view: PersistentView<C>, batch: Changes) {
    change::<C, InsertNew>(view, batch);
}

/// Replaces the values of keys that are present.
#[kernel]
pub fn persistent_update<C: Search + Instance>(view: PersistentView<C>, batch: Changes) {
    change::<C, Update>(view, batch);
}

/// Removes keys.
#[kernel]
pub fn persistent_remove<C: Search + Instance>(view: PersistentView<C>, batch: Changes) {
    change::<C, Remove>(view, batch);
}

/// Writes the outcome of the calling thread's element.
#[device]
fn report(batch: Lookups, exists: bool, found: bool) {
    if exists {
        let outcome = if found { Outcome::Found } else { Outcome::Absent };
        // mutation: late equivalent, because only later launches read the output.
        write_if(batch.outcomes, Thread::index(), outcome as u8);
    }
}

#[device]
fn contains<C: Search, M: Mode>(view: PersistentView<C>, batch: Lookups) {
    let keys = Keys::of::<C>(batch.keys);
    let Some((exists, wanted)) = keys.element::<C>(view.seed()) else { return };
    let sought = C::search::<M>(view, keys, (exists, wanted, NOWHERE));
    let found = sought.position != NOWHERE;
    if M::USES_CACHE && found {
        // mutation: early tear skip performance, because a byte of heat only decides which items get copies.
        view.note_read(sought.position);
    }
    report(batch, exists, found);
}

#[device]
fn get<C: Search, M: Mode>(view: PersistentView<C>, batch: Lookups) {
    let keys = Keys::of::<C>(batch.keys);
    let Some((exists, wanted)) = keys.element::<C>(view.seed()) else { return };
    if C::IS_SMALL {
        let sought = C::search::<M>(view, keys, (exists, wanted, NOWHERE));
        let found = sought.position != NOWHERE;
        if found {
            let first = wanted.index as usize * 2;
            // mutation: late equivalent, because only later launches read the output.
            batch.values.write(first, sought.value as u32);
            // mutation: late equivalent, because only later launches read the output.
            batch.values.write(first + 1, (sought.value >> 32) as u32);
            if M::USES_CACHE {
                // mutation: early tear skip performance, because a byte of heat only decides which items get
                // copies.
                view.note_read(sought.position);
            }
        }
        report(batch, exists, found);
        return;
    }
    let found = find_and_copy::<C, M>(view, (keys, batch.values), (exists, wanted));
    report(batch, exists, found);
}

/// Searches the key of a lane, if it `exists`, and copies its value to the output. Returns whether the key
/// was present; otherwise, the output's value is arbitrary.
#[device]
fn find_and_copy<C: Search, M: Mode>(
    view: PersistentView<C>,
    (keys, to): (Keys, GlobalSlice<u32>),
    (exists, wanted): (bool, Wanted),
) -> bool {
    let warp: Tile<32, Lockstep> = Tile::lockstep();
    let (words, mut pending, mut found) = (view.value_words(), exists, false);
    let copy = CopyOut { to, words, order: Order::Acquire };
    while warp.any(pending) {
        let sought = C::search::<M>(view, keys, (pending, wanted, NOWHERE));
        let position = if pending { sought.position } else { NOWHERE };
        // SAFETY: a position that is not `NOWHERE` is that of a slot.
        let address = unsafe { if position == NOWHERE { 0 } else { found_at::<C, M>(view, position) } };
        // The lane's search, and its read of the link, are before the reads of the value by all lanes.
        warp.sync();
        // SAFETY: addresses that are not 0 are those of items' values, or of their copies.
        unsafe { move_rows(warp, words, (address, wanted.index), copy) };
        // All reads of the value acquire, so they are before the second read of the version.
        warp.sync();
        if position != NOWHERE {
            // SAFETY: the position is that of a slot.
            let version = unsafe { view.version(position / C::SLOTS) };
            found = !M::IS_FINAL || recheck(version.load(Order::Relaxed, Scope::Device) == sought.version);
        }
        pending &= position != NOWHERE && !found;
        if M::USES_CACHE && found && position != NOWHERE {
            // mutation: early tear skip performance, because a byte of heat only decides which items get
            // copies.
            view.note_read(position);
        }
    }
    found
}

/// Returns the address of the value that a lookup has found in a slot: in the copy, if there is one.
///
/// # Safety
/// - The position is that of a slot.
#[device]
unsafe fn found_at<C: Config, M: Mode>(view: PersistentView<C>, position: u32) -> u64 {
    // SAFETY: the caller's obligation. The value follows the key.
    unsafe {
        // mutation: early load performance, because the version has advanced since the search read it if the
        // link has changed: the lookup begins again.
        match if M::USES_CACHE { view.copy_of(position, Order::Acquire) } else { None } {
            Some(copy) => copy.offset(2 * C::KEY_WORDS as usize).as_ptr() as u64,
            None => value_at(view, position),
        }
    }
}
