//! Maps with a cache: all verbs of a model, readers and refreshes beside writers, and the choice of pairs.
use crate::common::Rng;
use crate::model::{Numbered, compare};
use crate::{device, folder};
use phalanx::persistent_map::{Builder, CachePolicy, CacheSize, CacheStats, Durability, Plain, Storage};
use phalanx::{Device, Error, Outcome, PersistentMap};
use std::sync::Mutex;

const POLICIES: [CachePolicy; 3] = [CachePolicy::Lfu, CachePolicy::Lru, CachePolicy::Random];

fn cached<K: Plain, V: Plain>(policy: CachePolicy, share: f64) -> Builder<K, V> {
    let builder = PersistentMap::<K, V>::builder().storage(Storage::Pinned).counts_cache_hits(true);
    builder.cache(policy, CacheSize::Share(share))
}

fn stats<K: Plain, V: Plain>(map: &PersistentMap<K, V>) -> CacheStats {
    map.stats().unwrap().cache.expect("a cache")
}

/// Refreshes the cache, and waits.
fn refresh<K: Plain, V: Plain>(map: &PersistentMap<K, V>) {
    map.refresh_cache().unwrap();
    map.device().synchronize().unwrap();
}

/// Returns the hits and misses of a lookup of keys that are present.
fn hits(map: &PersistentMap<u64, u64>, keys: &[u64]) -> (u64, u64) {
    let before = stats(map);
    assert!(map.get(keys).unwrap().iter().zip(keys).all(|(&found, &key)| found == Some(value(key))));
    let after = stats(map);
    (after.hits - before.hits, after.misses - before.misses)
}

fn value(key: u64) -> u64 {
    key.wrapping_mul(7) ^ 5
}

/// Returns a map with the keys from 0 to `count` - 1.
fn filled(builder: Builder<u64, u64>, count: u64) -> PersistentMap<u64, u64> {
    let map = builder.capacity(count as usize).seed(3).device(&device()).build().unwrap();
    let keys: Vec<u64> = (0..count).collect();
    let values: Vec<u64> = keys.iter().copied().map(value).collect();
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    map
}

fn all_verbs<K: Numbered, V: Numbered>() {
    for policy in POLICIES {
        let builder = cached::<K, V>(policy, 0.3).capacity(600).refresh_every(3).device(&device());
        let map = builder.build().unwrap();
        compare(&map, 11, (24, 400));
        assert!(stats(&map).hits > 300 && stats(&map).misses > 300, "{policy:?}: {:?}", stats(&map));
    }
}

#[test]
fn all_verbs_on_small_pairs() {
    all_verbs::<u64, u64>();
}

#[test]
fn all_verbs_on_other_pairs() {
    all_verbs::<u64, [u32; 3]>();
    all_verbs::<[u64; 4], [u32; 32]>();
}

/// Versions of a key's value that a thread reads never go back, and no value is torn.
fn beside_writers<V: Numbered>(policy: CachePolicy, version_of: fn(V) -> u64) {
    let device = Device::emulator(Default::default());
    let map = cached::<u64, V>(policy, 0.5).capacity(200).refresh_every(7).device(&device).build().unwrap();
    let (keys, written): (Vec<u64>, _) = ((0..150).collect(), Mutex::new(0));
    let values = |version: u64| vec![V::of(version); keys.len()];
    assert!(map.insert(&keys, &values(0)).unwrap().all_placed());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1..60 {
                assert_eq!(map.update(&keys, &values(version)).unwrap().count(Outcome::Replaced), 150);
                *written.lock().unwrap() = version;
                // A key that comes and goes takes slots that others have left.
                assert!(map.insert(&[1000], &[V::of(version)]).unwrap().all_placed());
                map.remove(&[1000]).unwrap();
            }
        });
        let mut last = vec![0; keys.len()];
        while last[0] < 59 {
            let before = *written.lock().unwrap();
            map.refresh_cache().unwrap();
            for (last, found) in last.iter_mut().zip(map.get(&keys).unwrap()) {
                let version = version_of(found.expect("a key that is never removed"));
                assert!(version >= before.max(*last), "{policy:?}: {version} after {last} and {before}");
                *last = version;
            }
        }
    });
    map.check().unwrap();
    // Without writers, the copies that a refresh makes stay until the lookup.
    map.refresh_cache().unwrap();
    map.device().synchronize().unwrap();
    assert!(map.get(&keys).unwrap().iter().all(Option::is_some) && stats(&map).hits > 0);
}

