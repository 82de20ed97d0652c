//! Syncs: the pages that have changed, copied beside batches, become a new epoch of the file.
use super::builder::header;
use super::file::PersistentFile;
use super::memory::Memory;
use super::{Backing, Epoch, PersistentMap, Plain};
use crate::{Error, Result};
use gpu::{Buffer, Device, Grid, Stream, Tier};
use phalanx_kernels::persistent::pages::{PageCopies, PersistentCopyPages, PersistentListDirty};
use std::collections::BTreeSet;
use std::sync::PoisonError;

/// Number of copies of a page that are tried beside batches, before batches that change the map wait.
const ROUNDS: usize = 8;

/// Bytes of pages that are copied at once.
const COPIES: usize = 4 << 20;

/// Threads that copy a page.
const THREADS: u32 = 128;

impl<K: Plain, V: Plain> PersistentMap<K, V> {
    /// Makes the changes of all batches that have completed a new epoch of the file. Changes of other batches
    /// may be part of it. Returns when the epoch survives loss of power.
    ///
    /// Batches run meanwhile. If a page changes each time that it is copied, batches that change the map wait
    /// until the remaining pages have been copied.
    ///
    /// # Errors
    /// [`Error::NoFile`] for a map without a file; [`Error::PersistentFile`] if the file cannot be written:
    /// the last epoch stays, and the next call writes the changes. If the failure may have left the new epoch
    /// on the disk, later calls return [`FileFault::Uncertain`](super::FileFault::Uncertain) until the file
    /// is opened again. [`Error::Device`] if the device is lost.
    pub fn sync(&self) -> Result<Epoch> {
        let mut backing = self.backing();
        let Some(backing) = backing.as_mut() else { return Err(Error::NoFile) };
        let memory = self.memory();
        self.write_epoch(&memory, backing, false)
    }

    /// Writes an epoch. The caller has locked the file. `alone` is whether the caller also keeps all batches
    /// away that change the map.
    pub(super) fn write_epoch(&self, memory: &Memory, backing: &mut Backing, alone: bool) -> Result<Epoch> {
        let Backing { file, pending, .. } = backing;
        let mut copier = Copier::new(&self.device, memory)?;
        pending.extend(copier.dirty_pages()?);
        let path = file.path().to_owned();
        let named = |fault| PersistentFile::named_error(&path, fault);
        let mut commit = file.begin()?;
        let mut rest = pending.clone();
        for _ in 0..ROUNDS {
            copier.copy(&mut rest, &mut |pages| commit.write_pages(pages).map_err(named))?;
        }
        while !rest.is_empty() {
            let after = rest.iter().nth(copier.most).copied().unwrap_or(u64::MAX);
            let later = rest.split_off(&after);
            let part = std::mem::replace(&mut rest, later);
            let held = self.copy_alone(&mut copier, part, alone)?;
            let pages: Vec<_> = held.iter().map(|(page, bytes)| (*page, &bytes[..])).collect();
            commit.write_pages(&pages).map_err(named)?;
        }
        let epoch = commit.finish(&header::encode(memory.shape)).map_err(named)?;
        pending.clear();
        Ok(epoch)
    }
}

/// Numbers in the file of copied pages, and their bytes.
type PageList = Vec<(u64, Vec<u8>)>;

impl<K: Plain, V: Plain> PersistentMap<K, V> {
    /// Copies pages while no batch changes the map. Batches wait for the copies and not for the disk.
    fn copy_alone(&self, copier: &mut Copier<'_>, mut pages: BTreeSet<u64>, alone: bool) -> Result<PageList> {
        let mut held = PageList::new();
        let _gate = (!alone).then(|| self.gate.write().unwrap_or_else(PoisonError::into_inner));
        self.device.synchronize()?;
        copier.copy(&mut pages, &mut |copied| {
            held.extend(copied.iter().map(|&(page, bytes)| (page, bytes.to_vec())));
            Ok(())
        })?;
        match pages.is_empty() {
            true => Ok(held),
            false => Err(Error::Invalid("a page changes while no batch changes the map".to_owned())),
        }
    }
}

/// Copies pages of an image to the host, beside batches.
struct Copier<'a> {
    memory: &'a Memory,
    stream: Stream,
    list: Buffer<u32>,
    whole: Buffer<u32>,
    copies: Buffer<u32>,
    /// Most pages that are copied at once.
    most: usize,
}

/// Function that receives pages: their numbers in the file, and their bytes.
type Take<'a> = &'a mut dyn FnMut(&[(u64, &[u8])]) -> Result<()>;

