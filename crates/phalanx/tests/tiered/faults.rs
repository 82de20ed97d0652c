//! Every allocation and every copy fails once, or, of the later ones, a sample.
use super::model::{self, CHURNED, OUTGROWING, Placement, all_pairs, emulator, least, numbers, small};
use gpu::Device;
use phalanx::{Error, Merge, Outcomes, Result};
use phalanx_testing::common::attempts;
use std::collections::BTreeMap;

type Map = model::Map<u32, u32>;

/// Which elements of a call are done.
enum Done {
    All,
    None,
    Some(Vec<bool>),
}

/// Returns which elements of a call are done. A map that grows may have refused some.
fn done(said: Result<Outcomes>) -> Done {
    match said {
        Ok(outcomes) => {
            assert!(outcomes.all_placed());
            Done::All
        }
        Err(Error::NoRoom { outcomes, .. }) => {
            Done::Some(outcomes.iter().map(|&outcome| outcome != phalanx::Outcome::Refused).collect())
        }
        Err(Error::Interrupted { done, source }) => {
            assert!(matches!(*source, Error::Device(_) | Error::ShardFile { .. }), "{source}");
            Done::Some(done)
        }
        Err(Error::Device(_) | Error::ShardFile { .. }) => Done::None,
        Err(other) => panic!("{other}"),
    }
}

/// Returns how often an element with each key is done.
fn counts(keys: &[u32], done: &Done) -> BTreeMap<u32, u32> {
    let mut counts = BTreeMap::new();
    for (place, &key) in keys.iter().enumerate() {
        let is_done = match done {
            Done::All => true,
            Done::None => false,
            Done::Some(done) => done[place],
        };
        if is_done {
            *counts.entry(key).or_default() += 1;
        }
    }
    counts
}

/// A small map, and the number of keys of a batch, of which most are new.
struct Case {
    map: Map,
    len: usize,
}

/// Returns maps of all policies, and batches of one chunk and of several. The latter make shards grow, or
/// split inner lists. Another map is divided into shards, and a last one reclaims the slots of removed keys,
/// after a small batch and while a large one lacks room.
fn cases(device: &Device) -> Vec<Box<dyn Fn() -> Case>> {
    let mut cases: Vec<Box<dyn Fn() -> Case>> = Vec::new();
    for (placement, len) in POLICIES.into_iter().flat_map(|placement| [(placement, 40), (placement, 300)]) {
        let device = device.clone();
        cases.push(Box::new(move || {
            let builder = model::growing(&device).placement(placement);
            Case { map: least(builder), len }
        }));
    }
    if let Some(outgrowing) = OUTGROWING {
        let device = device.clone();
        cases.push(Box::new(move || Case { map: outgrowing(&device, 200), len: 2000 }));
    }
    for len in [300, 900] {
        let Some(churned) = CHURNED else { continue };
        let device = device.clone();
        cases.push(Box::new(move || Case { map: churned(&device, 1500), len }));
    }
    cases
}

/// Adds 1 to keys of a new map with 150 pairs, where a fault is injected. Then the map must have the sums of
/// the elements that are done, and the rest of the batch is done without faults.
fn with_a_fault(Case { map, len }: Case, inject: impl Fn() -> u64, lift: impl Fn()) {
    let most = 2 * len as u32;
    let first: Vec<u32> = (0..150).collect();
    assert!(map.upsert(Merge::Add, &first, &[1; 150]).unwrap().all_placed());
    let keys: Vec<u32> = numbers(len, u64::from(most), 9).into_iter().map(|key| key as u32).collect();
    let _ = inject();
    let done = done(map.upsert(Merge::Add, &keys, &vec![1; keys.len()]));
    lift();
    let mut expected = counts(&first, &Done::All);
    for (key, count) in counts(&keys, &done) {
        *expected.entry(key).or_default() += count;
    }
    assert_eq!(all_pairs(&map), expected, "the elements that are done, and no others");
    let rest: Vec<u32> = match done {
        Done::All => return,
        Done::None => keys,
        Done::Some(done) => keys.iter().zip(done).filter(|(_, done)| !done).map(|(&key, _)| key).collect(),
    };
    assert!(map.upsert(Merge::Add, &rest, &vec![1; rest.len()]).unwrap().all_placed());
    let asked: Vec<u32> = (0..most).collect();
    let sum: u32 = map.get(&asked).unwrap().into_iter().flatten().sum();
    assert_eq!(sum as usize, len + first.iter().filter(|&&key| key < most).count());
    assert!(map.peak_device_bytes() <= map.budget());
}

