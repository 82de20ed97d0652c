//! Checks that blocks of any size have the records and k-mers of the whole file.
use flate2::Compression;
use flate2::write::GzEncoder;
use genomes::blocks::{Block, Blocks, Pieces};
use genomes::kmers::{Length, Strand, kmers};
use genomes::read::{Input, Reader, read};
use indicatif::ProgressBar;
use proptest::prelude::*;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;
use tempfile::TempDir;

/// Writes files in a new folder.
fn files(texts: &[&[u8]]) -> (TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |index: usize| folder.path().join(format!("{index}.txt"));
    texts.iter().enumerate().for_each(|(index, text)| fs::write(path(index), text).unwrap());
    let paths = (0..texts.len()).map(path).collect();
    (folder, paths)
}

fn blocks(paths: &[PathBuf], bases: u32, size: usize) -> Blocks {
    let pieces = Pieces::for_kmers(Length::new(bases).unwrap());
    Blocks::new(paths, pieces, &ProgressBar::hidden()).with_size(size)
}

/// Adds the records of a block to the totals, and returns its k-mers.
fn taken(block: &Block, bases: u32, input: &mut Input) -> Vec<u64> {
    let mut all = Vec::new();
    let each = block.for_each(|record| {
        let before = all.len();
        all.extend(kmers(record.letters, Length::new(bases).unwrap(), Strand::Plain));
        input.add(record, (all.len() - before) as u64);
        Ok(())
    });
    each.unwrap();
    all
}

/// Returns the totals and the k-mers, in the order of the files.
fn read_all(paths: &[PathBuf], bases: u32, size: usize) -> (Input, Vec<u64>) {
    let mut input = Input::default();
    let found = blocks(paths, bases, size).flat_map(|block| taken(&block.unwrap(), bases, &mut input));
    let found = found.collect();
    (input, found)
}

/// Returns the totals and the k-mers of FASTA records, by the definition.
fn by_definition(records: &[String], bases: u32) -> (Input, Vec<u64>) {
    let sequences: Vec<Vec<u8>> = records
        .iter()
        .map(|record| record.bytes().filter(|letter| !b"\r\n".contains(letter)).collect())
        .collect();
    let length = Length::new(bases).unwrap();
    let all: Vec<u64> =
        sequences.iter().flat_map(|sequence| kmers(sequence, length, Strand::Plain)).collect();
    let letters = sequences.iter().map(Vec::len).sum::<usize>() as u64;
    (Input { sequences: records.len() as u64, letters, kmers: all.len() as u64 }, all)
}

proptest! {
    #[test]
    fn fasta_in_blocks_of_any_size(
        records in prop::collection::vec("[ACGTN>]([ACGTN>]{0,30}(\r?\n[ACGTN]{1,9}){0,5}){0,2}", 1..6),
        bases in 1..9u32,
        size in 1..80usize,
    ) {
        // A line of letters must not begin with `>`, which would be a header.
        let records: Vec<String> = records.iter().map(|record| format!("A{record}")).collect();
        let texts = records.iter().enumerate().map(|(index, record)| format!(">r{index} > x\n{record}\n"));
        let (_folder, paths) = files(&[texts.collect::<String>().as_bytes()]);
        prop_assert_eq!(read_all(&paths, bases, size), by_definition(&records, bases));
    }

    #[test]
    fn fastq_in_blocks_of_any_size(
        records in prop::collection::vec(("[ACGT]{1,30}", "[!-J]{30}"), 1..9),
        size in 1..80usize,
    ) {
        let text = |(letters, qualities): &(String, String)| {
            format!("@r\n{letters}\n+\n{}\n", &qualities[..letters.len()])
        };
        let (_folder, paths) = files(&[records.iter().map(text).collect::<String>().as_bytes()]);
        let letters: Vec<String> = records.into_iter().map(|(letters, _)| letters).collect();
        prop_assert_eq!(read_all(&paths, 3, size), by_definition(&letters, 3));
    }
}

#[test]
fn names_follow_the_pieces_and_the_files() {
    let (_folder, paths) = files(&[b">a x\nACGTACGTACGTACGT\nACGT\n", b">b\nACGTACGT\n>c\nACGT\n"]);
    let mut names = Vec::new();
    for block in blocks(&paths, 3, 6) {
        let block = block.unwrap();
        let each = block.for_each(|record| {
            names.push((block.file, record.name(), record.continues));
            Ok(())
        });
        each.unwrap();
    }
    let first = |name: &str| names.iter().find(|(_, found, _)| found == name).unwrap().clone();
    assert_eq!([first("a"), first("b")], [(0, "a".into(), false), (1, "b".into(), false)]);
    assert!(
        names
            .iter()
            .filter(|(file, name, continues)| (*file, &name[..], *continues) == (0, "a", true))
            .count()
            > 1
    );
    assert_eq!(names.iter().filter(|(.., continues)| !continues).count(), 3);
}

#[test]
fn records_stay_whole_if_asked() {
    let text = b">a\nACGT\nACGT\n>b\nACGTAC\n>c\nAC\n";
    let (_folder, paths) = files(&[text]);
    for size in 1..text.len() {
        let all = Blocks::new(&paths, Pieces::Records, &ProgressBar::hidden()).with_size(size);
        let mut lengths = Vec::new();
        for block in all {
            let add = |record: &genomes::blocks::Record<'_>| {
                lengths.push(record.letters.len());
                Ok(())
            };
            block.unwrap().for_each(add).unwrap();
        }
        assert_eq!(lengths, [8, 6, 2], "blocks of {size} bytes");
    }
}

/// A reader that collects the k-mers of all threads.
struct Collector<'a>(&'a Mutex<Vec<u64>>, Input);

impl Reader for Collector<'_> {
    fn take(&mut self, block: &Block) -> anyhow::Result<()> {
        let found = taken(block, 5, &mut self.1);
        self.0.lock().unwrap().extend(found);
        Ok(())
    }

    fn finish(self) -> anyhow::Result<(Input, Duration)> {
        Ok((self.1, Duration::ZERO))
    }
}

#[test]
fn threads_read_what_one_reads() {
    let text: String =
        (0..300).map(|index| format!(">{index}\nACGTTGCAT{}\n", "ACCGT".repeat(index))).collect();
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    let (_folder, paths) = files(&[text.as_bytes(), &packed.finish().unwrap()]);
    let (input, mut expected) = read_all(&paths, 5, Blocks::SIZE);
    let found = Mutex::new(Vec::new());
    let reading = read(blocks(&paths, 5, 1000), || Collector(&found, Input::default())).unwrap();
    assert_eq!(reading.input, input);
    let mut found = found.into_inner().unwrap();
    found.sort_unstable();
    expected.sort_unstable();
    assert!(found == expected && found.len() as u64 == input.kmers);
}

#[test]
fn an_error_ends_the_blocks() {
    let (_folder, mut paths) = files(&[b">a\nACGT\n", b"words", b">c\nACGT\n"]);
    let found: Vec<_> = blocks(&paths, 3, 100).map(|block| block.is_ok()).collect();
    assert_eq!(found, [true, false]);
    paths[1] = "gone".into();
    let found = Mutex::default();
    let error = read(blocks(&paths, 3, 100), || Collector(&found, Input::default())).map(drop);
    let text = format!("{:#}", error.unwrap_err());
    assert!(text.contains("cannot read gone"), "{text}");
}
