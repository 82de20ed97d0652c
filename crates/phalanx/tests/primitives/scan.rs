//! Scans, reductions and runs, compared with iterators.
use super::sort::key;
use super::{device, inputs, random, sizes};
use phalanx::Device;
use phalanx::kernels::primitives::operator::Sum;
use phalanx::kernels::primitives::scan::{Scan, Vectors};
use phalanx::primitives::{Fold, Number, Workspace, runs_bytes, scan_bytes, scan_tiles};
use proptest::prelude::*;

/// Plan whose blocks load one tile ahead.
type Ahead = Vectors<Sum<u32>, 64, 1, 4, true>;

const FOLDS: [Fold; 3] = [Fold::Sum, Fold::Min, Fold::Max];

pub fn identity<T: Number>(fold: Fold) -> T {
    if fold == Fold::Min { T::narrow(u128::MAX) } else { T::narrow(0) }
}

pub fn combine<T: Number>(fold: Fold, first: T, second: T) -> T {
    match fold {
        Fold::Sum => T::narrow(first.widen() + second.widen()),
        Fold::Min => first.min(second),
        Fold::Max => first.max(second),
    }
}

fn check<T: Number>(device: &Device, tile: Option<&str>, fold: Fold, numbers: &[T]) {
    let (mut sum, mut exclusive, mut inclusive) = (identity(fold), Vec::new(), Vec::new());
    for &number in numbers {
        exclusive.push(sum);
        sum = combine(fold, sum, number);
        inclusive.push(sum);
    }
    let len = numbers.len();
    let mut work = Workspace::on_device(device, scan_bytes::<T>(len) + len * 16).unwrap();
    work.set_tile(tile);
    let (mut from, mut to) = (device.from_slice(numbers).unwrap(), device.buffer(len).unwrap());
    work.exclusive_scan(fold, &from, &mut to).unwrap();
    assert!(to.read().unwrap() == exclusive, "exclusive {fold:?} of {len} by {tile:?}");
    work.inclusive_scan(fold, &from, &mut to).unwrap();
    assert!(to.read().unwrap() == inclusive, "inclusive {fold:?} of {len} by {tile:?}");
    let mut whole = device.buffer(1).unwrap();
    work.reduce(fold, &from, &mut whole).unwrap();
    assert_eq!(whole.read().unwrap(), [sum], "{fold:?} of {len}");
    if fold == Fold::Sum {
        let mut offsets = device.buffer(len + 1).unwrap();
        work.offsets(&from, &mut offsets).unwrap();
        exclusive.push(sum);
        assert!(offsets.read().unwrap() == exclusive, "offsets of {len} by {tile:?}");
    }
    work.scan_in_place(fold, &mut from, true).unwrap();
    assert!(from.read().unwrap() == inclusive, "{fold:?} in place of {len} by {tile:?}");
}

/// Returns the number of elements in the tile of a name such as `64x4` or `64x4_ahead`.
fn tile_size(name: &str) -> usize {
    let (threads, items) = name.split('_').next().unwrap().split_once('x').unwrap();
    threads.parse::<usize>().unwrap() * items.parse::<usize>().unwrap()
}

fn check_all<T: Number>() {
    let device = device();
    for fold in FOLDS {
        for tile in scan_tiles::<T>(fold) {
            for len in sizes(tile_size(tile)) {
                let numbers: Vec<T> = random(len as u64, len).map(key).collect();
                check(&device, Some(tile), fold, &numbers);
            }
        }
    }
}

#[test]
fn every_tile_of_short_numbers() {
    check_all::<u32>();
}

#[test]
fn every_tile_of_long_numbers() {
    check_all::<u64>();
}

#[test]
fn windows_of_32_tiles_are_looked_back_over() {
    let device = device();
    for len in [64 * 4 * 32, 64 * 4 * 70 + 3] {
        let numbers: Vec<u32> = random(5, len).map(key).collect();
        check(&device, Some("64x4"), Fold::Sum, &numbers);
        let numbers: Vec<u64> = random(6, len).collect();
        check(&device, Some("64x2"), Fold::Sum, &numbers);
    }
}

