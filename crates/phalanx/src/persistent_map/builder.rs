//! Options of persistent maps, and where their images lie.
use super::cache::{CacheOptions, CachePolicy, CacheSize};
use super::file::{self, Contents, FileFault, LayoutId, PersistentFile, Source, Working};
use super::kernels::{Kernels, Kind, select};
use super::load::load;
use super::memory::{Memory, Shape};
use super::{Backing, Durability, PersistentMap, Plain, Storage};
use crate::map::random_seed;
use crate::{Error, Result, program};
use gpu::{Buffer, Device, Tier};
use std::any::type_name;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

/// Options of a [`PersistentMap`]; created by [`PersistentMap::builder`].
///
/// ```
/// use phalanx::PersistentMap;
/// use phalanx::persistent_map::Storage;
///
/// let map = PersistentMap::<u64, [f32; 8]>::builder()
///     .capacity(1000)
///     .storage(Storage::Pinned)
///     .grows(false)
///     .seed(42)
///     .device(&phalanx::Device::from_environment()?)
///     .variant("levels_2l2h8s1w_k8")
///     .build()?;
/// assert!(map.capacity() >= 1000 && map.path().is_none());
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::PersistentMap;
/// use phalanx::persistent_map::Durability;
///
/// let path = std::env::temp_dir().join(format!("phalanx-builder-{}", std::process::id()));
/// let builder = || PersistentMap::<u64, u64>::builder().durability(Durability::Machine);
/// drop(builder().create(&path)?);
/// drop(builder().open(&path)?);
/// drop(builder().open_or_create(&path)?);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::PersistentMap;
/// use phalanx::persistent_map::{CachePolicy, CacheSize, Storage};
///
/// let map = PersistentMap::<u64, u64>::builder()
///     .storage(Storage::Pinned)
///     .cache(CachePolicy::Lru, CacheSize::Bytes(1 << 20))
///     .refresh_every(10)
///     .counts_cache_hits(true)
///     .build()?;
/// assert!(map.stats()?.cache.is_some());
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `build` and `create` allocate the map's memory and fill it with zeros; `create` also allocates a file of
/// two or three times the size of the image. `open` reads the last epoch and verifies its checksums, unless
/// the mapped part is newer, and launches two kernels that rebuild the fingerprints. `open_or_create` does
/// what one of the two does. The other calls set options.
#[derive(Debug)]
pub struct Builder<K, V> {
    capacity: usize,
    storage: Storage,
    durability: Durability,
    grows: bool,
    adopts: bool,
    seed: Option<u64>,
    device: Option<Device>,
    variant: Option<String>,
    cache: Option<(CachePolicy, CacheSize)>,
    refresh_every: u32,
    counts_cache_hits: bool,
    of: PhantomData<fn() -> (K, V)>,
}

/// Why a map has no use for a cache.
const NO_CACHE_NEEDED: &str = "the image is in device memory itself; leave the cache out, or choose \
    `Storage::Pinned` or `Durability::Process`";

/// Returns the share of the slots that pairs may take which they fill in a new map, in hundredths. Fewer keys
/// find a slot where updates need a spare one.
pub(super) fn fill(kind: Kind) -> usize {
    if kind.usable < kind.slots { 85 } else { 90 }
}

/// Returns the error for room for more keys than a map can have.
pub(super) fn too_many_keys(asked: usize, most: usize) -> Error {
    Error::TooLarge { what: "keys of a persistent map", asked, most }
}

impl<K: Plain, V: Plain> Builder<K, V> {
    pub(super) fn new() -> Self {
        Self {
            capacity: 1000,
            storage: Storage::Device,
            durability: Durability::Machine,
            grows: true,
            adopts: false,
            seed: None,
            device: None,
            variant: None,
            cache: None,
            refresh_every: 0,
            counts_cache_hits: false,
            of: PhantomData,
        }
    }

    /// Sets the number of keys for which a new map has room before it grows. Default: 1000. `open` ignores
    /// it.
    pub fn capacity(mut self, keys: usize) -> Self {
        self.capacity = keys;
        self
    }

