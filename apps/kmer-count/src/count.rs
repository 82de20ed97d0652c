//! Counting: a thread that reads, and the device that adds up.
use crate::batch::{Batch, Combiner};
use crate::input;
use crate::kmers::{Length, Strand, kmers};
use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use phalanx::Map;
use phalanx::gpu::Device;
use phalanx::hash_map::{Growth, HashMap, Merge};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// What to count.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bases of a k-mer.
    pub length: Length,
    /// Which strand's k-mers count.
    pub strand: Strand,
    /// Different k-mers that the table has room for at first; it doubles when it is full.
    pub capacity: usize,
    /// Pairs of a k-mer and a count that are handed to the device at a time.
    pub batch: usize,
}

impl Options {
    /// Pairs a batch, unless one says otherwise: 16 MiB.
    pub const BATCH: usize = 1 << 20;
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// FASTA or FASTQ records.
    pub sequences: u64,
    /// Their letters, bases or not.
    pub letters: u64,
    /// K-mers in them, each as often as it is there.
    pub kmers: u64,
}

/// What was counted.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Bases of a k-mer.
    pub length: Length,
    /// What was read.
    pub input: Input,
    /// Packed k-mers and how often each is there: the most frequent first, equally frequent ones in the
    /// alphabet's order.
    pub pairs: Vec<(u64, u64)>,
    /// What it took.
    pub cost: Cost,
}

/// What counting took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Pairs that went to the device, which is less than the k-mers by those that were joined before.
    pub upserts: u64,
    /// Bytes of the table on the device at the end.
    pub table_bytes: usize,
    /// From the first byte read to the last count on the host; without sorting.
    pub time: Duration,
    /// Of that, compiling kernels for the device, which drivers remember for the next run.
    pub compiling: Duration,
}

/// Counts the k-mers of some files on a device.
///
/// # Errors
/// When a file cannot be read or is neither FASTA nor FASTQ, and when the device fails or lacks the memory.
pub fn count(
    files: &[PathBuf],
    device: &Device,
    options: &Options,
    progress: &ProgressBar,
) -> Result<Counts> {
    let mut table = Table::new(device, options)?;
    let start = Instant::now();
    let (input, pairs) = thread::scope(|scope| {
        // Two batches wait at most: the reader is not to fill the memory when the device is slower.
        let (sender, receiver) = sync_channel(2);
        let reader = scope.spawn(move || read(files, options, progress, &sender));
        let counted = table.add_all(receiver);
        let input = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        anyhow::Ok((input?, counted.and_then(|()| table.pairs())?))
    })?;
    let time = start.elapsed();
    let compiling = Duration::from_secs_f64(device.jit_ms() / 1e3);
    let cost = Cost { upserts: table.upserts, table_bytes: table.map.memory_usage(), time, compiling };
    let counts = Counts { length: options.length, input, pairs, cost };
    counts.check()?;
    Ok(counts.sorted())
}

/// Reads all files and sends what is in them. Ends early when nobody receives any more, who then knows why.
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

/// The table on the device. Counts have 64 bits: beside keys of 64 bits they take no more room than 32 do,
/// and cannot overflow.
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

    fn add_all(&mut self, batches: Receiver<Batch>) -> Result<()> {
        batches.into_iter().try_for_each(|batch| self.add(&batch))
    }

    fn add(&mut self, batch: &Batch) -> Result<()> {
        self.upserts += batch.len() as u64;
        // A table that grows either has room for all or returns an error.
        self.map.upsert(Merge::Add, &batch.kmers, &batch.counts).map(drop).with_context(|| {
            let held = self.map.capacity();
            format!(
                "the table could not grow beyond {held} k-mers: while it grows there are two, so set \
                 --capacity to what is needed at once, or count fewer files at a time"
            )
        })
    }

    fn pairs(&self) -> Result<Vec<(u64, u64)>> {
        let (kmers, counts) = self.map.export().context("the counts could not be copied from the device")?;
        Ok(kmers.into_par_iter().zip(counts).collect())
    }
}

impl Counts {
    /// No count is handed out unless they add up to what was read.
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

    /// The k-mers that are there at least `least` times: the beginning of all.
    pub fn at_least(&self, least: u64) -> &[(u64, u64)] {
        &self.pairs[..self.pairs.partition_point(|&(_, count)| count >= least)]
    }

    /// How many different k-mers are there once, twice, and so on: multiplicities that occur, rising, and
    /// their k-mers.
    pub fn spectrum(&self) -> Vec<(u64, u64)> {
        let groups = self.pairs.chunk_by(|left, right| left.1 == right.1);
        groups.rev().map(|group| (group[0].1, group.len() as u64)).collect()
    }
}
