//! Slab lists, common to map, set and multimap.
use super::kernels::{Kernels, Task};
use super::memory::{Heads, ListsRef, MOST_BUCKETS, Memory, check_buckets};
use super::sizing::slabs_behind;
use crate::error::or_later;
use crate::map::checks::Checks;
use crate::map::counts::{Counts, distinct};
use crate::map::encoding::Word;
use crate::map::frozen::Freezer;
use crate::map::handle::Handle;
use crate::map::launch::{Batch, BatchOp};
use crate::map::sketch;
use crate::map::structure::{HostKeys, Room, Scans, Structure, with_scanner};
use crate::slab_alloc::Stats;
use crate::{Error, Result};
use gpu::{Device, Stream};
use phalanx_kernels::slab::list::LONG;
use simt::BoundedSlice;

/// Policy for a pool without free slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// The pool never grows: pairs that do not fit are refused.
    Fixed,
    /// A blocking call that had refused pairs gets more slots and then tries those pairs again. If there are
    /// more removed pairs than live ones, it packs the lists. Otherwise it adds super blocks to the pool, at
    /// least half of its capacity if there is memory, up to the budget. If the pool has its maximum of 255
    /// super blocks, the lists are packed into a new pool of larger super blocks; both pools exist meanwhile.
    /// A call that finds no memory for the refused pairs returns [`Error::NoRoom`].
    ///
    /// A blocking call after which a list is long (64 slabs) packs the lists, if removed pairs are the cause.
    /// The number of buckets does not change.
    Pool,
    /// As [`Self::Pool`]; and a blocking call rehashes into more buckets when there are more than twice as
    /// many pairs per bucket as at the capacity and the utilization of the builder. A call with 4096 elements
    /// or more that may lead there first estimates on the device how many distinct absent keys it has, and
    /// rehashes once, before it inserts; other calls look after they have inserted. Both numbers of buckets
    /// exist during the rehash. If there is no memory for it, lists become longer.
    ///
    /// So the mean length of the lists stays bounded however small the structure began. Batches on device
    /// buffers and your own kernels never rehash; the next blocking call does.
    Buckets,
}

/// Slab lists in device memory.
pub struct Lists<K, V> {
    pub handle: Handle<dyn Kernels<K, V>, Memory>,
    growth: Growth,
    /// Pairs per bucket at the capacity.
    load: f64,
    /// Whether a key may have several values.
    many: bool,
    checks: Checks,
    /// Whether read-only kernels (weak loads) may be in flight.
    pub freezer: Freezer,
}

impl<K: Word, V: Word> Lists<K, V> {
    pub fn new(handle: Handle<dyn Kernels<K, V>, Memory>, growth: Growth, load: f64, many: bool) -> Self {
        Self { handle, growth, load, many, checks: Checks::default(), freezer: Freezer::default() }
    }

    /// Prepares for kernels of the user, which may change the lists.
    pub fn viewed(&self) -> Result<()> {
        self.freezer.thaw(&self.handle.device)?;
        self.checks.viewed();
        Ok(())
    }

    /// Submits a task that may run concurrently with others.
    pub fn task(&self, stream: &Stream, task: Task<K, V>) -> Result<()> {
        let memory = self.handle.read();
        // SAFETY: as for `Self::submit`.
        unsafe { self.handle.kernels().launch_task(stream, memory.lists(), task)? };
        Ok(())
    }

    /// Submits a batch. If a key may have several values, an insertion appends, and others have kernels of
    /// their own.
    fn submit_uncounted(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        let Batch { op, codes, keys, arguments, results, outcomes } = batch;
        if op.writes() {
            self.freezer.thaw(&self.handle.device)?;
        }
        match op {
            BatchOp::Insert if self.many => {
                return self.task(stream, Task::Append { keys, values: arguments, outcomes });
            }
            BatchOp::ContainsKey if self.many => {
                return self.task(stream, Task::ContainsKey { keys, values: results, outcomes });
            }
            BatchOp::Remove if self.many => {
                return self.task(stream, Task::RemoveOne { keys, values: results, outcomes });
            }
            BatchOp::Mixed if self.many => {
                return self.task(stream, Task::Mixed { codes, keys, arguments, results, outcomes });
            }
            _ => {}
        }
        let memory = self.handle.read();
        // SAFETY: the memory outlives the launch, since dropping its buffers waits for it, and so do the
        // slices' buffers. Batches may run concurrently; exclusive operations take the write lock and wait
        // for the device.
        unsafe { self.handle.kernels().launch_batch(stream, memory.lists(), batch)? };
        Ok(())
    }

