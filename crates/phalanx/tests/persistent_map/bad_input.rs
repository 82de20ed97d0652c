//! Arguments and files that are refused.
use crate::{device, folder};
use phalanx::persistent_map::{Builder, Durability, FileFault};
use phalanx::{Error, PersistentMap};
use std::fs::File;
use std::path::Path;

#[test]
fn sizes_of_keys_and_values() {
    fn build<K: phalanx::persistent_map::Plain, V: phalanx::persistent_map::Plain>() -> Result<(), Error> {
        PersistentMap::<K, V>::builder().device(&device()).build().map(drop)
    }
    assert!(matches!(build::<u32, u64>(), Err(Error::ItemBytes { what: "keys", bytes: 4 })));
    assert!(matches!(build::<[u64; 3], u64>(), Err(Error::ItemBytes { what: "keys", bytes: 24 })));
    assert!(matches!(build::<u64, u32>(), Err(Error::ItemBytes { what: "values", bytes: 4 })));
    assert!(matches!(build::<u64, [u8; 9]>(), Err(Error::ItemBytes { what: "values", bytes: 9 })));
    assert!(matches!(build::<u64, [u32; 512]>(), Err(Error::ItemBytes { what: "values", bytes: 2048 })));
    assert!(build::<[u8; 16], [u8; 12]>().is_ok() && build::<[u8; 64], [u32; 256]>().is_ok());
}

#[test]
fn lengths_devices_and_names() {
    let map = PersistentMap::<u64, u64>::builder().device(&device()).build().unwrap();
    assert!(matches!(
        map.insert(&[1, 2], &[1]),
        Err(Error::Length { what: "values", expected: 2, found: 1 })
    ));
    assert!(matches!(map.update(&[1], &[]), Err(Error::Length { .. })));
    assert_eq!(map.insert(&[], &[]).unwrap().len(), 0);
    assert_eq!(map.get(&[]).unwrap(), []);
    let other = phalanx::Device::emulator(Default::default());
    let (keys, stream) = (other.from_slice(&[1u64]).unwrap(), map.device().stream().unwrap());
    assert!(matches!(map.on(&stream).remove(&keys, None), Err(Error::OtherDevice { what: "keys", .. })));
    let keys = map.device().from_slice(&[1u64]).unwrap();
    let foreign = other.stream().unwrap();
    assert!(matches!(map.on(&foreign).remove(&keys, None), Err(Error::OtherDevice { what: "stream", .. })));
    let mut short = map.device().zeroed::<u8>(0).unwrap();
    assert!(matches!(map.on(&stream).remove(&keys, &mut short), Err(Error::Length { .. })));
    let built = PersistentMap::<u64, u64>::builder().variant("none").device(&device()).build();
    assert!(matches!(built, Err(Error::UnknownVariant { .. })), "{built:?}");
    let built = PersistentMap::<u64, u64>::builder().capacity(0).device(&device()).build();
    assert!(matches!(built, Err(Error::ZeroCapacity)));
    assert!(matches!(map.sync(), Err(Error::NoFile)));
}

fn builder() -> Builder<u64, u64> {
    PersistentMap::builder().capacity(500).device(&device())
}

/// Creates a file with one epoch of one pair.
fn create(path: &Path, durability: Durability) {
    let map = builder().durability(durability).create(path).unwrap();
    assert!(map.insert(&[7], &[70]).unwrap().all_placed());
    map.sync().unwrap();
}

/// Changes both superblocks, and gives them right checksums.
pub fn change_superblocks(path: &Path, at: usize, bytes: &[u8]) {
    let mut file = std::fs::read(path).unwrap();
    for block in file.chunks_exact_mut(4096).take(2) {
        block[at..at + bytes.len()].copy_from_slice(bytes);
        block[16..20].fill(0);
        let crc = crc32fast::hash(block);
        block[16..20].copy_from_slice(&crc.to_le_bytes());
    }
    std::fs::write(path, file).unwrap();
}

/// Requires that a result is a fault that `is` accepts.
#[track_caller]
fn is_refused<T>(result: Result<T, Error>, is: fn(&FileFault) -> bool) {
    match result {
        Err(Error::PersistentFile { fault, .. }) if is(&fault) => {}
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it is accepted"),
    }
}