    /// Sets where the image lies. Default: [`Storage::Device`]. Without effect with [`Durability::Process`]:
    /// the image is a part of the file then.
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// Sets the events that a map in a file survives. Default: [`Durability::Machine`]. A map without a file
    /// ends with the process.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets whether insertions of host slices grow the map if a key finds no slot. Default: `true`.
    pub fn grows(mut self, grows: bool) -> Self {
        self.grows = grows;
        self
    }

    /// Sets whether `open` takes over a file with the UUID of another GPU. Default: `false`, such a file is
    /// refused with [`FileFault::OtherDevice`](super::FileFault::OtherDevice). With `true`, the file belongs
    /// to this GPU from then on. The file of an emulated device belongs to all emulated devices.
    ///
    /// ```
    /// let map = phalanx::PersistentMap::<u64, u64>::builder().adopt(true).build()?;
    /// assert!(map.is_empty()?);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn adopt(mut self, adopts: bool) -> Self {
        self.adopts = adopts;
        self
    }

    /// Sets the seed of a new map's hash function. Default: a random one.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the device. Default: that of [`Device::from_environment`].
    pub fn device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// Selects the kernels by their name. Default: the first of [`PersistentMap::variants`], which stays the
    /// default. Kernels that open a file must be those that created it, except that the number of lanes may
    /// differ: `levels_2l2h8s4w_k8_v8` opens the files of `levels_2l2h8s1w_k8_v8`.
    pub fn variant(mut self, name: &str) -> Self {
        self.variant = Some(name.to_owned());
        self
    }

    /// Keeps copies of a part of the pairs in device memory, for a map whose image is in host memory
    /// ([`Storage::Pinned`], [`Durability::Process`]). The cache is empty until it is refreshed:
    /// [`refresh_cache`](PersistentMap::refresh_cache), [`Self::refresh_every`]. Default: no cache.
    pub fn cache(mut self, policy: CachePolicy, size: CacheSize) -> Self {
        self.cache = Some((policy, size));
        self
    }

    /// Refreshes the cache each time that this number of batches of lookups has been submitted. Default: 0,
    /// only [`refresh_cache`](PersistentMap::refresh_cache) does. Without effect on a map without a cache.
    pub fn refresh_every(mut self, batches: u32) -> Self {
        self.refresh_every = batches;
        self
    }

    /// Sets whether lookups count hits and misses of the cache, for [`PersistentMap::stats`]. Default:
    /// `false`, since it costs an atomic for each lookup that finds its key.
    pub fn counts_cache_hits(mut self, counts: bool) -> Self {
        self.counts_cache_hits = counts;
        self
    }

    /// Builds a map without a file.
    ///
    /// # Errors
    /// [`Error::ZeroCapacity`]; [`Error::TooLarge`] if there are too many slots: with two levels, more than
    /// 3 * 2^30; [`Error::ItemBytes`] if keys or values have an unsupported size; [`Error::UnknownVariant`];
    /// [`Error::Cache`] if the map cannot have the cache; [`Error::Device`] if there is no device, or it
    /// lacks the memory.
    pub fn build(self) -> Result<PersistentMap<K, V>> {
        if self.cache.is_some() && self.storage == Storage::Device {
            return Err(Error::Cache(NO_CACHE_NEEDED.to_owned()));
        }
        let (device, kernels) = self.begin()?;
        let shape = self.new_shape(kernels)?;
        let levels = self.levels(&device, shape, false)?.into_iter().map(Arc::new).collect();
        let cache = self.cache_options();
        let memory = Memory::new(&device, shape, levels, (false, cache))?;
        Ok(PersistentMap::new(device, kernels, memory, None, (self.grows, self.tier(), cache)))
    }

    /// Creates a file for an empty map. The file has room for the image twice, and with
    /// [`Durability::Process`] three times.
    ///
    /// # Errors
    /// As [`Self::build`]; [`Error::PersistentFile`] if the path exists, the folder cannot be written or the
    /// disk is full; [`Error::Durability`] if the driver does not register a mapping of the file. A file that
    /// this call has created is removed then.
    pub fn create(self, path: impl AsRef<Path>) -> Result<PersistentMap<K, V>> {
        let (device, kernels) = self.begin()?;
        let shape = self.new_shape(kernels)?;
        let options = self.options(&device, shape);
        if options.has_working && options.boot.is_none() {
            return Err(PersistentFile::named_error(path.as_ref(), FileFault::BootId));
        }
        let file = PersistentFile::create(&path, &options)?;
        let (path, lock) = (file.path().to_owned(), file.handle().try_clone());
        let created = self.attach(&device, kernels, shape, file, None);
        if created.is_err() {
            // The file is ours, empty, and still locked.
            let _ = std::fs::remove_file(path);
        }
        drop(lock);
        created
    }

    /// Opens a file. With [`Durability::Process`], the map has the changes of all batches that had completed
    /// when the process ended, if the operating system has not been restarted since; otherwise those of the
    /// last [`sync`](PersistentMap::sync).
    ///
    /// # Errors
    /// As [`Self::build`]; [`Error::PersistentFile`] if the file is missing, in use, damaged, or of another
    /// type, layout, version or owner; [`Error::Durability`] if the file does not offer the durability of
    /// this builder; [`Error::Format`] if the map's header is damaged; [`Error::Invalid`] if an item is in no
    /// bucket of its key.
    pub fn open(self, path: impl AsRef<Path>) -> Result<PersistentMap<K, V>> {
        let (device, kernels) = self.begin()?;
        let shape = Shape::new(kernels.kind(), size_of::<V>(), 0);
        let (file, contents) = PersistentFile::open(path, &self.options(&device, shape))?;
        let shape = header::decode(shape, &contents.header)?;
        self.attach(&device, kernels, shape, file, Some(contents))
    }

    /// Opens a file, or creates it if there is none.
    ///
    /// # Errors
    /// As [`Self::create`] and [`Self::open`], except that a file that this call has created remains.
    pub fn open_or_create(self, path: impl AsRef<Path>) -> Result<PersistentMap<K, V>> {
        let (device, kernels) = self.begin()?;
        let shape = self.new_shape(kernels)?;
        let (file, contents) = PersistentFile::open_or_create(path, &self.options(&device, shape))?;
        let shape = header::decode(shape, &contents.header)?;
        self.attach(&device, kernels, shape, file, Some(contents))
    }

    /// Returns the device and the kernels, unless an option is wrong.
    fn begin(&self) -> Result<(Device, &'static dyn Kernels)> {
        let (key, value) = (size_of::<K>(), size_of::<V>());
        if ![8, 16, 32, 64].contains(&key) {
            return Err(Error::ItemBytes { what: "keys", bytes: key });
        }
        if !(8..=1024).contains(&value) || !value.is_multiple_of(4) {
            return Err(Error::ItemBytes { what: "values", bytes: value });
        }
        let kernels = select(self.variant.as_deref(), key, value)?;
        self.check_cache(kernels)?;
        Ok((program::open(self.device.as_ref())?, kernels))
    }

    fn check_cache(&self, kernels: &dyn Kernels) -> Result<()> {
        let Some(options) = self.cache_options() else { return Ok(()) };
        options.check()?;
        if self.storage == Storage::Device && !self.is_mapped() {
            return Err(Error::Cache(NO_CACHE_NEEDED.to_owned()));
        }
        if !kernels.kind().caches {
            let text = "the kernels support none; take those of another variant (`Builder::variant`)";
            return Err(Error::Cache(text.to_owned()));
        }
        Ok(())
    }

    fn cache_options(&self) -> Option<CacheOptions> {
        let (every, counts) = (self.refresh_every, self.counts_cache_hits);
        self.cache.map(|(policy, size)| CacheOptions { policy, size, every, counts })
    }

    fn new_shape(&self, kernels: &dyn Kernels) -> Result<Shape> {
        if self.capacity == 0 {
            return Err(Error::ZeroCapacity);
        }
        let seed = self.seed.unwrap_or_else(random_seed);
        let share = fill(kernels.kind());
        let slots = self.capacity.saturating_mul(100).div_ceil(share);
        Shape::new(kernels.kind(), size_of::<V>(), seed).with_slots(slots).map_err(|error| match error {
            Error::TooLarge { most, .. } => too_many_keys(self.capacity, most / 100 * share),
            error => error,
        })
    }

    fn is_mapped(&self) -> bool {
        self.durability == Durability::Process
    }

    fn tier(&self) -> Tier {
        match self.storage {
            Storage::Device => Tier::Device,
            Storage::Pinned => Tier::Pinned,
        }
    }

    fn options(&self, device: &Device, shape: Shape) -> file::Options {
        file::Options { adopt: self.adopts, ..file_options::<K, V>(device, shape, self.is_mapped()) }
    }

    /// Allocates the levels of an image. They are zeroed unless `is_loaded`: then the caller writes all
    /// pages.
    fn levels(&self, device: &Device, shape: Shape, is_loaded: bool) -> Result<Vec<Buffer<u32>>> {
        let level = |above| match (self.tier(), shape.level_words(above)) {
            (tier, words) if is_loaded => Ok(device.buffer_on(tier, words)?),
            (tier, words) => Memory::new_level(device, tier, words),
        };
        (0..shape.kind.levels).map(level).collect()
    }

    /// Returns the map of a file. `contents` is what the file has, or `None` if it is new.
    fn attach(
        &self,
        device: &Device,
        kernels: &'static dyn Kernels,
        shape: Shape,
        mut file: PersistentFile,
        contents: Option<Contents>,
    ) -> Result<PersistentMap<K, V>> {
        let source = contents.map_or(Source::Epoch, |contents| contents.source);
        let is_newer = matches!(source, Source::Working { .. });
        let (has_epochs, mapped) = (file.epoch().0 > 0, self.is_mapped());
        if is_newer && !mapped || mapped && file.working().is_empty() {
            return Err(self.other_durability(&file, is_newer));
        }
        check_shape(shape, &file)?;
        if has_epochs && !mapped && self.storage == Storage::Pinned {
            file.check_memory(shape.pages() as u64)?;
        }
        let mut levels = if mapped {
            let level = |above| map_level(device, &file, shape, above);
            (0..shape.kind.levels).map(level).collect::<Result<Vec<_>>>()?
        } else {
            self.levels(device, shape, has_epochs)?
        };
        match is_newer {
            true => {}
            false if has_epochs => load(&file, shape, &mut levels)?,
            false if mapped => levels.iter_mut().try_for_each(|level| level.fill_bytes(0))?,
            false => {}
        }
        let levels = levels.into_iter().map(Arc::new).collect();
        let cache = self.cache_options();
        let mut memory = Memory::new(device, shape, levels, (true, cache))?;
        memory.rebuild(device, kernels)?;
        if is_newer {
            // The last epoch is older than all pages.
            memory.dirty.fill_bytes(1)?;
        }
        file.set_owner(device.uuid())?;
        if !mapped {
            // The mapped part, if there is one, is older than the epochs from here on.
            file.set_working(Working::Unused)?;
        }
        let mut backing = Backing { file, is_mapped: mapped, pending: BTreeSet::new(), copier: None };
        backing.use_mapping()?;
        let options = (self.grows, self.tier(), cache);
        Ok(PersistentMap::new(device.clone(), kernels, memory, Some(backing), options))
    }

    /// Returns the error for a file that offers only the other durability. `is_newer` is whether its mapped
    /// part is newer than its last epoch.
    fn other_durability(&self, file: &PersistentFile, is_newer: bool) -> Error {
        let (offered, cause) = match is_newer {
            true => (Durability::Process, "its newest contents are in its mapped part"),
            false => (Durability::Machine, "it was created without a mapped part"),
        };
        Error::Durability { path: file.path().to_owned(), offered, cause: cause.to_owned() }
    }
}

