//! The memory of a map, and the way of a batch through it.
//!
//! ```text
//! 1  each chunk    copy keys in, sort by shard, move the elements into the order of the shards
//! 2  each shard    execute its elements of all chunks, on the device or in place          serve.rs
//! 3  each chunk    move the results into the order of the batch, copy them out
//! ```
//!
//! The elements of a batch of one chunk stay on the device between the steps. Those of several chunks go to
//! pinned memory, where the kernels of step 2 read and write them in place: the elements of a shard in a
//! chunk lie together. Step 3 sorts the keys of each chunk again, which costs less than to keep their order.
use super::chunk::{ChunkBuffer, Columns, Request, Routing, Spill, write_pinned};
use super::ledger::{Ledger, Metered};
use super::placement::{Costs, Placement};
use super::plan::{CHUNK_BUFFERS, COUNTER_WORDS, Form, PLACES, Plan};
use super::shard::{Image, Shard, Size, Spares};
use super::shards::{ImageSize, Part, Shards, Tables};
use super::slots::Slots;
use crate::hash_map::Growth;
use crate::map::encoding::Word;
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream, Tier};
use std::ops::Range;
use std::sync::Arc;

/// Words per shard of the sums of counters.
pub const SUM_WORDS: usize = 4;

/// Parameters of a map.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub growth: Growth,
    pub placement: Placement,
    pub costs: Costs,
}

/// Bytes and operations of all batches so far.
///
/// ```
/// use phalanx::TieredMap;
///
/// let map = TieredMap::<u32, u32>::builder().capacity(100).build()?;
/// assert!(map.insert(&[1], &[10])?.all_placed());
/// assert_eq!((map.traffic().copied_in, map.traffic().copied_out), (0, 0)); // it is on the device
/// # Ok::<(), phalanx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Bytes of shards that were copied to the device.
    pub copied_in: u64,
    /// Bytes of shards that were copied back.
    pub copied_out: u64,
    /// Operations on shards in device memory.
    pub on_device: u64,
    /// Operations in place, over the bus.
    pub in_place: u64,
}

/// Stream and counters of operations in place.
pub struct Place {
    pub stream: Stream,
    pub counters: Metered<Buffer<u64>>,
}

/// A batch that failed: the cause, and for each element whether it is done (empty if none is).
pub struct Failure {
    pub source: Box<Error>,
    pub done: Vec<bool>,
}

impl Failure {
    pub fn new(source: Error, done: Vec<bool>) -> Self {
        Self { source: Box::new(source), done }
    }
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(source: E) -> Self {
        Self::new(source.into(), Vec::new())
    }
}

/// A batch in the order of the shards.
pub struct Work<P> {
    /// The elements of each chunk.
    pub chunks: Vec<P>,
    /// For each chunk, the first element of each shard.
    pub bounds: Vec<Vec<u32>>,
    /// Whether the operation changes shards.
    pub writes: bool,
}

impl<P: Part> Work<P> {
    /// Returns the number of elements of a shard.
    pub fn elements_of(&self, shard: usize) -> usize {
        self.bounds.iter().map(|bounds| (bounds[shard + 1] - bounds[shard]) as usize).sum()
    }

    /// Returns the elements of a shard, by chunk.
    pub fn parts_of(&self, shard: usize) -> impl Iterator<Item = (usize, P)> {
        self.chunks.iter().zip(&self.bounds).enumerate().filter_map(move |(index, (chunk, bounds))| {
            let (first, end) = (bounds[shard] as usize, bounds[shard + 1] as usize);
            (first < end).then(|| (index, chunk.part(first, end - first)))
        })
    }
}

/// The memory of a map.
pub struct Tiers<K: Word, V: Word, S: Shards<K, V> = Tables<K, V>> {
    pub device: Device,
    /// The structure of which each shard is one.
    pub inner: S,
    pub ledger: Arc<Ledger>,
    pub config: Config,
    pub plan: Plan<S::Size>,
    pub shards: Vec<Shard<S::Size>>,
    pub buffers: Vec<ChunkBuffer<K, V>>,
    pub slots: Slots,
    pub places: Vec<Place>,
    /// Sums of the counters of each shard's operations, in pinned memory.
    pub sums: Buffer<u64>,
    pub spares: Spares,
    pub spill: Spill<K, V>,
    pub traffic: Traffic,
}