    /// Runs an exclusive task to completion.
    fn exclusive_task(&self, task: Task<K, V>) -> Result<()> {
        let kernels = self.handle.kernels();
        // SAFETY: the lock excludes other launches, and all earlier ones have ended. The slices outlive this
        // call.
        self.handle
            .exclusive(|stream, memory| unsafe { Ok(kernels.launch_task(stream, memory.lists(), task)?) })
    }

    /// Waits for all earlier launches and returns the counters.
    fn counts(&self) -> Result<Counts> {
        self.handle.settled()?.counts()
    }

    /// Returns whether there are enough slots of removed pairs to pack all lists.
    fn pays(&self, counts: Counts) -> bool {
        let long = LONG as usize * self.handle.kernels().shape().slots;
        counts.removed() >= (long / 2).max(counts.live / 64)
    }

    pub fn stats(&self) -> Result<Stats> {
        self.handle.read().pool.stats()
    }

    /// Packs the lists of some buckets.
    pub fn flush(&mut self, buckets: &[u32]) -> Result<()> {
        let count = self.handle.read().buckets();
        if let Some(&bucket) = buckets.iter().find(|&&bucket| bucket >= count) {
            return Err(Error::Bucket { bucket, count });
        }
        let mut distinct = buckets.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let distinct = self.handle.device.from_slice(&distinct)?;
        self.exclusive_task(Task::Flush { buckets: distinct.global() })
    }

    /// Packs all lists.
    pub fn flush_all(&mut self) -> Result<()> {
        self.handle.exclusive(|stream, memory| {
            let counts = memory.counts()?;
            pack(self.handle.kernels(), stream, memory, counts)
        })
    }

    /// Rehashes into another number of buckets.
    pub fn rehash(&mut self, buckets: u32) -> Result<()> {
        check_buckets(buckets)?;
        self.handle.exclusive(|stream, memory| self.rehash_in(stream, memory, buckets))
    }

    /// [`Self::rehash`] for a caller with exclusive access.
    fn rehash_in(&self, stream: &Stream, memory: &mut Memory, buckets: u32) -> Result<()> {
        let (device, kernels, many) = (&self.handle.device, self.handle.kernels(), self.many);
        let shape = kernels.shape();
        loop {
            let heads = Heads::new(device, shape.slab_bytes, buckets, memory.seed())?;
            let into = ListsRef { heads: &heads, pool: &memory.pool };
            let refused = device.zeroed::<u64>(1)?;
            // SAFETY: nothing else runs, and both the old and the new heads are alive.
            unsafe { kernels.launch_copy(stream, memory.lists(), into, many, refused.global())? };
            let refused = refused.read()?[0] as usize;
            let obsolete = if refused == 0 { memory.lists() } else { into };
            // SAFETY: as above.
            unsafe { kernels.launch_task(stream, obsolete, Task::FlushAll { keep: false })? };
            device.synchronize()?;
            if refused == 0 {
                memory.heads = heads;
                return Ok(());
            }
            memory.provide(kernels, stream, many, &[memory.slabs_for(refused, shape.slots)])?;
        }
    }

    /// Returns the number of pairs above which [`Growth::Buckets`] rehashes.
    fn most(&self, memory: &Memory) -> usize {
        (2.0 * self.load * f64::from(memory.buckets())) as usize
    }

    /// Provides buckets and slabs for `pairs` pairs, if there are too few buckets. Where memory permits, the
    /// slabs suffice until there are too few buckets again: otherwise most batches before that would be
    /// refused in part, and handling refused elements costs several times as much as their insertion.
    fn widen(&self, stream: &Stream, memory: &mut Memory, pairs: usize) -> Result<()> {
        if pairs <= self.most(memory) {
            return Ok(());
        }
        let (kernels, slabs) = (self.handle.kernels(), memory.pool.stats()?);
        let buckets = (pairs as f64 / self.load).ceil().min(f64::from(MOST_BUCKETS));
        let needed = |pairs| slabs_behind(pairs, buckets, kernels.shape().slots);
        // The slabs of the present lists are free after the rehash.
        let now = needed(pairs).saturating_sub(slabs.free);
        let later = needed(2 * pairs).saturating_sub(slabs.capacity - slabs.retired).max(now);
        if now > 0 {
            memory.provide(kernels, stream, self.many, &[later, now])?;
        } else if later > 0 {
            or_later(memory.provide(kernels, stream, self.many, &[later]))?;
        }
        self.rehash_in(stream, memory, buckets as u32)?;
        memory.generation += 1;
        Ok(())
    }