impl Backing {
    /// Records that the mapped part of the file, if it has one, has the contents of the map from here on.
    pub(super) fn use_mapping(&mut self) -> Result<()> {
        if !self.is_mapped {
            return Ok(());
        }
        match file::boot_id() {
            Some(boot) => self.file.set_working(Working::InUse(boot)),
            None => Err(PersistentFile::named_error(self.file.path(), FileFault::BootId)),
        }
    }
}

/// Returns the options of the file of a map.
pub(super) fn file_options<K, V>(device: &Device, shape: Shape, is_mapped: bool) -> file::Options {
    file::Options {
        page_bytes: shape.page_bytes() as u64,
        pages: shape.pages() as u64,
        has_working: is_mapped,
        layout: header::layout::<K, V>(shape),
        owner: device.uuid(),
        adopt: false,
        header: header::encode(shape),
        boot: file::boot_id(),
    }
}

/// Returns an error unless the file has the pages of all levels.
fn check_shape(shape: Shape, file: &PersistentFile) -> Result<()> {
    let (needed, found) = (shape.file_page(shape.kind.levels), file.pages());
    if needed <= found {
        return Ok(());
    }
    let text = "the header of a persistent map is damaged: it needs";
    Err(Error::Format(format!("{text} {needed} pages, and the file has {found}")))
}

