//! The file of a map's shards: space that images take and give back.
//!
//! ```text
//! file    | image | image | free | image | ... |      each byte was written when the file was extended
//! ```
//!
//! # Full disks
//!
//! A file that is extended by its length alone has holes, and the disk may have no room for them. An access
//! to a hole through a mapping then ends the process by a signal. So the file is extended by writing: `write`
//! returns an error if the disk is full, the quota is used up, or the file would be too large. Later accesses
//! are to bytes that the disk has. (File systems that copy blocks when they are written, as btrfs does, may
//! still need room then. There, only staged files are safe: they are never mapped.)
//!
//! # Registration
//!
//! Each image is a mapping of its own, registered with the driver. If the driver refuses one, or the system
//! cannot map it, this image and all later ones are staged: the host reads and writes them.
use super::shard::clear;
use crate::map::parallel;
use crate::{Error, Result};
use gpu::{Buffer, Device};
use rayon::prelude::*;
use simt::GlobalSlice;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes by which images are aligned: a page.
const PAGE: u64 = 4096;
/// Bytes that a thread reads or writes at a time.
const GRAIN: usize = 4 << 20;

/// A file, and the space in it.
#[derive(Debug)]
pub struct ShardFile {
    file: File,
    path: PathBuf,
    device: Device,
    /// Whether the file has a name, which is then removed when the map is dropped.
    has_name: bool,
    space: Mutex<Space>,
}

/// Space of a file.
#[derive(Debug, Default)]
struct Space {
    len: u64,
    /// Free parts: first byte and size. No two of them are neighbours.
    free: BTreeMap<u64, u64>,
    /// Whether the host reads and writes new images.
    is_staged: bool,
}

impl Space {
    /// Takes the first free part that is large enough. Returns its first byte.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        let (&start, &size) = self.free.iter().find(|&(_, &size)| size >= bytes)?;
        self.free.remove(&start);
        if size > bytes {
            self.free.insert(start + bytes, size - bytes);
        }
        Some(start)
    }

    /// Makes a part free.
    fn give(&mut self, mut start: u64, mut bytes: u64) {
        if let Some(next) = self.free.remove(&(start + bytes)) {
            bytes += next;
        }
        if let Some((&before, &size)) = self.free.range(..start).next_back()
            && before + size == start
        {
            (start, bytes) = (before, size + bytes);
        }
        self.free.insert(start, bytes);
    }

    /// Returns the free bytes at the end of the file.
    fn tail(&self) -> u64 {
        let last = self.free.last_key_value().filter(|&(start, size)| start + size == self.len);
        last.map_or(0, |(_, size)| *size)
    }
}

/// A part of a file, free again when it is dropped.
#[derive(Debug)]
struct Extent {
    file: Arc<ShardFile>,
    start: u64,
    bytes: u64,
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.file.space().give(self.start, self.bytes);
    }
}

impl ShardFile {
    /// Creates a file. Its name is removed at once, if the system allows that for an open file: then the disk
    /// has its room again when the map is dropped or the process ends, in whatever way.
    pub fn create(path: &Path, device: &Device, is_staged: bool) -> Result<Arc<Self>> {
        let failed = |source| Error::ShardFile { doing: "creating", bytes: 0, path: path.to_owned(), source };
        let file = open_new(path).map_err(failed)?;
        let has_name = std::fs::remove_file(path).is_err();
        let space = Mutex::new(Space { is_staged, ..Space::default() });
        let (path, device) = (path.to_owned(), device.clone());
        let file = Arc::new(Self { file, path, device, has_name, space });
        if !is_staged {
            // Says whether the driver accepts the file.
            drop(file.image(1)?);
        }
        Ok(file)
    }

    // Each change of the space is complete, also if a thread panics.
    fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the host reads and writes new images.
    pub fn is_staged(&self) -> bool {
        self.space().is_staged
    }

    /// Returns the bytes of the file.
    pub fn len(&self) -> u64 {
        self.space().len
    }

    /// Returns a conversion to the error of an operation on `bytes` bytes.
    fn failed(&self, doing: &'static str, bytes: u64) -> impl Fn(io::Error) -> Error {
        move |source| Error::ShardFile { doing, bytes, path: self.path.clone(), source }
    }

    /// Returns an error if a test lets this access fail.
    fn begin(&self) -> io::Result<()> {
        match self.device.emulator_handle().is_some_and(|emulator| emulator.copy_fails()) {
            true => Err(io::Error::other("a test lets this access fail")),
            false => Ok(()),
        }
    }

