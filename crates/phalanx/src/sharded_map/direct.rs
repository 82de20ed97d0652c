//! Batches whose messages and answers kernels write straight into the windows of other ranks.
//!
//! A chunk has at most as many elements as a message has room for, so that no count is needed before it is
//! sent. No rank copies anything: the partition writes requests where their owners read them, and the shard's
//! kernels write answers where the ranks collect them.
//!
//! # Order of work
//!
//! The shard's operations on elements of other ranks are in the exchange's stream, those on own elements in
//! another one, and all else in the side stream. Two streams of probes, because the last blocks of a launch
//! leave most of the device idle. If there is one chunk, all three are the exchange's. Once per chunk, each
//! rank tells the others points in the order of its streams.
//!
//! ```text
//! exchange's   probe(q) of others               probe(q+1) of others
//! own          probe(q) of own                  probe(q+1) of own
//! side         send(q+1)      collect(q-1)      send(q+2)      collect(q)
//! ```
//!
//! | work | comes after, on all ranks | because |
//! |---|---|---|
//! | `send(0)` | all work before the batch | the windows are free |
//! | `send(q+1)` | `probe(q-1)` | two windows of requests alternate |
//! | `probe(q)` | `send(q)` | the requests are there |
//! | `probe(q)` | `collect(q-2)` | two halves of the windows of answers alternate |
//! | `collect(q)` | `probe(q)` | the answers are there |
//!
//! Places have three buffers: those of a chunk are used until its `collect`, before which `send` writes those
//! of the two chunks after it. While the shard probes a chunk, the host waits for the counts of the next one,
//! and sends them to the other ranks, which then launch as many threads as there are elements. If there is
//! one small chunk, the host waits for nothing, and the owners read the counts in the memory of the senders.
use super::engine::Engine;
use super::geometry::{Geometry, MOST_CHUNK, direct_begin, direct_chunk};
use super::shape::Shape;
use super::small;
use super::stages::Stage;
use super::steps::Step;
use super::work::{host_words, words_at};
use crate::map::encoding::Word;
use crate::map::launch::Batch;
use crate::map::structure::Structure;
use crate::{Error, Result};
use exchange::{Lane, Transfer};
use gpu::{Buffer, Device, Event, Grid, Stream, Tier};
use phalanx_kernels::sharded::direct::{
    COUNTER_WORDS, Received, SEND_THREADS, SENT_BY_BLOCK, ShardedReceive, ShardedSend, Windows, header, room,
    words_of_places,
};
use phalanx_kernels::sharded::{PIECE, Pair, UNIT};
use simt::{BoundedSlice, GlobalSlice};
use std::sync::Arc;

/// Blocks on each multiprocessor that send a chunk while the shard probes another one. They wait for the link
/// most of the time: more of them would take the place of probes, and send no faster.
const SHARED_BLOCKS: u32 = 2;

/// Chunks that are sent while little else runs.
const FIRST: usize = 3;

/// Memory for batches whose messages kernels write.
pub struct Direct {
    /// For both lanes of requests, the addresses of this rank's messages in the windows of all ranks.
    messages: [Buffer<u64>; 2],
    /// Places of the elements of three chunks.
    places: [Buffer<u32>; 3],
    /// Counters of two chunks, in pinned memory.
    counts: [Buffer<u32>; 2],
}

impl Direct {
    /// Returns the bytes of device memory.
    pub fn memory_usage(&self) -> usize {
        let messages = self.messages.iter().map(Buffer::byte_len).sum::<usize>();
        messages + self.places.iter().map(Buffer::byte_len).sum::<usize>()
    }

    /// Returns whether [`reserve`](Self::reserve) replaces memory: dropping it waits for the device.
    pub fn replaces(&self, len: usize) -> bool {
        self.places.iter().any(|places| !places.is_empty() && places.len() < len)
    }

    /// Provides `len` words for the places of a chunk.
    pub fn reserve(&mut self, device: &Device, len: usize) -> Result<()> {
        for places in self.places.iter_mut().filter(|places| places.len() < len) {
            *places = device.buffer(len)?;
        }
        Ok(())
    }
}

