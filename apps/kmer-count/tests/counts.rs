//! Checks the counts of the emulator against the definition.
mod support;

use genomes::kmers::{Length, Strand};
use genomes::table::{Baseline, TableOptions};
use kmer_count::count::{Counts, Options, count};
use kmer_count::gpus::{count_on, devices};
use kmer_count::world::Process;
use phalanx::exchange::Limits;
use phalanx::sharded_map::on_devices;
use proptest::prelude::*;
use std::path::PathBuf;
use support::{by_definition, counted, emulator, file, gzip, options, sequences, texts};
use workloads::Genome;
use workloads::genome::write_fastq;

const STRANDS: [Strand; 2] = [Strand::Plain, Strand::Canonical];

/// Counts the texts, each in its own file, and compares the result with the definition.
fn check(files: &[&str], bases: u32, strand: Strand) -> Counts {
    let folder = tempfile::tempdir().unwrap();
    let write = |(index, text): (usize, &&str)| file(folder.path(), &format!("{index}.txt"), text);
    let paths: Vec<PathBuf> = files.iter().enumerate().map(write).collect();
    let counts = counted(&paths, &emulator(), &options(bases, strand));
    let all: Vec<_> = files.iter().flat_map(|text| sequences(text)).collect();
    assert_eq!(texts(&counts), by_definition(&all, bases, strand));
    counts
}

fn owned_pairs(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    expected.iter().map(|&(text, count)| (text.to_owned(), count)).collect()
}

#[test]
fn fasta_over_several_lines() {
    // The sequence is ACGTACNNgta. K-mers may span a line break, but not the letters N.
    let text = ">one some words\nACGTA\nCNN\ngta\n>two\n\n>three\nAC\n";
    let counts = check(&[text], 3, Strand::Plain);
    assert_eq!(texts(&counts), owned_pairs(&[("GTA", 2), ("ACG", 1), ("CGT", 1), ("TAC", 1)]));
    assert_eq!((counts.input.sequences, counts.input.letters, counts.input.kmers), (3, 13, 5));
    assert_eq!(counts.spectrum(), [(1, 3), (2, 1)]);

    let counts = check(&[text], 3, Strand::Canonical);
    assert_eq!(texts(&counts), owned_pairs(&[("GTA", 3), ("ACG", 2)]));
    assert_eq!(counts.at_least(3), &counts.pairs[..1]);
}

#[test]
fn fastq_with_windows_lines_and_no_last_newline() {
    // Quality letters that look like bases or like the start of a record are ignored.
    let text = "@r1\r\nACGT\r\n+\r\n@CGT\r\n@r2\r\nTTTT\r\n+r2\r\n>>>>";
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "reads.fq", text);
    let counts = counted(&[path], &emulator(), &options(4, Strand::Canonical));
    assert_eq!(texts(&counts), owned_pairs(&[("AAAA", 1), ("ACGT", 1)]));
}

#[test]
fn gzip_in_one_and_in_several_members() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (">a\nACGTACGTAAC\n", ">b\nGGGGTTTACGT\n");
    let both = [gzip(first.as_bytes()), gzip(second.as_bytes())];
    let one = file(folder.path(), "one.fa.gz", gzip([first, second].concat().as_bytes()));
    let several = file(folder.path(), "several", both.concat());
    let apart = [file(folder.path(), "a", &both[0]), file(folder.path(), "b", second)];
    let all: Vec<_> = [first, second].into_iter().flat_map(sequences).collect();
    let expected = by_definition(&all, 5, Strand::Canonical);
    for paths in [&[one][..], &[several], &apart] {
        assert_eq!(texts(&counted(paths, &emulator(), &options(5, Strand::Canonical))), expected);
    }
}

#[test]
fn several_devices_change_no_count() {
    let genome = Genome::random(9_000, 3);
    let mut fasta = Vec::new();
    genome.write_fasta(&mut fasta, "genome", 70).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = [file(folder.path(), "genome.fa", &fasta), file(folder.path(), "short.fa", ">a\nACGTACGT\n")];
    for (bases, strand) in [(5, Strand::Plain), (21, Strand::Canonical)] {
        let options = options(bases, strand);
        let one = counted(&path, &emulator(), &options);
        for gpus in [1, 2, 3] {
            let devices = devices("emulator", gpus).unwrap();
            let several = count_on(&path, &devices, &options, &indicatif::ProgressBar::hidden()).unwrap();
            assert_eq!((several.pairs, several.input), (one.pairs.clone(), one.input), "{gpus} devices");
        }
    }
}

