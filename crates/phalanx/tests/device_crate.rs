//! A user's kernels in a separate package (`device-crate`) operate on maps and lists, on the emulator and, if
//! available, on CUDA.
mod common;

use checker::{Combine, Event, MapModel, MapOp, MapOutcome, SnapshotModel, SnapshotOp, SnapshotOutcome};
use gpu::{Device, Grid};
use phalanx::mvbtree::Updates;
use phalanx::{BTree, HashMap, MultiVersionBTree, SlabAlloc, SlabHash, SlabMultiMap, SlabSet};
use phalanx_kernels::hash_map::{COUNTER_SHARDS, DefaultTable, Outcome};
use phalanx_kernels::keyed::SHARD_WORDS;
use phalanx_kernels::keyed::kernels::Get;
use phalanx_kernels::slab::Spread;
use phalanx_kernels::slab::list::ListsView;
use phalanx_test_kernels::lists::{
    Chains, Divisors, Isolate, LinkBoth, Members, Neighbours, ReplaceMembers, SumLists, TallyWords,
    TurnQueues,
};
use phalanx_test_kernels::trees::{self, CollectRanges, CollectRangesWide, Moments, Plain, RecordHistory};
use phalanx_test_kernels::{CountWords, EveryOperation, FollowLinks, Link, Links, Record, Words};
use phalanx_testing::sequences::answer;
use ptx_builder::Arch;
use simt::Kernel;
use simt::hash::mix64;
use std::collections::{BTreeMap, BTreeSet};

/// Counts words of a small vocabulary, on a map that already contains one of them.
fn words_are_counted(device: &Device) {
    let words: Vec<u32> = (0..1000u32).map(|n| (n * n) % 37).chain([u32::MAX; 24]).collect();
    let map = HashMap::<u32, u32>::builder().device(device).capacity(100).build().unwrap();
    assert!(map.insert(&[5000, 1], &[1, 100]).unwrap().all_placed());
    let buffer = device.from_slice(&words).unwrap();
    // SAFETY: the table is not replaced meanwhile, and the kernel has ended when the map is read.
    unsafe {
        let launch = CountWords { map: map.view::<Words>().unwrap(), words: buffer.global() };
        device.default_stream().launch(Grid::for_items(words.len(), 128), launch).unwrap();
    }
    device.synchronize().unwrap();
    let mut expected = BTreeMap::from([(5000, 1), (1, 100)]);
    words.iter().for_each(|&word| *expected.entry(word).or_insert(0) += 1);
    assert_eq!(map.iter().unwrap().collect::<BTreeMap<_, _>>(), expected);
    assert_eq!(map.len().unwrap(), expected.len(), "the session counted what it added");
}

/// The chains have many lengths, so that adjacent tiles diverge.
fn links_are_followed(device: &Device) {
    let map = HashMap::<u64, u64>::builder()
        .device(device)
        .variant("published_double_64_2x2_u64_u64")
        .build()
        .unwrap();
    let starts: Vec<u64> = (0..50).map(|chain| chain * 1000).collect();
    let length = |start: u64| start / 1000 % 7;
    let links: Vec<u64> = starts.iter().flat_map(|&start| start..start + length(start)).collect();
    assert!(map.insert(&links, &links.iter().map(|link| link + 1).collect::<Vec<_>>()).unwrap().all_placed());
    let from = device.from_slice(&starts).unwrap();
    let (ends, steps) = (device.zeroed::<u64>(50).unwrap(), device.zeroed::<u32>(50).unwrap());
    // SAFETY: the table is not replaced meanwhile, and the kernel has ended when the map is read.
    unsafe {
        let view = map.view::<Links>().unwrap();
        let launch =
            FollowLinks { map: view, starts: from.global(), ends: ends.global(), steps: steps.global() };
        device.default_stream().launch(Grid::for_items(100, 64), launch).unwrap();
    }
    let expected: Vec<u64> = starts.iter().map(|&start| start + length(start)).collect();
    assert_eq!(ends.read().unwrap(), expected);
    assert_eq!(steps.read().unwrap(), starts.iter().map(|&start| length(start) as u32).collect::<Vec<_>>());
    let chains = starts.iter().filter(|&&start| length(start) > 0).count();
    assert_eq!(map.len().unwrap(), links.len() - chains, "the last link of each chain is gone");
    assert_eq!(map.iter().unwrap().count(), links.len() - chains);
}

