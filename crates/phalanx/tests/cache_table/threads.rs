//! Batches of several host threads and streams.
use crate::model::Table;
use phalanx::cache_table::{Lock, Rule};
use std::sync::Mutex;

#[test]
fn threads_of_all_groups_share_a_table() {
    let table = Table::builder().capacity(2048).dim(8).rule(Rule::Lfu).build().unwrap();
    let keys: Vec<u64> = (0..400).collect();
    let rows = |value: u32| vec![value; 8 * 400];
    assert!(table.insert(&keys, &rows(0)).unwrap().all_placed());
    std::thread::scope(|scope| {
        for thread in 0..2u32 {
            let (table, keys, rows) = (&table, &keys, &rows);
            scope.spawn(move || {
                for round in 0..10 {
                    let value = 1 + 2 * round + thread;
                    assert!(table.assign(keys, &rows(value)).unwrap().all_placed());
                }
            });
            scope.spawn(move || {
                for _ in 0..10 {
                    let found = table.get(keys).unwrap();
                    let is_whole = |row: &[u32]| row.iter().all(|word| *word == row[0]);
                    assert!(found.iter().all(|row| row.is_some_and(is_whole)), "a row is torn");
                }
            });
        }
        scope.spawn(|| {
            for round in 0..10 {
                let others: Vec<u64> = (1000..1050).collect();
                assert!(table.insert(&others, &vec![round; 8 * 50]).unwrap().all_placed());
                assert!(table.remove(&others).unwrap().into_iter().all(|removed| removed));
            }
        });
    });
    assert_eq!(table.len().unwrap(), 400);
    // 1 for the insertion, and 20 assignments.
    assert_eq!(table.len_scored(21..=21).unwrap(), 400);
}

/// A lease begins while another thread inserts: neither waits for what the other holds.
#[test]
fn leases_begin_beside_insertions() {
    let table = Table::builder().capacity(1024).rule(Rule::Lru).build().unwrap();
    let keys: Vec<u64> = (0..20).collect();
    assert!(table.insert(&keys, &[1; 20]).unwrap().all_placed());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (device, stream) = (table.device(), table.device().stream().unwrap());
            let keys = device.from_slice(&keys).unwrap();
            let (mut addresses, mut outcomes) = (device.zeroed(20).unwrap(), device.zeroed(20).unwrap());
            for _ in 0..300 {
                drop(table.on(&stream).get_ref(&keys, &mut addresses, &mut outcomes).unwrap());
            }
        });
        for round in 0..300 {
            assert!(table.insert(&keys, &[round; 20]).unwrap().all_placed());
        }
    });
    assert!(table.leases().is_empty());
}

/// Growth, leases, exports and batches of all groups in threads of their own: nothing waits for ever, rows
/// stay whole, and leased keys stay.
#[test]
fn growth_leases_and_exports_beside_each_other() {
    let table = Table::builder().capacity(128).max_capacity(1 << 13).dim(6).rule(Rule::Lfu);
    let table = table.two_buckets(true).build().unwrap();
    let keys: Vec<u64> = (0..50).collect();
    let is_whole = |row: &[u32]| row.iter().all(|word| *word == row[0]);
    // While growth is put off, others are evicted.
    assert!(table.insert_scored(&keys, &[0; 300], &[1 << 40; 50]).unwrap().all_placed());
    let over = Mutex::new(false);
    let is_over = || *over.lock().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..60u64 {
                let more: Vec<u64> = (100 * round..100 * round + 40).collect();
                let outcomes = table.insert(&more, &vec![round as u32; 240]).unwrap();
                *over.lock().unwrap() = round == 59 || !outcomes.all_placed();
                assert!(outcomes.all_placed());
            }
        });
        scope.spawn(|| {
            let (device, stream) = (table.device(), table.device().stream().unwrap());
            let keys = device.from_slice(&keys).unwrap();
            let (mut addresses, mut outcomes) = (device.zeroed(50).unwrap(), device.zeroed(50).unwrap());
            while !is_over() {
                let lease = table.on(&stream).get_ref(&keys, &mut addresses, &mut outcomes).unwrap();
                assert!(addresses.read().unwrap().iter().all(|address| *address != 0));
                let _ = table.reserve(1 << 12);
                drop(lease);
            }
        });
        scope.spawn(|| {
            while !is_over() {
                let export = table.export_since(0).unwrap().buckets_at_once(2);
                let parts: Vec<_> = export.map(Result::unwrap).collect();
                assert!(parts.iter().all(|part| part.rows.chunks(6).all(is_whole)));
                let is_hot = |key: &&u64| **key < 50;
                assert_eq!(parts.iter().flat_map(|part| &part.keys).filter(is_hot).count(), 50);
            }
        });
        while !is_over() {
            assert!(table.assign(&keys, &[table.capacity() as u32; 300]).unwrap().all_placed());
            assert!(table.get(&keys).unwrap().iter().all(|row| row.is_some_and(is_whole)));
        }
    });
    assert!(table.leases().is_empty());
    table.reserve(1 << 13).unwrap();
    assert_eq!((table.capacity(), table.get(&keys).unwrap().found()), (1 << 13, 50));
}

