//! Shared by the tests: counts computed from the definition, and real input.
#![allow(dead_code, reason = "each test uses a part")]
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use genomes::kmers::{Length, Strand, letters};
use genomes::table::TableOptions;
use indicatif::ProgressBar;
use kmer_count::count::{Counts, Options, count};
use phalanx::gpu::Device;
use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

pub mod debian;

/// Default options of the tests. The table and the batches are so small that the table grows in every count.
pub fn options(bases: u32, strand: Strand) -> Options {
    let table = TableOptions { capacity: 100, budget: None, baseline: None, batch: 5000 };
    Options { length: Length::new(bases).unwrap(), strand, table }
}

pub fn emulator() -> Device {
    Device::named("emulator").unwrap()
}

pub fn counted(files: &[PathBuf], device: &Device, options: &Options) -> Counts {
    count(files, device, options, &ProgressBar::hidden()).unwrap()
}

/// Returns the k-mers as text with their counts, in output order.
pub fn texts(counts: &Counts) -> Vec<(String, u64)> {
    counts.pairs.iter().map(|&(kmer, count)| (letters(kmer, counts.length).collect(), count)).collect()
}

/// Counts every window of every sequence as text, directly from the definition.
pub fn by_definition(sequences: &[Vec<u8>], bases: u32, strand: Strand) -> Vec<(String, u64)> {
    let mut counts = HashMap::<Vec<u8>, u64>::new();
    for window in sequences.iter().flat_map(|sequence| sequence.windows(bases as usize)) {
        let text = window.to_ascii_uppercase();
        if text.iter().all(|letter| b"ACGT".contains(letter)) {
            *counts.entry(of_strand(text, strand)).or_default() += 1;
        }
    }
    let text = |(text, count)| (String::from_utf8(text).unwrap(), count);
    let mut counts: Vec<_> = counts.into_iter().map(text).collect();
    counts.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
    counts
}

fn of_strand(text: Vec<u8>, strand: Strand) -> Vec<u8> {
    if strand == Strand::Plain {
        return text;
    }
    let mut other = text.clone();
    workloads::genome::reverse_complement(&mut other);
    text.min(other)
}

/// Returns the sequences of a FASTA text, or of a FASTQ text whose records have four lines.
pub fn sequences(text: &str) -> Vec<Vec<u8>> {
    if text.starts_with('@') {
        return text.lines().skip(1).step_by(4).map(|line| line.as_bytes().to_vec()).collect();
    }
    let records = text.split('>').skip(1);
    records.map(|record| record.lines().skip(1).collect::<String>().into_bytes()).collect()
}

pub fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

pub fn gunzip(path: &Path) -> String {
    let mut text = String::new();
    MultiGzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Writes a file in a folder and returns its path.
pub fn file(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    path
}
