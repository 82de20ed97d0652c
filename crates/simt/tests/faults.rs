//! Tests the injection of faults: each kind of fault changes what it should, and exploration finds it.
mod common;

use common::{line, on_zeros};
use simt::emulator::{
    Emulator, Failure, FailureKind, Fault, Options, Schedule, SiteError, SiteId, WeakMemory,
};
use simt::{
    Block, GlobalSlice, Grid, Order, Scope, Thread, Tile, fence, fence_sc, kernel, shared, spin_hint,
};

const SEEDS: u64 = 40;

/// Finds a site of this file.
#[track_caller]
fn site(function: &str, text: &str) -> SiteId {
    SiteId::find("tests/faults.rs", function, text).unwrap()
}

/// Launches under many seeds, until `launch` returns a finding. Each fault must have had an effect.
fn explore<T>(faults: &[Fault], launch: impl Fn(&Emulator) -> Option<T>) -> Option<(u64, T)> {
    let options = |seed| Options { faults: faults.to_vec(), ..Options::explore(Schedule::Random { seed }) };
    let found = (0..SEEDS).find_map(|seed| Some(seed).zip(launch(&Emulator::new(options(seed)))));
    faults.iter().for_each(|fault| assert!(fault.effects() > 0, "{fault}: it has no effect"));
    found
}

fn is_race(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::DataRace { .. })
}

#[kernel]
fn pass_message(flag: GlobalSlice<u32>, data: GlobalSlice<u32>) {
    if Thread::block_index() == 0 {
        data.write(0, 42);
        flag.at(0).store(1, Order::Release, Scope::Device);
    } else {
        while flag.at(0).load(Order::Acquire, Scope::Device) == 0 {
            spin_hint();
        }
        data.write(1, data.read(0));
    }
}

fn passes(device: &Emulator) -> Result<[u32; 2], Failure> {
    let [_, data] = on_zeros(device, [1, 2], Grid::new(2, 1), |[flag, data]| PassMessage { flag, data })?;
    Ok([data[0], data[1]])
}

#[test]
fn weaker_orders_are_found() {
    assert!(explore(&[], |device| passes(device).err()).is_none(), "the kernel is right");
    for text in ["flag.at(0).store", "flag.at(0).load"] {
        let faults = [Fault::order(site("pass_message", text), Order::Relaxed)];
        let (_, failure) = explore(&faults, |device| passes(device).err()).expect("a race");
        assert!(is_race(&failure), "{failure}");
    }
}

#[test]
fn failures_name_their_faults_and_replay_with_them() {
    let fault = Fault::order(site("pass_message", "flag.at(0).store"), Order::Relaxed);
    let faults = std::slice::from_ref(&fault);
    let (seed, failure) = explore(faults, |device| passes(device).err()).expect("a race");
    assert_eq!(failure.faults, [fault.to_string()]);
    let text = "Relaxed order of `flag.at(0).store` in pass_message at tests/faults.rs:";
    assert!(failure.to_string().contains(text), "{failure}");
    let replay = Schedule::Replay(failure.trace.clone().expect("a trace"));
    for schedule in [Schedule::Random { seed }, replay] {
        let options = Options { faults: faults.to_vec(), ..Options::explore(schedule.clone()) };
        let again = passes(&Emulator::new(options)).expect_err("it replays");
        assert_eq!((line(&again), &again.trace), (line(&failure), &failure.trace));
        assert!(passes(&Emulator::new(Options::explore(schedule))).is_ok(), "the fault is the cause");
    }
}

#[kernel]
fn pass_by_fences(flag: GlobalSlice<u32>, data: GlobalSlice<u32>) {
    if Thread::block_index() == 0 {
        data.write(0, 42);
        fence(Scope::Device);
        flag.at(0).store(1, Order::Relaxed, Scope::Device);
    } else {
        while flag.at(0).load(Order::Relaxed, Scope::Device) == 0 {
            spin_hint();
        }
        fence_sc(Scope::Device);
        data.write(1, data.read(0));
    }
}

#[test]
fn missing_fences_are_found() {
    let passes = |device: &Emulator| {
        on_zeros(device, [1, 2], Grid::new(2, 1), |[flag, data]| PassByFences { flag, data }).err()
    };
    assert!(explore(&[], passes).is_none());
    for text in ["fence(Scope::Device)", "fence_sc(Scope::Device)"] {
        let (_, failure) = explore(&[Fault::skip(site("pass_by_fences", text))], passes).expect("a race");
        assert!(is_race(&failure), "{failure}");
    }
}

#[kernel]
fn pass_to_neighbours(data: GlobalSlice<u32>) {
    let here = Thread::index_in_block();
    let words = shared!([u32; 64]);
    words.store(here as usize, here);
    Block::sync();
    data.write(here as usize, words.load((here as usize + 33) % 64));
    Tile::<32>::lockstep().sync();
    data.write(64 + here as usize, data.read((here ^ 1) as usize));
}

