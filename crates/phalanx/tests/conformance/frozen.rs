//! Frozen trees return the same results as other trees and as `std::collections::BTreeMap`.
use crate::kinds::{Kind, contents};
use crate::ordered::{grown, questions};
use checker::MapValue;
use phalanx::map::Word;
use phalanx::{BTree, Error, Outcome};
use phalanx_kernels::btree::phased;
use phalanx_testing::counts::each_count;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The default variants have read-only kernels.
pub fn frozen_trees_are_read_by_kernels_of_their_own<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>) {
    let mut tree = kind.map(1);
    let read_only = kind.name.replace("tree_spread", "tree_phased_spread");
    let has_own = phased::NAMES.contains(&read_only.as_str());
    let is_default = kind.name == phalanx::btree::variants::<K, V>()[0];
    assert!(has_own || !(is_default || kind.name == "tree_spread_128_8x2_u32_u32"), "{}", kind.name);
    let expected = if has_own { &read_only } else { kind.name };
    assert_eq!(tree.frozen().unwrap().variant(), expected);
}

pub fn frozen_trees_answer_as_others_do<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>) {
    for turn in kind.turns() {
        let (mut tree, expected) = grown(kind, turn);
        let keys = questions(&expected);
        let ranges: Vec<(Bound<K>, Bound<K>)> = keys
            .windows(4)
            .step_by(keys.len() / 40 + 1)
            .map(|some| (Bound::Included(some[0].min(some[3])), Bound::Excluded(some[0].max(some[3]))))
            .chain([(Bound::Unbounded, Bound::Unbounded)])
            .collect();
        let found: Vec<_> = keys.iter().map(|key| expected.get(key).copied()).collect();
        let next = (tree.successor(&keys).unwrap(), tree.predecessor(&keys).unwrap());
        let within = (tree.count(&ranges).unwrap(), tree.range(&ranges).unwrap());
        let ends = (tree.first().unwrap(), tree.last().unwrap());
        assert_eq!(tree.get(&keys).unwrap(), found, "{}, turn {turn}", kind.name);

        let own = (tree.ceiling(&keys).unwrap(), tree.floor(&keys).unwrap());

        let frozen = tree.frozen().unwrap();
        assert_eq!((frozen.ceiling(&keys).unwrap(), frozen.floor(&keys).unwrap()), own, "{}", kind.name);
        assert_eq!(frozen.get(&keys).unwrap(), found, "{}, turn {turn}", kind.name);
        let there: Vec<bool> = found.iter().map(Option::is_some).collect();
        assert_eq!(frozen.contains_key(&keys).unwrap(), there, "{}, turn {turn}", kind.name);
        let frozen_next = (frozen.successor(&keys).unwrap(), frozen.predecessor(&keys).unwrap());
        assert_eq!(frozen_next, next, "{}, turn {turn}", kind.name);
        let frozen_within = (frozen.count(&ranges).unwrap(), frozen.range(&ranges).unwrap());
        assert_eq!(frozen_within, within, "{}, turn {turn}", kind.name);
        assert_eq!((frozen.first().unwrap(), frozen.last().unwrap()), ends, "{}, turn {turn}", kind.name);
        assert_eq!(frozen.len().unwrap(), expected.len(), "{}, turn {turn}", kind.name);
        assert_eq!(frozen.is_empty().unwrap(), expected.is_empty(), "{}, turn {turn}", kind.name);
        assert_eq!(within.1.last().unwrap(), &expected.into_iter().collect::<Vec<_>>(), "{}", kind.name);
    }
    let mut empty = kind.map(1);
    let frozen = empty.frozen().unwrap();
    assert_eq!((frozen.first().unwrap(), frozen.get(&[]).unwrap()), (None, vec![]), "{}", kind.name);
}

pub fn frozen_trees_are_read_as_a_whole<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>) {
    let mut tree = kind.map(1);
    let (keys, values) = kind.columns((0..300).map(|n| (n * 3, n)).chain([(u64::MAX, 7)]));
    assert!(tree.insert(&keys, &values).unwrap().all_placed());
    let frozen = tree.frozen().unwrap();
    let expected: Vec<(K, V)> = keys.into_iter().zip(values).collect();
    assert!(frozen.iter().unwrap().eq(expected.iter().copied()), "{}", kind.name);
    let (keys, values) = frozen.export().unwrap();
    assert!(sorted(keys.into_iter().zip(values)).eq(expected.iter().copied()), "{}", kind.name);
    let mut file = Vec::new();
    frozen.save(&mut file).unwrap();
    assert!(tree.is_frozen(), "{}: what reads keeps it so", kind.name);
    let loaded = BTree::<K, V>::load(&file[..], kind.builder()).unwrap();
    assert!(loaded.iter().unwrap().eq(expected), "{}", kind.name);
}

