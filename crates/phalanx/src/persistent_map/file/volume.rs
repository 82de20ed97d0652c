//! A file's contents, on any [`BlockDevice`]: create, open, read and grow. `commit.rs` writes.
use super::Options;
use super::device::BlockDevice;
use super::fault::FileFault;
use super::geometry::{BLOCK, ENTRY, Geometry, HEAD};
use super::superblock::{self, Block, Superblock, Working};
use super::table::{self, Stale, Table, TableBlock};
use super::{Contents, Epoch, Source, system};
use crate::map::parallel;
use rayon::prelude::*;
use std::collections::BTreeSet;

/// Bytes of memory that are allocated without asking the operating system first, which takes some 50 µs.
const CERTAIN: u64 = 16 << 20;

/// A thread reads or writes 2^14 times so many bytes of pages alone: 1 MiB.
pub(super) const ALONE: usize = 64;

/// Bytes that are read by one call of the operating system, unless a page has more.
const READ: usize = 1 << 20;

/// An open file: its last epoch, and what the next one will change.
#[derive(Debug)]
pub struct Volume<D> {
    pub(super) device: D,
    /// The last superblock, which both blocks of the file have, unless a write of the second one is not
    /// synced yet.
    pub(super) current: Superblock,
    /// With the extents that the next commit adds.
    pub(super) geometry: Geometry,
    pub(super) table: Table,
    /// Blocks that the other table in the file lacks.
    pub(super) stale: Stale,
    /// Blocks that the next commit writes in any case: of new extents, and of commits that failed.
    pub(super) unwritten: BTreeSet<TableBlock>,
    /// Whether a superblock was written that may be on the disk or not.
    pub(super) is_uncertain: bool,
}

impl<D: BlockDevice> Volume<D> {
    /// Creates the contents of an empty device. No page has contents, and the epoch is 0.
    pub fn format(device: D, options: &Options) -> Result<Self, FileFault> {
        let (page_bytes, has_working) = (options.page_bytes, options.has_working);
        let geometry = Geometry { page_bytes, has_working, extents: vec![options.pages] };
        let mut current = Superblock {
            sequence: 0,
            epoch: 0,
            file: system::unique_id(),
            layout: options.layout.clone(),
            owner: options.owner,
            working: Working::Unused,
            table: 0,
            table_crc: 0,
            geometry: geometry.clone(),
            header: options.header.clone(),
        };
        current.check()?;
        let end = geometry.end();
        device.allocate(0, end).map_err(FileFault::of_io("creating it", end))?;
        let table = Table::of(zeros(geometry.pages() * ENTRY)?);
        current.table_crc = table.crc();
        let mut volume = Self::new(device, current, table);
        volume.write_both()?;
        Ok(volume)
    }

    fn new(device: D, current: Superblock, table: Table) -> Self {
        let (geometry, unwritten) = (current.geometry.clone(), BTreeSet::new());
        Self { device, current, geometry, table, stale: Stale::All, unwritten, is_uncertain: false }
    }

    /// Opens what [`Self::format`] has created. Nothing is written unless the superblocks differ or the disk
    /// lacks a part of the file. With `adopt`, [`Self::set_owner`] follows.
    pub fn open(device: D, options: &Options) -> Result<(Self, Contents), FileFault> {
        let (mut volume, damaged) = Self::read(device)?;
        volume.check_user(options)?;
        if volume.current.working != Working::Unused && options.boot.is_none() {
            return Err(FileFault::BootId);
        }
        volume.fill_holes()?;
        volume.settle()?;
        let source = match volume.current.working {
            Working::InUse(boot) if options.boot == Some(boot) => Source::Working { is_closed: false },
            Working::Closed(boot) if options.boot == Some(boot) => Source::Working { is_closed: true },
            _ => Source::Epoch,
        };
        let (epoch, header) = (volume.epoch(), volume.current.header.clone());
        Ok((volume, Contents { epoch, source, header, damaged_superblock: damaged }))
    }

