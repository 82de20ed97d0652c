//! The cache of hot pairs on the device, and the rule by which lookups use it.
use super::ledger::{Ledger, Metered};
use crate::Result;
use crate::map::encoding::Word;
use crate::map::launch::{BatchOp, THREADS, nothing};
use gpu::{Buffer, Device, Grid, Stream};
use phalanx_kernels::tiered::hot::kernels::{TieredForget, TieredKeep, TieredLookUp};
use phalanx_kernels::tiered::hot::{BUCKET_WORDS, Hot, Pair};
use simt::GlobalSlice;
use std::sync::Arc;

/// Bytes of a bucket.
pub const BUCKET_BYTES: usize = 8 * BUCKET_WORDS;

/// A cache of pairs in device memory. It may have any of the map's pairs, and no others.
#[derive(Debug, Default)]
pub struct HotPairs {
    /// The buckets, if there are any.
    memory: Option<Metered<Buffer<u64>>>,
    seed: u64,
    /// Whether pairs were added since the memory was cleared.
    has_pairs: bool,
    trial: Trial,
}

impl HotPairs {
    /// Allocates an empty cache; 0 bytes for none.
    pub fn new(ledger: &Arc<Ledger>, device: &Device, bytes: usize, seed: u64) -> Result<Self> {
        if bytes < BUCKET_BYTES {
            return Ok(Self::default());
        }
        let mut memory = ledger.buffer(device, bytes / BUCKET_BYTES * BUCKET_WORDS)?;
        memory.fill_bytes(0)?;
        Ok(Self { memory: Some(memory), seed, ..Self::default() })
    }

    /// Returns the words of the buckets.
    fn words(&self) -> GlobalSlice<u64> {
        self.memory.as_ref().map_or_else(nothing, |memory| memory.global())
    }

    /// Returns the number of pairs that it holds at most.
    pub fn capacity<K: Word, V: Word>(&self) -> usize {
        self.words().len() / BUCKET_WORDS * Hot::<K, V>::SLOTS as usize
    }

    /// Returns whether lookups find nothing.
    pub fn is_empty(&self) -> bool {
        !self.has_pairs
    }

    /// Begins a batch. Returns whether it uses the cache.
    pub fn begin(&mut self, op: BatchOp) -> bool {
        self.memory.is_some() && !op.writes() && self.trial.begin()
    }

    /// Ends a batch of which some keys were looked up and some of these were found. If too few are, the cache
    /// is cleared and rests.
    pub fn end(&mut self, lookups: usize, hits: usize) -> Result<()> {
        if lookups > 0 && self.trial.end(lookups, hits) { self.clear() } else { Ok(()) }
    }

    /// Removes all pairs. On error they stay.
    pub fn clear(&mut self) -> Result<()> {
        if let Some(memory) = self.memory.as_mut().filter(|_| self.has_pairs) {
            memory.fill_bytes(0)?;
            self.has_pairs = false;
        }
        Ok(())
    }

    /// Submits the lookup of keys. Writes values, outcomes, and the index of each key; see [`TieredLookUp`].
    ///
    /// # Safety
    /// - All memory lives until the stream has executed the launch; no other stream changes the cache.
    pub unsafe fn look_up<K: Word, V: Word>(
        &self,
        stream: &Stream,
        keys: GlobalSlice<K>,
        (values, outcomes): (GlobalSlice<V>, GlobalSlice<u8>),
        numbers: GlobalSlice<u32>,
        (found, touches): (u8, bool),
    ) -> Result<()> {
        let (words, seed) = (self.words(), self.seed);
        let (found, touches) = (found.into(), touches.into());
        let kernel =
            TieredLookUp::<Hot<K, V>> { words, seed, keys, values, outcomes, numbers, found, touches };
        // SAFETY: the caller's obligations.
        unsafe { Ok(stream.launch(each(keys.len()), kernel)?) }
    }

    /// Submits the removal of keys, which a batch will change.
    ///
    /// # Safety
    /// - As for [`Self::look_up`].
    pub unsafe fn forget<K: Word, V: Word>(&self, stream: &Stream, keys: GlobalSlice<K>) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let (words, seed) = (self.words(), self.seed);
        let kernel = TieredForget::<Hot<K, V>> { words, seed, keys };
        // SAFETY: the caller's obligations.
        unsafe { Ok(stream.launch(each(keys.len()), kernel)?) }
    }

    /// Submits the addition of the pairs that a batch of lookups has found.
    ///
    /// # Safety
    /// - As for [`Self::look_up`]; no other stream reads the cache.
    pub unsafe fn keep<K: Word, V: Word>(
        &mut self,
        stream: &Stream,
        keys: GlobalSlice<K>,
        (values, outcomes): (GlobalSlice<V>, GlobalSlice<u8>),
    ) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        self.has_pairs = true;
        let (words, seed) = (self.words(), self.seed);
        let kernel = TieredKeep::<Hot<K, V>> { words, seed, keys, values, outcomes };
        // SAFETY: the caller's obligations.
        unsafe { Ok(stream.launch(each(keys.len()), kernel)?) }
    }
}

