//! The memory of a map, and the way of a batch through it.
//!
//! ```text
//! 1  each chunk    copy keys in; lookups: find the hot pairs                               hot.rs
//!                  sort the other keys by shard, move the elements into this order
//! 2  each shard    execute its elements of all chunks, on the device or in place          serve.rs
//! 3  each chunk    move the results into the order of the batch, copy them out
//! ```
//!
//! If there is a chunk buffer for each chunk, the elements stay there between the steps. Those of larger
//! batches go to pinned memory, where the kernels of step 2 read and write them in place: the elements of a
//! shard in a chunk lie together. Step 3 looks up the keys of each chunk among the hot pairs again, which
//! have not changed, and sorts the others again: this costs less than to keep results and order. If no hot
//! pairs were looked up and a byte has room for the number of a shard, step 1 keeps these numbers, and step 3
//! sorts by them without the keys.
use super::chunk::{ChunkBuffer, Columns, Request, Routing, Spill, write_pinned};
use super::hot::HotPairs;
use super::ledger::{Ledger, Metered};
use super::placement::{Costs, Placement};
use super::plan::{CHUNK_BUFFERS, COUNTER_WORDS, Form, PLACES, Plan, Share};
use super::scattered::Rows;
use super::shard::{Image, Shard, Size, Spares};
use super::shards::{ImageSize, Shards, Tables};
use super::slots::Slots;
use super::staged::Stages;
use super::storage::Source;
use super::work::{Failure, Work};
use crate::hash_map::Growth;
use crate::map::encoding::Word;
use crate::map::launch::{Batch, nothing};
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream, Tier};
use simt::GlobalSlice;
use std::ops::Range;
use std::sync::Arc;

/// Words per shard of the sums of counters.
pub const SUM_WORDS: usize = 4;
/// Missed keys of a batch in pinned memory whose pairs are added to the hot ones, in chunks: enough to learn
/// which these are, and few compared with all copies of such a batch.
const LEARNED: usize = 4;

/// Most bits of shards of which elements keep theirs, in a byte.
const KEPT_BITS: u32 = 8;

/// Parameters of a map.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub growth: Growth,
    pub placement: Placement,
    pub costs: Costs,
    /// Bytes for hot pairs, if they are given.
    pub hot: Option<usize>,
}

/// Bytes and operations of all batches so far. The operations of a batch are those on the device, those in
/// place, those that ended at shards without pairs, and the lookups that found their keys among the hot
/// pairs.
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
    /// Those of `on_device` on shards that were on the device before. Lookups among them, like those of
    /// `hot_hits`, read no shard over the bus.
    pub resident: u64,
    /// Lookups among the hot pairs.
    pub hot_lookups: u64,
    /// Those that found their keys.
    pub hot_hits: u64,
    /// Lookups and removals of keys of shards without pairs. They end without an access to a shard.
    pub ended: u64,
    /// Bytes of shards that were read from a file, because kernels cannot access it.
    pub file_read: u64,
    /// Bytes of shards that were written to it.
    pub file_written: u64,
}

/// Stream and counters of operations in place.
pub struct Place {
    pub stream: Stream,
    pub counters: Metered<Buffer<u64>>,
}

/// An empty map, before it has memory for batches.
pub struct Empty<Z> {
    pub plan: Plan<Z>,
    pub shards: Vec<Shard<Z>>,
    pub spares: Spares,
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
    pub hot: HotPairs,
    pub places: Vec<Place>,
    /// Sums of the counters of each shard's operations, in pinned memory.
    pub sums: Buffer<u64>,
    pub spares: Spares,
    pub stages: Stages,
    pub spill: Spill<K, V>,
    pub traffic: Traffic,
    /// Whether kernels of a stream of the caller may use the table.
    pub is_submitted: bool,
    /// Rows of the shards for small batches, in pinned memory.
    pub rows: Rows,
}

