//! A hash map whose pairs survive the process and loss of power: [`PersistentMap`].
mod batches;
mod builder;
mod cache;
mod convert;
#[allow(dead_code, reason = "some parts serve only tests")]
pub(crate) mod file;
mod growth;
mod host;
mod kernels;
mod load;
mod memory;
mod rebuild;
mod scans;
mod sync;

use crate::{Error, Outcome, Outcomes, Result};
use bytemuck::Pod;
use cache::CacheOptions;
pub use file::{Epoch, FileFault, LayoutId, Report, Working, check_file};
use file::{PersistentFile, boot_id};
use gpu::{Device, Stream, Tier};
use host::Request;
use kernels::{Kernels, Launch};
use memory::Memory;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use sync::PageCopier;

pub use batches::Batches;
pub use builder::Builder;
pub use cache::{CachePolicy, CacheSize, CacheStats};
pub use scans::Stats;

/// A type whose values are stored as their bytes: plain data that threads can share. Implemented for all
/// types that implement `bytemuck::Pod`: numbers, arrays of them, and structs without padding that derive it.
/// Keys are equal if their bytes are, so 0.0 and -0.0 are two keys.
///
/// ```
/// use bytemuck::{Pod, Zeroable};
///
/// #[repr(C)]
/// #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
/// struct Account {
///     balance: i64,
///     changed: u64,
/// }
///
/// let map = phalanx::PersistentMap::<u64, Account>::with_capacity(10)?;
/// let account = Account { balance: -5, changed: 1 };
/// assert!(map.insert(&[7], &[account])?.all_placed());
/// assert_eq!(map.get(&[7])?, [Some(account)]);
/// # Ok::<(), phalanx::Error>(())
/// ```
pub trait Plain: Pod + Send + Sync {}

impl<T: Pod + Send + Sync> Plain for T {}

/// Events that a map in a file survives, and from which moment on.
///
/// ```
/// use phalanx::persistent_map::Durability;
///
/// assert_ne!(Durability::Process, Durability::Machine);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A batch survives the death of the process once it has completed. The image is a mapping of the file,
    /// which the driver must register: on GPUs, the file must be on tmpfs, which loses its files when power
    /// is lost. On the emulator, any file system will do, and a batch also survives loss of power once
    /// [`PersistentMap::sync`] has returned.
    Process,
    /// A batch survives the death of the process and loss of power if a [`PersistentMap::sync`] that was
    /// called after it had completed has returned. Later changes are lost with the process, and also when the
    /// map is dropped. All file systems offer this level; tmpfs loses its files with power.
    Machine,
}

/// Where kernels access the image of a map, unless the image is the file itself ([`Durability::Process`]).
///
/// ```
/// use phalanx::persistent_map::Storage;
///
/// assert_ne!(Storage::Device, Storage::Pinned);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Device memory.
    Device,
    /// Pinned host memory. Only the fingerprints are in device memory.
    Pinned,
}

