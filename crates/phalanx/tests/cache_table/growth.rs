//! Tables that grow.
use crate::batches::random;
use crate::model::Table;
use phalanx::cache_table::Rule;
use phalanx::{Device, Error, emulator};
use phalanx_kernels::cache::Hashed;
use std::collections::BTreeMap;

/// Returns the table's keys with scores and rows.
fn contents(table: &Table) -> BTreeMap<u64, (u64, Vec<u32>)> {
    let found = table.export(..).unwrap();
    let rows = found.rows.chunks(table.dim()).map(<[u32]>::to_vec);
    found.keys.into_iter().zip(found.scores.into_iter().zip(rows)).collect()
}

fn rows(keys: &[u64], dim: usize) -> Vec<u32> {
    keys.iter().flat_map(|key| vec![*key as u32; dim]).collect()
}

#[test]
fn a_table_grows_and_loses_no_key() {
    for (two_buckets, share, dim) in [(false, 1.0, 1), (true, 0.25, 4), (true, 1.0, 3)] {
        let builder = Table::builder().capacity(128).max_capacity(4096).dim(dim).rule(Rule::EpochLru);
        let table = builder.two_buckets(two_buckets).rows_on_device(share).seed(4).build().unwrap();
        let (mut random, mut expected) = (random(7), BTreeMap::new());
        for now in 1..=30u64 {
            let keys: Vec<u64> = (0..1 + random(60)).map(|_| random(1 << 40)).collect();
            let (outcomes, evicted) = table.insert_evict(&keys, &rows(&keys, dim)).unwrap();
            assert!(outcomes.all_placed() && evicted.keys.is_empty());
            keys.iter().for_each(|key| drop(expected.insert(*key, (now, vec![*key as u32; dim]))));
        }
        assert!(table.capacity() >= 1024 && table.capacity() <= table.max_capacity());
        assert_eq!(contents(&table), expected);
        let far = ((1.0 - share) * table.capacity() as f64) as usize;
        assert_eq!(table.host_memory_usage(), far * dim * 4);
        let keys: Vec<u64> = expected.keys().copied().collect();
        assert_eq!(table.get(&keys).unwrap().found(), keys.len());
        assert!(table.remove(&keys).unwrap().into_iter().all(|removed| removed));
    }
}

#[test]
fn a_batch_grows_the_table_by_its_distinct_new_keys() {
    let table = Table::builder().capacity(128).max_capacity(1 << 14).build().unwrap();
    let keys: Vec<u64> = (0..2000).map(|index| index % 50).collect();
    assert!(table.insert(&keys, &rows(&keys, 1)).unwrap().all_placed());
    assert!(table.insert(&keys, &rows(&keys, 1)).unwrap().all_placed());
    assert_eq!((table.capacity(), table.len().unwrap()), (128, 50));
    let more: Vec<u64> = (0..2000).collect();
    assert!(table.insert(&more, &rows(&more, 1)).unwrap().all_placed());
    assert_eq!((table.capacity(), table.len().unwrap()), (4096, 2000));
}

#[test]
fn a_table_at_its_maximum_evicts() {
    let table = Table::builder().capacity(128).max_capacity(300).grow_at(1.0).build().unwrap();
    assert_eq!(table.max_capacity(), 256);
    let keys: Vec<u64> = (0..1000).collect();
    assert!(table.insert(&keys, &rows(&keys, 1)).unwrap().all_placed());
    assert_eq!((table.capacity(), table.len().unwrap()), (256, 256));
    table.set_max_capacity(0).unwrap();
    assert_eq!((table.capacity(), table.max_capacity()), (256, 256));
}

