//! Batches on device buffers, submitted to a stream.
use super::CacheTable;
use super::element::Summand;
use super::groups::Group;
use super::kernels::Launch;
use super::lease::Lease;
use super::merge::{MergeBy, Merged, Merger};
use crate::map::batches::{check_same_device, elements_of, optional_slice, slice};
use crate::map::check;
use crate::map::launch::nothing;
use crate::number::Number;
use crate::{Error, Outcome, Result};
use bytemuck::Pod;
use gpu::{AsBounded, AsSlice, AsSliceMut, OptionalSliceMut, Slice, SliceMut, Stream};
use phalanx_kernels::cache::merge::ByKeys;
use phalanx_kernels::cache::{Changes, Chunk, EXACTLY, Evicted, Lookups, RowSlice, Sections, Time};
use phalanx_kernels::keyed::Scalar;
use simt::{BoundedSlice, GlobalSlice, Word};

/// Batches on device buffers. The calls submit work to a stream and do not wait for it. Created by
/// [`CacheTable::on`].
///
/// Rows lie one behind the other, [`dim`](CacheTable::dim) elements each. Outcomes are the codes of
/// [`Outcome`](crate::Outcome), one byte per element ([`Outcome::from_code`](crate::Outcome::from_code)
/// decodes them).
///
/// ```
/// use phalanx::{CacheTable, Outcome};
///
/// let table = CacheTable::<u64, f32>::builder().capacity(1000).dim(2).build()?;
/// let (device, stream) = (table.device(), table.device().stream()?);
/// let (keys, rows) = (device.from_slice(&[7u64, 8])?, device.from_slice(&[0.5f32, 1.5, 2.5, 3.5])?);
/// let (mut found, mut outcomes) = (device.zeroed::<f32>(4)?, device.zeroed::<u8>(2)?);
/// table.on(&stream).insert(&keys, &rows, None)?;
/// table.on(&stream).get(&keys, &mut found, &mut outcomes)?;
/// assert_eq!(found.read()?, [0.5, 1.5, 2.5, 3.5]);
/// assert_eq!(outcomes.read()?, [Outcome::Found as u8; 2]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::cache_table::{EvictedBuffers, Rule};
/// use phalanx::{CacheTable, Outcome};
///
/// let table = CacheTable::<u64, u32>::builder().capacity(1000).rule(Rule::Custom).build()?;
/// let (device, stream) = (table.device(), table.device().stream()?);
/// let (keys, rows) = (device.from_slice(&[7u64, 8])?, device.from_slice(&[70u32, 80])?);
/// let scores = device.from_slice(&[3u64, 4])?;
/// let (mut found, mut outcomes) = (device.zeroed::<u32>(2)?, device.zeroed::<u8>(2)?);
/// let (mut old, mut old_rows) = (device.zeroed::<u64>(2)?, device.zeroed::<u32>(2)?);
/// let (mut old_scores, mut count) = (device.zeroed::<u64>(2)?, device.zeroed::<u32>(1)?);
/// let evicted = EvictedBuffers {
///     keys: (&mut old).into(),
///     rows: (&mut old_rows).into(),
///     scores: (&mut old_scores).into(),
///     count: (&mut count).into(),
/// };
/// let batches = table.on(&stream).distinct().scores(&scores);
/// batches.insert_evict(&keys, &rows, evicted, &mut outcomes)?;
/// batches.get_or_insert(&keys, &rows, &mut found, &mut outcomes)?;
/// batches.accumulate(&keys, &rows, None)?;
/// batches.assign(&keys, &rows, None)?;
/// batches.assign_scores(&keys, None)?;
/// batches.get_and_touch(&keys, &mut found, None)?;
/// batches.contains_key(&keys, &mut outcomes)?;
/// assert_eq!((found.read()?, count.read()?), (vec![70, 80], vec![0]));
/// batches.remove(&keys, &mut outcomes)?;
/// batches.get_missed(&keys, &mut found, &mut outcomes, (&mut old, &mut old_rows, &mut count))?;
/// assert_eq!(count.read()?, [2]); // both are absent
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// The table orders the batches of several streams and host threads. Batches that only read run
/// concurrently. Batches that change only rows and scores of present keys run concurrently. A batch that
/// inserts or removes keys runs alone (HierarchicalKV, section 3.5). Streams wait for each other on the
/// device; the host does not wait.
///
/// # Cost
///
/// `get`, `get_missed`, `contains_key`, `assign`, `assign_scores`, `get_and_touch` and `remove` launch one
/// kernel; `get_missed` also sets its counter to zero, and so does `insert_evict`. A batch that places keys
/// (`insert`, `insert_evict`, `get_or_insert`, `accumulate`) launches one kernel, too, but first merges equal
/// keys ([`MergeBy`](super::MergeBy)), unless it has one key or is [`distinct`](Self::distinct). Each call
/// records an event. No call waits for the device, except to enlarge the workspace when a batch is longer
/// than any before in the stream.
#[derive(Debug)]
pub struct Batches<'a, K, V, S> {
    table: &'a CacheTable<K, V, S>,
    stream: Stream,
    scores: Option<Slice<'a, S>>,
    /// Parameter of the score policy.
    parameter: u32,
    is_distinct: bool,
}

