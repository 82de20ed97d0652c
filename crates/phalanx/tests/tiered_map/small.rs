//! Batches that are executed as they come, by one kernel for all shards.
use crate::model::{
    PLACEMENTS, all_pairs, cheap_copies, check, device, emulator, insert, least, numbers, of,
};
use crate::model::{path, small};
use gpu::Device;
use phalanx::map::OpCode;
use phalanx::tiered_map::{Builder, Costs, Partition, Placement, Storage};
use phalanx::{Error, Key, Merge, Op, Outcome, TieredMap, Value};
use simt::emulator::{Fault, Options, Schedule, SiteId};
use std::collections::BTreeMap;

/// Costs by which each batch of one chunk is executed as it comes.
fn slow_shards() -> Costs {
    Costs { shard_ns: 1e9, ..cheap_copies() }
}

/// Returns a builder of a map of 8 shards, by hash.
fn scattered<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
    small(device).costs(slow_shards())
}

/// Returns how many launches a call takes.
fn launches(device: &Device, call: impl FnOnce()) -> u64 {
    let before = device.emulated_work().unwrap().launches;
    call();
    device.emulated_work().unwrap().launches - before
}

/// The kernel, and the count of refused elements; for changes also the sums of what has changed.
#[test]
fn a_batch_takes_few_launches() {
    let device = emulator();
    for (placement, few) in PLACEMENTS.into_iter().zip([true, false, true]) {
        let map = least(scattered::<u32, u32>(&device).placement(placement).hot_pairs(0));
        let keys: Vec<u32> = (0..100).collect();
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        let updates = launches(&device, || assert!(map.insert(&keys, &keys).unwrap().all_placed()));
        let lookups = launches(&device, || assert!(map.get(&keys).unwrap().iter().all(Option::is_some)));
        assert_eq!((updates, lookups) == (4, 2), few, "{placement:?}: {updates} {lookups}");
        if few {
            assert_eq!((map.traffic().in_place, map.traffic().on_device), (300, 0));
        }
    }
}

/// Executes all verbs in small batches, on maps of one kind.
fn all_verbs<K: Key + Ord, V: Value + PartialEq>(
    builder: &dyn Fn() -> Builder<K, V>,
    key: fn(u64) -> K,
    value: fn(u64) -> V,
) {
    let (map, mut model) = (least(builder()), BTreeMap::new());
    let absent = [key(1000), key(1500)];
    for seed in 0..5 {
        let (keys, values) = of(&numbers(60, 400, seed), key, value);
        insert(&map, &mut model, (&keys, &values));
        let (keys, others) = of(&numbers(50, 700, seed + 100), key, |number| number + 1);
        let others: Vec<V> = others.into_iter().map(value).collect();
        let outcomes = map.insert_new(&keys, &others).unwrap();
        let mut new = 0;
        for (key, other) in keys.iter().zip(&others) {
            new += usize::from(!model.contains_key(key));
            model.entry(*key).or_insert(*other);
        }
        assert_eq!(outcomes.count(Outcome::Inserted), new);
        let (keys, values) = of(&numbers(40, 800, seed + 200), key, value);
        let found = map.get_or_insert(&keys, &values).unwrap();
        for ((key, value), found) in keys.iter().zip(&values).zip(found) {
            assert!(found == Some(*model.entry(*key).or_insert(*value)));
        }
        let (keys, _) = of(&numbers(70, 900, seed + 300), key, value);
        let there = model.len();
        model.retain(|key, _| !keys.contains(key));
        let removed = map.remove(&keys).unwrap();
        assert_eq!(removed.iter().filter(|&&is_removed| is_removed).count(), there - model.len());
        check_in_parts(&map, &model, &absent);
    }
    check(&map, &model, &absent);
}

/// Looks up all keys in batches of a chunk.
fn check_in_parts<K: Key + Ord, V: Value + PartialEq>(
    map: &TieredMap<K, V>,
    model: &BTreeMap<K, V>,
    absent: &[K],
) {
    let keys: Vec<K> = model.keys().copied().chain(absent.iter().copied()).collect();
    for part in keys.chunks(map.chunk()) {
        let expected: Vec<Option<V>> = part.iter().map(|key| model.get(key).copied()).collect();
        assert_eq!(map.get(part).unwrap(), expected);
        let is_there: Vec<bool> = expected.iter().map(Option::is_some).collect();
        assert_eq!(map.contains_key(part).unwrap(), is_there);
    }
    assert_eq!(map.len(), model.len());
}

