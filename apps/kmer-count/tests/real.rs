//! Real input, compared with the definition and with the counts of Jellyfish 2.3.0 for the same files.
//!
//! The emulator is slow, so it counts the beginning of the genome (200,000 bases) and of the reads (1,500). A
//! GPU, if available, counts everything. The k-mers of the whole files are also counted by sorting, which
//! needs no device.
mod support;

use genomes::blocks::{Blocks, Pieces, Record};
use genomes::kmers::{Length, Strand, kmers};
use phalanx::gpu::Device;
use std::path::Path;
use support::debian::{E_COLI, LAMBDA_READS, Sample, say};
use support::{by_definition, counted, emulator, file, gunzip, options, sequences, texts};

/// Output of `jellyfish stats` for a file, by k-mer length and strand (`-C`).
struct Golden {
    bases: u32,
    strand: Strand,
    once: u64,
    different: u64,
    total: u64,
    most: u64,
}

const fn golden(bases: u32, strand: Strand, [once, different, total, most]: [u64; 4]) -> Golden {
    Golden { bases, strand, once, different, total, most }
}

const GENOME: [Golden; 3] = [
    golden(12, Strand::Canonical, [1_891_323, 2_989_303, 4_938_909, 133]),
    golden(21, Strand::Plain, [4_823_262, 4_863_207, 4_938_900, 36]),
    golden(31, Strand::Canonical, [4_807_909, 4_848_261, 4_938_890, 32]),
];

const READS: [Golden; 4] = [
    golden(12, Strand::Canonical, [45_518, 94_193, 843_418, 47]),
    golden(21, Strand::Canonical, [64_752, 113_482, 705_877, 30]),
    golden(21, Strand::Plain, [66_103, 161_768, 705_877, 22]),
    golden(31, Strand::Canonical, [74_485, 123_118, 572_592, 26]),
];

impl Golden {
    fn check(&self, counts: impl Iterator<Item = u64> + Clone) {
        let found = [
            counts.clone().filter(|&count| count == 1).count() as u64,
            counts.clone().count() as u64,
            counts.clone().sum(),
            counts.max().unwrap_or(0),
        ];
        assert_eq!(found, [self.once, self.different, self.total, self.most], "{} bases", self.bases);
    }

    /// Counts the k-mers by sorting, without a device.
    fn check_extraction(&self, path: &Path) {
        let mut all = Vec::new();
        let length = Length::new(self.bases).unwrap();
        for block in
            Blocks::new(&[path.to_owned()], Pieces::for_kmers(length), &indicatif::ProgressBar::hidden())
        {
            let add = |record: &Record<'_>| {
                all.extend(kmers(record.letters, length, self.strand));
                Ok(())
            };
            block.unwrap().for_each(add).unwrap();
        }
        all.sort_unstable();
        self.check(all.chunk_by(|left, right| left == right).map(|group| group.len() as u64));
    }

    /// Counts the whole file on a GPU.
    fn check_on(&self, device: &Device, path: &Path) {
        let mut options = options(self.bases, self.strand);
        options.table.batch = 1 << 20;
        let counts = counted(&[path.to_owned()], device, &options);
        self.check(counts.pairs.iter().map(|&(_, count)| count));
    }
}

/// Compares all counts of the beginning of a file with the definition.
fn check_beginning(text: &str, bases: u32, strand: Strand) {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "beginning", text);
    let counts = counted(&[path], &emulator(), &options(bases, strand));
    assert_eq!(texts(&counts), by_definition(&sequences(text), bases, strand));
}

fn check_whole(sample: &Sample, goldens: &[Golden]) {
    let Some(path) = sample.get() else { return };
    goldens.iter().for_each(|golden| golden.check_extraction(&path));
    match Device::cuda(0) {
        Ok(device) => goldens.iter().for_each(|golden| golden.check_on(&device, &path)),
        Err(error) => say(&format!("whole files were not counted on a GPU: {error}")),
    }
}

#[test]
fn the_beginning_of_a_genome() {
    let Some(path) = E_COLI.get() else { return };
    let text = gunzip(&path);
    let lines = 1 + 200_000 / 70;
    let beginning: String = text.lines().take(lines).flat_map(|line| [line, "\n"]).collect();
    check_beginning(&beginning, 21, Strand::Canonical);
}

#[test]
fn the_beginning_of_reads() {
    let Some(path) = LAMBDA_READS.get() else { return };
    let text = gunzip(&path);
    let beginning: String = text.lines().take(4 * 1_500).flat_map(|line| [line, "\n"]).collect();
    check_beginning(&beginning, 31, Strand::Plain);
}

#[test]
fn a_whole_genome() {
    check_whole(&E_COLI, &GENOME);
}

#[test]
fn all_reads() {
    check_whole(&LAMBDA_READS, &READS);
}