/// recsys-examples#245: `reserve`, and incremental dumps before and after it.
#[test]
fn recsys_examples_245_reserve_and_incremental_dump() {
    let table = Table::builder().capacity(200).max_capacity(2000).rule(Rule::EpochLru).build().unwrap();
    let keys: Vec<u64> = (0..80).collect();
    assert!(table.insert(&keys, &rows(&keys, 1)).unwrap().all_placed());
    table.set_epoch(1).unwrap();
    let (mut full, mut changes) = (Vec::new(), Vec::new());
    let since = table.save(&mut full).unwrap();
    let before = contents(&table);
    table.reserve(1000).unwrap();
    assert_eq!((table.capacity(), table.max_capacity()), (1024, 2048));
    assert_eq!(contents(&table), before);
    let new: Vec<u64> = (70..90).collect();
    assert!(table.insert(&new, &rows(&new, 1)).unwrap().all_placed());
    table.save_since(since, &mut changes).unwrap();
    assert!(changes.len() < 20 * 20 + 100, "only the 20 changed rows");
    let replica = phalanx::CacheTable::load(&full[..], Table::builder().capacity(500).rule(Rule::EpochLru));
    let replica: Table = replica.unwrap();
    assert_eq!(replica.apply(&changes[..]).unwrap(), 20);
    assert_eq!(contents(&replica), contents(&table));
}

#[test]
fn leases_and_exports_put_growth_off() {
    let table = Table::builder().capacity(128).max_capacity(1024).build().unwrap();
    let (device, stream) = (table.device(), table.device().stream().unwrap());
    assert!(table.insert(&[1, 2], &[10, 20]).unwrap().all_placed());
    let (keys, mut addresses) = (device.from_slice(&[1u64, 2]).unwrap(), device.zeroed(2).unwrap());
    let mut outcomes = device.zeroed::<u8>(2).unwrap();
    let lease = table.on(&stream).get_ref(&keys, &mut addresses, &mut outcomes).unwrap();
    assert!(matches!(table.reserve(200), Err(Error::Leased { leases: 1 })));
    let many: Vec<u64> = (100..500).collect();
    assert!(table.insert(&many, &rows(&many, 1)).unwrap().all_placed());
    assert_eq!((table.capacity(), table.len().unwrap()), (128, 128));
    drop(lease);
    let export = table.export_since(0).unwrap();
    assert!(matches!(table.reserve(200), Err(Error::Exported { exports: 1 })));
    assert!(table.insert(&many, &rows(&many, 1)).unwrap().all_placed());
    assert_eq!(table.capacity(), 128);
    drop(export);
    assert!(table.insert(&many, &rows(&many, 1)).unwrap().all_placed());
    assert_eq!(table.capacity(), 1024);
    // Leases of a table that has grown have bits for its new slots.
    let _lease = table.on(&stream).get_ref(&keys, &mut addresses, &mut outcomes).unwrap();
    assert_eq!(table.remove(&[1, 2, 499]).unwrap(), [false, false, true]);
}

#[test]
fn a_leaked_export_is_reported() {
    let table = Table::builder().capacity(128).max_capacity(1024).build().unwrap();
    let (mut begun, second) = (table.export_since(0).unwrap(), table.export_since(0).unwrap());
    assert!(begun.next().is_none());
    assert_eq!(table.exports(), 2, "also one that has returned all its steps");
    drop(begun);
    std::mem::forget(second);
    assert_eq!(table.exports(), 1);
    assert!(matches!(table.reserve(200), Err(Error::Exported { exports: 1 })));
    let many: Vec<u64> = (0..500).collect();
    assert!(table.insert(&many, &rows(&many, 1)).unwrap().all_placed());
    assert_eq!((table.capacity(), table.len().unwrap()), (128, 128));
}

#[test]
fn a_table_that_lacks_memory_stays_as_it_is() {
    let device = Device::emulator(emulator::Options::default());
    let builder = Table::builder().capacity(128).max_capacity(1 << 12).device(&device);
    let table = builder.rule(Rule::Custom).build().unwrap();
    let keys: Vec<u64> = (0..50).collect();
    assert!(table.insert_scored(&keys, &rows(&keys, 1), &[9; 50]).unwrap().all_placed());
    let (before, emulator) = (contents(&table), device.emulator_handle().unwrap());
    for allocations in 0..9 {
        emulator.fail_allocations_after(allocations);
        let result = table.reserve(300);
        emulator.fail_allocations_after(u64::MAX);
        assert!(matches!(result, Err(Error::Device(_))), "{allocations}: {result:?}");
        assert_eq!((table.capacity(), contents(&table)), (128, before.clone()));
    }
    table.reserve(300).unwrap();
    assert_eq!((table.capacity(), contents(&table)), (512, before));
}

