//! Compressed sparse rows that sorted batches are merged into: a baseline of dynamic graphs.
//!
//! ```text
//! rows     | 3 5 9 | 2 | ... |     sorted within each row        offsets | 0 | 3 | 4 | ...
//! batch    (0, 4), (0, 9), (1, 7)  sorted: keys `source << bits | target`
//! selected (0, 4) at place 1, (1, 7) at place 4
//! result   | 3 4 5 9 | 2 7 | ... |
//! ```
//!
//! 1. [`merge_keys`] writes a key for each half of the batch; the host sorts keys and numbers of halves.
//! 2. [`merge_find`] searches each key in its row, reports outcomes and flags the keys that change the rows;
//!    the host scans the flags.
//! 3. [`merge_select`] compacts the flagged keys.
//! 4. [`merge_offsets`] writes the new offsets, and [`merge_words`] the new targets and data, in one pass
//!    over the old ones: an element moves by the number of selected keys before it.
//!
//! Each kernel runs with any number of threads. All accesses are weak: a launch writes no word that it reads.
//!
//! # Cost
//!
//! The first three kernels read and write some 40 bytes per half, and search rows. The last ones read and
//! write each offset and each target once.
use super::algorithms::lower_bound;
use super::view::Flags;
use crate::keyed::Outcome;
use crate::keyed::kernels::write_if;
use crate::primitives::unrolled;
use crate::primitives::words::{Moved, Words};
use simt::{GlobalSlice, Instance, Thread, Tile, Word, device, instances, kernel};

/// A batch whose keys are written.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KeyBatch {
    /// Sources, one per element.
    pub sources: GlobalSlice<u32>,
    /// Targets.
    pub targets: GlobalSlice<u32>,
    /// Output: a key per half.
    pub keys: GlobalSlice<u64>,
    /// Output: the number of each half.
    pub numbers: GlobalSlice<u32>,
    /// Number of vertices, at most 2^`bits`.
    pub vertices: u32,
    /// Number of bits of a vertex in a key, at most 31.
    pub bits: u32,
    /// Properties of the graph.
    pub flags: Flags,
}

/// Writes the key of each half of a batch, or one above all others if there can be no such edge. Halves of an
/// element have neighbouring numbers; the first one leads from the smaller to the larger vertex.
#[kernel]
pub fn merge_keys(batch: KeyBatch) {
    let KeyBatch { bits, vertices, flags, .. } = batch;
    let halves = 1 + flags.is_undirected() as usize;
    let mut half = Thread::index();
    while half < batch.keys.len() {
        let (a, b) = (batch.sources.read(half / halves), batch.targets.read(half / halves));
        let is_edge =
            a < vertices && b < vertices && (a != b || flags.has_self_edges() && half.is_multiple_of(halves));
        let swaps = halves == 2 && (a > b) == half.is_multiple_of(2);
        let (source, target) = if swaps { (b, a) } else { (a, b) };
        let key = if is_edge { (source as u64) << bits | target as u64 } else { 1 << (2 * bits) };
        batch.keys.write(half, key);
        batch.numbers.write(half, half as u32);
        half += Thread::count();
    }
}

/// A sorted batch, and the rows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SortedBatch {
    /// Keys, sorted.
    pub keys: GlobalSlice<u64>,
    /// Numbers of the halves that have the keys. Equal keys have ascending ones.
    pub numbers: GlobalSlice<u32>,
    /// Place at which each row begins, and the number of all targets.
    pub offsets: GlobalSlice<u64>,
    /// Targets, row by row.
    pub targets: GlobalSlice<u32>,
    /// Place of each key in the rows, or at which it is to be inserted.
    pub places: GlobalSlice<u64>,
    /// 1 for each key that changes the rows, otherwise 0.
    pub flags: GlobalSlice<u32>,
    /// Number of bits of a vertex in a key.
    pub bits: u32,
    /// Number of halves of an element.
    pub halves: u32,
    /// 1 if edges are removed, 0 if they are inserted.
    pub removes: u32,
}

#[device]
impl SortedBatch {
    fn is_edge(self, key: u64) -> bool {
        key >> (2 * self.bits) == 0
    }

