//! Memory through which calls on slices of the host exchange data with a device. It is kept and reused:
//! allocating pinned memory takes milliseconds, and a copy from memory that is not pinned waits.
pub use crate::stages::Reach;
use crate::stages::Stage;
use crate::{Device, Error, Result, Slice, SliceMut, Stream};
use bytemuck::Pod;
use simt::{GlobalSlice, Word};
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// Smallest size of a block, in bytes. Sizes are powers of two.
const LEAST: usize = 32 << 10;
/// Alignment of columns, in bytes.
const ALIGNMENT: usize = 256;
/// Time for which a wait polls before it blocks. Results of small calls arrive within it; a thread that
/// blocks wakes up some 10 µs late.
const POLLED: Duration = Duration::from_micros(500);

/// A column of a [`Layout`].
#[derive(Debug)]
pub struct Column<T> {
    offset: usize,
    len: usize,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Column<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Column<T> {}

impl<T> Column<T> {
    /// Returns the column of the first `len` elements, or of all if it has fewer: to copy only these.
    ///
    /// ```
    /// use gpu::{Device, Layout, Reach};
    ///
    /// let device = Device::emulator(Default::default());
    /// let words = Layout::default().column::<u32>(100)?;
    /// let mut staging = device.staging(400, Reach::Copied)?;
    /// staging.download(words.first(3))?;
    /// assert_eq!(staging.read(words.first(3))?.len(), 3);
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// Cost: arithmetic on the host.
    pub fn first(self, len: usize) -> Self {
        Self { len: self.len.min(len), ..self }
    }

    fn byte_len(self) -> usize {
        self.len * size_of::<T>()
    }
}

/// Division of a [`Staging`] into columns.
///
/// ```
/// use gpu::Layout;
///
/// let mut layout = Layout::default();
/// let (_keys, _flags) = (layout.column::<u32>(100)?, layout.column::<u8>(100)?);
/// assert_eq!(layout.byte_len(), 512 + 256);
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// # Cost
/// `column` is arithmetic on the host: it allocates nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    bytes: usize,
}

impl Layout {
    /// Adds a column of `len` elements.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when the size overflows.
    pub fn column<T: Pod>(&mut self, len: usize) -> Result<Column<T>> {
        let too_large = Error::TooLarge { len, element: size_of::<T>() };
        let bytes = crate::buffer::bytes_of::<T>(len)?.checked_next_multiple_of(ALIGNMENT);
        let end = bytes.and_then(|bytes| bytes.checked_add(self.bytes)).ok_or(too_large)?;
        Ok(Column { offset: std::mem::replace(&mut self.bytes, end), len, of: PhantomData })
    }

    /// Returns the bytes of all columns.
    pub fn byte_len(&self) -> usize {
        self.bytes
    }
}

