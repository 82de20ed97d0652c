//! Evictions and refusals.
use crate::batches::random;
use crate::model::Table;
use phalanx::cache_table::{EvictedBuffers, EvictedRows, Filter, Rule, Victims};
use phalanx::{CacheTable, Outcome, Outcomes};
use std::collections::BTreeMap;

/// Inserts keys with random scores one by one into a table of one bucket, where the victim is exactly known.
fn the_lowest_score_goes(two_buckets: bool, victims: Victims) {
    let builder = Table::builder().capacity(1).rule(Rule::Custom).two_buckets(two_buckets);
    let table = builder.victims(victims).build().unwrap();
    assert_eq!(table.victims(), victims);
    assert_eq!(table.capacity(), 128);
    let (mut model, mut random) = (BTreeMap::new(), random(5));
    for key in 0..400u64 {
        // Distinct scores, so that the victim is unique.
        let score = random(1000) * 1000 + key;
        let outcomes = table.insert_scored(&[key], &[key as u32], &[score]).unwrap();
        let lowest = model.values().copied().min();
        let is_refused = model.len() == 128 && lowest.is_some_and(|lowest| score < lowest);
        assert_eq!(outcomes, [if is_refused { Outcome::Refused } else { Outcome::Inserted }]);
        if !is_refused {
            if model.len() == 128 {
                model.retain(|_, score| Some(*score) != lowest);
            }
            model.insert(key, score);
        }
        if key % 50 == 0 || key > 390 {
            let found = table.export(..).unwrap();
            assert_eq!(found.keys.into_iter().zip(found.scores).collect::<BTreeMap<_, _>>(), model);
        }
    }
}

#[test]
fn the_key_with_the_lowest_score_is_evicted() {
    for victims in [Victims::Exact, Victims::Summary] {
        the_lowest_score_goes(false, victims);
        the_lowest_score_goes(true, victims);
    }
}

/// Inserts and uses keys one by one, so that both kinds of table see the same contents, with scores of many
/// sizes. Requires that both evict the same keys.
fn both_evict_the_same(rule: Rule, two_buckets: bool) {
    let table = |victims| {
        let builder = Table::builder().capacity(512).rule(rule).two_buckets(two_buckets).victims(victims);
        builder.build().unwrap()
    };
    let (tables, mut random) = ([Victims::Exact, Victims::Summary].map(table), random(9));
    let keys: Vec<u64> = (0..700).collect();
    let rows = vec![0; keys.len()];
    for (step, key) in (1000..1400u64).enumerate() {
        let score = 1 + ((random(1 << 20) * random(1 << 20)) >> random(40));
        let results = tables.each_ref().map(|table| {
            if step == 0 {
                let scores: Vec<u64> = keys.iter().map(|key| 1 + key * key % 1000).collect();
                assert!(table.insert_scored(&keys, &rows, &scores).unwrap().len() == keys.len());
            }
            assert_eq!(table.assign_scores(&[key - 3, key % 700], &[score, 5]).unwrap().len(), 2);
            let (outcomes, evicted) = table.insert_evict(&[key], &[1]).unwrap();
            (outcomes.count(Outcome::Inserted), evicted.keys, evicted.scores)
        });
        // Scores may be equal, and then the victims differ; their scores do not.
        assert_eq!(results[0].2, results[1].2, "{rule:?}, step {step}");
        if results[0].1 != results[1].1 {
            // From here on, the contents differ.
            return;
        }
    }
}

#[test]
fn victims_by_the_summary_are_exact() {
    for rule in [Rule::Lru, Rule::Lfu, Rule::Custom, Rule::EpochLfu, Rule::LfuThenLru] {
        both_evict_the_same(rule, false);
        both_evict_the_same(rule, true);
    }
}

#[test]
fn keys_with_the_highest_possible_score_are_replaced_too() {
    let table = Table::builder().capacity(128).rule(Rule::Custom).build().unwrap();
    let keys: Vec<u64> = (0..300).collect();
    let rows: Vec<u32> = (0..300).collect();
    let outcomes = table.insert_scored(&keys, &rows, &[u64::MAX; 300]).unwrap();
    assert_eq!((outcomes.count(Outcome::Inserted), table.len().unwrap()), (300, 128));
    assert_eq!(table.insert_scored(&[1000], &[7], &[u64::MAX - 1]).unwrap(), [Outcome::Refused]);
    assert_eq!(table.insert_scored(&[1000], &[7], &[u64::MAX]).unwrap(), [Outcome::Inserted]);
}

#[test]
fn a_batch_larger_than_the_table_leaves_it_full() {
    for two_buckets in [false, true] {
        let table = Table::builder().capacity(256).two_buckets(two_buckets).build().unwrap();
        let (keys, rows): (Vec<u64>, Vec<u32>) = (0..5000).map(|key| (key, key as u32)).unzip();
        let (outcomes, evicted) = table.insert_evict(&keys, &rows).unwrap();
        assert!(outcomes.all_placed());
        assert_eq!((table.len().unwrap(), evicted.keys.len()), (256, 5000 - 256));
        assert!(evicted.keys.iter().zip(&evicted.rows).all(|(key, row)| *key == u64::from(*row)));
    }
}

