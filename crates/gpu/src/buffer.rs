//! Typed memory that kernels can access.
use crate::memory::Memory;
use crate::slice::{AsSlice, copy};
use crate::{Device, Error, Result, Stream, Tier};
use bytemuck::Pod;
use simt::{GlobalSlice, Word};
use std::fs::File;
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::NonNull;

/// `len` elements of a plain type, in memory that the kernels of a device can access.
///
/// Dropping a buffer waits for all work submitted to the device, so a kernel that still uses it is safe, and
/// then frees the memory. (The drop blocks forever if a kernel waits for the host and never ends; end such a
/// kernel first.)
///
/// ```
/// use gpu::{Device, Tier};
///
/// let device = Device::auto();
/// let mut words = device.zeroed::<u32>(4)?;
/// words.write(&[1, 2, 3, 4])?;
/// words.write_at(2, &[30])?;
/// let mut two = [0; 2];
/// words.read_into(1, &mut two)?;
/// assert_eq!((two, words.len(), words.byte_len(), words.is_empty()), ([2, 30], 4, 16, false));
/// let (mut low, high) = words.split_at_mut(2)?;
/// low.copy_from(&high)?;
/// words.slice_mut(1..2)?.write(&[9])?;
/// assert_eq!(words.slice(..3)?.read()?, [30, 9, 30]); // a part, as each batch takes it
/// let count = device.from_slice(&[2u64])?;
/// assert_eq!(words.bounded_by(&count)?.elements().len(), 4); // of which a batch uses two
/// assert!(words.tier() == Tier::Device && words.host_pointer().is_none() && *words.device() == device);
/// assert_eq!((words.global().len(), words.pointer().is_null()), (4, false)); // what kernels take
///
/// let mut pinned = device.buffer_on::<u32>(Tier::Pinned, 4)?; // the host can access it in place
/// pinned.copy_from(&words)?;
/// pinned.copy_at(0, &device.filled::<u32>(1, 0xff)?)?;
/// pinned.as_mut_slice()?[3] = 40;
/// assert_eq!(pinned.as_slice()?, [u32::MAX, 9, 30, 40]);
/// pinned.flush()?; // of use for files
///
/// let stream = device.stream()?;
/// // SAFETY: the slices live until the stream has executed the copies, and nothing else accesses them.
/// unsafe {
///     words.fill_bytes_on(&stream, 0)?;
///     words.write_on(&stream, 1, &[5])?;
///     pinned.copy_from_on(&stream, &words)?;
///     pinned.read_on(&stream, 0, &mut two)?;
///     stream.synchronize()?;
/// }
/// assert_eq!(two, [0, 5]);
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// # Concurrency
/// Methods without a stream happen after all work submitted to the device before, and have completed when
/// they return. Methods that end in `_on` submit to a stream and execute in its order.
///
/// # Cost
///
/// | call | cost |
/// |---|---|
/// | `write`, `write_at`, `read`, `read_into`, `copy_from`, `copy_at`, `fill_bytes` | waits for all work submitted to the device, then copies or writes the bytes, and waits for that; a copy between devices goes through the host |
/// | `write_on`, `read_on`, `copy_from_on`, `fill_bytes_on` | submits the same to the stream without waiting (memory of the host that is not pinned may make the driver wait) |
/// | `as_slice`, `as_mut_slice` | waits for the device; no copy |
/// | `slice`, `slice_mut`, `split_at_mut`, `bounded_by` | arithmetic on the host |
/// | `flush` | waits for the device; a buffer on [`Tier::File`] then waits for the disk |
/// | drop | waits for the device, and frees the memory unless it belongs to another library |
#[derive(Debug)]
pub struct Buffer<T> {
    memory: Memory,
    len: usize,
    of: PhantomData<T>,
}

