//! The cache of hot pairs on the device, and the rule by which lookups use it.
use super::ledger::{Ledger, Metered};
use crate::Result;
use crate::map::encoding::Word;
use crate::map::launch::{BatchOp, THREADS, nothing};
use gpu::{Buffer, Device, Grid, Stream};
use phalanx_kernels::tiered::hot::kernels::{TieredForget, TieredKeep, TieredLookUp, TieredSample};
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
    /// Tells whether a cache would pay, while there is none.
    sample: Option<Sample>,
}

/// The first buckets of a cache that is only simulated: keys of pairs that the cache would have.
///
/// It tells how many lookups the cache would miss: each miss stands for as many as there are buckets in the
/// cache for one in the sample. Hits are not scaled so: a few keys with most of the lookups are in the sample
/// or, more likely, not, but they are rarely missed.
#[derive(Debug)]
struct Sample {
    /// Buckets, and then the number of misses.
    memory: Metered<Buffer<u64>>,
    /// Buckets of the cache.
    buckets: usize,
    /// Misses when it was judged last.
    judged: u64,
    /// Lookups since then.
    lookups: usize,
}

/// Bytes for the number of misses.
const COUNT: usize = BUCKET_BYTES;

/// A sample has one bucket in this number of those of the cache, within [`SAMPLES`].
const OF_SAMPLE: usize = 64;

/// Bounds of the number of buckets in a sample.
const SAMPLES: (usize, usize) = (64, 1 << 14);