/// Lookups run beside insertions, evictions, removals and growth: rows are whole, later lookups return no
/// older rows, and keys that stay are never missed.
#[test]
fn concurrent_lookups_beside_changes() {
    let table = Table::builder().capacity(128).max_capacity(1 << 12).dim(8).rule(Rule::Custom);
    let table = table.lock(Lock::Concurrent).two_buckets(true).build().unwrap();
    let keys: Vec<u64> = (0..40).collect();
    let rows = |value: u32| vec![value; 8 * 40];
    let first = table.insert_scored(&keys, &rows(0), &[u64::MAX; 40]).unwrap();
    assert!(first.all_placed());
    const ROUNDS: u32 = 40;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while last < ROUNDS {
                    let found = table.get(&keys).unwrap();
                    let mut values = Vec::new();
                    for row in found.iter() {
                        let row = row.expect("the key stays");
                        assert!(row.iter().all(|word| *word == row[0]), "a row is torn: {row:?}");
                        values.push(row[0]);
                    }
                    assert!(values.iter().all(|value| *value >= last), "rows older than {last}: {values:?}");
                    last = values.into_iter().min().expect("keys");
                    assert!(table.contains_key(&keys).unwrap().iter().all(|found| *found));
                }
            });
        }
        for round in 1..=ROUNDS {
            let others: Vec<u64> = (1000..1100).map(|key| key + u64::from(round) * 100).collect();
            let outcomes = table.insert_scored(&others, &[round; 8 * 100], &[1; 100]).unwrap();
            assert!(outcomes.count(phalanx::Outcome::Inserted) > 0);
            table.remove(&others[..50]).unwrap();
            assert!(table.insert_scored(&keys, &rows(round), &[u64::MAX; 40]).unwrap().all_placed());
        }
    });
    assert!(table.capacity() > 128);
}

/// A promotion moves keys, so it excludes concurrent lookups: they miss none.
#[test]
fn concurrent_lookups_and_promotions() {
    let table = Table::builder().capacity(256).dim(4).rule(Rule::Lfu).rows_on_device(0.25);
    let table = table.lock(Lock::Concurrent).build().unwrap();
    let keys: Vec<u64> = (0..2000).collect();
    assert_eq!(table.insert(&keys, &[3; 4 * 2000]).unwrap().len(), 2000);
    let present = table.contains_key(&keys).unwrap();
    let keys: Vec<u64> = keys.into_iter().filter(|key| present[*key as usize]).collect();
    assert_eq!(keys.len(), 256);
    std::thread::scope(|scope| {
        let lookups = scope.spawn(|| {
            for _ in 0..30 {
                let found = table.get(&keys).unwrap();
                assert!(found.iter().all(|row| row == Some(&[3; 4])));
            }
        });
        let mut round = 0;
        while !lookups.is_finished() {
            round += 1;
            let hot: Vec<u64> = keys.iter().copied().filter(|key| (key + round) % 3 == 0).collect();
            assert_eq!(table.assign_scores(&hot, &vec![round; hot.len()]).unwrap().len(), hot.len());
            table.promote(4).unwrap();
        }
    });
}
