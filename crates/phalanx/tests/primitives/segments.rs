//! Scans, sums and sorts of segments, compared with slices.
use super::scan::{combine, identity};
use super::sort::key;
use super::{device, inputs, random};
use bytemuck::Pod;
use phalanx::Device;
use phalanx::primitives::{
    Fold, Number, Workspace, reduce_segments_bytes, scan_segments_bytes, segment_tiles, segment_windows,
    sort_segments_bytes,
};
use proptest::prelude::*;
use std::fmt::Debug;
use std::ops::Range;

/// Returns the offsets of segments with these lengths, after `skipped` elements that belong to none.
fn offsets(skipped: usize, lengths: &[usize]) -> Vec<u32> {
    let mut offsets = vec![skipped as u32];
    for length in lengths {
        offsets.push(offsets[offsets.len() - 1] + *length as u32);
    }
    offsets
}

/// Returns the index range of each segment.
fn segments(offsets: &[u32]) -> impl Iterator<Item = Range<usize>> {
    offsets.windows(2).map(|ends| ends[0] as usize..ends[1] as usize)
}

/// Returns lengths of each kind that segmented primitives are known to fail on, for tiles of `tile` elements.
/// Each case has elements before and after all segments.
fn shapes(tile: usize) -> Vec<(&'static str, usize, Vec<usize>, usize)> {
    let random: Vec<usize> = random(3, 60).map(|number| (number % 40) as usize).collect();
    let mixed = random.iter().enumerate().map(|(place, length)| match place {
        7 | 40 => 3 * tile + length,
        _ => *length,
    });
    vec![
        ("none", 0, vec![], 0),
        ("none, and elements", 0, vec![], 70),
        ("one", 0, vec![2 * tile + 5], 0),
        ("one of one", 0, vec![1], 0),
        ("one, amid others", 3, vec![tile], 40),
        ("all empty", 5, vec![0; 3 * tile], 6),
        ("ones", 0, vec![1; 2 * tile + 9], 0),
        ("a tile each", 0, vec![tile; 4], 0),
        ("beside tiles", 1, vec![tile - 1, tile, tile + 1, 1, 0, tile - 2], 1),
        ("pairs", 31, vec![2; tile], 33),
        ("words", 0, vec![32; tile / 8], 0),
        ("empty ends", 0, [vec![0; 40], vec![tile + 3], vec![0; 40]].concat(), 0),
        ("short", 2, random.clone(), 2),
        ("mixed", 0, mixed.collect(), 0),
        ("long", 64, vec![5 * tile + 1, 4 * tile], 64),
    ]
}

fn check_scans<T: Number>(device: &Device, tile: Option<&str>, fold: Fold, numbers: &[T], offsets: &[u32]) {
    let (len, count) = (numbers.len(), offsets.len() - 1);
    let kept = T::narrow(7);
    let (mut exclusive, mut inclusive, mut sums) = (vec![kept; len], vec![kept; len], Vec::new());
    for places in segments(offsets) {
        let mut sum = identity(fold);
        for place in places {
            exclusive[place] = sum;
            sum = combine(fold, sum, numbers[place]);
            inclusive[place] = sum;
        }
        sums.push(sum);
    }
    let bytes = reduce_segments_bytes::<T>(len, count).max(scan_segments_bytes::<T>(len));
    let mut work = Workspace::on_device(device, bytes + 4 * len + 4096).unwrap();
    work.set_tile(tile);
    let (from, at) = (device.from_slice(numbers).unwrap(), device.from_slice(offsets).unwrap());
    let mut results = device.buffer(count).unwrap();
    work.reduce_segments(fold, &from, &at, &mut results).unwrap();
    assert_eq!(results.read().unwrap(), sums, "{fold:?}");
    let mut to = device.from_slice(&vec![kept; len]).unwrap();
    work.exclusive_scan_segments(fold, &from, &at, &mut to).unwrap();
    assert!(to.read().unwrap() == exclusive, "exclusive {fold:?}");
    work.inclusive_scan_segments(fold, &from, &at, &mut to).unwrap();
    assert!(to.read().unwrap() == inclusive, "inclusive {fold:?}");
    let ends = offsets[0] as usize..offsets[count] as usize;
    let mut in_place = numbers.to_vec();
    in_place[ends.clone()].copy_from_slice(&exclusive[ends]);
    let mut from = from;
    work.scan_segments_in_place(fold, &mut from, &at, false).unwrap();
    assert!(from.read().unwrap() == in_place, "{fold:?} in place");
}

