//! Tests the record of stores and the crashes that follow from it: what is settled is never lost, and
//! anything else may be.
mod common;

use common::Buffer;
use simt::emulator::{Crash, Detect, Emulator, Fault, Options, Schedule, SiteId, StoreLog};
use simt::{
    Block, GlobalSlice, Grid, Kernel, Order, Scope, Thread, Tile, fence, fence_sc, kernel, spin_hint,
};
use std::collections::BTreeSet;

const SEEDS: u64 = 10;

/// Finds a site of this file.
#[track_caller]
fn site(function: &str, text: &str) -> SiteId {
    SiteId::find("tests/crashes.rs", function, text).unwrap()
}

/// Launches a kernel on `len` recorded words, which are 0 before. Returns the record.
fn record<K: Kernel + Send + Sync + 'static>(
    device: &Emulator,
    len: usize,
    grid: Grid,
    kernel: impl Fn(GlobalSlice<u32>) -> K,
) -> StoreLog {
    let words = Buffer::<u32>::zeroed(device, len);
    // SAFETY: the buffer lives until the record ends, and only kernels write to it.
    unsafe { device.record_stores(words.pointer().cast(), 4 * len) };
    device.launch(grid, kernel(words.slice())).unwrap();
    device.take_stores().unwrap()
}

fn words(crash: &Crash<'_>) -> Vec<u32> {
    crash.contents(0).chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Returns the contents that the crashes at some stops leave, without duplicates.
fn contents(log: &StoreLog, stops: std::ops::Range<usize>, subsets: u64) -> BTreeSet<Vec<u32>> {
    let mut found = BTreeSet::new();
    log.crashes(stops, subsets, |crash| {
        found.insert(words(crash));
    });
    found
}

/// Returns whether a crash leaves a flag without the value that it announces, under some schedule.
fn loses<K: Kernel + Send + Sync + 'static>(
    grid: Grid,
    kernel: fn(GlobalSlice<u32>) -> K,
    faults: &[Fault],
    has_lost: fn(&[u32]) -> bool,
) -> bool {
    let finds = |seed| {
        let options = Options::explore(Schedule::Random { seed });
        let device = Emulator::new(Options { faults: faults.to_vec(), ..options });
        let log = record(&device, 64, grid, kernel);
        contents(&log, 0..log.events() + 1, 64).iter().any(|words| has_lost(words))
    };
    let found = (0..SEEDS).any(finds);
    faults.iter().for_each(|fault| assert!(fault.effects() > 0, "{fault}: it has no effect"));
    found
}

/// The flag, word 1, is there, and the value, word 0, is not.
fn has_lost_value(words: &[u32]) -> bool {
    words[1] == 1 && words[0] != 42
}

#[kernel]
fn fenced(words: GlobalSlice<u32>) {
    words.at(0).store(42, Order::Relaxed, Scope::Device);
    fence(Scope::System);
    words.at(1).store(1, Order::Relaxed, Scope::Device);
}

#[test]
fn a_missing_fence_is_found() {
    let one = Grid::new(1, 1);
    assert!(!loses(one, |words| Fenced { words }, &[], has_lost_value));
    let fault = Fault::skip(site("fenced", "fence(Scope::System)"));
    assert!(loses(one, |words| Fenced { words }, &[fault], has_lost_value));
}

#[kernel]
fn fenced_for_device(words: GlobalSlice<u32>) {
    words.at(0).store(42, Order::Relaxed, Scope::Device);
    fence_sc(Scope::Device);
    words.at(1).store(1, Order::Release, Scope::Device);
}

#[test]
fn an_order_of_the_device_settles_nothing() {
    assert!(loses(Grid::new(1, 1), |words| FencedForDevice { words }, &[], has_lost_value));
}

#[kernel]
fn released(words: GlobalSlice<u32>) {
    words.at(0).store(42, Order::Relaxed, Scope::Device);
    words.at(1).store(1, Order::Release, Scope::System);
}

#[kernel]
fn released_by_update(words: GlobalSlice<u32>) {
    words.at(0).fetch_add(42, Order::Relaxed, Scope::Device);
    words.at(1).fetch_or(1, Order::AcqRel, Scope::System);
}

