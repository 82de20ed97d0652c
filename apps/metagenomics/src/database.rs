//! The database: for each k-mer of the references, the lowest common ancestor of the taxa that have it.
//!
//! A batch of k-mers, each with the taxon of its genome, takes two steps.
//!
//! 1. The device inserts the new k-mers with their taxa, and returns the taxon of each k-mer that was there.
//! 2. Where a k-mer's taxon differs from the stored one, the host finds the lowest common ancestor of the
//!    two, and the device stores the minimum of its number and the stored one.
//!
//! The minimum is right, since all that is ever stored for a k-mer is on one path: step 2 stores an ancestor
//! of a taxon that was stored at some time, so of the first one. Of taxa on a path, the one with the smallest
//! number is an ancestor of the others ([`Taxonomy`]). So at the end the stored taxon is the lowest common
//! ancestor of all, in whatever order and batches the genomes were read.
use crate::taxonomy::Taxonomy;
use anyhow::{Result, ensure};
use genomes::blocks::{Block, Blocks, Pieces, Record};
use genomes::feed::{Batches, Feed, channel};
use genomes::kmers::{Length, Strand, kmers};
use genomes::read::{Input, Reader, Reading, read};
use genomes::table::{Table, TableOptions};
use indicatif::ProgressBar;
use phalanx::Merge;
use phalanx::gpu::Device;
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

/// Source of a genome's taxon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TaxonOf {
    /// The name of the file, without its folder and its extensions such as .fna.gz.
    #[default]
    File,
    /// The first word of each record's header.
    Header,
}

/// Database of k-mers.
#[derive(Debug)]
pub struct Database {
    /// K-mers and the numbers of their taxa.
    pub table: Table<u32>,
    /// Length of the k-mers.
    pub length: Length,
    /// The tree of taxa, with those of all genomes.
    pub taxonomy: Taxonomy,
    /// Totals and time of reading.
    pub reading: Reading,
    /// Time of the steps that insert batches.
    pub building: Duration,
}

impl Database {
    /// Reads reference genomes, and stores their k-mers. A k-mer and its reverse complement are one.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when a file cannot be read or is neither FASTA nor FASTQ, a record has no
    /// name and [`TaxonOf::Header`] needs one, or the device fails or runs out of memory.
    pub fn build(
        files: &[PathBuf],
        (mut taxonomy, taxon_of): (Taxonomy, TaxonOf),
        device: &Device,
        (length, options): (Length, &TableOptions),
        progress: &ProgressBar,
    ) -> Result<Self> {
        let by_file = match taxon_of {
            TaxonOf::File => Some(numbers_of(files, &mut taxonomy)?),
            TaxonOf::Header => None,
        };
        let (table, taxonomy) = (Table::new(device, options)?, RwLock::new(taxonomy));
        let mut batches = Batches::new(device, options.batch)?;
        let blocks = Blocks::new(files, Pieces::for_kmers(length), progress);
        let (feed, segments) = channel(options.batch);
        let (by_file, shared) = (by_file.as_deref(), &taxonomy);
        let new = move || {
            let (feed, input) = (feed.clone(), Input::default());
            Extractor { length, by_file, taxonomy: shared, feed, input }
        };
        let mut building = Duration::ZERO;
        let reading = thread::scope(|scope| {
            let reader = scope.spawn(move || read(blocks, new));
            let built = batches.run(segments, |kmers, taxa| {
                let start = Instant::now();
                insert(&table, shared, kmers, taxa)?;
                building += start.elapsed();
                Ok(())
            });
            let reading = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // If the device fails, the reader's error is only that the receiver is gone.
            built.and(reading)
        })?;
        let taxonomy = taxonomy.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Self { table, length, taxonomy, reading, building })
    }
}

/// Inserts a batch, by the two steps above.
fn insert(table: &Table<u32>, taxonomy: &RwLock<Taxonomy>, kmers: &[u64], taxa: &[u32]) -> Result<()> {
    let stored = table.get_or_insert(kmers, taxa)?;
    let taxonomy = taxonomy.read().unwrap_or_else(PoisonError::into_inner);
    let (kmers, ancestors): (Vec<u64>, Vec<u32>) = (&stored, taxa, kmers)
        .into_par_iter()
        .filter_map(|(&stored, &taxon, &kmer)| {
            let stored = stored?;
            let ancestor = taxonomy.common(stored, taxon);
            (ancestor != stored).then_some((kmer, ancestor))
        })
        .unzip();
    if kmers.is_empty() { Ok(()) } else { table.upsert(Merge::Min, &kmers, &ancestors) }
}

/// Returns the numbers of the taxa of files, by their names.
fn numbers_of(files: &[PathBuf], taxonomy: &mut Taxonomy) -> Result<Vec<u32>> {
    files.iter().map(|file| taxonomy.number_or_add(&name_of(file))).collect()
}

/// Returns the name of a file without its folder and the extensions of sequences and archives.
fn name_of(file: &Path) -> String {
    const EXTENSIONS: [&str; 8] = [".gz", ".fa", ".fna", ".fasta", ".ffn", ".fas", ".fq", ".fastq"];
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut name = &name[..];
    while let Some(shorter) = EXTENSIONS.iter().find_map(|end| name.strip_suffix(end)) {
        name = shorter;
    }
    name.to_owned()
}

/// Extracts the k-mers of blocks, each with its taxon.
struct Extractor<'a> {
    length: Length,
    by_file: Option<&'a [u32]>,
    taxonomy: &'a RwLock<Taxonomy>,
    feed: Feed<u32>,
    input: Input,
}

impl Extractor<'_> {
    fn taxon(&self, file: usize, record: &Record<'_>) -> Result<u32> {
        if let Some(numbers) = self.by_file {
            return Ok(numbers[file]);
        }
        let name = record.name();
        ensure!(!name.is_empty(), "a record has an empty header, which should name its taxon");
        let known = self.taxonomy.read().unwrap_or_else(PoisonError::into_inner).number(&name);
        let add = || self.taxonomy.write().unwrap_or_else(PoisonError::into_inner).number_or_add(&name);
        known.map_or_else(add, Ok)
    }
}

impl Reader for Extractor<'_> {
    fn take(&mut self, block: &Block) -> Result<()> {
        block.for_each(|record| {
            let taxon = self.taxon(block.file, record)?;
            let mut found = 0;
            for kmer in kmers(record.letters, self.length, Strand::Canonical) {
                found += 1;
                self.feed.push(kmer, taxon)?;
            }
            self.input.add(record, found);
            Ok(())
        })
    }

    fn finish(mut self) -> Result<(Input, Duration)> {
        self.feed.flush()?;
        Ok((self.input, self.feed.waited()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_names_without_extensions() {
        let names = ["a/NC_008253.1.fna.gz", "E. coli.fa", "plain", "x.fastq"].map(Path::new).map(name_of);
        assert_eq!(names, ["NC_008253.1", "E. coli", "plain", "x"]);
    }
}
