//! Exchanges with counts: the counts first, then the data in rounds of bounded size.
//!
//! # Algorithm
//!
//! Each rank has a batch that is grouped by destination: first the elements for rank 0, then those for rank
//! 1, and so on. The ranks tell each other their rows of the matrix of counts; with the whole matrix, each of
//! them computes the same number of rounds, and what moves in each. In a round, at most `room` elements move
//! between any two ranks. So a window of N times `room` elements suffices, however skewed the counts are: if
//! all elements have one owner, more rounds follow.
//!
//! Two rounds are in flight: while the caller uses the elements of a round, those of the next one arrive in
//! the other window.
//!
//! Answers go the other way: the owner returns as many elements as it has received in the round, and they
//! arrive in the order of the caller's batch.
use crate::transport::{Arrival, Lane, Matrix, check_equal};
use crate::{Error, Exchange, Result};
use bytemuck::Pod;
use gpu::{Slice, SliceMut};
use std::marker::PhantomData;

/// Words of a header before the counts.
const FIXED: usize = 5;

/// The pieces that move in each round.
#[derive(Debug)]
struct Plan {
    rank: usize,
    /// Most elements between two ranks in one round.
    room: usize,
    /// Number of elements from each rank to each rank.
    counts: Vec<Vec<usize>>,
    /// Index of the first element for each rank in this rank's batch.
    offsets: Vec<usize>,
    rounds: usize,
}

impl Plan {
    fn new(rank: usize, room: usize, counts: Vec<Vec<usize>>) -> Self {
        let most = counts.iter().flatten().max().copied().unwrap_or(0);
        let offsets = offsets(&counts[rank]);
        Self { rank, room, counts, offsets, rounds: most.div_ceil(room) }
    }

    /// Returns the number of elements from a rank to a rank in a round.
    fn piece(&self, from: usize, to: usize, round: usize) -> usize {
        self.counts[from][to].saturating_sub(round * self.room).min(self.room)
    }

    /// Returns the number of elements to each rank in a round.
    fn sent(&self, round: usize) -> Vec<usize> {
        (0..self.counts.len()).map(|to| self.piece(self.rank, to, round)).collect()
    }

    /// Returns the number of elements from each rank in a round.
    fn received(&self, round: usize) -> Vec<usize> {
        (0..self.counts.len()).map(|from| self.piece(from, self.rank, round)).collect()
    }

    /// Returns the index in this rank's batch of the first element for a rank in a round.
    fn first(&self, to: usize, round: usize) -> usize {
        self.offsets[to] + (round * self.room).min(self.counts[self.rank][to])
    }
}

/// Returns the sums of the numbers before each.
pub fn offsets(counts: &[usize]) -> Vec<usize> {
    let next = |sum: &mut usize, count: &usize| {
        let before = *sum;
        *sum = sum.saturating_add(*count);
        Some(before)
    };
    counts.iter().scan(0, next).collect()
}

/// An operation of all ranks, in which elements `T` go to their owners in rounds, and answers `A` come back.
/// Made by [`Exchange::rounds`].
///
/// By NCCL, callers load their kernels and allocate their memory before: either may deadlock while NCCL waits
/// for another rank.
///
/// The caller repeats [`next`](Self::next), and [`answer`](Self::answer) if `A` has a size, until `next`
/// returns `None`. Dropping it before ends the exchange: the others get [`Error::PeerLost`].
#[derive(Debug)]
pub struct Rounds<'a, T, A> {
    exchange: &'a mut Exchange,
    send: Slice<'a, u8>,
    plan: Plan,
    /// Number of rounds that the caller has taken.
    taken: usize,
    /// The next round, which moves while the caller uses the last one.
    ahead: Option<Arrival>,
    /// Whether the last round has no answers yet.
    owes_answer: bool,
    of: PhantomData<(T, A)>,
}

/// The elements that have arrived in a round, in the window of the exchange.
///
/// Work that uses them is submitted to [`Exchange::stream`] before the next call of [`Rounds::next`], which
/// lets the other ranks overwrite them.
#[derive(Debug)]
pub struct Received<'a, T> {
    parts: Vec<Slice<'a, T>>,
    round: usize,
    first: usize,
}

impl<'a, T: Pod> Received<'a, T> {
    /// Returns the elements from each rank, in the order of that rank's batch.
    pub fn parts(&self) -> &[Slice<'a, T>] {
        &self.parts
    }

    /// Returns the number of elements from all ranks.
    pub fn len(&self) -> usize {
        self.parts.iter().map(Slice::len).sum()
    }

    /// Returns `true` if no rank has sent elements to this one in the round.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of the round, counted from 0.
    pub fn round(&self) -> usize {
        self.round
    }

    /// Returns how many elements each rank with elements in this round has sent to this rank in earlier
    /// rounds.
    pub fn first(&self) -> usize {
        self.first
    }
}

