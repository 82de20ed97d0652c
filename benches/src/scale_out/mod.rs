//! What a map over several GPUs of one host shows beside the suites `sharded/*`: ranks that are killed or
//! stopped, processes over loopback sockets, and `kmer-count` on several GPUs.
//!
//! | step | what | passes if |
//! |---|---|---|
//! | `killed` | a rank ends while all look keys up | the others have an error in 3 s; their shards answer |
//! | `stopped` | a rank no longer executes anything | the same |
//! | `sockets` | ranks that NCCL joins over loopback sockets | all answers are right |
//! | `kmers` | `kmer-count` with one GPU and with all | both write the same; the speedup is recorded |
//!
//! The first two are repeated `--rounds` times. On GPUs each rank is a process. Emulated devices are in one
//! process: ranks are threads, one of which ends or sleeps; `sockets` and `kmers` then use the exchange
//! between threads.
mod kmers;
mod processes;
mod ranks;
mod threads;

use crate::engine::environment::Source;
use crate::machine::{DeviceChoice, Gpu};
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time from the event until the other ranks have an error.
const MOST: Duration = Duration::from_secs(3);

/// Arguments of the command.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Device to use.
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    pub(crate) device: DeviceChoice,
    /// Number of ranks, each with a device.
    #[arg(long, default_value_t = 2)]
    ranks: usize,
    /// Number of rounds in which a rank is killed, and in which one is stopped.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Append records to files in this folder: `suites.jsonl`, and `rounds.jsonl` with a line for each round.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Do not run the suites `sharded/*` first.
    #[arg(long)]
    pub(crate) no_suites: bool,
    /// Run as this rank. The program starts itself so.
    #[arg(long, hide = true, requires = "meet")]
    pub(crate) rank: Option<usize>,
    /// Folder in which the processes meet.
    #[arg(long, hide = true)]
    meet: Option<PathBuf>,
    /// Event of the last rank.
    #[arg(long, hide = true, value_enum, default_value_t = Event::Sockets)]
    event: Event,
}

/// Event of the last rank, while all look keys up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Event {
    /// None. Processes exchange over loopback sockets.
    Sockets,
    Killed,
    Stopped,
}

impl Event {
    /// Returns the name of the step, which is that on the command line.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// A round, as a line of JSON.
#[derive(Serialize)]
struct Record<'a> {
    step: &'a str,
    round: usize,
    ranks: usize,
    /// Milliseconds: until the last rank had its error, or of the step.
    ms: f64,
    /// Time of a stage on one device, divided by that on all.
    #[serde(skip_serializing_if = "Option::is_none")]
    speedup: Option<f64>,
    verdict: String,
    device: String,
    driver: String,
    commit: String,
    dirty: bool,
}

/// Measurements of a step.
struct Measured {
    took: Duration,
    /// As [`Record::speedup`].
    speedup: Option<f64>,
}

impl From<Duration> for Measured {
    fn from(took: Duration) -> Self {
        Self { took, speedup: None }
    }
}

/// Runs all steps but the suites. Returns whether all have passed.
///
/// # Errors
/// Returns [`anyhow::Error`] when a device is not available, a process cannot be started or a file cannot be
/// written.
pub fn main(arguments: &Arguments) -> Result<bool> {
    ensure!(arguments.ranks > 1, "there are at least two ranks, not {}", arguments.ranks);
    if let Some(rank) = arguments.rank {
        return processes::child(arguments, rank).map(|()| true);
    }
    let (gpu, source) = (Gpu::open(arguments.device)?, Source::detect());
    let program = Program { arguments, gpu, source };
    let mut passed = true;
    let rounds = arguments.rounds;
    for (event, rounds) in [(Event::Killed, rounds), (Event::Stopped, rounds), (Event::Sockets, 1)] {
        for round in 0..rounds {
            passed &=
                program.step((&event.name(), round), || program.run_round(event).map(Measured::from))?;
        }
    }
    passed &= program.step(("kmers", 0), || kmers::compare(&program.gpu, arguments.ranks))?;
    Ok(passed)
}

/// The program: its arguments, and what its records name.
struct Program<'a> {
    arguments: &'a Arguments,
    gpu: Gpu,
    source: Source,
}

impl Program<'_> {
    /// Runs the ranks once. Returns the time from the event until all others have an error.
    fn run_round(&self, event: Event) -> Result<Duration> {
        let took = match self.gpu.device.is_emulator() {
            true => threads::run(&self.gpu, self.arguments.ranks, event)?,
            false => processes::run(self.arguments, event)?,
        };
        ensure!(event == Event::Sockets || took <= MOST, "the error came after {took:?}, more than {MOST:?}");
        Ok(took)
    }

    /// Runs a step, and prints and records its result. Returns whether it has passed.
    fn step(&self, (step, round): (&str, usize), run: impl FnOnce() -> Result<Measured>) -> Result<bool> {
        let result = run();
        let ms = result.as_ref().map_or(0.0, |measured| measured.took.as_secs_f64() * 1e3);
        let speedup = result.as_ref().ok().and_then(|measured| measured.speedup);
        let verdict = result.as_ref().map_or_else(|error| format!("{error:#}"), |_| "ok".to_owned());
        println!("{step:>8} {round:>3} {ms:>10.1} ms  {verdict}");
        if let Some(folder) = &self.arguments.out {
            let (device, driver) = (self.gpu.device.name(), self.gpu.device.driver());
            let (ranks, commit, dirty) =
                (self.arguments.ranks, self.source.commit.clone(), self.source.dirty);
            let record = Record { step, round, ranks, ms, speedup, verdict, device, driver, commit, dirty };
            append(&folder.join("rounds.jsonl"), &record)?;
        }
        Ok(result.is_ok())
    }
}

fn append(path: &Path, record: &Record<'_>) -> Result<()> {
    let line = serde_json::to_string(record)?;
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| writeln!(file, "{line}"));
    written.with_context(|| format!("cannot write {}", path.display()))
}
