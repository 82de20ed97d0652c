//! Entry points: batches, and scans of the whole table.
//!
//! In a batch, each thread brings an element; the tiles of a warp search its keys, its lanes lock slots and
//! write keys and scores, and the whole warp moves rows.
//!
//! # Cost
//!
//! A search reads a line of 128 bytes of digests in each bucket, or one sector of it per step, and the keys
//! of the slots with the key's digest: one, and 0.5 wrong ones a line on average. A change locks and
//! releases its slot by an atomic each, and writes key, score and row. An eviction also reads the digests and
//! the 128 scores of each bucket of the key. Scans read all digests; [`cache_export`] also reads the scores,
//! and the keys and rows that it returns.
use super::action::{
    Accumulate, Assign, Evicted, GetAndTouch, GetOrInsert, Insert, InsertEvict, Remove, reserve,
};
use super::change::{Changes, change};
use super::digest::Digest;
use super::promote::promote_one;
use super::rows::{Chunk, CopyOut, Element, RowSlice, move_rows};
use super::search::{End, Reading};
use super::view::{CacheView, Config, NOWHERE, SLOTS};
use crate::keyed::kernels::{add_up, read_if, write_if};
use crate::keyed::{Outcome, Scalar};
use simt::{BoundedSlice, GlobalSlice, Instance, Order, Scope, Thread, Tile, device, kernel};

/// The elements of a batch that only reads, and its outputs. An output that is not wanted is empty.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Lookups<K> {
    /// Keys.
    pub keys: BoundedSlice<K>,
    /// Output: the rows of the keys that are present.
    pub rows: RowSlice,
    /// Output: the positions of the keys' slots, or [`NOWHERE`].
    pub positions: GlobalSlice<u32>,
    /// Output: the addresses of the keys' rows, or 0.
    pub addresses: GlobalSlice<u64>,
    /// Output: the keys that are absent, one behind the other, in any order.
    pub missed: GlobalSlice<K>,
    /// Output: the indices of these keys in the batch.
    pub missed_indices: GlobalSlice<u32>,
    /// Output: their number, one word, zero before the batch.
    pub missed_count: GlobalSlice<u32>,
    /// Output: an outcome for each key.
    pub outcomes: GlobalSlice<u8>,
    /// Number of words that a lane moves at once.
    pub chunk: Chunk,
}

/// Looks keys up. Nothing may change the table meanwhile.
#[kernel]
pub fn cache_get<C: Config + Instance>(view: CacheView<C>, batch: Lookups<C::Key>) {
    let (keys, index, warp) = (batch.keys.resolve(), Thread::index(), Tile::<32>::lockstep());
    let exists = index < keys.len();
    let key = read_if(keys, index, exists);
    let position = C::search::<Reading>(view, exists, key).position;
    if !batch.rows.is_empty() {
        move_rows(view.rows(), batch.chunk, warp, (position, index as u32), CopyOut { to: batch.rows });
    }
    let is_missed = exists && position == NOWHERE;
    if !batch.missed_count.is_empty() {
        let place = reserve(warp, batch.missed_count, is_missed) as usize;
        if is_missed {
            write_if(batch.missed, place, key);
            write_if(batch.missed_indices, place, index as u32);
        }
    }
    if exists {
        write_if(batch.positions, index, position);
        if !batch.addresses.is_empty() {
            // SAFETY: a position that is not `NOWHERE` is that of a slot.
            let row = if is_missed { 0 } else { unsafe { view.rows().of(position) }.as_ptr() as u64 };
            batch.addresses.write(index, row);
        }
        write_if(batch.outcomes, index, if is_missed { Outcome::Absent } else { Outcome::Found } as u8);
    }
}

/// Looks keys up without their rows. Nothing may change the table meanwhile.
#[kernel]
pub fn cache_contains<C: Config + Instance>(
    view: CacheView<C>,
    keys: BoundedSlice<C::Key>,
    outcomes: GlobalSlice<u8>,
) {
    let (keys, index) = (keys.resolve(), Thread::index());
    let exists = index < keys.len();
    let found = C::search::<Reading>(view, exists, read_if(keys, index, exists)).end == End::Present;
    if exists {
        outcomes.write(index, if found { Outcome::Found } else { Outcome::Absent } as u8);
    }
}

/// Places keys and rows; replaces the rows of keys that are present.
#[kernel]
pub fn cache_insert<C: Config + Instance>(view: CacheView<C>, batch: Changes<C::Key, C::Score>) {
    change(view, batch, Insert);
}

/// [`cache_insert`], which copies what it evicts to an output.
#[kernel]
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
    change(view, batch, GetOrInsert { to });
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
    change(view, batch, GetAndTouch { to });
}

/// Removes keys.
#[kernel]
pub fn cache_remove<C: Config + Instance>(view: CacheView<C>, batch: Changes<C::Key, C::Score>) {
    change(view, batch, Remove);
}

/// Passes the outcomes and rows of merged elements on to all of them. `ends` has `runs[0]` words, and
/// `merged` the outcome of each run; the first element of a run has its outcome, and the others `present` if
/// the key was placed by the first. The rows at the indices of the runs' last elements are copied to the
/// others, if `rows` is not empty. A thread for each element.
#[kernel]
pub fn cache_spread(
    order: GlobalSlice<u32>,
    ends: GlobalSlice<u32>,
    runs: GlobalSlice<u32>,
    merged: GlobalSlice<u8>,
    present: u32,
    outcomes: GlobalSlice<u8>,
    rows: GlobalSlice<u32>,
    words: u32,
) {
    let place = Thread::index();
    if place >= order.len() {
        return;
    }
    let run = first_at_least(ends.part(0, runs.read(0) as usize), place as u32);
    let first = if run == 0 { 0 } else { ends.read(run - 1) + 1 };
    let (index, outcome) = (order.read(place), merged.read(run) as u32);
    let was_placed = outcome == Outcome::Inserted as u32 && place as u32 != first;
    write_if(outcomes, index as usize, if was_placed { present } else { outcome } as u8);
    let source = order.read(ends.read(run) as usize);
    if !rows.is_empty() && source != index {
        let (from, to) = (source as usize * words as usize, index as usize * words as usize);
        let mut word = 0;
        while word < words as usize {
            rows.write(to + word, rows.read(from + word));
            word += 1;
        }
    }
}

