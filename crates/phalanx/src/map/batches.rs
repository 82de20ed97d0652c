//! Batches on device buffers, submitted to a stream.
#[allow(unused_imports)] // for links in the documentation
use super::Outcome;
use super::launch::{Batch, BatchOp, nothing};

use super::{KeyWord, Map, Merge, ValueWord, check};
use crate::{Error, Result};
use gpu::{AsBounded, AsSlice, AsSliceMut, Device, OptionalSliceMut, Stream};
use simt::{BoundedSlice, GlobalSlice, Word};

/// Batches on device buffers. The calls submit work to a stream and do not wait for it: results are available
/// when the stream has executed it.
///
/// Created by [`Map::on`]. Buffers have words of keys and values: those of `u32` and `u64` are the numbers,
/// those of other types come from [`Key::encode_all`](super::Key::encode_all). Outcomes are the codes of
/// [`Outcome`], one byte per element ([`Outcome::from_code`] decodes them). These calls never grow the map,
/// whatever its policy: elements that do not fit are refused. Reading or dropping a buffer waits for the
/// batches that use it.
///
/// ```
/// use phalanx::{HashMap, Outcome};
///
/// let map = HashMap::<u32, u32>::with_capacity(100)?;
/// let (device, stream) = (map.device(), map.device().stream()?);
/// let keys = device.from_slice(&[1u32, 2, 3])?;
/// let mut values = device.from_slice(&[10u32, 20, 30])?;
/// let mut outcomes = device.zeroed::<u8>(3)?;
/// map.on(&stream).insert(&keys, &values, None)?;
/// map.on(&stream).get(&keys, &mut values, &mut outcomes)?;
/// assert_eq!(values.read()?, [10, 20, 30]);
/// assert_eq!(outcomes.read()?, [Outcome::Found as u8; 3]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::map::OpCode;
/// use phalanx::{HashMap, Merge, Outcome};
///
/// let map = HashMap::<u32, u32>::with_capacity(100)?;
/// let (device, stream) = (map.device(), map.device().stream()?);
/// let (keys, ones) = (device.from_slice(&[1u32, 2])?, device.from_slice(&[1u32, 1])?);
/// let (mut values, mut outcomes) = (device.buffer::<u32>(2)?, device.buffer::<u8>(2)?);
/// let batches = map.on(&stream);
/// batches.insert_new(&keys, &ones, None)?;
/// batches.upsert(Merge::Add, &keys, &ones, None)?;
/// batches.get_or_insert(&keys, &ones, &mut values, &mut outcomes)?;
/// assert_eq!(values.read()?, [2, 2]);
/// let codes = device.from_slice(&[OpCode::REMOVE.code() as u8, OpCode::MAX.code() as u8])?;
/// batches.execute(&codes, &keys, &ones, &mut values, &mut outcomes)?;
/// assert_eq!(outcomes.read()?, [Outcome::Removed as u8, Outcome::Replaced as u8]);
/// batches.contains_key(&keys, &mut outcomes)?;
/// assert_eq!(outcomes.read()?, [Outcome::Absent as u8, Outcome::Found as u8]);
/// batches.remove(&keys, &mut outcomes)?;
/// batches.insert(&keys, &ones, None)?;
/// let twos = device.from_slice(&[2u32, 2])?;
/// batches.replace(&keys, &twos, &mut values, &mut outcomes)?;
/// assert_eq!((values.read()?, outcomes.read()?), (vec![1, 1], vec![Outcome::Replaced as u8; 2]));
/// batches.take(&keys, &mut values, &mut outcomes)?;
/// assert_eq!((values.read()?, outcomes.read()?), (vec![2, 2], vec![Outcome::Removed as u8; 2]));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Counts on the device
/// [`Buffer::bounded_by`](gpu::Buffer::bounded_by) returns keys whose number the batch's kernel reads from
/// device memory; an earlier kernel may write this count. If the count is n, the batch uses the first n
/// elements of the keys and of all other buffers, and neither reads nor writes the others. If n is above the
/// number of keys, the batch uses all.
/// The other buffers have as many elements as the keys, whatever the count is. Where the host plans by the
/// number of elements (threads, and the exceptions below), it assumes that all keys are used.
///
/// ```
/// use phalanx::{HashMap, Outcome};
///
/// let map = HashMap::<u32, u32>::with_capacity(100)?;
/// let (device, stream) = (map.device(), map.device().stream()?);
/// let (keys, count) = (device.from_slice(&[7u32, 8, 9])?, device.from_slice(&[2u32])?);
/// let mut outcomes = device.filled::<u8>(3, 99)?;
/// map.on(&stream).insert(keys.bounded_by(&count)?, &keys, &mut outcomes)?;
/// assert_eq!(outcomes.read()?, [Outcome::Inserted as u8, Outcome::Inserted as u8, 99]);
/// assert_eq!(map.contains_key(&[7, 8, 9])?, [true, true, false]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// Batches in one stream run one after the other. Batches in several streams run concurrently, as [`Map`]
/// describes.
///
/// # Cost
///
/// `insert`, `insert_new`, `upsert`, `get_or_insert`, `get`, `contains_key`, `remove`, `take`, `replace` and
/// `execute` launch one kernel each; they allocate and copy nothing and do not wait for the device. There are
/// four exceptions. An ordered map submits a large batch that inserts into a small map as several launches,
/// and rebuilds its directory between them in a launch of its own. Batches that write, and all batches on a
/// B-tree, wait for the device once after `Frozen`, or a sharded map that has the map as its shard, has
/// looked keys up. Variants that sort batches launch a sort before, and allocate its workspace when a
/// stream's batch is longer than any before. Large batches on an ordered map with
/// [`LargeBatches::Rebuild`](crate::btree::LargeBatches::Rebuild) allocate, wait, and may grow the map.
#[derive(Debug)]
pub struct Batches<'a, M: ?Sized> {
    map: &'a M,
    stream: &'a Stream,
}

