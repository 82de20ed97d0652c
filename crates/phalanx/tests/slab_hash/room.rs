//! Pools that fill up, grow, or must not grow.
use crate::common::{no_room, outcomes};
use crate::{maps, multi_maps, sets, slots};
use gpu::Device;
use phalanx::map::Word;
use phalanx::slab_hash::{Builder, Growth, SlabHash, SlabMultiMap};
use phalanx::{Error, Outcome};
use std::collections::BTreeMap;

/// Runs a case on every map variant for keys and values of the same size.
macro_rules! every_kind {
    ($device:expr, $case:ident) => {
        maps::<u32, u32>($device).into_iter().for_each($case);
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

fn columns<K: Word, V: Word>(numbers: std::ops::Range<u64>) -> (Vec<K>, Vec<V>) {
    numbers.map(|n| (K::from_u64(n), V::from_u64(n + 7))).unzip()
}

/// Returns the number of outcomes that equal `outcome`.
fn count(outcomes: &[Outcome], outcome: Outcome) -> usize {
    outcomes.iter().filter(|&&other| other == outcome).count()
}

pub fn a_fixed_pool_refuses_and_loses_nothing(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabHash<K, V>>) {
        let mut map = builder.buckets(1).slabs(1).growth(Growth::Fixed).build().unwrap();
        let name = map.variant().to_owned();
        let room = 33 * slots(&name);
        let (keys, values) = columns::<K, V>(0..room as u64 + 300);
        let first = map.insert(&keys, &values).unwrap();
        assert_eq!(count(&first, Outcome::Inserted) + count(&first, Outcome::Refused), keys.len(), "{name}");
        holds_what_it_said(&map, &keys, &values, &first);
        // Another thread may have held the last slab during an attempt. In the end every slot is used.
        let second = map.insert(&keys, &values).unwrap();
        for (first, second) in first.iter().zip(&second) {
            assert!(
                *first == Outcome::Refused || *second == Outcome::Replaced,
                "{name}: {first:?}, {second:?}"
            );
        }
        assert_eq!((map.len().unwrap(), map.stats().unwrap().free), (room, 0), "{name}");
        let third = map.insert_new(&keys, &values).unwrap();
        assert_eq!((count(&third, Outcome::Found), count(&third, Outcome::Refused)), (room, 300), "{name}");
        holds_what_it_said(&map, &keys, &values, &third);
        let out = third.iter().position(|&outcome| outcome == Outcome::Refused).unwrap();
        assert_eq!(map.get_or_insert(&keys[out..=out], &values[..1]).unwrap(), [None], "{name}");
        // Tombstones are not reused before a flush.
        let gone: Vec<K> = contents(&map).into_keys().take(room / 2).collect();
        assert!(map.remove(&gone).unwrap().into_iter().all(|removed| removed), "{name}");
        assert_eq!(map.insert(&gone[..1], &values[..1]).unwrap(), [Outcome::Refused], "{name}");
        map.flush_all().unwrap();
        assert!(map.insert(&gone, &values[..gone.len()]).unwrap().all_placed());
        assert!(map.insert(&gone, &values[..gone.len()]).unwrap().all_placed());
        assert_eq!(contents(&map).len(), room, "{name}");
    }
    every_kind!(device, case);
}

/// Checks that the inserted or found keys are present with their values, that refused keys are absent, and
/// that the map is valid.
fn holds_what_it_said<K: Word, V: Word>(map: &SlabHash<K, V>, keys: &[K], values: &[V], said: &[Outcome]) {
    let is_there = |index: &usize| said[*index] != Outcome::Refused;
    let expected: BTreeMap<K, V> =
        (0..keys.len()).filter(is_there).map(|index| (keys[index], values[index])).collect();
    assert_eq!(contents(map), expected, "{}", map.variant());
    let found = map.get(keys).unwrap();
    for (index, found) in found.into_iter().enumerate() {
        assert_eq!(found, is_there(&index).then_some(values[index]), "{}: key {index}", map.variant());
    }
}

/// One slab is left, and several tiles of a warp request it at once for the same list. It has space for all
/// of them.
pub fn the_last_slab_serves_all_that_want_it(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabHash<K, V>>) {
        let map = builder.buckets(1).slabs(1).growth(Growth::Fixed).build().unwrap();
        let slots = slots(map.variant()) as u64;
        for part in 0..32 {
            let (keys, values) = columns::<K, V>(part * slots..(part + 1) * slots);
            assert_eq!(
                map.insert(&keys, &values).unwrap(),
                vec![Outcome::Inserted; keys.len()],
                "{}",
                map.variant()
            );
        }
        assert_eq!(map.stats().unwrap().free, 1);
        let (keys, values) = columns::<K, V>(32 * slots..33 * slots);
        let said = map.insert(&keys, &values).unwrap();
        assert_eq!(count(&said, Outcome::Refused), 0, "{}", map.variant());
        assert_eq!(contents(&map).len() as u64, 33 * slots, "{}", map.variant());
    }
    every_kind!(device, case);
}

