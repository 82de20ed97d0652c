//! Counting: one thread reads the files, and the device adds up the counts.
use crate::batch::{Batch, Combiner};
use crate::input;
use crate::kmers::{Length, Strand, kmers};
use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use phalanx::gpu::Device;
use phalanx::hash_map::{Growth, HashMap, Merge};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Options for [`count`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Length of the k-mers.
    pub length: Length,
    /// Strands whose k-mers are counted.
    pub strand: Strand,
    /// Initial capacity of the table in distinct k-mers. The table doubles when it is full.
    pub capacity: usize,
    /// Number of (k-mer, count) pairs per batch.
    pub batch: usize,
}

impl Options {
    /// Default number of pairs per batch: 16 MiB.
    pub const BATCH: usize = 1 << 20;
}

/// Totals of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Number of FASTA or FASTQ records.
    pub sequences: u64,
    /// Number of letters in the records, including letters that are not bases.
    pub letters: u64,
    /// Number of k-mers, including repeats.
    pub kmers: u64,
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
    /// Final size of the table on the device, in bytes.
    pub table_bytes: usize,
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
    let mut table = Table::new(device, options)?;
    let start = Instant::now();
    let (input, pairs) = thread::scope(|scope| {
        // At most two batches wait in the channel: if the device is slower than the reader, the batches must
        // not fill the host's memory.
        let (sender, receiver) = sync_channel(2);
        let reader = scope.spawn(move || read(files, options, progress, &sender));
        let counted = receiver.into_iter().try_for_each(|batch| table.add(&batch));
        let input = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        anyhow::Ok((input?, counted.and_then(|()| table.contents())?))
    })?;
    let time = start.elapsed();
    let compiling = Duration::from_secs_f64(device.jit_ms() / 1e3);
    let cost = Cost { upserts: table.upserts, table_bytes: table.map.memory_usage(), time, compiling };
    let counts = Counts { length: options.length, input, pairs, cost };
    counts.check()?;
    Ok(counts.sorted())
}

/// Reads all files and sends their k-mers. Stops early when the receiver has hung up; the receiver then
/// reports the cause.
fn read(
    files: &[PathBuf],
    options: &Options,
    progress: &ProgressBar,
    sender: &SyncSender<Batch>,
) -> Result<Input> {
    let mut input = Input::default();
    let mut combiner = Combiner::new(options.batch);
    for file in files {
        let is_wanted = input::for_each_sequence(file, progress, |letters| {
            input.sequences += 1;
            input.letters += letters.len() as u64;
            let mut full = kmers(letters, options.length, options.strand)
                .inspect(|_| input.kmers += 1)
                .filter_map(|kmer| combiner.add(kmer));
            full.all(|batch| sender.send(batch).is_ok())
        })?;
        if !is_wanted {
            break;
        }
    }
    combiner.finish().into_iter().try_for_each(|batch| sender.send(batch)).ok();
    Ok(input)
}

/// Table on the device. Counts have 64 bits: next to 64-bit keys they take no more memory than 32-bit counts,
/// and they cannot overflow.
struct Table {
    map: HashMap<u64, u64>,
    upserts: u64,
}

impl Table {
    fn new(device: &Device, options: &Options) -> Result<Self> {
        let capacity = options.capacity;
        let builder = HashMap::builder().device(device).capacity(capacity).growth(Growth::Doubling);
        let map = builder.build().with_context(|| {
            format!("no table for {capacity} k-mers: a smaller --capacity does, since the table grows")
        })?;
        Ok(Self { map, upserts: 0 })
    }

    fn add(&mut self, batch: &Batch) -> Result<()> {
        self.upserts += batch.len() as u64;
        // A growing table either inserts all pairs or returns an error.
        self.map.upsert(Merge::Add, &batch.kmers, &batch.counts).map(drop).with_context(|| {
            let held = self.map.capacity();
            format!(
                "the table could not grow beyond {held} k-mers: while it grows there are two, so set \
                 --capacity to what is needed at once, or count fewer files at a time"
            )
        })
    }

    fn contents(&self) -> Result<Vec<(u64, u64)>> {
        let (kmers, counts) = self.map.export().context("the counts could not be copied from the device")?;
        Ok(kmers.into_par_iter().zip(counts).collect())
    }
}

impl Counts {
    /// Checks that the counts add up to the number of k-mers read.
    fn check(&self) -> Result<()> {
        let sum: u64 = self.pairs.iter().map(|&(_, count)| count).sum();
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
        let groups = self.pairs.chunk_by(|left, right| left.1 == right.1);
        groups.rev().map(|group| (group[0].1, group.len() as u64)).collect()
    }
}
