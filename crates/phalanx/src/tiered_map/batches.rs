//! Batches on device buffers.
#[allow(unused_imports)] // for links in the documentation
use super::TieredMap;
use super::chunk::{Columns, Request};
use super::growth::{Again, interrupted};
use super::plan::Form;
use super::shards::Shards;
use super::tiers::Tiers;
use crate::map::batches::{check_same_device, contains_key, elements_of, get, optional_slice, slice};
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp};
#[allow(unused_imports)] // for links in the documentation
use crate::{Error, Outcome, map::OpCode};
use crate::{Key, Merge, Result, Value};
use gpu::{AsBounded, AsSlice, AsSliceMut, Device, OptionalSliceMut, Stream, Tier};
use simt::GlobalSlice;
use std::borrow::Cow;
use std::fmt::{self, Debug, Formatter};
use std::sync::{Mutex, PoisonError};

/// Batches on device buffers, in the order of a stream. Created by [`TieredMap::on`] and by
/// `TieredSkipList::on`.
///
/// Buffers have words of keys and values, and outcomes are the codes of [`Outcome`], as those of
/// [`Map::on`](crate::Map::on); keys may be [bounded by a count](crate::map::Batches#counts-on-the-device) on
/// the device. A [`TieredMap`] does not grow for these calls, whatever its policy; a `TieredSkipList` does.
/// Elements that do not fit are refused. The callers' buffers are not part of the budget.
///
/// ```
/// use phalanx::map::OpCode;
/// use phalanx::{Merge, Outcome, TieredMap};
///
/// for shards in [1, 8] {
///     let builder = TieredMap::<u32, u32>::builder().capacity(1000);
///     let builder = if shards > 1 { builder.shards(shards) } else { builder };
///     let map = builder.build()?;
///     let (device, stream) = (map.device(), map.device().stream()?);
///     let keys = device.from_slice(&[1u32, 2, 3])?;
///     let values = device.from_slice(&[10u32, 20, 30])?;
///     let (mut found, mut outcomes) = (device.zeroed::<u32>(3)?, device.zeroed::<u8>(3)?);
///     let batches = map.on(&stream);
///     batches.insert(&keys, &values, None)?;
///     batches.upsert(Merge::Add, &keys, &values, &mut outcomes)?;
///     assert_eq!(outcomes.read()?, [Outcome::Replaced as u8; 3]);
///     batches.get(&keys, &mut found, &mut outcomes)?;
///     assert_eq!((found.read()?, outcomes.read()?), (vec![20, 40, 60], vec![Outcome::Found as u8; 3]));
///     batches.take(&keys, &mut found, &mut outcomes)?;
///     batches.get_or_insert(&keys, &values, &mut found, &mut outcomes)?;
///     assert_eq!((found.read()?, outcomes.read()?), (vec![10, 20, 30], vec![Outcome::Inserted as u8; 3]));
///     batches.replace(&keys, &keys, &mut found, &mut outcomes)?;
///     assert_eq!((found.read()?, outcomes.read()?), (vec![10, 20, 30], vec![Outcome::Replaced as u8; 3]));
///     let codes = [OpCode::GET, OpCode::ADD, OpCode::REMOVE].map(|code| code.code() as u8);
///     batches.execute(&device.from_slice(&codes)?, &keys, &values, &mut found, &mut outcomes)?;
///     assert_eq!(found.read()?[..2], [1, 2]);
///     batches.insert_new(&keys, &values, None)?;
///     let count = device.from_slice(&[1u32])?; // the first key only
///     batches.remove(keys.bounded_by(&count)?, &mut outcomes)?;
///     batches.contains_key(&keys, &mut outcomes)?;
///     assert_eq!(outcomes.read()?, [Outcome::Absent as u8, Outcome::Found as u8, Outcome::Found as u8]);
///     assert_eq!((map.len(), map.is_resident()), (2, shards == 1));
/// }
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// If a [`TieredMap`] is [resident](TieredMap::is_resident), the calls submit a kernel and do not wait.
/// Batches in one stream run one after the other, those in several streams concurrently, as
/// [`HashMap`](crate::HashMap) describes. Otherwise a call waits for the stream, and then for the batch. All
/// other calls on the map wait for the batches before.
///
/// # Cost
/// On a resident map `insert`, `insert_new`, `upsert`, `get_or_insert`, `get`, `contains_key`, `remove`,
/// `take`, `replace` and `execute` launch one kernel each, as those of a `HashMap` do. Otherwise they cost as
/// the methods of the same names of [`TieredMap`] or `TieredSkipList`, without the copies of the batch
/// between host and device; a batch of more than three chunks is still brought to the shards through pinned
/// memory. A count on the device is read once.
///
/// In a `TieredSkipList`, a batch that may split inner lists also copies its keys to the host. If elements
/// are refused, and tried again after a split, all columns of the batch are copied to the host, and results
/// and outcomes back.
pub struct Batches<'a, K: Key, V: Value> {
    tiers: &'a dyn Submit<K::Word, V::Word>,
    device: &'a Device,
    stream: &'a Stream,
}