#[test]
fn missing_barriers_are_found() {
    let passes = |device: &Emulator| {
        on_zeros(device, [128], Grid::new(1, 64), |[data]| PassToNeighbours { data }).err()
    };
    assert!(explore(&[], passes).is_none());
    for text in ["Block::sync", "lockstep().sync"] {
        let faults = [Fault::skip(site("pass_to_neighbours", text))];
        assert!(explore(&faults, passes).is_some(), "{text}");
    }
}

#[kernel]
fn count(counters: GlobalSlice<u32>) {
    let counter = shared!([u32; 1]);
    if Thread::index_in_block() == 0 {
        counter.store(0, 0);
    }
    Block::sync();
    counters.at(0).fetch_add(1, Order::Relaxed, Scope::Device);
    counter.fetch_add(0, 2);
    Block::sync();
    let mut old = counters.at(1).load(Order::Relaxed, Scope::Device);
    while let Err(found) = counters.at(1).compare_exchange(old, old + 1, Order::Relaxed, Scope::Device) {
        old = found;
    }
    if Thread::index_in_block() == 0 {
        counters.write(2, counter.load(0));
    }
}

fn counts(device: &Emulator) -> Vec<u32> {
    let [counters] = on_zeros(device, [3], Grid::new(1, 4), |[counters]| Count { counters }).unwrap();
    counters
}

/// Returns the first counts that are wrong.
fn miscounts(fault: Fault) -> Vec<u32> {
    explore(&[fault], |device| Some(counts(device)).filter(|counts| *counts != [4, 4, 8])).expect("a loss").1
}

#[test]
fn torn_updates_lose_counts() {
    assert!(explore(&[], |device| (counts(device) != [4, 4, 8]).then_some(())).is_none());
    let counts = miscounts(Fault::tear(site("count", "counters.at(0).fetch_add")));
    assert!(counts[0] < 4 && counts[1..] == [4, 8], "{counts:?}");
    let counts = miscounts(Fault::tear(site("count", "compare_exchange")));
    assert!(counts[1] < 4 && counts[0] == 4 && counts[2] == 8, "{counts:?}");
}

#[test]
fn updates_are_skipped_and_replaced() {
    assert_eq!(miscounts(Fault::skip(site("count", "counters.at(0).fetch_add"))), [0, 4, 8]);
    assert_eq!(miscounts(Fault::skip(site("count", "counter.fetch_add"))), [4, 4, 0]);
    assert_eq!(miscounts(Fault::skip(site("count", "compare_exchange"))), [4, 0, 8]);
    assert_eq!(miscounts(Fault::skip(site("count", "counters.write"))), [4, 4, 0]);
    let twice = |old: u128, new: u128| new + (new - old);
    assert_eq!(miscounts(Fault::replace(site("count", "counters.at(0).fetch_add"), twice)), [8, 4, 8]);
    assert_eq!(miscounts(Fault::replace(site("count", "counter.store"), |_, _| 1)), [4, 4, 9]);
}

/// The first thread releases the data, the second sets a bit beside it, which the third awaits.
#[kernel]
fn chain(flag: GlobalSlice<u32>, data: GlobalSlice<u32>) {
    if Thread::block_index() == 0 {
        data.write(0, 42);
        flag.at(0).fetch_or(2, Order::Release, Scope::Device);
    } else if Thread::block_index() == 1 {
        while flag.at(0).load(Order::Relaxed, Scope::Device) & 2 == 0 {
            spin_hint();
        }
        flag.at(0).fetch_or(1, Order::Relaxed, Scope::Device);
    } else {
        while flag.at(0).load(Order::Acquire, Scope::Device) & 1 == 0 {
            spin_hint();
        }
        data.write(1, data.read(0));
    }
}

#[test]
fn torn_updates_do_not_continue_a_release_sequence() {
    let passes = |device: &Emulator| {
        on_zeros(device, [1, 2], Grid::new(3, 1), |[flag, data]| Chain { flag, data }).err()
    };
    assert!(explore(&[], passes).is_none());
    let fault = Fault::tear(site("chain", "fetch_or(1,"));
    assert!(explore(&[fault], passes).is_some_and(|(_, failure)| is_race(&failure)));
}

#[kernel]
fn store_and_spin(words: GlobalSlice<u32>) {
    words.at(0).store(1, Order::Relaxed, Scope::Device);
    fence(Scope::Device);
    spin_hint();
    words.write(1, words.at(0).load(Order::Relaxed, Scope::Device));
}

#[test]
fn late_stores_precede_spin_hints() {
    let fence = site("store_and_spin", "fence(Scope::Device)");
    let late = Fault::late(site("store_and_spin", "words.at(0).store"), fence);
    let options = Options { faults: vec![late.clone()], ..Options::explore(Schedule::Random { seed: 0 }) };
    let device = Emulator::new(options);
    let [words] = on_zeros(&device, [2], Grid::new(1, 1), |[words]| StoreAndSpin { words }).unwrap();
    assert_eq!((words, late.effects()), (vec![1, 1], 1));
}