impl<'a, M: Map + ?Sized> Batches<'a, M> {
    pub(crate) fn new(map: &'a M, stream: &'a Stream) -> Self {
        Self { map, stream }
    }

    /// Submits a batch. Rejects a stream of another device: its kernels could not access the map, and
    /// dropping the map would not wait for them.
    fn submit(&self, batch: Batch<KeyWord<M>, ValueWord<M>>) -> Result<()> {
        check_same_device(self.map.inner().device(), "stream", self.stream.device())?;
        self.map.inner().submit(self.stream, batch)
    }

    /// Returns `len` elements as kernels take them.
    fn slice<T: Word>(
        &self,
        what: &'static str,
        elements: impl AsSlice<T>,
        len: usize,
    ) -> Result<GlobalSlice<T>> {
        slice(self.map.inner().device(), what, elements, len)
    }

    /// Returns a batch, with or without outcomes.
    fn batch(
        &self,
        op: BatchOp,
        keys: impl AsBounded<KeyWord<M>>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<Batch<KeyWord<M>, ValueWord<M>>> {
        let device = self.map.inner().device();
        let keys = elements_of(device, "keys", keys)?;
        let outcomes = optional_slice(device, "outcomes", outcomes, keys.max_len())?;
        Ok(Batch { outcomes, ..Batch::new(op, keys) })
    }

    /// Submits a batch of pairs.
    fn submit_pairs(
        &self,
        op: BatchOp,
        keys: impl AsBounded<KeyWord<M>>,
        values: impl AsSlice<ValueWord<M>>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let batch = self.batch(op, keys, outcomes)?;
        let arguments = self.slice("values", values, batch.keys.max_len())?;
        self.submit(Batch { arguments, ..batch })
    }

    /// Submits a batch of pairs that returns values.
    fn submit_returning(
        &self,
        op: BatchOp,
        keys: impl AsBounded<KeyWord<M>>,
        values: impl AsSlice<ValueWord<M>>,
        results: impl AsSliceMut<ValueWord<M>>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let batch = contains_key(self.map.inner().device(), keys, outcomes)?;
        let arguments = self.slice("values", values, batch.keys.max_len())?;
        let results = self.slice("results", results, batch.keys.max_len())?;
        self.submit(Batch { op, arguments, results, ..batch })
    }

    /// Submits [`Map::insert`].
    ///
    /// # Errors
    /// [`Error::Length`] if the buffers differ in length; [`Error::OtherDevice`] if a buffer or the stream is
    /// not of the map's device; [`Error::Device`] if the device is lost or lacks the memory.
    pub fn insert(
        &self,
        keys: impl AsBounded<KeyWord<M>>,
        values: impl AsSlice<ValueWord<M>>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        self.submit_pairs(BatchOp::Insert, keys, values, outcomes)
    }

    /// Submits [`Map::insert_new`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_new(
        &self,
        keys: impl AsBounded<KeyWord<M>>,
        values: impl AsSlice<ValueWord<M>>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        self.submit_pairs(BatchOp::InsertNew, keys, values, outcomes)
    }

