//! The memory of lists, and the operations on all lists, common to map, set and multimap.
use super::engine::{Engine, Parts, Task};
use crate::error::made_room;
use crate::map::counts::{Counts, distinct};
use crate::map::launch::{Batch, BatchOp};
use crate::map::owner::{self, Memory as _, Owner};
use crate::map::structure::{Room, Scans, Structure};
use crate::slab_alloc::{SlabAlloc, Stats};
use crate::{Error, Key, Result, Value};
use gpu::{Buffer, Device, Stream};
use phalanx_kernels::keyed::{COUNTER_SHARDS, SHARD_WORDS};
use phalanx_kernels::slab::list::LONG;
use simt::GlobalSlice;

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
    pub owner: Owner<dyn Engine<K, V>, Memory>,
    growth: Growth,
    /// Whether a key may have several values.
    many: bool,
}

/// Device memory of lists.
#[derive(Debug)]
pub struct Memory {
    heads: Buffer<u64>,
    counters: Buffer<u64>,
    buckets: u32,
    pub pool: SlabAlloc,
    /// Number of times that slabs were freed or allocated for refused pairs.
    generation: u64,
}

impl Memory {
    pub fn new(device: &Device, slab_bytes: usize, buckets: u32, pool: SlabAlloc) -> Result<Self> {
        let (heads, counters) = blank(device, slab_bytes, buckets)?;
        Ok(Self { heads, counters, buckets, pool, generation: 0 })
    }

    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    pub fn bytes(&self) -> usize {
        self.heads.bytes() + self.counters.bytes() + self.pool.memory_usage()
    }

    /// Copies the lists, packed, into a pool of larger super blocks, with the first of the numbers of
    /// additional slabs in `more` for which there is memory. Nothing else may run.
    fn moved<K: Key, V: Value>(
        &self,
        engine: &dyn Engine<K, V>,
        stream: &Stream,
        many: bool,
        more: &[usize],
    ) -> Result<Self> {
        let (device, live) = (stream.device(), self.counts()?.live);
        let pool = self.pool.larger_by(more)?;
        let into = Self::new(device, engine.shape().slab_bytes, self.buckets, pool)?;
        let refused = device.zeroed::<u64>(1)?;
        // SAFETY: nothing else runs, no one else knows the new lists, and both live until the count is read.
        unsafe { copy(engine, stream, self.parts(), into.parts(), many, refused.slice())? };
        match refused.read()?[0] as usize {
            0 => Ok(Self { generation: self.generation, ..into }),
            left_over => Err(Error::DoesNotFit { left_over, pairs: live }),
        }
    }

    /// Adds slabs for `refused` elements to the pool or, if it has all super blocks that it can have, moves
    /// the lists into a pool of larger ones. Nothing else may run. Returns `false` if there is no memory.
    fn extend<K: Key, V: Value>(
        &mut self,
        engine: &dyn Engine<K, V>,
        stream: &Stream,
        many: bool,
        refused: usize,
    ) -> Result<bool> {
        let needed = self.slabs_for(refused, engine.shape().slots);
        let has_grown = self.pool.grow_if_possible(needed, refused)?;
        if has_grown || !self.pool.has_all_super_blocks() {
            return Ok(has_grown);
        }
        let moved = self.moved(engine, stream, many, &[needed, refused, 1]);
        made_room(moved.map(|moved| {
            *self = moved;
            true
        }))
    }

    /// Returns by how many slabs the pool should grow after `refused` elements were refused: at least half of
    /// its capacity.
    fn slabs_for(&self, refused: usize, slots: usize) -> usize {
        refused.div_ceil(slots).max(self.pool.capacity() / 2)
    }
}

impl owner::Memory for Memory {
    type Parts = Parts;

    fn parts(&self) -> Parts {
        Parts::new(self.heads.pointer(), self.counters.pointer(), &self.pool, self.buckets)
    }

    fn counts(&self) -> Result<Counts> {
        Counts::read(&self.counters)
    }
}

/// Allocates empty list heads and zeroed counters.
fn blank(device: &Device, slab_bytes: usize, buckets: u32) -> Result<(Buffer<u64>, Buffer<u64>)> {
    let words = (buckets as usize + 1) * slab_bytes / 8;
    Ok((device.filled(words, 0xff)?, device.zeroed(COUNTER_SHARDS * SHARD_WORDS)?))
}

