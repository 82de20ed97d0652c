//! The embeddings on the device.
use anyhow::{Context, Result};
use phalanx::cache_table::{EvictedBuffers, EvictedRows, Rule};
use phalanx::gpu::{Buffer, Device, Stream};
use phalanx::{CacheTable, Outcome};

/// Parameters of the cache.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of items that it can hold.
    pub capacity: usize,
    /// Number of elements in a row.
    pub dim: usize,
    /// Rule of the scores. Items with the rule `Custom` have the number of the batch as score.
    pub rule: Rule,
    /// Whether an item has two buckets.
    pub two_buckets: bool,
    /// Share of the rows in device memory; the others lie in pinned host memory.
    pub on_device: f64,
    /// Seed of the hash function.
    pub seed: u64,
}

/// Outcomes of a batch, in the order of its items. `None` is a code that is no outcome.
pub type Codes = Vec<Option<Outcome>>;

/// Rows of items, and the outcome of each.
#[derive(Debug)]
pub struct Looked {
    /// The outcomes, in the order of the items.
    pub outcomes: Codes,
    /// A row for each item; arbitrary for those that are absent.
    pub rows: Vec<f32>,
    /// Items that are absent, in any order, once for each request.
    pub missed: Vec<u64>,
}

/// A cache table whose calls take and return host memory, and wait.
#[derive(Debug)]
pub struct Cache {
    table: CacheTable<u64, f32>,
    stream: Stream,
    batch: u64,
}

impl Cache {
    /// Creates an empty cache.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when an option lies outside its range or the device lacks the memory.
    pub fn new(device: &Device, options: &Options) -> Result<Self> {
        let builder = CacheTable::builder().device(device).capacity(options.capacity).dim(options.dim);
        let builder = builder.rule(options.rule).two_buckets(options.two_buckets).seed(options.seed);
        let table = builder.rows_on_device(options.on_device).build().with_context(|| {
            format!(
                "no cache of {} rows of {} elements: --capacity, --dim and --on-device must fit the device",
                options.capacity, options.dim
            )
        })?;
        Ok(Self { table, stream: device.stream()?, batch: 0 })
    }

    /// Begins a batch: its number is the score of items with the rule `Custom`.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the epoch is below an earlier one.
    pub fn begin(&mut self, batch: u64, epoch: u32) -> Result<()> {
        self.batch = batch;
        Ok(self.table.set_epoch(epoch)?)
    }

    /// Returns the table.
    pub fn table(&self) -> &CacheTable<u64, f32> {
        &self.table
    }

    /// Looks items up for training, without a change of their scores.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the device fails.
    pub fn get_missed(&self, items: &[u64]) -> Result<Looked> {
        let (device, len) = (self.table.device(), items.len());
        let (keys, mut rows) = (device.from_slice(items)?, device.buffer(len * self.table.dim())?);
        let (mut outcomes, mut count) = (device.zeroed::<u8>(len)?, device.zeroed::<u32>(1)?);
        let (mut missed, mut indices) = (device.buffer::<u64>(len)?, device.buffer::<u32>(len)?);
        let output = (&mut missed, &mut indices, &mut count);
        self.table.on(&self.stream).get_missed(&keys, &mut rows, &mut outcomes, output)?;
        let mut missed = missed.read()?;
        missed.truncate(count.read()?[0] as usize);
        Ok(Looked { outcomes: decoded(&outcomes)?, rows: rows.read()?, missed })
    }

    /// Looks items up for serving: their use changes their scores.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the device fails.
    pub fn get_and_touch(&self, items: &[u64]) -> Result<Looked> {
        let (device, len) = (self.table.device(), items.len());
        let (keys, mut rows) = (device.from_slice(items)?, device.buffer(len * self.table.dim())?);
        let (mut outcomes, scores) = (device.zeroed::<u8>(len)?, self.scores(len)?);
        let batches = self.table.on(&self.stream);
        let batches = if let Some(scores) = &scores { batches.scores(scores) } else { batches };
        batches.get_and_touch(&keys, &mut rows, &mut outcomes)?;
        let outcomes = decoded(&outcomes)?;
        let absent = outcomes.iter().zip(items).filter(|(outcome, _)| **outcome == Some(Outcome::Absent));
        let missed = absent.map(|(_, item)| *item).collect();
        Ok(Looked { outcomes, rows: rows.read()?, missed })
    }

    /// Places distinct items with their rows. Returns the outcomes, and the items that were evicted.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the device fails.
    pub fn insert_evict(&self, items: &[u64], rows: &[f32]) -> Result<(Codes, EvictedRows<u64, f32, u64>)> {
        let (device, len) = (self.table.device(), items.len());
        let (keys, rows) = (device.from_slice(items)?, device.from_slice(rows)?);
        let (mut outcomes, scores) = (device.zeroed::<u8>(len)?, self.scores(len)?);
        let (mut old, mut old_rows) = (device.buffer::<u64>(len)?, device.buffer::<f32>(rows.len())?);
        let (mut old_scores, mut count) = (device.buffer::<u64>(len)?, device.zeroed::<u32>(1)?);
        let evicted = EvictedBuffers {
            keys: (&mut old).into(),
            rows: (&mut old_rows).into(),
            scores: (&mut old_scores).into(),
            count: (&mut count).into(),
        };
        let batches = self.table.on(&self.stream).distinct();
        let batches = if let Some(scores) = &scores { batches.scores(scores) } else { batches };
        batches.insert_evict(&keys, &rows, evicted, &mut outcomes)?;
        let count = count.read()?[0] as usize;
        let evicted = EvictedRows {
            keys: old.slice(..count)?.read()?,
            scores: old_scores.slice(..count)?.read()?,
            rows: old_rows.slice(..count * self.table.dim())?.read()?,
        };
        Ok((decoded(&outcomes)?, evicted))
    }

    /// Adds gradients to the rows of items, which may repeat.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the device fails.
    pub fn accumulate(&self, items: &[u64], gradients: &[f32]) -> Result<Codes> {
        let (device, len) = (self.table.device(), items.len());
        let (keys, gradients) = (device.from_slice(items)?, device.from_slice(gradients)?);
        let (mut outcomes, scores) = (device.zeroed::<u8>(len)?, self.scores(len)?);
        let batches = self.table.on(&self.stream);
        let batches = if let Some(scores) = &scores { batches.scores(scores) } else { batches };
        batches.accumulate(&keys, &gradients, &mut outcomes)?;
        decoded(&outcomes)
    }

    /// Returns the scores of a batch for the rule `Custom`.
    fn scores(&self, len: usize) -> Result<Option<Buffer<u64>>> {
        let is_custom = self.table.rule() == Some(Rule::Custom);
        Ok(is_custom.then(|| self.table.device().from_slice(&vec![self.batch; len])).transpose()?)
    }
}

fn decoded(outcomes: &Buffer<u8>) -> Result<Codes> {
    Ok(outcomes.read()?.into_iter().map(Outcome::from_code).collect())
}