#[test]
fn blocks_that_work_ahead_share_any_number_of_tiles() {
    let device = device();
    let (short, long) = (64 * 4, 64 * 2);
    let resident = device.occupancy_grid::<Scan<Ahead>>(64).unwrap().blocks as usize;
    for tiles in [1, 2, resident - 1, resident, resident + 1, 2 * resident, 3 * resident + 5] {
        let numbers: Vec<u32> = random(tiles as u64, tiles * short - 3).map(key).collect();
        check(&device, Some("64x4_ahead"), Fold::Sum, &numbers);
        let numbers: Vec<u64> = random(tiles as u64, tiles * long).collect();
        check(&device, Some("64x2_ahead_nap"), Fold::Sum, &numbers);
    }
}

/// Returns the keys of runs of equal adjacent keys, and the combined values of each run.
fn runs_of<K: Number, T: Number>(fold: Fold, keys: &[K], values: &[T]) -> (Vec<K>, Vec<T>) {
    let (mut of, mut results): (Vec<K>, Vec<T>) = (Vec::new(), Vec::new());
    for (&key, &value) in keys.iter().zip(values) {
        if of.last() == Some(&key) {
            let last = results.last_mut().unwrap();
            *last = combine(fold, *last, value);
        } else {
            of.push(key);
            results.push(value);
        }
    }
    (of, results)
}

fn check_runs<K: Number, T: Number>(device: &Device, fold: Fold, keys: &[K], values: &[T]) {
    let expected = runs_of(fold, keys, values);
    let (runs, len) = (expected.0.len(), keys.len());
    let mut work = Workspace::on_device(device, runs_bytes(len)).unwrap();
    let (of, values) = (device.from_slice(keys).unwrap(), device.from_slice(values).unwrap());
    let (mut run_keys, mut results) = (device.zeroed(len).unwrap(), device.zeroed::<T>(len).unwrap());
    let mut count = device.buffer(1).unwrap();
    work.reduce_by_key(fold, (&of, &values), (&mut run_keys, &mut results), &mut count).unwrap();
    assert_eq!(count.read().unwrap(), [runs as u32], "{fold:?} of {len}");
    assert!(run_keys.read().unwrap()[..runs] == expected.0, "keys under {fold:?} of {len}");
    assert!(results.read().unwrap()[..runs] == expected.1, "values under {fold:?} of {len}");
    let mut lengths = device.zeroed::<u32>(len).unwrap();
    work.run_lengths(&of, (&mut run_keys, &mut lengths), &mut count).unwrap();
    let ones = runs_of(Fold::Sum, keys, &vec![1u32; len]).1;
    assert!(lengths.read().unwrap()[..runs] == ones, "lengths of runs of {len}");
}

#[test]
fn runs_of_every_kind() {
    let device = device();
    for len in sizes(2048) {
        for (kind, wide) in inputs(len) {
            println!("{kind}, {len}");
            let short: Vec<u32> = random(7, len).map(key).collect();
            let keys: Vec<u32> = wide.iter().map(|&number| key(number >> 62)).collect();
            check_runs(&device, Fold::Sum, &keys, &short);
            check_runs(&device, Fold::Max, &wide, &wide);
        }
    }
    let keys: Vec<u64> = random(8, 3000).map(|number| number % 3).collect();
    let long: Vec<u64> = random(9, 3000).collect();
    let short: Vec<u32> = random(10, 3000).map(key).collect();
    let few: Vec<u32> = keys.iter().map(|&number| key(number)).collect();
    for fold in FOLDS {
        check_runs(&device, fold, &keys, &long);
        check_runs(&device, fold, &keys, &short);
        check_runs(&device, fold, &few, &long);
        check_runs(&device, fold, &few, &short);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn scans_are_what_iterators_say(numbers in proptest::collection::vec(any::<u32>(), 0..2000)) {
        check(&device(), Some("64x4"), Fold::Sum, &numbers);
    }
}
