//! Operations on the whole graph: flush, bulk builds, expiry, vertices, rows and snapshots.
use crate::common::Rng;
use crate::world::{Sample, World, ends, random_edges};
use phalanx::graph::{Data, Kind};
use phalanx::{Device, DynamicGraph, Error, Outcome};
use std::collections::BTreeSet;

const KINDS: [Kind; 2] = [Kind::Directed, Kind::Undirected];

/// Removes a part of the edges.
fn thin<E: Sample>(world: &mut World<E>, rng: &mut Rng, keep: u64) {
    let known: Vec<(u32, u32)> = world.edges.keys().copied().filter(|_| rng.below(10) >= keep).collect();
    world.remove(&known);
}

fn flush_of<E: Sample>(kind: Kind) {
    let mut rng = Rng::new(5);
    let mut world = World::new(DynamicGraph::<E>::builder().vertices(300).kind(kind));
    for keep in [5, 1, 0] {
        world.insert(&random_edges(&mut rng, 2500, 300, 4));
        thin(&mut world, &mut rng, keep);
        let before = world.graph.stats().unwrap();
        world.graph.flush().unwrap();
        world.check();
        let after = world.graph.stats().unwrap();
        assert!(after.slabs <= before.slabs, "{before:?} {after:?}");
    }
    // A GPU grows the vertices in another order, and may have no room for the new tables before it has freed
    // the old ones.
    if world.graph.device().is_emulator() {
        assert_eq!(world.graph.stats().unwrap().slabs, 0);
    }
    world.insert(&random_edges(&mut rng, 500, 300, 4));
    world.check();
}

#[test]
fn a_flush_keeps_the_edges_and_frees_slabs() {
    for kind in KINDS {
        flush_of::<()>(kind);
        flush_of::<u64>(kind);
    }
}

#[test]
fn a_flush_gives_tables_the_size_of_their_edges() {
    let mut world = World::new(DynamicGraph::<()>::builder().vertices(1000).table_slabs(2000));
    let star: Vec<(u32, u32, ())> = (1..900).map(|target| (0, target, ())).collect();
    world.insert(&star);
    world.remove(&star[60..].iter().map(|edge| (edge.0, edge.1)).collect::<Vec<_>>());
    let before = world.graph.stats().unwrap().table_slabs;
    world.graph.flush().unwrap();
    world.check();
    // A table of three buckets beside the old one, which another vertex of its size takes.
    assert_eq!(world.graph.stats().unwrap().table_slabs, before + 3);
    let other: Vec<(u32, u32, ())> = (1..900).map(|target| (999, target, ())).collect();
    world.insert(&other);
    world.check();
    assert_eq!(world.graph.stats().unwrap().table_slabs, before + 3);
}

#[test]
fn a_bulk_build_moves_nothing() {
    for kind in KINDS {
        let mut rng = Rng::new(8);
        let edges = random_edges::<u32>(&mut rng, 4000, 500, 5);
        let (sources, targets) = ends(&edges);
        let data: Vec<u32> = edges.iter().map(|edge| edge.2).collect();
        let builder = DynamicGraph::<u32>::builder().vertices(500).kind(kind).table_slabs(1).slabs(1);
        let mut world = World::new(builder);
        let outcomes = world.graph.bulk_build(&sources, &targets, &data).unwrap();
        world.inserted(&edges, &outcomes);
        world.check();
        // Every table has the size of the first build, so none is free.
        let again = world.graph.bulk_build(&sources[..100], &targets[..100], &data[..100]).unwrap();
        assert_eq!(again.count(Outcome::Replaced), 100);
        world.inserted(&edges[..100], &again);
        world.check();
    }
    let mut graph = DynamicGraph::<()>::builder().vertices(3).build().unwrap();
    assert!(matches!(graph.bulk_build(&[0], &[]), Err(Error::Length { .. })));
    assert_eq!(graph.bulk_build(&[0, 7], &[9, 1]).unwrap().refused(), 2);
}

