//! The memory of a table: its levels, and what is rebuilt from them.
use super::cache::{Cache, CacheOptions};
use super::file::PersistentFile;
use super::kernels::Kind;
use crate::{Error, Result};
use gpu::{Buffer, Device, Tier};
use phalanx_kernels::persistent::{Config, Geometry, MOST_LEVELS, PersistentView};
use std::sync::Arc;

/// Parameters of a table that its image depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub kind: Kind,
    pub geometry: Geometry,
    pub seed: u64,
}

impl Shape {
    /// Returns the shape for keys and values of these sizes, without buckets.
    pub fn new(kind: Kind, value_bytes: usize, seed: u64) -> Self {
        let value_words = value_bytes as u32 / 4;
        // Items begin at multiples of 8 bytes, small ones at multiples of 16.
        let item_words = (2 * kind.key_words + value_words).next_multiple_of(2);
        let page_bytes = page_bytes(kind.slots, item_words);
        let stored = if kind.value_bytes > 0 { 0 } else { value_words };
        Self { kind, geometry: Geometry::new(page_bytes, (kind.slots, item_words), stored), seed }
    }

    /// Returns the shape with at least `slots` slots that items may take.
    pub fn with_slots(self, slots: usize) -> Result<Self> {
        let buckets = slots.div_ceil(self.kind.usable as usize);
        let first = buckets.div_ceil((1 << self.kind.levels) - 1).max(1);
        let shape = |first: u32| Self { geometry: self.geometry.with_first(first), ..self };
        let fits = u32::try_from(first).ok().map(shape).filter(|shape| shape.is_addressable());
        fits.ok_or(self.too_large(slots))
    }

    /// Returns the shape with a level more at the top, and without the lowest one.
    pub fn grown(self) -> Result<Self> {
        let lowest = self.geometry.lowest() + 1;
        let shape = Self { geometry: self.geometry.with_lowest(lowest), ..self };
        let fits = lowest < 31 && self.geometry.groups() < 1 << 30 && shape.is_addressable();
        if fits { Ok(shape) } else { Err(self.too_large(2 * self.slots())) }
    }

    fn too_large(self, asked: usize) -> Error {
        let all = (u32::MAX as usize >> self.kind.levels) * ((1 << self.kind.levels) - 1);
        let most = all / self.kind.slots as usize * self.kind.usable as usize;
        Error::TooLarge { what: "slots of a persistent map", asked, most }
    }

    /// Returns the smallest shape with more slots that items may take than `capacity`, with as many levels
    /// and higher ones.
    pub fn grown_beyond(self, capacity: usize) -> Result<Self> {
        let mut shape = self;
        while shape.capacity() <= capacity {
            shape = shape.grown().map_err(|error| match error {
                Error::TooLarge { what, asked, most } => {
                    Error::TooLarge { what, asked: asked.max(capacity), most }
                }
                error => error,
            })?;
        }
        Ok(shape)
    }

    /// Returns the number of levels of a smaller shape that are below the lowest one of this shape.
    pub fn levels_above(self, smaller: Self) -> usize {
        (self.geometry.lowest() - smaller.geometry.lowest()) as usize
    }

    /// Returns whether a position has 32 bits, with one to spare.
    pub fn is_addressable(self) -> bool {
        let Self { kind, geometry, .. } = self;
        let groups = u64::from(geometry.first()) << geometry.lowest();
        groups > 0 && (groups << kind.levels) * u64::from(kind.slots) <= u64::from(u32::MAX)
    }

    /// Returns the number of slots.
    pub fn slots(self) -> usize {
        (self.geometry.groups() as usize * ((1 << self.kind.levels) - 1)) * self.kind.slots as usize
    }

    /// Returns the number of slots that items may take.
    pub fn capacity(self) -> usize {
        self.slots() / self.kind.slots as usize * self.kind.usable as usize
    }

    /// Returns the words of a level's pages.
    pub fn level_words(self, above: u32) -> usize {
        self.geometry.pages(above) as usize * self.geometry.page_words() as usize
    }

