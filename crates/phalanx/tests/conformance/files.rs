//! Saved maps.
use crate::kinds::{Kind, contents, every_kind, kinds};
use gpu::Device;
use phalanx::Map;
use phalanx::hash_map::{Growth, HashMap, Key, Value};
use std::collections::BTreeMap;

/// Keys of all sizes, the topmost among them.
fn numbers(len: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..len).map(|n| (n * n, n)).chain((0..5).map(|below| (u64::MAX - below, u64::MAX - below)))
}

pub fn saved_maps_load(device: &Device) {
    fn case<K: Key + Value, V: Value>(kind: &Kind<K, V>) {
        for len in [0, 1, 500] {
            let map = kind.builder().capacity(1).build().unwrap();
            let (keys, values) = kind.pairs(numbers(len));
            map.insert(&keys, &values).unwrap();
            let mut saved = Vec::new();
            map.save(&mut saved).unwrap();
            let loaded = HashMap::<K, V>::load(&saved[..], kind.builder()).unwrap();
            assert_eq!(contents(&loaded), contents(&map), "{}", kind.name);
            assert_eq!(loaded.get(&keys).unwrap(), map.get(&keys).unwrap(), "{}", kind.name);
        }
    }
    every_kind!(device, case);
}

/// The kind of table that wrote a file means nothing.
pub fn saved_maps_load_into_every_kind(device: &Device) {
    let kinds = kinds::<u64, u64>(device);
    let map = kinds[0].builder().build().unwrap();
    let (keys, values): (Vec<u64>, Vec<u64>) = numbers(300).unzip();
    map.insert(&keys, &values).unwrap();
    let mut saved = Vec::new();
    map.save(&mut saved).unwrap();
    let expected: BTreeMap<u64, u64> = numbers(300).collect();
    for kind in &kinds {
        let loaded = HashMap::<u64, u64>::load(&saved[..], kind.builder()).unwrap();
        assert_eq!(contents(&loaded), expected, "{}", kind.name);
    }
}

/// A builder's capacity holds for loaded maps too, where it is more than the pairs need.
pub fn a_loaded_map_has_the_capacity_asked_for(device: &Device) {
    fn case<K: Key + Value, V: Value>(kind: &Kind<K, V>) {
        let map = kind.builder().build().unwrap();
        let (keys, values) = kind.pairs(numbers(60));
        map.insert(&keys, &values).unwrap();
        let mut saved = Vec::new();
        map.save(&mut saved).unwrap();
        for capacity in [1, 500] {
            let loaded = HashMap::<K, V>::load(&saved[..], kind.builder().capacity(capacity)).unwrap();
            let says = loaded.capacity();
            assert!(says >= capacity.max(65) && says < 1000, "{}: {says} for {capacity}", kind.name);
            assert_eq!(contents(&loaded), contents(&map), "{}", kind.name);
        }
    }
    every_kind!(device, case);
}

/// A map that is so full that some of its pairs would find no place in another order of insertion.
pub fn full_maps_load(device: &Device) {
    fn case<K: Key + Value, V: Value>(kind: &Kind<K, V>) {
        let builder = || kind.builder().capacity(200).load_factor(1.0).looks(8).growth(Growth::Fixed);
        let map = builder().build().unwrap();
        let (keys, values) = kind.pairs((0..map.slots() as u64 * 2).map(|key| (key * 31, key)));
        map.insert(&keys, &values).unwrap();
        let mut saved = Vec::new();
        map.save(&mut saved).unwrap();
        let loaded = HashMap::<K, V>::load(&saved[..], builder()).unwrap();
        assert_eq!(contents(&loaded), contents(&map), "{}", kind.name);
        // The builder's policy holds again: nothing grows.
        let slots = loaded.slots();
        let (more, values) = kind.pairs((0..slots as u64 * 2).map(|key| (key * 31 + 7, key)));
        let refused = loaded.insert(&more, &values).unwrap();
        assert!(refused.contains(&phalanx::hash_map::Outcome::Refused), "{}", kind.name);
        assert_eq!(loaded.slots(), slots, "{}", kind.name);
    }
    every_kind!(device, case);
}
