//! What a file has after it was closed, copied or opened again.
use crate::bad_input::change_superblocks;
use crate::{device, folder};
use phalanx::persistent_map::{Durability, Plain, Storage};
use phalanx::{Error, Outcome, PersistentMap};
use std::fmt::Debug;
use std::path::Path;

type Builder<K, V> = phalanx::persistent_map::Builder<K, V>;

fn builder<K: Plain, V: Plain>() -> Builder<K, V> {
    PersistentMap::<K, V>::builder().capacity(2000).device(&device())
}

fn numbered(range: std::ops::Range<u64>) -> (Vec<u64>, Vec<u64>) {
    range.map(|key| (key.wrapping_mul(0x9e37_79b9_7f4a_7c15), key + 1)).unzip()
}

/// Requires that the map has exactly these pairs.
fn has<K: Plain + Debug, V: Plain + Debug + PartialEq>(
    map: &PersistentMap<K, V>,
    (keys, values): (&[K], &[V]),
) {
    map.check().unwrap();
    assert_eq!(map.len().unwrap(), keys.len());
    let expected: Vec<_> = values.iter().copied().map(Some).collect();
    assert_eq!(map.get(keys).unwrap(), expected);
}

#[test]
fn synced_pairs_are_there_after_a_drop() {
    for storage in [Storage::Device, Storage::Pinned] {
        let (folder, (keys, values)) = (folder(), numbered(0..1500));
        let path = folder.path().join("map");
        let map = builder::<u64, u64>().storage(storage).create(&path).unwrap();
        assert_eq!(map.epoch().unwrap().0, 0);
        assert!(map.insert(&keys[..1000], &values[..1000]).unwrap().all_placed());
        assert_eq!(map.sync().unwrap().0, 1);
        // Not synced: not in the file.
        assert!(map.insert(&keys[1000..], &values[1000..]).unwrap().all_placed());
        drop(map);
        let map = builder::<u64, u64>().storage(storage).open(&path).unwrap();
        has(&map, (&keys[..1000], &values[..1000]));
        assert_eq!(map.stats().unwrap().dirty_pages, 0);
        // Changes after the file was opened, removals among them.
        assert!(map.remove(&keys[..500]).unwrap().iter().all(|&removed| removed));
        assert_eq!(map.update(&keys[500..600], &values[..100]).unwrap().count(Outcome::Replaced), 100);
        assert_eq!(map.sync().unwrap().0, 2);
        drop(map);
        let map = builder::<u64, u64>().open_or_create(&path).unwrap();
        let values = [&values[..100], &values[600..1000]].concat();
        has(&map, (&keys[500..1000], &values));
    }
}

/// The rebuild copies images in host memory to the device by parts of 4 MiB: here two for the lower level,
/// and three for the upper one.
#[test]
fn images_of_several_parts_are_rebuilt() {
    let (keys, values) = numbered(0..3000);
    for durability in [Durability::Machine, Durability::Process] {
        let folder = folder();
        let path = folder.path().join("map");
        let builder =
            || builder::<u64, u64>().capacity(700_000).storage(Storage::Pinned).durability(durability);
        let map = builder().create(&path).unwrap();
        assert!(map.insert(&keys, &values).unwrap().all_placed());
        map.sync().unwrap();
        drop(map);
        has(&builder().open(&path).unwrap(), (&keys, &values));
    }
}

#[test]
fn values_of_other_sizes_are_there_after_a_drop() {
    type Value = [f32; 24];
    let (folder, keys) = (folder(), (0..900).map(|key| [key; 4]).collect::<Vec<[u64; 4]>>());
    let values: Vec<Value> = (0..900).map(|value| [value as f32; 24]).collect();
    let path = folder.path().join("map");
    let map = builder::<[u64; 4], Value>().create(&path).unwrap();
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    // Updates write new items.
    assert_eq!(map.update(&keys[..300], &values[300..600]).unwrap().count(Outcome::Replaced), 300);
    map.sync().unwrap();
    drop(map);
    let map = builder::<[u64; 4], Value>().open(&path).unwrap();
    has(&map, (&keys, &[&values[300..600], &values[300..]].concat()));
}

/// A sync writes only the pages that have changed.
#[test]
fn a_sync_writes_the_changed_pages() {
    let folder = folder();
    let map = builder::<u64, u64>().capacity(100_000).create(folder.path().join("map")).unwrap();
    let (keys, values) = numbered(0..50_000);
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    let stats = map.stats().unwrap();
    assert!(stats.dirty_pages > 60 && stats.pages > 100, "{stats:?}");
    map.sync().unwrap();
    assert_eq!(map.stats().unwrap().dirty_pages, 0);
    assert!(map.insert(&[1, 2, 3], &[1, 2, 3]).unwrap().all_placed());
    assert!((1..=3).contains(&map.stats().unwrap().dirty_pages));
    assert!(map.get(&keys).unwrap().iter().all(Option::is_some));
    assert!((1..=3).contains(&map.stats().unwrap().dirty_pages), "lookups change no page");
}

/// With the level `Process`, a copy of the file that is taken at any time has the batches before it.
#[test]
fn completed_batches_are_in_a_mapped_file() {
    let (folder, (keys, values)) = (folder(), numbered(0..1500));
    let process = || builder::<u64, u64>().durability(Durability::Process);
    let (path, copy) = (folder.path().join("map"), folder.path().join("copy"));
    let map = process().create(&path).unwrap();
    for part in 0..3 {
        let range = part * 500..part * 500 + 500;
        assert!(map.insert(&keys[range.clone()], &values[range.clone()]).unwrap().all_placed());
        if part == 0 {
            map.sync().unwrap();
        }
        std::fs::copy(&path, &copy).unwrap();
        let opened = process().open(&copy).unwrap();
        has(&opened, (&keys[..range.end], &values[..range.end]));
        // The image of the copy is newer than its epoch: a sync writes all of it.
        opened.sync().unwrap();
        drop(opened);
        has(&process().open(&copy).unwrap(), (&keys[..range.end], &values[..range.end]));
        std::fs::remove_file(&copy).unwrap();
    }
    drop(map);
    has(&process().open(&path).unwrap(), (&keys, &values));
}

