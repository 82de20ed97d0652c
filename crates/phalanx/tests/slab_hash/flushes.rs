//! Lists are compacted, moved and emptied, and the slabs that they no longer need are free and blank.
use crate::common::seed;
use crate::{maps, sets, slots};
use gpu::Device;
use phalanx::Outcome;
use phalanx::map::Word;
use phalanx::slab_hash::{Builder, SlabHash};
use simt::hash::mix64;
use std::collections::BTreeMap;

/// Runs a case on every map variant.
macro_rules! every_kind {
    ($device:expr, $case:ident) => {
        maps::<u32, u32>($device).into_iter().for_each($case);
        maps::<u32, u64>($device).into_iter().for_each($case);
        maps::<u64, u32>($device).into_iter().for_each($case);
        maps::<u64, u64>($device).into_iter().for_each($case);
    };
}

/// Returns the map's pairs. Panics if an invariant is violated.
#[track_caller]
fn contents<K: Word, V: Word>(map: &SlabHash<K, V>) -> BTreeMap<K, V> {
    let pairs: BTreeMap<K, V> = map.iter().unwrap().collect();
    assert_eq!(pairs.len(), map.len().unwrap(), "{}", map.variant());
    map.validate().unwrap_or_else(|error| panic!("{}: {error}", map.variant()));
    pairs
}

/// Returns the number of slabs behind the head that a list with `pairs` used slots needs.
fn behind(pairs: usize, slots: usize) -> usize {
    pairs.div_ceil(slots).max(1) - 1
}

/// Inserts 400 keys, none of which is reserved, and returns them.
fn fill<K: Word, V: Word>(map: &SlabHash<K, V>, salt: u64) -> Vec<K> {
    let keys: BTreeMap<K, ()> =
        (0..400).map(|n| (K::from_u64(mix64(seed() * 1000 + salt + n) >> 33), ())).collect();
    let keys: Vec<K> = keys.into_keys().collect();
    let values: Vec<V> = keys.iter().map(|key| V::from_u64(key.to_u64() / 2)).collect();
    assert_eq!(map.insert(&keys, &values).unwrap(), vec![Outcome::Inserted; keys.len()]);
    keys
}

/// Returns the number of keys in each bucket.
fn by_bucket<K: Word, V: Word>(map: &SlabHash<K, V>, keys: &[K]) -> Vec<usize> {
    let mut counts = vec![0; map.buckets() as usize];
    keys.iter().for_each(|&key| counts[map.bucket_of(key) as usize] += 1);
    counts
}

pub fn flushes_give_back_what_is_not_needed(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabHash<K, V>>) {
        let mut map = builder.buckets(5).slabs(1).build().unwrap();
        let keys = fill(&map, 0);
        let name = map.variant().to_owned();
        let slots = slots(&name);
        let (gone, left) = keys.split_at(keys.len() * 3 / 4);
        assert!(map.remove(gone).unwrap().into_iter().all(|removed| removed));
        let model = contents(&map);
        assert_eq!(model.keys().copied().collect::<Vec<_>>(), left, "{name}");
        let (had, has) = (by_bucket(&map, &keys), by_bucket(&map, left));
        let mut live: Vec<usize> = had.iter().map(|&pairs| behind(pairs, slots)).collect();
        for buckets in [&[][..], &[2], &[2], &[0, 4, 0], &[4, 3, 2, 1, 0]] {
            map.flush(buckets).unwrap();
            buckets.iter().for_each(|&bucket| live[bucket as usize] = behind(has[bucket as usize], slots));
            assert_eq!(map.stats().unwrap().live, live.iter().sum(), "{name}: {buckets:?} flushed");
            assert_eq!(contents(&map), model, "{name}: {buckets:?} flushed");
        }
        // Reclaimed slabs are blank: pairs can be inserted as in a new map.
        let again: Vec<V> = gone.iter().map(|key| V::from_u64(key.to_u64() / 2)).collect();
        assert_eq!(map.insert(gone, &again).unwrap(), vec![Outcome::Inserted; gone.len()], "{name}");
        assert_eq!(contents(&map).into_keys().collect::<Vec<_>>(), keys, "{name}");
        let needed: usize = had.iter().map(|&pairs| behind(pairs, slots)).sum();
        assert_eq!(map.stats().unwrap().live, needed, "{name}: the places of removed keys are used again");
        map.flush_all().unwrap();
        assert_eq!(map.stats().unwrap().live, needed, "{name}: nothing to give back");
        assert_eq!(contents(&map).into_keys().collect::<Vec<_>>(), keys, "{name}");
    }
    every_kind!(device, case);
}

