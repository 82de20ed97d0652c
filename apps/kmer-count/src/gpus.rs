//! Counting on several GPUs: a shard of the table on each, and a thread for each.
//!
//! All cores read the files as for one GPU. In each round, every rank gets a batch; all ranks count theirs at
//! the same time, and each k-mer is counted on the GPU that owns it. A rank copies a batch to its GPU in
//! parts, and counts a part while the next one is copied:
//!
//! ```text
//! reading thread    fill the batches of all ranks ─┐                         ┌─ fill the next ones
//! copies of a rank                                 └ part 0   part 1         │
//! counting                                                    part 0  part 1 ┘
//! ```
use crate::count::{Cost, Counts, Options, blocks_of, compiling, count, with_reader};
use anyhow::{Context, Result, anyhow, ensure};
use genomes::feed::{Batch, Rounds};
use genomes::table::{Memory, TableOptions, open};
use indicatif::ProgressBar;
use phalanx::exchange::{Exchange, Limits};
use phalanx::gpu::{Buffer, Device, Event, Stream, Tier};
use phalanx::sharded_map::{on_devices, share};
use phalanx::{HashMap, Merge, Outcome, ShardedMap};
use rayon::prelude::*;
use std::array;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Batches of one GPU that a rank of several gets at once: an exchange takes the longer, the more there are.
const BATCHES: usize = 8;
/// Most pairs of a rank in a round, unless the user asks for larger batches: 128 MiB.
const MOST: usize = 1 << 23;
/// Parts in which a rank counts its batch.
const PARTS: usize = 2;

/// Returns `gpus` devices: the first CUDA devices, or emulated ones if `name` names the emulator or there is
/// no GPU.
///
/// # Errors
/// Returns [`anyhow::Error`] when the machine has fewer devices, or `name` names a single one of them.
pub fn devices(name: &str, gpus: usize) -> Result<Vec<Device>> {
    ensure!(gpus > 0, "--gpus 0 counts nothing: give at least 1");
    ensure!(
        !name.starts_with("cuda:"),
        "--device {name} is one GPU: --gpus takes the first ones of the machine"
    );
    let first = open(name)?;
    let device = |ordinal: usize| match first.is_emulator() {
        true => emulated(),
        false => Device::cuda(ordinal as u32)
            .with_context(|| format!("--gpus {gpus} needs a GPU number {ordinal}: give a smaller number")),
    };
    (0..gpus).map(device).collect()
}

/// Returns a new emulated device. [`Device::named`] returns the same one each time.
#[cfg(feature = "emulator")]
fn emulated() -> Result<Device> {
    Ok(Device::emulator(Default::default()))
}

/// Returns the error that there is no emulator.
#[cfg(not(feature = "emulator"))]
fn emulated() -> Result<Device> {
    Ok(Device::named("emulator")?)
}

/// K-mers and their counts.
type Pairs = (Vec<u64>, Vec<u64>);

/// Result of a rank.
struct Counted {
    pairs: Pairs,
    memory: usize,
}

/// Channels of a rank's batch: the reading thread fills it and sends it, and the rank sends it back when it
/// has counted it.
struct Way {
    to_rank: Sender<Batch<u64>>,
    back: Receiver<Batch<u64>>,
}

/// The rank's ends of a [`Way`], and the batch, which it sends when it is ready to count.
struct RankEnd {
    batch: Batch<u64>,
    batches: Receiver<Batch<u64>>,
    back: Sender<Batch<u64>>,
}

impl Way {
    /// Creates the channels for a rank, and a batch of `size` pairs for them.
    fn new(device: &Device, size: usize) -> Result<(Self, RankEnd)> {
        let ((to_rank, batches), (from_rank, back)) = (channel(), channel());
        let batch = Batch::of_rounds(device, size)?;
        Ok((Self { to_rank, back }, RankEnd { batch, batches, back: from_rank }))
    }
}