/// Buffers for the keys that an insertion evicts: see [`Batches::insert_evict`].
#[derive(Debug)]
pub struct EvictedBuffers<'a, K, V, S> {
    /// Output: the evicted keys.
    pub keys: SliceMut<'a, K>,
    /// Output: their rows.
    pub rows: SliceMut<'a, V>,
    /// Output: their scores.
    pub scores: SliceMut<'a, S>,
    /// Output: their number, one word.
    pub count: SliceMut<'a, u32>,
}

impl<'a, K: Number + Scalar, V: Pod, S: Number + Scalar> Batches<'a, K, V, S> {
    pub(super) fn new(table: &'a CacheTable<K, V, S>, stream: &Stream) -> Self {
        let parameter = table.clock.parameter;
        Self { table, stream: stream.clone(), scores: None, parameter, is_distinct: false }
    }

    /// Promises that the keys of each following batch are distinct, so that they are not merged.
    ///
    /// If they are not, a key may get several slots: later batches find any of them. Builds with debug
    /// assertions merge equal keys all the same.
    pub fn distinct(self) -> Self {
        Self { is_distinct: !cfg!(debug_assertions), ..self }
    }

    /// Gives elements their [scores](Self::scores) exactly, whatever the table's score policy is.
    pub(super) fn exactly(self) -> Self {
        Self { parameter: EXACTLY, ..self }
    }

    /// Sets the scores of the elements of the following batches, which rules other than
    /// [`Lru`](super::Rule::Lru) and [`EpochLru`](super::Rule::EpochLru) use: a score, or the number of uses.
    /// If a batch that places keys has several elements with one key, only the last one's counts; batches of
    /// present keys, as `assign_scores`, count each. Without scores, each element is one use: also with
    /// [`Custom`](super::Rule::Custom), whose score is then 1, or the number of elements with the key in a
    /// batch that places keys.
    pub fn scores(self, scores: impl Into<Slice<'a, S>>) -> Self {
        Self { scores: Some(scores.into()), ..self }
    }

    /// Submits [`CacheTable::get`]. Writes the rows of the keys that are present, and leaves the others as
    /// they are.
    ///
    /// # Errors
    /// [`Error::Length`] if the buffers do not fit each other; [`Error::Misaligned`] for rows that begin
    /// between words; [`Error::OtherDevice`] if a buffer or the stream is not of the table's device;
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn get(
        &self,
        keys: impl AsBounded<K>,
        rows: impl AsSliceMut<V>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let batch = self.lookups(keys, outcomes)?;
        let (rows, chunk) = self.rows("rows", rows.view(), batch.keys.max_len())?;
        self.look_up(nothing(), Lookups { rows, chunk, ..batch })
    }

