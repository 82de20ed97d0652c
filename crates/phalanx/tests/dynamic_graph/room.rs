//! Lack of memory: edges that do not fit are reported, and the graph is valid.
use crate::common::{Rng, no_room, outcomes};
use crate::world::{Sample, World, random_edges};
use phalanx::graph::Kind;
use phalanx::{DynamicGraph, Outcome};

/// Inserts random edges into a graph with fixed memory until they no longer fit.
fn fill<E: Sample>(kind: Kind, slabs: usize, tables: usize) {
    let builder = DynamicGraph::<E>::builder().vertices(60).kind(kind);
    let mut world = World::new(builder.slabs(slabs).table_slabs(tables).fixed(true));
    let mut rng = Rng::new(3);
    let mut refused = 0;
    for _ in 0..8 {
        let edges = random_edges::<E>(&mut rng, 300, 60, 4);
        let found = outcomes(E::insert(&world.graph, &edges));
        refused += found.refused();
        world.inserted(&edges, &found);
        world.check();
        let known: Vec<(u32, u32)> = world.edges.keys().copied().filter(|_| rng.below(4) == 0).collect();
        world.remove(&known);
        world.check();
    }
    assert!(refused > 0, "{slabs} slabs and {tables} tables suffice");
}

#[test]
fn edges_without_slabs_are_refused() {
    for kind in [Kind::Directed, Kind::Undirected] {
        fill::<()>(kind, 32, 0);
        fill::<u32>(kind, 32, 0);
        fill::<u64>(kind, 32, 16);
    }
}

#[test]
fn a_refused_edge_has_no_half() {
    let builder = DynamicGraph::<u32>::builder().vertices(500).kind(Kind::Undirected);
    let mut world = World::new(builder.slabs(32).table_slabs(0).fixed(true));
    let edges: Vec<(u32, u32, u32)> = (0..2).flat_map(|hub| (10..500).map(move |v| (hub, v, v))).collect();
    let more: Vec<(u32, u32, u32)> = (400..500).flat_map(|a| (350..400).map(move |b| (a, b, a))).collect();
    for edges in [edges, more] {
        let found = no_room(E32::insert(&world.graph, &edges));
        world.inserted(&edges, &found);
        world.check();
    }
}
type E32 = u32;

#[test]
fn without_an_arena_chains_get_longer() {
    let builder = DynamicGraph::<()>::builder().slabs(2048).table_slabs(0).fixed(true);
    let mut world = World::new(builder.clone().vertices(1500));
    let edges: Vec<(u32, u32, ())> = (1..1200).map(|target| (0, target, ())).collect();
    world.insert(&edges);
    world.check();
    // Up to 64 slabs, and then no further.
    let mut world = World::new(builder.vertices(4000));
    let edges: Vec<(u32, u32, ())> = (1..4000).map(|target| (0, target, ())).collect();
    let found = no_room(<()>::insert(&world.graph, &edges));
    assert_eq!(found.count(Outcome::Inserted), 7 + 64 * 30);
    world.inserted(&edges, &found);
    world.check();
}

#[test]
fn blocking_calls_allocate_what_is_lacking() {
    for kind in [Kind::Directed, Kind::Undirected] {
        let builder = DynamicGraph::<u32>::builder().vertices(300).kind(kind).slabs(1).table_slabs(0);
        let mut world = World::new(builder);
        let mut rng = Rng::new(9);
        for _ in 0..4 {
            let edges = random_edges::<u32>(&mut rng, 2500, 300, 3);
            world.insert(&edges);
        }
        world.check();
    }
}

#[test]
fn a_budget_is_a_limit() {
    let builder = DynamicGraph::<()>::builder().vertices(300).slabs(32).table_slabs(0).budget(64 * 128);
    let mut world = World::new(builder);
    let edges: Vec<(u32, u32, ())> =
        (0..300).flat_map(|a| (0..12).map(move |b| (a, (a + b + 1) % 300, ()))).collect();
    let found = no_room(<()>::insert(&world.graph, &edges));
    world.inserted(&edges, &found);
    world.check();
    assert!(found.count(Outcome::Inserted) >= 300 * 7);
}
