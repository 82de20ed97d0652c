//! Calls on host slices that are divided into chunks.
use crate::batches::random;
use crate::model::{Model, Table};
use gpu::Tier;
use phalanx::cache_table::{HostRows, Rule};
use phalanx::private::with_chunks;
use phalanx::{CacheTable, Device, Error, Outcome, emulator};
use std::collections::BTreeMap;

fn rows(keys: &[u64], dim: usize) -> Vec<u32> {
    keys.iter().flat_map(|key| (0..dim).map(|at| *key as u32 * 10 + at as u32)).collect()
}

/// Chunks are batches in the order of the elements: the model follows them as one batch.
#[test]
fn chunks_of_insertions_agree_with_the_model() {
    for chunk in [1, 7, 64] {
        let builder = Table::builder().capacity(256).dim(3).two_buckets(true).rule(Rule::Custom);
        let table = builder.build().unwrap();
        let (mut model, mut random) = (Model::default(), random(chunk as u64));
        for round in 0..6u32 {
            let mut keys: Vec<u64> = (0..100).map(|_| random(600)).collect();
            keys.sort_unstable();
            keys.dedup();
            let rows: Vec<Vec<u32>> = keys.iter().map(|key| vec![round, *key as u32, 7]).collect();
            let (outcomes, evicted) =
                with_chunks(chunk, || table.insert_evict(&keys, &rows.concat())).unwrap();
            let elements: Vec<_> = keys.iter().zip(rows).map(|(key, row)| (*key, row, 1)).collect();
            model.insert(&elements, &outcomes, &evicted);
            with_chunks(chunk, || model.check(&table));
        }
    }
}

#[test]
fn chunks_do_the_same_as_one_batch() {
    let keys: Vec<u64> = (0..150).map(|index| index * 7 % 90).collect();
    let (rows, scores): (Vec<u32>, Vec<u64>) = (rows(&keys, 2), keys.iter().map(|key| key + 5).collect());
    let play = || {
        let table = Table::builder().capacity(500).dim(2).rule(Rule::Lfu).build().unwrap();
        let mut outcomes = vec![table.insert_scored(&keys[..100], &rows[..200], &scores[..100]).unwrap()];
        outcomes.push(table.accumulate(&keys, &rows).unwrap());
        outcomes.push(table.assign_scores(&keys[..20], &scores[..20]).unwrap());
        let found = table.get_or_insert(&keys, &rows).unwrap();
        let removed = table.remove(&keys[..30]).unwrap();
        outcomes.push(table.assign(&keys[20..110], &rows[40..220]).unwrap());
        let touched = table.get_and_touch(&keys).unwrap();
        let (mut into, mut is_found) = (vec![0; 300], vec![false; 150]);
        table.get_into(&keys, &mut into, &mut is_found).unwrap();
        assert!(touched == table.get(&keys).unwrap());
        assert_eq!(table.contains_key(&keys).unwrap(), is_found);
        let present = touched.iter().enumerate().filter_map(|(index, row)| Some((index, row?)));
        assert!(present.into_iter().all(|(index, row)| row == &into[2 * index..2 * index + 2]));
        assert_eq!(touched.found(), is_found.iter().filter(|found| **found).count());
        let all = table.export(..).unwrap();
        let entries: BTreeMap<_, _> = all
            .keys
            .iter()
            .zip(all.scores.iter().zip(all.rows.chunks(2)))
            .map(|(k, e)| (*k, (*e.0, e.1.to_vec())))
            .collect();
        let rows: Vec<_> = found.iter().map(|row| row.map(<[u32]>::to_vec)).collect();
        (outcomes, rows, found.outcomes().clone(), removed, is_found, entries)
    };
    let expected = play();
    // Elements with equal keys within a chunk of an assignment take effect in any order: these are distinct.
    for chunk in [1, 13, 100] {
        assert!(with_chunks(chunk, play) == expected, "chunks of {chunk}");
    }
}

/// Elements of one byte, whose slices begin at any address, and calls beyond the size of one launch.
#[test]
fn rows_of_bytes_and_large_calls() {
    let table = CacheTable::<u64, u8>::builder().capacity(1 << 13).dim(4).build().unwrap();
    let keys: Vec<u64> = (0..3000).collect();
    let bytes: Vec<u8> = (0..12_001u32).map(|at| (at % 251) as u8).collect();
    for from in [0, 1] {
        let rows = &bytes[from..from + 12_000];
        assert!(table.insert(&keys, rows).unwrap().all_placed());
        let mut into = vec![0; 12_001];
        let mut found = vec![false; 3000];
        table.get_into(&keys, &mut into[1..], &mut found).unwrap();
        assert!(into[1..] == *rows && found.iter().all(|found| *found));
    }
}

#[test]
fn pinned_slices_are_copied_from_where_they_are() {
    let device = Device::emulator(emulator::Options::default());
    let table = Table::builder().capacity(1 << 13).dim(2).device(&device).build().unwrap();
    let mut keys = device.buffer_on::<u64>(Tier::Pinned, 2500).unwrap();
    keys.as_mut_slice().unwrap().iter_mut().zip(0..).for_each(|(key, number)| *key = number);
    let mut all = device.buffer_on::<u32>(Tier::Pinned, 5000).unwrap();
    all.as_mut_slice().unwrap().copy_from_slice(&rows(keys.as_slice().unwrap(), 2));
    for chunk in [300, 1 << 20] {
        let (keys, rows) = (keys.as_slice().unwrap(), all.as_slice().unwrap());
        assert!(with_chunks(chunk, || table.insert(keys, rows)).unwrap().all_placed());
        let mut into = device.buffer_on::<u32>(Tier::Pinned, 5000).unwrap();
        let mut found = vec![false; 2500];
        with_chunks(chunk, || table.get_into(keys, into.as_mut_slice().unwrap(), &mut found)).unwrap();
        assert!(found.iter().all(|found| *found) && into.as_slice().unwrap() == rows);
    }
}

