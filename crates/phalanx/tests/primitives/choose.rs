//! Compaction, histograms and merges, compared with iterators.
use super::sort::key;
use super::{device, inputs, random, sizes};
use phalanx::Device;
use phalanx::primitives::{Number, Test, Workspace, compact_bytes, merge_bytes};
use proptest::prelude::*;

fn check_choice<T: Number>(
    device: &Device,
    numbers: &[T],
    test: Test<'_, T>,
    passes: impl Fn(usize) -> bool,
) {
    let len = numbers.len();
    let (yes, no): (Vec<usize>, Vec<usize>) = (0..len).partition(|&place| passes(place));
    let at = |places: &[usize]| -> Vec<T> { places.iter().map(|&place| numbers[place]).collect() };
    let from = device.from_slice(numbers).unwrap();
    let (mut to, mut count) = (device.zeroed(len).unwrap(), device.buffer(1).unwrap());
    let mut work = Workspace::on_device(device, compact_bytes(len)).unwrap();
    work.compact(&from, test, &mut to, &mut count).unwrap();
    assert_eq!(count.read().unwrap(), [yes.len() as u32], "{len}");
    let found = to.read().unwrap();
    assert!(found[..yes.len()] == at(&yes), "chosen of {len}");
    assert!(found[yes.len()..].iter().all(|&rest| rest == T::narrow(0)), "the rest of {len} is kept");
    work.partition(&from, test, &mut to, &mut count).unwrap();
    assert_eq!(count.read().unwrap(), [yes.len() as u32], "{len}");
    assert!(to.read().unwrap() == [at(&yes), at(&no)].concat(), "parts of {len}");
}

fn check_choices<T: Number>(device: &Device, numbers: &[T]) {
    let len = numbers.len();
    let flags: Vec<u8> = random(4, len).map(|number| (number % 3) as u8).collect();
    check_choice(device, numbers, Test::Flagged((&device.from_slice(&flags).unwrap()).into()), |place| {
        flags[place] != 0
    });
    let middle = numbers.get(len / 2).copied().unwrap_or(T::narrow(3));
    let operand = device.from_slice(&[middle]).unwrap();
    check_choice(device, numbers, Test::Less((&operand).into()), |place| numbers[place] < middle);
    check_choice(device, numbers, Test::Equal((&operand).into()), |place| numbers[place] == middle);
    let begins = |place: usize| place == 0 || numbers[place - 1] != numbers[place];
    check_choice(device, numbers, Test::BeginsRun, begins);
}

#[test]
fn elements_are_chosen_in_their_order() {
    let device = device();
    for len in sizes(2048) {
        for (_, wide) in inputs(len) {
            check_choices(&device, &wide);
            check_choices(&device, &wide.into_iter().map(key).collect::<Vec<u32>>());
        }
    }
}

#[test]
fn unique_elements_of_sorted_ones_are_those_that_dedup_leaves() {
    let device = device();
    let mut numbers: Vec<u32> = random(1, 5000).map(|number| number as u32 % 900).collect();
    numbers.sort_unstable();
    let (from, mut to) = (device.from_slice(&numbers).unwrap(), device.zeroed(5000).unwrap());
    let mut count = device.buffer(1).unwrap();
    let mut work = Workspace::on_device(&device, compact_bytes(5000)).unwrap();
    work.unique(&from, &mut to, &mut count).unwrap();
    numbers.dedup();
    assert_eq!(count.read().unwrap(), [numbers.len() as u32]);
    assert_eq!(to.read().unwrap()[..numbers.len()], numbers);
}

#[test]
fn elements_are_counted_by_their_upper_bits() {
    let device = device();
    let numbers: Vec<u64> = random(2, 5000).collect();
    let short: Vec<u32> = numbers.iter().map(|&number| key(number)).collect();
    let (wide, narrow) = (device.from_slice(&numbers).unwrap(), device.from_slice(&short).unwrap());
    let mut work = Workspace::on_device(&device, 0).unwrap();
    // Up to a number of bins, blocks count locally, beyond it in memory; the last bins are cut off.
    for (shift, count) in [(56, 256), (56, 100), (51, 5000), (63, 1), (50, 0)] {
        let mut bins = device.filled(count, 0xff).unwrap();
        work.histogram(&wide, shift, &mut bins).unwrap();
        let mut expected = vec![0u32; count];
        for number in &numbers {
            expected.get_mut((number >> shift) as usize).into_iter().for_each(|bin| *bin += 1);
        }
        assert_eq!(bins.read().unwrap(), expected, "{count} bins");
    }
    let mut bins = device.filled(16, 0xff).unwrap();
    work.histogram(&narrow, 28, &mut bins).unwrap();
    let of = |bin: u32| short.iter().filter(|&&number| number >> 28 == bin).count() as u32;
    assert_eq!(bins.read().unwrap(), (0..16).map(of).collect::<Vec<_>>());
}

fn check_merge<K: Number>(device: &Device, first: &[K], second: &[K]) {
    let numbered = |keys: &[K], from: usize| -> Vec<(K, [u8; 6])> {
        let mut pairs: Vec<(K, usize)> = keys.iter().copied().zip(from..).collect();
        pairs.sort_by_key(|pair| pair.0);
        let value = |number: usize| [number as u8, (number >> 8) as u8, (number >> 16) as u8, 1, 2, 3];
        pairs.into_iter().map(|(key, number)| (key, value(number))).collect()
    };
    let (near, far) = (numbered(first, 0), numbered(second, 1 << 20));
    let mut expected = [near.clone(), far.clone()].concat();
    expected.sort_by_key(|pair| pair.0);
    let buffers = |pairs: &[(K, [u8; 6])]| {
        let (keys, values): (Vec<K>, Vec<[u8; 6]>) = pairs.iter().copied().unzip();
        (device.from_slice(&keys).unwrap(), device.from_slice(&values).unwrap())
    };
    let (near, far, len) = (buffers(&near), buffers(&far), expected.len());
    let (mut keys, mut values) = (device.buffer(len).unwrap(), device.buffer(len).unwrap());
    let mut work = Workspace::on_device(device, merge_bytes(len)).unwrap();
    work.merge_pairs((&near.0, &near.1), (&far.0, &far.1), (&mut keys, &mut values)).unwrap();
    let found: Vec<_> = keys.read().unwrap().into_iter().zip(values.read().unwrap()).collect();
    assert!(found == expected, "pairs of {} and {}", first.len(), second.len());
    keys.fill_bytes(0).unwrap();
    work.merge_keys(&near.0, &far.0, &mut keys).unwrap();
    assert!(keys.read().unwrap().iter().eq(expected.iter().map(|pair| &pair.0)), "keys of {len}");
}

#[test]
fn merges_of_all_lengths() {
    let device = device();
    for near in [0, 1, 100, 2047, 2048, 5000] {
        for far in [0, 1, 2049, 4096] {
            let numbers =
                |seed, len| -> Vec<u32> { random(seed, len).map(|number| number as u32 % 1000).collect() };
            check_merge(&device, &numbers(1, near), &numbers(2, far));
        }
    }
    check_merge(&device, &vec![7u64; 3000], &vec![7u64; 3000]);
    let (low, high): (Vec<u64>, Vec<u64>) = ((0..3000).collect(), (3000..6000).collect());
    check_merge(&device, &high, &low);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn merges_are_stable(
        first in proptest::collection::vec(0u64..50, 0..400),
        second in proptest::collection::vec(0u64..50, 0..400),
    ) {
        check_merge(&device(), &first, &second);
    }
}
