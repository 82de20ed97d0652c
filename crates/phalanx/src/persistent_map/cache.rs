//! The cache of a map whose image is in host memory: options, buffers, and refreshes.
use super::kernels::Launch;
use super::memory::{Memory, Shape};
use super::{PersistentMap, Plain};
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream};
use phalanx_kernels::persistent::{CacheView, MOST_LINES};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Choice of the pairs that a cache has.
///
/// ```
/// use phalanx::persistent_map::CachePolicy;
///
/// assert_ne!(CachePolicy::Lfu, CachePolicy::Lru);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePolicy {
    /// The pairs that lookups have found most often.
    Lfu,
    /// The pairs that lookups have found most recently.
    Lru,
    /// Random pairs, others at each refresh. Lookups note nothing.
    Random,
}

/// Size of a cache.
///
/// ```
/// use phalanx::persistent_map::CacheSize;
///
/// assert_ne!(CacheSize::Share(0.2), CacheSize::Bytes(1 << 20));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CacheSize {
    /// Share of the slots, from 0 to 1. At most 15 slots of a group have copies, with the default kinds 62 %
    /// of all; a larger cache is made smaller. A size of 0 is a cache without room.
    Share(f64),
    /// Bytes of copies, which do not include the statistics.
    Bytes(usize),
}

/// Numbers about a cache.
///
/// ```
/// use phalanx::PersistentMap;
/// use phalanx::persistent_map::{CachePolicy, CacheSize, Storage};
///
/// let map = PersistentMap::<u64, u64>::builder()
///     .storage(Storage::Pinned)
///     .cache(CachePolicy::Lfu, CacheSize::Share(0.2))
///     .counts_cache_hits(true)
///     .build()?;
/// assert!(map.insert(&[1, 2, 3], &[10, 20, 30])?.all_placed());
/// map.refresh_cache()?;
/// map.device().synchronize()?; // the refresh has ended
/// assert_eq!(map.get(&[1, 2])?, [Some(10), Some(20)]);
/// let cache = map.stats()?.cache.expect("a cache");
/// assert!(cache.hits + cache.misses == 2 && cache.lines > 200);
/// # Ok::<(), phalanx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Number of copies for which there is room.
    pub lines: usize,
    /// Number of lookups that have read their key from a copy, since the map was built or has grown; 0 unless
    /// they are counted.
    pub hits: u64,
    /// Number of lookups that have found their key in the image; 0 unless they are counted.
    pub misses: u64,
}

/// Options of a cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheOptions {
    pub policy: CachePolicy,
    pub size: CacheSize,
    /// Number of batches of lookups between refreshes, or 0.
    pub every: u32,
    pub counts: bool,
}

impl CacheOptions {
    /// Returns the lines of a group, in units of 2^-16.
    fn share(self, shape: Shape) -> u32 {
        let groups = shape.geometry.groups() as usize;
        let lines = match self.size {
            CacheSize::Share(share) => share * shape.slots() as f64,
            CacheSize::Bytes(bytes) => (bytes / (4 * shape.geometry.item_words() as usize)) as f64,
        };
        let each = lines / groups as f64 * 65536.0;
        each.min(f64::from(MOST_LINES << 16)) as u32
    }

    /// Returns an error unless the size is valid.
    pub fn check(self) -> Result<()> {
        match self.size {
            CacheSize::Share(share) if !(0.0..=1.0).contains(&share) => {
                Err(Error::Cache(format!("a share of {share} was requested; pass one from 0 to 1")))
            }
            _ => Ok(()),
        }
    }
}

/// Buffers of a cache.
#[derive(Debug)]
pub struct Cache {
    options: CacheOptions,
    share: u32,
    lines: Buffer<u32>,
    heat: Buffer<u32>,
    counts: Buffer<u64>,
    item_words: usize,
    turns: Mutex<Turns>,
}

/// Numbers of batches of lookups.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    batches: u32,
    /// The number at the last refresh.
    refreshed: u32,
}

