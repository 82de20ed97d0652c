//! Batches of several host threads and streams.
use crate::model::Table;
use phalanx::cache_table::Rule;
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
