//! Batches on device buffers, asked of a stream.
#[allow(unused_imports)] // documentation names it
use super::Outcome;
use super::launch::{Ask, Batch, nothing};
use super::{Key, Map, Merge, Value, check};
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream};
use phalanx_kernels::keyed::Coded;
use simt::{GlobalSlice, Word};

/// Batches on device buffers, which return when they are asked for: results are there when the stream has
/// come so far.
///
/// Made by [`Map::on`]. Outcomes are the codes of [`Outcome`], a byte an element ([`Outcome::from_code`]
/// reads them). Nothing grows here, whatever the map's policy: what finds no room is refused. Reading a
/// buffer, and dropping one, waits for the batches that use it.
///
/// ```
/// use phalanx::{HashMap, Map, Outcome};
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
/// # Concurrency
/// Batches in one stream run one after the other; those in several streams side by side, each operation
/// linearizable.
#[derive(Debug)]
pub struct Batches<'a, M: ?Sized> {
    map: &'a M,
    stream: &'a Stream,
}

impl<'a, M: Map + ?Sized> Batches<'a, M> {
    pub(super) fn new(map: &'a M, stream: &'a Stream) -> Self {
        Self { map, stream }
    }

    /// Refuses what is of another device: kernels could not reach it, and dropping it would not wait for
    /// them.
    fn launch(&self, batch: Batch<M::Key, M::Value>) -> Result<()> {
        belongs(self.map.home(), "stream", self.stream.device())?;
        self.map.launch(self.stream, batch)
    }

    /// A buffer of `len` elements as kernels take it.
    fn slice<T: Word>(&self, what: &'static str, buffer: &Buffer<T>, len: usize) -> Result<GlobalSlice<T>> {
        slice(self.map.home(), what, buffer, len)
    }

    /// A batch, the outcomes of which are wanted or not.
    fn batch(
        &self,
        ask: Ask,
        keys: &Buffer<M::Key>,
        outcomes: Option<&mut Buffer<u8>>,
    ) -> Result<Batch<M::Key, M::Value>> {
        let keys = self.slice("keys", keys, keys.len())?;
        let outcomes = outcomes
            .map_or_else(|| Ok(nothing()), |outcomes| self.slice("outcomes", outcomes, keys.len()))?;
        Ok(Batch { outcomes, ..Batch::new(ask, keys) })
    }

    /// A batch of pairs.
    fn pairs(
        &self,
        ask: Ask,
        keys: &Buffer<M::Key>,
        values: &Buffer<M::Value>,
        outcomes: Option<&mut Buffer<u8>>,
    ) -> Result<()> {
        let arguments = self.slice("values", values, keys.len())?;
        self.launch(Batch { arguments, ..self.batch(ask, keys, outcomes)? })
    }

    /// [`Map::insert`].
    ///
    /// # Errors
    /// [`Error::Length`] when the buffers differ in length; [`Error::OtherDevice`] when a buffer or the
    /// stream is not of the map's device; [`Error::Device`] when the device is lost or lacks the memory.
    pub fn insert(
        &self,
        keys: &Buffer<M::Key>,
        values: &Buffer<M::Value>,
        outcomes: Option<&mut Buffer<u8>>,
    ) -> Result<()> {
        self.pairs(Ask::Insert, keys, values, outcomes)
    }

