//! The file of a persistent map: an image of pages, of which each sync makes the changed ones a new *epoch*.
//!
//! `geometry.rs` has a picture of the file, `superblock.rs` its root, `table.rs` the page table, and
//! `commit.rs` the order of writes, with the reasons. `volume.rs` reads and grows. All of these work on any
//! [`BlockDevice`]; this module adds the file system: names, locks, and paths in errors.
//!
//! # Users of a file
//!
//! A file has one user at a time: an exclusive advisory lock of the operating system, which ends with the
//! process. A block of the file names the process, for messages only.
mod check;
mod commit;
mod device;
mod fault;
mod geometry;
mod holder;
mod open;
mod superblock;
mod system;
mod table;
#[cfg(test)]
mod tests;
mod volume;

use crate::{Error, Result};
pub use check::{Report, check_file};
pub use commit::Commit;
pub use device::BlockDevice;
pub use fault::FileFault;
pub use geometry::Region;
use std::fs::File;
use std::path::{Path, PathBuf};
pub use superblock::{LayoutId, Working};
pub use system::boot_id;
pub use volume::Volume;

/// Number of a sync. The first one returns 1; 0 is the empty file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// How a file is created or opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes in a page: a multiple of 4096, at most 16 MiB.
    pub page_bytes: u64,
    /// Number of pages of a new file. `open` ignores it.
    pub pages: u64,
    /// Whether a new file has a working region. `open` ignores it.
    pub has_working: bool,
    /// Layout and types. `open` refuses a file with others.
    pub layout: LayoutId,
    /// UUID of the device that accesses the working region. `open` refuses the file of another one.
    pub owner: [u8; 16],
    /// Whether `open` makes `owner` the owner of a file that another device owns.
    pub adopt: bool,
    /// The structure's header in a new file, at most [`HEADER`] bytes. Each sync replaces it.
    pub header: Vec<u8>,
    /// Id of the current run of the operating system, normally [`boot_id`].
    pub boot: Option<[u8; 16]>,
}

/// Epoch and header of an opened file, and the place of its newest contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The last epoch.
    pub epoch: Epoch,
    /// Where the newest contents are.
    pub source: Source,
    /// The structure's header of the last epoch.
    pub header: Vec<u8>,
    /// Number of the superblock that was damaged, if one was: torn when power was lost in a sync, or changed
    /// later. It has been repaired.
    pub damaged_superblock: Option<usize>,
}

/// Where the newest contents of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the last epoch. The working region is arbitrary.
    Epoch,
    /// In the working region: the process that used it has ended, but the operating system has not.
    Working {
        /// Whether the process closed it: no operation was in progress.
        is_closed: bool,
    },
}

/// The file of a persistent map. See the module's documentation.
///
/// # Concurrency
/// Calls that change the file take `&mut self`. Dropping the file unlocks it.
#[derive(Debug)]
pub struct PersistentFile {
    volume: Volume<File>,
    path: PathBuf,
}

impl PersistentFile {
    fn named<T>(path: &Path, result: Result<T, FileFault>) -> Result<T> {
        result.map_err(|fault| Error::PersistentFile { path: path.to_owned(), fault })
    }

    /// Creates a file, with the room that it needs, and locks it. All pages are zeros. The path names the
    /// file once it is complete: of several processes that create it at once, one succeeds.
    ///
    /// # Errors
    /// [`Error::PersistentFile`]: the path exists, the folder cannot be written, the disk is full, or a
    /// parameter is out of bounds.
    pub fn create(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let path = path.as_ref();
        let volume = Self::named(path, open::create(path, options))?;
        Ok(Self { volume, path: absolute(path) })
    }