/// Allocation of memory.
impl Device {
    /// Allocates `len` uninitialised elements on [`Tier::Device`]. A kernel that reads an element before it
    /// was written reads an arbitrary value (and is reported by the emulator).
    ///
    /// # Errors
    /// [`Error::TooLarge`] when the size overflows; [`Error::OutOfMemory`] when the memory is exhausted;
    /// [`Error::DeviceLost`] when a kernel failed before.
    pub fn buffer<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::new(self, Tier::Device, len)
    }

    /// As [`Device::buffer`], on the given tier. Host-visible tiers are initialised to zero.
    ///
    /// # Errors
    /// [`Error::NeedsPath`] for [`Tier::File`]; otherwise as [`Device::buffer`].
    pub fn buffer_on<T: Pod>(&self, tier: Tier, len: usize) -> Result<Buffer<T>> {
        Buffer::new(self, tier, len)
    }

    /// Allocates `len` elements with all bytes zero.
    ///
    /// # Errors
    /// As [`Device::buffer`].
    pub fn zeroed<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        self.filled(len, 0)
    }

    /// Allocates `len` elements with all bytes equal to `byte`.
    ///
    /// # Errors
    /// As [`Device::buffer`].
    pub fn filled<T: Pod>(&self, len: usize, byte: u8) -> Result<Buffer<T>> {
        let mut buffer = self.buffer(len)?;
        buffer.fill_bytes(byte)?;
        Ok(buffer)
    }

    /// Allocates a buffer with a copy of `elements`.
    ///
    /// # Errors
    /// As [`Device::buffer`].
    #[allow(clippy::wrong_self_convention)] // named like the neighbouring constructors of buffers
    pub fn from_slice<T: Pod>(&self, elements: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.buffer(elements.len())?;
        buffer.write(elements)?;
        Ok(buffer)
    }

    /// Maps the file at `path` as `len` elements of [`Tier::File`]. Existing contents are kept. A missing
    /// file is created, and a file that is too short is extended with zeros.
    ///
    /// ```
    /// let path = std::env::temp_dir().join(format!("gpu-map-file-{}", std::process::id()));
    /// let device = gpu::Device::emulator(Default::default());
    /// // SAFETY: nothing else knows the file.
    /// let mut words = unsafe { device.map_file::<u32>(&path, 2)? };
    /// words.write(&[1, 2])?;
    /// words.flush()?;
    /// drop(words);
    /// assert_eq!(std::fs::read(&path).unwrap(), [1, 0, 0, 0, 2, 0, 0, 0]);
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be opened, extended or mapped; [`Error::Register`] when the CUDA
    /// driver refuses it, which depends on the file system; [`Error::TooLarge`] when the size overflows.
    ///
    /// # Safety
    /// - Nothing else, in this process or another, writes to the file or truncates it while the buffer lives.
    pub unsafe fn map_file<T: Pod>(&self, path: impl AsRef<Path>, len: usize) -> Result<Buffer<T>> {
        // SAFETY: the caller's obligation.
        unsafe { Buffer::map(self, path.as_ref(), len) }
    }

    /// Maps a part of an open file as `len` elements of [`Tier::File`], from byte `offset` on. The file must
    /// have these bytes. `path` appears in errors; the file need not be there.
    ///
    /// A file that was extended without writing its bytes has holes. If the disk is full, an access to a hole
    /// ends the process, so write the bytes first.
    ///
    /// ```
    /// let path = std::env::temp_dir().join(format!("gpu-map-file-at-{}", std::process::id()));
    /// std::fs::write(&path, [0; 64]).unwrap();
    /// let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    /// let device = gpu::Device::emulator(Default::default());
    /// // SAFETY: nothing else knows the file.
    /// let mut words = unsafe { device.map_file_at::<u32>(&file, &path, 56, 2)? };
    /// words.write(&[1, 2])?;
    /// drop(words);
    /// assert_eq!(std::fs::read(&path).unwrap()[52..], [0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
    /// // SAFETY: as above.
    /// assert!(unsafe { device.map_file_at::<u32>(&file, &path, 56, 3) }.is_err()); // 4 bytes too short
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::File`] when the file is too short or cannot be mapped; [`Error::Register`] and
    /// [`Error::TooLarge`] as [`Device::map_file`].
    ///
    /// # Safety
    /// - Nothing else, in this process or another, accesses the part of the file or truncates the file while
    ///   the buffer lives.
    /// - `offset` is a multiple of the alignment of `T`.
    pub unsafe fn map_file_at<T: Pod>(
        &self,
        file: &File,
        path: impl AsRef<Path>,
        offset: u64,
        len: usize,
    ) -> Result<Buffer<T>> {
        // SAFETY: the caller's obligations.
        let memory = unsafe { Memory::map_at(self, (file, path.as_ref()), offset, bytes_of::<T>(len)?)? };
        Ok(Buffer::of_memory(memory, len))
    }
}

pub(crate) fn bytes_of<T>(len: usize) -> Result<usize> {
    let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize);
    bytes.ok_or(Error::TooLarge { len, element: size_of::<T>() })
}

impl<T: Pod> Buffer<T> {
    pub(crate) fn new(device: &Device, tier: Tier, len: usize) -> Result<Self> {
        let memory = Memory::new(device, tier, bytes_of::<T>(len)?)?;
        Ok(Self::of_memory(memory, len))
    }

    pub(crate) fn of_memory(memory: Memory, len: usize) -> Self {
        Self { memory, len, of: PhantomData }
    }

    /// # Safety
    /// - As [`Device::map_file`].
    pub(crate) unsafe fn map(device: &Device, path: &Path, len: usize) -> Result<Self> {
        let bytes = bytes_of::<T>(len)?;
        // SAFETY: the caller's obligation.
        let memory = unsafe { Memory::map(device, path, bytes)? };
        Ok(Self::of_memory(memory, len))
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the buffer has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the size in bytes.
    pub fn byte_len(&self) -> usize {
        self.memory.byte_len()
    }

    /// Returns the tier of the memory.
    pub fn tier(&self) -> Tier {
        self.memory.tier()
    }

    /// Returns the device whose kernels can access the memory.
    pub fn device(&self) -> &Device {
        self.memory.device()
    }

    /// Returns the device address of the buffer, aligned to 256 bytes (to the element's size for a part of a
    /// file and for memory of another library); null for an empty buffer. The host may be unable to access
    /// it.
    #[doc(alias = "device_ptr")]
    pub fn pointer(&self) -> *mut T {
        self.memory.pointer().cast()
    }

    /// Overwrites all elements.
    ///
    /// # Errors
    /// [`Error::Length`] unless `elements` has as many elements as the buffer; [`Error::DeviceLost`] when a
    /// kernel failed before.
    pub fn write(&mut self, elements: &[T]) -> Result<()> {
        self.part_mut().write(elements)
    }

    /// Writes `elements`, starting at the element `offset`.
    ///
    /// # Errors
    /// [`Error::Length`] when they extend beyond the end; otherwise as [`Buffer::write`].
    pub fn write_at(&mut self, offset: usize, elements: &[T]) -> Result<()> {
        let to = self.part().place("write_at", offset, elements.len())?;
        // SAFETY: both sides have as many elements; the buffer is borrowed mutably.
        unsafe { copy(self.device(), to, elements.as_ptr().cast(), size_of_val(elements)) }
    }

    /// Copies all elements to the host.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] when a kernel failed before.
    pub fn read(&self) -> Result<Vec<T>> {
        self.part().read()
    }

    /// Reads `elements.len()` elements, starting at the element `offset`.
    ///
    /// # Errors
    /// [`Error::Length`] when they extend beyond the end; [`Error::DeviceLost`] when a kernel failed before.
    pub fn read_into(&self, offset: usize, elements: &mut [T]) -> Result<()> {
        self.part().read_into(offset, elements)
    }

    /// Sets every byte to `byte`.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] when a kernel failed before.
    pub fn fill_bytes(&mut self, byte: u8) -> Result<()> {
        self.part_mut().fill_bytes(byte)
    }

    /// Copies all elements of `other`, which may belong to another device (the copy then goes through the
    /// host).
    ///
    /// # Errors
    /// [`Error::Length`] unless both have the same length; [`Error::DeviceLost`] when a kernel failed before.
    pub fn copy_from(&mut self, other: impl AsSlice<T>) -> Result<()> {
        self.part_mut().copy_from(other)
    }

    /// Copies all elements of `other` into this buffer, starting at the element `offset`. (A copy from
    /// another device goes through the host.)
    ///
    /// # Errors
    /// [`Error::Length`] when they extend beyond the end; [`Error::DeviceLost`] when a kernel failed before.
    pub fn copy_at(&mut self, offset: usize, other: impl AsSlice<T>) -> Result<()> {
        let other = other.view();
        let to = self.part().place("copy_at", offset, other.len())?;
        if self.device() != other.device() {
            return self.write_at(offset, &other.read()?);
        }
        // SAFETY: both sides have as many elements; this one is borrowed mutably, so they do not overlap.
        unsafe { copy(self.device(), to, other.pointer().cast(), other.byte_len()) }
    }

    /// Submits a write of `elements`, starting at the element `offset`, to `stream`.
    ///
    /// # Errors
    /// As [`Buffer::write_at`].
    ///
    /// # Safety
    /// - `elements` stays alive and unchanged until the stream has executed the write.
    /// - `stream` belongs to this buffer's device.
    pub unsafe fn write_on(&mut self, stream: &Stream, offset: usize, elements: &[T]) -> Result<()> {
        let to = self.part().place("write_on", offset, elements.len())?;
        // SAFETY: both sides have as many elements; the caller keeps them alive.
        unsafe { copy_on(stream, to, elements.as_ptr().cast(), size_of_val(elements)) }
    }

    /// Submits a read of `elements.len()` elements, starting at the element `offset`, to `stream`.
    ///
    /// # Errors
    /// As [`Buffer::read_into`].
    ///
    /// # Safety
    /// - `elements` stays alive and is not accessed until the stream has executed the read.
    /// - `stream` belongs to this buffer's device.
    pub unsafe fn read_on(&self, stream: &Stream, offset: usize, elements: &mut [T]) -> Result<()> {
        let from = self.part().place("read_on", offset, elements.len())?;
        // SAFETY: as in `write_on`.
        unsafe { copy_on(stream, elements.as_mut_ptr().cast(), from, size_of_val(elements)) }
    }

    /// Submits a fill of every byte with `byte` to `stream`.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] when a kernel failed before.
    ///
    /// # Safety
    /// - No slice of a host-visible buffer is accessed until the stream has executed the fill.
    /// - `stream` belongs to this buffer's device.
    pub unsafe fn fill_bytes_on(&mut self, stream: &Stream, byte: u8) -> Result<()> {
        match self.byte_len() {
            0 => Ok(()),
            // SAFETY: the buffer has these bytes; the caller excludes other accesses.
            bytes => stream.submitted(unsafe { stream.queue().fill(self.memory.pointer(), byte, bytes) }),
        }
    }

    /// Submits a copy of all elements of `other` to `stream`.
    ///
    /// # Errors
    /// [`Error::Length`] unless both buffers have the same length; [`Error::DeviceLost`] when a kernel failed
    /// before.
    ///
    /// # Safety
    /// - No slice of a host-visible buffer is accessed until the stream has executed the copy.
    /// - `stream` and `other` belong to this buffer's device.
    pub unsafe fn copy_from_on(&mut self, stream: &Stream, other: &Buffer<T>) -> Result<()> {
        let to = self.part().whole("copy_from_on", other.len)?;
        // SAFETY: both buffers have the same length; dropping either waits for the copy.
        unsafe { copy_on(stream, to, other.memory.pointer(), other.byte_len()) }
    }

    /// Returns the elements as a slice on the host, after all work submitted to the device before has
    /// completed.
    ///
    /// Kernels launched while the slice is in use must not write to it; this is an obligation of
    /// [`Stream::launch`].
    ///
    /// # Errors
    /// [`Error::NotHostVisible`] on [`Tier::Device`]; [`Error::DeviceLost`] when a kernel failed before.
    pub fn as_slice(&self) -> Result<&[T]> {
        let start = self.host()?;
        // SAFETY: the host can access `len` initialised elements there; nothing writes while the buffer is
        // borrowed.
        Ok(unsafe { std::slice::from_raw_parts(start.as_ptr(), self.len) })
    }

    /// Returns the elements as a mutable slice on the host; otherwise as [`Buffer::as_slice`].
    ///
    /// # Errors
    /// As [`Buffer::as_slice`].
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        let start = self.host()?;
        // SAFETY: as in `as_slice`; the buffer is borrowed mutably.
        Ok(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.len) })
    }

    fn host(&self) -> Result<NonNull<T>> {
        let host = self.memory.host()?;
        self.device().synchronize()?;
        Ok(host.map_or(NonNull::dangling(), NonNull::cast))
    }

    /// Returns the host address of the buffer; `None` on [`Tier::Device`] and for an empty buffer. It serves
    /// to communicate with a running kernel.
    pub fn host_pointer(&self) -> Option<NonNull<T>> {
        self.memory.host().ok().flatten().map(NonNull::cast)
    }

    /// Writes the changes of a buffer on [`Tier::File`] to disk, after all work submitted to the device
    /// before has completed. On other tiers there is nothing to write.
    ///
    /// # Errors
    /// [`Error::Flush`] when the operating system cannot write; [`Error::DeviceLost`] when a kernel failed
    /// before.
    pub fn flush(&self) -> Result<()> {
        self.device().synchronize()?;
        self.memory.flush().map_err(|source| Error::Flush { source })
    }
}

impl<T: Word> Buffer<T> {
    /// Returns the slice that kernels take. It does not keep the buffer alive; the caller of
    /// [`Stream::launch`] must.
    pub fn global(&self) -> GlobalSlice<T> {
        self.part().global()
    }
}

/// # Safety
/// - As [`crate::machine::Queue::copy`].
unsafe fn copy_on(stream: &Stream, to: *mut u8, from: *const u8, bytes: usize) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: the caller's obligation.
    stream.submitted(unsafe { stream.queue().copy(to, from, bytes) })
}
