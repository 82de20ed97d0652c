//! When slab lists grow, and the effect of a batch of codes.
use gpu::Device;
use phalanx::hash_map::OpCode;
use phalanx::slab_hash::Growth;
use phalanx::{Error, Outcome, SlabHash, SlabMultiMap, SlabSet};
use phalanx_kernels::slab::list::LONG;

/// A batch that repeats an insertion needs one slot; a batch that appends needs one per element.
#[test]
fn a_key_repeated_asks_for_room_once() {
    let device = Device::emulator(Default::default());
    let full: Vec<u32> = (0..15 * 33).collect();
    let map = SlabHash::<u32, u32>::builder().device(&device).buckets(1).slabs(1).build().unwrap();
    let many = SlabMultiMap::<u32, u32>::builder().device(&device).buckets(1).slabs(1).build().unwrap();
    assert!(map.insert(&full, &full).unwrap().all_placed());
    assert!(many.insert(&full, &full).unwrap().all_placed());
    let again = vec![1 << 20; 2000];
    assert!(map.insert(&again, &again).unwrap().all_placed());
    assert!(many.insert(&again, &again).unwrap().all_placed());
    let slabs = (map.stats().unwrap().capacity, many.stats().unwrap().live);
    assert!(slabs.0 < 80 && slabs.1 == (full.len() + 2000).div_ceil(15) - 1, "{slabs:?}");
}

/// Inserts and removes one key repeatedly: its list must not become long, and slabs must not be used up.
#[test]
fn a_key_that_comes_and_goes_keeps_a_short_list() {
    let device = Device::emulator(Default::default());
    let map = SlabHash::<u32, u32>::builder().device(&device).capacity(500).build().unwrap();
    for round in 0..1500 {
        assert_eq!(map.insert(&[7], &[round]).unwrap(), [Outcome::Inserted]);
        assert_eq!(map.remove(&[7]).unwrap(), [true]);
        assert!(map.stats().unwrap().live <= LONG as usize + 2, "round {round}");
    }
    map.validate().unwrap();
}

#[test]
fn a_pool_for_more_pairs_has_room_at_the_same_buckets() {
    let device = Device::emulator(Default::default());
    let keys: Vec<u32> = (0..6000).collect();
    let refused = |pairs: usize| {
        let builder = SlabHash::<u32, u32>::builder().device(&device).growth(Growth::Fixed);
        let map = builder.capacity(1000).pool_for(pairs).build().unwrap();
        let outcomes = map.insert(&keys, &keys).unwrap();
        let refused = outcomes.iter().filter(|outcome| **outcome == Outcome::Refused).count();
        (map.buckets(), refused)
    };
    let ((buckets, many), (same, none)) = (refused(0), refused(6000));
    assert!(many > 1000, "{many} refused");
    assert_eq!((same, none), (buckets, 0));
}

#[test]
fn a_mixed_batch_on_buffers_does_what_its_codes_say() {
    let device = Device::emulator(Default::default());
    let set = SlabSet::<u32>::builder().device(&device).build().unwrap();
    assert!(set.insert(&[1, 2, 3]).unwrap().all_placed());
    let codes = [OpCode::GET, OpCode::REMOVE, OpCode::INSERT_NEW, OpCode::INSERT_NEW, OpCode::GET];
    let bytes = codes.map(|code| code.code() as u8);
    let (codes, keys) = (device.from_slice(&bytes).unwrap(), device.from_slice(&[1, 2, 3, 4, 5]).unwrap());
    let mut outcomes = device.filled(5, 0xffu8).unwrap();
    let stream = device.stream().unwrap();
    set.on(&stream).execute(&codes, &keys, &mut outcomes).unwrap();
    let expected = [Outcome::Found, Outcome::Removed, Outcome::Found, Outcome::Inserted, Outcome::Absent];
    assert_eq!(outcomes.read().unwrap(), expected.map(|outcome| outcome as u8));
    assert_eq!(set.contains_key(&[1, 2, 3, 4, 5]).unwrap(), [true, false, true, true, false]);
    let few = device.from_slice(&bytes[..4]).unwrap();
    let error = set.on(&stream).execute(&few, &keys, &mut outcomes).unwrap_err();
    assert!(matches!(error, Error::Length { what: "codes", .. }), "{error}");
}

/// Returns the mean number of pairs per bucket.
fn load(map: &SlabHash<u32, u32>) -> f64 {
    map.len().unwrap() as f64 / f64::from(map.buckets())
}

/// Inserts keys into a map for 100, in batches of `batch`. Returns the map's mean number of pairs per bucket
/// at its capacity, and afterwards.
fn grown(device: &Device, batch: usize) -> (f64, f64) {
    let map = SlabHash::<u32, u32>::builder().device(device).capacity(100).build().unwrap();
    let usual = 100.0 / f64::from(map.buckets());
    let keys: Vec<u32> = (0..30_000u32).map(|n| n.wrapping_mul(0x9e37_79b1)).collect();
    for keys in keys.chunks(batch) {
        assert!(map.insert_new(keys, keys).unwrap().iter().all(|&outcome| outcome == Outcome::Inserted));
    }
    assert!(map.get(&keys).unwrap().iter().zip(&keys).all(|(found, key)| *found == Some(*key)));
    map.validate().unwrap();
    (usual, load(&map))
}

#[test]
fn a_map_that_begins_small_gets_more_buckets() {
    let device = Device::emulator(Default::default());
    for batch in [30_000, 7000, 500] {
        let (usual, load) = grown(&device, batch);
        assert!(load <= 2.2 * usual, "{load} pairs per bucket after batches of {batch}, {usual} are usual");
    }
}

#[test]
fn buckets_stay_when_they_are_set_or_keys_are_few() {
    let device = Device::emulator(Default::default());
    let keys: Vec<u32> = (0..9000).collect();
    let builder = || SlabHash::<u32, u32>::builder().device(&device);
    for builder in [builder().buckets(50), builder().capacity(400).growth(Growth::Pool)] {
        let map = builder.build().unwrap();
        let before = map.buckets();
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        assert_eq!(map.buckets(), before);
    }
    let map = builder().capacity(100).build().unwrap();
    let (before, few) = (map.buckets(), vec![7; 9000]);
    assert!(map.insert(&few, &few).unwrap().all_placed());
    assert_eq!(map.buckets(), before, "one key");
    let map = builder().buckets(50).growth(Growth::Buckets).build().unwrap();
    assert!(map.insert(&keys, &keys).unwrap().all_placed());
    assert!(map.buckets() > 50, "set, and told to grow");
}