impl<K: Key, V: Value> Lists<K, V> {
    pub fn new(owner: Owner<dyn Engine<K, V>, Memory>, growth: Growth, many: bool) -> Self {
        Self { owner, growth, many }
    }

    /// Submits a task that may run concurrently with others.
    pub fn task(&self, stream: &Stream, task: Task<K, V>) -> Result<()> {
        let memory = self.owner.read();
        // SAFETY: as in `Owner::launch`.
        unsafe { self.owner.engine.task(stream, memory.parts(), task)? };
        Ok(())
    }

    fn task_alone(&self, task: Task<K, V>) -> Result<()> {
        // SAFETY: the lock excludes other launches, and all earlier ones have ended. The slices outlive this
        // call.
        self.owner
            .exclusive(|engine, stream, memory| unsafe { Ok(engine.task(stream, memory.parts(), task)?) })
    }

    /// Returns whether there are enough slots of removed pairs to pack all lists.
    fn pays(&self, counts: Counts) -> bool {
        let long = LONG as usize * self.owner.engine.shape().slots;
        counts.removed() >= (long / 2).max(counts.live / 64)
    }

    pub fn stats(&self) -> Result<Stats> {
        self.owner.read().pool.stats()
    }

    /// Packs the lists of some buckets.
    pub fn flush(&mut self, buckets: &[u32]) -> Result<()> {
        let count = self.owner.read().buckets;
        if let Some(&bucket) = buckets.iter().find(|&&bucket| bucket >= count) {
            return Err(Error::Bucket { bucket, count });
        }
        let mut distinct = buckets.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let distinct = self.owner.device.from_slice(&distinct)?;
        self.task_alone(Task::Flush { buckets: distinct.slice() })
    }

    /// Packs all lists.
    pub fn flush_all(&mut self) -> Result<()> {
        self.owner.exclusive(|engine, stream, memory| {
            let counts = memory.counts()?;
            pack(engine, stream, memory, counts)
        })
    }

    /// Rehashes into another number of buckets.
    pub fn rehash(&mut self, buckets: u32) -> Result<()> {
        let (device, many) = (self.owner.device.clone(), self.many);
        self.owner.exclusive(|engine, stream, memory| {
            loop {
                let (heads, counters) = blank(&device, engine.shape().slab_bytes, buckets)?;
                let into = Parts::new(heads.pointer(), counters.pointer(), &memory.pool, buckets);
                let refused = device.zeroed::<u64>(1)?;
                // SAFETY: nothing else runs, and both the old and the new heads are alive.
                unsafe { copy(engine, stream, memory.parts(), into, many, refused.slice())? };
                let refused = refused.read()?[0] as usize;
                let obsolete = if refused == 0 { memory.parts() } else { into };
                // SAFETY: as above.
                unsafe { engine.task(stream, obsolete, Task::FlushAll { keep: false })? };
                device.synchronize()?;
                if refused == 0 {
                    (memory.heads, memory.counters, memory.buckets) = (heads, counters, buckets);
                    return Ok(());
                }
                let needed = memory.slabs_for(refused, engine.shape().slots);
                match memory.pool.grow(needed) {
                    Err(Error::TooManySlabs { .. }) => {
                        *memory = memory.moved(engine, stream, many, &[needed])?
                    }
                    grown => grown?,
                }
            }
        })
    }

    /// Checks all lists: see [`SlabHash::validate`](super::SlabHash::validate).
    pub fn validate(&self) -> Result<()> {
        let report = self.owner.device.zeroed::<u64>(4)?;
        self.task_alone(Task::Inspect { report: report.slice() })?;
        let found = report.read()?;
        let (live, pairs) = (self.stats()?.live as u64, self.pairs()? as u64);
        let problems = [
            (found[0] != live, format!("{live} slabs are live and {} are in lists", found[0])),
            (found[1] != 0, format!("{} lists have an empty slot before a taken one", found[1])),
            (found[2] != 0, format!("{} links lead to slabs that are not live", found[2])),
            (found[3] != pairs, format!("{pairs} pairs are counted and {} are in lists", found[3])),
        ];
        match problems.into_iter().find(|(is, _)| *is) {
            Some((_, problem)) => Err(Error::Invalid(problem)),
            None => Ok(()),
        }
    }
}