impl Cache {
    /// Returns an empty cache.
    pub fn new(device: &Device, shape: Shape, options: CacheOptions) -> Result<Self> {
        let (share, groups) = (options.share(shape), shape.geometry.groups());
        let item_words = shape.geometry.item_words() as usize;
        let positions = (groups as usize * shape.kind.slots as usize) << shape.kind.levels;
        let has_heat = options.policy != CachePolicy::Random;
        Ok(Self {
            options,
            share,
            // No word is read before it has been written.
            lines: device.zeroed(CacheView::lines(groups, share) as usize * item_words)?,
            heat: device.zeroed(if has_heat { positions / 4 } else { 0 })?,
            counts: device.zeroed(if options.counts { 2 } else { 0 })?,
            item_words,
            turns: Mutex::default(),
        })
    }

    /// Returns the cache as kernels take it.
    pub fn view(&self) -> CacheView {
        let Turns { batches: turn, refreshed } = *self.turns();
        let since = turn.wrapping_sub(refreshed);
        CacheView {
            lines: self.lines.global(),
            heat: self.heat.global(),
            counts: self.counts.global(),
            share: self.share,
            turn,
            // Of stamps before and after a refresh, which halves them, those after it are higher.
            stamp: if self.options.policy == CachePolicy::Lru { 0x80 | since.min(0x7f) } else { 0 },
        }
    }

    /// Forgets the heat. The caller removes the links.
    pub fn clear(&mut self) -> Result<()> {
        Ok(self.heat.fill_bytes(0)?)
    }

    /// Returns the bytes of device memory.
    pub fn memory_usage(&self) -> usize {
        self.lines.byte_len() + self.heat.byte_len() + self.counts.byte_len()
    }

    /// Counts a batch of lookups. Returns whether a refresh is due.
    fn count_batch(&self) -> bool {
        let mut turns = self.turns();
        turns.batches = turns.batches.wrapping_add(1);
        self.options.every > 0 && turns.batches.is_multiple_of(self.options.every)
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn stats(&self) -> Result<CacheStats> {
        let counts = self.counts.read()?;
        let count = |index: usize| counts.get(index).copied().unwrap_or(0);
        Ok(CacheStats { lines: self.lines.len() / self.item_words, hits: count(0), misses: count(1) })
    }
}

impl<K: Plain, V: Plain> PersistentMap<K, V> {
    /// Chooses the pairs of the cache anew, by its policy, and copies those that it has not got yet. Runs on
    /// a stream of its own beside batches, and does not wait: copies are used as soon as they are there.
    ///
    /// ```
    /// use phalanx::PersistentMap;
    /// use phalanx::persistent_map::{CachePolicy, CacheSize, Storage};
    ///
    /// let builder = PersistentMap::<u64, u64>::builder().capacity(1000).storage(Storage::Pinned);
    /// let map = builder.cache(CachePolicy::Lru, CacheSize::Bytes(4096)).refresh_every(64).build()?;
    /// assert!(map.insert(&[1], &[10])?.all_placed());
    /// map.refresh_cache()?;
    /// assert_eq!(map.update(&[1], &[11])?.count(phalanx::Outcome::Replaced), 1);
    /// assert_eq!(map.get(&[1])?, [Some(11)]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Cache`] if the map was built without a cache; [`Error::Device`] if the device is lost.
    pub fn refresh_cache(&self) -> Result<()> {
        let memory = self.memory();
        if memory.cache.is_none() {
            let text = "the map was built without one; build it with `Builder::cache`";
            return Err(Error::Cache(text.to_owned()));
        }
        self.submit_refresh(&memory)
    }

    /// Counts a batch of lookups that has been submitted, and refreshes the cache if it is due.
    pub(super) fn count_lookups(&self, memory: &Memory) -> Result<()> {
        match &memory.cache {
            Some(cache) if cache.count_batch() => self.submit_refresh(memory),
            _ => Ok(()),
        }
    }

    /// Submits a refresh.
    fn submit_refresh(&self, memory: &Memory) -> Result<()> {
        let mut stream = self.refreshes();
        let stream = match &mut *stream {
            Some(stream) => stream,
            none => none.insert(self.device.stream()?),
        };
        // SAFETY: the memory waits for the device when it is dropped. Refreshes follow each other on their
        // stream.
        unsafe { self.kernels.launch(stream, memory, Launch::Refresh)? };
        if let Some(cache) = &memory.cache {
            let mut turns = cache.turns();
            turns.refreshed = turns.batches;
        }
        Ok(())
    }

    /// Returns the stream of refreshes, if there was one. Meanwhile, none is submitted.
    pub(super) fn refreshes(&self) -> MutexGuard<'_, Option<Stream>> {
        self.refresh.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