pub fn a_budget_is_reached_and_kept(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabHash<K, V>>) {
        let sizing = builder.clone().build().unwrap();
        let slots = slots(sizing.variant());
        let bytes = (slots + 1) * if (K::BITS, V::BITS) == (32, 32) { 8 } else { 16 };
        let map = builder.buckets(2).slabs(1).super_block_slabs(32).budget(96 * bytes).build().unwrap();
        let (keys, values) = columns::<K, V>(0..98 * slots as u64 + 500);
        let said = no_room(map.insert(&keys, &values));
        let stats = map.stats().unwrap();
        assert_eq!((stats.capacity, stats.free, stats.faults), (96, 0, 0), "{}", map.variant());
        // Each list has at most one slab with free slots, and only if several tiles requested the last slabs
        // at once.
        let inserted = count(&said, Outcome::Inserted);
        assert!(inserted > 96 * slots && inserted <= 98 * slots, "{}: {inserted}", map.variant());
        assert_eq!(count(&said, Outcome::Refused), keys.len() - inserted, "{}", map.variant());
        holds_what_it_said(&map, &keys, &values, &said);
    }
    every_kind!(device, case);
}

pub fn pools_grow_as_they_must(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabHash<K, V>>) {
        let map = builder.buckets(40).slabs(1).build().unwrap();
        let first = map.stats().unwrap().capacity;
        for part in 0..3 {
            let (keys, values) = columns::<K, V>(part * 1500..(part + 1) * 1500);
            assert_eq!(
                map.insert(&keys, &values).unwrap(),
                vec![Outcome::Inserted; 1500],
                "{}",
                map.variant()
            );
        }
        let (keys, values) = columns::<K, V>(0..4500);
        assert_eq!(contents(&map), keys.into_iter().zip(values).collect(), "{}", map.variant());
        let now = map.stats().unwrap();
        assert!(now.capacity > first && now.capacity < 6 * now.live, "{}: {now:?}", map.variant());
    }
    every_kind!(device, case);
    let set = sets::<u64>(device).remove(0).buckets(3).slabs(1).build().unwrap();
    let (keys, _) = columns::<u64, u64>(0..3000);
    assert_eq!(set.insert(&keys).unwrap(), vec![Outcome::Inserted; 3000]);
    set.validate().unwrap();
    let many = multi_maps::<u32, u32>(device).remove(0).buckets(3).slabs(1).build().unwrap();
    assert_eq!(many.insert(&[5; 3000], &[1; 3000]).unwrap(), vec![Outcome::Inserted; 3000]);
    assert_eq!(many.count(&[5]).unwrap(), [3000]);
    many.validate().unwrap();
}

/// The map is filled to its capacity, and uses no more slabs than the builder has allocated.
pub fn lists_have_the_utilisation_asked_for(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabHash<K, V>>) {
        for wanted in [0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9] {
            let builder = builder.clone().capacity(4000).utilisation(wanted).growth(Growth::Fixed);
            let map = match builder.build() {
                Ok(map) => map,
                Err(Error::Utilisation { most, .. }) if most < 0.9 && wanted > most => continue,
                Err(error) => panic!("{wanted}: {error}"),
            };
            let (keys, values): (Vec<K>, Vec<V>) = (0..4000)
                .map(|n: u64| (K::from_u64(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)), V::from_u64(n)))
                .unzip();
            let refused = count(&map.insert(&keys, &values).unwrap(), Outcome::Refused);
            assert_eq!(refused, 0, "{}: at {wanted} the pool was too small", map.variant());
            let reached = map.utilisation().unwrap();
            assert!(
                (wanted - 0.03..wanted + 0.03).contains(&reached),
                "{}: {reached} for {wanted}",
                map.variant()
            );
        }
    }
    every_kind!(device, case);
}

