//! Borrowed parts of buffers.
use crate::{Buffer, Device, Error, Result};
use bytemuck::Pod;
use simt::{BoundedSlice, GlobalSlice, Word};
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// A part of a [`Buffer`], borrowed. Created by [`Buffer::slice`]; calls that read a buffer also accept a
/// slice ([`AsSlice`]).
///
/// ```
/// use gpu::{Device, Slice};
///
/// let device = Device::auto();
/// let words = device.from_slice(&[1u32, 2, 3, 4, 5])?;
/// let part = words.slice(1..)?;
/// assert_eq!((part.len(), part.is_empty(), part.read()?), (4, false, vec![2, 3, 4, 5]));
/// assert_eq!(part.slice(1..=2)?.read()?, [3, 4]);
/// assert!(part.slice(3..5).is_err()); // never a panic
/// let mut one = [0];
/// part.read_into(3, &mut one)?;
/// assert_eq!(one, [5]);
/// assert_eq!((part.pointer(), part.device()), (words.pointer().wrapping_add(1), &device));
/// assert_eq!(Slice::from(&words).global().len(), 5); // what kernels take
/// assert_eq!(part.bounded_by(part.slice(..1)?)?.elements().len(), 4); // of which kernels use two
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// # Cost
///
/// `slice` and `bounded_by` are arithmetic on the host. `read` and `read_into` wait for all work submitted to
/// the device, then copy the bytes, and wait for that.
#[derive(Debug)]
pub struct Slice<'a, T> {
    device: &'a Device,
    pointer: *mut T,
    len: usize,
    of: PhantomData<&'a T>,
}

impl<T> Clone for Slice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slice<'_, T> {}

// SAFETY: as for `Memory`: the pointer is valid in every thread, and the host accesses the elements only by
// the driver.
unsafe impl<T: Send + Sync> Send for Slice<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Slice<'_, T> {}

/// A part of a [`Buffer`], borrowed mutably: no other slice of these elements exists. Created by
/// [`Buffer::slice_mut`] and [`Buffer::split_at_mut`]; calls that write a buffer also accept a mutable slice
/// ([`AsSliceMut`]).
///
/// ```
/// use gpu::{Device, SliceMut};
///
/// let device = Device::auto();
/// let mut words = device.zeroed::<u32>(6)?;
/// let (mut low, mut high) = words.split_at_mut(2)?;
/// low.write(&[1, 2])?;
/// high.slice_mut(1..3)?.fill_bytes(0xff)?;
/// high.slice_mut(3..)?.copy_from(&low.slice(..1)?)?;
/// assert_eq!((low.len(), high.is_empty(), high.device()), (2, false, &device));
/// let (first, second) = high.split_at_mut(2)?;
/// assert_eq!((first.read()?, second.read()?), (vec![0, u32::MAX], vec![u32::MAX, 1]));
/// SliceMut::from(&mut words).slice_mut(..2)?.fill_bytes(0)?;
/// assert_eq!(words.read()?, [0, 0, 0, u32::MAX, u32::MAX, 1]);
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// Two slices of the same elements, at least one of them mutable, do not compile:
///
/// ```compile_fail,E0499
/// # let mut words = gpu::Device::auto().zeroed::<u32>(6)?;
/// let (mut low, mut high) = (words.slice_mut(0..4)?, words.slice_mut(2..6)?);
/// high.copy_from(&low)?;
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// ```compile_fail,E0502
/// # let mut words = gpu::Device::auto().zeroed::<u32>(6)?;
/// let (low, mut high) = (words.slice(0..3)?, words.slice_mut(3..6)?);
/// high.copy_from(&low)?;
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// # Cost
///
/// `slice`, `slice_mut` and `split_at_mut` are arithmetic on the host. `read`, `write`, `fill_bytes` and
/// `copy_from` wait for all work submitted to the device, then copy or write the bytes, and wait for that; a
/// copy between devices goes through the host.
#[derive(Debug)]
pub struct SliceMut<'a, T>(Slice<'a, T>, PhantomData<&'a mut T>);

