//! Syncs: the pages that have changed, copied beside batches, become a new epoch of the file.
use super::builder::header;
use super::file::PersistentFile;
use super::memory::{Memory, Shape};
use super::{Backing, Epoch, PersistentMap, Plain};
use crate::map::host::pinned_words;
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
        let Backing { file, pending, copier, .. } = backing;
        let copier = PageCopier::of(copier, &self.device, memory.shape)?;
        pending.extend(copier.dirty_pages(memory)?);
        let path = file.path().to_owned();
        let named = |fault| PersistentFile::named_error(&path, fault);
        let mut commit = file.begin()?;
        let mut rest = pending.clone();
        for round in 0..=ROUNDS {
            for part in Part::all(memory.shape, &mut rest, copier.most) {
                // Batches wait for the copies, and not for the disk.
                let gate = (round == ROUNDS && !alone)
                    .then(|| self.gate.write().unwrap_or_else(PoisonError::into_inner));
                if gate.is_some() {
                    self.device.synchronize()?;
                }
                copier.copy(memory, &part)?;
                drop(gate);
                let pages = copier.whole_pages(&part);
                commit.write_pages(&pages).map_err(named)?;
                for (page, _) in &pages {
                    rest.remove(page);
                }
            }
        }
        if !rest.is_empty() {
            return Err(Error::Invalid("a page changes while no batch changes the map".to_owned()));
        }
        let epoch = commit.finish(&header::encode(memory.shape)).map_err(named)?;
        pending.clear();
        Ok(epoch)
    }
}

/// Pages of one level that are copied at once.
struct Part {
    /// Number of the level above the lowest one.
    above: u32,
    /// The file's page that is the level's first one.
    first: u64,
    /// Numbers of the pages in the file.
    pages: Vec<u64>,
}

impl Part {
    /// Returns the pages of a file by levels, at most `most` in a part. Those of levels that growth has left
    /// behind are removed from the set: they are not part of the image any more.
    fn all(shape: Shape, pages: &mut BTreeSet<u64>, most: usize) -> Vec<Self> {
        let mut parts = Vec::new();
        for above in 0..shape.kind.levels {
            let (first, end) = (shape.file_page(above), shape.file_page(above + 1));
            let of_level: Vec<u64> = pages.range(first..end).copied().collect();
            parts.extend(of_level.chunks(most).map(|pages| Self { above, first, pages: pages.to_vec() }));
        }
        let (first, end) = (shape.file_page(0), shape.file_page(shape.kind.levels));
        pages.retain(|page| (first..end).contains(page));
        parts
    }
}

/// Copies pages of an image to the host, beside batches. Kept between syncs: while pinned memory is allocated
/// or freed, no other thread can submit a batch.
#[derive(Debug)]
pub(super) struct PageCopier {
    stream: Stream,
    /// Numbers of pages in their level; also the marks that were found.
    list: Buffer<u32>,
    /// Number of marks.
    count: Buffer<u32>,
    /// For each page 1 if its copy is consistent.
    whole: Buffer<u32>,
    /// Copies in device memory. Kernels that write to host memory would delay the reads of batches.
    copies: Buffer<u32>,
    on_host: Buffer<u32>,
    /// Maximum number of pages that are copied at once.
    most: usize,
}

impl PageCopier {
    /// Returns the copier of an image with this shape, which `kept` has from then on.
    fn of<'a>(kept: &'a mut Option<Self>, device: &Device, shape: Shape) -> Result<&'a mut Self> {
        let fitting = kept.take().filter(|copier| copier.list.len() >= shape.pages());
        let copier = match fitting {
            Some(copier) => copier,
            None => Self::new(device, shape)?,
        };
        Ok(kept.insert(copier))
    }

    fn new(device: &Device, shape: Shape) -> Result<Self> {
        let most = (COPIES / shape.page_bytes()).clamp(1, shape.pages());
        Ok(Self {
            stream: device.stream()?,
            list: device.buffer_on(Tier::Pinned, shape.pages().max(most))?,
            count: device.zeroed(1)?,
            whole: device.buffer_on(Tier::Pinned, most)?,
            copies: device.buffer(most * shape.page_bytes() / 4)?,
            on_host: device.buffer_on(Tier::Pinned, most * shape.page_bytes() / 4)?,
            most,
        })
    }

    /// Returns the pages of the file that have changed.
    fn dirty_pages(&mut self, memory: &Memory) -> Result<BTreeSet<u64>> {
        let dirty = memory.dirty.global();
        let (list, count, grid) =
            (self.list.global(), self.count.global(), Grid::for_items(dirty.len(), THREADS));
        let mut found = [0];
        // SAFETY: a thread for each page; the buffers and the number outlive the wait.
        unsafe {
            self.stream.fill(count, 0)?;
            self.stream.launch(grid, PersistentListDirty { dirty, list, count })?;
            self.stream.download(&mut found, count)?;
        }
        self.stream.synchronize()?;
        // SAFETY: the stream has been waited for.
        let marks = unsafe { &mut pinned_words(&mut self.list)[..found[0] as usize] };
        Ok(marks.iter().map(|&mark| memory.shape.page_of_mark(mark as usize)).collect())
    }

    /// Copies pages, and waits.
    fn copy(&mut self, memory: &Memory, part: &Part) -> Result<()> {
        let (geometry, len) = (memory.shape.geometry, part.pages.len());
        let marks: usize = (0..part.above).map(|below| geometry.pages(below) as usize).sum();
        // SAFETY: no kernel runs on the copier's stream.
        let list = unsafe { &mut pinned_words(&mut self.list)[..len] };
        list.iter_mut().zip(&part.pages).for_each(|(to, page)| *to = (page - part.first) as u32);
        let pages = PageCopies {
            level: memory.levels[part.above as usize].global(),
            list: self.list.global().part(0, len),
            dirty: memory.dirty.global().part(marks, geometry.pages(part.above) as usize),
            words: (geometry.page_words(), geometry.bits_words()),
            copies: self.copies.global(),
            whole: self.whole.global(),
        };
        let (grid, words) = (Grid::new(len as u32, THREADS), len * geometry.page_words() as usize);
        // SAFETY: a block for each page; the buffers outlive the wait.
        unsafe {
            self.stream.launch(grid, PersistentCopyPages { pages })?;
            self.stream.copy(self.on_host.global().part(0, words), self.copies.global().part(0, words))?;
        }
        Ok(self.stream.synchronize()?)
    }

    /// Returns the pages of the part that was copied last whose copies are consistent: their numbers in the
    /// file, and their bytes.
    fn whole_pages(&mut self, part: &Part) -> Vec<(u64, &[u8])> {
        let (len, words_each) = (part.pages.len(), self.on_host.len() / self.most);
        // SAFETY: the stream has been waited for, and no kernel runs on it while the slices are borrowed.
        let (whole, copies) = unsafe { (pinned_words(&mut self.whole), pinned_words(&mut self.on_host)) };
        let pages = part.pages.iter().zip(copies[..len * words_each].chunks(words_each)).zip(&whole[..len]);
        let is_whole = pages.filter(|(_, whole)| **whole != 0);
        is_whole.map(|((&page, words), _)| (page, bytemuck::cast_slice(words))).collect()
    }
}
