//! Kernels that call the maps' device functions from a separate package.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

pub mod lists;
pub mod slabs;
pub mod trees;

use phalanx_kernels::hash_map::{
    DefaultPublished, DefaultTable, MapView, Merge, OpCode, Outcome, PerLane, Session,
};
use simt::{GlobalSlice, Independent, Order, Scope, Thread, Tile, fence, kernel, timer};

/// Default table type for 32-bit keys and values.
pub type Words = DefaultTable;
/// Table type for 64-bit keys and values that every device supports.
pub type Links = DefaultPublished<u64, u64>;

/// Counts the occurrences of each word, with one operation per lane.
#[kernel]
pub fn count_words(map: MapView<Words>, words: GlobalSlice<u32>) {
    let mut session = Session::new(map, PerLane);
    let index = Thread::index();
    let word = if index < words.len() { Some((words.read(index), 1)) } else { None };
    session.upsert(Merge::Add, word);
    session.finish();
}

/// Follows links from each start to the end of the chain, and removes the last link. Each tile performs one
/// operation at a time, and tiles diverge. Writes the end of each chain and its number of steps.
#[kernel]
pub fn follow_links(
    map: MapView<Links>,
    starts: GlobalSlice<u64>,
    ends: GlobalSlice<u64>,
    steps: GlobalSlice<u32>,
) {
    let tile = Tile::<2, Independent>::this();
    let index = Thread::index() / 2;
    if index >= starts.len() {
        return;
    }
    let mut session = Session::new(map, tile);
    let (mut before, mut at, mut count) = (None, starts.read(index), 0);
    while let Some(next) = session.get(Some(at)) {
        (before, at, count) = (Some(at), next, count + 1);
    }
    session.remove(before);
    if tile.rank() == 0 {
        ends.write(index, at);
        steps.write(index, count);
    }
}

/// Links each place to the next one. These pairs become visible in two steps.
#[kernel]
pub fn link(map: MapView<Links>, places: GlobalSlice<u64>) {
    let mut session = Session::new(map, PerLane);
    let index = Thread::index();
    let place = if index < places.len() { Some(places.read(index)) } else { None };
    session.insert(place.map(|place| (place, place + 1)));
    session.finish();
}

/// Performs every operation on each key, and counts in `wrong` the results that are invalid for a key that no
/// other lane uses. The map must not contain the keys; afterwards it does not contain them either.
#[kernel]
pub fn every_operation(map: MapView<Words>, keys: GlobalSlice<u32>, wrong: GlobalSlice<u32>) {
    let mut session = Session::new(map, PerLane);
    let index = Thread::index();
    let key = if index < keys.len() { Some(keys.read(index)) } else { None };
    let pair = |value: u32| key.map(|key| (key, value));
    let outcome = |outcome: Outcome| if key.is_some() { outcome } else { Outcome::Absent };
    let value = |value: u32| key.map(|_| value);
    let answers = [
        session.get(key).is_none(),
        !session.contains_key(key),
        session.insert_new(pair(5)) == outcome(Outcome::Inserted),
        session.insert_new(pair(6)) == outcome(Outcome::Found),
        session.get(key) == value(5),
        session.insert(pair(7)) == outcome(Outcome::Replaced),
        session.upsert(Merge::Add, pair(4)) == outcome(Outcome::Replaced),
        session.get_or_insert(pair(1)) == value(11),
        session.upsert(Merge::Min, pair(3)) == outcome(Outcome::Replaced),
        session.upsert(Merge::Max, pair(2)) == outcome(Outcome::Replaced),
        session.get(key) == value(3),
        session.contains_key(key) == key.is_some(),
        session.remove(key) == key.is_some(),
        !session.remove(key),
        session.get_or_insert(pair(9)) == value(9),
        session.insert(pair(8)) == outcome(Outcome::Replaced),
        session.remove(key) == key.is_some(),
        session.get(key).is_none(),
    ];
    let mut failed = 0;
    for right in answers {
        failed += !right as u32;
    }
    if failed > 0 {
        wrong.at(0).fetch_add(failed, Order::Relaxed, Scope::Device);
    }
    // The session is dropped without `finish`: lanes may also update the counters individually.
}

/// Executes operations by their codes, several rounds of one per lane. Records each result with its times:
/// the nanoseconds before its start, and after all its writes are visible on the device.
#[kernel]
pub fn record(
    map: MapView<Words>,
    codes: GlobalSlice<u8>,
    keys: GlobalSlice<u32>,
    arguments: GlobalSlice<u32>,
    results: GlobalSlice<u32>,
    outcomes: GlobalSlice<u8>,
    starts: GlobalSlice<u64>,
    ends: GlobalSlice<u64>,
) {
    let (mut session, warp) = (Session::new(map, PerLane), Tile::<32>::lockstep());
    let mut index = Thread::index();
    // The batch is a whole number of rounds of the grid, so that all lanes of a warp loop together.
    while index < keys.len() {
        let operation = OpCode::from_code(codes.read(index) as u32);
        let start = timer();
        let (outcome, value) = session.execute(true, operation, keys.read(index), arguments.read(index));
        fence(Scope::Device);
        warp.sync();
        let end = timer();
        results.write(index, value);
        outcomes.write(index, outcome as u8);
        starts.write(index, start);
        ends.write(index, end);
        index += Thread::count();
    }
    session.finish();
}
