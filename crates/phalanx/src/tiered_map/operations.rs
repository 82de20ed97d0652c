//! Methods that all tiered maps have.
//!
//! A tiered map has the fields `tiers`, `device`, `ledger` and `least_budget`, and its module the type
//! `TiersOf` of what the first of them locks.
use super::chunk::Request;
use super::shards::Shards;
use super::tiers::Tiers;
use crate::map::encoding::Word;
use crate::map::launch::BatchOp;
use crate::{Result, Value};
use std::any::TypeId;

/// Items that [`tiered_methods`] needs in its module.
pub mod prelude {
    pub use super::{ColumnsOf, look_up, own_words};
    pub(crate) use crate::map::encoding::decoded;
    pub use crate::map::launch::BatchOp;
    pub use crate::map::run::Results;
    pub(crate) use crate::map::{check, parallel};
    pub use crate::tiered_map::chunk::Request;
    pub use crate::{Key, Merge, OldValues, Op, Outcome, Outcomes, Result, Value};
    pub use gpu::Device;
    pub use std::ops::ControlFlow;
    pub use std::sync::{MutexGuard, PoisonError};
}

/// The columns of a batch.
pub struct ColumnsOf<'a, K, V> {
    pub op: BatchOp,
    pub codes: &'a [u8],
    pub keys: &'a [K],
    pub values: &'a [V],
    pub returns: bool,
}

/// Returns the values as their words, if their type is that of the words.
pub fn own_words<V: Value>(values: &mut [V]) -> Option<&mut [V::Word]> {
    let (words, len) = (values.as_mut_ptr().cast(), values.len());
    // SAFETY: both types are the same.
    (TypeId::of::<V>() == TypeId::of::<V::Word>())
        .then(|| unsafe { std::slice::from_raw_parts_mut(words, len) })
}

/// Looks up keys, and writes to `found` whether each is there.
pub fn look_up<K: Word, V: Word, S: Shards<K, V>>(
    tiers: &mut Tiers<K, V, S>,
    op: BatchOp,
    keys: &[K],
    (results, found): (&mut [V], &mut [bool]),
) -> Result<()> {
    // SAFETY: a `bool` is a byte that is 0 or 1, and lookups write no other bytes.
    let outcomes = unsafe { std::slice::from_raw_parts_mut(found.as_mut_ptr().cast(), found.len()) };
    let mut request = Request { results, as_bools: true, ..Request::new(op, keys, outcomes) };
    tiers.run(&mut request).map(drop)
}

