//! Entry points: batches of operations, and scans of the whole table.
//!
//! A batch gives each thread an element and shares the work in each warp. Slices of
//! results may be empty: then those results are not wanted.
use super::map::{Config, MapView, Tally};
use super::operation::{self, Coded, Operation, Outcome};
use simt::{Global, GlobalSlice, Instance, Order, Scope, Thread, Tile, Word, kernel};

/// Calls `body(index, exists)` with the thread's index, by all lanes of a warp together. The grid has a thread for every
/// index below `len`, and may have more.
#[inline(always)]
#[track_caller]
fn for_each(len: usize, body: impl FnOnce(usize, bool)) {
    let index = Thread::index();
    body(index, index < len);
}

#[inline(always)]
#[track_caller]
fn read_if<T: Word>(slice: GlobalSlice<T>, index: usize, pending: bool) -> T {
    if pending { slice.read(index) } else { T::narrow(0) }
}

#[inline(always)]
#[track_caller]
fn write_if<T: Word>(slice: GlobalSlice<T>, index: usize, value: T) {
    if index < slice.len() {
        slice.write(index, value);
    }
}

/// One operation for each of `len` elements. `request` gives what an element asks for: operation, key and argument.
#[inline(always)]
#[track_caller]
fn batch<M: Config, O: Operation>(
    map: MapView<M>,
    len: usize,
    request: impl Fn(usize, bool) -> (O, M::Key, M::Value),
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let mut tally = Tally::default();
    for_each(len, |index, pending| {
        let (operation, key, argument) = request(index, pending);
        let (outcome, value) = M::execute(map, pending, operation, key, argument);
        if pending {
            tally.count(outcome);
            write_if(outcomes, index, outcome as u8);
            if O::RETURNS {
                write_if(values, index, value);
            }
        }
    });
    if O::WRITES {
        map.record(tally);
    }
}

/// An operation with a key and an argument.
#[inline(always)]
#[track_caller]
fn pair<O, K: Word, V: Word>(
    operation: O,
    keys: GlobalSlice<K>,
    arguments: GlobalSlice<V>,
    index: usize,
    pending: bool,
) -> (O, K, V) {
    (operation, read_if(keys, index, pending), read_if(arguments, index, pending))
}

/// An operation with a key alone.
#[inline(always)]
#[track_caller]
fn key<O, K: Word, V: Word>(operation: O, keys: GlobalSlice<K>, index: usize, pending: bool) -> (O, K, V) {
    (operation, read_if(keys, index, pending), V::narrow(0))
}

/// Inserts or replaces.
#[kernel(registers = M::REGISTERS)]
pub fn insert<M: Config + Instance>(
    map: MapView<M>,
    keys: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    batch(
        map,
        keys.len(),
        |index, pending| pair(operation::Insert, keys, values, index, pending),
        values,
        outcomes,
    );
}

/// Inserts where the key is not there.
#[kernel(registers = M::REGISTERS)]
pub fn insert_new<M: Config + Instance>(
    map: MapView<M>,
    keys: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    batch(
        map,
        keys.len(),
        |index, pending| pair(operation::InsertNew, keys, values, index, pending),
        values,
        outcomes,
    );
}

/// Looks values up.
#[kernel]
pub fn get<M: Config + Instance>(
    map: MapView<M>,
    keys: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    batch(map, keys.len(), |index, pending| key(operation::Get, keys, index, pending), values, outcomes);
}

/// Looks whether keys are there.
#[kernel]
pub fn contains_key<M: Config + Instance>(
    map: MapView<M>,
    keys: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    batch(
        map,
        keys.len(),
        |index, pending| key(operation::ContainsKey, keys, index, pending),
        values,
        outcomes,
    );
}

/// Removes.
#[kernel(registers = M::REGISTERS)]
pub fn remove<M: Config + Instance>(
    map: MapView<M>,
    keys: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    batch(map, keys.len(), |index, pending| key(operation::Remove, keys, index, pending), values, outcomes);
}

