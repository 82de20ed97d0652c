//! Faults of the write path, planted below it: a device that omits, reorders or redirects accesses. The
//! replay of crashes must find each of them. `docs/notes/planted-faults.md` lists them.
use super::disk::{Disk, SECTOR};
use super::replay::explore;
use super::script::{Run, SCRIPT, Step, Version, options};
use crate::persistent_map::file::geometry::{BLOCK, Geometry};
use crate::persistent_map::file::superblock::seal;
use crate::persistent_map::file::*;
use std::io;
use std::sync::{Arc, Mutex};

/// Fault of a device, once it is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// It omits the first or the second sync of each superblock.
    Sync(usize),
    /// It writes the page table after the first superblock.
    TableLast,
    /// It has one copy of each page.
    OneCopy,
    /// It has one page table.
    OneTable,
    /// It writes the second superblock together with the first.
    BothSuperblocks,
    /// It never writes the second superblock.
    OneSuperblock,
}

/// A write: its offset, and its bytes.
type Write = (u64, Vec<u8>);

#[derive(Clone, Debug)]
struct Faulty {
    disk: Disk,
    fault: Fault,
    geometry: Arc<Geometry>,
    syncs: Arc<Mutex<usize>>,
    later: Arc<Mutex<Vec<Write>>>,
}

impl Faulty {
    fn new(fault: Fault, disk: Disk) -> Self {
        let Options { page_bytes, pages, has_working, .. } = options();
        let geometry = Geometry { page_bytes, has_working, extents: vec![pages] };
        Self { disk, fault, geometry: geometry.into(), syncs: Arc::default(), later: Arc::default() }
    }

    fn is_in_table(&self, table: u8, offset: u64) -> bool {
        (0..BLOCK).contains(&offset.wrapping_sub(self.geometry.table_at(0, table)))
    }

    /// Returns the place that the device uses instead.
    fn place(&self, offset: u64) -> u64 {
        let geometry = &self.geometry;
        let second = geometry.copy_at(0, 1)..geometry.working()[0].offset;
        match self.fault {
            Fault::OneCopy if second.contains(&offset) => offset - (second.start - geometry.copy_at(0, 0)),
            Fault::OneTable if self.is_in_table(1, offset) => offset - BLOCK,
            _ => offset,
        }
    }
}

impl BlockDevice for Faulty {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.disk.read_at(self.place(offset), bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let is_table = self.is_in_table(0, offset) || self.is_in_table(1, offset);
        match self.fault {
            Fault::TableLast if is_table => {
                self.later.lock().unwrap().push((offset, bytes.to_vec()));
                return Ok(());
            }
            Fault::OneSuperblock if offset == BLOCK => return Ok(()),
            Fault::BothSuperblocks if offset == 0 => self.disk.write_at(BLOCK, bytes)?,
            _ => {}
        }
        self.disk.write_at(self.place(offset), bytes)?;
        if offset == 0 {
            let tables = std::mem::take(&mut *self.later.lock().unwrap());
            tables.iter().try_for_each(|(offset, bytes)| self.disk.write_at(*offset, bytes))?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut syncs = self.syncs.lock().unwrap();
        let number = *syncs;
        *syncs += 1;
        // The first one is that of `format`.
        match self.fault {
            Fault::Sync(omitted) if number % 2 != omitted => Ok(()),
            _ => self.disk.sync(),
        }
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn allocate(&self, start: u64, end: u64) -> io::Result<()> {
        self.disk.allocate(start, end)
    }

    fn fill(&self, _: u64, _: u64) -> io::Result<bool> {
        Ok(true)
    }

    fn allocated(&self) -> io::Result<u64> {
        self.len()
    }
}

/// The script up to its growth, so that there is one extent. A sync that is abandoned would show without a
/// crash that there is one copy.
fn steps() -> impl Iterator<Item = &'static Step> {
    let end = SCRIPT.iter().take_while(|step| !matches!(step, Step::Grow(_)));
    end.filter(|step| !matches!(step, Step::Abandon(_)))
}

/// Returns what the replay of the script finds on a device with this fault. Without a crash, it has no
/// effect.
fn found(fault: Fault, repair: impl Fn(&mut Vec<u8>)) -> Option<String> {
    let disk = Disk::default();
    let mut run = Run::new(Faulty::new(Fault::None, disk.clone()), disk.clone()).unwrap();
    run.volume = None;
    run.device = Faulty::new(fault, disk);
    *run.device.syncs.lock().unwrap() = 1;
    run.volume = Some(Volume::open(run.device.clone(), &options()).unwrap().0);
    steps().for_each(|step| run.step(step).unwrap());
    let mut bytes = run.disk.contents();
    repair(&mut bytes);
    assert_eq!(Version::read(Disk::of(bytes)).unwrap(), *run.versions.last().unwrap());
    explore(&run, repair).1
}

/// Asserts that the replay finds a fault.
fn finds(fault: Fault) {
    let geometry = Faulty::new(fault, Disk::default()).geometry;
    let [copies, second] = [0, 1].map(|copy| geometry.copy_at(0, copy) as usize);
    let tables = geometry.table_at(0, 0) as usize;
    // A reader has the same copies and tables as the writer.
    let wrong = found(fault, |bytes| match fault {
        Fault::OneCopy => bytes.copy_within(copies..second, second),
        Fault::OneTable => bytes.copy_within(tables..tables + BLOCK as usize, tables + BLOCK as usize),
        _ => {}
    });
    assert!(wrong.is_some(), "{fault:?} was not found");
}

#[test]
fn a_device_without_a_fault_passes() {
    assert_eq!(found(Fault::None, |_| {}), None);
}

#[test]
fn a_missing_sync_before_the_superblock_is_found() {
    finds(Fault::Sync(0));
}

#[test]
fn a_missing_sync_after_the_superblock_is_found() {
    finds(Fault::Sync(1));
}

#[test]
fn a_superblock_before_its_table_is_found() {
    finds(Fault::TableLast);
}

#[test]
fn a_current_copy_that_is_overwritten_is_found() {
    finds(Fault::OneCopy);
}

#[test]
fn a_current_table_that_is_overwritten_is_found() {
    finds(Fault::OneTable);
}

#[test]
fn two_superblocks_that_are_written_at_once_are_found() {
    finds(Fault::BothSuperblocks);
}

#[test]
fn a_second_superblock_that_is_never_written_is_found() {
    finds(Fault::OneSuperblock);
}

/// A reader that ignores the checksum of a superblock accepts what a reader accepts that verifies it, once
/// each superblock has the checksum of its contents.
#[test]
fn superblocks_whose_checksum_is_ignored_are_found() {
    let repair = |bytes: &mut Vec<u8>| {
        for block in bytes.chunks_mut(BLOCK as usize).take(2) {
            seal(block.try_into().unwrap());
        }
    };
    assert!(found(Fault::None, repair).is_some(), "torn superblocks were not found");
    assert_eq!(BLOCK as usize % SECTOR, 0);
}
