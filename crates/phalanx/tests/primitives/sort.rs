//! Sorts, compared with `slice::sort_by_key`, which is stable.
use super::{device, inputs, random, sizes};
use bytemuck::Pod;
use phalanx::Device;
use phalanx::primitives::{Bits, Number, Workspace, sort_bytes, sort_tiles};
use proptest::prelude::*;
use std::fmt::Debug;

/// Returns a 64-bit key, truncated to its size.
pub fn key<K: Number>(wide: u64) -> K {
    K::narrow(u128::from(wide))
}

/// Returns the bits that a sort compares.
fn seen<K: Number>(key: K, (first, end): (u32, u32)) -> u128 {
    let above = 128 - end;
    if first == end { 0 } else { key.widen() << above >> above >> first }
}

/// Returns a workspace for a sort with any tile, including small ones.
pub fn workspace<K: Number, V: Pod>(device: &Device, len: usize) -> Workspace {
    Workspace::on_device(device, sort_bytes::<K, V>(len) + 16 * len + 8192).unwrap()
}

/// Sorts numbered keys with both functions, with a given tile.
fn check_pairs<K: Number, V: Pod + PartialEq + Debug>(
    device: &Device,
    tile: Option<&str>,
    keys: &[K],
    bits: (u32, u32),
    value: impl Fn(usize) -> V,
) {
    let values: Vec<V> = (0..keys.len()).map(&value).collect();
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|&place| seen(keys[place], bits));
    let expected_keys: Vec<K> = order.iter().map(|&place| keys[place]).collect();
    let expected: Vec<V> = order.iter().map(|&place| values[place]).collect();
    let mut work = workspace::<K, V>(device, keys.len());
    work.set_tile(tile);
    let (mut keys, mut values) = (device.from_slice(keys).unwrap(), device.from_slice(&values).unwrap());
    let (mut sorted, mut moved) = (device.buffer(keys.len()).unwrap(), device.buffer(keys.len()).unwrap());
    let bits = Bits::new(bits.0, bits.1);
    work.sort_pairs((&keys, &values), (&mut sorted, &mut moved), bits).unwrap();
    work.sort_pairs_in_place(&mut keys, &mut values, bits).unwrap();
    for (keys, values) in [(sorted, moved), (keys, values)] {
        assert!(keys.read().unwrap() == expected_keys, "keys of {} by {tile:?}", expected.len());
        assert!(values.read().unwrap() == expected, "values of {} by {tile:?}", expected.len());
    }
}

fn check_keys<K: Number>(device: &Device, tile: Option<&str>, keys: &[K], bits: Bits) {
    let mut expected = keys.to_vec();
    expected.sort_unstable();
    let mut work = workspace::<K, ()>(device, keys.len());
    work.set_tile(tile);
    let (mut keys, mut sorted) = (device.from_slice(keys).unwrap(), device.buffer(keys.len()).unwrap());
    work.sort_keys(&keys, &mut sorted, bits).unwrap();
    work.sort_keys_in_place(&mut keys, bits).unwrap();
    assert!(sorted.read().unwrap() == expected && keys.read().unwrap() == expected, "{}", expected.len());
}

#[test]
fn pairs_of_every_size_around_small_tiles() {
    let device = device();
    for len in sizes(192) {
        for (kind, wide) in inputs(len) {
            println!("{kind}, {len}");
            let keys: Vec<u32> = wide.into_iter().map(key).collect();
            check_pairs(&device, Some("64x3"), &keys, (0, 32), |place| place as u32);
        }
    }
}

#[test]
fn keys_of_every_size_around_small_tiles() {
    let device = device();
    for len in sizes(192) {
        for (_, wide) in inputs(len) {
            let keys: Vec<u32> = wide.into_iter().map(key).collect();
            check_keys(&device, Some("64x3"), &keys, Bits::ALL);
        }
    }
}

/// Checks every compiled tile, with sizes around its ends.
fn check_tiles<K: Number, V: Pod + PartialEq + Debug>(value: impl Fn(usize) -> V + Copy) {
    let device = device();
    for tile in sort_tiles::<K, V>() {
        let numbers = tile.split('_').next().unwrap().split_once('x').unwrap();
        let size = numbers.0.parse::<usize>().unwrap() * numbers.1.parse::<usize>().unwrap();
        for len in [size - 1, size, 2 * size + 1] {
            let keys: Vec<K> =
                random(len as u64, len).map(|number| key((number << 20) | (number % 512))).collect();
            check_pairs(&device, Some(tile), &keys, (4, 21), value);
        }
    }
}

#[test]
fn every_tile_of_short_keys() {
    check_tiles::<u32, ()>(|_| ());
    check_tiles::<u32, u32>(|place| place as u32);
    check_tiles::<u32, u64>(|place| (place as u64) << 32);
    check_tiles::<u32, u128>(|place| (place as u128) << 96 | 1);
}

#[test]
fn every_tile_of_long_keys() {
    check_tiles::<u64, ()>(|_| ());
    check_tiles::<u64, [u16; 2]>(|place| [place as u16, (place >> 16) as u16]);
    check_tiles::<u64, u64>(|place| (place as u64) << 32);
    check_tiles::<u64, u128>(|place| (place as u128) << 96 | 1);
}

#[test]
fn values_of_other_sizes_are_gathered() {
    let device = device();
    let keys: Vec<u32> = random(1, 500).map(|number| number as u32 % 100).collect();
    check_pairs(&device, None, &keys, (0, 32), |place| place as u16);
    check_pairs(&device, Some("64x3"), &keys, (0, 9), |place| [place as u8; 3]);
    check_pairs(&device, None, &keys, (0, 7), |place| [place as u32; 3]);
    check_pairs(&device, None, &keys, (0, 7), |place| [place as u64; 5]);
    let long: Vec<u64> = keys.iter().map(|&key| u64::from(key) << 50).collect();
    check_pairs(&device, None, &long, (48, 64), |place| place as u8);
}

#[test]
fn any_range_of_bits() {
    let device = device();
    let keys: Vec<u32> = random(2, 400).map(|number| number as u32).collect();
    for bits in [(0, 0), (0, 1), (31, 32), (32, 32), (3, 11), (5, 29), (0, 8), (0, 24), (7, 32)] {
        check_pairs(&device, Some("64x3"), &keys, bits, |place| place as u32);
    }
    let keys: Vec<u64> = random(3, 400).collect();
    for bits in [(0, 64), (60, 64), (33, 57), (63, 64), (1, 64)] {
        check_pairs(&device, None, &keys, bits, |place| place as u64);
    }
}

#[test]
fn a_workspace_serves_sorts_of_other_sizes_one_after_the_other() {
    let device = device();
    let mut work = workspace::<u64, ()>(&device, 3000);
    for len in [3000, 10, 2999, 0, 700] {
        let mut numbers: Vec<u64> = random(len as u64, len).collect();
        let mut keys = device.from_slice(&numbers).unwrap();
        work.sort_keys_in_place(&mut keys, Bits::ALL).unwrap();
        numbers.sort_unstable();
        assert_eq!(keys.read().unwrap(), numbers);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn pairs_are_sorted_stably(
        keys in proptest::collection::vec(any::<u32>(), 0..900),
        spread in 0u32..32,
        ends in (0u32..=32, 0u32..=32),
    ) {
        let keys: Vec<u32> = keys.into_iter().map(|key| key >> spread).collect();
        let bits = (ends.0.min(ends.1), ends.0.max(ends.1));
        check_pairs(&device(), Some("64x3"), &keys, bits, |place| place as u32);
    }
}
