//! Kernels on slab lists: on a map through sessions, and on the lists directly.
use phalanx_kernels::keyed::{
    CounterDelta, Get, Kind, Merge, OfMany, Outcome, Packed, PerLane, Remove, Session, Slot,
};
use phalanx_kernels::slab::list::{
    Append, Collect, Config, Count, DefaultLists, DefaultSet32, ListsView, RemoveAll,
};
use simt::{GlobalSlice, Independent, Order, Scope, Thread, Tile, kernel};

/// Default list type for 32-bit keys and values.
pub type Chains = DefaultLists;

/// Counts the occurrences of each word and removes every word of `stops`, with one operation per lane.
#[kernel]
pub fn tally_words(map: ListsView<Chains>, words: GlobalSlice<u32>, stops: GlobalSlice<u32>) {
    let mut session = Session::new(map, PerLane);
    let index = Thread::index();
    let word = if index < words.len() { Some(words.read(index)) } else { None };
    session.upsert(Merge::Add, word.map(|word| (word, 1)));
    let stop = if index < stops.len() { Some(stops.read(index)) } else { None };
    session.remove(stop);
    session.finish();
}

/// For each key and each multiple of it below `end`, counts the key among the multiple's divisors. Each tile
/// performs one operation at a time, and tiles diverge. Writes the number of keys that this tile inserted.
#[kernel]
pub fn divisors(map: ListsView<Chains>, keys: GlobalSlice<u32>, end: u32, inserted: GlobalSlice<u32>) {
    let tile = Tile::<4, Independent>::this();
    let index = Thread::index() / 4;
    if index >= keys.len() {
        return;
    }
    let mut session = Session::new(map, tile);
    let (key, mut new) = (keys.read(index), 0);
    let mut multiple = key;
    while multiple < end {
        new += (session.upsert(Merge::Add, Some((multiple, 1))) == Outcome::Inserted) as u32;
        multiple += key;
    }
    if tile.rank() == 0 {
        inserted.write(index, new);
    }
}

/// Uses the list primitive directly: appends an edge for each lane in both directions, and counts the edges
/// that were refused.
#[kernel]
pub fn link_both(
    lists: ListsView<Chains>,
    from: GlobalSlice<u32>,
    to: GlobalSlice<u32>,
    refused: GlobalSlice<u32>,
) {
    let (tile, index) = (Tile::<4>::lockstep(), Thread::index());
    let pending = index < from.len();
    let (a, b) = if pending { (from.read(index), to.read(index)) } else { (0, 0) };
    let there = lists.share(tile, pending, Append, a, b).0;
    let back = lists.share(tile, pending, Append, b, a).0;
    let mut delta = CounterDelta::default();
    if pending {
        delta.count(there);
        delta.count(back);
    }
    let lost = (pending && there == Outcome::Refused) as u32 + (pending && back == Outcome::Refused) as u32;
    if lost > 0 {
        refused.at(0).fetch_add(lost, Order::Relaxed, Scope::Device);
    }
    Chains::counters(lists).record(delta);
}

/// Writes the degree of each vertex, and up to `room` of its neighbours to `neighbours`.
#[kernel]
pub fn neighbours(
    lists: ListsView<Chains>,
    vertices: GlobalSlice<u32>,
    room: u32,
    degrees: GlobalSlice<u32>,
    neighbours: GlobalSlice<u32>,
) {
    let (tile, index) = (Tile::<4>::lockstep(), Thread::index());
    let pending = index < vertices.len();
    let vertex = if pending { vertices.read(index) } else { 0 };
    let degree = lists.gather(tile, pending, Count::default(), vertex);
    let collect = Collect { values: neighbours, from: index as u64 * room as u64, room };
    let collected = lists.gather(tile, pending, collect, vertex);
    if pending {
        // They differ only if another thread changes the list between the two calls.
        degrees.write(index, if degree == collected { degree } else { u32::MAX });
    }
}

/// Removes all edges of each vertex, and writes their number.
#[kernel]
pub fn isolate(lists: ListsView<Chains>, vertices: GlobalSlice<u32>, degrees: GlobalSlice<u32>) {
    let (tile, index) = (Tile::<4>::lockstep(), Thread::index());
    let pending = index < vertices.len();
    let vertex = if pending { vertices.read(index) } else { 0 };
    let removed = lists.gather(tile, pending, RemoveAll::default(), vertex);
    let mut delta = CounterDelta::default();
    delta.remove(removed);
    if pending {
        degrees.write(index, removed);
    }
    Chains::counters(lists).record(delta);
}

/// Traverses every list, one tile per bucket. Adds the number of nodes to `sums[0]`, the number of pairs to
/// `sums[1]`, and the values of the pairs to `sums[2]`.
#[kernel]
pub fn sum_lists(lists: ListsView<Chains>, sums: GlobalSlice<u64>) {
    let tile = Tile::<4>::lockstep();
    let bucket = Thread::index() / 4;
    let bucket = if bucket <= lists.bucket_count() as usize { Some(bucket as u32) } else { None };
    let (mut nodes, mut pairs, mut values) = (0, 0, 0);
    lists.for_each_node(tile, bucket, |node| {
        let Some(node) = node else { return };
        nodes += (tile.rank() == 0) as u64;
        let mut position = tile.rank();
        while position < Chains::SLOTS {
            let word = node.slot(position).load(Order::Relaxed, Scope::Device);
            if Packed::is_live(word) {
                pairs += 1;
                values += Packed::value(word) as u64;
            }
            position += 4;
        }
    });
    for (place, sum) in [nodes, pairs, values].into_iter().enumerate() {
        if sum > 0 {
            sums.at(place).fetch_add(sum, Order::Relaxed, Scope::Device);
        }
    }
}

/// Default set type for 32-bit keys.
pub type Members = DefaultSet32;

/// Removes each of `gone` from a set and inserts each of `come`, with one operation per lane. Counts in
/// `sums` the removed keys, the new keys, and the keys of `come` that a subsequent look-up misses.
#[kernel]
pub fn replace_members(
    set: ListsView<Members>,
    gone: GlobalSlice<u32>,
    come: GlobalSlice<u32>,
    sums: GlobalSlice<u32>,
) {
    let mut session = Session::new(set, PerLane);
    let index = Thread::index();
    let old = if index < gone.len() { Some(gone.read(index)) } else { None };
    let new = if index < come.len() { Some(come.read(index)) } else { None };
    let removed = session.remove(old);
    let inserted = session.insert_new(new.map(|key| (key, 0))) == Outcome::Inserted;
    let missed = !session.contains_key(new) && new.is_some();
    for (place, counts) in [removed, inserted, missed].into_iter().enumerate() {
        if counts {
            sums.at(place).fetch_add(1, Order::Relaxed, Scope::Device);
        }
    }
    session.finish();
}

/// Implements one queue per key: appends a value to the queue of each of `keys`, then removes the value at
/// its front and writes it to `firsts`.
#[kernel]
pub fn turn_queues(
    queues: ListsView<Chains>,
    keys: GlobalSlice<u32>,
    values: GlobalSlice<u32>,
    firsts: GlobalSlice<u32>,
) {
    let mut session = Session::new(queues, PerLane);
    let index = Thread::index();
    let wanted = index < keys.len();
    let (key, value) = if wanted { (keys.read(index), values.read(index)) } else { (0, 0) };
    session.execute(wanted, Append, key, value);
    let (found, first) = session.execute(wanted, OfMany(Get), key, 0);
    session.execute(wanted, OfMany(Remove), key, 0);
    if wanted {
        firsts.write(index, if found == Outcome::Found { first } else { u32::MAX });
    }
    session.finish();
}