impl<'a> Copier<'a> {
    fn new(device: &Device, memory: &'a Memory) -> Result<Self> {
        let shape = memory.shape;
        let most = (COPIES / shape.page_bytes()).clamp(1, shape.pages());
        Ok(Self {
            memory,
            stream: device.stream()?,
            list: device.buffer_on(Tier::Pinned, shape.pages().max(most))?,
            whole: device.buffer_on(Tier::Pinned, most)?,
            copies: device.buffer_on(Tier::Pinned, most * shape.page_bytes() / 4)?,
            most,
        })
    }

    /// Returns the pages of the file that have changed.
    fn dirty_pages(&mut self) -> Result<BTreeSet<u64>> {
        let device = self.stream.device().clone();
        let count = device.zeroed::<u32>(1)?;
        let dirty = self.memory.dirty.global();
        let (list, grid) = (self.list.global(), Grid::for_items(dirty.len(), THREADS));
        // SAFETY: a thread for each page; the buffers outlive the wait.
        unsafe { self.stream.launch(grid, PersistentListDirty { dirty, list, count: count.global() })? };
        self.stream.synchronize()?;
        let mut marks = vec![0; read_one(&count)? as usize];
        self.read_pinned(&self.list, &mut marks);
        Ok(marks.into_iter().map(|mark| self.memory.shape.page_of_mark(mark as usize)).collect())
    }

    /// Copies pages of the file, and removes those from the set whose copies are consistent.
    fn copy(&mut self, pages: &mut BTreeSet<u64>, take: Take<'_>) -> Result<()> {
        let shape = self.memory.shape;
        for above in 0..shape.kind.levels {
            let first = shape.file_page(above);
            let end = first + u64::from(shape.geometry.pages(above));
            let of_level: Vec<u64> = pages.range(first..end).copied().collect();
            for part in of_level.chunks(self.most) {
                let whole = self.copy_part(above, part, take)?;
                whole.into_iter().for_each(|page| {
                    pages.remove(&page);
                });
            }
        }
        // Pages of levels that growth has left behind are not part of the image any more.
        let (first, end) = (shape.file_page(0), shape.file_page(shape.kind.levels));
        pages.retain(|page| (first..end).contains(page));
        Ok(())
    }

    /// Copies pages of a level. Returns those whose copies are consistent, which `take` has received.
    fn copy_part(&mut self, above: u32, part: &[u64], take: Take<'_>) -> Result<Vec<u64>> {
        let (shape, first) = (self.memory.shape, self.memory.shape.file_page(above));
        let numbers: Vec<u32> = part.iter().map(|page| (page - first) as u32).collect();
        let marks: usize = (0..above).map(|below| shape.geometry.pages(below) as usize).sum();
        self.write_pinned(&numbers);
        let pages = PageCopies {
            level: self.memory.levels[above as usize].global(),
            list: self.list.global().part(0, part.len()),
            dirty: self.memory.dirty.global().part(marks, shape.geometry.pages(above) as usize),
            words: (shape.geometry.page_words(), shape.geometry.bits_words()),
            copies: self.copies.global(),
            whole: self.whole.global(),
        };
        let grid = Grid::new(part.len() as u32, THREADS);
        // SAFETY: a block for each page; the buffers outlive the wait.
        unsafe { self.stream.launch(grid, PersistentCopyPages { pages })? };
        self.stream.synchronize()?;
        let mut whole = vec![0; part.len()];
        self.read_pinned(&self.whole, &mut whole);
        let mut copies = vec![0u32; part.len() * shape.page_bytes() / 4];
        self.read_pinned(&self.copies, &mut copies);
        let pages = copies.chunks(shape.page_bytes() / 4).zip(part).zip(whole);
        let pages = pages.filter(|&(_, whole)| whole != 0);
        let taken: Vec<_> = pages.map(|((words, &page), _)| (page, bytemuck::cast_slice(words))).collect();
        take(&taken)?;
        Ok(taken.into_iter().map(|(page, _)| page).collect())
    }

    /// Copies the first elements of a pinned buffer, without a wait for other streams.
    fn read_pinned(&self, from: &Buffer<u32>, to: &mut [u32]) {
        if let Some(host) = from.host_pointer() {
            assert!(to.len() <= from.len());
            // SAFETY: the buffer has as many words; the stream that writes them has been waited for.
            unsafe { to.as_mut_ptr().copy_from_nonoverlapping(host.as_ptr(), to.len()) };
        }
    }

    /// Writes the numbers of pages to the list, without a wait for other streams.
    fn write_pinned(&self, numbers: &[u32]) {
        if let Some(host) = self.list.host_pointer() {
            assert!(numbers.len() <= self.list.len());
            // SAFETY: the buffer has as many words; no kernel that reads them runs.
            unsafe { host.as_ptr().copy_from_nonoverlapping(numbers.as_ptr(), numbers.len()) };
        }
    }
}

fn read_one(count: &Buffer<u32>) -> Result<u32> {
    Ok(count.read()?[0])
}
