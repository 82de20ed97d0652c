//! Slab lists, common to map, set and multimap.
use super::kernels::{Kernels, Task};
use super::memory::{Heads, ListsRef, Memory, check_buckets};
use crate::map::counts::{Counts, distinct};
use crate::map::encoding::Word;
use crate::map::handle::Handle;
use crate::map::launch::{Batch, BatchOp};
use crate::map::structure::{Room, Scans, Structure, with_scanner};
use crate::slab_alloc::Stats;
use crate::{Error, Result};
use gpu::{Device, Stream};
use phalanx_kernels::slab::list::LONG;

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
}

/// Slab lists in device memory.
pub struct Lists<K, V> {
    pub handle: Handle<dyn Kernels<K, V>, Memory>,
    growth: Growth,
    /// Whether a key may have several values.
    many: bool,
}

impl<K: Word, V: Word> Lists<K, V> {
    pub fn new(handle: Handle<dyn Kernels<K, V>, Memory>, growth: Growth, many: bool) -> Self {
        Self { handle, growth, many }
    }

    /// Submits a task that may run concurrently with others.
    pub fn task(&self, stream: &Stream, task: Task<K, V>) -> Result<()> {
        let memory = self.handle.read();
        // SAFETY: as for `Self::submit`.
        unsafe { self.handle.kernels().launch_task(stream, memory.lists(), task)? };
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
        let (device, kernels, many) = (&self.handle.device, self.handle.kernels(), self.many);
        let shape = kernels.shape();
        self.handle.exclusive(|stream, memory| {
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
                let needed = memory.slabs_for(refused, shape.slots);
                match memory.pool.grow(needed) {
                    Err(Error::TooManySlabs { .. }) => {
                        *memory = memory.moved(kernels, stream, many, &[needed])?
                    }
                    grown => grown?,
                }
            }
        })
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
        self.exclusive_task(Task::Inspect { report: report.global() })?;
        let found = report.read()?;
        let (live, pairs) = (self.stats()?.live as u64, self.len()? as u64);
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

    /// If a key may have several values, an insertion appends.
    fn submit(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        let Batch { op, codes, keys, arguments, results, outcomes } = batch;
        match op {
            BatchOp::Insert if self.many => {
                return self.task(stream, Task::Append { keys, values: arguments, outcomes });
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
        self.growth == Growth::Pool
    }

    /// Packs the lists if some are long because of removed pairs, and packing pays.
    fn grow(&self) -> Result<()> {
        let needs_packing = |counts: Counts| counts.long > 0 && self.pays(counts);
        if !self.grows() || !needs_packing(self.handle.read().counts()?) {
            return Ok(());
        }
        self.handle.exclusive(|stream, memory| {
            let counts = memory.counts()?;
            // Another thread may have packed them already.
            if needs_packing(counts) { pack(self.handle.kernels(), stream, memory, counts) } else { Ok(()) }
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
            // SAFETY: the lock excludes other launches, and all earlier ones have ended.
            unsafe {
                self.handle.kernels().launch_task(stream, memory.lists(), Task::FlushAll { keep: false })?
            };
            stream.synchronize()?;
            memory.set_counts(Counts::default())
        })
    }

    fn memory_usage(&self) -> usize {
        self.handle.read().memory_usage()
    }
}
