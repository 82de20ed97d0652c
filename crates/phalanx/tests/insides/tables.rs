//! When a hash map grows, and when it does not.
use gpu::Device;
use phalanx::{HashMap, Map, Outcome};
use phalanx_kernels::hash_map::LONG;

/// A batch that repeats an insertion needs one slot.
#[test]
fn a_key_repeated_asks_for_room_once() {
    let device = Device::emulator(Default::default());
    let builder = HashMap::<u32, u32>::builder().device(&device).capacity(1000).max_probes(1);
    let map = builder.variant("double_64_2x4_u32_u32").build().unwrap();
    let slots = map.slots();
    let first =
        |key: &u32| simt::hash::reduce(phalanx_kernels::keyed::hash(*key).first, slots as u32 / 8) == 0;
    let same: Vec<u32> = (0..).filter(first).take(9).collect();
    map.insert(&same[..8], &same[..8]).unwrap();
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
    map.insert(&keys, &keys).unwrap();
    let before = (map.rebuilds_and_tombstones().unwrap().0, map.slots());
    assert_eq!(map.remove(&[7]).unwrap(), [true]);
    assert!(map.rebuilds_and_tombstones().unwrap().1 == 1 && map.load_factor().unwrap() > 0.9499);
    assert_eq!((map.rebuilds_and_tombstones().unwrap().0, map.slots()), before);
}

/// Inserts and removes one key repeatedly: its probe sequence must not become long, and memory must not be
/// used up.
#[test]
fn a_key_that_comes_and_goes_keeps_a_short_walk() {
    let device = Device::emulator(Default::default());
    for (key, slots_of_walk) in [(7, LONG * 8 + 8), (u32::MAX, 16 / 2 * 8 + 8)] {
        let map = HashMap::<u32, u32>::builder().device(&device).capacity(5000).build().unwrap();
        let slots = map.slots();
        for round in 0..LONG * 8 + 100 {
            assert_eq!(map.insert(&[key], &[round]).unwrap(), [Outcome::Inserted]);
            assert_eq!(map.remove(&[key]).unwrap(), [true]);
            let (_, removed) = map.rebuilds_and_tombstones().unwrap();
            assert!(removed <= slots_of_walk as usize, "{key}, round {round}: {removed}");
        }
        assert_eq!(map.slots(), slots);
    }
}