impl<K: Key, V: Value> Debug for Batches<'_, K, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").field("stream", self.stream).finish_non_exhaustive()
    }
}

impl<K: Key, V: Value> TieredMap<K, V> {
    /// Returns the operations on device buffers, in the order of a stream.
    ///
    /// Cost: none.
    ///
    /// ```
    /// use phalanx::TieredMap;
    ///
    /// let map = TieredMap::<u32, u32>::builder().build()?;
    /// let (device, stream) = (map.device(), map.device().stream()?);
    /// let keys = device.from_slice(&[7u32])?;
    /// map.on(&stream).insert(&keys, &keys, None)?;
    /// assert_eq!(map.get(&[7])?, [Some(7)]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn on<'a>(&'a self, stream: &'a Stream) -> Batches<'a, K, V> {
        Batches::new(&self.tiers, &self.device, stream)
    }
}

impl<'a, K: Key, V: Value> Batches<'a, K, V> {
    pub(crate) fn new(
        tiers: &'a dyn Submit<K::Word, V::Word>,
        device: &'a Device,
        stream: &'a Stream,
    ) -> Self {
        Self { tiers, device, stream }
    }

    fn submit(&self, batch: Batch<K::Word, V::Word>) -> Result<()> {
        check_same_device(self.device, "stream", self.stream.device())?;
        self.tiers.submit(self.stream, batch)
    }

    fn submit_pairs(
        &self,
        op: BatchOp,
        keys: impl AsBounded<K::Word>,
        values: impl AsSlice<V::Word>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let keys = elements_of(self.device, "keys", keys)?;
        let outcomes = optional_slice(self.device, "outcomes", outcomes, keys.max_len())?;
        let arguments = slice(self.device, "values", values, keys.max_len())?;
        self.submit(Batch { arguments, outcomes, ..Batch::new(op, keys) })
    }

    /// Submits a batch of pairs that returns values. `what` names the arguments in errors.
    fn submit_returning(
        &self,
        (op, what): (BatchOp, &'static str),
        (keys, codes): (impl AsBounded<K::Word>, Option<GlobalSlice<u8>>),
        arguments: impl AsSlice<V::Word>,
        (results, outcomes): (impl AsSliceMut<V::Word>, impl AsSliceMut<u8>),
    ) -> Result<()> {
        let batch = contains_key(self.device, keys, outcomes)?;
        let len = batch.keys.max_len();
        let arguments = slice(self.device, what, arguments, len)?;
        let results = slice(self.device, "results", results, len)?;
        self.submit(Batch { op, codes: codes.unwrap_or(batch.codes), arguments, results, ..batch })
    }

    /// Inserts pairs, as [`TieredMap::insert`] does.
    ///
    /// # Errors
    /// [`Error::Length`] if the buffers differ in length; [`Error::OtherDevice`] if a buffer or the stream is
    /// not of the map's device; [`Error::Interrupted`] if the device of a map that is not resident fails
    /// after some elements were executed: in a [`TieredMap`], without outcomes, those that were refused count
    /// as done, too; [`Error::Device`] if the device is lost, or the host or the device lacks the memory.
    pub fn insert(
        &self,
        keys: impl AsBounded<K::Word>,
        values: impl AsSlice<V::Word>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        self.submit_pairs(BatchOp::Insert, keys, values, outcomes)
    }

    /// Inserts the pairs whose keys are absent.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_new(
        &self,
        keys: impl AsBounded<K::Word>,
        values: impl AsSlice<V::Word>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        self.submit_pairs(BatchOp::InsertNew, keys, values, outcomes)
    }

