//! Batches on host slices. The calls wait for their results.
use super::CacheTable;
use super::element::Summand;
use super::scans::Output;
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::number::Number;
use crate::{Outcome, Outcomes, Result};
use bytemuck::Pod;
use gpu::{Buffer, Stream};
use phalanx_kernels::keyed::Scalar;

/// The rows that a lookup found, in the order of its keys.
///
/// ```
/// use phalanx::CacheTable;
///
/// let table = CacheTable::<u32, u32>::builder().capacity(100).dim(2).build()?;
/// assert!(table.insert(&[1], &[10, 11])?.all_placed());
/// let rows = table.get(&[1, 2])?;
/// assert_eq!((rows.len(), rows.found(), rows.of(1)), (2, 1, None));
/// assert!(!rows.is_empty() && rows.outcomes().len() == 2);
/// assert_eq!(rows.iter().flatten().collect::<Vec<_>>(), [&[10, 11][..]]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `found` counts on the host, O(n). The others are O(1).
#[derive(Clone, Debug, PartialEq)]
pub struct Rows<V> {
    elements: Vec<V>,
    outcomes: Outcomes,
    dim: usize,
}

impl<V> Rows<V> {
    /// Returns the row of the key with this index, if the key is present.
    ///
    /// # Panics
    /// If the batch has no such key.
    pub fn of(&self, index: usize) -> Option<&[V]> {
        let row = &self.elements[index * self.dim..(index + 1) * self.dim];
        matches!(self.outcomes[index], Outcome::Found | Outcome::Inserted | Outcome::Replaced).then_some(row)
    }

    /// Returns the rows of all keys.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[V]>> {
        (0..self.len()).map(|index| self.of(index))
    }

    /// Returns the outcomes.
    pub fn outcomes(&self) -> &Outcomes {
        &self.outcomes
    }

    /// Returns the number of keys that are present.
    pub fn found(&self) -> usize {
        self.iter().flatten().count()
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.outcomes.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }
}

/// Keys that an insertion evicted, in any order: the row of `keys[i]` is the `i`-th of `rows`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvictedRows<K, V, S> {
    /// The evicted keys.
    pub keys: Vec<K>,
    /// Their scores.
    pub scores: Vec<S>,
    /// Their rows.
    pub rows: Vec<V>,
}

/// Keys of a table with their scores and rows, in any order: the row of `keys[i]` is the `i`-th of `rows`.
pub type Exported<K, V, S> = EvictedRows<K, V, S>;

/// Device buffers of a call.
struct Call<K, V> {
    stream: Stream,
    keys: Buffer<K>,
    rows: Buffer<V>,
    outcomes: Buffer<u8>,
}