#[test]
fn two_buckets_fill_before_the_first_eviction() {
    let load = |two_buckets| {
        let table = Table::builder().capacity(128 * 40).two_buckets(two_buckets).build().unwrap();
        let mut next = 0;
        loop {
            let keys: Vec<u64> = (next..next + 128).collect();
            let (_, evicted) = table.insert_evict(&keys, &[0; 128]).unwrap();
            if !evicted.keys.is_empty() {
                return table.len().unwrap() as f64 / table.capacity() as f64;
            }
            next += 128;
        }
    };
    let (one, two) = (load(false), load(true));
    assert!((0.5..0.93).contains(&one) && two >= 0.96, "{one} {two}");
}

#[test]
fn used_keys_outlive_others() {
    for rule in [Rule::Lru, Rule::Lfu, Rule::EpochLru, Rule::EpochLfu, Rule::LfuThenLru] {
        let table = Table::builder().capacity(128).rule(rule).build().unwrap();
        let keys: Vec<u64> = (0..128).collect();
        assert!(table.insert(&keys, &[0; 128]).unwrap().all_placed());
        assert_eq!(table.get_and_touch(&keys[..64]).unwrap().found(), 64);
        let others: Vec<u64> = (1000..1064).collect();
        assert!(table.insert(&others, &[0; 64]).unwrap().all_placed(), "{rule:?}");
        let kept = table.contains_key(&keys).unwrap();
        assert!(kept[..64].iter().all(|kept| *kept), "{rule:?}");
        assert!(kept[64..].iter().filter(|kept| **kept).count() < 64, "{rule:?}");
    }
}

#[test]
fn keys_of_earlier_epochs_go_first() {
    let table = Table::builder().capacity(128).rule(Rule::EpochLfu).build().unwrap();
    let old: Vec<u64> = (0..128).collect();
    for _ in 0..3 {
        assert!(table.insert(&old, &[0; 128]).unwrap().all_placed());
    }
    table.set_epoch(1).unwrap();
    let new: Vec<u64> = (500..600).collect();
    assert!(table.insert(&new, &[0; 100]).unwrap().all_placed());
    assert!(table.contains_key(&new).unwrap().into_iter().all(|found| found));
    assert_eq!(table.len().unwrap(), 128);
}

/// recsys-examples#198: a key that was removed begins to be counted anew.
#[test]
fn recsys_examples_198_a_removed_key_is_counted_anew() {
    let table = Table::builder().capacity(128).rule(Rule::Lfu).build().unwrap();
    for _ in 0..5 {
        assert!(table.insert(&[1], &[1]).unwrap().all_placed());
    }
    assert_eq!(table.len_scored(5..=5).unwrap(), 1);
    assert_eq!(table.remove(&[1]).unwrap(), [true]);
    assert!(table.insert(&[1], &[1]).unwrap().all_placed());
    assert_eq!(table.len_scored(1..=1).unwrap(), 1);
}

/// HierarchicalKV#242: the output of evicted keys has no holes, also after keys were removed.
#[test]
fn hierarchical_kv_242_evicted_keys_have_no_holes() {
    let table = Table::builder().capacity(256).build().unwrap();
    let mut random = random(9);
    for round in 0..6u64 {
        let keys: Vec<u64> = (0..300).map(|_| 1 + random(600)).collect();
        let rows: Vec<u32> = keys.iter().map(|key| *key as u32).collect();
        let (_, evicted) = table.insert_evict(&keys, &rows).unwrap();
        assert!(round == 0 || !evicted.keys.is_empty());
        assert!(
            evicted.keys.iter().zip(&evicted.rows).all(|(key, row)| *key != 0 && *key == u64::from(*row))
        );
        let removed: Vec<u64> = (0..40).map(|_| 1 + random(600)).collect();
        table.remove(&removed).unwrap();
    }
}

/// HierarchicalKV#211: `get_or_insert` updates the scores of the keys that it finds.
#[test]
fn hierarchical_kv_211_get_or_insert_updates_scores() {
    let table = Table::builder().capacity(128).rule(Rule::Lfu).build().unwrap();
    assert!(table.insert(&[1, 2], &[1, 2]).unwrap().all_placed());
    assert_eq!(table.get_or_insert(&[1], &[9]).unwrap().of(0), Some(&[1][..]));
    assert_eq!((table.len_scored(2..).unwrap(), table.len_scored(..2).unwrap()), (1, 1));
}

/// HierarchicalKV PR 135 and PR 141: a batch with duplicate keys ends, also if they all want one bucket.
#[test]
fn hierarchical_kv_135_duplicate_keys_end() {
    let table = CacheTable::<u32, u32>::builder().capacity(128).build().unwrap();
    let keys: Vec<u32> = (0..2000).map(|index| index % 130).collect();
    let outcomes = table.insert(&keys, &keys).unwrap();
    assert!(outcomes.all_placed());
    assert_eq!(table.len().unwrap(), 128);
}

