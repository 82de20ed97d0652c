//! Equal keys of a batch are combined before the exchange if that pays: one of them goes to its owner, and
//! the others take their answers from its.
//!
//! A sample of the keys decides. Let d be the share of distinct keys in it, and m the largest share of an
//! owner, of N. Without combination, the batch takes as long as the busiest owner, m N times as long as with
//! uniform keys. With it, the remaining share d of the elements is uniform enough, and the sort of the batch
//! takes about as long as the rest of an uncombined uniform batch.
use super::Combining;
use super::engine::Engine;
use super::work::host_words;
use crate::Result;
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp, THREADS, nothing};
use crate::primitives::{Fold, Workspace, scan_bytes, sort_bytes};
use gpu::{Buffer, Device, Grid, Stream, Tier};
use phalanx_kernels::sharded::equal::{ShardedDistinct, ShardedExpand, ShardedHeads, ShardedSample};
use phalanx_kernels::sharded::{Pair, owner_of};
use std::collections::HashSet;

/// Fewest elements of a batch that is sampled.
const LEAST: usize = 1 << 20;

/// Keys of a sample.
pub const SAMPLE: usize = 1 << 10;

/// Largest share of distinct keys in a sample of a batch that is combined.
const MOST_DISTINCT: f64 = 0.75;

/// Time of the sort, in times of an uncombined batch of uniform keys, and something for the doubt.
const SORT: f64 = 1.5;

/// Returns whether to combine a batch with such keys in its sample.
fn pays<K: Word>(sample: &[K], owners: usize) -> bool {
    let len = sample.len().max(1) as f64;
    let mut counts = vec![0u32; owners];
    sample.iter().for_each(|&key| counts[owner_of(key, owners as u32) as usize] += 1);
    let busiest = f64::from(counts.into_iter().max().unwrap_or(0)) / len * owners as f64;
    if busiest <= SORT {
        return false; // without the set, which takes 30 microseconds
    }
    let distinct = sample.iter().collect::<HashSet<_>>().len() as f64 / len;
    distinct < MOST_DISTINCT && busiest > SORT + distinct
}

/// Memory for batches that are combined.
pub struct Equal<K, V> {
    sorted: Buffer<K>,
    order: Buffer<u32>,
    runs: Buffer<u32>,
    keys: Buffer<K>,
    values: Buffer<V>,
    results: Buffer<V>,
    outcomes: Buffer<u8>,
    numbers: Buffer<u32>,
    /// The number of runs, in pinned memory.
    last: Buffer<u32>,
    work: Workspace,
}

impl<K: Word, V: Word> Equal<K, V> {
    fn new(device: &Device, stream: &Stream, len: usize) -> Result<Self> {
        let mut work = Workspace::new(stream, sort_bytes::<K, u32>(len).max(scan_bytes::<u32>(len)))?;
        let mut numbers = device.buffer(len)?;
        work.count_up(&mut numbers)?;
        Ok(Self {
            sorted: device.buffer(len)?,
            order: device.buffer(len)?,
            runs: device.buffer(len)?,
            keys: device.buffer(len)?,
            values: device.buffer(len)?,
            results: device.buffer(len)?,
            outcomes: device.buffer(len)?,
            numbers,
            last: device.buffer_on(Tier::Pinned, 1)?,
            work,
        })
    }

    /// Returns the bytes of device memory.
    pub fn memory_usage(&self) -> usize {
        let Self { sorted, order, runs, keys, values, results, outcomes, numbers, last: _, work } = self;
        let of_keys = sorted.byte_len() + keys.byte_len();
        let of_values = values.byte_len() + results.byte_len() + outcomes.byte_len();
        of_keys + of_values + order.byte_len() + runs.byte_len() + numbers.byte_len() + work.memory_usage()
    }
}

