//! The write path of a sync.
//!
//! ```text
//! pages to their copies that are not current, the other table · sync
//! superblock 0, epoch + 1                                      · sync, then the epoch is returned
//! superblock 1, the same                                         (on the disk with the next sync)
//! ```
//!
//! The simple solution syncs after each step: pages, table, superblock. But a copy or a table that is not
//! current means nothing before the superblock names it, so their order does not matter. Two syncs suffice:
//!
//! 1. *Before the first sync has returned*, the superblocks are those of the last epoch, and nothing that it
//!    needs was changed. Writes may be missing or torn.
//! 2. *Between the two*, all pages and the table are on the disk. Superblock 0 is the old one, the new one,
//!    or torn. If it is torn, its checksum is wrong, and superblock 1 counts: the old one, by the first sync.
//! 3. *After the second*, superblock 0 is the new one, whatever superblock 1 is: older, the same, or torn.
//!
//! Two equal superblocks have a second purpose: if a block is damaged later, the other one has the same
//! epoch.
use super::Epoch;
use super::device::BlockDevice;
use super::fault::FileFault;
use super::geometry::BLOCK;
use super::superblock::Superblock;
use super::table::{self, Entry, Stale, TableBlock};
use super::volume::{ALONE, Volume};
use crate::map::parallel;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A sync in progress. Dropped before [`Self::finish`] returns, it has changed nothing.
#[derive(Debug)]
pub struct Commit<'a, D: BlockDevice> {
    volume: &'a mut Volume<D>,
    /// Entries before the sync, of the pages that it has written.
    before: BTreeMap<u64, Option<Entry>>,
    is_finished: bool,
}

impl<D: BlockDevice> Volume<D> {
    /// Begins a sync.
    pub fn begin(&mut self) -> Result<Commit<'_, D>, FileFault> {
        self.check_certain()?;
        self.check_length()?;
        Ok(Commit { volume: self, before: BTreeMap::new(), is_finished: false })
    }

    /// Writes pages and a header as a new epoch: see [`Commit`].
    pub fn commit<'a>(
        &mut self,
        pages: impl IntoIterator<Item = (u64, &'a [u8])>,
        header: &[u8],
    ) -> Result<Epoch, FileFault> {
        let mut commit = self.begin()?;
        pages.into_iter().try_for_each(|(page, bytes)| commit.write(page, bytes))?;
        commit.finish(header)
    }

    /// Writes a page to a copy, and returns what the table must say of it.
    fn write_page(&self, page: u64, copy: u8, bytes: &[u8]) -> Result<Entry, FileFault> {
        let at = self.geometry.copy_at(page, copy);
        let writing = FileFault::of_io("writing a page", bytes.len() as u64);
        self.device.write_at(at, bytes).map_err(writing)?;
        Ok(Entry { crc: crc32fast::hash(bytes), copy })
    }

    /// Writes the table that is not current.
    fn write_table(&self, blocks: &BTreeSet<TableBlock>, table: u8) -> Result<(), FileFault> {
        for &(extent, block) in blocks {
            let at = self.geometry.table_at(extent, table) + block * BLOCK;
            let bytes = self.table.block(&self.geometry, (extent, block));
            self.device.write_at(at, &bytes).map_err(FileFault::of_io("writing its page table", BLOCK))?;
        }
        Ok(())
    }
}

impl<D: BlockDevice> Commit<'_, D> {
    /// Writes pages, from page `first` on. A page may be written again; the last contents count.
    pub fn write(&mut self, first: u64, bytes: &[u8]) -> Result<(), FileFault> {
        self.volume.check_pages(first, bytes.len())?;
        let pages = bytes.chunks(self.volume.geometry.page_bytes as usize);
        self.write_pages(&(first..).zip(pages).collect::<Vec<_>>())
    }

    /// Writes pages with these numbers, which differ, by several threads. Pages may be written again by later
    /// calls.
    pub fn write_pages(&mut self, pages: &[(u64, &[u8])]) -> Result<(), FileFault> {
        let volume = &*self.volume;
        self.check(pages)?;
        let write = |&(page, bytes): &(u64, &[u8])| {
            let old = self.before.get(&page).copied().unwrap_or_else(|| volume.table.get(page));
            volume.write_page(page, old.map_or(0, |old| 1 - old.copy), bytes)
        };
        let bytes = pages.len() * volume.geometry.page_bytes as usize;
        let entries: Result<Vec<Entry>, FileFault> = match parallel::pool(bytes / ALONE) {
            Some(pool) => pool.install(|| pages.par_iter().map(write).collect()),
            None => pages.iter().map(write).collect(),
        };
        for (&(page, _), entry) in pages.iter().zip(entries?) {
            self.before.entry(page).or_insert_with(|| self.volume.table.get(page));
            self.volume.table.set(page, Some(entry));
        }
        Ok(())
    }

    /// Returns an error unless the pages have different numbers and the size of a page.
    fn check(&self, pages: &[(u64, &[u8])]) -> Result<(), FileFault> {
        let page_bytes = self.volume.geometry.page_bytes;
        let exact = |what, asked, only| match asked == only {
            true => Ok(()),
            false => Err(FileFault::Bounds { what, asked, least: only, most: only }),
        };
        let mut numbers = BTreeSet::new();
        pages.iter().try_for_each(|&(page, bytes)| {
            self.volume.check_pages(page, bytes.len())?;
            exact("bytes for a page", bytes.len() as u64, page_bytes)?;
            exact("times the same page in one call", 1 + u64::from(!numbers.insert(page)), 1)
        })
    }

    /// Makes the pages the contents of a new epoch, together with a header of the structure. Returns when the
    /// epoch survives loss of power.
    pub fn finish(mut self, header: &[u8]) -> Result<Epoch, FileFault> {
        let volume = &mut *self.volume;
        let next = Superblock {
            epoch: volume.current.epoch + 1,
            table: 1 - volume.current.table,
            table_crc: volume.table.crc(),
            geometry: volume.geometry.clone(),
            header: header.to_vec(),
            ..volume.next()
        };
        next.check()?;
        let mut changed = std::mem::take(&mut volume.unwritten);
        changed.extend(self.before.keys().map(|&page| table::block_of(&volume.geometry, page)));
        let blocks = volume.stale_and(&changed);
        let written = volume.write_table(&blocks, next.table).and_then(|()| volume.check_length());
        if let Err(fault) = written.and_then(|()| volume.publish(next)) {
            volume.unwritten = changed;
            return Err(fault);
        }
        volume.stale = Stale::Blocks(changed);
        self.is_finished = true;
        Ok(self.volume.epoch())
    }
}

impl<D: BlockDevice> Drop for Commit<'_, D> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.before.iter().for_each(|(&page, &entry)| self.volume.table.set(page, entry));
        }
    }
}
