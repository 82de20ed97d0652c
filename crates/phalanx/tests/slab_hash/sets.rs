//! Sets, compared with `std::collections::HashSet`.
use crate::common::{Rng, replay, seed};
use crate::sets;
use gpu::Device;
use phalanx::Outcome;
use phalanx::map::{OpCode, Word};
use phalanx::slab_hash::{Builder, SetOp, SlabSet};
use phalanx_testing::counts::each_count;
use std::collections::HashSet;

/// Returns the set's keys. Panics if one occurs twice, their number is not the length, or an invariant is
/// violated.
#[track_caller]
fn contents<K: Word>(set: &SlabSet<K>) -> HashSet<K> {
    let keys: Vec<K> = set.iter().unwrap().collect();
    let distinct: HashSet<K> = keys.iter().copied().collect();
    assert_eq!((distinct.len(), distinct.len()), (keys.len(), set.len().unwrap()), "{}", set.variant());
    set.validate().unwrap_or_else(|error| panic!("{}: {error}", set.variant()));
    distinct
}

/// Runs a case on every set variant.
macro_rules! every_set {
    ($device:expr, $case:ident) => {
        sets::<u32>($device).into_iter().for_each($case);
        sets::<u64>($device).into_iter().for_each($case);
    };
}

/// Returns some of 300 distinct keys, including some of the topmost five.
fn draw<K: Word>(rng: &mut Rng) -> Vec<K> {
    let numbers = (0..295).chain((0..5).map(|below| u64::MAX - below));
    numbers.filter(|_| rng.below(4) == 0).map(K::from_u64).collect()
}

pub fn sets_answer_as_std_does(device: &Device) {
    fn case<K: Word>(builder: Builder<SlabSet<K>>) {
        println!("{}", replay(seed()));
        let mut set = builder.buckets(3).slabs(1).build().unwrap();
        let (mut model, mut rng) = (HashSet::new(), Rng::new(seed()));
        for round in 0..24 {
            step(&mut set, &mut model, &mut rng, round);
            assert_eq!(contents(&set), model, "{}, round {round}", set.variant());
            assert_eq!(set.is_empty().unwrap(), model.is_empty());
        }
    }
    every_set!(device, case);
}

fn step<K: Word>(set: &mut SlabSet<K>, model: &mut HashSet<K>, rng: &mut Rng, round: u64) {
    let keys: Vec<K> = draw(rng);
    match round % 6 {
        0 | 3 => {
            let expected = keys.iter().map(|&key| inserted(model.insert(key)));
            assert_eq!(set.insert(&keys).unwrap(), expected.collect::<Vec<_>>());
        }
        1 => {
            let expected: Vec<bool> = keys.iter().map(|key| model.remove(key)).collect();
            assert_eq!(set.remove(&keys).unwrap(), expected);
        }
        2 => mixed(set, model, &keys, rng),
        4 => {
            let keep = |key: K| key.to_u64() % 3 != round % 3;
            set.retain(keep).unwrap();
            model.retain(|&key| keep(key));
        }
        _ => {
            let range = K::from_u64(20)..=K::from_u64(u64::MAX - 1);
            set.retain_keys(range.clone()).unwrap();
            model.retain(|key| range.contains(key));
        }
    }
    let keys: Vec<K> = draw(rng);
    let expected: Vec<bool> = keys.iter().map(|key| model.contains(key)).collect();
    assert_eq!(set.contains_key(&keys).unwrap(), expected);
}

fn inserted(is_new: bool) -> Outcome {
    if is_new { Outcome::Inserted } else { Outcome::Found }
}

fn mixed<K: Word>(set: &SlabSet<K>, model: &mut HashSet<K>, keys: &[K], rng: &mut Rng) {
    let op = |&key: &K| rng.pick(&[SetOp::Insert(key), SetOp::ContainsKey(key), SetOp::Remove(key)]);
    let ops: Vec<_> = keys.iter().map(op).collect();
    for (op, outcome) in ops.iter().zip(set.execute(&ops).unwrap()) {
        let expected = match op {
            SetOp::Insert(key) => inserted(model.insert(*key)),
            SetOp::ContainsKey(key) if model.contains(key) => Outcome::Found,
            SetOp::Remove(key) if model.remove(key) => Outcome::Removed,
            _ => Outcome::Absent,
        };
        assert_eq!(outcome, expected, "{op:?}");
    }
}

pub fn of_equal_keys_one_counts(device: &Device) {
    fn case<K: Word>(builder: Builder<SlabSet<K>>) {
        let set = builder.buckets(2).build().unwrap();
        let keys: Vec<K> =
            (0..900).map(|n| K::from_u64(if n % 41 == 0 { u64::MAX } else { n % 41 })).collect();
        let ones = |set: usize| assert_eq!(set, 41);
        let outcomes = set.insert(&keys).unwrap();
        ones(outcomes.iter().filter(|&&outcome| outcome == Outcome::Inserted).count());
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Inserted | Outcome::Found)));
        ones(contents(&set).len());
        ones(set.remove(&keys).unwrap().into_iter().filter(|&removed| removed).count());
        assert!(contents(&set).is_empty());
    }
    every_set!(device, case);
}

