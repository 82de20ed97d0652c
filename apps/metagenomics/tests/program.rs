//! Tests of the programs' command lines.
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const METAGENOMICS: &str = env!("CARGO_BIN_EXE_metagenomics");

fn start(program: &str, folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(program);
    let command = command.current_dir(folder).env_remove("PHALANX_DEVICE").args(arguments.split_whitespace());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn simulated_reads_are_classified_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let simulate = "sim --genera 1 --species 2 --letters 1000 --reads 20 --read-letters 50";
    let output = start(env!("CARGO_BIN_EXE_simulate-genomes"), folder.path(), simulate);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run = "sim/reads.fq -r sim/genomes/genus1-species1.fa sim/genomes/genus1-species2.fa \
        --taxonomy sim/taxonomy.tsv --device emulator -o out.tsv --assignments reads.tsv";
    let output = start(METAGENOMICS, folder.path(), run);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    for expected in ["SIMT emulator", "no measurement of speed", "genus1-species1", "looking up"] {
        assert!(printed.contains(expected), "{printed}");
    }
    let abundances = fs::read_to_string(folder.path().join("out.tsv")).unwrap();
    assert!(
        abundances.starts_with("taxon\tparent\treads\tclade_reads\tclade_share\nroot\t\t"),
        "{abundances}"
    );
    let assignments = fs::read_to_string(folder.path().join("reads.tsv")).unwrap();
    let lines: Vec<Vec<_>> = assignments.lines().map(|line| line.split('\t').collect()).collect();
    assert!(
        lines.len() == 20 && lines.iter().all(|line| line.len() == 4 && line[3] == "35"),
        "{assignments}"
    );
    let in_order = lines.iter().enumerate().all(|(index, line)| line[0].ends_with(&format!(":{index}")));
    assert!(in_order, "{assignments}");
}

#[test]
fn each_error_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.fa"), ">a\nACGT\n").unwrap();
    fs::write(folder.path().join("text"), "some words").unwrap();
    fs::write(folder.path().join("tree"), "a\tb\nb\ta\n").unwrap();
    let cases = [
        ("a.fa -r gone.fa", "check the path"),
        ("gone.fa -r a.fa", "check the path"),
        ("a.fa -r text", "samtools fastq"),
        ("text -r a.fa", "samtools fastq"),
        ("a.fa -r a.fa --taxonomy tree", "its own ancestor"),
        ("a.fa -r a.fa --taxonomy gone", "check the path"),
        ("a.fa -r a.fa -k 32", "choose 1 to 31"),
        ("a.fa -r a.fa --min-share 1.5", "choose 0 to 1"),
        ("a.fa -r a.fa --budget some", "write one such as"),
        ("a.fa -r a.fa --budget 5", "is too small"),
        ("a.fa -r a.fa -o a.fa", "name another file"),
        ("a.fa -r a.fa --taxonomy tree --device cuda:99", "its own ancestor"),
        ("a.fa -r a.fa --device cuda:99", "--device emulator needs no GPU"),
        ("a.fa", "--references"),
    ];
    for (arguments, expected) in cases {
        let output = start(METAGENOMICS, folder.path(), arguments);
        let errors = text(&output.stderr);
        assert!(!output.status.success() && errors.contains(expected), "{arguments}: {errors}");
    }
}
