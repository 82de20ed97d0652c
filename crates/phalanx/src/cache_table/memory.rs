//! The memory of a cache table.
use super::Shape;
use super::summary::Summary;
use crate::Result;
use crate::number::Number;
use gpu::{Buffer, Device, Tier};
use phalanx_kernels::cache::{CacheView, Config, Record, Rows, SLOTS, block};
use phalanx_kernels::keyed::Scalar;
use std::marker::PhantomData;

/// Buffers of a table.
#[derive(Debug)]
pub struct Memory<K, S> {
    shape: Shape,
    digests: Buffer<u32>,
    /// Keys, scores and versions, in one of the ways of [`Layout`].
    entries: Buffer<u32>,
    near: Buffer<u32>,
    far: Buffer<u32>,
    summary: Option<Summary<S>>,
    /// Whether the slots have versions, since lookups run beside changes.
    has_versions: bool,
    of: PhantomData<K>,
}

/// Where the entries of a table lie, in words of its buffer. A summary spares evictions the scan of all
/// scores. Then the parts of a slot are neighbours, otherwise each part has an array.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Index of the first score.
    scores: usize,
    /// Index of the first version.
    versions: usize,
    /// Number of words.
    words: usize,
}

impl Layout {
    fn of<K: Scalar, S: Scalar>(slots: usize, has_summary: bool, has_versions: bool) -> Self {
        let (key, score) = (size_of::<K>() / 4, size_of::<S>() / 4);
        match (has_summary, has_versions) {
            (true, true) => {
                let Record { words, score, version } = Record::of::<K, S>();
                Self { scores: score as usize, versions: version as usize, words: words as usize * slots }
            }
            (true, false) => {
                let words = slots * (key + score);
                Self { scores: block::<K, S>() as usize * key, versions: words, words }
            }
            (false, _) => {
                let versions = slots * (key + score);
                let words = versions + if has_versions { slots } else { 0 };
                Self { scores: slots * key, versions, words }
            }
        }
    }
}

impl<K: Scalar, S: Scalar> Memory<K, S> {
    /// Allocates the memory of an empty table, with or without a summary of its scores and versions.
    pub fn new(device: &Device, shape: Shape, has_summary: bool, has_versions: bool) -> Result<Self>
    where
        S: Number,
    {
        let slots = shape.slots();
        Ok(Self {
            shape,
            digests: device.zeroed(slots / 4)?,
            // Evictions read the scores of whole buckets, also of slots that are taken for the first time.
            entries: device.zeroed(Layout::of::<K, S>(slots, has_summary, has_versions).words)?,
            near: device.buffer(shape.row_words(shape.near_slots))?,
            far: device.buffer_on(Tier::Pinned, shape.row_words(SLOTS - shape.near_slots))?,
            summary: has_summary.then(|| Summary::new(device, slots)).transpose()?,
            has_versions,
            of: PhantomData,
        })
    }

    /// Returns the parameters of the memory.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the bytes of device memory.
    pub fn memory_usage(&self) -> usize {
        let summary = self.summary.as_ref().map_or(0, Summary::memory_usage);
        self.digests.byte_len() + self.entries.byte_len() + self.near.byte_len() + summary
    }

    /// Returns the summary of the scores.
    pub fn summary(&self) -> Option<&Summary<S>> {
        self.summary.as_ref()
    }

    /// Returns whether the slots have versions.
    pub fn has_versions(&self) -> bool {
        self.has_versions
    }

    /// Returns the bytes of pinned host memory.
    pub fn host_memory_usage(&self) -> usize {
        self.far.byte_len()
    }

    /// Returns the word that every digest of an empty table has.
    pub fn digests(&mut self) -> &mut Buffer<u32> {
        &mut self.digests
    }

    /// Returns the rows as kernels take them.
    ///
    /// # Safety
    /// - The memory is not dropped while they are used.
    pub unsafe fn rows(&self) -> Rows {
        let Shape { near_slots, words, .. } = self.shape;
        // SAFETY: the buffers have a row for each slot, and the caller's obligation.
        unsafe { Rows::new(self.near.pointer(), self.far.pointer(), near_slots, words) }
    }

    /// Returns the table as kernels of the kind `C` take it.
    ///
    /// # Safety
    /// - The memory is not dropped while the view is used.
    pub unsafe fn view<C: Config<Key = K, Score = S>>(&self) -> CacheView<C> {
        let Shape { buckets, choices, seed, .. } = self.shape;
        let layout = Layout::of::<K, S>(self.shape.slots(), self.summary.is_some(), self.has_versions);
        let entries = self.entries.pointer();
        let scores = entries.wrapping_add(layout.scores).cast();
        let versions = self.entries.global().part(layout.versions, usize::MAX);
        // SAFETY: the buffers have an element for each slot, and were initialized as required. Only the
        // kernels of this kind write to them.
        unsafe {
            let (rows, digests, entries) = (self.rows(), self.digests.pointer(), (entries.cast(), scores));
            let view = CacheView::new(digests, entries, rows, (buckets, choices), seed);
            match (&self.summary, self.has_versions) {
                (Some(summary), true) => view.with_records(versions).with_summary(summary.view()),
                (Some(summary), false) => view.interleaved().with_summary(summary.view()),
                (None, true) => view.with_versions(versions),
                (None, false) => view,
            }
        }
    }
}
