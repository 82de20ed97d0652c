//! Batches of all ranks: partition, exchange, the shards' operations, and the way back of the answers. Where
//! kernels can write to the memory of all ranks, [`super::direct`] has another way.
//!
//! # Order of work
//!
//! The shard's operations are submitted to the exchange's stream. What prepares and follows them goes to a
//! stream of higher priority, the *side stream*, and copies between ranks to a third. All are busy at the
//! same time: probes wait for memory, so that the other kernels hardly delay them.
//!
//! ```text
//! exchange's   probe(q)                              probe(q+1)
//! side         partition(q+1)      gather(q-1)       partition(q+2)      gather(q)
//! copies       answers(q-1) · requests(q+1)          answers(q) · requests(q+2)
//! ```
//!
//! | work | comes after | because |
//! |---|---|---|
//! | all of the side stream in a column | probe(q-1) | messages, windows and answers of that round are free, or there |
//! | `answers(q-1)` | gather(q-2) | it frees the window of answers |
//! | probe(q) | partition(q), `requests(q)` | own elements, and those of other ranks |
//! | probe(q) | gather(q-2) | two buffers alternate for own answers, and for answers to others |
//! | gather(q-1) | `answers(q-1)` | |
use super::Combining;
use super::combine::Equal;
use super::direct::Direct;
use super::geometry::{Geometry, Item, Plan};
use super::remote::{Pending, Remote};
use super::shape::{COMPARED, Call, Shape};
use super::stages::{Clock, Stage};
use super::steps::STEP_WORDS;
use super::tables::warps;
use super::work::{Work, answer_stride, bytes_of, words, words_at};
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp};
use crate::map::structure::Structure;
use crate::{Error, Result};
use exchange::{Exchange, Lane, Transfer, check_equal};
use gpu::{Buffer, Event, Stream};
use phalanx_kernels::sharded::kernels::{Answers, Division, ShardedGather};
use phalanx_kernels::sharded::{PIECE, Pair};
use simt::GlobalSlice;
use std::marker::PhantomData;
use std::sync::Arc;

/// Report of a batch. All numbers but `remote` and `combined` are 0 for small batches, whose counts stay on
/// the device, and for one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Chunks into which the longest batch of a rank was divided; 0 if nothing was exchanged.
    pub chunks: usize,
    /// Rounds in which elements moved between ranks. Under skew there are more than chunks.
    pub rounds: usize,
    /// Elements of this rank's batch that took their answer from another one with an equal key.
    pub combined: usize,
    /// Elements of this rank's batch that other ranks have executed.
    pub sent: usize,
    /// Elements of other ranks' batches that this rank has executed.
    pub received: usize,
    /// Elements of this rank's batch that were looked up without an exchange.
    pub remote: usize,
}

/// One rank's end, without its shard.
pub struct Engine<K, V> {
    pub exchange: Exchange,
    pub geometry: Geometry,
    pub work: Work,
    pub report: Report,
    /// Whether batches go through the exchange even if there is one rank.
    pub is_forced: bool,
    /// Stream of partitions and gathers.
    pub side: Stream,
    /// Stream of the operations of this rank's own elements, if kernels write messages.
    pub own: Stream,
    pub clock: Clock,
    /// The tables of all ranks, if this rank can read them.
    pub remote: Option<Remote<K, V>>,
    /// Most elements of a rank's batch of `get` for which this rank prefers lookups without an exchange.
    pub most_remote: usize,
    /// Work that the streams of the ranks are not ordered with yet.
    pub pending: Pending,
    /// When equal keys of a batch are combined.
    pub combining: Combining,
    /// Sample of a batch's keys, in pinned memory.
    pub sample: Buffer<K>,
    /// Memory of batches that are combined; none before the first one.
    pub equal: Option<Equal<K, V>>,
    /// Memory of batches whose messages kernels write, if they can.
    pub direct: Option<Direct>,
    pub of: PhantomData<fn() -> (K, V)>,
}

