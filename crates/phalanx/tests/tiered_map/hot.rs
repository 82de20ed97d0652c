//! The cache of hot pairs.
use crate::model::{PLACEMENTS, all_pairs, check, device, emulator, insert, numbers, of, small};
use gpu::Device;
use phalanx::tiered_map::{Builder, Placement};
use phalanx::{Key, Merge, Op, Outcome, TieredMap, Value};
use phalanx_testing::common::attempts;
use simt::emulator::{Fault, Options, Schedule, SiteId};
use std::collections::BTreeMap;

/// Bytes of a bucket: 15 pairs of 8 bytes.
const BUCKET: usize = 128;

/// Builds a map with the least budget and a cache of some buckets.
fn with_hot<K: Key, V: Value>(builder: Builder<K, V>, buckets: usize) -> TieredMap<K, V> {
    let budget = builder.min_budget().unwrap() + buckets * BUCKET;
    let map = builder.budget(budget).hot_pairs(buckets * BUCKET).build().unwrap();
    assert!(map.hot_pairs() > 0 && map.peak_device_bytes() <= budget);
    map
}

/// Returns a map with the pairs (key, key) of the first keys.
fn filled(device: &Device, placement: Placement, pairs: u32, buckets: usize) -> TieredMap<u32, u32> {
    let map = with_hot(small::<u32, u32>(device).placement(placement), buckets);
    let keys: Vec<u32> = (0..pairs).collect();
    assert!(map.insert(&keys, &keys).unwrap().all_placed());
    map
}

/// The policies with shards.
const SHARDED: [Placement; 3] = [Placement::ByCost, Placement::AlwaysCopy, Placement::AlwaysInPlace];

/// Batches of one chunk, of as many chunks as there are chunk buffers, and of more.
const LENGTHS: [u32; 3] = [60, 300, 700];

#[test]
fn the_second_lookup_reads_no_shard() {
    let device = device();
    for (placement, len) in SHARDED.into_iter().zip([60, 2, 5]) {
        let map = filled(&device, placement, 2000, 150);
        let chunk = map.chunk() as u32;
        // Of a batch of more than three chunks, the pairs of four are added.
        let (len, added) = if len < 10 { (len * chunk, len.min(4) * chunk) } else { (len, len) };
        let keys: Vec<u32> = (0..len).collect();
        assert!(len <= 2000 && added <= 2000, "the cache has room for them");
        let expected: Vec<_> = keys.iter().map(|&key| Some(key)).collect();
        let before = map.traffic();
        assert_eq!(map.get(&keys).unwrap(), expected);
        let first = map.traffic();
        assert_eq!((first.hot_lookups, first.hot_hits), (0, 0), "it has no pairs");
        assert_eq!(map.get(&keys).unwrap(), expected);
        let second = map.traffic();
        assert!(second.hot_lookups > 0 && second.hot_lookups <= u64::from(len));
        // Tiles that meet in a bucket leave a pair out.
        assert!(second.hot_hits > u64::from(added) / 2 && second.hot_hits <= added.into(), "{second:?}");
        let on_shards = second.on_device + second.in_place - first.on_device - first.in_place;
        assert_eq!(on_shards + second.hot_hits, u64::from(len));
        assert_eq!(first.on_device + first.in_place - before.on_device - before.in_place, u64::from(len));
    }
}

/// Lookups by all verbs, of keys that are hot, present and absent, to slices and to vectors.
#[test]
fn results_are_those_of_the_shards() {
    let device = device();
    for (placement, len) in SHARDED.into_iter().flat_map(|placement| LENGTHS.map(|len| (placement, len))) {
        let map = filled(&device, placement, 500, 3);
        for round in 0..3 {
            let keys: Vec<u32> =
                numbers(len as usize, 900, round).into_iter().map(|key| key as u32).collect();
            let expected: Vec<_> = keys.iter().map(|&key| (key < 500).then_some(key)).collect();
            assert_eq!(map.get(&keys).unwrap(), expected);
            let is_there: Vec<bool> = expected.iter().map(Option::is_some).collect();
            assert_eq!(map.contains_key(&keys).unwrap(), is_there);
            let (mut values, mut found) = (vec![0; keys.len()], vec![false; keys.len()]);
            map.get_into(&keys, &mut values, &mut found).unwrap();
            assert_eq!(found, is_there);
            let is_right = |(&value, known): (&u32, &Option<u32>)| known.is_none_or(|known| known == value);
            assert!(values.iter().zip(&expected).all(is_right));
        }
        assert!(map.traffic().hot_hits > 0);
    }
}