    /// Reads superblocks and table. Returns the number of the superblock that is damaged, if one is.
    pub fn read(device: D) -> Result<(Self, Option<usize>), FileFault> {
        let (current, damaged) = superblock::choose([&read_block(&device, 0)?, &read_block(&device, 1)?])?;
        let volume = Self::new(device, current, Table::default());
        volume.check_length()?;
        let table = volume.read_table()?;
        let (expected, found, epoch) = (volume.current.table_crc, table.crc(), volume.current.epoch);
        match expected == found {
            true => Ok((Self { table, ..volume }, damaged)),
            false => Err(FileFault::Table { epoch, expected, found }),
        }
    }

    /// Returns an error unless the file is long enough.
    pub(super) fn check_length(&self) -> Result<(), FileFault> {
        let found = self.device.len().map_err(FileFault::of_io("measuring", 0))?;
        let expected = self.geometry.end();
        if found < expected { Err(FileFault::Truncated { expected, found }) } else { Ok(()) }
    }

    fn read_table(&self) -> Result<Table, FileFault> {
        let geometry = &self.geometry;
        let mut entries = zeros(geometry.pages() * ENTRY)?;
        for extent in 0..geometry.extents.len() {
            let pages = geometry.pages_of(extent);
            let part = &mut entries[(pages.start * ENTRY) as usize..(pages.end * ENTRY) as usize];
            let at = geometry.table_at(extent, self.current.table);
            self.device.read_at(at, part).map_err(FileFault::of_io("reading its page table", 0))?;
        }
        Ok(Table::of(entries))
    }

    /// Returns an error unless the file was created for this user.
    fn check_user(&self, options: &Options) -> Result<(), FileFault> {
        let (expected, found) = (&options.layout, &self.current.layout);
        let names = |layout: &super::LayoutId| Box::new((layout.key.clone(), layout.value.clone()));
        if names(expected) != names(found) {
            return Err(FileFault::Types { expected: names(expected), found: names(found) });
        }
        if expected.hash != found.hash {
            return Err(FileFault::Layout { expected: expected.hash, found: found.hash });
        }
        if options.page_bytes != self.geometry.page_bytes {
            let (expected, found) = (options.page_bytes, self.geometry.page_bytes);
            return Err(FileFault::PageBytes { expected, found });
        }
        if options.owner != self.current.owner && !options.adopt {
            return Err(FileFault::OtherDevice { expected: options.owner, found: self.current.owner });
        }
        Ok(())
    }

    /// Provides the parts of the file that the disk lacks: an access to one through a mapping ends the
    /// process if the disk is full.
    fn fill_holes(&self) -> Result<(), FileFault> {
        let (allocated, expected) = (FileFault::of_io("measuring", 0), self.geometry.end());
        if self.device.allocated().map_err(&allocated)? >= expected {
            return Ok(());
        }
        let provide = FileFault::of_io("filling its holes", expected);
        let is_filled = self.device.fill(HEAD, expected).map_err(provide)?;
        let found = self.device.allocated().map_err(allocated)?;
        match self.geometry.has_working && !is_filled && found < expected {
            true => Err(FileFault::Sparse { expected, found }),
            false => Ok(()),
        }
    }

    /// Makes both superblocks equal, so that the next one may replace the first. If they differed, waits
    /// until the disk has both: the one that is current may not have reached it before.
    fn settle(&mut self) -> Result<(), FileFault> {
        let block = self.current.encode();
        let writing = FileFault::of_io("repairing a superblock", BLOCK);
        let mut differed = false;
        for slot in 0..2 {
            if read_block(&self.device, slot)? != *block {
                self.device.write_at(slot * BLOCK, &block[..]).map_err(&writing)?;
                differed = true;
            }
        }
        if differed { self.device.sync().map_err(writing) } else { Ok(()) }
    }

    /// Writes the superblocks of a new file.
    fn write_both(&mut self) -> Result<(), FileFault> {
        let (block, writing) = (self.current.encode(), FileFault::of_io("writing a superblock", BLOCK));
        for slot in 0..2 {
            self.device.write_at(slot * BLOCK, &block[..]).map_err(&writing)?;
        }
        self.device.sync().map_err(writing)
    }