#[kernel]
fn fenced_sc(words: GlobalSlice<u32>) {
    words.write(0, 42);
    fence_sc(Scope::System);
    words.write(1, 1);
}

#[test]
fn releases_and_sc_fences_settle() {
    let one = Grid::new(1, 1);
    assert!(!loses(one, |words| Released { words }, &[], has_lost_value));
    let relaxed = Fault::order(site("released", "words.at(1).store"), Order::Relaxed);
    assert!(loses(one, |words| Released { words }, &[relaxed], has_lost_value));
    assert!(!loses(one, |words| ReleasedByUpdate { words }, &[], has_lost_value));
    let relaxed = Fault::order(site("released_by_update", "words.at(1).fetch_or"), Order::Acquire);
    assert!(loses(one, |words| ReleasedByUpdate { words }, &[relaxed], has_lost_value));
    assert!(!loses(one, |words| FencedSc { words }, &[], has_lost_value));
    let skipped = Fault::skip(site("fenced_sc", "fence_sc(Scope::System)"));
    assert!(loses(one, |words| FencedSc { words }, &[skipped], has_lost_value));
}

/// Each lane of a warp writes a word; one says for all that they are there.
#[kernel]
fn by_a_warp(words: GlobalSlice<u32>) {
    let warp = Tile::<32>::this();
    words.write(32 + warp.rank() as usize, 42);
    warp.sync();
    if warp.rank() == 0 {
        fence(Scope::System);
        words.at(1).store(1, Order::Relaxed, Scope::Device);
    }
}

/// The same for the two warps of a block.
#[kernel]
fn by_a_block(words: GlobalSlice<u32>) {
    words.at(Thread::index()).store(42, Order::Relaxed, Scope::Device);
    Block::sync();
    if Thread::index() == 0 {
        fence(Scope::System);
        words.at(1).store(1, Order::Relaxed, Scope::Device);
    }
}

/// A fence settles the stores of other lanes that have synchronized with the lane, and no others.
#[test]
fn fences_settle_what_barriers_order() {
    let has_lost = |words: &[u32]| words[1] == 1 && words[32..].iter().any(|&word| word != 42);
    let warp = Grid::new(1, 32);
    assert!(!loses(warp, |words| ByAWarp { words }, &[], has_lost));
    let skipped = Fault::skip(site("by_a_warp", "warp.sync()"));
    assert!(loses(warp, |words| ByAWarp { words }, &[skipped], has_lost));
    let skipped = Fault::skip(site("by_a_warp", "fence(Scope::System)"));
    assert!(loses(warp, |words| ByAWarp { words }, &[skipped], has_lost));
    let has_lost = |words: &[u32]| words[1] == 1 && (2..64).any(|index| words[index] != 42);
    let block = Grid::new(1, 64);
    assert!(!loses(block, |words| ByABlock { words }, &[], has_lost));
    let skipped = Fault::skip(site("by_a_block", "Block::sync()"));
    assert!(loses(block, |words| ByABlock { words }, &[skipped], has_lost));
}

/// The other lane has only released its store to the device.
#[kernel]
fn by_two_blocks(words: GlobalSlice<u32>) {
    if Thread::block_index() == 0 {
        words.write(0, 42);
        words.at(32).store(1, Order::Release, Scope::Device);
    } else {
        while words.at(32).load(Order::Acquire, Scope::Device) == 0 {
            spin_hint();
        }
        fence(Scope::System);
        words.at(1).store(1, Order::Relaxed, Scope::Device);
    }
}

#[test]
fn fences_settle_what_was_acquired() {
    let two = Grid::new(2, 1);
    assert!(!loses(two, |words| ByTwoBlocks { words }, &[], has_lost_value));
    let fault = Fault::skip(site("by_two_blocks", "fence(Scope::System)"));
    assert!(loses(two, |words| ByTwoBlocks { words }, &[fault], has_lost_value));
}