    /// Submits [`CacheTable::get`], and gathers the keys that are absent and their indices in the batch at
    /// the beginning of `missed` and `indices`, in any order, and their number in `count`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_missed(
        &self,
        keys: impl AsBounded<K>,
        rows: impl AsSliceMut<V>,
        outcomes: impl AsSliceMut<u8>,
        (missed, indices, count): (impl AsSliceMut<K>, impl AsSliceMut<u32>, impl AsSliceMut<u32>),
    ) -> Result<()> {
        let batch = self.lookups(keys, outcomes)?;
        let len = batch.keys.max_len();
        let (rows, chunk) = self.rows("rows", rows.view(), len)?;
        let device = self.table.device();
        let missed_count = slice(device, "the number of missed keys", count, 1)?;
        let batch = Lookups {
            rows,
            chunk,
            missed: slice(device, "missed keys", missed, len)?,
            missed_indices: slice(device, "indices of missed keys", indices, len)?,
            missed_count,
            ..batch
        };
        self.look_up(missed_count, batch)
    }

    /// Looks keys up, and writes the device addresses of their rows, or 0 for a key that is absent. The rows
    /// stay where they are until the lease is dropped. If the number of keys is bounded by a count on the
    /// device, the lease has the rows of these keys only.
    ///
    /// ```
    /// use phalanx::{CacheTable, Outcome};
    ///
    /// let table = CacheTable::<u64, f32>::builder().capacity(128).build()?;
    /// let (device, stream) = (table.device(), table.device().stream()?);
    /// let keys = device.from_slice(&(0..128u64).collect::<Vec<_>>())?;
    /// let rows = device.from_slice(&[0.5f32; 128])?;
    /// table.on(&stream).insert(&keys, &rows, None)?;
    /// let (mut addresses, mut outcomes) = (device.zeroed::<u64>(128)?, device.zeroed::<u8>(128)?);
    /// let lease = table.on(&stream).get_ref(&keys, &mut addresses, &mut outcomes)?;
    /// // Kernels of `stream` may read rows at the addresses, of which none is 0.
    /// assert!(addresses.read()?.iter().all(|address| *address != 0));
    /// assert_eq!(table.insert(&[1000], &[1.0])?, [Outcome::Refused]);
    /// drop(lease);
    /// assert_eq!(table.insert(&[1000], &[1.0])?, [Outcome::Inserted]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::get`] without the rows, and 4 bytes more a key, or 8 if a count on the device bounds
    /// the keys. The first batch that places or
    /// removes keys after the leases have changed clears a bit for each slot and sets one for each leased
    /// row.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_ref(
        &self,
        keys: impl AsBounded<K>,
        addresses: impl AsSliceMut<u64>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<Lease<'a>> {
        let Lookups { keys, outcomes, .. } = self.lookups(keys, outcomes)?;
        let len = keys.max_len();
        let addresses = slice(self.table.device(), "addresses", addresses, len)?;
        self.submit_counting(Group::Readers, nothing(), || {
            self.table.leases.begin(&self.stream, len, |positions| {
                let launch = Launch::GetRef(keys, positions, addresses, outcomes);
                // SAFETY: as for `submit`; the lease owns the positions.
                unsafe {
                    if keys.unbounded().is_none() {
                        // The kernel writes no positions beyond the count: they are NOWHERE.
                        self.stream.fill(positions, 0xff)?;
                    }
                    self.table.launch(&self.stream, launch)
                }
            })
        })
    }

    /// Submits [`CacheTable::contains_key`].
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn contains_key(&self, keys: impl AsBounded<K>, outcomes: impl AsSliceMut<u8>) -> Result<()> {
        let Lookups { keys, outcomes, .. } = self.lookups(keys, outcomes)?;
        let launch = match self.table.groups.lock().is_concurrent() {
            true => Launch::ContainsConcurrent(keys, outcomes),
            false => Launch::Contains(keys, outcomes),
        };
        self.submit(Group::Lookups, launch)
    }

    /// Submits [`CacheTable::insert`].
    ///
    /// # Errors
    /// As [`Self::get`]; [`Error::TooMany`] for 2^30 elements or more.
    pub fn insert(
        &self,
        keys: impl AsSlice<K>,
        rows: impl AsSlice<V>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let (keys, rows) = (keys.view(), Some(rows.view()));
        let outcomes = self.outcomes(outcomes, keys.len())?;
        self.place(
            Part { keys, rows, outcomes, count: nothing(), spread: None, in_order: false },
            Outcome::Replaced,
            Launch::Insert,
        )
    }

    /// Submits [`CacheTable::insert_evict`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_evict(
        &self,
        keys: impl AsSlice<K>,
        rows: impl AsSlice<V>,
        evicted: EvictedBuffers<'_, K, V, S>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let (device, keys, rows) = (self.table.device(), keys.view(), rows.view());
        let (old_rows, chunk) = self.rows("evicted rows", evicted.rows.view(), keys.len())?;
        let count = slice(device, "the number of evicted keys", evicted.count, 1)?;
        let output = Evicted {
            keys: slice(device, "evicted keys", evicted.keys, keys.len())?,
            scores: slice(device, "evicted scores", evicted.scores, keys.len())?,
            rows: old_rows,
            count,
        };
        let outcomes = self.outcomes(outcomes, keys.len())?;
        let part = Part { keys, rows: Some(rows), outcomes, count, spread: None, in_order: false };
        self.place(part, Outcome::Replaced, |batch: Changes<K, S>| {
            Launch::InsertEvict(Changes { chunk: least(batch.chunk, chunk), ..batch }, output)
        })
    }

    /// Submits [`CacheTable::get_or_insert`]. Writes a row for each element that is not refused.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get_or_insert(
        &self,
        keys: impl AsSlice<K>,
        rows: impl AsSlice<V>,
        results: impl AsSliceMut<V>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let (keys, rows, results) = (keys.view(), rows.view(), results.view());
        let (to, chunk) = self.rows("results", results, keys.len())?;
        let outcomes = slice(self.table.device(), "outcomes", outcomes, keys.len())?;
        let (rows, spread) = (Some(rows), Some(results));
        let part = Part { keys, rows, outcomes, count: nothing(), spread, in_order: false };
        self.place(part, Outcome::Found, |batch: Changes<K, S>| {
            Launch::GetOrInsert(Changes { chunk: least(batch.chunk, chunk), ..batch }, to)
        })
    }

    /// Submits [`CacheTable::accumulate`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn accumulate(
        &self,
        keys: impl AsSlice<K>,
        rows: impl AsSlice<V>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()>
    where
        V: Summand,
    {
        let (keys, rows) = (keys.view(), Some(rows.view()));
        let outcomes = self.outcomes(outcomes, keys.len())?;
        let part = Part { keys, rows, outcomes, count: nothing(), spread: None, in_order: true };
        self.place(part, Outcome::Replaced, |batch| Launch::Accumulate(batch, V::KIND))
    }

    /// Submits [`CacheTable::assign`].
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn assign(
        &self,
        keys: impl AsBounded<K>,
        rows: impl AsSlice<V>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let batch = self.update(keys, outcomes)?;
        let (rows, chunk) = self.rows("rows", rows.view(), batch.keys.max_len())?;
        self.submit(Group::Updaters, Launch::Assign(Changes { rows, chunk, ..batch }))
    }

    /// Submits [`CacheTable::assign_scores`].
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn assign_scores(&self, keys: impl AsBounded<K>, outcomes: impl OptionalSliceMut<u8>) -> Result<()> {
        let batch = self.update(keys, outcomes)?;
        self.submit(Group::Updaters, Launch::Assign(batch))
    }

    /// Submits [`CacheTable::get_and_touch`].
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_and_touch(
        &self,
        keys: impl AsBounded<K>,
        rows: impl AsSliceMut<V>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let batch = self.update(keys, outcomes)?;
        let (to, chunk) = self.rows("rows", rows.view(), batch.keys.max_len())?;
        self.submit(Group::Updaters, Launch::GetAndTouch(Changes { chunk, ..batch }, to))
    }

    /// Submits [`CacheTable::remove`].
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn remove(&self, keys: impl AsBounded<K>, outcomes: impl OptionalSliceMut<u8>) -> Result<()> {
        let batch = self.update(keys, outcomes)?;
        self.submit(Group::Inserters, Launch::Remove(batch))
    }
}

