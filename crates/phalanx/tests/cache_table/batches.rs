//! Batches of many keys.
use crate::model::{Model, Table};
use phalanx::cache_table::Rule;
use phalanx::{CacheTable, Outcome};
use std::collections::BTreeMap;

/// Returns a number generator with this seed.
pub fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |range| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % range
    }
}

fn row(dim: usize, value: u64) -> Vec<u32> {
    (0..dim as u64).map(|at| (value * 100 + at) as u32).collect()
}

/// Inserts batches with duplicates into a table that is soon full, and compares each with the model.
fn random_batches(buckets: usize, dim: usize, two_buckets: bool, seed: u64) {
    let capacity = 128 * buckets;
    let builder = Table::builder().capacity(capacity).dim(dim).two_buckets(two_buckets).seed(seed);
    let table = builder.rule(Rule::Lru).build().unwrap();
    let (mut model, mut random) = (Model::default(), random(seed));
    for now in 1..=12 {
        let len = 1 + random(capacity as u64 / 2) as usize;
        let keys: Vec<_> = (0..len).map(|_| random(2 * capacity as u64)).collect();
        let rows: Vec<_> = (0..len).map(|index| row(dim, now * 1000 + index as u64)).collect();
        let (outcomes, evicted) = table.insert_evict(&keys, &rows.concat()).unwrap();
        let elements: Vec<_> = keys.iter().zip(&rows).map(|(key, row)| (*key, row.clone(), now)).collect();
        model.insert(&elements, &outcomes, &evicted);
        model.check(&table);
        assert_eq!(outcomes.refused(), 0, "the latest batch has the highest score");
    }
    assert!(model.entries.len() > capacity / 2);
}

#[test]
fn random_batches_agree_with_the_model() {
    for (buckets, dim, two_buckets) in
        [(1, 1, false), (1, 4, true), (2, 3, true), (3, 8, false), (7, 16, true)]
    {
        random_batches(buckets, dim, two_buckets, 7 * buckets as u64);
    }
}

#[test]
fn of_equal_keys_the_last_row_stays_and_uses_are_counted() {
    let table = Table::builder().capacity(1000).rule(Rule::Lfu).build().unwrap();
    let outcomes = table.insert(&[7, 8, 7, 7], &[1, 2, 3, 4]).unwrap();
    use Outcome::{Inserted, Replaced};
    assert_eq!(outcomes, [Inserted, Inserted, Replaced, Replaced]);
    assert_eq!(table.get(&[7, 8]).unwrap().iter().flatten().flatten().copied().collect::<Vec<_>>(), [4, 2]);
    let mut found = table.export(2..).unwrap();
    assert_eq!((found.keys.pop(), found.scores.pop(), found.keys.len()), (Some(7), Some(3), 0));
    assert_eq!(table.get_and_touch(&[7, 9, 7]).unwrap().found(), 2);
    assert_eq!((table.len_scored(5..=5).unwrap(), table.len().unwrap()), (1, 2));
}

#[test]
fn many_equal_keys_are_one() {
    let table = CacheTable::<u64, f32>::builder().capacity(100).dim(2).build().unwrap();
    let (keys, ones) = ([5; 700], [1.0; 1400]);
    let outcomes = table.accumulate(&keys, &ones).unwrap();
    assert_eq!((outcomes[0], outcomes.count(Outcome::Replaced)), (Outcome::Inserted, 699));
    assert_eq!(table.get(&[5]).unwrap().of(0), Some(&[700.0, 700.0][..]));
    let rows = table.get_or_insert(&[6, 5, 6], &[1., 2., 3., 4., 5., 6.]).unwrap();
    assert_eq!((rows.of(1), rows.of(0), rows.of(2)), (Some(&[700.0, 700.0][..]), rows.of(2), rows.of(0)));
    assert_eq!(*rows.outcomes(), [Outcome::Inserted, Outcome::Found, Outcome::Found]);
    assert_eq!(rows.of(0), table.get(&[6]).unwrap().of(0));
}

#[test]
fn sums_of_floats_are_those_of_the_batch_in_order() {
    let table = CacheTable::<u32, f32>::builder().capacity(100).build().unwrap();
    let mut random = random(3);
    let elements: Vec<_> =
        (0..500).map(|_| (random(9) as u32, (random(1000) as f32).exp2().sqrt())).collect();
    let (keys, rows): (Vec<_>, Vec<_>) = elements.iter().copied().unzip();
    let mut sums = BTreeMap::new();
    for _ in 0..2 {
        assert!(table.accumulate(&keys, &rows).unwrap().all_placed());
        // The first row of a key begins a sum; then the batch's rows are added to the table's one by one.
        for (key, row) in &elements {
            sums.entry(*key).and_modify(|sum| *sum += row).or_insert(*row);
        }
    }
    let found = table.get(&sums.keys().copied().collect::<Vec<_>>()).unwrap();
    assert!(found.iter().flatten().flatten().zip(sums.values()).all(|(a, b)| a.to_bits() == b.to_bits()));
}

