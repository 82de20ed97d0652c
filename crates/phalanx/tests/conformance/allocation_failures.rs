//! Injected allocation failures: calls that fail at each of their allocations, on the emulator.
use crate::common::attempts;
use crate::kinds::{Kind, Tested, contents};
use crate::ordered::ByOrder;
use checker::MapValue;
use gpu::Device;
use phalanx::map::Word;
use phalanx::{BTree, Error, HashMap, Merge, MultiVersionBTree, Op, Outcome, Outcomes, Result, SkipList};
use phalanx_kernels::keyed::Scalar;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Runs as [`rationed`] does, for calls that may need no allocation.
fn tried<T, R>(device: &Device, make: impl Fn() -> T, call: impl Fn(&mut T) -> R, check: impl Fn(T, R)) {
    let emulator = device.emulator_handle().expect("rations are the emulator's");
    for allocations in attempts(0) {
        let mut map = make();
        device.release_staging(); // a call then allocates it anew
        emulator.fail_allocations_after(allocations);
        let said = call(&mut map);
        let left = emulator.fail_allocations_after(u64::MAX);
        check(map, said);
        if left > 0 {
            return;
        }
    }
}

/// Repeats `call` on a new value from `make`, with more successful allocations each time ([`attempts`]),
/// until no allocation fails. At least one must have failed. Passes the value and the result of each call to
/// `check`.
fn rationed<T, R>(device: &Device, make: impl Fn() -> T, call: impl Fn(&mut T) -> R, check: impl Fn(T, R)) {
    let calls = Cell::new(0);
    tried(device, make, call, |map, said| {
        calls.set(calls.get() + 1);
        check(map, said);
    });
    assert!(calls.get() > 1, "it asks for some");
}

/// Returns a pair for each number, not in order.
fn scattered(number: u64) -> (u64, u64) {
    (number * 7919 % 10_007, number)
}