    /// Takes space, and extends the file if it has too little. Returns whether all of its bytes are 0xff.
    fn take(self: &Arc<Self>, bytes: usize) -> Result<(Extent, bool)> {
        let bytes = (bytes.max(1) as u64).next_multiple_of(PAGE);
        let mut space = self.space();
        let (extent, mut is_new) = (|start| Extent { file: self.clone(), start, bytes }, false);
        if let Some(start) = space.take(bytes) {
            return Ok((extent(start), is_new));
        }
        let (len, more) = (space.len, bytes - space.tail());
        if let Err(source) = self.begin().and_then(|()| write_blank(&self.file, len, more)) {
            // Otherwise the bytes that were written would fill the disk for nothing.
            let _ = self.file.set_len(len);
            return Err(self.failed("extending by", more)(source));
        }
        is_new = more == bytes;
        space.len += more;
        space.give(len, more);
        let start = space.take(bytes).unwrap_or(len);
        Ok((extent(start), is_new))
    }

    /// Returns an image of `words` words, with arbitrary contents.
    pub fn image(self: &Arc<Self>, words: usize) -> Result<FileImage> {
        let (extent, _) = self.take(8 * words)?;
        self.mapped(extent, words)
    }

    /// Returns an image of an empty table.
    pub fn empty_image(self: &Arc<Self>, words: usize) -> Result<FileImage> {
        let (extent, is_empty) = self.take(8 * words)?;
        let mut image = self.mapped(extent, words)?;
        if !is_empty {
            image.clear()?;
        }
        Ok(image)
    }

    /// Maps a part of the file, unless it cannot be registered.
    fn mapped(self: &Arc<Self>, extent: Extent, words: usize) -> Result<FileImage> {
        use gpu::Error::{File, Register};
        if self.is_staged() {
            return Ok(FileImage { memory: None, words, extent });
        }
        // SAFETY: the file was created by this map, for its user only, and has no name: nothing else opens
        // it. The part belongs to this image, and starts at a page.
        let mapped = unsafe { self.device.map_file_at(&self.file, &self.path, extent.start, words) };
        let memory = match mapped {
            Ok(memory) => Some(memory),
            Err(Register { .. } | File { .. }) => {
                self.space().is_staged = true;
                None
            }
            Err(error) => return Err(error.into()),
        };
        Ok(FileImage { memory, words, extent })
    }
}

impl Drop for ShardFile {
    fn drop(&mut self) {
        if self.has_name {
            // Nobody is left who could be told that it stays.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// An image that is a part of a file.
#[derive(Debug)]
pub struct FileImage {
    /// The mapped part, unless it is staged. Dropped before the extent, which others may then take.
    memory: Option<Buffer<u64>>,
    words: usize,
    extent: Extent,
}

impl FileImage {
    /// Returns whether kernels cannot access the image.
    pub fn is_staged(&self) -> bool {
        self.memory.is_none()
    }

    /// Returns the number of words.
    pub fn len(&self) -> usize {
        self.words
    }

    /// Returns the words as kernels take them; nothing if the image is staged.
    pub fn words(&self) -> GlobalSlice<u64> {
        self.memory.as_ref().map_or_else(crate::map::launch::nothing, Buffer::global)
    }

    /// Returns the bytes of mapped memory.
    pub fn mapped_bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, Buffer::byte_len)
    }

    /// Copies the image to pinned memory, which has at least as many words.
    ///
    /// # Safety
    /// - No kernel and no copy uses the memory or changes the image.
    pub unsafe fn read(&self, to: &mut Buffer<u64>) -> Result<()> {
        let file = &self.extent.file;
        // SAFETY: the caller's obligations.
        let bytes = unsafe { bytes_of(to, self.words) };
        let part = |offset, part: &mut [u8]| read_at(&file.file, part, self.extent.start + offset);
        let read = file.begin().and_then(|()| in_parts(bytes, part));
        read.map_err(file.failed("reading", 8 * self.words as u64))
    }

    /// Replaces the image by a copy of pinned memory, which has at least as many words. On error, the
    /// contents are arbitrary.
    ///
    /// # Safety
    /// - No kernel and no copy uses the image or changes the memory.
    pub unsafe fn write(&mut self, from: &mut Buffer<u64>) -> Result<()> {
        let file = &self.extent.file;
        // SAFETY: the caller's obligations.
        let bytes = unsafe { bytes_of(from, self.words) };
        let part = |offset, part: &mut [u8]| write_at(&file.file, part, self.extent.start + offset);
        let written = file.begin().and_then(|()| in_parts(bytes, part));
        written.map_err(file.failed("writing", 8 * self.words as u64))
    }

    /// Writes an empty table. Nothing else may use the image. On error, the contents are arbitrary.
    pub fn clear(&mut self) -> Result<()> {
        let (file, bytes) = (&self.extent.file, 8 * self.words as u64);
        match &mut self.memory {
            Some(memory) => clear(memory.as_mut_slice()?),
            None => {
                let written = file.begin().and_then(|()| write_blank(&file.file, self.extent.start, bytes));
                written.map_err(file.failed("writing", bytes))?;
            }
        }
        Ok(())
    }
}

/// Returns the first words of pinned memory as bytes.
///
/// # Safety
/// - No kernel and no copy accesses the memory while the slice is used. It has at least `words` words.
unsafe fn bytes_of(memory: &mut Buffer<u64>, words: usize) -> &mut [u8] {
    let Some(host) = memory.host_pointer() else { return &mut [] };
    debug_assert!(words <= memory.len());
    // SAFETY: the host can access the words, and nothing else does (the caller's obligations).
    unsafe { std::slice::from_raw_parts_mut(host.cast().as_ptr(), 8 * words) }
}

/// Calls `run` for parts of the bytes and their offsets, by several threads.
fn in_parts(bytes: &mut [u8], run: impl Fn(u64, &mut [u8]) -> io::Result<()> + Sync) -> io::Result<()> {
    match parallel::pool(bytes.len()).filter(|_| bytes.len() > GRAIN) {
        Some(pool) => pool.install(|| {
            let parts = bytes.par_chunks_mut(GRAIN).enumerate();
            parts.try_for_each(|(index, part)| run((index * GRAIN) as u64, part))
        }),
        None => run(0, bytes),
    }
}

/// Writes `bytes` bytes of an empty table.
fn write_blank(file: &File, start: u64, bytes: u64) -> io::Result<()> {
    let blank = vec![0xff; bytes.min(GRAIN as u64) as usize];
    (0..bytes).step_by(GRAIN).try_for_each(|done| {
        let len = (bytes - done).min(GRAIN as u64) as usize;
        write_at(file, &blank[..len], start + done)
    })
}

/// Creates a file that only its user can open.
fn open_new(path: &Path) -> io::Result<File> {
    if path.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
    }
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.read(true).write(true).create_new(true).open(path)
}

