//! Scans of whole maps: counts, checks, exports.
use super::cache::{Cache, CacheStats};
use super::kernels::{Export, Launch};
use super::memory::Memory;
use super::{PersistentMap, Plain};
use crate::map::launch::nothing;
use crate::{Error, Result};
use gpu::Buffer;
use phalanx_kernels::persistent::recover::{
    DISAGREEING, DUPLICATES, FALSE_COPIES, FALSE_FINGERPRINTS, FINDINGS, IN_PROGRESS, MISPLACED,
};
use simt::GlobalSlice;
use std::collections::BTreeSet;
use std::sync::PoisonError;

/// Numbers about a map.
///
/// ```
/// let map = phalanx::PersistentMap::<u64, u64>::with_capacity(1000)?;
/// let stats = map.stats()?;
/// assert!(stats.len == 0 && stats.capacity >= 1000 && stats.pages == 2 && stats.page_bytes == 16384);
/// assert_eq!((stats.levels, stats.lowest_level, stats.dirty_pages), (2, 0, 0));
/// # Ok::<(), phalanx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of pairs.
    pub len: usize,
    /// Number of slots that pairs may take.
    pub capacity: usize,
    /// Number of levels in use.
    pub levels: u32,
    /// Number of levels that growth has left behind. Their pages remain in the file until
    /// [`PersistentMap::compact`].
    pub lowest_level: u32,
    /// Number of pages in use.
    pub pages: usize,
    /// Bytes in a page.
    pub page_bytes: usize,
    /// Number of pages that have changed since the last epoch; 0 without a file. After a failed `sync`, a
    /// page may count twice.
    pub dirty_pages: usize,
    /// Numbers about the cache, if there is one.
    pub cache: Option<CacheStats>,
}

impl<K: Plain, V: Plain> PersistentMap<K, V> {
    /// Returns the number of pairs.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost.
    pub fn len(&self) -> Result<usize> {
        self.len_of(&self.memory())
    }

    /// Returns whether the map has no pair.
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns the number of pairs divided by the capacity.
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn load_factor(&self) -> Result<f64> {
        let memory = self.memory();
        Ok(self.len_of(&memory)? as f64 / memory.shape.capacity() as f64)
    }

    /// Returns numbers about the map.
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn stats(&self) -> Result<Stats> {
        let mut changed =
            self.backing().as_ref().map_or_else(BTreeSet::new, |backing| backing.pending.clone());
        let memory = self.memory();
        let marks = (0..).zip(memory.dirty.read()?).filter(|&(_, mark)| mark != 0);
        changed.extend(marks.map(|(mark, _)| memory.shape.page_of_mark(mark)));
        Ok(Stats {
            len: self.len_of(&memory)?,
            capacity: memory.shape.capacity(),
            levels: memory.shape.kind.levels,
            lowest_level: memory.shape.geometry.lowest(),
            pages: memory.shape.pages(),
            page_bytes: memory.shape.page_bytes(),
            dirty_pages: changed.len(),
            cache: memory.cache.as_ref().map(Cache::stats).transpose()?,
        })
    }

    /// Checks the map's memory: each pair is in a bucket of its key, no key has two pairs, fingerprints agree
    /// with slot bits and keys, and copies in the cache are equal to their pairs. While a batch that changes
    /// the map runs, the result is arbitrary.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the number of violations by kind; [`Error::Device`] if the device is lost.
    pub fn check(&self) -> Result<()> {
        let (memory, stream) = (self.memory(), self.device.stream()?);
        // A refresh holds locks, which would count as violations.
        let refreshes = self.refreshes();
        if let Some(stream) = &*refreshes {
            stream.synchronize()?;
        }
        let findings = self.device.zeroed::<u32>(FINDINGS)?;
        // SAFETY: the findings are read, which waits, before they are dropped. A batch that runs meanwhile
        // can only make the numbers wrong.
        unsafe { self.kernels.launch(&stream, &memory, Launch::Check(findings.global()))? };
        let found = findings.read()?;
        if found.iter().all(|&count| count == 0) {
            return Ok(());
        }
        let names = [
            (MISPLACED, "in no bucket of their keys"),
            (DUPLICATES, "with a key that has another item"),
            (DISAGREEING, "whose fingerprint and slot bit disagree"),
            (FALSE_FINGERPRINTS, "with the fingerprint of another key"),
            (IN_PROGRESS, "claimed or locked"),
            (FALSE_COPIES, "whose copy in the cache is wrong"),
        ];
        let wrong = names.into_iter().filter(|&(index, _)| found[index] > 0);
        let texts: Vec<_> = wrong.map(|(index, name)| format!("{} slots {name}", found[index])).collect();
        Err(Error::Invalid(texts.join(", ")))
    }

