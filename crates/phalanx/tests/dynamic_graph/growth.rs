//! Vertices that grow: tables, moves, and the memory of what is replaced.
use crate::common::Rng;
use crate::world::World;
use phalanx::DynamicGraph;
use phalanx::graph::Kind;

fn star(center: u32, targets: impl Iterator<Item = u32>) -> Vec<(u32, u32, ())> {
    targets.filter(|&target| target != center).map(|target| (center, target, ())).collect()
}

#[test]
fn a_vertex_grows_by_one_batch() {
    let mut world = World::new(DynamicGraph::builder().vertices(3000));
    world.insert(&star(5, 0..3000));
    world.check();
    // 2999 edges at a load of 0.6: 167 buckets or more. On a GPU the table may be smaller; the edges are
    // checked above.
    let least = if world.graph.device().is_emulator() { 192 } else { 64 };
    assert!(world.graph.stats().unwrap().table_slabs >= least, "{:?}", world.graph.stats());
    // And by many small ones.
    for first in (0..3000).step_by(250) {
        world.insert(&star(6, first..first + 250));
    }
    world.check();
}

#[test]
fn a_table_has_the_size_of_its_edges() {
    for (edges, slabs) in [(37, 0), (38, 3), (54, 3), (55, 4), (72, 4), (73, 6), (900, 64)] {
        let mut world = World::new(DynamicGraph::builder().vertices(1000).table_slabs(100));
        world.insert(&star(5, 10..10 + edges));
        assert_eq!(world.graph.stats().unwrap().table_slabs, slabs, "{edges} edges");
        world.check();
    }
}

#[test]
fn a_table_has_the_load_of_the_builder() {
    // 900 edges in slabs of 30 slots, and numbers of buckets 2, 3, 4, 6, 8, 12, ...
    for (load, slabs) in [(0.1, 384), (0.5, 64), (0.7, 48), (1.0, 32), (2.0, 16), (5.0, 6), (8.0, 4)] {
        let builder = DynamicGraph::builder().vertices(1000).load_factor(load).degrees(&[900]);
        let mut world = World::new(builder);
        let (slabs_before, capacity) = (world.graph.stats().unwrap().slabs, world.graph.memory_usage());
        world.insert(&star(0, 1..901));
        let stats = world.graph.stats().unwrap();
        assert_eq!((slabs_before, stats.table_slabs), (0, slabs), "load {load}");
        // The memory for the degrees suffices, and all edges are in buckets or behind them.
        assert!(world.graph.memory_usage() <= capacity + 65_536 && stats.slabs + slabs >= 30);
        world.check();
        // A flush and a bulk build keep the load.
        world.graph.flush().unwrap();
        assert_eq!(world.graph.stats().unwrap().table_slabs, slabs);
        let targets: Vec<u32> = (1..901).collect();
        let mut built = DynamicGraph::<()>::builder().vertices(1000).load_factor(load).build().unwrap();
        assert!(built.bulk_build(&[0; 900], &targets).unwrap().all_placed());
        assert_eq!(built.stats().unwrap().table_slabs, slabs, "load {load}");
        // Many small batches, and half of the edges removed.
        for first in (1..901).step_by(100) {
            world.insert(&star(1, first..first + 100));
        }
        world.remove(&(1..451).map(|target| (1, target)).collect::<Vec<_>>());
        world.check();
    }
    for load in [0.0, 0.04, 8.1, f64::NAN, -1.0] {
        let failed = DynamicGraph::<()>::builder().vertices(3).load_factor(load).build();
        assert!(matches!(failed, Err(phalanx::Error::TableLoad { .. })), "{load}");
    }
}

#[test]
fn a_vertex_gets_its_table_when_the_arena_has_grown() {
    let mut world = World::new(DynamicGraph::builder().vertices(1000).table_slabs(0));
    world.insert(&star(5, 10..910));
    // The load is at most 0.7 now.
    assert_eq!(world.graph.stats().unwrap().table_slabs, 48);
    world.check();
}

#[test]
fn each_size_from_empty_to_a_table_is_right() {
    let mut world = World::new(DynamicGraph::builder().vertices(200));
    for target in 0..110 {
        world.insert(&star(0, target..target + 1));
        world.look_up(&[(0, target)]);
        if [6, 7, 8, 36, 37, 38, 39, 60, 61, 91].contains(&target) {
            world.check();
        }
    }
    world.check();
}

#[test]
fn tables_without_edges_are_used_again() {
    let mut world = World::new(DynamicGraph::builder().vertices(500));
    let mut usage = None;
    for round in 0..6 {
        world.insert(&star(1, 0..400));
        world.remove(&star(1, 0..400).iter().map(|edge| (edge.0, edge.1)).collect::<Vec<_>>());
        world.check();
        if round == 2 {
            usage = Some(world.graph.memory_usage());
        }
    }
    assert_eq!(Some(world.graph.memory_usage()), usage);
}

#[test]
fn a_small_vertex_whose_edges_change_keeps_its_size() {
    let mut world = World::new(DynamicGraph::<()>::builder().vertices(300).slabs(32).fixed(true));
    for round in 0..40u32 {
        // Seven edges at most: the record, with compactions, suffices.
        let targets = |round: u32| star(9, (0..5).map(move |index| 20 + (round * 5 + index) % 270));
        world.insert(&targets(round));
        world.remove(&targets(round).iter().map(|edge| (edge.0, edge.1)).collect::<Vec<_>>());
    }
    world.check();
}

#[test]
fn equal_edges_in_a_batch_are_one() {
    for kind in [Kind::Directed, Kind::Undirected] {
        let mut world = World::new(DynamicGraph::<u32>::builder().vertices(10).kind(kind));
        let edges: Vec<(u32, u32, u32)> = (0..300).map(|index| (1, 2, index)).collect();
        world.insert(&edges);
        assert_eq!(world.graph.edge_count().unwrap(), 1);
        let both: Vec<(u32, u32, u32)> =
            (0..300).map(|index| if index % 2 == 0 { (1, 2, index) } else { (2, 1, index) }).collect();
        world.insert(&both);
        world.check();
    }
}

#[test]
fn stars_of_many_sizes_in_one_batch() {
    let mut rng = Rng::new(7);
    let mut edges: Vec<(u32, u32, ())> =
        (0..60u32).flat_map(|center| star(center, (0..center * 4).map(|index| 100 + index))).collect();
    for index in (1..edges.len()).rev() {
        edges.swap(index, rng.below(index as u64 + 1) as usize);
    }
    for kind in [Kind::Directed, Kind::Undirected] {
        let mut world = World::new(DynamicGraph::builder().vertices(400).kind(kind));
        world.insert(&edges);
        world.check();
        world.insert(&edges);
        world.check();
    }
}

/// A pool of 255 super blocks of the minimum size has 8 160 slabs.
#[test]
fn a_graph_of_small_degrees_grows_far_beyond_them() {
    let vertices = 9000u32;
    let graph = DynamicGraph::<()>::builder().degrees(&vec![1; vertices as usize]).build().unwrap();
    let edges = (0..vertices).flat_map(|vertex| (1..9).map(move |by| (vertex, (vertex + by) % vertices)));
    let (sources, targets): (Vec<u32>, Vec<u32>) = edges.unzip();
    assert!(graph.insert(&sources, &targets).unwrap().all_placed());
    assert_eq!(graph.stats().unwrap().slabs, vertices as usize);
}