/// The numbers that a rank tells the others at the beginning of an operation.
pub struct Header<'a> {
    pub operation: u32,
    pub element: usize,
    pub answer: usize,
    pub is_refused: bool,
    /// Number of elements that this rank can receive.
    pub capacity: u64,
    /// Number of elements from each rank, if the caller knows it.
    pub receives: Option<&'a [usize]>,
    pub counts: &'a [usize],
}

impl Header<'_> {
    pub fn words(&self, ranks: usize) -> Vec<u64> {
        let fixed = [
            u64::from(self.operation),
            self.element as u64,
            self.answer as u64,
            u64::from(self.is_refused),
            self.capacity,
        ];
        let receives = self.receives.unwrap_or_default().iter().map(|count| *count as u64);
        let counts = self.counts.iter().map(|count| *count as u64).chain(std::iter::repeat(0)).take(ranks);
        fixed.into_iter().chain(receives).chain(counts).collect()
    }
}

/// Exchanges with counts.
impl Exchange {
    /// Begins to send each element of `send` to its owner, in rounds. `send` is grouped by owner, and the
    /// `i`-th of `counts` is the number of elements for rank `i`. `operation` is a number of the caller's
    /// choice that must be the same on all ranks. `A` is the type of the answers; `()` if there are none.
    ///
    /// Cost: each rank tells the others 8 · (N + 5) bytes. Then each element moves once, and so does each
    /// answer.
    ///
    /// ```
    /// use exchange::{Exchange, Limits, Meeting};
    ///
    /// let device = gpu::Device::emulator(Default::default());
    /// let limits = Limits { part_bytes: 256, slot_bytes: 256, ..Limits::default() };
    /// let mut exchange = Exchange::emulated(&Meeting::new(1)?, 0, &device, limits)?;
    /// let batch = device.from_slice(&(0..100u32).collect::<Vec<_>>())?;
    /// let mut doubled = device.zeroed::<u32>(100)?;
    /// let mut rounds = exchange.rounds::<u32, u32>(1, batch.slice(..)?, &[100])?;
    /// while rounds.next()?.is_some() {
    ///     rounds.wait()?; // since the host reads the elements; a kernel would need no wait
    ///     let keys = rounds.received()?.unwrap().parts()[0].read()?;
    ///     assert!(keys.len() <= 64);
    ///     let answers = device.from_slice(&keys.iter().map(|key| 2 * key).collect::<Vec<_>>())?;
    ///     rounds.answer(answers.slice(..)?, &mut doubled.slice_mut(..)?)?;
    /// }
    /// drop(rounds);
    /// assert_eq!((doubled.read()?[99], exchange.traffic().rounds), (198, 4));
    /// # Ok::<(), exchange::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Arguments`] unless `send` belongs to this rank's device and has as many elements as `counts`,
    /// which has a number per rank, and `T` has a size and fits a part of a window; [`Error::Refused`] if
    /// this is so on another rank; [`Error::Mismatch`] if operation or types differ between ranks;
    /// [`Error::PeerLost`] when a rank is lost.
    pub fn rounds<'a, T: Pod, A: Pod>(
        &'a mut self,
        operation: u32,
        send: Slice<'a, T>,
        counts: &[usize],
    ) -> Result<Rounds<'a, T, A>> {
        let refusal = self.check_arguments(&send, counts, size_of::<T>().max(size_of::<A>()));
        let is_refused = refusal.is_err();
        let (element, answer) = (size_of::<T>(), size_of::<A>());
        let (capacity, receives) = (u64::MAX, None);
        let header = Header { operation, element, answer, is_refused, capacity, receives, counts };
        let words = header.words(self.ranks());
        let all = self.step(|transport, deadline| transport.gather(words, deadline))?;
        refusal?;
        let counts = check_headers(&all)?;
        let room = self.limits().part_bytes / element.max(answer);
        let plan = Plan::new(self.rank(), room, counts);
        let send = send.cast()?;
        Ok(Rounds { exchange: self, send, plan, taken: 0, ahead: None, owes_answer: false, of: PhantomData })
    }

    /// Returns an error unless there is a count for each rank, and their sum is `len`.
    pub(crate) fn check_counts(&self, counts: &[usize], len: usize) -> Result<()> {
        if counts.len() != self.ranks() {
            let expected = format!("there are {} ranks", self.ranks());
            return Err(Error::arguments("the number of counts", counts.len(), expected));
        }
        match counts.iter().try_fold(0usize, |sum, count| sum.checked_add(*count)) {
            Some(sum) if sum == len => Ok(()),
            sum => {
                let expected = format!("the batch has {len} elements");
                Err(Error::arguments("the sum of the counts", sum.unwrap_or(usize::MAX), expected))
            }
        }
    }

    /// Returns an error unless a batch fits its counts, the device of this rank, and the windows.
    pub(crate) fn check_arguments<T: Pod>(
        &self,
        send: &Slice<'_, T>,
        counts: &[usize],
        largest: usize,
    ) -> Result<()> {
        self.check_counts(counts, send.len())?;
        let part = self.limits().part_bytes;
        if size_of::<T>() == 0 || largest > part {
            let expected = format!("a part of a window has {part} bytes, and an element at least 1");
            return Err(Error::arguments("the bytes per element", largest, expected));
        }
        self.check_device("the ordinal of the batch's device", send.device())
    }
}

