//! Limits of tables: patterns with an internal meaning, full tables, small tables, tables with all slots used
//! up.
use crate::kinds::{Kind, Tested, contents};
use checker::MapValue;
use phalanx::hash_map::{Growth, HashMap, Outcome};
use phalanx::map::Word;
use phalanx_kernels::keyed::Scalar;
use std::collections::BTreeMap;

/// Returns numbers with an internal meaning, and their neighbours: slot states, sentinels of slot halves,
/// sign bits.
fn patterns() -> Vec<u64> {
    let ends = [0, 1 << 31, 1 << 32, 1 << 63];
    let around = |end: u64| (0..8u64).flat_map(move |by| [end.wrapping_add(by), end.wrapping_sub(by)]);
    let mut patterns: Vec<u64> = ends.into_iter().flat_map(around).collect();
    patterns.sort_unstable();
    patterns.dedup();
    patterns
}

pub fn every_pattern_is_a_key_and_a_value<M: Tested>(kind: &Kind<M>) {
    let keys: BTreeMap<M::Key, ()> = patterns().into_iter().map(|key| (M::Key::from_u64(key), ())).collect();
    let keys: Vec<M::Key> = keys.into_keys().collect();
    for shift in 0..3 {
        // Each pattern is the value of some key.
        let map = kind.map(1);
        let patterns = patterns();
        let value = |index: usize| M::Value::from_u64(patterns[(index + shift * 19) % patterns.len()]);
        let values: Vec<M::Value> = (0..keys.len()).map(value).collect();
        assert!(map.insert(&keys, &values).unwrap().iter().all(|&said| said == Outcome::Inserted));
        let expected: BTreeMap<M::Key, M::Value> = keys.iter().copied().zip(values).collect();
        assert_eq!(contents(&map), expected, "{}", kind.name);
        take_every_second(&map, &keys, &expected);
    }
}

/// Takes every second key, and looks up all keys.
fn take_every_second<M: Tested>(map: &M, keys: &[M::Key], all: &BTreeMap<M::Key, M::Value>) {
    let gone: Vec<M::Key> = keys.iter().copied().step_by(2).collect();
    let taken: Vec<_> = gone.iter().map(|key| Some(all[key])).collect();
    assert_eq!(map.take(&gone).unwrap(), taken, "{}", map.name());
    let found = map.get(keys).unwrap();
    for (index, (key, found)) in keys.iter().zip(found).enumerate() {
        assert_eq!(found, all.get(key).copied().filter(|_| index % 2 == 1), "{}: {key:?}", map.name());
    }
}

pub fn a_full_table_refuses_and_loses_nothing<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    let map = kind.builder().capacity(30).load_factor(1.0).growth(Growth::Fixed).build().unwrap();
    let asked = map.slots() as u64 * 2;
    let (keys, values) = kind.columns((0..asked).map(|key| (key, key + 7)));
    let outcomes = map.insert(&keys, &values).unwrap();
    let inserted = outcomes.iter().filter(|&&outcome| outcome == Outcome::Inserted).count();
    let refused = outcomes.iter().filter(|&&outcome| outcome == Outcome::Refused).count();
    assert_eq!((inserted, refused), (map.slots(), asked as usize - map.slots()), "{}", kind.name);
    for (index, found) in map.get(&keys).unwrap().into_iter().enumerate() {
        let expected = (outcomes[index] == Outcome::Inserted).then_some(values[index]);
        assert_eq!(found, expected, "{}: key {index}", kind.name);
    }
    assert_eq!(contents(&map).len(), inserted);
    assert_eq!(map.load_factor().unwrap(), 1.0);
    // Existing keys can still be replaced, and absent keys are still refused.
    let again = map.insert(&keys, &values).unwrap();
    for (first, again) in outcomes.iter().zip(again) {
        let expected = if *first == Outcome::Inserted { Outcome::Replaced } else { Outcome::Refused };
        assert_eq!(again, expected, "{}", kind.name);
    }
    let refused = outcomes.iter().position(|&outcome| outcome == Outcome::Refused).unwrap();
    assert_eq!(map.get_or_insert(&keys[refused..=refused], &values[..1]).unwrap(), [None]);
}

