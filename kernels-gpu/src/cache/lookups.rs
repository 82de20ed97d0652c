//! The batch of a lookup.
use super::rows::{Chunk, RowSlice};
use simt::{BoundedSlice, GlobalSlice};

/// The elements of a batch that only reads, and its outputs. An output that is not wanted is empty.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Lookups<K> {
    /// Keys.
    pub keys: BoundedSlice<K>,
    /// Output: the rows of the keys that are present.
    pub rows: RowSlice,
    /// Output: the positions of the keys' slots whose rows are in the far part, otherwise [`NOWHERE`]. If
    /// wanted, these rows are not copied: see [`cache_copy_far`].
    ///
    /// [`NOWHERE`]: super::NOWHERE
    /// [`cache_copy_far`]: super::kernels::cache_copy_far
    pub far: GlobalSlice<u32>,
    /// Output: the keys that are absent, one behind the other, in any order.
    pub missed: GlobalSlice<K>,
    /// Output: the indices of these keys in the batch.
    pub missed_indices: GlobalSlice<u32>,
    /// Output: their number, one word, zero before the batch.
    pub missed_count: GlobalSlice<u32>,
    /// Output: an outcome for each key.
    pub outcomes: GlobalSlice<u8>,
    /// Number of words that a lane moves at once.
    pub chunk: Chunk,
}
