//! Growth: a table begins with its capacity, and doubles it up to a maximum.
//!
//! A batch that places keys runs alone, so it may replace the table's memory before it places them. The keys
//! are copied in parts, by the kernels of exports and insertions:
//!
//! ```text
//! old memory ── export of some buckets ──► a buffer of keys, scores, rows ── insertion ──► new memory
//! ```
//!
//! Doubling splits each bucket: the buckets 2 b and 2 b + 1 get the keys whose first bucket is b. So with one
//! bucket per key all keys fit. With two they almost always do; if not, the table keeps its old memory.
use super::batches::{changes_of, lookups_of};
use super::groups::Group;
use super::kernels::Launch;
use super::memory::Memory;
use super::scans::Output;
use super::{CacheTable, SLOTS, Shape};
use crate::number::Number;
use crate::{Error, Result};
use bytemuck::Pod;
use gpu::{Buffer, Stream};
use phalanx_kernels::cache::{Changes, EXACTLY, Filter, Lookups, MOST_BUCKETS, Span};
use phalanx_kernels::keyed::Scalar;
use simt::BoundedSlice;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of bytes that are copied at once when a table grows.
const PART_BYTES: usize = 32 << 20;

/// When and how far a table grows.
#[derive(Debug)]
pub struct Growth {
    /// Maximum number of buckets: their number times a power of two.
    most_buckets: u32,
    /// Ratio of keys to slots above which the table grows.
    load: f64,
    /// Number of elements that may be placed before keys are counted again.
    room: usize,
    /// Number of exports under way. Keys must stay in their buckets meanwhile.
    exports: usize,
}

impl Growth {
    /// Returns the growth of a table of `buckets` buckets up to `most` keys.
    pub fn new(buckets: u32, most: usize, load: f64) -> Result<Self> {
        Ok(Self { most_buckets: doubled(buckets, most)?, load, room: 0, exports: 0 })
    }

    /// Returns the number of buckets that a table of `buckets` needs for `keys` keys, or its maximum.
    fn buckets_for(&self, mut buckets: u32, keys: usize) -> u32 {
        let is_over = |buckets: u32| keys as f64 > self.load * (buckets as usize * SLOTS as usize) as f64;
        while buckets < self.most_buckets && is_over(buckets) {
            buckets *= 2;
        }
        buckets
    }
}

/// Returns `buckets` times the highest power of two so that the table has at most `most` slots, rounded up to
/// whole buckets.
fn doubled(mut buckets: u32, most: usize) -> Result<u32> {
    let (asked, limit) = (most.div_ceil(SLOTS as usize), MOST_BUCKETS as usize);
    if asked > limit {
        return Err(Error::TooLarge { what: "buckets of a cache table", asked, most: limit });
    }
    while 2 * (buckets as usize) <= asked {
        buckets *= 2;
    }
    Ok(buckets)
}

/// An export under way: the table does not grow until it is dropped.
#[derive(Debug)]
pub struct UnderWay<'a>(&'a Mutex<Growth>);

impl<'a> UnderWay<'a> {
    /// Registers an export. The caller has entered a group.
    pub fn begin(growth: &'a Mutex<Growth>) -> Self {
        locked(growth).exports += 1;
        Self(growth)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        locked(self.0).exports -= 1;
    }
}

// Each change is complete, also if a thread panics.
fn locked(growth: &Mutex<Growth>) -> MutexGuard<'_, Growth> {
    growth.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Capacity and growth.
impl<K: Number + Scalar, V: Pod, S: Number + Scalar> CacheTable<K, V, S> {
    /// Returns the capacity up to which the table grows by itself: see
    /// [`set_max_capacity`](Self::set_max_capacity).
    pub fn max_capacity(&self) -> usize {
        locked(&self.growth).most_buckets as usize * SLOTS as usize
    }

    /// Returns the number of [exports](Self::export_since) that were not dropped, of all threads. While it is
    /// not 0, the table does not grow. An export that was leaked stays counted.
    ///
    /// ```
    /// use phalanx::CacheTable;
    ///
    /// let table = CacheTable::<u64, u32>::builder().capacity(128).max_capacity(512).build()?;
    /// let export = table.export_since(0)?;
    /// assert!(table.exports() == 1 && table.reserve(200).is_err());
    /// drop(export);
    /// assert!(table.exports() == 0 && table.reserve(200).is_ok());
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: reads a number under a lock.
    pub fn exports(&self) -> usize {
        locked(&self.growth).exports
    }

