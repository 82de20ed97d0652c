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

/// Number of elements of batches with skewed keys: warps in part, and in whole.
const SKEWED: [u64; 4] = [1, 31, 33, 300];

/// Number of elements of a batch of which the last blocks are no samples: see `SkewHint` of the kernels.
const UNSAMPLED: u64 = 16 * 128 + 300;

/// Returns distributions of `len` keys: one key, one that is stored in an overflow bucket, two, and one of
/// which each further key is half as frequent as the one before.
fn skewed(len: u64) -> [Vec<u64>; 4] {
    let of = |key: &dyn Fn(u64) -> u64| (0..len).map(key).collect();
    let two = |n: u64| if n.is_multiple_of(3) { 7 } else { u64::MAX - 1 };
    [of(&|_| 5), of(&|_| u64::MAX), of(&two), of(&|n| u64::from((n + 1).trailing_zeros()))]
}

/// Calls `check` with an empty map, and the keys and values of a batch with skewed keys.
fn each_skewed<M: Tested>(kind: &Kind<M>, check: impl Fn(&M, &[M::Key], &[M::Value])) {
    let unsampled = kind.is_main.then_some(UNSAMPLED);
    for keys in SKEWED.into_iter().chain(unsampled).flat_map(skewed) {
        let (keys, values) = kind.columns(keys.into_iter().zip(1..));
        check(&kind.map(30), &keys, &values);
    }
}

/// Returns each distinct key, and the indices of its elements.
fn by_key<K: Copy + Ord>(keys: &[K]) -> std::collections::BTreeMap<K, Vec<usize>> {
    let mut found = std::collections::BTreeMap::<K, Vec<usize>>::new();
    keys.iter().enumerate().for_each(|(index, key)| found.entry(*key).or_default().push(index));
    found
}

/// Returns the only element of a key with the outcome `first`; requires that all others have `other`.
fn only<K: std::fmt::Debug>(
    key: K,
    elements: &[usize],
    outcomes: &[Outcome],
    (first, other): (Outcome, Outcome),
) -> usize {
    let (ones, others): (Vec<usize>, Vec<usize>) =
        elements.iter().copied().partition(|&element| outcomes[element] == first);
    assert_eq!(ones.len(), 1, "{key:?} is {first:?} that often");
    assert!(others.iter().all(|&element| outcomes[element] == other), "{key:?}: {outcomes:?}");
    ones[0]
}

pub fn skewed_keys_are_inserted_once<M: Tested>(kind: &Kind<M>) {
    each_skewed(kind, |map, keys, values| {
        let outcomes = map.insert_new(keys, values).unwrap();
        let contents = contents(map);
        for (key, elements) in by_key(keys) {
            let first = only(key, &elements, &outcomes, (Outcome::Inserted, Outcome::Found));
            assert_eq!(contents[&key], values[first], "{}: {key:?}", kind.name);
        }
        let removed = map.remove(keys).unwrap();
        for (key, elements) in by_key(keys) {
            let count = elements.iter().filter(|&&element| removed[element]).count();
            assert_eq!(count, 1, "{}: {key:?}", kind.name);
        }
        assert_eq!(map.len().unwrap(), 0, "{}", kind.name);
    });
}

pub fn skewed_keys_get_one_value<M: Tested>(kind: &Kind<M>) {
    each_skewed(kind, |map, keys, values| {
        let got = map.get_or_insert(keys, values).unwrap();
        let contents = contents(map);
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(got[index], Some(contents[key]), "{}: {key:?}", kind.name);
        }
        for (key, elements) in by_key(keys) {
            assert!(elements.iter().any(|&element| values[element] == contents[&key]), "{key:?}");
        }
    });
}

pub fn skewed_keys_are_merged<M: Tested>(kind: &Kind<M>) {
    let sum: fn(u64, u64) -> u64 = |a, b| a + b;
    let merges = [(Merge::Add, sum), (Merge::Min, u64::min), (Merge::Max, u64::max)];
    each_skewed(kind, |_, keys, values| {
        for (merge, model) in merges {
            let map = kind.map(30);
            for round in 1..3 {
                let outcomes = map.upsert(merge, keys, values).unwrap();
                let contents = contents(&map);
                for (key, elements) in by_key(keys) {
                    let of_key = elements.iter().map(|&element| values[element].to_u64());
                    let once = of_key.reduce(model).unwrap();
                    let expected = if merge == Merge::Add { once * round } else { once };
                    assert_eq!(contents[&key], M::Value::from_u64(expected), "{}: {key:?}", kind.name);
                    if round == 1 {
                        only(key, &elements, &outcomes, (Outcome::Inserted, Outcome::Replaced));
                    }
                }
            }
        }
    });
}

/// Batches of one length with one key, with distinct keys, and with one key in the last blocks alone: what a
/// batch records about equal keys is wrong for the next one.
pub fn batches_of_changing_skew_agree_with_the_model<M: Tested>(kind: &Kind<M>) {
    let map = kind.map(UNSAMPLED as usize);
    let late = |n: u64| if n < 16 * 128 { n } else { u64::MAX };
    let batches: [&dyn Fn(u64) -> u64; 5] = [&|_| 7, &|n| n, &late, &|n| n + 3, &late];
    let mut model = std::collections::BTreeMap::new();
    for (round, key) in batches.iter().enumerate() {
        let (keys, values) = kind.columns((0..UNSAMPLED).map(|n| (key(n), 1 + n % 3)));
        let outcomes = map.upsert(Merge::Add, &keys, &values).unwrap();
        let mut inserted = 0;
        for (key, value) in keys.iter().zip(&values) {
            let sum = model.entry(*key).or_insert_with(|| {
                inserted += 1;
                0
            });
            *sum += value.to_u64();
        }
        let found = outcomes.iter().filter(|&&outcome| outcome == Outcome::Inserted).count();
        assert_eq!(found, inserted, "{}: round {round}", kind.name);
    }
    let expected = model.into_iter().map(|(key, sum)| (key, M::Value::from_u64(sum))).collect();
    assert_eq!(contents(&map), expected, "{}", kind.name);
}
