//! Batches on device buffers, asked of a stream.
#[allow(unused_imports)] // documentation names it
use super::Outcome;
use super::engine::{Launch, nothing};
use super::{Coded, HashMap, Key, Merge, Value, check, slice_of};
use crate::Result;
use gpu::{Buffer, Stream};

/// Batches on device buffers, which return when they are asked for: results are there when the stream has come so far.
///
/// Made by [`HashMap::on`]. Outcomes are the codes of [`Outcome`], a byte an element ([`Outcome::from_code`] reads them). Nothing
/// grows here, whatever the map's [`Growth`](super::Growth): what finds no room is refused. Reading a
/// buffer, and dropping one, waits for the batches that use it.
///
/// ```
/// use phalanx::HashMap;
/// use phalanx::hash_map::Outcome;
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
        let table = self.map.read();
        // SAFETY: the table outlives the launch, since dropping its buffers waits for it, and so do the slices' buffers. Batches may
        // run side by side; what may not runs under the table's exclusive lock, after the device has come to rest.
        unsafe { self.map.engine.launch(self.stream, table.parts(), launch)? };
        Ok(())
    }

    /// [`HashMap::insert`].
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) when the buffers differ in length; the device's.
    pub fn insert(
        &self,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        outcomes: Option<&mut Buffer<u8>>,
    ) -> Result<()> {
        check("values", keys.len(), values.len())?;
        let outcomes = outcomes_for(keys, outcomes)?;
        self.launch(Launch::Insert { keys: keys.slice(), values: values.slice(), outcomes })
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
        check("values", keys.len(), values.len())?;
        let outcomes = outcomes_for(keys, outcomes)?;
        self.launch(Launch::InsertNew { keys: keys.slice(), values: values.slice(), outcomes })
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
        check("values", keys.len(), values.len())?;
        let outcomes = outcomes_for(keys, outcomes)?;
        let (code, arguments) = (merge.operation().code(), values.slice());
        self.launch(Launch::Apply { code, keys: keys.slice(), arguments, results: nothing(), outcomes })
    }

    /// [`HashMap::get_or_insert`]: results, which mean nothing where the outcome is [`Outcome::Refused`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get_or_insert(
        &self,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        results: &mut Buffer<V>,
        outcomes: &mut Buffer<u8>,
    ) -> Result<()> {
        check("values", keys.len(), values.len())?;
        check("results", keys.len(), results.len())?;
        let outcomes = outcomes_for(keys, Some(outcomes))?;
        let (code, arguments, results) = (Coded::GET_OR_INSERT.code(), values.slice(), results.slice());
        self.launch(Launch::Apply { code, keys: keys.slice(), arguments, results, outcomes })
    }

    /// [`HashMap::get`]: values, and [`Outcome::Found`] where they mean something.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get(&self, keys: &Buffer<K>, values: &mut Buffer<V>, outcomes: &mut Buffer<u8>) -> Result<()> {
        check("values", keys.len(), values.len())?;
        let outcomes = outcomes_for(keys, Some(outcomes))?;
        self.launch(Launch::Get { keys: keys.slice(), values: values.slice(), outcomes })
    }

    /// [`HashMap::contains_key`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn contains_key(&self, keys: &Buffer<K>, outcomes: &mut Buffer<u8>) -> Result<()> {
        let outcomes = outcomes_for(keys, Some(outcomes))?;
        self.launch(Launch::ContainsKey { keys: keys.slice(), outcomes })
    }

    /// [`HashMap::remove`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove(&self, keys: &Buffer<K>, outcomes: &mut Buffer<u8>) -> Result<()> {
        let outcomes = outcomes_for(keys, Some(outcomes))?;
        self.launch(Launch::Remove { keys: keys.slice(), outcomes })
    }

    /// [`HashMap::execute`]: `codes` are those of [`Coded`], a byte an element. A byte that is none looks its key up.
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
        check("codes", keys.len(), codes.len())?;
        check("arguments", keys.len(), arguments.len())?;
        check("results", keys.len(), results.len())?;
        let outcomes = outcomes_for(keys, Some(outcomes))?;
        let (codes, keys, arguments, results) =
            (codes.slice(), keys.slice(), arguments.slice(), results.slice());
        self.launch(Launch::Mixed { codes, keys, arguments, results, outcomes })
    }
}

fn outcomes_for<K: Key>(
    keys: &Buffer<K>,
    outcomes: Option<&mut Buffer<u8>>,
) -> Result<simt::GlobalSlice<u8>> {
    if let Some(outcomes) = &outcomes {
        check("outcomes", keys.len(), outcomes.len())?;
    }
    Ok(slice_of(outcomes.as_deref()))
}
