//! Results of large batches.
use crate::fixture::{CROWD, LEN, Model, Number, Ordered, filled, new_map, random};
use crate::kinds::{Kind, contents};
use phalanx::Outcome;
use phalanx::btree::LargeBatches;

/// Orders of the keys of a batch of insertions.
const ORDERS: [Number; 4] = [
    |n| random(n) % 15_000, // mixed, some twice
    |n| n,
    |n| LEN - n,
    |n| u64::MAX - n % 9000, // with the key that is reserved in nodes
];

pub fn insertions_are_those_of_std<M: Ordered>(kind: &Kind<M>) {
    for order in ORDERS {
        let (map, mut model) = filled(kind, LargeBatches::default(), 2000);
        let (keys, values) = kind.columns((0..LEN).map(|n| (order(n), n)));
        let outcomes = map.insert(&keys, &values).unwrap();
        assert_eq!(outcomes, inserted::<M>(&mut model, &keys, &values), "{}", kind.name);
        assert_eq!(map.rebuilds(), 1, "{}", kind.name);
        assert!(contents(&map) == model, "{}", kind.name);
        let (keys, values) = kind.columns((0..2 * LEN).map(|n| (order(n % LEN) ^ 5, n + 1)));
        let outcomes = map.insert_new(&keys, &values).unwrap();
        let expected = keys.iter().zip(&values).map(|(&key, &value)| match model.contains_key(&key) {
            true => Outcome::Found,
            false => inserted::<M>(&mut model, &[key], &[value])[0],
        });
        assert_eq!(outcomes, expected.collect::<Vec<_>>(), "{}", kind.name);
        assert_eq!(map.rebuilds(), 2, "{}", kind.name);
        assert!(contents(&map) == model, "{}", kind.name);
    }
}

/// Inserts pairs into a model. Returns the outcomes.
fn inserted<M: Ordered>(model: &mut Model<M>, keys: &[M::Key], values: &[M::Value]) -> Vec<Outcome> {
    let insert = |(&key, &value): (&M::Key, &M::Value)| match model.insert(key, value) {
        Some(_) => Outcome::Replaced,
        None => Outcome::Inserted,
    };
    keys.iter().zip(values).map(insert).collect()
}

/// Orders of the keys of a batch of removals: neighbours, some of which are absent or occur twice.
const REMOVED: [Number; 4] = [|n| n, |n| 9000 - n / 2 * 2, |n| n / 2, |n| u64::MAX - n];

pub fn removals_are_those_of_std<M: Ordered>(kind: &Kind<M>) {
    for order in REMOVED {
        let (map, mut model) = filled(kind, LargeBatches::default(), 6000);
        let (last, one) = kind.columns([(u64::MAX, 1)]);
        assert!(map.insert(&last, &one).unwrap().all_placed());
        model.insert(last[0], one[0]);
        let keys = kind.keys((0..CROWD).map(order));
        let removed: Vec<bool> = keys.iter().map(|key| model.remove(key).is_some()).collect();
        assert_eq!(map.remove(&keys).unwrap(), removed, "{}", kind.name);
        assert_eq!(map.rebuilds(), 1, "{}", kind.name);
        assert!(contents(&map) == model, "{}", kind.name);
        let all: Vec<M::Key> = model.keys().copied().chain(model.keys().copied()).collect();
        assert!(map.remove(&all).unwrap().into_iter().eq((0..all.len()).map(|index| index < model.len())));
        assert!(contents(&map).is_empty() && map.rebuilds() == 2, "{}", kind.name);
        assert_eq!(map.remove(&keys).unwrap(), vec![false; keys.len()], "{}", kind.name);
        assert_eq!(map.take(&keys).unwrap().into_parts().0, vec![None; keys.len()], "{}", kind.name);
    }
}

pub fn old_values_are_those_of_std<M: Ordered>(kind: &Kind<M>) {
    for order in REMOVED {
        let (map, mut model) = filled(kind, LargeBatches::default(), 6000);
        let (keys, values) = kind.columns((0..CROWD).map(|n| (order(n), n + 77)));
        let old: Vec<_> = keys.iter().zip(&values).map(|(&key, &value)| model.insert(key, value)).collect();
        assert_eq!(map.replace(&keys, &values).unwrap().into_parts().0, old, "{}", kind.name);
        assert_eq!(map.rebuilds(), 1, "{}", kind.name);
        assert!(contents(&map) == model, "{}", kind.name);
        let taken: Vec<_> = keys.iter().map(|key| model.remove(key)).collect();
        assert_eq!(map.take(&keys).unwrap().into_parts().0, taken, "{}", kind.name);
        assert_eq!(map.rebuilds(), 2, "{}", kind.name);
        assert!(contents(&map) == model, "{}", kind.name);
    }
}

/// Batches in a stream, behind another one in the same stream that writes their keys.
pub fn buffers_have_the_same_results<M: Ordered>(kind: &Kind<M>) {
    let (map, mut model) = filled(kind, LargeBatches::Rebuild, 2000);
    let (device, stream) = (&kind.device, kind.device.stream().unwrap());
    let (numbers, values) = kind.columns((0..CROWD).map(|n| (n / 2 * 2, n + 5)));
    let (mut keys, arguments) = (device.zeroed(numbers.len()).unwrap(), device.from_slice(&values).unwrap());
    let mut outcomes = device.zeroed::<u8>(numbers.len()).unwrap();
    let mut results = device.zeroed::<M::Value>(numbers.len()).unwrap();
    keys.write(&numbers).unwrap();
    map.on(&stream).insert(&keys, &arguments, &mut outcomes).unwrap();
    let codes =
        |outcomes: Vec<Outcome>| outcomes.into_iter().map(|outcome| outcome as u8).collect::<Vec<_>>();
    assert_eq!(
        outcomes.read().unwrap(),
        codes(inserted::<M>(&mut model, &numbers, &values)),
        "{}",
        kind.name
    );
    assert_eq!(map.rebuilds(), 1, "{}", kind.name);
    map.on(&stream).insert_new(&keys, &arguments, None).unwrap();
    assert!(contents(&map) == model, "{}", kind.name);
    map.on(&stream).take(&keys, &mut results, &mut outcomes).unwrap();
    let taken: Vec<_> = numbers.iter().map(|key| model.remove(key)).collect();
    let (results, outcomes) = (results.read().unwrap(), outcomes.read().unwrap());
    for ((taken, result), outcome) in taken.into_iter().zip(results).zip(outcomes) {
        assert_eq!(taken.is_some(), outcome == Outcome::Removed as u8, "{}", kind.name);
        assert!(taken.is_none_or(|value| value == result), "{}", kind.name);
    }
    assert_eq!(map.rebuilds(), 3, "{}", kind.name);
    assert!(contents(&map) == model, "{}", kind.name);
    let count = device.from_slice(&[CROWD as u32 / 2]).unwrap();
    map.on(&stream).insert(keys.bounded_by(&count).unwrap(), &arguments, None).unwrap();
    inserted::<M>(&mut model, &numbers[..numbers.len() / 2], &values);
    assert!(contents(&map).keys().eq(model.keys()), "{}: bounded by a count", kind.name);
    let map = new_map(kind, LargeBatches::RebuildIfBlocking);
    map.on(&stream).insert(&keys, &arguments, None).unwrap();
    assert_eq!(map.rebuilds(), 0, "{}: the call must not wait", kind.name);
}
