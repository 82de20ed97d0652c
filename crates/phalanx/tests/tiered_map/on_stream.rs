//! Batches on device buffers.
use crate::model::{PLACEMENTS, all_pairs, check, device, emulator, least, numbers, small};
use gpu::Device;
use phalanx::tiered_map::{Batches, Growth};
use phalanx::{Error, HashMap, Merge, Outcome, TieredMap};
use std::collections::{BTreeMap, BTreeSet};

/// Returns distinct keys.
fn distinct(len: usize, seed: u64) -> Vec<u32> {
    let keys: BTreeSet<u32> = numbers(len, 1500, seed).into_iter().map(|key| key as u32).collect();
    keys.into_iter().collect()
}

type Model = BTreeMap<u32, u32>;

/// Changes pairs by one of four calls, and checks outcomes and values.
fn change(batches: &Batches<'_, u32, u32>, device: &Device, model: &mut Model, (len, round): (usize, u64)) {
    let host_keys = distinct(len, round);
    let pairs: Vec<(u32, u32)> = host_keys.iter().map(|&key| (key, key * 5 + round as u32)).collect();
    let host_values: Vec<u32> = pairs.iter().map(|&(_, value)| value).collect();
    let [keys, values] = [&host_keys, &host_values].map(|words| device.from_slice(words).unwrap());
    let mut outcomes = device.filled::<u8>(host_keys.len(), 99).unwrap();
    let was_there: Vec<Option<u32>> = host_keys.iter().map(|key| model.get(key).copied()).collect();
    let codes = |present: Outcome, absent: Outcome| -> Vec<u8> {
        was_there.iter().map(|value| if value.is_some() { present } else { absent } as u8).collect()
    };
    match round % 4 {
        0 => {
            batches.insert(&keys, &values, &mut outcomes).unwrap();
            model.extend(pairs);
            assert_eq!(outcomes.read().unwrap(), codes(Outcome::Replaced, Outcome::Inserted));
        }
        1 => {
            batches.upsert(Merge::Add, &keys, &values, None).unwrap();
            pairs.into_iter().for_each(|(key, more)| *model.entry(key).or_insert(0) += more);
        }
        2 => {
            let mut taken = device.zeroed::<u32>(host_keys.len()).unwrap();
            batches.take(&keys, &mut taken, &mut outcomes).unwrap();
            assert_eq!(outcomes.read().unwrap(), codes(Outcome::Removed, Outcome::Absent));
            let taken = taken.read().unwrap();
            let is_right = |(known, value): (&Option<u32>, u32)| known.is_none_or(|known| known == value);
            assert!(was_there.iter().zip(taken).all(is_right));
            model.retain(|key, _| !host_keys.contains(key));
        }
        _ => {
            batches.insert_new(&keys, &values, &mut outcomes).unwrap();
            assert_eq!(outcomes.read().unwrap(), codes(Outcome::Found, Outcome::Inserted));
            for (key, value) in pairs {
                model.entry(key).or_insert(value);
            }
        }
    }
}

/// Looks up keys, of which some are absent.
fn look_up(batches: &Batches<'_, u32, u32>, device: &Device, model: &Model, len: usize) {
    let asked: Vec<u32> = (0..len as u32).map(|number| number * 7 % 1600).collect();
    let (keys, mut found) = (device.from_slice(&asked).unwrap(), device.zeroed::<u8>(len).unwrap());
    let mut values = device.zeroed::<u32>(len).unwrap();
    batches.get(&keys, &mut values, &mut found).unwrap();
    let all = values.read().unwrap().into_iter().zip(found.read().unwrap());
    for ((value, code), key) in all.zip(&asked) {
        let found = (code == Outcome::Found as u8).then_some(value);
        assert_eq!(found, model.get(key).copied());
    }
    batches.contains_key(&keys, &mut found).unwrap();
    let is_there = |code: u8| code == Outcome::Found as u8;
    let expected = asked.iter().map(|key| model.contains_key(key));
    assert!(found.read().unwrap().into_iter().map(is_there).eq(expected));
}