    /// Sets the capacity up to which the table grows, rounded up to whole buckets of 128, and then down to
    /// the current capacity times a power of two. A lower number than the current capacity ends the growth; a
    /// table never shrinks.
    ///
    /// Before a batch that places keys, the table doubles its capacity if it would hold more keys than its
    /// capacity times [`grow_at`](super::Builder::grow_at) afterwards. Growth is put off while leases hold
    /// rows, while an [export](Self::export_since) is under way ([`exports`](Self::exports)), and while the
    /// device lacks the memory for the old and the new table together: keys are evicted meanwhile, as at the
    /// maximum. Scores are kept, and so is the share of rows on the device, but a row may move between device
    /// and host.
    ///
    /// ```
    /// use phalanx::CacheTable;
    ///
    /// let table = CacheTable::<u64, u32>::builder().capacity(128).two_buckets(true).build()?;
    /// assert_eq!((table.capacity(), table.max_capacity()), (128, 128));
    /// table.set_max_capacity(1000)?;
    /// assert_eq!((table.capacity(), table.max_capacity()), (128, 1024));
    /// let keys: Vec<u64> = (0..300).collect();
    /// assert!(table.insert(&keys, &[7; 300])?.all_placed());
    /// assert_eq!((table.capacity(), table.len()?), (512, 300)); // no key was evicted
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more than 2^25 - 1 buckets of 128 keys.
    pub fn set_max_capacity(&self, keys: usize) -> Result<()> {
        let buckets = self.shape().buckets;
        let mut growth = locked(&self.growth);
        growth.most_buckets = doubled(buckets, keys)?;
        growth.room = 0;
        Ok(())
    }

