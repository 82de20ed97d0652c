//! Temporary memory of primitives.
use crate::{Error, Result};
use gpu::{Buffer, Device, Slice, Stream};
use simt::{GlobalSlice, Word};

/// Temporary memory and the stream on which primitives run. The primitives are methods of this type.
///
/// A workspace never grows by itself: a call that needs more bytes returns [`Error::Workspace`] and does
/// nothing. [`sort_bytes`](super::sort_bytes), [`scan_bytes`](super::scan_bytes) and so on return the number
/// of bytes that a call needs. One workspace serves any number of calls, one after the other.
///
/// ```
/// use phalanx::Device;
/// use phalanx::primitives::{Fold, Workspace, scan_bytes, scan_tiles};
///
/// let device = Device::from_environment()?;
/// let numbers = device.from_slice(&[1u32, 2, 3])?;
/// let mut sums = device.zeroed::<u32>(3)?;
/// let mut work = Workspace::new(&device.stream()?, 0)?;
/// work.reserve(scan_bytes::<u32>(3))?;
/// assert!(work.memory_usage() >= scan_bytes::<u32>(3));
/// work.set_tile(Some(scan_tiles::<u32>(Fold::Sum)[0])); // only to measure
/// work.inclusive_scan(Fold::Sum, &numbers, &mut sums)?;
/// work.stream().synchronize()?;
/// assert_eq!(sums.read()?, [1, 3, 6]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// Calls submit work to the stream and do not wait for it. They run in stream order, so they may share the
/// workspace. No other stream may use a buffer while a call uses it. Dropping buffers or the workspace waits
/// for the device.
///
/// # Cost
///
/// `new` and `on_device` allocate the bytes. `reserve` allocates them if there are too few; it then waits for
/// the device, because the old memory is freed. The primitives allocate nothing.
#[derive(Debug)]
pub struct Workspace {
    stream: Stream,
    memory: Buffer<u128>,
    tile: Option<String>,
    /// Number of bytes at the beginning that the primitives do not use.
    kept: usize,
}

impl Workspace {
    /// Creates a workspace of `bytes` bytes on the stream's device.
    ///
    /// # Errors
    /// [`Error::Device`] if the device lacks the memory.
    pub fn new(stream: &Stream, bytes: usize) -> Result<Self> {
        crate::register_kernels(stream.device());
        let memory = stream.device().buffer(bytes.div_ceil(size_of::<u128>()))?;
        Ok(Self { stream: stream.clone(), memory, tile: None, kept: 0 })
    }