/// Returns the matrix of counts, or the first reason for which the operation cannot begin; the same on all
/// ranks.
pub fn check_headers(all: &[Vec<u64>]) -> Result<Matrix> {
    if let Some(rank) = all.iter().position(|words| words[3] != 0) {
        return Err(Error::Refused { rank });
    }
    for (word, what) in ["operation", "bytes per element", "bytes per answer"].into_iter().enumerate() {
        check_equal(what, all.iter().map(|words| words[word]))?;
    }
    let counts = |words: &Vec<u64>| words[words.len() - all.len()..].to_vec();
    let counts: Vec<_> = all.iter().map(counts).collect();
    for (rank, words) in all.iter().enumerate() {
        let (capacity, column) = (words[4], counts.iter().map(|row| row[rank]));
        let len = column.fold(0, u64::saturating_add);
        if len > capacity {
            return Err(Error::NoRoom { rank, len, capacity });
        }
        check_receives(rank, &words[FIXED..words.len() - all.len()], &counts, words[1])?;
    }
    let row = |row: Vec<u64>| row.into_iter().map(|count| count as usize).collect();
    Ok(counts.into_iter().map(row).collect())
}

/// Returns an error unless each rank sends as many elements to rank `to` as this one expects, if it does.
fn check_receives(to: usize, receives: &[u64], counts: &[Vec<u64>], element: u64) -> Result<()> {
    let pairs = receives.iter().zip(counts).enumerate();
    match pairs
        .map(|(rank, (expected, row))| (rank, row[to], *expected))
        .find(|(_, found, expected)| found != expected)
    {
        None => Ok(()),
        Some((rank, found, expected)) => {
            let bytes = |count: u64| count.saturating_mul(element);
            Err(Error::Damaged { rank, found: bytes(found), expected: bytes(expected) })
        }
    }
}

