//! Counting: all cores read the files, and the device adds up the counts.
use crate::combine::Combiner;
use anyhow::{Result, ensure};
use genomes::blocks::{Block, Blocks, Pieces};
use genomes::feed::{Batches, Column, Feed, Segments, channel};
use genomes::kmers::{Length, Strand, kmers};
pub use genomes::read::Input;
use genomes::read::{Reader, Reading, read};
use genomes::table::{Memory, Table, TableOptions};
use indicatif::ProgressBar;
use phalanx::Merge;
use phalanx::gpu::Device;
use rayon::prelude::*;
use std::cmp::Reverse;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Options for [`count`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Length of the k-mers.
    pub length: Length,
    /// Strands whose k-mers are counted.
    pub strand: Strand,
    /// The table of k-mers and counts.
    pub table: TableOptions,
}

/// Result of [`count`].
#[derive(Clone, Debug)]
pub struct Counts {
    /// Length of the k-mers.
    pub length: Length,
    /// Totals of the input.
    pub input: Input,
    /// Packed k-mers and their counts: by descending count, then in alphabetical order.
    pub pairs: Vec<(u64, u64)>,
    /// Cost of counting.
    pub cost: Cost,
}

/// Cost of counting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Number of pairs sent to the device. It is less than the number of k-mers because nearby occurrences
    /// are combined.
    pub upserts: u64,
    /// Memory of the table.
    pub memory: Memory,
    /// Time of reading, unpacking and packing, without the time for which the readers waited for the device.
    pub reading: Duration,
    /// Time from handing batches over until the device has counted them, with all copies between host and
    /// device, without the gathering of batches in pinned memory; reading overlaps with it. With several
    /// devices, each gets a batch at once, and the time ends when all have counted theirs.
    pub counting: Duration,
    /// Time from the first byte read until the last count has reached the host, without sorting.
    pub time: Duration,
    /// Part of [`Self::time`] spent on compiling kernels. Drivers cache the result for the next run.
    pub compiling: Duration,
}

/// Counts the k-mers of the files on a device.
///
/// # Errors
/// Returns [`anyhow::Error`] when a file cannot be read or is neither FASTA nor FASTQ, and when the device
/// fails or runs out of memory.
pub fn count(
    files: &[PathBuf],
    device: &Device,
    options: &Options,
    progress: &ProgressBar,
) -> Result<Counts> {
    let mut counter = Counter::new(device, options)?;
    let (start, compiled) = (Instant::now(), device.jit_ms());
    let blocks = blocks_of(files, options, progress);
    let reading = with_reader(blocks, options, |segments| counter.run(segments))?;
    let pairs = counter.contents()?;
    let time = start.elapsed();
    let compiling = compiling(std::slice::from_ref(device), &[compiled]);
    let Counter { upserts, counting, ref table, .. } = counter;
    let cost = Cost { upserts, memory: table.memory(), reading: reading.time, counting, time, compiling };
    Counts::of(options.length, reading.input, pairs, cost)
}

/// Returns the time for which devices have compiled kernels since `before`, in milliseconds of each: that of
/// the slowest.
pub(crate) fn compiling(devices: &[Device], before: &[f64]) -> Duration {
    let times = devices.iter().zip(before).map(|(device, before)| device.jit_ms() - before);
    Duration::from_secs_f64(times.fold(0.0, f64::max) / 1e3)
}

/// Counts into another table, so that no later call loads kernels or allocates staging memory: the time of
/// counting would include it, unlike that of several devices, whose tables do so when they are made.
fn warm_up(device: &Device, options: &TableOptions) -> Result<()> {
    if device.is_emulator() || options.budget.is_some() {
        return Ok(());
    }
    let kmers: Vec<u64> = (0..options.batch.min(WARM_UP) as u64).collect();
    Table::new(device, &TableOptions { capacity: 1, ..*options })?.upsert(Merge::Add, &kmers, &kmers)
}

/// Most pairs of [`warm_up`]: 16 MiB.
const WARM_UP: usize = 1 << 20;

/// Reads the files and packs the k-mers, without counting them: measures the reader alone.
///
/// # Errors
/// Returns [`anyhow::Error`] when a file cannot be read or is neither FASTA nor FASTQ.
pub fn read_only(files: &[PathBuf], options: &Options, progress: &ProgressBar) -> Result<Reading> {
    with_reader(blocks_of(files, options, progress), options, |segments| {
        segments.discard();
        Ok(())
    })
}