    /// Creates a workspace on the default stream of a device.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn on_device(device: &Device, bytes: usize) -> Result<Self> {
        Self::new(&device.default_stream(), bytes)
    }

    /// Returns the size in bytes.
    pub fn memory_usage(&self) -> usize {
        self.memory.byte_len()
    }

    /// Returns the stream on which the primitives run.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Grows the workspace to at least `bytes` bytes. Waits for the device if it grows.
    ///
    /// # Errors
    /// [`Error::Device`] if the device lacks the memory.
    pub fn reserve(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.memory_usage() {
            self.memory = self.stream.device().buffer(bytes.div_ceil(size_of::<u128>()))?;
        }
        Ok(())
    }

    /// Selects another tile size for sorts and scans by name (threads per block, `x`, elements per thread,
    /// and other properties), or the default one by `None`. Meant for measurements.
    /// [`sort_tiles`](super::sort_tiles), [`scan_tiles`](super::scan_tiles),
    /// [`segment_tiles`](super::segment_tiles) and [`segment_windows`](super::segment_windows) return the
    /// names. Other primitives have one tile size.
    pub fn set_tile(&mut self, name: Option<&str>) {
        self.tile = name.map(str::to_owned);
    }

    /// Returns the selected tile.
    pub(super) fn tile(&self) -> Option<&str> {
        self.tile.as_deref()
    }

    /// Divides the memory into the pieces that a call needs.
    pub(super) fn cut<T>(&self, what: &'static str, cut: impl Fn(&mut Cutter) -> T) -> Result<T> {
        let mut cutter = Cutter { memory: self.memory.pointer().cast(), at: self.kept };
        let pieces = cut(&mut cutter);
        match cutter.at <= self.memory_usage() {
            true => Ok(pieces),
            false => Err(Error::Workspace { what, needed: cutter.at, found: self.memory_usage() }),
        }
    }

    /// Divides the beginning of the memory into pieces of the caller's, and lets the primitives use the rest,
    /// of at least `rest` bytes, until the next call. If the workspace is smaller, it is replaced by one of
    /// up to an eighth more than needed; it has no memory if that fails.
    pub(crate) fn keep<T>(&mut self, rest: usize, cut: impl Fn(&mut Cutter) -> T) -> Result<T> {
        self.kept = 0;
        let needed = Cutter::measure(&cut).saturating_add(rest);
        if needed > self.memory_usage() {
            let step = (needed / 8).next_power_of_two();
            self.memory = self.stream.device().buffer(0)?;
            self.reserve(needed.checked_next_multiple_of(step).unwrap_or(needed))?;
        }
        let mut cutter = Cutter { memory: self.memory.pointer().cast(), at: 0 };
        let pieces = cut(&mut cutter);
        self.kept = cutter.at;
        Ok(pieces)
    }

    /// Returns an error if the elements are on another device.
    pub(super) fn check_device<T: bytemuck::Pod>(
        &self,
        what: &'static str,
        elements: Slice<'_, T>,
    ) -> Result<()> {
        match elements.device() == self.stream.device() {
            true => Ok(()),
            false => Err(Error::Elsewhere {
                what,
                stream: self.stream.device().name(),
                found: elements.device().name(),
            }),
        }
    }
}

/// Returns the entry that `is_own`, as the last of `entries`, which are ordered by last use. If there is none
/// that `fits`, the entry is `new`. If there are then more than `most`, the first one is dropped.
pub(crate) fn last_used<T>(
    entries: &mut Vec<T>,
    most: usize,
    (is_own, fits): (impl Fn(&T) -> bool, impl Fn(&T) -> bool),
    new: impl FnOnce() -> Result<T>,
) -> Result<&mut T> {
    let own = entries.iter().position(is_own).map(|place| entries.remove(place)).filter(fits);
    let entry = own.map_or_else(new, Ok)?;
    if entries.len() == most {
        // Its buffers wait for the kernels that use them.
        entries.remove(0);
    }
    entries.push(entry);
    let last = entries.len() - 1;
    Ok(&mut entries[last])
}

/// Divides memory into pieces, or only counts the bytes that they need.
pub(crate) struct Cutter {
    memory: *mut u8,
    at: usize,
}

/// Alignment of pieces. It is that of buffers, so vectors of 16 bytes and cache lines are not split.
const ALIGNMENT: usize = 256;

impl Cutter {
    /// Divides the memory at an address, aligned to 256 bytes.
    pub fn over(memory: *mut u8) -> Self {
        Self { memory, at: 0 }
    }

    /// Returns the bytes that the pieces need in total.
    pub fn measure<T>(cut: impl Fn(&mut Self) -> T) -> usize {
        let mut cutter = Self { memory: std::ptr::null_mut(), at: 0 };
        cut(&mut cutter);
        cutter.at
    }

    /// Returns a piece of `bytes` bytes.
    pub fn take_bytes(&mut self, bytes: usize) -> *mut u8 {
        let piece = self.memory.wrapping_add(self.at);
        self.at = self.at.saturating_add(bytes.saturating_add(ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
        piece
    }

    /// Returns a piece of `len` words.
    pub fn words<T: Word>(&mut self, len: usize) -> GlobalSlice<T> {
        slice(self.take_bytes(len.saturating_mul(size_of::<T>())), len)
    }
}

/// Returns a slice that kernels take.
pub(super) fn slice<T: Word>(pointer: *mut u8, len: usize) -> GlobalSlice<T> {
    // SAFETY: whoever launches a kernel with the slice ensures that its words are in live memory. Outside of
    // launches it is not accessed.
    unsafe { GlobalSlice::from_raw_parts(pointer.cast(), len) }
}
