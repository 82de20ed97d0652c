//! Wrong files and wrong parameters, each refused with its reason, on a disk in memory.
use super::disk::Disk;
use super::script::{BOOT, PAGE, Run, SCRIPT, Version, header, options};
use crate::persistent_map::file::geometry::{BLOCK, EXTENTS, HEAD};
use crate::persistent_map::file::superblock::{HEADER, seal};
use crate::persistent_map::file::volume::check_memory;
use crate::persistent_map::file::*;

/// Asserts that a result is a fault of a kind, whose message has these words.
macro_rules! refuses {
    ($result:expr, $kind:pat $(, $words:expr)* $(,)?) => {{
        let fault = $result.map(drop).unwrap_err();
        assert!(matches!(fault, $kind), "{fault:?}");
        let said = fault.to_string();
        assert!(said.len() > 30, "`{said}` says little");
        $(assert!(said.contains($words), "`{said}` does not say `{}`", $words);)*
    }};
}

/// Returns a disk with two epochs.
fn written() -> (Disk, Vec<Version>) {
    let disk = Disk::default();
    let mut run = Run::new(disk.clone(), disk.clone()).unwrap();
    run.all(&SCRIPT[..2]).unwrap();
    (disk, run.versions)
}

/// Opens a disk of whose superblocks both are changed by `change`.
fn open_with(change: impl Fn(&mut [u8; BLOCK as usize])) -> Result<(Volume<Disk>, Contents), FileFault> {
    let mut file = written().0.contents();
    file.chunks_exact_mut(BLOCK as usize).take(2).for_each(|block| change(block.try_into().unwrap()));
    Volume::open(Disk::of(file), &options())
}

/// Opens a disk in whose superblocks both the bytes from `at` on are these, with right checksums if `seals`.
fn open_changed(at: usize, bytes: &[u8], seals: bool) -> Result<(Volume<Disk>, Contents), FileFault> {
    open_with(|block| {
        block[at..at + bytes.len()].copy_from_slice(bytes);
        if seals {
            seal(block);
        }
    })
}

fn open_as(change: impl FnOnce(&mut Options)) -> Result<(Volume<Disk>, Contents), FileFault> {
    let mut options = options();
    change(&mut options);
    Volume::open(written().0, &options)
}

#[test]
fn other_files_are_refused() {
    for seals in [false, true] {
        refuses!(open_changed(0, b"PHXMAP\0\0", seals), FileFault::Magic { .. }, "PHXPERS", "PHXMAP");
        refuses!(open_changed(8, &[1, 2, 3, 4], seals), FileFault::Endianness, "byte order");
        let version = open_changed(12, &[2, 0, 0, 0], seals);
        refuses!(version, FileFault::Version { found: 2, supported: 1 }, "version 1 expected, 2 found");
    }
    // A byte of a random number, which may have any value.
    let damaged = open_with(|block| block[40] ^= 1);
    refuses!(damaged, FileFault::Superblocks { .. }, "both superblocks", "checksum");
    refuses!(open_changed(108, &[200], true), FileFault::Superblocks { .. }, "impossible values");
}

#[test]
fn files_for_other_users_are_refused() {
    let layout = open_as(|options| options.layout.hash = 43);
    refuses!(layout, FileFault::Layout { expected: 43, found: 42 }, "2b", "2a");
    let types = open_as(|options| options.layout.value = "u64".into());
    refuses!(types, FileFault::Types { .. }, "`u64` and `u64` requested", "`u64` and `u32` found");
    let pages = open_as(|options| options.page_bytes = 8192);
    refuses!(pages, FileFault::PageBytes { expected: 8192, found: 4096 }, "8192 bytes requested");
    let owner = open_as(|options| options.owner = [0xab; 16]);
    refuses!(owner, FileFault::OtherDevice { .. }, "abab", "0101", "adopt");
}

