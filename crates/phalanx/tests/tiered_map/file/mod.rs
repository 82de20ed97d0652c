//! Shards in a file.
#[allow(clippy::duplicate_mod)] // the suites of maps in memory
mod mapped;
#[allow(clippy::duplicate_mod)]
mod staged;

use crate::model::{all_pairs, check, device, emulator, insert, least, path, small};
use gpu::Device;
use phalanx::tiered_map::{Builder, Placement, Storage};
use phalanx::{Error, Outcome, TieredMap};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

/// Both kinds of files.
fn kinds() -> [Storage; 2] {
    [Storage::File(path()), Storage::StagedFile(path())]
}

/// Returns a builder of a small map in a file.
fn in_file(device: &Device, storage: &Storage) -> Builder<u32, u32> {
    small(device).storage(storage.clone())
}

#[test]
fn the_file_has_the_shards_and_no_name() {
    let device = emulator();
    for storage in kinds() {
        let map = least(in_file(&device, &storage));
        let (is_staged, created) = (matches!(storage, Storage::StagedFile(_)), map.file_bytes());
        assert!(!path().exists() && created >= 8 * 1250, "{created}");
        assert_eq!(map.host_bytes() < 1000, is_staged, "staged shards are not in memory");
        let (mut model, keys) = (BTreeMap::new(), (0..700).collect::<Vec<u32>>());
        insert(&map, &mut model, (&keys, &keys));
        check(&map, &model, &[1000]);
        let traffic = map.traffic();
        assert_eq!((traffic.file_read > 0, traffic.file_written > 0), (is_staged, is_staged));
    }
}

/// Space that an image gives back is used again: batches that change all shards need no more.
#[test]
fn changes_do_not_extend_the_file() {
    let device = device();
    for storage in kinds() {
        let map = least(in_file(&device, &storage).placement(Placement::AlwaysCopy));
        let (created, keys) = (map.file_bytes(), (0..600).collect::<Vec<u32>>());
        for round in 0..5 {
            assert!(map.insert(&keys, &vec![round; keys.len()]).unwrap().all_placed());
            assert_eq!(map.file_bytes(), created, "round {round}");
        }
        assert!(map.traffic().copied_out > 0 && all_pairs(&map).values().all(|&value| value == 4));
    }
}

#[test]
fn a_file_that_cannot_be_registered_is_staged() {
    let device = emulator();
    device.emulator_handle().unwrap().refuse_files(true);
    let map = least(in_file(&device, &Storage::File(path())));
    let (mut model, keys) = (BTreeMap::new(), (0..700).collect::<Vec<u32>>());
    insert(&map, &mut model, (&keys, &keys));
    check(&map, &model, &[1000]);
    assert!(map.traffic().file_written > 0 && map.traffic().file_read > 0);
}

/// The driver may refuse later what it has accepted before, for instance because too much is registered.
#[test]
fn parts_that_can_no_longer_be_registered_are_staged() {
    let device = emulator();
    for placement in [Placement::ByCost, Placement::AlwaysCopy, Placement::AlwaysInPlace] {
        let map = least(in_file(&device, &Storage::File(path())).placement(placement));
        let (mut model, first) = (BTreeMap::new(), (0..600).collect::<Vec<u32>>());
        insert(&map, &mut model, (&first, &first));
        assert_eq!(map.traffic().file_written, 0);
        device.emulator_handle().unwrap().refuse_files(true);
        let more: Vec<u32> = (400..1600).collect();
        insert(&map, &mut model, (&more, &more));
        check(&map, &model, &[5000]);
        assert!(map.traffic().file_written > 0);
        device.emulator_handle().unwrap().refuse_files(false);
    }
}

/// Returns keys of one shard of eight.
fn of_one_shard(many: usize) -> Vec<u32> {
    (0..).filter(|&key| phalanx::kernels::tiered::shard_of(key, 3, 0) == 5).take(many).collect()
}

#[test]
fn a_staged_shard_that_fits_no_slot_is_served_in_pinned_memory() {
    let device = device();
    let map = least(in_file(&device, &Storage::StagedFile(path())));
    let (mut model, keys) = (BTreeMap::new(), of_one_shard(2000));
    insert(&map, &mut model, (&keys, &keys));
    let before = map.traffic();
    let changed: Vec<u32> = keys.iter().map(|&key| key + 1).collect();
    insert(&map, &mut model, (&keys, &changed));
    check(&map, &model, &[]);
    let after = map.traffic();
    assert!(after.in_place > before.in_place && after.file_written > before.file_written);
}

/// A staged shard that a slot has is not read again.
#[test]
fn shards_in_slots_are_not_read() {
    let device = device();
    let builder = in_file(&device, &Storage::StagedFile(path()));
    let budget = 4 * builder.min_budget().unwrap();
    let map = builder.budget(budget).hot_pairs(0).build().unwrap();
    let keys: Vec<u32> = (0..600).collect();
    assert!(map.insert(&keys, &keys).unwrap().all_placed());
    let read = map.traffic().file_read;
    assert_eq!(map.get(&[5, 2000]).unwrap(), [Some(5), None]);
    assert_eq!(map.traffic().file_read, read);
}

#[test]
fn a_cleared_map_writes_nothing_until_it_has_pairs() {
    let device = device();
    for storage in kinds() {
        let mut map = least(in_file(&device, &storage));
        let (keys, mut model) = ((0..600).collect::<Vec<u32>>(), BTreeMap::new());
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        let written = map.traffic().file_written;
        map.clear().unwrap();
        check(&map, &model, &keys);
        assert_eq!(map.traffic().file_written, written);
        insert(&map, &mut model, (&keys, &keys));
        check(&map, &model, &[]);
    }
}