/// Copies the pairs of lists into others; with `many`, including several pairs of a key.
///
/// # Safety
/// - As for [`Launcher::rehash`](crate::map::launcher::Launcher::rehash).
unsafe fn copy<K: Key, V: Value>(
    engine: &dyn Engine<K, V>,
    stream: &Stream,
    from: Parts,
    into: Parts,
    many: bool,
    refused: GlobalSlice<u64>,
) -> gpu::Result<()> {
    // SAFETY: the caller's obligations.
    unsafe {
        if many {
            engine.task(stream, from, Task::AppendAll { into, refused })
        } else {
            engine.rehash(stream, from, into, refused)
        }
    }
}

/// Packs all lists, which then have no slots of removed pairs.
fn pack<K: Key, V: Value>(
    engine: &dyn Engine<K, V>,
    stream: &Stream,
    memory: &mut Memory,
    counts: Counts,
) -> Result<()> {
    // SAFETY: the caller has exclusive access to the lists.
    unsafe { engine.task(stream, memory.parts(), Task::FlushAll { keep: true })? };
    stream.synchronize()?;
    Counts { taken: counts.live, long: 0, ..counts }.write(&mut memory.counters)
}

impl<K: Key, V: Value> Structure for Lists<K, V> {
    type Key = K;
    type Value = V;

    fn home(&self) -> &Device {
        &self.owner.device
    }

    /// If a key may have several values, an insertion appends.
    fn launch(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        let Batch { op: ask, codes, keys, arguments, results, outcomes } = batch;
        match ask {
            BatchOp::Insert if self.many => {
                return self.task(stream, Task::Append { keys, values: arguments, outcomes });
            }
            BatchOp::Mixed if self.many => {
                return self.task(stream, Task::Mixed { codes, keys, arguments, results, outcomes });
            }
            _ => {}
        }
        self.owner.launch(stream, batch)
    }

    fn scans(&self, run: Scans<'_, K, V>) -> Result<()> {
        self.owner.scans(run)
    }

    fn generation(&self) -> u64 {
        self.owner.read().generation
    }

    fn grows(&self) -> bool {
        self.growth == Growth::Pool
    }

    /// Packs the lists if some are long because of removed pairs, and packing pays.
    fn grow(&self) -> Result<()> {
        let is_worn = |counts: Counts| counts.long > 0 && self.pays(counts);
        if !self.grows() || !is_worn(self.owner.read().counts()?) {
            return Ok(());
        }
        self.owner.exclusive(|engine, stream, memory| {
            let counts = memory.counts()?;
            // Another thread may have packed them already.
            if is_worn(counts) { pack(engine, stream, memory, counts) } else { Ok(()) }
        })
    }

    /// Frees slots by packing if there are more removed pairs than live and refused ones; otherwise adds
    /// slabs within the budget. Does nothing if the policy is [`Growth::Fixed`].
    fn grow_for(&self, refused: &[K], seen: Option<u64>) -> Result<Room> {
        if !self.grows() {
            return Ok(Room::None);
        }
        let refused = if self.many { refused.len() } else { distinct(refused) };
        self.owner.exclusive(|engine, stream, memory| {
            if seen.is_some_and(|age| age != memory.generation) {
                // Another thread has provided slots meanwhile, perhaps enough.
                return Ok(Room::More);
            }
            let counts = memory.counts()?;
            let room = if seen.is_some() && counts.removed() > refused.max(counts.live) {
                pack(engine, stream, memory, counts)?;
                Room::Freed
            } else {
                Room::more_if(memory.extend(engine, stream, self.many, refused)?)
            };
            memory.generation += u64::from(room != Room::None);
            Ok(room)
        })
    }

    fn pairs(&self) -> Result<usize> {
        Ok(self.owner.counts()?.live)
    }

    fn empty(&mut self) -> Result<()> {
        self.owner.exclusive(|engine, stream, memory| {
            // SAFETY: the lock excludes other launches, and all earlier ones have ended.
            unsafe { engine.task(stream, memory.parts(), Task::FlushAll { keep: false })? };
            stream.synchronize()?;
            Counts::default().write(&mut memory.counters)
        })
    }

    fn bytes(&self) -> usize {
        self.owner.read().bytes()
    }
}