/// Returns the outcomes of a call, or `None` if it failed to allocate memory before it did anything.
fn told(name: &str, grows: bool, said: Result<Outcomes>) -> Option<Outcomes> {
    match said {
        Ok(outcomes) => {
            assert!(!grows || outcomes.all_placed(), "{name}: a map that grows refuses");
            Some(outcomes)
        }
        Err(Error::NoRoom { outcomes, .. }) => {
            assert!(grows && outcomes.refused() > 0, "{name}: {outcomes:?}");
            Some(outcomes)
        }
        Err(Error::Device(gpu::Error::OutOfMemory { .. })) => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Insertion call that returns an outcome for each pair.
type Insert<M, K, V> = fn(&M, &[K], &[V]) -> Result<Outcomes>;

/// Returns all insertion calls.
fn inserts<M: Tested>() -> [Insert<M, M::Key, M::Value>; 6] {
    [
        |map, keys, values| map.insert(keys, values),
        |map, keys, values| map.insert_new(keys, values),
        |map, keys, values| map.upsert(Merge::Max, keys, values),
        |map, keys, values| {
            let values = map.get_or_insert(keys, values)?;
            let outcome = |value: Option<_>| value.map_or(Outcome::Refused, |_| Outcome::Inserted);
            Ok(values.into_iter().map(outcome).collect())
        },
        |map, keys, values| {
            let pairs = keys.iter().zip(values);
            let operations: Vec<_> = pairs.map(|(&key, &value)| Op::InsertNew(key, value)).collect();
            Ok(map.execute(&operations)?.into_iter().map(|(outcome, _)| outcome).collect())
        },
        |map, keys, values| {
            let (old, outcomes) = map.replace(keys, values)?.into_parts();
            assert!(old.iter().all(Option::is_none), "the keys are new");
            if outcomes.all_placed() { Ok(outcomes) } else { Err(Error::NoRoom { outcomes, cause: None }) }
        },
    ]
}

/// The map has held many pairs and holds few now, so that it first reclaims removed pairs and then allocates
/// memory.
pub fn insertions_that_lack_memory_lose_nothing<M: Tested>(kind: &Kind<M>) {
    let (old, values) = kind.columns((0..400).map(scattered).chain([(u64::MAX, 1)]));
    let before: BTreeMap<_, _> = old.iter().copied().zip(values.iter().copied()).skip(390).collect();
    let new = kind.columns((400..900).map(scattered));
    let make = || {
        let map = kind.map(1);
        assert!(map.insert(&old, &values).unwrap().all_placed());
        assert!(map.remove(&old[..390]).unwrap().into_iter().all(|removed| removed), "{}", kind.name);
        map
    };
    let all = inserts();
    // Variants share the calls of the host, so two of these show how their kernels report a lack of memory.
    for insert in if kind.is_main { &all[..] } else { &all[4..] } {
        insertions_tell_what_they_did(kind, make, &before, *insert, &new);
    }
}

/// Checks that each pair is in the map if its outcome says so, and that the map accepts the others when
/// memory is available again.
fn insertions_tell_what_they_did<M: Tested>(
    kind: &Kind<M>,
    make: impl Fn() -> M,
    before: &BTreeMap<M::Key, M::Value>,
    insert: Insert<M, M::Key, M::Value>,
    (keys, values): &(Vec<M::Key>, Vec<M::Value>),
) {
    let check = |map: M, said: Result<Outcomes>| {
        let told = told(kind.name, true, said).unwrap_or_else(|| vec![Outcome::Refused; keys.len()].into());
        let pairs = || keys.iter().copied().zip(values.iter().copied());
        let is_done = |(pair, outcome): (_, &Outcome)| (*outcome == Outcome::Inserted).then_some(pair);
        let mut expected = before.clone();
        expected.extend(pairs().zip(&told).filter_map(is_done));
        assert_eq!(contents(&map), expected, "{}: {told:?}", kind.name);
        let again = map.insert(keys, values).unwrap();
        let repeated = |outcome: &Outcome| match outcome {
            Outcome::Inserted => Outcome::Replaced,
            _ => Outcome::Inserted,
        };
        assert_eq!(again, told.iter().map(repeated).collect::<Vec<_>>(), "{}", kind.name);
        expected.extend(pairs());
        assert_eq!(contents(&map), expected, "{}", kind.name);
    };
    rationed(&kind.device, make, |map| insert(map, keys, values), check);
}

/// A map with fixed capacity does not fail for lack of memory that it must not allocate.
pub fn fixed_maps_that_lack_memory_refuse<M: Tested>(kind: &Kind<M>) {
    let (keys, values) = kind.columns((0..1200).map(scattered));
    let make = || {
        let map = M::fixed(kind);
        assert!(contents(&map).len() <= 1, "{}", kind.name);
        map
    };
    let check = |map: M, said: Result<Outcomes>| {
        let after = contents(&map);
        let Some(outcomes) = told(kind.name, false, said) else {
            return assert!(after.len() <= 1, "{}: {after:?}", kind.name);
        };
        assert!(outcomes.contains(&Outcome::Refused), "{}", kind.name);
        for (key, outcome) in keys.iter().zip(outcomes) {
            assert_eq!(outcome != Outcome::Refused, after.contains_key(key), "{}: {key:?}", kind.name);
        }
    };
    rationed(&kind.device, make, |map| map.insert(&keys, &values), check);
}

/// Returns the pairs of a map that will lose most of them.
fn crowd<M: Tested>(kind: &Kind<M>) -> (Vec<M::Key>, Vec<M::Value>) {
    kind.columns((0..CROWD).map(|n| (n * 7919 % CROWD, n)))
}

/// Number of pairs: enough that lists free nodes on their own.
const CROWD: u64 = 2000;

/// Creates a map with the pairs of [`crowd`].
fn crowded<M: Tested>(kind: &Kind<M>) -> M {
    let (map, (keys, values)) = (kind.map(1), crowd(kind));
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    map
}

/// Failed maintenance does not hide results: a removal reports for each key whether it was present, or has
/// changed nothing.
pub fn removals_that_lack_memory_lose_nothing<M: Tested>(kind: &Kind<M>) {
    let (keys, values) = crowd(kind);
    let (gone, kept) = keys.split_at(keys.len() - 50);
    let check = |map: M, said: Result<Outcomes>| {
        let told = told(kind.name, true, said).unwrap_or_else(|| vec![Outcome::Refused; gone.len()].into());
        let mut expected: BTreeMap<_, _> = keys.iter().copied().zip(values.iter().copied()).collect();
        for (key, outcome) in gone.iter().zip(&told) {
            assert_ne!(*outcome, Outcome::Absent, "{}: {key:?}", kind.name);
            if *outcome == Outcome::Removed {
                expected.remove(key);
            }
        }
        assert_eq!(contents(&map), expected, "{}: {told:?}", kind.name);
        let again = map.remove(gone).unwrap().into_iter();
        assert!(again.eq(told.iter().map(|outcome| *outcome == Outcome::Refused)), "{}", kind.name);
        assert!(
            contents(&map).keys().eq(kept.iter().copied().collect::<BTreeSet<_>>().iter()),
            "{}",
            kind.name
        );
    };
    let removed = |was_there| if was_there { Outcome::Removed } else { Outcome::Absent };
    let remove = |map: &mut M| Ok(map.remove(gone)?.into_iter().map(removed).collect());
    rationed(&kind.device, || crowded(kind), remove, check);
    if !kind.is_main {
        return;
    }
    let take = |map: &mut M| {
        let (taken, outcomes) = map.take(gone)?.into_parts();
        for ((taken, outcome), value) in taken.into_iter().zip(&outcomes).zip(&values) {
            assert_eq!(taken, (*outcome == Outcome::Removed).then_some(*value), "{}", kind.name);
        }
        if outcomes.all_placed() { Ok(outcomes) } else { Err(Error::NoRoom { outcomes, cause: None }) }
    };
    rationed(&kind.device, || crowded(kind), take, check);
}

/// Either the ranges are retained, or nothing has changed.
pub fn scans_that_lack_memory_lose_nothing<M: Tested>(kind: &Kind<M>) {
    let all = crowd(kind);
    let all: BTreeMap<_, _> = all.0.into_iter().zip(all.1).collect();
    let (low, high) = (M::Key::from_u64(100), M::Key::from_u64(150));
    let check = |map: M, said: Result<()>| {
        said.unwrap_or_else(|error| panic!("{}: {error}", kind.name));
        let kept: BTreeMap<_, _> = all.range(low..=high).map(|(&key, &value)| (key, value)).collect();
        assert_eq!(contents(&map), kept, "{}", kind.name);
    };
    let retain = |map: &mut M| map.retain_keys(low..=high);
    tried(&kind.device, || crowded(kind), retain, check);
}

/// Removal call.
type Remove<M, K> = fn(&mut M, &[K]) -> Result<()>;

/// Nodes that could not be freed for lack of memory are freed by the next call that removes or inserts.
pub fn nodes_are_given_back_later<K: Word, V: Word + MapValue>(kind: &Kind<SkipList<K, V>>) {
    let keys = crowd(kind).0;
    let removals: [Remove<SkipList<K, V>, K>; 2] = [
        |list, gone| list.remove(gone).map(drop),
        |list, _| list.retain_keys(K::from_u64(0)..=K::from_u64(1)),
    ];
    for remove in removals {
        let nodes = crowded(kind).stats().unwrap().live;
        let check = |list: SkipList<K, V>, said: Result<()>| {
            let is_done = said.is_ok();
            assert!(list.insert(&kind.keys([3]), &kind.columns([(0, 3)]).1).unwrap().all_placed());
            list.validate().unwrap();
            let left = list.stats().unwrap().live;
            assert_eq!(is_done, left < nodes / 2, "{}: {left} of {nodes} nodes: {said:?}", kind.name);
        };
        tried(&kind.device, || crowded(kind), |list| remove(list, &keys), check);
    }
}

/// Versions that could not be freed for lack of memory are freed by the next call.
pub fn versions_are_freed_later<K: Word, V: Word + MapValue>(kind: &Kind<MultiVersionBTree<K, V>>) {
    let (keys, values) = kind.columns((0..300).map(scattered));
    let make = || {
        let tree = kind.map(CROWD as usize);
        assert!(tree.insert(&keys, &values).unwrap().all_placed());
        let then = tree.snapshot().unwrap();
        assert!(tree.insert(&keys, &values).unwrap().all_placed());
        drop(then);
        tree
    };
    let check = |tree: MultiVersionBTree<K, V>, said: Result<Outcomes>| {
        told(kind.name, true, said);
        // Changes nothing, but is a mutating call.
        assert_eq!(tree.remove(&kind.keys([1 << 30])).unwrap(), [false], "{}", kind.name);
        assert_eq!(tree.versions().unwrap(), 0, "{}", kind.name);
    };
    rationed(&kind.device, make, |tree| tree.insert(&keys[..1], &values[..1]), check);
}

/// A table that is too full and could not grow for lack of memory grows in the next call that removes or
/// inserts.
pub fn tables_grow_later<K: Word, V: Word + MapValue>(kind: &Kind<HashMap<K, V>>) {
    let make = || kind.builder().capacity(300).build().unwrap();
    let slots = make().slots();
    let (keys, values) = kind.columns((0..slots as u64 * 19 / 20).map(scattered));
    let check = |map: HashMap<K, V>, said: Result<Outcomes>| {
        let is_done = told(kind.name, true, said).is_some();
        assert_eq!(map.remove(&kind.keys([1 << 30])).unwrap(), [false], "{}", kind.name);
        assert_eq!(is_done, map.slots() > slots, "{}: {} slots", kind.name, map.slots());
        assert_eq!(contents(&map).len(), if is_done { keys.len() } else { 0 }, "{}", kind.name);
    };
    rationed(&kind.device, make, |map| map.insert(&keys, &values), check);
}

/// A batch is sorted in chunks. A larger chunk needs more memory, which may then be unavailable.
pub fn sorted_batches_that_lack_memory_lose_nothing<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>) {
    if !kind.name.contains("sorted") {
        return;
    }
    let pairs = kind.columns((0..8000).map(|n| (n * 7919 % 8000, n)));
    let make = || kind.builder().nodes(4000).build().unwrap();
    insertions_tell_what_they_did(
        kind,
        make,
        &BTreeMap::new(),
        |map, keys, values| map.insert(keys, values),
        &pairs,
    );
}

/// Number of pairs whose nodes, with two pairs each, exceed a pool of 255 super blocks of 32 slabs.
const MANY: u64 = 12_000;

/// Fills the tree with the pairs that it contains before the bulk build.
fn few<M: Tested>(kind: &Kind<M>, tree: M) -> M {
    let (keys, values) = kind.columns((0..300).map(|n| (n * 7, n)));
    assert!(tree.insert(&keys, &values).unwrap().all_placed());
    assert!(tree.remove(&keys[..100]).unwrap().into_iter().all(|removed| removed), "{}", kind.name);
    tree
}

/// Checks that the tree has the new pairs after success, and the previous pairs after an error.
fn is_built_or_as_before<M: Tested>(kind: &Kind<M>, tree: &M, said: Result<()>) {
    let expected = match said {
        Ok(()) => kind.columns((0..MANY).map(|n| (n * 3, n))),
        Err(_) => kind.columns((100..300).map(|n| (n * 7, n))),
    };
    assert_eq!(contents(tree), expected.0.into_iter().zip(expected.1).collect(), "{}: {said:?}", kind.name);
}

pub fn trees_whose_building_lacks_memory_stay_as_they_were<M: ByOrder>(kind: &Kind<M>) {
    let (keys, values) = kind.columns((0..MANY).map(|n| (n * 3, n)));
    let build = |tree: &mut M| tree.bulk_build(&keys, &values, 0.01);
    rationed(
        &kind.device,
        || few(kind, kind.map(1)),
        build,
        |tree, said| is_built_or_as_before(kind, &tree, said),
    );
}

/// Replaced nodes are retired until they are freed.
pub fn trees_with_versions_stay_as_they_were<K: Word, V: Word + MapValue>(
    kind: &Kind<MultiVersionBTree<K, V>>,
) {
    let (keys, values) = kind.columns((0..MANY).map(|n| (n * 3, n)));
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
