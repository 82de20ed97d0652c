//! Kernels that call the maps' device-side functions from a package of their own.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

pub mod lists;
pub mod slabs;
pub mod trees;

use phalanx_kernels::probing::{
    Coded, DefaultPublished, DefaultTable, Lanes, MapView, Merge, Outcome, Session,
};
use simt::{GlobalSlice, Independent, Order, Scope, Thread, Tile, fence, kernel, timer};

/// The default kind of table for 32-bit keys and values.
pub type Words = DefaultTable;
/// A kind that runs on every device, for 64 bits.
pub type Links = DefaultPublished<u64, u64>;

/// Counts how often each word occurs: an operation a lane.
#[kernel]
pub fn count_words(map: MapView<Words>, words: GlobalSlice<u32>) {
    let mut session = Session::new(map, Lanes);
    let index = Thread::index();
    let word = if index < words.len() { Some((words.read(index), 1)) } else { None };
    session.upsert(Merge::Add, word);
    session.finish();
}

/// Follows links from each start until there is none, and takes the last one out: an operation a tile, and
/// each tile goes its own way. Writes where each walk ended and how many steps it had.
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

/// Links each place to the one after it: pairs that appear in two steps.
#[kernel]
pub fn link(map: MapView<Links>, places: GlobalSlice<u64>) {
    let mut session = Session::new(map, Lanes);
    let index = Thread::index();
    let place = if index < places.len() { Some(places.read(index)) } else { None };
    session.insert(place.map(|place| (place, place + 1)));
    session.finish();
}

/// Puts each key through every operation, and counts in `wrong` the answers that a key of its own must not
/// give. The map is without the keys before, and after.
#[kernel]
pub fn every_operation(map: MapView<Words>, keys: GlobalSlice<u32>, wrong: GlobalSlice<u32>) {
    let mut session = Session::new(map, Lanes);
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
    // Dropped, not finished: lanes may count for themselves.
}

/// Executes operations by their codes, a few rounds of one a lane, and records what became of each and when:
/// nanoseconds before it was asked, and after everything that it wrote was seen by the device.
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
    let (mut session, warp) = (Session::new(map, Lanes), Tile::<32>::lockstep());
    let mut index = Thread::index();
    // The batch is a whole number of rounds of the grid, so that all lanes of a warp go round together.
    while index < keys.len() {
        let operation = Coded::from_code(codes.read(index) as u32);
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
