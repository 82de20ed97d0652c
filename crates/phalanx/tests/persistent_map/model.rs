//! All verbs, with keys and values of all sizes, against `std`'s map.
use crate::common::Rng;
use crate::device;
use phalanx::persistent_map::{Plain, Storage};
use phalanx::{Outcome, PersistentMap};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// A key or value made of a number, which is not the same for any two.
pub trait Numbered: Plain + Debug + PartialEq {
    fn of(number: u64) -> Self;
}

macro_rules! numbered {
    ($($type:ty: $number:ident => $make:expr;)*) => {$(
        impl Numbered for $type {
            fn of($number: u64) -> Self {
                $make
            }
        }
    )*};
}

/// Fills words by a number, a different one each.
fn words<const N: usize>(number: u64) -> [u32; N] {
    std::array::from_fn(|index| (number as u32).wrapping_mul(2 * index as u32 + 1) ^ index as u32)
}

numbered! {
    u64: number => number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The words of the key that differ come last.
    [u64; 2]: number => [7, number];
    [u64; 4]: number => [1, 2, 3, number];
    [u64; 8]: number => [0, 0, 0, 0, 0, 0, 0, number];
    [f32; 2]: number => [number as f32, 0.5];
    [u32; 3]: number => words(number);
    [u32; 32]: number => words(number);
    [u32; 256]: number => words(number);
}

/// Executes random batches on a map and on its model.
pub fn compare<K: Numbered, V: Numbered>(
    map: &PersistentMap<K, V>,
    seed: u64,
    (batches, keys): (usize, u64),
) {
    let (mut rng, mut model) = (Rng::new(seed), BTreeMap::<u64, u64>::new());
    for batch in 0..batches {
        // Distinct keys, in random order: their results do not depend on the order.
        let mut numbers: Vec<u64> = (0..keys).filter(|_| rng.below(3) == 0).collect();
        (1..numbers.len()).rev().for_each(|at| numbers.swap(at, rng.below(at as u64 + 1) as usize));
        let typed: Vec<K> = numbers.iter().map(|&number| K::of(number)).collect();
        let tags: Vec<u64> = numbers.iter().map(|&number| number + 1000 * (batch as u64 + 1)).collect();
        let values: Vec<V> = tags.iter().map(|&tag| V::of(tag)).collect();
        let mut expect = |absent, present, places: bool, replaces: bool| -> Vec<Outcome> {
            let outcome = |(&number, &tag): (&u64, &u64)| {
                let is_present = model.contains_key(&number);
                if is_present && replaces || !is_present && places {
                    model.insert(number, tag);
                }
                if is_present { present } else { absent }
            };
            numbers.iter().zip(&tags).map(outcome).collect()
        };
        match batch % 4 {
            0 => {
                let expected = expect(Outcome::Inserted, Outcome::Replaced, true, true);
                assert_eq!(map.insert(&typed, &values).unwrap(), expected);
            }
            1 => {
                let expected = expect(Outcome::Inserted, Outcome::Found, true, false);
                assert_eq!(map.insert_new(&typed, &values).unwrap(), expected);
            }
            2 => {
                let expected = expect(Outcome::Absent, Outcome::Replaced, false, true);
                assert_eq!(map.update(&typed, &values).unwrap(), expected);
            }
            _ => {
                let expected: Vec<_> = numbers.iter().map(|key| model.remove(key).is_some()).collect();
                assert_eq!(map.remove(&typed).unwrap(), expected);
            }
        }
        check(map, &model, keys);
    }
}

/// Requires that lookups, counts and an export agree with the model.
fn check<K: Numbered, V: Numbered>(map: &PersistentMap<K, V>, model: &BTreeMap<u64, u64>, keys: u64) {
    let all: Vec<K> = (0..keys).map(K::of).collect();
    let expected: Vec<Option<V>> = (0..keys).map(|key| model.get(&key).map(|&tag| V::of(tag))).collect();
    assert_eq!(map.get(&all).unwrap(), expected);
    let present: Vec<bool> = expected.iter().map(Option::is_some).collect();
    assert_eq!(map.contains_key(&all).unwrap(), present);
    assert_eq!(map.len().unwrap(), model.len());
    let (exported, values) = map.export().unwrap();
    assert_eq!(exported.len(), model.len());
    for (key, value) in exported.iter().zip(&values) {
        let index = all.iter().position(|other| other == key).expect("a key of the test");
        assert_eq!(expected[index], Some(*value));
    }
    map.check().unwrap();
}

fn all_verbs<K: Numbered, V: Numbered>(storage: Storage, variant: Option<&str>) {
    let builder = PersistentMap::<K, V>::builder().capacity(600).storage(storage).device(&device());
    let builder = match variant {
        Some(name) => builder.variant(name),
        None => builder,
    };
    compare(&builder.build().unwrap(), 7, (24, 400));
}

#[test]
fn small_pairs() {
    all_verbs::<u64, u64>(Storage::Device, None);
    all_verbs::<u64, [f32; 2]>(Storage::Pinned, None);
}