/// A batch, and its division.
struct Job<'a, K, V> {
    shard: &'a dyn Structure<Key = K, Value = V>,
    shape: Shape,
    batch: Batch<K, V>,
    keys: GlobalSlice<K>,
    pieces: usize,
}

impl<K: Word, V: Word> Job<'_, K, V> {
    /// Returns the chunk's elements of the batch.
    fn chunk(&self, chunk: usize) -> Batch<K, V> {
        let len = self.pieces * PIECE;
        self.batch.part(chunk * len, len)
    }
}

impl<K: Word, V: Word> Engine<K, V> {
    /// Runs a batch of this rank, while the others run theirs. An error in `batch` is one of arguments: the
    /// others learn of it. `op` also says whether outcomes are returned. Returns what comes with the batch.
    pub fn run<T>(
        &mut self,
        shard: &dyn Structure<Key = K, Value = V>,
        call: Call,
        batch: Result<(Batch<K, V>, T)>,
    ) -> Result<T> {
        self.report = Report::default();
        if self.geometry.ranks == 1 && !self.is_forced {
            self.exchange.check()?;
            let (batch, kept) = batch?;
            return shard.submit_in_order(self.exchange.stream(), batch).map(|()| kept);
        }
        let combined = batch.and_then(|(batch, kept)| Ok((batch, self.combined(call.op, batch)?, kept)));
        match combined {
            Ok((batch, Some(distinct), kept)) => {
                self.exchanged(shard, call, Ok((distinct, ())))?;
                self.expand(call.op, &batch)?;
                Ok(kept)
            }
            Ok((batch, None, kept)) => self.exchanged(shard, call, Ok((batch, kept))),
            Err(error) => self.exchanged(shard, call, Err(error)),
        }
    }

    /// Runs a batch whose equal keys have been combined.
    fn exchanged<T>(
        &mut self,
        shard: &dyn Structure<Key = K, Value = V>,
        call: Call,
        batch: Result<(Batch<K, V>, T)>,
    ) -> Result<T> {
        let shape = Shape::new::<K, V>(call);
        let prepared =
            batch.and_then(|(batch, kept)| self.prepare(&batch, &shape).map(|chunks| (batch, kept, chunks)));
        let prepared = prepared.and_then(|(batch, kept, chunks)| {
            Ok((batch, kept, chunks, self.look_up_early(call.op, &batch)?))
        });
        let announced = prepared.as_ref().map(|(batch, _, chunks, _)| [batch.keys.max_len(), *chunks]);
        let begun = self.begin(&shape, announced);
        if begun.is_err() && prepared.as_ref().is_ok_and(|(.., is_early)| *is_early) {
            self.exchange.finish(); // later changes of other ranks come after these lookups
        }
        let ([longest, chunks, most_remote], ready) = begun?;
        let (batch, kept, own_chunks, is_early) = prepared?;
        if longest == 0 {
            return Ok(kept);
        }
        let (direct, fixed) = (self.direct_room(&shape).zip(ready), self.fixed(longest, &shape));
        let ran = if matches!(call.op, BatchOp::Get) && longest <= most_remote {
            self.get_in_order(&batch, is_early)
        } else {
            self.pending.are_last = false;
            self.changing(call.op).and_then(|()| match (direct, fixed) {
                (Some((room, ready)), _) => self.run_direct(shard, (&shape, &batch), (longest, room), ready),
                (None, Some(fixed)) => self.run_small(shard, (&shape, &batch), fixed),
                (None, None) => self.run_counted(shard, (shape, batch), (own_chunks, chunks)),
            })
        };
        ran.inspect_err(|error| self.exchange.give_up(&error.to_string()))?;
        Ok(kept)
    }

