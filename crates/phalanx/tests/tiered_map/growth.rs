//! Growth of single shards.
use super::model::{
    PLACEMENTS, all_pairs, check, churned, device, emulator, insert, least, numbers, outgrowing, small,
};
use phalanx::tiered_map::{Growth, Placement};
use phalanx::{Error, Key, Merge, Outcome, TieredMap, Value};
use std::collections::BTreeMap;

fn grown<K: Key + Ord, V: Value + PartialEq>(placement: Placement, key: fn(u64) -> K, value: fn(u64) -> V) {
    let map = least(small::<K, V>(&device()).placement(placement));
    let (before, mut model) = (map.slots(), BTreeMap::new());
    for seed in 0..3 {
        let numbers = numbers(700, 2500, seed);
        let keys: Vec<K> = numbers.iter().map(|&number| key(number)).collect();
        let values: Vec<V> = numbers.iter().map(|&number| value(number)).collect();
        insert(&map, &mut model, (&keys, &values));
        check(&map, &model, &[]);
    }
    assert!(map.slots() > before);
}

#[test]
fn shards_grow_beyond_their_slots() {
    for placement in PLACEMENTS {
        grown(placement, |number| number as u32, |number| number as u32);
    }
    grown(Placement::ByCost, |number| number, |number| number);
    grown(Placement::AlwaysCopy, |number| number as u32, |number| number);
}

#[test]
fn a_large_batch_grows_a_shard_once() {
    let map = least(small::<u32, u32>(&device()).shards(2));
    let keys: Vec<u32> = (0..9000).collect();
    let mut model = BTreeMap::new();
    insert(&map, &mut model, (&keys, &keys));
    check(&map, &model, &[20_000]);
}

/// Returns keys of one shard of eight.
fn of_one_shard(many: usize) -> Vec<u32> {
    (0..).filter(|&key| phalanx::kernels::tiered::shard_of(key, 3, 0) == 5).take(many).collect()
}

#[test]
fn one_shard_grows_alone() {
    for placement in [Placement::ByCost, Placement::AlwaysCopy, Placement::AlwaysInPlace] {
        let map = least(small::<u32, u32>(&device()).placement(placement));
        let (keys, before) = (of_one_shard(1000), map.slots());
        let mut model = BTreeMap::new();
        insert(&map, &mut model, (&keys, &keys));
        check(&map, &model, &[]);
        let after = map.slots();
        assert!(after - before >= 900 && after < before + 8000, "{before} {after}");
    }
}

#[test]
fn duplicates_need_no_room() {
    let map = least(small::<u32, u32>(&device()));
    let (before, keys) = (map.slots(), vec![7; 20_000]);
    assert!(map.upsert(Merge::Add, &keys, &vec![1; 20_000]).unwrap().all_placed());
    assert_eq!((map.get(&[7]).unwrap(), map.slots()), (vec![Some(20_000)], before));
}

#[test]
fn a_fixed_map_refuses() {
    for placement in PLACEMENTS {
        let map = least(small::<u32, u32>(&device()).placement(placement).growth(Growth::Fixed));
        let keys: Vec<u32> = (0..3000).collect();
        let outcomes = map.insert(&keys, &keys).unwrap();
        assert_eq!(outcomes.count(Outcome::Inserted), map.len());
        assert!(outcomes.refused() > 500 && map.len() + outcomes.refused() == 3000);
        let values = map.get(&keys).unwrap();
        for ((&key, value), &outcome) in keys.iter().zip(values).zip(outcomes.iter()) {
            assert_eq!(value, (outcome == Outcome::Inserted).then_some(key));
        }
        assert!(map.slots() < 3000);
    }
}

/// The budget suffices for neither a larger table nor shards.
#[test]
fn a_resident_map_that_cannot_grow_says_which_pairs_fit() {
    let device = device();
    let map = least(TieredMap::<u32, u32>::builder().device(&device).capacity(100));
    assert!(map.is_resident());
    let keys: Vec<u32> = (0..2000).collect();
    let Err(Error::NoRoom { outcomes, .. }) = map.insert(&keys, &keys) else { panic!("it has no room") };
    assert_eq!((outcomes.asked(), outcomes.count(Outcome::Inserted)), (2000, map.len()));
    let values = map.get(&keys).unwrap();
    let is_inserted = |outcome| outcome == Outcome::Inserted;
    assert!(values.iter().zip(&outcomes).all(|(value, &outcome)| value.is_some() == is_inserted(outcome)));
}

#[test]
fn a_resident_map_that_outgrows_its_budget_is_divided_into_shards() {
    for many in [500, 5000] {
        let map = outgrowing::<u32, u32>(&device(), 500);
        assert!(map.is_resident());
        let mut model = BTreeMap::new();
        for part in 0..5000 / many {
            let keys: Vec<u32> = (many * part..many * (part + 1)).collect();
            insert(&map, &mut model, (&keys, &keys));
        }
        check(&map, &model, &[30_000]);
        let stored = map.host_bytes() as u64 + map.file_bytes();
        assert!(map.shards() > 1 && stored > map.budget() as u64 / 2);
    }
}

