//! Batches on device buffers, asked of a stream.
#[allow(unused_imports)] // documentation names it
use super::Outcome;
use super::launch::{Ask, Batch, nothing};
use super::{Map, Merge, check};
use crate::Result;
use gpu::{Buffer, Stream};
use phalanx_kernels::keyed::Coded;
use simt::GlobalSlice;

/// Batches on device buffers, which return when they are asked for: results are there when the stream has come so far.
///
/// Made by [`Map::on`]. Outcomes are the codes of [`Outcome`], a byte an element ([`Outcome::from_code`] reads them). Nothing
/// grows here, whatever the map's policy: what finds no room is refused. Reading a buffer, and dropping one, waits for the batches that use
/// it.
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
/// Batches in one stream run one after the other; those in several streams side by side, each operation linearizable.
#[derive(Debug)]
pub struct Batches<'a, M: ?Sized> {
    map: &'a M,
    stream: &'a Stream,
}

impl<'a, M: Map + ?Sized> Batches<'a, M> {
    pub(super) fn new(map: &'a M, stream: &'a Stream) -> Self {
        Self { map, stream }
    }

    /// A batch of pairs.
    fn pairs(
        &self,
        ask: Ask,
        keys: &Buffer<M::Key>,
        values: &Buffer<M::Value>,
        outcomes: Option<&mut Buffer<u8>>,
    ) -> Result<()> {
        check("values", keys.len(), values.len())?;
        let outcomes = outcomes_for(keys, outcomes)?;
        let batch = Batch { arguments: values.slice(), outcomes, ..Batch::new(ask, keys.slice()) };
        self.map.launch(self.stream, batch)
    }

    /// [`Map::insert`].
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) when the buffers differ in length; the device's.
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
        check("values", keys.len(), values.len())?;
        check("results", keys.len(), results.len())?;
        let batch = Batch {
            arguments: values.slice(),
            results: results.slice(),
            outcomes: outcomes_for(keys, Some(outcomes))?,
            ..Batch::new(Ask::Apply(Coded::GET_OR_INSERT), keys.slice())
        };
        self.map.launch(self.stream, batch)
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
        check("values", keys.len(), values.len())?;
        let outcomes = outcomes_for(keys, Some(outcomes))?;
        let batch = Batch { results: values.slice(), outcomes, ..Batch::new(Ask::Get, keys.slice()) };
        self.map.launch(self.stream, batch)
    }

    /// [`Map::contains_key`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn contains_key(&self, keys: &Buffer<M::Key>, outcomes: &mut Buffer<u8>) -> Result<()> {
        let outcomes = outcomes_for(keys, Some(outcomes))?;
        self.map.launch(self.stream, Batch { outcomes, ..Batch::new(Ask::ContainsKey, keys.slice()) })
    }

    /// [`Map::remove`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove(&self, keys: &Buffer<M::Key>, outcomes: &mut Buffer<u8>) -> Result<()> {
        let outcomes = outcomes_for(keys, Some(outcomes))?;
        self.map.launch(self.stream, Batch { outcomes, ..Batch::new(Ask::Remove, keys.slice()) })
    }

    /// [`Map::execute`]: `codes` are those of [`Coded`], a byte an element. A byte that is none looks its key up.
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
        check("codes", keys.len(), codes.len())?;
        check("arguments", keys.len(), arguments.len())?;
        check("results", keys.len(), results.len())?;
        let batch = Batch {
            ask: Ask::Mixed,
            codes: codes.slice(),
            keys: keys.slice(),
            arguments: arguments.slice(),
            results: results.slice(),
            outcomes: outcomes_for(keys, Some(outcomes))?,
        };
        self.map.launch(self.stream, batch)
    }
}

/// Where outcomes go: one for each key, or nowhere.
fn outcomes_for<K>(keys: &Buffer<K>, outcomes: Option<&mut Buffer<u8>>) -> Result<GlobalSlice<u8>>
where
    K: bytemuck::Pod,
{
    let Some(outcomes) = outcomes else { return Ok(nothing()) };
    check("outcomes", keys.len(), outcomes.len())?;
    Ok(outcomes.slice())
}
