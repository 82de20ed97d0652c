//! The memory of lists and what is done with them as a whole, whatever the structure on top calls it.
use super::engine::{Engine, Parts, Task};
use crate::error::made_room;
use crate::map::counts::{Counts, distinct};
use crate::map::launch::{Ask, Batch};
use crate::map::owner::{self, Memory as _, Owner};
use crate::map::structure::{Room, Scans, Structure};
use crate::slab_alloc::{SlabAlloc, Stats};
use crate::{Error, Key, Result, Value};
use gpu::{Buffer, Device, Stream};
use phalanx_kernels::keyed::{STRIPE_WORDS, STRIPES};
use phalanx_kernels::slab::list::LONG;
use simt::GlobalSlice;

/// What a structure does when its pool has no slab left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Nothing: what finds no room is refused.
    Fixed,
    /// A blocking call that was refused room packs the lists, if more pairs were removed than there are, else
    /// it adds super blocks to the pool, by half of what it has at least and up to the budget; then it tries
    /// again what was refused. Of a pool that has 255 the lists move, packed, to one of larger super blocks,
    /// which needs room for both while it lasts. One that has made a list long (64 slabs) packs the lists if
    /// removed pairs are the reason. The number of buckets stays. A call that finds no memory for what was
    /// refused is [`Error::NoRoom`].
    Pool,
}

/// Lists in device memory.
pub struct Lists<K, V> {
    pub owner: Owner<dyn Engine<K, V>, Memory>,
    growth: Growth,
    /// Whether a key may have many values.
    many: bool,
}

/// The buffers of lists.
#[derive(Debug)]
pub struct Memory {
    heads: Buffer<u64>,
    tallies: Buffer<u64>,
    buckets: u32,
    pub pool: SlabAlloc,
    /// How often the pool has grown.
    age: u64,
}

impl Memory {
    pub fn new(device: &Device, slab_bytes: usize, buckets: u32, pool: SlabAlloc) -> Result<Self> {
        let (heads, tallies) = blank(device, slab_bytes, buckets)?;
        Ok(Self { heads, tallies, buckets, pool, age: 0 })
    }

    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    pub fn bytes(&self) -> usize {
        self.heads.bytes() + self.tallies.bytes() + self.pool.memory_usage()
    }

    /// The lists, packed, in a pool of larger super blocks with the first of so many slabs `more` that there
    /// is memory for. Where nothing runs.
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
        // SAFETY: nothing else runs, nobody else knows of the new lists, and both live until the count is
        // read.
        unsafe { copy(engine, stream, self.parts(), into.parts(), many, refused.slice())? };
        match refused.read()?[0] as usize {
            0 => Ok(Self { age: self.age, ..into }),
            left_over => Err(Error::DoesNotFit { left_over, pairs: live }),
        }
    }

    /// Adds slabs to the pool for so many `refused` elements, or moves the lists into a pool of larger super
    /// blocks where this one has all that it may have. Where nothing runs. Returns whether there was memory.
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

    /// By how many slabs the pool is to grow after so many elements were refused: by half of what it has at
    /// least.
    fn slabs_for(&self, refused: usize, slots: usize) -> usize {
        refused.div_ceil(slots).max(self.pool.capacity() / 2)
    }
}

impl owner::Memory for Memory {
    type Parts = Parts;

    fn parts(&self) -> Parts {
        Parts::new(self.heads.pointer(), self.tallies.pointer(), &self.pool, self.buckets)
    }

    fn counts(&self) -> Result<Counts> {
        Counts::read(&self.tallies)
    }
}

/// Blank heads, and counters of nothing.
fn blank(device: &Device, slab_bytes: usize, buckets: u32) -> Result<(Buffer<u64>, Buffer<u64>)> {
    let words = (buckets as usize + 1) * slab_bytes / 8;
    Ok((device.filled(words, 0xff)?, device.zeroed(STRIPES * STRIPE_WORDS)?))
}

impl<K: Key, V: Value> Lists<K, V> {
    pub fn new(owner: Owner<dyn Engine<K, V>, Memory>, growth: Growth, many: bool) -> Self {
        Self { owner, growth, many }
    }

    /// Asks a stream for a task that may run beside others.
    pub fn task(&self, stream: &Stream, task: Task<K, V>) -> Result<()> {
        let memory = self.owner.read();
        // SAFETY: as in `Owner::launch`.
        unsafe { self.owner.engine.task(stream, memory.parts(), task)? };
        Ok(())
    }

    fn task_alone(&self, task: Task<K, V>) -> Result<()> {
        // SAFETY: the lock keeps other launches out, and those asked for before have ended; the slices
        // outlive this call.
        self.owner.alone(|engine, stream, memory| unsafe { Ok(engine.task(stream, memory.parts(), task)?) })
    }