#[test]
fn values_of_other_sizes() {
    all_verbs::<u64, [u32; 3]>(Storage::Device, None);
    all_verbs::<u64, [u32; 256]>(Storage::Pinned, None);
}

#[test]
fn keys_of_other_sizes() {
    all_verbs::<[u64; 2], u64>(Storage::Device, None);
    all_verbs::<[u64; 4], [u32; 32]>(Storage::Device, None);
    all_verbs::<[u64; 8], [u32; 3]>(Storage::Device, None);
}

#[test]
fn all_variants() {
    for name in PersistentMap::<u64, u64>::variants() {
        all_verbs::<u64, u64>(Storage::Device, Some(name));
    }
    for name in PersistentMap::<[u64; 4], [u32; 32]>::variants() {
        all_verbs::<[u64; 4], [u32; 32]>(Storage::Device, Some(name));
    }
}

/// Batches whose number of keys is in device memory, for keys of one word and of several.
#[test]
fn batches_are_bounded_by_counts() {
    fn play<K: Numbered, V: Numbered>() {
        let map = PersistentMap::<K, V>::builder().capacity(400).device(&device()).build().unwrap();
        let (device, stream) = (map.device(), map.device().stream().unwrap());
        let keys: Vec<K> = (0..200).map(K::of).collect();
        let values: Vec<V> = (0..200).map(|number| V::of(number + 5)).collect();
        let (on_device, values_there) =
            (device.from_slice(&keys).unwrap(), device.from_slice(&values).unwrap());
        let mut outcomes = device.filled::<u8>(200, 0xff).unwrap();
        let batches = map.on(&stream);
        let untouched = |outcomes: &[u8]| outcomes.iter().all(|&code| code == 0xff);
        for (count, len) in [(0u32, 0), (1, 1), (31, 31), (33, 33), (170, 170), (1000, 200)] {
            let counts = device.from_slice(&[count]).unwrap();
            let bounded = || on_device.bounded_by(&counts).unwrap();
            outcomes.fill_bytes(0xff).unwrap();
            batches.insert(bounded(), &values_there, &mut outcomes).unwrap();
            assert!(untouched(&outcomes.read().unwrap()[len..]));
            assert_eq!(map.len().unwrap(), len, "after an insertion of {count} keys");
            outcomes.fill_bytes(0xff).unwrap();
            batches.contains_key(bounded(), &mut outcomes).unwrap();
            let found = outcomes.read().unwrap();
            assert!(
                found[..len].iter().all(|&code| code == Outcome::Found as u8) && untouched(&found[len..])
            );
            let mut got = device.filled::<V>(200, 0).unwrap();
            batches.get(bounded(), &mut got, None).unwrap();
            assert!(got.read().unwrap()[..len] == values[..len]);
            assert_eq!(map.get(&keys[len..]).unwrap(), vec![None; 200 - len]);
            batches.update(bounded(), &values_there, None).unwrap();
            let long = device.from_slice(&[u64::from(count)]).unwrap();
            batches.remove(on_device.bounded_by(&long).unwrap(), &mut outcomes).unwrap();
            assert!(map.is_empty().unwrap() && untouched(&outcomes.read().unwrap()[len..]));
        }
    }
    play::<u64, u64>();
    play::<u64, [u32; 3]>();
    play::<[u64; 4], [u32; 32]>();
}

#[test]
fn no_key_is_reserved() {
    let map = PersistentMap::<u64, u64>::with_capacity(100).unwrap();
    let keys = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, 0x8000_8000_8000_8000];
    let values = [5, u64::MAX, 0, 1, 2, 3];
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    assert_eq!(map.get(&keys).unwrap(), values.map(Some));
    assert_eq!(map.remove(&keys[..3]).unwrap(), [true; 3]);
    assert_eq!(map.contains_key(&keys).unwrap(), [false, false, false, true, true, true]);
}

/// Equal keys of a batch have one slot, and one of their values.
#[test]
fn equal_keys_in_a_batch() {
    fn play<V: Numbered>() {
        let map = PersistentMap::<u64, V>::with_capacity(1000).unwrap();
        let keys: Vec<u64> = (0..3000).map(|index| index % 50).collect();
        let values: Vec<V> = (0..3000).map(V::of).collect();
        let outcomes = map.insert(&keys, &values).unwrap();
        assert_eq!((outcomes.count(Outcome::Inserted), outcomes.count(Outcome::Replaced)), (50, 2950));
        assert_eq!(map.len().unwrap(), 50);
        let all: Vec<u64> = (0..50).collect();
        for (key, found) in (0..).zip(map.get(&all).unwrap()) {
            assert!((0..60).any(|round| found == Some(V::of(round * 50 + key))), "{key}: {found:?}");
        }
        map.check().unwrap();
        assert_eq!(map.remove(&keys).unwrap().into_iter().filter(|&removed| removed).count(), 50);
        assert!(map.is_empty().unwrap());
    }
    play::<u64>();
    play::<[u32; 32]>();
}
