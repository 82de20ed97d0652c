//! Edge lists and Matrix Market files.
use crate::common::Rng;
use phalanx::graph::load::{self, EdgeList, EdgeReader};
use phalanx::graph::{Data, Kind};
use phalanx::{DynamicGraph, Error};
use std::collections::BTreeMap;
use std::io::{BufReader, Read};

const PATTERN: &str = "%%MatrixMarket matrix coordinate pattern general\n";
const REAL: &str = "%%MatrixMarket matrix coordinate real general\n";

fn parse<E: Data>(text: &str) -> EdgeList<E> {
    load::parse(text.as_bytes(), "text").unwrap()
}

/// Returns the edges of a text as pairs, and its number of vertices.
fn ends_in(text: &str) -> (usize, Kind, Vec<(u32, u32)>) {
    let EdgeList { vertices, kind, sources, targets, .. } = parse::<()>(text);
    (vertices, kind, sources.into_iter().zip(targets).collect())
}

/// Returns the line and the message of the error in a text.
fn fault<E: Data>(text: &str) -> (u64, String) {
    match load::parse::<E>(text.as_bytes(), "bad.mtx") {
        Err(error @ Error::EdgeLine { line, .. }) => {
            let message = error.to_string();
            assert!(message.starts_with(&format!("bad.mtx, line {line}: ")), "{message}");
            (line, message)
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn edge_lists_have_ids_from_0_and_comments() {
    let text = "# a comment\n\n 7 0 0.5 rest\n% another\n0\t1\n7 7";
    assert_eq!(ends_in(text), (8, Kind::Directed, vec![(7, 0), (0, 1), (7, 7)]));
    for empty in ["", "\n\n", "# only\n% comments\n"] {
        assert_eq!(ends_in(empty), (0, Kind::Directed, vec![]));
    }
    assert_eq!(ends_in("0 0\r\n"), (1, Kind::Directed, vec![(0, 0)]));
}

#[test]
fn lists_have_data_in_all_lines_or_in_none() {
    assert_eq!(parse::<u32>("0 1 5\n1 2 6 7\n").data, [5, 6]);
    assert_eq!(parse::<u64>("0 1 18446744073709551615\n").data, [u64::MAX]);
    assert_eq!(parse::<f32>("0 1 -1.5e2\n1 0 inf\n").data, [-150.0, f32::INFINITY]);
    assert_eq!(parse::<u32>("0 1\n1 2\n").data, [1, 1]);
    assert_eq!(fault::<u32>("0 1 5\n\n1 2\n").0, 3);
    assert_eq!(fault::<u32>("0 1\n1 2 5\n").0, 2);
    assert_eq!(parse::<()>("0 1\n1 2 5\n").data, [(), ()]);
}

#[test]
fn matrices_have_ids_from_1() {
    let text = "%%MatrixMarket matrix coordinate pattern symmetric\n% by hand\n\n3 3 2\n2 1\n3 2\n";
    assert_eq!(ends_in(text), (3, Kind::Undirected, vec![(1, 0), (2, 1)]));
    assert_eq!(
        ends_in(&format!("{REAL}2 5 2\n1 5 0.25\n2 1 9\n")),
        (5, Kind::Directed, vec![(0, 4), (1, 0)])
    );
    assert_eq!(ends_in(&format!("{REAL}2 5 0\n")), (5, Kind::Directed, vec![]));
    assert_eq!(ends_in(&format!("{REAL}0 0 0\n")), (0, Kind::Directed, vec![]));
    // Case and blanks of the header do not matter, nor does an empty line before it.
    assert_eq!(
        ends_in("\n%%MatrixMarket  MATRIX Coordinate Integer Skew-Symmetric\n2 2 1\n2 1 -3\n").2,
        [(1, 0)]
    );
}

#[test]
fn values_of_matrices_are_data() {
    assert_eq!(parse::<f32>(&format!("{REAL}2 2 2\n1 2 0.25\n2 1 1e-3\n")).data, [0.25, 0.001]);
    let integers = "%%MatrixMarket matrix coordinate integer symmetric\n3 3 1\n3 1 12\n";
    assert_eq!(parse::<u32>(integers).data, [12]);
    assert_eq!(parse::<u64>(integers).data, [12]);
    assert_eq!(parse::<f32>(integers).data, [12.0]);
    assert_eq!(parse::<f32>(&format!("{PATTERN}2 2 1\n1 2\n")).data, [1.0]);
    // Not of the type: a fraction, a negative number, no number, too large.
    assert_eq!(fault::<u32>(&format!("{REAL}2 2 2\n1 2 3\n2 1 0.25\n")).0, 4);
    assert_eq!(fault::<u32>(&format!("{REAL}2 2 1\n1 2 -1\n")).0, 3);
    for word in ["nan", "1e60", "x", "-1e60"] {
        let (line, message) = fault::<f32>(&format!("{REAL}2 2 1\n1 2 {word}\n"));
        assert!(line == 3 && message.contains("f32") && message.contains(word), "{message}");
    }
    let skew = "%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 1 0.5\n";
    assert!(fault::<f32>(skew).1.contains("'skew-symmetric'"));
    assert_eq!(ends_in(skew).2, [(1, 0)]);
}

#[test]
fn malformed_lines_are_named() {
    for (text, line, found) in [
        ("1 2\n3\n".to_owned(), 2, "'3'"),
        ("1 2\n\nx 4\n".to_owned(), 3, "'x'"),
        ("1 -2\n".to_owned(), 1, "'-2'"),
        ("1 2.5\n".to_owned(), 1, "'2.5'"),
        ("1 18446744073709551616\n".to_owned(), 1, "'18446744073709551616'"),
        ("0 4294967291\n0 4294967292\n".to_owned(), 2, "4294967292"),
        ("%%MatrixMarket matrix array real general\n".to_owned(), 1, "array"),
        ("%%MatrixMarket vector coordinate real general\n".to_owned(), 1, "vector"),
        ("%%MatrixMarket\n".to_owned(), 1, "MatrixMarket"),
        ("%%MatrixMarket matrix coordinate complex general\n".to_owned(), 1, "'complex'"),
        ("%%MatrixMarket matrix coordinate real hermitian\n".to_owned(), 1, "'hermitian'"),
        (format!("% a comment\n{PATTERN}2 2 0\n"), 2, "MatrixMarket"),
        (format!("{PATTERN}3 3\n"), 2, "2 numbers"),
        (format!("{PATTERN}3 3 3 3\n"), 2, "4 numbers"),
        (format!("{PATTERN}3 x 3\n"), 2, "'x'"),
        (format!("{PATTERN}3 4294967293 0\n"), 2, "4294967293"),
        ("%%MatrixMarket matrix coordinate pattern symmetric\n3 4 0\n".to_owned(), 2, "4 columns"),
        (format!("{PATTERN}3 3 2\n1 2\n4 1\n"), 4, "row 4"),
        (format!("{PATTERN}3 2 1\n1 3\n"), 3, "column 3"),
        (format!("{PATTERN}3 3 2\n0 2\n"), 3, "row 0"),
        (format!("{PATTERN}3 3 1\n1 2 9\n"), 3, "3 words"),
        (format!("{PATTERN}3 3 1\n1\n"), 3, "1 words"),
        (format!("{REAL}3 3 1\n1 2\n"), 3, "2 words"),
        (format!("{PATTERN}3 3 1\n1 2\n1 3\n"), 4, "all 1 announced"),
        (format!("{PATTERN}3 3 2\n1 2\n"), 3, "after 1 of 2"),
        (format!("{PATTERN}3 3 18446744073709551615\n"), 2, "after 0 of"),
        (PATTERN.to_owned(), 1, "sizes"),
    ] {
        let (at, message) = fault::<()>(&text);
        assert!(at == line && message.contains(found), "{text}: {message}");
    }
}

/// A reader that fails behind a text.
struct Failing<'a>(&'a [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(into)? {
            0 => Err(std::io::Error::other("the cable is loose")),
            bytes => Ok(bytes),
        }
    }
}

#[test]
fn unreadable_files_are_named() {
    assert!(matches!(load::parse::<()>(&b"0 1\n\xff 2\n"[..], "f"), Err(Error::EdgeLine { line: 2, .. })));
    let error = load::parse::<()>(BufReader::new(Failing(b"0 1\n")), "far.txt").unwrap_err();
    assert!(matches!(error, Error::EdgeFile { .. }));
    assert!(error.to_string().contains("far.txt") && error.to_string().contains("cable"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("edges.txt");
    assert!(matches!(load::read::<()>(&path), Err(Error::EdgeFile { .. })));
    std::fs::write(&path, "0 1\n1 x\n").unwrap();
    let message = load::read::<()>(&path).unwrap_err().to_string();
    assert!(message.contains("edges.txt, line 2"), "{message}");
}

#[test]
fn readers_tell_their_progress() {
    let mut reader = EdgeReader::<_, ()>::new("1 2\n\n2 30000000000\n".as_bytes(), "text");
    assert_eq!(reader.next_edge().unwrap(), Some((1, 2, ())));
    assert_eq!((reader.bytes_read(), reader.lines_read(), reader.dimension()), (4, 1, None));
    assert_eq!(reader.next_edge().unwrap(), Some((2, 30_000_000_000, ())));
    assert_eq!((reader.bytes_read(), reader.lines_read()), (19, 3));
    assert_eq!(reader.next_edge().unwrap(), None);
}

#[test]
fn written_graphs_are_read_and_built() {
    let mut rng = Rng::new(11);
    for (symmetry, kind) in [("general", Kind::Directed), ("symmetric", Kind::Undirected)] {
        let mut edges = BTreeMap::new();
        while edges.len() < 300 {
            let (a, b) = (rng.below(60) as u32, rng.below(60) as u32);
            let edge = if kind == Kind::Undirected { (a.max(b), a.min(b)) } else { (a, b) };
            if a != b {
                edges.insert(edge, rng.below(1000) as u32);
            }
        }
        let lines: String =
            edges.iter().map(|(&(a, b), weight)| format!("{} {} {weight}\n", a + 1, b + 1)).collect();
        let text = format!("%%MatrixMarket matrix coordinate integer {symmetry}\n60 60 300\n{lines}");
        let read = parse::<u32>(&text);
        let mut graph =
            DynamicGraph::<u32>::builder().vertices(read.vertices).kind(read.kind).build().unwrap();
        assert!(graph.bulk_build(&read.sources, &read.targets, &read.data).unwrap().all_placed());
        let (sources, targets): (Vec<_>, Vec<_>) = edges.keys().copied().unzip();
        let weights: Vec<_> = edges.values().map(|&weight| Some(weight)).collect();
        assert_eq!(graph.weight(&sources, &targets).unwrap(), weights);
        assert_eq!((graph.edge_count().unwrap(), graph.kind()), (300, kind));
        let mirrored = read.mirrored();
        assert_eq!(mirrored.sources.len(), if kind == Kind::Directed { 300 } else { 600 });
        let back: Vec<_> =
            mirrored.targets.iter().copied().zip(mirrored.sources).take(600).skip(300).collect();
        assert!(back.iter().zip(edges.keys()).all(|(a, b)| a == b));
    }
}