    /// Estimates the number of pairs after a batch, unless there are enough buckets in any case.
    fn pairs_after(&self, keys: BoundedSlice<K>) -> Result<Option<usize>> {
        let memory = self.handle.settled()?;
        let live = memory.counts()?.live;
        if live.saturating_add(keys.max_len()) <= self.most(&memory) {
            return Ok(None);
        }
        let kernels = self.handle.kernels();
        let added = sketch::estimate(&self.handle.device, keys.max_len(), |stream, registers| {
            // SAFETY: as for `Structure::submit`. The estimate waits for the launch.
            unsafe { kernels.launch_sketch(stream, memory.lists(), keys, registers) }
        })?;
        Ok(Some(live + added))
    }

    /// Replaces the memory by that of empty lists, as many and with as large a pool. Returns the old memory.
    pub fn exchange_for_empty(&mut self) -> Result<Memory> {
        self.handle.device.synchronize()?;
        let slab_bytes = self.handle.kernels().shape().slab_bytes;
        let empty = self.handle.read().as_empty(slab_bytes)?;
        Ok(std::mem::replace(self.handle.get_mut(), empty))
    }

    /// Checks all lists: see [`SlabHash::validate`](super::SlabHash::validate).
    pub fn validate(&self) -> Result<()> {
        let report = self.handle.device.zeroed::<u64>(4)?;
        let task = Task::Inspect { report: report.global() };
        let (live, pairs) = self.handle.exclusive(|stream, memory| {
            // SAFETY: as in `exclusive_task`.
            unsafe { self.handle.kernels().launch_task(stream, memory.lists(), task)? };
            stream.synchronize()?;
            Ok((memory.pool.stats()?.live as u64, memory.counts()?.live as u64))
        })?;
        let found = report.read()?;
        let problems = [
            (found[0] != live, format!("{live} slabs are live, but {} are in lists", found[0])),
            (found[1] != 0, format!("{} lists have an empty slot before a taken one", found[1])),
            (found[2] != 0, format!("{} links lead to slabs that are not live", found[2])),
            (found[3] != pairs, format!("{pairs} pairs are counted, but {} are in lists", found[3])),
        ];
        match problems.into_iter().find(|(is, _)| *is) {
            Some((_, problem)) => Err(Error::Invalid(problem)),
            None => Ok(()),
        }
    }
}

/// Packs all lists, which then have no slots of removed pairs.
fn pack<K: Word, V: Word>(
    kernels: &dyn Kernels<K, V>,
    stream: &Stream,
    memory: &mut Memory,
    counts: Counts,
) -> Result<()> {
    // SAFETY: the caller has exclusive access to the lists.
    unsafe { kernels.launch_task(stream, memory.lists(), Task::FlushAll { keep: true })? };
    stream.synchronize()?;
    memory.set_counts(Counts { taken: counts.live, long: 0, ..counts })
}

impl<K: Word, V: Word> Structure for Lists<K, V> {
    type Key = K;
    type Value = V;

    fn device(&self) -> &Device {
        &self.handle.device
    }

    fn submit(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        let submitted = self.submit_uncounted(stream, batch);
        self.checks.submitted(batch.op, batch.keys.max_len());
        submitted
    }

    fn needs_whole(&self, op: BatchOp, keys: &HostKeys<'_, K>) -> Result<bool> {
        if self.growth != Growth::Buckets || !sketch::is_worthwhile(op, keys.len) {
            return Ok(false);
        }
        let most = self.most(&self.handle.read());
        let fits = |live: usize| live.saturating_add(keys.len) <= most;
        Ok(!self.checks.fits(keys.len, most) && !fits(self.checks.count(|| self.counts())?.live))
    }

    fn reserve_for(&self, batch: &Batch<K, V>) -> Result<()> {
        if self.growth != Growth::Buckets || !sketch::is_worthwhile(batch.op, batch.keys.max_len()) {
            return Ok(());
        }
        let Some(pairs) = self.pairs_after(batch.keys)? else { return Ok(()) };
        self.handle.exclusive(|stream, memory| self.widen(stream, memory, pairs))
    }

    fn scans(&self, run: Scans<'_, K, V>) -> Result<()> {
        let kernels = self.handle.kernels();
        self.handle.exclusive(|stream, memory| {
            let lists = memory.lists();
            let size = (kernels.scan_threads(lists), memory.counts()?.live);
            // SAFETY: the lock excludes other launches, and all earlier ones have ended.
            with_scanner(stream, size, |scan| unsafe { kernels.launch_scan(stream, lists, scan) }, run)
        })
    }

    fn generation(&self) -> u64 {
        self.handle.read().generation
    }

    fn grows(&self) -> bool {
        self.growth != Growth::Fixed
    }