    /// Returns the answers to a chunk: those that have arrived, and the own ones.
    pub fn answers_of(&self, chunk: usize) -> Result<Answers<V>> {
        let (window, own) = (self.exchange.window(Lane::Answer)?.global(), &self.work.own[chunk % 2]);
        Ok(Answers {
            values: words_at(window, 0, window.len() / size_of::<V>()),
            outcomes: window,
            stride: self.exchange.limits().part_bytes,
            own_values: words(own),
            own_outcomes: words(own),
        })
    }

    /// Provides the memory for a batch. Returns its number of chunks; 0 if kernels write its messages.
    fn prepare(&mut self, batch: &Batch<K, V>, shape: &Shape) -> Result<usize> {
        let len = batch.keys.max_len();
        if len > u32::MAX as usize / 2 {
            return Err(Error::TooMany { what: "a batch", asked: len, most: u32::MAX as usize / 2 });
        }
        if let Some(room) = self.direct_room(shape) {
            return self.prepare_direct(len, room).map(|()| 0);
        }
        let (ranks, pieces) = (self.geometry.ranks, self.geometry.pieces(len));
        let chunks = len.div_ceil(pieces * PIECE);
        self.reserve_work()?;
        if self.work.tables.replaces(ranks, chunks, pieces) {
            // With a deadline, which the wait of an allocation has not.
            self.exchange.wait()?;
        }
        self.work.tables.reserve(self.exchange.device(), ranks, chunks, pieces)?;
        Ok(chunks)
    }

    /// Provides the memory that does not depend on the length of batches.
    pub fn reserve_work(&mut self) -> Result<()> {
        let (key, value) = (size_of::<K>(), size_of::<V>());
        self.work.reserve(self.exchange.device(), &self.geometry, key + value, value)
    }

    /// Submits the counting of a batch.
    fn count(&mut self, job: &Job<'_, K, V>, chunks: usize) -> Result<()> {
        let division = self.geometry.division(job.pieces);
        self.work.tables.count::<K, V>(self.exchange.stream(), (division, chunks), job.keys, job.shape.sent)
    }

    /// Compares the operations of all ranks. Returns the largest length and number of chunks of their
    /// batches, and the most elements that all would look up without an exchange; and the points of all ranks
    /// from which on their windows are free, if kernels write messages.
    fn begin(
        &mut self,
        shape: &Shape,
        announced: Result<[usize; 2], &Error>,
    ) -> Result<([usize; 3], Option<Transfer>)> {
        let mut words = shape.words().to_vec();
        words.push(announced.is_err().into());
        words.extend(announced.unwrap_or_default().map(|number| number as u64));
        words.push(if self.remote.is_some() { self.most_remote as u64 } else { 0 });
        words.resize(STEP_WORDS, 0);
        let ready = match self.direct {
            Some(_) => vec![Arc::new(self.exchange.stream().point()?)],
            None => Vec::new(),
        };
        let (all, mut ready) = self.exchange.agree_at(&words, ready)?;
        for (word, what) in COMPARED.into_iter().enumerate() {
            check_equal(what, all.iter().map(|words| words[word]))?;
        }
        const REFUSED: usize = COMPARED.len();
        let most = |word: usize| all.iter().map(|words| words[word] as usize).max().unwrap_or(0);
        match all.iter().position(|words| words[REFUSED] != 0) {
            // This rank's own error is more helpful.
            Some(rank) if announced.is_ok() => Err(exchange::Error::Refused { rank }.into()),
            _ => {
                let remote = all.iter().map(|words| words[REFUSED + 3] as usize).min().unwrap_or(0);
                Ok(([most(REFUSED + 1), most(REFUSED + 2), remote], ready.pop()))
            }
        }
    }

