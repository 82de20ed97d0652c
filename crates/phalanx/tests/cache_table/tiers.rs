//! Tables with rows in host memory, and promotion.
use crate::batches::random;
use crate::model::{Model, Table};
use phalanx::cache_table::{HostRows, Rule};
use std::collections::BTreeSet;

#[test]
fn rows_in_host_memory_are_as_others() {
    for (share, two_buckets, order) in [
        (0.0, false, HostRows::Sorted),
        (0.3, true, HostRows::Sorted),
        (0.3, true, HostRows::Direct),
        (0.5, false, HostRows::Auto),
    ] {
        let builder = Table::builder().capacity(512).dim(4).two_buckets(two_buckets).rows_on_device(share);
        let table = builder.host_rows(order).build().unwrap();
        assert_eq!(table.host_memory_usage(), 512 * 16 - (128.0 * share).round() as usize * 4 * 16);
        let (mut model, mut random) = (Model::default(), random(3));
        for now in 1..=8 {
            let keys: Vec<_> = (0..200).map(|_| random(900)).collect();
            let rows: Vec<Vec<u32>> =
                (0..200).map(|at| (0..4).map(|word| now * 1000 + at + word).collect()).collect();
            // The removal below is a batch, too: the time is the number of batches.
            let (outcomes, evicted) = table.insert_evict(&keys, &rows.concat()).unwrap();
            let elements: Vec<_> =
                keys.iter().zip(rows).map(|(key, row)| (*key, row, u64::from(2 * now - 1))).collect();
            model.insert(&elements, &outcomes, &evicted);
            let removed: Vec<_> = (0..20).map(|_| random(900)).collect();
            table.remove(&removed).unwrap();
            removed.iter().for_each(|key| drop(model.entries.remove(key)));
            table.promote(random(20) as u32).unwrap();
            model.check(&table);
        }
    }
}

/// Returns the keys whose rows are on the device: their addresses are below or above those of the others.
fn near(table: &Table, keys: &[u64]) -> BTreeSet<u64> {
    let (device, stream) = (table.device(), table.device().stream().unwrap());
    let buffer = device.from_slice(keys).unwrap();
    let (mut addresses, mut outcomes) =
        (device.zeroed::<u64>(keys.len()).unwrap(), device.zeroed::<u8>(keys.len()).unwrap());
    let lease = table.on(&stream).get_ref(&buffer, &mut addresses, &mut outcomes).unwrap();
    let addresses = addresses.read().unwrap();
    drop(lease);
    let mut sorted: Vec<_> = addresses.iter().zip(keys).map(|(address, key)| (*address, *key)).collect();
    sorted.sort_unstable();
    let gap =
        sorted.windows(2).map(|pair| pair[1].0 - pair[0].0).enumerate().max_by_key(|gap| gap.1).unwrap();
    let parts = sorted.split_at(gap.0 + 1);
    let smaller = if parts.0.len() < parts.1.len() { parts.0 } else { parts.1 };
    smaller.iter().map(|(_, key)| *key).collect()
}

#[test]
fn the_keys_with_the_highest_scores_come_near() {
    let builder = Table::builder().capacity(128).dim(2).rule(Rule::Custom).rows_on_device(0.25);
    let table = builder.build().unwrap();
    let keys: Vec<u64> = (0..128).collect();
    let rows: Vec<u32> = (0..256).collect();
    let mut random = random(4);
    for _ in 0..3 {
        let mut scores: Vec<u64> = (0..128).collect();
        (1..128).for_each(|at| scores.swap(at, random(at as u64 + 1) as usize));
        assert!(table.insert_scored(&keys, &rows, &scores).unwrap().all_placed());
        assert!(table.promote(128).unwrap() > 0);
        let hot: BTreeSet<u64> = keys.iter().copied().filter(|key| scores[*key as usize] >= 96).collect();
        assert_eq!(near(&table, &keys), hot);
        assert_eq!(table.promote(128).unwrap(), 0);
        assert_eq!(table.get(&keys).unwrap().iter().flatten().flatten().copied().collect::<Vec<_>>(), rows);
    }
}

#[test]
fn leased_rows_are_not_moved() {
    let builder = Table::builder().capacity(128).rule(Rule::Custom).rows_on_device(0.5);
    let table = builder.build().unwrap();
    let (keys, rows): (Vec<u64>, Vec<u32>) = (0..128).map(|key| (key, key as u32)).unzip();
    assert!(table.insert_scored(&keys, &rows, &keys).unwrap().all_placed());
    let (device, stream) = (table.device(), table.device().stream().unwrap());
    let buffer = device.from_slice(&keys).unwrap();
    let (mut addresses, mut outcomes) =
        (device.zeroed::<u64>(128).unwrap(), device.zeroed::<u8>(128).unwrap());
    let lease = table.on(&stream).get_ref(&buffer, &mut addresses, &mut outcomes).unwrap();
    assert_eq!(table.promote(128).unwrap(), 0);
    drop(lease);
    assert!(table.promote(128).unwrap() > 0);
}