/// A value that differs for each call.
fn fresh(round: u64, key: u32) -> u64 {
    (round << 20) + u64::from(key)
}

/// Runs all verbs on few keys, many of them hot, and compares every lookup with a model.
fn with_a_model<K: Key + Ord, V: Value + PartialEq>(
    (placement, buckets, len): (Placement, usize, usize),
    key: fn(u64) -> K,
    value: fn(u64) -> V,
) {
    let map = with_hot(small::<K, V>(&device()).placement(placement), buckets);
    let mut model = BTreeMap::<K, V>::new();
    let all: Vec<K> = (0..60).map(key).collect();
    for round in 0..24 {
        // Distinct keys, so that the order of a batch does not matter.
        let mut some = numbers(len, 50, round);
        some.sort_unstable();
        some.dedup();
        let (keys, values) = of(&some, key, value);
        let new: Vec<V> = some.iter().map(|&number| value(fresh(round, number as u32))).collect();
        match round % 6 {
            0 | 3 => {
                assert!(map.insert(&keys, &new).unwrap().all_placed());
                model.extend(keys.iter().copied().zip(new));
            }
            1 => {
                let is_there = keys.iter().map(|key| model.contains_key(key));
                assert!(map.remove(&keys).unwrap().into_iter().eq(is_there));
                model.retain(|key, _| !keys.contains(key));
            }
            2 => {
                let found = map.get_or_insert(&keys, &values).unwrap();
                keys.iter().zip(&values).for_each(|(&key, &value)| {
                    model.entry(key).or_insert(value);
                });
                assert!(found.into_iter().eq(keys.iter().map(|key| Some(model[key]))));
            }
            4 => {
                let old = map.replace(&keys, &new).unwrap();
                assert!(old.iter().copied().eq(keys.iter().map(|key| model.get(key).copied())));
                model.extend(keys.iter().copied().zip(new));
            }
            _ => {
                let change = |(&key, &value): (&K, &V)| Op::Insert(key, value);
                map.execute(&keys.iter().zip(&new).map(change).collect::<Vec<_>>()).unwrap();
                model.extend(keys.iter().copied().zip(new));
            }
        }
        for _ in 0..2 {
            // Each key several times: hot pairs are found and replaced in one batch.
            let asked: Vec<K> = all.iter().cycle().take(len.max(60)).copied().collect();
            let expected: Vec<_> = asked.iter().map(|key| model.get(key).copied()).collect();
            assert_eq!(map.get(&asked).unwrap(), expected, "round {round}");
        }
    }
    check(&map, &model, &all);
    assert!(map.traffic().hot_hits > 0);
}

/// One bucket, so that almost every lookup replaces pairs, and a few.
#[test]
fn no_value_is_stale() {
    for (placement, buckets) in SHARDED.into_iter().flat_map(|placement| [(placement, 1), (placement, 8)]) {
        with_a_model((placement, buckets, 40), |number| number as u32, |number| number as u32);
    }
    with_a_model((Placement::ByCost, 2, 500), |number| number as u32, |number| number as u32);
}

/// Looks up keys, changes their values, and looks them up again, with a fault. Returns whether the values are
/// the new ones.
fn sees_changes(faults: Vec<Fault>) -> bool {
    let options = Options { faults, ..Options::explore(Schedule::Random { seed: 1 }) };
    let map = filled(&Device::emulator(options), Placement::ByCost, 30, 4);
    let keys: Vec<u32> = (0..30).collect();
    (0..2).for_each(|_| drop(map.get(&keys).unwrap()));
    assert!(map.traffic().hot_hits > 0);
    assert!(map.insert(&keys, &[7; 30]).unwrap().all_placed());
    map.get(&keys).unwrap() == [Some(7); 30]
}

