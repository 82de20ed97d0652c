//! Several occurrences of a key in one batch.
use crate::kinds::{Kind, Tested, contents};
use phalanx::{Merge, Outcome};
use phalanx_kernels::keyed::Scalar;

/// Number of elements, and of distinct keys, in a batch.
const LEN: u64 = 600;
const KEYS: u64 = 23;

pub fn of_equal_keys_one_is_inserted<M: Tested>(kind: &Kind<M>) {
    let map = kind.map(30);
    let (keys, values) = kind.columns((0..LEN).map(|n| (n % KEYS, n)));
    let outcomes = map.insert(&keys, &values).unwrap();
    for key in 0..KEYS {
        let of_key = outcomes.iter().skip(key as usize).step_by(KEYS as usize);
        let (inserted, others): (Vec<_>, Vec<_>) = of_key.partition(|&&outcome| outcome == Outcome::Inserted);
        assert_eq!(inserted.len(), 1, "{}: key {key}", kind.name);
        assert!(others.iter().all(|&&outcome| outcome == Outcome::Replaced), "{}: {others:?}", kind.name);
    }
    let contents = contents(&map);
    assert_eq!(contents.len(), KEYS as usize);
    for (key, value) in contents {
        let value = value.to_u64();
        assert!(value < LEN && value % KEYS == key.to_u64(), "{}: {key:?} has {value}", kind.name);
    }
}

pub fn sums_over_equal_keys_are_exact<M: Tested>(kind: &Kind<M>) {
    let map = kind.map(30);
    // The last key is one of those stored in the overflow bucket for reserved keys.
    let key = |n: u64| if n.is_multiple_of(KEYS) { u64::MAX } else { n % KEYS };
    let (keys, values) = kind.columns((0..LEN).map(|n| (key(n), n)));
    let outcomes = map.upsert(Merge::Add, &keys, &values).unwrap();
    let inserted = outcomes.iter().filter(|&&outcome| outcome == Outcome::Inserted).count();
    assert_eq!(inserted, KEYS as usize, "{}", kind.name);
    let sum = |of: u64| (0..LEN).filter(|n| n % KEYS == of).sum::<u64>();
    for of in 0..KEYS {
        let found = map.get(&[M::Key::from_u64(key(of))]).unwrap();
        assert_eq!(found, [Some(M::Value::from_u64(sum(of)))], "{}: key {of}", kind.name);
    }
}

pub fn of_equal_keys_one_is_removed<M: Tested>(kind: &Kind<M>) {
    let map = kind.map(30);
    let (keys, values) = kind.columns((0..LEN).map(|n| (n % KEYS, n)));
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    let removed = map.remove(&keys).unwrap();
    for key in 0..KEYS as usize {
        let of_key = removed.iter().skip(key).step_by(KEYS as usize);
        assert_eq!(of_key.filter(|&&removed| removed).count(), 1, "{}: key {key}", kind.name);
    }
    assert!(contents(&map).is_empty());
}

pub fn of_equal_keys_one_is_taken<M: Tested>(kind: &Kind<M>) {
    let map = kind.map(30);
    let (keys, values) = kind.columns((0..LEN).map(|n| (n % KEYS, n)));
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    let expected = contents(&map);
    let taken = map.take(&keys).unwrap();
    for key in 0..KEYS as usize {
        let of_key: Vec<_> = taken.iter().skip(key).step_by(KEYS as usize).flatten().collect();
        assert_eq!(of_key, [&expected[&M::Key::from_u64(key as u64)]], "{}: key {key}", kind.name);
    }
    assert!(contents(&map).is_empty());
}

/// A value that was in the map is returned once, or is still there.
pub fn values_of_equal_keys_are_replaced_once<M: Tested>(kind: &Kind<M>) {
    let map = kind.map(30);
    let (keys, values) = kind.columns((0..LEN).map(|n| (n % KEYS, n)));
    let mut values_seen: Vec<_> = map.replace(&keys, &values).unwrap().into_iter().flatten().collect();
    values_seen.extend(contents(&map).into_values());
    values_seen.sort_unstable();
    assert_eq!(values_seen, values, "{}", kind.name);
}
