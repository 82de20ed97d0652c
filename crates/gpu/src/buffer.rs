//! Typed memory that kernels see.
use crate::memory::Memory;
use crate::{Device, Error, Result, Stream, Tier};
use bytemuck::Pod;
use simt::{GlobalSlice, Word};
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::NonNull;

/// `len` elements of a plain type in memory that the kernels of a device see.
///
/// Dropping one waits for everything that was asked of the device, so a kernel that still uses it is safe,
/// and then gives the memory back. (A kernel that never ends, waiting for the host, would make that wait for
/// ever: end it first.)
///
/// # Concurrency
/// Methods without a stream happen after everything that was asked of the device before, and are done when
/// they return. Those that end in `_on` are asked of a stream, and are done in its order.
#[derive(Debug)]
pub struct Buffer<T> {
    memory: Memory,
    len: usize,
    of: PhantomData<T>,
}

fn bytes_of<T>(len: usize) -> Result<usize> {
    let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize);
    bytes.ok_or(Error::TooLarge { len, element: size_of::<T>() })
}

impl<T: Pod> Buffer<T> {
    pub(crate) fn new(device: &Device, tier: Tier, len: usize) -> Result<Self> {
        let memory = Memory::new(device, tier, bytes_of::<T>(len)?)?;
        Ok(Self { memory, len, of: PhantomData })
    }