    /// Returns whether the key at a place of the batch is an edge, and the first of equal ones.
    fn is_first_edge(self, place: usize) -> bool {
        let key = self.keys.read(place);
        self.is_edge(key) && (place == 0 || self.keys.read(place - 1) != key)
    }

    /// Returns the place of a key in the rows, and whether it is there.
    fn find(self, key: u64) -> (u64, bool) {
        if !self.is_edge(key) {
            return (0, false);
        }
        let (source, target) = ((key >> self.bits) as usize, (key & ((1 << self.bits) - 1)) as u32);
        let (first, end) = (self.offsets.read(source), self.offsets.read(source + 1));
        let row = self.targets.part(first as usize, (end - first) as usize);
        let place = lower_bound(row.len(), |place| row.read(place) < target);
        (first + place as u64, place < row.len() && row.read(place) == target)
    }

    /// Returns the outcome of a key.
    fn outcome(self, key: u64, is_selected: bool, has_data: bool) -> Outcome {
        match (self.removes != 0, is_selected) {
            (true, true) => Outcome::Removed,
            (true, false) => Outcome::Absent,
            (false, true) => Outcome::Inserted,
            (false, false) if !self.is_edge(key) => Outcome::Refused,
            (false, false) => {
                if has_data {
                    Outcome::Replaced
                } else {
                    Outcome::Found
                }
            }
        }
    }
}

/// Searches the keys of a batch in the rows, flags those that change the rows, and writes an outcome per
/// element if `outcomes` is not empty. `has_data` is 1 if edges have data.
#[kernel]
pub fn merge_find(batch: SortedBatch, has_data: u32, outcomes: GlobalSlice<u8>) {
    let mut place = Thread::index();
    while place < batch.keys.len() {
        let (key, number) = (batch.keys.read(place), batch.numbers.read(place));
        let (found, is_present) = batch.find(key);
        let is_selected = batch.is_first_edge(place) && is_present == (batch.removes != 0);
        batch.places.write(place, found);
        batch.flags.write(place, is_selected as u32);
        if number.is_multiple_of(batch.halves) {
            let outcome = batch.outcome(key, is_selected, has_data != 0);
            write_if(outcomes, (number / batch.halves) as usize, outcome as u8);
        }
        place += Thread::count();
    }
}

/// The keys of a batch that change the rows, as many as there are.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// Keys, sorted.
    pub keys: GlobalSlice<u64>,
    /// Places in the old rows.
    pub places: GlobalSlice<u64>,
    /// Targets.
    pub targets: GlobalSlice<u32>,
    /// Indices of elements.
    pub elements: GlobalSlice<u32>,
}

/// Compacts the flagged keys of a batch. `positions` has the number of flags before each one.
#[kernel]
pub fn merge_select(batch: SortedBatch, positions: GlobalSlice<u32>, selected: Selection) {
    let mut place = Thread::index();
    while place < batch.keys.len() {
        if batch.flags.read(place) != 0 {
            let (key, to) = (batch.keys.read(place), positions.read(place) as usize);
            selected.keys.write(to, key);
            selected.places.write(to, batch.places.read(place));
            selected.targets.write(to, (key & ((1 << batch.bits) - 1)) as u32);
            selected.elements.write(to, batch.numbers.read(place) / batch.halves);
        }
        place += Thread::count();
    }
}

/// Writes the data of edges that are inserted and were present. `old` has the data of the rows, `data` those
/// of the batch.
#[kernel]
pub fn merge_replace<M: Moved + Instance>(
    batch: SortedBatch,
    data: GlobalSlice<M::Word>,
    old: GlobalSlice<M::Word>,
) {
    let mut place = Thread::index();
    while place < batch.keys.len() {
        if batch.flags.read(place) == 0 && batch.is_first_edge(place) {
            let element = (batch.numbers.read(place) / batch.halves) as usize;
            old.write(batch.places.read(place) as usize, data.read(element));
        }
        place += Thread::count();
    }
}

/// Returns two places: the numbers of the first elements of `len` for which `is_below` holds, with `false`
/// and with `true`. All lanes of the warp call it together, with the same arguments.
#[device]
fn range_of_warp(len: usize, is_below: impl Fn(usize, bool) -> bool) -> (usize, usize) {
    let warp = Tile::<32>::lockstep();
    let is_end = warp.rank() % 2 == 1;
    let place = lower_bound(len, |place| is_below(place, is_end)) as u64;
    (warp.shuffle(place, 0) as usize, warp.shuffle(place, 1) as usize)
}