    /// Inserts pairs, merging their values with those of existing keys.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn upsert(
        &self,
        merge: Merge<V>,
        keys: impl AsBounded<K::Word>,
        values: impl AsSlice<V::Word>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        self.submit_pairs(BatchOp::Upsert(merge.operation()), keys, values, outcomes)
    }

    /// Inserts the pairs whose keys are absent, and writes the values of all keys, which are invalid where
    /// the outcome is [`Outcome::Refused`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get_or_insert(
        &self,
        keys: impl AsBounded<K::Word>,
        values: impl AsSlice<V::Word>,
        results: impl AsSliceMut<V::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.submit_returning((BatchOp::GetOrInsert, "values"), (keys, None), values, (results, outcomes))
    }

    /// Writes the values of keys, which are valid where the outcome is [`Outcome::Found`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get(
        &self,
        keys: impl AsBounded<K::Word>,
        values: impl AsSliceMut<V::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.submit(get(self.device, keys, values, outcomes)?)
    }

    /// Writes for each key whether it is in the map: [`Outcome::Found`] or [`Outcome::Absent`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn contains_key(&self, keys: impl AsBounded<K::Word>, outcomes: impl AsSliceMut<u8>) -> Result<()> {
        self.submit(contains_key(self.device, keys, outcomes)?)
    }

    /// Removes keys.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove(&self, keys: impl AsBounded<K::Word>, outcomes: impl AsSliceMut<u8>) -> Result<()> {
        self.submit(Batch { op: BatchOp::Remove, ..contains_key(self.device, keys, outcomes)? })
    }

    /// Removes keys and writes their values, which are valid where the outcome is [`Outcome::Removed`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn take(
        &self,
        keys: impl AsBounded<K::Word>,
        values: impl AsSliceMut<V::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.submit(Batch { op: BatchOp::Take, ..get(self.device, keys, values, outcomes)? })
    }

    /// Inserts pairs and writes the old values, which are valid where the outcome is [`Outcome::Replaced`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn replace(
        &self,
        keys: impl AsBounded<K::Word>,
        values: impl AsSlice<V::Word>,
        results: impl AsSliceMut<V::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.submit_returning((BatchOp::Replace, "values"), (keys, None), values, (results, outcomes))
    }

    /// Executes a mixed batch. `codes` has the operations' codes, one byte per element: [`OpCode::code`] as a
    /// `u8`. Any other byte looks up its key.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn execute(
        &self,
        codes: impl AsSlice<u8>,
        keys: impl AsBounded<K::Word>,
        arguments: impl AsSlice<V::Word>,
        results: impl AsSliceMut<V::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let codes = slice(self.device, "codes", codes, keys.bounded().elements().len())?;
        let columns = (results, outcomes);
        self.submit_returning((BatchOp::Mixed, "arguments"), (keys, Some(codes)), arguments, columns)
    }
}

/// A structure that executes batches on device buffers.
pub trait Submit<K, V>: Send + Sync {
    /// Runs a batch in the order of a stream: one table executes it there; for shards this call waits.
    fn submit(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()>;
}

impl<K: Word, V: Word, S: Shards<K, V>> Submit<K, V> for Mutex<Tiers<K, V, S>>
where
    Tiers<K, V, S>: Send,
{
    fn submit(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        self.lock().unwrap_or_else(PoisonError::into_inner).submit(stream, batch)
    }
}

impl<K: Word, V: Word, S: Shards<K, V>> Tiers<K, V, S> {
    /// Runs a batch whose columns are on the device, as [`Submit::submit`] says.
    fn submit(&mut self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        let len = batch.keys.max_len();
        if len == 0 {
            return Ok(());
        }
        if self.plan.form.is_sharded() || self.inner.grows_on_streams() {
            stream.synchronize()?;
            return self.run_on_device(batch);
        }
        let mut table = self.raw_of_whole();
        // SAFETY: dropping the table or a buffer waits for the stream, and calls that replace the table do so
        // in `finish_submitted`.
        unsafe { self.inner.launch(stream, &mut table, batch.into())? };
        self.inner.launched(&mut self.shards[0].size, &table);
        self.note_operations(len, self.plan.form == Form::Resident);
        self.is_submitted = true;
        Ok(())
    }