/// Sorts the pairs by key.
fn sorted<K: Word, V: Word>(pairs: impl Iterator<Item = (K, V)>) -> impl Iterator<Item = (K, V)> {
    pairs.collect::<BTreeMap<_, _>>().into_iter()
}

pub fn frozen_trees_answer_buffers<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>) {
    let mut tree = kind.map(1);
    let (keys, values) = kind.columns((0..300).map(|n| (n * 3, n)));
    assert!(tree.insert(&keys, &values).unwrap().all_placed());
    let device = &kind.device;
    let stream = device.stream().unwrap();
    let asked = device.from_slice(&kind.keys([0, 1, 3, 897, 900])).unwrap();
    let (mut found, mut outcomes) = (device.buffer::<V>(5).unwrap(), device.buffer::<u8>(5).unwrap());
    let frozen = tree.frozen().unwrap();
    let on = frozen.on(&stream);
    on.get(&asked, &mut found, &mut outcomes).unwrap();
    let (yes, no) = (Outcome::Found as u8, Outcome::Absent as u8);
    assert_eq!(outcomes.read().unwrap(), [yes, no, yes, yes, no], "{}", kind.name);
    let found = found.read().unwrap();
    assert_eq!([found[0], found[2], found[3]], [0, 1, 299].map(V::from_u64), "{}", kind.name);
    outcomes.fill_bytes(0xff).unwrap();
    on.contains_key(&asked, &mut outcomes).unwrap();
    assert_eq!(outcomes.read().unwrap(), [yes, no, yes, yes, no], "{}", kind.name);
    let mut counts = device.buffer::<u64>(5).unwrap();
    let highs = device.from_slice(&kind.keys([0, 3, 2, u64::MAX, 901])).unwrap();
    frozen.ordered_on(&stream).count(&asked, &highs, &mut counts).unwrap();
    assert_eq!(counts.read().unwrap(), [1, 1, 0, 1, 0], "{}", kind.name);
    let short = device.from_slice(&kind.keys([1])).unwrap();
    assert!(matches!(on.contains_key(&short, &mut outcomes), Err(Error::Length { .. })), "{}", kind.name);
}

pub fn lookups_in_frozen_trees_are_bounded_by_counts<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>) {
    let mut tree = kind.map(1);
    let (keys, values) = kind.columns((0..40).map(|n| (n * 3, n)));
    assert!(tree.insert(&keys, &values).unwrap().all_placed());
    let frozen = tree.frozen().unwrap();
    let stream = kind.device.stream().unwrap();
    each_count(&kind.device, 40, |counted| {
        let (buffer, on) = (counted.buffer(&keys), frozen.on(&stream));
        let asked = counted.bounded(&buffer);
        let (mut found, mut outcomes) = (counted.results::<V>(), counted.results::<u8>());
        on.get(asked, &mut found, &mut outcomes).unwrap();
        counted.check(kind.name, &mut found, |index| values[index]);
        counted.check(kind.name, &mut outcomes, |_| Outcome::Found as u8);
        on.contains_key(asked, &mut outcomes).unwrap();
        counted.check(kind.name, &mut outcomes, |_| Outcome::Found as u8);
    });
}

/// Reads on a frozen tree do not affect later writes, and a tree that is frozen again shows those writes.
pub fn what_is_read_no_longer_is_written_again<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>) {
    let mut tree = kind.map(1);
    let stream = kind.device.stream().unwrap();
    for round in 0..4u64 {
        let (keys, values) = kind.columns((0..200).map(|n| (n * 4 + round, n + round)));
        let outcomes = tree.insert(&keys, &values).unwrap();
        assert!(outcomes.iter().all(|&outcome| outcome == Outcome::Inserted), "{}", kind.name);
        let asked = kind.device.from_slice(&keys).unwrap();
        let mut found = kind.device.buffer::<V>(keys.len()).unwrap();
        let mut outcomes = kind.device.buffer::<u8>(keys.len()).unwrap();
        let frozen = tree.frozen().unwrap();
        frozen.on(&stream).get(&asked, &mut found, &mut outcomes).unwrap();
        assert!(tree.remove(&keys[..50]).unwrap().into_iter().all(|removed| removed), "{}", kind.name);
        assert_eq!(found.read().unwrap(), values, "{}, round {round}", kind.name);
    }
    assert_eq!(contents(&tree).len(), 4 * 150, "{}", kind.name);
}