    /// Returns the number of pages of all levels.
    pub fn pages(self) -> usize {
        (0..self.kind.levels).map(|above| self.geometry.pages(above) as usize).sum()
    }

    /// Returns the file's page that is the first one of a level.
    pub fn file_page(self, above: u32) -> u64 {
        let below = self.geometry.lowest() + above;
        (0..below).map(|level| u64::from(self.geometry.with_lowest(level).pages(0))).sum()
    }

    /// Returns the file's page of the mark with this number: marks are those of the levels in use, from the
    /// lowest one on.
    pub fn page_of_mark(self, mut mark: usize) -> u64 {
        let mut above = 0;
        while mark >= self.geometry.pages(above) as usize {
            mark -= self.geometry.pages(above) as usize;
            above += 1;
        }
        self.file_page(above) + mark as u64
    }

    /// Returns the bytes of a page.
    pub fn page_bytes(self) -> usize {
        4 * self.geometry.page_words() as usize
    }
}

/// Returns the size of pages for buckets of `slots` items: about 16 KiB, unless another size wastes less.
fn page_bytes(slots: u32, item_words: u32) -> u32 {
    let waste = |bytes: u32| {
        let geometry = Geometry::new(bytes, (slots, item_words), 0);
        let used = geometry.buckets_a_page() * slots * item_words * 4;
        // In thousandths.
        (bytes - used) * 1000 / bytes
    };
    let sizes = [16, 20, 24, 28, 32, 40, 48, 56, 64, 96, 128, 160].map(|kib: u32| kib << 10);
    let least = sizes.into_iter().map(waste).min().unwrap_or(0);
    sizes.into_iter().find(|&bytes| waste(bytes) <= least + 20).unwrap_or(16 << 10)
}

/// Buffers of a table.
#[derive(Debug)]
pub struct Memory {
    pub shape: Shape,
    /// The pages of the levels, from the lowest one on.
    pub levels: Vec<Arc<Buffer<u32>>>,
    pub(super) fingerprints: Buffer<u32>,
    pub(super) reserved: Buffer<u32>,
    /// A mark for each page, or none if nobody asks.
    pub dirty: Buffer<u32>,
    /// Whether the image is read after the process has died.
    is_shared: bool,
    /// Whether batches that change the table are refused: the file may have other levels than it.
    pub is_frozen: bool,
    pub cache: Option<Cache>,
}

impl Memory {
    /// Returns the memory of a table with these levels. [`Self::rebuild`] follows, unless they are zeros.
    pub fn new(
        device: &Device,
        shape: Shape,
        levels: Vec<Arc<Buffer<u32>>>,
        (has_file, cache): (bool, Option<CacheOptions>),
    ) -> Result<Self> {
        let Shape { kind, geometry, .. } = shape;
        let groups = geometry.groups() as usize;
        let is_shared = levels.iter().any(|level| level.tier() == Tier::File);
        Ok(Self {
            shape,
            levels,
            fingerprints: device.zeroed(groups * kind.group_words as usize)?,
            reserved: device.zeroed(if kind.reserves { groups << kind.levels } else { 0 })?,
            dirty: device.zeroed(if has_file { shape.pages() } else { 0 })?,
            is_shared,
            is_frozen: false,
            cache: cache.map(|options| Cache::new(device, shape, options)).transpose()?,
        })
    }

    /// Allocates a level, whose pages are zeros.
    pub fn new_level(device: &Device, tier: Tier, words: usize) -> Result<Buffer<u32>> {
        let mut level = device.buffer_on(tier, words)?;
        level.fill_bytes(0)?;
        Ok(level)
    }