    /// Returns the superblock after the current one, which differs in its number only.
    pub(super) fn next(&self) -> Superblock {
        Superblock { sequence: self.current.sequence + 1, ..self.current.clone() }
    }

    /// Makes a superblock the current one. Everything written before is on the disk when its first byte is.
    ///
    /// The first sync also makes the second superblock equal to the first one. So if the first is torn, the
    /// second has what is current.
    pub(super) fn publish(&mut self, next: Superblock) -> Result<(), FileFault> {
        self.check_certain()?;
        let (block, failed) = (next.encode(), FileFault::of_io("syncing", BLOCK));
        // After an error of a sync, the system may take lost writes for done.
        self.is_uncertain = true;
        self.device.sync().map_err(&failed)?;
        self.device.write_at(0, &block[..]).map_err(&failed)?;
        self.device.sync().map_err(&failed)?;
        self.device.write_at(BLOCK, &block[..]).map_err(&failed)?;
        self.is_uncertain = false;
        self.current = next;
        Ok(())
    }

    /// Returns the blocks that the other table in the file lacks if these are changed.
    pub(super) fn stale_and(&self, changed: &BTreeSet<TableBlock>) -> BTreeSet<TableBlock> {
        match &self.stale {
            Stale::All => table::blocks(&self.geometry),
            Stale::Blocks(blocks) => blocks | changed,
        }
    }

    pub(super) fn check_certain(&self) -> Result<(), FileFault> {
        if self.is_uncertain { Err(FileFault::Uncertain) } else { Ok(()) }
    }

    /// Returns the last epoch.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.current.epoch)
    }

    /// Records the device that owns the file.
    pub fn set_owner(&mut self, owner: [u8; 16]) -> Result<(), FileFault> {
        if self.current.owner == owner {
            return Ok(());
        }
        self.publish(Superblock { owner, ..self.next() })
    }

    /// Records the state of the working region.
    pub fn set_working(&mut self, working: Working) -> Result<(), FileFault> {
        if self.current.working == working {
            return Ok(());
        }
        self.publish(Superblock { working, ..self.next() })
    }

    /// Adds pages without contents. They are in the file once the next commit returns.
    pub fn grow(&mut self, pages: u64) -> Result<(), FileFault> {
        self.check_certain()?;
        let mut geometry = self.geometry.clone();
        geometry.extents.push(pages);
        geometry.check()?;
        let (start, end) = (self.geometry.end(), geometry.end());
        let allocating = FileFault::of_io("extending it", end - start);
        self.device.allocate(start, end).map_err(allocating)?;
        let added = geometry.extents.len() - 1;
        self.table.resize(geometry.pages());
        self.unwritten.extend(table::blocks(&geometry).into_iter().filter(|block| block.0 == added));
        self.geometry = geometry;
        Ok(())
    }

    /// Returns an error unless `bytes` bytes are whole pages of the file, from page `first` on.
    pub(super) fn check_pages(&self, first: u64, bytes: usize) -> Result<(), FileFault> {
        let (page_bytes, pages) = (self.geometry.page_bytes, self.geometry.pages());
        let bounds = |what, asked, most| match asked <= most {
            true => Ok(()),
            false => Err(FileFault::Bounds { what, asked, least: 0, most }),
        };
        bounds("bytes beyond whole pages", bytes as u64 % page_bytes, 0)?;
        bounds("as first page", first, pages)?;
        bounds("pages from there on", bytes as u64 / page_bytes, pages - first)
    }

    /// Reads pages of the last epoch, from page `first` on, and verifies their checksums. Pages that were
    /// never written are zeros.
    pub fn load(&self, first: u64, bytes: &mut [u8]) -> Result<(), FileFault> {
        self.check_pages(first, bytes.len())?;
        let page_bytes = self.geometry.page_bytes as usize;
        let pages = (READ / page_bytes).max(1);
        let load = |(index, part): (usize, &mut [u8])| self.load_part(first + (index * pages) as u64, part);
        match parallel::pool(bytes.len() / ALONE) {
            Some(pool) => {
                pool.install(|| bytes.par_chunks_mut(pages * page_bytes).enumerate().try_for_each(load))
            }
            None => bytes.chunks_mut(pages * page_bytes).enumerate().try_for_each(load),
        }
    }

    /// Reads pages by one thread: neighbours in the file by one call of the operating system.
    fn load_part(&self, first: u64, mut bytes: &mut [u8]) -> Result<(), FileFault> {
        let page_bytes = self.geometry.page_bytes as usize;
        let mut page = first;
        while !bytes.is_empty() {
            let most = (bytes.len() / page_bytes) as u64;
            let place = |page: u64| self.table.get(page).map(|entry| self.geometry.copy_at(page, entry.copy));
            let at = place(page);
            let next = |number: &u64| place(page + number) == at.map(|at| at + number * page_bytes as u64);
            let run = (0..most).take_while(next).count();
            let (part, rest) = bytes.split_at_mut(run * page_bytes);
            match at {
                None => part.fill(0),
                Some(at) => self.load_run(page, at, part)?,
            }
            (page, bytes) = (page + run as u64, rest);
        }
        Ok(())
    }

    /// Reads pages that are neighbours in the file.
    fn load_run(&self, first: u64, at: u64, bytes: &mut [u8]) -> Result<(), FileFault> {
        self.device.read_at(at, bytes).map_err(FileFault::of_io("reading pages", bytes.len() as u64))?;
        let mut pages = bytes.chunks(self.geometry.page_bytes as usize).zip(first..);
        pages.try_for_each(|(bytes, index)| {
            let (epoch, found) = (self.current.epoch, crc32fast::hash(bytes));
            match self.table.get(index).map(|entry| entry.crc) {
                Some(expected) if expected != found => Err(FileFault::Page { index, epoch, expected, found }),
                _ => Ok(()),
            }
        })
    }

    /// Returns whether the last epoch has these contents of a page, by its checksum.
    pub fn is_current(&self, page: u64, bytes: &[u8]) -> bool {
        if self.check_pages(page, bytes.len()).is_err() {
            return false;
        }
        match self.table.get(page) {
            Some(entry) => entry.crc == crc32fast::hash(bytes),
            None => bytes.iter().all(|&byte| byte == 0),
        }
    }
}

