//! Tests of the program's command line.
mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use support::{file, gzip};

fn start(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kmer-count"));
    let command = command.current_dir(folder).env_remove("PHALANX_DEVICE").args(arguments.split_whitespace());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn counts_prints_and_writes() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "a.fa", ">a\nACGTACNNgta\n");
    file(folder.path(), "b.fq.gz", gzip(b"@b\nGTAN\n+\nIIII\n"));
    let output =
        start(folder.path(), "a.fa b.fq.gz -k 3 --device emulator -o out.tsv --spectrum s.tsv --min-count 3");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(folder.path().join("out.tsv")).unwrap(), "GTA\t4\n");
    assert_eq!(fs::read_to_string(folder.path().join("s.tsv")).unwrap(), "2\t1\n4\t1\n");
    let printed = text(&output.stdout);
    for expected in ["SIMT emulator", "no measurement of speed", "GTA"] {
        assert!(printed.contains(expected), "{printed}");
    }
    let six = printed.lines().any(|line| line.split_whitespace().eq(["3-mers", "6"]));
    assert!(six && !printed.contains("ACG "), "{printed}");
}

#[test]
fn each_error_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let input = ">a\nACGT\n";
    file(folder.path(), "a.fa", input);
    file(folder.path(), "text", "some words");
    let cases = [
        ("a.fa -k 32", "choose 1 to 31"),
        ("a.fa -k 0", "choose 1 to 31"),
        ("gone.fa", "check the path"),
        (".", "name the files in it"),
        ("text", "samtools fastq"),
        ("a.fa --device cuda:99", "--device emulator needs no GPU"),
        ("a.fa --device gpu", "auto, emulator, cuda or cuda:N"),
        ("a.fa --output a.fa", "name another file"),
        ("a.fa --output none/out.tsv", "check that its folder is there"),
        ("a.fa --plain --canonical", "cannot be used with"),
        ("a.fa --device emulator --gpus 0", "give at least 1"),
        ("a.fa --device cuda:1 --gpus 2", "is one GPU"),
        ("a.fa --gpus 2 --budget 1G", "cannot be used with"),
        ("a.fa --world 2 --rank 2 --meet there", "ranks are below 2"),
        ("a.fa --world 2 --rank 1", "--meet"),
        ("a.fa --world 2 --rank 0 --meet there --gpus 2", "cannot be used with"),
        ("a.fa --device emulator --world 1 --rank 0 --meet .", "is not empty"),
    ];
    for (arguments, expected) in cases {
        let output = start(folder.path(), arguments);
        let errors = text(&output.stderr);
        assert!(!output.status.success() && errors.contains(expected), "{arguments}: {errors}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("a.fa")).unwrap(), input);
}