fn every_operation_answers(device: &Device) {
    let map = HashMap::<u32, u32>::builder().device(device).capacity(4000).build().unwrap();
    assert!(map.insert(&[1_000_000], &[1]).unwrap().all_placed());
    let keys: Vec<u32> = (0..500).map(|n| n * 3).chain([u32::MAX, u32::MAX - 1, u32::MAX - 2]).collect();
    let (buffer, wrong) = (device.from_slice(&keys).unwrap(), device.zeroed::<u32>(1).unwrap());
    // SAFETY: the table is not replaced meanwhile, and the kernel has ended when the map is read.
    unsafe {
        let view = map.view::<Words>().unwrap();
        let launch = EveryOperation { map: view, keys: buffer.global(), wrong: wrong.global() };
        device.default_stream().launch(Grid::for_items(keys.len(), 128), launch).unwrap();
    }
    assert_eq!(wrong.read().unwrap(), [0], "answers were wrong");
    assert_eq!(map.len().unwrap(), 1, "dropped sessions count too");
    assert_eq!(map.iter().unwrap().collect::<Vec<_>>(), [(1_000_000, 1)]);
    assert!(keys.len() > COUNTER_SHARDS, "lanes of several warps count");
}

/// Threads per block of the recording kernel, and operations per thread.
const THREADS: u32 = 128;
const ROUNDS: usize = 16;

