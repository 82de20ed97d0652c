//! Scans of a whole table, which wait for their results.
use super::CacheTable;
use super::batches::words_of;
use super::groups::Group;
use super::host::{EvictedRows, Exported};
use super::kernels::Launch;
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::Result;
use crate::number::Number;
use bytemuck::Pod;
use gpu::{Buffer, Stream};
use phalanx_kernels::cache::{Chunk, Evicted, Filter, RowSlice, Span};
use phalanx_kernels::keyed::Scalar;
use simt::GlobalSlice;
use std::ops::{RangeBounds, RangeFrom};
use std::sync::PoisonError;

/// Scans of the whole table.
impl<K: Number + Scalar, V: Pod, S: Number + Scalar> CacheTable<K, V, S> {
    /// Returns the number of keys.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn len(&self) -> Result<usize> {
        self.len_if(Filter::all())
    }

    /// Returns whether the table has no keys.
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns the number of keys with scores in a range.
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn len_scored(&self, scores: impl RangeBounds<S>) -> Result<usize> {
        self.len_if(Filter::all().scores(scores))
    }

    /// Returns the number of keys that the filter selects.
    ///
    /// ```
    /// use phalanx::CacheTable;
    /// use phalanx::cache_table::{Filter, Rule};
    ///
    /// let table = CacheTable::<u64, u32>::builder().capacity(100).rule(Rule::Custom).build()?;
    /// assert!(table.insert_scored(&[1, 2, 3, 4], &[10, 20, 30, 40], &[5, 6, 7, 8])?.all_placed());
    /// assert_eq!(table.len_if(Filter::all().key_bits(1, 0))?, 2); // even keys
    /// assert_eq!(table.len_if(Filter::all().keys(2..).scores(..=7))?, 2);
    /// let mut odd = table.export_if(Filter::all().key_bits(1, 1))?.keys;
    /// odd.sort();
    /// assert_eq!((odd, table.remove_if(Filter::all().keys(..=3))?, table.len()?), (vec![1, 3], 3, 1));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn len_if(&self, filter: Filter<K, S>) -> Result<usize> {
        self.count(Group::Readers, |count| Launch::Count(filter, count))
    }

    /// Removes the keys with scores in a range, except those of leased rows. Returns their number.
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn remove_scored(&self, scores: impl RangeBounds<S>) -> Result<usize> {
        self.remove_if(Filter::all().scores(scores))
    }

    /// Removes the keys that the filter selects, except those of leased rows. Returns their number. See
    /// [`Self::len_if`] for an example.
    ///
    /// # Errors
    /// As [`Self::len`].
    #[doc(alias = "erase_if")]
    pub fn remove_if(&self, filter: Filter<K, S>) -> Result<usize> {
        self.count(Group::Inserters, |count| Launch::RemoveIf(filter, count))
    }

    /// Returns the keys with scores in a range, with scores and rows, in any order, as of one point in time.
    ///
    /// ```
    /// use phalanx::CacheTable;
    /// use phalanx::cache_table::Rule;
    ///
    /// let table = CacheTable::<u64, u32>::builder().capacity(100).rule(Rule::Custom).build()?;
    /// assert!(table.insert_scored(&[1, 2, 3], &[10, 20, 30], &[5, 6, 7])?.all_placed());
    /// let chosen = table.export(7..)?;
    /// assert_eq!((chosen.keys, chosen.scores, chosen.rows), (vec![3], vec![7], vec![30]));
    /// assert_eq!((table.len_scored(..=6)?, table.remove_scored(6..)?, table.len()?), (2, 2, 1));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn export(&self, scores: impl RangeBounds<S>) -> Result<Exported<K, V, S>> {
        self.export_if(Filter::all().scores(scores))
    }

    /// Returns the keys that the filter selects, with scores and rows, in any order, as of one point in time.
    /// See [`Self::len_if`] for an example.
    ///
    /// # Errors
    /// As [`Self::len`].
    #[doc(alias = "export_batch_if")]
    pub fn export_if(&self, filter: Filter<K, S>) -> Result<Exported<K, V, S>> {
        let (stream, mut room) = (self.device.stream()?, self.len_if(filter)?);
        loop {
            let output = Output::new(self, room)?;
            let all = Span { first: 0, count: u32::MAX };
            let launch = Launch::Export(filter, all, output.slices(), self.widest_chunk());
            self.scan(Group::Readers, &stream, launch)?;
            // Other threads may have inserted keys since they were counted.
            room = output.found()?;
            if room <= output.keys.len() {
                return output.read(self.dim);
            }
        }
    }

    /// Moves keys with high scores to slots whose rows are on the device, if the table has rows in host
    /// memory: in each bucket without a free slot, at most `most` keys, each in exchange for the key with the
    /// lowest score there. Leased rows stay where they are. Returns the number of keys that moved.
    ///
    /// ```
    /// use phalanx::CacheTable;
    /// use phalanx::cache_table::Rule;
    ///
    /// let builder = CacheTable::<u64, u32>::builder().capacity(128).rule(Rule::Lfu);
    /// let table = builder.rows_on_device(0.25).build()?;
    /// let keys: Vec<u64> = (0..128).collect();
    /// assert!(table.insert(&keys, &[7; 128])?.all_placed());
    /// table.get_and_touch(&keys[..32])?; // the first 32 keys get higher scores
    /// assert!(table.promote(128)? <= 32);
    /// assert_eq!(table.promote(128)?, 0); // their rows are on the device now
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn promote(&self, most: u32) -> Result<usize> {
        self.promote_scored(most, S::default()..)
    }

    /// [`Self::promote`] of keys with a score in the range only: a bound from below keeps keys in host memory
    /// that were used too seldom to pay for the copy.
    ///
    /// ```
    /// use phalanx::CacheTable;
    /// use phalanx::cache_table::Rule;
    ///
    /// let builder = CacheTable::<u64, u32>::builder().capacity(128).rule(Rule::Lfu);
    /// let table = builder.rows_on_device(0.25).build()?;
    /// let keys: Vec<u64> = (0..128).collect();
    /// assert!(table.insert(&keys, &[7; 128])?.all_placed());
    /// table.get_and_touch(&keys[..40])?; // two uses each, the insertion included
    /// assert_eq!(table.promote_scored(128, 3..)?, 0);
    /// assert!(table.promote_scored(128, 2..)? > 0);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn promote_scored(&self, most: u32, scores: RangeFrom<S>) -> Result<usize> {
        self.count(Group::Movers, |count| Launch::Promote(most, scores.start, count))
    }

    /// Removes all keys.
    ///
    /// # Errors
    /// [`Error::Leased`] if a lease was leaked; [`Error::Device`] if the device is lost or lacks the memory.
    pub fn clear(&mut self) -> Result<()> {
        let leases = self.leases().len();
        if leases > 0 {
            return Err(Error::Leased { leases });
        }
        self.device.synchronize()?;
        let memory = self.memory.get_mut().unwrap_or_else(PoisonError::into_inner);
        Ok(memory.digests().fill_bytes(0)?)
    }

    /// Returns the chunks in which rows move to and from buffers that begin at aligned addresses.
    pub(super) fn widest_chunk(&self) -> Chunk {
        if self.shape().words.is_multiple_of(4) { Chunk::Four } else { Chunk::One }
    }

    /// Runs a scan that counts keys, and waits for the number.
    fn count(&self, group: Group, launch: impl FnOnce(GlobalSlice<u64>) -> Launch<K, S>) -> Result<usize> {
        let (stream, count) = (self.device.stream()?, self.device.zeroed::<u64>(1)?);
        self.scan(group, &stream, launch(count.global()))?;
        Ok(count.read()?[0] as usize)
    }

    fn scan(&self, group: Group, stream: &Stream, launch: Launch<K, S>) -> Result<()> {
        // SAFETY: the buffers of the launch outlive it, since dropping them waits.
        self.groups.submit(group, stream, || unsafe { self.launch(stream, launch) })
    }
}

