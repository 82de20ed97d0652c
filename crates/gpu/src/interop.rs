//! Memory and streams of other libraries.
use crate::memory::Memory;
use crate::{Buffer, Device, Error, Result, Stream};
use bytemuck::Pod;
use std::ffi::c_void;

/// Memory and streams of other libraries (cudarc, candle, a C program), and the raw handles of ours:
/// [`Buffer::pointer`] and [`Stream::raw_handle`].
impl Device {
    /// Wraps `len` elements of another library's device memory. Dropping the buffer waits for all work
    /// submitted to the device, and leaves the memory to its owner. The buffer reports
    /// [`Tier::Device`](crate::Tier::Device).
    ///
    /// CUDA: memory of the device's primary context, which the CUDA runtime, cudarc and candle also use. The
    /// emulator: any memory of the host, which counts as initialised.
    ///
    /// ```
    /// let device = gpu::Device::emulator(Default::default());
    /// let mut theirs = vec![1u32, 2, 3];
    /// // SAFETY: the vector outlives the buffer, and nothing else accesses it meanwhile.
    /// let mut words = unsafe { device.wrap_memory(theirs.as_mut_ptr(), 3)? };
    /// words.write_at(1, &[20])?;
    /// drop(words);
    /// assert_eq!(theirs, [1, 20, 3]);
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ForeignMemory`] when the pointer is null or not aligned to the element's size (to the largest
    /// power of two, at most 16, that divides it), when the driver does not know the address or reports
    /// another device or context, or when the allocation ends before the last element; [`Error::TooLarge`]
    /// when the size overflows; [`Error::DeviceLost`] when a kernel failed before.
    ///
    /// # Safety
    /// - The elements are allocated, and accessible to the device, until the buffer is dropped.
    /// - Meanwhile nothing else writes them, or reads what kernels write, except in the order of a stream or
    ///   after a wait; and they are not wrapped a second time.
    /// - Work of other libraries on the memory has completed, or comes before in the streams that use it.
    pub unsafe fn wrap_memory<T: Pod>(&self, pointer: *mut T, len: usize) -> Result<Buffer<T>> {
        let bytes = crate::buffer::bytes_of::<T>(len)?;
        let refused = |cause: String| Error::ForeignMemory { address: pointer.addr(), bytes, cause };
        if bytes == 0 {
            return self.buffer(len);
        }
        check_pointer(pointer).map_err(refused)?;
        // SAFETY: the caller's obligations.
        let memory = unsafe { Memory::wrap(self, pointer.cast(), bytes)? }.map_err(refused)?;
        Ok(Buffer::of_memory(memory, len))
    }

    /// Wraps another library's stream. Dropping the returned stream leaves it to its owner.
    ///
    /// Methods without a stream also wait for its work. For a stream that the driver does not order with the
    /// null stream (`CU_STREAM_NON_BLOCKING`, the default of cudarc), they then wait for the whole device
    /// first, as long as the device is open.
    ///
    /// CUDA: a `CUstream` or `cudaStream_t` of the device's primary context; null is the legacy default
    /// stream. The emulator has no streams of other libraries: only null is accepted, which is its default
    /// stream.
    ///
    /// ```
    /// let device = gpu::Device::auto();
    /// let own = device.stream()?;
    /// // SAFETY: `own` outlives the wrapped stream.
    /// let wrapped = unsafe { device.wrap_stream(own.raw_handle())? };
    /// wrapped.synchronize()?;
    /// assert_eq!(wrapped.raw_handle(), own.raw_handle());
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ForeignStream`] when the stream belongs to another context, or is the per-thread default
    /// stream; [`Error::DeviceLost`] when a kernel failed before.
    ///
    /// # Safety
    /// - The handle is null or a stream that exists until the returned stream, its clones and the structures
    ///   that were used with it are dropped.
    pub unsafe fn wrap_stream(&self, handle: *mut c_void) -> Result<Stream> {
        // SAFETY: the caller's obligation.
        let queue = unsafe { self.machine().wrap_queue(handle)? };
        let queue = queue.map_err(|cause| Error::ForeignStream { cause })?;
        self.submissions().add_foreign_stream();
        Ok(Stream::new(self.clone(), queue))
    }
}

impl Stream {
    /// Returns the handle of the stream for other libraries: the `CUstream`; null on the emulator. It is
    /// valid until all clones of the stream are dropped.
    pub fn raw_handle(&self) -> *mut c_void {
        self.queue().raw_handle()
    }
}

/// Returns the reason why no element can be at the address.
fn check_pointer<T>(pointer: *mut T) -> Result<(), String> {
    let align = 1 << size_of::<T>().trailing_zeros().min(4);
    match pointer.addr() {
        0 => Err("the pointer is null".to_owned()),
        address if !address.is_multiple_of(align) => {
            let bytes = size_of::<T>();
            Err(format!("elements of {bytes} bytes must be aligned to {align} bytes"))
        }
        _ => Ok(()),
    }
}