#[test]
fn keys_that_stay_among_the_hot_pairs_are_found() {
    let (file, removal) = ("kernels-gpu/src/tiered/hot/kernels.rs", "bucket.words.fetch_and");
    let site = SiteId::find_nth(file, "tiered_forget", removal, 0).unwrap();
    assert!(sees_changes(Vec::new()));
    assert!(!sees_changes(vec![Fault::skip(site)]));
}

#[test]
fn pairs_of_all_sizes() {
    with_a_model((Placement::ByCost, 2, 40), |number| number << 40, |number| number << 9);
    with_a_model((Placement::ByCost, 2, 40), |number| u32::MAX - number as u32, |number| number << 9);
    with_a_model((Placement::ByCost, 2, 40), |number| u64::MAX - number, |number| number as u32);
    with_a_model((Placement::ByCost, 2, 40), |number| number as i32 - 20, |number| number as f32);
}

#[test]
fn all_changes_of_all_pairs_are_seen() {
    let device = device();
    let mut map = filled(&device, Placement::ByCost, 300, 40);
    let keys: Vec<u32> = (0..300).collect();
    let warm = |map: &TieredMap<u32, u32>| {
        for _ in 0..2 {
            map.get(&keys).unwrap();
        }
        let before = map.traffic();
        assert!(before.hot_hits > 0);
        map.get(&keys[..50]).unwrap();
        assert!(map.traffic().hot_hits > before.hot_hits, "some pairs are hot");
    };
    warm(&map);
    map.retain(|key, _| key % 3 == 0).unwrap();
    let expected: Vec<_> = keys.iter().map(|&key| (key % 3 == 0).then_some(key)).collect();
    assert_eq!(map.get(&keys).unwrap(), expected);
    assert!(map.upsert(Merge::Add, &[0, 0, 3, 4], &[5, 6, 7, 8]).unwrap().all_placed());
    assert_eq!(map.get(&[0, 3, 4]).unwrap(), [Some(11), Some(10), Some(8)]);
    assert_eq!(map.take(&[0, 4]).unwrap(), [Some(11), Some(8)]);
    assert_eq!(map.get(&[0, 4, 6]).unwrap(), [None, None, Some(6)]);
    warm(&map);
    map.clear().unwrap();
    assert!(map.get(&keys).unwrap().iter().all(Option::is_none));
    assert!(map.insert(&keys, &keys).unwrap().all_placed());
    warm(&map);
    let mut file = Vec::new();
    map.save(&mut file).unwrap();
    let loaded = TieredMap::load(&file[..], small(&device).shards(2)).unwrap();
    assert!(map.insert(&keys, &vec![9; 300]).unwrap().all_placed());
    assert_eq!(map.get(&keys).unwrap(), vec![Some(9); 300]);
    assert_eq!(loaded.get(&keys).unwrap(), keys.iter().map(|&key| Some(key)).collect::<Vec<_>>());
}

/// Shards grow, and the map is divided, while pairs are hot.
#[test]
fn growth_keeps_values() {
    let map = with_hot(small::<u32, u32>(&device()).capacity(400).shards(4), 20);
    let (mut model, shards) = (BTreeMap::new(), map.shards());
    for part in 0..6u32 {
        let keys: Vec<u32> = (800 * part..800 * (part + 1)).collect();
        let changed: Vec<u32> = keys.iter().map(|&key| key / 2).chain(0..200).collect();
        let values: Vec<u32> = changed.iter().map(|&key| key + part).collect();
        assert!(map.insert(&changed, &values).unwrap().all_placed());
        model.extend(changed.iter().copied().zip(values));
        for _ in 0..2 {
            let asked: Vec<u32> = (0..300).collect();
            let expected: Vec<_> = asked.iter().map(|key| model.get(key).copied()).collect();
            assert_eq!(map.get(&asked).unwrap(), expected);
        }
        insert(&map, &mut model, (&keys, &keys));
        check(&map, &model, &[30_000]);
    }
    assert!(map.shards() > shards && map.traffic().hot_hits > 0);
}