/// One operation for all: `code` says which (see [`Coded`]). Values are read as arguments; `results` takes the values that were
/// there before, or the argument where the key was new.
#[kernel(registers = M::REGISTERS)]
pub fn apply<M: Config + Instance>(
    map: MapView<M>,
    code: u32,
    keys: GlobalSlice<M::Key>,
    arguments: GlobalSlice<M::Value>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let operation = Coded::from_code(code);
    batch(
        map,
        keys.len(),
        |index, pending| pair(operation, keys, arguments, index, pending),
        results,
        outcomes,
    );
}

/// An operation of its own for every element.
#[kernel(registers = M::REGISTERS)]
pub fn mixed<M: Config + Instance>(
    map: MapView<M>,
    codes: GlobalSlice<u8>,
    keys: GlobalSlice<M::Key>,
    arguments: GlobalSlice<M::Value>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let request = |index, pending| {
        pair(Coded::from_code(read_if(codes, index, pending) as u32), keys, arguments, index, pending)
    };
    batch(map, keys.len(), request, results, outcomes);
}

/// Writes the pairs of the slots from `first` on, as many slots as `keys` and `values` have room for, in no order, and how many
/// pairs there are to `count` (zero before). Runs alone.
#[kernel]
pub fn export<M: Config + Instance>(
    map: MapView<M>,
    first: u64,
    keys: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    count: GlobalSlice<u64>,
) {
    let warp = Tile::<32>::lockstep();
    let first = (first as usize).min(map.slot_count());
    for_each((map.slot_count() - first).min(keys.len()), |index, exists| {
        let pair = if exists { map.pair_at(first + index) } else { None };
        let votes = warp.ballot(pair.is_some());
        let base = reserve(warp, count.at(0), votes.count_ones());
        if let Some((key, value)) = pair {
            let place = base as usize + (votes & ((1 << warp.rank()) - 1)).count_ones() as usize;
            keys.write(place, key);
            values.write(place, value);
        }
    });
}

/// Takes `many` places from a counter for the whole warp.
#[inline(always)]
#[track_caller]
fn reserve(warp: Tile<32>, counter: Global<u64>, many: u32) -> u64 {
    let mut base = 0;
    if warp.rank() == 0 && many > 0 {
        base = counter.fetch_add(many as u64, Order::Relaxed, Scope::Device);
    }
    warp.shuffle(base, 0)
}

/// Inserts the pairs of one table into another, and counts those that found no room in `refused`. Runs alone.
#[kernel(registers = M::REGISTERS)]
pub fn rehash<M: Config + Instance>(from: MapView<M>, into: MapView<M>, refused: GlobalSlice<u64>) {
    let mut tally = Tally::default();
    for_each(from.slot_count(), |position, exists| {
        let pair = if exists { from.pair_at(position) } else { None };
        let (key, value) = pair.unwrap_or((M::Key::narrow(0), M::Value::narrow(0)));
        let (outcome, _) = M::execute(into, pair.is_some(), operation::InsertNew, key, value);
        if pair.is_some() {
            tally.count(outcome);
            if outcome == Outcome::Refused {
                refused.at(0).fetch_add(1, Order::Relaxed, Scope::Device);
            }
        }
    });
    into.record(tally);
}

/// Removes the pairs whose key (or value, where `by_value` is not 0) lies outside `low..=high`. Runs alone.
#[kernel]
pub fn retain_between<M: Config + Instance>(map: MapView<M>, by_value: u32, low: u64, high: u64) {
    use super::slot::Scalar;
    let mut tally = Tally::default();
    for_each(map.slot_count(), |position, exists| {
        let pair = if exists { map.pair_at(position) } else { None };
        let judged = pair.map(|(key, value)| if by_value != 0 { value.to_u64() } else { key.to_u64() });
        if judged.is_some_and(|judged| judged < low || judged > high) && map.erase_at(position) {
            tally.count(Outcome::Removed);
        }
    });
    map.record(tally);
}
