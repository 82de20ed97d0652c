//! Runs cells in separate processes. A fault or a hang of a cell is recorded, and the next process continues
//! with the remaining cells.
use super::cell::{self, Cell, Done};
use crate::engine::environment::Source;
use crate::machine::DeviceChoice;
use crate::machine::Gpu;
use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, StdoutLock, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Subcommand of this program that runs cells.
pub const COMMAND: &str = "streams";

/// Arguments of the command.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Device to use.
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Run only cells whose names contain this text.
    #[arg(long, default_value = "")]
    filter: String,
    /// Approximate number of keys.
    #[arg(long, value_delimiter = ',', default_values_t = [1 << 12, 1 << 21])]
    sizes: Vec<usize>,
    /// Seconds per cell.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Number of concurrent cells, each with its own structure and streams.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Seconds without progress after which a cell counts as hung.
    #[arg(long, default_value_t = 10.0)]
    patience: f64,
    /// Seconds after which no more cells start.
    #[arg(long, default_value_t = f64::INFINITY)]
    limit: f64,
    /// Append a line of JSON for each cell to this file, and skip the cells that it already contains.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// List the cells and exit.
    #[arg(long)]
    list: bool,
    /// Run the cells named on standard input in this process. The supervisor uses this option.
    #[arg(long, hide = true)]
    child: bool,
}

/// Result of a cell, as a line of JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// Name of the cell.
    pub cell: String,
    /// `ok`, or a description of the fault.
    pub verdict: String,
    /// Totals.
    #[serde(flatten)]
    pub done: Done,
    /// Duration in seconds.
    pub seconds: f64,
    /// Name of the device.
    pub gpu: String,
    /// Version of the driver.
    pub driver: String,
    /// Commit that was built.
    pub commit: String,
}

/// Message from a child process about a cell.
#[derive(Serialize, Deserialize)]
enum Message {
    Begins(String),
    Ends(Box<Record>),
}

/// Runs all cells that the arguments select. Returns whether all of them passed.
///
/// # Errors
/// Returns [`anyhow::Error`] when the device is not available or a file cannot be written.
pub fn main(arguments: &Arguments) -> Result<bool> {
    let cells = cell::all(&arguments.sizes, &arguments.filter);
    if arguments.list {
        cells.iter().for_each(|cell| println!("{cell}"));
        return Ok(true);
    }
    if arguments.child { child(arguments, &cells) } else { supervise(arguments, &cells) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Current step of each running cell, and the time when it began.
type Progress = Mutex<BTreeMap<String, (String, Instant)>>;

/// Runs the cells named on standard input.
fn child(arguments: &Arguments, cells: &[Cell]) -> Result<bool> {
    let wanted: BTreeSet<String> = std::io::stdin().lines().collect::<Result<_, _>>()?;
    let cells: Vec<Cell> = cells.iter().copied().filter(|cell| wanted.contains(&cell.to_string())).collect();
    let gpu = Gpu::open(arguments.device)?;
    let (commit, progress) = (Source::detect().commit, Progress::default());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(arguments.jobs.max(1)).build()?;
    let start = Instant::now();
    let patience = Duration::from_secs_f64(arguments.patience);
    std::thread::scope(|scope| {
        scope.spawn(|| watch(&progress, patience));
        let one = |cell: &Cell| {
            if start.elapsed().as_secs_f64() > arguments.limit {
                return;
            }
            drop(say(&Message::Begins(cell.to_string())));
            let record = run_one(&gpu, *cell, arguments.seconds, &progress, &commit);
            let is_well = record.verdict == "ok";
            let output = say(&Message::Ends(Box::new(record)));
            if !is_well {
                // The device may be lost. Other cells must not report faults caused by the end of the
                // process, so the lock on the output is not released.
                std::process::exit(1);
            }
            drop(output);
        };
        pool.install(|| cells.par_iter().with_max_len(1).for_each(one));
        std::process::exit(0)
    })
}

fn run_one(gpu: &Gpu, cell: Cell, seconds: f64, progress: &Progress, commit: &str) -> Record {
    let (name, start) = (cell.to_string(), Instant::now());
    let note = |what: &str| {
        lock(progress).insert(name.clone(), (what.to_owned(), Instant::now()));
    };
    let done = cell::run(&gpu.device, cell, seconds, &note);
    lock(progress).remove(&name);
    let verdict = done.as_ref().err().map_or("ok".to_owned(), |error| format!("{error:#}"));
    let (done, seconds) = (done.unwrap_or_default(), start.elapsed().as_secs_f64());
    let (device, driver, commit) = (gpu.device.name(), gpu.device.driver(), commit.to_owned());
    Record { cell: name, verdict, done, seconds, gpu: device, driver, commit }
}

/// Writes a message. Returns the lock on the output.
fn say(message: &Message) -> StdoutLock<'static> {
    let mut output = std::io::stdout().lock();
    let line = serde_json::to_string(message).unwrap_or_default();
    // A closed pipe means that the supervisor is gone, and nothing can be reported.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
    output
}

/// Ends the process when a cell makes no progress. It aborts, because exit handlers of a driver may wait for
/// the kernel that hangs.
fn watch(progress: &Progress, patience: Duration) {
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let stuck = lock(progress)
            .iter()
            .find(|(_, (_, since))| since.elapsed() > patience)
            .map(|(cell, (what, _))| format!("{cell} hangs: {what}"));
        if let Some(stuck) = stuck {
            eprintln!("{stuck}");
            std::process::abort();
        }
    }
}

