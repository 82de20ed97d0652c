//! Merges of every type, against a sequential fold.
use crate::{Ordered, Tested, emulator, for_every_type};
use gpu::Device;
use phalanx::map::Additive;
use phalanx::{BTree, HashMap, Map, Merge, MultiVersionBTree, Op, SkipList, SlabHash};
use phalanx_testing::common::Rng;
use simt::emulator::{Options, Schedule};
use std::collections::BTreeMap;
use std::num::NonZero;

/// Merges values into few keys, in one batch with repeated keys, by `upsert` and by `execute`, and compares
/// the results with a fold by `fold`, whose result must not depend on the order.
fn merges<T: Tested>(
    map: &impl Map<Key = u32, Value = T>,
    merge: Merge<T>,
    draw: &dyn Fn(&mut Rng) -> T,
    fold: &dyn Fn(T, T) -> T,
) {
    let (mut rng, mut model) = (Rng::new(5), BTreeMap::<u32, T>::new());
    for round in 0..2 {
        let pairs: Vec<(u32, T)> = (0..40).map(|_| (rng.below(6) as u32, draw(&mut rng))).collect();
        let (keys, values): (Vec<u32>, Vec<T>) = pairs.iter().copied().unzip();
        if round == 0 {
            assert!(map.upsert(merge, &keys, &values).unwrap().all_placed());
        } else {
            let op = |&(key, value)| Op::Upsert(merge, key, value);
            map.execute(&pairs.iter().map(op).collect::<Vec<_>>()).unwrap();
        }
        for (key, value) in pairs {
            let merged = model.get(&key).map_or(value, |&old| fold(old, value));
            model.insert(key, merged);
        }
        let (keys, values): (Vec<u32>, Vec<_>) =
            model.iter().map(|(&key, &value)| (key, Some(Ordered(value)))).unzip();
        let found: Vec<_> = map.get(&keys).unwrap().into_iter().map(|value| value.map(Ordered)).collect();
        assert_eq!(found, values, "{merge:?}");
    }
}

/// Runs [`merges`] on an empty map of each family that has pairs of these sizes.
fn in_every_family<T: Tested>(
    device: &Device,
    merge: Merge<T>,
    draw: impl Fn(&mut Rng) -> T,
    fold: impl Fn(T, T) -> T,
) {
    merges(&HashMap::<u32, T>::builder().device(device).build().unwrap(), merge, &draw, &fold);
    merges(&SlabHash::<u32, T>::builder().device(device).build().unwrap(), merge, &draw, &fold);
    merges(&BTree::<u32, T>::builder().device(device).build().unwrap(), merge, &draw, &fold);
    merges(&SkipList::<u32, T>::builder().device(device).build().unwrap(), merge, &draw, &fold);
    merges(&MultiVersionBTree::<u32, T>::builder().device(device).build().unwrap(), merge, &draw, &fold);
}

fn extremes<T: Tested>(device: &Device) {
    in_every_family(device, Merge::Min, T::draw, |a, b| Ordered(a).min(Ordered(b)).0);
    in_every_family(device, Merge::Max, T::draw, |a, b| Ordered(a).max(Ordered(b)).0);
}

#[test]
fn minima_and_maxima_are_those_of_the_type() {
    for_every_type!(extremes(&emulator()): u32 u64 i32 i64 f32 f64 bool char [u8; 4] [u8; 8] NonZero<i32> i8);
}

fn sums<T: Tested + Additive>(draw: impl Fn(&mut Rng) -> T, fold: impl Fn(T, T) -> T) {
    in_every_family(&emulator(), Merge::Add, draw, fold);
}

/// Floats are small integers or infinite, so that sums do not depend on the order of the additions.
fn exact(rng: &mut Rng) -> f64 {
    if rng.below(20) == 0 { f64::INFINITY } else { rng.below(2000) as f64 - 1000.0 }
}

#[test]
fn sums_are_those_of_the_type() {
    sums(u32::draw, u32::wrapping_add);
    sums(u64::draw, u64::wrapping_add);
    sums(i32::draw, i32::wrapping_add);
    sums(i64::draw, i64::wrapping_add);
    sums(|rng| exact(rng) as f32, |a, b| a + b);
    sums(exact, |a, b| a + b);
}

/// Lanes add to one float at the same time, in random schedules: a compare-and-swap that fails is repeated.
#[test]
fn concurrent_sums_of_floats_lose_nothing() {
    for seed in 0..5 {
        let device = Device::emulator(Options::explore(Schedule::Random { seed }));
        let map = HashMap::<u32, f64>::builder().device(&device).build().unwrap();
        assert!(map.insert(&[1], &[0.5]).unwrap().all_placed());
        assert!(map.upsert(Merge::Add, &[1; 64], &[1.0; 64]).unwrap().all_placed());
        assert_eq!(map.get(&[1]).unwrap(), [Some(64.5)], "seed {seed}");
    }
}