    /// Packs the lists if some are long because of removed pairs, and packing pays. Rehashes if there are too
    /// few buckets.
    fn grow(&self) -> Result<()> {
        let needs_packing = |counts: Counts| counts.long > 0 && self.pays(counts);
        let is_narrow = |memory: &Memory, counts: Counts| {
            self.growth == Growth::Buckets && counts.live > self.most(memory)
        };
        let is_due = |memory: &Memory| -> Result<bool> {
            // Elements after which a list may have become long.
            let every = self.most(memory) / 32;
            if !self.checks.is_due(self.most(memory), every) {
                return Ok(false);
            }
            let counts = self.checks.count(|| memory.counts())?;
            Ok(needs_packing(counts) || is_narrow(memory, counts))
        };
        if !self.grows() || !is_due(&self.handle.read())? {
            return Ok(());
        }
        self.handle.exclusive(|stream, memory| {
            // Another thread may have done it already.
            let counts = memory.counts()?;
            if is_narrow(memory, counts) {
                self.widen(stream, memory, counts.live)
            } else if needs_packing(counts) {
                pack(self.handle.kernels(), stream, memory, counts)
            } else {
                Ok(())
            }
        })
    }

    /// Frees slots by packing if there are more removed pairs than live and refused ones; otherwise adds
    /// slabs within the budget. Does nothing if the policy is [`Growth::Fixed`].
    fn grow_for(&self, refused: &[K], seen: Option<u64>) -> Result<Room> {
        if !self.grows() {
            return Ok(Room::None);
        }
        let refused = if self.many { refused.len() } else { distinct(refused) };
        self.handle.exclusive(|stream, memory| {
            if seen.is_some_and(|generation| generation != memory.generation) {
                // Another thread has provided slots meanwhile, perhaps enough.
                return Ok(Room::More);
            }
            let counts = memory.counts()?;
            let room = if seen.is_some() && counts.removed() > refused.max(counts.live) {
                pack(self.handle.kernels(), stream, memory, counts)?;
                Room::Freed
            } else {
                Room::more_if(memory.extend(self.handle.kernels(), stream, self.many, refused)?)
            };
            memory.generation += u64::from(room != Room::None);
            Ok(room)
        })
    }

    fn len(&self) -> Result<usize> {
        Ok(self.counts()?.live)
    }

    fn clear(&mut self) -> Result<()> {
        self.handle.exclusive(|stream, memory| {
            // The last step that can fail on a device that is not lost.
            memory.set_counts(Counts::default())?;
            // SAFETY: the lock excludes other launches, and all earlier ones have ended.
            unsafe {
                self.handle.kernels().launch_task(stream, memory.lists(), Task::FlushAll { keep: false })?
            };
            Ok(stream.synchronize()?)
        })
    }

    fn memory_usage(&self) -> usize {
        self.handle.read().memory_usage()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::variant::VariantTag;
    use crate::slab_alloc::SlabAlloc;
    use phalanx_kernels::slab::list::DefaultLists;

    /// The only variant that is compiled for these tests.
    const VARIANT: VariantTag<DefaultLists> = VariantTag::NEW;

    #[test]
    fn buckets_are_made_before_a_large_batch() {
        let device = Device::emulator(Default::default());
        let heads = Heads::new(&device, 128, 10, 0).unwrap();
        let pool = SlabAlloc::builder().device(&device).capacity(32).slab_bytes(128).build().unwrap();
        let keys = device.from_slice(&Vec::from_iter(0..20_000u32)).unwrap();
        let handle = Handle::new(device.clone(), VARIANT.boxed(), Memory::new(heads, pool));
        let lists = Lists::new(handle, Growth::Buckets, 10.0, false);
        lists.reserve_for(&Batch::new(BatchOp::Mixed, keys.global())).unwrap();
        assert_eq!(lists.handle.read().buckets(), 10, "a mixed batch may add nothing");
        lists.reserve_for(&Batch::new(BatchOp::Insert, keys.global())).unwrap();
        let buckets = lists.handle.read().buckets();
        assert!((1900..2300).contains(&buckets), "{buckets} instead of 2000");
        let batch = Batch { arguments: keys.global(), ..Batch::new(BatchOp::InsertNew, keys.global()) };
        lists.submit(&device.default_stream(), batch).unwrap();
        assert_eq!(lists.len().unwrap(), 20_000, "{:?}", lists.stats().unwrap());
        // The slabs suffice until there are too few buckets again.
        let more = device.from_slice(&Vec::from_iter(20_000..39_000u32)).unwrap();
        let batch = Batch { arguments: more.global(), ..Batch::new(BatchOp::InsertNew, more.global()) };
        lists.submit(&device.default_stream(), batch).unwrap();
        assert_eq!(lists.len().unwrap(), 39_000, "{:?}", lists.stats().unwrap());
    }
}
