//! Export of the keys that were used since a time, by steps between which other batches run.
//!
//! ```text
//! device    scan 0   scan 1            scan 2            scan 3         each a batch of the readers' group
//! bus out            rows 0            rows 1            rows 2         as many as scan found
//! host               wait     take 0            take 1            take 2
//! ```
//!
//! Two pieces of staging memory take turns: the rows of one are copied while the host takes those of the
//! other. Only a scan holds up batches that place keys, not the copies over the bus.
use super::groups::Group;
use super::growth::UnderWay;
use super::host::Exported;
use super::kernels::Launch;
use super::{CacheTable, Rule, SLOTS};
use crate::number::Number;
use crate::{Error, Result};
use bytemuck::Pod;
use gpu::{Column, Layout, Reach, Staging};
use phalanx_kernels::cache::{Evicted, Filter, RowSlice, Span};
use phalanx_kernels::keyed::Scalar;

/// Maximum number of bytes of a step. With padding it fills a block of staging memory.
const STEP_BYTES: usize = (8 << 20) - 4 * 256;

/// An export by steps, created by [`CacheTable::export_since`]: an iterator over parts of the export.
///
/// ```
/// use phalanx::CacheTable;
/// use phalanx::cache_table::Rule;
///
/// let table = CacheTable::<u64, u32>::builder().capacity(1000).rule(Rule::EpochLru).build()?;
/// let export = table.export_since(0)?.buckets_at_once(1);
/// assert_eq!(export.next_since(), 0);
/// assert!(table.insert(&[1, 2], &[10, 20])?.all_placed()); // beside the export
/// let mut found = 0;
/// for part in export {
///     found += part?.keys.len();
/// }
/// assert_eq!(found, 2);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// Batches of all groups may be submitted between the steps, also by other threads. The table does not grow
/// until the export is dropped: never, if it is leaked ([`CacheTable::exports`] counts it).
///
/// # Cost
///
/// A step launches a kernel that reads the digests of its buckets, and the scores unless all are exported,
/// and copies the keys, scores and rows that it found to the host. `next` waits for the step before. The two
/// pieces of staging memory have at most 8 MiB each, pinned and on the device.
#[derive(Debug)]
pub struct ExportSince<'a, K, V, S> {
    table: &'a CacheTable<K, V, S>,
    filter: Filter<K, S>,
    next_since: u64,
    /// Maximum number of buckets in the next step.
    step: u32,
    /// First bucket of the next step.
    next: u32,
    spare: Vec<Staging>,
    /// A step whose scan was submitted.
    scanned: Option<Step<K, S>>,
    /// A step whose rows are being copied, and their number.
    copied: Option<(Step<K, S>, usize)>,
    _under_way: UnderWay<'a>,
}

/// A step that was submitted. Its columns do not change if later steps have another number of buckets.
#[derive(Debug)]
struct Step<K, S> {
    staging: Staging,
    columns: Columns<K, S>,
}

/// Columns of a step's staging memory.
#[derive(Clone, Copy, Debug)]
struct Columns<K, S> {
    count: Column<u32>,
    keys: Column<K>,
    scores: Column<S>,
    rows: Column<u32>,
}