/// A [`Slice`] of which a call uses only as many elements as a count in device memory says, which the host
/// need not know: an earlier kernel in the stream may write it. Created by [`Slice::bounded_by`]; calls that
/// take [`AsBounded`] accept it.
///
/// The call reads the first `n` elements, where `n` is the count when the call's kernel runs. Of its other
/// slices it also uses the first `n` elements only: later ones are neither read nor written. A count above
/// the number of elements means all of them, so that a kernel that counts more results than it has room for
/// bounds a batch of those that it wrote.
///
/// ```
/// use gpu::{Bounded, Device};
///
/// let device = Device::auto();
/// let (words, count) = (device.from_slice(&[1u32, 2, 3])?, device.from_slice(&[2u32])?);
/// let bounded = words.bounded_by(&count)?;
/// assert_eq!((bounded.elements().len(), bounded.count().map(|count| count.len())), (3, Some(1)));
/// assert_eq!(bounded.global().max_len(), 3); // what kernels take
/// assert!(Bounded::from(words.slice(..)?).count().is_none());
/// let wide = device.from_slice(&[2u64, 4])?;
/// assert!(words.slice(1..)?.bounded_by(wide.slice(..1)?).is_ok());
/// assert!(words.bounded_by(&wide).is_err()); // which of the two?
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// A count of another type does not compile:
///
/// ```compile_fail,E0277
/// # let device = gpu::Device::auto();
/// # let words = device.zeroed::<u32>(6)?;
/// words.bounded_by(&device.zeroed::<u8>(1)?)?;
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// # Cost
///
/// All calls are arithmetic on the host. Each thread of a kernel that takes a bounded slice reads the count
/// once; the launch has as many threads as for all elements.
#[derive(Clone, Copy, Debug)]
pub struct Bounded<'a, T> {
    elements: Slice<'a, T>,
    /// The words of the count, low word first.
    count: Option<Slice<'a, u32>>,
}

/// Type of counts in device memory: `u32` or `u64`.
pub trait Count: Word + Pod + Sealed {}

impl Sealed for u32 {}
impl Sealed for u64 {}
impl Count for u32 {}
impl Count for u64 {}

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// Device memory that a call reads: `&Buffer<T>`, [`Slice`], or a reference to a slice.
///
/// ```
/// use gpu::{AsSlice, Device};
///
/// fn count(elements: impl AsSlice<u32>) -> usize {
///     elements.view().len()
/// }
///
/// let words = Device::auto().zeroed::<u32>(6)?;
/// assert_eq!((count(&words), count(words.slice(1..3)?)), (6, 2));
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// # Cost
///
/// `view` copies a pointer and a length on the host.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not device memory with elements of type `{T}`",
    label = "expected `&Buffer<{T}>` or a slice of one",
    note = "pass `&buffer`, or a part of it: `buffer.slice(a..b)?`"
)]
pub trait AsSlice<T>: Sealed {
    /// Returns the elements as a slice.
    fn view(&self) -> Slice<'_, T>;
}

/// Device memory that a call reads, bounded by a count or not: what [`AsSlice`] accepts, or [`Bounded`].
///
/// ```
/// use gpu::{AsBounded, Device};
///
/// fn max_len(elements: impl AsBounded<u32>) -> usize {
///     elements.bounded().elements().len()
/// }
///
/// let words = Device::auto().from_slice(&[2u32, 8, 9])?;
/// assert_eq!((max_len(&words), max_len(words.slice(1..)?.bounded_by(words.slice(..1)?)?)), (3, 2));
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// # Cost
///
/// `bounded` copies pointers and lengths on the host.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not device memory with elements of type `{T}`",
    label = "expected `&Buffer<{T}>`, a slice of one, or a slice bounded by a count",
    note = "pass `&buffer`, a part of it, `buffer.slice(a..b)?`, or `buffer.bounded_by(&count)?`"
)]
pub trait AsBounded<T> {
    /// Returns the elements as a slice with a count, if there is one.
    fn bounded(&self) -> Bounded<'_, T>;
}