/// Block 1 reads what block 0 stores, but does not synchronize with it.
#[kernel]
fn observed(words: GlobalSlice<u32>) {
    if Thread::block_index() == 0 {
        words.at(0).store(42, Order::Relaxed, Scope::Device);
    } else {
        while words.at(0).load(Order::Relaxed, Scope::Device) == 0 {
            spin_hint();
        }
        fence(Scope::System);
        words.at(1).store(1, Order::Relaxed, Scope::Device);
    }
}

#[test]
fn fences_do_not_settle_what_was_only_read() {
    assert!(loses(Grid::new(2, 1), |words| Observed { words }, &[], has_lost_value));
}

#[kernel]
fn alternate(words: GlobalSlice<u32>) {
    for number in 1..=8 {
        words.at(0).store(number, Order::Relaxed, Scope::Device);
        words.at(40).store(number, Order::Relaxed, Scope::Device);
    }
}

/// Half of the seeded subsets leave a prefix of each line: its first stores.
#[test]
fn seeded_prefixes_of_lines_are_lost() {
    let device = common::random(1);
    let log = record(&device, 64, Grid::new(1, 1), |words| Alternate { words });
    let mut found = Vec::new();
    log.crashes(16..17, 64, |crash| {
        let words = words(crash);
        found.push((words[0], words[40], crash.lost() as u32));
    });
    let seeded = &found[1 + 16 + 16..];
    assert_eq!(seeded.len(), 64);
    let prefixes: BTreeSet<_> = seeded.iter().skip(1).step_by(2).copied().collect();
    assert!(prefixes.len() > 16, "{prefixes:?}");
    assert!(prefixes.iter().all(|&(first, second, lost)| first + second + lost == 16), "{prefixes:?}");
}

#[kernel]
fn count_up(words: GlobalSlice<u32>) {
    for number in 1..=3 {
        words.at(0).store(number, Order::Relaxed, Scope::Device);
    }
    words.at(40).store(9, Order::Relaxed, Scope::Device);
}

/// With few pending stores, every subset of them is lost once.
#[test]
fn all_subsets_of_few_stores_are_lost() {
    let device = common::random(1);
    let log = record(&device, 64, Grid::new(1, 1), |words| CountUp { words });
    assert_eq!(log.events(), 5);
    let mut crashes = 0;
    log.crashes(4..5, 64, |crash| {
        assert_eq!(crash.stop(), 4);
        crashes += 1;
    });
    assert_eq!(crashes, 16);
    let (firsts, seconds): (BTreeSet<u32>, BTreeSet<u32>) =
        contents(&log, 4..5, 64).iter().map(|words| (words[0], words[40])).unzip();
    assert_eq!((firsts, seconds), (BTreeSet::from([0, 1, 2, 3]), BTreeSet::from([0, 9])));
    assert_eq!(contents(&log, 0..1, 64), BTreeSet::from([vec![0; 64]]));
    assert_eq!(contents(&log, 5..100, 64).len(), 1, "the end of the launch settles all");
}

/// With more, each single store and each prefix of a line are lost, and seeded subsets.
#[test]
fn single_stores_and_prefixes_of_lines_are_lost() {
    let device = common::random(1);
    let log = record(&device, 64, Grid::new(1, 1), |words| CountUp { words });
    let mut found = Vec::new();
    log.crashes(4..5, 0, |crash| found.push((words(crash)[0], words(crash)[40], crash.lost())));
    let singles = [(3, 9, 1), (3, 9, 1), (2, 9, 1), (3, 0, 1)];
    let prefixes = [(0, 9, 3), (1, 9, 2), (2, 9, 1), (3, 0, 1)];
    assert_eq!(found, [&[(3, 9, 0)][..], &singles, &prefixes].concat());
    let mut crashes = 0;
    log.crashes(4..5, 10, |_| crashes += 1);
    assert_eq!(crashes, 9 + 10);
}

