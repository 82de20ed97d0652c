//! Results that are kept up to date over batches.
use crate::common::Rng;
use crate::oracle;
use crate::samples::{self, Sample};
use crate::whole::{graph_of, lists_of, split};
use phalanx::graph::algorithms::{Components, PageRank, Triangles, page_rank, page_rank_from};
use phalanx::graph::{Builder, Data, Kind};
use phalanx::{DynamicGraph, Error, Outcome, Outcomes};
use std::collections::BTreeSet;

type Set = BTreeSet<(u32, u32)>;

fn name((a, b): (u32, u32)) -> (u32, u32) {
    (a.min(b), a.max(b))
}

fn count(vertices: usize, edges: &Set) -> u64 {
    oracle::triangles(&oracle::lists(vertices, &edges.iter().copied().collect::<Vec<_>>(), true))
}

/// Inserts and removes parts of a sample, and compares the number of triangles after each batch.
fn keep_triangles(sample: &Sample) {
    let mut rng = Rng::new(sample.vertices as u64);
    let empty = Sample { edges: Vec::new(), ..sample.clone() };
    let (graph, mut edges) = (graph_of(&empty, Kind::Undirected), Set::new());
    let mut triangles = Triangles::of(&graph).unwrap();
    for round in 0..6 {
        let drawn: Vec<(u32, u32)> = sample.edges.iter().copied().filter(|_| rng.below(3) == 0).collect();
        // Both directions of an edge, edges twice, self-edges and ends beyond the graph.
        let mut batch = drawn.clone();
        batch.extend(drawn.iter().step_by(3).map(|&(a, b)| (b, a)));
        batch.extend([(0, 0), (0, sample.vertices as u32), (u32::MAX, u32::MAX)]);
        let (sources, targets) = split(&batch);
        if round % 3 == 2 {
            triangles.removing(&graph, &sources, &targets).unwrap();
            let removed = graph.remove(&sources, &targets).unwrap().count(Outcome::Removed);
            let present: Set = batch.into_iter().map(name).filter(|edge| edges.remove(edge)).collect();
            assert_eq!(removed, present.len());
        } else {
            let outcomes = graph.insert(&sources, &targets).unwrap();
            assert_eq!(outcomes.refused(), 3);
            triangles.inserted(&graph, &sources, &targets, &outcomes).unwrap();
            edges.extend(drawn.into_iter().map(name));
        }
        assert_eq!(triangles.count(), count(sample.vertices, &edges), "{}, batch {round}", sample.name);
    }
    assert_eq!(triangles.count(), Triangles::of(&graph).unwrap().count());
}

#[test]
fn counts_of_triangles_are_kept() {
    samples::all().iter().for_each(keep_triangles);
}

#[test]
fn all_triangles_of_a_batch_count_once() {
    // Triangles with one, two and three new edges.
    let graph = DynamicGraph::<()>::builder().vertices(9).kind(Kind::Undirected).build().unwrap();
    let mut triangles = Triangles::of(&graph).unwrap();
    for (edges, expected) in [
        (vec![(0, 1), (1, 2), (3, 4)], 0),
        (vec![(2, 0), (4, 5), (5, 3), (6, 7), (7, 8), (8, 6)], 3),
        (vec![], 3),
    ] {
        let (sources, targets) = split(&edges);
        let outcomes = graph.insert(&sources, &targets).unwrap();
        triangles.inserted(&graph, &sources, &targets, &outcomes).unwrap();
        assert_eq!(triangles.count(), expected);
    }
}

/// Keeps the triangles of two vertices with 160 common neighbours, in a graph with this number of slabs for
/// tables.
fn keep_triangles_of_hubs<E: Data>(
    table_slabs: usize,
    builder: Builder<E>,
    insert: impl Fn(&DynamicGraph<E>, &[u32], &[u32]) -> Result<Outcomes, Error>,
) {
    let builder = builder.vertices(200).kind(Kind::Undirected).slabs(2048).table_slabs(table_slabs);
    let graph = builder.fixed(true).build().unwrap();
    let mut triangles = Triangles::of(&graph).unwrap();
    let leaves: Vec<(u32, u32)> = (2..180).map(|leaf| (0, leaf)).collect();
    let others: Vec<(u32, u32)> = (20..200).map(|leaf| (leaf, 1)).chain([(0, 1), (1, 0)]).collect();
    for (edges, expected) in [(leaves, 0), (others, 160)] {
        let (sources, targets) = split(&edges);
        let outcomes = insert(&graph, &sources, &targets).unwrap();
        assert_eq!(outcomes.refused(), 0);
        triangles.inserted(&graph, &sources, &targets, &outcomes).unwrap();
        assert_eq!(triangles.count(), expected, "{table_slabs} slabs for tables");
    }
    for (ends, expected) in [((0, 30), 159), ((0, 1), 0)] {
        triangles.removing(&graph, &[ends.0], &[ends.1]).unwrap();
        assert_eq!(graph.remove(&[ends.0], &[ends.1]).unwrap().count(Outcome::Removed), 1);
        assert_eq!(triangles.count(), expected, "{table_slabs} slabs for tables");
    }
}