/// Counts the k-mers of the files on several devices.
///
/// # Errors
/// As [`count`]; also when a table has a budget and there are several devices.
pub fn count_on(
    files: &[PathBuf],
    devices: &[Device],
    options: &Options,
    progress: &ProgressBar,
) -> Result<Counts> {
    if let [device] = devices {
        return count(files, device, options, progress);
    }
    ensure!(options.table.budget.is_none(), "--gpus and --budget exclude each other: leave one out");
    let batch = options.table.batch.max(options.table.batch.saturating_mul(BATCHES).min(MOST));
    let options = &Options { table: TableOptions { batch, ..options.table }, ..*options };
    let ways: Result<Vec<_>> = devices.iter().map(|device| Way::new(device, batch)).collect();
    let (ways, ends): (Vec<_>, Vec<_>) = ways?.into_iter().unzip();
    let ends: Vec<_> = ends.into_iter().map(|end| Mutex::new(Some(end))).collect();
    let mut cost = Cost::default();
    let (counted, reading, (start, compiled)) = thread::scope(|scope| {
        // The thread drops the ends when it ends: then the ways of ranks that have not begun are closed, too.
        let ranks = scope.spawn(move || {
            on_devices(devices, limits(&options.table), |exchange| {
                let end = ends[exchange.rank()].lock().unwrap_or_else(PoisonError::into_inner).take();
                run_rank(exchange, end, &options.table)
            })
        });
        let ready = receive(&ways);
        let start = (Instant::now(), devices.iter().map(Device::jit_ms).collect::<Vec<_>>());
        let reading = ready.and_then(|batches| {
            with_reader(blocks_of(files, options, progress), options, |segments| {
                deal(Rounds::new(segments, batch), ways, batches, &mut cost)
            })
        });
        (ranks.join(), reading, start)
    });
    let counted = counted.map_err(|_| anyhow!("the thread of a GPU panicked: please report this"))?;
    let counted = counted.with_context(|| format!("counting on {} GPUs failed", devices.len()))?;
    let reading = reading?;
    cost.compiling = compiling(devices, &compiled);
    cost.memory = Memory { device: counted.iter().map(|rank| rank.memory).sum(), ..Memory::default() };
    cost.reading = reading.time;
    let pairs = joined(counted);
    cost.time = start.elapsed();
    Counts::of(options.length, reading.input, pairs, cost)
}

/// Returns the pairs of all ranks.
fn joined(ranks: Vec<Counted>) -> Vec<(u64, u64)> {
    let mut pairs = Vec::with_capacity(ranks.iter().map(|rank| rank.pairs.0.len()).sum());
    for Counted { pairs: (kmers, counts), .. } in ranks {
        pairs.par_extend(kmers.into_par_iter().zip(counts));
    }
    pairs
}

/// Returns the bounds of the exchange: parts that a batch of uniform k-mers fits, up to 32 MiB.
pub(crate) fn limits(table: &TableOptions) -> Limits {
    let bytes = table.batch.saturating_mul(16).clamp(1 << 16, 32 << 20).next_power_of_two();
    Limits { part_bytes: bytes, ..Limits::default() }
}

/// Receives the batch of each rank.
fn receive(ways: &[Way]) -> Result<Vec<Batch<u64>>> {
    ways.iter().map(|way| way.back.recv().ok().context("a GPU has ended early")).collect()
}

/// Fills batches and sends them to the ranks, until there are no more pairs. A rank's batch may be empty.
fn deal(
    mut rounds: Rounds<u64>,
    ways: Vec<Way>,
    mut batches: Vec<Batch<u64>>,
    cost: &mut Cost,
) -> Result<()> {
    loop {
        let pairs = rounds.fill(&mut batches)?;
        if pairs == 0 {
            return Ok(());
        }
        cost.upserts += pairs as u64;
        let start = Instant::now();
        for (way, batch) in ways.iter().zip(batches) {
            way.to_rank.send(batch).ok().context("a GPU has ended early")?;
        }
        batches = receive(&ways)?;
        cost.counting += start.elapsed();
    }
}

/// Makes a rank's end of the table.
pub(crate) fn make_map(exchange: Exchange, options: &TableOptions) -> phalanx::Result<ShardedMap<u64, u64>> {
    let capacity = options.capacity.div_ceil(exchange.ranks()).max(1);
    let shard = HashMap::builder().device(exchange.device()).capacity(capacity).build()?;
    ShardedMap::new(exchange, shard)
}

/// Counts the batches of a rank until there are no more.
fn run_rank(exchange: Exchange, end: Option<RankEnd>, options: &TableOptions) -> phalanx::Result<Counted> {
    let mut map = make_map(exchange, options)?;
    if let Some(RankEnd { mut batch, batches, back }) = end {
        let mut counter = RankCounter::new(map.device(), batch.capacity())?;
        // Without a receiver, reading has failed: there are no more batches.
        while back.send(batch).is_ok()
            && let Ok(next) = batches.recv()
        {
            batch = next;
            counter.add(&mut map, &batch)?;
        }
    }
    Ok(Counted { memory: map.shard().memory_usage(), pairs: map.export()? })
}

