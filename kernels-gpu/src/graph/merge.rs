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
use super::table::{MOST_ARENA, slabs_for};
use super::view::Flags;
use crate::keyed::Outcome;
use crate::keyed::kernels::write_if;
use crate::primitives::unrolled;
use crate::primitives::words::{Moved, Words};
use simt::{GlobalSlice, Instance, Order, Scope, Thread, Tile, Word, device, instances, kernel};

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
        // mutation: late equivalent, because only later launches read the output.
        batch.keys.write(half, key);
        // mutation: late equivalent, because only later launches read the output.
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
        // mutation: late equivalent, because only later launches read the output.
        batch.places.write(place, found);
        // mutation: late equivalent, because only later launches read the output.
        batch.flags.write(place, is_selected as u32);
        if number.is_multiple_of(batch.halves) {
            let outcome = batch.outcome(key, is_selected, has_data != 0);
            // mutation: late equivalent, because only the host reads the outcomes.
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
            // mutation: late equivalent, because only later launches read the output.
            selected.keys.write(to, key);
            // mutation: late equivalent, because only later launches read the output.
            selected.places.write(to, batch.places.read(place));
            // mutation: late equivalent, because only later launches read the output.
            selected.targets.write(to, (key & ((1 << batch.bits) - 1)) as u32);
            // mutation: late equivalent, because only later launches read the output.
            // mutation: skip unreached, because merged rows of the explorers have no data. Those of
            // `graph_algorithms` have.
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

/// A number that is none of a vertex.
const NO_VERTEX: u32 = u32::MAX;

/// Number of elements in a part: [`EACH`] per lane.
const PART: usize = 128;
/// Number of elements of a lane in a part.
const EACH: usize = PART / 32;
/// Number of parts whose elements are read before they are written.
const AT_ONCE: usize = 2;
/// Number of elements that a warp moves after one search: a part per lane.
pub const MERGE_RUN: usize = 32 * PART;

/// The changes among the elements of a run, which `MERGE_RUN` limits: lane `i` has those of part `i`.
#[derive(Clone, Copy)]
struct Run {
    /// First element.
    first: usize,
    /// End of the elements.
    end: usize,
    /// Number of changes before the lane's part.
    low: u32,
    /// Number of changes before the next part.
    high: u32,
}

#[device]
impl Run {
    /// Searches the changes of a run in all `changes`, of which the first ones are before an element:
    /// `is_before` tells it of a change and an element. All lanes of the warp call it together.
    fn search(first: usize, len: usize, changes: usize, is_before: impl Fn(usize, usize) -> bool) -> Self {
        let (warp, end) = (Tile::<32>::lockstep(), (first + MERGE_RUN).min(len));
        let begin = lower_bound(changes, |change| is_before(change, first));
        let next = (first + PART * (warp.rank() as usize + 1)).min(end);
        let more = lower_bound(changes - begin, |change| is_before(begin + change, next));
        let high = (begin + more) as u32;
        let below = warp.shuffle_up(high, 1);
        Self { first, end, low: if warp.rank() == 0 { begin as u32 } else { below }, high }
    }

    /// Returns the changes of a part. All lanes of the warp call it together.
    fn of_part(self, part: usize) -> (usize, usize) {
        let warp = Tile::<32>::lockstep();
        (warp.shuffle(self.low, part as u32) as usize, warp.shuffle(self.high, part as u32) as usize)
    }

    /// Moves the elements of the run. `place` returns the new place of an element, and its new word; it gets
    /// the element, its word, and the changes of its part. All lanes of the warp call it together.
    fn shift<T: Word>(
        self,
        old: GlobalSlice<T>,
        new: GlobalSlice<T>,
        place: impl Fn(usize, T, (usize, usize)) -> Option<(usize, T)>,
    ) {
        let (lane, mut part) = (Thread::lane() as usize, 0);
        while self.first + PART * part < self.end {
            let first = self.first + PART * part + lane;
            let mut words = [T::narrow(0); AT_ONCE * EACH];
            unrolled::<{ AT_ONCE * EACH }>(|at| {
                if first + 32 * at < self.end {
                    words[at] = old.read(first + 32 * at);
                }
            });
            unrolled::<AT_ONCE>(|at| {
                let changes = self.of_part(part + at);
                unrolled::<EACH>(|each| {
                    let (index, word) = (first + PART * at + 32 * each, words[EACH * at + each]);
                    if index < self.end
                        && let Some((to, word)) = place(index, word, changes)
                    {
                        // mutation: late equivalent, because only later launches read the output.
                        new.write(to, word);
                    }
                });
            });
            part += AT_ONCE;
        }
    }
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
    let is_before = |key: usize, row: usize| keys.read(key) < (row as u64) << bits;
    let mut first = Thread::index() / 32 * MERGE_RUN;
    while first < old.len() {
        let run = Run::search(first, old.len(), keys.len(), is_before);
        run.shift(old, new, |row, offset, (low, high)| {
            let before = low + lower_bound(high - low, |key| is_before(low + key, row));
            Some((row, shifted(offset, before as u64, removes)))
        });
        first += Thread::count() / 32 * MERGE_RUN;
    }
}

/// Writes the source of each target of rows that begins with the one at place `first`. If `one_half` is 1,
/// an edge that leads to a smaller vertex gets none: its other half has a source.
///
/// Cost: reads targets and offsets once, and writes 4 bytes per target; about as many loads from L1 per
/// target as the logarithm of the rows of 128 targets.
#[kernel]
pub fn row_sources(
    offsets: GlobalSlice<u64>,
    targets: GlobalSlice<u32>,
    first: u64,
    one_half: u32,
    sources: GlobalSlice<u32>,
) {
    let (rows, old) = (offsets.len().saturating_sub(1), targets.part(first as usize, sources.len()));
    // The rows that end before a place are those of the vertices below its source.
    let is_before = |row: usize, place: usize| offsets.read(row + 1) <= first + place as u64;
    let mut begin = Thread::index() / 32 * MERGE_RUN;
    while begin < old.len() {
        let run = Run::search(begin, old.len(), rows, is_before);
        run.shift(old, sources, |place, target, (low, high)| {
            let source = (low + lower_bound(high - low, |row| is_before(low + row, place))) as u32;
            Some((place, if one_half != 0 && source > target { NO_VERTEX } else { source }))
        });
        begin += Thread::count() / 32 * MERGE_RUN;
    }
}

/// Adds the numbers of slabs of the pool and of the arena that a graph needs for rows to the two words of
/// `totals`, with `slots` slots per slab and tables of a load of `tenths` tenths. The grid has any number of
/// threads.
#[kernel]
pub fn row_slabs(offsets: GlobalSlice<u64>, slots: u32, tenths: u32, totals: GlobalSlice<u64>) {
    let (rows, mut row) = (offsets.len().saturating_sub(1), Thread::index());
    let (mut singles, mut tables) = (0, 0u64);
    while row < rows {
        let (single, table) = slabs_for(offsets.read(row + 1) - offsets.read(row), slots, tenths);
        singles += single;
        tables += table as u64;
        row += Thread::count();
    }
    let warp = Tile::<32>::lockstep();
    // More slabs than an arena can have are as good as the maximum. A warp's sum is below 2^32.
    let most = MOST_ARENA - 1;
    let tables = if tables < most as u64 { tables as u32 } else { most };
    let (sums, mut word) = ([warp.reduce_add(singles), warp.reduce_add(tables)], 0);
    while word < sums.len() {
        if warp.rank() == 0 && sums[word] != 0 {
            totals.at(word).fetch_add(sums[word] as u64, Order::Relaxed, Scope::Device);
        }
        word += 1;
    }
}

/// Returns the place of an element with `before` selected keys before it.
#[device]
fn shifted(place: u64, before: u64, removes: u32) -> u64 {
    if removes != 0 { place - before } else { place + before }
}

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
    // A key that is inserted at an element's place comes before the element.
    let own = (removes == 0) as u64;
    let mut first = Thread::index() / 32 * MERGE_RUN;
    while first < old.len() {
        let run = Run::search(first, old.len(), places.len(), |key, place| places.read(key) < place as u64);
        run.shift(old, new, |place, word, (low, high)| {
            let among = lower_bound(high - low, |key| places.read(low + key) < place as u64 + own);
            let is_removed = removes != 0 && among < high - low && places.read(low + among) == place as u64;
            let to = shifted(place as u64, (low + among) as u64, removes);
            (!is_removed).then_some((to as usize, word))
        });
        first += Thread::count() / 32 * MERGE_RUN;
    }
    let mut value = Thread::index();
    while value < values.len() {
        // mutation: late equivalent, because only later launches read the output.
        new.write(places.read(value) as usize + value, values.read(value));
        value += Thread::count();
    }
}

instances! {
    types { u32: Words<u32>, u64: Words<u64> }
    kernels { MergeReplace, MergeWords }
}