/// Processes are threads here, with an exchange between emulated devices.
#[test]
fn several_processes_change_no_count() {
    let (genome, folder) = (Genome::random(9_000, 4), tempfile::tempdir().unwrap());
    let mut fasta = Vec::new();
    genome.write_fasta(&mut fasta, "genome", 70).unwrap();
    let long: String = (0..200).map(|name| format!(">{name}\n{}\n", "ACGGT".repeat(2_000))).collect();
    let path = [file(folder.path(), "genome.fa", &fasta), file(folder.path(), "long.fa", long)];
    let options = options(11, Strand::Canonical);
    let one = counted(&path, &emulator(), &options);
    for ranks in [1, 2, 3] {
        let (devices, meet) = (devices("emulator", ranks).unwrap(), folder.path().join(ranks.to_string()));
        std::fs::create_dir(&meet).unwrap();
        let counted = on_devices(&devices, Limits { part_bytes: 1 << 16, ..Limits::default() }, |exchange| {
            let process = Process { rank: exchange.rank(), ranks, folder: meet.clone() };
            Ok(process.count(exchange, &path, &options, &indicatif::ProgressBar::hidden()).unwrap())
        });
        let mut counted = counted.unwrap().into_iter();
        let first = counted.next().flatten().unwrap();
        assert_eq!((first.pairs, first.input), (one.pairs.clone(), one.input), "{ranks} processes");
        assert!(counted.all(|counts| counts.is_none()));
        assert_eq!(std::fs::read_dir(&meet).unwrap().count(), 0, "files are left");
    }
}

#[test]
fn a_genome_and_its_reads_together() {
    let genome = Genome::random(3_000, 1);
    let reads = genome.reads(40, 120, 0.01, 2).unwrap();
    let (mut fasta, mut fastq) = (Vec::new(), Vec::new());
    genome.write_fasta(&mut fasta, "genome", 70).unwrap();
    write_fastq(&mut fastq, &reads, 0.01).unwrap();
    let texts = [String::from_utf8(fasta).unwrap(), String::from_utf8(fastq).unwrap()];
    for (bases, strand) in [1, 4, 16, 21, 31].into_iter().zip(STRANDS.into_iter().cycle()) {
        check(&[&texts[0], &texts[1]], bases, strand);
    }
}

#[test]
fn the_table_grows_from_any_size() {
    let folder = tempfile::tempdir().unwrap();
    let mut fasta = Vec::new();
    Genome::random(20_000, 3).write_fasta(&mut fasta, "genome", 60).unwrap();
    let path = file(folder.path(), "genome.fa", fasta);
    let mut all = Vec::new();
    for (capacity, batch) in [(1, 1_000), (1, 1 << 20), (30_000, 7_001)] {
        let table = TableOptions { capacity, batch, budget: None, baseline: None };
        let options = Options { table, ..options(21, Strand::Canonical) };
        all.push(counted(std::slice::from_ref(&path), &emulator(), &options).pairs);
    }
    assert!(all[0].len() > 19_000 && all.iter().all(|pairs| *pairs == all[0]));
}

/// Counts a genome and reads with this table.
fn counted_with(files: &[PathBuf], table: TableOptions) -> Counts {
    counted(files, &emulator(), &Options { table, ..options(16, Strand::Canonical) })
}

#[test]
fn a_budget_changes_no_count() {
    // The emulator takes some 30 ms for each chunk of 128 pairs.
    let folder = tempfile::tempdir().unwrap();
    let genome = Genome::random(500, 4);
    let (mut fasta, mut fastq) = (Vec::new(), Vec::new());
    genome.write_fasta(&mut fasta, "genome", 60).unwrap();
    write_fastq(&mut fastq, &genome.reads(5, 50, 0.01, 5).unwrap(), 0.01).unwrap();
    let files = [file(folder.path(), "genome.fa", fasta), file(folder.path(), "reads.fq", fastq)];
    let whole = TableOptions { capacity: 16_000, budget: None, baseline: None, batch: 300 };
    let expected = counted_with(&files, whole);
    let devices = [None, Some(Baseline::Remote)].map(|baseline| {
        let found = counted_with(&files, TableOptions { baseline, budget: Some(128 << 10), ..whole });
        assert!(found.pairs == expected.pairs && found.input == expected.input, "{baseline:?}");
        let memory = found.cost.memory;
        assert!(memory.device <= 128 << 10 && memory.host > 256 << 10, "{memory}");
        memory.device
    });
    assert!(devices[1] < devices[0], "the baseline copies no shards: {devices:?}");
}

/// All ranks end when one of them lacks memory, and so does the reader, which would wait for ever otherwise.
#[test]
#[cfg(feature = "emulator")]
fn a_gpu_that_lacks_memory_ends_the_count() {
    let folder = tempfile::tempdir().unwrap();
    let mut fasta = Vec::new();
    Genome::random(20_000, 6).write_fasta(&mut fasta, "genome", 60).unwrap();
    let files = [file(folder.path(), "genome.fa", fasta)];
    let table = TableOptions { capacity: 500, budget: None, baseline: None, batch: 20 };
    let options = Options { table, ..options(16, Strand::Canonical) };
    let devices = devices("emulator", 2).unwrap();
    let errors = failed_allocations(&devices[1], (0..10).chain((10..).step_by(7)), 19_985, || {
        count_on(&files, &devices, &options, &indicatif::ProgressBar::hidden())
    });
    assert!(errors > 5, "only {errors} failed");
}

