//! Batches on host slices. The calls wait for their results.
use super::CacheTable;
use super::chunks::{Request, Submit, append_rows, copy_rows};
use super::element::Summand;
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::map::host::SMALL;
use crate::map::{check, parallel};
use crate::number::Number;
use crate::{Outcome, Outcomes, Result};
use bytemuck::Pod;
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
#[derive(Clone, Debug)]
pub struct Rows<V> {
    /// Those of absent keys are arbitrary.
    elements: Vec<V>,
    outcomes: Outcomes,
    dim: usize,
}

impl<V> Rows<V> {
    /// Returns the rows of `dim` elements, with an outcome for each.
    pub(super) fn new(elements: Vec<V>, outcomes: Outcomes, dim: usize) -> Self {
        Self { elements, outcomes, dim }
    }

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

/// Results are equal if their outcomes and the rows of the keys that are present are.
impl<V: PartialEq> PartialEq for Rows<V> {
    fn eq(&self, other: &Self) -> bool {
        self.outcomes == other.outcomes && self.iter().eq(other.iter())
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

/// Batches on host slices.
impl<K: Number + Scalar, V: Pod, S: Number + Scalar> CacheTable<K, V, S> {
    /// Returns the rows of the keys. Their scores stay as they are.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn get(&self, keys: &[K]) -> Result<Rows<V>> {
        self.rows_of(&Request::of_keys(keys), &|batches, part| {
            batches.get(part.keys, part.results, part.outcomes)
        })
    }

    /// Writes the rows of the keys to `rows`, and whether each key is present to `found`: as [`Self::get`],
    /// without allocating memory for the results. The row of an absent key is unspecified.
    ///
    /// ```
    /// use phalanx::CacheTable;
    ///
    /// let table = CacheTable::<u64, f32>::builder().capacity(1000).dim(2).build()?;
    /// assert!(table.insert(&[7, 8], &[0.5, 1.5, 2.5, 3.5])?.all_placed());
    /// let (mut rows, mut found) = ([0.0; 4], [false; 2]);
    /// table.get_into(&[8, 9], &mut rows, &mut found)?;
    /// assert_eq!((&rows[..2], found), (&[2.5, 3.5][..], [true, false]));
    /// table.contains_into(&[9, 7], &mut found)?;
    /// assert_eq!(found, [false, true]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::get`]. If more than 1024 rows lie in a buffer on
    /// [`Tier::Pinned`](gpu::Tier::Pinned), the device copies them there.
    ///
    /// # Errors
    /// [`Error::Length`] if there is not a row and a flag for each key; otherwise as [`Self::get`], after
    /// which the contents of both slices are unspecified.
    pub fn get_into(&self, keys: &[K], rows: &mut [V], found: &mut [bool]) -> Result<()> {
        check("rows", keys.len().saturating_mul(self.dim), rows.len())?;
        check("found", keys.len(), found.len())?;
        let mut request = Request::of_keys(keys).returning();
        let is_direct = keys.len() > SMALL && self.device.is_pinned(rows);
        if is_direct {
            // SAFETY: the rows were checked, and are borrowed until the call returns.
            request = unsafe { request.directly(rows.as_mut_ptr()) };
        }
        let submit: Submit<'_, K, V, S> =
            &|batches, part| batches.get(part.keys, part.results, part.outcomes);
        self.by_chunks(&request, submit, &mut |results| {
            let range = results.range.clone();
            if !is_direct {
                copy_rows(&mut rows[range.start * self.dim..range.end * self.dim], results.rows);
            }
            parallel::convert(&mut found[range], results.codes, |to, code| *to = is(Outcome::Found, *code));
            Ok(())
        })
    }

    /// Returns the rows of the keys, and updates their scores by the table's rule.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_and_touch(&self, keys: &[K]) -> Result<Rows<V>> {
        self.rows_of(&Request::of_keys(keys), &|batches, part| {
            batches.get_and_touch(part.keys, part.results, part.outcomes)
        })
    }

    /// Returns which keys are present.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn contains_key(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut found = vec![false; keys.len()];
        self.contains_into(keys, &mut found)?;
        Ok(found)
    }