#[test]
fn small_pairs_beside_writers() {
    for policy in POLICIES {
        beside_writers::<u64>(policy, |value| {
            let inverse = 0xf1de_83e1_9937_733d_u64;
            assert_eq!(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(inverse), 1);
            value.wrapping_mul(inverse)
        });
    }
}

#[test]
fn other_pairs_beside_writers() {
    for policy in POLICIES {
        beside_writers::<[u32; 32]>(policy, |value| {
            let version = u64::from(value[0]);
            assert_eq!(value, <[u32; 32]>::of(version), "a torn value");
            version
        });
    }
}

#[test]
fn pairs_that_are_read_often_have_copies() {
    let map = filled(cached(CachePolicy::Lfu, 0.2), 2000);
    let hot: Vec<u64> = (0..200).collect();
    assert_eq!(hits(&map, &hot), (0, 200));
    let (mut rng, before) = (Rng::new(1), stats(&map).lines);
    for _ in 0..320 {
        let mut keys = hot.clone();
        keys.extend((0..100).map(|_| rng.below(2000)));
        // In random order: of 16 warps, one notes its reads.
        (1..keys.len()).rev().for_each(|at| keys.swap(at, rng.below(at as u64 + 1) as usize));
        map.get(&keys).unwrap();
    }
    refresh(&map);
    let (hit, missed) = hits(&map, &hot);
    assert!(hit > 180 && hit + missed == 200, "{hit}");
    let all: Vec<u64> = (0..2000).collect();
    let (hit, missed) = hits(&map, &all);
    // All lines have copies, as many as a fifth of the slots.
    assert!(hit as usize == before && hit + missed == 2000, "{hit} of {before}");
    assert!((0.19..=0.2).contains(&(before as f64 / map.capacity() as f64)), "{before}");
}

#[test]
fn pairs_that_were_read_last_have_copies() {
    let map = filled(cached(CachePolicy::Lru, 0.2), 2000);
    let (old, new): (Vec<u64>, Vec<u64>) = ((0..200).collect(), (1000..1200).collect());
    for set in [&old, &old, &old, &new] {
        // Each warp notes its reads once.
        (0..16).for_each(|_| assert_eq!(map.get(set).unwrap().len(), 200));
        refresh(&map);
    }
    let (hit, _) = hits(&map, &new);
    assert!(hit > 180, "{hit}");
    (0..16).for_each(|_| assert_eq!(map.get(&old).unwrap().len(), 200));
    refresh(&map);
    assert!(hits(&map, &old).0 > 180);
}

#[test]
fn random_pairs_have_copies() {
    let map = filled(cached(CachePolicy::Random, 0.25), 2000);
    let keys: Vec<u64> = (0..1000).collect();
    refresh(&map);
    // Two choices of a quarter of the slots, of which 90 % have items.
    let first = hits(&map, &keys).0;
    refresh(&map);
    assert!((200..360).contains(&first), "{first}");
    assert!((200..360).contains(&hits(&map, &keys).0));
}

/// A refresh takes effect although lookups have noted nothing yet.
#[test]
fn refreshes_by_number_of_batches() {
    let map = filled(cached(CachePolicy::Lfu, 0.5).refresh_every(4), 500);
    let keys: Vec<u64> = (0..500).collect();
    for _ in 0..3 {
        assert_eq!(hits(&map, &keys).0, 0);
    }
    map.contains_key(&keys).unwrap();
    map.device().synchronize().unwrap();
    assert!(hits(&map, &keys).0 > 200);
}

