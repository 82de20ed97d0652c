//! Command-line interface.
use crate::count::{Options, count};
use crate::input;
use crate::kmers::{Length, Strand};
use crate::report;
use anyhow::{Context, Result, ensure};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use phalanx::gpu::Device;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Counts the k-mers of FASTA and FASTQ files, plain or gzip, on a GPU.
///
/// K-mers that contain a letter other than A, C, G and T (in either case) are not counted.
#[derive(Clone, Debug, Parser)]
#[command(name = "kmer-count", version)]
pub struct Cli {
    /// FASTA or FASTQ files, plain or gzip
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Number of bases in a k-mer, 1 to 31
    #[arg(short, long = "kmer", value_name = "BASES", default_value = "21")]
    pub k: Length,
    /// Count a k-mer and its reverse complement as one (default), because reads come from either strand
    #[arg(short = 'C', long)]
    pub canonical: bool,
    /// Count k-mers as read, without joining reverse complements
    #[arg(long, conflicts_with = "canonical")]
    pub plain: bool,
    /// Device: auto (a GPU if available, else the emulator), cuda, cuda:N or emulator
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Write k-mers and counts to this file, tab-separated, most frequent first
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write the spectrum to this file: multiplicity, tab, number of distinct k-mers
    #[arg(long, value_name = "FILE")]
    pub spectrum: Option<PathBuf>,
    /// Omit k-mers with a lower count from the list and the output file; totals and the spectrum include all
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub min_count: u64,
    /// Number of most frequent k-mers to print
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Expected number of distinct k-mers. The table grows beyond it; a good estimate saves time, and memory
    /// during growth
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub capacity: Option<u64>,
}

/// Upper limit of the initial capacity when the user sets none, in pairs: 128 MiB.
const MOST_AT_FIRST: u64 = 1 << 22;

/// Runs the program with these arguments and prints the report to `out`.
///
/// # Errors
/// Returns [`anyhow::Error`] when a file cannot be read or written, and when the device is not available or
/// fails.
pub fn run(cli: &Cli, out: &mut impl Write) -> Result<()> {
    let size = input::size(&cli.files)?;
    let device = open(&cli.device)?;
    // Output files are opened first, so that a missing folder shows before counting rather than after an
    // hour.
    let output = cli.output.as_deref().map(|path| create(path, &cli.files)).transpose()?;
    let spectrum = cli.spectrum.as_deref().map(|path| create(path, &cli.files)).transpose()?;
    let progress = bar(size)?;
    let counts = count(&cli.files, &device, &cli.options(size), &progress);
    progress.finish_and_clear();
    let counts = counts?;
    if let Some((file, path)) = output.zip(cli.output.as_deref()) {
        report::write_counts(&counts, cli.min_count, file).with_context(|| cannot_write(path))?;
    }
    if let Some((file, path)) = spectrum.zip(cli.spectrum.as_deref()) {
        report::write_spectrum(&counts, file).with_context(|| cannot_write(path))?;
    }
    report::print_totals(&counts, &device.name(), out)?;
    report::print_speed(&counts, device.is_emulator(), out)?;
    report::print_top(&counts, cli.top, cli.min_count, out)?;
    Ok(report::print_spectrum(&counts, out)?)
}

impl Cli {
    /// Returns the counting options for an input of `size` bytes.
    fn options(&self, size: u64) -> Options {
        // A file has hardly more distinct k-mers than bytes, and never more than there are k-mers of this
        // length.
        let guess = size.clamp(1024, MOST_AT_FIRST).min(self.k.kinds());
        Options {
            length: self.k,
            strand: if self.plain { Strand::Plain } else { Strand::Canonical },
            capacity: self.capacity.unwrap_or(guess) as usize,
            batch: Options::BATCH,
        }
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

/// Creates a file for results. Fails if it is one of the inputs.
fn create(path: &Path, inputs: &[PathBuf]) -> Result<BufWriter<File>> {
    let same = |input: &PathBuf| {
        fs::canonicalize(path).is_ok_and(|path| fs::canonicalize(input).is_ok_and(|input| input == path))
    };
    ensure!(!inputs.iter().any(same), "{} is read: name another file for results", path.display());
    Ok(BufWriter::new(File::create(path).with_context(|| cannot_write(path))?))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}: check that its folder is there, has room, and may be written", path.display())
}

fn bar(size: u64) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} read, {elapsed}")?;
    Ok(ProgressBar::new(size).with_style(style))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("kmer-count").chain(line.split_whitespace()))
    }

    #[test]
    fn lines_parse() {
        let cli =
            parse("a.fa b.fq.gz -k 31 --plain -o out.tsv --spectrum s.tsv --min-count 2 --top 3").unwrap();
        assert_eq!((cli.files.len(), cli.k.get(), cli.min_count, cli.top), (2, 31, 2, 3));
        assert_eq!(cli.options(1).strand, Strand::Plain);
        assert_eq!(parse("a.fa --canonical").unwrap().options(1).strand, Strand::Canonical);
        for wrong in ["", "a.fa -k 32", "a.fa --plain --canonical", "a.fa --capacity 0"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_first_capacity_is_bounded() {
        let capacity = |line, size| parse(line).unwrap().options(size).capacity;
        assert_eq!(capacity("a.fa", 5000), 5000);
        assert_eq!(capacity("a.fa", 0), 1024);
        assert_eq!(capacity("a.fa", 1 << 40), 1 << 22);
        assert_eq!(capacity("a.fa -k 3", 1 << 40), 64);
        assert_eq!(capacity("a.fa -k 3 --capacity 5000", 1), 5000);
    }
}
