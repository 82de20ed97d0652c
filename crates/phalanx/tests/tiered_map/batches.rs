//! All operations, in batches of one chunk and of several.
use super::model::{PLACEMENTS, all_pairs, device, least, small};
use phalanx::{Merge, Op, Outcome};

/// The words by which slots tell that they are empty, removed or busy are keys like others.
#[test]
fn no_key_is_reserved() {
    let device = device();
    for placement in PLACEMENTS {
        let map = least(small::<u64, u64>(&device).placement(placement));
        let keys: Vec<u64> = (0..5).map(|number| u64::MAX - number).chain([0]).collect();
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        assert!(map.get(&keys).unwrap().into_iter().eq(keys.iter().map(|&key| Some(key))));
        assert_eq!((map.remove(&keys).unwrap(), map.len()), (vec![true; 6], 0));
        let map = least(small::<u32, u32>(&device).placement(placement));
        let keys: Vec<u32> = (0..5).map(|number| u32::MAX - number).chain([0]).collect();
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        assert_eq!(map.take(&keys).unwrap(), keys.iter().map(|&key| Some(key)).collect::<Vec<_>>());
    }
}

/// Batches of 50 elements are one chunk, those of 700 several.
#[test]
fn all_operations() {
    let device = device();
    for (placement, len) in PLACEMENTS.into_iter().flat_map(|placement| [(placement, 50), (placement, 700)]) {
        let map = least(small::<u32, u64>(&device).placement(placement));
        let keys: Vec<u32> = (0..len).collect();
        let [ones, twos, threes] = [1u64, 2, 3].map(|value| vec![value; keys.len()]);
        let count =
            |outcomes: &[Outcome], outcome| outcomes.iter().filter(|&&found| found == outcome).count();
        let half = keys.len() / 2;
        assert_eq!(count(&map.insert_new(&keys[..half], &ones[..half]).unwrap(), Outcome::Inserted), half);
        assert_eq!(count(&map.insert_new(&keys, &twos).unwrap(), Outcome::Found), half);
        let upserted = map.upsert(Merge::Add, &keys, &twos).unwrap();
        assert_eq!(count(&upserted, Outcome::Replaced), keys.len());
        let values = |number: u32| Some(if (number as usize) < half { 3u64 } else { 4 });
        let expected: Vec<_> = keys.iter().map(|&key| values(key)).collect();
        assert_eq!(map.get_or_insert(&keys, &ones).unwrap(), expected);
        let old = map.replace(&keys, &threes).unwrap();
        assert!(old.all_placed() && old == expected);
        assert_eq!(map.get_or_insert(&[len + 1], &[9]).unwrap(), [Some(9)]);
        assert_eq!(map.replace(&[len + 2], &[9]).unwrap(), [None]);
        let taken = map.take(&[0, 0, len + 2, len + 3]).unwrap();
        assert_eq!(taken.iter().flatten().collect::<Vec<_>>(), [&3, &9]);
        assert_eq!(taken.outcomes().count(Outcome::Removed), 2);
        assert_eq!(map.len(), keys.len());
    }
}

#[test]
fn equal_keys_of_a_batch_are_all_merged() {
    let device = device();
    for placement in PLACEMENTS {
        let map = least(small::<u32, u32>(&device).placement(placement));
        let keys: Vec<u32> = (0..1000).map(|number| number % 7).collect();
        assert!(map.upsert(Merge::Add, &keys, &vec![1; 1000]).unwrap().all_placed());
        let sums = all_pairs(&map);
        assert_eq!((sums.len(), sums.values().sum::<u32>()), (7, 1000));
    }
}