/// Histories with times from the device, with many operations on few keys, are linearizable.
fn histories_are_linearizable(device: &Device) {
    let blocks = if device.is_emulator() { 2 } else { 64 };
    let len = (blocks * THREADS) as usize * ROUNDS;
    for seed in 0..8u64 {
        let map = HashMap::<u32, u32>::builder().device(device).capacity(len).build().unwrap();
        let draw = |index: usize, salt: u64| mix64((seed << 40) + ((index as u64) << 3) + salt);
        let codes: Vec<u8> = (0..len).map(|index| (draw(index, 0) % 8) as u8).collect();
        let keys: Vec<u32> = (0..len).map(|index| (draw(index, 1) % (len as u64 / 32)) as u32).collect();
        let arguments: Vec<u32> = (0..len).map(|index| draw(index, 2) as u32 % 100).collect();
        let events = recorded(device, &map, Grid::new(blocks, THREADS), (&codes, &keys, &arguments));
        let overlaps = events.windows(2).filter(|pair| pair[1].start <= pair[0].end).count();
        assert!(overlaps > len / 4, "the operations ran one after the other: {overlaps} overlaps");
        checker::check(&MapModel::default(), &events)
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// Builds a tree of multiples of three.
fn thirds(device: &Device, count: u32) -> BTree<u32, u32> {
    let tree = BTree::builder().device(device).capacity(count as usize).build().unwrap();
    let keys: Vec<u32> = (0..count).map(|n| n.wrapping_mul(0x9e37_79b1) % count * 3).collect();
    assert!(tree.insert(&keys, &keys.iter().map(|key| key + 1).collect::<Vec<_>>()).unwrap().all_placed());
    tree
}

/// Collects ranges of all lengths, with space for all of their pairs or for fewer, into elements of every
/// alignment, different for keys and values.
fn ranges_are_collected_in_blocks_of_any_size(device: &Device) {
    const COUNT: u32 = 512;
    const UNWRITTEN: u8 = 77;
    let tree = thirds(device, COUNT);
    let lows: Vec<u32> = (0..300).map(|n| n * 5 % (3 * COUNT)).chain([0, 3 * COUNT]).collect();
    let highs: Vec<u32> = lows.iter().enumerate().map(|(n, low)| low + n as u32 % 150).collect();
    let (l, h) = (device.from_slice(&lows).unwrap(), device.from_slice(&highs).unwrap());
    for (room, aside, threads) in [
        (16, [0, 0], 128),
        (16, [0, 0], 256),
        (7, [1, 1], 128),
        (40, [3, 3], 64),
        (9, [1, 2], 128),
        (50, [2, 0], 512),
    ] {
        let places = lows.len() * room as usize;
        let [keys, values] = aside.map(|aside| device.filled::<u32>(places + aside, UNWRITTEN).unwrap());
        let counts = device.zeroed::<u64>(lows.len()).unwrap();
        let (grid, stream) = (Grid::for_items(lows.len(), threads), device.default_stream());
        // SAFETY: no other operation uses the tree meanwhile, and the kernel has ended when its results are
        // read.
        unsafe {
            let tree = tree.view::<Plain>().unwrap();
            let (lows, highs, counts) = (l.global(), h.global(), counts.global());
            let (keys, values) =
                (keys.global().part(aside[0], places), values.global().part(aside[1], places));
            if threads > 128 {
                stream
                    .launch(grid, CollectRangesWide { tree, lows, highs, room, keys, values, counts })
                    .unwrap();
            } else {
                stream.launch(grid, CollectRanges { tree, lows, highs, room, keys, values, counts }).unwrap();
            }
        }
        let (keys, values, counts) = (keys.read().unwrap(), values.read().unwrap(), counts.read().unwrap());
        let written = |range: usize| {
            let all =
                (lows[range].next_multiple_of(3)..=highs[range]).step_by(3).filter(|key| *key < 3 * COUNT);
            all.take(room as usize).collect::<Vec<_>>()
        };
        for (range, &count) in counts.iter().enumerate() {
            let (expected, first) = (written(range), range * room as usize);
            assert_eq!(count, expected.len() as u64, "range {range}, room {room}, {threads} threads");
            let rest = room as usize - expected.len();
            let and_no_more = |words: &[u32], expected: Vec<u32>| {
                assert_eq!(
                    words,
                    [expected, vec![u32::from_ne_bytes([UNWRITTEN; 4]); rest]].concat(),
                    "range {range}, room {room}, {threads} threads"
                );
            };
            and_no_more(&keys[aside[0] + first..][..room as usize], expected.clone());
            and_no_more(
                &values[aside[1] + first..][..room as usize],
                expected.iter().map(|key| key + 1).collect(),
            );
        }
    }
}

/// The tiles of a large block have no space to buffer pairs.
#[test]
fn collecting_in_a_large_block_ends_the_launch() {
    let device = Device::emulator(Default::default());
    let tree = thirds(&device, 8);
    let (ends, counts) = (device.from_slice(&[0u32; 256]).unwrap(), device.zeroed::<u64>(256).unwrap());
    // SAFETY: no other operation uses the tree meanwhile, and the kernel ends before this function does.
    let launched = unsafe {
        let tree = tree.view::<Plain>().unwrap();
        let (lows, highs, keys, values) = (ends.global(), ends.global(), ends.global(), ends.global());
        let launch = CollectRanges { tree, lows, highs, room: 1, keys, values, counts: counts.global() };
        device.default_stream().launch(Grid::for_items(256, 256), launch).and_then(|()| device.synchronize())
    };
    let error = launched.unwrap_err().to_string();
    assert!(error.contains("CollectWide"), "it says what to do: {error}");
}

/// Histories of insertions, removals, look-ups and ranges on one tree, with times from the device, are
/// linearizable.
fn histories_of_ranges_are_linearizable(device: &Device) {
    let (blocks, runs) = if device.is_emulator() { (2, 30) } else { (3, 600) };
    let builder = MultiVersionBTree::<u32, u32>::builder().device(device).updates(Updates::OutOfPlace);
    let mut tree = builder.capacity(4000).build().unwrap();
    let mut overlaps = 0;
    for seed in 0..runs {
        let keys: Vec<u32> = (0..40).map(|n| n * 2).collect();
        tree.clear().unwrap();
        assert!(tree.insert(&keys, &keys).unwrap().all_placed());
        let events = recorded_ranges(device, &tree, blocks, seed);
        overlaps += events.windows(2).filter(|pair| pair[1].start <= pair[0].end).count();
        let initial = keys.iter().map(|&key| (key, key)).collect();
        checker::check(&SnapshotModel { initial }, &events)
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        tree.validate().unwrap();
    }
    assert!(overlaps > runs as usize, "the operations ran one after the other: {overlaps} overlaps");
}

type Recorded = Event<SnapshotOp<u32, u32>, SnapshotOutcome<u32, u32>>;

/// Number of operations per warp.
const OPERATIONS: usize = 6;
/// Space for the pairs of a range.
const PLACES: usize = 96;

/// Executes random operations by the warps of `blocks` blocks.
fn recorded_ranges(
    device: &Device,
    tree: &MultiVersionBTree<u32, u32>,
    blocks: u32,
    seed: u64,
) -> Vec<Recorded> {
    let len = (blocks * THREADS / 32) as usize * OPERATIONS;
    let draw = |index: usize, salt: u64| mix64((seed << 40) + ((index as u64) << 3) + salt);
    let code = |index: usize| {
        [trees::INSERT, trees::INSERT, trees::REMOVE, trees::GET, trees::RANGE, trees::RANGE]
            [draw(index, 0) as usize % 6]
    };
    let codes: Vec<u8> = (0..len).map(code).collect();
    let ends = |index: usize| {
        let (a, b) = (draw(index, 1) as u32 % 80, draw(index, 2) as u32 % 80);
        if codes[index] == trees::RANGE { (a.min(b), a.max(b)) } else { (a, 1000 + index as u32) }
    };
    let (lows, highs): (Vec<u32>, Vec<u32>) = (0..len).map(ends).unzip();
    let (c, l, h) = (
        device.from_slice(&codes).unwrap(),
        device.from_slice(&lows).unwrap(),
        device.from_slice(&highs).unwrap(),
    );
    let places = len * PLACES;
    let (keys, values) = (device.zeroed::<u32>(places).unwrap(), device.zeroed::<u32>(places).unwrap());
    let times = [(); 3].map(|()| device.zeroed::<u64>(len).unwrap());
    let [counts, starts, stops] = &times;
    // SAFETY: no other operation uses the tree meanwhile, and the kernel has ended when its results are read.
    unsafe {
        let launch = RecordHistory {
            tree: tree.view::<Moments>().unwrap(),
            codes: c.global(),
            lows: l.global(),
            highs: h.global(),
            room: PLACES as u32,
            keys: keys.global(),
            values: values.global(),
            counts: counts.global(),
            starts: starts.global(),
            ends: stops.global(),
        };
        device.default_stream().launch(Grid::new(blocks, THREADS), launch).unwrap();
    }
    let (keys, values) = (keys.read().unwrap(), values.read().unwrap());
    let told = times.each_ref().map(|times| times.read().unwrap());
    let event = |index: usize| {
        let (low, high, count) = (lows[index], highs[index], told[0][index]);
        let first = index * PLACES;
        let pairs = || (first..first + count as usize).map(|place| (keys[place], values[place])).collect();
        let (op, outcome) = said(codes[index], (low, high), count, values[first], pairs);
        let thread = (index % (blocks * THREADS / 32) as usize) as u32;
        Event { op, outcome, start: told[1][index], end: told[2][index], thread }
    };
    (0..len).map(event).collect()
}

/// Converts an operation and its result for the checker.
fn said(
    code: u8,
    (low, high): (u32, u32),
    count: u64,
    first: u32,
    pairs: impl Fn() -> Vec<(u32, u32)>,
) -> (SnapshotOp<u32, u32>, SnapshotOutcome<u32, u32>) {
    let on_key = |op, outcome| (SnapshotOp::Key(op), SnapshotOutcome::Key(outcome));
    match code {
        trees::INSERT if count == Outcome::Inserted as u64 => {
            on_key(MapOp::Insert(low, high), MapOutcome::Inserted)
        }
        trees::INSERT => {
            assert_eq!(count, Outcome::Replaced as u64, "there is room for all");
            on_key(MapOp::Insert(low, high), MapOutcome::Replaced(None))
        }
        trees::REMOVE if count == 1 => on_key(MapOp::Remove(low), MapOutcome::Removed(None)),
        trees::REMOVE => on_key(MapOp::Remove(low), MapOutcome::Absent),
        trees::GET if count == 1 => on_key(MapOp::Get(low), MapOutcome::Found(first)),
        trees::GET => on_key(MapOp::Get(low), MapOutcome::Absent),
        _ => (SnapshotOp::Range(low, high), SnapshotOutcome::Pairs(pairs())),
    }
}

type Operations<'a> = (&'a [u8], &'a [u32], &'a [u32]);

fn recorded(
    device: &Device,
    map: &HashMap<u32, u32>,
    grid: Grid,
    (codes, keys, arguments): Operations<'_>,
) -> Vec<Event<MapOp<u32, u32>, MapOutcome<u32>>> {
    let len = keys.len();
    let (c, k) = (device.from_slice(codes).unwrap(), device.from_slice(keys).unwrap());
    let (a, results) = (device.from_slice(arguments).unwrap(), device.zeroed::<u32>(len).unwrap());
    let outcomes = device.filled::<u8>(len, 0xff).unwrap();
    let (starts, ends) = (device.zeroed::<u64>(len).unwrap(), device.zeroed::<u64>(len).unwrap());
    // SAFETY: the table is not replaced meanwhile, and the kernel has ended when the map is read.
    unsafe {
        let launch = Record {
            map: map.view::<Words>().unwrap(),
            codes: c.global(),
            keys: k.global(),
            arguments: a.global(),
            results: results.global(),
            outcomes: outcomes.global(),
            starts: starts.global(),
            ends: ends.global(),
        };
        device.default_stream().launch(grid, launch).unwrap();
    }
    let (results, outcomes) = (results.read().unwrap(), outcomes.read().unwrap());
    let (starts, ends) = (starts.read().unwrap(), ends.read().unwrap());
    let event = |index: usize| Event {
        op: asked(codes[index], keys[index], arguments[index]),
        outcome: answered(outcomes[index], results[index]),
        start: starts[index],
        end: ends[index],
        thread: (index % (grid.blocks * grid.threads) as usize) as u32,
    };
    (0..len).map(event).collect()
}

fn asked(code: u8, key: u32, argument: u32) -> MapOp<u32, u32> {
    match code {
        0 => MapOp::Get(key),
        1 => MapOp::Insert(key, argument),
        2 => MapOp::InsertNew(key, argument),
        3 => MapOp::Remove(key),
        4 => MapOp::GetOrInsert(key, argument),
        5 => MapOp::Upsert(key, argument, Combine::Add),
        6 => MapOp::Upsert(key, argument, Combine::Min),
        _ => MapOp::Upsert(key, argument, Combine::Max),
    }
}

fn answered(outcome: u8, value: u32) -> MapOutcome<u32> {
    let outcome = Outcome::from_code(outcome).expect("the kernel wrote an outcome");
    let has_value = matches!(outcome, Outcome::Inserted | Outcome::Replaced | Outcome::Found);
    answer(outcome, has_value.then_some(value))
}

/// Sessions of lanes and of tiles on a map of slab lists.
fn sessions_work_on_lists(device: &Device) {
    let map = SlabHash::<u32, u32>::builder().device(device).buckets(7).slabs(500).build().unwrap();
    assert!(map.insert(&[5000, 1], &[1, 100]).unwrap().all_placed());
    let words: Vec<u32> = (0..3000u32).map(|n| n * n % 1009).chain([u32::MAX; 24]).collect();
    let stops = [5000, 77_777, u32::MAX - 1];
    let (w, s) = (device.from_slice(&words).unwrap(), device.from_slice(&stops).unwrap());
    // SAFETY: the lists are not replaced meanwhile, and the kernel has ended when the map is read.
    unsafe {
        let launch = TallyWords { map: map.view::<Chains>().unwrap(), words: w.global(), stops: s.global() };
        device.default_stream().launch(Grid::for_items(words.len(), 128), launch).unwrap();
    }
    device.synchronize().unwrap();
    let mut expected = BTreeMap::from([(1, 100)]);
    words.iter().for_each(|&word| *expected.entry(word).or_insert(0) += 1);
    assert_eq!(map.iter().unwrap().collect::<BTreeMap<_, _>>(), expected);
    assert_eq!(map.len().unwrap(), expected.len(), "the session counted what it added and took out");
    map.validate().unwrap();
}

/// Counts which of 1 to 60 divide each number, with divergent tiles.
fn tiles_work_on_lists(device: &Device) {
    const END: u32 = 700;
    let map = SlabHash::<u32, u32>::builder().device(device).buckets(5).slabs(500).build().unwrap();
    let keys: Vec<u32> = (1..=60).collect();
    let (k, new) = (device.from_slice(&keys).unwrap(), device.zeroed::<u32>(60).unwrap());
    // SAFETY: the lists are not replaced meanwhile, and the kernel has ended when the map is read.
    unsafe {
        let map = map.view::<Chains>().unwrap();
        let launch = Divisors { map, keys: k.global(), end: END, inserted: new.global() };
        device.default_stream().launch(Grid::for_items(4 * keys.len(), 64), launch).unwrap();
    }
    let expected = (1..END).map(|n| (n, keys.iter().filter(|&key| n.is_multiple_of(*key)).count() as u32));
    assert_eq!(new.read().unwrap().into_iter().sum::<u32>(), END - 1, "each number is new to one tile");
    assert_eq!(map.iter().unwrap().collect::<BTreeMap<_, _>>(), expected.collect());
    assert_eq!(map.len().unwrap(), END as usize - 1);
    map.validate().unwrap();
}

/// A session on a set.
fn sessions_work_on_sets(device: &Device) {
    let set = SlabSet::<u32>::builder().device(device).buckets(3).slabs(500).build().unwrap();
    assert!(set.insert(&(0..500).chain([u32::MAX]).collect::<Vec<_>>()).unwrap().all_placed());
    // Half of the first keys are present, and each of the second keys occurs twice.
    let gone: Vec<u32> = (400..600).chain([u32::MAX, u32::MAX - 1]).collect();
    let come: Vec<u32> = (0..1002).map(|n| if n < 1000 { 5000 + n / 2 } else { u32::MAX - 2 }).collect();
    let (g, c) = (device.from_slice(&gone).unwrap(), device.from_slice(&come).unwrap());
    let sums = device.zeroed::<u32>(3).unwrap();
    // SAFETY: the lists are not replaced meanwhile, and the kernel has ended when the set is read.
    unsafe {
        let set = set.view::<Members>().unwrap();
        let launch = ReplaceMembers { set, gone: g.global(), come: c.global(), sums: sums.global() };
        device.default_stream().launch(Grid::for_items(come.len(), 128), launch).unwrap();
    }
    assert_eq!(sums.read().unwrap(), [101, 501, 0], "removed, inserted, missed");
    let expected: BTreeSet<u32> = (0..400).chain(5000..5500).chain([u32::MAX - 2]).collect();
    assert_eq!(set.iter().unwrap().collect::<BTreeSet<_>>(), expected);
    assert_eq!(set.len().unwrap(), expected.len());
    set.validate().unwrap();
}

/// A session on a multimap: values are removed in the order of insertion.
fn sessions_work_on_maps_of_many(device: &Device) {
    let queues = SlabMultiMap::<u32, u32>::builder().device(device).buckets(3).slabs(500).build().unwrap();
    let keys: Vec<u32> = (0..100).chain([u32::MAX]).collect();
    assert!(queues.insert(&keys[1..], &keys[1..]).unwrap().all_placed());
    assert!(queues.insert(&keys[1..], &[7; 100]).unwrap().all_placed());
    let values: Vec<u32> = (1000..1101).collect();
    let (k, v) = (device.from_slice(&keys).unwrap(), device.from_slice(&values).unwrap());
    let firsts = device.zeroed::<u32>(keys.len()).unwrap();
    // SAFETY: the lists are not replaced meanwhile, and the kernel has ended when the map is read.
    unsafe {
        let queues = queues.view::<Chains>().unwrap();
        let launch = TurnQueues { queues, keys: k.global(), values: v.global(), firsts: firsts.global() };
        device.default_stream().launch(Grid::for_items(keys.len(), 128), launch).unwrap();
    }
    // The first queue was empty.
    assert_eq!(firsts.read().unwrap(), [&[1000], &keys[1..]].concat());
    let left = queues.get_all(&keys).unwrap();
    assert!(left.of(0).is_empty());
    (1..keys.len()).for_each(|index| assert_eq!(left.of(index), [7, values[index]], "queue {index}"));
    assert_eq!(queues.len().unwrap(), 200);
    queues.validate().unwrap();
}

const BUCKETS: u32 = 9;
const VERTICES: u32 = 40;
const ROOM: u32 = 12;

/// The list primitive on a separate pool: the edges of a graph.
fn lists_stand_by_themselves(device: &Device) {
    let pool = SlabAlloc::builder().device(device).super_block_slabs(64).build().unwrap();
    let heads = device.filled::<u64>((BUCKETS as usize + 1) * 128 / 8, 0xff).unwrap();
    let counters = device.zeroed::<u64>(COUNTER_SHARDS * SHARD_WORDS).unwrap();
    // SAFETY: the pool and both buffers live until the kernels have ended, and only these kernels write them.
    let lists = unsafe {
        let pool = pool.view::<Spread<128>>().unwrap();
        ListsView::<Chains>::new(heads.pointer(), counters.pointer(), pool, BUCKETS)
    };
    let stream = device.default_stream();
    let counted =
        || counters.read().unwrap().iter().step_by(SHARD_WORDS).fold(0u64, |a, b| a.wrapping_add(*b));
    // A star around a vertex from the top of the range, and a path.
    let (from, to): (Vec<u32>, Vec<u32>) =
        (0..VERTICES).flat_map(|n| [(u32::MAX, n), (n, n + 1)]).filter(|edge| edge.1 < VERTICES).unzip();
    let (f, t, refused) = (
        device.from_slice(&from).unwrap(),
        device.from_slice(&to).unwrap(),
        device.zeroed::<u32>(1).unwrap(),
    );
    let vertices: Vec<u32> = (0..VERTICES + 3).chain([u32::MAX]).collect();
    let v = device.from_slice(&vertices).unwrap();
    let degrees = device.zeroed::<u32>(vertices.len()).unwrap();
    let near = device.filled::<u32>(vertices.len() * ROOM as usize, 0xff).unwrap();
    let (edges, all) = (Grid::for_items(from.len(), 64), Grid::for_items(vertices.len(), 64));
    // SAFETY: the buffers live until the kernels have ended.
    unsafe {
        let (from, to, refused) = (f.global(), t.global(), refused.global());
        stream.launch(edges, LinkBoth { lists, from, to, refused }).unwrap();
        let (degrees, neighbours) = (degrees.global(), near.global());
        stream
            .launch(all, Neighbours { lists, vertices: v.global(), room: ROOM, degrees, neighbours })
            .unwrap();
    }
    let ends = || from.iter().copied().zip(to.iter().copied()).flat_map(|(a, b)| [(a, b), (b, a)]);
    let degree = |vertex: &u32| ends().filter(|end| end.0 == *vertex).count() as u32;
    let expected: Vec<u32> = vertices.iter().map(degree).collect();
    assert_eq!((refused.read().unwrap()[0], counted()), (0, 2 * from.len() as u64));
    assert_eq!(degrees.read().unwrap(), expected);
    for (vertex, near) in vertices.iter().zip(near.read().unwrap().chunks(ROOM as usize)) {
        let found = &near[..degree(vertex).min(ROOM) as usize];
        assert!(found.iter().all(|other| ends().any(|end| end == (*vertex, *other))), "{vertex}: {found:?}");
        let distinct: std::collections::BTreeSet<_> = found.iter().collect();
        assert_eq!(distinct.len(), found.len(), "{vertex}: {found:?}");
        assert!(near[found.len()..].iter().all(|&word| word == u32::MAX), "{vertex}: beyond its room");
    }
    let surveyed = sums_of(device, lists);
    assert_eq!(surveyed[1..], [2 * from.len() as u64, ends().map(|end| u64::from(end.1)).sum()]);
    assert_eq!(
        surveyed[0],
        u64::from(BUCKETS) + 1 + pool.stats().unwrap().live as u64,
        "every slab is in a list"
    );
    // SAFETY: as above.
    unsafe {
        stream.launch(all, Isolate { lists, vertices: v.global(), degrees: degrees.global() }).unwrap()
    };
    assert_eq!(degrees.read().unwrap(), expected);
    assert_eq!((sums_of(device, lists)[1..].to_vec(), counted()), (vec![0, 0], 0));
}

/// Returns the numbers of nodes and pairs and the sum of the values, from a traversal of every list.
fn sums_of(device: &Device, lists: ListsView<Chains>) -> Vec<u64> {
    let sums = device.zeroed::<u64>(3).unwrap();
    // SAFETY: the caller keeps the buffers of the view alive; the sums live until they are read.
    unsafe {
        let grid = Grid::for_items(4 * (BUCKETS as usize + 1), 64);
        device.default_stream().launch(grid, SumLists { lists, sums: sums.global() }).unwrap();
    }
    sums.read().unwrap()
}

macro_rules! suite {
    ($device:ident: $($case:ident)*) => {
        mod $device {
            $(
                #[test]
                fn $case() {
                    if let Some(device) = crate::$device() {
                        crate::$case(&device);
                    }
                }
            )*
        }
    };
    ($device:ident) => {
        suite! {
            $device: words_are_counted links_are_followed every_operation_answers histories_are_linearizable
                histories_of_ranges_are_linearizable ranges_are_collected_in_blocks_of_any_size
                sessions_work_on_lists tiles_work_on_lists sessions_work_on_sets sessions_work_on_maps_of_many
                lists_stand_by_themselves
        }
    };
}

suite!(emulator);
#[cfg(feature = "cuda")]
suite!(cuda);

fn emulator() -> Option<Device> {
    common::emulator()
}

#[cfg(feature = "cuda")]
fn cuda() -> Option<Device> {
    common::cuda_with_test_kernels()
}

/// Checks memory orders in the PTX. The emulator cannot verify them in its default mode, which does not
/// reorder relaxed accesses. A pair that becomes visible in two steps is published with release and its value
/// is read after an acquire; the filter is written before the tile continues.
fn orders_are_kept(ptx: &str) {
    let entry = |symbol: String| {
        let start = ptx.find(&format!(".entry {symbol}(")).expect("the entry is there");
        let rest = &ptx[start + 1..];
        &rest[..rest.find(".entry ").unwrap_or(rest.len())]
    };
    for (symbol, instruction) in [
        (Link::symbol(), "st.release.gpu.global.b64"),
        (FollowLinks::symbol(), "ld.acquire.gpu.global.b64"),
        (CountWords::symbol(), "bar.warp.sync"),
    ] {
        assert!(entry(symbol.clone()).contains(instruction), "{symbol} is without `{instruction}`");
    }
}

#[test]
fn the_package_builds_to_ptx() {
    assert_eq!(CountWords::PROGRAM, "phalanx-test-kernels");
    for arch in [Arch::Sm80, Arch::Sm90] {
        let ptx = common::test_kernels(arch);
        let entries: Vec<_> = ptx.entries().collect();
        for symbol in [
            CountWords::symbol(),
            FollowLinks::symbol(),
            EveryOperation::symbol(),
            Record::symbol(),
            TallyWords::symbol(),
            Divisors::symbol(),
            LinkBoth::symbol(),
            Neighbours::symbol(),
            Isolate::symbol(),
            SumLists::symbol(),
            ReplaceMembers::symbol(),
            TurnQueues::symbol(),
        ] {
            assert!(entries.contains(&symbol.as_str()), "{symbol} is not among {entries:?}");
        }
        let theirs = Get::<DefaultTable>::symbol();
        assert!(
            !entries.contains(&theirs.as_str()),
            "{theirs} is looked for in the program of its own package"
        );
        orders_are_kept(ptx.text());
    }
}