impl<T: Pod, A: Pod> Rounds<'_, T, A> {
    /// Returns the number of rounds, which is the same on all ranks.
    pub fn len(&self) -> usize {
        self.plan.rounds
    }

    /// Returns `true` if no rank sends anything.
    pub fn is_empty(&self) -> bool {
        self.plan.rounds == 0
    }

    /// Returns the number of elements that rank `from` sends to this one in all rounds.
    pub fn count_from(&self, from: usize) -> usize {
        self.plan.counts.get(from).map_or(0, |row| row[self.plan.rank])
    }

    /// Moves the elements of the next round, and returns those that have arrived; `None` after the last.
    ///
    /// # Errors
    /// [`Error::PeerLost`] when a rank is lost; [`Error::Arguments`] if the last round has no answers yet;
    /// [`Error::Damaged`] if a rank sends another size than it announced; [`Error::Device`] when a device
    /// failed. After any error the exchange is at its end.
    #[allow(clippy::should_implement_trait)] // what it returns borrows from it, and it may fail
    pub fn next(&mut self) -> Result<Option<Received<'_, T>>> {
        if self.owes_answer {
            let found = self.taken - 1;
            self.exchange.abandon();
            return Err(Error::arguments("a round without answers", found, "each round is answered"));
        }
        if self.taken == self.plan.rounds {
            return Ok(None);
        }
        let arrival = match self.ahead.take() {
            Some(arrival) => arrival,
            None => self.request(self.taken)?,
        };
        self.exchange.step(|transport, _| arrival.order(transport.stream()))?;
        self.taken += 1;
        self.owes_answer = size_of::<A>() > 0;
        if self.taken < self.plan.rounds {
            self.ahead = Some(self.request(self.taken)?);
        }
        self.received()
    }

    /// Returns the elements of the last round again; `None` before the first.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn received(&self) -> Result<Option<Received<'_, T>>> {
        let Some(round) = self.taken.checked_sub(1) else { return Ok(None) };
        let parts = self.window(Lane::request(round), &self.plan.received(round))?;
        Ok(Some(Received { parts, round, first: round * self.plan.room }))
    }

    /// Waits until the elements of the last round have arrived. A host that reads them calls this first, and
    /// then [`received`](Self::received): methods of buffers wait without a deadline, and a rank may be lost
    /// while its elements are on their way.
    ///
    /// # Errors
    /// As [`Exchange::wait`].
    pub fn wait(&mut self) -> Result<()> {
        self.exchange.wait()
    }

    /// Begins to move the elements of a round.
    fn request(&mut self, round: usize) -> Result<Arrival> {
        let element = size_of::<T>();
        let (sent, received) = (self.plan.sent(round), self.plan.received(round));
        let begin = |to: usize| element * self.plan.first(to, round);
        let piece = |(to, len): (usize, &usize)| self.send.slice(begin(to)..begin(to) + element * len);
        let sends = sent.iter().enumerate().map(piece).collect::<gpu::Result<_>>()?;
        begin_round(self.exchange, Lane::request(round), round, sends, byte_counts(&received, element))
    }

    /// Returns to each sender the answers to the elements of the last round, and writes those to this rank's
    /// own elements to `into`.
    ///
    /// `answers` has an element for each element that arrived in the round: first those for rank 0. `into`
    /// has an element for each element of this rank's batch, in the same order.
    ///
    /// # Errors
    /// As [`next`](Self::next); [`Error::Arguments`] if there is no round to answer, or if `answers` or
    /// `into` have other lengths. After any error the exchange is at its end.
    pub fn answer(&mut self, answers: Slice<'_, A>, into: &mut SliceMut<'_, A>) -> Result<()> {
        if let Err(error) = self.check_answers(&answers, into) {
            self.exchange.abandon();
            return Err(error);
        }
        self.owes_answer = false;
        let (round, element) = (self.taken - 1, size_of::<A>());
        let (sent, received) = (self.plan.sent(round), self.plan.received(round));
        let (answers, begins) = (answers.cast::<u8>()?, offsets(&received));
        let piece = |(begin, len): (&usize, &usize)| answers.slice(element * begin..element * (begin + len));
        let sends = begins.iter().zip(&received).map(piece).collect::<gpu::Result<_>>()?;
        let lens = byte_counts(&sent, element);
        let arrival = begin_round(self.exchange, Lane::Answer, round, sends, lens)?;
        self.exchange.step(|transport, _| arrival.order(transport.stream()))?;
        self.deliver(round, &sent, into)
    }

    /// Copies answers from the window to the caller's memory.
    fn deliver(&mut self, round: usize, sent: &[usize], into: &mut SliceMut<'_, A>) -> Result<()> {
        let stream = self.exchange.stream().clone();
        for (to, part) in self.window::<A>(Lane::Answer, sent)?.into_iter().enumerate() {
            let begin = self.plan.first(to, round);
            let place = into.slice(begin..begin + part.len())?;
            // SAFETY: `into` is borrowed mutably; the window belongs to the exchange until the next round,
            // which comes later in the stream.
            unsafe { stream.copy_peer(place, part)? };
        }
        Ok(())
    }

    fn check_answers(&self, answers: &Slice<'_, A>, into: &SliceMut<'_, A>) -> Result<()> {
        if !self.owes_answer {
            return Err(Error::arguments("answers", answers.len(), "no round waits for answers"));
        }
        let (expected, batch) =
            (self.plan.received(self.taken - 1).iter().sum(), self.send.len() / size_of::<T>());
        if answers.len() != expected {
            return Err(Error::arguments("answers", answers.len(), format!("{expected} elements arrived")));
        }
        if into.len() != batch {
            return Err(Error::arguments("memory for answers", into.len(), format!("the batch has {batch}")));
        }
        Ok(())
    }

    /// Returns the parts of a window, of which each has a number of elements.
    fn window<E: Pod>(&self, lane: Lane, counts: &[usize]) -> Result<Vec<Slice<'_, E>>> {
        let (window, stride) = (self.exchange.transport().window(lane), self.exchange.limits().part_bytes);
        let part = |(rank, count): (usize, &usize)| {
            window.slice(rank * stride..rank * stride + count * size_of::<E>())?.cast()
        };
        Ok(counts.iter().enumerate().map(part).collect::<gpu::Result<_>>()?)
    }
}

impl<T, A> Drop for Rounds<'_, T, A> {
    fn drop(&mut self) {
        if self.taken < self.plan.rounds || self.owes_answer {
            self.exchange.abandon();
        }
    }
}

/// Returns the bytes of numbers of elements.
fn byte_counts(counts: &[usize], element: usize) -> Vec<usize> {
    counts.iter().map(|count| count * element).collect()
}

/// Begins to move the data of a round.
fn begin_round(
    exchange: &mut Exchange,
    lane: Lane,
    round: usize,
    sends: Vec<Slice<'_, u8>>,
    receives: Vec<usize>,
) -> Result<Arrival> {
    let shape = 2 * round as u64 + u64::from(lane == Lane::Answer);
    let after = exchange.stream().clone();
    exchange.begin_pieces(&after, (lane, shape), sends, receives)
}
