//! Batches on device buffers, asked of a stream.
use super::engine::{Launch, nothing};
use super::{HashMap, Key, Merge, Value, check};
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream};
use simt::{GlobalSlice, Word};

/// Batches on device buffers, which return when they are asked for: results are there when the stream has come so far.
///
/// Made by [`HashMap::on`]. Outcomes are the codes of [`Outcome`](super::Outcome), a byte an element. Nothing grows here: what
/// finds no room is refused.
///
/// # Concurrency
/// Batches in one stream run one after the other; those in several streams side by side, each operation linearizable.
#[derive(Debug)]
pub struct Batches<'a, K, V> {
    map: &'a HashMap<K, V>,
    stream: &'a Stream,
}

impl<'a, K: Key, V: Value> Batches<'a, K, V> {
    pub(super) fn new(map: &'a HashMap<K, V>, stream: &'a Stream) -> Self {
        Self { map, stream }
    }

    fn launch(&self, launch: Launch<K, V>) -> Result<()> {
        self.belongs("stream", self.stream.device())?;
        let table = self.map.read();
        // SAFETY: the table outlives the launch, since dropping its buffers waits for it, and so do the slices' buffers: all are of
        // the stream's device. Batches may run side by side; what may not runs under the table's exclusive lock, after the device
        // has come to rest.
        unsafe { self.map.engine.launch(self.stream, table.parts(), launch)? };
        Ok(())
    }

    /// Refuses what is of another device: kernels could not reach it, and dropping it would not wait for them.
    fn belongs(&self, what: &'static str, device: &Device) -> Result<()> {
        let map = self.map.device();
        if device == map {
            return Ok(());
        }
        Err(Error::OtherDevice { what, map: map.name(), found: device.name() })
    }

    /// A buffer of `len` elements as kernels take it.
    fn slice<T: Word>(&self, what: &'static str, buffer: &Buffer<T>, len: usize) -> Result<GlobalSlice<T>> {
        check(what, len, buffer.len())?;
        self.belongs(what, buffer.device())?;
        Ok(buffer.slice())
    }

    fn keys(&self, keys: &Buffer<K>) -> Result<GlobalSlice<K>> {
        self.slice("keys", keys, keys.len())
    }

    fn outcomes(&self, outcomes: Option<&mut Buffer<u8>>, len: usize) -> Result<GlobalSlice<u8>> {
        outcomes.map_or_else(|| Ok(nothing()), |outcomes| self.slice("outcomes", outcomes, len))
    }

    /// [`HashMap::insert`].
    ///
    /// # Errors
    /// [`Error::Length`] when the buffers differ in length; [`Error::OtherDevice`] when a buffer or the stream is not of the map's
    /// device; the device's.
    pub fn insert(
        &self,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        outcomes: Option<&mut Buffer<u8>>,
    ) -> Result<()> {
        let (keys, values) = (self.keys(keys)?, self.slice("values", values, keys.len())?);
        let outcomes = self.outcomes(outcomes, keys.len())?;
        self.launch(Launch::Insert { keys, values, outcomes })
    }

    /// [`HashMap::insert_new`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_new(
        &self,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        outcomes: Option<&mut Buffer<u8>>,
    ) -> Result<()> {
        let (keys, values) = (self.keys(keys)?, self.slice("values", values, keys.len())?);
        let outcomes = self.outcomes(outcomes, keys.len())?;
        self.launch(Launch::InsertNew { keys, values, outcomes })
    }

    /// [`HashMap::upsert`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn upsert(
        &self,
        merge: Merge,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        outcomes: Option<&mut Buffer<u8>>,
    ) -> Result<()> {
        let (keys, arguments) = (self.keys(keys)?, self.slice("values", values, keys.len())?);
        let outcomes = self.outcomes(outcomes, keys.len())?;
        let code = merge.operation().code();
        self.launch(Launch::Apply { code, keys, arguments, results: nothing(), outcomes })
    }

    /// [`HashMap::get`]: values, and [`Outcome::Found`](super::Outcome::Found) where they mean something.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get(&self, keys: &Buffer<K>, values: &mut Buffer<V>, outcomes: &mut Buffer<u8>) -> Result<()> {
        let (keys, values) = (self.keys(keys)?, self.slice("values", values, keys.len())?);
        let outcomes = self.outcomes(Some(outcomes), keys.len())?;
        self.launch(Launch::Get { keys, values, outcomes })
    }

    /// [`HashMap::contains_key`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn contains_key(&self, keys: &Buffer<K>, outcomes: &mut Buffer<u8>) -> Result<()> {
        let keys = self.keys(keys)?;
        let outcomes = self.outcomes(Some(outcomes), keys.len())?;
        self.launch(Launch::ContainsKey { keys, outcomes })
    }

    /// [`HashMap::remove`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove(&self, keys: &Buffer<K>, outcomes: &mut Buffer<u8>) -> Result<()> {
        let keys = self.keys(keys)?;
        let outcomes = self.outcomes(Some(outcomes), keys.len())?;
        self.launch(Launch::Remove { keys, outcomes })
    }

    /// [`HashMap::execute`]: `codes` are those of [`Coded`](phalanx_kernels::probing::Coded).
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn execute(
        &self,
        codes: &Buffer<u8>,
        keys: &Buffer<K>,
        arguments: &Buffer<V>,
        results: &mut Buffer<V>,
        outcomes: &mut Buffer<u8>,
    ) -> Result<()> {
        let (keys, codes) = (self.keys(keys)?, self.slice("codes", codes, keys.len())?);
        let arguments = self.slice("arguments", arguments, keys.len())?;
        let results = self.slice("results", results, keys.len())?;
        let outcomes = self.outcomes(Some(outcomes), keys.len())?;
        self.launch(Launch::Mixed { codes, keys, arguments, results, outcomes })
    }
}
