//! Command-line interface.
use crate::edges::{Ids, Source};
use crate::report;
use crate::stream::{BatchState, Counter};
use anyhow::{Context, Result};
use clap::Parser;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use phalanx::Device;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// Reads the edges of an undirected graph in batches, and keeps the number of its triangles current.
///
/// The file is an edge list (two ids per line) or a Matrix Market file of coordinates. Repeated edges and
/// those from a vertex to itself are left out.
#[derive(Clone, Debug, Parser)]
#[command(name = "triangle-count", version)]
pub struct Cli {
    /// Edge list or Matrix Market file; without it, edges of a recursive matrix are generated
    #[arg(value_name = "FILE", conflicts_with_all = ["scale", "edges", "seed"])]
    pub file: Option<PathBuf>,
    /// Binary logarithm of the number of vertices of the recursive matrix
    #[arg(long, value_name = "BITS", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=31))]
    pub scale: u32,
    /// Number of generated edges
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub edges: usize,
    /// Seed of the generated edges
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of edges in a batch
    #[arg(short, long, value_name = "N", default_value_t = 100_000, value_parser = positive)]
    pub batch: usize,
    /// Keep only the newest N edges; older ones are removed
    #[arg(short, long, value_name = "N", value_parser = positive)]
    pub window: Option<usize>,
    /// Write a line per batch to this file: edges read, edges, triangles and milliseconds, separated by tabs
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Count all triangles anew at the end, and fail if the number differs
    #[arg(long)]
    pub check: bool,
    /// Device: `auto`, `emulator`, `cuda` or `cuda:N`
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: String,
}

/// Parses a number of at least 1.
fn positive(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|error| format!("{error}"))?;
    if number == 0 { Err("it must be at least 1".to_owned()) } else { Ok(number) }
}

/// Runs the program with these arguments and prints the report to `out`.
///
/// # Errors
/// Returns [`anyhow::Error`] when a file cannot be read or written, a line is malformed, the device is not
/// available or fails, or a check fails.
pub fn run(cli: &Cli, out: &mut impl Write) -> Result<()> {
    let device = Device::named(&cli.device)?;
    let name = |path: &Path| path.display().to_string();
    // The output is opened first, so that a missing folder shows at once.
    let output =
        cli.output.as_deref().map(|path| File::create(path).with_context(|| name(path))).transpose()?;
    let mut counter = Counter::new(&device, cli.window)?;
    let states = match &cli.file {
        Some(path) => {
            let file = File::open(path).with_context(|| name(path))?;
            let size = file.metadata().with_context(|| name(path))?.len();
            let progress = bar(size, "{bar:30} {bytes}/{total_bytes} read, {elapsed}, {msg}")?;
            read_all(cli, Source::file(BufReader::new(file), &name(path)), &mut counter, &progress)?
        }
        None => {
            let progress = bar(cli.edges as u64, "{bar:30} {human_pos}/{human_len} edges, {elapsed}, {msg}")?;
            let source = Source::<&[u8]>::generated(cli.scale, cli.edges, cli.seed);
            read_all(cli, source, &mut counter, &progress)?
        }
    };
    if let Some((file, path)) = output.zip(cli.output.as_deref()) {
        report::write(&states, std::io::BufWriter::new(file)).with_context(|| name(path))?;
    }
    report::draw(&states, out)?;
    print_speed(&states, &device, out)?;
    if cli.check {
        let time = counter.check()?.as_secs_f64();
        writeln!(out, "checked     the graph has as many triangles, counted anew in {time:.3} s")?;
    }
    Ok(())
}

fn bar(size: u64, template: &str) -> Result<ProgressBar> {
    Ok(ProgressBar::new(size).with_style(ProgressStyle::with_template(template)?))
}

/// Adds all edges of a source.
fn read_all(
    cli: &Cli,
    mut source: Source<impl BufRead>,
    counter: &mut Counter,
    progress: &ProgressBar,
) -> Result<Vec<BatchState>> {
    let (mut ids, mut states) = (Ids::default(), Vec::new());
    loop {
        let batch = source.next_batch(cli.batch, &mut ids)?;
        if batch.is_empty() {
            break;
        }
        let state = counter.add(&batch, &ids)?;
        let position = match &source {
            Source::File(_) => source.progress(),
            Source::Generated(_) => state.read,
        };
        progress.set_position(position);
        progress.set_message(format!("{} triangles", HumanCount(state.triangles)));
        states.push(state);
    }
    progress.finish_and_clear();
    Ok(states)
}

/// Prints the time of all batches.
fn print_speed(states: &[BatchState], device: &Device, out: &mut impl Write) -> Result<()> {
    let seconds: f64 = states.iter().map(|state| state.time.as_secs_f64()).sum();
    let read = states.last().map_or(0, |state| state.read);
    let remark = if device.is_emulator() { " (on the emulator: no measurement of speed)" } else { "" };
    let rate = read as f64 / 1e6 / seconds.max(1e-9);
    writeln!(out, "device      {}", device.name())?;
    Ok(writeln!(out, "batches     {seconds:.3} s, {rate:.1} million edges a second{remark}")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("triangle-count").chain(line.split_whitespace()))
    }

    #[test]
    fn lines_parse() {
        let cli = parse("a.mtx --batch 7 --window 9 -o out.tsv --check --device emulator").unwrap();
        assert_eq!((cli.batch, cli.window, cli.check, cli.device.as_str()), (7, Some(9), true, "emulator"));
        assert_eq!(parse("--scale 10 --edges 5 --seed 3").unwrap().scale, 10);
        for wrong in ["--batch 0", "--window 0", "a.mtx --scale 3", "--scale 32", "--scale 0", "--edges x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
