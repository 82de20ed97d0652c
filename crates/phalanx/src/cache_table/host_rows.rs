//! Lookups of rows in host memory, in the order of their addresses.
//!
//! A GPU that reads host memory at random places is limited by the translation of addresses: on an H200, to
//! 42 million rows/s of any size up to 256 bytes if the memory has 8 GB or more. In ascending order it reads
//! 200 million rows of 256 bytes, as fast as the bus, if there is a row for each 64 KiB or so. So a lookup of
//! many keys copies the rows on the device, sorts the positions of the others, and then copies these.
use super::CacheTable;
use super::kernels::Launch;
use crate::Result;
use crate::map::launch::THREADS;
use crate::number::Number;
use bytemuck::Pod;
use gpu::{Grid, Stream};
use phalanx_kernels::cache::Lookups;
use phalanx_kernels::cache::kernels::CacheCopyFar;
use phalanx_kernels::keyed::Scalar;

/// Order in which [`get`](CacheTable::get) and `get_missed` read rows in host memory, set by
/// [`Builder::host_rows`](super::Builder::host_rows).
///
/// ```
/// use phalanx::CacheTable;
/// use phalanx::cache_table::HostRows;
///
/// let builder = CacheTable::<u64, u32>::builder().capacity(1000).rows_on_device(0.25);
/// let table = builder.host_rows(HostRows::Sorted).build()?;
/// assert!(table.insert(&[1, 2], &[10, 20])?.all_placed());
/// assert_eq!(table.get(&[2, 1])?.of(0), Some(&[20][..]));
/// # Ok::<(), phalanx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostRows {
    /// `Sorted` where it pays: for rows of more than 1 GiB in host memory, and batches of at least one key
    /// for each 128 KiB of them. Otherwise `Direct`.
    #[default]
    Auto,
    /// In the order of the keys.
    Direct,
    /// In the order of their addresses, after a sort on the device. Tables with
    /// [`Lock::Concurrent`](super::Lock::Concurrent) read directly all the same.
    Sorted,
}

/// Bytes of rows in host memory above which random reads miss the GPU's cache of addresses.
const MANY_BYTES: usize = 1 << 30;

/// Bytes of rows per key of a batch up to which reads in ascending order find addresses in this cache.
const BYTES_PER_KEY: usize = 128 << 10;

impl HostRows {
    /// Returns whether a batch of `len` keys is sorted, if the table has so many bytes of rows on the host.
    fn sorts(self, bytes: usize, len: usize) -> bool {
        match self {
            Self::Auto => bytes > MANY_BYTES && len >= bytes / BYTES_PER_KEY,
            Self::Direct => false,
            Self::Sorted => bytes > 0 && len > 0,
        }
    }
}

impl<K: Number + Scalar, V: Pod, S: Number + Scalar> CacheTable<K, V, S> {
    /// Returns whether a lookup of `len` keys reads rows in host memory in the order of their addresses.
    pub(super) fn sorts_host_rows(&self, len: usize) -> bool {
        self.host_rows.sorts(self.host_memory_usage(), len)
    }

    /// Submits a lookup that reads rows in host memory in the order of their addresses.
    ///
    /// # Safety
    /// - As for [`CacheTable::launch`]. The batch has rows.
    pub(super) unsafe fn get_sorted(&self, stream: &Stream, batch: Lookups<K>) -> Result<()> {
        let len = batch.keys.max_len();
        // SAFETY: the caller's obligations. The workspace lives until its launches have ended, and the
        // lookup writes a position for each of its keys; positions of others are those of the fill.
        unsafe {
            let search = |far| {
                stream.fill(far, 0xff)?;
                self.launch(stream, Launch::Get(Lookups { far, ..batch }))
            };
            let sorted = self.merger.sort_positions(stream, len, search)?;
            let (positions, order, rows) = (sorted.keys, sorted.indices, self.memory().rows());
            let kernel = CacheCopyFar { rows, positions, order, to: batch.rows, chunk: batch.chunk };
            let chunks = self.shape().words as usize / kernel.chunk as usize;
            Ok(stream.launch(Grid::for_items(len * chunks, THREADS), kernel)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_batches_of_large_tables_are_sorted() {
        let sorts = |bytes, len| HostRows::Auto.sorts(bytes, len);
        assert!(!sorts(1 << 30, 1 << 30) && !sorts(16 << 30, 1 << 16) && sorts(16 << 30, 1 << 17));
        assert!(HostRows::Sorted.sorts(1, 1) && !HostRows::Sorted.sorts(0, 1));
        assert!(!HostRows::Direct.sorts(16 << 30, 1 << 24));
    }
}
