//! The memory of a cache table.
use super::Shape;
use crate::Result;
use bytemuck::Pod;
use gpu::{Buffer, Device, Tier};
use phalanx_kernels::cache::{CacheView, Config, Rows, SLOTS};
use simt::Word;

/// Buffers of a table.
#[derive(Debug)]
pub struct Memory<K, S> {
    shape: Shape,
    digests: Buffer<u32>,
    keys: Buffer<K>,
    scores: Buffer<S>,
    near: Buffer<u32>,
    far: Buffer<u32>,
}

impl<K: Word + Pod, S: Word + Pod> Memory<K, S> {
    /// Allocates the memory of an empty table.
    pub fn new(device: &Device, shape: Shape) -> Result<Self> {
        let slots = shape.slots();
        Ok(Self {
            shape,
            digests: device.zeroed(slots / 4)?,
            keys: device.buffer(slots)?,
            // Evictions read the scores of whole buckets, also of slots that are taken for the first time.
            scores: device.zeroed(slots)?,
            near: device.buffer(shape.row_words(shape.near_slots))?,
            far: device.buffer_on(Tier::Pinned, shape.row_words(SLOTS - shape.near_slots))?,
        })
    }

    /// Returns the parameters of the memory.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the bytes of device memory.
    pub fn memory_usage(&self) -> usize {
        self.digests.byte_len() + self.keys.byte_len() + self.scores.byte_len() + self.near.byte_len()
    }

    /// Returns the bytes of pinned host memory.
    pub fn host_memory_usage(&self) -> usize {
        self.far.byte_len()
    }

    /// Returns the word that every digest of an empty table has.
    pub fn digests(&mut self) -> &mut Buffer<u32> {
        &mut self.digests
    }

    /// Returns the table as kernels of the kind `C` take it.
    ///
    /// # Safety
    /// - The memory is not dropped while the view is used.
    pub unsafe fn view<C: Config<Key = K, Score = S>>(&self) -> CacheView<C> {
        let Shape { buckets, choices, words, near_slots, seed } = self.shape;
        let (keys, scores) = (self.keys.pointer(), self.scores.pointer());
        // SAFETY: the buffers have an element for each slot, and were initialized as required. Only the
        // kernels of this kind write to them.
        unsafe {
            let rows = Rows::new(self.near.pointer(), self.far.pointer(), near_slots, words);
            CacheView::new(self.digests.pointer(), (keys, scores), rows, (buckets, choices), seed)
        }
    }
}