#[test]
fn triangles_of_long_chains_are_kept() {
    // No table, a table of one end, and tables of both.
    for slabs in [0, 16, 256] {
        let builder = DynamicGraph::<()>::builder();
        keep_triangles_of_hubs(slabs, builder, |graph, sources, targets| graph.insert(sources, targets));
        let builder = DynamicGraph::<u64>::builder();
        keep_triangles_of_hubs(slabs, builder, |graph, sources, targets| {
            graph.insert(sources, targets, &vec![1; sources.len()])
        });
    }
}

/// Two vertices with 300 common neighbours, all in one bucket: many slabs behind a bucket.
#[test]
fn triangles_of_crowded_buckets_are_kept() {
    let leaves: Vec<u32> = (2..).filter(|&vertex| simt::hash::mix32(vertex) < 1 << 26).take(310).collect();
    let vertices = leaves.iter().max().unwrap() + 1;
    let builder = DynamicGraph::<()>::builder().vertices(vertices as usize).kind(Kind::Undirected);
    let graph = builder.build().unwrap();
    let mut triangles = Triangles::of(&graph).unwrap();
    let ends = [(0, &leaves[..305]), (1, &leaves[5..])];
    let edges = ends.iter().flat_map(|&(end, leaves)| leaves.iter().map(move |&leaf| (end, leaf)));
    for (batch, expected) in [(edges.collect(), 0), (vec![(1, 0)], 300)] {
        let (sources, targets) = split(&batch);
        let outcomes = graph.insert(&sources, &targets).unwrap();
        triangles.inserted(&graph, &sources, &targets, &outcomes).unwrap();
        assert_eq!(triangles.count(), expected);
    }
    triangles.removing(&graph, &[0, 0], &[1, leaves[100]]).unwrap();
    assert_eq!(triangles.count(), 0);
}

/// Keeps the triangles of large vertices, of which some have 1.5 times as many buckets as others: ranges of
/// 64 buckets of the larger tables end within buckets of the smaller ones. A neighbour in such a bucket is in
/// one range only. Twenty vertices have tables of a few buckets: more edges of one group than a warp takes at
/// a time.
fn keep_triangles_of_ranges<E: Data>(
    builder: Builder<E>,
    insert: impl Fn(&DynamicGraph<E>, &[u32], &[u32]) -> Result<Outcomes, Error>,
) {
    let vertices = 1 << 17;
    let degree =
        |hub| [(0..3, 4200), (3..5, 6400), (5..25, 60)].iter().find(|case| case.0.contains(&hub)).unwrap().1;
    let place = |leaf| 25 + simt::hash::mix32(leaf) % (vertices - 25);
    let leaves = |hub| (0..degree(hub)).map(move |leaf| (hub, place(leaf)));
    let mut edges: Set = (0..25).flat_map(leaves).collect();
    let graph = builder.vertices(vertices as usize).kind(Kind::Undirected).build().unwrap();
    let mut triangles = Triangles::of(&graph).unwrap();
    let between = (0..3).chain(5..25).flat_map(|hub| [(hub, 3), (hub, 4)]).collect();
    for batch in [edges.iter().copied().collect::<Vec<_>>(), between] {
        let (sources, targets) = split(&batch);
        let outcomes = insert(&graph, &sources, &targets).unwrap();
        triangles.inserted(&graph, &sources, &targets, &outcomes).unwrap();
        edges.extend(batch);
        assert_eq!(triangles.count(), count(vertices as usize, &edges));
    }
}

#[test]
fn neighbours_at_the_ends_of_ranges_count_once() {
    keep_triangles_of_ranges(DynamicGraph::<()>::builder(), |graph, sources, targets| {
        graph.insert(sources, targets)
    });
    keep_triangles_of_ranges(DynamicGraph::<u32>::builder(), |graph, sources, targets| {
        graph.insert(sources, targets, &vec![1; sources.len()])
    });
    keep_triangles_of_ranges(DynamicGraph::<u64>::builder(), |graph, sources, targets| {
        graph.insert(sources, targets, &vec![1; sources.len()])
    });
}

