//! A cache table with the score policy of this package, on the emulator, against a model of the policy.
use phalanx::cache_table::{Builder, Rule, Victims};
use phalanx::{CacheTable, Error, Outcome};
use phalanx_test_variant::DecayingCache;
use std::collections::BTreeMap;

type Table = CacheTable<u64, u32>;

/// Number of batches after which half of a key's uses are forgotten.
const PERIOD: u32 = 10;

fn builder() -> Builder<u64, u32, u64> {
    Table::builder().variant_of::<DecayingCache>().parameter(PERIOD)
}

/// The uses of each key and the batch of the last one.
#[derive(Default)]
struct Model {
    now: u32,
    keys: BTreeMap<u64, (u32, u32)>,
}

impl Model {
    /// Counts `uses` uses of a key in a batch.
    fn count(&mut self, key: u64, uses: u32) {
        self.now += 1;
        let known = self.keys.get(&key).map_or(0, |(uses, last)| {
            let halvings = (self.now - last) / PERIOD;
            (0..halvings).fold(*uses, |uses, _| uses / 2)
        });
        self.keys.insert(key, (known + uses, self.now));
    }

    /// Returns the key that is evicted first.
    fn first_victim(&self) -> u64 {
        *self.keys.iter().min_by_key(|(_, entry)| **entry).unwrap().0
    }

    fn check(&self, table: &Table) {
        let found = table.export(..).unwrap();
        let scores: BTreeMap<_, _> = found.keys.into_iter().zip(found.scores).collect();
        let expected =
            self.keys.iter().map(|(key, (uses, last))| (*key, (*uses as u64) << 32 | *last as u64));
        assert_eq!(scores, expected.collect());
    }
}

/// Fills a table of one bucket by batches of one key, and uses some keys later.
fn filled(table: &Table) -> Model {
    let mut model = Model::default();
    for key in 0..128 {
        assert_eq!(table.insert_scored(&[key], &[key as u32], &[1 + key % 7]).unwrap(), [Outcome::Inserted]);
        model.count(key, 1 + key as u32 % 7);
    }
    for key in (0..128).step_by(3) {
        assert_eq!(table.get_and_touch(&[key]).unwrap().of(0), Some(&[key as u32][..]));
        model.count(key, 1);
    }
    model
}

#[test]
fn victims_are_those_of_the_policy() {
    for victims in [Victims::Exact, Victims::Summary] {
        let table = builder().capacity(128).victims(victims).build().unwrap();
        assert_eq!((table.variant(), table.rule()), ("decaying_4x8_u64_u64", None));
        let mut model = filled(&table);
        model.check(&table);
        for key in 1000..1060 {
            let victim = model.first_victim();
            let (outcomes, evicted) = table.insert_evict(&[key], &[key as u32]).unwrap();
            let refused = model.keys[&victim].0 > 1;
            assert_eq!(outcomes, [if refused { Outcome::Refused } else { Outcome::Inserted }]);
            match refused {
                true => model.now += 1,
                false => {
                    assert_eq!(
                        (evicted.keys, evicted.rows.len()),
                        (vec![victim], 1),
                        "key {key}, {victims:?}"
                    );
                    model.keys.remove(&victim);
                    model.count(key, 1);
                }
            }
            // Without uses, the new keys would be each other's victims.
            assert_eq!(table.assign_scores(&[key], &[20]).unwrap()[0] == Outcome::Absent, refused);
            match refused {
                true => model.now += 1,
                false => model.count(key, 20),
            }
        }
        model.check(&table);
    }
}

/// Growth and files keep the scores, whatever the policy would make of them.
#[test]
fn scores_survive_growth_and_files() {
    let table = builder().capacity(128).max_capacity(512).grow_at(1.0).build().unwrap();
    let mut model = filled(&table);
    table.reserve(512).unwrap();
    model.check(&table);
    assert!(table.insert(&[5000], &[1]).unwrap().all_placed());
    model.count(5000, 1);

    let mut file = Vec::new();
    table.save(&mut file).unwrap();
    let loaded = Table::load(&file[..], builder().capacity(1000)).unwrap();
    model.check(&loaded);
    loaded.get_and_touch(&[5000]).unwrap();
    assert_eq!(loaded.export(..).unwrap().keys.len(), model.keys.len());
    let other = Table::load(&file[..], Table::builder().rule(Rule::Custom)).unwrap_err();
    assert!(matches!(&other, Error::Format(text) if text.contains("rule")), "{other}");
}

/// `export_since` takes a score.
#[test]
fn exports_begin_at_a_score() {
    let table = builder().capacity(128).build().unwrap();
    let model = filled(&table);
    let since = 5 << 32;
    let expected: Vec<u64> =
        model.keys.iter().filter(|(_, (uses, _))| *uses >= 5).map(|(key, _)| *key).collect();
    let parts = table.export_since(since).unwrap();
    assert_eq!(parts.next_since(), since);
    let mut found: Vec<u64> = parts.flat_map(|part| part.unwrap().keys).collect();
    found.sort_unstable();
    assert!(!expected.is_empty() && expected.len() < 128);
    assert_eq!(found, expected);
}