/// Returns the kind of an error of the file.
fn kind_of(built: phalanx::Result<TieredMap<u32, u32>>) -> ErrorKind {
    match built {
        Err(Error::ShardFile { doing: "creating", source, .. }) => source.kind(),
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("no error"),
    }
}

#[test]
fn paths_at_which_no_file_can_be_created() {
    let (device, folder) = (emulator(), tempfile::tempdir().unwrap());
    let taken = folder.path().join("taken");
    std::fs::write(&taken, "someone's").unwrap();
    for storage in [Storage::File, Storage::StagedFile] {
        let build = |path: PathBuf| in_file(&device, &storage(path)).budget(1 << 20).build();
        assert_eq!(kind_of(build(taken.clone())), ErrorKind::AlreadyExists);
        assert_eq!(kind_of(build(folder.path().to_owned())), ErrorKind::IsADirectory);
        assert_eq!(kind_of(build(folder.path().join("none").join("file"))), ErrorKind::NotFound);
        assert_eq!(kind_of(build(taken.join("file"))), ErrorKind::NotADirectory);
        let message = build(taken.clone()).map(drop).unwrap_err().to_string();
        assert!(message.starts_with("creating the shards' file"), "{message}");
        assert!(message.contains(taken.to_str().unwrap()) && message.contains("a new one"), "{message}");
    }
    assert_eq!(std::fs::read_to_string(&taken).unwrap(), "someone's", "it is untouched");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt;
    let (device, folder) = (emulator(), tempfile::tempdir().unwrap());
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let probe = folder.path().join("probe");
    // The superuser may write there all the same. Nobody can create files among the processes.
    let is_refused = std::fs::write(&probe, "").is_err();
    let path = if is_refused { probe } else { PathBuf::from("/proc/self/shards") };
    if is_refused || cfg!(target_os = "linux") {
        let kind = kind_of(in_file(&device, &Storage::File(path)).budget(1 << 20).build());
        assert!(matches!(kind, ErrorKind::PermissionDenied | ErrorKind::NotFound), "{kind}");
    }
}

/// The least size that no file of a limited process exceeds: shells count blocks of 512 or 1024 bytes.
const LIMIT: u64 = 96 << 10;
/// Environment variable of a process whose files may not grow beyond the limit.
const LIMITED: &str = "PHALANX_TEST_LIMITED_FILES";

/// A file that may not grow beyond a limit stands for a full disk: both make writes fail.
#[cfg(unix)]
#[test]
fn a_full_disk_is_an_error() {
    if std::env::var_os(LIMITED).is_some() {
        return fill_a_limited_file();
    }
    let limited = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", LIMIT / 1024);
    let mut child = Command::new("sh");
    child.args(["-c", &limited]).arg(std::env::current_exe().unwrap()).env(LIMITED, "1");
    let child = child.args(["file::a_full_disk_is_an_error", "--exact", "--nocapture"]);
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{output:?}");
}

/// Inserts pairs until the file cannot grow. The map then has those that were said to be done.
fn fill_a_limited_file() {
    for storage in kinds() {
        let device = emulator();
        let large = in_file(&device, &storage).capacity(100_000);
        let Err(Error::ShardFile { doing: "extending by", source, .. }) = large.budget(1 << 20).build()
        else {
            panic!("the shards have no room")
        };
        assert_eq!(source.kind(), ErrorKind::FileTooLarge);
        let map = least(in_file(&device, &storage).capacity(200).shards(2));
        let (mut model, mut key) = (BTreeMap::new(), 0);
        let refused = loop {
            assert!(key < 100_000, "the file has no limit");
            let keys: Vec<u32> = (key..key + 100).collect();
            match map.insert(&keys, &keys) {
                Ok(_) => model.extend(keys.iter().map(|&key| (key, key))),
                Err(error) => break error,
            }
            key += 100;
        };
        match refused {
            Error::NoRoom { outcomes, .. } => {
                let placed = (key..).zip(&outcomes).filter(|(_, outcome)| **outcome != Outcome::Refused);
                model.extend(placed.map(|(key, _)| (key, key)));
            }
            Error::Interrupted { done, source } => {
                assert!(matches!(*source, Error::ShardFile { .. }), "{source}");
                model.extend((key..).zip(done).filter(|&(_, done)| done).map(|(key, _)| (key, key)));
            }
            Error::ShardFile { .. } => {}
            other => panic!("another error: {other}"),
        }
        check(&map, &model, &[200_000]);
        assert!(map.file_bytes() <= LIMIT);
        assert!(map.remove(&[0]).unwrap()[0] && map.len() == model.len() - 1);
    }
}

/// A stream that stopped is saved, and loaded to a file.
#[test]
fn a_saved_map_is_loaded_to_a_file() {
    let device = device();
    let (map, keys) = (least(small::<u32, u32>(&device)), (0..900).collect::<Vec<u32>>());
    assert!(map.insert(&keys, &keys).unwrap().all_placed());
    let mut saved = Vec::new();
    map.save(&mut saved).unwrap();
    for storage in kinds() {
        let loaded = TieredMap::load(&saved[..], in_file(&device, &storage).shards(4)).unwrap();
        assert_eq!(all_pairs(&loaded), all_pairs(&map));
        let mut again = Vec::new();
        loaded.save(&mut again).unwrap();
        let copy = TieredMap::load(&again[..], small(&device)).unwrap();
        assert_eq!(all_pairs(&copy), all_pairs(&map));
    }
}
