//! Reading on all cores.
use crate::blocks::{Block, Blocks, Record};
use anyhow::Result;
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use std::iter::Sum;
use std::time::{Duration, Instant};

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

impl Input {
    /// Adds a record with this number of k-mers.
    pub fn add(&mut self, record: &Record<'_>, kmers: u64) {
        self.sequences += u64::from(!record.continues);
        self.letters += (record.letters.len() - record.repeated) as u64;
        self.kmers += kmers;
    }
}

impl Sum for Input {
    fn sum<I: Iterator<Item = Self>>(inputs: I) -> Self {
        inputs.fold(Self::default(), |sum, input| Self {
            sequences: sum.sequences + input.sequences,
            letters: sum.letters + input.letters,
            kmers: sum.kmers + input.kmers,
        })
    }
}

/// Result of [`read`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Totals of the input.
    pub input: Input,
    /// Time of reading: from the first to the last block, without the time for which the threads waited for
    /// the receiver of their results, on average over the threads.
    pub time: Duration,
}

/// Work of one thread that reads.
pub trait Reader: Send {
    /// Takes the records of a block.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the block is damaged, or when the results are no longer wanted.
    fn take(&mut self, block: &Block) -> Result<()>;

    /// Ends. Returns the totals, and the time for which the thread waited for the receiver of its results.
    ///
    /// # Errors
    /// As [`Self::take`].
    fn finish(self) -> Result<(Input, Duration)>;
}

/// Gives all blocks to readers, one per core. The threads are other ones than those of rayon's global pool,
/// which the receiver of the results may need while the readers wait for it.
///
/// # Errors
/// Returns the first error of a block or a reader, and [`anyhow::Error`] when threads cannot be started.
pub fn read<R: Reader>(blocks: Blocks, reader: impl Fn() -> R + Send + Sync) -> Result<Reading> {
    let pool = ThreadPoolBuilder::new().build()?;
    let start = Instant::now();
    let totals: Vec<(Input, Duration)> = pool.install(|| {
        let taken = blocks.par_bridge().try_fold(&reader, |mut reader, block| -> Result<R> {
            reader.take(&block?)?;
            Ok(reader)
        });
        taken.map(|reader| reader?.finish()).collect::<Result<_>>()
    })?;
    let waited: Duration = totals.iter().map(|&(_, waited)| waited).sum();
    let time = start.elapsed().saturating_sub(waited / pool.current_num_threads() as u32);
    Ok(Reading { input: totals.iter().map(|&(input, _)| input).sum(), time })
}