/// Maps a level of a file's working region.
pub(super) fn map_level(
    device: &Device,
    file: &PersistentFile,
    shape: Shape,
    above: u32,
) -> Result<Buffer<u32>> {
    Memory::map_level(device, file, shape, above).map_err(|error| match error {
        Error::Device(gpu::Error::Register { path, cause }) => {
            let cause = format!("the driver registers no mapping of it ({cause}), which it does on tmpfs");
            Error::Durability { path, offered: Durability::Machine, cause }
        }
        error => error,
    })
}

/// The structure's header in the file, and the hash of its layout.
pub(super) mod header {
    use super::*;
    use simt::hash::mix64;

    /// Version of the image's layout.
    const VERSION: u32 = 1;

    /// Returns the header: the version, the number of buckets of the first level, the number of the lowest
    /// level in use, and the seed.
    pub fn encode(shape: Shape) -> Vec<u8> {
        let words = [VERSION, shape.geometry.first(), shape.geometry.lowest()];
        let words = words.into_iter().flat_map(u32::to_le_bytes);
        words.chain(shape.seed.to_le_bytes()).collect()
    }

    /// Returns the shape of a header.
    pub fn decode(shape: Shape, header: &[u8]) -> Result<Shape> {
        let invalid = || Error::Format("the header of a persistent map is damaged".to_owned());
        let (words, seed) = header.split_at_checked(12).ok_or_else(invalid)?;
        let word = |index: usize| {
            let bytes = words[4 * index..][..4].try_into().unwrap_or_default();
            u32::from_le_bytes(bytes)
        };
        let seed = u64::from_le_bytes(seed.try_into().map_err(|_| invalid())?);
        let geometry = shape.geometry.with_first(word(1)).with_lowest(word(2));
        let decoded = Shape { geometry, seed, ..shape };
        let is_valid = word(0) == VERSION && word(2) < 31 && decoded.is_addressable();
        if is_valid { Ok(decoded) } else { Err(invalid()) }
    }

    /// Returns the id of the layout and the types, which a file and a map must have in common.
    pub fn layout<K, V>(shape: Shape) -> LayoutId {
        let kind = shape.kind;
        let numbers = [
            u64::from(VERSION),
            u64::from(kind.levels),
            u64::from(kind.hashes),
            u64::from(kind.slots),
            u64::from(kind.usable),
            u64::from(shape.geometry.item_words()),
            size_of::<K>() as u64,
            size_of::<V>() as u64,
        ];
        // The names in the layout are cut; the hash has them whole.
        let names =
            [type_name::<K>(), "\0", type_name::<V>()].into_iter().flat_map(str::bytes).map(u64::from);
        let hash = numbers
            .into_iter()
            .chain(names)
            .fold(0, |hash, number| mix64(hash ^ number).wrapping_add(number));
        LayoutId { hash, key: name::<K>(), value: name::<V>() }
    }

    /// Returns the first 64 characters of the name of a type, at most 256 bytes.
    fn name<T>() -> String {
        type_name::<T>().chars().take(64).collect()
    }
}