#[test]
fn changes_of_cached_pairs_are_seen() {
    fn play<V: Numbered>(policy: CachePolicy) {
        let map = cached::<u64, V>(policy, 0.6).capacity(300).device(&device()).build().unwrap();
        let keys: Vec<u64> = (0..300).collect();
        let values = |version: u64| keys.iter().map(|&key| V::of(key * 100 + version)).collect::<Vec<V>>();
        assert!(map.insert(&keys, &values(0)).unwrap().all_placed());
        for version in 1..6 {
            refresh(&map);
            assert_eq!(map.update(&keys, &values(version)).unwrap().count(Outcome::Replaced), 300);
            map.check().unwrap();
            assert!(map.get(&keys).unwrap().into_iter().eq(values(version).into_iter().map(Some)));
            refresh(&map);
            assert!(map.remove(&keys[100..200]).unwrap().iter().all(|&removed| removed));
            assert_eq!(map.get(&keys[100..200]).unwrap(), vec![None; 100]);
            map.check().unwrap();
            let again = &values(version)[100..200];
            assert!(map.insert(&keys[100..200], again).unwrap().all_placed());
            assert!(map.get(&keys).unwrap().into_iter().eq(values(version).into_iter().map(Some)));
        }
    }
    for policy in POLICIES {
        play::<u64>(policy);
        play::<[u32; 3]>(policy);
    }
}

#[test]
fn growth_compaction_and_clear_empty_the_cache() {
    let mut map = filled(cached(CachePolicy::Lfu, 0.5), 100);
    let keys: Vec<u64> = (0..100).collect();
    refresh(&map);
    assert!(hits(&map, &keys).0 > 30);
    map.reserve(1000).unwrap();
    let (grown, lines) = (map.capacity(), stats(&map).lines);
    assert!(lines * 10 >= grown * 4, "{lines} of {grown}");
    assert_eq!(hits(&map, &keys), (0, 100));
    refresh(&map);
    assert!(hits(&map, &keys).0 > 30);
    map.compact().unwrap();
    assert!(stats(&map).lines < lines / 4);
    assert_eq!(hits(&map, &keys), (0, 100));
    refresh(&map);
    assert!(hits(&map, &keys).0 > 30);
    map.check().unwrap();
    map.clear().unwrap();
    assert_eq!(map.get(&keys).unwrap(), vec![None; 100]);
    let values: Vec<u64> = keys.iter().copied().map(value).collect();
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    assert_eq!(hits(&map, &keys), (0, 100));
    refresh(&map);
    map.check().unwrap();
    assert!(hits(&map, &keys).0 > 30);
}

/// Pairs that move to other buckets lose their copies.
#[test]
fn moves_beside_a_cache() {
    let map = cached::<u64, u64>(CachePolicy::Random, 0.6).capacity(1000).grows(false).device(&device());
    let (map, mut placed) = (map.build().unwrap(), Vec::new());
    for part in 0..300u64 {
        let keys: Vec<u64> = (part * 4..part * 4 + 4).collect();
        let values: Vec<u64> = keys.iter().copied().map(value).collect();
        let outcomes = map.insert(&keys, &values).unwrap();
        let inserted = keys.iter().zip(outcomes.iter()).filter(|(_, outcome)| **outcome == Outcome::Inserted);
        placed.extend(inserted.map(|(&key, _)| key));
        refresh(&map);
        map.check().unwrap();
    }
    assert!(placed.len() < 1200 && placed.len() * 100 > map.capacity() * 92);
    let (hit, missed) = hits(&map, &placed);
    assert!(hit > 400 && (hit + missed) as usize == placed.len());
}