/// Runs all calls with batches of a length, and compares with a model.
fn with_a_model(map: &TieredMap<u32, u32>, len: usize) {
    let (device, stream) = (map.device(), map.device().stream().unwrap());
    let (batches, mut model) = (map.on(&stream), Model::new());
    for round in 0..5 {
        change(&batches, device, &mut model, (len, round));
        look_up(&batches, device, &model, len);
        assert_eq!(map.len(), model.len());
    }
    check(map, &model, &[5000]);
}

#[test]
fn batches_of_all_lengths_on_all_maps() {
    let device = device();
    for (placement, len) in PLACEMENTS.into_iter().flat_map(|placement| [40, 600].map(|len| (placement, len)))
    {
        with_a_model(&least(small::<u32, u32>(&device).capacity(2000).placement(placement)), len);
    }
    let hot = small::<u32, u32>(&device).capacity(2000).hot_pairs(40 * 128);
    let budget = hot.min_budget().unwrap() + 40 * 128;
    with_a_model(&hot.budget(budget).build().unwrap(), 900);
    let resident =
        TieredMap::<u32, u32>::builder().device(&device).capacity(2000).budget(1 << 20).build().unwrap();
    assert!(resident.is_resident());
    with_a_model(&resident, 900);
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

#[test]
fn bad_input() {
    let (device, other) = (emulator(), emulator());
    let map = least(small::<u32, u32>(&device));
    let (keys, far) = (device.from_slice(&[1u32, 2]).unwrap(), other.from_slice(&[1u32, 2]).unwrap());
    let (mut short, mut outcomes) = (device.zeroed::<u8>(1).unwrap(), device.zeroed::<u8>(2).unwrap());
    let stream = device.default_stream();
    assert!(matches!(map.on(&stream).remove(&keys, &mut short), Err(Error::Length { .. })));
    assert!(matches!(
        map.on(&stream).insert(&keys, &far, None),
        Err(Error::OtherDevice { what: "values", .. })
    ));
    let elsewhere = map.on(&other.default_stream()).remove(&keys, &mut outcomes);
    assert!(matches!(elsewhere, Err(Error::OtherDevice { what: "stream", .. })));
    let none = device.from_slice::<u32>(&[]).unwrap();
    map.on(&stream).insert(&none, &none, None).unwrap();
    assert!(map.is_empty());
}

/// Every copy of a batch fails once: the error tells which elements are done.
#[test]
fn every_copy_fails_once() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    for len in [100, 500] {
        for copies in 0.. {
            let map = least(crate::model::divided::<u32, u32>(&device).capacity(900));
            let first: Vec<u32> = (0..150).collect();
            assert!(map.insert(&first, &first).unwrap().all_placed());
            let host = distinct(len, 3);
            let ones = device.from_slice(&vec![1u32; host.len()]).unwrap();
            let (keys, mut outcomes) =
                (device.from_slice(&host).unwrap(), device.zeroed::<u8>(host.len()).unwrap());
            let stream = device.stream().unwrap();
            handle.fail_copy(copies);
            let said = map.on(&stream).upsert(Merge::Add, &keys, &ones, &mut outcomes);
            let left = handle.fail_copy(u64::MAX);
            let done = match said {
                Ok(()) => vec![true; host.len()],
                Err(Error::Interrupted { done, .. }) => done,
                Err(Error::Device(_)) => vec![false; host.len()],
                Err(other) => panic!("{other}"),
            };
            let mut expected: BTreeMap<u32, u32> = first.iter().map(|&key| (key, key)).collect();
            for (&key, done) in host.iter().zip(done) {
                if done {
                    *expected.entry(key).or_insert(0) += 1;
                }
            }
            assert_eq!(all_pairs(&map), expected, "{len} {copies}");
            if left != u64::MAX {
                assert!(copies > 2);
                break;
            }
        }
    }
}