/// Checks every shape with each tile.
fn check_shapes<T: Number>(fold: Fold) {
    let device = device();
    for tile in segment_tiles::<T>(fold) {
        let (threads, items) = tile.split_once('x').unwrap();
        let size = threads.parse::<usize>().unwrap() * items.parse::<usize>().unwrap();
        for (kind, before, lengths, behind) in shapes(size) {
            println!("{kind}, by {tile}");
            let offsets = offsets(before, &lengths);
            let len = offsets[lengths.len()] as usize + behind;
            let numbers: Vec<T> = random(len as u64, len).map(key).collect();
            check_scans(&device, Some(tile), fold, &numbers, &offsets);
        }
    }
}

#[test]
fn sums_and_scans_of_short_numbers() {
    check_shapes::<u32>(Fold::Sum);
}

#[test]
fn sums_and_scans_of_long_numbers() {
    check_shapes::<u64>(Fold::Sum);
}

#[test]
fn sums_and_scans_by_other_folds() {
    let device = device();
    let offsets = offsets(4, &[0, 3, 0, 5000, 1, 1, 70, 0]);
    for fold in [Fold::Min, Fold::Max] {
        let numbers: Vec<u64> = random(1, 5090).collect();
        check_scans(&device, None, fold, &numbers, &offsets);
        let numbers: Vec<u32> = numbers.into_iter().map(key).collect();
        check_scans(&device, None, fold, &numbers, &offsets);
    }
}

fn check_sort<K: Number, V: Pod + PartialEq + Debug>(
    device: &Device,
    window: Option<&str>,
    keys: &[K],
    offsets: &[u32],
    value: impl Fn(usize) -> V,
) {
    let (len, count) = (keys.len(), offsets.len() - 1);
    let mut order: Vec<usize> = (0..len).collect();
    for places in segments(offsets) {
        order[places].sort_by_key(|&place| keys[place]);
    }
    let expected_keys: Vec<K> = order.iter().map(|&place| keys[place]).collect();
    let expected: Vec<V> = order.iter().map(|&place| value(place)).collect();
    let values: Vec<V> = (0..len).map(&value).collect();
    // Small windows leave more segments to the sort of long segments.
    let bytes = sort_segments_bytes::<K, V>(len, count) + 100 * len + 65536;
    let mut work = Workspace::on_device(device, bytes).unwrap();
    work.set_tile(window);
    let at = device.from_slice(offsets).unwrap();
    let (mut keys, mut values) = (device.from_slice(keys).unwrap(), device.from_slice(&values).unwrap());
    let (mut sorted, mut moved) = (device.buffer(len).unwrap(), device.buffer(len).unwrap());
    work.sort_segments(&keys, &at, &mut sorted).unwrap();
    assert!(sorted.read().unwrap() == expected_keys, "keys");
    work.sort_segment_pairs((&keys, &values), &at, (&mut sorted, &mut moved)).unwrap();
    assert!(sorted.read().unwrap() == expected_keys, "keys of pairs");
    assert!(moved.read().unwrap() == expected, "values");
    work.sort_segment_pairs_in_place((&mut keys, &mut values), &at).unwrap();
    assert!(keys.read().unwrap() == expected_keys, "keys of pairs in place");
    assert!(values.read().unwrap() == expected, "values in place");
    let mut again = sorted;
    work.sort_segments_in_place(&mut again, &at).unwrap();
    assert!(again.read().unwrap() == expected_keys, "sorted keys");
}

