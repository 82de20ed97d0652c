//! Kernels that work on slab lists: on a map by sessions, and on the lists themselves.
use phalanx_kernels::keyed::{Kind, Lanes, Merge, Outcome, Packed, Session, Slot, Tally};
use phalanx_kernels::slab::list::{
    Append, Collect, Config, Count, DefaultLists, DefaultSet32, ListsView, RemoveAll,
};
use simt::{GlobalSlice, Independent, Order, Scope, Thread, Tile, kernel};

/// The default kind of lists for 32-bit keys and values.
pub type Chains = DefaultLists;

/// Counts how often each word occurs, and takes out every word of `stops`: an operation a lane.
#[kernel]
pub fn tally_words(map: ListsView<Chains>, words: GlobalSlice<u32>, stops: GlobalSlice<u32>) {
    let mut session = Session::new(map, Lanes);
    let index = Thread::index();
    let word = if index < words.len() { Some(words.read(index)) } else { None };
    session.upsert(Merge::Add, word.map(|word| (word, 1)));
    let stop = if index < stops.len() { Some(stops.read(index)) } else { None };
    session.remove(stop);
    session.finish();
}

/// For each key and each multiple of it below `end`, counts the key among the multiple's divisors: an
/// operation a tile, and each tile goes its own way. Writes how many keys were new by this tile's doing.
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

/// The list primitive by itself: appends an edge for each lane, both ways, and counts the edges that found no
/// room.
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
    let mut tally = Tally::default();
    if pending {
        tally.count(there);
        tally.count(back);
    }
    let lost = (pending && there == Outcome::Refused) as u32 + (pending && back == Outcome::Refused) as u32;
    if lost > 0 {
        refused.at(0).fetch_add(lost, Order::Relaxed, Scope::Device);
    }
    Chains::tallies(lists).record(tally);
}

/// Writes the degree of each vertex, and its first neighbours to `neighbours`, `room` places each.
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
        // They differ only if somebody changes the list between the two.
        degrees.write(index, if degree == collected { degree } else { u32::MAX });
    }
}

/// Takes all edges of each vertex out, and writes how many there were.
#[kernel]
pub fn isolate(lists: ListsView<Chains>, vertices: GlobalSlice<u32>, degrees: GlobalSlice<u32>) {
    let (tile, index) = (Tile::<4>::lockstep(), Thread::index());
    let pending = index < vertices.len();
    let vertex = if pending { vertices.read(index) } else { 0 };
    let removed = lists.gather(tile, pending, RemoveAll::default(), vertex);
    let mut tally = Tally::default();
    tally.remove(removed);
    if pending {
        degrees.write(index, removed);
    }
    Chains::tallies(lists).record(tally);
}

/// Walks along every list, a tile a bucket: adds nodes to `sums[0]`, pairs to `sums[1]`, and the values of
/// the pairs to `sums[2]`.
#[kernel]
pub fn survey(lists: ListsView<Chains>, sums: GlobalSlice<u64>) {
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

/// The default kind of set of 32-bit keys.
pub type Members = DefaultSet32;

/// Takes each of `gone` out of a set and puts each of `come` in, an operation a lane. Counts in `sums` those
/// that were there, those that are new, and those of `come` that a look then misses.
#[kernel]
pub fn replace_members(
    set: ListsView<Members>,
    gone: GlobalSlice<u32>,
    come: GlobalSlice<u32>,
    sums: GlobalSlice<u32>,
) {
    let mut session = Session::new(set, Lanes);
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

/// Queues, one a key: puts a value at the end of the queue of each of `keys`, and writes to `firsts` what
/// stands at its front, which it takes out.
#[kernel]
pub fn turn_queues(
    queues: ListsView<Chains>,
    keys: GlobalSlice<u32>,
    values: GlobalSlice<u32>,
    firsts: GlobalSlice<u32>,
) {
    let mut session = Session::new(queues, Lanes);
    let index = Thread::index();
    let wanted = index < keys.len();
    let (key, value) = if wanted { (keys.read(index), values.read(index)) } else { (0, 0) };
    session.execute(wanted, Append, key, value);
    let asked = if wanted { Some(key) } else { None };
    let first = session.get(asked);
    session.remove(asked);
    if wanted {
        firsts.write(index, first.unwrap_or(u32::MAX));
    }
    session.finish();
}