impl<K: Word, V: Word, S: Shards<K, V>> Tiers<K, V, S> {
    /// Allocates an empty map.
    pub fn new(
        device: Device,
        (ledger, inner): (Arc<Ledger>, S),
        (plan, shards): (Plan<S::Size>, Vec<Shard<S::Size>>),
        config: Config,
    ) -> Result<Self> {
        let sorted = if matches!(plan.form, Form::Sharded { .. }) { shards.len() } else { 0 };
        let buffer = |_| ChunkBuffer::new(&ledger, &device, plan.chunk, sorted);
        let buffers = (0..CHUNK_BUFFERS).map(buffer).collect::<Result<_>>()?;
        let places = (0..PLACES).map(|_| place(&ledger, &device)).collect::<Result<_>>()?;
        Ok(Self {
            slots: Slots::new(&ledger, &device, plan.slots, plan.size.words())?,
            sums: device.buffer_on(Tier::Pinned, shards.len() * SUM_WORDS)?,
            shards,
            spares: Spares::default(),
            spill: Spill::new(&device)?,
            traffic: Traffic::default(),
            device,
            inner,
            ledger,
            config,
            plan,
            buffers,
            places,
        })
    }

    /// Returns the bits that select a shard, and 0 without shards.
    pub fn bits(&self) -> u32 {
        self.inner.bits(self.plan.form)
    }

    /// Returns a number that changes when keys go to other shards.
    pub fn generation(&self) -> u64 {
        self.inner.generation(self.plan.form)
    }

