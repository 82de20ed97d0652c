//! Leases against evictions and removals.
use crate::model::Table;
use phalanx::cache_table::{Lease, Rule};
use phalanx::emulator::{Detect, Options};
use phalanx::{Device, Error, Outcome};

/// Leases the rows of keys.
fn lease<'a>(table: &'a Table, keys: &[u64]) -> Lease<'a> {
    let (device, stream) = (table.device(), table.device().stream().unwrap());
    let keys = device.from_slice(keys).unwrap();
    let mut addresses = device.zeroed::<u64>(keys.len()).unwrap();
    let mut outcomes = device.zeroed::<u8>(keys.len()).unwrap();
    table.on(&stream).get_ref(&keys, &mut addresses, &mut outcomes).unwrap()
}

fn full_table(capacity: u64) -> (Table, Vec<u64>) {
    let table = Table::builder().capacity(capacity as usize).rule(Rule::Lru).build().unwrap();
    let keys: Vec<u64> = (0..capacity).collect();
    let rows: Vec<u32> = (0..capacity as u32).collect();
    assert!(table.insert(&keys, &rows).unwrap().all_placed());
    (table, keys)
}

/// FBGEMM#1883 and FBGEMM#5480: rows are not evicted while a reader uses them.
#[test]
fn fbgemm_1883_leased_rows_are_not_evicted() {
    let (table, keys) = full_table(128);
    let lease = lease(&table, &keys[..100]);
    let others: Vec<u64> = (1000..1500).collect();
    let outcomes = table.insert(&others, &[7; 500]).unwrap();
    assert!(outcomes.all_placed(), "28 slots are free for eviction");
    let kept = table.contains_key(&keys).unwrap();
    assert!(kept[..100].iter().all(|kept| *kept) && kept[100..].iter().all(|kept| !kept));
    assert_eq!(table.get(&keys[..100]).unwrap().of(99), Some(&[99][..]));
    drop(lease);
    assert!(table.insert(&others, &[8; 500]).unwrap().all_placed());
    assert!(table.contains_key(&keys).unwrap().iter().all(|kept| !kept));
}

#[test]
fn an_insertion_that_finds_only_leased_victims_is_refused() {
    let (table, keys) = full_table(128);
    let first = lease(&table, &keys[..64]);
    let second = lease(&table, &keys[32..]);
    assert!(first.number() < second.number());
    assert_eq!(table.leases(), [first.number(), second.number()]);
    let outcomes = table.insert(&[1000, 5, 1001], &[1, 2, 3]).unwrap();
    assert_eq!(outcomes, [Outcome::Refused, Outcome::Replaced, Outcome::Refused]);
    drop(first);
    let others: Vec<u64> = (1000..1032).collect();
    assert!(table.insert(&others, &[1; 32]).unwrap().all_placed());
    assert!(table.contains_key(&keys[32..]).unwrap().into_iter().all(|kept| kept));
    drop(second);
    assert!(table.leases().is_empty());
}

#[test]
fn leased_keys_are_not_removed() {
    let (table, keys) = full_table(128);
    let lease = lease(&table, &keys[..3]);
    assert_eq!(table.remove(&[1, 2, 100]).unwrap(), [false, false, true]);
    let before = table.len().unwrap();
    assert_eq!(table.remove_scored(..).unwrap(), before - 3);
    assert_eq!(table.export(..).unwrap().keys.len(), 3);
    drop(lease);
    assert_eq!(table.remove(&keys[..3]).unwrap(), [true; 3]);
}

#[test]
fn a_leaked_lease_is_reported() {
    let (mut table, keys) = full_table(128);
    let leaked = lease(&table, &keys);
    let number = leaked.number();
    std::mem::forget(leaked);
    assert_eq!(table.leases(), [number]);
    assert!(matches!(table.clear(), Err(Error::Leased { leases: 1 })));
    assert_eq!(table.insert(&[1000], &[1]).unwrap(), [Outcome::Refused]);
}

#[test]
fn a_lease_of_absent_keys_holds_nothing() {
    let (table, _) = full_table(128);
    let _lease = lease(&table, &[5000, 6000]);
    assert_eq!(table.insert(&[1000], &[1]).unwrap(), [Outcome::Inserted]);
}

/// Positions beyond the count are neither those of an ended lease, nor read from memory that nobody has
/// written.
#[test]
fn a_lease_of_a_bounded_batch_holds_the_counted_keys_only() {
    let detect = Detect { uninitialized: true, ..Detect::CHEAP };
    let device = Device::emulator(Options { detect, ..Options::default() });
    let table = Table::builder().capacity(128).device(&device).build().unwrap();
    let all = [1u64, 2, 3, 4];
    let (keys, stream) = (device.from_slice(&all).unwrap(), device.stream().unwrap());
    for counted in [2u32, 1, 0, 9] {
        assert!(table.insert(&all, &[7; 4]).unwrap().all_placed());
        let count = device.from_slice(&[counted]).unwrap();
        let (mut addresses, mut outcomes) = (device.zeroed(4).unwrap(), device.zeroed::<u8>(4).unwrap());
        let bounded = keys.bounded_by(&count).unwrap();
        let bounded = table.on(&stream).get_ref(bounded, &mut addresses, &mut outcomes).unwrap();
        assert_eq!(table.remove(&all).unwrap(), all.map(|key| key > counted.into()), "{counted}");
        drop(bounded);
        assert!(table.insert(&all, &[7; 4]).unwrap().all_placed());
        // The next lease gets this one's buffer, with the positions of all keys.
        drop(lease(&table, &all));
    }
}

/// Returns the addresses of the keys' rows, with their lease.
fn addresses<'a>(table: &'a Table, keys: &[u64]) -> (Vec<u64>, Lease<'a>) {
    let (device, stream) = (table.device(), table.device().stream().unwrap());
    let keys = device.from_slice(keys).unwrap();
    let mut addresses = device.zeroed::<u64>(keys.len()).unwrap();
    let mut outcomes = device.zeroed::<u8>(keys.len()).unwrap();
    let lease = table.on(&stream).get_ref(&keys, &mut addresses, &mut outcomes).unwrap();
    (addresses.read().unwrap(), lease)
}

/// HierarchicalKV PR 209: the address of a row is not another key's while somebody may use it. Once no lease
/// holds the row, another key may get its place, and the evicted key has no address any more.
#[test]
fn hierarchical_kv_209_addresses_are_not_reused_under_a_lease() {
    let (table, keys) = full_table(128);
    let (held, lease) = addresses(&table, &keys[..50]);
    let others: Vec<u64> = (1000..1200).collect();
    assert!(table.insert(&others, &[9; 200]).unwrap().all_placed());
    let (of_others, _) = addresses(&table, &others);
    assert!(of_others.iter().all(|address| !held.contains(address)));
    assert_eq!(addresses(&table, &keys[..50]).0, held, "leased rows stay where they are");
    drop(lease);
    assert!(table.insert(&others, &[8; 200]).unwrap().all_placed());
    assert!(table.insert(&keys[100..], &[7; 28]).unwrap().all_placed());
    let (of_evicted, _) = addresses(&table, &keys[..50]);
    assert_eq!(of_evicted, [0; 50]);
    let (now, _) = addresses(&table, &others);
    assert!(held.iter().any(|address| now.contains(address)), "the places are used again");
}