/// Returns a batch of lookups of which most are of the eight hot keys from `first` on.
fn skewed(first: u32, round: u64) -> Vec<u32> {
    let key = |number: u64| if number % 10 < 8 { first + number as u32 % 8 } else { number as u32 % 700 };
    numbers(300, 7000, round).into_iter().map(key).collect()
}

/// Returns the share of hits of a batch.
fn share_of_hits(map: &TieredMap<u32, u32>, keys: &[u32]) -> f64 {
    let before = map.traffic().hot_hits;
    assert!(map.get(keys).unwrap().iter().zip(keys).all(|(value, &key)| *value == Some(key)));
    (map.traffic().hot_hits - before) as f64 / keys.len() as f64
}

/// Two buckets hold the hot pairs, though each batch has more keys than that.
#[test]
fn frequent_keys_stay_and_others_take_their_place() {
    let map = filled(&device(), Placement::ByCost, 700, 2);
    for (part, first) in [0, 300, 600].into_iter().enumerate() {
        let shares: Vec<f64> =
            (0..10).map(|round| share_of_hits(&map, &skewed(first, round + 10 * part as u64))).collect();
        assert!(shares[5..].iter().all(|&share| share > 0.7), "{shares:?}");
    }
}

/// 4096 lookups are judged at a time, and two judgements must be bad.
#[test]
fn it_rests_without_hits_and_finds_hot_keys_later() {
    let builder = small::<u32, u32>(&device()).placement(Placement::AlwaysInPlace).hot_pairs(BUCKET);
    let map = builder.budget(2 << 20).build().unwrap();
    let present: Vec<u32> = (0..700).collect();
    assert!(map.insert(&present, &present).unwrap().all_placed());
    let all: Vec<u32> = (0..700).cycle().step_by(3).take(4100).collect();
    let lookups = |keys: &[u32]| {
        let before = map.traffic();
        let right: Vec<_> = keys.iter().map(|&key| Some(key)).collect();
        assert_eq!(map.get(keys).unwrap(), right);
        map.traffic().hot_lookups - before.hot_lookups
    };
    let uses: Vec<bool> = (0..10).map(|_| lookups(&all) > 0).collect();
    // Batches 1 and 2 are judged, 3 to 6 are a rest, 7 only fills the cache, 8 and 9 are judged.
    assert_eq!(uses, [false, true, true, false, false, false, false, false, true, true]);
    let shares: Vec<f64> = (0..12).map(|_| share_of_hits(&map, &[5; 500])).collect();
    assert_eq!(shares[..8], [0.0; 8], "it rests for eight batches");
    assert!(shares[9..].iter().all(|&share| share == 1.0), "{shares:?}");
}

#[test]
fn it_has_a_part_of_the_budget() {
    let device = device();
    let builder = small::<u32, u32>(&device).capacity(40_000).shards(64);
    let needed = builder.min_budget().unwrap();
    let built = |bytes: usize| builder.clone().hot_pairs(bytes).budget(3 * needed).build().unwrap();
    let (map, all) = (built(needed), built(usize::MAX));
    let bytes = map.hot_pairs() / 15 * BUCKET;
    assert!(bytes > 9 * needed / 10 && bytes <= needed, "as asked: {bytes} of {needed}");
    assert!(all.hot_pairs() > map.hot_pairs() && all.min_budget() == needed);
    assert_eq!(built(0).hot_pairs(), 0);
    let least = builder.clone().hot_pairs(needed).budget(needed).build().unwrap();
    assert_eq!(least.hot_pairs(), 0, "nothing is left");
    let whole = TieredMap::<u32, u32>::builder().device(&device).capacity(1000).hot_pairs(1 << 12);
    let whole = whole.budget(1 << 24).build().unwrap();
    assert!(whole.is_resident() && whole.hot_pairs() == 0);
    for map in [map, all] {
        let keys: Vec<u32> = (0..3000).collect();
        insert(&map, &mut BTreeMap::new(), (&keys, &keys));
        for _ in 0..3 {
            assert!(map.get(&keys).unwrap().iter().zip(&keys).all(|(value, &key)| *value == Some(key)));
        }
        assert!(map.peak_device_bytes() <= map.budget() && map.traffic().hot_hits > 2000);
    }
}