#[test]
fn all_verbs_with_all_sizes() {
    let device = device();
    all_verbs(&|| scattered::<u32, u32>(&device), |number| number as u32, |number| number as u32 * 7);
    all_verbs(&|| scattered::<u64, u64>(&device), |number| number << 40, |number| number << 33);
    all_verbs(&|| scattered::<u32, u64>(&device), |number| u32::MAX - number as u32, |number| number << 33);
    all_verbs(&|| scattered::<u64, u32>(&device), |number| u64::MAX - number, |number| number as u32);
    all_verbs(&|| scattered::<i32, f32>(&device), |number| number as i32 - 300, |number| number as f32);
}

#[test]
fn all_verbs_in_place_in_ranges_and_files() {
    let device = device();
    let in_place = || scattered::<u32, u32>(&device).placement(Placement::AlwaysInPlace);
    all_verbs(&in_place, |number| number as u32, |number| number as u32);
    let ranges = || {
        let builder = TieredMap::builder().device(&device).capacity(800).costs(slow_shards());
        builder.partition(Partition::ByRange { keys: 0..=1_999_u64, each: 50 })
    };
    all_verbs(&ranges, |number| number, |number| number as u32);
    let in_file = || scattered::<u32, u32>(&device).storage(Storage::File(path()));
    all_verbs(&in_file, |number| number as u32, |number| number as u32);
    let staged = || scattered::<u32, u32>(&device).storage(Storage::StagedFile(path()));
    all_verbs(&staged, |number| number as u32, |number| number as u32);
}

/// Some shards have no memory before their first key.
#[test]
fn blank_shards() {
    let device = emulator();
    let builder = TieredMap::<u64, u64>::builder().device(&device).capacity(800).costs(slow_shards());
    let map = least(builder.partition(Partition::ByRange { keys: 0..=99_999, each: 1000 }));
    let absent: Vec<u64> = (0..100).map(|range| range * 1000).collect();
    assert_eq!(map.get(&absent).unwrap(), vec![None; 100]);
    assert_eq!(map.remove(&absent).unwrap(), vec![false; 100]);
    let bytes = map.host_bytes();
    assert!(map.insert(&[5, 5005], &[1, 2]).unwrap().all_placed());
    assert!(map.host_bytes() > bytes && map.host_bytes() < bytes + 100_000, "two shards");
    assert_eq!(map.get(&[5, 6, 5005, 99_999]).unwrap(), [Some(1), None, Some(2), None]);
}

#[test]
fn equal_keys_in_a_batch() {
    let map = least(scattered::<u32, u32>(&device()));
    let keys: Vec<u32> = (0..120).map(|place| place % 3).collect();
    let outcomes = map.upsert(Merge::Add, &keys, &[1; 120]).unwrap();
    assert_eq!((outcomes.count(Outcome::Inserted), outcomes.count(Outcome::Replaced)), (3, 117));
    assert_eq!(map.get(&[0, 1, 2]).unwrap(), [Some(40); 3]);
    let found = map.get_or_insert(&[9; 100], &(0..100).collect::<Vec<u32>>()).unwrap();
    assert!(found.iter().all(|value| *value == found[0] && value.is_some()));
    assert_eq!(map.remove(&[9; 100]).unwrap().iter().filter(|&&is_removed| is_removed).count(), 1);
    assert_eq!(map.len(), 3);
}