/// recsys-examples PR 468: an insertion that is refused changes no row.
#[test]
fn recsys_examples_468_a_refused_key_changes_no_row() {
    let table = Table::builder().capacity(128).rule(Rule::Custom).build().unwrap();
    let keys: Vec<u64> = (0..128).collect();
    let rows: Vec<u32> = (0..128).collect();
    assert!(table.insert_scored(&keys, &rows, &[100; 128]).unwrap().all_placed());
    let refused: Vec<u64> = (500..600).collect();
    assert_eq!(table.insert_scored(&refused, &[7; 100], &[1; 100]).unwrap().refused(), 100);
    assert_eq!(table.get(&keys).unwrap().iter().flatten().flatten().copied().collect::<Vec<_>>(), rows);
}

/// recsys-examples#450: evicted keys are kept, with scores and rows, in a table of their own, and come back.
#[test]
fn recsys_examples_450_evicted_keys_are_kept() {
    let near = Table::builder().capacity(128).dim(2).rule(Rule::Lfu).build().unwrap();
    // Uses add up: also those of a key that was evicted and placed again by one batch.
    let far = Table::builder().capacity(4096).dim(2).rule(Rule::Lfu).two_buckets(true).build().unwrap();
    let mut random = random(8);
    let mut uses = BTreeMap::<u64, u64>::new();
    for _ in 0..30 {
        let mut keys: Vec<u64> = (0..60).map(|_| random(500)).collect();
        keys.sort_unstable();
        keys.dedup();
        // Keys that were evicted come back with the uses that they had.
        let kept = far.export_if(Filter::all()).unwrap();
        let before: BTreeMap<_, _> = kept.keys.iter().copied().zip(kept.scores).collect();
        far.remove(&keys).unwrap();
        let scores: Vec<u64> = keys.iter().map(|key| 1 + before.get(key).copied().unwrap_or(0)).collect();
        let rows: Vec<u32> = keys.iter().flat_map(|key| [*key as u32; 2]).collect();
        let (outcomes, evicted) = insert_evict_scored(&near, &keys, &rows, &scores);
        for (index, key) in keys.iter().enumerate() {
            *uses.entry(*key).or_default() += 1;
            if outcomes[index] == Outcome::Refused {
                let kept = far.insert_scored(&[*key], &rows[2 * index..2 * index + 2], &[scores[index]]);
                assert!(kept.unwrap().all_placed());
            }
        }
        assert!(far.insert_scored(&evicted.keys, &evicted.rows, &evicted.scores).unwrap().all_placed());
    }
    let (a, b) = (near.export(..).unwrap(), far.export(..).unwrap());
    assert!(b.keys.len() > 200, "{}", b.keys.len());
    let mut all = BTreeMap::<u64, u64>::new();
    for (key, score) in a.keys.iter().chain(&b.keys).zip(a.scores.iter().chain(&b.scores)) {
        *all.entry(*key).or_default() += score;
    }
    assert!(all == uses);
    let is_own = |(row, key): (&[u32], &u64)| row == [*key as u32; 2];
    assert!(a.rows.chunks(2).zip(&a.keys).all(is_own) && b.rows.chunks(2).zip(&b.keys).all(is_own));
}

/// [`CacheTable::insert_evict`] with scores.
fn insert_evict_scored(
    table: &Table,
    keys: &[u64],
    rows: &[u32],
    scores: &[u64],
) -> (Outcomes, EvictedRows<u64, u32, u64>) {
    let (device, stream, len) = (table.device(), table.device().stream().unwrap(), keys.len());
    let (keys, rows) = (device.from_slice(keys).unwrap(), device.from_slice(rows).unwrap());
    let scores = device.from_slice(scores).unwrap();
    let (mut old, mut old_rows) = (device.zeroed(len).unwrap(), device.zeroed(rows.len()).unwrap());
    let (mut old_scores, mut count) = (device.zeroed(len).unwrap(), device.zeroed::<u32>(1).unwrap());
    let mut outcomes = device.zeroed::<u8>(len).unwrap();
    let evicted = EvictedBuffers {
        keys: (&mut old).into(),
        rows: (&mut old_rows).into(),
        scores: (&mut old_scores).into(),
        count: (&mut count).into(),
    };
    table.on(&stream).scores(&scores).insert_evict(&keys, &rows, evicted, &mut outcomes).unwrap();
    let many = count.read().unwrap()[0] as usize;
    let evicted = EvictedRows {
        keys: old.slice(..many).unwrap().read().unwrap(),
        scores: old_scores.slice(..many).unwrap().read().unwrap(),
        rows: old_rows.slice(..many * table.dim()).unwrap().read().unwrap(),
    };
    (outcomes.read().unwrap().into_iter().filter_map(Outcome::from_code).collect(), evicted)
}