/// Baselines have one table, and no hot pairs.
#[test]
fn maps_without_shards_have_none() {
    let device = device();
    for placement in PLACEMENTS.into_iter().filter(|placement| placement.is_flat()) {
        let builder = small::<u32, u32>(&device).placement(placement).hot_pairs(1 << 12);
        assert_eq!(builder.budget(1 << 20).build().unwrap().hot_pairs(), 0);
    }
}

/// Changes the values of hot keys while a fault is injected, and compares lookups with the shards. Returns
/// what `inject` says when the fault is lifted.
fn change_with_a_fault(map: &TieredMap<u32, u32>, len: u32, inject: impl Fn(u64) -> u64, after: u64) -> u64 {
    let hot: Vec<u32> = (0..40).collect();
    (0..2).for_each(|_| drop(map.get(&hot).unwrap()));
    let keys: Vec<u32> = (0..len).collect();
    inject(after);
    let changed = map.insert(&keys, &vec![7; keys.len()]);
    let left = inject(u64::MAX);
    let pairs = all_pairs(map);
    if changed.is_ok() {
        assert!(keys.iter().all(|key| pairs[key] == 7));
    }
    let expected: Vec<_> = keys.iter().map(|key| pairs.get(key).copied()).collect();
    (0..2).for_each(|_| assert_eq!(map.get(&keys).unwrap(), expected, "fault {after}"));
    left
}

/// A change that fails midway has removed its keys from the cache before any shard changed.
#[test]
fn no_value_is_stale_after_a_fault() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    let several_chunks = (Placement::ByCost, 400);
    let cases = SHARDED.map(|placement| (placement, 50)).into_iter().chain([several_chunks]);
    for (number, (placement, len)) in cases.enumerate() {
        for after in attempts(number) {
            let map = filled(&device, placement, 40, 6);
            let left = change_with_a_fault(&map, len, |after| handle.fail_copy(after), after);
            if left != u64::MAX {
                assert!(after > 2);
                break;
            }
        }
        for after in attempts(number) {
            let map = filled(&device, placement, 40, 6);
            let left = change_with_a_fault(&map, len, |after| handle.fail_allocations_after(after), after);
            if left > 0 {
                break;
            }
        }
    }
}

/// A lookup that fails leaves a cache of right pairs.
#[test]
fn lookups_that_fail_leave_no_wrong_pairs() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    for (number, (placement, len)) in SHARDED.into_iter().zip([50, 300, 500]).enumerate() {
        let map = filled(&device, placement, 600, 6);
        let keys: Vec<u32> = (0..len).collect();
        for copies in attempts(number) {
            handle.fail_copy(copies);
            let _ = map.get(&keys);
            let left = handle.fail_copy(u64::MAX);
            let expected: Vec<_> = keys.iter().map(|&key| Some(key)).collect();
            assert_eq!(map.get(&keys).unwrap(), expected);
            if left != u64::MAX {
                assert!(copies > 2);
                break;
            }
        }
    }
}

/// Several threads look the same keys up and change them, by turns.
#[test]
fn threads_see_the_last_value() {
    let map = filled(&device(), Placement::ByCost, 100, 4);
    std::thread::scope(|scope| {
        for part in 0..3u32 {
            let map = &map;
            scope.spawn(move || {
                let keys: Vec<u32> = (0..30).map(|key| 3 * key + part).collect();
                for round in 0..8 {
                    let values = vec![round; keys.len()];
                    assert_eq!(map.insert(&keys, &values).unwrap().count(Outcome::Replaced), keys.len());
                    (0..2).for_each(|_| assert_eq!(map.get(&keys).unwrap(), vec![Some(round); keys.len()]));
                }
            });
        }
    });
    assert!(map.traffic().hot_hits > 0);
}