#[test]
fn folders_and_files_that_are_read_only() {
    let folder = folder();
    let path = folder.path().join("map");
    create(&path, Durability::Machine);
    let is_folder: fn(&FileFault) -> bool = |fault| matches!(fault, FileFault::NotAFile { .. });
    is_refused(builder().open(folder.path()), is_folder);
    is_refused(builder().create(folder.path()), is_folder);
    is_refused(builder().open_or_create(folder.path()), is_folder);
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    is_refused(builder().open(&path), |fault| matches!(fault, FileFault::ReadOnly));
}

/// The map refuses to sync, and its pairs stay. The file is refused, too, with what it lacks.
#[test]
fn files_that_are_truncated_while_open() {
    let folder = folder();
    let path = folder.path().join("map");
    let map = builder().create(&path).unwrap();
    assert!(map.insert(&[7], &[70]).unwrap().all_placed());
    File::options().write(true).open(&path).unwrap().set_len(20_000).unwrap();
    is_refused(map.sync(), |fault| matches!(fault, FileFault::Truncated { found: 20_000, .. }));
    assert_eq!(map.get(&[7]).unwrap(), [Some(70)]);
    drop(map);
    is_refused(builder().open(&path), |fault| matches!(fault, FileFault::Truncated { .. }));
}

#[test]
fn files_of_another_gpu_byte_order_or_version() {
    let (folder, owner) = (folder(), 64);
    for durability in [Durability::Machine, Durability::Process] {
        let path = folder.path().join(format!("{durability:?}"));
        create(&path, durability);
        let open = || builder().durability(durability);
        change_superblocks(&path, owner, &[0xab; 16]);
        let opened = open().open(&path);
        let text = opened.as_ref().expect_err("another GPU owns it").to_string();
        assert!(text.contains("adopt(true)") && text.contains(&"ab".repeat(16)), "{text}");
        is_refused(opened, |fault| matches!(fault, FileFault::OtherDevice { .. }));
        assert_eq!(open().adopt(true).open(&path).unwrap().get(&[7]).unwrap(), [Some(70)]);
        assert_eq!(open().open(&path).unwrap().get(&[7]).unwrap(), [Some(70)], "it has been adopted");
        change_superblocks(&path, 8, &[1, 2, 3, 4]);
        is_refused(open().open(&path), |fault| matches!(fault, FileFault::Endianness));
        change_superblocks(&path, 8, &[4, 3, 2, 1]);
        change_superblocks(&path, 12, &[9]);
        is_refused(open().open(&path), |fault| matches!(fault, FileFault::Version { found: 9, .. }));
    }
}

/// As after a loss of power while the block was written: the other one counts.
#[test]
fn half_a_superblock() {
    for block in [0, 1] {
        let folder = folder();
        let path = folder.path().join("map");
        create(&path, Durability::Machine);
        let mut file = std::fs::read(&path).unwrap();
        file[block * 4096 + 2048..(block + 1) * 4096].fill(0xee);
        std::fs::write(&path, &file).unwrap();
        let map = builder().open(&path).unwrap();
        assert_eq!((map.get(&[7]).unwrap(), map.epoch().unwrap().0), (vec![Some(70)], 1));
        assert_eq!(map.sync().unwrap().0, 2);
    }
}

/// A copy with holes is filled when it is opened: kernels cannot access a hole of a full disk.
#[test]
fn sparse_files() {
    let folder = folder();
    let (path, copy) = (folder.path().join("map"), folder.path().join("copy"));
    create(&path, Durability::Process);
    let bytes = std::fs::read(&path).unwrap();
    let sparse = File::create(&copy).unwrap();
    sparse.set_len(bytes.len() as u64).unwrap();
    for (at, part) in bytes.chunks(4096).enumerate().filter(|(_, part)| part.iter().any(|&byte| byte != 0)) {
        std::os::unix::fs::FileExt::write_all_at(&sparse, part, 4096 * at as u64).unwrap();
    }
    let map = builder().durability(Durability::Process).open(&copy).unwrap();
    assert_eq!(map.get(&[7]).unwrap(), [Some(70)]);
    map.check().unwrap();
}
