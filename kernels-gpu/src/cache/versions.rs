//! Lookups that run beside changes of the table: a version per slot tells whether a row was copied whole.
//!
//! ```text
//! change                                       lookup
//! lock the slot: its digest is BUSY            search the key; BUSY and not found: search again
//! version += 1              odd from now on    first = version, acquired; odd: search again
//! barrier of the warp; fence of each lane      barrier of the warp; read key and row
//! write key, score, row                        (these reads acquire) barrier of the warp
//! barrier of the warp                          another version or key: search again
//! version += 1, released    even again
//! release the slot
//! ```
//!
//! Acquiring reads instead of a fence of the lookup: a fence would also wait for the writes to the output.
//!
//! A lookup takes no lock and changes nothing, so changes never wait for it. It waits for changes under way.
use super::layout::NOWHERE;
use super::lookups::Lookups;
use super::mode::{End, Sought, Watching};
use super::rows::{CopyOut, move_rows};
use super::view::{CacheView, Config};
use simt::{Lockstep, Order, Scope, Thread, Tile, device, recheck};

/// Makes the version of a slot odd that the caller has locked, if it `writes` key, score or row. Does nothing
/// if the table has no versions.
#[device]
pub(super) fn begin_write<C: Config>(view: CacheView<C>, (writes, position): (bool, u32)) {
    if writes && view.has_versions() {
        // mutation: tear equivalent, because the holder of the slot alone writes its version.
        view.version(position).fetch_add(1, Order::Relaxed, Scope::Device);
        order_versions(view);
    }
}

/// Orders the odd versions before what the calling lane writes from now on: a lookup that reads that sees the
/// odd version, or a later one. The holder of a slot calls it before it writes key and score, and all lanes
/// of the warp after a barrier, before they move rows.
#[device]
pub(super) fn order_versions<C: Config>(view: CacheView<C>) {
    if view.has_versions() {
        simt::fence(Scope::Device);
    }
}

/// Makes the version of a slot even again if the caller `writes` to it, after all writes of its warp.
#[device]
pub(super) fn end_write<C: Config>(view: CacheView<C>, (writes, position): (bool, u32)) {
    if writes && view.has_versions() {
        // mutation: tear equivalent, because the holder of the slot alone writes its version.
        view.version(position).fetch_add(1, Order::Release, Scope::Device);
    }
}

/// Searches the key of a lane, if it `exists`, beside changes: again while a locked slot may have the key.
#[device]
pub(super) fn find<C: Config>(view: CacheView<C>, (exists, key): (bool, C::Key)) -> Sought {
    let (mut waits, mut sought) = (exists, Sought::NOTHING);
    while Tile::<32>::lockstep().any(waits) {
        let found = C::search::<Watching>(view, waits, key);
        if waits {
            sought = found;
        }
        waits &= found.end == End::Locked;
        simt::spin_hint();
    }
    sought
}

/// Searches the key of a lane, if it `exists`, and copies its row to the batch's output, beside changes. The
/// row was the key's at one moment. Returns the slot, or [`NOWHERE`]; the output's row is then arbitrary.
#[device]
pub(super) fn find_and_copy<C: Config>(
    view: CacheView<C>,
    warp: Tile<32, Lockstep>,
    batch: &Lookups<C::Key>,
    (exists, key): (bool, C::Key),
) -> u32 {
    let (mut waits, mut found) = (exists, NOWHERE);
    while warp.any(waits) {
        let sought = C::search::<Watching>(view, waits, key);
        let first = version(view, sought.position, Order::Acquire);
        let position = if recheck(first.is_multiple_of(2)) { sought.position } else { NOWHERE };
        // The lane's version is before the reads of the row by all lanes.
        warp.sync();
        let task = (position, Thread::index() as u32);
        move_rows(view.rows(), batch.chunk, warp, task, CopyOut::<true> { to: batch.rows });
        let is_same = has_key(view, position, key);
        // All reads of the row and of the key acquire, so they are before the second read of the version.
        warp.sync();
        if recheck(is_same) && recheck(version(view, position, Order::Relaxed) == first) {
            found = position;
            waits = false;
        }
        waits &= sought.end != End::Absent;
        simt::spin_hint();
    }
    found
}

/// Returns the version of a slot; an odd one for no slot.
#[device(caller)]
fn version<C: Config>(view: CacheView<C>, position: u32, order: Order) -> u32 {
    if position == NOWHERE { 1 } else { view.version(position).load(order, Scope::Device) }
}

/// Returns whether the position is that of a slot, which has the key.
#[device(caller)]
fn has_key<C: Config>(view: CacheView<C>, position: u32, key: C::Key) -> bool {
    // SAFETY: a position that is not `NOWHERE` is that of a slot.
    position != NOWHERE && unsafe { view.key(position) }.load(Order::Acquire, Scope::Device) == key
}