/// A hash map whose pairs survive the process and loss of power, of keys of 8, 16, 32 or 64 bytes and values
/// of 8 to 1024 bytes. No key is reserved.
///
/// Source: the paper on GPHash. The page `docs/structures/persistent-map.md` has the layout, the proofs, and
/// a table of what survives the death of the process and loss of power.
///
/// ```
/// use phalanx::{Outcome, PersistentMap};
///
/// let path = std::env::temp_dir().join(format!("phalanx-persistent-{}", std::process::id()));
/// let builder = || PersistentMap::<u64, u64>::builder().capacity(1000);
/// let map = builder().create(&path)?;
/// assert!(map.insert(&[1, 2, 3], &[10, 20, 30])?.all_placed());
/// let epoch = map.sync()?; // from here on the three pairs survive loss of power
/// assert_eq!(map.remove(&[3])?, [true]);
/// drop(map);
///
/// let map = builder().open(&path)?;
/// assert_eq!((map.epoch(), map.get(&[2, 3, 4])?), (Some(epoch), vec![Some(20), Some(30), None]));
/// assert_eq!(map.update(&[2, 4], &[21, 41])?, [Outcome::Replaced, Outcome::Absent]);
/// assert_eq!(map.insert_new(&[2, 4], &[22, 42])?, [Outcome::Found, Outcome::Inserted]);
/// assert_eq!((map.len()?, map.contains_key(&[2, 5])?), (4, vec![true, false]));
/// println!("on {}", map.device().name());
/// # drop(map);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::PersistentMap;
///
/// let mut map = PersistentMap::<[u8; 32], [f32; 16]>::with_capacity(100)?; // without a file
/// let (keys, values) = ([[7; 32], [8; 32]], [[0.5; 16], [1.5; 16]]);
/// assert!(map.insert(&keys, &values)?.all_placed() && !map.is_empty()?);
/// let (found, pairs) = (map.get(&keys[1..])?, map.export()?);
/// assert_eq!((found, pairs.0.len()), (vec![Some([1.5; 16])], 2));
/// assert!(map.capacity() >= 100 && map.load_factor()? < 0.1 && map.memory_usage() > 2 * 96);
/// assert_eq!((map.host_memory_usage(), map.path(), map.epoch()), (0, None, None));
/// assert_eq!(map.variant(), PersistentMap::<[u8; 32], [f32; 16]>::variants()[0]);
/// map.check()?;
/// map.clear()?;
/// assert_eq!(map.stats()?.len, 0);
/// assert!(map.sync().is_err()); // no file
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// All batches take `&self` and run concurrently, on any number of streams and threads. Each element takes
/// effect at one moment, in an order that agrees with the results of all batches. [`sync`](Self::sync) runs
/// beside batches. Growth waits for the device; batches that are submitted meanwhile wait for it. `len`,
/// `stats`, `check` and `export` are exact if no batch runs that changes the map.
///
/// One process uses a file at a time, and one GPU: atomic operations of several GPUs on host memory are not
/// atomic for each other.
///
/// # Cost
///
/// `get` and `contains_key` read, for one or both hash locations of a key, a line of fingerprints in device
/// memory, and a line of the image if a fingerprint agrees. `insert`, `insert_new`, `update` and `remove`
/// read the same lines, change fingerprints two to five times, and write at most one item. These calls on
/// host slices divide the batch into chunks, which they copy through staging memory; they wait for one kernel
/// a chunk. `with_capacity` allocates the levels and fills them with zeros. `len`, `is_empty`, `load_factor`
/// and `stats` launch a kernel that reads two bytes per slot; `export`, `check` and the conversions read the
/// image. `sync` copies the pages that have changed and writes them; growth (`reserve`) allocates a level,
/// rebuilds the fingerprints, and inserts the pairs of the lowest level again. `clear` waits for the device
/// and writes the image; in host memory, only the slot bits.
///
/// With a cache ([`Builder::cache`]), lookups of cached keys read a line of device memory in place of the
/// image's. `refresh_cache` launches a kernel that reads fingerprints and a byte per slot, and the items that
/// it copies.
pub struct PersistentMap<K, V> {
    /// Replaced by growth.
    memory: RwLock<Memory>,
    kernels: &'static dyn Kernels,
    device: Device,
    grows: bool,
    /// Tier of the image, unless it is the file.
    tier: Tier,
    /// The file. Locked before all other locks, also by maps without a file: growth and `sync` run one after
    /// the other.
    backing: Mutex<Option<Backing>>,
    path: Option<PathBuf>,
    /// Held for reading while a batch that changes the map is submitted.
    gate: RwLock<()>,
    cache: Option<CacheOptions>,
    /// Stream of the cache's refreshes. Locked after all other locks.
    refresh: Mutex<Option<Stream>>,
    of: PhantomData<fn() -> (K, V)>,
}

/// A map's file.
#[derive(Debug)]
struct Backing {
    file: PersistentFile,
    /// Whether the image is the file's working region.
    is_mapped: bool,
    /// Pages that have changed since the last epoch, and whose marks a sync that failed may have cleared.
    pending: BTreeSet<u64>,
    /// Copies pages for syncs, once there was one.
    copier: Option<PageCopier>,
}

impl<K, V> std::fmt::Debug for PersistentMap<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PersistentMap").field("kernels", &self.kernels).field("path", &self.path).finish()
    }
}

impl<K, V> Drop for PersistentMap<K, V> {
    fn drop(&mut self) {
        let backing = self.backing.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(Backing { file, is_mapped: true, .. }) = backing else { return };
        // After an error, `open` finds the region as if the process had died, which loses nothing.
        if let (Ok(()), Some(boot)) = (self.device.synchronize(), boot_id()) {
            let _ = file.set_working(Working::Closed(boot));
        }
    }
}

impl<K: Plain, V: Plain> PersistentMap<K, V> {
    fn new(
        device: Device,
        kernels: &'static dyn Kernels,
        memory: Memory,
        backing: Option<Backing>,
        (grows, tier, cache): (bool, Tier, Option<CacheOptions>),
    ) -> Self {
        let path = backing.as_ref().map(|backing| backing.file.path().to_owned());
        let (memory, gate, backing) = (RwLock::new(memory), RwLock::new(()), Mutex::new(backing));
        let refresh = Mutex::new(None);
        Self { memory, kernels, device, grows, tier, backing, path, gate, cache, refresh, of: PhantomData }
    }

