//! Growth of single shards.
use crate::model::{PLACEMENTS, check, device, insert, least, numbers, small};
use phalanx::tiered_map::{Growth, Placement};
use phalanx::{Error, Key, Merge, Outcome, TieredMap, Value};
use std::collections::BTreeMap;

fn grown<K: Key + Ord, V: Value + PartialEq>(placement: Placement, key: fn(u64) -> K, value: fn(u64) -> V) {
    let map = least(small::<K, V>(&device()).placement(placement));
    let (before, mut model) = (map.slots(), BTreeMap::new());
    for seed in 0..3 {
        let numbers = numbers(2000, 6000, seed);
        let keys: Vec<K> = numbers.iter().map(|&number| key(number)).collect();
        let values: Vec<V> = numbers.iter().map(|&number| value(number)).collect();
        insert(&map, &mut model, (&keys, &values));
        check(&map, &model, &[]);
    }
    assert!(map.slots() > 2 * before);
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
    let keys: Vec<u32> = (0..12_000).collect();
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

/// The one table of a map without shards cannot grow beyond the budget.
#[test]
fn a_resident_map_that_cannot_grow_says_which_pairs_fit() {
    let device = device();
    let builder = TieredMap::<u32, u32>::builder().device(&device).capacity(4000);
    let budget = builder.min_budget().unwrap();
    let map = builder.budget(budget).build().unwrap();
    assert!(map.is_resident());
    let keys: Vec<u32> = (0..20_000).collect();
    let Err(Error::NoRoom { outcomes }) = map.insert(&keys, &keys) else { panic!("it has no room") };
    assert_eq!((outcomes.asked(), outcomes.count(Outcome::Inserted)), (20_000, map.len()));
    let values = map.get(&keys).unwrap();
    assert!(
        values.iter().zip(&outcomes).all(|(value, &found)| value.is_some() == (found == Outcome::Inserted))
    );
}

#[test]
fn keys_that_come_and_go_do_not_fill_shards() {
    let map = least(small::<u32, u32>(&device()));
    for round in 0..30 {
        let keys: Vec<u32> = (600 * round..600 * (round + 1)).collect();
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        assert!(map.remove(&keys).unwrap().iter().all(|&is_removed| is_removed));
    }
    assert!(map.is_empty() && map.slots() < 8000, "{}", map.slots());
}
