//! Order of keys in trees and skip lists, and keys in sets and multimaps.
use crate::{Model, Ordered, Tested, draw_pairs, emulator, for_every_type};
use gpu::Device;
use phalanx::{BTree, MultiVersionBTree, SkipList, SlabMultiMap, SlabSet};
use phalanx_testing::common::Rng;
use std::collections::BTreeSet;
use std::num::NonZero;
use std::ops::Bound;

fn all_ordered<T: Tested>(found: Vec<(T, T)>) -> Vec<(Ordered<T>, Ordered<T>)> {
    found.into_iter().map(|(key, value)| (Ordered(key), Ordered(value))).collect()
}

fn one_ordered<T: Tested>(found: Option<(T, T)>) -> Option<(Ordered<T>, Ordered<T>)> {
    found.map(|(key, value)| (Ordered(key), Ordered(value)))
}

/// Compares the operations by key order of a structure with those of a model, for the keys in `asked`.
macro_rules! check_order {
    ($of:expr, $model:expr, $asked:expr) => {
        let (of, model, asked): (_, &Model<T>, &[T]) = (&$of, $model, $asked);
        let own = |(key, value): (&Ordered<T>, &Ordered<T>)| (*key, *value);
        assert_eq!(one_ordered(of.first().unwrap()), model.first_key_value().map(own));
        assert_eq!(one_ordered(of.last().unwrap()), model.last_key_value().map(own));
        for &key in asked {
            let (above, from) = ((Bound::Excluded(Ordered(key)), Bound::Unbounded), Ordered(key)..);
            assert_eq!(one_ordered(of.successor(&[key]).unwrap()[0]), model.range(above).next().map(own));
            assert_eq!(one_ordered(of.ceiling(&[key]).unwrap()[0]), model.range(from).next().map(own));
            let below = of.predecessor(&[key]).unwrap()[0];
            assert_eq!(one_ordered(below), model.range(..Ordered(key)).next_back().map(own));
            assert_eq!(
                one_ordered(of.floor(&[key]).unwrap()[0]),
                model.range(..=Ordered(key)).next_back().map(own)
            );
            let expected: Vec<_> = model.range(..Ordered(key)).map(own).collect();
            assert_eq!(of.count(&[..key]).unwrap(), [expected.len() as u64]);
            assert_eq!(all_ordered(of.range(&[..key]).unwrap().remove(0)), expected);
        }
        let expected: Vec<_> = model.iter().map(own).collect();
        assert_eq!(all_ordered(of.range(&[..]).unwrap().remove(0)), expected);
    };
}

fn order<T: Tested>(device: &Device) {
    let mut rng = Rng::new(11);
    let (keys, values) = draw_pairs::<T>(&mut rng, 40);
    let (asked, _) = draw_pairs::<T>(&mut rng, 4);
    let model: Model<T> =
        keys.iter().copied().map(Ordered).zip(values.iter().copied().map(Ordered)).collect();
    let expected: Vec<_> = model.iter().map(|(key, value)| (*key, *value)).collect();
    let mut tree = BTree::<T, T>::builder().device(device).build().unwrap();
    tree.bulk_build(&keys, &values, 0.7).unwrap();
    check_order!(tree, &model, &asked);
    assert_eq!(all_ordered(tree.iter().unwrap().collect()), expected);
    check_order!(tree.frozen().unwrap(), &model, &asked);
    let list = SkipList::<T, T>::builder().device(device).build().unwrap();
    assert!(list.insert(&keys, &values).unwrap().all_placed());
    check_order!(list, &model, &asked);
    assert_eq!(all_ordered(list.iter().unwrap().collect()), expected);
    let tree = MultiVersionBTree::<T, T>::builder().device(device).build().unwrap();
    assert!(tree.insert(&keys, &values).unwrap().all_placed());
    let before = tree.snapshot().unwrap();
    tree.remove(&keys[..1]).unwrap();
    check_order!(tree.at(&before).unwrap(), &model, &asked);
    assert_eq!(all_ordered(tree.at(&before).unwrap().iter().unwrap().collect()), expected);
}

#[test]
fn trees_have_the_order_of_every_type() {
    for_every_type!(order(&emulator()): i32 i64 f32 f64 char [u8; 4] NonZero<i32>);
}

/// The order that the documentation states for floats.
#[test]
fn zeros_and_nans_are_keys() {
    let nan = |bits| f32::from_bits(bits);
    let keys = [nan(0xffc0_0001), nan(0xffc0_0000), f32::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f32::INFINITY]
        .into_iter()
        .chain([nan(0x7fc0_0000), nan(0x7fc0_0001)])
        .collect::<Vec<_>>();
    let numbers: Vec<u32> = (0..keys.len() as u32).collect();
    let tree = BTree::<f32, u32>::builder().device(&emulator()).build().unwrap();
    let reversed: (Vec<f32>, Vec<u32>) = keys.iter().copied().zip(numbers.iter().copied()).rev().unzip();
    assert!(tree.insert(&reversed.0, &reversed.1).unwrap().all_placed());
    assert_eq!(tree.iter().unwrap().map(|(_, number)| number).collect::<Vec<_>>(), numbers);
    assert_eq!(tree.get(&keys).unwrap(), numbers.iter().copied().map(Some).collect::<Vec<_>>());
    assert_eq!(tree.range(&[..0.0f32]).unwrap()[0].len(), 5);
    assert_eq!(tree.get(&[nan(0x7fc0_0002)]).unwrap(), [None]);
}

fn sets<T: Tested>(device: &Device) {
    let mut rng = Rng::new(3);
    let (keys, values) = draw_pairs::<T>(&mut rng, 40);
    let mut set = SlabSet::<T>::builder().device(device).build().unwrap();
    assert!(set.insert(&keys).unwrap().all_placed());
    let listed = |set: &SlabSet<T>| set.iter().unwrap().map(Ordered).collect::<BTreeSet<_>>();
    assert_eq!(listed(&set), keys.iter().copied().map(Ordered).collect());
    let mut saved = Vec::new();
    set.save(&mut saved).unwrap();
    let loaded = SlabSet::<T>::load(&saved[..], SlabSet::builder().device(device)).unwrap();
    assert_eq!(listed(&loaded), listed(&set));
    let middle = keys[keys.len() / 2];
    set.retain_keys(keys[0]..=middle).unwrap();
    assert_eq!(listed(&set).last(), Some(&Ordered(middle)));
    let map = SlabMultiMap::<T, T>::builder().device(device).build().unwrap();
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    assert!(map.insert(&keys, &keys).unwrap().all_placed());
    for (index, found) in map.get_all(&keys).unwrap().iter().enumerate() {
        let found: Vec<_> = found.iter().copied().map(Ordered).collect();
        assert_eq!(found, [Ordered(values[index]), Ordered(keys[index])]);
    }
    assert_eq!(map.iter().unwrap().count(), 2 * keys.len());
}

#[test]
fn sets_and_multimaps_have_keys_of_every_type() {
    for_every_type!(sets(&emulator()): i32 i64 f32 f64 bool char [u8; 8] NonZero<i32>);
}
