//! Entry points of batches. Those of scans are in [`scan`](super::scan).
//!
//! In a batch, each thread brings an element; the tiles of a warp search its keys, its lanes lock slots and
//! write keys and scores, and the whole warp moves rows.
//!
//! # Cost
//!
//! A search reads a line of 128 bytes of digests in each bucket, or one sector of it per step, and the keys
//! of the slots with the key's digest: one, and 0.5 wrong ones a line on average. A change locks and
//! releases its slot by an atomic each, and writes key, score and row. An eviction also reads the digests and
//! the 128 scores of each bucket of the key.
//!
//! # Concurrent lookups
//!
//! `cache_get_concurrent` and `cache_contains_concurrent` may run concurrently with changes of a table with
//! versions ([`CacheView::with_versions`]). They read the version of a slot twice, and the key again; changes
//! add to the version twice.
use super::action::{Accumulate, Assign, Evicted, Insert, InsertEvict, ReadRows, Remove, reserve};
use super::change::{Changes, change};
use super::layout::NOWHERE;
use super::lookups::Lookups;
use super::mode::{Changing, End, Placing, Reading};
use super::rows::{Chunk, CopyOut, Element, RowSlice, copy_chunk, move_rows};
use super::versions::{find, find_and_copy};
use super::view::{CacheView, Config, Rows};
use crate::keyed::kernels::{read_if, write_if};
use crate::keyed::{Outcome, Scalar};
use simt::{BoundedSlice, GlobalSlice, Instance, Order, Scope, Thread, Tile, device, kernel};

/// Looks keys up. Nothing may change the table meanwhile.
#[kernel(registers = 40)]
pub fn cache_get<C: Config + Instance>(view: CacheView<C>, batch: Lookups<C::Key>) {
    let (exists, key) = element(batch.keys);
    let position = C::search::<Reading>(view, exists, key).position;
    if !batch.rows.is_empty() {
        let is_far = !batch.far.is_empty() && position != NOWHERE && view.rows().is_far(position);
        if exists {
            write_if(batch.far, Thread::index(), if is_far { position } else { NOWHERE });
        }
        let task = (if is_far { NOWHERE } else { position }, Thread::index() as u32);
        move_rows(view.rows(), batch.chunk, Tile::lockstep(), task, CopyOut::<false> { to: batch.rows });
    }
    report(batch, (exists, key), position);
}

/// Copies the rows at ascending positions to the rows of an output that `order` names. Lookups leave far rows
/// to this kernel ([`Lookups::far`]). A position [`NOWHERE`] is that of no row. A thread for each chunk of
/// each row: so the rows that are read at the same time are neighbours, and few pages of host memory.
#[kernel]
pub fn cache_copy_far(
    rows: Rows,
    positions: GlobalSlice<u32>,
    order: GlobalSlice<u32>,
    to: RowSlice,
    chunk: Chunk,
) {
    let chunks = rows.words() as usize / chunk as usize;
    let (place, first) = (Thread::index() / chunks, Thread::index() % chunks * chunk as usize);
    if place >= positions.len() || positions.read(place) == NOWHERE {
        return;
    }
    let task = (positions.read(place), order.read(place));
    match chunk {
        Chunk::One => copy_chunk::<1>(rows, task, to, first as u32),
        Chunk::Four => copy_chunk::<4>(rows, task, to, first as u32),
    }
}

/// Looks keys up while other launches change the table, which has versions; nothing may move keys or replace
/// the table's memory meanwhile. The batch has rows; that of an absent key is arbitrary.
#[kernel(registers = 40)]
pub fn cache_get_concurrent<C: Config + Instance>(view: CacheView<C>, batch: Lookups<C::Key>) {
    let element = element(batch.keys);
    let position = find_and_copy(view, Tile::lockstep(), &batch, element);
    report(batch, element, position);
}

/// Returns whether the calling thread has an element of a lookup, and its key.
#[device]
fn element<K: Scalar>(keys: BoundedSlice<K>) -> (bool, K) {
    let (keys, index) = (keys.resolve(), Thread::index());
    let exists = index < keys.len();
    (exists, read_if(keys, index, exists))
}

/// Writes whether the key of the calling thread's element is present.
#[device]
fn report_presence(outcomes: GlobalSlice<u8>, exists: bool, is_present: bool) {
    if exists {
        let outcome = if is_present { Outcome::Found } else { Outcome::Absent };
        outcomes.write(Thread::index(), outcome as u8);
    }
}