    /// Maps the part of a file's working region that has a level.
    pub fn map_level(
        device: &Device,
        file: &PersistentFile,
        shape: Shape,
        above: u32,
    ) -> Result<Buffer<u32>> {
        let (page, page_bytes) = (shape.file_page(above), shape.page_bytes() as u64);
        let bytes = u64::from(shape.geometry.pages(above)) * page_bytes;
        let holds = |region: &&super::file::Region| {
            region.page <= page && (page - region.page) * page_bytes + bytes <= region.bytes
        };
        let regions = file.working();
        let Some(region) = regions.iter().find(holds) else {
            let text = "the header of a persistent map is damaged: no part of the file has level";
            return Err(Error::Format(format!("{text} {above}")));
        };
        let offset = region.offset + (page - region.page) * page_bytes;
        // SAFETY: the file is locked, and its pages of this level are accessed only through this mapping.
        // Offsets are multiples of 4096.
        Ok(unsafe { device.map_file_at(file.handle(), file.path(), offset, shape.level_words(above))? })
    }

    /// Returns whether the image is read after the process has died.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> usize {
        self.shape.slots()
    }

    /// Returns the bytes of device memory.
    pub fn memory_usage(&self) -> usize {
        let levels = self.levels.iter().filter(|level| !level.tier().is_host_visible());
        let levels: usize = levels.map(|level| level.byte_len()).sum();
        let cache = self.cache.as_ref().map_or(0, Cache::memory_usage);
        levels + self.fingerprints.byte_len() + self.reserved.byte_len() + self.dirty.byte_len() + cache
    }

    /// Returns the bytes of pinned or mapped host memory.
    pub fn host_memory_usage(&self) -> usize {
        self.levels.iter().filter(|level| level.tier().is_host_visible()).map(|level| level.byte_len()).sum()
    }

    /// Returns the table as kernels of the kind `C` take it.
    ///
    /// # Safety
    /// - The memory is not dropped while the view is used.
    pub unsafe fn view<C: Config>(&self) -> PersistentView<C> {
        let mut levels = [self.levels[0].pointer(); MOST_LEVELS];
        levels.iter_mut().zip(&self.levels).for_each(|(to, level)| *to = level.pointer());
        let Shape { geometry, seed, .. } = self.shape;
        // SAFETY: the buffers have the sizes that the geometry requires, and only kernels of this kind write
        // to them.
        let view = unsafe { PersistentView::new(levels, self.fingerprints.pointer(), geometry, seed) };
        let view = view.with_pages(self.dirty.global(), self.is_shared);
        let view = view.with_reserved(self.reserved.global());
        match &self.cache {
            // SAFETY: as above.
            Some(cache) => unsafe { view.with_cache(cache.view()) },
            None => view,
        }
    }

    /// Takes over the marks of a smaller table, which has not changed, for the levels that both have.
    pub fn copy_marks(&mut self, from: &Memory) -> Result<()> {
        let marks = from.dirty.read()?;
        let left = (self.shape.levels_above(from.shape) as u32).min(from.shape.kind.levels);
        let before: usize = (0..left).map(|above| from.shape.geometry.pages(above) as usize).sum();
        Ok(self.dirty.write_at(0, marks.get(before..).unwrap_or(&[]))?)
    }

    /// Empties the table. Nothing runs on it.
    ///
    /// The simple solution fills the levels with zeros. But if the process dies meanwhile, a part of an item
    /// may be 0 whose bit is still set. So the items stay where a file may be read after that.
    pub fn clear(&mut self) -> Result<()> {
        let geometry = self.shape.geometry;
        let (page_words, bits_words) = (geometry.page_words() as usize, geometry.bits_words() as usize);
        for level in &mut self.levels {
            // The old memory of a table that has grown, which shared the levels, is gone.
            let level = Arc::get_mut(level).ok_or(Error::Invalid("a level is in use".to_owned()))?;
            if level.tier().is_host_visible() {
                level.as_mut_slice()?.chunks_mut(page_words).for_each(|page| page[..bits_words].fill(0));
            } else {
                level.fill_bytes(0)?;
            }
        }
        self.fingerprints.fill_bytes(0)?;
        self.reserved.fill_bytes(0)?;
        self.cache.as_mut().map_or(Ok(()), Cache::clear)?;
        Ok(self.dirty.fill_bytes(1)?)
    }
}