#[test]
fn the_durability_of_a_file_is_that_of_its_creation() {
    let folder = folder();
    let (machine, process) = (folder.path().join("machine"), folder.path().join("process"));
    drop(builder::<u64, u64>().create(&machine).unwrap());
    drop(builder::<u64, u64>().durability(Durability::Process).create(&process).unwrap());
    let opened = builder::<u64, u64>().durability(Durability::Process).open(&machine);
    assert!(matches!(opened, Err(Error::Durability { offered: Durability::Machine, .. })), "{opened:?}");
    // The newest contents are in the mapped part, which this map would not use.
    let opened = builder::<u64, u64>().open(&process);
    assert!(matches!(opened, Err(Error::Durability { offered: Durability::Process, .. })), "{opened:?}");
}

#[test]
fn a_file_is_refused_for_other_types_and_while_it_is_in_use() {
    let folder = folder();
    let path = folder.path().join("map");
    let map = builder::<u64, u64>().create(&path).unwrap();
    let refused = |result: Result<(), Error>, part: &str| {
        let text = result.expect_err("the file is refused").to_string();
        assert!(text.contains(part), "{text}");
    };
    refused(builder::<u64, u64>().open(&path).map(drop), "uses the file");
    refused(builder::<u64, u64>().create(&path).map(drop), "has this path already");
    drop(map);
    refused(builder::<u64, i64>().open(&path).map(drop), "u64` and `i64`");
    refused(builder::<u64, [u64; 2]>().open(&path).map(drop), "requested");
    refused(builder::<[u64; 2], u64>().open(&path).map(drop), "requested");
    refused(builder::<u64, u64>().open(folder.path().join("none")).map(drop), "no such file");
    assert!(Path::new(&path).exists());
    drop(builder::<u64, u64>().open(&path).unwrap());
}

/// Place of the id of the system's run in a superblock.
const BOOT: usize = 80;
/// Place of the number of the first level's buckets in a superblock.
const FIRST: usize = 1152 + 4;

#[test]
fn a_header_that_does_not_fit_its_file_is_a_format_error() {
    for durability in [Durability::Machine, Durability::Process] {
        let folder = folder();
        let path = folder.path().join("map");
        let builder = || builder::<u64, u64>().durability(durability);
        let map = builder().create(&path).unwrap();
        map.sync().unwrap();
        drop(map);
        change_superblocks(&path, FIRST, &70_000u32.to_le_bytes());
        let opened = builder().open(&path);
        assert!(matches!(opened, Err(Error::Format(_))), "{opened:?}");
    }
}

/// A file with a mapped part is opened without it after a restart of the system, and later with it.
#[test]
fn compaction_keeps_the_mapped_part() {
    let folder = folder();
    let path = folder.path().join("map");
    let builder = |durability| builder::<u64, u64>().durability(durability);
    let map = builder(Durability::Process).create(&path).unwrap();
    assert!(map.insert(&[1], &[10]).unwrap().all_placed());
    map.sync().unwrap();
    drop(map);
    change_superblocks(&path, BOOT, &[0x22; 16]);
    let mut map = builder(Durability::Machine).open(&path).unwrap();
    assert!(map.insert(&[2], &[20]).unwrap().all_placed());
    map.compact().unwrap();
    assert_eq!(map.durability(), Some(Durability::Machine));
    drop(map);
    let map = builder(Durability::Process).open(&path).unwrap();
    assert_eq!(map.durability(), Some(Durability::Process));
    has(&map, (&[1, 2], &[10, 20]));
}

/// The mapped part never counts again, once a map has written epochs without it.
#[test]
fn a_map_without_its_mapped_part_makes_it_invalid() {
    let folder = folder();
    let path = folder.path().join("map");
    let builder = |durability| builder::<u64, u64>().durability(durability);
    let map = builder(Durability::Process).create(&path).unwrap();
    let now = std::fs::read(&path).unwrap()[BOOT..BOOT + 16].to_vec();
    assert!(map.insert(&[1], &[10]).unwrap().all_placed());
    drop(map);
    change_superblocks(&path, BOOT, &[0x22; 16]);
    let map = builder(Durability::Machine).open(&path).unwrap();
    assert!(map.insert(&[2], &[20]).unwrap().all_placed());
    map.sync().unwrap();
    drop(map);
    change_superblocks(&path, BOOT, &now);
    has(&builder(Durability::Process).open(&path).unwrap(), (&[2], &[20]));
}

#[test]
fn a_map_whose_file_was_replaced_does_not_replace_it() {
    let folder = folder();
    let path = folder.path().join("map");
    let mut first = builder::<u64, u64>().create(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let second = builder::<u64, u64>().create(&path).unwrap();
    assert!(second.insert(&[2], &[20]).unwrap().all_placed());
    second.sync().unwrap();
    for refused in [first.compact(), first.sync().map(drop)] {
        let fault = phalanx::persistent_map::FileFault::Replaced;
        let is_replaced = |error: &Error| error.to_string().contains(&fault.to_string());
        assert!(refused.as_ref().is_err_and(is_replaced), "{refused:?}");
    }
    drop((first, second));
    has(&builder::<u64, u64>().open(&path).unwrap(), (&[2], &[20]));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
