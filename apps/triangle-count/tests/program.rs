//! The whole program on the emulator, against triangles counted by definition.
use clap::Parser;
use std::collections::BTreeSet;
use std::fs;
use triangle_count::cli::{Cli, run};
use workloads::edges::rmat;

/// Runs the program, and returns what it prints.
fn output(line: &str) -> anyhow::Result<String> {
    let words = ["triangle-count", "--device", "emulator"].into_iter().chain(line.split_whitespace());
    let mut text = Vec::new();
    run(&Cli::try_parse_from(words)?, &mut text)?;
    Ok(String::from_utf8(text)?)
}

/// Returns the number of triangles of distinct edges whose smaller end is first.
fn triangles(edges: &BTreeSet<(u32, u32)>) -> u64 {
    let third = |&(a, b): &(u32, u32)| {
        let later = edges.range((b, 0)..(b + 1, 0));
        later.filter(|&&(_, c)| edges.contains(&(a, c))).count() as u64
    };
    edges.iter().map(third).sum()
}

/// Returns the lines of an output file as numbers, without the milliseconds.
fn lines(text: &str) -> Vec<Vec<u64>> {
    let numbers = |line: &str| line.split('\t').take(3).map(|word| word.parse().unwrap()).collect();
    text.lines().skip(1).map(numbers).collect()
}

#[test]
fn counts_of_generated_edges_are_right_after_each_batch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.tsv");
    let text =
        output(&format!("--scale 7 --edges 1500 --seed 5 -b 400 --check -o {}", path.display())).unwrap();
    assert!(text.contains("as many triangles"), "{text}");
    let found = lines(&fs::read_to_string(path).unwrap());
    let (mut edges, mut read) = (BTreeSet::new(), 0);
    let mut expected = Vec::new();
    for batch in rmat(7, 1500, 5).chunks(400) {
        edges.extend(batch.iter().filter(|(a, b)| a != b).map(|&(a, b)| (a.min(b), a.max(b))));
        read += batch.len() as u64;
        expected.push(vec![read, edges.len() as u64, triangles(&edges)]);
    }
    assert_eq!(found, expected);
}

#[test]
fn a_window_keeps_the_newest_edges() {
    let folder = tempfile::tempdir().unwrap();
    let (input, path) = (folder.path().join("in.txt"), folder.path().join("out.tsv"));
    // Four triangles one after the other, each of three edges.
    let text: String =
        (0..4).map(|t| format!("{0} {1}\n{1} {2}\n{2} {0}\n", 3 * t, 3 * t + 1, 3 * t + 2)).collect();
    fs::write(&input, text).unwrap();
    let line = format!("{} -b 3 -w 7 --check -o {}", input.display(), path.display());
    output(&line).unwrap();
    let found = lines(&fs::read_to_string(path).unwrap());
    assert_eq!(found, [[3, 3, 1], [6, 6, 2], [9, 7, 2], [12, 7, 2]]);
}

#[test]
fn empty_and_malformed_files() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.mtx");
    fs::write(&input, "").unwrap();
    output(&format!("{} --check", input.display())).unwrap();
    fs::write(&input, "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 3\n").unwrap();
    let error = format!("{:#}", output(&input.display().to_string()).unwrap_err());
    assert!(error.contains("in.mtx") && error.contains("line 3"), "{error}");
    assert!(output("no-such-file").is_err());
    assert!(output("--device cuda:999").is_err());
}
