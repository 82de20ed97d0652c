//! Command-line interface.
use crate::classify::{Options, classify};
use crate::database::{Database, TaxonOf};
use crate::report;
use crate::taxonomy::Taxonomy;
use anyhow::{Context, Result, anyhow, ensure};
use clap::Parser;
use genomes::input;
use genomes::kmers::Length;
use genomes::output::{bar, cannot_write, create};
use genomes::table::{TableArgs, TableOptions, open};
use std::io::Write;
use std::path::PathBuf;

/// Classifies reads by the k-mers of reference genomes, on a GPU, and reports how abundant the taxa are.
///
/// References and reads are FASTA or FASTQ files, plain or gzip.
#[derive(Clone, Debug, Parser)]
#[command(name = "metagenomics", version)]
pub struct Cli {
    /// Reference genomes
    #[arg(short = 'r', long, required = true, num_args = 1.., value_name = "FILE")]
    pub references: Vec<PathBuf>,
    /// Reads to classify
    #[arg(required = true, value_name = "READS")]
    pub reads: Vec<PathBuf>,
    /// Source of a genome's taxon: the name of the file, or the first word of each header
    #[arg(long, value_enum, value_name = "SOURCE", default_value = "file")]
    pub taxon_of: TaxonOf,
    /// File with a line per taxon: its name, a tab, and its parent. Other taxa are below the root
    #[arg(long, value_name = "FILE")]
    pub taxonomy: Option<PathBuf>,
    /// Number of bases in a k-mer, 1 to 31
    #[arg(short, long = "kmer", value_name = "BASES", default_value = "16")]
    pub k: Length,
    /// Least share of a read's k-mers that must support its taxon, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = share)]
    pub min_share: f64,
    /// Write the abundances to this file, tab-separated
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a line per read to this file: name, taxon, supporting k-mers, k-mers; tab-separated
    #[arg(long, value_name = "FILE")]
    pub assignments: Option<PathBuf>,
    /// Number of most abundant taxa to print
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// The device, and the table on it
    #[command(flatten)]
    pub table: TableArgs,
}

fn share(text: &str) -> Result<f64> {
    let share = text.parse().map_err(|_| anyhow!("{text} is no number: choose 0 to 1"))?;
    ensure!((0.0..=1.0).contains(&share), "{share} is no share: choose 0 to 1");
    Ok(share)
}

/// Runs the program with these arguments and prints the report to `out`.
///
/// # Errors
/// Returns [`anyhow::Error`] when a file cannot be read or written, and when the device is not available or
/// fails.
pub fn run(cli: &Cli, out: &mut impl Write) -> Result<()> {
    let (size, size_of_reads) = (input::size(&cli.references)?, input::size(&cli.reads)?);
    let taxonomy = cli.taxonomy.as_deref().map(Taxonomy::read).transpose()?.unwrap_or_default();
    let device = open(&cli.table.device)?;
    // Output files are opened first, so that a missing folder shows before the work rather than after it.
    let inputs = [&cli.references[..], &cli.reads, cli.taxonomy.as_slice()].concat();
    let output = cli.output.as_deref().map(|path| create(path, &inputs)).transpose()?;
    let mut assignments = cli.assignments.as_deref().map(|path| create(path, &inputs)).transpose()?;

    let table = TableOptions::new(&cli.table, cli.k, size);
    let progress = bar(size)?;
    let source = (taxonomy, cli.taxon_of);
    let database = Database::build(&cli.references, source, &device, (cli.k, &table), &progress);
    progress.finish_and_clear();
    let database = database?;

    let options = Options { min_share: cli.min_share, batch: table.batch };
    let progress = bar(size_of_reads)?;
    let lines = assignments.as_mut().map(|file| -> &mut dyn Write { file });
    let classified = classify(&cli.reads, &database, &device, &options, lines, &progress);
    progress.finish_and_clear();
    let classified = classified?;

    if let Some((mut file, path)) = assignments.zip(cli.assignments.as_deref()) {
        file.flush().with_context(|| cannot_write(path))?;
    }
    if let Some((file, path)) = output.zip(cli.output.as_deref()) {
        let written = report::write_abundances(&database.taxonomy, &classified, file);
        written.with_context(|| cannot_write(path))?;
    }
    report::print_totals(&database, &classified, &device.name(), out)?;
    report::print_speed(&database, &classified, device.is_emulator(), out)?;
    Ok(report::print_top(&database.taxonomy, &classified, cli.top, out)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("metagenomics").chain(line.split_whitespace()))
    }

    #[test]
    fn lines_parse() {
        let cli = parse("r.fq -r a.fa b.fa --taxon-of header -k 31 --min-share 0.5 --budget 1G").unwrap();
        assert_eq!((cli.references.len(), cli.reads.len(), cli.k.get()), (2, 1, 31));
        assert_eq!((cli.taxon_of, cli.min_share), (TaxonOf::Header, 0.5));
        assert_eq!(parse("-r a.fa -- r.fq s.fq").unwrap().reads.len(), 2);
        for wrong in ["", "r.fq", "-r a.fa", "r.fq -r a.fa --min-share 2", "r.fq -r a.fa -k 32"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