/// Builds edges by a call on device buffers.
fn bulk_build_on_device(world: &mut World<()>, edges: &[(u32, u32, ())]) {
    let (device, (sources, targets)) = (world.graph.device().clone(), ends(edges));
    let buffers = [device.from_slice(&sources).unwrap(), device.from_slice(&targets).unwrap()];
    let mut codes = device.zeroed::<u8>(edges.len()).unwrap();
    world.graph.bulk_build_on_device(&buffers[0], &buffers[1], &mut codes).unwrap();
    let outcomes: Vec<Outcome> =
        codes.read().unwrap().into_iter().map(|code| Outcome::from_code(code).unwrap()).collect();
    world.inserted(edges, &outcomes);
    world.check();
}

/// Few of many vertices get tables, of one edge more than a small vertex has room for.
#[test]
fn a_bulk_build_has_room_to_list_each_vertex_that_gets_a_table() {
    const LARGE: u32 = 30;
    let builder = DynamicGraph::<()>::builder().vertices(3000).slabs(2000).table_slabs(2000);
    let mut world = World::new(builder);
    let edges = |first: u32| -> Vec<(u32, u32, ())> {
        (0..38 * LARGE).map(|i| (i % LARGE, first + i / LARGE, ())).collect()
    };
    for first in [100, 200, 300] {
        bulk_build_on_device(&mut world, &edges(first));
    }
    assert!(world.graph.stats().unwrap().table_slabs >= 2 * LARGE as usize);
    // With tombstones, vertices without tables may also wait for growth.
    world.insert(&(1000..1500).map(|vertex| (vertex, vertex + 1, ())).collect::<Vec<_>>());
    world.remove(&edges(200).iter().map(|edge| (edge.0, edge.1)).collect::<Vec<_>>());
    bulk_build_on_device(&mut world, &edges(400));
    world.graph.flush().unwrap();
    world.check();
}

#[test]
fn old_edges_expire() {
    for kind in KINDS {
        let mut rng = Rng::new(4);
        let mut world = World::new(DynamicGraph::<u64>::builder().vertices(200).kind(kind));
        let mut edges = random_edges::<u64>(&mut rng, 2000, 200, 3);
        edges.iter_mut().for_each(|edge| edge.2 = rng.below(1000));
        world.insert(&edges);
        for before in [0, 300, 300, 700, u64::MAX] {
            world.try_expire(before).unwrap();
            world.check();
        }
        world.insert(&edges);
        world.check();
    }
}

/// Removes vertices of a world.
fn remove_vertices<E: Sample>(world: &mut World<E>, gone: &mut BTreeSet<u32>, ids: &[u32]) {
    let outcomes = world.graph.remove_vertices(ids).unwrap();
    let mut removed = BTreeSet::new();
    for (&id, &outcome) in ids.iter().zip(outcomes.iter()) {
        let was_there = (id as usize) < world.graph.vertices() && !gone.contains(&id);
        match outcome {
            Outcome::Removed => assert!(was_there && removed.insert(id), "{id}"),
            other => assert_eq!(other, Outcome::Absent),
        }
    }
    let all: BTreeSet<u32> =
        ids.iter().copied().filter(|&id| (id as usize) < world.graph.vertices()).collect();
    assert_eq!(removed, all.difference(gone).copied().collect());
    gone.extend(removed);
    world.edges.retain(|&(a, b), _| !gone.contains(&a) && !gone.contains(&b));
}