    /// [`Map::insert_new`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_new(
        &self,
        keys: &Buffer<M::Key>,
        values: &Buffer<M::Value>,
        outcomes: Option<&mut Buffer<u8>>,
    ) -> Result<()> {
        self.pairs(Ask::InsertNew, keys, values, outcomes)
    }

    /// [`Map::upsert`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn upsert(
        &self,
        merge: Merge,
        keys: &Buffer<M::Key>,
        values: &Buffer<M::Value>,
        outcomes: Option<&mut Buffer<u8>>,
    ) -> Result<()> {
        self.pairs(Ask::Apply(merge.operation()), keys, values, outcomes)
    }

    /// [`Map::get_or_insert`]: values, which mean nothing where the outcome is [`Outcome::Refused`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get_or_insert(
        &self,
        keys: &Buffer<M::Key>,
        values: &Buffer<M::Value>,
        results: &mut Buffer<M::Value>,
        outcomes: &mut Buffer<u8>,
    ) -> Result<()> {
        let arguments = self.slice("values", values, keys.len())?;
        let results = self.slice("results", results, keys.len())?;
        let ask = Ask::Apply(Coded::GET_OR_INSERT);
        self.launch(Batch { arguments, results, ..self.batch(ask, keys, Some(outcomes))? })
    }

    /// [`Map::get`]: values, and [`Outcome::Found`] where they mean something.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get(
        &self,
        keys: &Buffer<M::Key>,
        values: &mut Buffer<M::Value>,
        outcomes: &mut Buffer<u8>,
    ) -> Result<()> {
        self.launch(get(self.map.home(), keys, values, outcomes)?)
    }

    /// [`Map::contains_key`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn contains_key(&self, keys: &Buffer<M::Key>, outcomes: &mut Buffer<u8>) -> Result<()> {
        self.launch(contains_key(self.map.home(), keys, outcomes)?)
    }

    /// [`Map::remove`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove(&self, keys: &Buffer<M::Key>, outcomes: &mut Buffer<u8>) -> Result<()> {
        self.launch(self.batch(Ask::Remove, keys, Some(outcomes))?)
    }

    /// [`Map::execute`]: `codes` are those of [`Coded`], a byte an element (`Coded::code() as u8`). Any
    /// other byte looks its key up.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn execute(
        &self,
        codes: &Buffer<u8>,
        keys: &Buffer<M::Key>,
        arguments: &Buffer<M::Value>,
        results: &mut Buffer<M::Value>,
        outcomes: &mut Buffer<u8>,
    ) -> Result<()> {
        let codes = self.slice("codes", codes, keys.len())?;
        let arguments = self.slice("arguments", arguments, keys.len())?;
        let results = self.slice("results", results, keys.len())?;
        self.launch(Batch { codes, arguments, results, ..self.batch(Ask::Mixed, keys, Some(outcomes))? })
    }
}

/// The batch of [`Batches::get`].
pub(crate) fn get<K: Key, V: Value>(
    home: &Device,
    keys: &Buffer<K>,
    values: &mut Buffer<V>,
    outcomes: &mut Buffer<u8>,
) -> Result<Batch<K, V>> {
    let results = slice(home, "values", values, keys.len())?;
    Ok(Batch { ask: Ask::Get, results, ..contains_key(home, keys, outcomes)? })
}

/// The batch of [`Batches::contains_key`].
pub(crate) fn contains_key<K: Key, V: Value>(
    home: &Device,
    keys: &Buffer<K>,
    outcomes: &mut Buffer<u8>,
) -> Result<Batch<K, V>> {
    let asked = slice(home, "keys", keys, keys.len())?;
    let outcomes = slice(home, "outcomes", outcomes, keys.len())?;
    Ok(Batch { outcomes, ..Batch::new(Ask::ContainsKey, asked) })
}

/// Refuses what is of another device than the structure.
pub(crate) fn belongs(home: &Device, what: &'static str, device: &Device) -> Result<()> {
    if device == home {
        return Ok(());
    }
    Err(Error::OtherDevice { what, map: home.name(), found: device.name() })
}

/// A buffer of `len` elements on a structure's device, as kernels take it.
pub(crate) fn slice<T: Word>(
    home: &Device,
    what: &'static str,
    buffer: &Buffer<T>,
    len: usize,
) -> Result<GlobalSlice<T>> {
    check(what, len, buffer.len())?;
    belongs(home, what, buffer.device())?;
    Ok(buffer.slice())
}