/// Returns the bytes of a sample of a cache of `bytes` bytes.
pub fn sample_bytes(bytes: usize) -> usize {
    let buckets = bytes / BUCKET_BYTES;
    BUCKET_BYTES * (buckets / OF_SAMPLE).clamp(SAMPLES.0, SAMPLES.1).min(buckets) + COUNT
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

    /// Allocates a sample of a cache of `bytes` bytes, instead of the cache; 0 bytes for none. The rule by
    /// which the cache rests goes on.
    pub fn sample_of(
        self,
        (ledger, device): (&Arc<Ledger>, &Device),
        bytes: usize,
        seed: u64,
    ) -> Result<Self> {
        let trial = self.trial;
        drop(self);
        if bytes < BUCKET_BYTES {
            return Ok(Self::default());
        }
        let mut memory = ledger.buffer(device, sample_bytes(bytes) / 8)?;
        memory.fill_bytes(0)?;
        let sample = Sample { memory, buckets: bytes / BUCKET_BYTES, judged: 0, lookups: 0 };
        Ok(Self { seed, trial, sample: Some(sample), ..Self::default() })
    }

    /// Allocates an empty cache instead of a sample, with the same rule.
    pub fn cache_of(self, (ledger, device): (&Arc<Ledger>, &Device), bytes: usize) -> Result<Self> {
        let (trial, seed) = (self.trial, self.seed);
        drop(self);
        Ok(Self { trial, ..Self::new(ledger, device, bytes, seed)? })
    }

    /// Lets the cache rest, as after lookups without hits.
    pub fn pause(&mut self) {
        self.trial.pause();
    }

    /// Returns the bytes of the sample.
    pub fn sample_bytes(&self) -> usize {
        self.sample.as_ref().map_or(0, |sample| sample.memory.byte_len())
    }

    /// Returns the bytes of the cache.
    pub fn byte_len(&self) -> usize {
        8 * self.words().len()
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

    /// Begins a batch. Returns whether its keys are added to the sample.
    pub fn samples(&mut self, op: BatchOp) -> bool {
        self.sample.is_some() && matches!(op, BatchOp::Get) && {
            // It counts the batches for which the cache rests; the sample does not rest.
            let _ = self.trial.begin();
            true
        }
    }

    /// Ends a batch of which some keys were looked up and some of these were found, of which a share of
    /// `least` is worth the memory. Returns whether too few were: then the cache rests from now on.
    pub fn end(&mut self, (lookups, hits): (usize, usize), least: f64) -> bool {
        lookups > 0 && self.trial.end((lookups, hits), least)
    }

    /// Ends a batch of which `lookups` keys were added to the sample. Returns whether a share of `least` of
    /// the lookups since the last judgement would have found their keys in a cache. Waits for the stream.
    pub fn is_due(&mut self, stream: &Stream, lookups: usize, least: f64) -> Result<bool> {
        let Some(sample) = &mut self.sample else { return Ok(false) };
        sample.lookups += lookups;
        let scale = sample.buckets as f64 / sample.in_sample() as f64;
        if (sample.lookups as f64) < LEAST_SAMPLED * scale {
            return Ok(false);
        }
        let mut missed = [0];
        // SAFETY: the count lives until the stream is waited for, and no kernel runs.
        let read = unsafe { stream.download(&mut missed, sample.missed()) };
        stream.synchronize()?;
        read?;
        let share = (missed[0] - sample.judged) as f64 * scale / sample.lookups as f64;
        (sample.judged, sample.lookups) = (missed[0], 0);
        Ok(self.trial.left == 0 && 1.0 - share >= least)
    }

    /// Submits the addition of keys to the sample.
    ///
    /// # Safety
    /// - As for [`Self::look_up`].
    pub unsafe fn sample<K: Word, V: Word>(&self, stream: &Stream, keys: GlobalSlice<K>) -> Result<()> {
        let Some(sample) = &self.sample else { return Ok(()) };
        let (words, buckets, missed) = (sample.words(), sample.buckets as u32, sample.missed());
        let kernel = TieredSample::<Hot<K, V>> { words, buckets, seed: self.seed, keys, missed };
        // SAFETY: the caller's obligations.
        unsafe { Ok(stream.launch(each(keys.len()), kernel)?) }
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

impl Sample {
    fn words(&self) -> GlobalSlice<u64> {
        self.memory.global().part(0, self.memory.len() - COUNT / 8)
    }

    fn missed(&self) -> GlobalSlice<u64> {
        self.memory.global().part(self.memory.len() - COUNT / 8, 1)
    }

    /// Returns the number of buckets in the sample.
    fn in_sample(&self) -> usize {
        self.words().len() / BUCKET_WORDS
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
/// The share of hits that is worth the lookups.
pub const LEAST_SHARE: f64 = 1.0 / WORTHWHILE as f64;
/// Lookups after which the share of hits in a sample is judged, at the end of a batch, in units of the
/// lookups for which the sample has one on average. If all are misses, the error is about 4 %.
const LEAST_SAMPLED: f64 = 512.0;
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

    /// Ends a batch that has used the cache, of which a share of `least` of the lookups is worth it. Returns
    /// whether the cache rests from now on.
    fn end(&mut self, (lookups, hits): (usize, usize), least: f64) -> bool {
        (self.lookups, self.hits) = (self.lookups + lookups, self.hits + hits);
        if self.lookups < JUDGED {
            return false;
        }
        let is_good = self.hits as f64 >= least * self.lookups as f64;
        (self.lookups, self.hits) = (0, 0);
        self.strikes = if is_good { 0 } else { self.strikes + 1 };
        if is_good {
            self.pause = 0;
        }
        if self.strikes < STRIKES {
            return false;
        }
        self.pause();
        true
    }

    /// Begins a rest, a longer one than before.
    fn pause(&mut self) {
        self.strikes = 0;
        self.pause = (2 * self.pause).clamp(PAUSES.0, PAUSES.1);
        self.left = self.pause;
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
                trial.end((1 << 20, (1 << 20) / one_in), LEAST_SHARE);
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
            assert!(trial.begin() && !trial.end((1, 0), LEAST_SHARE));
        }
        assert!(trial.begin() && trial.end((1, 0), LEAST_SHARE) && !trial.begin());
    }
}