impl<K: Word, V: Word> Engine<K, V> {
    /// Returns the batch of the distinct keys, or the batch itself if its keys are not combined. The caller
    /// expands the former's answers.
    pub fn combined(&mut self, op: BatchOp, batch: Batch<K, V>) -> Result<Option<Batch<K, V>>> {
        let is_possible = !matches!(op, BatchOp::Upsert(_)) && batch.keys.max_len() > 0;
        if !is_possible || !self.is_combined(&batch)? {
            return Ok(None);
        }
        let len = batch.keys.max_len();
        if self.equal.as_ref().is_none_or(|equal| equal.sorted.len() < len) {
            self.equal = None;
            match Equal::new(self.exchange.device(), self.exchange.stream(), len) {
                Ok(equal) => self.equal = Some(equal),
                // The batch needs none of it.
                Err(error) if error.is_lack_of_room() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        self.find_runs(&batch)?;
        self.exchange.wait()?;
        self.distinct_batch(op, &batch).map(Some)
    }

    fn is_combined(&mut self, batch: &Batch<K, V>) -> Result<bool> {
        match self.combining {
            Combining::Always => Ok(true),
            Combining::Never => Ok(false),
            Combining::BySample if batch.keys.max_len() < LEAST => Ok(false),
            Combining::BySample => {
                let sample = self.sample.global();
                let kernel = ShardedSample::<Pair<K, V>> { keys: batch.keys.words(), sample };
                // SAFETY: the buffers live until the stream has executed the launch.
                unsafe { self.exchange.stream().launch(Grid::for_items(SAMPLE, THREADS), kernel)? };
                self.exchange.wait()?;
                Ok(pays(self.read_sample(), self.geometry.ranks))
            }
        }
    }

    /// Returns the sample, after a wait for it.
    fn read_sample(&self) -> &[K] {
        // SAFETY: the kernel has written all words, and has ended.
        unsafe { host_words(&self.sample) }
    }

    /// Sorts the keys, and numbers the runs of equal ones.
    fn find_runs(&mut self, batch: &Batch<K, V>) -> Result<()> {
        let (keys, stream) = (batch.keys.words(), self.exchange.stream().clone());
        let Some(equal) = &mut self.equal else { return Ok(()) };
        let len = keys.len();
        equal.work.sort_numbered(keys, &mut equal.sorted, &equal.numbers, &mut equal.order)?;
        let kernel = ShardedHeads::<Pair<K, V>> {
            sorted: equal.sorted.global().part(0, len),
            heads: equal.runs.global().part(0, len),
        };
        // SAFETY: the buffers live until the stream has executed the launch and the copy.
        unsafe {
            stream.launch(Grid::for_items(len, THREADS), kernel)?;
            equal.work.scan_in_place(Fold::Sum, equal.runs.slice_mut(..len)?, true)?;
            Ok(stream.copy(equal.last.global(), equal.runs.global().part(len - 1, 1))?)
        }
    }

    /// Submits the making of the batch of distinct keys. The number of runs has arrived.
    fn distinct_batch(&mut self, op: BatchOp, batch: &Batch<K, V>) -> Result<Batch<K, V>> {
        let len = batch.keys.max_len();
        let Some(equal) = &self.equal else { return Ok(*batch) };
        let runs = equal.last.host_pointer().map_or(0, |word| {
            // SAFETY: the copy to this word has ended.
            unsafe { word.read_volatile() }
        }) as usize;
        let kernel = ShardedDistinct::<Pair<K, V>> {
            sorted: equal.sorted.global().part(0, len),
            order: equal.order.global(),
            runs: equal.runs.global(),
            values: batch.arguments,
            keys_to: equal.keys.global(),
            values_to: equal.values.global(),
        };
        // SAFETY: as in `find_runs`.
        unsafe { self.exchange.stream().launch(Grid::for_items(len, THREADS), kernel)? };
        let mut distinct = Batch::new(op, equal.keys.global().part(0, runs));
        let has = |is_empty: bool| if is_empty { 0 } else { runs };
        distinct.arguments = equal.values.global().part(0, has(batch.arguments.is_empty()));
        distinct.results = equal.results.global().part(0, has(batch.results.is_empty()));
        distinct.outcomes =
            if batch.outcomes.is_empty() { nothing() } else { equal.outcomes.global().part(0, runs) };
        self.report.combined = len - runs;
        Ok(distinct)
    }

    /// Submits the way of the distinct keys' answers to all elements of the batch.
    pub fn expand(&mut self, op: BatchOp, batch: &Batch<K, V>) -> Result<()> {
        let (Some(equal), len) = (&self.equal, batch.keys.max_len()) else { return Ok(()) };
        if batch.outcomes.is_empty() {
            return Ok(());
        }
        let kernel = ShardedExpand::<Pair<K, V>> {
            order: equal.order.global().part(0, len),
            runs: equal.runs.global(),
            values: equal.results.global(),
            answers: equal.outcomes.global(),
            is_new: matches!(op, BatchOp::InsertNew).into(),
            results: batch.results,
            outcomes: batch.outcomes,
        };
        // SAFETY: as in `find_runs`.
        unsafe { Ok(self.exchange.stream().launch(Grid::for_items(len, THREADS), kernel)?) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_keys_are_combined_and_others_are_not() {
        let uniform: Vec<u64> = (0..1024).collect();
        let one = vec![7u64; 1024];
        let half: Vec<u64> = (0..1024).map(|number| if number % 2 == 0 { 7 } else { number }).collect();
        let of_one_owner: Vec<u64> = (0..).filter(|&key| owner_of(key, 8) == 3).take(1024).collect();
        for ranks in [2, 3, 8] {
            assert!(!pays(&uniform, ranks) && pays(&one, ranks), "{ranks} ranks");
        }
        assert!(!pays(&half, 2) && pays(&half, 8));
        assert!(!pays(&of_one_owner, 8), "the keys are distinct");
        assert!(!pays::<u64>(&[], 2));
    }
}