/// A launch may lose nothing of the launches before, nor of what the host wrote between them.
#[test]
fn launches_and_the_host_settle() {
    let device = common::random(1);
    let buffer = Buffer::<u32>::zeroed(&device, 64);
    let launch = || device.launch(Grid::new(1, 1), CountUp { words: buffer.slice() }).unwrap();
    // SAFETY: the buffer lives until the record ends, and no kernel runs while the host writes.
    unsafe { device.record_stores(buffer.pointer().cast(), 256) };
    launch();
    let first = device.store_events();
    // SAFETY: as above.
    unsafe { buffer.pointer().add(5).write(77) };
    launch();
    let log = device.take_stores().unwrap();
    assert!(device.take_stores().is_none());
    let after = contents(&log, first..log.events() + 1, 64);
    assert!(after.iter().all(|words| words[40] == 9 && [1, 2, 3].contains(&words[0])), "{after:?}");
    assert!(contents(&log, 0..first + 1, 64).iter().all(|words| words[5] == 0));
    let begun = contents(&log, first + 3..log.events() + 1, 64);
    assert!(begun.iter().all(|words| words[5] == 77), "{begun:?}");
}

#[kernel]
fn wide(words: GlobalSlice<u128>, is_weak: u32) {
    let order = if is_weak == 1 { Order::Weak } else { Order::Relaxed };
    words.at(0).store(u128::MAX, order, Scope::Device);
}

/// A weak store of 16 bytes may be torn, a strong one is not.
#[test]
fn weak_stores_of_16_bytes_are_torn() {
    for is_weak in [0, 1] {
        let device = common::random(1);
        let buffer = Buffer::<u128>::zeroed(&device, 1);
        // SAFETY: the buffer lives until the record ends.
        unsafe { device.record_stores(buffer.pointer().cast(), 16) };
        device.launch(Grid::new(1, 1), Wide { words: buffer.slice(), is_weak }).unwrap();
        let log = device.take_stores().unwrap();
        let mut found = BTreeSet::new();
        log.crashes(0..log.events() + 1, 64, |crash| {
            found.insert([crash.contents(0)[0], crash.contents(0)[15]]);
        });
        let whole = BTreeSet::from([[0, 0], [255, 255]]);
        let torn = BTreeSet::from([[0, 255], [255, 0]]);
        assert_eq!(found, if is_weak == 1 { &whole | &torn } else { whole });
    }
}

/// Stores to other memory are not recorded. Messages name the lost stores.
#[test]
fn regions_are_recorded_apart() {
    let device = common::random(1);
    let buffer = Buffer::<u32>::zeroed(&device, 64);
    // SAFETY: the buffer lives until the record ends; both parts are in it.
    unsafe {
        device.record_stores(buffer.pointer().add(40).cast(), 4);
        device.record_stores(buffer.pointer().add(20).cast(), 12);
    }
    device.launch(Grid::new(1, 1), CountUp { words: buffer.slice() }).unwrap();
    let log = device.take_stores().unwrap();
    assert_eq!(log.events(), 2);
    let mut texts = Vec::new();
    log.crashes(1..2, 64, |crash| {
        assert_eq!(crash.contents(1), [0; 12]);
        assert_eq!(crash.contents(0)[0], if crash.lost() == 0 { 9 } else { 0 });
        texts.push(crash.to_string());
    });
    assert!(texts[1].contains("lost: a store of 4 bytes by thread 0 of block 0 at"), "{}", texts[1]);
    assert!(texts[1].contains("crashes.rs") && texts[1].contains("to byte 0 of region 0"), "{}", texts[1]);
}

/// Without detectors, a fence settles the lane's own stores only.
#[test]
fn without_detectors_a_lane_settles_its_own_stores() {
    let run = |grid, kernel: fn(GlobalSlice<u32>) -> ByTwoBlocks| {
        let device = common::random_with(1, Detect::NONE);
        let log = record(&device, 64, grid, kernel);
        contents(&log, 0..log.events() + 1, 64).iter().any(|words| has_lost_value(words))
    };
    assert!(run(Grid::new(2, 1), |words| ByTwoBlocks { words }));
    let device = common::random_with(1, Detect::NONE);
    let log = record(&device, 64, Grid::new(1, 1), |words| Fenced { words });
    assert!(!contents(&log, 0..log.events() + 1, 64).iter().any(|words| has_lost_value(words)));
}