/// Device buffers for keys with scores and rows.
pub struct Output<K, V, S> {
    keys: Buffer<K>,
    scores: Buffer<S>,
    rows: Buffer<V>,
    count: Buffer<u32>,
}

impl<K: Number + Scalar, V: Pod, S: Number + Scalar> Output<K, V, S> {
    /// Allocates room for `len` keys.
    pub fn new(table: &CacheTable<K, V, S>, len: usize) -> Result<Self> {
        let device = table.device();
        let (keys, scores) = (device.buffer(len)?, device.buffer(len)?);
        Ok(Self { keys, scores, rows: device.buffer(len * table.dim())?, count: device.zeroed(1)? })
    }

    /// Returns the buffers for a scan.
    pub fn slices(&self) -> Evicted<K, S> {
        Evicted {
            keys: self.keys.global(),
            scores: self.scores.global(),
            rows: RowSlice::new(words_of((&self.rows).into())),
            count: self.count.global(),
        }
    }

    /// Returns the number of keys that a kernel counted, which may exceed the room.
    fn found(&self) -> Result<usize> {
        Ok(self.count.read()?[0] as usize)
    }

    /// Returns what a kernel has written.
    pub fn read(&self, dim: usize) -> Result<EvictedRows<K, V, S>> {
        let count = self.found()?;
        Ok(EvictedRows {
            keys: self.keys.slice(..count)?.read()?,
            scores: self.scores.slice(..count)?.read()?,
            rows: self.rows.slice(..count * dim)?.read()?,
        })
    }
}