    /// Writes for each key to `found` whether it is present: as [`Self::contains_key`], without allocating
    /// memory for the results. See [`Self::get_into`] for an example.
    ///
    /// # Errors
    /// [`Error::Length`] if there is not a flag for each key; otherwise as [`Self::get`], after which the
    /// contents of `found` are unspecified.
    pub fn contains_into(&self, keys: &[K], found: &mut [bool]) -> Result<()> {
        check("found", keys.len(), found.len())?;
        self.flags(keys, found, Outcome::Found, &|batches, part| {
            batches.contains_key(part.keys, part.outcomes)
        })
    }

    /// Places keys with their rows, and replaces the rows of keys that are present. If a bucket is full, its
    /// key with the lowest score is evicted, unless that is above the new key's score: the new key is then
    /// [refused](Outcome::Refused). Of elements with equal keys, the last one's row stays.
    ///
    /// If the device lacks the memory for a later part of a large batch, the elements of this and all
    /// following parts are refused, too.
    ///
    /// # Errors
    /// [`Error::Length`] if there is not a row for each key; [`Error::TooMany`] for 2^30 elements or more;
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn insert(&self, keys: &[K], rows: &[V]) -> Result<Outcomes> {
        let request = Request::of_keys(keys).rows(rows, self.dim)?;
        self.outcomes_of(&request, &|batches, part| batches.insert(part.keys, part.rows, part.outcomes))
    }

    /// [`Self::insert`], with a score or a number of uses for each element: see [`Batches::scores`]. Of
    /// elements with equal keys, the last one's counts.
    ///
    /// # Errors
    /// As [`Self::insert`].
    ///
    /// [`Batches::scores`]: super::Batches::scores
    pub fn insert_scored(&self, keys: &[K], rows: &[V], scores: &[S]) -> Result<Outcomes> {
        let request = Request::of_keys(keys).rows(rows, self.dim)?.scores(scores)?;
        self.outcomes_of(&request, &|batches, part| batches.insert(part.keys, part.rows, part.outcomes))
    }

    /// Inserts keys with exactly these scores, whatever the table's rule is. Returns how many were not
    /// refused. Lack of memory is an error, also after some of the keys were inserted.
    pub(super) fn restore(&self, part: &Exported<K, V, S>) -> Result<usize> {
        let request = Request::of_keys(&part.keys).rows(&part.rows, self.dim)?.scores(&part.scores)?;
        let submit: Submit<'_, K, V, S> =
            &|batches, part| batches.exactly().insert(part.keys, part.rows, part.outcomes);
        let mut placed = 0;
        self.by_chunks(&request, submit, &mut |results| {
            placed += results.codes.iter().filter(|code| !is(Outcome::Refused, **code)).count();
            Ok(())
        })?;
        Ok(placed)
    }