/// Memory through which a call exchanges data with kernels, and a stream for its launches. Created by
/// [`Device::staging`]; dropping it waits for the stream, and returns the memory to the device for the next
/// call.
///
/// ```
/// use gpu::{Device, Grid, Layout, Reach};
/// use simt::{GlobalSlice, Thread, kernel};
///
/// #[kernel]
/// fn double(words: GlobalSlice<u32>) {
///     words.write(Thread::index(), 2 * words.read(Thread::index()));
/// }
///
/// let device = Device::emulator(Default::default());
/// let mut layout = Layout::default();
/// let words = layout.column::<u32>(3)?;
/// for reach in [Reach::Mapped, Reach::Copied] {
///     let mut staging = device.staging(layout.byte_len(), reach)?;
///     staging.host(words)?.copy_from_slice(&[1, 2, 3]);
///     staging.upload(words)?;
///     let kernel = Double { words: staging.global(words)? };
///     // SAFETY: a thread per word, and nothing else accesses the words.
///     unsafe { staging.stream().launch(Grid::new(1, 3), kernel)? };
///     staging.download(words)?;
///     assert_eq!(staging.host(words)?, [2, 4, 6]);
///     staging.fill(words, 0)?;
///     staging.download(words)?;
///     staging.wait()?;
///     assert_eq!(staging.read(words)?, [0; 3]);
///     assert!(staging.byte_len() >= 12 && *staging.device() == device && staging.reach() == reach);
/// }
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// Copies from and to other memory:
///
/// ```
/// use gpu::{Device, Layout, Reach, Tier};
///
/// let device = Device::emulator(Default::default());
/// let (buffer, mut pinned) = (device.zeroed::<u32>(3)?, device.buffer_on::<u32>(Tier::Pinned, 4)?);
/// let words = Layout::default().column::<u32>(3)?;
/// let mut staging = device.staging(12, Reach::Copied)?;
/// staging.host(words)?.copy_from_slice(&[1, 2, 3]);
/// let elements = pinned.as_mut_slice()?;
/// // SAFETY: the memory lives until the wait, and nothing else accesses it.
/// unsafe {
///     staging.copy_to(words, buffer.global())?;
///     staging.copy_from(buffer.global(), words)?;
///     staging.upload(words)?;
///     staging.download_to(words, elements.as_mut_ptr())?;
///     staging.wait()?;
///     staging.upload_from(&elements[..3], words)?;
/// }
/// assert_eq!((buffer.read()?, &elements[..]), (vec![1, 2, 3], &[1, 2, 3, 0][..]));
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// Columns as arguments of calls on buffers:
///
/// ```
/// use gpu::{Device, Layout, Reach};
///
/// let device = Device::emulator(Default::default());
/// let mut layout = Layout::default();
/// let [from, to] = [layout.column::<u32>(3)?, layout.column::<u32>(3)?];
/// let mut staging = device.staging(layout.byte_len(), Reach::Copied)?;
/// staging.host(from)?.copy_from_slice(&[1, 2, 3]);
/// staging.upload(from)?;
/// // SAFETY: this is the only slice of the column.
/// unsafe { staging.slice_mut(to)?.copy_from(staging.slice(from)?)? };
/// assert_eq!(staging.slice(to)?.read()?, [1, 2, 3]);
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// # Concurrency
/// Its work comes after all work that was submitted to the device's streams before it was created, and runs
/// concurrently with work that is submitted later.
///
/// # Cost
///
/// | call | cost |
/// |---|---|
/// | `host`, `host_both`, `read` | waits for the stream if something was submitted; no copy |
/// | `upload`, `download`, `fill` | submits a copy or a fill, or nothing if kernels reach the pinned memory |
/// | `copy_to`, `copy_from`, `upload_from`, `download_to` | submits a copy |
/// | `wait` | polls the stream, and blocks if it takes long |
/// | `stream`, `global`, `slice`, `slice_mut`, `byte_len`, `device`, `reach` | O(1) on the host; nothing is copied |
#[derive(Debug)]
pub struct Staging {
    device: Device,
    /// `None` only while the value is dropped.
    stage: Option<Stage>,
    stream: Stream,
    byte_len: usize,
    pinned: *mut u8,
    /// Address for kernels.
    reached: *mut u8,
    reach: Reach,
    /// Whether something was submitted since the last wait.
    is_busy: bool,
}

// SAFETY: as for `Stage`.
unsafe impl Send for Staging {}

/// Staging memory.
impl Device {
    /// Returns staging memory of at least `bytes` bytes, whose work comes after all work submitted to the
    /// device before.
    ///
    /// ```
    /// use gpu::{Device, Reach};
    ///
    /// let device = Device::emulator(Default::default());
    /// drop(device.staging(100, Reach::Copied)?); // the device keeps it
    /// let (pinned, on_device) = device.staging_usage();
    /// assert!(pinned >= 100 && on_device >= 100);
    /// device.release_staging();
    /// assert_eq!(device.staging_usage(), (0, 0));
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// Cost: waits for the device if work was submitted to a stream since the last wait; allocates memory if
    /// the device keeps none that is large enough.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the memory is exhausted; [`Error::TooLarge`] when the size overflows;
    /// [`Error::DeviceLost`] when a kernel failed before.
    pub fn staging(&self, bytes: usize, reach: Reach) -> Result<Staging> {
        self.settle()?;
        let size =
            bytes.max(LEAST).checked_next_power_of_two().ok_or(Error::TooLarge { len: bytes, element: 1 });
        let stage = self.stage(size?, reach)?;
        let stream = Stream::untracked(self.clone(), stage.queue.clone());
        let (pinned, byte_len) = (stage.pinned.host, stage.bytes);
        let reached = stage.device.map_or(stage.pinned.device, |block| block.device);
        let device = self.clone();
        Ok(Staging { device, stage: Some(stage), stream, byte_len, pinned, reached, reach, is_busy: false })
    }

