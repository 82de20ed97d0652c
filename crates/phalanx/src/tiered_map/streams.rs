//! Streams of batches.
use super::TieredMap;
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::{Key, Outcomes, Result, Value};
use std::ops::ControlFlow;

/// Progress of a stream of batches, passed to its callback after each batch. [`TieredMap`] has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Number of batches that are done.
    pub batches: usize,
    /// Number of their elements.
    pub elements: usize,
}

impl Progress {
    fn add(&mut self, elements: usize) {
        self.batches += 1;
        self.elements += elements;
    }
}

/// Streams. Each takes the next batch when the one before is done, so all batches together may be larger than
/// the host's memory. A batch of several chunks overlaps its copies with its kernels; the copies of different
/// batches do not overlap. If the iterator or a callback panics, the batches so far are done.
impl<K: Key, V: Value> TieredMap<K, V> {
    /// Inserts batches of keys and values, until there are no more, or `progress` returns `Break`. Calls
    /// `progress` after each batch. Returns what is done.
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

    /// Looks up batches of keys, and passes the keys and values of each to `sink`, until there are no more,
    /// or `progress` returns `Break`. Calls `progress` after each batch. Returns what is done.
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
