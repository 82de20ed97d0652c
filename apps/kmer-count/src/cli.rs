//! Command-line interface.
use crate::count::{Options, count, read_only};
use crate::gpus::{self, count_on};
use crate::report;
use crate::world::World;
use anyhow::{Context, Result};
use clap::Parser;
use genomes::input;
use genomes::kmers::{Length, Strand};
use genomes::output::{bar, cannot_write, create};
use genomes::table::{TableArgs, TableOptions, open};
use std::io::Write;
use std::path::PathBuf;

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
    /// Read and pack only, to measure the reader
    #[arg(long, conflicts_with_all = ["output", "spectrum"])]
    pub read_only: bool,
    /// Count on this number of GPUs, each with a part of the table
    #[arg(long, value_name = "N", conflicts_with = "budget")]
    pub gpus: Option<usize>,
    /// Other processes that count with this one
    #[command(flatten)]
    pub world: World,
    /// The device, and the table on it
    #[command(flatten)]
    pub table: TableArgs,
}

/// Runs the program with these arguments and prints the report to `out`.
///
/// # Errors
/// Returns [`anyhow::Error`] when a file cannot be read or written, and when the device is not available or
/// fails.
pub fn run(cli: &Cli, out: &mut impl Write) -> Result<()> {
    let size = input::size(&cli.files)?;
    let options = cli.options(size);
    let progress = bar(size)?;
    if cli.read_only {
        let reading = read_only(&cli.files, &options, &progress);
        progress.finish_and_clear();
        return Ok(report::print_reading(&reading?, out)?);
    }
    let process = cli.world.process()?;
    let devices = match (&process, cli.gpus) {
        (Some(process), _) => vec![process.device(&cli.table.device)?],
        (None, Some(gpus)) => gpus::devices(&cli.table.device, gpus)?,
        (None, None) => vec![open(&cli.table.device)?],
    };
    let device = &devices[0];
    // Output files are opened first, so that a missing folder shows before counting rather than after an
    // hour. Of several processes, the first one writes them.
    let is_first = process.as_ref().is_none_or(|process| process.rank == 0);
    let open_output = |path: &Option<PathBuf>| {
        let path = path.as_deref().filter(|_| is_first);
        path.map(|path| create(path, &cli.files)).transpose()
    };
    let (output, spectrum) = (open_output(&cli.output)?, open_output(&cli.spectrum)?);
    let counts = match (&process, cli.gpus) {
        (Some(process), _) => process
            .join(device, &options)
            .and_then(|exchange| process.count(exchange, &cli.files, &options, &progress)),
        (None, Some(_)) => count_on(&cli.files, &devices, &options, &progress).map(Some),
        (None, None) => count(&cli.files, device, &options, &progress).map(Some),
    };
    progress.finish_and_clear();
    let Some(counts) = counts? else { return Ok(()) };
    if let Some((file, path)) = output.zip(cli.output.as_deref()) {
        report::write_counts(&counts, cli.min_count, file).with_context(|| cannot_write(path))?;
    }
    if let Some((file, path)) = spectrum.zip(cli.spectrum.as_deref()) {
        report::write_spectrum(&counts, file).with_context(|| cannot_write(path))?;
    }
    let name = match process.map_or(devices.len(), |process| process.ranks) {
        1 => device.name(),
        many => format!("{many} x {}", device.name()),
    };
    report::print_totals(&counts, &name, out)?;
    report::print_speed(&counts, device.is_emulator(), out)?;
    report::print_top(&counts, cli.top, cli.min_count, out)?;
    Ok(report::print_spectrum(&counts, out)?)
}

impl Cli {
    /// Returns the counting options for an input of `size` bytes.
    fn options(&self, size: u64) -> Options {
        let devices = self.gpus.or(self.world.world).unwrap_or(1);
        Options {
            length: self.k,
            strand: if self.plain { Strand::Plain } else { Strand::Canonical },
            table: TableOptions::on_devices(&self.table, self.k, size, devices),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use genomes::table::Baseline;

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
        let cli = parse("a.fa --capacity 5000 --budget 256M --baseline remote --batch 7").unwrap();
        let TableOptions { capacity, budget, baseline, batch } = cli.options(1).table;
        assert_eq!((capacity, budget, batch), (5000, Some(256 << 20), 7));
        assert_eq!(baseline, Some(Baseline::Remote));
        let wrong = ["", "a.fa -k 32", "a.fa --plain --canonical", "a.fa --capacity 0", "a.fa --budget 1Q"];
        for wrong in wrong.into_iter().chain(["a.fa --baseline remote", "a.fa --read-only -o b"]) {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
