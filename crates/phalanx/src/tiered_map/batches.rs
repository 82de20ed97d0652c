//! Batches on device buffers.
use super::TieredMap;
use super::chunk::{Columns, Request};
use super::growth::interrupted;
use super::plan::Form;
use super::shards::Shards;
use super::tiers::Tiers;
use crate::map::batches::{check_same_device, keys_of, optional_slice, slice};
use crate::map::encoding::Word;
use crate::map::launch::{BatchOp, nothing};
#[allow(unused_imports)] // for links in the documentation
use crate::{Error, Outcome};
use crate::{Key, Merge, Result, Value};
use gpu::{AsSlice, AsSliceMut, OptionalSliceMut, Stream};

/// Batches on device buffers, in the order of a stream. Created by [`TieredMap::on`].
///
/// Buffers have words of keys and values, and outcomes are the codes of [`Outcome`], as those of
/// [`Map::on`](crate::Map::on). These calls never grow the map, whatever its policy: elements that do not fit
/// are refused. The map does not count the callers' buffers as part of its budget.
///
/// ```
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
///     batches.insert_new(&keys, &values, None)?;
///     batches.remove(&device.from_slice(&[3u32])?, &mut device.zeroed::<u8>(1)?)?;
///     batches.contains_key(&keys, &mut outcomes)?;
///     assert_eq!(outcomes.read()?, [Outcome::Found as u8, Outcome::Found as u8, Outcome::Absent as u8]);
///     assert_eq!((map.len(), map.is_resident()), (2, shards == 1));
/// }
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// If the map is [resident](TieredMap::is_resident), the calls submit a kernel and do not wait. Batches in
/// one stream run one after the other, those in several streams concurrently, as [`HashMap`](crate::HashMap)
/// describes. A map with shards waits for the stream, and then for the batch. All other calls on the map wait
/// for the batches before.
///
/// # Cost
/// `insert`, `insert_new`, `upsert`, `get`, `contains_key`, `remove` and `take` on a resident map launch one
/// kernel, as those of a `HashMap` do. On a map with shards they cost as the method of the same name of
/// [`TieredMap`], without the copies of the batch between host and device; a batch of more than three chunks
/// is still brought to the shards through pinned memory.
#[derive(Debug)]
pub struct Batches<'a, K: Key, V: Value> {
    map: &'a TieredMap<K, V>,
    stream: &'a Stream,
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
        Batches { map: self, stream }
    }
}

impl<K: Key, V: Value> Batches<'_, K, V> {
    /// Returns columns of keys and outcomes.
    fn columns(
        &self,
        keys: impl AsSlice<K::Word>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<Columns<K::Word, V::Word>> {
        let device = self.map.device();
        let keys = keys_of(device, keys)?;
        let outcomes = optional_slice(device, "outcomes", outcomes, keys.len())?;
        Ok(Columns { codes: nothing(), keys, arguments: nothing(), results: nothing(), outcomes })
    }

    fn submit(&self, op: BatchOp, columns: Columns<K::Word, V::Word>) -> Result<()> {
        check_same_device(self.map.device(), "stream", self.stream.device())?;
        self.map.tiers().submit(self.stream, op, columns)
    }

    fn submit_pairs(
        &self,
        op: BatchOp,
        keys: impl AsSlice<K::Word>,
        values: impl AsSlice<V::Word>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let columns = self.columns(keys, outcomes)?;
        let arguments = slice(self.map.device(), "values", values, columns.keys.len())?;
        self.submit(op, Columns { arguments, ..columns })
    }

    fn submit_keys(
        &self,
        op: BatchOp,
        keys: impl AsSlice<K::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let columns = self.columns(keys, None)?;
        let outcomes = slice(self.map.device(), "outcomes", outcomes, columns.keys.len())?;
        self.submit(op, Columns { outcomes, ..columns })
    }

    /// Inserts pairs, as [`TieredMap::insert`] does.
    ///
    /// # Errors
    /// [`Error::Length`] if the buffers differ in length; [`Error::OtherDevice`] if a buffer or the stream is
    /// not of the map's device; [`Error::Interrupted`] if the device of a map with shards fails after some
    /// elements were executed: without outcomes, those that were refused count as done, too;
    /// [`Error::Device`] if the device is lost, or the host or the device lacks the memory.
    pub fn insert(
        &self,
        keys: impl AsSlice<K::Word>,
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
        keys: impl AsSlice<K::Word>,
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
        keys: impl AsSlice<K::Word>,
        values: impl AsSlice<V::Word>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        self.submit_pairs(BatchOp::Upsert(merge.operation()), keys, values, outcomes)
    }

    /// Writes the values of keys, which are valid where the outcome is [`Outcome::Found`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get(
        &self,
        keys: impl AsSlice<K::Word>,
        values: impl AsSliceMut<V::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.submit_returning(BatchOp::Get, keys, values, outcomes)
    }

    /// Writes for each key whether it is in the map: [`Outcome::Found`] or [`Outcome::Absent`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn contains_key(&self, keys: impl AsSlice<K::Word>, outcomes: impl AsSliceMut<u8>) -> Result<()> {
        self.submit_keys(BatchOp::ContainsKey, keys, outcomes)
    }

    /// Removes keys.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove(&self, keys: impl AsSlice<K::Word>, outcomes: impl AsSliceMut<u8>) -> Result<()> {
        self.submit_keys(BatchOp::Remove, keys, outcomes)
    }

    /// Removes keys and writes their values, which are valid where the outcome is [`Outcome::Removed`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn take(
        &self,
        keys: impl AsSlice<K::Word>,
        values: impl AsSliceMut<V::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.submit_returning(BatchOp::Take, keys, values, outcomes)
    }

    fn submit_returning(
        &self,
        op: BatchOp,
        keys: impl AsSlice<K::Word>,
        values: impl AsSliceMut<V::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let columns = self.columns(keys, None)?;
        let (device, len) = (self.map.device(), columns.keys.len());
        let results = slice(device, "values", values, len)?;
        let outcomes = slice(device, "outcomes", outcomes, len)?;
        self.submit(op, Columns { results, outcomes, ..columns })
    }
}

impl<K: Word, V: Word, S: Shards<K, V>> Tiers<K, V, S> {
    /// Runs a batch whose columns are on the device: one table executes it in the caller's stream, and for
    /// shards this call waits.
    fn submit(&mut self, stream: &Stream, op: BatchOp, columns: Columns<K, V>) -> Result<()> {
        let mut request = Request::on_device(op, columns);
        if request.len() == 0 {
            return Ok(());
        }
        if self.plan.form.is_sharded() {
            stream.synchronize()?;
            let ran = self.attempt(&mut request);
            return ran.map(drop).map_err(|failure| interrupted(op, request.len(), failure));
        }
        let mut table = self.raw_of_whole();
        // SAFETY: dropping the table or a buffer waits for the stream, and calls that replace the table do so
        // in `finish_submitted`.
        unsafe { self.inner.launch(stream, &mut table, columns.batch(op, request.has()).into())? };
        self.inner.launched(&mut self.shards[0].size, &table);
        self.note_operations(request.len(), self.plan.form == Form::Resident);
        self.is_submitted = true;
        Ok(())
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
