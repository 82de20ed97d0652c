//! Maps that are divided by ranges of keys.
#[allow(clippy::duplicate_mod)] // the suites of maps that are divided by hash
mod suites;

use crate::model::{all_pairs, cheap_copies, check, device, emulator, insert, least, numbers, path, small};
use gpu::Device;
use phalanx::tiered_map::{Builder, Growth, Partition, Placement, Storage};
use phalanx::{Error, Key, Outcome, TieredMap, Value};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The policies of maps with shards.
const PLACEMENTS: [Placement; 3] = [Placement::ByCost, Placement::AlwaysCopy, Placement::AlwaysInPlace];

/// Returns a builder of a map with ranges of `each` keys.
fn ranged<K: Key, V: Value>(device: &Device, keys: RangeInclusive<K>, each: u64) -> Builder<K, V> {
    let builder = TieredMap::builder().device(device).capacity(800).costs(cheap_copies());
    builder.partition(Partition::ByRange { keys, each })
}

/// Inserts, looks up and removes keys, in batches of one chunk and of several.
fn fill_and_empty<K: Key + Ord>((range, each): (RangeInclusive<K>, u64), keys: &[K], absent: &[K]) {
    for placement in PLACEMENTS {
        let map = least(ranged::<K, u64>(&device(), range.clone(), each).placement(placement));
        let mut model = BTreeMap::new();
        for (number, some) in keys.chunks(keys.len().div_ceil(3)).enumerate() {
            let values: Vec<u64> = (0..some.len() as u64).map(|value| value + 1000 * number as u64).collect();
            insert(&map, &mut model, (some, &values));
            check(&map, &model, absent);
        }
        let (gone, asked): (Vec<K>, Vec<K>) = (keys[..keys.len() / 2].to_vec(), [keys, absent].concat());
        let removed = map.remove(&gone).unwrap();
        let expected: Vec<bool> = gone.iter().map(|key| model.remove(key).is_some()).collect();
        assert_eq!(removed, expected);
        check(&map, &model, &asked);
        let taken = map.take(&asked).unwrap();
        assert_eq!(taken, asked.iter().map(|key| model.remove(key)).collect::<Vec<_>>());
        check(&map, &model, &asked);
    }
}

#[test]
fn dense_keys() {
    let keys: Vec<u32> = (0..900).collect();
    fill_and_empty((0..=999, 100), &keys, &[900, 999, 1000, u32::MAX]);
}

#[test]
fn clustered_keys() {
    let cluster = |first: u64| first..first + 150;
    let keys: Vec<u64> =
        [1 << 20, 1 << 33, (1 << 33) + 4000, 1 << 40].into_iter().flat_map(cluster).collect();
    let absent = [0, (1 << 20) - 1, (1 << 33) + 200, 1 << 35, u64::MAX];
    fill_and_empty((0..=(1 << 41) - 1, 1 << 30), &keys, &absent);
}

#[test]
fn sparse_keys() {
    let mut keys: Vec<u32> = numbers(300, 1 << 30, 3).into_iter().map(|key| key as u32 * 4).collect();
    keys.sort_unstable();
    keys.dedup();
    let absent: Vec<u32> = keys.iter().map(|key| key + 1).collect();
    fill_and_empty((0..=u32::MAX, 1 << 26), &keys, &absent);
}

/// Keys below and above the ranges belong to the first and the last one.
#[test]
fn keys_outside_the_ranges() {
    let keys: Vec<i32> = (-400..400).map(|number| number * 1000).collect();
    fill_and_empty((-1000..=1000, 500), &keys, &[i32::MIN, -1, 1, i32::MAX]);
}

#[test]
fn one_range() {
    let keys: Vec<u32> = (0..500).collect();
    fill_and_empty((5..=5, u64::MAX), &keys, &[500]);
}

/// Returns a map with the keys of ranges 3 and 7 of 10, 100 each.
fn with_two_ranges(builder: Builder<u32, u32>) -> (TieredMap<u32, u32>, BTreeMap<u32, u32>) {
    let (map, mut model) = (least(builder), BTreeMap::new());
    let keys: Vec<u32> = (300..400).chain(700..800).collect();
    insert(&map, &mut model, (&keys, &keys));
    (map, model)
}

/// Batches of one chunk, of as many chunks as there are chunk buffers, and of more.
const LENGTHS: [usize; 3] = [60, 300, 900];

#[test]
fn lookups_and_removals_in_empty_ranges_touch_no_shard() {
    for (placement, len) in PLACEMENTS.into_iter().flat_map(|placement| LENGTHS.map(|len| (placement, len))) {
        let device = device();
        let (map, model) = with_two_ranges(ranged(&device, 0..=999, 100).placement(placement));
        let keys: Vec<u32> = (0..300).chain(400..700).chain(800..1000).cycle().take(len).collect();
        let before = map.traffic();
        assert_eq!(map.get(&keys).unwrap(), vec![None; len]);
        assert_eq!(map.contains_key(&keys).unwrap(), vec![false; len]);
        assert_eq!(map.remove(&keys).unwrap(), vec![false; len]);
        assert!(map.take(&keys).unwrap().outcomes().iter().all(|&outcome| outcome == Outcome::Absent));
        let mut after = map.traffic();
        assert_eq!(after.ended, before.ended + 4 * len as u64);
        after.ended = before.ended;
        assert_eq!(after, before, "no shard was copied or accessed");
        check(&map, &model, &keys);
    }
}