    /// # Safety
    /// - As [`Device::map_file`].
    pub(crate) unsafe fn map(device: &Device, path: &Path, len: usize) -> Result<Self> {
        let bytes = bytes_of::<T>(len)?;
        // SAFETY: passed on to the caller.
        let memory = unsafe { Memory::map(device, path, bytes)? };
        Ok(Self { memory, len, of: PhantomData })
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Where the memory lies.
    pub fn tier(&self) -> Tier {
        self.memory.tier()
    }

    /// Whose kernels see it.
    pub fn device(&self) -> &Device {
        self.memory.device()
    }

    /// The address at which kernels see it, aligned to 256 bytes (a file's to a page); null for an empty
    /// buffer. Only the device may be sure to reach it.
    pub fn pointer(&self) -> *mut T {
        self.memory.pointer().cast()
    }

    /// The address `offset` elements on, if `count` elements from there lie in the buffer.
    fn place(&self, what: &'static str, offset: usize, count: usize) -> Result<*mut u8> {
        match offset.checked_add(count) {
            Some(end) if end <= self.len => Ok(self.pointer().wrapping_add(offset).cast()),
            _ => Err(Error::Length { what, asked: count, offset, len: self.len }),
        }
    }

    fn whole(&self, what: &'static str, count: usize) -> Result<*mut u8> {
        let fits = count == self.len;
        fits.then(|| self.memory.pointer()).ok_or(Error::Length {
            what,
            asked: count,
            offset: 0,
            len: self.len,
        })
    }

    /// Copies between places of this buffer's length or less; nothing where there is nothing.
    ///
    /// # Safety
    /// - As [`crate::machine::Machine::copy`].
    unsafe fn copy(&self, to: *mut u8, from: *const u8, count: usize) -> Result<()> {
        match count * size_of::<T>() {
            0 => Ok(()),
            // SAFETY: passed on to the caller.
            bytes => unsafe { self.device().machine().copy(to, from, bytes) },
        }
    }

    /// Writes all elements.
    ///
    /// # Errors
    /// [`Error::Length`] unless there are as many as the buffer has; [`Error::DeviceLost`] when a kernel
    /// failed before.
    pub fn write(&mut self, elements: &[T]) -> Result<()> {
        let to = self.whole("write", elements.len())?;
        // SAFETY: both places have as many elements; this one is borrowed mutably.
        unsafe { self.copy(to, elements.as_ptr().cast(), elements.len()) }
    }

    /// Writes `elements` from the element `offset` on.
    ///
    /// # Errors
    /// As [`Buffer::write`], [`Error::Length`] when they reach beyond the end.
    pub fn write_at(&mut self, offset: usize, elements: &[T]) -> Result<()> {
        let to = self.place("write_at", offset, elements.len())?;
        // SAFETY: as in `write`.
        unsafe { self.copy(to, elements.as_ptr().cast(), elements.len()) }
    }

    /// Reads all elements.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] when a kernel failed before.
    pub fn read(&self) -> Result<Vec<T>> {
        let mut elements = Vec::with_capacity(self.len);
        // SAFETY: both places have as many elements, which the copy initialises; any bytes are a `T`.
        unsafe {
            self.copy(elements.as_mut_ptr() as *mut u8, self.memory.pointer(), self.len)?;
            elements.set_len(self.len);
        }
        Ok(elements)
    }

    /// Reads the elements from `offset` on into `elements`.
    ///
    /// # Errors
    /// [`Error::Length`] when they reach beyond the end; [`Error::DeviceLost`] when a kernel failed before.
    pub fn read_into(&self, offset: usize, elements: &mut [T]) -> Result<()> {
        let from = self.place("read_into", offset, elements.len())?;
        // SAFETY: both places have as many elements, and any bytes are a `T`.
        unsafe { self.copy(elements.as_mut_ptr().cast(), from, elements.len()) }
    }

    /// Writes `byte` to every byte.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] when a kernel failed before.
    pub fn fill_bytes(&mut self, byte: u8) -> Result<()> {
        match self.bytes() {
            0 => Ok(()),
            // SAFETY: the buffer has these bytes and is borrowed mutably.
            bytes => unsafe { self.device().machine().fill(self.memory.pointer(), byte, bytes) },
        }
    }

    /// Copies all elements of `other`, which may be another device's (the copy then goes through the host).
    ///
    /// # Errors
    /// [`Error::Length`] unless both have as many; [`Error::DeviceLost`] when a kernel failed before.
    pub fn copy_from(&mut self, other: &Buffer<T>) -> Result<()> {
        let to = self.whole("copy_from", other.len)?;
        if self.device() != other.device() {
            return self.write(&other.read()?);
        }
        // SAFETY: both places have as many elements; this one is borrowed mutably, so they are two.
        unsafe { self.copy(to, other.memory.pointer(), other.len) }
    }

    /// Copies all elements of `other` to this buffer's from `offset` on. (Another device's go through the
    /// host.)
    ///
    /// # Errors
    /// [`Error::Length`] when they reach beyond the end; [`Error::DeviceLost`] when a kernel failed before.
    pub fn copy_at(&mut self, offset: usize, other: &Buffer<T>) -> Result<()> {
        let to = self.place("copy_at", offset, other.len)?;
        if self.device() != other.device() {
            return self.write_at(offset, &other.read()?);
        }
        // SAFETY: both places have as many elements; this one is borrowed mutably, so they are two.
        unsafe { self.copy(to, other.memory.pointer(), other.len) }
    }

    /// Asks `stream` to write `elements` from the element `offset` on.
    ///
    /// # Errors
    /// As [`Buffer::write_at`].
    ///
    /// # Safety
    /// - `elements` lives, unchanged, until the stream has come to it.
    /// - `stream` is of this buffer's device.
    pub unsafe fn write_on(&mut self, stream: &Stream, offset: usize, elements: &[T]) -> Result<()> {
        let to = self.place("write_on", offset, elements.len())?;
        // SAFETY: both places have as many elements; that they stay is the caller's promise.
        unsafe { copy_on(stream, to, elements.as_ptr().cast(), size_of_val(elements)) }
    }

    /// Asks `stream` to read the elements from `offset` on into `elements`.
    ///
    /// # Errors
    /// As [`Buffer::read_into`].
    ///
    /// # Safety
    /// - `elements` lives and is not used until the stream has come to it.
    /// - `stream` is of this buffer's device.
    pub unsafe fn read_on(&self, stream: &Stream, offset: usize, elements: &mut [T]) -> Result<()> {
        let from = self.place("read_on", offset, elements.len())?;
        // SAFETY: as in `write_on`.
        unsafe { copy_on(stream, elements.as_mut_ptr().cast(), from, size_of_val(elements)) }
    }

    /// Asks `stream` to write `byte` to every byte.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] when a kernel failed before.
    ///
    /// # Safety
    /// - No slice of a host-visible buffer is used until the stream has come to it.
    /// - `stream` is of this buffer's device.
    pub unsafe fn fill_bytes_on(&mut self, stream: &Stream, byte: u8) -> Result<()> {
        match self.bytes() {
            0 => Ok(()),
            // SAFETY: the buffer has these bytes; nobody else uses them by the caller's promise.
            bytes => unsafe { stream.queue().fill(self.memory.pointer(), byte, bytes) },
        }
    }

    /// Asks `stream` to copy all elements of `other`.
    ///
    /// # Errors
    /// [`Error::Length`] unless both have as many; [`Error::DeviceLost`] when a kernel failed before.
    ///
    /// # Safety
    /// - No slice of a host-visible buffer is used until the stream has come to it.
    /// - `stream` and `other` are of this buffer's device.
    pub unsafe fn copy_from_on(&mut self, stream: &Stream, other: &Buffer<T>) -> Result<()> {
        let to = self.whole("copy_from_on", other.len)?;
        // SAFETY: both have as many elements; dropping either waits for the copy.
        unsafe { copy_on(stream, to, other.memory.pointer(), other.bytes()) }
    }

    /// The elements where the host sees them, once everything that was asked of the device before is done.
    ///
    /// Kernels launched while the slice is in use must not write to it ([`Stream::launch`] asks that).
    ///
    /// # Errors
    /// [`Error::NotHostVisible`] on [`Tier::Device`]; [`Error::DeviceLost`] when a kernel failed before.
    pub fn as_slice(&self) -> Result<&[T]> {
        let start = self.host()?;
        // SAFETY: the host sees `len` initialised elements there; nothing writes while the buffer is
        // borrowed.
        Ok(unsafe { std::slice::from_raw_parts(start.as_ptr(), self.len) })
    }

    /// As [`Buffer::as_slice`], to write to.
    ///
    /// # Errors
    /// Those of [`Buffer::as_slice`].
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

    /// The address at which the host sees it; nothing on [`Tier::Device`] and for an empty buffer. For
    /// talking to a kernel that runs.
    pub fn host_pointer(&self) -> Option<NonNull<T>> {
        self.memory.host().ok().flatten().map(NonNull::cast)
    }

    /// Writes what was changed in a buffer on [`Tier::File`] to its disk, once everything that was asked of
    /// the device before is done. Other tiers have nothing to write.
    ///
    /// # Errors
    /// [`Error::Flush`] when the system cannot write; [`Error::DeviceLost`] when a kernel failed before.
    pub fn flush(&self) -> Result<()> {
        self.device().synchronize()?;
        self.memory.flush().map_err(|source| Error::Flush { source })
    }
}

impl<T: Word> Buffer<T> {
    /// What kernels take. It does not keep the buffer alive: [`Stream::launch`] asks that it lives.
    pub fn slice(&self) -> GlobalSlice<T> {
        // SAFETY: the words lie in the buffer's allocation, aligned; that it lives and that weak accesses do
        // not race is asked of those who launch, and outside of a launch the slice reaches nothing.
        unsafe { GlobalSlice::from_raw_parts(self.pointer(), self.len) }
    }
}

/// # Safety
/// - As [`crate::machine::Queue::copy`].
unsafe fn copy_on(stream: &Stream, to: *mut u8, from: *const u8, bytes: usize) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: passed on to the caller.
    unsafe { stream.queue().copy(to, from, bytes) }
}