/// Each element has an operation of its own.
#[test]
fn mixed_operations() {
    let map = least(scattered::<u32, u32>(&device()));
    let keys: Vec<u32> = (0..50).collect();
    assert!(map.insert(&keys, &keys).unwrap().all_placed());
    let operations = |key: u32| match key % 4 {
        0 => Op::Get(key),
        1 => Op::Insert(key, key + 1),
        2 => Op::Remove(key),
        _ => Op::InsertNew(key, 3),
    };
    let results = map.execute(&(0..100).map(operations).collect::<Vec<_>>()).unwrap();
    for (key, (outcome, value)) in (0..100).zip(results) {
        let expected = match (key % 4, key < 50) {
            (0, true) => (Outcome::Found, Some(key)),
            (0, false) | (2, false) => (Outcome::Absent, None),
            (1, true) => (Outcome::Replaced, None),
            (2, true) => (Outcome::Removed, None),
            (_, true) => (Outcome::Found, None),
            (_, false) => (Outcome::Inserted, None),
        };
        assert_eq!((outcome, value.filter(|_| key % 4 == 0)), expected, "{key}");
    }
    let left: BTreeMap<u32, u32> = (0..100)
        .filter_map(|key| match (key % 4, key < 50) {
            (0, true) => Some((key, key)),
            (1, _) => Some((key, key + 1)),
            (3, is_old) => Some((key, if is_old { key } else { 3 })),
            _ => None,
        })
        .collect();
    check(&map, &left, &[]);
}

/// Lookups on device buffers are executed as they come, too; the host does not know the shards of changes.
#[test]
fn device_buffers() {
    let device = emulator();
    let map = least(scattered::<u32, u32>(&device).hot_pairs(0));
    let stream = device.stream().unwrap();
    let numbers: Vec<u32> = (0..100).collect();
    let keys = device.from_slice(&numbers).unwrap();
    let (mut values, mut outcomes) = (device.zeroed::<u32>(100).unwrap(), device.zeroed::<u8>(100).unwrap());
    map.on(&stream).insert(&keys, &keys, &mut outcomes).unwrap();
    assert_eq!(outcomes.read().unwrap(), [Outcome::Inserted as u8; 100]);
    let launches = launches(&device, || map.on(&stream).get(&keys, &mut values, &mut outcomes).unwrap());
    assert_eq!((launches, values.read().unwrap()), (2, numbers.clone()));
    let codes = vec![OpCode::REMOVE.code() as u8; 100];
    let codes = device.from_slice(&codes).unwrap();
    map.on(&stream).execute(&codes, &keys, &keys, &mut values, &mut outcomes).unwrap();
    assert_eq!((outcomes.read().unwrap(), map.len()), (vec![Outcome::Removed as u8; 100], 0));
}

/// A large batch leaves copies of shards in slots; a small one then changes the images.
#[test]
fn copies_in_slots_are_not_stale() {
    let map = least(scattered::<u32, u32>(&device()));
    assert!(map.chunk() < 700, "batches of several chunks are sorted");
    let all: Vec<u32> = (0..700).collect();
    let mut model = BTreeMap::new();
    for round in 0..4 {
        insert(&map, &mut model, (&all, &vec![round; 700]));
        assert!(map.traffic().on_device > 0, "shards are in slots");
        let some: Vec<u32> = (0..100).map(|key| key * 7).collect();
        insert(&map, &mut model, (&some, &[1000 + round; 100]));
        check(&map, &model, &[5000]);
    }
}

#[test]
fn shards_grow() {
    for placement in [Placement::ByCost, Placement::AlwaysInPlace] {
        let map = least(scattered::<u32, u64>(&device()).capacity(100).placement(placement));
        let (mut model, slots) = (BTreeMap::new(), map.slots());
        for first in (0..6000u32).step_by(100) {
            let keys: Vec<u32> = (first..first + 100).map(|key| key * 3).collect();
            let values: Vec<u64> = keys.iter().map(|&key| key.into()).collect();
            insert(&map, &mut model, (&keys, &values));
        }
        assert!(map.slots() > 10 * slots);
        check(&map, &model, &[1, 2]);
    }
}

/// Removed keys make probe sequences long; the shards are rehashed all the same.
#[test]
fn many_keys_come_and_go() {
    let map = least(scattered::<u32, u32>(&device()).capacity(400));
    let slots = map.slots();
    for first in (0..20_000u32).step_by(100) {
        let keys: Vec<u32> = (first..first + 100).collect();
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        assert!(map.remove(&keys).unwrap().iter().all(|&is_removed| is_removed));
    }
    assert!(map.is_empty() && map.slots() <= 2 * slots, "{} {slots}", map.slots());
}