fn vertices_of<E: Sample>(kind: Kind) {
    let mut rng = Rng::new(6);
    let (mut world, mut gone) =
        (World::new(DynamicGraph::<E>::builder().vertices(150).kind(kind)), BTreeSet::new());
    for round in 0..4 {
        let vertices = world.graph.vertices() as u64;
        let edges = random_edges::<E>(&mut rng, 1200, vertices, 3);
        let is_there = |edge: &(u32, u32, E)| !gone.contains(&edge.0) && !gone.contains(&edge.1);
        let (valid, refused): (Vec<_>, Vec<_>) = edges.into_iter().partition(is_there);
        world.insert(&valid);
        assert_eq!(E::insert(&world.graph, &refused).unwrap().refused(), refused.len());
        world.check();
        // Hubs, among them those of the batch, and some ids twice or beyond the graph.
        let mut ids: Vec<u32> = (0..20).map(|_| rng.below(vertices + 5) as u32).collect();
        ids.extend([round, round, ids[3]]);
        remove_vertices(&mut world, &mut gone, &ids);
        world.check();
        assert_eq!(world.graph.vertex_count(), world.graph.vertices() - gone.len());
        let wanted = 1 + rng.below(gone.len() as u64 + 10) as usize;
        let before = world.graph.vertices();
        let new = world.graph.insert_vertices(wanted).unwrap();
        assert_eq!(new.len(), wanted);
        let distinct: BTreeSet<u32> = new.iter().copied().collect();
        assert_eq!(distinct.len(), wanted);
        assert!(new.iter().all(|id| gone.remove(id) || *id as usize >= before));
        assert!(world.graph.degree(&new).unwrap().into_iter().all(|degree| degree == 0));
        world.check();
    }
}

#[test]
fn removed_vertices_have_no_edges_and_their_ids_are_reused() {
    for kind in KINDS {
        vertices_of::<()>(kind);
        vertices_of::<u32>(kind);
    }
}

#[test]
fn a_removal_of_no_vertices_changes_nothing() {
    for kind in KINDS {
        let mut world = World::new(DynamicGraph::<u32>::builder().vertices(150).kind(kind));
        let hub: Vec<(u32, u32, u32)> = (1..150).map(|target| (0, target, 7)).collect();
        world.insert(&hub);
        for ids in [&[][..], &[150, 151]] {
            assert_eq!(world.graph.remove_vertices(ids).unwrap().count(Outcome::Absent), ids.len());
            world.check();
        }
    }
}

/// A hub with parts for several warps, whose memory is then used again.
#[test]
fn a_removed_hub_leaves_its_table() {
    for kind in KINDS {
        let mut world = World::new(DynamicGraph::<()>::builder().vertices(3000).kind(kind));
        let edges: Vec<(u32, u32, ())> =
            (1..3000).flat_map(|at| [(0, at, ()), (at, 3000 - at, ())]).collect();
        let edges: Vec<_> = edges.into_iter().filter(|edge| edge.0 != edge.1).collect();
        world.insert(&edges);
        // The bits of removed vertices are allocated by the first removal.
        remove_vertices(&mut world, &mut BTreeSet::new(), &[7]);
        assert_eq!(world.graph.insert_vertices(1).unwrap(), [7]);
        world.insert(&edges);
        let memory = world.graph.memory_usage();
        for _ in 0..3 {
            remove_vertices(&mut world, &mut BTreeSet::new(), &[0, 0, 5]);
            world.check();
            assert_eq!(world.graph.degree(&[0]).unwrap(), [0]);
            assert_eq!(world.graph.insert_vertices(2).unwrap().len(), 2);
            world.insert(&edges);
            world.check();
        }
        assert_eq!(world.graph.memory_usage(), memory, "memory of removed tables is used again");
    }
}

/// Compares rows with the edges of a world.
fn compare<E: Sample>(world: &World<E>, rows: &phalanx::graph::Rows<E>) {
    let mut found = Vec::new();
    for vertex in 0..rows.offsets.len() as u32 - 1 {
        let range = rows.offsets[vertex as usize] as usize..rows.offsets[vertex as usize + 1] as usize;
        found.extend(range.map(|place| (vertex, rows.targets[place], rows.data[place])));
    }
    let mut expected: Vec<(u32, u32, E)> = world.edges.iter().map(|(&(a, b), &data)| (a, b, data)).collect();
    if world.graph.kind() == Kind::Undirected {
        expected
            .extend(world.edges.iter().filter(|(edge, _)| edge.0 != edge.1).map(|(&(a, b), &d)| (b, a, d)));
    }
    found.sort_by_key(|edge| (edge.0, edge.1));
    expected.sort_by_key(|edge| (edge.0, edge.1));
    assert_eq!(found, expected);
}

