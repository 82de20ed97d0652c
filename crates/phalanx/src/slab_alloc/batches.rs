//! Batches on device buffers, submitted to a stream.
use super::SlabAlloc;
use super::kernels::Batch;
use crate::Result;
use crate::map::batches::{check_same_device, slice};
use gpu::{AsSlice, AsSliceMut, Stream};

/// Batches on device buffers of handles. The calls submit work to a stream and do not wait for it. Created by
/// [`SlabAlloc::on`].
///
/// A handle is one word here: see [`Handle::from_word`](super::Handle::from_word).
///
/// ```
/// use phalanx::SlabAlloc;
///
/// let mut pool = SlabAlloc::with_capacity(100)?;
/// let (stream, mut handles) = (pool.device().stream()?, pool.device().buffer::<u32>(100)?);
/// pool.on(&stream).allocate(&mut handles)?;
/// pool.on(&stream).free(&handles)?;
/// pool.on(&stream).allocate_lone(&mut handles)?;
/// pool.on(&stream).free_lone(&handles)?;
/// pool.on(&stream).allocate(&mut handles)?;
/// pool.on(&stream).retire(&handles)?;
/// assert_eq!(pool.reclaim()?, 100);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// Batches in one stream run one after the other. Batches in several streams run concurrently: no slab is
/// allocated twice.
///
/// # Cost
///
/// `allocate`, `allocate_lone`, `free`, `free_lone` and `retire` launch one kernel each. They allocate and
/// copy nothing on the host's side and do not wait. Atomics per slab are those that [`SlabAlloc`] states: one
/// per warp for `allocate`, at least one per slab for `allocate_lone` and `free_lone`.
#[derive(Debug)]
pub struct Batches<'a> {
    pool: &'a SlabAlloc,
    stream: &'a Stream,
}

impl<'a> Batches<'a> {
    pub(super) fn new(pool: &'a SlabAlloc, stream: &'a Stream) -> Self {
        Self { pool, stream }
    }

    fn submit(&self, batch: Batch, handles: impl AsSlice<u32>) -> Result<()> {
        let (device, handles) = (self.pool.device(), handles.view());
        check_same_device(device, "stream", self.stream.device())?;
        let handles = slice(device, "handles", handles, handles.len())?;
        // SAFETY: the pool's memory and the buffer outlive the launch, since dropping buffers waits for it.
        // Operations that may not run concurrently with batches borrow the pool mutably and wait for the
        // device.
        unsafe { self.pool.kernels.launch_batch(self.stream, &self.pool.memory, batch, handles)? };
        Ok(())
    }

    /// Allocates a slab for each element and writes its handle, or the word of
    /// [`Handle::NONE`](super::Handle::NONE) if the pool is full. The lanes of a warp allocate together, from
    /// resident blocks.
    ///
    /// # Errors
    /// [`Error::OtherDevice`](crate::Error::OtherDevice) if the buffer or the stream is not of the pool's
    /// device; [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn allocate(&self, handles: impl AsSliceMut<u32>) -> Result<()> {
        self.submit(Batch::Allocate { seed: self.pool.next_seed() }, handles)
    }

    /// [`Self::allocate`], where each thread allocates by itself.
    ///
    /// # Errors
    /// As [`Self::allocate`].
    pub fn allocate_lone(&self, handles: impl AsSliceMut<u32>) -> Result<()> {
        self.submit(Batch::AllocateLone { seed: self.pool.next_seed() }, handles)
    }

    /// Frees the slabs. A handle of a slab that is not live has no effect except that it is counted in
    /// [`Stats::faults`](super::Stats::faults); the emulator aborts the launch.
    ///
    /// # Errors
    /// As [`Self::allocate`].
    pub fn free(&self, handles: impl AsSlice<u32>) -> Result<()> {
        self.submit(Batch::Free, handles)
    }

    /// [`Self::free`], where each thread frees by itself.
    ///
    /// # Errors
    /// As [`Self::allocate`].
    pub fn free_lone(&self, handles: impl AsSlice<u32>) -> Result<()> {
        self.submit(Batch::FreeLone, handles)
    }

    /// Retires the slabs: [`SlabAlloc::reclaim`] will free them. Faults are as for [`Self::free`].
    ///
    /// # Errors
    /// As [`Self::allocate`].
    pub fn retire(&self, handles: impl AsSlice<u32>) -> Result<()> {
        self.submit(Batch::Retire, handles)
    }
}
