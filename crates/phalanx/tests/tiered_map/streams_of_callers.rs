//! Batches on device buffers: maps that do not grow, and resident ones.
use crate::model::{all_pairs, check, device, emulator, least, small};
use crate::on_stream::{a_count_bounds, with_a_model};
use phalanx::tiered_map::Growth;
use phalanx::{HashMap, Outcome, TieredMap};
use std::collections::BTreeMap;

#[test]
fn resident_maps_and_hot_pairs() {
    let device = device();
    let hot = small::<u32, u32>(&device).capacity(2000).hot_pairs(40 * 128);
    let budget = hot.min_budget().unwrap() + 40 * 128;
    with_a_model(&hot.budget(budget).build().unwrap(), 900);
    let resident = || {
        let builder = TieredMap::<u32, u32>::builder().device(&device).capacity(2000);
        builder.budget(1 << 20).build().unwrap()
    };
    assert!(resident().is_resident());
    with_a_model(&resident(), 900);
    a_count_bounds(&resident());
}

/// A resident map takes as many launches, copies and waits as a `HashMap`.
#[test]
fn a_resident_map_only_launches() {
    let device = emulator();
    let tiered =
        TieredMap::<u32, u32>::builder().device(&device).capacity(1000).budget(1 << 20).build().unwrap();
    let flat = HashMap::<u32, u32>::builder().device(&device).capacity(1000).build().unwrap();
    let stream = device.stream().unwrap();
    let keys = device.from_slice(&(0..700).collect::<Vec<u32>>()).unwrap();
    let (mut values, mut outcomes) = (device.zeroed::<u32>(700).unwrap(), device.zeroed::<u8>(700).unwrap());
    let mut work = |calls: &mut dyn FnMut(&mut _, &mut _)| {
        let before = device.emulated_work().unwrap();
        calls(&mut values, &mut outcomes);
        let after = device.emulated_work().unwrap();
        (after.launches - before.launches, after.copies - before.copies, after.waits - before.waits)
    };
    let of_tiered = work(&mut |values: &mut gpu::Buffer<u32>, outcomes: &mut gpu::Buffer<u8>| {
        tiered.on(&stream).insert(&keys, &keys, None).unwrap();
        tiered.on(&stream).get(&keys, values, &mut *outcomes).unwrap();
        tiered.on(&stream).contains_key(&keys, &mut *outcomes).unwrap();
        tiered.on(&stream).remove(&keys, outcomes).unwrap();
    });
    let of_flat = work(&mut |values: &mut gpu::Buffer<u32>, outcomes: &mut gpu::Buffer<u8>| {
        flat.on(&stream).insert(&keys, &keys, None).unwrap();
        flat.on(&stream).get(&keys, values, &mut *outcomes).unwrap();
        flat.on(&stream).contains_key(&keys, &mut *outcomes).unwrap();
        flat.on(&stream).remove(&keys, outcomes).unwrap();
    });
    assert_eq!((of_tiered, of_flat), ((4, 0, 0), (4, 0, 0)));
    assert_eq!((tiered.len(), tiered.traffic().on_device), (0, 2800));
}

/// Other calls wait for batches of streams: they count their pairs, and the table may grow or be divided.
#[test]
fn other_calls_follow_batches_of_streams() {
    let device = device();
    let map = crate::model::outgrowing::<u32, u32>(&device, 300);
    assert!(map.is_resident());
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let mut model = BTreeMap::new();
    // A resident map grows up to its budget before it is divided.
    for round in 0..100u32 {
        let keys: Vec<u32> = (200 * round..200 * (round + 1)).collect();
        let (some, more) = keys.split_at(70);
        let [some_keys, more_keys] = [some, more].map(|keys| device.from_slice(keys).unwrap());
        let mut outcomes = device.zeroed::<u8>(130).unwrap();
        map.on(&first).insert(&some_keys, &some_keys, None).unwrap();
        map.on(&second).insert(&more_keys, &more_keys, &mut outcomes).unwrap();
        // A call on the host inserts what was refused, and makes room.
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        model.extend(keys.iter().map(|&key| (key, key)));
        assert_eq!(map.len(), model.len());
        if !map.is_resident() && round >= 12 {
            break;
        }
    }
    assert!(!map.is_resident());
    check(&map, &model, &[1 << 20]);
}

#[test]
fn elements_that_do_not_fit_are_refused() {
    let device = device();
    for (growth, shards) in [(Growth::Fixed, 4), (Growth::Doubling, 4)] {
        let map = least(small::<u32, u32>(&device).capacity(300).shards(shards).growth(growth));
        let slots = map.slots();
        let host: Vec<u32> = (0..4000).collect();
        let (keys, mut outcomes) = (device.from_slice(&host).unwrap(), device.zeroed::<u8>(4000).unwrap());
        map.on(&device.default_stream()).insert(&keys, &keys, &mut outcomes).unwrap();
        let codes = outcomes.read().unwrap();
        let inserted = codes.iter().filter(|&&code| code == Outcome::Inserted as u8).count();
        let refused = codes.iter().filter(|&&code| code == Outcome::Refused as u8).count();
        assert!(inserted >= 300 && refused > 0 && inserted + refused == 4000, "{inserted} {refused}");
        assert_eq!((map.len(), map.slots()), (inserted, slots));
        let pairs = all_pairs(&map);
        assert!(
            host.iter()
                .zip(&codes)
                .all(|(key, &code)| pairs.contains_key(key) == (code == Outcome::Inserted as u8))
        );
    }
}