    /// Whether there are enough slots of removed pairs for a flush of all lists.
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
        self.owner.alone(|engine, stream, memory| {
            let counts = memory.counts()?;
            pack(engine, stream, memory, counts)
        })
    }

    /// Moves the pairs into another number of buckets.
    pub fn rehash(&mut self, buckets: u32) -> Result<()> {
        let (device, many) = (self.owner.device.clone(), self.many);
        self.owner.alone(|engine, stream, memory| {
            loop {
                let (heads, tallies) = blank(&device, engine.shape().slab_bytes, buckets)?;
                let into = Parts::new(heads.pointer(), tallies.pointer(), &memory.pool, buckets);
                let refused = device.zeroed::<u64>(1)?;
                // SAFETY: nothing else runs, and the old heads and the new live.
                unsafe { copy(engine, stream, memory.parts(), into, many, refused.slice())? };
                let refused = refused.read()?[0] as usize;
                let obsolete = if refused == 0 { memory.parts() } else { into };
                // SAFETY: as above.
                unsafe { engine.task(stream, obsolete, Task::FlushAll { keep: false })? };
                device.synchronize()?;
                if refused == 0 {
                    (memory.heads, memory.tallies, memory.buckets) = (heads, tallies, buckets);
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

    /// Examines all lists: see [`SlabHash::validate`](super::SlabHash::validate).
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

/// Copies the pairs of some lists into others, all of them where a key may have `many`.
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
    // SAFETY: the caller's promises.
    unsafe {
        if many {
            engine.task(stream, from, Task::AppendAll { into, refused })
        } else {
            engine.rehash(stream, from, into, refused)
        }
    }
}

/// Packs all lists, which then have no removed pairs.
fn pack<K: Key, V: Value>(
    engine: &dyn Engine<K, V>,
    stream: &Stream,
    memory: &mut Memory,
    counts: Counts,
) -> Result<()> {
    // SAFETY: the caller holds the lists alone.
    unsafe { engine.task(stream, memory.parts(), Task::FlushAll { keep: true })? };
    stream.synchronize()?;
    Counts { taken: counts.live, long: 0, ..counts }.write(&mut memory.tallies)
}

impl<K: Key, V: Value> Structure for Lists<K, V> {
    type Key = K;
    type Value = V;

    fn home(&self) -> &Device {
        &self.owner.device
    }

    /// An insertion appends where a key may have many values.
    fn launch(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        let Batch { ask, codes, keys, arguments, results, outcomes } = batch;
        match ask {
            Ask::Insert if self.many => {
                return self.task(stream, Task::Append { keys, values: arguments, outcomes });
            }
            Ask::Mixed if self.many => {
                return self.task(stream, Task::Mixed { codes, keys, arguments, results, outcomes });
            }
            _ => {}
        }
        self.owner.launch(stream, batch)
    }

    fn scans(&self, run: Scans<'_, K, V>) -> Result<()> {
        self.owner.scans(run)
    }

    fn age(&self) -> u64 {
        self.owner.read().age
    }

    fn grows(&self) -> bool {
        self.growth == Growth::Pool
    }

    /// Packs the lists if removed pairs have made some long, and are enough to pay for it.
    fn make_room(&self) -> Result<()> {
        let is_worn = |counts: Counts| counts.long > 0 && self.pays(counts);
        if !self.grows() || !is_worn(self.owner.read().counts()?) {
            return Ok(());
        }
        self.owner.alone(|engine, stream, memory| {
            let counts = memory.counts()?;
            // Another thread may have been here first.
            if is_worn(counts) { pack(engine, stream, memory, counts) } else { Ok(()) }
        })
    }

    /// Makes room for what was refused, if that is the policy: by a flush where removed pairs hold as much as
    /// is asked for, else by more slabs, as far as the budget allows. Returns whether it is worth trying
    /// again.
    fn make_room_for(&self, refused: &[K], seen: Option<u64>) -> Result<Room> {
        if !self.grows() {
            return Ok(Room::None);
        }
        let refused = if self.many { refused.len() } else { distinct(refused) };
        self.owner.alone(|engine, stream, memory| {
            if seen.is_some_and(|age| age != memory.age) {
                // Another thread has made room meanwhile, perhaps for all.
                return Ok(Room::More);
            }
            let counts = memory.counts()?;
            let room = if seen.is_some() && counts.removed() > refused.max(counts.live) {
                pack(engine, stream, memory, counts)?;
                Room::Freed
            } else {
                Room::more_if(memory.extend(engine, stream, self.many, refused)?)
            };
            memory.age += u64::from(room != Room::None);
            Ok(room)
        })
    }

    fn pairs(&self) -> Result<usize> {
        Ok(self.owner.counts()?.live)
    }

    fn empty(&mut self) -> Result<()> {
        self.owner.alone(|engine, stream, memory| {
            // SAFETY: the lock keeps other launches out, and those asked for before have ended.
            unsafe { engine.task(stream, memory.parts(), Task::FlushAll { keep: false })? };
            stream.synchronize()?;
            Counts::default().write(&mut memory.tallies)
        })
    }

    fn bytes(&self) -> usize {
        self.owner.read().bytes()
    }
}