    /// Grows the table at once until it has memory for at least `keys` keys in all, by doublings. Waits for
    /// the device.
    ///
    /// ```
    /// use phalanx::CacheTable;
    ///
    /// let table = CacheTable::<u64, u32>::builder().capacity(128).max_capacity(512).build()?;
    /// assert!(table.insert(&[7], &[70])?.all_placed());
    /// table.reserve(200)?;
    /// assert_eq!((table.capacity(), table.get(&[7])?.of(0)), (256, Some(&[70][..])));
    /// assert!(table.reserve(1000).is_err()); // more than `max_capacity`
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::AboveMaxCapacity`] above [`max_capacity`](Self::max_capacity); [`Error::Leased`] while leases
    /// hold rows; [`Error::Exported`] while an export is under way; [`Error::DoesNotFit`] if keys with two
    /// buckets find no place in the new table; [`Error::Device`] if the device is lost or lacks the memory.
    /// On error the table is unchanged.
    pub fn reserve(&self, keys: usize) -> Result<()> {
        let stream = self.device.stream()?;
        self.groups.submit(Group::Inserters, &stream, || {
            let (mut growth, shape) = (locked(&self.growth), self.shape());
            let wanted = keys.div_ceil(SLOTS as usize);
            let mut buckets = shape.buckets;
            while (buckets as usize) < wanted && buckets < growth.most_buckets {
                buckets *= 2;
            }
            if (buckets as usize) < wanted {
                let most = growth.most_buckets as usize * SLOTS as usize;
                return Err(Error::AboveMaxCapacity { asked: keys, most });
            }
            if buckets > shape.buckets {
                self.grow_to(&stream, buckets, &growth)?;
                growth.room = 0;
            }
            Ok(())
        })
    }

    /// Grows the table if it may and must before the keys of a batch are placed. The caller has entered the
    /// inserters' group.
    pub(super) fn grow_for(&self, stream: &Stream, keys: BoundedSlice<K>) -> Result<()> {
        let (mut growth, buckets) = (locked(&self.growth), self.shape().buckets);
        if growth.most_buckets <= buckets {
            return Ok(());
        }
        if keys.max_len() <= growth.room {
            growth.room -= keys.max_len();
            return Ok(());
        }
        let needed = self.count_in(stream, &self.memory())? + self.count_absent(stream, keys)?;
        let wanted = growth.buckets_for(buckets, needed);
        if wanted > buckets {
            match self.grow_to(stream, wanted, &growth) {
                Err(Error::Leased { .. } | Error::Exported { .. }) => {}
                Err(error) if error.is_lack_of_room() => {}
                grown => grown?,
            }
        }
        // Counting waits for the device: it is worth it only after a part of the table was filled.
        let capacity = self.capacity();
        growth.room = ((growth.load * capacity as f64) as usize).saturating_sub(needed).max(capacity / 32);
        Ok(())
    }

    /// Replaces the memory by one of `buckets` buckets, the current number times a power of two. On error
    /// the table is unchanged.
    fn grow_to(&self, stream: &Stream, buckets: u32, growth: &Growth) -> Result<()> {
        let leases = self.leases.numbers().len();
        if leases > 0 {
            return Err(Error::Leased { leases });
        }
        if growth.exports > 0 {
            return Err(Error::Exported { exports: growth.exports });
        }
        let old = self.memory();
        let shape = Shape { buckets, ..old.shape() };
        let new = Memory::new(&self.device, shape, old.summary().is_some(), old.has_versions())?;
        self.rehash(stream, &old, &new)?;
        let (pairs, found) = (self.count_in(stream, &old)?, self.count_in(stream, &new)?);
        if found < pairs {
            return Err(Error::DoesNotFit { left_over: pairs - found, pairs });
        }
        drop(old);
        // The counts have waited for all launches on the old memory.
        *self.memory.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Copies all keys, scores and rows from one memory to another.
    fn rehash(&self, stream: &Stream, old: &Memory<K, S>, new: &Memory<K, S>) -> Result<()> {
        let (buckets, chunk) = (old.shape().buckets, self.widest_chunk());
        let count = (PART_BYTES / self.bucket_bytes()).clamp(1, buckets as usize);
        let output = Output::new(self, count * SLOTS as usize)?;
        let part = output.slices();
        let batch = Changes {
            scores: part.scores,
            rows: part.rows,
            parameter: EXACTLY,
            chunk,
            ..changes_of(BoundedSlice::new(part.keys, part.count))
        };
        for first in (0..buckets).step_by(count) {
            let span = Span { first, count: count as u32 };
            // SAFETY: dropping the buffers and the memory waits for the launches. The caller has entered the
            // inserters' group, and nothing else knows the new memory.
            unsafe {
                stream.fill(part.count, 0)?;
                self.kernels.launch(stream, old, None, Launch::Export(Filter::all(), span, part, chunk))?;
                self.kernels.launch(stream, new, None, Launch::Insert(batch))?;
            }
        }
        Ok(())
    }

    /// Returns the bytes of the keys, scores and rows of a bucket.
    pub(super) fn bucket_bytes(&self) -> usize {
        SLOTS as usize * (size_of::<K>() + size_of::<S>() + self.dim * size_of::<V>())
    }

    /// Counts the keys in a memory. Waits.
    fn count_in(&self, stream: &Stream, memory: &Memory<K, S>) -> Result<usize> {
        let count: Buffer<u64> = self.device.zeroed(1)?;
        let launch = Launch::Count(Filter::all(), count.global());
        // SAFETY: the counter and the memory outlive the launch, for which this call waits.
        unsafe { self.kernels.launch(stream, memory, None, launch)? };
        Ok(count.read()?[0] as usize)
    }

    /// Counts the keys of a batch that the table does not have. Waits.
    fn count_absent(&self, stream: &Stream, keys: BoundedSlice<K>) -> Result<usize> {
        let count: Buffer<u32> = self.device.zeroed(1)?;
        let launch = Launch::Get(Lookups { missed_count: count.global(), ..lookups_of(keys) });
        // SAFETY: as for `count_in`; the caller keeps the keys.
        unsafe { self.kernels.launch(stream, &self.memory(), None, launch)? };
        Ok(count.read()?[0] as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_grow_by_doublings_up_to_their_maximum() {
        let most = |buckets, keys| doubled(buckets, keys).unwrap();
        assert_eq!((most(1, 0), most(1, 128), most(1, 255), most(1, 256), most(1, 1000)), (1, 1, 2, 2, 8));
        assert_eq!((most(3, 100), most(3, 768), most(3, 1536)), (3, 6, 12));
        assert!(matches!(doubled(1, usize::MAX), Err(Error::TooLarge { .. })));
        let growth = Growth::new(3, 1536, 0.5).unwrap();
        assert_eq!(
            [0, 192, 193, 384, 385, 10_000].map(|keys| growth.buckets_for(3, keys)),
            [3, 3, 6, 6, 12, 12]
        );
    }
}