impl<K: Word, V: Word, S: Shards<K, V>> Tiers<K, V, S> {
    /// Allocates an empty map.
    pub fn new(
        device: Device,
        (ledger, inner): (Arc<Ledger>, S),
        Empty { plan, shards, spares }: Empty<S::Size>,
        config: Config,
    ) -> Result<Self> {
        let buffers = chunk_buffers(&ledger, &device, (&plan, shards.len()))?;
        let places = (0..PLACES).map(|_| place(&ledger, &device)).collect::<Result<_>>()?;
        Ok(Self {
            slots: Slots::new(&ledger, &device, plan.slots, plan.size.words())?,
            hot: initial_hot_pairs((&ledger, &device), plan.hot, inner.division().seed())?,
            sums: device.buffer_on(Tier::Pinned, shards.len() * SUM_WORDS)?,
            shards,
            spares,
            stages: Stages::default(),
            spill: Spill::new(&device)?,
            traffic: Traffic::default(),
            is_submitted: false,
            rows: Rows::default(),
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
        let stages = self.spares.byte_len() + self.stages.byte_len();
        images + stages + self.spill.byte_len() + self.rows.byte_len() + self.inner.host_bytes()
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
        self.stages.clear();
        self.spill = Spill::new(&self.device)?;
        self.rows = Rows::default();
        self.inner.release()
    }

    /// Removes all pairs.
    pub fn clear(&mut self) -> Result<()> {
        self.finish_submitted()?;
        self.hot.clear()?;
        S::clear(self)
    }

    /// Runs a batch once. Returns the number of refused elements. Waits for all of its work, also if it
    /// fails.
    pub fn attempt(&mut self, request: &mut Request<'_, K, V>) -> Result<u64, Failure> {
        if request.len() == 0 {
            return Ok(0);
        }
        self.allocate()?;
        let ran = match self.plan.form {
            Form::Resident | Form::Flat => self.run_whole(request),
            Form::Sharded { .. } => match S::run_small(self, request) {
                Some(ran) => ran,
                None => self.run_pieces(request),
            },
        };
        if ran.is_err() {
            self.settle();
        }
        ran
    }

    /// Allocates chunk buffers, unless there are some, and hot pairs and slots, all as planned.
    pub fn allocate(&mut self) -> Result<()> {
        if !self.buffers.is_empty() {
            return Ok(());
        }
        let (ledger, device, plan) = (&self.ledger, &self.device, &self.plan);
        let buffers = chunk_buffers(ledger, device, (plan, self.shards.len()))?;
        self.hot = initial_hot_pairs((ledger, device), plan.hot, self.inner.division().seed())?;
        self.slots = Slots::new(ledger, device, plan.slots, plan.size.words())?;
        self.buffers = buffers;
        Ok(())
    }

    /// Frees what [`Self::allocate`] allocates.
    pub fn free_device_memory(&mut self) {
        (self.slots, self.hot, self.buffers) = (Slots::default(), HotPairs::default(), Vec::new());
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
        let mut table = self.raw_of_whole();
        let launch = |tiers: &Self, stream: &Stream, batch: Batch<K, V>| {
            // SAFETY: the table stays; `run_unsorted` keeps the batch.
            unsafe { tiers.inner.launch(stream, &mut table, batch.into()) }
        };
        self.run_unsorted(request, launch, |tiers, request| tiers.count_whole(request))
    }

    /// Runs a batch in its order, chunk by chunk: calls `launch` for each one, and `count` when all have
    /// ended. The batch is kept until the stream that `launch` is given has executed its work.
    pub fn run_unsorted(
        &mut self,
        request: &mut Request<'_, K, V>,
        mut launch: impl FnMut(&Self, &Stream, Batch<K, V>) -> Result<()>,
        count: impl FnOnce(&mut Self, &Request<'_, K, V>) -> Result<()>,
    ) -> Result<u64, Failure> {
        let (mut launched, mut chunks) = (0, self.chunks(request.len()).into_iter().enumerate());
        let submitted = chunks.try_for_each(|(index, range)| -> Result<()> {
            let buffer = &self.buffers[index % self.buffers.len()];
            buffer.stream.synchronize()?;
            let given = buffer.given(range.len());
            // SAFETY: the batch lives until the streams of the chunk buffers are waited for below or in
            // `settle`; nothing else uses the chunk buffer.
            unsafe {
                buffer.upload_keys(request, &range)?;
                buffer.upload_rest(request, &range)?;
                launch(self, &buffer.stream, given.batch(request.op, request.has()))?;
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
        let (refused, counted) = (self.refused(), count(self, request));
        submitted.and(counted).and(refused).map_err(|source: Error| {
            let outcomes = self.outcomes_of(request).unwrap_or_default();
            let is_done = |place: usize| place < launched && !request.is_refused(&outcomes, place);
            Failure::new(source, (0..request.len()).map(is_done).collect())
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
        self.note_operations(request.len(), self.plan.form == Form::Resident);
        if request.op.writes() {
            self.fold(0, 0)?;
            self.places[0].stream.synchronize()?;
            self.count(0);
        }
        Ok(())
    }

    /// Notes operations that were executed on shards.
    pub fn note_operations(&mut self, many: usize, on_device: bool) {
        let traffic = &mut self.traffic;
        *(if on_device { &mut traffic.on_device } else { &mut traffic.in_place }) += many as u64;
    }

    /// Runs a batch on shards.
    pub fn run_sharded(&mut self, request: &mut Request<'_, K, V>) -> Result<u64, Failure> {
        let (generation, work) = (self.generation(), self.partition(request)?);
        if request.on_device.is_none() {
            S::before_shards(self, request, &work)?;
        }
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
                self.refuse_spilled(request, &work, &done);
                let _ = self.collect(request, &work);
            }
            return Err(Failure::new(source, self.done_elements(request, &done)));
        }
        // The results are still there if their copy fails.
        let collected = self.collect(request, &work).or_else(|_| {
            self.settle();
            self.collect(request, &work)
        });
        let ended = collected.and_then(|refused| {
            self.adapt(&work)?;
            Ok(refused)
        });
        ended.map_err(|source| Failure::new(source, self.done_elements(request, &done)))
    }

    /// Sets the outcomes in the spill of elements that are not done to `Refused`: they have none yet.
    fn refuse_spilled(&mut self, request: &Request<'_, K, V>, work: &Work<S::Part>, done: &[bool]) {
        let chunks = self.chunks(request.len());
        if !self.is_spilled(&chunks) {
            return;
        }
        for (index, chunk) in chunks.iter().enumerate() {
            for shard in (0..self.shards.len()).filter(|shard| !done[index * self.shards.len() + shard]) {
                let [first, end] =
                    [shard, shard + 1].map(|bound| chunk.start + work.bounds[index][bound] as usize);
                self.spill.refuse(first..end);
            }
        }
    }

    /// Returns for each element whether it is done, from the shards of each chunk that are.
    fn done_elements(&self, request: &Request<'_, K, V>, done: &[bool]) -> Vec<bool> {
        if done.iter().all(|&is_done| !is_done) {
            return Vec::new();
        }
        let (Ok(keys), Ok(outcomes)) = (self.keys_of(request), self.outcomes_of(request)) else {
            return Vec::new();
        };
        let is_done = |index: usize, place: usize| {
            let shard = index * self.shards.len() + self.shard_of(keys[place]);
            done[shard] && !request.is_refused(&outcomes, place)
        };
        let chunks = self.chunks(request.len());
        let of_chunk = |(index, range): (usize, Range<usize>)| range.map(move |place| is_done(index, place));
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
            _ if self.spares.source().is_staged() || !self.inner.sorts_within() => false,
            Placement::AlwaysCopy => false,
            Placement::ByCost => !brings,
            _ => true,
        };
        Routing { bits, division, more: if may_be_in_place { pages.min(32 - bits) } else { 0 } }
    }

    /// Step 1: brings the elements into the order of the shards, and waits. While the hot pairs of a chunk
    /// are counted, the keys of the next one are copied in.
    fn partition(&mut self, request: &Request<'_, K, V>) -> Result<Work<S::Part>> {
        let (chunks, many) = (self.chunks(request.len()), self.buffers.len());
        if self.is_spilled(&chunks) {
            self.spill.reserve(request, self.bits() <= KEPT_BITS)?;
        }
        for buffer in &mut self.buffers {
            buffer.fit(self.shards.len())?;
        }
        let mut work = Work::new(request.op, (self.hot.begin(request.op), !self.hot.is_empty()));
        work.samples = self.hot.samples(request.op);
        for index in 0..=chunks.len() {
            if index >= many && index < chunks.len() {
                work.bounds.push(self.buffers[index % many].bounds()?);
            }
            if let Some(range) = chunks.get(index) {
                self.submit_chunk(request, (index, range), &mut work)?;
            }
            if index > 0 {
                self.arrange(request, (index - 1, &chunks), &mut work)?;
            }
        }
        for index in work.bounds.len()..chunks.len() {
            work.bounds.push(self.buffers[index % many].bounds()?);
        }
        if self.is_spilled(&chunks) {
            work.spilled = self.list_parts((request.op, request.has()), &work, &chunks)?;
        }
        Ok(work)
    }

    /// Submits the copy of a chunk to the device. Lookups then search the hot pairs; other operations remove
    /// their keys there, before any shard changes.
    fn submit_chunk(
        &mut self,
        request: &Request<'_, K, V>,
        (index, range): (usize, &Range<usize>),
        work: &mut Work<S::Part>,
    ) -> Result<()> {
        let many = self.buffers.len();
        let buffer = &mut self.buffers[index % many];
        work.filtered.push(work.looks);
        // SAFETY: the batch lives until the streams of the chunk buffers are waited for; nothing else uses
        // the chunk buffer. The hot pairs do not change while lookups run: pairs are added only when all
        // chunks of a batch are done.
        unsafe {
            buffer.upload_keys(request, range)?;
            buffer.upload_rest(request, range)?;
            if work.samples {
                self.hot.sample::<K, V>(&buffer.stream, buffer.given(range.len()).keys)?;
            }
            match (work.looks, work.writes) {
                (true, _) => buffer.look_up(&self.hot, request, (range.len(), true)),
                (_, true) => self.hot.forget::<K, V>(&buffer.stream, buffer.given(range.len()).keys),
                _ => Ok(()),
            }
        }
    }

    /// Submits the sort of the elements of a chunk that are not among the hot pairs.
    fn arrange(
        &mut self,
        request: &Request<'_, K, V>,
        (index, chunks): (usize, &[Range<usize>]),
        work: &mut Work<S::Part>,
    ) -> Result<()> {
        let (many, len, is_picked) = (self.buffers.len(), chunks[index].len(), work.filtered[index]);
        let missed = if is_picked { self.buffers[index % many].missed()? } else { len };
        if is_picked {
            work.note_missed(len, missed);
            (self.traffic.hot_lookups, self.traffic.hot_hits) =
                (self.traffic.hot_lookups + len as u64, self.traffic.hot_hits + (len - missed) as u64);
        }
        let columns = self.columns(chunks, index).part(0..missed);
        let routing = self.routing_of(request, (len, missed));
        let kept = self.kept_shards(chunks, index, (routing, is_picked));
        let spill = self.is_spilled(chunks).then_some(columns);
        let buffer = &mut self.buffers[index % many];
        // SAFETY: as in `submit_chunk`; nothing else uses the columns.
        unsafe {
            if missed > 0 {
                buffer.sort(missed, (routing, is_picked), kept)?;
                buffer.gather(request.has(), spill, missed)?;
                if request.op.places() && spill.is_none() {
                    buffer.refuse(columns.outcomes)?;
                }
            }
            buffer.find_bounds(missed, routing.bits)?;
        }
        work.push(columns.batch(request.op, request.has()).into(), missed);
        Ok(())
    }

    /// Returns how the keys of a chunk are sorted of which `missed` are not among the hot pairs.
    fn routing_of(&self, request: &Request<'_, K, V>, (len, missed): (usize, usize)) -> Routing<K> {
        let share = missed as f64 / len.max(1) as f64;
        self.routing((request.len() as f64 * share) as usize)
    }

    /// Returns whether the elements go to the spill: there is no chunk buffer for each chunk.
    fn is_spilled(&self, chunks: &[Range<usize>]) -> bool {
        chunks.len() > self.buffers.len()
    }

    /// Returns where the shards of a chunk's elements are kept for step 3; nothing if its keys are routed
    /// again.
    fn kept_shards(
        &self,
        chunks: &[Range<usize>],
        index: usize,
        (routing, is_picked): (Routing<K>, bool),
    ) -> GlobalSlice<u8> {
        match self.is_spilled(chunks) && !is_picked && routing.bits <= KEPT_BITS && routing.more == 0 {
            true => self.spill.shards(&chunks[index]),
            false => nothing(),
        }
    }

    /// Returns where the elements of a chunk are in the order of the shards.
    fn columns(&self, chunks: &[Range<usize>], index: usize) -> Columns<K, V> {
        match self.is_spilled(chunks) {
            true => self.spill.columns(chunks[index].clone()),
            false => self.buffers[index].moved(chunks[index].len()),
        }
    }

    /// Step 3: brings the results into the order of the batch. Returns the number of refused elements.
    fn collect(&mut self, request: &mut Request<'_, K, V>, work: &Work<S::Part>) -> Result<u64> {
        let (chunks, many) = (self.chunks(request.len()), self.buffers.len());
        let is_spilled = self.is_spilled(&chunks);
        for (index, range) in chunks.iter().enumerate() {
            let (missed, is_picked) = (work.lens[index], work.filtered[index]);
            let columns = self.columns(&chunks, index).part(0..missed);
            self.buffers[index % many].stream.synchronize()?;
            // SAFETY: as in `submit_chunk`.
            unsafe {
                if is_spilled {
                    self.sort_again(request, (&chunks, index), (missed, is_picked))?;
                }
                let buffer = &self.buffers[index % many];
                if missed > 0 {
                    buffer.scatter(request, is_spilled.then_some(columns), missed)?;
                }
                buffer.download(request, range)?;
            }
            if !is_spilled {
                self.learn(work, (&chunks, index))?;
            }
        }
        let refused = self.refused()?;
        if is_spilled && work.learns {
            // The hot pairs have been looked up in each chunk.
            let mut learned = work.last_chunks(LEARNED * self.plan.chunk);
            learned.try_for_each(|index| self.learn(work, (&chunks, index)))?;
            self.refused()?;
        }
        Ok(refused)
    }

    /// Submits the sort of a spilled chunk in the way of step 1: by the shards that it kept, or by the keys.
    ///
    /// # Safety
    /// - As for [`ChunkBuffer::upload_keys`].
    unsafe fn sort_again(
        &mut self,
        request: &Request<'_, K, V>,
        (chunks, index): (&[Range<usize>], usize),
        (missed, is_picked): (usize, bool),
    ) -> Result<()> {
        let (range, many) = (&chunks[index], self.buffers.len());
        let routing = self.routing_of(request, (range.len(), missed));
        let kept = self.kept_shards(chunks, index, (routing, is_picked));
        let buffer = &mut self.buffers[index % many];
        // SAFETY: the caller's obligations.
        unsafe {
            if !kept.is_empty() {
                return buffer.sort_kept(routing, kept);
            }
            buffer.upload_keys(request, range)?;
            if is_picked {
                buffer.look_up(&self.hot, request, (range.len(), false))?;
            }
            if missed > 0 { buffer.sort(missed, (routing, is_picked), nothing()) } else { Ok(()) }
        }
    }

    /// Submits the addition of the pairs that a chunk has found to the hot ones.
    fn learn(&mut self, work: &Work<S::Part>, (chunks, index): (&[Range<usize>], usize)) -> Result<()> {
        if !work.learns {
            return Ok(());
        }
        let columns = self.columns(chunks, index).part(0..work.lens[index]);
        let buffer = &self.buffers[index % self.buffers.len()];
        // SAFETY: no lookup of this batch still runs, and the stream is waited for.
        unsafe { self.hot.keep(&buffer.stream, columns.keys, (columns.results, columns.outcomes)) }
    }
}

/// Allocates the hot pairs of a plan.
fn initial_hot_pairs((ledger, device): (&Arc<Ledger>, &Device), share: Share, seed: u64) -> Result<HotPairs> {
    match share.most {
        0 => HotPairs::new(ledger, device, share.fixed, seed),
        most => HotPairs::default().sample_of((ledger, device), most, seed),
    }
}

/// Allocates the chunk buffers of a plan for so many shards.
fn chunk_buffers<K: Word, V: Word, Z>(
    ledger: &Arc<Ledger>,
    device: &Device,
    (plan, shards): (&Plan<Z>, usize),
) -> Result<Vec<ChunkBuffer<K, V>>> {
    let shards = if plan.form.is_sharded() { shards } else { 0 };
    (0..CHUNK_BUFFERS).map(|_| ChunkBuffer::new(ledger, device, plan.chunk, shards)).collect()
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
    (form, source): (Form, &Source),
    size: Size,
) -> Result<Image> {
    if form == Form::Resident {
        let mut memory = ledger.buffer(device, size.words)?;
        memory.fill_bytes(0xff)?;
        return Ok(Image::Device(memory));
    }
    source.empty_image(device, size.words)
}