/// Memory of a rank for the batch that it counts.
struct RankCounter {
    /// Stream of the copies to the device.
    copies: Stream,
    kmers: Buffer<u64>,
    counts: Buffer<u64>,
    outcomes: Buffer<u8>,
    /// Outcomes in pinned memory.
    codes: Buffer<u8>,
}

impl RankCounter {
    fn new(device: &Device, size: usize) -> phalanx::Result<Self> {
        Ok(Self {
            copies: device.stream()?,
            kmers: device.buffer(size)?,
            counts: device.buffer(size)?,
            outcomes: device.buffer(size)?,
            codes: device.buffer_on(Tier::Pinned, size)?,
        })
    }

    /// Adds the counts of a batch. All ranks call it, each with its own batch.
    fn add(&mut self, map: &mut ShardedMap<u64, u64>, batch: &Batch<u64>) -> phalanx::Result<()> {
        let (kmers, counts) = batch.columns()?;
        let parts: [_; PARTS] = array::from_fn(|part| share(kmers.len(), part, PARTS));
        let mut copied = Vec::with_capacity(PARTS);
        for part in &parts {
            // SAFETY: the copies are on a stream of the buffers' device. They have ended before this call
            // returns: `map` waits for each of them, and this call for `map`. If it returns earlier, for an
            // error, the rank drops the batch and these buffers, which waits for the device.
            copied.push(unsafe { self.copy(part, (kmers, counts))? });
        }
        for (Range { start, end }, copied) in parts.into_iter().zip(copied) {
            map.stream().wait(&copied)?;
            let (kmers, counts) = (self.kmers.slice(start..end)?, self.counts.slice(start..end)?);
            let outcomes = self.outcomes.slice_mut(start..end)?;
            map.batches().upsert(Merge::Add, kmers, counts, outcomes)?;
        }
        map.wait()?;
        let (kmers, counts) = self.refused(kmers, counts)?;
        // This call also grows a shard that is too full, so all ranks make it, also without refused pairs.
        map.upsert(Merge::Add, &kmers, &counts).map(drop)
    }

    /// Submits copies of a part of the pairs to the device. Returns an event after them.
    ///
    /// # Safety
    /// - The pairs stay alive and unchanged until the event.
    /// - The device does not access the buffers from this call to the event.
    unsafe fn copy(
        &mut self,
        part: &Range<usize>,
        (kmers, counts): (&[u64], &[u64]),
    ) -> phalanx::Result<Event> {
        // SAFETY: the caller's obligations; `copies` is a stream of the buffers' device.
        unsafe {
            self.kmers.write_on(&self.copies, part.start, &kmers[part.clone()])?;
            self.counts.write_on(&self.copies, part.start, &counts[part.clone()])?;
        }
        Ok(self.copies.record()?)
    }

    /// Returns the pairs of the batch that a full shard has refused.
    fn refused(&mut self, kmers: &[u64], counts: &[u64]) -> phalanx::Result<Pairs> {
        let codes = &mut self.codes.as_mut_slice()?[..kmers.len()];
        self.outcomes.read_into(0, codes)?;
        let pieces = codes.par_chunks(PIECE).enumerate();
        Ok(pieces
            .flat_map_iter(|(piece, codes)| refused_in(piece, codes))
            .map(|at| (kmers[at], counts[at]))
            .unzip())
    }
}

/// Outcomes that one task reads.
const PIECE: usize = 1 << 17;

/// Returns the indices of the refused elements of a piece.
fn refused_in(piece: usize, codes: &[u8]) -> impl Iterator<Item = usize> {
    const REFUSED: u8 = Outcome::Refused as u8;
    // Most pieces have none, which `contains` finds faster than a loop that collects.
    let codes = if codes.contains(&REFUSED) { codes } else { &[] };
    let places = codes.iter().enumerate().filter(|&(_, &code)| code == REFUSED);
    places.map(move |(place, _)| piece * PIECE + place)
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use super::*;

    #[test]
    fn each_rank_has_a_device_of_its_own() {
        let devices = devices("emulator", 3).unwrap();
        assert!(devices[0] != devices[1] && devices[1] != devices[2] && devices[0] != devices[2]);
    }

    #[test]
    fn refused_elements_are_found() {
        let mut codes = vec![Outcome::Inserted as u8; PIECE];
        assert_eq!(refused_in(2, &codes).count(), 0);
        codes[7] = Outcome::Refused as u8;
        codes[PIECE - 1] = Outcome::Refused as u8;
        assert!(refused_in(2, &codes).eq([2 * PIECE + 7, 3 * PIECE - 1]));
    }
}
