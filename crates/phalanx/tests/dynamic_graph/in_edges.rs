//! Directed graphs that store edges at their targets, too.
use crate::common::{Rng, no_room, outcomes};
use crate::world::{Sample, World, ends, random_edges};
use phalanx::graph::{Builder, Kind};
use phalanx::{DynamicGraph, Error, Outcome};
use std::collections::BTreeSet;

fn builder<E: Sample>(vertices: usize) -> Builder<E> {
    DynamicGraph::<E>::builder().vertices(vertices).in_edges(true)
}

/// Turns edges around, so that hubs are targets.
fn turned<E: Sample>(edges: Vec<(u32, u32, E)>) -> Vec<(u32, u32, E)> {
    edges.into_iter().map(|(a, b, data)| (b, a, data)).collect()
}

fn batches_of<E: Sample>() {
    let mut rng = Rng::new(12);
    let mut world = World::<E>::new(builder(200).large_batch(500).self_edges(true));
    for batch in 0..8 {
        let edges = random_edges::<E>(&mut rng, 900, 200, 3);
        let mut edges = if batch % 2 == 0 { edges } else { turned(edges) };
        edges.extend([(7, 7, E::random(&mut rng)), (0, 0, E::random(&mut rng))]);
        world.insert(&edges);
        world.check();
        world.look_up(&edges.iter().map(|edge| (edge.0, edge.1)).collect::<Vec<_>>());
        let known: Vec<(u32, u32)> = world.edges.keys().copied().filter(|_| rng.below(3) == 0).collect();
        world.remove(&known);
        world.check();
        if batch % 3 == 2 {
            world.graph.flush().unwrap();
            world.check();
        }
    }
    world.graph.clear().unwrap();
    world.edges.clear();
    world.check();
    world.insert(&random_edges::<E>(&mut rng, 500, 200, 3));
    world.check();
}

#[test]
fn batches_agree_with_a_map() {
    batches_of::<()>();
    batches_of::<u32>();
    batches_of::<f32>();
    batches_of::<u64>();
}

fn vertices_of<E: Sample>() {
    let mut rng = Rng::new(6);
    let (mut world, mut gone) = (World::<E>::new(builder(150)), BTreeSet::new());
    for round in 0..4 {
        let vertices = world.graph.vertices() as u64;
        let edges = random_edges::<E>(&mut rng, 1200, vertices, 3);
        let edges = if round % 2 == 0 { edges } else { turned(edges) };
        let is_there = |edge: &(u32, u32, E)| !gone.contains(&edge.0) && !gone.contains(&edge.1);
        let (valid, refused): (Vec<_>, Vec<_>) = edges.into_iter().partition(is_there);
        world.insert(&valid);
        assert_eq!(E::insert(&world.graph, &refused).unwrap().refused(), refused.len());
        world.check();
        let mut ids: Vec<u32> = (0..20).map(|_| rng.below(vertices) as u32).collect();
        ids.extend([round, round, 1, 2]);
        let new: BTreeSet<u32> = ids.iter().copied().filter(|id| !gone.contains(id)).collect();
        let removed = world.graph.remove_vertices(&ids).unwrap().count(Outcome::Removed);
        assert_eq!(removed, new.len());
        gone.extend(new);
        world.edges.retain(|&(a, b), _| !gone.contains(&a) && !gone.contains(&b));
        world.check();
        // More than were removed, so the records of the edges to vertices move.
        let wanted = 1 + rng.below(gone.len() as u64 + 10) as usize;
        world.graph.insert_vertices(wanted).unwrap().iter().for_each(|id| {
            gone.remove(id);
        });
        world.check();
    }
}

#[test]
fn removed_vertices_have_no_edges_in_either_direction() {
    vertices_of::<()>();
    vertices_of::<u64>();
}

#[test]
fn hubs_on_both_sides_get_tables() {
    let mut world = World::<()>::new(builder(1000));
    let star: Vec<(u32, u32, ())> = (2..1000).flat_map(|leaf| [(0, leaf, ()), (leaf, 1, ())]).collect();
    world.insert(&star);
    world.check();
    assert_eq!(world.graph.in_degree(&[0, 1]).unwrap(), [0, 998]);
    let mut world = World::<u32>::new(builder(500));
    let edges: Vec<(u32, u32, u32)> = (1..500).map(|leaf| (leaf, 0, leaf)).collect();
    let (sources, targets) = ends(&edges);
    let data: Vec<u32> = edges.iter().map(|edge| edge.2).collect();
    let outcomes = world.graph.bulk_build(&sources, &targets, &data).unwrap();
    world.inserted(&edges, &outcomes);
    world.check();
}

