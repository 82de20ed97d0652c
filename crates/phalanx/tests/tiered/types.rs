//! Keys and values of all types.
use super::model::{PLACEMENTS, check, device, insert, least, numbers, of, small};
use phalanx::{Key, Value};
use phalanx_testing::common::is_sampled;
use std::collections::BTreeMap;

/// Runs insertions, queries and removals on maps of all policies, or of a sample that `case` selects.
fn fill_and_empty<K: Key + Ord, V: Value + PartialEq>(case: usize, key: fn(u64) -> K, value: fn(u64) -> V) {
    let device = device();
    for (number, placement) in PLACEMENTS.into_iter().enumerate() {
        if !is_sampled(&device, &[number, case]) {
            continue;
        }
        let map = least(small::<K, V>(&device).placement(placement));
        let mut model = BTreeMap::new();
        for (seed, len) in [(1, 100), (2, 1000), (3, 1)] {
            let (keys, values) = of(&numbers(len, 900, seed), key, value);
            insert(&map, &mut model, (&keys, &values));
            check(&map, &model, &[key(1000), key(2000)]);
        }
        let (keys, _) = of(&numbers(500, 900, 4), key, value);
        let removed = map.remove(&keys).unwrap();
        let there = model.len();
        model.retain(|key, _| !keys.contains(key));
        assert_eq!(removed.iter().filter(|&&is_removed| is_removed).count(), there - model.len());
        check(&map, &model, &keys);
    }
}

#[test]
fn pairs_of_32_bits() {
    fill_and_empty(0, |number| number as u32, |number| number as u32 * 7);
}

#[test]
fn pairs_of_64_bits() {
    fill_and_empty(1, |number| number << 40, |number| number * 7);
}

#[test]
fn keys_and_values_of_different_sizes() {
    fill_and_empty(2, |number| number as u32, |number| number << 33);
    fill_and_empty(3, |number| number << 33, |number| number as u32);
}

#[test]
fn types_with_encodings() {
    fill_and_empty(4, |number| number as i32 - 300, |number| number as f32 * 0.5);
    fill_and_empty(5, |number| number as i64 - 300, |number| number % 3 == 0);
}
