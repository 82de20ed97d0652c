//! Batches on device buffers, asked of a stream.
use super::engine::Launch;
use super::{HashMap, Key, Merge, Value, check, slice_of};
use crate::Result;
use gpu::{Buffer, Stream};
use phalanx_kernels::probing::Coded;

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
        self.apply(merge.operation(), keys, values, None, outcomes)
    }

    /// [`HashMap::get_or_insert`]: values, which mean nothing where the outcome is [`Outcome::Refused`](super::Outcome::Refused).
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
        self.apply(Coded::GET_OR_INSERT, keys, values, Some(results), Some(outcomes))
    }

    fn apply(
        &self,
        operation: Coded,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        results: Option<&mut Buffer<V>>,
        outcomes: Option<&mut Buffer<u8>>,
    ) -> Result<()> {
        check("values", keys.len(), values.len())?;
        if let Some(results) = &results {
            check("results", keys.len(), results.len())?;
        }
        let outcomes = outcomes_for(keys, outcomes)?;
        let (code, keys, arguments) = (operation.code(), keys.slice(), values.slice());
        self.launch(Launch::Apply { code, keys, arguments, results: slice_of(results.as_deref()), outcomes })
    }

    /// [`HashMap::get`]: values, and [`Outcome::Found`](super::Outcome::Found) where they mean something.
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
