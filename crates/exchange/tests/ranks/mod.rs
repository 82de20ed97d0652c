//! Ranks as threads, and the model against which their results are compared.
#![allow(dead_code)] // each test binary uses a part
use exchange::{Error, Exchange, Limits, Lost, Meeting, Planted};
use gpu::Device;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::thread;
use std::time::Duration;

pub use exchange::Result;

/// Ways to move data that need no GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Emulated,
    Peer,
}

pub const KINDS: [Kind; 2] = [Kind::Emulated, Kind::Peer];
pub const RANKS: [usize; 5] = [1, 2, 3, 5, 8];

/// Small parts, so that small batches need several rounds.
pub fn small() -> Limits {
    Limits { part_bytes: 512, slot_bytes: 256, deadline: Duration::from_secs(20) }
}

pub fn join(kind: Kind, meeting: &Meeting, rank: usize, limits: Limits) -> Result<Exchange> {
    let device = Device::emulator(Default::default());
    match kind {
        Kind::Emulated => Exchange::emulated(meeting, rank, &device, limits),
        Kind::Peer => Exchange::peer(meeting, rank, &device, limits),
    }
}

/// Runs a function on each rank in a thread of its own, and returns the results.
pub fn run_with<R: Send>(
    (kind, ranks): (Kind, usize),
    limits: Limits,
    planted: Vec<Planted>,
    run: impl Fn(Exchange) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let meeting = Meeting::with_faults(ranks, planted).unwrap();
    let (meeting, run) = (&meeting, &run);
    thread::scope(|scope| {
        let rank = |rank| scope.spawn(move || run(join(kind, meeting, rank, limits)?));
        let threads: Vec<_> = (0..ranks).map(rank).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// As [`run_with`], without faults; all must succeed.
pub fn run<R: Send>(
    case: (Kind, usize),
    limits: Limits,
    run: impl Fn(Exchange) -> Result<R> + Sync,
) -> Vec<R> {
    run_with(case, limits, Vec::new(), run).into_iter().map(|result| result.unwrap()).collect()
}

/// Shape of the matrix of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    Zero,
    Uniform,
    /// All elements have one owner.
    OneOwner,
    /// Some ranks have nothing to send, and the others nothing to receive.
    HalfEmpty,
    /// Each count fills a number of rounds exactly.
    Full,
}

pub const COUNTS: [Counts; 5] =
    [Counts::Zero, Counts::Uniform, Counts::OneOwner, Counts::HalfEmpty, Counts::Full];

/// Returns the number of elements from each rank to each rank; the same on all ranks.
pub fn matrix(ranks: usize, counts: Counts, seed: u64) -> Vec<Vec<usize>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut count = |from: usize, to: usize| {
        let random: usize = rng.random_range(0..300);
        match counts {
            Counts::Zero => 0,
            Counts::Uniform => random,
            Counts::OneOwner if to == ranks / 2 => 200 + random,
            Counts::OneOwner => 0,
            Counts::HalfEmpty if from.is_multiple_of(2) && !to.is_multiple_of(2) => random,
            Counts::HalfEmpty => 0,
            Counts::Full => 128,
        }
    };
    (0..ranks).map(|from| (0..ranks).map(|to| count(from, to)).collect()).collect()
}

/// Element `index` from a rank to a rank: different for all.
pub fn element(from: usize, to: usize, index: usize) -> u32 {
    (from << 24 | to << 16 | index) as u32 ^ 0x5a5a_5a5a
}

/// Elements that a test moves.
pub trait Element: bytemuck::Pod + PartialEq + std::fmt::Debug + Send {
    fn new(word: u32) -> Self;
}

impl Element for u32 {
    fn new(word: u32) -> Self {
        word
    }
}

impl Element for u64 {
    fn new(word: u32) -> Self {
        u64::from(word) << 32 | u64::from(!word)
    }
}

/// A size that divides neither a part nor a slot.
impl Element for [u8; 3] {
    fn new(word: u32) -> Self {
        [word as u8, (word >> 16) as u8, (word >> 24) as u8 ^ (word >> 8) as u8]
    }
}

/// Returns the batch of a rank: grouped by owner.
pub fn batch<T: Element>(matrix: &[Vec<usize>], from: usize) -> Vec<T> {
    let part = |(to, count): (usize, &usize)| {
        let to = move |index| T::new(element(from, to, index));
        (0..*count).map(to)
    };
    matrix[from].iter().enumerate().flat_map(part).collect()
}

/// Returns what arrives at a rank: the parts of all senders, in their order.
pub fn arrivals<T: Element>(matrix: &[Vec<usize>], to: usize) -> Vec<T> {
    let part =
        |(from, row): (usize, &Vec<usize>)| (0..row[to]).map(move |index| T::new(element(from, to, index)));
    matrix.iter().enumerate().flat_map(part).collect()
}

/// Returns the loss that an error reports.
pub fn lost<R>(result: &Result<R>) -> Option<&Lost> {
    match result {
        Err(Error::PeerLost(lost)) => Some(lost),
        _ => None,
    }
}

/// Sends a batch to its owners, and returns whether what arrives is what the model says.
pub fn send<T: Element>(exchange: &mut Exchange, matrix: &[Vec<usize>]) -> Result<bool> {
    let (rank, device) = (exchange.rank(), exchange.device().clone());
    let (batch, expected) = (device.from_slice(&batch::<T>(matrix, rank))?, arrivals::<T>(matrix, rank));
    let mut received = device.filled::<T>(expected.len() + 2, 0xee)?;
    let counts = exchange.all_to_all(
        3,
        batch.slice(..)?,
        &matrix[rank],
        received.slice_mut(1..expected.len() + 1)?,
    )?;
    exchange.wait()?;
    let column: Vec<_> = matrix.iter().map(|row| row[rank]).collect();
    let read = received.read()?;
    let untouched = device.filled::<T>(1, 0xee)?.read()?[0];
    let around = [read[0], read[expected.len() + 1]] == [untouched; 2];
    Ok(counts == column && read[1..=expected.len()] == expected[..] && around)
}

/// As [`send`], by ranks that know how many elements they receive.
pub fn send_sized<T: Element>(exchange: &mut Exchange, matrix: &[Vec<usize>]) -> Result<bool> {
    let (rank, device) = (exchange.rank(), exchange.device().clone());
    let (batch, expected) = (device.from_slice(&batch::<T>(matrix, rank))?, arrivals::<T>(matrix, rank));
    let mut into = device.filled::<T>(expected.len() + 3, 0xee)?;
    let receives: Vec<_> = matrix.iter().map(|row| row[rank]).collect();
    exchange.all_to_all_sized(6, batch.slice(..)?, &matrix[rank], into.slice_mut(..)?, &receives)?;
    exchange.wait()?;
    let rest = device.filled::<T>(3, 0xee)?.read()?;
    Ok(into.read()? == [expected, rest].concat())
}

/// The function that owners apply to elements.
pub fn answer_to(word: u32) -> u64 {
    u64::from(word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Sends a batch, answers what arrives, and returns whether the answers are those of the batch.
pub fn ask(exchange: &mut Exchange, matrix: &[Vec<usize>]) -> Result<bool> {
    let (rank, device) = (exchange.rank(), exchange.device().clone());
    let keys = batch::<u32>(matrix, rank);
    let (on_device, mut into) = (device.from_slice(&keys)?, device.filled::<u64>(keys.len(), 0xee)?);
    let mut rounds = exchange.rounds::<u32, u64>(4, on_device.slice(..)?, &matrix[rank])?;
    while rounds.next()?.is_some() {
        rounds.wait()?;
        let mut answers = Vec::new();
        for part in rounds.received()?.iter().flat_map(|received| received.parts()) {
            answers.extend(part.read()?.into_iter().map(answer_to));
        }
        rounds.answer(device.from_slice(&answers)?.slice(..)?, &mut into.slice_mut(..)?)?;
    }
    drop(rounds);
    exchange.wait()?;
    Ok(into.read()? == keys.into_iter().map(answer_to).collect::<Vec<_>>())
}

/// Sends what fits slots, answers it, and returns whether counts, elements and answers are those of the
/// model.
pub fn send_padded(exchange: &mut Exchange, matrix: &[Vec<usize>]) -> Result<bool> {
    let (rank, ranks, device) = (exchange.rank(), exchange.ranks(), exchange.device().clone());
    let (slot, capacity) = (exchange.limits().slot_bytes, exchange.slot_capacity::<u32, u32>());
    let batch = device.from_slice(&batch::<u32>(matrix, rank))?;
    let mut slots = device.filled::<u8>(ranks * slot, 0)?;
    exchange.fill_slots::<u32, u32>(5, &mut slots, batch.slice(..)?, &matrix[rank])?;
    let mut padded = exchange.padded::<u32, u32>(5, slots.slice(..)?)?;
    let mut is_right = true;
    let mut answers = Vec::new();
    for (from, row) in matrix.iter().enumerate() {
        let count = row[rank].min(capacity);
        let part = padded.part(from)?.read()?;
        let expected: Vec<_> = (0..count).map(|index| element(from, rank, index)).collect();
        is_right &= part.len() == capacity && part[..count] == expected[..];
        let mut words = vec![0u32; slot / 4];
        words[4..4 + count].copy_from_slice(&expected.iter().map(|word| !word).collect::<Vec<_>>());
        answers.extend(words);
    }
    let answers = device.from_slice(&answers)?;
    let returned = padded.answer(answers.slice(..)?.cast()?)?.cast::<u32>()?.read()?;
    for (to, slot) in returned.chunks(slot / 4).enumerate() {
        let count = matrix[rank][to].min(capacity);
        let expected: Vec<_> = (0..count).map(|index| !element(rank, to, index)).collect();
        is_right &= slot[4..4 + count] == expected[..];
    }
    let counts = padded.counts()?;
    drop(padded);
    Ok(is_right && counts == matrix.iter().map(|row| row[rank] as u64).collect::<Vec<_>>())
}

/// All operations, with counts that need several rounds.
pub fn script(mut exchange: Exchange) -> Result<bool> {
    let matrix = matrix(exchange.ranks(), Counts::Uniform, 11);
    Ok(send_padded(&mut exchange, &matrix)?
        & send::<u32>(&mut exchange, &matrix)?
        & ask(&mut exchange, &matrix)?)
}
