//! What benchmarks use of a table, and the persistent map as such a table.
use super::items::{Key, Value};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use crate::subjects::both_widths::DEFAULT;
use anyhow::{Result, ensure};
use gpu::{Slice, SliceMut, Stream};
use phalanx::PersistentMap;
use phalanx::persistent_map::{Builder, CachePolicy, CacheSize, Durability, Storage};

/// Operation of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    Insert,
    Update,
    Remove,
}

impl Verb {
    pub fn writes_values(self) -> bool {
        matches!(self, Self::Insert | Self::Update)
    }
}

/// Elements of a launch. Values are empty unless the verb writes them, results unless it reads them.
pub struct Elements<'a, K, V> {
    pub keys: Slice<'a, K>,
    pub values: Slice<'a, V>,
    pub results: SliceMut<'a, V>,
    pub outcomes: SliceMut<'a, u8>,
}

/// A table with batches on device buffers.
pub trait Table<K, V> {
    /// Submits a launch. Need not wait.
    fn submit(&mut self, stream: &Stream, verb: Verb, elements: Elements<'_, K, V>) -> Result<()>;

    /// Inserts pairs with new keys, and waits.
    fn load(&mut self, keys: &[K], values: &[V]) -> Result<()>;

    /// Returns whether slots of removed keys take others.
    fn reuses_slots(&self) -> bool {
        true
    }

    /// Chooses the pairs of the cache anew, and waits. Tables without a cache do nothing.
    fn refresh(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns the lookups that have found their key in the cache and in the image, if they are counted.
    fn cache_hits(&self) -> Result<[u64; 2]> {
        Ok([0; 2])
    }

    fn clear(&mut self) -> Result<()>;
    fn len(&self) -> Result<usize>;

    /// Returns the number of pairs that fit, if it is fixed.
    fn capacity(&self) -> Option<usize>;

    /// Returns the bytes in device memory and in host memory.
    fn memory_usage(&self) -> [usize; 2];
}

impl<K: Key, V: Value> Table<K, V> for PersistentMap<K, V> {
    fn submit(&mut self, stream: &Stream, verb: Verb, elements: Elements<'_, K, V>) -> Result<()> {
        submit(self, stream, verb, elements)
    }

    fn load(&mut self, keys: &[K], values: &[V]) -> Result<()> {
        ensure!(self.insert(keys, values)?.all_placed(), "the initial pairs do not fit");
        Ok(())
    }

    fn refresh(&mut self) -> Result<()> {
        self.refresh_cache()?;
        Ok(self.device().synchronize()?)
    }

    fn cache_hits(&self) -> Result<[u64; 2]> {
        Ok(self.stats()?.cache.map_or([0; 2], |cache| [cache.hits, cache.misses]))
    }

    fn clear(&mut self) -> Result<()> {
        Ok(self.clear()?)
    }

    fn len(&self) -> Result<usize> {
        Ok(self.len()?)
    }

    fn capacity(&self) -> Option<usize> {
        Some(self.capacity())
    }

    fn memory_usage(&self) -> [usize; 2] {
        [self.memory_usage(), self.host_memory_usage()]
    }
}

/// Submits a launch to a persistent map, also beside others.
///
/// # Errors
/// Returns [`phalanx::Error`] from the map.
pub fn submit<K: Key, V: Value>(
    map: &PersistentMap<K, V>,
    stream: &Stream,
    verb: Verb,
    elements: Elements<'_, K, V>,
) -> Result<()> {
    let Elements { keys, values, results, outcomes } = elements;
    let batches = map.on(stream);
    match verb {
        Verb::Get => batches.get(keys, results, outcomes)?,
        Verb::Insert => batches.insert(keys, values, outcomes)?,
        Verb::Update => batches.update(keys, values, outcomes)?,
        Verb::Remove => batches.remove(keys, outcomes)?,
    }
    Ok(())
}

/// Share of the slots for which a builder plans.
const PLANNED: f64 = 0.9;

/// Returns a builder of the case's variant for a map that `pairs` pairs fill to the case's `load` (0.9).
///
/// # Errors
/// Returns [`anyhow::Error`] when parameters are invalid.
pub fn builder<K: Key, V: Value>(gpu: &Gpu, case: &Case, pairs: usize) -> Result<Builder<K, V>> {
    let load = case.number_if_given("load")?.unwrap_or(PLANNED);
    ensure!(load > 0.0 && load <= 1.0, "a map cannot be filled to {load}");
    let storage = case.choice("storage", &[("device", Storage::Device), ("pinned", Storage::Pinned)])?;
    let durability =
        case.choice("durability", &[("machine", Durability::Machine), ("process", Durability::Process)])?;
    let capacity = ((pairs as f64 / load * PLANNED).ceil() as usize).max(1);
    let builder = PersistentMap::builder().device(&gpu.device).capacity(capacity).grows(false);
    let mut builder = builder.seed(case.seed).storage(storage).durability(durability);
    if let Some(share) = cache_share(case)? {
        let policies =
            [("lfu", CachePolicy::Lfu), ("lru", CachePolicy::Lru), ("random", CachePolicy::Random)];
        let counts = case.number_if_given("count_hits")?.unwrap_or(0.0) > 0.0;
        let policy = case.choice("policy", &policies)?;
        builder = builder.cache(policy, CacheSize::Share(share)).counts_cache_hits(counts);
    }
    Ok(if case.variant == DEFAULT { builder } else { builder.variant(&case.variant) })
}

/// Returns the share of the slots in the cache, if the case has one.
///
/// # Errors
/// Returns [`crate::engine::suite::Error::Invalid`] when the share is no number.
pub fn cache_share(case: &Case) -> Result<Option<f64>> {
    Ok(case.number_if_given("cache")?.filter(|&share| share > 0.0))
}