/// Batches on host slices.
impl<K: Number + Scalar, V: Pod, S: Number + Scalar> CacheTable<K, V, S> {
    /// Returns the rows of the keys. Their scores stay as they are.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn get(&self, keys: &[K]) -> Result<Rows<V>> {
        let mut call = self.call(keys, None)?;
        self.on(&call.stream).get(&call.keys, &mut call.rows, &mut call.outcomes)?;
        self.found(&call.rows, &call.outcomes)
    }

    /// Returns the rows of the keys, and updates their scores by the table's rule.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_and_touch(&self, keys: &[K]) -> Result<Rows<V>> {
        let mut call = self.call(keys, None)?;
        self.on(&call.stream).get_and_touch(&call.keys, &mut call.rows, &mut call.outcomes)?;
        self.found(&call.rows, &call.outcomes)
    }

    /// Returns which keys are present.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn contains_key(&self, keys: &[K]) -> Result<Vec<bool>> {
        let (stream, keys) = (self.device.stream()?, self.device.from_slice(keys)?);
        let mut outcomes = self.device.zeroed::<u8>(keys.len())?;
        self.on(&stream).contains_key(&keys, &mut outcomes)?;
        Ok(decode(&outcomes)?.iter().map(|outcome| *outcome == Outcome::Found).collect())
    }

    /// Places keys with their rows, and replaces the rows of keys that are present. If a bucket is full, its
    /// key with the lowest score is evicted, unless that is above the new key's score: the new key is then
    /// [refused](Outcome::Refused). Of elements with equal keys, the last one's row stays.
    ///
    /// # Errors
    /// [`Error::Length`] if there is not a row for each key; [`Error::TooMany`] for 2^30 elements or more;
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn insert(&self, keys: &[K], rows: &[V]) -> Result<Outcomes> {
        let mut call = self.call(keys, Some(rows))?;
        self.on(&call.stream).insert(&call.keys, &call.rows, &mut call.outcomes)?;
        decode(&call.outcomes)
    }

    /// [`Self::insert`], with a score or a number of uses for each element: see [`Batches::scores`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    ///
    /// [`Batches::scores`]: super::Batches::scores
    pub fn insert_scored(&self, keys: &[K], rows: &[V], scores: &[S]) -> Result<Outcomes> {
        let (mut call, scores) = (self.call(keys, Some(rows))?, self.device.from_slice(scores)?);
        self.on(&call.stream).scores(&scores).insert(&call.keys, &call.rows, &mut call.outcomes)?;
        decode(&call.outcomes)
    }

    /// Inserts keys with exactly these scores, whatever the table's rule is. Returns how many were not
    /// refused.
    pub(super) fn restore(&self, part: &Exported<K, V, S>) -> Result<usize> {
        let mut call = self.call(&part.keys, Some(&part.rows))?;
        let scores = self.device.from_slice(&part.scores)?;
        let batches = self.on(&call.stream).exactly().scores(&scores);
        batches.insert(&call.keys, &call.rows, &mut call.outcomes)?;
        let outcomes = decode(&call.outcomes)?;
        Ok(outcomes.len() - outcomes.refused())
    }

    /// [`Self::insert`]. Also returns the keys that were evicted, with scores and rows.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_evict(&self, keys: &[K], rows: &[V]) -> Result<(Outcomes, EvictedRows<K, V, S>)> {
        let mut call = self.call(keys, Some(rows))?;
        let mut evicted = Output::new(self, keys.len())?;
        self.on(&call.stream).insert_evict(&call.keys, &call.rows, evicted.buffers(), &mut call.outcomes)?;
        Ok((decode(&call.outcomes)?, evicted.read(self.dim)?))
    }

    /// Returns the rows of keys that are present, and places the others with the given rows. The scores of
    /// both change as by [`Self::insert`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get_or_insert(&self, keys: &[K], rows: &[V]) -> Result<Rows<V>> {
        let mut call = self.call(keys, Some(rows))?;
        let mut results = self.device.buffer(call.rows.len())?;
        self.on(&call.stream).get_or_insert(&call.keys, &call.rows, &mut results, &mut call.outcomes)?;
        self.found(&results, &call.outcomes)
    }

    /// Adds rows to those of keys that are present, and places the others. Rows of elements with equal keys
    /// are added in their order in the batch, one after the other: also sums of floats are always the same.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn accumulate(&self, keys: &[K], rows: &[V]) -> Result<Outcomes>
    where
        V: Summand,
    {
        let mut call = self.call(keys, Some(rows))?;
        self.on(&call.stream).accumulate(&call.keys, &call.rows, &mut call.outcomes)?;
        decode(&call.outcomes)
    }

    /// Replaces the rows of keys that are present, and updates their scores by the table's rule. Places no
    /// key.
    ///
    /// # Errors
    /// [`Error::Length`] if there is not a row for each key; [`Error::Device`] if the device is lost or lacks
    /// the memory.
    pub fn assign(&self, keys: &[K], rows: &[V]) -> Result<Outcomes> {
        let mut call = self.call(keys, Some(rows))?;
        self.on(&call.stream).assign(&call.keys, &call.rows, &mut call.outcomes)?;
        decode(&call.outcomes)
    }

    /// Updates the scores of keys that are present by the table's rule and the given scores.
    ///
    /// # Errors
    /// [`Error::Length`] if there is not a score for each key; [`Error::Device`] if the device is lost or
    /// lacks the memory.
    pub fn assign_scores(&self, keys: &[K], scores: &[S]) -> Result<Outcomes> {
        let (stream, keys) = (self.device.stream()?, self.device.from_slice(keys)?);
        let (scores, mut outcomes) = (self.device.from_slice(scores)?, self.device.zeroed::<u8>(keys.len())?);
        self.on(&stream).scores(&scores).assign_scores(&keys, &mut outcomes)?;
        decode(&outcomes)
    }

    /// Removes keys. Returns which were removed: those that were present and whose rows are not leased.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn remove(&self, keys: &[K]) -> Result<Vec<bool>> {
        let (stream, keys) = (self.device.stream()?, self.device.from_slice(keys)?);
        let mut outcomes = self.device.zeroed::<u8>(keys.len())?;
        self.on(&stream).remove(&keys, &mut outcomes)?;
        Ok(decode(&outcomes)?.iter().map(|outcome| *outcome == Outcome::Removed).collect())
    }

    /// Copies a call's keys to the device, with their rows or room for these.
    fn call(&self, keys: &[K], rows: Option<&[V]>) -> Result<Call<K, V>> {
        let device = &self.device;
        let len = keys.len().saturating_mul(self.dim);
        if let Some(rows) = rows {
            crate::map::check("rows", len, rows.len())?;
        }
        Ok(Call {
            stream: device.stream()?,
            keys: device.from_slice(keys)?,
            rows: rows.map_or_else(|| device.buffer(len), |rows| device.from_slice(rows))?,
            outcomes: device.zeroed(keys.len())?,
        })
    }

    fn found(&self, rows: &Buffer<V>, outcomes: &Buffer<u8>) -> Result<Rows<V>> {
        Ok(Rows { elements: rows.read()?, outcomes: decode(outcomes)?, dim: self.dim })
    }
}

fn decode(outcomes: &Buffer<u8>) -> Result<Outcomes> {
    let codes = outcomes.read()?;
    Ok(codes.into_iter().filter_map(Outcome::from_code).collect::<Vec<_>>().into())
}
