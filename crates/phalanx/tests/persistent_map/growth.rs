//! Growth: levels that are added while the map has pairs, and the load at which it becomes necessary.
use crate::{common, device, folder};
use phalanx::persistent_map::{Durability, Storage};
use phalanx::{Error, Outcome, PersistentMap};

fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Fills a map of fixed capacity until a key is refused; returns its load then.
fn load_at_first_refusal<V: phalanx::persistent_map::Plain>(capacity: usize, seed: u64, value: V) -> f64 {
    let builder = PersistentMap::<u64, V>::builder().capacity(capacity).grows(false).seed(seed);
    let map = builder.device(&device()).build().unwrap();
    let mut placed = 0;
    loop {
        // Few at a time at the end: keys behind the first refused one could still find slots.
        let next = if placed == 0 { map.capacity() * 7 / 8 } else { 64.max(capacity / 2000) };
        let keys: Vec<u64> = (placed..placed + next).map(|number| key(number as u64)).collect();
        let outcomes = map.insert(&keys, &vec![value; next]).unwrap();
        if let Some(first) = outcomes.iter().position(|&outcome| outcome == Outcome::Refused) {
            return (placed + first) as f64 / map.capacity() as f64;
        }
        placed += next;
    }
}

/// Batches on host slices, which move pairs before they refuse a key. `PHALANX_VARIANTS=all` and GPUs also
/// fill larger maps.
#[test]
fn the_map_is_full_to_92_percent_before_a_key_is_refused() {
    let sizes = [2000, 20_000, 200_000, 2_000_000, 48_000_000];
    let device = device();
    let most = if !device.is_emulator() { 5 } else { 3 + usize::from(common::runs_all(&device)) };
    for capacity in &sizes[..most] {
        for seed in 0..if *capacity > 100_000 { 1 } else { 5 } {
            let load = load_at_first_refusal(*capacity, seed, 0u64);
            println!("first refusal of a map for {capacity} keys: load {load:.4}");
            assert!((0.92..=1.0).contains(&load), "{capacity} keys, seed {seed}: {load}");
        }
    }
}

/// A bucket of other values has a spare slot, which does not count.
#[test]
fn the_load_of_maps_with_other_values() {
    let load = load_at_first_refusal(20_000, 1, [0u32; 4]);
    assert!((0.88..=1.0).contains(&load), "{load}");
}

#[test]
fn no_slot_is_lost_when_keys_are_refused() {
    let map = PersistentMap::<u64, [u32; 4]>::builder().capacity(100).grows(false).device(&device());
    let map = map.build().unwrap();
    let keys: Vec<u64> = (0..1000).map(key).collect();
    let outcomes = map.insert(&keys, &vec![[7; 4]; 1000]).unwrap();
    let placed = outcomes.count(Outcome::Inserted);
    assert!(outcomes.refused() == 1000 - placed && placed > 80);
    assert_eq!(map.len().unwrap(), placed);
    map.check().unwrap();
    // A full map still updates all its keys.
    assert_eq!(map.update(&keys, &vec![[8; 4]; 1000]).unwrap().count(Outcome::Replaced), placed);
    let removed = map.remove(&keys).unwrap().into_iter().filter(|&removed| removed).count();
    assert_eq!(removed, placed);
    // Every slot can be taken again.
    let again = map.insert(&keys, &vec![[7; 4]; 1000]).unwrap().count(Outcome::Inserted);
    assert!(again.abs_diff(placed) < 30, "{again} and {placed}");
    map.check().unwrap();
}

#[test]
fn maps_grow_and_keep_all_pairs() {
    for storage in [Storage::Device, Storage::Pinned] {
        let map = PersistentMap::<u64, u64>::builder().capacity(100).storage(storage).device(&device());
        let map = map.build().unwrap();
        let keys: Vec<u64> = (0..20_000).map(key).collect();
        let values: Vec<u64> = (0..20_000).collect();
        for part in 0..20 {
            let range = part * 1000..part * 1000 + 1000;
            assert!(map.insert(&keys[range.clone()], &values[range]).unwrap().all_placed());
        }
        map.check().unwrap();
        assert_eq!(map.len().unwrap(), 20_000);
        assert_eq!(map.get(&keys).unwrap(), values.iter().copied().map(Some).collect::<Vec<_>>());
        let stats = map.stats().unwrap();
        assert!(stats.lowest_level >= 7 && stats.capacity < 60_000, "{stats:?}");
    }
}

#[test]
fn maps_in_files_grow() {
    for durability in [Durability::Machine, Durability::Process] {
        let folder = folder();
        let path = folder.path().join("map");
        let builder = || PersistentMap::<u64, [u32; 5]>::builder().durability(durability).device(&device());
        let map = builder().capacity(100).create(&path).unwrap();
        let keys: Vec<u64> = (0..5000).map(key).collect();
        let values: Vec<[u32; 5]> = (0..5000).map(|number| [number; 5]).collect();
        assert!(map.insert(&keys, &values).unwrap().all_placed());
        // The epochs of growth have the pairs that were there before.
        assert!(map.epoch().unwrap().0 >= 4 && map.stats().unwrap().lowest_level >= 4);
        map.sync().unwrap();
        drop(map);
        let map = builder().open(&path).unwrap();
        map.check().unwrap();
        assert_eq!(map.get(&keys).unwrap(), values.iter().copied().map(Some).collect::<Vec<_>>());
        // It grows again.
        map.reserve(20_000).unwrap();
        assert_eq!(map.get(&keys).unwrap(), values.iter().copied().map(Some).collect::<Vec<_>>());
        let capacity = map.capacity();
        drop(map);
        let map = builder().open(&path).unwrap();
        assert_eq!((map.capacity(), map.len().unwrap()), (capacity, 5000));
    }
}

#[test]
fn a_map_too_large_is_refused() {
    let map = PersistentMap::<u64, u64>::builder().device(&device());
    let built = map.capacity(1 << 32).build();
    assert!(matches!(built, Err(Error::TooLarge { .. })), "{built:?}");
}

#[test]
fn compaction_frees_what_growth_has_left() {
    for durability in [Durability::Machine, Durability::Process] {
        let folder = folder();
        let path = folder.path().join("map");
        let builder = || PersistentMap::<u64, [u32; 3]>::builder().durability(durability).device(&device());
        let mut map = builder().capacity(100).create(&path).unwrap();
        let keys: Vec<u64> = (0..8000).map(key).collect();
        let values: Vec<[u32; 3]> = (0..8000).map(|number| [number; 3]).collect();
        assert!(map.insert(&keys, &values).unwrap().all_placed());
        assert!(map.remove(&keys[1000..]).unwrap().iter().all(|&removed| removed));
        map.sync().unwrap();
        let (before, bytes) = (map.stats().unwrap(), std::fs::metadata(&path).unwrap().len());
        map.compact().unwrap();
        let after = map.stats().unwrap();
        assert!(after.lowest_level == 0 && after.capacity * 3 < before.capacity, "{before:?} {after:?}");
        assert!(std::fs::metadata(&path).unwrap().len() < bytes / 2);
        assert_eq!((after.len, map.epoch().unwrap().0), (1000, 1));
        // The map goes on with the new file.
        assert!(map.insert(&keys[1000..1100], &values[1000..1100]).unwrap().all_placed());
        map.sync().unwrap();
        drop(map);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let map = builder().open(&path).unwrap();
        map.check().unwrap();
        let expected: Vec<_> = values[..1100].iter().copied().map(Some).collect();
        assert_eq!((map.get(&keys[..1100]).unwrap(), map.len().unwrap()), (expected, 1100));
    }
}
