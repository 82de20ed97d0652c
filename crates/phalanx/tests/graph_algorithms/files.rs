//! Saved graphs, rows from the host, and cleared graphs.
use crate::common::Rng;
use crate::samples;
use crate::whole::split;
use phalanx::graph::{Csr, Kind, Rows};
use phalanx::{Device, DynamicGraph, Error, Outcome};

const KINDS: [Kind; 2] = [Kind::Directed, Kind::Undirected];

/// Returns a graph with removed vertices, a hub and weights.
fn weighted(kind: Kind) -> DynamicGraph<f32> {
    let mut graph = DynamicGraph::<f32>::builder().vertices(300).kind(kind).self_edges(true).build().unwrap();
    let mut rng = Rng::new(3);
    let mut edges = samples::uniform(300, 900, 7);
    edges.extend((1..200).map(|leaf| (5, leaf)).chain([(9, 9)]));
    let (sources, targets) = split(&edges);
    let weights: Vec<f32> = edges.iter().map(|_| rng.below(1000) as f32 / 8.0 - 60.0).collect();
    assert!(graph.insert(&sources, &targets, &weights).unwrap().all_placed());
    assert_eq!(graph.remove_vertices(&[0, 7, 299]).unwrap().count(Outcome::Removed), 3);
    graph
}

/// Returns the sorted edges of all vertices.
fn edges_of(graph: &DynamicGraph<f32>) -> Vec<Vec<(u32, f32)>> {
    let mut found = graph.neighbors(&(0..graph.vertices() as u32).collect::<Vec<_>>()).unwrap();
    found.sort();
    let of = |vertex| found.of(vertex).iter().copied().zip(found.data(vertex).iter().copied()).collect();
    (0..found.len()).map(of).collect()
}

#[test]
fn saved_graphs_are_loaded() {
    for kind in KINDS {
        let graph = weighted(kind);
        let mut saved = Vec::new();
        graph.save(&mut saved).unwrap();
        let mut loaded = DynamicGraph::load(&saved[..], DynamicGraph::<f32>::builder()).unwrap();
        loaded.validate().unwrap();
        assert_eq!(edges_of(&loaded), edges_of(&graph));
        assert_eq!((loaded.kind(), loaded.vertices(), loaded.vertex_count()), (kind, 300, 297));
        assert_eq!(loaded.edge_count().unwrap(), graph.edge_count().unwrap());
        // Self-edges are still allowed, and ids are reused.
        assert!(loaded.insert(&[3], &[3], &[1.0]).unwrap().all_placed());
        assert!(loaded.insert(&[7], &[3], &[1.0]).unwrap().refused() == 1);
        let mut new = loaded.insert_vertices(3).unwrap();
        new.sort_unstable();
        assert_eq!(new, [0, 7, 299]);
    }
}

#[test]
fn graphs_without_edges_are_saved() {
    let graph = DynamicGraph::<u64>::builder().vertices(3).build().unwrap();
    let mut saved = Vec::new();
    graph.save(&mut saved).unwrap();
    let loaded = DynamicGraph::load(&saved[..], DynamicGraph::<u64>::builder()).unwrap();
    assert_eq!((loaded.vertices(), loaded.edge_count().unwrap()), (3, 0));
}

#[test]
fn damaged_files_are_refused() {
    let mut saved = Vec::new();
    weighted(Kind::Undirected).save(&mut saved).unwrap();
    let load = |bytes: &[u8]| DynamicGraph::load(bytes, DynamicGraph::<f32>::builder()).map(drop);
    load(&saved).unwrap();
    for len in [0, 5, 8, 20, 39, 100, saved.len() / 2, saved.len() - 1] {
        assert!(matches!(load(&saved[..len]), Err(Error::Format(_))), "{len}");
    }
    for place in (0..saved.len()).step_by(saved.len() / 60) {
        let mut damaged = saved.clone();
        damaged[place] ^= 0x11;
        assert!(matches!(load(&damaged), Err(Error::Format(_))), "{place}");
    }
    let other = DynamicGraph::load(&saved[..], DynamicGraph::<u32>::builder());
    assert!(matches!(other, Err(Error::Format(text)) if text.contains("f32") && text.contains("u32")));
    let other = DynamicGraph::load(&saved[..], DynamicGraph::<()>::builder());
    assert!(matches!(other, Err(Error::Format(_))));
}

/// Replaces the checksum of a file by the right one.
fn with_checksum(bytes: &mut [u8]) {
    let (text, sum) = bytes.split_at_mut(bytes.len() - 4);
    sum.copy_from_slice(&crc32(text).to_le_bytes());
}

/// CRC-32 by its definition.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, &byte| (0..8).fold(sum ^ u32::from(byte), |sum, _| step(sum)))
}

#[test]
fn files_with_impossible_edges_are_refused() {
    let graph = DynamicGraph::<()>::builder().vertices(2).build().unwrap();
    assert!(graph.insert(&[0, 1], &[1, 0]).unwrap().all_placed());
    let mut saved = Vec::new();
    graph.save(&mut saved).unwrap();
    let targets = saved.len() - 4 - 8;
    let load = |bytes: &[u8]| DynamicGraph::load(bytes, DynamicGraph::<()>::builder()).map(drop);
    for target in [0u32, 2, u32::MAX] {
        let mut changed = saved.clone();
        changed[targets..targets + 4].copy_from_slice(&target.to_le_bytes());
        with_checksum(&mut changed);
        assert!(matches!(load(&changed), Err(Error::Format(_))), "{target}");
    }
    with_checksum(&mut saved);
    load(&saved).unwrap();
}

#[test]
fn cleared_graphs_are_used_again() {
    for kind in KINDS {
        let mut graph = weighted(kind);
        for _ in 0..3 {
            graph.clear().unwrap();
            graph.validate().unwrap();
            assert_eq!((graph.edge_count().unwrap(), graph.vertex_count()), (0, 297));
            assert_eq!(graph.stats().unwrap().slabs, 0);
            assert!(edges_of(&graph).iter().all(Vec::is_empty));
            let targets: Vec<u32> = (10..250).collect();
            assert!(graph.insert(&[6; 240], &targets, &[1.0; 240]).unwrap().all_placed());
            assert_eq!(graph.insert(&[7], &[8], &[1.0]).unwrap(), [Outcome::Refused]);
            assert_eq!(graph.degree(&[6]).unwrap(), [240]);
            graph.validate().unwrap();
        }
    }
}

#[test]
fn rows_of_the_host_are_checked() {
    let device = Device::from_environment().unwrap();
    let rows = |offsets: &[u64], targets: &[u32], data: usize| {
        let rows = Rows { offsets: offsets.to_vec(), targets: targets.to_vec(), data: vec![(); data] };
        Csr::from_rows(&device, &rows, Kind::Directed).map(|csr| csr.edge_count())
    };
    assert_eq!(rows(&[0, 1, 3], &[1, 0, 1], 3).unwrap(), 3);
    assert_eq!(rows(&[0], &[], 0).unwrap(), 0);
    for (offsets, targets, data) in [
        (&[][..], &[][..], 0),
        (&[1, 1], &[], 0),
        (&[0, 2, 1, 2], &[0, 0], 2),
        (&[0, 1], &[0, 0], 2),
        (&[0, 1], &[1], 1),
        (&[0, 1], &[0], 0),
    ] {
        assert!(matches!(rows(offsets, targets, data), Err(Error::Rows(_))), "{offsets:?}");
    }
}
