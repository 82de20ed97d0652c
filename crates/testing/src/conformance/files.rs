//! Saved maps.
use crate::kinds::{Kind, Tested, contents};
use checker::MapValue;
use phalanx::SlabHash;
use phalanx::hash_map::{Growth, HashMap};
use phalanx::map::Word;
use std::collections::BTreeMap;

/// Generates keys of all magnitudes, including the topmost.
fn numbers(len: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..len).map(|n| (n * n, n)).chain((0..5).map(|below| (u64::MAX - below, u64::MAX - below)))
}

pub fn saved_maps_load<M: Tested>(kind: &Kind<M>) {
    for len in [0, 1, 500] {
        let map = kind.map(1);
        let (keys, values) = kind.columns(numbers(len));
        assert!(map.insert(&keys, &values).unwrap().all_placed());
        let mut saved = Vec::new();
        map.save(&mut saved).unwrap();
        let loaded = M::load(&saved, kind).unwrap();
        assert_eq!(contents(&loaded), contents(&map), "{}", kind.name);
        assert_eq!(loaded.get(&keys).unwrap(), map.get(&keys).unwrap(), "{}", kind.name);
    }
}

/// A file is independent of the structure and the variant that wrote it.
pub fn every_map_reads_what_another_wrote<M: Tested>(kind: &Kind<M>) {
    let (keys, values) = kind.columns(numbers(300));
    let expected: BTreeMap<_, _> = keys.iter().copied().zip(values.iter().copied()).collect();
    let table = HashMap::<M::Key, M::Value>::builder().device(&kind.device).build().unwrap();
    assert!(table.insert(&keys, &values).unwrap().all_placed());
    let mut saved = Vec::new();
    table.save(&mut saved).unwrap();
    let loaded = M::load(&saved, kind).unwrap();
    assert_eq!(contents(&loaded), expected, "{}", kind.name);
    let mut again = Vec::new();
    loaded.save(&mut again).unwrap();
    let lists = SlabHash::<M::Key, M::Value>::load(&again[..], SlabHash::builder().device(&kind.device));
    assert_eq!(contents(&lists.unwrap()), expected, "{}", kind.name);
}

/// A builder's capacity also applies to loaded maps, if it exceeds what the pairs need.
pub fn a_loaded_map_has_the_capacity_asked_for<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    let map = kind.builder().build().unwrap();
    let (keys, values) = kind.columns(numbers(60));
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    let mut saved = Vec::new();
    map.save(&mut saved).unwrap();
    for capacity in [1, 500] {
        let loaded = HashMap::<K, V>::load(&saved[..], kind.builder().capacity(capacity)).unwrap();
        let says = loaded.capacity();
        assert!(says >= capacity.max(65) && says < 1000, "{}: {says} for {capacity}", kind.name);
        assert_eq!(contents(&loaded), contents(&map), "{}", kind.name);
    }
}

/// The map is so full that some of its pairs would not fit in another order of insertion.
pub fn full_maps_load<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    let builder = || kind.builder().capacity(200).load_factor(1.0).max_probes(8).growth(Growth::Fixed);
    let map = builder().build().unwrap();
    let (keys, values) = kind.columns((0..map.slots() as u64 * 2).map(|key| (key * 31, key)));
    assert!(map.insert(&keys, &values).unwrap().refused() >= map.slots(), "{}", kind.name);
    let mut saved = Vec::new();
    map.save(&mut saved).unwrap();
    let loaded = HashMap::<K, V>::load(&saved[..], builder()).unwrap();
    assert_eq!(contents(&loaded), contents(&map), "{}", kind.name);
    // The builder's growth policy applies again: the map does not grow.
    let slots = loaded.slots();
    let (more, values) = kind.columns((0..slots as u64 * 2).map(|key| (key * 31 + 7, key)));
    let refused = loaded.insert(&more, &values).unwrap();
    assert!(refused.contains(&phalanx::hash_map::Outcome::Refused), "{}", kind.name);
    assert_eq!(loaded.slots(), slots, "{}", kind.name);
}
