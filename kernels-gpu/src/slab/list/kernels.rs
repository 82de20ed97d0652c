//! Entry points of lists, in addition to those of all keyed structures (`keyed::kernels`).
//!
//! # Cost
//!
//! Kernels of keys read a key per element and its list, and write the results of each element. [`flush`],
//! [`append_all`] and [`inspect`] read each list once; a tile processes a list.
use super::gather;
use super::lists::{Config, ListsView};
use crate::keyed::kernels::{copy_by, element, read_if, with_arguments, with_codes, with_keys, write_if};
use crate::keyed::{self, CounterDelta, MultiOpCode, OfMany, OpCode};
use simt::{BoundedSlice, GlobalSlice, Instance, Order, Scope, Thread, device, kernel};

/// Applies `gather(index, pending)` to all pairs of each key, writes the number of pairs that counted to
/// `counts`, and returns the thread's own number.
#[device(caller)]
fn each_key<M: Config, G: gather::Gather<Slot = M::Slot>>(
    lists: ListsView<M>,
    keys: BoundedSlice<M::Key>,
    counts: GlobalSlice<u32>,
    gather: impl FnOnce(usize, bool) -> G,
) -> u32 {
    let keys = keys.resolve();
    let (index, pending) = element(M::TILE, keys.len());
    let found = M::gather(lists, pending, gather(index, pending), read_if(keys, index, pending));
    if pending {
        write_if(counts, index, found);
    }
    found
}

/// Appends pairs, whether or not their keys are present.
#[kernel(registers = M::REGISTERS)]
pub fn append<M: Config + Instance>(
    lists: ListsView<M>,
    keys: BoundedSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    with_arguments::<M, _>(keyed::Append, lists, keys, values, values, outcomes);
}

/// Tests which keys are present, in a map with several values per key.
#[kernel(registers = M::READS_IN)]
pub fn contains_key_of_many<M: Config + Instance>(
    lists: ListsView<M>,
    keys: BoundedSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    with_keys::<M, _>(OfMany(keyed::ContainsKey), lists, keys, values, outcomes);
}

/// Removes the first pair of each key.
#[kernel(registers = M::REGISTERS)]
pub fn remove_one<M: Config + Instance>(
    lists: ListsView<M>,
    keys: BoundedSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    with_keys::<M, _>(OfMany(keyed::Remove), lists, keys, values, outcomes);
}

/// Executes a separate operation for every element, on a map with several values per key.
#[kernel(registers = M::REGISTERS)]
pub fn mixed_of_many<M: Config + Instance>(
    lists: ListsView<M>,
    codes: GlobalSlice<u8>,
    keys: BoundedSlice<M::Key>,
    arguments: GlobalSlice<M::Value>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let operation = |code| MultiOpCode(OpCode::from_code(code));
    with_codes::<M, _>(operation, lists, codes, keys, arguments, results, outcomes);
}

/// Writes the number of pairs of each key to `counts`.
#[kernel]
pub fn count<M: Config + Instance>(
    lists: ListsView<M>,
    keys: BoundedSlice<M::Key>,
    counts: GlobalSlice<u32>,
) {
    each_key(lists, keys, counts, |_, _| gather::Count::default());
}

/// Writes the values of each key to `values`: at most `counts[i]` values of key `i`, from `offsets[i]` on.
/// Then writes the number of values that the key has to `counts[i]`.
#[kernel]
pub fn collect<M: Config + Instance>(
    lists: ListsView<M>,
    keys: BoundedSlice<M::Key>,
    offsets: GlobalSlice<u64>,
    values: GlobalSlice<M::Value>,
    counts: GlobalSlice<u32>,
) {
    each_key(lists, keys, counts, |index, pending| {
        let (from, room) = (read_if(offsets, index, pending), read_if(counts, index, pending));
        gather::Collect { values, from, room }
    });
}

/// Removes all pairs of each key and writes their number to `counts`.
#[kernel]
pub fn remove_all<M: Config + Instance>(
    lists: ListsView<M>,
    keys: BoundedSlice<M::Key>,
    counts: GlobalSlice<u32>,
) {
    let removed = each_key(lists, keys, counts, |_, _| gather::RemoveAll::default());
    let mut delta = CounterDelta::default();
    delta.remove(removed);
    M::counters(lists).record(delta);
}

/// Compacts the lists of `buckets`, or all lists if `all` is not 0, and frees the slabs that are no longer
/// needed. Drops the pairs if `keep` is 0. Requires exclusive access to the lists. The grid has one tile per
/// bucket.
#[kernel]
pub fn flush<M: Config + Instance>(lists: ListsView<M>, buckets: GlobalSlice<u32>, all: u32, keep: u32) {
    let index = Thread::index() / M::TILE as usize;
    let bucket = if all != 0 {
        (index <= lists.bucket_count() as usize).then_some(index as u32)
    } else {
        (index < buckets.len()).then(|| buckets.read(index))
    };
    M::flush(lists, bucket.filter(|&bucket| bucket <= lists.bucket_count()), keep != 0);
}

/// Appends the pairs of some lists to others, those of a key in their order, and counts in `refused` the
/// pairs that did not fit. Requires exclusive access to both.
#[kernel(registers = M::REGISTERS)]
pub fn append_all<M: Config + Instance>(from: ListsView<M>, into: ListsView<M>, refused: GlobalSlice<u64>) {
    copy_by::<M, _>(keyed::Append, from, into, refused);
}

/// Examines all lists and adds to `report`: nodes behind the heads, lists that have an empty slot before a
/// taken one, links to slabs that are not live, and pairs. Requires exclusive access to the lists. The grid
/// has one tile per bucket.
#[kernel]
pub fn inspect<M: Config + Instance>(lists: ListsView<M>, report: GlobalSlice<u64>) {
    let index = Thread::index() / M::TILE as usize;
    let bucket = (index <= lists.bucket_count() as usize).then_some(index as u32);
    if let Some(found) = M::inspect(lists, bucket) {
        let findings = [found.nodes, found.gaps, found.dead_links, found.pairs];
        for (place, many) in findings.into_iter().enumerate().filter(|(_, many)| *many > 0) {
            report.at(place).fetch_add(many as u64, Order::Relaxed, Scope::Device);
        }
    }
}