    /// Opens and locks a file. Verifies its superblocks and its page table, but no page: [`Self::load`] does.
    ///
    /// # Errors
    /// [`Error::PersistentFile`]: each fault of [`FileFault`], except `Exists`, `Page` and `Uncertain`.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<(Self, Contents)> {
        let path = path.as_ref();
        let (volume, contents) = Self::named(path, open::open(path, options))?;
        Ok((Self { volume, path: absolute(path) }, contents))
    }

    /// Opens a file, or creates it if the path names none. Then the contents are those of epoch 0.
    ///
    /// # Errors
    /// As [`Self::open`] and [`Self::create`].
    pub fn open_or_create(path: impl AsRef<Path>, options: &Options) -> Result<(Self, Contents)> {
        let path = path.as_ref();
        let (volume, contents) = Self::named(path, open::open_or_create(path, options))?;
        Ok((Self { volume, path: absolute(path) }, contents))
    }

    /// Returns the path of the file, absolute and without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open file, whose working regions [`gpu::Device::map_file_at`] maps.
    pub fn handle(&self) -> &File {
        &self.volume.device
    }

    /// Returns the last epoch.
    pub fn epoch(&self) -> Epoch {
        self.volume.epoch()
    }

    /// Returns the number of pages, with those of [`Self::grow`].
    pub fn pages(&self) -> u64 {
        self.volume.geometry.pages()
    }

    /// Returns the bytes in a page.
    pub fn page_bytes(&self) -> u64 {
        self.volume.geometry.page_bytes
    }

    /// Returns the bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.volume.geometry.end()
    }

    /// Returns the structure's header of the last epoch.
    pub fn header(&self) -> &[u8] {
        &self.volume.current.header
    }

    /// Returns the parts of the working region in the order of their pages: one for the creation of the file,
    /// and one for each [`Self::grow`]. Returns none if the file has no working region.
    pub fn working(&self) -> Vec<Region> {
        self.volume.geometry.working()
    }

    /// Records the state of the working region. Record `InUse` once the region has the contents of the last
    /// epoch or newer ones, and before the first operation; `Closed` after the last one; `Unused` if it is
    /// not to be used again. Costs two syncs of the disk.
    ///
    /// # Errors
    /// [`Error::PersistentFile`] as [`Self::commit`].
    pub fn set_working(&mut self, working: Working) -> Result<()> {
        Self::named(&self.path, self.volume.set_working(working))
    }

    /// Records the device that owns the file from then on. Costs two syncs of the disk if it is another one.
    ///
    /// # Errors
    /// [`Error::PersistentFile`] as [`Self::commit`].
    pub fn set_owner(&mut self, owner: [u8; 16]) -> Result<()> {
        Self::named(&self.path, self.volume.set_owner(owner))
    }

    /// Returns an error if the host is known to lack the memory for this number of pages.
    ///
    /// # Errors
    /// [`Error::PersistentFile`] with [`FileFault::Memory`].
    pub fn check_memory(&self, pages: u64) -> Result<()> {
        let bytes = pages * self.page_bytes();
        Self::named(&self.path, volume::check_memory(bytes, volume::free_memory()))
    }

    /// Reads pages of the last epoch, from page `first` on, as many as `bytes` has. Verifies their checksums,
    /// by several threads. Pages that were never written are zeros.
    ///
    /// # Errors
    /// [`Error::PersistentFile`]: a page is damaged or cannot be read, or there are fewer pages. The contents
    /// of `bytes` are then arbitrary.
    pub fn load(&self, first: u64, bytes: &mut [u8]) -> Result<()> {
        Self::named(&self.path, self.volume.load(first, bytes))
    }

    /// Returns whether the last epoch has these contents of a page, by its checksum.
    pub fn is_current(&self, page: u64, bytes: &[u8]) -> bool {
        self.volume.is_current(page, bytes)
    }

    /// Begins a sync whose pages are written one after the other by [`Commit::write`]. The errors of `Commit`
    /// have no path: [`Self::named_error`] adds it.
    ///
    /// # Errors
    /// [`Error::PersistentFile`]: the file was truncated or removed, or an earlier sync failed.
    pub fn begin(&mut self) -> Result<Commit<'_, File>> {
        if system::is_removed(self.handle()) {
            return Err(Self::named_error(&self.path, FileFault::Replaced));
        }
        Self::named(&self.path, self.volume.begin())
    }

    /// Returns a fault of this file as an error.
    pub fn named_error(path: &Path, fault: FileFault) -> Error {
        Error::PersistentFile { path: path.to_owned(), fault }
    }

    /// Makes the pages, each with its number, and the header the contents of a new epoch, beside the pages
    /// that stay. Returns when the epoch survives loss of power. On error, the last epoch stays, and the
    /// pages must be part of the next sync.
    ///
    /// # Errors
    /// [`Error::PersistentFile`]: a write failed, a page or the header is out of bounds, or the file was
    /// truncated. If [`FileFault::Uncertain`] follows, the file must be opened again.
    pub fn commit<'a>(
        &mut self,
        pages: impl IntoIterator<Item = (u64, &'a [u8])>,
        header: &[u8],
    ) -> Result<Epoch> {
        Self::named(&self.path, self.volume.commit(pages, header))
    }

    /// Adds pages, which are zeros, with the room that they need. The file has them once the next sync
    /// returns. The working region gets a part of its own, with arbitrary contents.
    ///
    /// # Errors
    /// [`Error::PersistentFile`]: the disk is full, or the file has grown 63 times. It is then unchanged.
    pub fn grow(&mut self, pages: u64) -> Result<()> {
        Self::named(&self.path, self.volume.grow(pages))
    }

    /// Creates a file beside this one, under a name that no other process uses and with the same permissions:
    /// for structures that are written anew, before [`Self::take_path`].
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_beside(&self, options: &Options) -> Result<Self> {
        let path = open::temporary(&self.path);
        let volume = Self::named(&self.path, open::create(&path, options))?;
        let file = Self { volume, path };
        if let Err(fault) = open::copy_access(self.handle(), file.handle()) {
            // This call has created the file, and nobody uses it.
            let _ = std::fs::remove_file(&file.path);
            return Err(Self::named_error(&self.path, fault));
        }
        Ok(file)
    }

    /// Makes this file the one at the path of `old`. Both must be in the same folder. After loss of power,
    /// either of them has the path, until [`Self::sync_path`] returns.
    ///
    /// # Errors
    /// [`Error::PersistentFile`]: the path no longer names `old`, or the name cannot be changed. `old` then
    /// stays.
    pub fn take_path(&mut self, old: &Self) -> Result<()> {
        Self::named(&old.path, open::replace(&self.path, (old.handle(), &old.path)))?;
        self.path.clone_from(&old.path);
        Ok(())
    }

    /// Makes the file's name survive loss of power.
    ///
    /// # Errors
    /// [`Error::PersistentFile`]: the folder cannot be synced.
    pub fn sync_path(&self) -> Result<()> {
        Self::named(&self.path, open::sync_folder(&self.path))
    }
}

impl Drop for PersistentFile {
    fn drop(&mut self) {
        // The name of the process serves messages only. A file that was truncated stays as it is.
        if self.handle().metadata().is_ok_and(|metadata| metadata.len() >= geometry::HEAD) {
            let _ = holder::clear(self.handle());
        }
    }
}

/// Returns the path of a file that exists, absolute and without links, so that a later change of the current
/// folder or of a link does not matter. If the system does not tell, returns the path as it is.
fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