#[test]
fn edges_without_room_have_no_half() {
    let mut rng = Rng::new(3);
    let mut world = World::<u32>::new(builder(60).slabs(32).table_slabs(0).fixed(true));
    let mut refused = 0;
    for _ in 0..8 {
        let edges = random_edges::<u32>(&mut rng, 300, 60, 0);
        let found = outcomes(u32::insert(&world.graph, &edges));
        refused += found.refused();
        world.inserted(&edges, &found);
        world.check();
    }
    assert!(refused > 0);
    let mut world = World::<()>::new(builder(4000).slabs(300).table_slabs(0).fixed(true));
    let star: Vec<(u32, u32, ())> = (1..4000).map(|leaf| (leaf, 0, ())).collect();
    let found = no_room(<()>::insert(&world.graph, &star));
    world.inserted(&star, &found);
    world.check();
}

#[test]
fn old_edges_expire_at_both_ends() {
    let mut world = World::<u64>::new(builder(100));
    let mut rng = Rng::new(4);
    let mut edges = random_edges::<u64>(&mut rng, 1000, 100, 2);
    edges.iter_mut().for_each(|edge| edge.2 %= 1000);
    world.insert(&edges);
    let old = world.edges.values().filter(|&&time| time < 400).count();
    assert_eq!(world.graph.expire(400).unwrap(), old);
    world.edges.retain(|_, time| *time >= 400);
    world.check();
}

#[test]
fn ids_beyond_the_graph_are_no_edges_to_vertices() {
    let graph = builder::<()>(10).build().unwrap();
    assert!(graph.insert(&[1, 2], &[3, 3]).unwrap().all_placed());
    // The record of the edges to vertex 3.
    assert_eq!(graph.insert(&[13, 1, 13], &[1, 13, 13]).unwrap().refused(), 3);
    assert_eq!(graph.has_edge(&[13, 1], &[1, 13]).unwrap(), [false, false]);
    assert_eq!(graph.degree(&[13, 3]).unwrap(), [0, 0]);
    assert_eq!(graph.in_degree(&[13, 3]).unwrap(), [0, 2]);
    assert!(
        graph.neighbors(&[13]).unwrap().of(0).is_empty()
            && graph.in_neighbors(&[13]).unwrap().of(0).is_empty()
    );
    assert_eq!(graph.remove(&[13, 3], &[1, 1]).unwrap(), [Outcome::Absent, Outcome::Absent]);
    graph.validate().unwrap();
}

#[test]
fn graphs_without_them_say_so() {
    let graph = DynamicGraph::<()>::builder().vertices(3).build().unwrap();
    assert!(matches!(graph.in_degree(&[0]), Err(Error::NoInEdges)));
    assert!(matches!(graph.in_neighbors(&[0]), Err(Error::NoInEdges)));
    let graph = builder::<()>(3).kind(Kind::Undirected).build().unwrap();
    assert!(graph.insert(&[0], &[2]).unwrap().all_placed());
    assert!(!graph.has_in_edges());
    assert_eq!(
        (graph.in_degree(&[0, 2]).unwrap(), graph.in_neighbors(&[2]).unwrap().of(0)),
        (vec![1, 1], &[0][..])
    );
    let too_many = builder::<()>(1 << 31).build();
    assert!(matches!(too_many, Err(Error::TooLarge { .. })));
}

#[test]
fn files_keep_them() {
    let mut graph = builder::<f32>(50).build().unwrap();
    assert!(graph.insert(&[1, 2, 3], &[3, 3, 1], &[0.5, 1.5, 2.5]).unwrap().all_placed());
    assert_eq!(graph.remove_vertices(&[1]).unwrap(), [Outcome::Removed]);
    let mut saved = Vec::new();
    graph.save(&mut saved).unwrap();
    let loaded = DynamicGraph::load(&saved[..], DynamicGraph::<f32>::builder()).unwrap();
    loaded.validate().unwrap();
    assert!(loaded.has_in_edges());
    let found = loaded.in_neighbors(&[3]).unwrap();
    assert_eq!((found.of(0), found.data(0)), (&[2][..], &[1.5][..]));
}
