//! Queries by key order, within inner lists and across them.
use crate::model::{PLACEMENTS, check, check_order, device, least, numbers, small};
use phalanx::{Key, TieredSkipList, Value};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Checks ranges of all lengths and kinds.
fn check_ranges(list: &TieredSkipList<u32, u32>, model: &BTreeMap<u32, u32>, most: u32) {
    let ends: Vec<u32> = numbers(60, u64::from(most), 5).into_iter().map(|end| end as u32).collect();
    let mut ranges: Vec<(Bound<u32>, Bound<u32>)> = ends
        .chunks(2)
        .map(|ends| {
            let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
            if high % 2 == 0 {
                (Bound::Included(low), Bound::Included(high))
            } else {
                (Bound::Excluded(low), Bound::Excluded(high.max(low + 1)))
            }
        })
        .collect();
    ranges.extend([(Bound::Unbounded, Bound::Unbounded), (Bound::Included(5), Bound::Excluded(5))]);
    ranges.extend([
        (Bound::Unbounded, Bound::Excluded(most / 2)),
        (Bound::Included(most / 2), Bound::Unbounded),
    ]);
    let is_in = |range: &(Bound<u32>, Bound<u32>), key: &u32| std::ops::RangeBounds::contains(range, key);
    let expected: Vec<Vec<(u32, u32)>> = ranges
        .iter()
        .map(|range| {
            model.iter().map(|(&key, &value)| (key, value)).filter(|(key, _)| is_in(range, key)).collect()
        })
        .collect();
    assert_eq!(list.range(&ranges).unwrap(), expected);
    let counts: Vec<u64> = expected.iter().map(|pairs| pairs.len() as u64).collect();
    assert_eq!(list.count(&ranges).unwrap(), counts);
}

#[test]
fn ranges_across_inner_lists() {
    let device = device();
    for placement in PLACEMENTS {
        let list = least(small::<u32, u32>(&device).placement(placement));
        let keys: Vec<u32> = numbers(900, 5000, 3).into_iter().map(|key| key as u32).collect();
        assert!(list.insert(&keys, &keys).unwrap().all_placed());
        assert!(placement.is_flat() || list.lists() > 4);
        let model: BTreeMap<u32, u32> = keys.iter().map(|&key| (key, key)).collect();
        check_ranges(&list, &model, 5000);
        let asked: Vec<u32> = (0..5010).step_by(7).chain([u32::MAX]).collect();
        check_order(&list, &model, &asked);
    }
}

/// Removals leave inner lists without pairs, which queries skip.
#[test]
fn inner_lists_without_pairs_are_skipped() {
    let device = device();
    for placement in PLACEMENTS {
        let list = least(small::<u32, u32>(&device).placement(placement));
        let keys: Vec<u32> = (0..1000).collect();
        assert!(list.insert(&keys, &keys).unwrap().all_placed());
        let mut model: BTreeMap<u32, u32> = keys.iter().map(|&key| (key, key)).collect();
        for (from, to) in [(300, 700), (0, 150), (900, 1000)] {
            let removed: Vec<u32> = (from..to).collect();
            assert!(list.remove(&removed).unwrap().iter().all(|&is_removed| is_removed));
            model.retain(|key, _| !(from..to).contains(key));
            check(&list, &model, &[0, 149, 150, 299, 300, 500, 699, 700, 899, 900, 999, u32::MAX]);
            check_ranges(&list, &model, 1000);
        }
        assert_eq!(list.successor(&[299, 300, 650]).unwrap(), [Some((700, 700)); 3]);
        assert_eq!(list.predecessor(&[700, 301, 650]).unwrap(), [Some((299, 299)); 3]);
    }
}

/// Returns the next pair above `key` in each inner list's neighbourhood.
fn wide<K: Key + Ord, V: Value + PartialEq>(key: fn(u64) -> K, value: fn(u64) -> V) {
    let device = device();
    for placement in PLACEMENTS {
        let list = least(small::<K, V>(&device).placement(placement));
        let model: BTreeMap<K, V> = (0..500).map(|number| (key(number), value(number))).collect();
        let (keys, values): (Vec<K>, Vec<V>) = model.iter().map(|(&key, &value)| (key, value)).unzip();
        assert!(list.insert(&keys, &values).unwrap().all_placed());
        check(&list, &model, &[]);
        assert_eq!(list.count(&[..]).unwrap(), [500]);
        assert_eq!(list.range(&[..]).unwrap()[0].len(), 500);
    }
}

#[test]
fn order_of_wide_and_signed_keys() {
    wide(|number| u64::MAX - (number << 50), |number| number);
    wide(|number| number as i32 - 250, |number| number as u32);
    wide(|number| i64::MIN + ((number as i64) << 54), |number| number as u32);
}

/// The part of a range in a list is read by many short ranges if it has many pairs.
#[test]
fn long_ranges() {
    let device = device();
    let spread: Vec<u32> = numbers(9000, 1 << 30, 8).into_iter().map(|key| key as u32).collect();
    // With such keys, the list expects few pairs in the ranges that have many.
    let dense: Vec<u32> = (0..6000).chain([1 << 29, (1 << 30) - 1]).collect();
    for (keys, most) in [(spread, 1 << 30), (dense, 6000)] {
        let list = least(small::<u32, u32>(&device).list_capacity(8000));
        assert!(list.insert(&keys, &keys).unwrap().all_placed());
        let model: BTreeMap<u32, u32> = keys.iter().map(|&key| (key, key)).collect();
        check_ranges(&list, &model, most);
    }
}
