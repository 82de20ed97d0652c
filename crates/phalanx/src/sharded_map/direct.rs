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
//! and tells them the other ranks, which then launch as many threads as there are elements. If there is one
//! small chunk, the host waits for nothing, and the owners read the counts in the memory of the senders.
use super::engine::Engine;
use super::geometry::{Geometry, MOST_CHUNK, direct_begin, direct_chunk};
use super::shape::Shape;
use super::small;
use super::stages::Stage;
use super::steps::Step;
use super::work::words_at;
use crate::Result;
use crate::map::encoding::Word;
use crate::map::launch::{Batch, nothing};
use crate::map::structure::Structure;
use exchange::{Lane, Transfer};
use gpu::{Buffer, Device, Event, Grid, Stream, Tier};
use phalanx_kernels::sharded::direct::{
    COUNTER_WORDS, Received, SEND_THREADS, SENT_BY_BLOCK, ShardedReceive, ShardedSend, Windows, header, room,
    words_of_places,
};
use phalanx_kernels::sharded::{PIECE, Pair};
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
struct Sizes {
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

impl Sizes {
    /// Returns the first element of a chunk, and of the end of the last.
    fn begin(&self, number: usize) -> usize {
        direct_begin(self.longest, self.chunk, number)
    }
}

/// Number of elements from each rank to each.
type Matrix = Vec<Vec<u64>>;

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
        let address = |window: &gpu::Slice<'_, u8>| (window.global().as_ptr().addr() + begin) as u64;
        let addresses: Vec<u64> = windows.iter().map(address).collect();
        Ok(self.exchange.device().from_slice(&addresses)?)
    }

    /// Returns the elements that a message has room for if kernels write it; `None` if they do not.
    pub fn direct_room(&self, shape: &Shape) -> Option<usize> {
        self.direct.as_ref()?;
        let part = self.exchange.limits().part_bytes;
        let answers = part / 2 / shape.answer_bytes(1);
        let room = room(part, self.geometry.ranks, shape.sent).min(answers / 16 * 16);
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
        let sizes = Sizes { room, chunk, longest, chunks, is_counted };
        let main = self.exchange.stream().clone();
        let streams = [&main, &self.side, &self.own].map(|stream| if chunks == 1 { &main } else { stream });
        let [_, side, own] = streams.map(Stream::clone);
        self.exchange.arrive_in(&side, ready)?;
        if sizes.is_counted {
            self.report.chunks = chunks;
        }
        let mut flight =
            Flight { engine: self, shard, shape, batch, sizes, main, side, own, collected: None };
        let ran = flight.run();
        // Also after an error: later work may use the same buffers.
        let joined = flight.join();
        ran.and(joined)
    }
}

/// A batch of which chunks are in flight.
struct Flight<'a, K, V> {
    engine: &'a mut Engine<K, V>,
    shard: &'a dyn Structure<Key = K, Value = V>,
    shape: &'a Shape,
    batch: &'a Batch<K, V>,
    sizes: Sizes,
    main: Stream,
    side: Stream,
    /// Stream of the operations of this rank's own elements.
    own: Stream,
    /// Point after the last but one collect.
    collected: Option<Arc<Event>>,
}

/// A chunk that has been sent.
struct Sent {
    own: Arc<Event>,
    /// The points of all ranks after which their messages are there.
    all: Transfer,
    counts: Matrix,
}