/// Runs every operation on keys that include the smallest and the largest.
macro_rules! every_operation {
    ($($name:ident: $key:ty, $score:ty;)*) => {$(
        #[test]
        fn $name() {
            let table = CacheTable::<$key, u32, $score>::builder().capacity(300).dim(5).build().unwrap();
            let keys = [0, 1, <$key>::MAX, <$key>::MAX - 1, 1 << 31];
            let rows: Vec<u32> = (0..25).collect();
            assert_eq!(table.get(&keys).unwrap().found(), 0);
            assert_eq!(table.assign(&keys, &rows).unwrap(), [Outcome::Absent; 5]);
            assert_eq!(table.insert(&keys, &rows).unwrap(), [Outcome::Inserted; 5]);
            let found = table.get(&keys).unwrap();
            assert_eq!(found.iter().flatten().flatten().copied().collect::<Vec<_>>(), rows);
            let others: Vec<u32> = rows.iter().map(|word| word + 100).collect();
            assert_eq!(table.assign(&keys[..4], &others[..20]).unwrap(), [Outcome::Replaced; 4]);
            assert_eq!(table.accumulate(&keys[..1], &rows[..5]).unwrap(), [Outcome::Replaced]);
            assert_eq!(table.get(&keys).unwrap().of(0), Some(&[100, 102, 104, 106, 108][..]));
            assert_eq!(table.get(&keys).unwrap().of(4), Some(&rows[20..]));
            assert_eq!(table.get_and_touch(&keys).unwrap().found(), 5);
            assert_eq!(table.remove(&[0, 2, <$key>::MAX]).unwrap(), [true, false, true]);
            assert_eq!(table.contains_key(&keys).unwrap(), [false, true, false, true, true]);
            assert_eq!(table.len().unwrap(), 3);
            assert_eq!(table.insert(&[<$key>::MAX], &rows[..5]).unwrap(), [Outcome::Inserted]);
            assert_eq!(table.export(..).unwrap().keys.len(), 4);
            let mut table = table;
            table.clear().unwrap();
            assert!(table.is_empty().unwrap() && table.get(&keys).unwrap().found() == 0);
        }
    )*};
}
every_operation! {
    every_operation_on_wide_keys_and_scores: u64, u64;
    every_operation_on_narrow_keys_and_scores: u32, u32;
    every_operation_on_wide_keys_with_narrow_scores: u64, u32;
    every_operation_on_narrow_keys_with_wide_scores: u32, u64;
}

#[test]
fn every_variant_does_the_same() {
    let mut contents = Vec::new();
    for variant in Table::variants() {
        let table = Table::builder().capacity(500).dim(4).variant(variant).build().unwrap();
        assert_eq!(table.variant(), variant);
        let (keys, mut random) = ((0..300).collect::<Vec<u64>>(), random(1));
        let rows: Vec<u32> = (0..1200).collect();
        assert!(table.insert(&keys, &rows).unwrap().all_placed());
        let removed: Vec<_> = (0..100).map(|_| random(400)).collect();
        table.remove(&removed).unwrap();
        assert!(table.insert(&keys[..150], &rows[600..]).unwrap().all_placed());
        let asked: Vec<_> = (0..400).collect();
        let found = table.get(&asked).unwrap();
        contents.push(found.iter().map(|row| row.map(<[u32]>::to_vec)).collect::<Vec<_>>());
    }
    assert!(contents.windows(2).all(|pair| pair[0] == pair[1]));
    assert!(contents[0].iter().flatten().count() > 150);
}

#[test]
fn missed_keys_are_gathered() {
    let table = Table::builder().capacity(500).build().unwrap();
    let (device, stream) = (table.device(), table.device().stream().unwrap());
    assert!(table.insert(&[2, 4, 6], &[20, 40, 60]).unwrap().all_placed());
    let keys = device.from_slice(&(1..=100u64).collect::<Vec<_>>()).unwrap();
    let (mut rows, mut outcomes) = (device.zeroed::<u32>(100).unwrap(), device.zeroed::<u8>(100).unwrap());
    let (mut missed, mut indices) = (device.zeroed::<u64>(100).unwrap(), device.zeroed::<u32>(100).unwrap());
    let mut count = device.filled::<u32>(1, 0xff).unwrap();
    let batches = table.on(&stream);
    batches.get_missed(&keys, &mut rows, &mut outcomes, (&mut missed, &mut indices, &mut count)).unwrap();
    assert_eq!(count.read().unwrap(), [97]);
    let mut pairs: Vec<_> =
        missed.read().unwrap().into_iter().zip(indices.read().unwrap()).take(97).collect();
    pairs.sort_unstable();
    let expected = (1..=100).filter(|key| ![2, 4, 6].contains(key)).map(|key| (key, key as u32 - 1));
    assert!(pairs.into_iter().eq(expected));
    assert_eq!(rows.read().unwrap()[1], 20);
}

#[test]
fn rows_may_begin_between_sixteen_bytes() {
    let table = Table::builder().capacity(500).dim(4).build().unwrap();
    let (device, stream) = (table.device(), table.device().stream().unwrap());
    let keys = device.from_slice(&[1u64, 2]).unwrap();
    let (rows, mut found) =
        (device.from_slice(&(0..9u32).collect::<Vec<_>>()).unwrap(), device.zeroed::<u32>(11).unwrap());
    let mut outcomes = device.zeroed::<u8>(2).unwrap();
    table.on(&stream).insert(&keys, rows.slice(1..).unwrap(), None).unwrap();
    table.on(&stream).get(&keys, found.slice_mut(3..).unwrap(), &mut outcomes).unwrap();
    assert_eq!(found.read().unwrap(), [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
}
