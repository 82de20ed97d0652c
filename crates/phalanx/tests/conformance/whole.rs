//! Operations on the table as a whole.
use crate::kinds::{Kind, contents, every_kind};
use gpu::Device;
use phalanx::Map;
use phalanx::hash_map::{HashMap, Key, Outcome, Value};
use std::collections::BTreeMap;

/// A map of `len` pairs, key n with value 3n, the last three keys from the top of the range; and what it holds.
fn filled<K: Key, V: Value>(kind: &Kind<K, V>, len: u64) -> (HashMap<K, V>, BTreeMap<K, V>) {
    let map = kind.builder().capacity(1).build().unwrap();
    let key = |n: u64| if n + 3 < len { n } else { u64::MAX - (len - 1 - n) };
    let (keys, values) = kind.pairs((0..len).map(|n| (key(n), n * 3)));
    let outcomes = map.insert(&keys, &values).unwrap();
    assert_eq!(outcomes, vec![Outcome::Inserted; len as usize], "{}", kind.name);
    (map, keys.into_iter().zip(values).collect())
}

pub fn growth_keeps_everything(device: &Device) {
    fn case<K: Key, V: Value>(kind: &Kind<K, V>) {
        let map = kind.builder().capacity(1).build().unwrap();
        let (first, mut model) = (map.slots(), BTreeMap::new());
        for part in 0..6u64 {
            let (keys, values) = kind.pairs((0..200).map(|n| (part * 150 + n, part)));
            map.insert(&keys, &values).unwrap();
            model.extend(keys.into_iter().zip(values));
            assert_eq!(contents(&map), model, "{}", kind.name);
        }
        assert!(map.slots() >= 950 && map.slots() > first, "{}: {}", kind.name, map.slots());
        assert!(map.slots() < 8000, "{}: {} slots for 950 pairs", kind.name, map.slots());
    }
    every_kind!(device, case);
}

pub fn ranges_are_retained(device: &Device) {
    fn case<K: Key, V: Value>(kind: &Kind<K, V>) {
        let (mut map, mut model) = filled(kind, 150);
        let at = |n| K::from_u64(n);
        map.retain_keys(at(10)..=at(u64::MAX - 1)).unwrap();
        model.retain(|key, _| (at(10)..=at(u64::MAX - 1)).contains(key));
        assert_eq!(contents(&map), model, "{}", kind.name);
        let values = V::from_u64(60)..=V::from_u64(445);
        map.retain_values(values.clone()).unwrap();
        model.retain(|_, value| values.contains(value));
        assert_eq!(contents(&map), model, "{}", kind.name);
        map.retain_keys(at(33)..=at(33)).unwrap();
        assert_eq!(contents(&map).into_keys().collect::<Vec<_>>(), [at(33)], "{}", kind.name);
        map.retain_keys(at(0)..=at(0)).unwrap();
        assert!(map.is_empty().unwrap(), "{}", kind.name);
    }
    every_kind!(device, case);
}

pub fn predicates_are_retained(device: &Device) {
    fn case<K: Key, V: Value>(kind: &Kind<K, V>) {
        let (mut map, mut model) = filled(kind, 120);
        let keep = |key: K, value: V| (key.to_u64() ^ value.to_u64()) % 3 == 1;
        map.retain(keep).unwrap();
        model.retain(|&key, value| keep(key, *value));
        assert_eq!(contents(&map), model, "{}", kind.name);
        assert_eq!(map.iter().unwrap().collect::<BTreeMap<_, _>>(), model, "{}", kind.name);
    }
    every_kind!(device, case);
}

pub fn tables_are_resized(device: &Device) {
    fn case<K: Key, V: Value>(kind: &Kind<K, V>) {
        let (mut map, model) = filled(kind, 100);
        let (slots, memory) = (map.slots(), map.memory_usage());
        map.reserve(4000).unwrap();
        assert!(map.capacity() >= 4100 && map.memory_usage() > memory, "{}", kind.name);
        assert_eq!(contents(&map), model, "{}", kind.name);
        let reserved = map.slots();
        let (keys, values) = kind.pairs((1000..5000).map(|key| (key, 1)));
        assert_eq!(map.insert(&keys, &values).unwrap(), vec![Outcome::Inserted; 4000]);
        assert_eq!(map.slots(), reserved, "{}: there was room", kind.name);
        assert!(map.remove(&keys).unwrap().into_iter().all(|removed| removed));
        map.compact().unwrap();
        assert_eq!(contents(&map), model, "{}", kind.name);
        map.shrink_to_fit().unwrap();
        assert!(map.slots() <= slots && map.capacity() >= 100, "{}: {}", kind.name, map.slots());
        assert_eq!(contents(&map), model, "{}", kind.name);
        map.clear().unwrap();
        assert!(contents(&map).is_empty() && map.slots() <= slots, "{}", kind.name);
        assert_eq!(map.get(&keys[..2]).unwrap(), [None, None], "{}", kind.name);
        let one = (K::from_u64(5), V::from_u64(6));
        assert_eq!(map.insert(&[one.0], &[one.1]).unwrap(), [Outcome::Inserted], "{}", kind.name);
        assert_eq!(contents(&map), BTreeMap::from([one]), "{}", kind.name);
    }
    every_kind!(device, case);
}

/// Four threads insert at once, each its own keys and some that all share, while the table grows under them.
pub fn threads_share_a_growing_map(device: &Device) {
    fn case<K: Key, V: Value>(kind: &Kind<K, V>) {
        let map = kind.builder().capacity(1).build().unwrap();
        let inserted = std::sync::Mutex::new(0);
        let work = &|thread: u64| {
            for part in 0..5 {
                let own = (0..20).map(|n| (1000 * (thread + 1) + part * 20 + n, thread));
                let (keys, values) = kind.pairs(own.chain((0..10).map(|n| (n, thread))));
                let outcomes = map.insert(&keys, &values).unwrap();
                let new = outcomes.iter().filter(|&&outcome| outcome == Outcome::Inserted).count();
                *inserted.lock().unwrap() += new;
                assert!(map.get(&keys).unwrap().iter().all(Option::is_some), "{}", kind.name);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || work(thread)))));
        assert_eq!(contents(&map).len(), 410, "{}", kind.name);
        assert_eq!(inserted.into_inner().unwrap(), 410, "{}: each key is inserted once", kind.name);
    }
    every_kind!(device, case);
}
