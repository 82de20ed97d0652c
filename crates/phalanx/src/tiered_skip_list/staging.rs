//! Pinned memory through which pairs and queries go between host and lists.
use crate::Result;
use crate::map::encoding::Word;
use crate::tiered_map::chunk::reserve;
use gpu::{Buffer, Device, Tier};

/// Pinned memory of a map of lists. Kernels read and write it in place.
#[derive(Debug)]
pub struct Staging<K, V> {
    /// Sorted pairs, or the pairs that queries find.
    pub keys: Buffer<K>,
    pub values: Buffer<V>,
    /// Keys of queries: lower ends of ranges, and upper ones.
    pub lows: Buffer<K>,
    pub highs: Buffer<K>,
    /// Handles of nodes.
    pub handles: Buffer<u32>,
    pub outcomes: Buffer<u8>,
    /// Number of pairs of each range, and where they go.
    pub counts: Buffer<u64>,
    pub offsets: Buffer<u64>,
}

impl<K: Word, V: Word> Staging<K, V> {
    /// Returns a staging area without memory.
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            keys: device.buffer_on(Tier::Pinned, 0)?,
            values: device.buffer_on(Tier::Pinned, 0)?,
            lows: device.buffer_on(Tier::Pinned, 0)?,
            highs: device.buffer_on(Tier::Pinned, 0)?,
            handles: device.buffer_on(Tier::Pinned, 0)?,
            outcomes: device.buffer_on(Tier::Pinned, 0)?,
            counts: device.buffer_on(Tier::Pinned, 0)?,
            offsets: device.buffer_on(Tier::Pinned, 0)?,
        })
    }

    /// Allocates the memory for `len` pairs that is not there. The old contents may be lost.
    pub fn reserve_pairs(&mut self, len: usize) -> Result<()> {
        reserve(&mut self.keys, len)?;
        reserve(&mut self.values, len)
    }

    /// Allocates the memory for `len` ranges that is not there. The old contents may be lost.
    pub fn reserve_ranges(&mut self, len: usize) -> Result<()> {
        reserve(&mut self.lows, len)?;
        reserve(&mut self.highs, len)?;
        reserve(&mut self.counts, len)?;
        reserve(&mut self.offsets, len + 1)
    }

    /// Returns the bytes of host memory.
    pub fn byte_len(&self) -> usize {
        let pairs = self.keys.byte_len() + self.values.byte_len();
        let ranges = self.lows.byte_len() + self.highs.byte_len();
        let numbers = self.handles.byte_len() + self.counts.byte_len() + self.offsets.byte_len();
        pairs + ranges + numbers + self.outcomes.len()
    }
}

/// Writes elements to the front of a pinned buffer, which has room for them.
pub fn put<T: bytemuck::Pod>(buffer: &mut Buffer<T>, elements: &[T]) -> Result<()> {
    buffer.as_mut_slice()?[..elements.len()].copy_from_slice(elements);
    Ok(())
}
