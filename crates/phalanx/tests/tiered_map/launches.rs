//! The number of launches of a batch.
use crate::model::{Placement, check, emulator, insert, numbers};
use gpu::Device;
use phalanx::tiered_map::Partition;
use phalanx::{Merge, TieredMap};
use std::collections::BTreeMap;

/// Returns how many launches a call takes.
fn launches(device: &Device, call: impl FnOnce()) -> u64 {
    let before = device.emulated_work().unwrap().launches;
    call();
    device.emulated_work().unwrap().launches - before
}

/// Returns a map with so many shards, and chunks of about 1000 elements.
fn with_shards(device: &Device, placement: Placement, shards: usize) -> TieredMap<u32, u64> {
    let builder = TieredMap::builder().device(device).capacity(4000).hot_pairs(0);
    builder.placement(placement).shards(shards).budget(900_000).build().unwrap()
}

/// Lookups of a shard take a launch that brings the keys together, one that executes them, and one for the
/// results. Updates also take one that adds up the counters.
#[test]
fn a_shard_takes_few_launches_for_all_chunks() {
    let device = emulator();
    for placement in [Placement::AlwaysCopy, Placement::AlwaysInPlace] {
        let [few, many] = [32, 64].map(|shards| with_shards(&device, placement, shards));
        assert!(few.chunk() == many.chunk() && few.chunk() > 1024, "{} {}", few.chunk(), many.chunk());
        let len = 8 * few.chunk();
        let keys: Vec<u32> = numbers(len, 3000, 1).into_iter().map(|key| key as u32).collect();
        let count = |map: &TieredMap<u32, u64>| {
            let ones = vec![1; len];
            let updates =
                launches(&device, || assert!(map.upsert(Merge::Add, &keys, &ones).unwrap().all_placed()));
            (updates, launches(&device, || assert!(map.get(&keys).unwrap().iter().all(Option::is_some))))
        };
        let (of_few, of_many) = (count(&few), count(&many));
        assert_eq!(of_many.0 - of_few.0, 4 * 32, "{placement:?}");
        assert_eq!(of_many.1 - of_few.1, 3 * 32, "{placement:?}");
        let mut model = BTreeMap::<u32, u64>::new();
        keys.iter().for_each(|&key| *model.entry(key).or_default() += 1);
        check(&many, &model, &[5000]);
    }
}

/// Parts that are larger than the memory for elements that are brought together, beside small ones.
#[test]
fn one_shard_has_most_elements() {
    for placement in [Placement::AlwaysCopy, Placement::AlwaysInPlace, Placement::ByCost] {
        let map = with_shards(&emulator(), placement, 8);
        let len = 7 * map.chunk() + 5;
        let key = |(place, number): (usize, u64)| match place / map.chunk() % 2 {
            0 => number as u32,
            _ => 9 + (number == 0) as u32,
        };
        let keys: Vec<u32> = numbers(len, 900, 1).into_iter().enumerate().map(key).collect();
        let mut model = BTreeMap::<u32, u64>::new();
        keys.iter().for_each(|&key| *model.entry(key).or_default() += 1);
        assert!(map.upsert(Merge::Add, &keys, &vec![1; len]).unwrap().all_placed());
        check(&map, &model, &[5000]);
        let is_first = |keys: &[u32], place: usize| !keys[..place].contains(&keys[place]);
        let some: Vec<u32> = keys.iter().copied().step_by(3).collect();
        let removed = map.take(&some).unwrap();
        let sum: u64 = removed.iter().flatten().sum();
        let firsts = (0..some.len()).filter(|&place| is_first(&some, place));
        assert_eq!(sum, firsts.map(|place| model.remove(&some[place]).unwrap()).sum::<u64>());
        check(&map, &model, &some[..50]);
    }
}

/// Returns how many launches and waits a call takes.
fn work_of(device: &Device, call: impl FnOnce()) -> (u64, u64) {
    let before = device.emulated_work().unwrap();
    call();
    let after = device.emulated_work().unwrap();
    (after.launches - before.launches, after.waits - before.waits)
}

/// Before a batch that may add many keys, the absent ones are estimated for all shards together: of each
/// shard a sample, or all keys, for which a launch brings them together.
#[test]
fn estimates_for_all_shards_take_few_launches_and_waits() {
    // Launches for the estimate of a shard: a sample is enough, and is not.
    for (shards, budget, launches_of_shard) in [(4, 5 << 20, 1), (16, 8 << 20, 2)] {
        let device = emulator();
        let builder = TieredMap::<u32, u32>::builder().device(&device).hot_pairs(0).capacity(10_000);
        let map = builder.shards(shards).budget(budget).build().unwrap();
        let chunks = if shards == 4 { 9 } else { 7 };
        let (mut model, slots, len) = (BTreeMap::new(), map.slots(), chunks * map.chunk());
        let keys: Vec<u32> = (0..len as u32).map(|place| place * 3 % 50_000).collect();
        insert(&map, &mut model, (&keys, &keys));
        assert!(map.slots() > slots, "shards have grown");
        let slots = map.slots();
        let of_insert = work_of(&device, || assert!(map.insert(&keys, &keys).unwrap().all_placed()));
        let all_found = || assert!(map.get(&keys).unwrap().iter().all(Option::is_some));
        let of_get = work_of(&device, all_found);
        assert_eq!(map.slots(), slots);
        if shards > 4 {
            // Shards have counters, too. Chunks have values to bring, or to return.
            let more = shards + shards * launches_of_shard;
            assert_eq!(of_insert.0, of_get.0 + more as u64);
        }
        assert!(of_insert.1 <= of_get.1 + 40, "{of_insert:?} {of_get:?}");
    }
}

/// A shard without an image is estimated on its own, and the others together all the same.
#[test]
fn one_blank_shard_is_estimated_alone() {
    let device = emulator();
    let partition = Partition::ByRange { keys: 0..=159_999, each: 10_000 };
    let builder = TieredMap::<u32, u32>::builder().device(&device).capacity(16_000).partition(partition);
    let map = builder.budget(8 << 20).build().unwrap();
    // Of each range 300 keys, so many times that the batch may fill its shard.
    let batch = |ranges: u32| -> Vec<u32> {
        (0..ranges * 4200).map(|place| place / 4200 * 10_000 + place % 300).collect()
    };
    let (mut model, some, all) = (BTreeMap::new(), batch(15), batch(16));
    insert(&map, &mut model, (&some, &some));
    let slots = map.slots();
    let of_some = work_of(&device, || assert!(map.insert(&some, &some).unwrap().all_placed()));
    let of_all = work_of(&device, || assert!(map.insert(&all, &all).unwrap().all_placed()));
    assert_eq!((map.slots(), map.len()), (slots, 4800));
    // One at a time, the shards take 13 more waits.
    assert!(of_all.1 <= of_some.1 + 10, "{of_all:?} {of_some:?}");
}