impl<K: Word, V: Word> Flight<'_, K, V> {
    /// Runs all chunks, in the order that the module describes.
    fn run(&mut self) -> Result<()> {
        let chunks = self.sizes.chunks;
        let own = self.send(0)?;
        let (counts, mut points) = self.agree(Some(0), vec![own.clone()])?;
        let mut sent = points.pop().map(|all| Sent { own, all, counts });
        let (mut probed, mut collected) = (None, None);
        for number in 0..chunks {
            self.arrive(Stage::Answers, probed.take())?;
            let next = if number + 1 < chunks { Some(self.send(number + 1)?) } else { None };
            let mut points: Vec<_> = next.iter().cloned().collect();
            points.extend(self.probe(number, sent.take(), collected.take())?);
            if number > 0 && self.shape.has_answers {
                let collected = self.collect(number - 1)?;
                self.collected = Some(collected.clone());
                points.push(collected);
            }
            if next.is_none() && !self.shape.has_answers {
                return Ok(()); // the next batch waits for these probes
            }
            let has_collected = points.len() > 1 + usize::from(next.is_some());
            let (counts, mut points) = self.agree(next.as_ref().map(|_| number + 1), points)?;
            collected = if has_collected { points.pop() } else { None };
            probed = points.pop();
            sent = next.zip(points.pop()).map(|(own, all)| Sent { own, all, counts });
        }
        self.arrive(Stage::Answers, probed)?;
        self.collect(chunks - 1).map(drop)
    }

    /// Makes the exchange's stream wait for the side stream.
    fn join(&self) -> Result<()> {
        if self.side == self.main { Ok(()) } else { Ok(self.main.wait(&self.side.point()?)?) }
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
        let begin = self.sizes.begin(number);
        self.batch.part(begin, self.sizes.begin(number + 1) - begin)
    }

    /// Returns the counters of this rank's messages of a chunk.
    fn counters(&self, number: usize, rank: usize) -> Result<GlobalSlice<u32>> {
        let (ranks, part) = (self.engine.geometry.ranks, self.engine.exchange.limits().part_bytes);
        let windows = self.engine.exchange.windows(Lane::request(number))?.unwrap_or_default();
        let window = windows.get(rank).map_or(nothing(), |window| window.global());
        Ok(words_at(window, rank * part, ranks * COUNTER_WORDS))
    }

    /// Submits the partition of a chunk into the windows of all ranks. Returns the point after it.
    fn send(&mut self, number: usize) -> Result<Arc<Event>> {
        let (counters, part) = (self.counters(number, self.engine.geometry.rank)?, self.chunk(number));
        let Engine { clock, geometry, direct: Some(direct), .. } = &mut *self.engine else {
            return Ok(Arc::new(self.side.point()?));
        };
        let begin = clock.begin(&self.side)?;
        let (messages, keys) = (direct.messages[number % 2].global(), part.keys.words());
        let kernel = ShardedSend::<Pair<K, V>> {
            keys,
            values: part.arguments,
            windows: Windows {
                owners: geometry.ranks as u32,
                room: self.sizes.room as u32,
                messages,
                counters,
            },
            places: direct.places[number % 3].global(),
        };
        let shared = SHARED_BLOCKS * self.side.device().multiprocessors();
        let most = if number < FIRST { u32::MAX } else { shared };
        let grid = Grid::new((keys.len().div_ceil(SENT_BY_BLOCK) as u32).min(most), SEND_THREADS);
        // SAFETY: the buffers of the batch and this rank's live until the stream has executed the work, and
        // so do the windows of all ranks. Each message has room for all elements of the chunk, and each
        // element a place. What used the windows before has ended: the stream has waited for the points of
        // all ranks.
        unsafe { self.side.fill(counters, 0)? };
        if !keys.is_empty() {
            // SAFETY: as above.
            unsafe { self.side.launch(grid, kernel)? };
        }
        if self.sizes.is_counted {
            // SAFETY: as above; the counts have as many words, and the host reads them after a wait.
            unsafe { self.side.copy(direct.counts[number % 2].global(), counters)? };
        }
        clock.end(Stage::Partition, begin)?;
        Ok(Arc::new(self.side.point()?))
    }

    /// Tells all ranks points, of which the first is that of a chunk that has been sent, if any, and this
    /// rank's counts of this chunk, if the host learns them. Returns those of all ranks.
    fn agree(&mut self, sent: Option<usize>, points: Vec<Arc<Event>>) -> Result<(Matrix, Vec<Transfer>)> {
        let mut own = Vec::new();
        if let (Some(number), true) = (sent, self.sizes.is_counted) {
            self.engine.exchange.wait_for(&points[0])?;
            let counts =
                self.engine.direct.as_ref().map_or(&[][..], |direct| read(&direct.counts[number % 2]));
            own.extend(counts.iter().step_by(COUNTER_WORDS).map(|&count| u64::from(count)));
        }
        let (counts, points) = self.engine.exchange.agree_at(&own, points)?;
        if sent.is_some() {
            self.note(&counts);
        }
        Ok((counts, points))
    }

    /// Notes the elements of a chunk that move. Without counts, as many as could.
    fn note(&mut self, counts: &Matrix) {
        let (rank, ranks) = (self.engine.geometry.rank, self.engine.geometry.ranks);
        let others = || (0..ranks).filter(|&other| other != rank);
        let len = self.batch.keys.max_len();
        let (mut sent, mut received) = (if ranks > 1 { len } else { 0 }, 0);
        if self.sizes.is_counted {
            sent = others().map(|to| counts[rank][to] as usize).sum();
            received = others().map(|from| counts[from][rank] as usize).sum();
            let moves = (0..ranks).any(|from| (0..ranks).any(|to| from != to && counts[from][to] > 0));
            self.engine.report.rounds += usize::from(moves);
            self.engine.report.sent += sent;
            self.engine.report.received += received;
        }
        let (key, argument) = self.shape.sent;
        let answers = if self.shape.has_answers { self.shape.answer_bytes(received) } else { 0 };
        self.engine.exchange.count_sent(sent * (key + argument) + answers);
    }

    /// Submits the operations of the elements of a chunk from all ranks: the own ones first. Returns the
    /// point after them.
    fn probe(
        &mut self,
        number: usize,
        sent: Option<Sent>,
        collected: Option<Transfer>,
    ) -> Result<Option<Arc<Event>>> {
        let (Some(Sent { own, all, counts }), main) = (sent, self.main.clone()) else { return Ok(None) };
        let (rank, ranks) = (self.engine.geometry.rank, self.engine.geometry.ranks);
        if self.side != main {
            self.own.wait(&own)?;
        }
        if let Some(event) = &self.collected {
            self.own.wait(event)?;
        }
        if let Some(collected) = collected {
            self.engine.exchange.arrive_in(&main, collected)?;
        }
        let begin = self.engine.clock.begin(&self.own)?;
        self.probe_from(number, rank, &counts, &self.own)?;
        self.engine.clock.end(Stage::Probe, begin)?;
        let begin = self.engine.clock.begin(&main)?;
        self.engine.exchange.arrive_in(&main, all)?;
        self.engine.clock.end(Stage::Arrival, begin)?;
        let begin = self.engine.clock.begin(&main)?;
        for from in (1..ranks).map(|shift| (rank + ranks - shift) % ranks) {
            self.probe_from(number, from, &counts, &main)?;
        }
        self.engine.clock.end(Stage::Probe, begin)?;
        if self.own != main {
            main.wait(&self.own.point()?)?;
        }
        Ok(Some(Arc::new(main.point()?)))
    }

    /// Submits the operations of the elements of a chunk from a rank, into whose window the answers go.
    fn probe_from(&self, number: usize, from: usize, counts: &Matrix, stream: &Stream) -> Result<()> {
        let Sizes { room, chunk, is_counted, .. } = self.sizes;
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
        let windows = exchange.windows(Lane::Answer)?.unwrap_or_default();
        let answers = windows.get(from).map_or(nothing(), |window| window.global());
        let answers = answers.part(rank * part + number % 2 * (part / 2), part / 2);
        self.shard.submit(stream, self.shape.batch_of(keys, (message, room), answers))
    }

    /// Submits the way of a chunk's answers into the order of the batch. Returns the point after it.
    fn collect(&mut self, number: usize) -> Result<Arc<Event>> {
        let begin = self.engine.clock.begin(&self.side)?;
        let (part, len) = (self.engine.exchange.limits().part_bytes, self.chunk(number).keys.max_len());
        let window = self.engine.exchange.window(Lane::Answer)?.global();
        let answers = window.part(number % 2 * (part / 2), usize::MAX);
        let places =
            self.engine.direct.as_ref().map_or(nothing(), |direct| direct.places[number % 3].global());
        let batch = self.chunk(number);
        let kernel = ShardedReceive::<Pair<K, V>> {
            answers: Received {
                owners: self.engine.geometry.ranks as u32,
                room: self.sizes.room as u32,
                stride: part,
                values: words_at(answers, 0, answers.len() / size_of::<V>()),
                outcomes: answers,
            },
            places,
            len,
            results: batch.results,
            outcomes: batch.outcomes,
        };
        if len > 0 {
            let grid = Grid::new(len.div_ceil(SENT_BY_BLOCK) as u32, SEND_THREADS);
            // SAFETY: the buffers live until the stream has executed the launch, which has waited for the
            // answers of all ranks. Batches with answers have outcomes.
            unsafe { self.side.launch(grid, kernel)? };
        }
        self.engine.clock.end(Stage::Gather, begin)?;
        Ok(Arc::new(self.side.point()?))
    }
}

/// Returns words in pinned memory, after a wait for the work that has written them.
fn read(counts: &Buffer<u32>) -> &[u32] {
    let Some(start) = counts.host_pointer() else { return &[] };
    // SAFETY: the host can access these words, and the device does not write them now.
    unsafe { std::slice::from_raw_parts(start.as_ptr(), counts.len()) }
}
