//! The memory that primitives work in.
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream};
use simt::{GlobalSlice, Word};

/// Memory to work in, and the stream that works: what the primitives of this module are methods of.
///
/// It is as large as it was made, and never grows by itself: a call that needs more is an
/// [`Error::Workspace`] and does nothing. What a call needs is told by [`sort_bytes`](super::sort_bytes),
/// [`scan_bytes`](super::scan_bytes) and so on; one workspace serves any number of calls, one after the
/// other.
///
/// # Concurrency
/// Calls are asked of the stream and return. They run in its order, so they may share the workspace; and a
/// buffer that a call gets may be in use in no other stream meanwhile. Dropping buffers or the workspace
/// waits for the device.
#[derive(Debug)]
pub struct Workspace {
    stream: Stream,
    memory: Buffer<u128>,
    tile: Option<String>,
}

impl Workspace {
    /// A workspace of `bytes` bytes on the stream's device.
    ///
    /// # Errors
    /// The device's, when it has no room.
    pub fn new(stream: &Stream, bytes: usize) -> Result<Self> {
        stream.device().add_program(&crate::PROGRAM);
        let memory = stream.device().buffer(bytes.div_ceil(size_of::<u128>()))?;
        Ok(Self { stream: stream.clone(), memory, tile: None })
    }

    /// A workspace on the default stream of a device.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn on_device(device: &Device, bytes: usize) -> Result<Self> {
        Self::new(&device.default_stream(), bytes)
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// The stream that works.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Makes it at least so large. Where it grows, it waits for the device.
    ///
    /// # Errors
    /// The device's, when it has no room.
    pub fn reserve(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.bytes() {
            self.memory = self.stream.device().buffer(bytes.div_ceil(size_of::<u128>()))?;
        }
        Ok(())
    }

    /// Lets sorts and scans work by tiles of another size, by its name: threads a block, `x`, elements a
    /// thread, and what else is special. For those who measure. [`sort_tiles`](super::sort_tiles),
    /// [`scan_tiles`](super::scan_tiles), [`segment_tiles`](super::segment_tiles) and
    /// [`segment_windows`](super::segment_windows) have the names; nothing chooses the usual ones again.
    /// Other primitives have one size.
    pub fn set_tile(&mut self, name: Option<&str>) {
        self.tile = name.map(str::to_owned);
    }

    /// The tile that was chosen.
    pub(super) fn tile(&self) -> Option<&str> {
        self.tile.as_deref()
    }

    /// The memory, cut as a call needs it.
    pub(super) fn cut<T>(&self, what: &'static str, cut: impl Fn(&mut Cutter) -> T) -> Result<T> {
        let mut cutter = Cutter { memory: self.memory.pointer().cast(), at: 0 };
        let pieces = cut(&mut cutter);
        match cutter.at <= self.bytes() {
            true => Ok(pieces),
            false => Err(Error::Workspace { what, needed: cutter.at, found: self.bytes() }),
        }
    }

    /// Refuses what lies on another device.
    pub(super) fn check_device<T: bytemuck::Pod>(
        &self,
        what: &'static str,
        buffer: &Buffer<T>,
    ) -> Result<()> {
        match buffer.device() == self.stream.device() {
            true => Ok(()),
            false => Err(Error::Elsewhere {
                what,
                stream: self.stream.device().name(),
                found: buffer.device().name(),
            }),
        }
    }
}

/// Cuts memory into pieces, or only counts what they need.
pub(super) struct Cutter {
    memory: *mut u8,
    at: usize,
}

/// Where pieces begin: as buffers do, so that vectors of 16 bytes and lines are whole.
const ALIGNMENT: usize = 256;

impl Cutter {
    /// What pieces need in all.
    pub fn measure<T>(cut: impl Fn(&mut Self) -> T) -> usize {
        let mut cutter = Self { memory: std::ptr::null_mut(), at: 0 };
        cut(&mut cutter);
        cutter.at
    }

    /// A piece of `bytes` bytes.
    pub fn bytes(&mut self, bytes: usize) -> *mut u8 {
        let piece = self.memory.wrapping_add(self.at);
        self.at = self.at.saturating_add(bytes.saturating_add(ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
        piece
    }

    /// A piece of `len` words.
    pub fn words<T: Word>(&mut self, len: usize) -> GlobalSlice<T> {
        slice(self.bytes(len.saturating_mul(size_of::<T>())), len)
    }
}

/// Words that kernels take.
pub(super) fn slice<T: Word>(pointer: *mut u8, len: usize) -> GlobalSlice<T> {
    // SAFETY: whoever launches a kernel with it promises that the words lie in live memory; outside of
    // launches it reaches nothing.
    unsafe { GlobalSlice::from_raw_parts(pointer.cast(), len) }
}