/// Returns the index of the first word that is at least `least`, among ascending words of which the last one
/// is.
#[device]
fn first_at_least(words: GlobalSlice<u32>, least: u32) -> usize {
    let (mut low, mut high) = (0, words.len() - 1);
    while low < high {
        let middle = (low + high) / 2;
        if words.read(middle) < least { low = middle + 1 } else { high = middle }
    }
    low
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

/// The keys of a scan: those with scores from `low` to `high`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Scores {
    /// Lowest score.
    pub low: u64,
    /// Highest score.
    pub high: u64,
}

/// Shows each warp its buckets, one after the other.
#[device(caller)]
fn each_bucket<C: Config>(view: CacheView<C>, mut see: impl FnMut(u32)) {
    let (mut bucket, warps) = ((Thread::index() / 32) as u32, (Thread::count() / 32) as u32);
    while bucket < view.buckets() {
        see(bucket);
        bucket += warps;
    }
}

/// Shows each warp the slots of its buckets, a bucket after the other and four slots a lane, one after the
/// other: its position, and whether it has a key with a score in the range.
#[device(caller)]
fn each_slot<C: Config>(view: CacheView<C>, scores: Scores, mut see: impl FnMut(u32, bool)) {
    let warp = Tile::<32>::lockstep();
    each_bucket(view, |bucket| {
        let first = bucket * SLOTS + warp.rank() * 4;
        // SAFETY: the positions are those of the bucket's slots.
        let digests = unsafe { view.digest_word(first) }.load(Order::Relaxed, Scope::Device);
        let mut slot = 0;
        while slot < 4 {
            let mut is_chosen = Digest::in_word(digests, slot).has_key();
            if is_chosen && (scores.low, scores.high) != (0, u64::MAX) {
                // SAFETY: as above.
                let score = unsafe { view.score(first + slot) }.load(Order::Relaxed, Scope::Device);
                is_chosen = (scores.low..=scores.high).contains(&score.to_u64());
            }
            see(first + slot, is_chosen);
            slot += 1;
        }
    });
}

/// Adds the number of keys with scores in a range to `count`. Any number of whole warps.
#[kernel]
pub fn cache_count<C: Config + Instance>(view: CacheView<C>, scores: Scores, count: GlobalSlice<u64>) {
    let mut many = 0;
    each_slot(view, scores, |_, is_chosen| many += is_chosen as u32);
    add_up(count.at(0), many);
}

/// Writes the keys with scores in a range, their scores and their rows, and their number to `count`, which is
/// zero before. An output that is not wanted is empty. Any number of whole warps. Nothing may change the
/// table meanwhile.
#[kernel]
pub fn cache_export<C: Config + Instance>(
    view: CacheView<C>,
    scores: Scores,
    output: Evicted<C::Key, C::Score>,
    chunk: Chunk,
) {
    let warp = Tile::<32>::lockstep();
    each_slot(view, scores, |position, is_chosen| {
        let index = reserve(warp, output.count, is_chosen);
        if is_chosen {
            // SAFETY: the position is that of a slot.
            let (key, score) = unsafe { (view.key(position), view.score(position)) };
            write_if(output.keys, index as usize, key.load(Order::Relaxed, Scope::Device));
            write_if(output.scores, index as usize, score.load(Order::Relaxed, Scope::Device));
        }
        if !output.rows.is_empty() {
            let position = if is_chosen { position } else { NOWHERE };
            move_rows(view.rows(), chunk, warp, (position, index), CopyOut { to: output.rows });
        }
    });
}

/// Moves keys with high scores to slots whose rows are near: at most `most` keys in each bucket. Adds the
/// number of keys that moved to `count`. Any number of whole warps. Nothing may use the table meanwhile.
#[kernel]
pub fn cache_promote<C: Config + Instance>(view: CacheView<C>, most: u32, count: GlobalSlice<u64>) {
    let (warp, mut many) = (Tile::<32>::lockstep(), 0);
    each_bucket(view, |bucket| {
        let mut moves = 0;
        while moves < most && promote_one(view, warp, bucket) {
            moves += 1;
        }
        many += moves;
    });
    if warp.rank() == 0 && many > 0 {
        count.at(0).fetch_add(many as u64, Order::Relaxed, Scope::Device);
    }
}

/// Removes the keys with scores in a range whose rows are not leased, and adds their number to `count`. Any
/// number of whole warps. Nothing may use the table meanwhile.
#[kernel]
pub fn cache_remove_scores<C: Config + Instance>(
    view: CacheView<C>,
    scores: Scores,
    count: GlobalSlice<u64>,
) {
    let mut many = 0;
    each_slot(view, scores, |position, is_chosen| {
        let is_chosen = is_chosen && !view.is_leased(position);
        if is_chosen {
            // SAFETY: the position is that of a slot, whose word this lane alone changes.
            let word = unsafe { view.digest_word(position) };
            let digests = word.load(Order::Relaxed, Scope::Device);
            word.store(Digest::ERASED.put_in(digests, position % 4), Order::Relaxed, Scope::Device);
        }
        many += is_chosen as u32;
    });
    add_up(count.at(0), many);
}
