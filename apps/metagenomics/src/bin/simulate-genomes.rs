//! Writes genomes of related species, their taxonomy, and reads of all of them: input for `metagenomics` and
//! `kmer-count` on machines without data.
use anyhow::{Context, Result};
use clap::Parser;
use genomes::output::cannot_write;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use workloads::{Community, CommunityOptions};

/// Writes simulated genomes (FOLDER/genomes/*.fa), their taxonomy (taxonomy.tsv) and reads (reads.fq).
///
/// Each genus has a random ancestor, from which its species differ by substitutions. The same options and the
/// same seed give the same files on every machine.
#[derive(Debug, Parser)]
#[command(name = "simulate-genomes", version)]
struct Cli {
    /// Folder for the files
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Number of genera
    #[arg(long, value_name = "N", default_value_t = 2)]
    genera: usize,
    /// Number of species in each genus
    #[arg(long, value_name = "N", default_value_t = 3)]
    species: usize,
    /// Number of letters of each genome
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    letters: usize,
    /// Share of the letters in which a species differs from its genus's ancestor
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    divergence: f64,
    /// Number of reads
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    reads: usize,
    /// Number of letters of each read
    #[arg(long, value_name = "N", default_value_t = 150)]
    read_letters: usize,
    /// Share of the letters of reads that are wrong
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    error_rate: f64,
    /// Seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let Cli { genera, species, letters, divergence, seed, .. } = *cli;
    let options = CommunityOptions { genera, species, len: letters, divergence };
    let community = Community::random(options, seed)?;
    let reads = community.reads(cli.reads, cli.read_letters, cli.error_rate, seed)?;
    let genomes = cli.folder.join("genomes");
    fs::create_dir_all(&genomes).with_context(|| cannot_write(&genomes))?;
    for species in community.species() {
        let path = genomes.join(format!("{}.fa", species.name));
        write(&path, |file| species.genome.write_fasta(file, &species.name, 80))?;
    }
    write(&cli.folder.join("taxonomy.tsv"), |file| community.write_taxonomy(file))?;
    write(&cli.folder.join("reads.fq"), |file| community.write_fastq(file, &reads, cli.error_rate))
}

/// Creates a file, and writes its contents.
fn write(path: &Path, contents: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> Result<()> {
    let create = || {
        let mut file = BufWriter::new(File::create(path)?);
        contents(&mut file)?;
        file.flush()
    };
    create().with_context(|| cannot_write(path))
}
