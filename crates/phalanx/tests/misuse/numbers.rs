//! Keys and values at the ends of their types, and those that are no numbers.
use super::*;
use std::num::NonZero;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Calls `$check` with a map of each ordered family, of the given types of key and value.
macro_rules! each_ordered {
    (@ $family:ident, $key:ty, $value:ty, $map:ident, $check:block) => {{
        let $map = $family::<$key, $value>::builder().device(&emulator()).build().unwrap();
        $check
    }};
    ($key:ty, $value:ty, |$map:ident| $check:block) => {
        each_ordered!(@ BTree, $key, $value, $map, $check);
        each_ordered!(@ MultiVersionBTree, $key, $value, $map, $check);
        each_ordered!(@ SkipList, $key, $value, $map, $check);
    };
}

/// NaN is above all numbers, -0.0 below 0.0.
#[test]
fn ranges_that_end_at_no_number() {
    each_ordered!(f32, u32, |map| {
        assert!(map.insert(&[f32::NAN, -0.0, 0.0], &[1, 2, 3]).unwrap().all_placed());
        refuses!(map.range(&[f32::NAN..=1.0]), Error::Range { .. }, "NaN", "swapped");
        refuses!(map.count(&[0.0..=-0.0]), Error::Range { .. }, "swapped");
        assert_eq!(map.count(&[-0.0..=f32::NAN, 0.0..=0.0]).unwrap(), [3, 1]);
        assert_eq!(map.successor(&[f32::INFINITY]).unwrap()[0].unwrap().1, 1);
        assert_eq!(map.predecessor(&[-0.0]).unwrap(), [None]);
    });
}

#[test]
fn keys_that_are_no_numbers() {
    let map = HashMap::<f64, f64>::builder().device(&emulator()).build().unwrap();
    assert!(map.insert(&[f64::NAN, -f64::NAN, 0.0, -0.0], &[1.0, 2.0, 3.0, 4.0]).unwrap().all_placed());
    assert_eq!((map.len().unwrap(), map.get(&[-f64::NAN]).unwrap()), (4, vec![Some(2.0)]));
    let largest = map.upsert(Merge::Max, &[0.0, 0.0], &[f64::NAN, 5.0]).unwrap();
    assert!(largest.all_placed() && map.get(&[0.0]).unwrap()[0].unwrap().is_nan());
}

#[test]
fn ranges_across_characters_that_there_are_not() {
    const LAST: char = '\u{d7ff}';
    const NEXT: char = '\u{e000}';
    each_ordered!(char, bool, |map| {
        assert!(map.insert(&['\0', LAST, NEXT, char::MAX], &[true; 4]).unwrap().all_placed());
        assert_eq!(map.successor(&[LAST, char::MAX]).unwrap(), [Some((NEXT, true)), None]);
        assert_eq!(map.predecessor(&[NEXT, '\0']).unwrap(), [Some((LAST, true)), None]);
        assert_eq!(map.count(&[LAST..NEXT, NEXT..char::MAX]).unwrap(), [1, 1]);
        refuses!(map.count(&[NEXT..=LAST]), Error::Range { .. }, "swapped");
    });
}

#[test]
fn ranges_below_the_least_key() {
    const ONE: NonZero<u64> = NonZero::<u64>::MIN;
    each_ordered!(NonZero<u64>, u32, |map| {
        assert!(map.insert(&[ONE, NonZero::<u64>::MAX], &[1, 2]).unwrap().all_placed());
        assert_eq!(
            (map.predecessor(&[ONE]).unwrap(), map.floor(&[ONE]).unwrap()),
            (vec![None], vec![Some((ONE, 1))])
        );
        assert_eq!(map.count(&[(Unbounded, Excluded(ONE)), (Unbounded, Included(ONE))]).unwrap(), [0, 1]);
    });
}

#[test]
fn ranges_above_the_greatest_key() {
    each_ordered!(u32, u32, |map| {
        let keys = [0, u32::MAX - 1, u32::MAX];
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        let ranges =
            [(Excluded(u32::MAX), Unbounded), (Included(u32::MAX), Unbounded), (Unbounded, Unbounded)];
        assert_eq!(map.count(&ranges).unwrap(), [0, 1, 3]);
        assert_eq!(map.successor(&[u32::MAX, u32::MAX - 1]).unwrap(), [None, Some((u32::MAX, u32::MAX))]);
        assert_eq!(map.last().unwrap(), Some((u32::MAX, u32::MAX)));
    });
}

/// Keys and values whose bits are those of an empty slot, a tombstone or a busy slot elsewhere.
#[test]
fn keys_and_values_of_special_bits() {
    fn check(mut map: impl Family) {
        let words = [u32::MAX, u32::MAX - 1, u32::MAX - 2, 0x8000_0000, 0];
        assert!(map.insert(&words, &words).unwrap().all_placed());
        assert_eq!(map.get(&words).unwrap(), words.map(Some));
        assert_eq!(map.take(&words).unwrap(), words.map(Some));
        assert_eq!(map.remove(&words).unwrap(), [false; 5]);
        map.retain(|_, _| true).unwrap();
        is_unchanged(&map);
    }
    each_map!(check);
}

/// The old values of one key in a batch are those of some order: none is lost, none appears twice.
#[test]
fn keys_that_a_batch_replaces_and_takes_several_times() {
    fn check(map: impl Family) {
        let replaced = map.replace(&[1; 3], &[11, 12, 13]).unwrap();
        let mut seen: Vec<u32> =
            replaced.iter().copied().flatten().chain(map.get(&[1]).unwrap()[0]).collect();
        seen.sort();
        assert_eq!(seen, [10, 11, 12, 13]);
        let taken = map.take(&[2; 3]).unwrap();
        assert_eq!(taken.iter().copied().flatten().collect::<Vec<_>>(), [20]);
        assert_eq!(map.len().unwrap(), 1);
    }
    each_map!(check);
}

#[test]
fn sums_that_overflow() {
    fn check(map: impl Family) {
        assert!(map.upsert(Merge::Add, &[1, 1], &[u32::MAX, u32::MAX]).unwrap().all_placed());
        assert_eq!(map.get(&[1]).unwrap(), [Some(8)], "10 - 1 - 1");
    }
    each_map!(check);
}