#[test]
fn mixed_batches() {
    let device = device();
    for (placement, len) in PLACEMENTS.into_iter().flat_map(|placement| [(placement, 20), (placement, 250)]) {
        let map = least(small::<u64, u32>(&device).placement(placement));
        let keys: Vec<u64> = (0..len).collect();
        let values: Vec<u32> = keys.iter().map(|&key| key as u32).collect();
        assert!(map.insert(&keys, &values).unwrap().all_placed());
        // A key each, so that the order of a batch does not matter.
        let operation = |key: u64| match key % 6 {
            0 => (Op::Get(key), Outcome::Found, Some(key as u32)),
            1 => (Op::Remove(key), Outcome::Removed, None),
            2 => (Op::Insert(key, 9), Outcome::Replaced, Some(key as u32)),
            3 => (Op::InsertNew(key, 9), Outcome::Found, Some(key as u32)),
            4 => (Op::Upsert(Merge::Add, key + len, 9), Outcome::Inserted, Some(9)),
            _ => (Op::GetOrInsert(key + len, 9), Outcome::Inserted, Some(9)),
        };
        let all: Vec<_> = keys.iter().map(|&key| operation(key)).collect();
        let operations: Vec<_> = all.iter().map(|&(operation, ..)| operation).collect();
        let expected: Vec<_> = all.iter().map(|&(_, outcome, value)| (outcome, value)).collect();
        assert_eq!(map.execute(&operations).unwrap(), expected);
    }
}

#[test]
fn results_in_slices_of_the_caller() {
    let device = device();
    for len in [30u32, 500] {
        let map = least(small::<u32, i64>(&device));
        let keys: Vec<u32> = (0..len).collect();
        let values: Vec<i64> = keys.iter().map(|&key| -i64::from(key)).collect();
        assert!(map.insert(&keys, &values).unwrap().all_placed());
        let asked: Vec<u32> = (0..2 * len).rev().collect();
        let (mut read, mut found) = (vec![1; asked.len()], vec![false; asked.len()]);
        map.get_into(&asked, &mut read, &mut found).unwrap();
        for ((&key, &value), &is_found) in asked.iter().zip(&read).zip(&found) {
            assert_eq!(is_found, key < len);
            assert!(!is_found || value == -i64::from(key));
        }
        let before = found.clone();
        found.fill(false);
        map.contains_into(&asked, &mut found).unwrap();
        assert_eq!(found, before);
    }
}

/// Slices in pinned memory, of the words' own type.
#[test]
fn slices_in_pinned_memory() {
    let device = device();
    let map = least(small::<u64, u64>(&device));
    let mut keys = device.buffer_on::<u64>(gpu::Tier::Pinned, 600).unwrap();
    let mut values = device.buffer_on::<u64>(gpu::Tier::Pinned, 600).unwrap();
    keys.as_mut_slice().unwrap().iter_mut().enumerate().for_each(|(place, key)| *key = place as u64 * 3);
    let (keys, mut found) = (keys.as_slice().unwrap(), vec![false; 600]);
    assert!(map.insert(keys, keys).unwrap().all_placed());
    map.get_into(keys, values.as_mut_slice().unwrap(), &mut found).unwrap();
    assert!(found.iter().all(|&is_found| is_found) && values.as_slice().unwrap() == keys);
}

#[test]
fn empty_batches() {
    let map = least(small::<u32, u32>(&device()));
    assert!(map.insert(&[], &[]).unwrap().is_empty());
    assert!(map.get(&[]).unwrap().is_empty() && map.execute(&[]).unwrap().is_empty());
    assert!(map.iter().unwrap().next().is_none() && map.is_empty());
}

#[test]
fn a_cleared_map_is_empty_also_on_the_device() {
    let device = device();
    for placement in PLACEMENTS {
        let mut map = least(small::<u32, u32>(&device).placement(placement));
        let keys: Vec<u32> = (0..300).collect();
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        assert_eq!(map.get(&[5]).unwrap(), [Some(5)]);
        map.clear().unwrap();
        assert_eq!((map.len(), map.get(&[5]).unwrap()), (0, vec![None]));
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        map.retain(|key, value| key == value && key % 3 == 0).unwrap();
        assert_eq!(all_pairs(&map).into_keys().collect::<Vec<_>>(), (0..300).step_by(3).collect::<Vec<_>>());
    }
}