fn supervise(arguments: &Arguments, cells: &[Cell]) -> Result<bool> {
    let start = Instant::now();
    let file = arguments
        .json
        .as_ref()
        .map(|path| File::options().create(true).append(true).open(path))
        .transpose()?;
    let mut results = Results { known: known(arguments)?, file };
    let total = cells.len();
    loop {
        let names = cells.iter().map(Cell::to_string);
        let left: Vec<String> = names.filter(|name| !results.known.contains_key(name)).collect();
        let time = arguments.limit - start.elapsed().as_secs_f64();
        if left.is_empty() || time <= 0.0 {
            return Ok(summarise(&results.known, total));
        }
        run_child(arguments, &left, time, &mut results)?;
    }
}

/// Results of cells so far, and the file that receives them.
struct Results {
    known: BTreeMap<String, Record>,
    file: Option<File>,
}

impl Results {
    /// Prints and stores a result, as soon as it is known: a run that is stopped later keeps it.
    fn add(&mut self, record: Record) -> Result<()> {
        if let Some(file) = &mut self.file {
            writeln!(file, "{}", serde_json::to_string(&record)?)?;
        }
        let mark = if record.verdict == "ok" { "" } else { "FAILED " };
        println!("{mark}{}: {}", record.cell, record.verdict);
        self.known.insert(record.cell.clone(), record);
        Ok(())
    }
}

/// Reads the cells that the file already contains.
fn known(arguments: &Arguments) -> Result<BTreeMap<String, Record>> {
    let file = arguments.json.as_ref().and_then(|path| File::open(path).ok());
    let read = |line: std::io::Result<String>| {
        let record: Record = serde_json::from_str(&line?).context("a line that is no record of a cell")?;
        Ok((record.cell.clone(), record))
    };
    file.into_iter().flat_map(|file| BufReader::new(file).lines()).map(read).collect()
}

/// Runs cells in a child process, and adds the results of those that started.
fn run_child(arguments: &Arguments, cells: &[String], limit: f64, results: &mut Results) -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    let sizes: Vec<String> = arguments.sizes.iter().map(usize::to_string).collect();
    command.args([COMMAND, "--child", "--device", &arguments.device.name(), "--sizes", &sizes.join(",")]);
    command.args(["--seconds", &arguments.seconds.to_string(), "--jobs", &arguments.jobs.to_string()]);
    command.args(["--patience", &arguments.patience.to_string(), "--limit", &limit.to_string()]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("standard input")?;
    cells.iter().try_for_each(|cell| writeln!(input, "{cell}"))?;
    drop(input);
    let stderr = child.stderr.take().context("standard error")?;
    let errors = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
    let (mut begun, mut ended, mut is_well) = (BTreeSet::new(), 0, true);
    for line in BufReader::new(child.stdout.take().context("standard output")?).lines() {
        match serde_json::from_str(&line?) {
            Ok(Message::Begins(cell)) => {
                begun.insert(cell);
            }
            Ok(Message::Ends(record)) => {
                begun.remove(&record.cell);
                is_well &= record.verdict == "ok";
                ended += 1;
                results.add(*record)?;
            }
            Err(_) => {}
        }
    }
    let status = child.wait()?;
    let errors = errors.join().unwrap_or_default();
    ensure!(ended > 0 || !begun.is_empty() || status.success(), "no cell began: {errors}");
    // Cells that ran concurrently with a failed one are run again. If the errors name no cell, any of them
    // may have failed.
    let is_named = |cell: &&String| errors.contains(&format!("{cell} hangs"));
    let named: Vec<&String> = begun.iter().filter(is_named).collect();
    let failed = if named.is_empty() && is_well { begun.iter().collect() } else { named };
    failed.into_iter().try_for_each(|cell| results.add(lost(cell, status, &errors)))
}

/// Returns the record of a cell whose process ended first.
fn lost(cell: &str, status: std::process::ExitStatus, errors: &str) -> Record {
    let last = errors.lines().last().unwrap_or_default();
    Record {
        cell: cell.to_owned(),
        verdict: format!("its process ended ({status}): {last}"),
        commit: Source::detect().commit,
        ..Record::default()
    }
}

/// Prints a summary of all cells. Returns whether all of them passed.
fn summarise(known: &BTreeMap<String, Record>, total: usize) -> bool {
    let well = known.values().filter(|record| record.verdict == "ok").count();
    let sum = |of: fn(&Done) -> u64| known.values().map(|record| of(&record.done)).sum::<u64>();
    let (batches, operations) = (sum(|done| done.batches), sum(|done| done.operations));
    let (failed, left) = (known.len() - well, total.saturating_sub(known.len()));
    print!("{well} of {total} cells are well, {failed} failed, {left} did not run; ");
    println!("{batches} batches, {operations} operations, {} refused", sum(|done| done.refused));
    well == total
}