impl<T: Pod, S: AsSlice<T>> AsBounded<T> for S {
    fn bounded(&self) -> Bounded<'_, T> {
        self.view().into()
    }
}

impl<T: Pod> AsBounded<T> for Bounded<'_, T> {
    fn bounded(&self) -> Bounded<'_, T> {
        *self
    }
}

/// Device memory that a call writes: `&mut Buffer<T>`, [`SliceMut`], or a mutable reference to a slice.
///
/// ```
/// use gpu::{AsSliceMut, Device};
///
/// fn clear(mut elements: impl AsSliceMut<u32>) -> gpu::Result<()> {
///     elements.view_mut().fill_bytes(0)
/// }
///
/// let mut words = Device::auto().from_slice(&[1u32, 2, 3])?;
/// clear(words.slice_mut(1..2)?)?;
/// assert_eq!(words.read()?, [1, 0, 3]);
/// clear(&mut words)?;
/// assert_eq!(words.read()?, [0, 0, 0]);
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// # Cost
///
/// `view_mut` copies a pointer and a length on the host.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not device memory with elements of type `{T}` that can be written",
    label = "expected `&mut Buffer<{T}>` or a mutable slice of one",
    note = "pass `&mut buffer`, or a part of it: `buffer.slice_mut(a..b)?`"
)]
pub trait AsSliceMut<T>: AsSlice<T> {
    /// Returns the elements as a mutable slice.
    fn view_mut(&mut self) -> SliceMut<'_, T>;
}

/// Device memory that a call may write: what [`AsSliceMut`] accepts, `Some(&mut buffer)`, or `None`.
///
/// ```
/// use gpu::{Device, OptionalSliceMut};
///
/// fn len(elements: impl OptionalSliceMut<u32>) -> Option<usize> {
///     elements.optional_view().map(|elements| elements.len())
/// }
///
/// let mut words = Device::auto().zeroed::<u32>(6)?;
/// assert_eq!((len(None), len(Some(&mut words)), len(words.slice_mut(1..)?)), (None, Some(6), Some(5)));
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// # Cost
///
/// `optional_view` copies a pointer and a length on the host.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither `None` nor device memory with elements of type `{T}` that can be written",
    label = "expected `None`, `Some(&mut Buffer<{T}>)` or a mutable slice of a buffer",
    note = "pass a part of a buffer without `Some`: `buffer.slice_mut(a..b)?`"
)]
pub trait OptionalSliceMut<T>: Sealed {
    /// Returns the elements as a slice, unless there are none.
    fn optional_view(&self) -> Option<Slice<'_, T>>;
}

/// Implements the traits for the types by which calls take device memory. A buffer itself has no
/// implementation: a call does not consume it, and Clippy would call `&buffer` a needless borrow.
macro_rules! device_memory {
    (read: $($read:ty)*; written: $($written:ty)*) => {
        $(
            impl<T> Sealed for $read {}

            impl<T: Pod> AsSlice<T> for $read {
                fn view(&self) -> Slice<'_, T> {
                    self.part()
                }
            }
        )*
        $(
            impl<T: Pod> AsSliceMut<T> for $written {
                fn view_mut(&mut self) -> SliceMut<'_, T> {
                    SliceMut(self.part(), PhantomData)
                }
            }

            impl<T: Pod> OptionalSliceMut<T> for $written {
                fn optional_view(&self) -> Option<Slice<'_, T>> {
                    Some(self.part())
                }
            }
        )*
    };
}
device_memory! {
    read: &Buffer<T> &mut Buffer<T> Slice<'_, T> &Slice<'_, T> SliceMut<'_, T> &SliceMut<'_, T>
        &mut SliceMut<'_, T>;
    written: &mut Buffer<T> SliceMut<'_, T> &mut SliceMut<'_, T>
}

impl<T> Sealed for Option<&mut Buffer<T>> {}