fn rows_of<E: Sample>(kind: Kind) {
    let mut rng = Rng::new(2);
    let mut world = World::new(DynamicGraph::<E>::builder().vertices(200).kind(kind).self_edges(true));
    compare(&world, &world.graph.to_csr().unwrap().read().unwrap());
    let mut edges = random_edges::<E>(&mut rng, 1500, 200, 3);
    edges.push((5, 5, E::random(&mut rng)));
    world.insert(&edges);
    let csr = world.graph.to_csr().unwrap();
    assert_eq!((csr.vertices(), csr.edge_count()), (200, world.edges.len()));
    compare(&world, &csr.read().unwrap());
}

#[test]
fn rows_have_the_edges_of_the_graph() {
    for kind in KINDS {
        rows_of::<()>(kind);
        rows_of::<u32>(kind);
        rows_of::<u64>(kind);
    }
}

/// Several blocks, with warps of small vertices that have more edges than fit into shared memory, a hub, and
/// removed vertices. The hub has a table or, without an arena, a chain of slabs.
fn rows_of_blocks<E: Sample>(kind: Kind, has_tables: bool) {
    let mut rng = Rng::new(31);
    let builder = DynamicGraph::<E>::builder().vertices(700).kind(kind);
    let builder = if has_tables { builder } else { builder.slabs(4096).table_slabs(0).fixed(true) };
    let mut world = World::new(builder);
    world.insert(&random_edges::<E>(&mut rng, 2000, 700, 0));
    let crowded: Vec<(u32, u32, E)> = (512..576)
        .flat_map(|vertex| (1..41).map(move |step| (vertex, (vertex + step) % 700)))
        .map(|(a, b)| (a, b, E::random(&mut rng)))
        .collect();
    world.insert(&crowded);
    let hub: Vec<(u32, u32, E)> =
        (0..400).filter(|&to| to != 300).map(|to| (300, to, E::random(&mut rng))).collect();
    world.insert(&hub);
    compare(&world, &world.graph.to_csr().unwrap().read().unwrap());
    remove_vertices(&mut world, &mut BTreeSet::new(), &[0, 31, 255, 256, 520, 699]);
    compare(&world, &world.graph.to_csr().unwrap().read().unwrap());
}

/// More tiles of vertices than blocks that are resident, so each block has several. Some have a table, or
/// warps with more edges than fit into shared memory.
fn rows_of_more_tiles_than_blocks<E: Sample>() {
    const VERTICES: u32 = 40_000;
    let mut rng = Rng::new(32);
    let mut world = World::new(DynamicGraph::<E>::builder().vertices(VERTICES as usize));
    world.insert(&random_edges::<E>(&mut rng, 40_000, u64::from(VERTICES), 0));
    let crowded = (20_000..20_040).map(|vertex| (vertex, 35));
    let hubs = (0..4).map(|hub| (9_999 * hub, 300));
    let many: Vec<(u32, u32, E)> = crowded
        .chain(hubs)
        .flat_map(|(vertex, degree)| (1..=degree).map(move |step| (vertex, (vertex + step) % VERTICES)))
        .map(|(a, b)| (a, b, E::random(&mut rng)))
        .collect();
    world.insert(&many);
    let mut rows = world.graph.to_csr().unwrap();
    compare(&world, &rows.read().unwrap());
    let first: Vec<(u32, u32)> = world.edges.keys().copied().take(5_000).collect();
    world.remove(&first);
    world.graph.to_csr_into(&mut rows).unwrap();
    compare(&world, &rows.read().unwrap());
}

#[test]
fn rows_of_blocks_with_several_tiles_have_their_places() {
    rows_of_more_tiles_than_blocks::<()>();
    rows_of_more_tiles_than_blocks::<u64>();
}