/// The elements of a batch that places keys.
struct Part<'a, K, V> {
    keys: Slice<'a, K>,
    rows: Option<Slice<'a, V>>,
    outcomes: GlobalSlice<u8>,
    /// Counter of an output, which is set to zero before the batch, or empty.
    count: GlobalSlice<u32>,
    /// Output rows that all elements with the same key get.
    spread: Option<Slice<'a, V>>,
    /// Whether the elements of a key are merged in the order of the batch.
    in_order: bool,
}

impl<K: Number + Scalar, V: Pod, S: Number + Scalar> Batches<'_, K, V, S> {
    fn submit(&self, group: Group, launch: Launch<K, S>) -> Result<()> {
        // SAFETY: the table and the buffers outlive the launch, since dropping them waits.
        self.submit_counting(group, nothing(), || unsafe { self.table.launch(&self.stream, launch) })
    }

    /// Submits a lookup that copies rows, after its counter, if it has one, was set to zero.
    fn look_up(&self, count: GlobalSlice<u32>, batch: Lookups<K>) -> Result<()> {
        let is_concurrent = self.table.groups.lock().is_concurrent();
        // SAFETY: as for `submit`.
        self.submit_counting(Group::Lookups, count, || unsafe {
            match is_concurrent {
                true => self.table.launch(&self.stream, Launch::GetConcurrent(batch)),
                false if self.table.sorts_host_rows(batch.keys.max_len()) => {
                    self.table.get_sorted(&self.stream, batch)
                }
                false => self.table.launch(&self.stream, Launch::Get(batch)),
            }
        })
    }

    /// Submits launches to the stream, after a counter, if there is one, was set to zero.
    fn submit_counting<T>(
        &self,
        group: Group,
        count: GlobalSlice<u32>,
        launches: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        check_same_device(self.table.device(), "stream", self.stream.device())?;
        self.table.groups.submit(group, &self.stream, || {
            if !count.is_empty() {
                // SAFETY: the buffer outlives the launch, since dropping it waits.
                unsafe { self.stream.fill(count, 0)? };
            }
            launches()
        })
    }

    /// Submits a batch that places keys, merged unless its keys are distinct. The elements of a key that the
    /// batch placed have the outcome `present`, except the first.
    fn place(
        &self,
        part: Part<'_, K, V>,
        present: Outcome,
        launch: impl FnOnce(Changes<K, S>) -> Launch<K, S>,
    ) -> Result<()> {
        let len = part.keys.len();
        let keys = slice(self.table.device(), "keys", part.keys, len)?;
        let (rows, chunk) =
            part.rows.map_or_else(|| Ok((no_rows(), Chunk::One)), |rows| self.rows("rows", rows, len))?;
        let batch = Changes { rows, chunk, outcomes: part.outcomes, ..self.changes(keys.into(), len)? };
        // SAFETY: as for `submit`.
        self.submit_counting(Group::Inserters, part.count, || unsafe {
            let (mut batch, mut merged) = (batch, None);
            if !self.is_distinct && len > 1 {
                let found = self.merge(keys, part.in_order)?;
                let ByKeys { ends, order, .. } = found.by_keys;
                let (keys, outcomes) = (found.keys(0, 0, len), found.outcomes);
                (batch, merged) = (Changes { keys, order, ends, outcomes, ..batch }, Some(found));
            }
            self.table.grow_for(&self.stream, batch.keys)?;
            self.table.prepare_summary(&self.stream, len)?;
            self.table.launch(&self.stream, launch(batch))?;
            merged.map_or(Ok(()), |merged| self.spread(&part, &merged, present))
        })
    }

    /// Submits the merging of equal keys. `in_order` asks for the elements of a key in the order of the
    /// batch.
    ///
    /// # Safety
    /// - The keys live until the stream has executed the launches. The result is valid until the next call
    ///   for the stream.
    unsafe fn merge(&self, keys: GlobalSlice<K>, in_order: bool) -> Result<Merged<K>> {
        let merger = &self.table.merger;
        // SAFETY: the caller's obligations.
        unsafe {
            if in_order || self.table.merge_by == MergeBy::Sort {
                return merger.by_sort(&self.stream, keys);
            }
            merger.by_hash(&self.stream, keys, Sections::of(&[keys.len() as u32]))
        }
    }

    /// Passes the outcomes of merged elements on to all of them.
    ///
    /// # Safety
    /// - The buffers live until the stream has executed the launch.
    unsafe fn spread(&self, part: &Part<'_, K, V>, merged: &Merged<K>, present: Outcome) -> Result<()> {
        if part.outcomes.is_empty() && part.spread.is_none() {
            return Ok(());
        }
        let chunk = part.spread.map_or(Ok(Chunk::One), |rows| self.table.chunk_of("results", rows))?;
        let rows = (part.spread.map_or_else(nothing, words_of), self.table.shape().words, chunk);
        // SAFETY: the caller's obligation.
        unsafe { Merger::spread(&self.stream, merged, (present, part.outcomes), rows) }
    }

    /// Returns the batch of a lookup without rows.
    fn lookups(&self, keys: impl AsBounded<K>, outcomes: impl AsSliceMut<u8>) -> Result<Lookups<K>> {
        let keys = elements_of(self.table.device(), "keys", keys)?;
        let outcomes = slice(self.table.device(), "outcomes", outcomes, keys.max_len())?;
        Ok(Lookups { outcomes, ..lookups_of(keys) })
    }

    /// Returns the batch of a change of keys that are present, without rows.
    fn update(&self, keys: impl AsBounded<K>, outcomes: impl OptionalSliceMut<u8>) -> Result<Changes<K, S>> {
        let keys = elements_of(self.table.device(), "keys", keys)?;
        let len = keys.max_len();
        Ok(Changes { outcomes: self.outcomes(outcomes, len)?, ..self.changes(keys, len)? })
    }

    fn changes(&self, keys: BoundedSlice<K>, len: usize) -> Result<Changes<K, S>> {
        let device = self.table.device();
        let scores =
            self.scores.map_or_else(|| Ok(nothing()), |scores| slice(device, "scores", scores, len))?;
        Ok(Changes { scores, parameter: self.parameter, ..changes_of(keys) })
    }

    fn outcomes(&self, outcomes: impl OptionalSliceMut<u8>, len: usize) -> Result<GlobalSlice<u8>> {
        optional_slice(self.table.device(), "outcomes", outcomes, len)
    }

    /// Returns the rows of `len` elements as kernels take them, and how many words lanes can move at once.
    fn rows(&self, what: &'static str, rows: Slice<'_, V>, len: usize) -> Result<(RowSlice, Chunk)> {
        self.table.row_slice(what, rows, len)
    }
}