/// Returns the grid of a thread per key.
fn each(len: usize) -> Grid {
    Grid::for_items(len, THREADS)
}

/// Lookups after which the share of hits is judged, at the end of a batch.
const JUDGED: usize = 1 << 12;
/// The cache is worth its lookups if it has one in this number of the keys.
const WORTHWHILE: usize = 16;
/// Judgements in a row that must be bad. After a change of the hot pairs the first one is, and by the next
/// one the cache has the new pairs.
const STRIKES: u32 = 2;
/// Bounds of the number of batches of lookups for which the cache rests.
const PAUSES: (u32, u32) = (4, 32);

/// Decides when the cache is used. Lookups of keys that are all equally frequent find few of them in the
/// cache, so it rests for a number of batches. Then it is tried again: the keys may have changed.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    lookups: usize,
    hits: usize,
    strikes: u32,
    /// Batches for which it rested last; 0 if it was worthwhile since.
    pause: u32,
    /// Batches for which it will rest.
    left: u32,
}

impl Trial {
    /// Begins a batch of lookups. Returns whether it uses the cache.
    fn begin(&mut self) -> bool {
        let rests = self.left > 0;
        self.left = self.left.saturating_sub(1);
        !rests
    }

    /// Ends a batch that has used the cache. Returns whether the cache rests from now on.
    fn end(&mut self, lookups: usize, hits: usize) -> bool {
        (self.lookups, self.hits) = (self.lookups + lookups, self.hits + hits);
        if self.lookups < JUDGED {
            return false;
        }
        let is_good = is_worthwhile(self.lookups, self.hits);
        (self.lookups, self.hits) = (0, 0);
        self.strikes = if is_good { 0 } else { self.strikes + 1 };
        if is_good {
            self.pause = 0;
        }
        if self.strikes < STRIKES {
            return false;
        }
        self.strikes = 0;
        self.pause = (2 * self.pause).clamp(PAUSES.0, PAUSES.1);
        self.left = self.pause;
        true
    }
}

/// Returns whether so many hits are worth the lookups.
pub fn is_worthwhile(lookups: usize, hits: usize) -> bool {
    hits >= lookups / WORTHWHILE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether each of some batches uses the cache, if it then finds one key in `one_in`.
    fn uses(trial: &mut Trial, batches: usize, one_in: usize) -> Vec<bool> {
        let batch = |_| {
            let is_used = trial.begin();
            if is_used {
                trial.end(1 << 20, (1 << 20) / one_in);
            }
            is_used
        };
        (0..batches).map(batch).collect()
    }

    #[test]
    fn a_cache_without_hits_rests_for_longer_and_longer() {
        let used = uses(&mut Trial::default(), 200, 1000);
        let rests: Vec<usize> =
            used.chunk_by(|a, b| a == b).filter(|run| !run[0]).map(<[bool]>::len).collect();
        assert_eq!(rests[..5], [4, 8, 16, 32, 32]);
        assert!(used.chunk_by(|a, b| a == b).all(|run| !run[0] || run.len() <= 2), "two tries each");
    }

    #[test]
    fn hits_keep_it_in_use() {
        let mut trial = Trial::default();
        assert!(uses(&mut trial, 100, 10).into_iter().all(|used| used));
        // The hot pairs change: one batch finds nothing.
        assert_eq!(uses(&mut trial, 1, 1 << 20), [true]);
        assert!(uses(&mut trial, 100, 2).into_iter().all(|used| used));
        // A rest ends, and the next one is as short as the first, if there were hits between.
        assert_eq!(uses(&mut trial, 7, 1000), [true, true, false, false, false, false, true]);
        assert_eq!(uses(&mut trial, 1, 2), [true]);
        assert_eq!(uses(&mut trial, 7, 1000), [true, true, false, false, false, false, true]);
    }

    #[test]
    fn small_batches_are_judged_together() {
        let mut trial = Trial::default();
        for _ in 0..2 * JUDGED - 1 {
            assert!(trial.begin() && !trial.end(1, 0));
        }
        assert!(trial.begin() && trial.end(1, 0) && !trial.begin());
    }
}