/// The pool has enough slabs for the lists, but not for a second copy.
pub fn a_rehash_that_has_no_room_changes_nothing(device: &Device) {
    fn case<K: Word, V: Word>(builder: Builder<SlabHash<K, V>>) {
        let slots = slots(builder.clone().build().unwrap().variant());
        let bytes = (slots + 1) * if (K::BITS, V::BITS) == (32, 32) { 8 } else { 16 };
        let mut map = builder.buckets(2).slabs(1).super_block_slabs(32).budget(32 * bytes).build().unwrap();
        let (keys, values) = columns::<K, V>(0..22 * slots as u64);
        assert_eq!(
            map.insert(&keys, &values).unwrap(),
            vec![Outcome::Inserted; keys.len()],
            "{}",
            map.variant()
        );
        let (model, stats) = (contents(&map), map.stats().unwrap());
        let refused = map.rehash(1).unwrap_err();
        assert!(matches!(refused, Error::Budget { .. }), "{}: {refused}", map.variant());
        assert_eq!((map.buckets(), map.stats().unwrap()), (2, stats), "{}", map.variant());
        assert_eq!(contents(&map), model, "{}", map.variant());
        // With many lists, the heads alone are sufficient.
        map.rehash(1000).unwrap();
        assert_eq!(contents(&map), model, "{}", map.variant());
        assert_eq!(map.stats().unwrap().live, 0, "{}", map.variant());
    }
    every_kind!(device, case);
}

/// Number of pairs that exceeds two thousand heads and the maximum of slabs in a pool that begins with the
/// minimum, 255 super blocks of 32.
const MANY: u64 = 90_000;

/// Sets parameters that [`MANY`] pairs outgrow.
fn outgrown<T>(builder: Builder<T>, device: &Device) -> Builder<T> {
    builder.device(device).buckets(2000).slabs(1)
}

pub fn pools_that_cannot_grow_are_exchanged(device: &Device) {
    let map = outgrown(SlabHash::<u64, u64>::builder(), device).build().unwrap();
    let (keys, values) = columns::<u64, u64>(0..MANY);
    for (keys, values) in keys.chunks(30_000).zip(values.chunks(30_000)) {
        assert_eq!(map.insert(keys, values).unwrap(), vec![Outcome::Inserted; keys.len()]);
    }
    assert!(map.stats().unwrap().capacity > 255 * 32, "{:?}", map.stats());
    assert_eq!(contents(&map), keys.into_iter().zip(values).collect());
}

/// A larger pool would exceed the budget.
pub fn a_budget_is_kept_where_pools_cannot_grow(device: &Device) {
    let budget = 255 * 32 * 128;
    let map = outgrown(SlabHash::<u64, u64>::builder(), device).budget(budget).build().unwrap();
    let (keys, values) = columns::<u64, u64>(0..MANY);
    // Inserts batches until one is refused, because each refused pair searches the whole pool.
    let mut told = Vec::new();
    for (keys, values) in keys.chunks(1000).zip(values.chunks(1000)) {
        told.extend(outcomes(map.insert(keys, values)));
        if count(&told, Outcome::Refused) > 0 {
            break;
        }
    }
    assert!(count(&told, Outcome::Refused) > 0, "{:?}", map.stats());
    assert!(map.stats().unwrap().capacity <= 255 * 32, "{:?}", map.stats());
    holds_what_it_said(&map, &keys[..told.len()], &values[..told.len()], &told);
}

pub fn rehashes_move_to_larger_pools(device: &Device) {
    let mut map = outgrown(SlabHash::<u64, u64>::builder(), device).build().unwrap();
    let (keys, values) = columns::<u64, u64>(0..50_000);
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    assert!(map.stats().unwrap().capacity <= 255 * 32, "{:?}", map.stats());
    // Both tables together need more slabs than such a pool has.
    map.rehash(1500).unwrap();
    assert_eq!((map.buckets(), map.stats().unwrap().capacity > 255 * 32), (1500, true), "{:?}", map.stats());
    assert_eq!(contents(&map), keys.into_iter().zip(values).collect());
}

pub fn pools_of_many_values_a_key_are_exchanged(device: &Device) {
    let map = outgrown(SlabMultiMap::<u64, u64>::builder(), device).build().unwrap();
    let (keys, values): (Vec<u64>, Vec<u64>) = (0..MANY).map(|n| (n % 30_000, n)).unzip();
    // In order: one value of each key per call.
    for (keys, values) in keys.chunks(30_000).zip(values.chunks(30_000)) {
        assert_eq!(map.insert(keys, values).unwrap(), vec![Outcome::Inserted; keys.len()]);
    }
    assert!(map.stats().unwrap().capacity > 255 * 32, "{:?}", map.stats());
    assert_eq!(map.len().unwrap() as u64, MANY);
    let all = map.get_all(&keys[..30_000]).unwrap();
    assert!(all.iter().zip(0..).all(|(values, n)| values == [n, n + 30_000, n + 60_000]));
    map.validate().unwrap();
}
