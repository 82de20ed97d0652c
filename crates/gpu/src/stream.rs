//! Streams of work.
use crate::copies::Ends;
use crate::launch::{self, AnyLaunch, Launch};
use crate::machine::Queue;
use crate::{Device, Error, Event, Result};
use simt::{GlobalSlice, Grid, Kernel, Word};
use std::sync::Arc;

/// A queue of launches and copies that a device executes in order. Cheap to clone: clones refer to the same
/// queue.
///
/// ```
/// use gpu::{Device, Grid};
/// use simt::{GlobalSlice, Thread, kernel};
///
/// #[kernel]
/// fn double(words: GlobalSlice<u32>) {
///     words.write(Thread::index(), 2 * words.read(Thread::index()));
/// }
///
/// let device = Device::emulator(Default::default());
/// let words = device.from_slice(&[1u32, 2, 3])?;
/// let stream = device.stream()?;
/// let before = stream.record()?;
/// // SAFETY: a thread per word; the buffer lives until the kernel has ended, and nothing else accesses it.
/// unsafe { stream.launch(Grid::new(1, 3), Double { words: words.global() })? };
/// device.default_stream().wait(&stream.record()?)?; // orders the streams
/// stream.synchronize()?;
/// assert!(before.is_complete()? && *stream.device() == device);
/// assert!(stream.raw_handle().is_null()); // on a GPU the `CUstream`, for other libraries
/// assert_eq!(words.read()?, [2, 4, 6]);
/// // SAFETY: as for the launch.
/// unsafe { stream.fill(words.global().part(1, 2), 0)? };
/// assert_eq!(words.read()?, [2, 0, 0]);
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// Copies between the host and the device, and within the device:
///
/// ```
/// let device = gpu::Device::auto();
/// let (words, stream) = (device.zeroed::<u32>(3)?, device.stream()?);
/// let (all, mut read) = (words.global(), [0; 3]);
/// // SAFETY: buffers and arrays live until the stream has executed the copies, and nothing else accesses
/// // them.
/// unsafe {
///     stream.upload(all.part(1, 2), &[7, 8])?;
///     stream.copy(all.part(0, 1), all.part(2, 1))?;
///     stream.download(&mut read, all)?;
/// }
/// stream.synchronize()?;
/// assert_eq!(read, [8, 7, 8]);
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// # Concurrency
/// Work of different streams may run concurrently; [`wait`](Self::wait) orders it. On the emulator, an
/// operation has completed when its call returns, in the calling thread's order.
///
/// # Cost
///
/// `launch`, `fill`, `record` and `wait` submit work and do not wait for it: a call of the driver each, some
/// microseconds. The first launch of a kernel also compiles it, as [`Device::prepare`]. `upload`, `download`
/// and `copy` are a call of the driver each, too. They do not wait for the copy if the memory of the host is
/// pinned. Other memory of the host is copied through the driver's buffers, and the call may wait for that.
/// `synchronize` waits for all work submitted to the stream.
#[derive(Clone, Debug)]
pub struct Stream {
    device: Device,
    queue: Arc<dyn Queue>,
    /// Whether submissions are counted: see `Device::settle`. Those of a call that waits for them need not
    /// be.
    is_tracked: bool,
}

/// Streams are equal if they are the same queue.
impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.queue, &other.queue)
    }
}

impl Eq for Stream {}

/// Streams.
impl Device {
    /// Creates a stream.
    ///
    /// # Errors
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) when a kernel failed before;
    /// [`Error::Driver`](crate::Error::Driver) when the driver's call fails.
    pub fn stream(&self) -> Result<Stream> {
        Ok(Stream::new(self.clone(), self.machine().queue(false)?))
    }

    /// Creates a stream of high priority: its launches get free multiprocessors before those of other
    /// streams. For short work beside long launches. The emulator has no priorities.
    ///
    /// ```
    /// let device = gpu::Device::auto();
    /// assert!(device.urgent_stream()? != device.stream()?);
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub fn urgent_stream(&self) -> Result<Stream> {
        Ok(Stream::new(self.clone(), self.machine().queue(true)?))
    }

    /// Returns the default stream, the same one on every call.
    pub fn default_stream(&self) -> Stream {
        Stream::new(self.clone(), self.default_queue().clone())
    }
}

