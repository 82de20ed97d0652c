//! The budget of device memory.
use crate::model::{check, device, insert, least, small};
use phalanx::tiered_map::Placement;
use phalanx::{Error, TieredMap};
use std::collections::BTreeMap;

#[test]
fn a_budget_below_the_least_is_refused() {
    let device = device();
    let builders = [small::<u32, u32>(&device), TieredMap::builder().device(&device).capacity(1 << 20)];
    for builder in builders {
        for placement in [Placement::ByCost, Placement::Remote] {
            let builder = builder.clone().placement(placement);
            let needed = builder.min_budget().unwrap();
            for budget in [0, 1, needed - 1] {
                let refused = builder.clone().budget(budget).build();
                assert!(matches!(refused, Err(Error::DeviceBudget { asked, needed: least })
                    if asked == budget && least == needed));
            }
            let map = builder.budget(needed).build().unwrap();
            assert!(map.peak_device_bytes() <= needed && map.min_budget() == needed);
            assert!(needed - map.peak_device_bytes() < needed / 2, "it is close");
        }
    }
}

/// The budget is that of three shards.
#[test]
fn a_map_is_larger_than_its_budget() {
    let device = device();
    let map = least(TieredMap::<u32, u32>::builder().device(&device).capacity(20_000).shards(16));
    assert!(map.host_bytes() > map.budget(), "{} {}", map.host_bytes(), map.budget());
    let mut model = BTreeMap::new();
    let keys: Vec<u32> = (0..10_000).map(|key| key * 5).collect();
    insert(&map, &mut model, (&keys, &keys));
    check(&map, &model, &[1, 2, 3]);
    assert!(map.traffic().copied_in > 0 && map.traffic().copied_out > 0);
}

#[test]
fn a_map_that_fits_is_on_the_device() {
    let device = device();
    let map =
        TieredMap::<u32, u32>::builder().device(&device).capacity(1000).budget(1 << 20).build().unwrap();
    assert!(map.is_resident() && map.shards() == 1 && map.host_bytes() == 0);
    let keys: Vec<u32> = (0..1000).collect();
    let mut model = BTreeMap::new();
    insert(&map, &mut model, (&keys, &keys));
    check(&map, &model, &[5000]);
    assert_eq!((map.traffic().copied_in, map.traffic().in_place), (0, 0));
    let more = TieredMap::<u32, u32>::builder().device(&device).capacity(1 << 20).budget(4 << 20).build();
    let more = more.unwrap();
    assert!(!more.is_resident() && more.shards() > 4 && more.host_bytes() > 8 << 20);
}

/// With a larger budget, some shards stay on the device. New shards are created there, not copied.
#[test]
fn shards_stay_on_the_device() {
    let device = device();
    let builder = small::<u32, u32>(&device).placement(Placement::AlwaysCopy);
    let budget = 2 * builder.min_budget().unwrap();
    let map = builder.budget(budget).build().unwrap();
    let keys: Vec<u32> = (0..600).collect();
    assert!(map.insert(&keys, &keys).unwrap().all_placed());
    let copied = |map: &TieredMap<u32, u32>| map.traffic().copied_in;
    assert_eq!(copied(&map), 0);
    let all = map.traffic().copied_out;
    for _ in 0..2 {
        let before = copied(&map);
        assert!(map.get(&keys).unwrap().iter().zip(&keys).all(|(value, key)| *value == Some(*key)));
        assert!(copied(&map) - before < all, "{} of {all}", copied(&map) - before);
    }
    let mut model: BTreeMap<u32, u32> = keys.iter().map(|&key| (key, key)).collect();
    let changed: Vec<u32> = keys.iter().map(|&key| key + 1).collect();
    insert(&map, &mut model, (&keys, &changed));
    check(&map, &model, &[]);
}

/// A kept copy of a shard is not used after a batch has changed the shard in place.
#[test]
fn a_change_in_place_is_seen_on_the_device() {
    let device = device();
    let builder = small::<u32, u32>(&device);
    let budget = 2 * builder.min_budget().unwrap();
    let map = builder.budget(budget).build().unwrap();
    let (mut model, keys) = (BTreeMap::new(), (0..700).collect::<Vec<u32>>());
    insert(&map, &mut model, (&keys, &keys));
    for key in (0..700).step_by(50) {
        let before = map.traffic();
        insert(&map, &mut model, (&[key], &[key + 1]));
        assert_eq!(map.traffic().in_place, before.in_place + 1);
        assert_eq!(map.traffic().copied_in, before.copied_in);
    }
    check(&map, &model, &[]);
}
