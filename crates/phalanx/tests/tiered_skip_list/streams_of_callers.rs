//! Batches on device buffers: inner lists are split and merged.
use crate::model::{Placement, all_pairs, check, device, least, small};
use crate::on_stream::with_a_model;
use gpu::Device;
use phalanx::{Error, Merge, Outcome, TieredSkipList};
use simt::emulator::{Mode, Options};
use std::collections::BTreeMap;

const POLICIES: [Placement; 3] = [Placement::ByCost, Placement::AlwaysCopy, Placement::AlwaysInPlace];

/// Short batches, none of which splits lists before, and long ones.
#[test]
fn lists_are_split_and_merged() {
    let device = device();
    for (placement, each) in POLICIES.into_iter().flat_map(|placement| [20, 1000].map(|len| (placement, len)))
    {
        let list = least(small::<u32, u32>(&device).placement(placement));
        let stream = device.stream().unwrap();
        let all: Vec<u32> = (0..1000u32).map(|number| number.wrapping_mul(0x9e37_79b1)).collect();
        for part in all.chunks(each) {
            let (keys, mut outcomes) =
                (device.from_slice(part).unwrap(), device.filled::<u8>(part.len(), 99).unwrap());
            list.on(&stream).insert(&keys, &keys, &mut outcomes).unwrap();
            assert_eq!(outcomes.read().unwrap(), vec![Outcome::Inserted as u8; part.len()]);
        }
        assert!((6..=30).contains(&list.lists()), "{} lists", list.lists());
        check(&list, &all.iter().map(|&key| (key, key)).collect(), &[5]);
        let (removed, lists) = (device.from_slice(&all[..900]).unwrap(), list.lists());
        let mut outcomes = device.filled::<u8>(900, 99).unwrap();
        list.on(&stream).remove(&removed, &mut outcomes).unwrap();
        assert_eq!(outcomes.read().unwrap(), [Outcome::Removed as u8; 900]);
        assert!(2 * list.lists() < lists, "{} of {lists} lists", list.lists());
        check(&list, &all[900..].iter().map(|&key| (key, key)).collect(), &all[..9]);
    }
}

/// A full list refuses elements, whose outcomes the caller does not ask for. They are tried again after a
/// split, and only they.
#[test]
fn elements_without_outcomes_are_retried() {
    let device = device();
    let list = least(small::<u32, u32>(&device).placement(Placement::AlwaysCopy));
    let stream = device.stream().unwrap();
    let host: Vec<u32> = (0..24).flat_map(|number| [number; 5]).collect();
    for first in (0..1200u32).step_by(24) {
        let keys: Vec<u32> = host.iter().map(|key| first + key).collect();
        let (keys, ones) = (device.from_slice(&keys).unwrap(), device.from_slice(&[1u32; 120]).unwrap());
        list.on(&stream)
            .upsert(Merge::Add, keys.slice(..20).unwrap(), ones.slice(..20).unwrap(), None)
            .unwrap();
        list.on(&stream)
            .upsert(Merge::Add, keys.slice(20..).unwrap(), ones.slice(20..).unwrap(), None)
            .unwrap();
    }
    assert!(list.lists() > 8, "{}", list.lists());
    check(&list, &(0..1200).map(|key| (key, 5)).collect(), &[1200]);
}

/// Values that an operation returns reach the elements that were tried again.
#[test]
fn results_of_elements_that_are_retried() {
    let device = device();
    let list = least(small::<u32, u32>(&device).placement(Placement::AlwaysCopy));
    let stream = device.stream().unwrap();
    for first in (0..600u32).step_by(20) {
        let (keys, values): (Vec<u32>, Vec<u32>) = (first..first + 20).map(|key| (key, 3 * key)).unzip();
        let (keys_there, given) = (device.from_slice(&keys).unwrap(), device.from_slice(&values).unwrap());
        let (mut found, mut outcomes) = (device.zeroed::<u32>(20).unwrap(), device.zeroed::<u8>(20).unwrap());
        list.on(&stream).get_or_insert(&keys_there, &given, &mut found, &mut outcomes).unwrap();
        assert_eq!(outcomes.read().unwrap(), [Outcome::Inserted as u8; 20]);
        assert_eq!(found.read().unwrap(), values);
    }
    assert!(list.lists() > 4);
}