/// Exports during which other batches run.
impl<K: Number + Scalar, V: Pod, S: Number + Scalar> CacheTable<K, V, S> {
    /// Begins an export of the keys that were used since a time, with scores and rows, by steps of some
    /// buckets. Other batches run between the steps, also insertions.
    ///
    /// `since` depends on the table's rule: the epoch for `EpochLru` and `EpochLfu`, the number of a batch
    /// for `Lru`, the score for `Custom` and for a policy of your own. 0 exports all keys.
    /// [`ExportSince::next_since`] is the `since` of the next export, which continues this one; set a higher
    /// [epoch](CacheTable::set_epoch) before the export, so that keys used before are not exported again by
    /// the next one.
    ///
    /// A key that is in the table with such a score from the beginning to the end of the export is returned
    /// once, with a row and a score that it had together at one point in time. A key that is evicted or
    /// removed and placed again meanwhile may be missing or come twice, as may one that is used for the
    /// first time since then; its score is then one that the next export returns. (For `Custom`: if the
    /// caller's scores do not decrease with time.) Removals are not reported.
    ///
    /// The table does not grow until the export is dropped, and evicts keys meanwhile. So an export that is
    /// leaked, by [`std::mem::forget`] for example, ends the table's growth:
    /// [`CacheTable::exports`] counts it.
    ///
    /// ```
    /// use phalanx::CacheTable;
    /// use phalanx::cache_table::Rule;
    ///
    /// let table = CacheTable::<u64, u32>::builder().capacity(1000).rule(Rule::EpochLfu).build()?;
    /// assert!(table.insert(&[1, 2], &[10, 20])?.all_placed());
    /// table.set_epoch(1)?;
    /// let export = table.export_since(0)?;
    /// let next = export.next_since();
    /// let parts: Vec<_> = export.collect::<Result<_, _>>()?;
    /// assert_eq!((next, parts.iter().map(|part| part.keys.len()).sum::<usize>()), (1, 2));
    /// table.get_and_touch(&[2])?;
    /// let changed = table.export_since(next)?.next().expect("a key was used")?;
    /// assert_eq!((changed.keys, changed.rows), (vec![2], vec![20]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoTime`] for the rules `Lfu` and `LfuThenLru`, unless `since` is 0; [`Error::Device`] if the
    /// device is lost or lacks the memory.
    pub fn export_since(&self, since: u64) -> Result<ExportSince<'_, K, V, S>> {
        let filter = self.filter_since(since)?;
        let stream = self.device.stream()?;
        // All batches with an earlier time were submitted before, so every step sees them.
        let begin = || Ok((UnderWay::begin(&self.growth), self.next_since(since)));
        let (under_way, next_since) = self.groups.submit(Group::Readers, &stream, begin)?;
        Ok(ExportSince {
            table: self,
            filter,
            next_since,
            step: self.most_buckets_at_once(),
            next: 0,
            spare: Vec::new(),
            scanned: None,
            copied: None,
            _under_way: under_way,
        })
    }

    /// Returns the maximum number of buckets in a step of an export.
    fn most_buckets_at_once(&self) -> u32 {
        (STEP_BYTES / self.bucket_bytes()).clamp(1, self.shape().buckets as usize) as u32
    }

    /// Returns the filter of the scores of keys that were used since a time.
    fn filter_since(&self, since: u64) -> Result<Filter<K, S>> {
        let half = S::BITS / 2;
        let lowest = match self.rule() {
            _ if since == 0 => return Ok(Filter::all()),
            // Epochs saturate at the maximum of their half.
            Some(Rule::EpochLru | Rule::EpochLfu) => since.min(S::MAX.to_u64() >> half) << half,
            Some(Rule::Lru | Rule::Custom) | None => since.min(S::MAX.to_u64()),
            Some(rule @ (Rule::Lfu | Rule::LfuThenLru)) => {
                return Err(Error::NoTime { rule: format!("{rule:?}") });
            }
        };
        Ok(Filter::all().scores(S::from_u64(lowest)..))
    }

    /// Returns the time from which on scores are those of batches that are submitted later.
    fn next_since(&self, since: u64) -> u64 {
        let time = *self.clock.time();
        match self.rule() {
            Some(Rule::EpochLru | Rule::EpochLfu) => time.epoch.into(),
            Some(Rule::Lru) => time.now + 1,
            Some(Rule::Custom) | None => since,
            Some(Rule::Lfu | Rule::LfuThenLru) => 0,
        }
    }
}