#[test]
fn lengths_that_differ_are_errors() {
    let table = Table::builder().capacity(100).dim(2).build().unwrap();
    let (mut rows, mut found) = ([0; 4], [false; 2]);
    for (keys, row, flags) in [(1, 4, 1), (1, 2, 2), (2, 3, 2), (2, 4, 1)] {
        let result = table.get_into(&[1, 2][..keys], &mut rows[..row], &mut found[..flags]);
        assert!(matches!(result, Err(Error::Length { .. })), "{keys} {row} {flags}: {result:?}");
    }
    let result = table.contains_into(&[1], &mut found);
    assert!(matches!(result, Err(Error::Length { what: "found", expected: 1, found: 2 })));
    table.get_into(&[], &mut [], &mut []).unwrap();
}

/// A call that lacks memory at any place tells what became of each element, and of each evicted key.
#[test]
fn no_outcome_is_lost_for_lack_of_memory() {
    let device = Device::emulator(emulator::Options::default());
    let emulator = device.emulator_handle().unwrap();
    let keys: Vec<u64> = (1000..1080).collect();
    let (mut failed, mut partial) = (0, 0);
    for allocations in 0..12 {
        let table = Table::builder().capacity(128).rule(Rule::Lfu).device(&device).build().unwrap();
        let old: Vec<u64> = (0..128).collect();
        assert!(table.insert(&old, &rows(&old, 1)).unwrap().all_placed());
        device.release_staging();
        emulator.fail_allocations_after(allocations);
        let result = with_chunks(9, || table.insert_evict(&keys, &rows(&keys, 1)));
        emulator.fail_allocations_after(u64::MAX);
        let now = table.export(..).unwrap();
        let Ok((outcomes, evicted)) = result else {
            assert!(now.keys.iter().all(|key| *key < 128), "{allocations}: an error, and keys were placed");
            failed += 1;
            continue;
        };
        partial += usize::from(outcomes.refused() > 0);
        let placed = keys.iter().zip(outcomes.iter()).filter(|(_, outcome)| **outcome == Outcome::Inserted);
        let placed: Vec<u64> = placed.map(|(key, _)| *key).collect();
        let mut expected: Vec<u64> =
            old.iter().chain(&placed).filter(|key| !evicted.keys.contains(key)).copied().collect();
        let mut found = now.keys;
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{allocations}");
    }
    assert!(failed > 0 && partial > 0 && failed + partial < 12, "{failed} calls failed, {partial} in part");
}

/// A lookup that lacks memory at any place is an error: no key that is present seems absent.
#[test]
fn a_lookup_without_enough_memory_is_an_error() {
    let device = Device::emulator(emulator::Options::default());
    let emulator = device.emulator_handle().unwrap();
    let (keys, mut failed) = ((0..300).collect::<Vec<u64>>(), 0);
    for allocations in 0..12 {
        let builder = Table::builder().capacity(1000).two_buckets(true).device(&device);
        // The order of the rows in host memory is that of a sort, with memory for each of the streams.
        let table = builder.rows_on_device(0.1).host_rows(HostRows::Sorted).build().unwrap();
        assert!(table.insert(&keys, &rows(&keys, 1)).unwrap().all_placed());
        device.release_staging();
        emulator.fail_allocations_after(allocations);
        let result = with_chunks(40, || table.get(&keys));
        emulator.fail_allocations_after(u64::MAX);
        match result {
            Ok(found) => assert_eq!(found.found(), 300, "{allocations}: {:?}", found.outcomes()),
            Err(error) => {
                assert!(matches!(error, Error::Device(_)), "{error}");
                failed += 1;
            }
        }
    }
    assert!((3..12).contains(&failed), "{failed} calls failed");
}

/// HierarchicalKV#180: a table makes a handful of allocations, not one for each bucket, and batches none.
#[test]
fn hierarchical_kv_180_few_allocations() {
    let device = Device::emulator(emulator::Options::default());
    let emulator = device.emulator_handle().unwrap();
    let many = 1 << 40;
    let allocations = |call: &mut dyn FnMut()| {
        emulator.fail_allocations_after(many);
        call();
        many - emulator.fail_allocations_after(u64::MAX)
    };
    let mut made = None;
    let builder = || Table::builder().capacity(1 << 14).dim(4).rows_on_device(0.5).device(&device);
    let of_build = allocations(&mut || made = Some(builder().build().unwrap()));
    assert!((1..=10).contains(&of_build), "{of_build} allocations for {} buckets", 1 << 7);
    let table = made.unwrap();
    let keys: Vec<u64> = (0..2000).collect();
    let (all, mut into, mut found) = (rows(&keys, 4), vec![0; 8000], vec![false; 2000]);
    let mut batches = || {
        assert!(table.insert(&keys, &all).unwrap().all_placed());
        table.get_into(&keys, &mut into, &mut found).unwrap();
        table.contains_into(&keys, &mut found).unwrap();
        assert!(table.accumulate(&keys, &all).unwrap().all_placed());
        assert!(table.insert_evict(&keys[..100], &all[..400]).unwrap().0.all_placed());
        table.remove(&keys[..100]).unwrap();
    };
    let first = allocations(&mut batches);
    let later: Vec<_> = (0..5).map(|_| allocations(&mut batches)).collect();
    assert!(first > 0 && later.iter().sum::<u64>() == 0, "{first}, then {later:?}");
}