#[test]
fn maps_in_files_have_caches() {
    let (folder, device) = (folder(), device());
    let path = folder.path().join("map");
    let builder = || {
        let builder = PersistentMap::<u64, u64>::builder().durability(Durability::Process).device(&device);
        builder.cache(CachePolicy::Lfu, CacheSize::Bytes(16 * 60)).counts_cache_hits(true)
    };
    let keys: Vec<u64> = (0..200).collect();
    let values: Vec<u64> = keys.iter().copied().map(value).collect();
    let map = builder().capacity(200).create(&path).unwrap();
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    refresh(&map);
    assert_eq!(hits(&map, &keys), (60, 140));
    let others: Vec<u64> = values.iter().map(|value| value ^ 1).collect();
    assert_eq!(map.update(&keys, &others).unwrap().count(Outcome::Replaced), 200);
    map.sync().unwrap();
    assert_eq!(map.update(&keys, &values).unwrap().count(Outcome::Replaced), 200);
    drop(map);
    let map = builder().open(&path).unwrap();
    map.check().unwrap();
    assert_eq!((hits(&map, &keys), stats(&map).lines), ((0, 200), 60));
    refresh(&map);
    assert_eq!(hits(&map, &keys), (60, 140));
}

#[test]
fn memory_of_a_cache() {
    let build = |builder: Builder<u64, u64>| builder.capacity(5000).device(&device()).build().unwrap();
    let plain = build(PersistentMap::builder().storage(Storage::Pinned));
    assert_eq!(plain.stats().unwrap().cache, None);
    let map = build(cached(CachePolicy::Lru, 0.2));
    let (lines, slots) = (stats(&map).lines, map.capacity());
    // Copies of 16 bytes, a byte of heat for each of 32 slots a group, of which 24 are used, and two counts.
    assert_eq!(map.memory_usage(), plain.memory_usage() + lines * 16 + slots / 24 * 32 + 16);
    // At most 15 of 24 slots have copies.
    assert_eq!(stats(&build(cached(CachePolicy::Random, 1.0))).lines, slots / 24 * 15);
    let none = build(cached(CachePolicy::Lfu, 0.0));
    assert_eq!(stats(&none).lines, 0);
    refresh(&none);
    assert_eq!(none.get(&[1]).unwrap(), [None]);
}

#[test]
fn wrong_options() {
    let built = |builder: Builder<u64, u64>| builder.device(&device()).build();
    let size = CacheSize::Share(0.2);
    let in_device = built(PersistentMap::builder().cache(CachePolicy::Lfu, size));
    assert!(matches!(in_device, Err(Error::Cache(_))), "{in_device:?}");
    for share in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let wrong = built(cached(CachePolicy::Lfu, share));
        assert!(matches!(wrong, Err(Error::Cache(_))), "{wrong:?}");
    }
    let many = PersistentMap::builder().storage(Storage::Pinned);
    let many = built(many.cache(CachePolicy::Lfu, CacheSize::Bytes(usize::MAX))).unwrap();
    assert_eq!(stats(&many).lines, many.capacity() / 24 * 15);
    let plain = built(PersistentMap::builder()).unwrap();
    assert!(matches!(plain.refresh_cache(), Err(Error::Cache(_))));
}

/// Kinds whose groups have no room for links.
#[test]
fn variants_without_caches() {
    for name in PersistentMap::<u64, u64>::variants() {
        let built = cached::<u64, u64>(CachePolicy::Lfu, 0.2).variant(name).device(&device()).build();
        let has_none = name.contains("4l") && name.starts_with("levels_4l") || name.contains("h4s");
        match built {
            Ok(map) => {
                assert!(!has_none, "{name}");
                compare(&map, 5, (8, 300));
                refresh(&map);
                compare_again(&map);
            }
            Err(error) => assert!(has_none && matches!(error, Error::Cache(_)), "{name}: {error}"),
        }
    }
}

fn compare_again(map: &PersistentMap<u64, u64>) {
    let (keys, values) = map.export().unwrap();
    let before = stats(map);
    assert!(map.get(&keys).unwrap().into_iter().eq(values.into_iter().map(Some)));
    assert!(stats(map).hits > before.hits);
    map.check().unwrap();
}