impl<K: Number + Scalar, V: Pod, S: Number + Scalar> ExportSince<'_, K, V, S> {
    /// Returns the `since` of an export that continues this one: the table's epoch when this export began, or
    /// the number of the batch after it. With the rule `Custom` and with a policy of your own, it is this
    /// export's own `since`: only the caller knows what its scores mean. With `Lfu` and `LfuThenLru` it is 0.
    pub fn next_since(&self) -> u64 {
        self.next_since
    }

    /// Sets the maximum number of buckets in a later step, of 128 keys each: with fewer, batches that place
    /// keys wait less long for a step. Default, and maximum: those that fit 8 MiB. The two steps that the
    /// export has submitted ahead, if it has begun, keep their size.
    pub fn buckets_at_once(mut self, buckets: u32) -> Self {
        self.step = buckets.clamp(1, self.table.most_buckets_at_once());
        self
    }

    /// Returns the columns of the next step.
    fn columns(&self) -> Result<Columns<K, S>> {
        let (mut layout, slots) = (Layout::default(), self.step as usize * SLOTS as usize);
        Ok(Columns {
            count: layout.column(1)?,
            keys: layout.column(slots)?,
            scores: layout.column(slots)?,
            rows: layout.column(slots * self.table.shape().words as usize)?,
        })
    }

    /// Submits the scan of the next buckets, if there are any.
    fn scan(&mut self) -> Result<()> {
        if self.next >= self.table.shape().buckets {
            return Ok(());
        }
        let (table, columns) = (self.table, self.columns()?);
        let bytes = self.step as usize * table.bucket_bytes() + 4 * 256;
        // Steps may have become larger.
        let mut staging = match self.spare.pop().filter(|spare| spare.byte_len() >= bytes) {
            Some(staging) => staging,
            None => table.device.staging(bytes, Reach::Copied)?,
        };
        staging.fill(columns.count, 0)?;
        let output = Evicted {
            keys: staging.global(columns.keys)?,
            scores: staging.global(columns.scores)?,
            rows: RowSlice::new(staging.global(columns.rows)?),
            count: staging.global(columns.count)?,
        };
        let (span, stream) = (Span { first: self.next, count: self.step }, staging.stream().clone());
        let launch = Launch::Export(self.filter, span, output, table.widest_chunk());
        // SAFETY: the columns have room for the keys of the span. Dropping the staging memory waits.
        table.groups.submit(Group::Readers, &stream, || unsafe { table.launch(&stream, launch) })?;
        staging.download(columns.count)?;
        self.next += self.step;
        self.scanned = Some(Step { staging, columns });
        Ok(())
    }

    /// Waits for the scan that was submitted, and submits copies of what it found.
    fn copy(&mut self) -> Result<()> {
        let Some(mut step) = self.scanned.take() else { return Ok(()) };
        let (staging, Columns { count, keys, scores, rows }) = (&mut step.staging, step.columns);
        staging.wait()?;
        let found = staging.read(count)?[0] as usize;
        staging.download(keys.first(found))?;
        staging.download(scores.first(found))?;
        staging.download(rows.first(found * self.table.shape().words as usize))?;
        self.copied = Some((step, found));
        Ok(())
    }

    /// Waits for the copies of a step, and returns what they contain.
    fn read(&self, step: &mut Step<K, S>, found: usize) -> Result<Exported<K, V, S>> {
        let (staging, Columns { keys, scores, rows, .. }) = (&mut step.staging, step.columns);
        staging.wait()?;
        let words = staging.read(rows.first(found * self.table.shape().words as usize))?;
        Ok(Exported {
            keys: staging.read(keys.first(found))?.to_vec(),
            scores: staging.read(scores.first(found))?.to_vec(),
            rows: rows_of(words),
        })
    }

    /// Submits the scan of the next buckets while the rows of others are copied. If there is no memory for a
    /// second step, the first is taken before.
    fn scan_ahead(&mut self) -> Result<()> {
        match self.scan() {
            Err(error) if error.is_lack_of_room() => Ok(()),
            scanned => scanned,
        }
    }

    /// Returns the next part that has keys.
    fn advance(&mut self) -> Result<Option<Exported<K, V, S>>> {
        loop {
            if self.copied.is_none() {
                if self.scanned.is_none() {
                    self.scan()?;
                }
                self.copy()?;
                self.scan_ahead()?;
            }
            let Some((mut step, found)) = self.copied.take() else { return Ok(None) };
            self.copy()?;
            let part = self.read(&mut step, found)?;
            self.spare.push(step.staging);
            if self.scanned.is_none() {
                self.scan()?;
            }
            if found > 0 {
                return Ok(Some(part));
            }
        }
    }
}

/// Returns the rows that words contain.
pub(super) fn rows_of<V: Pod>(words: &[u32]) -> Vec<V> {
    let mut rows = vec![V::zeroed(); size_of_val(words) / size_of::<V>()];
    bytemuck::cast_slice_mut::<V, u8>(&mut rows).copy_from_slice(bytemuck::cast_slice(words));
    rows
}

/// Ends after the first error.
impl<K: Number + Scalar, V: Pod, S: Number + Scalar> Iterator for ExportSince<'_, K, V, S> {
    type Item = Result<Exported<K, V, S>>;

    fn next(&mut self) -> Option<Self::Item> {
        let part = self.advance();
        if part.is_err() {
            (self.next, self.scanned, self.copied) = (u32::MAX, None, None);
        }
        part.transpose()
    }
}