/// Returns an error if the host is known to lack memory for `bytes` bytes. `free` are those that are free.
pub fn check_memory(bytes: u64, free: Option<u64>) -> Result<(), FileFault> {
    if free.is_some_and(|free| bytes > free) { Err(FileFault::Memory { bytes, free }) } else { Ok(()) }
}

/// Returns zeros, or an error if the host lacks the memory. A damaged superblock may ask for any number.
fn zeros(bytes: u64) -> Result<Vec<u8>, FileFault> {
    if bytes > CERTAIN {
        check_memory(bytes, free_memory())?;
    }
    let mut zeros = Vec::new();
    match usize::try_from(bytes).is_ok_and(|len| zeros.try_reserve_exact(len).is_ok()) {
        true => zeros.resize(bytes as usize, 0),
        false => return Err(FileFault::Memory { bytes, free: free_memory() }),
    }
    Ok(zeros)
}

/// Returns the free bytes of host memory, if the operating system reports them.
pub fn free_memory() -> Option<u64> {
    gpu::host_memory().map(|(free, _)| free as u64)
}

/// Reads a superblock. If the device is too short for it and begins as a persistent file does, it was
/// truncated.
fn read_block(device: &impl BlockDevice, slot: u64) -> Result<Block, FileFault> {
    let mut block = [0; BLOCK as usize];
    let found = device.len().map_err(FileFault::of_io("measuring", 0))?;
    let reading = FileFault::of_io("reading a superblock", BLOCK);
    if found >= HEAD {
        device.read_at(slot * BLOCK, &mut block).map_err(reading)?;
        return Ok(block);
    }
    let begin = &mut block[..found.min(BLOCK) as usize];
    device.read_at(0, begin).map_err(reading)?;
    superblock::check_magic(begin)?;
    Err(FileFault::Truncated { expected: HEAD, found })
}
