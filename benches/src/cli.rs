//! Command-line interface.
use crate::engine::benchmark::{Machine, Structure};
use crate::engine::compare::{Comparison, compare, has_regression};
use crate::engine::environment::Source;
use crate::engine::record::{self, Record};
use crate::engine::runner::{Observer, Session};
use crate::engine::suite::{Case, Selection, Suite};
use crate::engine::{catalog, html, ratios, table};
use crate::machine::DeviceChoice;
#[cfg(feature = "sharded")]
use crate::scale_out;
#[cfg(feature = "trees")]
use crate::streams;
use crate::subjects;
use crate::subjects::first_launch::{self, Report};
use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs benchmark suites and reports the results.
#[derive(Debug, Parser)]
#[command(version, about, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run suites (the default without a command).
    Run(RunArguments),
    /// Print the results in JSON Lines files as a table, and optionally as an HTML page.
    Report(ReportArguments),
    /// List the suites.
    List,
    /// Run every pair of verbs of every structure in four concurrent streams, and check every result.
    #[cfg(feature = "trees")]
    Streams(streams::supervise::Arguments),
    /// Run the suites `sharded/*`, and then kill and stop ranks, use loopback sockets, and count k-mers.
    #[cfg(feature = "sharded")]
    ScaleOut(scale_out::Arguments),
    /// Measure one first launch and print the result. `first_launch` starts this command for each repetition.
    #[command(name = first_launch::COMMAND, hide = true)]
    FirstLaunch {
        /// Device to use.
        #[arg(long, value_enum)]
        device: DeviceChoice,
        /// Case, as JSON.
        case: String,
    },
}

/// Suites to run, and destinations of the results.
#[derive(Debug, Args)]
struct RunArguments {
    /// Suites, families of suites, or suite files that end in .toml; without any, the default suites run.
    suites: Vec<String>,
    /// Device to use.
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Append each record to this file, as a line of JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    report: Output,
    /// Number of timed repetitions, instead of the suite's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    reps: Option<u32>,
    /// Use only the first value of every list, and at most three repetitions.
    #[arg(long)]
    quick: bool,
    /// List the suites and exit.
    #[arg(long)]
    list: bool,
}

/// Outputs common to runs and reports.
#[derive(Debug, Args)]
struct Output {
    /// Write a page with figures to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Compare with the records in this file.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Exit with an error if any result is slower than the baseline.
    #[arg(long, requires = "baseline")]
    fail_on_regression: bool,
}

#[derive(Debug, Args)]
struct ReportArguments {
    /// Files in JSON Lines format.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    report: Output,
}

