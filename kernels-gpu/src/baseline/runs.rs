//! Sorted runs of pairs of 32-bit keys and values: one run is a sorted array, several are a log-structured
//! merge tree. The baselines of the B-Tree's figure 3.2.
//!
//! ```text
//! table | keys: address | values: address | pairs |    one row per run, the newest run first
//! ```
//!
//! A thread answers a query by itself, by binary search in every run. A range query has one thread per run,
//! which writes that run's pairs. The runs are constant during a kernel, so all reads are plain. Each key
//! should be in one run only: if it is inserted again, [`runs_get`] returns the newer pair, but range queries
//! return both.
//!
//! # Cost
//!
//! Each query reads log2 n keys per run of n pairs, at random addresses; a range also reads its pairs.
//! [`Runs::new`] is arithmetic on the host.
use crate::keyed::Outcome;
use simt::{GlobalSlice, Order, Scope, Thread, device, kernel};

/// Number of words in a row of the table.
pub const ROW: usize = 3;

/// The runs as kernels see them.
///
/// ```
/// use phalanx_kernels::baseline::runs::{ROW, Runs};
/// use simt::GlobalSlice;
///
/// /// Returns the runs in a table of rows.
/// ///
/// /// # Safety
/// /// - As for `Runs::new`.
/// unsafe fn runs_of(table: GlobalSlice<u64>) -> Option<Runs> {
///     // SAFETY: the caller's obligation.
///     (table.len() % ROW == 0).then(|| unsafe { Runs::new(table) })
/// }
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    table: GlobalSlice<u64>,
}

/// A run: keys in strictly ascending order, and their values.
#[derive(Clone, Copy, Debug)]
struct Run {
    keys: GlobalSlice<u32>,
    values: GlobalSlice<u32>,
}

impl Runs {
    /// Returns the runs of a table.
    ///
    /// # Safety
    /// - The table consists of rows of [`ROW`] words: two addresses of device memory with exposed provenance,
    ///   and the number of elements at each of them. No thread writes that memory, and it outlives all uses
    ///   of the runs.
    pub unsafe fn new(table: GlobalSlice<u64>) -> Self {
        Self { table }
    }

    #[device]
    fn count(self) -> usize {
        self.table.len() / ROW
    }

    #[device(caller)]
    fn run(self, index: usize) -> Run {
        let word = |place: usize| self.table.read(ROW * index + place) as usize;
        let (keys, values, len) = (word(0), word(1), word(2));
        // SAFETY: the obligation of `new`.
        unsafe {
            Run {
                keys: GlobalSlice::from_raw_parts(core::ptr::with_exposed_provenance_mut(keys), len),
                values: GlobalSlice::from_raw_parts(core::ptr::with_exposed_provenance_mut(values), len),
            }
        }
    }
}

impl Run {
    /// Returns the index of the first key in `first..end` for which `is` does not hold, or `end`. Binary
    /// search: `is` must hold for a prefix of the keys and for none after it.
    #[device(caller)]
    fn partition(self, mut first: usize, mut end: usize, is: impl Fn(u32) -> bool) -> usize {
        while first < end {
            let middle = first + (end - first) / 2;
            if is(self.keys.read(middle)) {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        first
    }
}

/// Looks up the values of keys, each in the newest run that contains it.
#[kernel]
pub fn runs_get(runs: Runs, keys: GlobalSlice<u32>, values: GlobalSlice<u32>, outcomes: GlobalSlice<u8>) {
    let index = Thread::index();
    if index >= keys.len() {
        return;
    }
    let (key, mut outcome, mut number) = (keys.read(index), Outcome::Absent, 0);
    while number < runs.count() && outcome == Outcome::Absent {
        let run = runs.run(number);
        let place = run.partition(0, run.keys.len(), |other| other < key);
        if place < run.keys.len() && run.keys.read(place) == key {
            values.write(index, run.values.read(place));
            outcome = Outcome::Found;
        }
        number += 1;
    }
    outcomes.write(index, outcome as u8);
}

/// Finds the pair with the smallest key above each key.
#[kernel]
pub fn runs_successor(
    runs: Runs,
    keys: GlobalSlice<u32>,
    found: GlobalSlice<u32>,
    values: GlobalSlice<u32>,
    outcomes: GlobalSlice<u8>,
) {
    let index = Thread::index();
    if index >= keys.len() {
        return;
    }
    let (key, mut outcome, mut best, mut number) = (keys.read(index), Outcome::Absent, u32::MAX, 0);
    while number < runs.count() {
        let run = runs.run(number);
        let place = run.partition(0, run.keys.len(), |other| other <= key);
        if place < run.keys.len() {
            let next = run.keys.read(place);
            if outcome == Outcome::Absent || next < best {
                (best, outcome) = (next, Outcome::Found);
                found.write(index, next);
                values.write(index, run.values.read(place));
            }
        }
        number += 1;
    }
    outcomes.write(index, outcome as u8);
}

/// Finds the bounds of each range in each run: the index of the range's first pair and the index after its
/// last pair. Both ends of a range belong to it. The grid has one thread per range and run.
#[kernel]
pub fn runs_bounds(runs: Runs, lows: GlobalSlice<u32>, highs: GlobalSlice<u32>, bounds: GlobalSlice<u64>) {
    let index = Thread::index();
    if index >= bounds.len() {
        return;
    }
    let (range, run) = (index / runs.count(), runs.run(index % runs.count()));
    let (low, high) = (lows.read(range), highs.read(range));
    let first = run.partition(0, run.keys.len(), |key| key < low);
    let end = run.partition(first, run.keys.len(), |key| key <= high);
    bounds.write(index, first as u64 | (end as u64) << 32);
}

/// Returns the bounds of a range in a run.
#[device(caller)]
fn bound(bounds: GlobalSlice<u64>, index: usize) -> (usize, usize) {
    let word = bounds.read(index);
    (word as u32 as usize, (word >> 32) as usize)
}

/// Writes the pairs of each range in order, at most `room` of them, from element `room` times the range's
/// index on, and adds up their number. The grid has one thread per range and run; it determines the position
/// of each of its pairs by counting the smaller keys of the other runs.
#[kernel]
pub fn runs_range(
    runs: Runs,
    bounds: GlobalSlice<u64>,
    room: u32,
    keys: GlobalSlice<u32>,
    values: GlobalSlice<u32>,
    counts: GlobalSlice<u64>,
) {
    let index = Thread::index();
    if index >= bounds.len() {
        return;
    }
    let (count, room) = (runs.count(), room as usize);
    let (range, own) = (index / count, index % count);
    let (run, (first, end)) = (runs.run(own), bound(bounds, index));
    let mut place = first;
    while place < end && place - first < room {
        let key = run.keys.read(place);
        let (mut rank, mut other) = (place - first, 0);
        while other < count {
            if other != own {
                let (from, to) = bound(bounds, range * count + other);
                rank += runs.run(other).partition(from, to, |theirs| theirs < key) - from;
            }
            other += 1;
        }
        if rank < room {
            keys.write(range * room + rank, key);
            values.write(range * room + rank, run.values.read(place));
        }
        place += 1;
    }
    counts.at(range).fetch_add((end - first) as u64, Order::Relaxed, Scope::Device);
}