#[test]
fn a_baseline_that_is_full_refuses() {
    let device = device();
    for placement in [Placement::Remote, Placement::Managed] {
        let list = least(small::<u32, u32>(&device).capacity(500).placement(placement));
        let host: Vec<u32> = (0..5000u32).map(|number| number.wrapping_mul(0x9e37_79b1)).collect();
        let (keys, mut outcomes) = (device.from_slice(&host).unwrap(), device.zeroed::<u8>(5000).unwrap());
        list.on(&device.default_stream()).insert(&keys, &keys, &mut outcomes).unwrap();
        let codes = outcomes.read().unwrap();
        let placed = host.iter().zip(&codes).filter(|(_, code)| **code == Outcome::Inserted as u8);
        let model: BTreeMap<u32, u32> = placed.map(|(&key, _)| (key, key)).collect();
        assert!(model.len() >= 500);
        assert_eq!(codes.iter().filter(|&&code| code == Outcome::Refused as u8).count(), 5000 - model.len());
        check(&list, &model, &[]);
    }
}

/// Returns a list with so many pairs, whose inner lists are rather full.
fn filled(device: &Device, pairs: u32) -> TieredSkipList<u32, u32> {
    let list = least(small(device).placement(Placement::AlwaysCopy));
    let keys: Vec<u32> = (99_000..99_000 + pairs).collect();
    keys.chunks(20).for_each(|part| assert!(list.insert(part, part).unwrap().all_placed()));
    list
}

/// Every copy and every allocation fails once, while refused elements are tried again. Without outcomes the
/// error tells all the same which elements are done.
#[test]
fn every_copy_and_allocation_of_a_retry_fails_once() {
    // One worker: lists are divided at the same pairs in each run.
    let device = Device::emulator(Options { mode: Mode::Fast { workers: 1 }, ..Options::default() });
    let handle = device.emulator_handle().unwrap();
    let host: Vec<u32> = (0..24).map(|number| 100_000 + 7 * number).collect();
    let [keys, ones] = [&host, &vec![1; 24]].map(|words| device.from_slice(words).unwrap());
    // A batch that is too short for a split before it, and for which there is no room.
    let splits = |pairs: &u32| {
        let list = filled(&device, *pairs);
        let lists = list.lists();
        list.on(&device.default_stream()).upsert(Merge::Add, &keys, &ones, None).unwrap();
        list.lists() > lists
    };
    let pairs = (80..400).find(splits).expect("a list that is full");
    for kind in 0..2 {
        let inject =
            |after| if kind == 0 { handle.fail_copy(after) } else { handle.fail_allocations_after(after) };
        for after in 0.. {
            let list = filled(&device, pairs);
            let lists = list.lists();
            let _ = inject(after);
            let said = list.on(&device.default_stream()).upsert(Merge::Add, &keys, &ones, None);
            let left = inject(u64::MAX);
            let done = match said {
                Ok(()) => None,
                Err(Error::Interrupted { done, .. }) => Some(done),
                Err(Error::Device(_)) => Some(vec![false; 24]),
                Err(other) => panic!("{other}"),
            };
            let all = all_pairs(&list);
            assert!((99_000..99_000 + pairs).all(|key| all.get(&key) == Some(&key)));
            let is_done = |place: usize| all.contains_key(&host[place]);
            // Elements that only lack memory are refused, which nothing tells without outcomes.
            let is_right = |done: Vec<bool>| done.into_iter().eq((0..24).map(is_done));
            assert!(done.is_none_or(is_right), "{kind} {after}");
            let has_ended = if kind == 0 { left != u64::MAX } else { left > 0 };
            if has_ended {
                assert!(list.lists() > lists && (0..24).all(is_done), "the batch splits a list");
                break;
            }
        }
    }
}

/// Two streams, whose batches run one after the other.
#[test]
fn batches_of_two_threads() {
    let device = device();
    let list = least(small::<u32, u32>(&device));
    std::thread::scope(|scope| {
        for part in 0..2u32 {
            let (list, device) = (&list, &device);
            scope.spawn(move || {
                let stream = device.stream().unwrap();
                let host: Vec<u32> = (0..300).map(|number| 2 * number + part).collect();
                let keys = device.from_slice(&host).unwrap();
                list.on(&stream).insert(&keys, &keys, None).unwrap();
                let mut found = device.zeroed::<u8>(300).unwrap();
                list.on(&stream).contains_key(&keys, &mut found).unwrap();
                assert_eq!(found.read().unwrap(), [Outcome::Found as u8; 300]);
            });
        }
    });
    assert_eq!(list.len(), 600);
}

#[test]
fn large_inner_lists() {
    with_a_model(&least(small::<u32, u32>(&device()).list_capacity(5000)), 900);
}