/// Shards of the average size no longer fit three slots.
#[test]
fn shards_that_outgrow_the_budget_are_divided() {
    let map = least(small::<u32, u64>(&device()).capacity(400).shards(4));
    let mut model = BTreeMap::new();
    for part in 0..6 {
        let keys: Vec<u32> = (800 * part..800 * (part + 1)).collect();
        let values: Vec<u64> = keys.iter().map(|&key| u64::from(key) << 20).collect();
        insert(&map, &mut model, (&keys, &values));
    }
    check(&map, &model, &[30_000]);
    assert!(map.shards() > 4, "{}", map.shards());
}

#[test]
fn keys_that_come_and_go_do_not_fill_shards() {
    let map = least(small::<u32, u32>(&device()));
    for round in 0..12 {
        let keys: Vec<u32> = (600 * round..600 * (round + 1)).collect();
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        assert!(map.remove(&keys).unwrap().iter().all(|&is_removed| is_removed));
    }
    assert!(map.is_empty() && map.slots() < 8000, "{}", map.slots());
}

/// The budget has no room for a second table, so the pairs pass through host memory.
#[test]
fn keys_that_come_and_go_do_not_fill_a_resident_map() {
    let map = churned(&device(), 1500);
    let slots = map.slots();
    let mut model = BTreeMap::new();
    insert(&map, &mut model, (&[1, 2, 3], &[10, 20, 30]));
    for round in 0..50 {
        let keys: Vec<u32> = (100 * round + 10..100 * round + 110).collect();
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        assert!(map.remove(&keys).unwrap().iter().all(|&is_removed| is_removed));
    }
    check(&map, &model, &[10, 4000]);
    assert!(map.is_resident() && map.host_bytes() == 0 && map.slots() == slots);
}

/// A table of twice the size is wanted, but not possible, so one of the same size must do.
#[test]
fn a_resident_map_without_room_to_grow_reclaims_slots() {
    let map = churned(&device(), 1500);
    let (slots, mut model) = (map.slots(), BTreeMap::new());
    for round in 0..15 {
        let keys: Vec<u32> = (100 * round..100 * round + 100).collect();
        insert(&map, &mut model, (&keys, &keys));
    }
    check(&map, &model, &[4000]);
    assert!(map.is_resident() && map.slots() == slots);
}

/// A large batch finds no room, although most slots are those of removed keys.
#[test]
fn a_batch_that_a_resident_map_refuses_reclaims_slots() {
    let map = churned(&device(), 1500);
    let (slots, mut model) = (map.slots(), BTreeMap::new());
    let keys: Vec<u32> = (0..1000).collect();
    insert(&map, &mut model, (&keys, &keys));
    check(&map, &model, &[4000]);
    assert!(map.is_resident() && map.slots() == slots);
}

/// The growth of the shards is put off until the removals of `retain`, which divide the map.
#[test]
fn retain_decides_on_each_pair_once_while_the_map_is_divided() {
    let mut divided = 0;
    for (capacity, shards, pairs) in [(1000, 4, 1450), (1000, 4, 1600), (2000, 8, 2900), (2000, 8, 3200)] {
        let device = emulator();
        let builder = TieredMap::<u32, u32>::builder().device(&device).capacity(capacity).shards(shards);
        let mut map = least(builder.hot_pairs(0));
        let keys: Vec<u32> = (0..pairs).collect();
        let (first, rest) = keys.split_at(capacity);
        assert!(map.insert(first, first).unwrap().all_placed());
        let handle = device.emulator_handle().unwrap();
        handle.fail_allocations_after(0);
        let _ = map.insert(rest, rest);
        handle.fail_allocations_after(u64::MAX);
        let (before, mut asked) = (all_pairs(&map), BTreeMap::new());
        map.retain(|key, value| asked.insert(key, value).is_none() && key % 2 == 0).unwrap();
        divided += usize::from(map.shards() > shards);
        assert!(asked == before, "each pair is asked for");
        assert!(all_pairs(&map).into_iter().eq(before.into_iter().filter(|(key, _)| key % 2 == 0)));
    }
    assert!(divided > 0, "a removal has divided a map");
}

/// A fault may leave the pairs in host memory. The next batch then returns them to the device.
#[test]
fn slots_that_are_not_reclaimed_for_a_fault_are_reclaimed_later() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    let mut in_host_memory = 0;
    for allocations in 0..4 {
        let map = churned(&device, 1500);
        let (slots, keys, mut model) = (map.slots(), (0..250).collect::<Vec<u32>>(), BTreeMap::new());
        handle.fail_allocations_after(allocations);
        insert(&map, &mut model, (&keys, &keys));
        assert_eq!(handle.fail_allocations_after(u64::MAX), 0, "the limit is reached");
        in_host_memory += usize::from(!map.is_resident());
        check(&map, &model, &[1000]);
        insert(&map, &mut model, (&[1000], &[7]));
        check(&map, &model, &[2000]);
        assert!(map.is_resident() && map.host_bytes() == 0 && map.slots() == slots);
    }
    assert!(in_host_memory > 1);
}
