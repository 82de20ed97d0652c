//! Saved tables.
use crate::batches::random;
use crate::model::Table;
use phalanx::cache_table::{Builder, Rule};
use phalanx::private::with_chunks;
use phalanx::{CacheTable, Device, Error, emulator};
use std::collections::BTreeMap;

/// Returns the table's keys with scores and rows.
fn contents(table: &Table) -> BTreeMap<u64, (u64, Vec<u32>)> {
    let found = table.export(..).unwrap();
    let rows = found.rows.chunks(table.dim()).map(<[u32]>::to_vec);
    found.keys.into_iter().zip(found.scores.into_iter().zip(rows)).collect()
}

fn builder(rule: Rule) -> Builder<u64, u32, u64> {
    Table::builder().capacity(1000).dim(3).rule(rule)
}

/// Returns a table of 300 keys with scores of several epochs.
fn filled(rule: Rule) -> Table {
    let (table, mut random) = (builder(rule).build().unwrap(), random(6));
    for epoch in 0..5 {
        table.set_epoch(epoch).unwrap();
        let keys: Vec<u64> = (0..80).map(|_| random(400)).collect();
        let rows: Vec<u32> = keys.iter().flat_map(|key| [*key as u32, epoch, 7]).collect();
        assert!(table.insert(&keys, &rows).unwrap().all_placed());
    }
    table
}

fn saved(table: &Table) -> Vec<u8> {
    let mut file = Vec::new();
    table.save(&mut file).unwrap();
    file
}

#[test]
fn a_saved_table_is_loaded_into_others() {
    for rule in [Rule::Lru, Rule::Lfu, Rule::EpochLru, Rule::EpochLfu, Rule::Custom, Rule::LfuThenLru] {
        let table = filled(rule);
        let file = saved(&table);
        let variants = Table::variants();
        let others = [
            builder(rule).capacity(2000).seed(8),
            builder(rule).capacity(700).two_buckets(true),
            builder(rule).variant(variants.last().unwrap()).rows_on_device(0.5),
            builder(rule).capacity(1).max_capacity(1 << 12),
        ];
        for other in others {
            let loaded = CacheTable::load(&file[..], other).unwrap();
            assert_eq!(contents(&loaded), contents(&table), "{rule:?}");
            // The clock continues: a key that is used now is the latest.
            let highest = contents(&loaded).values().map(|entry| entry.0).max().unwrap();
            loaded.get_and_touch(&[*contents(&loaded).keys().next().unwrap()]).unwrap();
            let is_later = loaded.len_scored(highest + 1..).unwrap() == 1;
            assert!(is_later || !matches!(rule, Rule::Lru | Rule::EpochLru), "{rule:?}");
        }
    }
}

#[test]
fn a_table_that_is_too_small_keeps_the_highest_scores() {
    let table = CacheTable::<u64, u32>::builder().capacity(1000).rule(Rule::Custom).build().unwrap();
    let keys: Vec<u64> = (0..300).collect();
    let rows: Vec<u32> = (0..300).collect();
    assert!(table.insert_scored(&keys, &rows, &keys).unwrap().all_placed());
    let mut file = Vec::new();
    assert_eq!(table.save(&mut file).unwrap(), 0);
    let small = CacheTable::<u64, u32>::builder().capacity(128).rule(Rule::Custom);
    let loaded = CacheTable::load(&file[..], small).unwrap();
    // An eviction overlooks keys whose slots other elements of the block have locked.
    let left = loaded.export(..).unwrap().keys;
    let highest = left.iter().filter(|key| **key >= 172).count();
    assert!(left.len() == 128 && highest >= 100 && left.iter().all(|key| *key >= 50), "{highest}: {left:?}");
}

/// An incremental file has only the changed rows; a chain of files leads to the same table.
#[test]
fn changes_are_saved_and_applied() {
    let make = || Table::builder().capacity(3000).dim(32).rule(Rule::EpochLfu).two_buckets(true);
    let (table, mut random) = (make().build().unwrap(), random(1));
    let keys: Vec<u64> = (0..1000).collect();
    assert!(table.insert(&keys, &vec![1; 32_000]).unwrap().all_placed());
    table.set_epoch(1).unwrap();
    let mut full = Vec::new();
    let mut since = table.save(&mut full).unwrap();
    let replica = CacheTable::load(&full[..], make().seed(5)).unwrap();
    for epoch in 1..5 {
        let changed: Vec<u64> = (0..100).map(|_| random(2000)).collect();
        let distinct = changed.iter().collect::<std::collections::BTreeSet<_>>().len();
        let rows: Vec<u32> = (0..3200).map(|_| random(1 << 30) as u32).collect();
        assert!(table.insert(&changed, &rows).unwrap().all_placed());
        table.set_epoch(epoch + 1).unwrap();
        let mut file = Vec::new();
        since = table.save_since(since, &mut file).unwrap();
        assert!(
            file.len() as f64 <= 1.2 * (distinct * 128) as f64,
            "{} bytes of {distinct} rows",
            file.len()
        );
        assert_eq!(replica.apply(&file[..]).unwrap(), distinct);
        assert_eq!(contents(&replica), contents(&table));
    }
}