pub fn every_pattern_is_a_key_of_a_set(device: &Device) {
    fn case<K: Word>(builder: Builder<SlabSet<K>>) {
        let set = builder.buckets(2).slabs(1).build().unwrap();
        let ends = [0, 1 << 31, 1 << 32, 1 << 63];
        let around = |end: u64| (0..9).flat_map(move |by| [end.wrapping_add(by), end.wrapping_sub(by)]);
        let keys: HashSet<K> = ends.into_iter().flat_map(around).map(K::from_u64).collect();
        let list: Vec<K> = keys.iter().copied().collect();
        assert_eq!(set.insert(&list).unwrap(), vec![Outcome::Inserted; list.len()], "{}", set.variant());
        assert_eq!(contents(&set), keys);
        assert_eq!(set.contains_key(&list).unwrap(), vec![true; list.len()], "{}", set.variant());
        for key in &list {
            assert_eq!(set.remove(&[*key]).unwrap(), [true], "{key:?}");
            assert_eq!(set.contains_key(&[*key]).unwrap(), [false], "{key:?}");
        }
        assert!(contents(&set).is_empty());
    }
    every_set!(device, case);
}

pub fn batches_of_sets_are_bounded_by_counts(device: &Device) {
    fn case<K: Word>(builder: Builder<SlabSet<K>>) {
        let device = builder.clone().build().unwrap().device().clone();
        each_count(&device, 40, |counted| {
            let set = builder.clone().build().unwrap();
            let (stream, mut outcomes) = (device.stream().unwrap(), counted.results::<u8>());
            let all: Vec<K> = (0..40).map(K::from_u64).collect();
            let buffer = counted.buffer(&all);
            let (on, keys) = (set.on(&stream), counted.bounded(&buffer));
            let had = |outcomes: &mut _, outcome| counted.check(set.variant(), outcomes, |_| outcome as u8);
            on.insert(keys, &mut outcomes).unwrap();
            had(&mut outcomes, Outcome::Inserted);
            on.contains_key(keys, &mut outcomes).unwrap();
            had(&mut outcomes, Outcome::Found);
            assert_eq!(contents(&set), all[..counted.used].iter().copied().collect());
            assert!(set.insert(&all).unwrap().all_placed());
            let removals = counted.buffer(&[OpCode::REMOVE.code() as u8; 40]);
            on.execute(&removals, keys, &mut outcomes).unwrap();
            had(&mut outcomes, Outcome::Removed);
            on.remove(keys, &mut outcomes).unwrap();
            had(&mut outcomes, Outcome::Absent);
            assert_eq!(contents(&set), all[counted.used..].iter().copied().collect());
        });
    }
    every_set!(device, case);
}

pub fn sets_take_buffers(device: &Device) {
    fn case<K: Word>(builder: Builder<SlabSet<K>>) {
        let set = builder.build().unwrap();
        let stream = set.device().stream().unwrap();
        let keys: Vec<K> = (0..100).map(|n| K::from_u64(n / 2)).collect();
        let (k, mut codes) =
            (set.device().from_slice(&keys).unwrap(), set.device().buffer::<u8>(100).unwrap());
        let mut count = |of: &dyn Fn(&mut _) -> phalanx::Result<()>, outcome: Outcome| {
            of(&mut codes).unwrap();
            codes.read().unwrap().into_iter().filter(|&code| code == outcome as u8).count()
        };
        let on = set.on(&stream);
        assert_eq!(count(&|codes| on.contains_key(&k, codes), Outcome::Absent), 100);
        assert_eq!(count(&|codes| on.insert(&k, codes), Outcome::Inserted), 50);
        assert_eq!(count(&|codes| on.insert(&k, codes), Outcome::Found), 100);
        assert_eq!(count(&|codes| on.contains_key(&k, codes), Outcome::Found), 100);
        assert_eq!(count(&|codes| on.remove(&k, codes), Outcome::Removed), 50);
        assert_eq!(count(&|codes| on.remove(&k, codes), Outcome::Absent), 100);
        assert!(contents(&set).is_empty());
    }
    every_set!(device, case);
}

pub fn saved_sets_load(device: &Device) {
    fn case<K: Word>(builder: Builder<SlabSet<K>>) {
        for len in [0, 1, 500] {
            let set = builder.clone().capacity(1).slabs(1).build().unwrap();
            let keys: Vec<K> =
                (0..len).map(|n| K::from_u64(if n < 3 { u64::MAX - n } else { n * n })).collect();
            assert!(set.insert(&keys).unwrap().all_placed());
            let mut saved = Vec::new();
            set.save(&mut saved).unwrap();
            // Loads into the same variant and into the default one.
            for into in [builder.clone(), SlabSet::builder().device(set.device())] {
                let loaded = SlabSet::load(&saved[..], into).unwrap();
                assert_eq!(contents(&loaded), keys.iter().copied().collect(), "{}", set.variant());
            }
        }
    }
    every_set!(device, case);
}