/// Sizes of a batch, the same on all ranks.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// Elements that a message has room for.
    room: usize,
    /// Elements of all chunks but those at both ends, which are shorter.
    chunk: usize,
    /// Elements of the longest batch.
    longest: usize,
    chunks: usize,
    /// Whether the host learns the counts.
    is_counted: bool,
}

impl Extent {
    /// Returns the first element of a chunk, and of the end of the last.
    fn begin(&self, number: usize) -> usize {
        direct_begin(self.longest, self.chunk, number)
    }
}

/// Number of elements from each rank to each.
type Counts = Vec<Vec<u64>>;

impl<K: Word, V: Word> Engine<K, V> {
    /// Prepares batches whose messages kernels write, if that is possible on all ranks.
    pub fn connect_windows(&mut self) -> Result<()> {
        let can_write = self.exchange.windows(Lane::Even)?.is_some();
        if self.exchange_numbers(Step::Windows, [can_write.into()])?.contains(&[0]) {
            return Ok(());
        }
        let (device, words) = (self.exchange.device().clone(), self.geometry.ranks * COUNTER_WORDS);
        let pinned = || device.buffer_on(Tier::Pinned, words);
        let messages = [self.messages_in(Lane::Even)?, self.messages_in(Lane::Odd)?];
        let places = [device.buffer(0)?, device.buffer(0)?, device.buffer(0)?];
        self.direct = Some(Direct { messages, places, counts: [pinned()?, pinned()?] });
        Ok(())
    }

    /// Returns the addresses of the first keys of this rank's messages in the windows of all ranks.
    fn messages_in(&self, lane: Lane) -> Result<Buffer<u64>> {
        let begin = self.geometry.rank * self.exchange.limits().part_bytes + header(self.geometry.ranks);
        let windows = self.exchange.windows(lane)?.unwrap_or_default();
        let address =
            |window: &gpu::Slice<'_, u8>| (window.global().as_ptr().expose_provenance() + begin) as u64;
        let addresses: Vec<u64> = windows.iter().map(address).collect();
        Ok(self.exchange.device().from_slice(&addresses)?)
    }

    /// Returns the elements that a message has room for if kernels write it; `None` if they do not.
    pub fn direct_room(&self, shape: &Shape) -> Option<usize> {
        self.direct.as_ref()?;
        let part = self.exchange.limits().part_bytes;
        let answers = part / 2 / shape.answer_bytes(1);
        let room = room(part, self.geometry.ranks, shape.sent).min(answers / UNIT * UNIT);
        (room >= PIECE).then_some(room)
    }

    /// Provides the memory for a batch of `len` elements whose messages kernels write.
    pub fn prepare_direct(&mut self, len: usize, room: usize) -> Result<()> {
        let len = words_of_places(len.min(room).min(MOST_CHUNK), self.geometry.ranks);
        if self.direct.as_ref().is_some_and(|direct| direct.replaces(len)) {
            // With a deadline, which the wait of an allocation has not.
            self.exchange.wait()?;
        }
        let device = self.exchange.device().clone();
        self.direct.as_mut().map_or(Ok(()), |direct| direct.reserve(&device, len))
    }

    /// Runs a batch whose messages kernels write. `longest` is the length of the longest batch of all ranks,
    /// and `ready` the points of all ranks from which on their windows are free.
    pub fn run_direct(
        &mut self,
        shard: &dyn Structure<Key = K, Value = V>,
        (shape, batch): (&Shape, &Batch<K, V>),
        (longest, room): (usize, usize),
        ready: Transfer,
    ) -> Result<()> {
        let chunk = direct_chunk(longest, room);
        let chunks = (0..).take_while(|&number| direct_begin(longest, chunk, number) < longest).count();
        let is_counted = chunks > 1 || longest > small::MOST;
        let extent = Extent { room, chunk, longest, chunks, is_counted };
        let main = self.exchange.stream().clone();
        let streams = [&main, &self.side, &self.own].map(|stream| if chunks == 1 { &main } else { stream });
        let [_, side, own] = streams.map(Stream::clone);
        self.exchange.arrive_in(&side, ready)?;
        if extent.is_counted {
            self.report.chunks = chunks;
        }
        let direct = self.direct.take().ok_or(Error::NotReadable)?;
        let (engine, collected) = (self, None);
        let mut chunked =
            ChunkedBatch { engine, direct, shard, shape, batch, extent, main, side, own, collected };
        let ran = chunked.run();
        // Also after an error: later work may use the same buffers.
        let joined = chunked.join();
        let ChunkedBatch { engine, direct, .. } = chunked;
        engine.direct = Some(direct);
        ran.and(joined)
    }
}