/// After that, the file of another device belongs to this one.
#[test]
fn files_of_other_devices_can_be_adopted() {
    let (disk, versions) = written();
    let adopts = |owner, adopt| Options { owner, adopt, ..options() };
    let (mut volume, contents) = Volume::open(disk.clone(), &adopts([9; 16], true)).unwrap();
    assert_eq!(contents.epoch, versions[2].epoch);
    volume.set_owner([9; 16]).unwrap();
    assert!(Volume::open(disk.clone(), &adopts([9; 16], false)).is_ok());
    refuses!(Volume::open(disk, &options()), FileFault::OtherDevice { .. });
}

#[test]
fn truncated_files_are_refused() {
    let bytes = written().0.contents();
    for len in [0, 1, 7, 8, 100, BLOCK, HEAD - 1, HEAD, HEAD + 1, bytes.len() as u64 - 1] {
        let (disk, found) = (Disk::of(bytes[..len as usize].to_vec()), len);
        match Volume::open(disk, &options()).map(drop).unwrap_err() {
            FileFault::Truncated { expected, found: said } => assert!(said == found && expected > found),
            fault => panic!("{len} bytes: {fault}"),
        }
    }
    let text = Disk::of(b"[package]".to_vec());
    refuses!(Volume::open(text, &options()), FileFault::Magic { .. });
}

#[test]
fn files_that_are_truncated_while_open_are_refused() {
    let (disk, _) = written();
    let (mut volume, _) = Volume::open(disk.clone(), &options()).unwrap();
    disk.truncate(HEAD + 1);
    refuses!(volume.begin(), FileFault::Truncated { .. }, "truncated");
    let mut page = vec![0; PAGE];
    refuses!(volume.load(0, &mut page), FileFault::Io { doing: "reading pages", .. });
}

/// A sync that finds the file truncated between its first page and its end is refused, too.
#[test]
fn files_that_are_truncated_during_a_sync_are_refused() {
    let (disk, _) = written();
    let (mut volume, _) = Volume::open(disk.clone(), &options()).unwrap();
    let mut commit = volume.begin().unwrap();
    commit.write(0, &vec![1; PAGE]).unwrap();
    disk.truncate(HEAD + BLOCK);
    refuses!(commit.finish(&header(9)), FileFault::Truncated { .. }, "truncated");
}

/// Half of a superblock is an old one, as after a loss of power: the other one counts, and both are whole
/// after `open`.
#[test]
fn half_a_superblock_is_repaired() {
    let (disk, versions) = written();
    for slot in [0, 1] {
        let mut bytes = disk.contents();
        let half = slot * BLOCK as usize + BLOCK as usize / 2;
        bytes[half..half + BLOCK as usize / 2].fill(0);
        let torn = Disk::of(bytes);
        let (_, contents) = Volume::open(torn.clone(), &options()).unwrap();
        assert_eq!(contents.damaged_superblock, Some(slot));
        assert_eq!(Version::read(torn.clone()).unwrap(), versions[2]);
        assert_eq!(torn.contents(), disk.contents());
    }
}

#[test]
fn damaged_tables_and_pages_are_refused() {
    let (disk, _) = written();
    let (volume, _) = Volume::read(disk.clone()).unwrap();
    let flipped = |at: u64| {
        let mut bytes = disk.contents();
        bytes[at as usize] ^= 0x10;
        Version::read(Disk::of(bytes))
    };
    refuses!(flipped(volume.geometry.table_at(0, volume.current.table)), FileFault::Table { epoch: 2, .. });
    for page in 0..3 {
        let copy = volume.table.get(page).unwrap().copy;
        let fault = flipped(volume.geometry.copy_at(page, copy) + 77).unwrap_err();
        assert!(matches!(fault, FileFault::Page { index, epoch: 2, .. } if index == page), "{fault}");
        assert!(flipped(volume.geometry.copy_at(page, 1 - copy)).is_ok(), "the old copy means nothing");
    }
}

