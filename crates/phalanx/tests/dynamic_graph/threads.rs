//! Batches of several host threads and streams.
use phalanx::graph::Kind;
use phalanx::{DynamicGraph, Outcome};
use std::thread;

#[test]
fn batches_of_several_threads_do_not_mix() {
    for kind in [Kind::Directed, Kind::Undirected] {
        let graph = DynamicGraph::<u32>::builder().vertices(400).kind(kind).table_slabs(0).build().unwrap();
        thread::scope(|scope| {
            for hub in 0..4u32 {
                let graph = &graph;
                scope.spawn(move || {
                    let targets: Vec<u32> = (10..300).collect();
                    for part in targets.chunks(70) {
                        let (hubs, data) = (vec![hub; part.len()], vec![hub; part.len()]);
                        assert!(graph.insert(&hubs, part, &data).unwrap().all_placed());
                        assert!(graph.has_edge(&hubs, part).unwrap().into_iter().all(|has| has));
                    }
                });
            }
        });
        graph.validate().unwrap();
        assert_eq!(graph.edge_count().unwrap(), 4 * 290);
    }
}

#[test]
fn lookups_beside_insertions_find_what_was_there() {
    let graph = DynamicGraph::<()>::builder().vertices(2000).build().unwrap();
    let old: Vec<u32> = (10..60).collect();
    assert!(graph.insert(&[1; 50], &old).unwrap().all_placed());
    thread::scope(|scope| {
        scope.spawn(|| {
            let targets: Vec<u32> = (100..1900).collect();
            for part in targets.chunks(300) {
                assert!(graph.insert(&vec![1; part.len()], part).unwrap().all_placed());
            }
        });
        for _ in 0..20 {
            assert!(graph.has_edge(&[1; 50], &old).unwrap().into_iter().all(|has| has));
        }
    });
    graph.validate().unwrap();
}

#[test]
fn streams_run_changes_one_after_the_other() {
    let graph = DynamicGraph::<()>::builder().vertices(500).table_slabs(500).slabs(500).build().unwrap();
    let device = graph.device();
    let streams = [device.stream().unwrap(), device.stream().unwrap()];
    let sources = device.from_slice(&[3u32; 400]).unwrap();
    let targets = device.from_slice(&(50..450u32).collect::<Vec<_>>()).unwrap();
    let mut outcomes = device.zeroed::<u8>(400).unwrap();
    for round in 0..4 {
        graph.on(&streams[round % 2]).insert(&sources, &targets, None).unwrap();
        graph.on(&streams[1 - round % 2]).remove(&sources, &targets, &mut outcomes).unwrap();
        assert_eq!(outcomes.read().unwrap(), [Outcome::Removed as u8; 400]);
    }
    graph.validate().unwrap();
    assert_eq!(graph.edge_count().unwrap(), 0);
}
