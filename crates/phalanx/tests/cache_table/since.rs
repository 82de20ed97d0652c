//! Exports by steps, beside other batches.
use crate::batches::random;
use crate::model::Table;
use phalanx::cache_table::{Exported, Rule};
use phalanx::{Device, Error, emulator};
use std::collections::BTreeMap;

/// A key's row and score.
type Entry = (Vec<u32>, u64);

/// A step of an export.
type Part = phalanx::Result<Exported<u64, u32, u64>>;

/// Runs an export to its end. Calls `between` after each step. Returns what was found of each key.
fn run(export: impl Iterator<Item = Part>, mut between: impl FnMut()) -> BTreeMap<u64, Vec<Entry>> {
    let mut found = BTreeMap::<u64, Vec<Entry>>::new();
    for part in export {
        let part = part.unwrap();
        let dim = part.rows.len() / part.keys.len();
        for (index, (key, score)) in part.keys.iter().zip(&part.scores).enumerate() {
            let row = part.rows[index * dim..(index + 1) * dim].to_vec();
            found.entry(*key).or_default().push((row, *score));
        }
        between();
    }
    found
}

/// Returns the table's keys with scores and rows.
fn contents(table: &Table) -> BTreeMap<u64, Entry> {
    let found = table.export(..).unwrap();
    let rows = found.rows.chunks(table.dim()).map(<[u32]>::to_vec);
    found.keys.into_iter().zip(rows.zip(found.scores)).collect()
}

/// Inserts keys with rows that all have the number `value`.
fn insert(table: &Table, keys: &[u64], value: u32) {
    let _ = table.insert(keys, &vec![value; keys.len() * table.dim()]).unwrap();
}

/// recsys-examples#125: a dump does not stop insertions. Keys that stay in the table are dumped once, whole.
#[test]
fn recsys_examples_125_insertions_go_on_between_the_steps_of_a_dump() {
    for two_buckets in [false, true] {
        let builder = Table::builder().capacity(128 * 9).dim(5).two_buckets(two_buckets).rows_on_device(0.5);
        let table = builder.rule(Rule::EpochLru).build().unwrap();
        let mut random = random(9);
        insert(&table, &(0..700).collect::<Vec<_>>(), 1);
        table.set_epoch(1).unwrap();
        insert(&table, &(300..700).collect::<Vec<_>>(), 2);
        let before = contents(&table);
        let (mut steps, mut always, mut values) = (0, before.clone(), 3);
        let found = run(table.export_since(1).unwrap().buckets_at_once(1), || {
            steps += 1;
            let keys: Vec<u64> = (0..60).map(|_| random(1500)).collect();
            insert(&table, &keys, values);
            table.remove(&[random(1500)]).unwrap();
            table.promote(3).unwrap();
            values += 1;
            let now = contents(&table);
            always.retain(|key, _| now.contains_key(key));
        });
        assert!(steps >= 8, "{steps} steps");
        let stayed: Vec<_> = always.iter().filter(|(_, (_, score))| *score >= 1 << 32).collect();
        assert!(stayed.len() > 100, "{}", stayed.len());
        for (key, _) in stayed {
            assert_eq!(found.get(key).map(Vec::len), Some(1), "key {key}");
        }
        for (key, entries) in &found {
            for (row, score) in entries {
                assert!(*score >= 1 << 32 && row.iter().all(|word| *word == row[0]), "key {key}: {row:?}");
                assert!((2..values).contains(&row[0]), "key {key}: {row:?}");
            }
        }
    }
}

#[test]
fn exports_continue_each_other() {
    for (rule, two_buckets) in [(Rule::EpochLru, true), (Rule::EpochLfu, false), (Rule::Lru, true)] {
        let table =
            Table::builder().capacity(128 * 5).two_buckets(two_buckets).rule(rule).seed(3).build().unwrap();
        let (mut random, mut replica, mut since, mut value) = (random(2), BTreeMap::new(), 0, 0);
        for epoch in 0..12 {
            table.set_epoch(epoch).unwrap();
            let mut change = || {
                value += 1;
                let keys: Vec<u64> = (0..50).map(|_| random(900)).collect();
                insert(&table, &keys, value);
            };
            change();
            let export = table.export_since(since).unwrap().buckets_at_once(1 + epoch % 3);
            since = export.next_since();
            // The export's own keys are later ones of what the steps before have returned.
            for (key, entries) in run(export, change) {
                replica.insert(key, entries.last().unwrap().0.clone());
            }
        }
        let rest = table.export_since(since).unwrap();
        run(rest, || {})
            .into_iter()
            .for_each(|(key, entries)| drop(replica.insert(key, entries[0].0.clone())));
        let now = contents(&table);
        assert!(now.len() > 400);
        for (key, (row, _)) in now {
            assert_eq!(replica.get(&key), Some(&row), "{rule:?}: key {key}");
        }
    }
}

#[test]
fn only_keys_used_since_then_are_exported() {
    let of = |rule| Table::builder().capacity(2000).rule(rule).build().unwrap();
    let keys_since =
        |table: &Table, since| run(table.export_since(since).unwrap(), || {}).into_keys().collect::<Vec<_>>();
    let table = of(Rule::Lru);
    insert(&table, &[1, 2, 3], 1);
    let since = table.export_since(0).unwrap().next_since();
    assert_eq!((since, keys_since(&table, since)), (2, vec![]));
    insert(&table, &[4], 1);
    table.get_and_touch(&[2]).unwrap();
    assert_eq!((keys_since(&table, since), keys_since(&table, since + 1)), (vec![2, 4], vec![2]));
    assert_eq!(keys_since(&table, 0), [1, 2, 3, 4]);

    let table = of(Rule::Custom);
    let _ = table.insert_scored(&[1, 2], &[1, 2], &[5, 6]).unwrap();
    assert_eq!((keys_since(&table, 6), table.export_since(6).unwrap().next_since()), (vec![2], 6));

    for rule in [Rule::Lfu, Rule::LfuThenLru] {
        let table = of(rule);
        insert(&table, &[1, 2], 1);
        assert!(matches!(table.export_since(1), Err(Error::NoTime { .. })));
        assert_eq!(keys_since(&table, 0), [1, 2]);
    }
}

