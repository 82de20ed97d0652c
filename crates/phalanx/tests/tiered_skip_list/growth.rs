//! Inner lists are split and merged as data grows and shrinks.
use crate::model::{check, device, insert, least, numbers, small};
use phalanx::tiered_skip_list::Placement;
use phalanx::{Error, Merge, Outcome, TieredSkipList};
use phalanx_testing::common::is_sampled;
use std::collections::BTreeMap;

const POLICIES: [Placement; 3] = [Placement::ByCost, Placement::AlwaysCopy, Placement::AlwaysInPlace];

/// Returns an order of insertion, as a name and the keys.
fn orders(len: u32) -> [(&'static str, Vec<u32>); 5] {
    let spread = |number: u32| number.wrapping_mul(0x9e37_79b1);
    [
        ("ascending", (0..len).collect()),
        ("descending", (0..len).rev().collect()),
        ("random", (0..len).map(spread).collect()),
        ("from both ends", (0..len).map(|number| if number % 2 == 0 { number } else { !number }).collect()),
        ("narrow", (0..len).map(|number| (1 << 30) + spread(number) % len).collect()),
    ]
}

#[test]
fn batches_in_all_orders() {
    let device = device();
    for (policy, placement) in POLICIES.into_iter().enumerate() {
        for (order, (name, keys)) in orders(2000).into_iter().enumerate() {
            for (size, each) in [90, 700, 2000].into_iter().enumerate() {
                if !is_sampled(&device, &[policy, order, size]) {
                    continue;
                }
                let list = least(small::<u32, u32>(&device).placement(placement));
                let mut model = BTreeMap::new();
                for part in keys.chunks(each) {
                    insert(&list, &mut model, (part, part));
                }
                let lists = list.lists();
                assert!((12..=60).contains(&lists), "{name} {each}: {lists}");
                check(&list, &model, &[u32::MAX / 2]);
            }
        }
    }
}

/// A first batch is not refused by one full list and tried again, but divided among lists by a sample.
#[test]
fn a_first_batch_is_divided_before_it_is_inserted() {
    let list = least(small::<u32, u32>(&device()).placement(Placement::AlwaysCopy));
    let keys: Vec<u32> = (0..1000u32).map(|number| number.wrapping_mul(0x9e37_79b1)).collect();
    assert!(list.insert(&keys, &keys).unwrap().all_placed());
    assert_eq!(list.traffic().on_device, 1000, "each element is executed once");
    assert_eq!(list.traffic().copied_in, 0, "empty lists are made on the device");
}

/// Updates of present keys divide nothing, however many they are.
#[test]
fn updates_do_not_split() {
    let list = least(small::<u32, u32>(&device()));
    let keys: Vec<u32> = (0..900).collect();
    assert!(list.insert(&keys, &keys).unwrap().all_placed());
    let lists = list.lists();
    for _ in 0..3 {
        assert!(list.upsert(Merge::Add, &keys, &vec![1; 900]).unwrap().all_placed());
    }
    assert_eq!(list.lists(), lists);
    assert_eq!(list.get(&[7]).unwrap(), [Some(10)]);
}

#[test]
fn sparse_lists_merge() {
    let device = device();
    for placement in POLICIES {
        let list = least(small::<u32, u32>(&device).placement(placement));
        let keys: Vec<u32> = (0..2000).collect();
        for _ in 0..2 {
            assert!(list.insert(&keys, &keys).unwrap().all_placed());
            let lists = list.lists();
            let removed: Vec<u32> = keys.iter().copied().filter(|key| key % 20 != 3).collect();
            assert!(list.remove(&removed).unwrap().iter().all(|&is_removed| is_removed));
            assert!(4 * list.lists() < lists, "{} of {lists} lists", list.lists());
            check(&list, &(0..100).map(|number| (20 * number + 3, 20 * number + 3)).collect(), &[1, 4]);
        }
    }
}

/// A window of keys moves on: nodes of removed pairs are used again.
#[test]
fn a_window_of_keys_takes_no_more_lists() {
    let list = least(small::<u32, u32>(&device()));
    for start in (0..6000u32).step_by(150) {
        let new: Vec<u32> = (start..start + 150).collect();
        assert!(list.insert(&new, &new).unwrap().all_placed());
        if start >= 300 {
            let old: Vec<u32> = (start - 300..start - 150).collect();
            assert!(list.remove(&old).unwrap().iter().all(|&is_removed| is_removed));
        }
        assert!(list.lists() < 16, "{} lists", list.lists());
    }
    check(&list, &(5700..6000).map(|key| (key, key)).collect(), &[5699]);
}

#[test]
fn a_baseline_that_is_full_refuses() {
    let device = device();
    for placement in [Placement::Remote, Placement::Managed] {
        let list = least(small::<u32, u32>(&device).capacity(500).placement(placement));
        let keys: Vec<u32> = numbers(5000, 1 << 30, 1).into_iter().map(|key| key as u32).collect();
        let Err(Error::NoRoom { outcomes, .. }) = list.insert(&keys, &keys) else { panic!("it has room") };
        let placed = keys.iter().zip(outcomes.iter()).filter(|(_, outcome)| **outcome != Outcome::Refused);
        let model: BTreeMap<u32, u32> = placed.map(|(&key, _)| (key, key)).collect();
        assert!(model.len() >= 500);
        check(&list, &model, &[]);
    }
}

/// The memory for splitters limits the number of inner lists.
#[test]
fn too_many_lists_are_refused() {
    let list: TieredSkipList<u32, u32> = least(small(&device()).list_capacity(10));
    let mut model = BTreeMap::new();
    let error = (0..200u32).find_map(|part| {
        let keys: Vec<u32> = (0..200).map(|number| (200 * part + number).wrapping_mul(0x9e37_79b1)).collect();
        match list.insert(&keys, &keys) {
            Ok(_) => model.extend(keys.iter().map(|&key| (key, key))),
            Err(Error::NoRoom { outcomes, .. }) => {
                let placed = keys.iter().zip(outcomes.iter());
                let placed = placed.filter(|(_, outcome)| **outcome != Outcome::Refused);
                model.extend(placed.map(|(&key, _)| (key, key)));
                return Some(());
            }
            Err(other) => panic!("{other}"),
        }
        None
    });
    assert!(error.is_some() && model.len() > 1000, "{} pairs", model.len());
    check(&list, &model, &[5]);
}
