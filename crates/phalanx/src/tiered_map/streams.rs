//! Streams of batches.
#[allow(unused_imports)] // for links in the documentation
use super::TieredMap;

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
    pub(crate) fn add(&mut self, elements: usize) {
        self.batches += 1;
        self.elements += elements;
    }
}
