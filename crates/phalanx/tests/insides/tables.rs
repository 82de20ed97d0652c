//! When a hash map grows, and when it does not.
use gpu::Device;
use phalanx::{HashMap, Outcome, SlabHash};
use phalanx_kernels::hash_map::LONG;
use phalanx_kernels::keyed::{Scalar, hash};
use simt::hash::reduce;

/// Returns `count` keys whose first bucket of `buckets` is 0 under the seed 0.
fn colliding<K: Scalar>(count: usize, buckets: u32) -> Vec<K> {
    let is_first = |key: &K| reduce(hash(*key, 0).first, buckets) == 0;
    (0..).map(K::from_u64).filter(is_first).take(count).collect()
}

/// Keys that share a bucket under one seed lie apart under others, also after growth and in a copy that was
/// saved.
#[test]
fn keys_collide_under_one_seed_and_not_under_another() {
    fn placed<K: phalanx::map::Word>(seed: u64, slots_per_bucket: usize) -> usize {
        let device = Device::emulator(Default::default());
        let builder = || HashMap::<K, u32>::builder().device(&device).max_probes(1).seed(seed);
        let map = builder().capacity(10_000).growth(phalanx::hash_map::Growth::Fixed).build().unwrap();
        let keys = colliding::<K>(100, (map.slots() / slots_per_bucket) as u32);
        let outcomes = map.insert(&keys, &(0..100).collect::<Vec<u32>>()).unwrap();
        let mut file = Vec::new();
        map.save(&mut file).unwrap();
        let mut loaded = HashMap::<K, u32>::load(&file[..], builder().seed(!seed)).unwrap();
        loaded.reserve(50_000).unwrap();
        let found = loaded.get(&keys).unwrap();
        let expected = outcomes.iter().enumerate();
        let expected = expected.map(|(i, outcome)| (*outcome == Outcome::Inserted).then_some(i as u32));
        assert_eq!(found, expected.collect::<Vec<_>>());
        found.iter().flatten().count()
    }
    assert_eq!((placed::<u32>(0, 8), placed::<u64>(0, 4)), (8, 4));
    for seed in [1, 2, u64::MAX] {
        assert!(placed::<u32>(seed, 8) > 95, "u32, seed {seed}");
        assert!(placed::<u64>(seed, 4) > 95, "u64, seed {seed}");
    }
}

/// As above, for slab lists: keys in one list have many slabs.
#[test]
fn keys_share_a_list_under_one_seed_and_not_under_another() {
    let device = Device::emulator(Default::default());
    let slabs = |seed: u64| {
        let builder = SlabHash::<u32, u32>::builder().device(&device).seed(seed);
        let mut map = builder.buckets(256).slabs(64).build().unwrap();
        let keys = colliding::<u32>(300, 256);
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        map.rehash(512).unwrap();
        assert!(map.get(&keys).unwrap().iter().all(Option::is_some));
        map.rehash(256).unwrap();
        map.stats().unwrap().live
    };
    assert_eq!((slabs(0), slabs(1)), (300_usize.div_ceil(15) - 1, 0));
}

/// A batch that repeats an insertion needs one slot.
#[test]
fn a_key_repeated_asks_for_room_once() {
    let device = Device::emulator(Default::default());
    let builder = HashMap::<u32, u32>::builder().device(&device).capacity(1000).max_probes(1);
    let map = builder.variant("double_64_2x4_u32_u32").build().unwrap();
    let slots = map.slots();
    let same = colliding::<u32>(9, slots as u32 / 8);
    assert!(map.insert(&same[..8], &same[..8]).unwrap().all_placed());
    assert_eq!(map.slots(), slots, "eight have room in their bucket");
    let again = vec![same[8]; 100_000];
    let outcomes = map.insert(&again, &again).unwrap();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Inserted).count(), 1);
    assert!(map.slots() > slots && map.slots() < slots * 4, "{} slots of {slots}", map.slots());
}