const POLICIES: [Placement; 4] =
    [Placement::ByCost, Placement::AlwaysCopy, Placement::AlwaysInPlace, Placement::Remote];

#[test]
fn every_copy_fails_once() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    for (number, case) in cases(&device).into_iter().enumerate() {
        for copies in attempts(number) {
            let left = std::cell::Cell::new(0);
            let inject = || handle.fail_copy(copies);
            with_a_fault(case(), inject, || left.set(handle.fail_copy(u64::MAX)));
            if left.get() != u64::MAX {
                assert!(copies > 2);
                break;
            }
        }
    }
}

#[test]
fn every_allocation_fails() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    for (number, case) in cases(&device).into_iter().enumerate() {
        for allocations in attempts(number) {
            let left = std::cell::Cell::new(0);
            let inject = || handle.fail_allocations_after(allocations);
            with_a_fault(case(), inject, || left.set(handle.fail_allocations_after(u64::MAX)));
            if left.get() > 0 {
                break;
            }
        }
    }
}

#[test]
fn every_allocation_of_a_new_map_fails() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    for placement in POLICIES {
        let builder = small::<u32, u32>(&device).placement(placement);
        let budget = builder.min_budget().unwrap();
        for allocations in 0.. {
            handle.fail_allocations_after(allocations);
            let built = builder.clone().budget(budget).build();
            handle.fail_allocations_after(u64::MAX);
            match built {
                Ok(_) => {
                    assert!(allocations > 4);
                    break;
                }
                Err(error) => assert!(matches!(error, Error::Device(gpu::Error::OutOfMemory { .. }))),
            }
        }
    }
}

/// Lookups, removals and reads of all pairs change nothing, or say what they have done.
#[test]
fn every_copy_of_other_calls_fails_once() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    for (number, placement) in POLICIES.into_iter().enumerate() {
        let map: Map = least(model::divided(&device).capacity(200).placement(placement));
        let keys: Vec<u32> = (0..180).collect();
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        for copies in attempts(number) {
            handle.fail_copy(copies);
            // The copy of results is tried twice, so lookups may succeed all the same.
            let said = (map.get(&keys), map.export());
            let left = handle.fail_copy(u64::MAX);
            let is_right =
                |values: Vec<Option<u32>>| values.into_iter().eq(keys.iter().map(|&key| Some(key)));
            assert!(said.0.map_or(true, is_right) && said.1.map_or(true, |(all, _)| all.len() == keys.len()));
            assert!(all_pairs(&map).into_iter().eq(keys.iter().map(|&key| (key, key))));
            if left != u64::MAX {
                break;
            }
        }
        for copies in attempts(number) {
            handle.fail_copy(copies);
            let said = map.remove(&keys);
            let left = handle.fail_copy(u64::MAX);
            let done = match said {
                Ok(removed) => removed,
                Err(Error::Interrupted { done, .. }) => done,
                Err(_) => vec![false; keys.len()],
            };
            let rest = all_pairs(&map);
            assert!(keys.iter().zip(&done).all(|(key, &is_done)| rest.contains_key(key) != is_done));
            assert!(map.insert(&keys, &keys).unwrap().all_placed());
            if left != u64::MAX {
                break;
            }
        }
    }
}

/// A map that cannot be loaded is gone, so no error tells which of its pairs are done.
#[test]
fn every_copy_of_a_load_fails_once() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    let builder = || {
        let builder = model::divided::<u32, u32>(&device).capacity(400).placement(Placement::AlwaysCopy);
        let budget = builder.min_budget().unwrap();
        builder.budget(budget)
    };
    let (map, keys) = (builder().build().unwrap(), (0..350).collect::<Vec<u32>>());
    assert!(map.insert(&keys, &keys).unwrap().all_placed());
    let mut saved = Vec::new();
    map.save(&mut saved).unwrap();
    for copies in attempts(0) {
        handle.fail_copy(copies);
        let loaded = Map::load(&saved[..], builder());
        let left = handle.fail_copy(u64::MAX);
        match loaded {
            Ok(loaded) => assert_eq!(all_pairs(&loaded), all_pairs(&map)),
            Err(error) => {
                assert!(matches!(error, Error::Device(_) | Error::ShardFile { .. }), "{copies}: {error}");
            }
        }
        if left != u64::MAX {
            break;
        }
    }
}