/// Changes hot keys by small batches. Returns whether lookups see the changes.
fn sees_changes(faults: Vec<Fault>) -> bool {
    let options = Options { faults, ..Options::explore(Schedule::Random { seed: 1 }) };
    let device = Device::emulator(options);
    let builder = small::<u32, u32>(&device);
    let budget = builder.min_budget().unwrap() + 4096;
    let map = builder.costs(slow_shards()).budget(budget).hot_pairs(4096).build().unwrap();
    // The lookups of several chunks are sorted, and search the hot pairs.
    assert!(map.chunk() < 300);
    let all: Vec<u32> = (0..300).collect();
    assert!(map.insert(&all, &all).unwrap().all_placed());
    (0..2).for_each(|_| drop(map.get(&all).unwrap()));
    assert!(map.traffic().hot_hits > 0, "{:?}", map.traffic());
    assert!(map.insert(&all[..100], &[7; 100]).unwrap().all_placed());
    map.get(&all).unwrap()[..100].iter().all(|value| *value == Some(7))
}

#[test]
fn hot_pairs_are_not_stale() {
    assert!(sees_changes(Vec::new()));
    let (file, function) = ("kernels-gpu/src/tiered/hot/kernels.rs", "tiered_forget");
    let site = SiteId::find_nth(file, function, "bucket.words.fetch_and", 0).unwrap();
    assert!(!sees_changes(vec![Fault::skip(site)]));
}

/// Returns whether a map with faults behaves as it should.
fn is_right(faults: Vec<Fault>) -> bool {
    let options = Options { faults, ..Options::explore(Schedule::Random { seed: 1 }) };
    let map = least(scattered::<u32, u32>(&Device::emulator(options)).hot_pairs(0));
    let keys: Vec<u32> = (0..100).collect();
    let Ok(outcomes) = map.insert(&keys, &keys) else { return false };
    let removed = map.remove(&keys[..30]);
    let found = map.get(&keys);
    outcomes.count(Outcome::Inserted) == 100
        && map.len() == 70
        && removed.is_ok_and(|removed| removed.iter().all(|&is_removed| is_removed))
        && found
            .is_ok_and(|found| found.iter().zip(0..).all(|(&value, key)| value == (key >= 30).then_some(key)))
}

#[test]
fn planted_faults_are_found() {
    assert!(is_right(Vec::new()));
    let sites = [("note", "fetch_add"), ("tiered_add_changes", "sums.write(0")];
    for (function, text) in sites {
        let site = SiteId::find_nth("kernels-gpu/src/tiered/scattered.rs", function, text, 0);
        assert!(!is_right(vec![Fault::skip(site.unwrap())]), "{function}");
    }
}

/// Inserts 100 keys, of which 50 are there, with a fault. Returns what `inject` says when it is lifted.
fn insert_with_a_fault(device: &Device, inject: impl Fn(u64) -> u64, after: u64) -> u64 {
    let map = least(scattered::<u32, u32>(device));
    let keys: Vec<u32> = (0..100).collect();
    assert!(map.insert(&keys[..50], &keys[..50]).unwrap().all_placed());
    inject(after);
    let inserted = map.insert(&keys, &[7; 100]);
    let left = inject(u64::MAX);
    let pairs = all_pairs(&map);
    assert!(keys[..50].iter().all(|key| [*key, 7].contains(&pairs[key])));
    match inserted {
        Ok(outcomes) => assert!(outcomes.all_placed() && pairs.values().all(|&value| value == 7)),
        Err(Error::Interrupted { done, .. }) => {
            assert!(keys.iter().zip(done).all(|(key, is_done)| !is_done || pairs[key] == 7));
        }
        Err(_) => assert_eq!(pairs.len(), 50, "nothing is done"),
    }
    assert_eq!(map.get(&keys).unwrap(), keys.iter().map(|key| pairs.get(key).copied()).collect::<Vec<_>>());
    left
}

#[test]
fn each_copy_and_each_allocation_fails_once() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    for after in 0.. {
        if insert_with_a_fault(&device, |after| handle.fail_copy(after), after) != u64::MAX {
            assert!(after > 2);
            break;
        }
    }
    for after in 0.. {
        if insert_with_a_fault(&device, |after| handle.fail_allocations_after(after), after) > 0 {
            break;
        }
    }
}
