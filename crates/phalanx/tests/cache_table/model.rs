//! A model of a cache table: which keys it holds, with rows and scores. It follows the outcomes of batches,
//! and checks what they claim.
use phalanx::cache_table::EvictedRows;
use phalanx::{CacheTable, Outcome, Outcomes};
use std::collections::BTreeMap;

pub type Table = CacheTable<u64, u32>;

#[derive(Default)]
pub struct Model {
    pub entries: BTreeMap<u64, (Vec<u32>, u64)>,
}

impl Model {
    /// Follows an insertion of elements, each with a row and the score that it gets, and what it evicted.
    /// Elements of a key that was refused do not count.
    pub fn insert(
        &mut self,
        elements: &[(u64, Vec<u32>, u64)],
        outcomes: &Outcomes,
        evicted: &EvictedRows<u64, u32, u64>,
    ) {
        assert_eq!(outcomes.len(), elements.len());
        let (before, mut evicted_first) = (self.entries.len(), BTreeMap::new());
        for ((key, row, score), outcome) in elements.iter().zip(outcomes.iter()) {
            match outcome {
                Outcome::Refused => {
                    assert!(!self.entries.contains_key(key), "a key that is present was refused");
                    continue;
                }
                // A key that was in the table was evicted before by another element of the batch.
                Outcome::Inserted => {
                    if let Some(entry) = self.entries.remove(key) {
                        assert_eq!(evicted_first.insert(*key, entry), None, "two insertions of key {key}");
                    }
                }
                _ => assert!(*outcome == Outcome::Replaced && self.entries.contains_key(key), "key {key}"),
            }
            self.entries.insert(*key, (row.clone(), *score));
        }
        let dim = elements.first().map_or(1, |element| element.1.len());
        for (index, (key, score)) in evicted.keys.iter().zip(&evicted.scores).enumerate() {
            let entry = evicted_first.remove(key).or_else(|| self.entries.remove(key));
            let (row, expected) = entry.expect("an evicted key was in the table");
            assert_eq!(
                (&evicted.rows[index * dim..(index + 1) * dim], score),
                (&row[..], &expected),
                "key {key}"
            );
        }
        assert!(evicted_first.is_empty(), "keys were lost: {evicted_first:?}");
        let inserted = outcomes.count(Outcome::Inserted);
        assert_eq!(self.entries.len(), before + inserted - evicted.keys.len());
    }

    /// Compares with the contents of the table.
    pub fn check(&self, table: &Table) {
        let found = table.export(..).unwrap();
        let dim = table.dim();
        let rows = found.rows.chunks(dim).map(<[u32]>::to_vec);
        let entries: BTreeMap<_, _> =
            found.keys.iter().copied().zip(rows.zip(found.scores.iter().copied())).collect();
        assert_eq!(entries.len(), found.keys.len(), "a key has two slots");
        for (key, entry) in &entries {
            assert_eq!(self.entries.get(key), Some(entry), "key {key}");
        }
        assert_eq!(entries.len(), self.entries.len());
        assert_eq!(table.len().unwrap(), entries.len());
        let keys: Vec<_> = self.entries.keys().copied().collect();
        assert!(table.contains_key(&keys).unwrap().into_iter().all(|found| found));
        let rows = table.get(&keys).unwrap();
        assert!(rows.iter().zip(self.entries.values()).all(|(row, entry)| row == Some(&entry.0[..])));
    }
}