    /// [`Self::insert`]. Also returns the keys that were evicted, with scores and rows.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_evict(&self, keys: &[K], rows: &[V]) -> Result<(Outcomes, EvictedRows<K, V, S>)> {
        let request = Request::of_keys(keys).rows(rows, self.dim)?.evicting();
        let mut outcomes = Vec::with_capacity(keys.len());
        let mut evicted = EvictedRows { keys: Vec::new(), scores: Vec::new(), rows: Vec::new() };
        let submit: Submit<'_, K, V, S> =
            &|batches, part| batches.insert_evict(part.keys, part.rows, part.evicted, part.outcomes);
        let result = self.by_chunks(&request, submit, &mut |results| {
            results.append_outcomes(&mut outcomes)?;
            evicted.keys.extend_from_slice(results.evicted.0);
            evicted.scores.extend_from_slice(results.evicted.1);
            append_rows(&mut evicted.rows, results.evicted.2);
            Ok(())
        });
        Ok((known(result, outcomes, keys.len())?, evicted))
    }

    /// Returns the rows of keys that are present, and places the others with the given rows: of elements with
    /// equal keys, with the last one's row, which all get. The scores of both change as by [`Self::insert`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn get_or_insert(&self, keys: &[K], rows: &[V]) -> Result<Rows<V>> {
        self.rows_of(&Request::of_keys(keys).rows(rows, self.dim)?, &|batches, part| {
            batches.get_or_insert(part.keys, part.rows, part.results, part.outcomes)
        })
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
        let request = Request::of_keys(keys).rows(rows, self.dim)?;
        self.outcomes_of(&request, &|batches, part| batches.accumulate(part.keys, part.rows, part.outcomes))
    }

    /// Replaces the rows of keys that are present, and updates their scores by the table's rule. Places no
    /// key.
    ///
    /// # Errors
    /// [`Error::Length`] if there is not a row for each key; [`Error::Device`] if the device is lost or lacks
    /// the memory.
    pub fn assign(&self, keys: &[K], rows: &[V]) -> Result<Outcomes> {
        let request = Request::of_keys(keys).rows(rows, self.dim)?;
        self.outcomes_of(&request, &|batches, part| batches.assign(part.keys, part.rows, part.outcomes))
    }

    /// Updates the scores of keys that are present by the table's rule and the given scores.
    ///
    /// # Errors
    /// [`Error::Length`] if there is not a score for each key; [`Error::Device`] if the device is lost or
    /// lacks the memory.
    pub fn assign_scores(&self, keys: &[K], scores: &[S]) -> Result<Outcomes> {
        let request = Request::of_keys(keys).scores(scores)?;
        self.outcomes_of(&request, &|batches, part| batches.assign_scores(part.keys, part.outcomes))
    }

    /// Removes keys. Returns which were removed: those that were present and whose rows are not leased.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn remove(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut removed = vec![false; keys.len()];
        self.flags(keys, &mut removed, Outcome::Removed, &|batches, part| {
            batches.remove(part.keys, part.outcomes)
        })?;
        Ok(removed)
    }

    /// Runs a batch that returns outcomes.
    fn outcomes_of(&self, request: &Request<'_, K, V, S>, submit: Submit<'_, K, V, S>) -> Result<Outcomes> {
        let len = request.len();
        let mut outcomes = Vec::with_capacity(len);
        let result = self.by_chunks(request, submit, &mut |results| results.append_outcomes(&mut outcomes));
        known(result, outcomes, len)
    }

    /// Runs a batch that returns rows.
    fn rows_of(&self, request: &Request<'_, K, V, S>, submit: Submit<'_, K, V, S>) -> Result<Rows<V>> {
        let len = request.len();
        let (mut outcomes, mut elements) = (Vec::with_capacity(len), Vec::with_capacity(len * self.dim));
        let result = self.by_chunks(&request.returning(), submit, &mut |results| {
            append_rows(&mut elements, results.rows);
            results.append_outcomes(&mut outcomes)
        });
        // A lookup that lacks memory for a later part is an error: keys of that part must not seem absent.
        let outcomes = match request.has_rows() {
            true => known(result, outcomes, len)?,
            false => result.map(|()| outcomes.into())?,
        };
        elements.resize(len * self.dim, V::zeroed());
        Ok(Rows { elements, outcomes, dim: self.dim })
    }

    /// Runs a batch on keys. Writes for each whether it has this outcome.
    fn flags(
        &self,
        keys: &[K],
        flags: &mut [bool],
        wanted: Outcome,
        submit: Submit<'_, K, V, S>,
    ) -> Result<()> {
        self.by_chunks(&Request::of_keys(keys), submit, &mut |results| {
            let flags = &mut flags[results.range.clone()];
            parallel::convert(flags, results.codes, |to, code| *to = is(wanted, *code));
            Ok(())
        })
    }
}

/// Returns whether a kernel has written this outcome.
fn is(outcome: Outcome, code: u8) -> bool {
    code == outcome as u8
}

/// Returns the outcomes of a batch. If memory was lacking after some of its elements were done, the others
/// are refused.
fn known(result: Result<()>, mut outcomes: Vec<Outcome>, len: usize) -> Result<Outcomes> {
    match result {
        Err(error) if error.is_lack_of_room() && !outcomes.is_empty() => {
            outcomes.resize(len, Outcome::Refused);
            Ok(outcomes.into())
        }
        result => result.map(|()| outcomes.into()),
    }
}