    /// Runs a batch by counts.
    fn run_counted(
        &mut self,
        shard: &dyn Structure<Key = K, Value = V>,
        (shape, batch): (Shape, Batch<K, V>),
        (own_chunks, chunks): (usize, usize),
    ) -> Result<()> {
        let keys = batch.keys.words();
        let job = Job { shard, shape, batch, keys, pieces: self.geometry.pieces(keys.len()) };
        if own_chunks > 0 {
            let stream = self.exchange.stream().clone();
            let begin = self.clock.begin(&stream)?;
            self.count(&job, own_chunks)?;
            self.clock.end(Stage::Count, begin)?;
        }
        let plan = self.plan(own_chunks, chunks)?;
        self.note(&plan, chunks);
        let streams = (self.exchange.stream().clone(), self.side.clone());
        let mut flight = Flight {
            job: &job,
            plan: &plan,
            engine: self,
            streams,
            answers: None,
            probed: None,
            gathered: None,
        };
        let ran = flight.run();
        // Also after an error: later work may use the same buffers.
        let joined = self.side.point().and_then(|event| self.exchange.stream().wait(&event));
        ran.and(joined.map_err(Error::from))
    }

    /// Waits for the counts, and tells them all ranks.
    fn plan(&mut self, own_chunks: usize, chunks: usize) -> Result<Plan> {
        let ranks = self.geometry.ranks;
        self.exchange.wait()?;
        let mut counts: Vec<u64> =
            self.work.tables.read_counts(own_chunks * ranks).iter().map(|&count| count.into()).collect();
        counts.resize(chunks * ranks, 0);
        let all = self.exchange.agree(&counts)?;
        let narrow = |words: Vec<u64>| words.into_iter().map(|word| word as u32).collect();
        Ok(Plan::new(&self.geometry, all.into_iter().map(narrow).collect()))
    }

    fn note(&mut self, plan: &Plan, chunks: usize) {
        let (rank, ranks) = (self.geometry.rank, self.geometry.ranks);
        let count = |from, to| (0..chunks).map(|chunk| plan.of(from, chunk)[to] as usize).sum::<usize>();
        let others = || (0..ranks).filter(|&other| other != rank);
        self.report = Report {
            chunks,
            rounds: plan.items.iter().filter(|item| item.moves).count(),
            sent: others().map(|to| count(rank, to)).sum(),
            combined: self.report.combined,
            remote: 0,
            received: others().map(|from| count(from, rank)).sum(),
        };
    }
}

/// A batch of which rounds are in flight.
struct Flight<'a, K, V> {
    job: &'a Job<'a, K, V>,
    plan: &'a Plan,
    engine: &'a mut Engine<K, V>,
    /// The exchange's stream and the side stream.
    streams: (Stream, Stream),
    /// Answers of the last round, on their way.
    answers: Option<Transfer>,
    /// Point after the last probe.
    probed: Option<Event>,
    /// Point after the last gather.
    gathered: Option<Event>,
}

/// Elements of a round, on their way.
struct Coming {
    /// Point after the partition.
    own: Event,
    others: Option<Transfer>,
}