/// The list of reserved keys follows the others and belongs to no bucket: only a flush of everything compacts
/// it.
pub fn the_list_of_topmost_keys_is_packed(device: &Device) {
    fn case(builder: Builder<SlabHash<u32, u32>>) {
        let mut map = builder.buckets(2).build().unwrap();
        for round in 0..100 {
            assert_eq!(
                map.insert(&[u32::MAX, u32::MAX - 1], &[round, round]).unwrap(),
                [Outcome::Inserted; 2]
            );
            assert_eq!(map.remove(&[u32::MAX, u32::MAX - 1]).unwrap(), [true; 2]);
        }
        let behind = behind(200, slots(map.variant()));
        assert_eq!(map.stats().unwrap().live, behind, "{}", map.variant());
        map.flush(&[0, 1]).unwrap();
        assert_eq!(map.stats().unwrap().live, behind, "{}", map.variant());
        assert_eq!(map.insert(&[u32::MAX], &[7]).unwrap(), [Outcome::Inserted]);
        map.flush_all().unwrap();
        assert_eq!(map.stats().unwrap().live, 0, "{}", map.variant());
        assert_eq!(contents(&map), BTreeMap::from([(u32::MAX, 7)]), "{}", map.variant());
    }
    maps::<u32, u32>(device).into_iter().for_each(case);
}

pub fn sets_are_flushed(device: &Device) {
    for builder in sets::<u32>(device) {
        let mut set = builder.buckets(2).slabs(1).build().unwrap();
        let keys: Vec<u32> = (0..500).collect();
        assert!(set.insert(&keys).unwrap().all_placed());
        let slots = slots(set.variant());
        let behind = |keys: &[u32]| -> usize {
            (0..2)
                .map(|bucket| behind(keys.iter().filter(|key| set.bucket_of(**key) == bucket).count(), slots))
                .sum()
        };
        let (all, some) = (behind(&keys), behind(&keys[450..]));
        assert!(set.remove(&keys[..450]).unwrap().into_iter().all(|removed| removed));
        assert_eq!(set.stats().unwrap().live, all, "{}", set.variant());
        set.flush_all().unwrap();
        assert_eq!(set.stats().unwrap().live, some, "{}", set.variant());
        set.validate().unwrap();
        assert!(set.insert(&keys).unwrap().all_placed());
        assert_eq!((set.len().unwrap(), set.stats().unwrap().live), (500, all), "{}", set.variant());
        set.validate().unwrap();
    }
}

pub fn rehashes_move_everything(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabHash<K, V>>) {
        let mut map = builder.buckets(5).slabs(1).build().unwrap();
        let mut keys = fill(&map, 1 << 40);
        assert!(map.remove(&keys[..50]).unwrap().into_iter().all(|removed| removed));
        keys.drain(..50);
        let top = [K::from_u64(u64::MAX), K::from_u64(u64::MAX - 1)];
        assert_eq!(map.insert(&top, &[V::from_u64(1), V::from_u64(2)]).unwrap(), [Outcome::Inserted; 2]);
        let model = contents(&map);
        for buckets in [5, 1, 200, 3, 7] {
            map.rehash(buckets).unwrap();
            assert_eq!(map.buckets(), buckets);
            assert_eq!(contents(&map), model, "{}: {buckets} buckets", map.variant());
            let lists = by_bucket(&map, &keys);
            let live: usize = lists.iter().map(|&pairs| behind(pairs, slots(map.variant()))).sum();
            // In slots of 16 bytes, no 32-bit key equals a slot state: the topmost keys are among the others.
            let most = live + if K::BITS == 32 && V::BITS == 64 { 2 } else { 0 };
            let found = map.stats().unwrap().live;
            assert!((live..=most).contains(&found), "{}: {found} slabs in {buckets} buckets", map.variant());
            assert_eq!(
                map.get(&keys).unwrap(),
                keys.iter().map(|key| model.get(key).copied()).collect::<Vec<_>>()
            );
            assert_eq!(map.get(&top).unwrap(), [Some(V::from_u64(1)), Some(V::from_u64(2))]);
        }
    }
    every_kind!(device, case);
}

pub fn cleared_lists_have_no_slabs(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabHash<K, V>>) {
        let mut map = builder.buckets(5).slabs(1).build().unwrap();
        for round in 0..3 {
            let keys = fill(&map, round << 40);
            let stats = map.stats().unwrap();
            assert!(stats.live > 5, "{}: {stats:?}", map.variant());
            map.clear().unwrap();
            let now = map.stats().unwrap();
            assert_eq!((now.live, now.free, now.faults), (0, stats.capacity, 0), "{}", map.variant());
            assert!(contents(&map).is_empty());
            assert_eq!(map.get(&keys).unwrap(), vec![None; keys.len()], "{}", map.variant());
        }
    }
    every_kind!(device, case);
}