    fn stage(&self, bytes: usize, reach: Reach) -> Result<Stage> {
        let pool = self.pool();
        match pool.take(bytes, reach) {
            Some(stage) if stage.bytes >= bytes => return Ok(stage),
            Some(small) => {
                pool.discount(&small);
                small.free(self.machine());
            }
            None => {}
        }
        let stage = Stage::new(self.machine(), bytes, reach)?;
        pool.count(&stage);
        Ok(stage)
    }

    /// Returns the bytes of pinned memory and of device memory that staging takes, in use or kept for later
    /// calls: see [`Self::staging`].
    ///
    /// Cost: reads two words under a lock.
    pub fn staging_usage(&self) -> (usize, usize) {
        *self.pool().usage()
    }

    /// Frees the staging memory that no call uses: see [`Self::staging`].
    ///
    /// Cost: waits for the device, and frees each block.
    pub fn release_staging(&self) {
        self.pool().release(self.machine());
    }

    /// Returns whether all elements lie in one buffer of this device on
    /// [`Tier::Pinned`](crate::Tier::Pinned): copies need no staging then.
    ///
    /// Cost: loads O(log n) addresses of n pinned buffers under a lock.
    ///
    /// ```
    /// use gpu::{Device, Tier};
    ///
    /// let device = Device::emulator(Default::default());
    /// let pinned = device.buffer_on::<u32>(Tier::Pinned, 4)?;
    /// assert!(device.is_pinned(pinned.as_slice()?) && !device.is_pinned(&[1u32]));
    /// # Ok::<(), gpu::Error>(())
    /// ```
    pub fn is_pinned<T>(&self, elements: &[T]) -> bool {
        self.pinned().contain(elements.as_ptr().addr(), size_of_val(elements))
    }
}