pub fn a_full_table_still_knows_the_topmost_keys<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    let map = kind.builder().capacity(10).growth(Growth::Fixed).build().unwrap();
    let (keys, values) = kind.columns((0..map.slots() as u64 * 2).map(|key| (key, 1)));
    assert_eq!(map.insert(&keys, &values).unwrap().refused(), map.slots(), "{}", kind.name);
    // At least two patterns equal slot states: these keys are stored outside the table, which is full. For
    // keys of 32 bits in slots of 16 bytes, no key equals a slot state.
    let (top, values) = kind.columns([(u64::MAX, 5), (u64::MAX - 1, 6)]);
    assert_eq!(map.get(&top).unwrap(), [None, None], "{}", kind.name);
    if (K::BITS, V::BITS) == (32, 64) {
        assert_eq!(map.insert(&top, &values).unwrap(), [Outcome::Refused; 2], "{}", kind.name);
        return;
    }
    assert_eq!(map.insert(&top, &values).unwrap(), [Outcome::Inserted; 2], "{}", kind.name);
    assert_eq!(map.get(&top).unwrap(), [Some(values[0]), Some(values[1])], "{}", kind.name);
    assert_eq!(map.remove(&top).unwrap(), [true, true], "{}", kind.name);
    assert_eq!(map.get(&top).unwrap(), [None, None], "{}", kind.name);
    contents(&map);
}

pub fn capacities_of_all_sizes_hold_what_they_say<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    for capacity in [1, 2, 3, 7, 13, 31, 33, 97, 1001] {
        for load_factor in [0.25, 0.8] {
            let builder = kind.builder().capacity(capacity).load_factor(load_factor);
            let map = builder.growth(Growth::Fixed).build().unwrap();
            let says = (map.capacity(), map.slots());
            assert!(says.0 >= capacity && says.1 as f64 * load_factor >= capacity as f64, "{says:?}");
            let (keys, values) = kind.columns((0..capacity as u64).map(|key| (key * 977, key)));
            let outcomes = map.insert(&keys, &values).unwrap();
            assert!(outcomes.iter().all(|&said| said == Outcome::Inserted), "{}: {capacity}", kind.name);
            assert_eq!(contents(&map), keys.into_iter().zip(values).collect());
        }
    }
}

/// Also at load factors above 0.9, at which other tables grow.
pub fn capacity_is_reached_without_growing<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    for load_factor in [0.5, 0.8, 0.92, 0.95, 1.0] {
        let map = kind.builder().capacity(300).load_factor(load_factor).build().unwrap();
        let (slots, capacity) = (map.slots(), map.capacity() as u64);
        let (keys, values) = kind.columns((0..capacity).map(|key| (key * 977, key)));
        let outcomes = map.insert(&keys, &values).unwrap();
        assert!(outcomes.iter().all(|&said| said == Outcome::Inserted), "{}: {load_factor}", kind.name);
        assert_eq!(map.slots(), slots, "{}: it grew at {load_factor}", kind.name);
    }
}

/// A rehash that recovers only a few slots is soon necessary again. If keys are inserted and removed in a
/// nearly full table, it must double.
pub fn a_crowded_table_doubles_rather_than_rehash_for_ever<K: Word, V: Word + MapValue>(
    kind: &Kind<HashMap<K, V>>,
) {
    let map = kind.builder().capacity(300).load_factor(0.95).build().unwrap();
    let (slots, live) = (map.slots(), map.slots() as u64 * 9 / 10);
    let (keys, values) = kind.columns((0..live).map(|key| (key, key)));
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    assert_eq!(map.slots(), slots, "{}: there was room", kind.name);
    for key in 0..slots as u64 / 10 {
        assert_eq!(map.remove(&kind.keys([key])).unwrap(), [true], "{}", kind.name);
        let (key, value) = kind.columns([(live + key, 1)]);
        assert_eq!(map.insert(&key, &value).unwrap(), [Outcome::Inserted], "{}", kind.name);
    }
    assert!(map.slots() >= slots * 2, "{}: {slots} slots became {}", kind.name, map.slots());
    assert_eq!(contents(&map).len() as u64, live, "{}", kind.name);
}