    /// Submits [`Map::upsert`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn upsert(
        &self,
        merge: Merge<M::Value>,
        keys: impl AsBounded<KeyWord<M>>,
        values: impl AsSlice<ValueWord<M>>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        self.submit_pairs(BatchOp::Upsert(merge.operation()), keys, values, outcomes)
    }

    /// Submits [`Map::get_or_insert`]. Writes the values, which are invalid where the outcome is
    /// [`Outcome::Refused`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get_or_insert(
        &self,
        keys: impl AsBounded<KeyWord<M>>,
        values: impl AsSlice<ValueWord<M>>,
        results: impl AsSliceMut<ValueWord<M>>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.submit_returning(BatchOp::GetOrInsert, keys, values, results, outcomes)
    }

    /// Submits [`Map::get`]. Writes the values, which are valid where the outcome is [`Outcome::Found`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get(
        &self,
        keys: impl AsBounded<KeyWord<M>>,
        values: impl AsSliceMut<ValueWord<M>>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.submit(get(self.map.inner().device(), keys, values, outcomes)?)
    }

    /// Submits [`Map::contains_key`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn contains_key(
        &self,
        keys: impl AsBounded<KeyWord<M>>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.submit(contains_key(self.map.inner().device(), keys, outcomes)?)
    }

    /// Submits [`Map::remove`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove(&self, keys: impl AsBounded<KeyWord<M>>, outcomes: impl AsSliceMut<u8>) -> Result<()> {
        let batch = contains_key(self.map.inner().device(), keys, outcomes)?;
        self.submit(Batch { op: BatchOp::Remove, ..batch })
    }

    /// Submits [`Map::take`]. Writes the values, which are valid where the outcome is [`Outcome::Removed`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn take(
        &self,
        keys: impl AsBounded<KeyWord<M>>,
        values: impl AsSliceMut<ValueWord<M>>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let batch = get(self.map.inner().device(), keys, values, outcomes)?;
        self.submit(Batch { op: BatchOp::Take, ..batch })
    }

    /// Submits [`Map::replace`]. Writes the old values, which are valid where the outcome is
    /// [`Outcome::Replaced`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn replace(
        &self,
        keys: impl AsBounded<KeyWord<M>>,
        values: impl AsSlice<ValueWord<M>>,
        results: impl AsSliceMut<ValueWord<M>>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.submit_returning(BatchOp::Replace, keys, values, results, outcomes)
    }

    /// Submits [`Map::execute`]. `codes` has the operations' codes, one byte per element:
    /// [`OpCode::code`](super::OpCode::code) as a `u8`. Any other byte looks up its key.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn execute(
        &self,
        codes: impl AsSlice<u8>,
        keys: impl AsBounded<KeyWord<M>>,
        arguments: impl AsSlice<ValueWord<M>>,
        results: impl AsSliceMut<ValueWord<M>>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let batch = contains_key(self.map.inner().device(), keys, outcomes)?;
        let codes = self.slice("codes", codes, batch.keys.max_len())?;
        let arguments = self.slice("arguments", arguments, batch.keys.max_len())?;
        let results = self.slice("results", results, batch.keys.max_len())?;
        self.submit(Batch { op: BatchOp::Mixed, codes, arguments, results, ..batch })
    }
}

/// Returns the batch of [`Batches::get`].
pub(crate) fn get<K: Word, V: Word>(
    device: &Device,
    keys: impl AsBounded<K>,
    values: impl AsSliceMut<V>,
    outcomes: impl AsSliceMut<u8>,
) -> Result<Batch<K, V>> {
    let batch = contains_key(device, keys, outcomes)?;
    let results = slice(device, "values", values, batch.keys.max_len())?;
    Ok(Batch { op: BatchOp::Get, results, ..batch })
}

/// Returns the batch of [`Batches::contains_key`].
pub(crate) fn contains_key<K: Word, V: Word>(
    device: &Device,
    keys: impl AsBounded<K>,
    outcomes: impl AsSliceMut<u8>,
) -> Result<Batch<K, V>> {
    let keys = elements_of(device, "keys", keys)?;
    let outcomes = slice(device, "outcomes", outcomes, keys.max_len())?;
    Ok(Batch { outcomes, ..Batch::new(BatchOp::ContainsKey, keys) })
}

/// Returns an error if `found` is not the structure's own device.
pub(crate) fn check_same_device(own: &Device, what: &'static str, found: &Device) -> Result<()> {
    if found == own {
        return Ok(());
    }
    let (map, mut found) = (own.name(), found.name());
    if found == map {
        found.push_str(", another one of the same name");
    }
    Err(Error::OtherDevice { what, map, found })
}

/// Returns `len` elements on a structure's device, as kernels take them.
pub(crate) fn slice<T: Word>(
    device: &Device,
    what: &'static str,
    elements: impl AsSlice<T>,
    len: usize,
) -> Result<GlobalSlice<T>> {
    let elements = elements.view();
    check(what, len, elements.len())?;
    check_same_device(device, what, elements.device())?;
    Ok(elements.global())
}

/// As [`slice`], or nothing if there are no elements.
pub(crate) fn optional_slice<T: Word>(
    device: &Device,
    what: &'static str,
    elements: impl OptionalSliceMut<T>,
    len: usize,
) -> Result<GlobalSlice<T>> {
    elements.optional_view().map_or_else(|| Ok(nothing()), |elements| slice(device, what, elements, len))
}

/// Returns the elements that determine the number of elements of a batch.
pub(crate) fn elements_of<T: Word>(
    device: &Device,
    what: &'static str,
    elements: impl AsBounded<T>,
) -> Result<BoundedSlice<T>> {
    let bounded = elements.bounded();
    check_same_device(device, what, bounded.elements().device())?;
    if let Some(count) = bounded.count() {
        check_same_device(device, "count", count.device())?;
    }
    Ok(bounded.global())
}

/// Returns keys, however many there are.
pub(crate) fn keys_of<K: Word>(device: &Device, keys: impl AsSlice<K>) -> Result<GlobalSlice<K>> {
    let keys = keys.view();
    slice(device, "keys", keys, keys.len())
}