/// Rows of 4 KiB: the file has several blocks.
#[test]
fn large_tables_are_saved_by_blocks() {
    let make = || Table::builder().capacity(128 * 33).dim(1024).rule(Rule::Custom);
    let table = make().build().unwrap();
    let keys: Vec<u64> = (0..2000).collect();
    let rows: Vec<u32> = keys.iter().flat_map(|key| [*key as u32; 1024]).collect();
    assert!(table.insert_scored(&keys, &rows, &keys).unwrap().all_placed());
    let file = saved(&table);
    let loaded = CacheTable::load(&file[..], make().seed(1)).unwrap();
    assert!(contents(&loaded) == contents(&table));
}

#[test]
fn damaged_files_are_refused_and_change_nothing() {
    let (file, victim) = (saved(&filled(Rule::EpochLru)), filled(Rule::EpochLru));
    assert!(victim.insert(&[1000], &[1, 2, 3]).unwrap().all_placed());
    let before = contents(&victim);
    let refuse = |file: &[u8], what: &str| {
        let load = CacheTable::load(file, builder(Rule::EpochLru)).map(drop);
        assert!(matches!(load, Err(Error::Format(_))), "{what}: {load:?}");
        let apply = victim.apply(file).map(drop);
        assert!(matches!(apply, Err(Error::Format(_))), "{what}: {apply:?}");
    };
    for len in (0..file.len()).step_by(97).chain(file.len() - 40..file.len()) {
        refuse(&file[..len], &format!("{len} of {} bytes", file.len()));
    }
    for at in (0..file.len()).step_by(211).chain(0..48).chain(file.len() - 24..file.len()) {
        // The length of a block, the kind of the file and the number of bytes after it may grow.
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        let is_accepted = victim.apply(&damaged[..]).is_ok();
        assert!(!is_accepted, "byte {at}");
        assert!(CacheTable::load(&damaged[..], builder(Rule::EpochLru)).is_err(), "byte {at}");
    }
    refuse(b"PHXMAP-something-else-of-another-kind-of-map", "another structure");
    assert!(contents(&victim) == before);
    assert_eq!(victim.apply(&file[..]).unwrap(), before.len() - 1);
}

/// Files with another rule are refused with the names of both.
#[test]
fn files_of_another_rule_name_it() {
    let file = saved(&filled(Rule::Lfu));
    let refused = CacheTable::load(&file[..], builder(Rule::EpochLru)).unwrap_err().to_string();
    assert!(refused.contains("`Lfu`") && refused.contains("`EpochLru`"), "{refused}");
}

/// A table that lacks memory while a file is inserted is no table without some of the file's keys.
#[test]
fn a_file_without_enough_memory_is_an_error() {
    let device = Device::emulator(emulator::Options::default());
    let emulator = device.emulator_handle().unwrap();
    let make = || builder(Rule::Custom).two_buckets(true).device(&device);
    let (table, keys) = (make().build().unwrap(), (0..300).collect::<Vec<u64>>());
    assert!(table.insert_scored(&keys, &vec![7; 900], &keys).unwrap().all_placed());
    let (file, mut failed) = (saved(&table), [0; 2]);
    for allocations in 0..24 {
        let empty = make().build().unwrap();
        let limited = |call: &dyn Fn() -> phalanx::Result<usize>| {
            device.release_staging();
            emulator.fail_allocations_after(allocations);
            let found = with_chunks(40, call);
            emulator.fail_allocations_after(u64::MAX);
            match found {
                Ok(found) => assert_eq!(found, 300, "{allocations}"),
                Err(ref error) => assert!(matches!(error, Error::Device(_)), "{error}"),
            }
            usize::from(found.is_err())
        };
        failed[0] += limited(&|| empty.apply(&file[..]));
        failed[1] += limited(&|| {
            let loaded = CacheTable::load(&file[..], make())?;
            emulator.fail_allocations_after(u64::MAX);
            loaded.len()
        });
    }
    assert!(failed.iter().all(|failed| (3..24).contains(failed)), "{failed:?}");
}