/// A batch with keys of both kinds of ranges.
#[test]
fn only_keys_of_empty_ranges_end_early() {
    for (placement, len) in PLACEMENTS.into_iter().flat_map(|placement| LENGTHS.map(|len| (placement, len))) {
        let device = device();
        let (map, model) = with_two_ranges(ranged(&device, 0..=999, 100).placement(placement));
        let keys: Vec<u32> = (0..len as u32).map(|number| number * 7 % 1000).collect();
        let expected: Vec<Option<u32>> = keys.iter().map(|key| model.get(key).copied()).collect();
        let before = map.traffic();
        assert_eq!(map.get(&keys).unwrap(), expected);
        let served = keys.iter().filter(|&&key| matches!(key / 100, 3 | 7)).count() as u64;
        let after = map.traffic();
        assert_eq!(after.ended - before.ended, len as u64 - served);
        assert_eq!(after.on_device + after.in_place - before.on_device - before.in_place, served);
    }
}

#[test]
fn a_range_whose_pairs_are_removed_is_empty_again() {
    let device = device();
    for placement in PLACEMENTS {
        let (mut map, _) = with_two_ranges(ranged(&device, 0..=999, 100).placement(placement));
        let keys: Vec<u32> = (300..400).collect();
        assert_eq!(map.remove(&keys).unwrap(), [true; 100]);
        let before = map.traffic().ended;
        assert_eq!(map.get(&keys).unwrap(), [None; 100]);
        assert_eq!(map.traffic().ended - before, 100);
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        assert_eq!(map.get(&[350, 750, 150]).unwrap(), [Some(350), Some(750), None]);
        map.clear().unwrap();
        assert_eq!((map.len(), map.get(&[350, 750]).unwrap()), (0, vec![None; 2]));
    }
}

/// Shards by hash without pairs end operations, too.
#[test]
fn empty_shards_by_hash() {
    let map = least(small::<u32, u32>(&device()));
    assert_eq!(map.get(&[1, 2, 3]).unwrap(), [None; 3]);
    assert_eq!(map.traffic().ended, 3);
    assert!(map.insert(&[1], &[10]).unwrap().all_placed());
    assert_eq!(map.get(&(0..100).collect::<Vec<u32>>()).unwrap().iter().flatten().count(), 1);
    let ended = map.traffic().ended - 3;
    assert!((60..100).contains(&ended), "about seven of eight shards: {ended}");
}

/// If the fill of outcomes fails, the call fails.
#[test]
fn every_copy_of_lookups_in_empty_ranges_fails_once() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    let (map, model) = with_two_ranges(ranged(&device, 0..=999, 100));
    let keys: Vec<u32> = (0..1000).collect();
    let expected: Vec<Option<u32>> = keys.iter().map(|key| model.get(key).copied()).collect();
    for copies in 0.. {
        handle.fail_copy(copies);
        let said = (map.get(&keys), map.remove(&[5, 105, 205]));
        let left = handle.fail_copy(u64::MAX);
        assert!(said.0.map_or(true, |values| values == expected));
        assert!(said.1.map_or(true, |removed| removed == [false; 3]));
        if left != u64::MAX {
            assert!(copies > 5);
            break;
        }
    }
    check(&map, &model, &[]);
}

#[test]
fn ranges_have_memory_when_they_have_keys() {
    let device = device();
    let map = least(ranged::<u32, u32>(&device, 0..=99_999, 1000).capacity(100_000));
    assert_eq!((map.shards(), map.hot_pairs()), (100, 0));
    let bytes = |map: &TieredMap<u32, u32>| map.host_bytes();
    let none = bytes(&map);
    assert!(map.insert(&[5500], &[1]).unwrap().all_placed());
    let one = bytes(&map) - none;
    assert!((8 * 1250..16 * 1250).contains(&one), "one table and perhaps a spare image: {one}");
    for range in 0..10 {
        let keys: Vec<u32> = (1000 * range..1000 * (range + 1)).collect();
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
    }
    let slots = map.slots() / 100;
    assert!(
        bytes(&map) < none + 25 * one && (1250..1400).contains(&slots),
        "full ranges do not grow: {slots}"
    );
}

#[test]
fn ranges_in_files() {
    let device = device();
    for storage in [Storage::File(path()), Storage::StagedFile(path())] {
        for placement in PLACEMENTS {
            let builder = ranged(&device, 0..=999, 100).placement(placement).storage(storage.clone());
            let (map, mut model) = with_two_ranges(builder);
            check(&map, &model, &[0, 500, 5000]);
            let more: Vec<u32> = (650..1400).collect();
            insert(&map, &mut model, (&more, &more));
            check(&map, &model, &[0, 500, 5000]);
            assert!(map.file_bytes() > 0);
        }
    }
}