/// Returns keys that have these two buckets in a table of eight.
fn keys_of(buckets: [u32; 2]) -> impl Iterator<Item = u64> {
    let is_one = move |key: &u64| {
        let own = [0, 1].map(|choice| Hashed::of(*key, 0).bucket(choice, 8));
        own == buckets || own == [buckets[1], buckets[0]]
    };
    (0..).filter(is_one)
}

/// A table of four buckets, of which one has keys for the buckets 0 and 6 of eight, and two others those for
/// 4 and 6. As soon as one of the former is in bucket 6, the latter do not fit: the table stays as it is.
#[test]
fn a_table_whose_keys_find_no_place_in_a_larger_one_stays_as_it_is() {
    let table = Table::builder().capacity(512).two_buckets(true).rule(Rule::Custom).grow_at(0.7);
    let table = table.build().unwrap();
    let crowd: Vec<u64> = keys_of([4, 6]).take(900).collect();
    let _ = table.insert_scored(&crowd, &rows(&crowd, 1), &[9; 900]).unwrap();
    assert_eq!(table.len().unwrap(), 256);
    let others: Vec<u64> = keys_of([0, 6]).take(128).collect();
    assert!(table.insert_scored(&others, &rows(&others, 1), &[9; 128]).unwrap().all_placed());
    let before = contents(&table);
    assert_eq!(before.len(), 384);
    table.set_max_capacity(1024).unwrap();
    let result = table.reserve(1000);
    assert!(matches!(result, Err(Error::DoesNotFit { pairs: 384, .. })), "{result:?}");
    assert_eq!((table.capacity(), contents(&table)), (512, before.clone()));
    // A batch that would let the table grow evicts instead.
    let more = rows(&[1 << 50], 1);
    assert!(table.insert_scored(&[1 << 50], &more, &[9]).unwrap().all_placed());
    assert_eq!(table.capacity(), 512);
    assert!(before.keys().filter(|key| contents(&table).contains_key(key)).count() >= 383);
}

#[test]
fn impossible_growth_is_an_error() {
    let builder = || Table::builder().capacity(128);
    for load in [0.0, -1.0, 1.01, f64::NAN] {
        assert!(matches!(builder().grow_at(load).build(), Err(Error::LoadFactor(_))));
    }
    let large = builder().max_capacity(usize::MAX).build();
    assert!(matches!(large, Err(Error::TooLarge { .. })));
    let table = builder().build().unwrap();
    assert!(matches!(table.set_max_capacity(usize::MAX), Err(Error::TooLarge { .. })));
    let beyond = table.reserve(129).unwrap_err();
    assert!(matches!(beyond, Error::AboveMaxCapacity { asked: 129, most: 128 }));
    // Not to split the keys, as for a table that is as large as possible.
    assert!(beyond.to_string().contains("set_max_capacity"), "{beyond}");
    assert!(matches!(table.reserve(usize::MAX), Err(Error::AboveMaxCapacity { .. })));
    table.reserve(0).unwrap();
    table.reserve(128).unwrap();
    assert_eq!(table.capacity(), 128);
}

/// Readers of other threads go on while the table grows.
#[test]
fn a_table_grows_beside_other_threads() {
    let table = Table::builder().capacity(128).max_capacity(1 << 12).dim(4).build().unwrap();
    let keys: Vec<u64> = (0..40).collect();
    assert!(table.insert(&keys, &rows(&keys, 4)).unwrap().all_placed());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 1..20u64 {
                let more: Vec<u64> = (1000 * round..1000 * round + 60).collect();
                assert!(table.insert(&more, &rows(&more, 4)).unwrap().all_placed());
            }
        });
        while !writer.is_finished() {
            let found = table.get(&keys).unwrap();
            assert!(found.iter().zip(&keys).all(|(row, key)| row == Some(&[*key as u32; 4][..])));
        }
    });
    assert_eq!(table.len().unwrap(), 40 + 19 * 60);
}