impl Staging {
    /// Returns the size in bytes, which may exceed the requested one.
    pub fn byte_len(&self) -> usize {
        self.byte_len
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns how kernels reach the data.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// Returns the stream for launches, which no other call uses.
    pub fn stream(&mut self) -> &Stream {
        self.is_busy = true;
        &self.stream
    }

    /// Returns an error if a column of another layout does not fit.
    fn check<T>(&self, column: Column<T>, what: &'static str) -> Result<usize> {
        let end = column.offset + column.byte_len();
        let len = self.byte_len;
        let error = Error::Length { what, asked: column.len, offset: column.offset, len };
        if end <= len { Ok(column.offset) } else { Err(error) }
    }

    /// Returns a column as the host sees it, after the stream's work.
    ///
    /// # Errors
    /// [`Error::Length`] when the column is of a larger layout; [`Error::DeviceLost`] when a kernel failed.
    pub fn host<T: Pod>(&mut self, column: Column<T>) -> Result<&mut [T]> {
        let offset = self.check(column, "host")?;
        self.wait()?;
        // SAFETY: the pinned memory was zeroed when it was allocated and lives as long as `self`, which is
        // borrowed mutably; the column is within it and aligned. No submitted work is left.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.pinned.add(offset).cast(), column.len) })
    }

    /// Returns two columns of one layout as the host sees them, after the stream's work.
    ///
    /// ```
    /// use gpu::{Device, Layout, Reach};
    ///
    /// let device = Device::emulator(Default::default());
    /// let mut layout = Layout::default();
    /// let (keys, flags) = (layout.column::<u32>(2)?, layout.column::<u8>(2)?);
    /// let mut staging = device.staging(layout.byte_len(), Reach::Copied)?;
    /// let (first, second) = staging.host_both(keys, flags)?;
    /// (first[0], second[0]) = (7, 1);
    /// assert_eq!((staging.read(keys)?[0], staging.read(flags)?[0]), (7, 1));
    /// assert!(staging.host_both(keys, keys).is_err());
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::host`].
    ///
    /// # Errors
    /// As [`Self::host`]; [`Error::Length`] also when the columns overlap.
    pub fn host_both<A: Pod, B: Pod>(
        &mut self,
        first: Column<A>,
        second: Column<B>,
    ) -> Result<(&mut [A], &mut [B])> {
        let (from, then) = (self.check(first, "host_both")?, self.check(second, "host_both")?);
        if from < then + second.byte_len() && then < from + first.byte_len() {
            let (asked, len) = (second.len, self.byte_len);
            return Err(Error::Length { what: "host_both", asked, offset: then, len });
        }
        self.wait()?;
        // SAFETY: as in `host`, for both columns; they do not overlap.
        Ok(unsafe {
            (
                std::slice::from_raw_parts_mut(self.pinned.add(from).cast(), first.len),
                std::slice::from_raw_parts_mut(self.pinned.add(then).cast(), second.len),
            )
        })
    }

    /// Returns a column as the host sees it, after the stream's work, for reading.
    ///
    /// # Errors
    /// As [`Self::host`].
    pub fn read<T: Pod>(&self, column: Column<T>) -> Result<&[T]> {
        let offset = self.check(column, "read")?;
        self.poll()?;
        // SAFETY: as in `host`; only a call with `&mut self` submits more work.
        Ok(unsafe { std::slice::from_raw_parts(self.pinned.add(offset).cast(), column.len) })
    }

    /// Returns a column as kernels take it. The slice does not keep the memory alive; the caller of
    /// [`Stream::launch`] must.
    ///
    /// # Errors
    /// [`Error::Length`] when the column is of a larger layout.
    pub fn global<T: Word>(&self, column: Column<T>) -> Result<GlobalSlice<T>> {
        let offset = self.check(column, "global")?;
        // SAFETY: the words are allocated and aligned. Who launches a kernel with the slice keeps them alive
        // and excludes races of weak accesses; outside of a launch the slice accesses nothing.
        Ok(unsafe { GlobalSlice::from_raw_parts(self.reached.wrapping_add(offset).cast(), column.len) })
    }

    /// Returns a column, where kernels reach it, as calls on buffers take it.
    ///
    /// Cost: O(1) on the host.
    ///
    /// # Errors
    /// [`Error::Length`] when the column is of a larger layout.
    pub fn slice<T: Pod>(&self, column: Column<T>) -> Result<Slice<'_, T>> {
        let offset = self.check(column, "slice")?;
        Ok(Slice::new(&self.device, self.reached.wrapping_add(offset).cast(), column.len))
    }

    /// Returns a column, where kernels reach it, as calls on buffers take their output: see
    /// [`slice`](Self::slice).
    ///
    /// Cost: O(1) on the host.
    ///
    /// # Errors
    /// As [`Self::slice`].
    ///
    /// # Safety
    /// - While the slice lives, no other slice of the column is used, and [`read`](Self::read) is not called
    ///   for it.
    pub unsafe fn slice_mut<T: Pod>(&self, column: Column<T>) -> Result<SliceMut<'_, T>> {
        self.slice(column).map(SliceMut::new)
    }

    /// Submits a copy of a column to where kernels reach it.
    ///
    /// # Errors
    /// [`Error::Length`] when the column is of a larger layout; [`Error::DeviceLost`] when a kernel failed.
    pub fn upload<T: Pod>(&mut self, column: Column<T>) -> Result<()> {
        let offset = self.check(column, "upload")?;
        if self.reach == Reach::Mapped {
            return Ok(());
        }
        let (to, from) = (self.reached.wrapping_add(offset), self.pinned.wrapping_add(offset));
        // SAFETY: both sides are within the memory of `self`, which waits before the host accesses it.
        unsafe { self.copy(to, from, column.byte_len()) }
    }

    /// Submits a copy of a column from where kernels reach it.
    ///
    /// # Errors
    /// As [`Self::upload`].
    pub fn download<T: Pod>(&mut self, column: Column<T>) -> Result<()> {
        let offset = self.check(column, "download")?;
        if self.reach == Reach::Mapped {
            return Ok(());
        }
        let (to, from) = (self.pinned.wrapping_add(offset), self.reached.wrapping_add(offset));
        // SAFETY: as in `upload`.
        unsafe { self.copy(to, from, column.byte_len()) }
    }

    /// Sets every byte of a column, where kernels reach it, to `byte`.
    ///
    /// # Errors
    /// As [`Self::upload`].
    pub fn fill<T: Pod>(&mut self, column: Column<T>, byte: u8) -> Result<()> {
        let (offset, bytes) = (self.check(column, "fill")?, column.byte_len());
        if self.reach == Reach::Mapped {
            self.wait()?;
            // SAFETY: the bytes are within the pinned memory, and no submitted work is left.
            unsafe { self.pinned.add(offset).write_bytes(byte, bytes) };
            return Ok(());
        }
        self.is_busy = true;
        match bytes {
            0 => Ok(()),
            // SAFETY: the bytes are within the device memory of `self`.
            bytes => unsafe { self.stream.queue().fill(self.reached.wrapping_add(offset), byte, bytes) },
        }
    }

    /// Submits a copy of a column of the host's side to the first elements of `to`.
    ///
    /// # Errors
    /// [`Error::Length`] when the column is of a larger layout, or longer than `to`; [`Error::DeviceLost`]
    /// when a kernel failed.
    ///
    /// # Safety
    /// - `to` is in live memory of this device, and nothing else accesses it until the copy has completed.
    pub unsafe fn copy_to<T: Word + Pod>(&mut self, column: Column<T>, to: GlobalSlice<T>) -> Result<()> {
        let offset = self.check(column, "copy_to")?;
        check_len("copy_to", column.len, to.len())?;
        // SAFETY: the caller's obligation; `self` waits before the host accesses its memory.
        unsafe { self.copy(to.as_ptr().cast(), self.pinned.wrapping_add(offset), column.byte_len()) }
    }

    /// Submits a copy of the first elements of `from` to a column of the host's side.
    ///
    /// # Errors
    /// As [`Self::copy_to`].
    ///
    /// # Safety
    /// - `from` is in live memory of this device, and nothing writes it until the copy has completed.
    pub unsafe fn copy_from<T: Word + Pod>(&mut self, from: GlobalSlice<T>, column: Column<T>) -> Result<()> {
        let offset = self.check(column, "copy_from")?;
        check_len("copy_from", column.len, from.len())?;
        // SAFETY: as in `copy_to`.
        unsafe { self.copy(self.pinned.wrapping_add(offset), from.as_ptr().cast(), column.byte_len()) }
    }

    /// Submits a copy of pinned elements of the caller to where kernels reach a column of their number.
    ///
    /// # Errors
    /// [`Error::Length`] when the column is of a larger layout, or longer than `elements`;
    /// [`Error::DeviceLost`] when a kernel failed.
    ///
    /// # Safety
    /// - `elements` stays alive and unchanged until the copy has completed.
    pub unsafe fn upload_from<T: Pod>(&mut self, elements: &[T], column: Column<T>) -> Result<()> {
        let offset = self.check(column, "upload_from")?;
        check_len("upload_from", column.len, elements.len())?;
        let to = self.reached.wrapping_add(offset);
        // SAFETY: the caller's obligation; the column is within the memory of `self`.
        unsafe { self.copy(to, elements.as_ptr().cast(), column.byte_len()) }
    }

    /// Submits a copy of a column, from where kernels reach it, to memory of the caller, which is pinned.
    ///
    /// # Errors
    /// [`Error::Length`] when the column is of a larger layout; [`Error::DeviceLost`] when a kernel failed.
    ///
    /// # Safety
    /// - `to` has as many elements as the column. It stays alive and is not accessed until the copy has
    ///   completed.
    pub unsafe fn download_to<T: Pod>(&mut self, column: Column<T>, to: *mut T) -> Result<()> {
        let offset = self.check(column, "download_to")?;
        // SAFETY: the caller's obligation; the column is within the memory of `self`.
        unsafe { self.copy(to.cast(), self.reached.wrapping_add(offset), column.byte_len()) }
    }

    /// # Safety
    /// - As [`Queue::copy`].
    unsafe fn copy(&mut self, to: *mut u8, from: *const u8, bytes: usize) -> Result<()> {
        self.is_busy = true;
        match bytes {
            0 => Ok(()),
            // SAFETY: the caller's obligation.
            bytes => unsafe { self.stream.queue().copy(to, from, bytes) },
        }
    }

    /// Waits until the stream's work has completed.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] when a kernel failed.
    pub fn wait(&mut self) -> Result<()> {
        self.poll()?;
        self.is_busy = false;
        Ok(())
    }

    fn poll(&self) -> Result<()> {
        if !self.is_busy {
            return Ok(());
        }
        let (begin, queue) = (Instant::now(), self.stream.queue());
        while !queue.is_complete()? {
            if begin.elapsed() > POLLED {
                return queue.synchronize();
            }
            std::hint::spin_loop();
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Err(error) = self.wait() {
            tracing::debug!(%error, "staging memory of a lost device is returned");
        }
        let kept = self.stage.take().and_then(|stage| self.device.pool().put(stage));
        if let Some(stage) = kept {
            self.device.pool().discount(&stage);
            stage.free(self.device.machine());
        }
    }
}

fn check_len(what: &'static str, asked: usize, len: usize) -> Result<()> {
    if asked <= len { Ok(()) } else { Err(Error::Length { what, asked, offset: 0, len }) }
}
