//! Batches on device buffers, asked of a stream.
use super::SlabAlloc;
use super::engine::Batch;
use crate::Result;
use gpu::{Buffer, Stream};

/// Batches on device buffers of handles, which return when they are asked for. Made by [`SlabAlloc::on`].
///
/// A handle is a word here: see [`Handle::from_word`](super::Handle::from_word).
///
/// # Concurrency
/// Batches in one stream run one after the other; those in several streams side by side: no slab is given
/// twice.
#[derive(Debug)]
pub struct Batches<'a> {
    pool: &'a SlabAlloc,
    stream: &'a Stream,
}

impl<'a> Batches<'a> {
    pub(super) fn new(pool: &'a SlabAlloc, stream: &'a Stream) -> Self {
        Self { pool, stream }
    }

    fn launch(&self, batch: Batch, handles: &Buffer<u32>) -> Result<()> {
        let parts = self.pool.memory.parts();
        // SAFETY: the pool's memory and the buffer outlive the launch, since dropping buffers waits for it;
        // what may not run beside batches borrows the pool mutably and waits for the device.
        unsafe { self.pool.engine.launch(self.stream, parts, batch, handles.slice())? };
        Ok(())
    }

    /// Writes a new slab's handle to each element, or [`Handle::NONE`](super::Handle::NONE)'s word where
    /// there was none. By warps with resident blocks.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn allocate(&self, handles: &mut Buffer<u32>) -> Result<()> {
        self.launch(Batch::Allocate { seed: self.pool.next_seed() }, handles)
    }

    /// As [`Self::allocate`], by each thread alone.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn allocate_lone(&self, handles: &mut Buffer<u32>) -> Result<()> {
        self.launch(Batch::AllocateLone { seed: self.pool.next_seed() }, handles)
    }

    /// Frees the slabs. What is no live slab is left alone and counted in
    /// [`Stats::faults`](super::Stats::faults); the emulator ends the launch.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn free(&self, handles: &Buffer<u32>) -> Result<()> {
        self.launch(Batch::Free, handles)
    }

    /// As [`Self::free`], by each thread alone.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn free_lone(&self, handles: &Buffer<u32>) -> Result<()> {
        self.launch(Batch::FreeLone, handles)
    }

    /// Marks the slabs to be freed by [`SlabAlloc::reclaim`]. Faults are as in [`Self::free`].
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
    pub fn retire(&self, handles: &Buffer<u32>) -> Result<()> {
        self.launch(Batch::Retire, handles)
    }
}