/// Returns the file with another number of batches.
fn at_batch(file: &[u8], batch: u64) -> Vec<u8> {
    let batch_at = file.len() - 16; // before the epoch and the checksum
    let before = [&file[..batch_at], &batch.to_le_bytes(), &file[batch_at + 8..batch_at + 12]].concat();
    [&before[..], &crc32fast::hash(&before).to_le_bytes()].concat()
}

#[test]
fn files_whose_clock_would_end_are_refused() {
    for rule in [Rule::Lru, Rule::EpochLru, Rule::Custom] {
        let (file, victim) = (saved(&filled(rule)), filled(rule));
        let before = contents(&victim);
        for batch in [1 << 63, u64::MAX - 1, u64::MAX] {
            let file = at_batch(&file, batch);
            let loaded = CacheTable::load(&file[..], builder(rule)).map(drop);
            assert!(matches!(&loaded, Err(Error::Format(what)) if what.contains("2^63")), "{loaded:?}");
            assert!(matches!(victim.apply(&file[..]), Err(Error::Format(_))));
        }
        assert!(victim.insert(&[1000], &[1, 2, 3]).unwrap().all_placed());
        assert_eq!(contents(&victim).len(), before.len() + 1);
    }
}

/// Batches after the latest time that a file may have are still in order.
#[test]
fn the_clock_continues_the_latest_time_of_files() {
    let latest = (1 << 63) - 1;
    let file = at_batch(&saved(&filled(Rule::Lru)), latest);
    let loaded = CacheTable::load(&file[..], builder(Rule::Lru)).unwrap();
    for key in [1000, 1001] {
        assert!(loaded.insert(&[key], &[1, 2, 3]).unwrap().all_placed());
    }
    let scores = contents(&loaded);
    assert_eq!((scores[&1000].0, scores[&1001].0), (latest + 1, latest + 2));
    assert_eq!(loaded.export_since(0).unwrap().next_since(), latest + 3);
}

#[test]
fn files_of_other_types_are_refused() {
    let file = saved(&filled(Rule::Lru));
    let is_format = |result: Result<(), Error>| matches!(result, Err(Error::Format(_)));
    let small = CacheTable::<u32, u32>::builder().capacity(1000).dim(3);
    assert!(is_format(CacheTable::load(&file[..], small).map(drop)));
    let scores = CacheTable::<u64, u32, u32>::builder().capacity(1000).dim(3);
    assert!(is_format(CacheTable::load(&file[..], scores).map(drop)));
    let elements = CacheTable::<u64, u16>::builder().capacity(1000).dim(6);
    assert!(is_format(CacheTable::load(&file[..], elements).map(drop)));
    assert!(is_format(CacheTable::load(&file[..], builder(Rule::Lru).dim(4)).map(drop)));
    assert!(is_format(CacheTable::load(&file[..], builder(Rule::Lfu)).map(drop)));
    let (table, mut changes) = (filled(Rule::Lru), Vec::new());
    table.save_since(1, &mut changes).unwrap();
    assert!(is_format(CacheTable::load(&changes[..], builder(Rule::Lru)).map(drop)));
    assert!(matches!(filled(Rule::Lfu).save_since(1, Vec::new()), Err(Error::NoTime { .. })));
}

/// A reader or writer that fails after some bytes.
struct Failing(usize);

impl std::io::Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Err(std::io::ErrorKind::PermissionDenied.into())
    }
}

impl std::io::Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::PermissionDenied.into())
    }
}

#[test]
fn readers_and_writers_that_fail_are_reported() {
    let table = filled(Rule::Lru);
    for bytes in [0, 9, 40, 1000, usize::MAX] {
        let result = table.save(Failing(bytes));
        assert!(matches!(result, Err(Error::Io { doing: "writing", .. })), "{result:?}");
    }
    assert!(matches!(table.apply(Failing(0)), Err(Error::Io { doing: "reading", .. })));
    let loaded = CacheTable::load(Failing(0), builder(Rule::Lru));
    assert!(matches!(loaded, Err(Error::Io { doing: "reading", .. })));
    // The export of a save that failed is over: the table may grow.
    table.set_max_capacity(1 << 12).unwrap();
    table.reserve(2000).unwrap();
}