/// Writes the outputs of a lookup except the row.
#[device]
fn report<K: Scalar>(batch: Lookups<K>, (exists, key): (bool, K), position: u32) {
    let (index, warp) = (Thread::index(), Tile::<32>::lockstep());
    let is_missed = exists && position == NOWHERE;
    if !batch.missed_count.is_empty() {
        let place = reserve(warp, batch.missed_count, is_missed) as usize;
        if is_missed {
            write_if(batch.missed, place, key);
            write_if(batch.missed_indices, place, index as u32);
        }
    }
    if exists {
        // mutation: late equivalent, because only later launches read the output.
        write_if(batch.outcomes, index, if is_missed { Outcome::Absent } else { Outcome::Found } as u8);
    }
}

/// Looks keys up, and writes the positions of their slots, or [`NOWHERE`], and the addresses of their rows,
/// or 0. Nothing may change the table meanwhile.
#[kernel(registers = 40)]
pub fn cache_get_ref<C: Config + Instance>(
    view: CacheView<C>,
    keys: BoundedSlice<C::Key>,
    positions: GlobalSlice<u32>,
    addresses: GlobalSlice<u64>,
    outcomes: GlobalSlice<u8>,
) {
    let (exists, key) = element(keys);
    let position = C::search::<Reading>(view, exists, key).position;
    let found = position != NOWHERE;
    if exists {
        // SAFETY: a position that is not `NOWHERE` is that of a slot.
        let row = if found { unsafe { view.rows().of(position) }.as_ptr() as u64 } else { 0 };
        positions.write(Thread::index(), position);
        addresses.write(Thread::index(), row);
    }
    report_presence(outcomes, exists, found);
}

/// Looks keys up without their rows. Nothing may change the table meanwhile.
#[kernel(registers = 40)]
pub fn cache_contains<C: Config + Instance>(
    view: CacheView<C>,
    keys: BoundedSlice<C::Key>,
    outcomes: GlobalSlice<u8>,
) {
    let (exists, key) = element(keys);
    let found = C::search::<Reading>(view, exists, key).end == End::Present;
    report_presence(outcomes, exists, found);
}

/// [`cache_contains`], while other launches change the table: see [`cache_get_concurrent`].
#[kernel(registers = 40)]
pub fn cache_contains_concurrent<C: Config + Instance>(
    view: CacheView<C>,
    keys: BoundedSlice<C::Key>,
    outcomes: GlobalSlice<u8>,
) {
    let (exists, key) = element(keys);
    let found = find(view, (exists, key)).end == End::Present;
    report_presence(outcomes, exists, found);
}

/// Places keys and rows; replaces the rows of keys that are present.
#[kernel(registers = 72)]
pub fn cache_insert<C: Config + Instance>(view: CacheView<C>, batch: Changes<C::Key, C::Score>) {
    change(view, batch, Insert);
}

/// [`cache_insert`], which copies what it evicts to an output.
#[kernel(registers = 72)]
pub fn cache_insert_evict<C: Config + Instance>(
    view: CacheView<C>,
    batch: Changes<C::Key, C::Score>,
    evicted: Evicted<C::Key, C::Score>,
) {
    change(view, batch, InsertEvict { evicted });
}

/// Copies the rows of keys that are present to `to`, and places the others.
#[kernel]
pub fn cache_get_or_insert<C: Config + Instance>(
    view: CacheView<C>,
    batch: Changes<C::Key, C::Score>,
    to: RowSlice,
) {
    change(view, batch, ReadRows::<Placing>::to(to));
}

/// Adds rows to those of keys that are present, and places the others.
#[kernel]
pub fn cache_accumulate<C: Config + Instance>(
    view: CacheView<C>,
    batch: Changes<C::Key, C::Score>,
    element: Element,
) {
    change(view, batch, Accumulate { element });
}

/// Replaces the rows of keys that are present, if there are rows, and updates their scores.
#[kernel]
pub fn cache_assign<C: Config + Instance>(view: CacheView<C>, batch: Changes<C::Key, C::Score>) {
    change(view, batch, Assign);
}

/// Copies the rows of keys that are present to `to`, and updates their scores.
#[kernel]
pub fn cache_get_and_touch<C: Config + Instance>(
    view: CacheView<C>,
    batch: Changes<C::Key, C::Score>,
    to: RowSlice,
) {
    change(view, batch, ReadRows::<Changing>::to(to));
}

/// Removes keys.
#[kernel]
pub fn cache_remove<C: Config + Instance>(view: CacheView<C>, batch: Changes<C::Key, C::Score>) {
    change(view, batch, Remove);
}

/// Sets the bits of slots, those of a lease: bit `i % 32` of word `i / 32` for the position `i`. A thread for
/// each position; positions of no slot are left out.
#[kernel]
pub fn cache_mark_leases(positions: GlobalSlice<u32>, leased: GlobalSlice<u32>) {
    let index = Thread::index();
    if index < positions.len() && positions.read(index) != NOWHERE {
        let position = positions.read(index);
        leased.at((position / 32) as usize).fetch_or(1 << (position % 32), Order::Relaxed, Scope::Device);
    }
}