impl<K: Word, V: Word> Flight<'_, K, V> {
    /// Runs all rounds, in the order that the module describes.
    fn run(&mut self) -> Result<()> {
        let (rounds, (main, side)) = (self.plan.items.len(), self.streams.clone());
        side.wait(&main.point()?)?;
        let mut coming = self.send_requests(0)?;
        for number in 0..rounds {
            self.end_probe(number)?;
            let next = self.send_requests(number + 1)?;
            self.probe(number, coming)?;
            if number > 0 {
                self.finish(number - 1)?;
            }
            coming = next;
        }
        self.end_probe(rounds)?;
        self.finish(rounds - 1)
    }

    /// Makes the side stream wait for the probe before a round, and begins to move its answers.
    fn end_probe(&mut self, number: usize) -> Result<()> {
        let Some(probed) = self.probed.take() else { return Ok(()) };
        self.streams.1.wait(&probed)?;
        self.send_answers(number - 1)
    }

    /// Makes a stream wait for what has been sent, if anything has.
    fn arrive(&mut self, stream: &Stream, moving: Option<Transfer>, stage: Stage) -> Result<()> {
        let Some(moving) = moving else { return Ok(()) };
        let begin = self.engine.clock.begin(stream)?;
        self.engine.exchange.arrive_in(stream, moving)?;
        self.engine.clock.end(stage, begin)
    }

    fn rank(&self) -> usize {
        self.engine.geometry.rank
    }

    fn item(&self, number: usize) -> Item {
        self.plan.items[number]
    }

    /// Returns the number of this rank's elements for each owner.
    fn own_counts(&self, item: Item) -> &[u32] {
        self.plan.of(self.rank(), item.chunk)
    }

    /// Returns the number of elements that move from a rank to a rank in a round.
    fn count(&self, item: Item, from: usize, to: usize) -> usize {
        let count = self.plan.of(from, item.chunk)[to];
        if from == to { 0 } else { self.engine.geometry.in_round(count, item.round) }
    }

    fn division(&self) -> Division {
        self.engine.geometry.division(self.job.pieces)
    }

    /// Submits the partition of a chunk. Transfers of the messages that were in its buffer before have ended:
    /// the side stream has waited for a probe of them.
    fn partition(&mut self, chunk: usize) -> Result<()> {
        let (division, stream, part) = (self.division(), &self.streams.1, self.job.chunk(chunk));
        let Engine { clock, work, .. } = &mut *self.engine;
        let begin = clock.begin(stream)?;
        work.tables.scatter(stream, (division, chunk), &part, &work.send[chunk % 2])?;
        clock.end(Stage::Partition, begin)
    }

    /// Begins to move the requests of a round, if there is one.
    fn send_requests(&mut self, number: usize) -> Result<Option<Coming>> {
        let Some(&item) = self.plan.items.get(number) else { return Ok(None) };
        if item.round == 0 {
            self.partition(item.chunk)?;
        }
        let own = self.streams.1.point()?;
        let others = if item.moves { Some(self.move_requests(number, item)?) } else { None };
        Ok(Some(Coming { own, others }))
    }

    fn move_requests(&mut self, number: usize, item: Item) -> Result<Transfer> {
        let (rank, sizes, geometry) = (self.rank(), self.job.shape.sent, self.engine.geometry);
        let counts = self.plan.of(rank, item.chunk);
        let receives = (0..geometry.ranks)
            .map(|from| Geometry::part_bytes(self.count(item, from, rank), sizes))
            .collect();
        let Engine { exchange, work, .. } = &mut *self.engine;
        let messages = bytes_of(&work.send[item.chunk % 2])?;
        let piece = |owner| match owner == rank {
            true => messages.slice(0..0),
            false => messages.slice(geometry.sent(counts, item.round, owner, sizes)),
        };
        let sends = (0..geometry.ranks).map(piece).collect::<gpu::Result<_>>()?;
        let lane = (Lane::request(number), 2 * number as u64);
        Ok(exchange.move_pieces_after(&self.streams.1, lane, sends, receives)?)
    }

    /// Submits the operations of the elements of a round: in the first round of a chunk this rank's own, and
    /// those that have arrived.
    fn probe(&mut self, number: usize, coming: Option<Coming>) -> Result<()> {
        let (Some(coming), main) = (coming, self.streams.0.clone()) else { return Ok(()) };
        main.wait(&coming.own)?;
        if let Some(gathered) = &self.gathered {
            main.wait(gathered)?;
        }
        let begin = self.engine.clock.begin(&main)?;
        self.probe_own(self.item(number))?;
        self.engine.clock.end(Stage::Probe, begin)?;
        self.arrive(&main, coming.others, Stage::Arrival)?;
        let begin = self.engine.clock.begin(&main)?;
        self.probe_others(number)?;
        self.engine.clock.end(Stage::Probe, begin)?;
        self.probed = Some(main.point()?);
        Ok(())
    }

    fn probe_own(&self, item: Item) -> Result<()> {
        let (own, engine) = (self.own_counts(item), &*self.engine);
        if item.round > 0 || own[self.rank()] == 0 {
            return Ok(());
        }
        let begin = engine.geometry.begins(own, self.job.shape.sent)[self.rank()];
        let messages = words(&engine.work.send[item.chunk % 2]).part(begin, usize::MAX);
        self.probe_part(messages, own[self.rank()] as usize, words(&engine.work.own[item.chunk % 2]))
    }

    fn probe_others(&self, number: usize) -> Result<()> {
        let (item, engine) = (self.item(number), &*self.engine);
        let window = engine.exchange.window(Lane::request(number))?.global();
        let (stride, answers) =
            (engine.exchange.limits().part_bytes, words(&engine.work.answers[number % 2]));
        for from in 0..engine.geometry.ranks {
            let count = self.count(item, from, self.rank());
            let answers = answers.part(from * answer_stride(&engine.geometry, size_of::<V>()), usize::MAX);
            self.probe_part(window.part(from * stride, stride), count, answers)?;
        }
        Ok(())
    }

    /// Submits the operations of a part of `count` elements, whose answers are written as a part, too.
    fn probe_part(&self, part: GlobalSlice<u8>, count: usize, answers: GlobalSlice<u8>) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let keys = words_at::<K>(part, 0, count);
        let batch = self.job.shape.batch_of(keys, (part, count), answers);
        self.job.shard.submit_in_order(self.engine.exchange.stream(), batch)
    }

    /// Begins to move the answers of a round.
    fn send_answers(&mut self, number: usize) -> Result<()> {
        let item = self.item(number);
        if !item.moves || !self.job.shape.has_answers {
            return Ok(());
        }
        let (rank, ranks, job) = (self.rank(), self.engine.geometry.ranks, self.job);
        let stride = answer_stride(&self.engine.geometry, size_of::<V>());
        let bytes = |from: usize, to: usize| job.shape.answer_bytes(self.count(item, from, to));
        let receives: Vec<usize> = (0..ranks).map(|owner| bytes(rank, owner)).collect();
        let lens: Vec<usize> = (0..ranks).map(|source| bytes(source, rank)).collect();
        let Engine { exchange, work, .. } = &mut *self.engine;
        let answers = bytes_of(&work.answers[number % 2])?;
        let piece = |(source, len): (usize, &usize)| answers.slice(source * stride..source * stride + len);
        let sends = lens.iter().enumerate().map(piece).collect::<gpu::Result<_>>()?;
        let lane = (Lane::Answer, 2 * number as u64 + 1);
        self.answers = Some(exchange.move_pieces_after(&self.streams.1, lane, sends, receives)?);
        Ok(())
    }

    /// Submits the way of a round's answers into the order of the batch.
    fn finish(&mut self, number: usize) -> Result<()> {
        let (item, side, arriving) = (self.item(number), self.streams.1.clone(), self.answers.take());
        self.arrive(&side, arriving, Stage::Answers)?;
        let begin = self.engine.clock.begin(&side)?;
        self.gather(item)?;
        self.engine.clock.end(Stage::Gather, begin)?;
        self.gathered = Some(side.point()?);
        Ok(())
    }

    fn gather(&self, item: Item) -> Result<()> {
        let part = self.job.chunk(item.chunk);
        let keys = part.keys.words();
        if !self.job.shape.has_answers || keys.is_empty() {
            return Ok(());
        }
        let (offsets, messages) = self.engine.work.tables.of(self.division(), item.chunk);
        let kernel = ShardedGather::<Pair<K, V>> {
            keys,
            division: self.division(),
            round: item.round as u32,
            offsets,
            messages,
            answers: self.engine.answers_of(item.chunk)?,
            results: part.results,
            outcomes: part.outcomes,
        };
        // SAFETY: the buffers live until the stream has executed the launch, and the stream has waited for
        // the answers.
        unsafe { Ok(self.streams.1.launch(warps(keys.len().div_ceil(PIECE)), kernel)?) }
    }
}