/// Returns the blocks of the files.
pub(crate) fn blocks_of(files: &[PathBuf], options: &Options, progress: &ProgressBar) -> Blocks {
    Blocks::new(files, Pieces::for_kmers(options.length), progress)
}

/// Reads blocks on all cores, and passes what they send to `receive`.
pub(crate) fn with_reader(
    blocks: Blocks,
    options: &Options,
    receive: impl FnOnce(Segments<u64>) -> Result<()>,
) -> Result<Reading> {
    let (feed, segments) = channel(options.table.batch);
    let new = move || Packer::new(options, feed.clone());
    thread::scope(|scope| {
        let reader = scope.spawn(move || read(blocks, new));
        let received = receive(segments);
        let reading = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // If the receiver fails, the reader's error is only that it is gone.
        received.and(reading)
    })
}

/// Packs the k-mers of blocks.
struct Packer {
    length: Length,
    strand: Strand,
    combiner: Combiner,
    input: Input,
}

impl Packer {
    fn new(options: &Options, feed: Feed<u64>) -> Self {
        let (length, strand) = (options.length, options.strand);
        Self { length, strand, combiner: Combiner::new(feed), input: Input::default() }
    }
}

impl Reader for Packer {
    fn take(&mut self, block: &Block) -> Result<()> {
        let Self { length, strand, combiner, input } = self;
        block.for_each(|record| {
            let mut found = 0;
            for kmer in kmers(record.letters, *length, *strand) {
                found += 1;
                combiner.add(kmer)?;
            }
            input.add(record, found);
            Ok(())
        })
    }

    fn finish(self) -> Result<(Input, Duration)> {
        Ok((self.input, self.combiner.finish()?))
    }
}

/// Table on the device. Counts have 64 bits: next to 64-bit keys they take no more memory than 32-bit counts,
/// and they cannot overflow.
struct Counter {
    table: Table<u64>,
    batches: Batches<u64>,
    outcomes: Column<u8>,
    upserts: u64,
    counting: Duration,
}

impl Counter {
    fn new(device: &Device, options: &Options) -> Result<Self> {
        warm_up(device, &options.table)?;
        let table = Table::new(device, &options.table)?;
        let batches = Batches::new(device, options.table.batch)?;
        let outcomes = Column::new(device, options.table.batch.max(1))?;
        Ok(Self { table, batches, outcomes, upserts: 0, counting: Duration::ZERO })
    }

    fn run(&mut self, segments: Segments<u64>) -> Result<()> {
        let Self { table, batches, outcomes, upserts, counting } = self;
        batches.run(segments, |kmers, counts| {
            let start = Instant::now();
            table.upsert_into(Merge::Add, (kmers, counts), outcomes.first(kmers.len())?)?;
            *counting += start.elapsed();
            *upserts += kmers.len() as u64;
            Ok(())
        })
    }

    fn contents(&self) -> Result<Vec<(u64, u64)>> {
        let (kmers, counts) = self.table.export()?;
        Ok(kmers.into_par_iter().zip(counts).collect())
    }
}

impl Counts {
    /// Returns the result of counting, sorted.
    pub(crate) fn of(length: Length, input: Input, pairs: Vec<(u64, u64)>, cost: Cost) -> Result<Self> {
        let counts = Self { length, input, pairs, cost };
        counts.check()?;
        Ok(counts.sorted())
    }

    /// Checks that the counts add up to the number of k-mers read.
    fn check(&self) -> Result<()> {
        let sum: u64 = self.pairs.par_iter().map(|&(_, count)| count).sum();
        let read = self.input.kmers;
        ensure!(sum == read, "{read} k-mers were read and {sum} were counted: please report this");
        Ok(())
    }

    fn sorted(mut self) -> Self {
        self.pairs.par_sort_unstable_by_key(|&(kmer, count)| (Reverse(count), kmer));
        self
    }

    /// Returns the k-mers with a count of at least `least`: a prefix of all pairs.
    pub fn at_least(&self, least: u64) -> &[(u64, u64)] {
        &self.pairs[..self.pairs.partition_point(|&(_, count)| count >= least)]
    }

    /// Returns each multiplicity that occurs, in ascending order, with the number of distinct k-mers that
    /// have it.
    pub fn spectrum(&self) -> Vec<(u64, u64)> {
        let (mut rest, mut groups) = (&self.pairs[..], Vec::new());
        while let Some(&(_, multiplicity)) = rest.first() {
            let (group, others) = rest.split_at(rest.partition_point(|&(_, count)| count == multiplicity));
            groups.push((multiplicity, group.len() as u64));
            rest = others;
        }
        groups.reverse();
        groups
    }
}