/// The only implementation for an `Option`, so that the type of `None` need not be written.
impl<T: Pod> OptionalSliceMut<T> for Option<&mut Buffer<T>> {
    fn optional_view(&self) -> Option<Slice<'_, T>> {
        self.as_ref().map(|buffer| buffer.part())
    }
}

impl<'a, T: Pod> From<&'a Buffer<T>> for Slice<'a, T> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        buffer.part()
    }
}

impl<'a, T: Pod> From<&'a mut Buffer<T>> for SliceMut<'a, T> {
    fn from(buffer: &'a mut Buffer<T>) -> Self {
        buffer.part_mut()
    }
}

impl<'a, T: Pod> From<Slice<'a, T>> for Bounded<'a, T> {
    fn from(elements: Slice<'a, T>) -> Self {
        Self { elements, count: None }
    }
}

/// Returns the indices that `range` selects of `len` elements.
fn indices(range: impl RangeBounds<usize>, len: usize) -> Result<std::ops::Range<usize>> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    if start <= end && end <= len { Ok(start..end) } else { Err(Error::SliceRange { start, end, len }) }
}

impl<'a, T> Slice<'a, T> {
    /// Returns elements of a device's memory, which lives for `'a`.
    pub(crate) fn new(device: &'a Device, pointer: *mut T, len: usize) -> Self {
        Self { device, pointer, len, of: PhantomData }
    }
}

impl<'a, T> SliceMut<'a, T> {
    /// Returns elements that no other slice has.
    pub(crate) fn new(elements: Slice<'a, T>) -> Self {
        Self(elements, PhantomData)
    }
}

impl<'a, T: Pod> Slice<'a, T> {
    fn part(&self) -> Self {
        *self
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the slice has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the size in bytes.
    pub(crate) fn byte_len(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Returns the device whose kernels can access the memory.
    pub fn device(&self) -> &'a Device {
        self.device
    }

    /// Returns the device address of the first element, which is aligned for elements of this size and not
    /// necessarily for more. The host may be unable to access it.
    pub fn pointer(&self) -> *mut T {
        self.pointer
    }

    /// Returns a part of the slice.
    ///
    /// # Errors
    /// [`Error::SliceRange`] if the range is not within the slice.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Slice<'a, T>> {
        let range = indices(range, self.len)?;
        Ok(Self { pointer: self.pointer.wrapping_add(range.start), len: range.len(), ..*self })
    }