/// Writes the new offsets: the old ones, and the number of selected keys with smaller sources more, or less
/// if `removes` is 1.
#[kernel]
pub fn merge_offsets(
    old: GlobalSlice<u64>,
    keys: GlobalSlice<u64>,
    bits: u32,
    removes: u32,
    new: GlobalSlice<u64>,
) {
    let (lane, mut first) = (Thread::lane() as usize, Thread::index() / 32 * 32);
    while first < old.len() {
        let key_of = |row: usize| (row as u64) << bits;
        let bound = |is_end: bool| key_of(if is_end { first + 32 } else { first });
        let (low, high) = range_of_warp(keys.len(), |place, is_end| keys.read(place) < bound(is_end));
        let row = first + lane;
        if row < old.len() {
            let before = low + lower_bound(high - low, |place| keys.read(low + place) < key_of(row));
            new.write(row, shifted(old.read(row), before as u64, removes));
        }
        first += Thread::count();
    }
}

/// Returns the place of an element with `before` selected keys before it.
#[device]
fn shifted(place: u64, before: u64, removes: u32) -> u64 {
    if removes != 0 { place - before } else { place + before }
}

/// Number of elements that a warp moves at a time.
const RUN: usize = 1024;
/// Number of elements of a lane that are read before they are written.
const AT_ONCE: usize = 8;

/// Writes the new targets or data. `places` are those of the selected keys, `values` their words; it is empty
/// if `removes` is 1.
#[kernel]
pub fn merge_words<M: Moved + Instance>(
    old: GlobalSlice<M::Word>,
    places: GlobalSlice<u64>,
    values: GlobalSlice<M::Word>,
    removes: u32,
    new: GlobalSlice<M::Word>,
) {
    let mut first = Thread::index() / 32 * RUN;
    while first < old.len() {
        let end = (first + RUN).min(old.len());
        let bound = |is_end: bool| (if is_end { end } else { first }) as u64;
        let (low, high) = range_of_warp(places.len(), |place, is_end| places.read(place) < bound(is_end));
        if low == high {
            let to = shifted(first as u64, low as u64, removes) as usize;
            copy_run(old.part(first, end - first), new.part(to, end - first));
        } else {
            move_run::<M>(old, (first, end), (places.part(low, high - low), low as u64), removes, new);
        }
        first += Thread::count() / 32 * RUN;
    }
    let mut value = Thread::index();
    while value < values.len() {
        new.write(places.read(value) as usize + value, values.read(value));
        value += Thread::count();
    }
}

/// Copies at most [`RUN`] words, by a warp.
#[device]
fn copy_run<T: Word>(from: GlobalSlice<T>, to: GlobalSlice<T>) {
    let mut first = Thread::lane() as usize;
    while first < from.len() {
        let mut words = [T::narrow(0); AT_ONCE];
        unrolled::<AT_ONCE>(|at| {
            let place = first + 32 * at;
            if place < from.len() {
                words[at] = from.read(place);
            }
        });
        unrolled::<AT_ONCE>(|at| write_if(to, first + 32 * at, words[at]));
        first += 32 * AT_ONCE;
    }
}

/// Moves the words from `first` to `end` - 1, among which keys are inserted or removed at these places, by a
/// warp. There are `before` selected keys before them.
#[device]
fn move_run<M: Moved>(
    old: GlobalSlice<M::Word>,
    (first, end): (usize, usize),
    (places, before): (GlobalSlice<u64>, u64),
    removes: u32,
    new: GlobalSlice<M::Word>,
) {
    let mut place = first + Thread::lane() as usize;
    while place < end {
        // A key that is inserted at an element's place comes before the element.
        let bound = place as u64 + (removes == 0) as u64;
        let among = lower_bound(places.len(), |index| places.read(index) < bound);
        let is_removed = removes != 0 && among < places.len() && places.read(among) == place as u64;
        if !is_removed {
            let to = shifted(place as u64, before + among as u64, removes);
            new.write(to as usize, old.read(place));
        }
        place += 32;
    }
}

instances! {
    types { u32: Words<u32>, u64: Words<u64> }
    kernels { MergeReplace, MergeWords }
}