#[test]
fn epochs_beyond_their_half_of_a_score_are_exported() {
    let table = phalanx::CacheTable::<u32, u32, u32>::builder().rule(Rule::EpochLfu).build().unwrap();
    table.set_epoch(1 << 20).unwrap();
    let _ = table.insert(&[7], &[70]).unwrap();
    for (since, found) in [(0xffff, 1), (1 << 20, 1), (u64::MAX, 1)] {
        let parts: Vec<_> = table.export_since(since).unwrap().map(Result::unwrap).collect();
        assert_eq!(parts.iter().map(|part| part.keys.len()).sum::<usize>(), found);
    }
}

/// Steps that were submitted ahead keep their columns when later steps have another number of buckets.
#[test]
fn steps_keep_their_size_when_later_ones_get_another() {
    let table = Table::builder().capacity(128 * 32).dim(2).two_buckets(true).seed(1).build().unwrap();
    let keys: Vec<u64> = (0..3000).map(|key| key * 7919 + 5).collect();
    let rows: Vec<u32> = keys.iter().flat_map(|key| [*key as u32, !*key as u32]).collect();
    assert!(table.insert(&keys, &rows).unwrap().all_placed());
    let expected: BTreeMap<u64, Vec<Entry>> =
        contents(&table).into_iter().map(|(key, entry)| (key, vec![entry])).collect();
    assert_eq!(expected.len(), 3000);
    for (first, later) in [(2, 1), (4, 3), (8, 1), (1, 8), (3, 4), (1, u32::MAX)] {
        let mut export = table.export_since(0).unwrap().buckets_at_once(first);
        let begun = export.next().unwrap();
        let later_steps: Vec<Part> = export.buckets_at_once(later).collect();
        let last = later_steps.last().unwrap().as_ref().unwrap().keys.len();
        assert_eq!(last <= 128, later == 1, "{first}, then {later}: {last} keys in the last step");
        let found = run([begun].into_iter().chain(later_steps), || {});
        assert!(found == expected, "{first}, then {later}");
    }
}

/// The time of a batch is that of its submission: an export continues at the first batch after its beginning.
#[test]
fn no_batch_of_another_thread_falls_between_two_exports() {
    let table = Table::builder().capacity(1 << 12).two_buckets(true).rule(Rule::Lru).build().unwrap();
    let (mut found, mut since) = (BTreeMap::new(), 0);
    std::thread::scope(|scope| {
        let threads = [1, 2].map(|thread| {
            let table = &table;
            scope.spawn(move || {
                for round in 0..150 {
                    insert(table, &[1000 * thread + round], round as u32);
                }
            })
        });
        let mut is_last = false;
        while !is_last {
            is_last = threads.iter().all(|thread| thread.is_finished());
            let export = table.export_since(since).unwrap().buckets_at_once(8);
            since = export.next_since();
            found.extend(run(export, || {}));
        }
    });
    assert_eq!(found.len(), 300);
}

#[test]
fn an_export_ends_after_an_error() {
    let device = Device::emulator(emulator::Options::default());
    let table = Table::builder().capacity(1000).device(&device).build().unwrap();
    insert(&table, &[1, 2], 1);
    let emulator = device.emulator_handle().unwrap();
    let mut export = table.export_since(0).unwrap();
    device.release_staging();
    emulator.fail_allocations_after(0);
    assert!(matches!(export.next(), Some(Err(Error::Device(_)))));
    emulator.fail_allocations_after(u64::MAX);
    assert!(export.next().is_none());
    drop(export);
    assert_eq!(run(table.export_since(0).unwrap(), || {}).len(), 2);
}

/// With memory for one step only, steps follow each other.
#[test]
fn an_export_needs_memory_for_one_step() {
    let device = Device::emulator(emulator::Options::default());
    let emulator = device.emulator_handle().unwrap();
    let table = Table::builder().capacity(128 * 6).rule(Rule::Custom).device(&device).build().unwrap();
    let keys: Vec<u64> = (0..300).collect();
    insert(&table, &keys, 1);
    for (allocations, is_enough) in [(0, false), (1, false), (2, true), (3, true), (4, true)] {
        device.release_staging();
        let export = table.export_since(0).unwrap().buckets_at_once(1);
        emulator.fail_allocations_after(allocations);
        let parts = export.collect::<Result<Vec<_>, _>>();
        emulator.fail_allocations_after(u64::MAX);
        assert_eq!(parts.is_ok(), is_enough, "{allocations}");
        let found = parts.map_or(0, |parts| parts.iter().map(|part| part.keys.len()).sum());
        assert_eq!(found, if is_enough { 300 } else { 0 });
    }
}

#[test]
fn an_empty_table_exports_nothing() {
    let table = Table::builder().capacity(1000).build().unwrap();
    assert!(table.export_since(0).unwrap().next().is_none());
    let mut export = table.export_since(0).unwrap().buckets_at_once(0);
    assert!(export.next().is_none() && export.next().is_none());
}