#[test]
fn rows_of_several_blocks_have_their_places() {
    for has_tables in [true, false] {
        for kind in KINDS {
            rows_of_blocks::<()>(kind, has_tables);
            rows_of_blocks::<u64>(kind, has_tables);
        }
    }
}

/// Rows without room for all edges, or for the tables that the graph has now, get other memory.
#[test]
fn rows_follow_a_graph_that_grows() {
    for kind in KINDS {
        let mut world = World::new(DynamicGraph::<u32>::builder().vertices(300).kind(kind));
        let mut rows = world.graph.to_csr().unwrap();
        for (round, degree) in [1, 3, 9, 100, 100].into_iter().enumerate() {
            let step = |vertex: u32| (1..=degree).map(move |step| (vertex, (vertex + step) % 300));
            let edges = (0..300).filter(|vertex| degree < 100 || vertex % 10 == round as u32).flat_map(step);
            world.insert(&edges.map(|(a, b)| (a, b, a ^ b)).collect::<Vec<_>>());
            world.graph.to_csr_into(&mut rows).unwrap();
            assert_eq!(rows.edge_count(), world.edges.len());
            compare(&world, &rows.read().unwrap());
        }
    }
}

/// A copy into rows that have the room is one launch, whatever has changed; otherwise it is submitted again.
#[test]
fn rows_with_room_are_copied_once() {
    let device = Device::emulator(Default::default()); // no other test launches on it
    let graph = DynamicGraph::<()>::builder().device(&device).vertices(40).build().unwrap();
    let launches = || device.emulated_work().unwrap().launches;
    let mut rows = graph.to_csr().unwrap();
    let mut launches_of_copy = || {
        let before = launches();
        graph.to_csr_into(&mut rows).unwrap();
        launches() - before
    };
    let sources: Vec<u32> = (0..40).collect();
    let [first, second] = [1, 2].map(|bit| sources.iter().map(|source| source ^ bit).collect::<Vec<_>>());
    assert!(graph.insert(&sources, &first).unwrap().all_placed());
    assert_eq!(launches_of_copy(), 1, "there was no room before");
    assert_eq!(graph.remove(&sources[..9], &first[..9]).unwrap().len(), 9);
    assert_eq!(launches_of_copy(), 1);
    assert!(graph.insert(&sources, &second).unwrap().all_placed());
    assert_eq!(launches_of_copy(), 2);
    assert_eq!(launches_of_copy(), 1);
    assert_eq!(rows.edge_count(), 71);
    let waits = || device.emulated_work().unwrap().waits;
    let before = waits();
    graph.to_csr_into(&mut rows).unwrap();
    assert_eq!(waits() - before, 2, "for the counters, and for the copy");
}

/// Returns whether two snapshots share their memory.
fn is_shared<E: Data>(a: &phalanx::graph::Snapshot<E>, b: &phalanx::graph::Snapshot<E>) -> bool {
    std::ptr::eq(a.csr(), b.csr())
}

#[test]
fn snapshots_stay_as_they_are() {
    let mut rng = Rng::new(11);
    let mut world = World::new(DynamicGraph::<u32>::builder().vertices(100).kind(Kind::Undirected));
    let mut snapshots = Vec::new();
    for _ in 0..16 {
        world.insert(&random_edges(&mut rng, 400, 100, 3));
        thin(&mut world, &mut rng, 6);
        let snapshot = world.graph.snapshot().unwrap();
        assert!(is_shared(&snapshot, &world.graph.snapshot().unwrap()));
        snapshots.push((snapshot, world.edges.clone()));
    }
    world.graph.flush().unwrap();
    assert_eq!(world.graph.remove_vertices(&[0, 1]).unwrap().count(Outcome::Removed), 2);
    for (snapshot, edges) in snapshots {
        world.edges = edges;
        compare(&world, &snapshot.csr().read().unwrap());
    }
}