/// A word and its version, which is odd while the word changes.
#[kernel]
fn change_and_read(words: GlobalSlice<u32>, found: GlobalSlice<u32>) {
    let (version, word) = (words.at(0), words.at(1));
    if Thread::block_index() == 0 {
        version.store(1, Order::Relaxed, Scope::Device);
        word.store(42, Order::Relaxed, Scope::Device);
        version.store(2, Order::Relaxed, Scope::Device);
    } else {
        let before = version.load(Order::Relaxed, Scope::Device);
        found.write(0, word.load(Order::Relaxed, Scope::Device));
        let after = version.load(Order::Relaxed, Scope::Device);
        found.write(1, if before == after { before } else { 1 });
    }
}

/// Returns a word and its version that do not belong together.
fn tears(device: &Emulator) -> Option<Vec<u32>> {
    let kernel = |[words, found]: [_; 2]| ChangeAndRead { words, found };
    let [_, found] = on_zeros(device, [2, 2], Grid::new(2, 1), kernel).unwrap();
    Some(found).filter(|found| found[1] != 1 && *found != [0, 0] && *found != [42, 2])
}

#[test]
fn stores_that_are_late_are_found() {
    assert!(explore(&[], tears).is_none());
    let last = site("change_and_read", "version.store(2");
    let late = Fault::late(site("change_and_read", "word.store"), last);
    assert_eq!(explore(&[late], tears).expect("an old word").1, [0, 2]);
    // Executed at the end of the lane.
    let never = site("change_and_read", "let after = version.load");
    let late = Fault::late(site("change_and_read", "word.store"), never);
    assert_eq!(explore(&[late], tears).expect("an old word").1, [0, 2]);
}

#[test]
fn loads_that_are_early_are_found() {
    let first = site("change_and_read", "let before = version.load");
    let early = Fault::early(site("change_and_read", "let after = version.load"), first);
    assert_eq!(explore(&[early], tears).expect("a new word with the old version").1, [42, 0]);
}

#[test]
fn loaded_words_are_replaced() {
    let old =
        Fault::replace(site("change_and_read", "word.load"), |_, word| if word == 42 { 0 } else { word });
    assert_eq!(explore(&[old], tears).expect("an old word").1, [0, 2]);
}

#[test]
fn late_stores_are_visible_afterwards() {
    let late = Fault::late(site("pass_message", "data.write(0"), site("pass_message", "flag.at(0).store"));
    let options = Options { faults: vec![late.clone()], ..Options::explore(Schedule::Random { seed: 0 }) };
    let device = Emulator::new(Options { detect: simt::emulator::Detect::NONE, ..options });
    assert_eq!(passes(&device).unwrap()[0], 42);
    assert_eq!(late.effects(), 1);
}

#[test]
fn weak_loads_return_stale_values() {
    let weak = Fault::order(site("change_and_read", "word.load"), Order::Weak);
    let options = |seed| Options {
        faults: vec![weak.clone()],
        stale_l1: true,
        weak_memory: WeakMemory::Off,
        detect: simt::emulator::Detect::NONE,
        ..Options::explore(Schedule::Random { seed })
    };
    let found = (0..SEEDS).find_map(|seed| tears(&Emulator::new(options(seed))));
    assert_eq!(found.expect("a stale word"), [0, 2]);
}

#[test]
fn faults_without_an_effect_are_told() {
    let relaxed = Fault::order(site("change_and_read", "word.load"), Order::Relaxed);
    let elsewhere = Fault::skip(site("count", "counters.write"));
    let not_a_write = Fault::skip(site("change_and_read", "word.load"));
    let faults = vec![relaxed.clone(), elsewhere.clone(), not_a_write.clone()];
    tears(&Emulator::new(Options { faults, ..Options::explore(Schedule::Random { seed: 0 }) }));
    assert_eq!([relaxed.effects(), elsewhere.effects(), not_a_write.effects()], [0; 3]);
}

#[test]
fn sites_are_found_by_their_text() {
    let find = |function, text| SiteId::find("tests/faults.rs", function, text);
    let count = |found: Result<SiteId, SiteError>| match found.expect_err("not one line") {
        SiteError::Count { count, .. } => count,
        error => panic!("{error}"),
    };
    assert_eq!(count(find("change_and_read", "no such text")), 0);
    assert_eq!(count(find("no_such_function", "version.load")), 0);
    assert_eq!(count(find("change_and", "version.load")), 0, "the name of a function is not a prefix");
    assert_eq!(count(find("change_and_read", "version.load")), 2);
    assert_eq!(count(find("tears", "version.load")), 0, "a function ends");
    let nth = |index| SiteId::find_nth("tests/faults.rs", "change_and_read", "version.load", index);
    assert!(nth(0).is_ok() && nth(1).is_ok() && nth(0) != nth(1));
    assert_eq!(count(nth(2)), 2);
    let error = SiteId::find("tests/no_such_file.rs", "count", "load").expect_err("no file");
    assert!(matches!(error, SiteError::NoFile { .. }), "{error}");
}
