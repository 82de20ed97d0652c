//! Vertices with long chains are rebuilt.
use crate::common::Rng;
use crate::world::World;
use phalanx::graph::{Builder, Kind};
use phalanx::{DynamicGraph, Error};

/// Inserts edges from vertex 0 by a batch in a stream, which adds no memory.
fn insert_in_stream(world: &mut World<()>, targets: std::ops::Range<u32>) {
    let device = world.graph.device().clone();
    let count = targets.len();
    let columns = [vec![0; count], targets.clone().collect()].map(|ids| device.from_slice(&ids).unwrap());
    let mut outcomes = device.zeroed::<u8>(count).unwrap();
    let stream = device.stream().unwrap();
    world.graph.on(&stream).insert(&columns[0], &columns[1], &mut outcomes).unwrap();
    let outcomes: Vec<_> =
        outcomes.read().unwrap().into_iter().map(|code| phalanx::Outcome::from_code(code).unwrap()).collect();
    let edges: Vec<_> = targets.map(|target| (0, target, ())).collect();
    world.inserted(&edges, &outcomes);
}

fn builder() -> Builder<()> {
    DynamicGraph::builder().vertices(1000).slabs(200)
}

#[test]
fn a_vertex_without_room_for_a_table_gets_one() {
    for kind in [Kind::Directed, Kind::Undirected] {
        let mut world = World::new(builder().table_slabs(0).kind(kind));
        insert_in_stream(&mut world, 1..801);
        // 800 edges without a table: 7 in the record, and slabs of 30 in one chain.
        assert_eq!(world.graph.stats().unwrap().slabs, 27);
        // Chains of 27 slabs are no longer than that.
        assert_eq!(world.graph.rehash(27).unwrap(), 0);
        assert_eq!(world.graph.stats().unwrap().slabs, 27);
        assert_eq!(world.graph.rehash(26).unwrap(), 0);
        assert_eq!(world.graph.rehash(1).unwrap(), 0);
        let stats = world.graph.stats().unwrap();
        assert!(stats.slabs == 0 && stats.table_slabs >= 39, "{stats:?}");
        world.check();
    }
}

#[test]
fn a_fixed_graph_reports_what_it_cannot_rebuild() {
    let mut world = World::new(builder().table_slabs(0).fixed(true));
    insert_in_stream(&mut world, 1..501);
    assert_eq!(world.graph.rehash(2).unwrap(), 1);
    world.check();
    assert!(matches!(world.graph.rehash(0), Err(Error::Zero { .. })));
}

#[test]
fn chains_are_short_after_long_ageing() {
    for kind in [Kind::Directed, Kind::Undirected] {
        let mut world = World::new(DynamicGraph::<()>::builder().vertices(600).kind(kind));
        let mut rng = Rng::new(17);
        for round in 0..30u32 {
            let source = round % 3;
            let some = |rng: &mut Rng, count: u64| -> Vec<(u32, u32, ())> {
                (0..count).map(|_| (source, 3 + rng.below(590) as u32, ())).collect()
            };
            let edges = some(&mut rng, 200);
            world.insert(&edges);
            let removed: Vec<_> = some(&mut rng, 150).iter().map(|edge| (edge.0, edge.1)).collect();
            world.remove(&removed);
        }
        assert_eq!(world.graph.rehash(1).unwrap(), 0);
        world.check();
        // The edges of large vertices are in their buckets: single slabs are those of small vertices.
        let vertices: Vec<u32> = (0..600).collect();
        let degrees = world.graph.degree(&vertices).unwrap();
        assert!(degrees[..3].iter().all(|&degree| degree > 100), "{:?}", &degrees[..3]);
        let with_slab = degrees[3..].iter().filter(|&&degree| degree > 7).count();
        assert!(world.graph.stats().unwrap().slabs <= with_slab, "{:?}", world.graph.stats());
    }
}

/// Bits are mixed as in the device's hash of targets, which has no seed.
fn hash(target: u32) -> u32 {
    simt::hash::mix32(target)
}

#[test]
fn tables_with_crowded_buckets_become_larger() {
    // Targets in the first eighth of all hashes: of a table of eight buckets, one would have all edges.
    let targets: Vec<u32> = (1..40_000).filter(|&target| hash(target) < 1 << 29).take(240).collect();
    let mut world = World::new(DynamicGraph::<()>::builder().vertices(40_000));
    let edges: Vec<_> = targets.iter().map(|&target| (0, target, ())).collect();
    world.insert(&edges);
    let before = world.graph.stats().unwrap();
    assert!(before.slabs >= 5, "{before:?}");
    // With eight times the buckets, there are at least 15 buckets for the 240 edges.
    let left = world.graph.rehash(2).unwrap();
    world.check();
    let after = world.graph.stats().unwrap();
    assert!(left == 0 && after.slabs < before.slabs, "{after:?}");
    // Targets with one hash range cannot be spread: the vertex is reported.
    let targets: Vec<u32> = (1..40_000).filter(|&target| hash(target) < 1 << 23).take(70).collect();
    let edges: Vec<_> = targets.iter().map(|&target| (1, target, ())).collect();
    assert!(targets.len() > 60);
    world.insert(&edges);
    assert_eq!(world.graph.rehash(1).unwrap(), 1);
    world.check();
}