    /// Returns the slice, bounded by the one element of `count`, which kernels read.
    ///
    /// # Errors
    /// [`Error::Length`] unless `count` has one element.
    pub fn bounded_by<C: Count>(&self, count: impl Into<Slice<'a, C>>) -> Result<Bounded<'a, T>> {
        let count = count.into();
        let words = Slice {
            device: count.device,
            pointer: count.whole("bounded_by", 1)?.cast(),
            len: size_of::<C>() / size_of::<u32>(),
            of: PhantomData,
        };
        Ok(Bounded { elements: *self, count: Some(words) })
    }

    /// Returns the same bytes as elements of another type.
    ///
    /// ```
    /// let device = gpu::Device::auto();
    /// let words = device.from_slice(&[1u64, 2])?;
    /// assert_eq!(words.slice(..)?.cast::<u32>()?.read()?, [1, 0, 2, 0]);
    /// assert!(words.slice(1..)?.cast::<[u64; 2]>().is_err()); // 8 bytes are too few
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Cast`] if the bytes are no whole number of such elements, or the first is not aligned.
    pub fn cast<U: Pod>(&self) -> Result<Slice<'a, U>> {
        let (address, bytes) = (self.pointer.addr(), self.byte_len());
        let (element, align) = (size_of::<U>(), align_of::<U>());
        if element == 0 || !bytes.is_multiple_of(element) || !address.is_multiple_of(align) {
            return Err(Error::Cast { address, bytes, element, align });
        }
        Ok(Slice::new(self.device, self.pointer.cast(), bytes / element))
    }

    /// Copies all elements to the host.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] when a kernel failed before.
    pub fn read(&self) -> Result<Vec<T>> {
        let mut elements = Vec::with_capacity(self.len);
        // SAFETY: both sides have as many elements, which the copy initialises; any bytes are a valid `T`.
        unsafe {
            copy(self.device, elements.as_mut_ptr() as *mut u8, self.pointer.cast(), self.byte_len())?;
            elements.set_len(self.len);
        }
        Ok(elements)
    }

    /// Reads `elements.len()` elements, starting at the element `offset`.
    ///
    /// # Errors
    /// [`Error::Length`] when they extend beyond the end; [`Error::DeviceLost`] when a kernel failed before.
    pub fn read_into(&self, offset: usize, elements: &mut [T]) -> Result<()> {
        let from = self.place("read_into", offset, elements.len())?;
        // SAFETY: both sides have as many elements, and any bytes are a valid `T`.
        unsafe { copy(self.device, elements.as_mut_ptr().cast(), from, size_of_val(elements)) }
    }

    /// Returns the address of the element `offset`, if `count` elements from there lie in the slice.
    pub(crate) fn place(&self, what: &'static str, offset: usize, count: usize) -> Result<*mut u8> {
        match offset.checked_add(count) {
            Some(end) if end <= self.len => Ok(self.pointer.wrapping_add(offset).cast()),
            _ => Err(Error::Length { what, asked: count, offset, len: self.len }),
        }
    }

    /// Returns the address of the first element, if the slice has `count` elements.
    pub(crate) fn whole(&self, what: &'static str, count: usize) -> Result<*mut u8> {
        let error = Error::Length { what, asked: count, offset: 0, len: self.len };
        (count == self.len).then_some(self.pointer.cast()).ok_or(error)
    }
}

impl<T: Word> Slice<'_, T> {
    /// Returns the slice that kernels take. It does not keep the buffer alive; the caller of
    /// [`Stream::launch`](crate::Stream::launch) must.
    pub fn global(&self) -> GlobalSlice<T> {
        // SAFETY: the words lie in the buffer's allocation, aligned. The caller of `launch` keeps the buffer
        // alive and excludes races of weak accesses; outside of a launch the slice accesses nothing.
        unsafe { GlobalSlice::from_raw_parts(self.pointer, self.len) }
    }
}

impl<'a, T: Pod> Bounded<'a, T> {
    /// Returns all elements, of which a call may use fewer.
    pub fn elements(&self) -> Slice<'a, T> {
        self.elements
    }

    /// Returns the words of the count, low word first, or `None` if a call uses all elements.
    pub fn count(&self) -> Option<Slice<'a, u32>> {
        self.count
    }
}

impl<T: Word> Bounded<'_, T> {
    /// Returns the bounded slice that kernels take: see [`Slice::global`].
    pub fn global(&self) -> BoundedSlice<T> {
        let elements = self.elements.global();
        self.count.map_or_else(|| elements.into(), |count| BoundedSlice::new(elements, count.global()))
    }
}

impl<'a, T: Pod> SliceMut<'a, T> {
    fn part(&self) -> Slice<'_, T> {
        self.0
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Returns `true` if the slice has no elements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the device whose kernels can access the memory.
    pub fn device(&self) -> &'a Device {
        self.0.device
    }

    /// Returns a part of the slice.
    ///
    /// # Errors
    /// [`Error::SliceRange`] if the range is not within the slice.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Slice<'_, T>> {
        self.0.slice(range)
    }

    /// Returns a mutable part of the slice, which is borrowed meanwhile.
    ///
    /// # Errors
    /// As [`Self::slice`].
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<SliceMut<'_, T>> {
        self.view_mut().into_part(range)
    }

    /// As [`Self::slice_mut`], for as long as the slice itself.
    fn into_part(self, range: impl RangeBounds<usize>) -> Result<SliceMut<'a, T>> {
        Ok(SliceMut(self.0.slice(range)?, PhantomData))
    }

    /// Divides the slice into the first `mid` elements and the others.
    ///
    /// # Errors
    /// [`Error::SliceRange`] if the slice has fewer than `mid` elements.
    pub fn split_at_mut(self, mid: usize) -> Result<(SliceMut<'a, T>, SliceMut<'a, T>)> {
        let part = |part| SliceMut(part, PhantomData);
        Ok((part(self.0.slice(..mid)?), part(self.0.slice(mid..)?)))
    }

    /// Copies all elements to the host.
    ///
    /// # Errors
    /// As [`Slice::read`].
    pub fn read(&self) -> Result<Vec<T>> {
        self.0.read()
    }

    /// Overwrites all elements.
    ///
    /// # Errors
    /// [`Error::Length`] unless `elements` has as many elements as the slice; [`Error::DeviceLost`] when a
    /// kernel failed before.
    pub fn write(&mut self, elements: &[T]) -> Result<()> {
        let to = self.0.whole("write", elements.len())?;
        // SAFETY: both sides have as many elements; the elements are borrowed mutably.
        unsafe { copy(self.0.device, to, elements.as_ptr().cast(), size_of_val(elements)) }
    }

    /// Sets every byte to `byte`.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] when a kernel failed before.
    pub fn fill_bytes(&mut self, byte: u8) -> Result<()> {
        match self.0.byte_len() {
            0 => Ok(()),
            // SAFETY: the slice has these bytes and is borrowed mutably.
            bytes => unsafe { self.0.device.machine().fill(self.0.pointer.cast(), byte, bytes) },
        }
    }

    /// Copies all elements of `other`, which may belong to another device (the copy then goes through the
    /// host).
    ///
    /// # Errors
    /// [`Error::Length`] unless both have the same length; [`Error::DeviceLost`] when a kernel failed before.
    pub fn copy_from(&mut self, other: impl AsSlice<T>) -> Result<()> {
        let other = other.view();
        let to = self.0.whole("copy_from", other.len)?;
        if self.0.device != other.device {
            return self.write(&other.read()?);
        }
        // SAFETY: both sides have as many elements; this one is borrowed mutably, so they do not overlap.
        unsafe { copy(self.0.device, to, other.pointer.cast(), other.byte_len()) }
    }
}

/// Copies bytes. Does nothing when `bytes` is 0.
///
/// # Safety
/// - As [`crate::machine::Machine::copy`].
pub(crate) unsafe fn copy(device: &Device, to: *mut u8, from: *const u8, bytes: usize) -> Result<()> {
    match bytes {
        0 => Ok(()),
        // SAFETY: the caller's obligation.
        bytes => unsafe { device.machine().copy(to, from, bytes) },
    }
}

impl<T: Pod> Buffer<T> {
    /// Returns all elements.
    pub(crate) fn part(&self) -> Slice<'_, T> {
        Slice::new(self.device(), self.pointer(), self.len())
    }

    /// Returns all elements.
    pub(crate) fn part_mut(&mut self) -> SliceMut<'_, T> {
        SliceMut(self.part(), PhantomData)
    }

    /// Returns a part of the buffer.
    ///
    /// # Errors
    /// [`Error::SliceRange`] if the range is not within the buffer.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Slice<'_, T>> {
        self.part().slice(range)
    }

    /// Returns all elements, bounded by the one element of `count`: see [`Bounded`].
    ///
    /// # Errors
    /// [`Error::Length`] unless `count` has one element.
    pub fn bounded_by<'a, C: Count>(&'a self, count: impl Into<Slice<'a, C>>) -> Result<Bounded<'a, T>> {
        self.part().bounded_by(count)
    }

    /// Returns a mutable part of the buffer, which is borrowed meanwhile.
    ///
    /// # Errors
    /// As [`Self::slice`].
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<SliceMut<'_, T>> {
        self.part_mut().into_part(range)
    }

    /// Returns the first `mid` elements and the others.
    ///
    /// # Errors
    /// [`Error::SliceRange`] if the buffer has fewer than `mid` elements.
    pub fn split_at_mut(&mut self, mid: usize) -> Result<(SliceMut<'_, T>, SliceMut<'_, T>)> {
        self.part_mut().split_at_mut(mid)
    }
}
