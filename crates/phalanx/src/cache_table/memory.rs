//! The memory of a cache table.
use super::Shape;
use super::summary::Summary;
use crate::Result;
use crate::number::Number;
use gpu::{Buffer, Device, Tier};
use phalanx_kernels::cache::{CacheView, Config, Rows, SLOTS};
use phalanx_kernels::keyed::Scalar;
use std::marker::PhantomData;

/// Buffers of a table.
#[derive(Debug)]
pub struct Memory<K, S> {
    shape: Shape,
    digests: Buffer<u32>,
    /// Keys and scores: in turns if there is a summary, otherwise first all keys.
    entries: Buffer<u32>,
    near: Buffer<u32>,
    far: Buffer<u32>,
    summary: Option<Summary<S>>,
    /// A version for each slot, if lookups run beside changes; otherwise empty.
    versions: Buffer<u32>,
    of: PhantomData<K>,
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
            entries: device.zeroed(slots * (size_of::<K>() + size_of::<S>()) / 4)?,
            near: device.buffer(shape.row_words(shape.near_slots))?,
            far: device.buffer_on(Tier::Pinned, shape.row_words(SLOTS - shape.near_slots))?,
            summary: has_summary.then(|| Summary::new(device, slots)).transpose()?,
            versions: device.zeroed(if has_versions { slots } else { 0 })?,
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
        let slots = self.digests.byte_len() + self.entries.byte_len() + self.versions.byte_len();
        slots + self.near.byte_len() + summary
    }

    /// Returns the summary of the scores.
    pub fn summary(&self) -> Option<&Summary<S>> {
        self.summary.as_ref()
    }

    /// Returns whether the slots have versions.
    pub fn has_versions(&self) -> bool {
        !self.versions.is_empty()
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
        let entries = self.entries.pointer();
        // A summary spares evictions the scan of scores, and then a slot's key and score are neighbours.
        let keys_first = match self.summary {
            Some(_) => CacheView::<C>::block() as usize,
            None => self.shape.slots(),
        };
        let scores = entries.wrapping_add(keys_first * size_of::<K>() / 4).cast();
        // SAFETY: the buffers have an element for each slot, and were initialized as required. Only the
        // kernels of this kind write to them.
        unsafe {
            let (rows, digests, entries) = (self.rows(), self.digests.pointer(), (entries.cast(), scores));
            let view = CacheView::new(digests, entries, rows, (buckets, choices), seed)
                .with_versions(self.versions.global());
            match &self.summary {
                Some(summary) => view.interleaved().with_summary(summary.view()),
                None => view,
            }
        }
    }
}