/// A batch of which chunks are in flight.
struct ChunkedBatch<'a, K, V> {
    engine: &'a mut Engine<K, V>,
    direct: Direct,
    shard: &'a dyn Structure<Key = K, Value = V>,
    shape: &'a Shape,
    batch: &'a Batch<K, V>,
    extent: Extent,
    main: Stream,
    side: Stream,
    /// Stream of the operations of this rank's own elements.
    own: Stream,
    /// Point after the last answers that have been collected.
    collected: Option<Arc<Event>>,
}

/// Points after what a rank has submitted last, or all ranks have.
struct Points<T> {
    /// Messages.
    sent: Option<T>,
    /// Operations of the shard.
    probed: Option<T>,
    /// Answers in the order of the batch.
    collected: Option<T>,
}

impl<K: Word, V: Word> ChunkedBatch<'_, K, V> {
    /// Runs all chunks, in the order that the module describes.
    fn run(&mut self) -> Result<()> {
        let chunks = self.extent.chunks;
        let mut own = self.send(0)?;
        let first = Points { sent: Some(own.clone()), probed: None, collected: None };
        let (mut counts, mut all) = self.agree(Some(0), first)?;
        for number in 0..chunks {
            self.arrive(Stage::Answers, all.probed.take())?;
            let next = (number + 1 < chunks).then(|| self.send(number + 1)).transpose()?;
            let probed = self.probe((number, &own), &mut all, &counts)?;
            let collects = number > 0 && self.shape.has_answers;
            let collected = collects.then(|| self.collect(number - 1)).transpose()?;
            if next.is_none() && !self.shape.has_answers {
                return Ok(()); // the next batch waits for these probes
            }
            let points = Points { sent: next.clone(), probed: Some(probed), collected };
            (counts, all) = self.agree(next.as_ref().map(|_| number + 1), points)?;
            own = next.unwrap_or(own);
        }
        self.arrive(Stage::Answers, all.probed.take())?;
        self.collect(chunks - 1).map(drop)
    }

    /// Makes the exchange's stream wait for the others.
    fn join(&self) -> Result<()> {
        let others = [&self.side, &self.own].into_iter().filter(|stream| **stream != self.main);
        let joined: Vec<Result<()>> = others.map(|stream| Ok(self.main.wait(&stream.point()?)?)).collect();
        joined.into_iter().collect()
    }

    /// Makes the side stream wait for points of all ranks.
    fn arrive(&mut self, stage: Stage, points: Option<Transfer>) -> Result<()> {
        let (Some(points), Engine { clock, exchange, .. }) = (points, &mut *self.engine) else {
            return Ok(());
        };
        let begin = clock.begin(&self.side)?;
        exchange.arrive_in(&self.side, points)?;
        clock.end(stage, begin)
    }

    /// Returns this rank's elements of a chunk.
    fn chunk(&self, number: usize) -> Batch<K, V> {
        let begin = self.extent.begin(number);
        self.batch.part(begin, self.extent.begin(number + 1) - begin)
    }

    /// Returns the windows of a lane of all ranks.
    fn windows(&self, lane: Lane) -> Result<Vec<gpu::Slice<'_, u8>>> {
        self.engine.exchange.windows(lane)?.ok_or(Error::NotReadable)
    }

    /// Returns the counters of a rank's messages of a chunk.
    fn counters(&self, number: usize, rank: usize) -> Result<GlobalSlice<u32>> {
        let (ranks, part) = (self.engine.geometry.ranks, self.engine.exchange.limits().part_bytes);
        let window = self.windows(Lane::request(number))?[rank].global();
        Ok(words_at(window, rank * part, ranks * COUNTER_WORDS))
    }

    /// Submits the partition of a chunk into the windows of all ranks. Returns the point after it.
    fn send(&mut self, number: usize) -> Result<Arc<Event>> {
        let (counters, part) = (self.counters(number, self.engine.geometry.rank)?, self.chunk(number));
        let Self { engine: Engine { clock, geometry, .. }, direct, .. } = self;
        let begin = clock.begin(&self.side)?;
        let (messages, keys) = (direct.messages[number % 2].global(), part.keys.words());
        let kernel = ShardedSend::<Pair<K, V>> {
            keys,
            values: part.arguments,
            windows: Windows {
                owners: geometry.ranks as u32,
                room: self.extent.room as u32,
                messages,
                counters,
            },
            places: direct.places[number % 3].global(),
        };
        let shared = SHARED_BLOCKS * self.side.device().multiprocessors();
        let most = if number < FIRST { u32::MAX } else { shared };
        let grid = Grid::new((keys.len().div_ceil(SENT_BY_BLOCK) as u32).min(most), SEND_THREADS);
        // SAFETY: the buffers of the batch and this rank's live until the stream has executed the work. So do
        // the windows of all ranks, which this rank owns, too, until its streams have ended; the device can
        // access them, as `connect_windows` has made sure. Each message has room for all elements of the
        // chunk, and each element a place. What used the windows before has ended: the stream has waited for
        // the points of all ranks.
        unsafe { self.side.fill(counters, 0)? };
        if !keys.is_empty() {
            // SAFETY: as above.
            unsafe { self.side.launch(grid, kernel)? };
        }
        if self.extent.is_counted {
            // SAFETY: as above; the counts have as many words, and the host reads them after a wait.
            unsafe { self.side.copy(direct.counts[number % 2].global(), counters)? };
        }
        clock.end(Stage::Partition, begin)?;
        Ok(Arc::new(self.side.point()?))
    }

    /// Exchanges points with all ranks, and the counts of a chunk if this rank has sent one and the host
    /// learns counts. Returns the counts and points of all ranks.
    fn agree(&mut self, sent: Option<usize>, own: Points<Arc<Event>>) -> Result<(Counts, Points<Transfer>)> {
        let mut counts = Vec::new();
        if let (Some(number), Some(point), true) = (sent, &own.sent, self.extent.is_counted) {
            self.engine.exchange.wait_for(point)?;
            // SAFETY: the device has written the words, and does not do so before the next chunk but one.
            let words = unsafe { host_words(&self.direct.counts[number % 2]) };
            counts.extend(words.iter().step_by(COUNTER_WORDS).map(|&count| u64::from(count)));
        }
        let own = [own.sent, own.probed, own.collected];
        let has = own.each_ref().map(Option::is_some);
        let (counts, all) = self.engine.exchange.agree_at(&counts, own.into_iter().flatten().collect())?;
        if let Some(number) = sent {
            self.check(number, &counts)?;
            self.note(&counts);
        }
        let mut all = all.into_iter();
        let [sent, probed, collected] = has.map(|has| if has { all.next() } else { None });
        Ok((counts, Points { sent, probed, collected }))
    }

    /// Returns an error unless the counts of a chunk, if the host learns them, are possible.
    fn check(&self, number: usize, counts: &Counts) -> Result<()> {
        if !self.extent.is_counted {
            return Ok(());
        }
        let (own, most) = (self.chunk(number).keys.max_len() as u64, self.extent.chunk as u64);
        for (rank, row) in counts.iter().enumerate() {
            let found = row.iter().sum();
            let expected = if rank == self.engine.geometry.rank { own } else { most.min(found) };
            if found != expected {
                return Err(exchange::Error::Damaged { rank, found, expected }.into());
            }
        }
        Ok(())
    }

    /// Counts the bytes of a chunk that move. Where the host does not learn the counts, these are the
    /// requests of all elements.
    fn note(&mut self, counts: &Counts) {
        let (rank, ranks) = (self.engine.geometry.rank, self.engine.geometry.ranks);
        if ranks == 1 {
            return;
        }
        let (mut sent, mut received) = (self.batch.keys.max_len(), 0);
        if self.extent.is_counted {
            let count = |from: usize, to: usize| if from == to { 0 } else { counts[from][to] as usize };
            sent = (0..ranks).map(|to| count(rank, to)).sum();
            received = (0..ranks).map(|from| count(from, rank)).sum();
            let moves = (0..ranks).any(|from| (0..ranks).any(|to| count(from, to) > 0));
            let report = &mut self.engine.report;
            report.rounds += usize::from(moves);
            report.sent += sent;
            report.received += received;
        }
        let (key, argument) = self.shape.sent;
        let answers = if self.shape.has_answers { self.shape.answer_bytes(received) } else { 0 };
        self.engine.exchange.count_round(sent * (key + argument) + answers);
    }

    /// Submits the operations of the elements of a chunk from all ranks: the own ones, which `own` follows,
    /// and those of the others, which the points of `all` follow. Returns the point after them.
    fn probe(
        &mut self,
        (number, own): (usize, &Event),
        all: &mut Points<Transfer>,
        counts: &Counts,
    ) -> Result<Arc<Event>> {
        let (main, rank, ranks) = (self.main.clone(), self.engine.geometry.rank, self.engine.geometry.ranks);
        if self.side != main {
            self.own.wait(own)?;
        }
        if let Some(collected) = &self.collected {
            self.own.wait(collected)?;
        }
        let begin = self.engine.clock.begin(&self.own)?;
        self.probe_from((number, rank), counts, &self.own)?;
        self.engine.clock.end(Stage::Probe, begin)?;
        let begin = self.engine.clock.begin(&main)?;
        for points in [all.collected.take(), all.sent.take()].into_iter().flatten() {
            self.engine.exchange.arrive_in(&main, points)?;
        }
        self.engine.clock.end(Stage::Arrival, begin)?;
        let begin = self.engine.clock.begin(&main)?;
        for from in (1..ranks).map(|shift| (rank + ranks - shift) % ranks) {
            self.probe_from((number, from), counts, &main)?;
        }
        self.engine.clock.end(Stage::Probe, begin)?;
        if self.own != main {
            main.wait(&self.own.point()?)?;
        }
        Ok(Arc::new(main.point()?))
    }

    /// Submits the operations of the elements of a chunk from a rank, into whose window the answers go.
    fn probe_from(&self, (number, from): (usize, usize), counts: &Counts, stream: &Stream) -> Result<()> {
        let Extent { room, chunk, is_counted, .. } = self.extent;
        let (Geometry { rank, ranks, .. }, exchange) = (self.engine.geometry, &self.engine.exchange);
        let part = exchange.limits().part_bytes;
        let begin = from * part + header(ranks);
        let message = exchange.window(Lane::request(number))?.global().part(begin, part - header(ranks));
        let keys = if is_counted {
            words_at(message, 0, counts[from][rank] as usize).into()
        } else {
            let count = self.counters(number, from)?.part(rank * COUNTER_WORDS, 1);
            BoundedSlice::new(words_at(message, 0, chunk), count)
        };
        if keys.max_len() == 0 {
            return Ok(());
        }
        let answers = self.windows(Lane::Answer)?[from].global();
        let answers = answers.part(rank * part + number % 2 * (part / 2), part / 2);
        self.shard.submit_in_order(stream, self.shape.batch_of(keys, (message, room), answers))
    }

    /// Submits the launch that writes a chunk's answers in the order of the batch. Returns the point after
    /// it.
    fn collect(&mut self, number: usize) -> Result<Arc<Event>> {
        let begin = self.engine.clock.begin(&self.side)?;
        let (part, batch) = (self.engine.exchange.limits().part_bytes, self.chunk(number));
        let (window, len) = (self.engine.exchange.window(Lane::Answer)?.global(), batch.keys.max_len());
        let answers = window.part(number % 2 * (part / 2), usize::MAX);
        let kernel = ShardedReceive::<Pair<K, V>> {
            answers: Received {
                owners: self.engine.geometry.ranks as u32,
                room: self.extent.room as u32,
                stride: part,
                values: words_at(answers, 0, answers.len() / size_of::<V>()),
                outcomes: answers,
            },
            places: self.direct.places[number % 3].global(),
            len,
            results: batch.results,
            outcomes: batch.outcomes,
        };
        if len > 0 {
            let grid = Grid::new(len.div_ceil(SENT_BY_BLOCK) as u32, SEND_THREADS);
            // SAFETY: the buffers live until the stream has executed the launch, which has waited for the
            // answers of all ranks. Batches with answers have outcomes, and results if they return values.
            unsafe { self.side.launch(grid, kernel)? };
        }
        self.engine.clock.end(Stage::Gather, begin)?;
        let collected = Arc::new(self.side.point()?);
        self.collected = Some(collected.clone());
        Ok(collected)
    }
}