    /// Returns the shard of a key.
    pub fn shard_of(&self, key: K) -> usize {
        self.inner.shard_of(self.plan.form, key)
    }

    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.counts.live).sum()
    }

    /// Returns the bytes of pinned, managed or mapped host memory.
    pub fn host_bytes(&self) -> usize {
        let images: usize = self.shards.iter().map(|shard| shard.image.host_bytes()).sum();
        images + self.spares.byte_len() + self.spill.byte_len() + self.inner.host_bytes()
    }

    /// Returns the table of a shard in place, with counters of the stream `place`.
    pub fn raw_in_place(&self, shard: usize, place: usize) -> S::Table {
        let (shard, counters) = (&self.shards[shard], self.places[place].counters.pointer());
        self.inner.table(shard, shard.image.words().as_ptr(), counters)
    }

    /// Returns the words for the sums of a shard's counters.
    pub fn sums_of(&self, shard: usize) -> simt::GlobalSlice<u64> {
        self.sums.global().part(SUM_WORDS * shard, SUM_WORDS)
    }

    /// Adds the sums of a shard's counters to its counts, and clears them. Its kernels must have ended.
    pub fn count(&mut self, shard: usize) {
        let Some(sums) = self.sums.host_pointer() else { return };
        let take = |word: usize| {
            // SAFETY: the words belong to a shard; its kernels have ended.
            unsafe {
                let word = sums.add(SUM_WORDS * shard + word);
                let sum = word.read_volatile();
                word.write_volatile(0);
                sum as usize
            }
        };
        let counts = &mut self.shards[shard].counts;
        counts.live = counts.live.wrapping_add(take(0));
        counts.taken = counts.taken.wrapping_add(take(1));
        counts.long = counts.long.wrapping_add(take(2));
    }

    /// Frees the memory for the elements of batches, and spare images.
    pub fn release(&mut self) -> Result<()> {
        self.spares.clear();
        self.spill = Spill::new(&self.device)?;
        self.inner.release()
    }

    /// Removes all pairs.
    pub fn clear(&mut self) -> Result<()> {
        S::clear(self)
    }

    /// Runs a batch once. Returns the number of refused elements. Waits for all of its work, also if it
    /// fails.
    pub fn attempt(&mut self, request: &mut Request<'_, K, V>) -> Result<u64, Failure> {
        if request.keys.is_empty() {
            return Ok(0);
        }
        self.allocate()?;
        let ran = match self.plan.form {
            Form::Resident | Form::Flat => self.run_whole(request),
            Form::Sharded { .. } => self.run_sharded(request),
        };
        if ran.is_err() {
            self.settle();
        }
        ran
    }

    /// Allocates chunk buffers, unless there are some, and slots, both as planned.
    pub fn allocate(&mut self) -> Result<()> {
        if !self.buffers.is_empty() {
            return Ok(());
        }
        let Plan { form, size, chunk, slots } = self.plan;
        let sorted = if matches!(form, Form::Sharded { .. }) { self.shards.len() } else { 0 };
        let buffer = |_| ChunkBuffer::new(&self.ledger, &self.device, chunk, sorted);
        self.buffers = (0..CHUNK_BUFFERS).map(buffer).collect::<Result<_>>()?;
        self.slots = Slots::new(&self.ledger, &self.device, slots, size.words())?;
        Ok(())
    }

    /// Waits for all work after a failure, and clears what it may have left.
    pub fn settle(&mut self) {
        // What fails now has failed before.
        let _ = self.device.synchronize();
        for place in &mut self.places {
            let _ = place.counters.fill_bytes(0);
        }
        self.slots.reset_counters();
        write_pinned(&mut self.sums, 0);
        for buffer in &mut self.buffers {
            let _ = buffer.refused();
        }
    }

    /// Returns the ranges of the chunks of a batch: of the same length, except the last one.
    pub fn chunks(&self, len: usize) -> Vec<Range<usize>> {
        let many = len.div_ceil(self.plan.chunk).max(1);
        let each = len.div_ceil(many).next_multiple_of(128).min(self.plan.chunk);
        (0..len).step_by(each.max(1)).map(|first| first..(first + each).min(len)).collect()
    }

    /// Runs a batch on a table without shards.
    fn run_whole(&mut self, request: &mut Request<'_, K, V>) -> Result<u64, Failure> {
        let (mut table, mut launched) = (self.raw_of_whole(), 0);
        let mut chunks = self.chunks(request.keys.len()).into_iter().enumerate();
        let submitted = chunks.try_for_each(|(index, range)| -> Result<()> {
            let buffer = &self.buffers[index % self.buffers.len()];
            buffer.stream.synchronize()?;
            let given = buffer.given(range.len());
            // SAFETY: the batch lives until the streams of the chunk buffers are waited for below or in
            // `settle`; the table stays, and nothing else uses the chunk buffer.
            unsafe {
                buffer.upload_keys(request, &range)?;
                buffer.upload_rest(request, &range)?;
                self.inner.launch(
                    &buffer.stream,
                    &mut table,
                    given.batch(request.op, request.has()).into(),
                )?;
                launched = range.end;
                let counted = buffer.count_refused(given.outcomes, request.as_bools);
                if request.as_bools && counted.is_err() {
                    // The outcomes are no booleans, which the caller's memory must have.
                    return counted;
                }
                // If it fails, a second attempt may tell which elements were refused.
                counted.and(buffer.download(request, &range).or_else(|_| buffer.download(request, &range)))
            }
        });
        let (refused, counted) = (self.refused(), self.count_whole(request));
        submitted.and(counted).and(refused).map_err(|source: Error| {
            let is_done = |place: usize| place < launched && !request.is_refused(place);
            Failure::new(source, (0..request.keys.len()).map(is_done).collect())
        })
    }

    /// Returns the one table of a map without shards.
    pub fn raw_of_whole(&self) -> S::Table {
        self.raw_in_place(0, 0)
    }

    /// Waits for the chunks, and returns the number of refused elements.
    fn refused(&mut self) -> Result<u64> {
        self.buffers.iter_mut().map(ChunkBuffer::refused).sum()
    }

    /// Counts the operations on a table without shards, also if some of them were not launched.
    fn count_whole(&mut self, request: &Request<'_, K, V>) -> Result<()> {
        self.note_operations(request.keys.len(), self.plan.form == Form::Resident);
        if request.op.writes() {
            self.fold(0, 0)?;
            self.places[0].stream.synchronize()?;
            self.count(0);
        }
        Ok(())
    }

    /// Notes operations that were executed.
    pub fn note_operations(&mut self, many: usize, on_device: bool) {
        let traffic = &mut self.traffic;
        *(if on_device { &mut traffic.on_device } else { &mut traffic.in_place }) += many as u64;
    }

    /// Runs a batch on shards.
    fn run_sharded(&mut self, request: &mut Request<'_, K, V>) -> Result<u64, Failure> {
        let (generation, work) = (self.generation(), self.partition(request)?);
        S::before_shards(self, request, &work)?;
        if self.generation() != generation {
            // The elements must go to other shards.
            return self.run_sharded(request);
        }
        let mut done = vec![false; work.chunks.len() * self.shards.len()];
        let served = self.serve(&work, &mut done);
        if let Err(source) = served {
            self.settle();
            if request.op.places() {
                // Tells which elements were refused.
                let _ = self.collect(request, &work);
            }
            return Err(Failure::new(source, self.done_elements(request, &done)));
        }
        // The results are still there if their copy fails.
        let collected = self.collect(request, &work).or_else(|_| {
            self.settle();
            self.collect(request, &work)
        });
        collected.map_err(|source| Failure::new(source, self.done_elements(request, &done)))
    }

    /// Returns for each element whether it is done, from the shards of each chunk that are.
    fn done_elements(&self, request: &Request<'_, K, V>, done: &[bool]) -> Vec<bool> {
        if done.iter().all(|&is_done| !is_done) {
            return Vec::new();
        }
        let chunks = self.chunks(request.keys.len());
        let of_chunk = |(index, range): (usize, Range<usize>)| {
            let shards = index * self.shards.len();
            range.map(move |place| {
                done[shards + self.shard_of(request.keys[place])] && !request.is_refused(place)
            })
        };
        chunks.into_iter().enumerate().flat_map(of_chunk).collect()
    }

    /// Returns how keys are sorted: by shard and, if operations will be in place, by bucket.
    pub fn routing(&self, len: usize) -> Routing<K> {
        let (bits, division) = (self.bits(), self.inner.division());
        // Pages of 64 KiB of an average shard, in which neighbouring accesses need one translation.
        let pages = (self.plan.size.byte_len() >> 16).max(1).next_power_of_two().trailing_zeros();
        let each = len >> bits;
        let brings = self.config.costs.brings(each, self.plan.size.byte_len(), (false, false));
        let may_be_in_place = match self.config.placement {
            Placement::AlwaysCopy => false,
            Placement::ByCost => !brings,
            _ => true,
        };
        Routing { bits, division, more: if may_be_in_place { pages.min(32 - bits) } else { 0 } }
    }

    /// Step 1: brings the elements into the order of the shards, and waits.
    fn partition(&mut self, request: &Request<'_, K, V>) -> Result<Work<S::Part>> {
        let (chunks, routing) = (self.chunks(request.keys.len()), self.routing(request.keys.len()));
        if chunks.len() > 1 {
            self.spill.reserve(request)?;
        }
        for buffer in &mut self.buffers {
            buffer.fit(self.shards.len())?;
        }
        let (many, mut batches, mut bounds) = (self.buffers.len(), Vec::new(), Vec::new());
        for (index, range) in chunks.iter().enumerate() {
            let columns = self.columns(&chunks, index);
            let buffer = &mut self.buffers[index % many];
            if index >= many {
                bounds.push(buffer.bounds()?);
            }
            // SAFETY: the batch lives until the streams of the chunk buffers are waited for; nothing else
            // uses the chunk buffer or the columns.
            unsafe {
                buffer.upload_keys(request, range)?;
                buffer.upload_rest(request, range)?;
                buffer.sort(range.len(), routing)?;
                buffer.find_bounds(range.len(), routing.bits)?;
                buffer.gather(request.has(), columns, range.len())?;
                if request.op.places() {
                    buffer.refuse(columns.outcomes)?;
                }
            }
            batches.push(columns.batch(request.op, request.has()).into());
        }
        for index in bounds.len()..chunks.len() {
            bounds.push(self.buffers[index % many].bounds()?);
        }
        Ok(Work { chunks: batches, bounds, writes: request.op.writes() })
    }

    /// Returns where the elements of a chunk are in the order of the shards.
    fn columns(&self, chunks: &[Range<usize>], index: usize) -> Columns<K, V> {
        match chunks.len() > 1 {
            true => self.spill.columns(chunks[index].clone()),
            false => self.buffers[0].moved(chunks[index].len()),
        }
    }

    /// Step 3: brings the results into the order of the batch. Returns the number of refused elements.
    fn collect(&mut self, request: &mut Request<'_, K, V>, work: &Work<S::Part>) -> Result<u64> {
        let (chunks, routing) = (self.chunks(request.keys.len()), self.routing(request.keys.len()));
        let (many, is_spilled) = (self.buffers.len(), work.chunks.len() > 1);
        for (index, range) in chunks.iter().enumerate() {
            let columns = self.columns(&chunks, index);
            let buffer = &mut self.buffers[index % many];
            buffer.stream.synchronize()?;
            // SAFETY: as in `partition`.
            unsafe {
                if is_spilled {
                    buffer.upload_keys(request, range)?;
                    buffer.sort(range.len(), routing)?;
                }
                buffer.scatter(request, columns, range.len())?;
                buffer.download(request, range)?;
            }
        }
        self.refused()
    }
}

/// Allocates a stream and counters.
fn place(ledger: &Arc<Ledger>, device: &Device) -> Result<Place> {
    let mut counters = ledger.buffer(device, COUNTER_WORDS)?;
    counters.fill_bytes(0)?;
    Ok(Place { stream: device.stream()?, counters })
}

/// Allocates an empty table of a form.
pub fn empty_image(
    device: &Device,
    ledger: &Arc<Ledger>,
    (form, config): (Form, Config),
    size: Size,
) -> Result<Image> {
    match (form, config.placement) {
        (Form::Resident, _) => {
            let mut memory = ledger.buffer(device, size.words)?;
            memory.fill_bytes(0xff)?;
            Ok(Image::Device(memory))
        }
        (_, Placement::Managed) => Image::empty_host(device, Tier::Managed, size),
        _ => Image::empty_host(device, Tier::Pinned, size),
    }
}