    /// Returns a builder, for options other than the defaults.
    pub fn builder() -> Builder<K, V> {
        Builder::new()
    }

    /// Builds a map without a file, with room for `keys` keys before it grows.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn with_capacity(keys: usize) -> Result<Self> {
        Self::builder().capacity(keys).build()
    }

    /// Returns the names of the kinds of table for keys and values of these sizes, the default first.
    pub fn variants() -> Vec<&'static str> {
        kernels::fitting(size_of::<K>(), size_of::<V>()).map(Kernels::name).collect()
    }

    /// Returns the name of the map's kind of table.
    pub fn variant(&self) -> &'static str {
        self.kernels.name()
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the path of the file, if the map has one.
    pub fn path(&self) -> Option<&std::path::Path> {
        self.path.as_deref()
    }

    /// Returns which events the map survives; `None` for a map without a file.
    ///
    /// ```
    /// assert_eq!(phalanx::PersistentMap::<u64, u64>::with_capacity(10)?.durability(), None);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn durability(&self) -> Option<Durability> {
        let level = if self.memory().is_shared() { Durability::Process } else { Durability::Machine };
        self.path.is_some().then_some(level)
    }

    /// Returns the number of the last epoch that was written, or 0 if there was none; `None` for a map
    /// without a file. `sync`, growth and [`compact`](Self::compact) write one; after `compact`, the numbers
    /// begin at 1 again.
    pub fn epoch(&self) -> Option<Epoch> {
        self.backing().as_ref().map(|backing| backing.file.epoch())
    }

    /// Returns the number of slots that pairs may take.
    pub fn capacity(&self) -> usize {
        self.memory().shape.capacity()
    }

    /// Returns the device memory in use, in bytes, without the up to 4 MiB with which syncs copy pages.
    pub fn memory_usage(&self) -> usize {
        self.memory().memory_usage()
    }

    /// Returns the pinned or mapped host memory in use, in bytes, without the up to 4 MiB, and 4 bytes a
    /// page, with which syncs copy pages.
    pub fn host_memory_usage(&self) -> usize {
        self.memory().host_memory_usage()
    }

    /// Returns the batches on device buffers, submitted to a stream.
    pub fn on(&self, stream: &Stream) -> Batches<'_, K, V> {
        Batches::new(self, stream)
    }

    /// Returns the values of the keys, `None` for an absent key.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    #[doc(alias = "find")]
    pub fn get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let mut found = Vec::with_capacity(keys.len());
        let request = Request::of_keys(keys, true);
        let submit = |batches: Batches<'_, K, V>, part: host::Part<'_, K, V>| {
            batches.get(part.keys, part.results, part.outcomes)
        };
        self.by_chunks(&request, &submit, &mut |_, codes, values| {
            found.extend(codes.iter().zip(values).map(|(&code, &value)| is_found(code).then_some(value)));
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns for each key whether it is present.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn contains_key(&self, keys: &[K]) -> Result<Vec<bool>> {
        let outcomes = self.outcomes(&Request::of_keys(keys, false), &|batches, part| {
            batches.contains_key(part.keys, part.outcomes)
        })?;
        Ok(outcomes.into_iter().map(|outcome| outcome == Outcome::Found).collect())
    }

    /// Inserts keys, and replaces the values of those that are present. If a call has a key several times, it
    /// is not defined which of the values stays. If keys find no slots, moves other pairs or grows the map. A
    /// map with a file then writes an epoch, as [`Self::sync`] does; [`Self::reserve`] avoids it.
    /// With [`Builder::grows`]`(false)`, only moves them; keys that still find no slots are `Refused`.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is a value for each key; [`Error::NoRoom`] with the outcomes if the map
    /// could not grow, also for want of room on the disk; [`Error::Device`] if the device is lost or lacks
    /// the memory for a batch;
    /// [`Error::PersistentFile`] if the file of a map that grows cannot be written, or may have other levels
    /// than the map after a growth that failed ([`FileFault::Uncertain`]); [`Error::Durability`] if the
    /// driver does not register a mapping of the levels that growth adds.
    pub fn insert(&self, keys: &[K], values: &[V]) -> Result<Outcomes> {
        self.place(keys, values, &|batches, part| batches.insert(part.keys, part.values, part.outcomes))
    }

    /// Inserts the keys that are absent; otherwise as [`Self::insert`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_new(&self, keys: &[K], values: &[V]) -> Result<Outcomes> {
        self.place(keys, values, &|batches, part| batches.insert_new(part.keys, part.values, part.outcomes))
    }

    /// Replaces the values of keys that are present. Outcomes: `Replaced`, `Absent`.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is a value for each key; [`Error::Device`] as [`Self::get`].
    pub fn update(&self, keys: &[K], values: &[V]) -> Result<Outcomes> {
        let request = Request::of_pairs(keys, values)?;
        let submit = |batches: Batches<'_, K, V>, part: host::Part<'_, K, V>| {
            batches.update(part.keys, part.values, part.outcomes)
        };
        Ok(self.outcomes(&request, &submit)?.into())
    }

    /// Removes keys. Returns for each element whether it removed its key: of equal keys in a call, one does.
    ///
    /// # Errors
    /// As [`Self::get`].
    #[doc(alias = "erase")]
    pub fn remove(&self, keys: &[K]) -> Result<Vec<bool>> {
        let outcomes = self.outcomes(&Request::of_keys(keys, false), &|batches, part| {
            batches.remove(part.keys, part.outcomes)
        })?;
        Ok(outcomes.into_iter().map(|outcome| outcome == Outcome::Removed).collect())
    }

    /// Removes all pairs. The last epoch of the file has them until the next `sync`.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost.
    pub fn clear(&mut self) -> Result<()> {
        self.check_changeable(&self.memory())?;
        self.device.synchronize()?;
        self.memory.get_mut().unwrap_or_else(PoisonError::into_inner).clear()
    }

    // Locked values are valid even after a panic: each is replaced as a whole.
    fn memory(&self) -> RwLockReadGuard<'_, Memory> {
        self.memory.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory_mut(&self) -> RwLockWriteGuard<'_, Memory> {
        self.memory.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn backing(&self) -> MutexGuard<'_, Option<Backing>> {
        self.backing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an error if growth has failed such that the levels of the file are unknown: what changes may
    /// be lost.
    fn check_changeable(&self, memory: &Memory) -> Result<()> {
        match &self.path {
            Some(path) if memory.is_frozen => Err(PersistentFile::named_error(path, FileFault::Uncertain)),
            _ => Ok(()),
        }
    }

    /// Submits a batch.
    fn launch(&self, stream: &Stream, launch: Launch) -> Result<()> {
        crate::map::batches::check_same_device(&self.device, "stream", stream.device())?;
        let changes = !matches!(launch, Launch::Get(_) | Launch::Contains(_));
        let gate = changes.then(|| self.gate.read().unwrap_or_else(PoisonError::into_inner));
        let memory = self.memory();
        if changes {
            self.check_changeable(&memory)?;
        }
        // SAFETY: the slices are those of buffers that wait for the stream when they are dropped, and so does
        // the memory. They are as long as the batch requires.
        unsafe { self.kernels.launch(stream, &memory, launch)? };
        drop(gate);
        if changes { Ok(()) } else { self.count_lookups(&memory) }
    }

    /// Runs a batch that places keys. Moves other pairs or grows the map for keys that are refused, and tries
    /// these keys again.
    fn place(&self, keys: &[K], values: &[V], submit: host::Submit<'_, K, V>) -> Result<Outcomes> {
        // That of the table which refuses keys, or of a smaller one: other threads may grow it meanwhile.
        let mut capacity = self.capacity();
        let mut outcomes = self.outcomes(&Request::of_pairs(keys, values)?, submit)?;
        let mut refused_before = usize::MAX;
        loop {
            let is_refused = |&index: &usize| outcomes[index] == Outcome::Refused;
            let refused: Vec<usize> = (0..keys.len()).filter(is_refused).collect();
            if refused.is_empty() {
                break;
            }
            let moves = refused.len() <= MOST_MOVES && refused.len() < refused_before;
            if !moves && !self.grows {
                break;
            }
            let room = if moves { self.move_pairs(keys, &refused) } else { self.grow(capacity) };
            match room {
                Ok(()) => {}
                Err(error) if error.is_lack_of_room() => {
                    let cause = Some(Box::new(error));
                    return Err(Error::NoRoom { outcomes: outcomes.into(), cause });
                }
                Err(error) => return Err(error),
            }
            refused_before = if moves { refused.len() } else { usize::MAX };
            let keys: Vec<K> = refused.iter().map(|&index| keys[index]).collect();
            let values: Vec<V> = refused.iter().map(|&index| values[index]).collect();
            capacity = self.capacity();
            let again = self.outcomes(&Request::of_pairs(&keys, &values)?, submit)?;
            refused.iter().zip(again).for_each(|(&index, outcome)| outcomes[index] = outcome);
        }
        Ok(outcomes.into())
    }
}

/// Maximum number of keys for which other pairs move, before the map grows instead.
const MOST_MOVES: usize = 1024;

/// Returns whether a kernel has written the code of [`Outcome::Found`].
fn is_found(code: u8) -> bool {
    code == Outcome::Found as u8
}