/// Adds the methods to a tiered map.
macro_rules! tiered_methods {
    ($map:ident) => {
        /// Memory, and the number of pairs.
        impl<K: Key, V: Value> $map<K, V> {
            // A batch that panics leaves the shards as they were, or with some elements done.
            fn tiers(&self) -> MutexGuard<'_, TiersOf<K, V>> {
                self.tiers.lock().unwrap_or_else(PoisonError::into_inner)
            }

            fn tiers_mut(&mut self) -> &mut TiersOf<K, V> {
                self.tiers.get_mut().unwrap_or_else(PoisonError::into_inner)
            }

            /// Returns the device.
            pub fn device(&self) -> &Device {
                &self.device
            }

            /// Returns the budget in bytes of device memory.
            pub fn budget(&self) -> usize {
                self.ledger.budget()
            }

            /// Returns the least budget with which the map could have been built: three shards and the
            /// workspace of a small batch, or the whole map if that is less.
            pub fn min_budget(&self) -> usize {
                self.least_budget
            }

            /// Returns the most bytes of device memory that the map had allocated at one time. They never
            /// exceed the budget.
            pub fn peak_device_bytes(&self) -> usize {
                self.ledger.peak()
            }

            /// Returns the bytes of device memory that the map has allocated.
            pub fn device_bytes(&self) -> usize {
                self.ledger.used()
            }

            /// Returns the bytes of host memory for shards, for images to which they are written back, and
            /// for the elements of batches of several chunks.
            pub fn host_bytes(&self) -> usize {
                self.tiers().host_bytes()
            }

            /// Frees the host memory that the map keeps for later batches: all but the shards themselves.
            ///
            /// # Errors
            /// [`Error::Device`] if the device is lost.
            pub fn release_host_memory(&mut self) -> Result<()> {
                self.tiers_mut().release()
            }

            /// Returns the maximum number of elements of a batch that is one chunk.
            pub fn chunk(&self) -> usize {
                self.tiers().plan.chunk
            }

            /// Returns the bytes and operations of all batches so far.
            pub fn traffic(&self) -> Traffic {
                self.tiers().traffic
            }

            /// Returns the costs by which shards are placed.
            pub fn costs(&self) -> Costs {
                self.tiers().config.costs
            }

            /// Returns the number of pairs.
            #[doc(alias = "size")]
            pub fn len(&self) -> usize {
                let mut tiers = self.tiers();
                // If the device is lost, the number is that before the last batches of streams.
                let _ = tiers.finish_submitted();
                tiers.len()
            }

            /// Returns whether there are no pairs.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Removes all pairs. The map keeps its memory.
            ///
            /// # Errors
            /// [`Error::Device`] if the device is lost.
            pub fn clear(&mut self) -> Result<()> {
                self.tiers_mut().clear()
            }
        }

        impl<K: Key, V: Value> $map<K, V> {
            /// Runs a batch. Refused elements are no error.
            fn run(&self, batch: &ColumnsOf<'_, K, V>) -> Result<Results<V::Word>> {
                let (keys, arguments) = (K::encode_all(batch.keys), V::encode_all(batch.values));
                let mut outcomes = vec![Outcome::Refused as u8; keys.len()];
                let mut results = vec![V::Word::default(); if batch.returns { keys.len() } else { 0 }];
                self.tiers().run(&mut Request {
                    codes: batch.codes,
                    arguments: &arguments,
                    results: &mut results,
                    ..Request::new(batch.op, &keys, &mut outcomes)
                })?;
                Results::of_codes(&outcomes, results)
            }

            /// Runs a batch of pairs. Returns an error if elements are refused by a map that grows.
            fn run_pairs(
                &self,
                op: BatchOp,
                keys: &[K],
                values: &[V],
                returns: bool,
            ) -> Result<Results<V::Word>> {
                check("values", keys.len(), values.len())?;
                self.or_no_room(self.run(&ColumnsOf { op, codes: &[], keys, values, returns })?)
            }

            /// Inserts the pairs of new keys, which are given as words.
            fn insert_new_words(&self, keys: &[K::Word], values: &[V::Word]) -> Result<Outcomes> {
                let mut outcomes = vec![Outcome::Refused as u8; keys.len()];
                self.tiers().run(&mut Request {
                    arguments: values,
                    ..Request::new(BatchOp::InsertNew, keys, &mut outcomes)
                })?;
                Results::<V::Word>::of_codes(&outcomes, Vec::new()).map(Results::into_outcomes)
            }

            fn or_no_room(&self, results: Results<V::Word>) -> Result<Results<V::Word>> {
                if self.tiers().grows() { results.or_no_room() } else { Ok(results) }
            }

            /// Runs a batch of keys.
            fn run_keys(&self, op: BatchOp, keys: &[K], returns: bool) -> Result<Results<V::Word>> {
                self.run(&ColumnsOf { op, codes: &[], keys, values: &[], returns })
            }
        }

        /// Operations on keys. Their results are those of the methods of the same names of
        /// [`Map`](crate::Map).
        impl<K: Key, V: Value> $map<K, V> {
            /// Inserts pairs, replacing the values of existing keys. If the batch has several pairs with the
            /// same key, any one of them remains.
            ///
            /// # Errors
            /// - [`Error::NoRoom`] if some pairs do not fit and there is no memory for more. The error holds
            ///   the outcome of each.
            /// - [`Error::Length`] if the slices differ in length.
            /// - [`Error::Interrupted`] if the device fails after some pairs were inserted.
            /// - [`Error::Device`] if it fails before, or has no memory for the batch itself.
            #[doc(alias = "insert_or_assign")]
            pub fn insert(&self, keys: &[K], values: &[V]) -> Result<Outcomes> {
                self.run_pairs(BatchOp::Insert, keys, values, false).map(Results::into_outcomes)
            }

            /// Inserts pairs as [`Self::insert`] does, and writes the outcomes to a slice of the caller, as
            /// codes of [`Outcome`] ([`Outcome::from_code`] decodes them). If all slices are in pinned
            /// memory, the device copies from and to them, and the host converts nothing.
            ///
            /// # Errors
            /// As [`Self::insert`]; the outcomes are those of [`Error::NoRoom`], too.
            pub fn insert_into(&self, keys: &[K], values: &[V], outcomes: &mut [u8]) -> Result<()> {
                self.place_into(BatchOp::Insert, keys, values, outcomes)
            }

            /// Merges pairs as [`Self::upsert`] does, and writes the outcomes as [`Self::insert_into`] does.
            ///
            /// # Errors
            /// As [`Self::upsert`]; the outcomes are those of [`Error::NoRoom`], too.
            pub fn upsert_into(
                &self,
                merge: Merge<V>,
                keys: &[K],
                values: &[V],
                outcomes: &mut [u8],
            ) -> Result<()> {
                self.place_into(BatchOp::Upsert(merge.operation()), keys, values, outcomes)
            }

            fn place_into(&self, op: BatchOp, keys: &[K], values: &[V], outcomes: &mut [u8]) -> Result<()> {
                check("values", keys.len(), values.len())?;
                let refused = self.change_into(op, keys, values, outcomes)?;
                if refused == 0 || !self.tiers().grows() {
                    return Ok(());
                }
                Results::<V::Word>::of_codes(outcomes, Vec::new())?.or_no_room().map(drop)
            }

            /// Removes keys as [`Self::remove`] does, and writes the outcomes as [`Self::insert_into`] does.
            ///
            /// # Errors
            /// [`Error::Length`] if the slices differ in length; otherwise as [`Self::remove`].
            pub fn remove_into(&self, keys: &[K], outcomes: &mut [u8]) -> Result<()> {
                self.change_into(BatchOp::Remove, keys, &[], outcomes).map(drop)
            }

            /// Runs a batch that returns no values. Returns the number of refused elements.
            fn change_into(&self, op: BatchOp, keys: &[K], values: &[V], outcomes: &mut [u8]) -> Result<u64> {
                check("outcomes", keys.len(), outcomes.len())?;
                outcomes.fill(Outcome::Refused as u8);
                let (keys, arguments) = (K::encode_all(keys), V::encode_all(values));
                let mut request = Request { arguments: &arguments, ..Request::new(op, &keys, outcomes) };
                self.tiers().run(&mut request)
            }

            /// Inserts the pairs whose keys are absent.
            ///
            /// # Errors
            /// As [`Self::insert`].
            #[doc(alias = "insert_if_absent")]
            pub fn insert_new(&self, keys: &[K], values: &[V]) -> Result<Outcomes> {
                self.run_pairs(BatchOp::InsertNew, keys, values, false).map(Results::into_outcomes)
            }

            /// Inserts pairs, merging their values with those of existing keys. All pairs of the batch with
            /// the same key are merged.
            ///
            /// # Errors
            /// As [`Self::insert`]. Retry only the pairs that are refused, or not done: the others are
            /// merged.
            #[doc(alias = "insert_or_apply")]
            pub fn upsert(&self, merge: Merge<V>, keys: &[K], values: &[V]) -> Result<Outcomes> {
                let op = BatchOp::Upsert(merge.operation());
                self.run_pairs(op, keys, values, false).map(Results::into_outcomes)
            }

            /// Returns the values of the keys; absent keys are first inserted with the given values. `None`
            /// for a pair that does not fit a map of fixed capacity.
            ///
            /// # Errors
            /// As [`Self::insert`] and [`Self::get`].
            pub fn get_or_insert(&self, keys: &[K], values: &[V]) -> Result<Vec<Option<V>>> {
                let results = self.run_pairs(BatchOp::GetOrInsert, keys, values, true)?;
                results.values_where(|outcome| outcome != Outcome::Refused)
            }

            /// Inserts pairs as [`Self::insert`] does, and returns the old values. A pair that does not fit
            /// has the outcome [`Outcome::Refused`], also if the map grows.
            ///
            /// # Errors
            /// As [`Self::insert`], without [`Error::NoRoom`].
            #[doc(alias = "swap")]
            pub fn replace(&self, keys: &[K], values: &[V]) -> Result<OldValues<V>> {
                check("values", keys.len(), values.len())?;
                let batch = ColumnsOf { op: BatchOp::Replace, codes: &[], keys, values, returns: true };
                self.run(&batch)?.into_old_values(Outcome::Replaced)
            }

            /// Returns the values of the keys, `None` for an absent key.
            ///
            /// # Errors
            /// [`Error::Device`] if the device is lost or lacks the memory.
            #[doc(alias = "find")]
            pub fn get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
                self.run_keys(BatchOp::Get, keys, true)?.values_where(|outcome| outcome == Outcome::Found)
            }

            /// Writes the values of the keys to `values`, and whether each key is in the map to `found`. The
            /// value of an absent key is unspecified.
            ///
            /// # Errors
            /// [`Error::Length`] if the slices differ in length; [`Error::Format`] if a stored word is no
            /// value of the type; otherwise as [`Self::get`]. Then the contents of both slices are
            /// unspecified.
            pub fn get_into(&self, keys: &[K], values: &mut [V], found: &mut [bool]) -> Result<()> {
                check("values", keys.len(), values.len())?;
                check("found", keys.len(), found.len())?;
                if let Some(words) = own_words(values) {
                    return self.look_up(BatchOp::Get, keys, words, found);
                }
                let mut words = vec![V::Word::default(); keys.len()];
                self.look_up(BatchOp::Get, keys, &mut words, found)?;
                parallel::try_convert(values, (&words, found), |value, &word, &found| {
                    if found {
                        *value = decoded(word, V::decode)?;
                    }
                    Ok(())
                })
            }

            fn look_up(
                &self,
                op: BatchOp,
                keys: &[K],
                results: &mut [V::Word],
                found: &mut [bool],
            ) -> Result<()> {
                look_up(&mut self.tiers(), op, &K::encode_all(keys), (results, found))
            }

            /// Returns for each key whether it is in the map.
            ///
            /// # Errors
            /// As [`Self::get`].
            #[doc(alias = "contains")]
            pub fn contains_key(&self, keys: &[K]) -> Result<Vec<bool>> {
                let mut found = vec![false; keys.len()];
                self.contains_into(keys, &mut found)?;
                Ok(found)
            }

            /// Writes for each key to `found` whether it is in the map.
            ///
            /// # Errors
            /// [`Error::Length`] if the slices differ in length; otherwise as [`Self::get`], after which the
            /// contents of `found` are unspecified.
            pub fn contains_into(&self, keys: &[K], found: &mut [bool]) -> Result<()> {
                check("found", keys.len(), found.len())?;
                self.look_up(BatchOp::ContainsKey, keys, &mut [], found)
            }

            /// Removes keys. Returns for each whether it was removed; of several equal keys, only one returns
            /// `true`.
            ///
            /// # Errors
            /// [`Error::Interrupted`] if the device fails after some keys were removed; [`Error::Device`] if
            /// it fails before.
            #[doc(alias = "erase")]
            pub fn remove(&self, keys: &[K]) -> Result<Vec<bool>> {
                let results = self.run_keys(BatchOp::Remove, keys, false)?;
                Ok(results.outcomes.iter().map(|&outcome| outcome == Outcome::Removed).collect())
            }

            /// Removes keys and returns their values, `None` for an absent key; of several equal keys, only
            /// one gets the value.
            ///
            /// # Errors
            /// As [`Self::remove`].
            #[doc(alias = "pop")]
            pub fn take(&self, keys: &[K]) -> Result<OldValues<V>> {
                self.run_keys(BatchOp::Take, keys, true)?.into_old_values(Outcome::Removed)
            }

            /// Executes a mixed batch: each element has its own operation. Returns for each its outcome and a
            /// value, as [`Map::execute`](crate::Map::execute).
            ///
            /// # Errors
            /// As [`Self::insert`].
            pub fn execute(&self, operations: &[Op<K, V>]) -> Result<Vec<(Outcome, Option<V>)>> {
                use Outcome::{Found, Inserted, Replaced};
                let parts = || operations.iter().map(|operation| operation.parts());
                let codes: Vec<u8> = parts().map(|(code, ..)| code.code() as u8).collect();
                let keys: Vec<K::Word> = parts().map(|(_, key, _)| key).collect();
                let arguments: Vec<V::Word> = parts().map(|(.., argument)| argument).collect();
                let mut outcomes = vec![Outcome::Refused as u8; keys.len()];
                let mut results = vec![V::Word::default(); keys.len()];
                self.tiers().run(&mut Request {
                    codes: &codes,
                    arguments: &arguments,
                    results: &mut results,
                    ..Request::new(BatchOp::Mixed, &keys, &mut outcomes)
                })?;
                let results = self.or_no_room(Results::of_codes(&outcomes, results)?)?;
                results.pairs_where(|outcome| matches!(outcome, Found | Inserted | Replaced))
            }
        }

        /// Streams. Each takes the next batch when the one before is done, so all batches together may be
        /// larger than the host's memory. A batch of several chunks overlaps its copies with its kernels; the
        /// copies of different batches do not overlap. If the iterator or a callback panics, the batches so
        /// far are done.
        impl<K: Key, V: Value> $map<K, V> {
            /// Inserts batches of keys and values, until there are no more, or `progress` returns `Break`.
            /// Calls `progress` after each batch. Returns what is done.
            ///
            /// # Errors
            /// As [`Self::insert`], for the batch that failed; those before it are inserted.
            pub fn insert_stream<A: AsRef<[K]>, B: AsRef<[V]>>(
                &self,
                batches: impl IntoIterator<Item = (A, B)>,
                mut progress: impl FnMut(&Progress) -> ControlFlow<()>,
            ) -> Result<Progress> {
                let mut done = Progress::default();
                for (keys, values) in batches {
                    let _: Outcomes = self.insert(keys.as_ref(), values.as_ref())?;
                    done.add(keys.as_ref().len());
                    if progress(&done).is_break() {
                        break;
                    }
                }
                Ok(done)
            }

            /// Looks up batches of keys, and passes the keys and values of each to `sink`, until there are no
            /// more, or `progress` returns `Break`. Calls `progress` after each batch. Returns what is done.
            ///
            /// # Errors
            /// As [`Self::get`], for the batch that failed; `sink` has received those before it.
            pub fn get_stream<A: AsRef<[K]>>(
                &self,
                batches: impl IntoIterator<Item = A>,
                mut sink: impl FnMut(&[K], Vec<Option<V>>),
                mut progress: impl FnMut(&Progress) -> ControlFlow<()>,
            ) -> Result<Progress> {
                let mut done = Progress::default();
                for keys in batches {
                    sink(keys.as_ref(), self.get(keys.as_ref())?);
                    done.add(keys.as_ref().len());
                    if progress(&done).is_break() {
                        break;
                    }
                }
                Ok(done)
            }
        }
    };
}
pub(crate) use tiered_methods;