/// Reads bytes from a place in a file.
#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

/// Writes bytes to a place in a file.
#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Locked between the choice of a place in a file and the access there.
#[cfg(not(unix))]
static PLACE: Mutex<()> = Mutex::new(());

/// Reads bytes from a place in a file.
#[cfg(not(unix))]
fn read_at(mut file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let _place = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
    io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
    io::Read::read_exact(&mut file, bytes)
}

/// Writes bytes to a place in a file.
#[cfg(not(unix))]
fn write_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let _place = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
    io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
    io::Write::write_all(&mut file, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_parts_are_joined_and_taken_again() {
        let mut space = Space { len: 100, ..Space::default() };
        space.give(0, 100);
        assert_eq!([10, 20, 30, 40].map(|bytes| space.take(bytes)), [Some(0), Some(10), Some(30), Some(60)]);
        assert_eq!((space.take(1), space.tail()), (None, 0));
        space.give(0, 10);
        space.give(60, 40);
        assert_eq!((space.take(41), space.tail()), (None, 40));
        space.give(10, 20); // joins the part before
        space.give(30, 30); // joins both neighbours
        assert_eq!(space.free, BTreeMap::from([(0, 100)]));
    }

    /// On tmpfs, which does not compress what is written.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_disk_has_every_byte_of_the_file() {
        let (device, shared) = (Device::emulator(Default::default()), Path::new("/dev/shm"));
        let Ok(folder) = tempfile::tempdir_in(shared) else { return };
        let file = ShardFile::create(&folder.path().join("shards"), &device, false).unwrap();
        let _image = file.image(100_000).unwrap();
        let metadata = file.file.metadata().unwrap();
        assert_eq!(metadata.len(), file.len());
        assert!(512 * std::os::unix::fs::MetadataExt::blocks(&metadata) >= file.len(), "it has no holes");
    }

    #[test]
    fn images_keep_what_was_written_and_give_their_space_back() {
        let (device, folder) = (Device::emulator(Default::default()), tempfile::tempdir().unwrap());
        let path = folder.path().join("shards");
        for is_staged in [false, true] {
            let file = ShardFile::create(&path, &device, is_staged).unwrap();
            assert!(!path.exists() && file.is_staged() == is_staged);
            let mut memory = device.buffer_on::<u64>(gpu::Tier::Pinned, 600).unwrap();
            let mut images = [0, 1].map(|_| file.empty_image(513).unwrap());
            assert_eq!(file.len(), 4 * PAGE);
            for (number, image) in images.iter_mut().enumerate() {
                // SAFETY: nothing else uses images and memory.
                unsafe { image.read(&mut memory).unwrap() };
                assert_eq!(memory.as_slice().unwrap()[..513], [u64::MAX; 513]);
                memory.as_mut_slice().unwrap().fill(number as u64);
                // SAFETY: as above.
                unsafe { image.write(&mut memory).unwrap() };
            }
            for (number, image) in images.iter().enumerate() {
                // SAFETY: as above.
                unsafe { image.read(&mut memory).unwrap() };
                assert_eq!(memory.as_slice().unwrap()[..513], [number as u64; 513]);
            }
            drop(images);
            let again = file.empty_image(600).unwrap();
            // SAFETY: as above.
            unsafe { again.read(&mut memory).unwrap() };
            assert_eq!(memory.as_slice().unwrap(), [u64::MAX; 600], "nothing is left of the old image");
            assert_eq!(file.len(), 4 * PAGE, "the free space suffices");
        }
    }
}
