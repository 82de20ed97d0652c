//! Batches of all ranks: partition, exchange, the shards' operations, and the way back of the answers.
//!
//! # Order of work
//!
//! All kernels are submitted to one stream, and all copies between ranks to another. Both are busy at the
//! same time because a transfer is begun before the kernels that do not need it:
//!
//! ```text
//! kernels   partition(q+1)   probe(q)            gather(q-1)   partition(q+2)   probe(q+1)     gather(q)
//! copies                  └─ requests(q+1) ─────────────────┐              └─ requests(q+2) ──────────
//!                                                           └─ answers(q) ────────────┘
//! ```
//!
//! 1. A transfer waits for all kernels that the ranks have submitted before it. So `requests(q+1)` are begun
//!    before `probe(q)` is submitted, and overlap with it.
//! 2. `answers(q)` are begun after `gather(q-1)`, which frees the window of answers. They overlap with the
//!    partition and the probe of later rounds, and are needed only after `probe(q+1)`.
//! 3. Two buffers alternate for messages and own answers (by chunk), and for answers to others (by round): a
//!    kernel that writes a buffer comes after the arrival that follows the buffer's last transfer.
use super::Combining;
use super::combine::Equal;
use super::geometry::{Geometry, Item, Plan};
use super::remote::{Pending, Remote};
use super::shape::{COMPARED, Call, Shape};
use super::stages::{Begin, Clock, Stage};
use super::steps::STEP_WORDS;
use super::tables::warps;
use super::work::{Work, answer_stride, bytes_of, words, words_at};
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp};
use crate::map::structure::Structure;
use crate::{Error, Result};
use exchange::{Exchange, Lane, Transfer, check_equal};
use gpu::Buffer;
use phalanx_kernels::sharded::kernels::{Answers, Division, ShardedGather};
use phalanx_kernels::sharded::{PIECE, Pair};
use simt::GlobalSlice;
use std::marker::PhantomData;

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
            return shard.submit(self.exchange.stream(), batch).map(|()| kept);
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
            batch.and_then(|(batch, kept)| self.prepare(&batch).map(|chunks| (batch, kept, chunks)));
        let announced = prepared.as_ref().map(|(batch, _, chunks)| [batch.keys.max_len(), *chunks]);
        let [longest, chunks, most_remote] = self.begin(&shape, announced)?;
        let (batch, kept, own_chunks) = prepared?;
        if longest == 0 {
            return Ok(kept);
        }
        let ran = match (call.op, self.fixed(longest, &shape)) {
            (BatchOp::Get, _) if longest <= most_remote => self.get_in_order(&batch),
            (op, fixed) => self.changing(op).and_then(|()| match fixed {
                Some(fixed) => self.run_small(shard, (&shape, &batch), fixed),
                None => self.run_counted(shard, (shape, batch), (own_chunks, chunks)),
            }),
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

    fn begin_stage(&self) -> Result<Begin> {
        self.clock.begin(self.exchange.stream())
    }

    fn end_stage(&mut self, stage: Stage, begin: Begin) -> Result<()> {
        self.clock.end(stage, begin, self.exchange.stream())
    }

    /// Provides the memory for a batch. Returns its number of chunks.
    fn prepare(&mut self, batch: &Batch<K, V>) -> Result<usize> {
        let len = batch.keys.max_len();
        if len > u32::MAX as usize / 2 {
            return Err(Error::TooMany { what: "a batch", asked: len, most: u32::MAX as usize / 2 });
        }
        let (ranks, pieces) = (self.geometry.ranks, self.geometry.pieces(len));
        let chunks = len.div_ceil(pieces * PIECE);
        self.reserve_work()?;
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
    /// batches, and the most elements that all would look up without an exchange.
    fn begin(&mut self, shape: &Shape, announced: Result<[usize; 2], &Error>) -> Result<[usize; 3]> {
        let mut words = shape.words().to_vec();
        words.push(announced.is_err().into());
        words.extend(announced.unwrap_or_default().map(|number| number as u64));
        words.push(if self.remote.is_some() { self.most_remote as u64 } else { 0 });
        words.resize(STEP_WORDS, 0);
        let all = self.exchange.agree(&words)?;
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
                Ok([most(REFUSED + 1), most(REFUSED + 2), remote])
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
            let begin = self.begin_stage()?;
            self.count(&job, own_chunks)?;
            self.end_stage(Stage::Count, begin)?;
        }
        let plan = self.plan(own_chunks, chunks)?;
        self.note(&plan, chunks);
        Flight { job: &job, plan: &plan, engine: self, requests: None, answers: None }.run()
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
    /// Requests of the next round, on their way.
    requests: Option<Transfer>,
    /// Answers of the last round, on their way.
    answers: Option<Transfer>,
}

impl<K: Word, V: Word> Flight<'_, K, V> {
    /// Runs all rounds, in the order that the module describes.
    fn run(&mut self) -> Result<()> {
        self.send_requests(0)?;
        for number in 0..self.plan.items.len() {
            let arriving = self.requests.take();
            self.send_requests(number + 1)?;
            self.arrive(arriving, Stage::Arrival)?;
            let begin = self.engine.begin_stage()?;
            self.probe(number)?;
            self.engine.end_stage(Stage::Probe, begin)?;
            if number > 0 {
                self.finish(number - 1)?;
            }
            self.send_answers(number)?;
        }
        self.finish(self.plan.items.len() - 1)
    }

    /// Makes the stream wait for what has been sent, if anything has.
    fn arrive(&mut self, moving: Option<Transfer>, stage: Stage) -> Result<()> {
        let Some(moving) = moving else { return Ok(()) };
        let begin = self.engine.begin_stage()?;
        self.engine.exchange.arrive(moving)?;
        self.engine.end_stage(stage, begin)
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
    /// the stream has waited for them.
    fn partition(&self, chunk: usize) -> Result<()> {
        let Engine { exchange, work, .. } = &*self.engine;
        let (place, send) = ((self.division(), chunk), &work.send[chunk % 2]);
        work.tables.scatter(exchange.stream(), place, &self.job.chunk(chunk), send)
    }

    /// Begins to move the requests of a round, if there is one.
    fn send_requests(&mut self, number: usize) -> Result<()> {
        let Some(&item) = self.plan.items.get(number) else { return Ok(()) };
        if item.round == 0 {
            let begin = self.engine.begin_stage()?;
            self.partition(item.chunk)?;
            self.engine.end_stage(Stage::Partition, begin)?;
        }
        if !item.moves {
            return Ok(());
        }
        let (rank, sizes, geometry) = (self.rank(), self.job.shape.sent, self.engine.geometry);
        let counts = self.plan.of(rank, item.chunk);
        let Engine { exchange, work, .. } = &mut *self.engine;
        let messages = bytes_of(&work.send[item.chunk % 2])?;
        let piece = |owner| match owner == rank {
            true => messages.slice(0..0),
            false => messages.slice(geometry.sent(counts, item.round, owner, sizes)),
        };
        let sends = (0..geometry.ranks).map(piece).collect::<gpu::Result<_>>()?;
        let count = |from: usize| {
            let count = self.plan.of(from, item.chunk)[rank];
            if from == rank { 0 } else { geometry.in_round(count, item.round) }
        };
        let receives = (0..geometry.ranks).map(|from| Geometry::part_bytes(count(from), sizes)).collect();
        self.requests =
            Some(exchange.move_pieces(Lane::request(number), 2 * number as u64, sends, receives)?);
        Ok(())
    }

    /// Submits the operations of the elements of a round: those that have arrived, and in the first round of
    /// a chunk this rank's own.
    fn probe(&self, number: usize) -> Result<()> {
        let (item, engine) = (self.item(number), &*self.engine);
        let own = self.own_counts(item);
        if item.round == 0 && own[self.rank()] > 0 {
            let begin = engine.geometry.begins(own, self.job.shape.sent)[self.rank()];
            let messages = words(&engine.work.send[item.chunk % 2]).part(begin, usize::MAX);
            self.probe_part(messages, own[self.rank()] as usize, words(&engine.work.own[item.chunk % 2]))?;
        }
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
        self.job.shard.submit(self.engine.exchange.stream(), batch)
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
        self.answers = Some(exchange.move_pieces(Lane::Answer, 2 * number as u64 + 1, sends, receives)?);
        Ok(())
    }

    /// Submits the way of a round's answers into the order of the batch.
    fn finish(&mut self, number: usize) -> Result<()> {
        let item = self.item(number);
        let arriving = self.answers.take();
        self.arrive(arriving, Stage::Answers)?;
        let begin = self.engine.begin_stage()?;
        self.gather(item)?;
        self.engine.end_stage(Stage::Gather, begin)
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
        unsafe { Ok(self.engine.exchange.stream().launch(warps(keys.len().div_ceil(PIECE)), kernel)?) }
    }
}