/// Runs the program. Exits with code 1 after a wrong result and, with `--fail-on-regression`, after a slower
/// one.
pub fn main() -> ExitCode {
    match dispatch(Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(cli: Cli) -> Result<bool> {
    match cli.command {
        Some(Command::Run(run)) => start(run),
        Some(Command::Report(report)) => show(&report),
        Some(Command::List) => list_suites(),
        #[cfg(feature = "trees")]
        Some(Command::Streams(arguments)) => streams::supervise::main(&arguments),
        #[cfg(feature = "sharded")]
        Some(Command::ScaleOut(arguments)) => scale(&arguments),
        Some(Command::FirstLaunch { device, case }) => launch_first(device, &case),
        None => start(cli.run),
    }
}

fn list_suites() -> Result<bool> {
    for suite in catalog::all()? {
        println!("{:<28} {}", suite.name, suite.title);
    }
    Ok(true)
}

/// Runs the suites of maps over several GPUs, and what is beside them.
#[cfg(feature = "sharded")]
fn scale(arguments: &scale_out::Arguments) -> Result<bool> {
    let mut passed = true;
    if arguments.rank.is_none() && !arguments.no_suites {
        passed = start(RunArguments {
            suites: vec!["sharded".to_owned()],
            device: arguments.device,
            json: arguments.out.as_ref().map(|folder| folder.join("suites.jsonl")),
            report: Output { html: None, baseline: None, fail_on_regression: false },
            reps: None,
            quick: false,
            list: false,
        })?;
    }
    Ok(scale_out::main(arguments)? && passed)
}

fn launch_first(device: DeviceChoice, case: &str) -> Result<bool> {
    let case = serde_json::from_str(case).context("the case is no JSON of one")?;
    println!("{}", serde_json::to_string(&Report::of(device, &case, subjects::all)?)?);
    Ok(true)
}

fn start(arguments: RunArguments) -> Result<bool> {
    if arguments.list {
        return list_suites();
    }
    let suites = catalog::select(&arguments.suites)?;
    subjects::with_machine(arguments.device, |machine, structures| {
        run(&arguments, &suites, machine, structures)
    })
}

/// Runs the suites on a machine. Returns whether all results are correct and none has regressed.
fn run(
    arguments: &RunArguments,
    suites: &[Suite],
    machine: &dyn Machine,
    structures: &[Box<dyn Structure + '_>],
) -> Result<bool> {
    let selection =
        Selection { emulator: machine.is_emulator(), quick: arguments.quick, reps: arguments.reps };
    if machine.is_emulator() {
        eprintln!("{}", table::EMULATOR_BANNER);
    }
    let session = Session { machine, structures, selection, source: Source::detect() };
    let mut progress = Progress::new(arguments.json.as_deref())?;
    let records = session.run(suites, &mut progress);
    progress.bar.finish_and_clear();
    present(&records?, suites, &arguments.report)
}

/// Progress bar that also prints the records, and appends them to a file, as they arrive.
struct Progress {
    bar: ProgressBar,
    json: Option<File>,
}

impl Progress {
    fn new(json: Option<&Path>) -> Result<Self> {
        let json = json.map(|path| {
            let file = File::options().create(true).append(true).open(path);
            file.with_context(|| format!("cannot write {}", path.display()))
        });
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}")?;
        Ok(Self { bar: ProgressBar::new(0).with_style(style), json: json.transpose()? })
    }
}

impl Observer for Progress {
    fn begin(&mut self, index: usize, of: usize, case: &Case) {
        self.bar.set_length(of as u64);
        self.bar.set_position(index as u64);
        self.bar.set_message(format!("{} {} {}", case.suite, case.variant, case.op));
    }

    fn end(&mut self, record: &Record) -> Result<()> {
        self.bar.suspend(|| eprintln!("{}", table::line(record)));
        if let Some(file) = &mut self.json {
            writeln!(file, "{}", serde_json::to_string(record)?).context("cannot write the record")?;
        }
        Ok(())
    }
}

fn show(arguments: &ReportArguments) -> Result<bool> {
    let records: Vec<_> = arguments.files.iter().map(|file| record::read(file)).collect::<Result<_>>()?;
    present(&records.concat(), &catalog::all()?, &arguments.report)
}

/// Prints the table, compares with the baseline and writes the page. Returns whether all results are correct
/// and none has regressed.
fn present(records: &[Record], suites: &[Suite], output: &Output) -> Result<bool> {
    println!("{}\n{}", table::results(records), ratios::tables(records, suites));
    let comparisons = match &output.baseline {
        Some(path) => compare(&record::read(path)?, records),
        None => Vec::<Comparison>::new(),
    };
    if !comparisons.is_empty() {
        println!("{}", table::comparisons(&comparisons));
    }
    if let Some(path) = &output.html {
        let page = html::page(records, suites, &comparisons)?;
        std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let wrong = records.iter().filter(|record| !record.verified).count();
    if wrong > 0 {
        eprintln!("error: {wrong} of {} records have wrong results", records.len());
    }
    Ok(wrong == 0 && !(output.fail_on_regression && has_regression(&comparisons)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("phalanx-bench").chain(line.split_whitespace()))
    }

    #[test]
    fn the_documented_lines_parse() {
        let cli =
            parse("hashmap/load-factor --device emulator --json a.jsonl --html a.html --reps 3 --quick")
                .unwrap();
        assert_eq!(
            (cli.run.suites.len(), cli.run.device, cli.run.reps),
            (1, DeviceChoice::Emulator, Some(3))
        );
        assert!(matches!(parse("run limits").unwrap().command, Some(Command::Run(_))));
        assert!(matches!(
            parse("report a.jsonl --baseline b.jsonl").unwrap().command,
            Some(Command::Report(_))
        ));
        assert!(matches!(parse("list").unwrap().command, Some(Command::List)));
        assert!(parse("--list").unwrap().run.list);
        assert!(parse("--reps 0").is_err());
        assert!(parse("--fail-on-regression").is_err());
    }
}