#[test]
fn wrong_parameters_are_refused() {
    let format = |change: fn(&mut Options)| {
        let mut options = options();
        change(&mut options);
        Volume::format(Disk::default(), &options)
    };
    refuses!(format(|options| options.pages = 0), FileFault::Bounds { what: "pages", .. }, "0 pages");
    refuses!(format(|options| options.pages = u64::MAX), FileFault::Bounds { what: "pages", .. });
    refuses!(format(|options| options.page_bytes = 1000), FileFault::Bounds { .. }, "1000 bytes in a page");
    refuses!(format(|options| options.header = vec![0; HEADER + 1]), FileFault::Bounds { .. }, "2049");
    refuses!(format(|options| options.layout.key = "k".repeat(257)), FileFault::Bounds { .. }, "257");
    let mut volume = format(|_| {}).unwrap();
    let page = vec![0; PAGE];
    refuses!(volume.commit([(3, &page[..])], &[]), FileFault::Bounds { .. });
    refuses!(volume.commit([(4, &page[..])], &[]), FileFault::Bounds { .. });
    refuses!(volume.commit([(0, &page[1..])], &[]), FileFault::Bounds { .. });
    refuses!(volume.commit([(0, &page[..])], &[0; HEADER + 1]), FileFault::Bounds { .. });
    let mut commit = volume.begin().unwrap();
    let twice = commit.write_pages(&[(1, &page[..]), (2, &page[..]), (1, &page[..])]);
    refuses!(twice, FileFault::Bounds { what: "times the same page in one call", asked: 2, .. });
    refuses!(
        commit.write_pages(&[(0, &[0; 2 * PAGE][..])]),
        FileFault::Bounds { .. },
        "8192 bytes for a page"
    );
    refuses!(commit.write_pages(&[(0, &[][..])]), FileFault::Bounds { .. }, "0 bytes for a page");
    drop(commit);
    refuses!(volume.load(2, &mut vec![0; 2 * PAGE]), FileFault::Bounds { .. });
    assert!(!volume.is_current(3, &page));
    assert_eq!(volume.epoch(), Epoch(0));
}

#[test]
fn a_file_grows_up_to_its_maximum() {
    let (disk, _) = written();
    let (mut volume, _) = Volume::open(disk.clone(), &options()).unwrap();
    (1..EXTENTS).for_each(|_| volume.grow(1).unwrap());
    refuses!(volume.grow(1), FileFault::Bounds { what: "extents", asked: 65, .. });
    let last = EXTENTS as u64 + 1;
    volume.commit([(last, &vec![5; PAGE][..])], &[]).unwrap();
    let found = Version::read(disk).unwrap();
    assert_eq!(found.image[last as usize * PAGE..], vec![5; PAGE]);
}

/// Large enough for several threads.
#[test]
fn many_pages_are_written_and_read_by_several_threads() {
    let disk = Disk::default();
    let options = Options { pages: 1000, has_working: false, ..options() };
    let mut volume = Volume::format(disk.clone(), &options).unwrap();
    let image: Vec<u8> = (0..1000 * PAGE).map(|at| (at / 13) as u8).collect();
    let pages: Vec<(u64, &[u8])> = (0..).zip(image.chunks(PAGE)).filter(|(page, _)| page % 3 != 0).collect();
    let mut commit = volume.begin().unwrap();
    commit.write_pages(&pages).unwrap();
    commit.finish(&[]).unwrap();
    let (volume, _) = Volume::open(disk, &options).unwrap();
    let mut found = vec![1; image.len()];
    volume.load(0, &mut found).unwrap();
    for (page, (found, expected)) in found.chunks(PAGE).zip(image.chunks(PAGE)).enumerate() {
        let is_right = if page % 3 == 0 { found.iter().all(|&byte| byte == 0) } else { found == expected };
        assert!(is_right, "page {page}");
    }
}

#[test]
fn images_larger_than_memory_are_refused() {
    refuses!(check_memory(100, Some(99)), FileFault::Memory { .. }, "100 bytes", "99 free");
    assert!(check_memory(100, Some(100)).is_ok() && check_memory(100, None).is_ok());
}

