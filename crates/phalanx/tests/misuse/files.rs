//! Damaged files, and readers, writers and mapped files that fail.
use super::{Family, emulator, is_unchanged};
use phalanx::gpu::Error as DeviceError;
use phalanx::{BTree, Error, HashMap, MultiVersionBTree, Result, SkipList, SlabHash, SlabMultiMap, SlabSet};
use phalanx_testing::refuses;
use std::io::{self, Cursor, ErrorKind, Read, Write};
use std::path::Path;

fn saved<M: Family>(map: &M) -> Vec<u8> {
    let mut file = Vec::new();
    map.save(&mut file).unwrap();
    file
}

/// Replaces the last four bytes by the checksum.
fn seal(file: &mut [u8]) {
    let (bytes, checksum) = file.split_at_mut(file.len() - 4);
    checksum.copy_from_slice(&crc32fast::hash(bytes).to_le_bytes());
}

/// Flips a bit of every byte, and cuts the file at every length.
fn refuses_damage<T>(file: &[u8], load: impl Fn(&[u8]) -> Result<T>) {
    load(file).unwrap();
    for place in 0..file.len() {
        let mut damaged = file.to_vec();
        damaged[place] ^= 1 << (place % 8);
        refuses!(load(&damaged), Error::Format(_), "stored data cannot be read");
        refuses!(load(&file[..place]), Error::Format(_), "it is truncated");
    }
}

#[test]
fn files_with_a_damaged_or_missing_byte() {
    fn check<M: Family>(map: M) {
        let device = map.device().clone();
        refuses_damage(&saved(&map), |file| M::load_on(file, &device));
        is_unchanged(&map);
    }
    each_map!(check);
}

#[test]
fn files_of_sets_and_multimaps_with_a_damaged_or_missing_byte() {
    let (device, mut file) = (emulator(), Vec::new());
    let set = SlabSet::<u32>::builder().device(&device).build().unwrap();
    set.try_extend([1, 2]).unwrap();
    set.save(&mut file).unwrap();
    refuses_damage(&file, |file| SlabSet::<u32>::load(file, SlabSet::builder().device(&device)));
    let many = SlabMultiMap::<u32, u32>::builder().device(&device).build().unwrap();
    many.try_extend([(1, 10), (1, 11)]).unwrap();
    file.clear();
    many.save(&mut file).unwrap();
    refuses_damage(&file, |file| {
        SlabMultiMap::<u32, u32>::load(file, SlabMultiMap::builder().device(&device))
    });
}

/// Files with a right checksum whose contents are wrong.
#[test]
fn files_that_lie() {
    fn check<M: Family>(map: M) {
        let file = saved(&map);
        let keys = file.len() - 4 - 4 * 4;
        let with = |place: usize, bytes: &[u8]| {
            let mut file = file.clone();
            file[place..][..bytes.len()].copy_from_slice(bytes);
            seal(&mut file);
            M::load_on(&file[..], map.device())
        };
        refuses!(with(0, b"PHYMAP"), Error::Format(_), "does not begin with PHXMAP");
        refuses!(with(6, &[3]), Error::Format(_), "version is 3; supported: 1 to 2");
        refuses!(with(16, &[u8::MAX; 8]), Error::Format(_), "it is truncated");
        refuses!(with(16, &(1u64 << 40).to_le_bytes()), Error::Format(_), "it is truncated");
        refuses!(with(24, &[u8::MAX; 2]), Error::Format(_), "it is truncated");
        refuses!(with(keys, &[7, 0, 0, 0, 7, 0, 0, 0]), Error::Format(_), "a key occurs twice");
        refuses!(M::load_on(&b""[..], map.device()), Error::Format(_), "it is truncated");
        is_unchanged(&map);
    }
    each_map!(check);
}

/// Bytes after a saved map are left to the caller.
#[test]
fn files_with_something_behind() {
    fn check<M: Family>(map: M) {
        let mut file = Cursor::new([saved(&map), saved(&map), b"else".to_vec()].concat());
        is_unchanged(&M::load_on(&mut file, map.device()).unwrap());
        is_unchanged(&M::load_on(&mut file, map.device()).unwrap());
        refuses!(M::load_on(&mut file, map.device()), Error::Format(_), "it is truncated");
    }
    each_map!(check);
}

/// A stream that transfers `left` bytes, a byte at a time, and then fails.
struct Failing<'a> {
    bytes: &'a [u8],
    left: usize,
    kind: ErrorKind,
}

impl Failing<'_> {
    fn step(&mut self) -> io::Result<usize> {
        self.left = self.left.checked_sub(1).ok_or(self.kind)?;
        Ok(1)
    }
}

impl Read for Failing<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.step()?;
        self.bytes.read(&mut to[..1])
    }
}

impl Write for Failing<'_> {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        self.step()
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn streams_that_fail_at_every_byte() {
    fn check<M: Family>(map: M) {
        let bytes = &saved(&map)[..];
        for left in 0..bytes.len() {
            let failing = |kind| Failing { bytes, left, kind };
            refuses!(
                map.save(failing(ErrorKind::StorageFull)),
                Error::Io { doing: "writing", .. },
                "no storage"
            );
            let loaded = M::load_on(failing(ErrorKind::WouldBlock), map.device());
            refuses!(loaded, Error::Io { doing: "reading", .. }, "reading a saved structure failed");
        }
        let left = bytes.len();
        map.save(Failing { bytes, left, kind: ErrorKind::Other }).unwrap();
        is_unchanged(&M::load_on(Failing { bytes, left, kind: ErrorKind::Other }, map.device()).unwrap());
        is_unchanged(&map);
    }
    each_map!(check);
}

/// A writer that accepts no bytes.
#[test]
fn streams_without_room() {
    fn check(map: impl Family) {
        refuses!(map.save(&mut [][..]), Error::Io { doing: "writing", .. }, "failed to write whole buffer");
        let mut room = [0; 40];
        refuses!(map.save(Cursor::new(&mut room[..])), Error::Io { doing: "writing", .. }, "whole buffer");
        is_unchanged(&map);
    }
    each_map!(check);
}

/// Folders, devices and paths that are not there, as files of maps and as mapped memory.
#[test]
fn paths_that_hold_no_file() {
    let device = emulator();
    let map = |path: &str, len| {
        // SAFETY: refused, so nothing is mapped.
        unsafe { device.map_file::<u32>(Path::new(path), len) }
    };
    refuses!(map("/nonexistent/words", 4), DeviceError::File { bytes: 16, .. }, "/nonexistent/words");
    refuses!(map("/", 4), DeviceError::File { .. }, "cannot map 16 bytes of /");
    refuses!(map("/nonexistent/words", usize::MAX), DeviceError::TooLarge { .. }, "address space");
    if cfg!(target_os = "linux") {
        refuses!(map("/dev/full", 4), DeviceError::File { .. }, "/dev/full");
        refuses!(map("/proc/version", 4), DeviceError::File { .. }, "/proc/version");
        let zeros = || std::fs::File::open("/dev/zero").unwrap();
        refuses!(
            BTree::<u32, u32>::load_on(zeros(), &device),
            Error::Format(_),
            "does not begin with PHXMAP"
        );
        let folder = std::fs::File::open("/").unwrap();
        refuses!(
            HashMap::<u32, u32>::load_on(folder, &device),
            Error::Io { doing: "reading", .. },
            "directory"
        );
    }
    assert_eq!(device.from_slice(&[1]).unwrap().read().unwrap(), [1]);
}
