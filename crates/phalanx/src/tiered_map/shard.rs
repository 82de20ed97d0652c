//! A shard: one table of a hash map, whose memory is one block that is copied as a whole.
//!
//! ```text
//! image   | buckets, overflow buckets | filters |        no counters: they are the host's numbers
//! ```
use super::ledger::Metered;
use super::shard_file::FileImage;
use super::storage::Source;
use crate::Result;
use crate::hash_map::kernels::Kernels;
use crate::hash_map::table::{RawTable, bucket_count};
use crate::map::counts::Counts;
use crate::map::launch::nothing;
use crate::map::parallel;
use gpu::{Buffer, Device, Tier};
use phalanx_kernels::hash_map::OVERFLOW_BUCKETS;
use simt::GlobalSlice;

/// Words by which the filters are aligned: 128 bytes.
const ALIGNMENT: usize = 16;

/// Size of a shard's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Number of buckets, without the overflow buckets.
    count: u32,
    /// Number of slots, without those of the overflow buckets.
    pub slots: usize,
    /// First word of the filters.
    filters_at: usize,
    /// Words of 8 bytes.
    pub words: usize,
}

impl Size {
    /// Returns the size of a table with at least `slots` slots.
    pub fn of<K, V>(kernels: &dyn Kernels<K, V>, slots: usize) -> Result<Self> {
        let shape = kernels.shape();
        let count = bucket_count(shape, slots)?;
        let buckets = (count + OVERFLOW_BUCKETS) as usize * shape.bucket_bytes / 8;
        let filters_at = buckets.next_multiple_of(ALIGNMENT);
        let words = filters_at + kernels.filter_words(count).max(1).div_ceil(2);
        let slots = count as usize * shape.slots;
        Ok(Self { count, slots, filters_at, words: words.next_multiple_of(ALIGNMENT) })
    }

    /// Returns the bytes of the image.
    pub fn byte_len(self) -> usize {
        8 * self.words
    }

    /// Returns the table whose image is at `memory`.
    pub fn raw(self, memory: *mut u64, counters: *mut u64, (max_probes, seed): (u32, u64)) -> RawTable {
        let filters = memory.wrapping_add(self.filters_at).cast();
        RawTable { buckets: memory, filters, counters, count: self.count, max_probes, seed }
    }
}

/// Memory of a shard's table.
#[derive(Debug)]
pub enum Image {
    /// Host memory that kernels access in place, or that migrates.
    Host(Buffer<u64>),
    /// A part of a file.
    File(FileImage),
    /// Device memory of the budget.
    Device(Metered<Buffer<u64>>),
    /// An empty shard that has no memory yet.
    Blank,
}

impl Image {
    /// Allocates an empty table in host memory.
    pub fn empty_host(device: &Device, tier: Tier, words: usize) -> Result<Self> {
        let mut memory = device.buffer_on(tier, words)?;
        clear(memory.as_mut_slice()?);
        Ok(Self::Host(memory))
    }

    /// Returns the words as kernels take them; nothing if they cannot access the image.
    pub fn words(&self) -> GlobalSlice<u64> {
        match self {
            Self::Host(memory) => memory.global(),
            Self::File(image) => image.words(),
            Self::Device(memory) => memory.global(),
            Self::Blank => nothing(),
        }
    }

    /// Returns the number of words.
    pub fn len(&self) -> usize {
        match self {
            Self::Host(memory) => memory.len(),
            Self::File(image) => image.len(),
            Self::Device(memory) => memory.len(),
            Self::Blank => 0,
        }
    }

    /// Returns the bytes of host memory, among them those of mapped files.
    pub fn host_bytes(&self) -> usize {
        match self {
            Self::Host(memory) => memory.byte_len(),
            Self::File(image) => image.mapped_bytes(),
            Self::Device(_) | Self::Blank => 0,
        }
    }

    /// Returns the part of a file that kernels cannot access, if the image is one.
    pub fn staged(&self) -> Option<&FileImage> {
        match self {
            Self::File(image) if image.is_staged() => Some(image),
            _ => None,
        }
    }

    /// Removes all pairs. Nothing else may use the memory. A staged image gives its space back, so that
    /// nothing is written.
    pub fn clear(&mut self) -> Result<()> {
        if self.staged().is_some() {
            *self = Self::Blank;
        }
        match self {
            Self::Host(memory) => clear(memory.as_mut_slice()?),
            Self::File(image) => image.clear()?,
            Self::Device(memory) => memory.fill_bytes(0xff)?,
            Self::Blank => {}
        }
        Ok(())
    }
}

/// Writes an empty table.
pub fn clear(words: &mut [u64]) {
    parallel::for_each(words, |word| *word = u64::MAX);
}

/// A shard, and its counts at the end of the last batch.
#[derive(Debug)]
pub struct Shard<Z = Size> {
    pub image: Image,
    pub size: Z,
    pub counts: Counts,
    /// Counter of long probe sequences when the table was created.
    pub long: usize,
}

impl<Z> Shard<Z> {
    /// Returns a shard with an empty image.
    pub fn new(image: Image, size: Z) -> Self {
        Self { image, size, counts: Counts::default(), long: 0 }
    }

    /// Returns whether the shard is empty and has no memory.
    pub fn is_blank(&self) -> bool {
        matches!(self.image, Image::Blank)
    }
}

impl Shard {
    /// Returns whether removals have made probe sequences long.
    pub fn needs_rehash(&self) -> bool {
        self.counts.long > self.long && self.counts.removed() > 0
    }
}

/// Images to which changed shards are written back. An image that was written takes the place of the shard's
/// old one, so a copy that fails leaves the shard as it was.
#[derive(Debug)]
pub struct Spares {
    images: Vec<Image>,
    /// Maximum number of spare images.
    most: usize,
    source: Source,
}

impl Spares {
    /// Returns no images, of which 8 will be kept.
    pub fn new(source: Source) -> Self {
        Self { images: Vec::new(), most: 8, source }
    }

    /// Returns no images, of which any number will be kept.
    pub fn without_limit(source: Source) -> Self {
        Self { images: Vec::new(), most: usize::MAX, source }
    }

    /// Returns where images come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Frees all images.
    pub fn clear(&mut self) {
        self.images.clear();
    }

    /// Returns an image of `words` words, with arbitrary contents.
    pub fn take(&mut self, device: &Device, words: usize) -> Result<Image> {
        match self.images.iter().rposition(|spare| spare.len() == words) {
            Some(place) => Ok(self.images.swap_remove(place)),
            None => self.source.image(device, words),
        }
    }

    /// Takes images and puts them back, so that the disk has room for them.
    pub fn reserve(&mut self, device: &Device, (many, words): (usize, usize)) -> Result<()> {
        let images: Vec<Image> =
            (0..many).map(|_| self.source.image(device, words)).collect::<Result<_>>()?;
        images.into_iter().for_each(|image| self.put(image));
        Ok(())
    }

    /// Keeps an image for later. The file of a staged one keeps its space.
    pub fn put(&mut self, image: Image) {
        let is_kept = matches!(&image, Image::Host(_) | Image::File(_)) && image.staged().is_none();
        if is_kept {
            if self.images.len() == self.most {
                self.images.remove(0);
            }
            self.images.push(image);
        }
    }

    /// Returns the bytes of host memory.
    pub fn byte_len(&self) -> usize {
        self.images.iter().map(Image::host_bytes).sum()
    }
}