/// The working region counts in the run of the system that wrote it, and only there.
#[test]
fn the_working_region_is_of_one_run_of_the_system() {
    let (disk, _) = written();
    let source = |boot| Volume::open(disk.clone(), &Options { boot, ..options() }).unwrap().1.source;
    assert_eq!(source(Some(BOOT)), Source::Epoch);
    let (mut volume, _) = Volume::open(disk.clone(), &options()).unwrap();
    for (working, is_closed) in [(Working::InUse(BOOT), false), (Working::Closed(BOOT), true)] {
        volume.set_working(working).unwrap();
        assert_eq!(source(Some(BOOT)), Source::Working { is_closed });
        assert_eq!(source(Some([8; 16])), Source::Epoch);
        refuses!(Volume::open(disk.clone(), &Options { boot: None, ..options() }), FileFault::BootId);
    }
}

/// Tables of several blocks.
mod blocks {
    use super::super::disk::{Access, Failure};
    use super::*;

    fn large() -> Options {
        Options { pages: 1100, has_working: false, ..options() }
    }

    /// Asserts that a reader of the disk finds an image.
    fn has(disk: &Disk, image: &[u8]) {
        let (found, _) = Volume::open(disk.clone(), &large()).unwrap();
        let mut loaded = vec![1; image.len()];
        found.load(0, &mut loaded).unwrap();
        assert!(loaded == image);
    }

    /// A sync writes the blocks that changed since that table was written.
    #[test]
    fn a_sync_writes_few_blocks_of_the_table() {
        let (disk, mut image) = (Disk::default(), vec![0; 1100 * PAGE]);
        let mut volume = Volume::format(disk.clone(), &large()).unwrap();
        let expected = [(0, 3), (600, 2), (601, 1), (1099, 2), (0, 2), (1, 1)];
        for (number, (page, blocks)) in expected.into_iter().enumerate() {
            let bytes = vec![number as u8 + 1; PAGE];
            image[page * PAGE..][..PAGE].copy_from_slice(&bytes);
            let before = disk.log().len();
            volume.commit([(page as u64, &bytes[..])], &[]).unwrap();
            let tables = volume.geometry.table_at(0, 0)..volume.geometry.copy_at(0, 0);
            let is_table = |access: &&Access| matches!(access, Access::Write(at, _) if tables.contains(at));
            assert_eq!(disk.log()[before..].iter().filter(is_table).count(), blocks, "sync {number}");
            has(&disk, &image);
        }
    }

    /// A sync that failed between two blocks of the table leaves one that the next sync writes, although the
    /// next sync changes other pages.
    #[test]
    fn blocks_of_a_failed_sync_are_written_again() {
        let (disk, mut image, page) = (Disk::default(), vec![0; 1100 * PAGE], vec![7; PAGE]);
        let mut volume = Volume::format(disk.clone(), &large()).unwrap();
        for _ in 0..2 {
            volume.commit([(0, &page[..])], &[]).unwrap();
        }
        disk.fail(Some(Failure { after: 4, kind: std::io::ErrorKind::StorageFull }));
        let failed = volume.commit([(600, &page[..]), (1099, &page[..])], &[]);
        refuses!(failed, FileFault::Full { .. }, "no room");
        image[..PAGE].copy_from_slice(&page);
        (0..2).for_each(|_| {
            volume.commit([(0, &page[..])], &[]).unwrap();
            has(&disk, &image);
        });
    }

    /// The disk has old bytes where the file grows: those of a growth that no sync has made part of it.
    #[test]
    fn tables_of_new_pages_are_written_in_full() {
        for fails in [false, true] {
            let (disk, image) = (Disk::default(), vec![0; 1102 * PAGE]);
            let mut volume = Volume::format(disk.clone(), &large()).unwrap();
            let old = vec![0xee; 20 * PAGE];
            disk.write_at(volume.geometry.end(), &old).unwrap();
            volume.grow(2).unwrap();
            if fails {
                disk.fail(Some(Failure { after: 0, kind: std::io::ErrorKind::StorageFull }));
                refuses!(volume.commit([], &[]), FileFault::Full { .. });
            }
            (0..3).for_each(|_| {
                volume.commit([], &[]).unwrap();
                has(&disk, &image);
            });
        }
    }
}
