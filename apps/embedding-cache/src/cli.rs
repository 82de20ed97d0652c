//! Command-line interface.
use crate::training::{Options, Training};
use crate::{cache, clicks, page, report};
use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use phalanx::gpu::Device;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Trains and serves the embeddings of a synthetic click stream, with a cache on a GPU.
///
/// At the end, all embeddings are compared with a model of the training.
#[derive(Clone, Debug, Parser)]
#[command(name = "embedding-cache", version)]
pub struct Cli {
    /// Number of items, each with an embedding in host memory
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = at_least_one())]
    pub items: u64,
    /// Number of items that the cache can hold, rounded up to whole buckets of 128
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = at_least_one())]
    pub capacity: u64,
    /// Number of elements of an embedding, 1 to 1024
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = up_to(1024))]
    pub dim: u64,
    /// Number of batches
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = up_to(1 << 20))]
    pub batches: u64,
    /// Number of requests in a training batch
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = up_to(1 << 24))]
    pub batch: u64,
    /// Number of serving requests after each training batch
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = up_to(1 << 24))]
    pub serve: u64,
    /// Exponent of the Zipf distribution, 0 to 10
    #[arg(long, value_name = "X", default_value_t = 0.99, allow_negative_numbers = true)]
    pub theta: f64,
    /// Number of batches after which the hot set moves; 0 for never
    #[arg(long, value_name = "BATCHES", default_value_t = 25)]
    pub drift_every: u64,
    /// Share of the items by whose number the ranks move, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, allow_negative_numbers = true)]
    pub drift: f64,
    /// Rule of the scores: an insertion evicts the item with the lowest one
    #[arg(long, value_enum, default_value_t = Rule::Lru)]
    pub rule: Rule,
    /// Number of batches in an epoch, for the rules epoch-lru and epoch-lfu
    #[arg(long, value_name = "BATCHES", default_value_t = 10, value_parser = at_least_one())]
    pub epoch_every: u64,
    /// Admit an item after misses in so many batches; 1 admits at the first miss
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub admit_after: u32,
    /// Number of buckets in which an item can be, 1 or 2
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    pub buckets: u32,
    /// Share of the cache's rows in device memory, 0 to 1; the others lie in pinned host memory
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, allow_negative_numbers = true)]
    pub on_device: f64,
    /// Number of rows that each bucket may move to device memory after a batch
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub promote: u32,
    /// An evicted item that is requested again within so many batches counts as returned
    #[arg(long, value_name = "BATCHES", default_value_t = 5)]
    pub window: u64,
    /// Compare each row that the cache returns, too, not only all rows at the end
    #[arg(long)]
    pub verify: bool,
    /// Seed of the stream and of the hash function
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Device: auto (a GPU if available, else the emulator), cuda, cuda:N or emulator
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Write a page with figures to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Rule of the scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rule {
    /// The time of the last use
    Lru,
    /// The number of uses
    Lfu,
    /// The epoch of the last use, then its time
    EpochLru,
    /// The epoch of the last use, then the number of uses
    EpochLfu,
    /// A score that the program gives: the number of the batch
    Custom,
    /// The number of uses, then the time of the last one
    LfuThenLru,
}

impl From<Rule> for phalanx::cache_table::Rule {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Lru => Self::Lru,
            Rule::Lfu => Self::Lfu,
            Rule::EpochLru => Self::EpochLru,
            Rule::EpochLfu => Self::EpochLfu,
            Rule::Custom => Self::Custom,
            Rule::LfuThenLru => Self::LfuThenLru,
        }
    }
}

fn at_least_one() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..)
}

fn up_to(most: u64) -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=most)
}

/// Runs the program with these arguments and prints the report to `out`.
///
/// # Errors
/// Returns [`anyhow::Error`] when an option lies outside its range, the device is not available or fails, the
/// page cannot be written, or a row is not as the model has it.
pub fn run(cli: &Cli, out: &mut impl Write) -> Result<()> {
    let device = open(&cli.device)?;
    let mut training = Training::new(&device, cli.options())?;
    // The file is created first, so that a missing folder shows before the training.
    let page = cli.html.as_deref().map(|path| Ok::<_, anyhow::Error>((create(path)?, path))).transpose()?;
    let progress = bar(cli.batches)?;
    for _ in 0..cli.batches {
        let batch = training.step()?;
        progress.set_message(format!("{:.1} % hits", batch.hit_rate()));
        progress.inc(1);
    }
    progress.finish_and_clear();
    let history = training.finish()?;
    report::print(&history, &device, out)?;
    if let Some((mut file, path)) = page {
        let text = page::page(&history, &device, &cli.summary())?;
        file.write_all(text.as_bytes()).with_context(|| cannot_write(path))?;
    }
    Ok(())
}

impl Cli {
    /// Returns the parameters of the training.
    pub fn options(&self) -> Options {
        let Self { items, theta, drift_every, drift, seed, .. } = *self;
        Options {
            clicks: clicks::Options { items, theta, drift_every, drift, seed },
            cache: cache::Options {
                capacity: usize::try_from(self.capacity).unwrap_or(usize::MAX),
                dim: self.dim as usize,
                rule: self.rule.into(),
                two_buckets: self.buckets == 2,
                on_device: self.on_device,
                seed,
            },
            batch: self.batch as usize,
            serve: self.serve as usize,
            admit_after: self.admit_after,
            epoch_every: self.epoch_every,
            promote: self.promote,
            window: self.window,
            verify: self.verify,
        }
    }

    /// Returns the parameters as a sentence.
    fn summary(&self) -> String {
        let Self { items, capacity, dim, batches, batch, theta, admit_after, .. } = self;
        format!(
            "{items} items, {capacity} of them in the cache, {dim} elements each; {batches} batches of \
             {batch} training and {} serving requests; Zipf exponent {theta}; rule {:?}; admission after \
             {admit_after} misses; {} of the rows in device memory; seed {}.",
            self.serve, self.rule, self.on_device, self.seed
        )
    }
}

fn open(name: &str) -> Result<Device> {
    let device = if name == "auto" { Device::from_environment() } else { Device::named(name) };
    device.with_context(|| {
        format!(
            "no device {name}: --device emulator needs no GPU, and --device auto takes one if there is one"
        )
    })
}

fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| cannot_write(path))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}: check that its folder is there, has room, and may be written", path.display())
}

fn bar(batches: u64) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:30} batch {pos} of {len}, {msg}, {elapsed}")?;
    Ok(ProgressBar::new(batches).with_style(style))
}
