//! All operations, in batches of one chunk and of several.
use crate::model::{PLACEMENTS, all_pairs, check, device, least, small};
use phalanx::{Merge, Op, Outcome};
use std::collections::BTreeMap;

/// The word by which slots tell that they are empty is a key like others.
#[test]
fn no_key_is_reserved() {
    let device = device();
    for placement in PLACEMENTS {
        let list = least(small::<u64, u64>(&device).placement(placement));
        let keys: Vec<u64> = (0..400).map(|number| u64::MAX - number).chain([0]).collect();
        assert!(list.insert(&keys, &keys).unwrap().all_placed());
        check(&list, &keys.iter().map(|&key| (key, key)).collect(), &[1]);
        assert_eq!((list.remove(&keys).unwrap(), list.len()), (vec![true; 401], 0));
        let list = least(small::<u32, u32>(&device).placement(placement));
        let keys: Vec<u32> = (0..400).map(|number| u32::MAX - number).chain([0]).collect();
        assert!(list.insert(&keys, &keys).unwrap().all_placed());
        check(&list, &keys.iter().map(|&key| (key, key)).collect(), &[1]);
        assert_eq!(list.take(&keys).unwrap(), keys.iter().map(|&key| Some(key)).collect::<Vec<_>>());
    }
}

/// Batches of 50 elements are one chunk, those of 700 several.
#[test]
fn all_operations() {
    let device = device();
    for (placement, len) in PLACEMENTS.into_iter().flat_map(|placement| [(placement, 50), (placement, 700)]) {
        let list = least(small::<u32, u64>(&device).capacity(2000).placement(placement));
        let keys: Vec<u32> = (0..len).collect();
        let [ones, twos, threes] = [1u64, 2, 3].map(|value| vec![value; keys.len()]);
        let count =
            |outcomes: &[Outcome], outcome| outcomes.iter().filter(|&&found| found == outcome).count();
        let half = keys.len() / 2;
        assert_eq!(count(&list.insert_new(&keys[..half], &ones[..half]).unwrap(), Outcome::Inserted), half);
        assert_eq!(count(&list.insert_new(&keys, &twos).unwrap(), Outcome::Found), half);
        let upserted = list.upsert(Merge::Add, &keys, &twos).unwrap();
        assert_eq!(count(&upserted, Outcome::Replaced), keys.len());
        let sum = |number: usize| if number < half { 3u64 } else { 4 };
        let sums: Vec<Option<u64>> = (0..keys.len()).map(|number| Some(sum(number))).collect();
        assert_eq!(list.get(&keys).unwrap(), sums);
        let old = list.replace(&keys, &threes).unwrap();
        assert_eq!(old, sums);
        let more: Vec<u32> = (0..2 * len).collect();
        let fives = vec![5u64; more.len()];
        let is_old = |key: &u32| if *key < len { Some(3) } else { Some(5) };
        assert!(list.get_or_insert(&more, &fives).unwrap().into_iter().eq(more.iter().map(is_old)));
        assert_eq!(list.take(&keys).unwrap(), vec![Some(3); keys.len()]);
        assert_eq!(list.remove(&more).unwrap(), more.iter().map(|&key| key >= len).collect::<Vec<_>>());
        assert!(list.is_empty() && all_pairs(&list).is_empty());
    }
}

#[test]
fn mixed_batches() {
    let device = device();
    for placement in PLACEMENTS {
        let list = least(small::<u32, u32>(&device).placement(placement));
        let keys: Vec<u32> = (0..600).collect();
        assert!(list.insert(&keys[..300], &keys[..300]).unwrap().all_placed());
        let operation = |&key: &u32| match key % 3 {
            0 => Op::Get(key),
            1 => Op::Insert(key, 2 * key),
            _ => Op::Remove(key),
        };
        let found = list.execute(&keys.iter().map(operation).collect::<Vec<_>>()).unwrap();
        for (&key, (outcome, value)) in keys.iter().zip(found) {
            let expected = match (key % 3, key < 300) {
                (0, true) => Outcome::Found,
                (1, true) => Outcome::Replaced,
                (1, false) => Outcome::Inserted,
                (2, true) => Outcome::Removed,
                _ => Outcome::Absent,
            };
            assert_eq!(outcome, expected, "{key}");
            assert!(key % 3 != 0 || value == (key < 300).then_some(key), "{key}");
        }
        let expected: BTreeMap<u32, u32> = keys
            .iter()
            .filter(|&&key| key % 3 == 1 || key % 3 == 0 && key < 300)
            .map(|&key| (key, if key % 3 == 1 { 2 * key } else { key }))
            .collect();
        check(&list, &expected, &keys);
    }
}

#[test]
fn equal_keys_of_a_batch_are_all_merged() {
    let device = device();
    for placement in PLACEMENTS {
        let list = least(small::<u32, u32>(&device).placement(placement));
        let keys: Vec<u32> = (0..2000).map(|number| number % 7 * 1000).collect();
        assert!(list.upsert(Merge::Add, &keys, &vec![1; keys.len()]).unwrap().all_placed());
        assert_eq!(all_pairs(&list).values().sum::<u32>(), 2000);
        assert_eq!(list.len(), 7);
    }
}

#[test]
fn empty_batches() {
    let mut list = least(small::<u32, u32>(&device()));
    assert!(list.insert(&[], &[]).unwrap().is_empty());
    assert!(list.get(&[]).unwrap().is_empty() && list.remove(&[]).unwrap().is_empty());
    assert!(list.successor(&[]).unwrap().is_empty() && list.count(&[..0, ..9]).unwrap() == [0; 2]);
    assert_eq!((list.first().unwrap(), list.last().unwrap()), (None, None));
    assert_eq!(list.get(&[7]).unwrap(), [None]);
    assert_eq!(list.predecessor(&[7]).unwrap(), [None]);
    list.retain(|_, _| false).unwrap();
    assert!(list.is_empty());
}

#[test]
fn retain_and_clear() {
    let device = device();
    for placement in PLACEMENTS {
        let mut list = least(small::<u32, u32>(&device).placement(placement));
        let keys: Vec<u32> = (0..900).collect();
        for _ in 0..2 {
            assert!(list.insert(&keys, &keys).unwrap().all_placed());
            list.retain(|key, _| key % 10 == 3).unwrap();
            let expected = (0..90).map(|number| (10 * number + 3, 10 * number + 3)).collect();
            check(&list, &expected, &[4, 5]);
            list.clear().unwrap();
            check(&list, &BTreeMap::new(), &keys);
        }
        list.release_host_memory().unwrap();
        assert!(list.insert(&keys, &keys).unwrap().all_placed() && all_pairs(&list).len() == 900);
    }
}
