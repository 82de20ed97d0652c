//! Calls that lack memory, at each of the places where they ask for it: on the emulator, which can be told when there is no more.
use crate::kinds::{Kind, Tested, contents};
use crate::ordered::ByOrder;
use checker::MapValue;
use gpu::Device;
use phalanx::{Key, MultiVersionBTree, Outcome, Result, Value};
use std::collections::BTreeMap;

/// Calls what may fail on what is made, with one allocation more each time, until it has all that it asks for. `check` gets what it has left.
fn rationed<T, R>(device: &Device, make: impl Fn() -> T, call: impl Fn(&mut T) -> R, check: impl Fn(T, R)) {
    let emulator = device.emulator_handle().expect("rations are the emulator's");
    for allocations in 0.. {
        let mut map = make();
        emulator.ration(allocations);
        let said = call(&mut map);
        let left = emulator.ration(u64::MAX);
        check(map, said);
        if left > 0 {
            assert!(allocations > 0, "it asks for some");
            return;
        }
    }
}

/// A pair of each number, in no order.
fn scattered(number: u64) -> (u64, u64) {
    (number * 7919 % 10_007, number)
}

/// Of a map that has held many pairs and holds few, so that room is made in every way: by what was removed, then by more memory.
pub fn insertions_that_lack_memory_lose_nothing<M: Tested>(kind: &Kind<M>) {
    let (old, values) = kind.pairs((0..400).map(scattered).chain([(u64::MAX, 1)]));
    let before: BTreeMap<_, _> = old.iter().copied().zip(values.iter().copied()).skip(390).collect();
    let (keys, new) = kind.pairs((400..1200).map(scattered));
    let mut full = before.clone();
    full.extend(keys.iter().copied().zip(new.iter().copied()));
    let make = || {
        let map = kind.map(1);
        map.insert(&old, &values).unwrap();
        assert!(map.remove(&old[..390]).unwrap().into_iter().all(|removed| removed), "{}", kind.name);
        map
    };
    let check = |map: M, said: Result<Vec<Outcome>>| {
        let after = contents(&map);
        assert!(before.iter().all(|(key, value)| after.get(key) == Some(value)), "{}: {said:?}", kind.name);
        assert!(after.iter().all(|(key, value)| full.get(key) == Some(value)), "{}: {said:?}", kind.name);
        for (key, outcome) in keys.iter().zip(said.unwrap_or_default()) {
            assert_eq!(outcome != Outcome::Refused, after.contains_key(key), "{}: {key:?}", kind.name);
        }
        assert!(!map.insert(&keys, &new).unwrap().contains(&Outcome::Refused), "{}", kind.name);
        assert_eq!(contents(&map), full, "{}", kind.name);
    };
    rationed(&kind.device, make, |map| map.insert(&keys, &new), check);
}

/// So many pairs that nodes of two of them are more than a pool of 255 super blocks of 32 has.
const MANY: u64 = 12_000;

/// The tree, which holds the pairs from before it is built of others.
fn few<M: Tested>(kind: &Kind<M>, tree: M) -> M {
    let (keys, values) = kind.pairs((0..300).map(|n| (n * 7, n)));
    tree.insert(&keys, &values).unwrap();
    assert!(tree.remove(&keys[..100]).unwrap().into_iter().all(|removed| removed), "{}", kind.name);
    tree
}

/// Either all are there or those of before.
fn is_built_or_as_before<M: Tested>(kind: &Kind<M>, tree: &M, said: Result<()>) {
    let expected = match said {
        Ok(()) => kind.pairs((0..MANY).map(|n| (n * 3, n))),
        Err(_) => kind.pairs((100..300).map(|n| (n * 7, n))),
    };
    assert_eq!(contents(tree), expected.0.into_iter().zip(expected.1).collect(), "{}: {said:?}", kind.name);
}

pub fn trees_whose_building_lacks_memory_stay_as_they_were<M: ByOrder>(kind: &Kind<M>) {
    let (keys, values) = kind.pairs((0..MANY).map(|n| (n * 3, n)));
    let build = |tree: &mut M| tree.bulk_build(&keys, &values, 0.01);
    rationed(
        &kind.device,
        || few(kind, kind.map(1)),
        build,
        |tree, said| is_built_or_as_before(kind, &tree, said),
    );
}

/// What was replaced waits to be freed.
pub fn trees_with_versions_stay_as_they_were<K: Key, V: Value + MapValue>(
    kind: &Kind<MultiVersionBTree<K, V>>,
) {
    let (keys, values) = kind.pairs((0..MANY).map(|n| (n * 3, n)));
    let make = || few(kind, kind.builder().nodes(1).super_block_slabs(32).build().unwrap());
    let build = |tree: &mut MultiVersionBTree<K, V>| tree.bulk_build(&keys, &values, 0.01);
    rationed(&kind.device, make, build, |tree, said| is_built_or_as_before(kind, &tree, said));
    rationed(
        &kind.device,
        make,
        |tree| tree.drain(),
        |tree, _| {
            is_built_or_as_before(kind, &tree, Err(phalanx::Error::ZeroCapacity));
            tree.drain().unwrap();
            assert_eq!(tree.versions().unwrap(), 0, "{}", kind.name);
        },
    );
}