/// Tables of all proportions: two ends with about as many buckets, one with more than ten times as many, and
/// one with so many more that an edge is in no group. All edges between the large vertices are one batch,
/// with other edges between them: few enough for one look at the next edges, or more.
#[test]
fn triangles_of_tables_of_all_sizes_are_kept() {
    let (degrees, vertices) = ([5, 36, 45, 80, 300, 900, 1500, 11_000], 11_100u64);
    let mut rng = Rng::new(3);
    let mut edges = Set::new();
    for (vertex, &degree) in degrees.iter().enumerate() {
        edges.extend((0..degree).map(|_| (vertex as u32, rng.below(vertices - 8) as u32 + 8)));
    }
    let graph =
        DynamicGraph::<()>::builder().vertices(vertices as usize).kind(Kind::Undirected).build().unwrap();
    let mut triangles = Triangles::of(&graph).unwrap();
    let mut between = Vec::new();
    for (number, (one, other)) in (0..8).flat_map(|one| (0..one).map(move |other| (other, one))).enumerate() {
        between.push((one, other));
        between.extend((0..20 * (number % 5)).map(|_| {
            let first = rng.below(vertices - 9) as u32 + 8;
            (first, first + 1)
        }));
    }
    for batch in [edges.iter().copied().collect(), between] {
        let (sources, targets) = split(&batch);
        let outcomes = graph.insert(&sources, &targets).unwrap();
        triangles.inserted(&graph, &sources, &targets, &outcomes).unwrap();
        edges.extend(batch);
        assert_eq!(triangles.count(), count(vertices as usize, &edges));
    }
}

#[test]
fn self_edges_of_a_batch_are_no_triangles() {
    let builder = DynamicGraph::<()>::builder().vertices(4).kind(Kind::Undirected).self_edges(true);
    let graph = builder.build().unwrap();
    let mut triangles = Triangles::of(&graph).unwrap();
    let (sources, targets) = ([0, 0, 1, 2, 1], [0, 1, 2, 0, 1]);
    let outcomes = graph.insert(&sources, &targets).unwrap();
    triangles.inserted(&graph, &sources, &targets, &outcomes).unwrap();
    assert_eq!(triangles.count(), 1);
    triangles.removing(&graph, &sources, &targets).unwrap();
    assert_eq!(triangles.count(), 0);
}

#[test]
fn components_are_joined_by_batches() {
    for kind in [Kind::Directed, Kind::Undirected] {
        for sample in samples::all() {
            let half = Sample { edges: sample.edges.iter().copied().step_by(2).collect(), ..sample.clone() };
            let graph = graph_of(&half, kind);
            let mut components = Components::of(&graph).unwrap();
            let mut batch = sample.edges.clone();
            batch.extend([(0, 0), (0, sample.vertices as u32)]);
            let (sources, targets) = split(&batch);
            let outcomes = graph.insert(&sources, &targets).unwrap();
            components.insert(&sources, &targets, &outcomes).unwrap();
            let expected = oracle::components(&lists_of(&sample, kind));
            let distinct: BTreeSet<u32> = expected.iter().copied().collect();
            assert_eq!(components.read().unwrap(), expected, "{}", sample.name);
            assert_eq!(components.count().unwrap(), distinct.len());
        }
    }
}

#[test]
fn refused_edges_join_nothing() {
    let graph = DynamicGraph::<()>::builder().vertices(3).build().unwrap();
    let mut components = Components::of(&graph).unwrap();
    components.insert(&[0, 1], &[1, 2], &[Outcome::Refused, Outcome::Inserted]).unwrap();
    assert_eq!(components.read().unwrap(), [0, 1, 1]);
    assert!(matches!(components.insert(&[0], &[], &[]), Err(Error::Length { .. })));
    assert!(matches!(components.insert(&[0], &[1], &[]), Err(Error::Length { .. })));
    assert!(matches!(Triangles::of(&graph.to_csr().unwrap()).map(|_| ()), Err(Error::Directed)));
}

#[test]
fn ranks_are_updated_from_earlier_ones() {
    for kind in [Kind::Directed, Kind::Undirected] {
        let sample = samples::all().pop().unwrap();
        let mut graph = graph_of(&sample, kind);
        let parameters = PageRank { tolerance: 1e-5, ..PageRank::default() };
        let before = page_rank(&graph, &parameters).unwrap();
        let new = graph.insert_vertices(2).unwrap();
        let (sources, targets) = (vec![1, 500, new[0]], vec![500, 2, 3]);
        assert!(graph.insert(&sources, &targets).unwrap().all_placed());
        let after = page_rank_from(&graph, &parameters, &before).unwrap();
        let anew = page_rank(&graph, &parameters).unwrap();
        assert!(after.iterations() < anew.iterations(), "{} {}", after.iterations(), anew.iterations());
        let pairs = after.read().unwrap().into_iter().zip(anew.read().unwrap());
        let difference: f32 = pairs.map(|(a, b)| (a - b).abs()).sum();
        // Each is at most the tolerance times d / (1 - d) away from the limit.
        assert!(difference < 2.0 * 1e-5 * 0.85 / 0.15, "{difference}");
    }
}