impl Stream {
    pub(crate) fn new(device: Device, queue: Arc<dyn Queue>) -> Self {
        Self { device, queue, is_tracked: true }
    }

    /// Creates the stream of a call that waits for all of its work before it returns.
    pub(crate) fn untracked(device: Device, queue: Arc<dyn Queue>) -> Self {
        Self { device, queue, is_tracked: false }
    }

    /// Returns the result of a submission, and counts it.
    pub(crate) fn submitted<T>(&self, result: T) -> T {
        if self.is_tracked {
            self.device.submissions().add();
        }
        result
    }

    pub(crate) fn queue(&self) -> &dyn Queue {
        &*self.queue
    }

    /// Returns the device of the stream.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Submits a launch of `kernel` by each thread of `grid`. A grid without blocks launches nothing.
    ///
    /// On a CUDA device the call returns at once; a later call reports the failure of a kernel, as
    /// [`Error::DeviceLost`](crate::Error::DeviceLost). The first launch of a kernel compiles it
    /// ([`Device::prepare`] does so ahead of time). On the emulator the call returns when the kernel has
    /// ended, and returns its failure if it failed.
    ///
    /// # Errors
    /// [`UnknownProgram`](crate::Error::UnknownProgram), [`NoPtx`](crate::Error::NoPtx),
    /// [`UnknownKernel`](crate::Error::UnknownKernel), [`Arguments`](crate::Error::Arguments) and
    /// [`Jit`](crate::Error::Jit) when the kernel cannot be found or compiled; [`Grid`](crate::Error::Grid)
    /// and [`Launch`](crate::Error::Launch) when the grid is refused; [`Emulator`](crate::Error::Emulator)
    /// when the kernel failed on the emulator.
    ///
    /// # Safety
    /// - Every pointer that the kernel accesses lies in live memory of this device until the kernel has
    ///   ended. (Dropping a [`Buffer`](crate::Buffer) waits for the kernel.)
    /// - While the kernel runs, nothing else reads what it writes or writes what it accesses: neither through
    ///   a slice of a host-visible buffer nor from another kernel, except as the kernel's documentation
    ///   allows.
    /// - The kernel's own requirements hold.
    pub unsafe fn launch<K: Kernel + Send + Sync + 'static>(&self, grid: Grid, kernel: K) -> Result<()> {
        // SAFETY: the caller's obligation.
        unsafe { self.launch_any(&Launch { grid, kernel }) }
    }

    /// Submits a launch of any kernel; compiled once for all.
    ///
    /// # Safety
    /// - The obligations of [`Self::launch`] hold.
    unsafe fn launch_any(&self, launch: &dyn AnyLaunch) -> Result<()> {
        let name = launch.name();
        launch::check(name)?;
        if name.grid().blocks == 0 {
            return Ok(());
        }
        // SAFETY: the caller's obligation.
        self.submitted(unsafe { self.queue.launch(launch) })
    }

    /// Submits a fill of every byte of `words` with `byte`.
    ///
    /// # Errors
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) when a kernel failed before.
    ///
    /// # Safety
    /// - The words lie in live memory of this device until the stream has executed the fill, and nothing else
    ///   accesses them meanwhile.
    pub unsafe fn fill<T: Word>(&self, words: GlobalSlice<T>, byte: u8) -> Result<()> {
        if words.is_empty() {
            return Ok(());
        }
        let (to, bytes) = (words.as_ptr().cast(), words.len() * size_of::<T>());
        // SAFETY: the caller's obligation.
        self.submitted(unsafe { self.queue.fill(to, byte, bytes) })
    }

    /// Submits a copy of elements of the host to `words`, which have as many.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) if the lengths differ;
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) when a kernel failed before.
    ///
    /// # Safety
    /// - Words and elements live until the stream has executed the copy, and nothing else accesses them
    ///   meanwhile, except that the elements may be read.
    pub unsafe fn upload<T: Word>(&self, words: GlobalSlice<T>, elements: &[T]) -> Result<()> {
        // SAFETY: the caller's obligations.
        unsafe {
            self.copy_words("upload", (words.as_ptr(), words.len()), (elements.as_ptr(), elements.len()))
        }
    }

    /// Submits a copy of `words` to elements of the host, which are as many: see [`Self::upload`].
    ///
    /// # Errors
    /// As [`Self::upload`].
    ///
    /// # Safety
    /// - Words and elements live until the stream has executed the copy; nothing else accesses the elements
    ///   or writes the words meanwhile.
    pub unsafe fn download<T: Word>(&self, elements: &mut [T], words: GlobalSlice<T>) -> Result<()> {
        let (to, len) = (elements.as_mut_ptr(), elements.len());
        // SAFETY: the caller's obligations.
        unsafe { self.copy_words("download", (to, len), (words.as_ptr(), words.len())) }
    }

    /// Submits a copy between words of this device, on any tier: see [`Self::upload`].
    ///
    /// # Errors
    /// As [`Self::upload`].
    ///
    /// # Safety
    /// - Both live until the stream has executed the copy, and do not overlap; nothing else accesses `to` or
    ///   writes `from` meanwhile.
    pub unsafe fn copy<T: Word>(&self, to: GlobalSlice<T>, from: GlobalSlice<T>) -> Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { self.copy_words("copy", (to.as_ptr(), to.len()), (from.as_ptr(), from.len())) }
    }

    /// # Safety
    /// - As [`Self::copy`].
    unsafe fn copy_words<T>(
        &self,
        what: &'static str,
        (to, len): (*mut T, usize),
        (from, asked): (*const T, usize),
    ) -> Result<()> {
        if len != asked {
            return Err(Error::Length { what, asked, offset: 0, len });
        }
        match len * size_of::<T>() {
            0 => Ok(()),
            bytes => {
                let ends = Ends {
                    to: (to.cast(), what == "download"),
                    from: (from.cast(), what == "upload"),
                    bytes,
                };
                // SAFETY: both ranges have these bytes; the caller excludes other accesses.
                let copy = || unsafe { self.queue.copy(to.cast(), from.cast(), bytes) };
                self.submitted(self.device.copy_logs().submit(self, ends, copy))
            }
        }
    }

    /// Records an event at the current end of the queue, with its time.
    ///
    /// # Errors
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) when a kernel failed before;
    /// [`Error::Driver`](crate::Error::Driver) when the driver's call fails.
    pub fn record(&self) -> Result<Event> {
        Ok(Event::new(self.device.clone(), self.queue.record(true)?, true))
    }

    /// Records an event without a time, at the current end of the queue: for waits, which end about 3 µs
    /// earlier on a CUDA device than those for an event with a time.
    ///
    /// ```
    /// use gpu::{Device, Error};
    ///
    /// let stream = Device::auto().stream()?;
    /// let point = stream.point()?;
    /// point.synchronize()?;
    /// assert!(matches!(point.elapsed_ms(&point), Err(Error::NoTime)));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::record`].
    pub fn point(&self) -> Result<Event> {
        Ok(Event::new(self.device.clone(), self.queue.record(false)?, false))
    }

    /// Makes all work submitted to this stream from now on wait for `event`, which may belong to another
    /// stream.
    ///
    /// # Errors
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) when a kernel failed before;
    /// [`Error::Driver`](crate::Error::Driver) when the driver's call fails.
    pub fn wait(&self, event: &Event) -> Result<()> {
        // The event may follow work of another device on the memory of this one.
        self.submitted(self.queue.wait(event.mark()))
    }

    /// Returns whether all work submitted to this stream has completed. Takes about a microsecond. Always
    /// `true` on the emulator, which executes work when it is submitted.
    ///
    /// # Errors
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) when a kernel failed before;
    /// [`Error::Driver`](crate::Error::Driver) when the driver's call fails.
    ///
    /// ```
    /// # use gpu::Device;
    /// assert!(Device::emulator(Default::default()).stream()?.is_idle()?);
    /// # Ok::<(), gpu::Error>(())
    /// ```
    pub fn is_idle(&self) -> Result<bool> {
        self.queue.is_complete()
    }

    /// Waits until all work submitted to this stream has completed.
    ///
    /// # Errors
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) when a kernel failed.
    pub fn synchronize(&self) -> Result<()> {
        self.queue.synchronize()
    }
}