/// Checks every shape with each window. Its short segments have at most a third of the window.
fn check_sorts<K: Number>() {
    let device = device();
    for window in segment_windows::<K>() {
        let (threads, items) = window.split_once('x').unwrap();
        let most = threads.parse::<usize>().unwrap() * items.parse::<usize>().unwrap() / 3;
        for (kind, before, lengths, behind) in shapes(most) {
            println!("{kind}, by {window}");
            let offsets = offsets(before, &lengths);
            let len = offsets[lengths.len()] as usize + behind;
            let keys: Vec<K> = random(len as u64, len).map(|number| key((number % 1000) << 20)).collect();
            check_sort(&device, Some(window), &keys, &offsets, |place| place as u32);
        }
    }
}

#[test]
fn sorts_of_short_keys() {
    check_sorts::<u32>();
}

#[test]
fn sorts_of_long_keys() {
    check_sorts::<u64>();
}

#[test]
fn keys_of_every_kind_are_sorted_in_segments() {
    let device = device();
    let lengths = [70, 0, 3, 64, 65, 1, 400, 20, 128];
    let offsets = offsets(10, &lengths);
    let len = offsets[lengths.len()] as usize + 10;
    for (kind, wide) in inputs(len) {
        println!("{kind}");
        let short: Vec<u32> = wide.iter().copied().map(key).collect();
        check_sort(&device, Some("64x3"), &short, &offsets, |place| [place as u8; 3]);
        check_sort(&device, Some("64x3"), &wide, &offsets, |place| place as u128);
        check_sort(&device, None, &wide, &offsets, |place| place as u64);
    }
}

#[test]
fn more_long_segments_than_a_digit_counts() {
    let device = device();
    let offsets = offsets(0, &[65; 300]);
    let keys: Vec<u32> = random(2, 300 * 65).map(key).collect();
    check_sort(&device, Some("64x3"), &keys, &offsets, |place| place as u16);
    let keys: Vec<u64> = random(2, 300 * 65).collect();
    check_sort(&device, Some("64x3"), &keys, &offsets, |place| place as u16);
}

/// Results are unspecified. But the calls terminate and access no other memory, which the emulator checks.
#[test]
fn offsets_that_do_not_ascend_do_no_harm() {
    let device = device();
    let keys = device.from_slice(&random(1, 3000).collect::<Vec<_>>()).unwrap();
    for offsets in [vec![2000, 1000, 0], vec![0, 5000, 1], vec![u32::MAX, 3, 900, 100, 2900], vec![4000; 9]] {
        let count = offsets.len() - 1;
        let at = device.from_slice(&offsets).unwrap();
        let bytes =
            sort_segments_bytes::<u64, u32>(3000, count).max(reduce_segments_bytes::<u64>(3000, count));
        let mut work = Workspace::on_device(&device, bytes + (1 << 20)).unwrap();
        let (mut sums, mut to) = (device.buffer(count).unwrap(), device.buffer(3000).unwrap());
        work.reduce_segments(Fold::Sum, &keys, &at, &mut sums).unwrap();
        work.exclusive_scan_segments(Fold::Sum, &keys, &at, &mut to).unwrap();
        for window in ["64x3", "384x8"] {
            work.set_tile(Some(window));
            let (values, mut moved) = (device.zeroed::<u32>(3000).unwrap(), device.buffer(3000).unwrap());
            work.sort_segment_pairs((&keys, &values), &at, (&mut to, &mut moved)).unwrap();
        }
        device.synchronize().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn segments_of_any_lengths(
        lengths in proptest::collection::vec(
            prop_oneof![4 => 0usize..6, 2 => 0usize..70, 1 => 0usize..400],
            0..60,
        ),
        before in 0usize..50,
        behind in 0usize..50,
        bits in 1u32..32,
    ) {
        let device = device();
        let offsets = offsets(before, &lengths);
        let len = offsets[lengths.len()] as usize + behind;
        let keys: Vec<u32> = random(len as u64, len).map(|number| number as u32 >> bits).collect();
        check_scans(&device, Some("64x4"), Fold::Sum, &keys, &offsets);
        check_sort(&device, Some("64x3"), &keys, &offsets, |place| place as u32);
    }
}
