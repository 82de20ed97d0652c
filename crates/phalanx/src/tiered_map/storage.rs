//! The host memory or the file in which a map keeps its shards.
use super::shard::Image;
use super::shard_file::ShardFile;
use crate::Result;
use gpu::{Device, Tier};
use std::path::PathBuf;
use std::sync::Arc;

/// Where a [`TieredMap`](super::TieredMap) keeps its shards. A map that fits its budget, and the baselines
/// [`Placement::Remote`](super::Placement::Remote) and [`Placement::Managed`](super::Placement::Managed), use
/// their own memory instead.
///
/// ```
/// use phalanx::TieredMap;
/// use phalanx::tiered_map::Storage;
///
/// let path = std::env::temp_dir().join(format!("tiered-map-{}", std::process::id()));
/// let builder = TieredMap::<u32, u32>::builder().capacity(1000).shards(4);
/// let map = builder.storage(Storage::StagedFile(path)).build()?;
/// assert!(map.insert(&[1, 2], &[10, 20])?.all_placed());
/// assert_eq!(map.get(&[2, 3])?, [Some(20), None]);
/// assert!(map.file_bytes() > 0 && map.traffic().file_written > 0);
/// # Ok::<(), phalanx::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Storage {
    /// Pinned host memory.
    #[default]
    Pinned,
    /// A new file at this path, which is mapped and registered with the driver, as pinned memory is. Its
    /// pages stay in host memory as long as the map lives. Drivers accept files on tmpfs (`/dev/shm`) and
    /// refuse most others; a file that is refused is used as [`Self::StagedFile`]. Then the bytes that are
    /// read and written are counted ([`Traffic`](super::Traffic)).
    File(PathBuf),
    /// A new file at this path, which the host reads and writes through pinned buffers of the size of a
    /// shard. The map may be larger than the host's memory. Operations on a shard are always executed on a
    /// copy of it, which is read from the file first, unless the device has it.
    StagedFile(PathBuf),
}

/// Where the memory of images comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Host memory of a tier.
    Memory(Tier),
    /// Parts of a file.
    File(Arc<ShardFile>),
}

impl Source {
    /// Returns the source of a storage; creates its file.
    pub fn open(storage: &Storage, device: &Device) -> Result<Self> {
        let file = |path, is_staged| Ok(Self::File(ShardFile::create(path, device, is_staged)?));
        match storage {
            Storage::Pinned => Ok(Self::Memory(Tier::Pinned)),
            Storage::File(path) => file(path, false),
            Storage::StagedFile(path) => file(path, true),
        }
    }

    /// Returns an error if the host is known to lack the memory for images of `bytes` bytes in all. Otherwise
    /// one allocation after the other would fill its memory before the last one fails.
    pub fn check_room(&self, bytes: usize) -> Result<()> {
        let (Self::Memory(tier @ Tier::Pinned), Some((free, total))) = (self, gpu::host_memory()) else {
            return Ok(());
        };
        match bytes > free {
            true => Err(gpu::Error::OutOfMemory { tier: *tier, bytes, free, total }.into()),
            false => Ok(()),
        }
    }

    /// Returns an image of `words` words, with arbitrary contents.
    pub fn image(&self, device: &Device, words: usize) -> Result<Image> {
        match self {
            Self::Memory(tier) => Ok(Image::Host(device.buffer_on(*tier, words)?)),
            Self::File(file) => Ok(Image::File(file.image(words)?)),
        }
    }

    /// Returns an image of an empty table.
    pub fn empty_image(&self, device: &Device, words: usize) -> Result<Image> {
        match self {
            Self::Memory(tier) => Image::empty_host(device, *tier, words),
            Self::File(file) => Ok(Image::File(file.empty_image(words)?)),
        }
    }

    /// Returns whether kernels cannot access new images.
    pub fn is_staged(&self) -> bool {
        matches!(self, Self::File(file) if file.is_staged())
    }

    /// Returns the bytes of the file, if there is one.
    pub fn file_bytes(&self) -> u64 {
        match self {
            Self::Memory(_) => 0,
            Self::File(file) => file.len(),
        }
    }
}