impl<K: Number + Scalar, V: Pod, S: Number + Scalar> CacheTable<K, V, S> {
    /// Returns the rows of `len` elements as kernels take them, and how many words lanes can move at once.
    pub(super) fn row_slice(
        &self,
        what: &'static str,
        rows: Slice<'_, V>,
        len: usize,
    ) -> Result<(RowSlice, Chunk)> {
        check(what, len * self.dim(), rows.len())?;
        check_same_device(self.device(), what, rows.device())?;
        Ok((RowSlice::new(words_of(rows)), self.chunk_of(what, rows)?))
    }

    /// Returns how many words of rows lanes can move at once.
    fn chunk_of(&self, what: &'static str, rows: Slice<'_, V>) -> Result<Chunk> {
        let address = rows.pointer().addr();
        if !address.is_multiple_of(4) {
            return Err(Error::Misaligned { what });
        }
        let is_wide = address.is_multiple_of(16) && self.shape().words.is_multiple_of(4);
        Ok(if is_wide { Chunk::Four } else { Chunk::One })
    }
}

/// Returns the batch of a lookup without outputs.
pub(super) fn lookups_of<K: Word>(keys: BoundedSlice<K>) -> Lookups<K> {
    Lookups {
        keys,
        rows: no_rows(),
        far: nothing(),
        missed: nothing(),
        missed_indices: nothing(),
        missed_count: nothing(),
        outcomes: nothing(),
        chunk: Chunk::One,
    }
}

/// Returns the batch of a change of these keys, without rows and outputs.
pub(super) fn changes_of<K: Word, S: Word>(keys: BoundedSlice<K>) -> Changes<K, S> {
    Changes {
        keys,
        scores: nothing(),
        rows: no_rows(),
        outcomes: nothing(),
        ends: nothing(),
        order: nothing(),
        // The submission sets it.
        time: Time::default(),
        parameter: 0,
        chunk: Chunk::One,
    }
}

/// Returns the words of rows.
pub(super) fn words_of<V: Pod>(rows: Slice<'_, V>) -> GlobalSlice<u32> {
    let words = rows.len() * size_of::<V>() / 4;
    // SAFETY: these are the words of a buffer, which outlives the launches that use them. Rows have whole
    // words, and their alignment was checked.
    unsafe { GlobalSlice::from_raw_parts(rows.pointer().cast(), words) }
}

pub(super) fn no_rows() -> RowSlice {
    RowSlice::new(nothing())
}

/// Returns the smaller of two chunks.
pub(super) fn least(a: Chunk, b: Chunk) -> Chunk {
    if a == Chunk::Four { b } else { a }
}