#[test]
fn a_million_ranges() {
    let builder = ranged::<u32, u32>(&device(), 0..=u32::MAX, 1 << 12);
    let map = least(builder.placement(Placement::AlwaysInPlace));
    let keys = [0, 4095, 4096, 1 << 31, u32::MAX];
    let mut model = BTreeMap::new();
    insert(&map, &mut model, (&keys, &keys));
    assert_eq!((map.shards(), all_pairs(&map)), (1 << 20, model));
    assert_eq!(map.get(&[4095, 8192, u32::MAX]).unwrap(), [Some(4095), None, Some(u32::MAX)]);
    assert_eq!(map.traffic().ended, 1);
}

#[test]
fn a_fixed_map_by_ranges_refuses() {
    let map = least(ranged::<u32, u32>(&device(), 0..=999, 100).capacity(100).growth(Growth::Fixed));
    let keys: Vec<u32> = (0..1000).collect();
    let outcomes = map.insert(&keys, &keys).unwrap();
    assert!(outcomes.refused() > 0 && outcomes.count(Outcome::Inserted) == map.len());
    let values = map.get(&keys).unwrap();
    let is_inserted = |outcome| outcome == Outcome::Inserted;
    assert!(values.iter().zip(&outcomes).all(|(value, &outcome)| value.is_some() == is_inserted(outcome)));
}

#[test]
fn wrong_sizes_are_errors() {
    let build = |keys, each| ranged::<u64, u32>(&device(), keys, each).build().map(drop);
    let asked = |keys, each| match build(keys, each) {
        Err(Error::Ranges { asked, most: 0x10_0000 }) => asked,
        other => panic!("{other:?}"),
    };
    assert_eq!(asked(0..=1 << 20, 1), (1 << 20) + 1);
    assert_eq!(asked(0..=u64::MAX, 1), u64::MAX);
    #[allow(clippy::reversed_empty_ranges)]
    {
        assert_eq!(asked(9..=8, 1), 0);
    }
    assert!(matches!(build(0..=9, 0), Err(Error::Zero { .. })));
    let message = build(0..=u64::MAX, 5).unwrap_err().to_string();
    assert!(message.contains("1 to 1048576") && message.contains("by hash"), "{message}");
    let builder = || ranged::<u32, u32>(&device(), 0..=999, 100);
    assert!(matches!(builder().shards(8).build(), Err(Error::Shards { asked: 8, most: 10 })));
    assert!(builder().shards(10).build().is_ok());
    let needed = builder().min_budget().unwrap();
    let refused = builder().budget(needed - 1).build().map(drop);
    assert!(matches!(refused, Err(Error::DeviceBudget { needed: least, .. }) if least == needed));
    // A baseline has no ranges, but their parameters are checked all the same.
    assert_eq!(builder().placement(Placement::Remote).build().unwrap().shards(), 1);
    let wrong = ranged::<u32, u32>(&device(), 0..=9, 0).placement(Placement::Remote);
    assert!(matches!(wrong.build(), Err(Error::Zero { .. })));
}

/// A batch of many chunks on a map with many ranges runs in pieces, so that the bounds of all ranges in all
/// chunks do not fill the host's memory. The pieces before one that fails are done.
#[test]
fn batches_of_many_chunks_on_many_ranges_run_in_pieces() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    let keys: Vec<u32> = (0..2100).collect();
    // All keys are in one range: without pieces, one failure would undo the whole batch.
    let insert = |copies| {
        let builder = ranged::<u32, u32>(&device, 0..=(1 << 30) - 1, 1 << 12);
        let map = least(builder.capacity(1 << 30).placement(Placement::AlwaysCopy));
        assert_eq!((map.shards(), map.chunk()), (1 << 18, 128));
        handle.fail_copy(copies);
        let said = map.insert(&keys, &keys);
        (map, said, handle.fail_copy(u64::MAX))
    };
    let (map, said, left) = insert(1 << 20);
    assert!(said.unwrap().all_placed() && all_pairs(&map).len() == keys.len());
    // The last copies are those of the results of the last piece, which are tried again.
    let (map, said, _) = insert((1 << 20) - left - 5);
    let Err(Error::Interrupted { done, .. }) = said else { panic!("{said:?}") };
    assert_eq!(done, keys.iter().map(|&key| key < 2048).collect::<Vec<_>>());
    assert!(all_pairs(&map).into_iter().eq((0..2048).map(|key| (key, key))));
    // Batches on device buffers do, too.
    let (stream, buffer) = (device.stream().unwrap(), device.from_slice(&keys).unwrap());
    let mut outcomes = device.zeroed::<u8>(keys.len()).unwrap();
    map.on(&stream).contains_key(&buffer, &mut outcomes).unwrap();
    let found = outcomes.read().unwrap().into_iter().map(|code| code == Outcome::Found as u8);
    assert!(found.eq(done));
}