pub fn removing_and_reinserting_goes_on_for_ever<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    let map = kind.builder().capacity(50).build().unwrap();
    let topmost = (0..3).map(|below| u64::MAX - below);
    let keys = kind.keys((0..47).chain(topmost));
    let mut memory = Vec::new();
    for round in 0..30 {
        let values = vec![V::from_u64(round); keys.len()];
        assert_eq!(map.insert(&keys, &values).unwrap(), vec![Outcome::Inserted; 50], "{}", kind.name);
        assert_eq!(contents(&map), keys.iter().copied().zip(values.clone()).collect());
        assert_eq!(map.remove(&keys).unwrap(), vec![true; 50], "{}", kind.name);
        assert_eq!(map.get(&keys).unwrap(), vec![None; 50], "{}", kind.name);
        assert_eq!(map.len().unwrap(), 0, "{}", kind.name);
        memory.push(map.memory_usage());
    }
    // 1500 slots have been used up, and rehashes recover them.
    let most = memory.iter().max().unwrap();
    assert!(*most <= memory[0] * 4, "{}: {memory:?}", kind.name);
    assert_eq!(memory[15..].iter().max(), memory[..15].iter().max(), "{}: it still grows", kind.name);
}

pub fn a_fixed_table_comes_back_by_compaction<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    let builder = kind.builder().capacity(16).load_factor(1.0).growth(Growth::Fixed);
    let mut map = builder.build().unwrap();
    let slots = map.slots() as u64;
    let (keys, values) = kind.columns((0..slots).map(|key| (key, key)));
    assert_eq!(map.insert(&keys, &values).unwrap(), vec![Outcome::Inserted; slots as usize]);
    assert!(map.remove(&keys[1..]).unwrap().into_iter().all(|removed| removed));
    let (others, values) = kind.columns((slots..slots * 2 - 1).map(|key| (key, key)));
    let refused = vec![Outcome::Refused; others.len()];
    assert_eq!(map.insert(&others, &values).unwrap(), refused, "{}: tombstones are no room", kind.name);
    map.compact().unwrap();
    assert_eq!(map.slots() as u64, slots, "{}", kind.name);
    assert_eq!(map.insert(&others, &values).unwrap(), vec![Outcome::Inserted; others.len()]);
    assert_eq!(contents(&map).len() as u64, slots);
}

/// A key that is repeatedly inserted and removed uses up its own probe sequence, even if the table has many
/// free slots. A rehash recovers these slots.
pub fn a_key_that_comes_and_goes_is_let_in_again<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    for (key, growth, most) in
        [(7, Growth::Fixed, 150), (u64::MAX, Growth::Fixed, 520), (7, Growth::Doubling, 150)]
    {
        let mut map = kind.builder().capacity(300).max_probes(4).growth(growth).build().unwrap();
        let (other, (key, value)) = (K::from_u64(8), (K::from_u64(key), V::from_u64(1)));
        assert!(map.insert(&[other], &[value]).unwrap().all_placed());
        let mut goes_round = || {
            let round = |_: &usize| {
                let said = map.insert(&[key], &[value]).unwrap() == [Outcome::Inserted];
                said && map.remove(&[key]).unwrap() == [true]
            };
            let rounds = (0..most).take_while(round).count();
            assert_eq!(map.get(&[key, other]).unwrap(), [None, Some(value)], "{}", kind.name);
            map.compact().unwrap();
            rounds
        };
        let rounds = goes_round();
        assert_eq!(rounds == most, growth == Growth::Doubling, "{}: {rounds} rounds", kind.name);
        assert_eq!(goes_round(), rounds, "{}: as often after a rehash", kind.name);
    }
}