/// Counts while allocations of a device fail, from each of `first` on, until none fails any more. Each count
/// has `kmers` k-mers, or is an error that names the memory. Returns the number of errors.
#[cfg(feature = "emulator")]
fn failed_allocations(
    device: &phalanx::Device,
    first: impl Iterator<Item = u64>,
    kmers: u64,
    count: impl Fn() -> anyhow::Result<Counts>,
) -> usize {
    let (handle, mut errors) = (device.emulator_handle().unwrap(), 0);
    for allocations in first {
        handle.fail_allocations_after(allocations);
        let found = count();
        let left = handle.fail_allocations_after(u64::MAX);
        match found {
            Ok(counts) => assert_eq!(counts.pairs.iter().map(|&(_, count)| count).sum::<u64>(), kmers),
            Err(error) => {
                let text = format!("{error:#}");
                assert!(text.contains("memory") && !text.contains("ended early"), "{text}");
                errors += 1;
            }
        }
        if left > 0 {
            break;
        }
    }
    errors
}

/// Each allocation fails once. The reader has more segments than the channel holds, so it would wait for ever
/// for a counter that has ended without telling it.
#[test]
#[cfg(feature = "emulator")]
fn a_failed_allocation_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut fasta = Vec::new();
    Genome::random(2_000, 6).write_fasta(&mut fasta, "genome", 60).unwrap();
    let files = [file(folder.path(), "genome.fa", fasta)];
    // A device of its own: the other tests share one.
    let device = phalanx::Device::emulator(Default::default());
    let table = TableOptions { capacity: 500, budget: None, baseline: None, batch: 20 };
    let options = Options { table, ..options(16, Strand::Canonical) };
    let errors = failed_allocations(&device, 0.., 1_985, || {
        count(&files, &device, &options, &indicatif::ProgressBar::hidden())
    });
    assert!(errors > 3, "{errors} allocations failed");
}

#[test]
fn too_small_a_budget_is_an_error() {
    let table = TableOptions { capacity: 20_000, budget: Some(5000), baseline: None, batch: 100 };
    let options = Options { table, ..options(16, Strand::Canonical) };
    let hidden = indicatif::ProgressBar::hidden();
    let error = count(&[], &emulator(), &options, &hidden).unwrap_err().to_string();
    assert!(error.contains("--budget 5000 is too small for so many k-mers: give at least"), "{error}");
}

#[test]
fn one_kmer_very_often() {
    let text = format!(">a\n{}\n", "A".repeat(50_000));
    let counts = check(&[&text], 31, Strand::Plain);
    assert_eq!(counts.pairs, [(0, 49_970)]);
    let last = format!(">t\n{}\n", "T".repeat(40));
    assert_eq!(check(&[&last], 31, Strand::Plain).pairs, [((1 << 62) - 1, 10)]);
}

#[test]
fn no_kmers_are_no_error() {
    let counts = check(&[">short\nACGT\n", ">none\nNNNNNNNNNN\n"], 5, Strand::Canonical);
    assert!(counts.pairs.is_empty() && counts.spectrum().is_empty());
    assert_eq!(counts.input.sequences, 2);
}

#[test]
fn a_bad_file_among_good_ones_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let good = file(folder.path(), "good.fa", ">a\nACGTACGT\n");
    let whole = gzip(&[b">a\n", &b"ACGTTGCATTGACA".repeat(5_000)[..]].concat());
    let bad = [
        ("empty", Vec::new(), "empty"),
        ("text", b"hello\n".to_vec(), "neither FASTA nor FASTQ"),
        ("bam", gzip(b"BAM\x01rest"), "neither FASTA nor FASTQ"),
        ("cut.gz", whole[..whole.len() / 2].to_vec(), "read to its end"),
        ("cut.fq", b"@r\nACGT\n+\nIII".to_vec(), "damaged"),
    ];
    for (name, content, expected) in bad {
        let files = [good.clone(), file(folder.path(), name, content)];
        let hidden = indicatif::ProgressBar::hidden();
        let error = count(&files, &emulator(), &options(3, Strand::Plain), &hidden).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains(expected) && text.contains(name), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_sequences(records in prop::collection::vec("[ACGTacgtN]{0,120}", 1..8), bases in 1..=Length::MAX) {
        let text: String = records.iter().map(|record| format!(">r\n{record}\n")).collect();
        for strand in STRANDS {
            check(&[&text], bases, strand);
        }
    }
}