    /// Returns all keys and their values, in no particular order. Waits for the device; batches that change
    /// the map wait meanwhile.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn export(&self) -> Result<(Vec<K>, Vec<V>)> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        // Values are read by weak loads: nothing may change them.
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let memory = self.memory();
        self.device.synchronize()?;
        for above in 0..memory.shape.kind.levels {
            self.export_level(&memory, above, &mut |pairs| {
                keys.extend(pairs.keys::<K>()?);
                values.extend(pairs.values::<V>()?);
                Ok(())
            })?;
        }
        Ok((keys, values))
    }

    /// Passes the items of the level `above` the lowest one to `take`, part by part.
    pub(super) fn export_level(
        &self,
        memory: &Memory,
        above: u32,
        take: &mut dyn FnMut(&Pairs) -> Result<()>,
    ) -> Result<()> {
        let (shape, stream) = (memory.shape, self.device.stream()?);
        let buckets = shape.geometry.buckets(above);
        let each = (PART / shape.kind.slots).min(buckets);
        let mut pairs = Pairs::new(self, (each * shape.kind.slots) as usize)?;
        for first in (0..buckets).step_by(each as usize) {
            pairs.count.fill_bytes(0)?;
            let (keys, values) = (pairs.keys.global(), pairs.values.global());
            let export = Export { above, span: (first, each), keys, values, count: pairs.count.global() };
            // SAFETY: nothing changes the map, and the buffers wait for the kernel before they are dropped.
            unsafe { self.kernels.launch(&stream, memory, Launch::Export(export))? };
            pairs.len = pairs.count.read()?[0] as usize;
            take(&pairs)?;
        }
        Ok(())
    }

    pub(super) fn len_of(&self, memory: &Memory) -> Result<usize> {
        let (stream, count) = (self.device.stream()?, self.device.zeroed::<u64>(1)?);
        // SAFETY: the count is read, which waits, before it is dropped.
        unsafe { self.kernels.launch(&stream, memory, Launch::Count(count.global()))? };
        Ok(count.read()?[0] as usize)
    }
}

/// Number of slots that are exported at once.
const PART: u32 = 1 << 20;

/// Items on the device.
pub(super) struct Pairs {
    keys: Buffer<u64>,
    values: Buffer<u32>,
    count: Buffer<u32>,
    len: usize,
    key_words: usize,
    value_words: usize,
}

impl Pairs {
    fn new<K: Plain, V: Plain>(map: &PersistentMap<K, V>, most: usize) -> Result<Self> {
        let (key_words, value_words) = (size_of::<K>() / 8, size_of::<V>() / 4);
        Ok(Self {
            keys: map.device.buffer(most * key_words)?,
            values: map.device.buffer(most * value_words)?,
            count: map.device.zeroed(1)?,
            len: 0,
            key_words,
            value_words,
        })
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the items as kernels take them.
    pub fn words(&self) -> (GlobalSlice<u64>, GlobalSlice<u32>) {
        if self.len == 0 {
            return (nothing(), nothing());
        }
        let keys = self.keys.global().part(0, self.len * self.key_words);
        (keys, self.values.global().part(0, self.len * self.value_words))
    }

    fn keys<K: Plain>(&self) -> Result<Vec<K>> {
        let mut keys = vec![K::zeroed(); self.len];
        let words: Vec<u64> = self.keys.slice(..self.len * self.key_words)?.read()?;
        bytemuck::cast_slice_mut::<K, u8>(&mut keys).copy_from_slice(bytemuck::cast_slice(&words));
        Ok(keys)
    }

    fn values<V: Plain>(&self) -> Result<Vec<V>> {
        let mut values = vec![V::zeroed(); self.len];
        let words: Vec<u32> = self.values.slice(..self.len * self.value_words)?.read()?;
        bytemuck::cast_slice_mut::<V, u8>(&mut values).copy_from_slice(bytemuck::cast_slice(&words));
        Ok(values)
    }
}