/// Probe sequences of 32 buckets are no reason for a rehash: about one insertion in 7000 has one here.
#[test]
fn a_full_map_is_not_rehashed_for_one_removal() {
    let device = Device::emulator(Default::default());
    let builder = HashMap::<u64, u64>::builder().device(&device).variant("double_64_2x2_u64_u64");
    let map = builder.capacity(60_000).load_factor(0.95).build().unwrap();
    let keys: Vec<u64> = (0..map.capacity() as u64).collect();
    assert!(map.insert(&keys, &keys).unwrap().all_placed());
    let before = (map.rebuilds_and_tombstones().unwrap().0, map.slots());
    assert_eq!(map.remove(&[7]).unwrap(), [true]);
    assert!(map.rebuilds_and_tombstones().unwrap().1 == 1 && map.load_factor().unwrap() > 0.9499);
    assert_eq!((map.rebuilds_and_tombstones().unwrap().0, map.slots()), before);
}

/// Inserts and removes one key repeatedly: its probe sequence must not become long, and memory must not be
/// used up. A call looks for long sequences once a sixteenth of the slots may have changed.
#[test]
fn a_key_that_comes_and_goes_keeps_a_short_walk() {
    let device = Device::emulator(Default::default());
    for (key, slots_of_walk) in [(7, LONG * 8 + 8), (u32::MAX, 16 / 2 * 8 + 8)] {
        let map = HashMap::<u32, u32>::builder().device(&device).capacity(5000).build().unwrap();
        let slots = map.slots();
        let most = slots_of_walk as usize + slots / 16;
        for round in 0..3 * LONG * 8 {
            assert_eq!(map.insert(&[key], &[round]).unwrap(), [Outcome::Inserted]);
            assert_eq!(map.remove(&[key]).unwrap(), [true]);
            let (_, removed) = map.rebuilds_and_tombstones().unwrap();
            assert!(removed <= most, "{key}, round {round}: {removed}");
        }
        assert_eq!(map.slots(), slots);
    }
}

#[test]
fn a_large_batch_rehashes_once_and_only_for_new_keys() {
    let device = Device::emulator(Default::default());
    let map = HashMap::<u32, u32>::builder().device(&device).capacity(100).build().unwrap();
    let keys: Vec<u32> = (0..40_000u32).map(|n| n.wrapping_mul(0x9e37_79b1)).collect();
    let state = |map: &HashMap<u32, u32>| (map.rebuilds_and_tombstones().unwrap().0, map.slots());
    let few: Vec<u32> = (0..9000).map(|n| n % 10).collect();
    assert_eq!(map.insert(&few, &few).unwrap().iter().filter(|&&o| o == Outcome::Inserted).count(), 10);
    let small = state(&map);
    assert_eq!(small.0, 0, "ten distinct keys");
    assert!(map.insert(&keys, &keys).unwrap().all_placed());
    let large = state(&map);
    assert_eq!(large.0, 1);
    assert!(large.1 < 40_000 * 10 / 8 * 11 / 10, "{} slots", large.1);
    // The table is as full as it may be; a batch of present keys is no reason to rehash.
    let more: Vec<u32> = (0..(large.1 * 9 / 10 - 40_020) as u32).map(|n| n * 3 + 1_000_000).collect();
    assert!(map.insert_new(&more, &more).unwrap().all_placed());
    let full = state(&map);
    assert!(map.insert(&keys, &keys).unwrap().iter().all(|&outcome| outcome == Outcome::Replaced));
    assert_eq!(state(&map), full);
    assert_eq!(map.len().unwrap(), 40_010 + more.len() - shared(&keys, &more));
}

/// Returns the number of keys of `more` that are in `keys` or below 10.
fn shared(keys: &[u32], more: &[u32]) -> usize {
    let keys: std::collections::HashSet<u32> = keys.iter().copied().chain(0..10).collect();
    10 + 40_000 - keys.len() + more.iter().filter(|key| keys.contains(key)).count()
}