    /// Runs a batch whose columns are on the device, and which nothing still writes. Waits.
    fn run_on_device(&mut self, batch: Batch<K, V>) -> Result<()> {
        let (op, mut columns) = (batch.op, self.columns_of(batch)?);
        let len = columns.keys.len();
        if !self.inner.grows_on_streams() {
            let ran = self.attempt(&mut Request::on_device(op, columns));
            return ran.map(drop).map_err(|failure| interrupted(op, len, failure));
        }
        // Refused elements are found by their outcomes.
        let is_without = op.places() && columns.outcomes.is_empty();
        let own = self.device.buffer_on(Tier::Pinned, if is_without { len } else { 0 })?;
        if is_without {
            columns.outcomes = own.global();
        }
        self.run(&mut Request::on_device(op, columns)).map(drop)
    }

    /// Returns the columns of a batch, as many elements as its count says. Waits.
    fn columns_of(&self, batch: Batch<K, V>) -> Result<Columns<K, V>> {
        let Batch { codes, keys, arguments, results, outcomes, .. } = batch;
        let count = self.read(keys.count())?;
        let words = count.iter().rev().fold(0, |high, &word| high << 32 | word as usize);
        let len = if count.is_empty() { keys.max_len() } else { words.min(keys.max_len()) };
        Ok(Columns { codes, keys: keys.words(), arguments, results, outcomes }.part(0..len))
    }

    /// Copies words of the device to the host. Waits.
    fn read<T: simt::Word + bytemuck::Pod + Default>(&self, words: GlobalSlice<T>) -> Result<Vec<T>> {
        let (stream, mut read) = (&self.places[0].stream, vec![T::default(); words.len()]);
        // SAFETY: all live until the wait; no kernel of a batch runs.
        let submitted = unsafe { stream.download(&mut read, words) };
        stream.synchronize()?;
        submitted?;
        Ok(read)
    }

    /// Returns the keys of a batch on the host. Waits if they are on the device.
    pub fn keys_of<'a>(&self, request: &'a Request<'_, K, V>) -> Result<Cow<'a, [K]>> {
        match request.on_device {
            Some(columns) => Ok(Cow::Owned(self.read(columns.keys)?)),
            None => Ok(Cow::Borrowed(request.keys)),
        }
    }

    /// Returns the outcomes of a batch on the host, as [`Self::keys_of`] the keys.
    pub fn outcomes_of<'a>(&self, request: &'a Request<'_, K, V>) -> Result<Cow<'a, [u8]>> {
        match request.on_device {
            Some(columns) => Ok(Cow::Owned(self.read(columns.outcomes)?)),
            None => Ok(Cow::Borrowed(&*request.outcomes)),
        }
    }

    /// Retries refused elements of a batch on the device by way of the host. Returns the number of those that
    /// stay refused.
    pub fn retry_on_device(&mut self, op: BatchOp, columns: Columns<K, V>) -> Result<u64> {
        let interrupt = |tiers: &mut Self, request: &Request<'_, K, V>, source| {
            interrupted(op, columns.keys.len(), tiers.failed(request, source))
        };
        let mut host = match self.read_columns(columns) {
            Ok(host) => host,
            Err(source) => return Err(interrupt(self, &Request::on_device(op, columns), source)),
        };
        let refused = self.retry(&mut host.request(op))?;
        match self.write_results(columns, &host) {
            Ok(()) => Ok(refused),
            Err(source) => Err(interrupt(self, &host.request(op), source)),
        }
    }

    /// Copies the columns of a batch to the host. Waits.
    fn read_columns(&self, columns: Columns<K, V>) -> Result<Again<K, V>> {
        Ok(Again {
            codes: self.read(columns.codes)?,
            keys: self.read(columns.keys)?,
            arguments: self.read(columns.arguments)?,
            results: self.read(columns.results)?,
            outcomes: self.read(columns.outcomes)?,
        })
    }

    /// Copies results and outcomes to the device. Waits.
    fn write_results(&self, columns: Columns<K, V>, host: &Again<K, V>) -> Result<()> {
        let stream = &self.places[0].stream;
        // SAFETY: all live until the wait; no kernel of a batch runs.
        let submitted = unsafe {
            stream
                .upload(columns.results, &host.results)
                .and_then(|()| stream.upload(columns.outcomes, &host.outcomes))
        };
        Ok(stream.synchronize().and(submitted)?)
    }

    /// Waits for batches in streams of callers, and counts their pairs.
    pub fn finish_submitted(&mut self) -> Result<()> {
        if !self.is_submitted {
            return Ok(());
        }
        self.device.synchronize()?;
        self.fold(0, 0)?;
        self.places[0].stream.synchronize()?;
        self.count(0);
        self.is_submitted = false;
        Ok(())
    }
}
