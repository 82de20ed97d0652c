//! Device memory of a sharded map, beside its shard and the windows of the exchange.
use super::geometry::Geometry;
use super::tables::Tables;
use crate::Result;
use gpu::{Buffer, Device, Slice, Stream};
use simt::{GlobalSlice, Word};

/// Buffers that alternate between two chunks or rounds.
pub type Two = [Buffer<u128>; 2];

/// Memory for batches.
pub struct Work {
    /// Messages of a chunk.
    pub send: Two,
    /// Answers to the elements of other ranks in a round: a part for each rank.
    pub answers: Two,
    /// Answers to this rank's own elements of a chunk.
    pub own: Two,
    /// Offsets and messages of the chunks of a batch.
    pub tables: Tables,
    /// Places of the elements of a small batch.
    pub places: Buffer<u32>,
}

/// Bytes from an answers' part to the next: as many as the answers to a full part have.
pub fn answer_stride(geometry: &Geometry, value: usize) -> usize {
    (geometry.room() * (value + 1)).next_multiple_of(256)
}

impl Work {
    /// Creates what needs no memory before [`Self::reserve`].
    pub fn new(stream: &Stream) -> Result<Self> {
        let device = stream.device();
        let none = || Ok::<_, gpu::Error>([device.buffer(0)?, device.buffer(0)?]);
        let (send, answers, own) = (none()?, none()?, none()?);
        Ok(Self { send, answers, own, tables: Tables::new(stream)?, places: device.buffer(0)? })
    }

    /// Allocates what does not depend on the length of batches, as far as it is not there yet. Pairs
    /// have `pair` bytes, and values `value`.
    pub fn reserve(&mut self, device: &Device, geometry: &Geometry, pair: usize, value: usize) -> Result<()> {
        let sizes = [
            (&mut self.send, geometry.message_bytes(pair)),
            (&mut self.answers, geometry.ranks * answer_stride(geometry, value)),
            (&mut self.own, geometry.most_chunk() * (value + 1)),
        ];
        for (buffers, bytes) in sizes {
            for buffer in buffers.iter_mut().filter(|buffer| buffer.is_empty()) {
                *buffer = device.buffer(bytes.div_ceil(size_of::<u128>()))?;
            }
        }
        if self.places.is_empty() {
            self.places = device.buffer(geometry.most_chunk())?;
        }
        Ok(())
    }

    /// Returns the bytes of memory.
    pub fn memory_usage(&self) -> usize {
        let pairs = [&self.send, &self.answers, &self.own].into_iter().flatten();
        pairs.map(Buffer::byte_len).sum::<usize>() + self.places.byte_len() + self.tables.memory_usage()
    }
}

/// Returns all words of a buffer, as kernels take them.
pub fn words<T: Word>(buffer: &Buffer<u128>) -> GlobalSlice<T> {
    let len = buffer.byte_len() / size_of::<T>();
    // SAFETY: the memory of the buffer, which is aligned. Kernels that use it are submitted before the buffer
    // is dropped, which waits for them.
    unsafe { GlobalSlice::from_raw_parts(buffer.pointer().cast(), len) }
}

/// Returns `len` words of a slice of bytes from byte `begin` on, which is a multiple of their size.
pub fn words_at<T: Word>(bytes: GlobalSlice<u8>, begin: usize, len: usize) -> GlobalSlice<T> {
    let part = bytes.part(begin, len * size_of::<T>());
    // SAFETY: these bytes are in memory that is live, as for `bytes`; the begin is aligned.
    unsafe { GlobalSlice::from_raw_parts(part.as_ptr().cast(), part.len() / size_of::<T>()) }
}

/// Returns the words of a buffer in pinned memory.
///
/// # Safety
/// - The work that writes the words has ended, and the device does not write them while they are borrowed.
pub unsafe fn host_words<T: Word>(buffer: &Buffer<T>) -> &[T] {
    let Some(start) = buffer.host_pointer() else { return &[] };
    // SAFETY: the host can access these words; the rest is the caller's obligation.
    unsafe { std::slice::from_raw_parts(start.as_ptr(), buffer.len()) }
}

/// Returns the bytes of a buffer.
pub fn bytes_of(buffer: &Buffer<u128>) -> Result<Slice<'_, u8>> {
    Ok(buffer.slice(..)?.cast()?)
}
