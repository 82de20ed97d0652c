//! Graphs that keep parallel edges, against lists of edges.
use crate::common::Rng;
use crate::world::Sample;
use phalanx::graph::{Builder, Kind};
use phalanx::{DynamicGraph, Error, Merge, Outcome};
use std::collections::BTreeMap;

/// A graph, and the data of all edges of each pair of vertices, sorted by their names.
struct World<E: Sample> {
    graph: DynamicGraph<E>,
    edges: BTreeMap<(u32, u32), Vec<E>>,
}

/// Returns data in an order that depends on the data alone.
fn sorted<E: Sample>(mut data: Vec<E>) -> Vec<E> {
    data.sort_by_key(|data| format!("{data:?}"));
    data
}

impl<E: Sample> World<E> {
    fn new(builder: Builder<E>) -> Self {
        Self { graph: builder.parallel_edges(true).build().unwrap(), edges: BTreeMap::new() }
    }

    fn insert(&mut self, edges: &[(u32, u32, E)]) {
        let outcomes = E::insert(&self.graph, edges).unwrap();
        for (&(a, b, data), &outcome) in edges.iter().zip(outcomes.iter()) {
            assert_eq!(outcome, if a == b { Outcome::Refused } else { Outcome::Inserted });
            if a != b {
                self.edges.entry((a, b)).or_default().push(data);
            }
        }
    }

    /// Removes edges, any one per element: notes those that are left.
    fn remove(&mut self, pairs: &[(u32, u32)]) {
        let (sources, targets): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        let outcomes = self.graph.remove(&sources, &targets).unwrap();
        let mut asked: BTreeMap<(u32, u32), [usize; 2]> = BTreeMap::new();
        for (&pair, &outcome) in pairs.iter().zip(outcomes.iter()) {
            let counts = asked.entry(pair).or_default();
            counts[0] += 1;
            counts[1] += usize::from(outcome == Outcome::Removed);
        }
        for (pair, [many, removed]) in asked {
            let before = self.edges.remove(&pair).unwrap_or_default();
            assert_eq!(removed, many.min(before.len()), "{pair:?}");
            // Those that are left are among those before.
            let left = self.data_of(pair);
            let mut rest = before.clone();
            for data in &left {
                let place = rest.iter().position(|other| other == data);
                rest.swap_remove(place.unwrap_or_else(|| panic!("{pair:?} has {data:?}")));
            }
            assert_eq!(rest.len(), removed, "{pair:?}");
            if !left.is_empty() {
                self.edges.insert(pair, left);
            }
        }
    }

    /// Returns the data of all edges of a pair of vertices.
    fn data_of(&self, (a, b): (u32, u32)) -> Vec<E> {
        let found = self.graph.neighbors(&[a]).unwrap();
        let edges = found.of(0).iter().zip(found.data(0));
        edges.filter(|(target, _)| **target == b).map(|(_, &data)| data).collect()
    }

    fn check(&self) {
        self.graph.validate().unwrap();
        let count: usize = self.edges.values().map(Vec::len).sum();
        assert_eq!(self.graph.edge_count().unwrap(), count);
        let rows = self.graph.to_csr().unwrap().read().unwrap();
        let mut found: BTreeMap<(u32, u32), Vec<E>> = BTreeMap::new();
        for vertex in 0..self.graph.vertices() as u32 {
            let first = rows.offsets[vertex as usize] as usize;
            for (place, &target) in rows.of(vertex).iter().enumerate() {
                found.entry((vertex, target)).or_default().push(rows.data[first + place]);
            }
        }
        let all = |edges: BTreeMap<(u32, u32), Vec<E>>| -> Vec<_> {
            edges.into_iter().map(|(pair, data)| (pair, sorted(data))).collect()
        };
        assert_eq!(all(found), all(self.edges.clone()));
        let vertices: Vec<u32> = (0..self.graph.vertices() as u32).collect();
        let mut degrees = vec![0; vertices.len()];
        self.edges.iter().for_each(|(&(a, _), data)| degrees[a as usize] += data.len() as u32);
        assert_eq!(self.graph.degree(&vertices).unwrap(), degrees);
        let pairs: Vec<_> = vertices.iter().map(|&a| (a, (a * 7 + 1) % vertices.len() as u32)).collect();
        for (pair, found) in pairs.iter().zip(E::weights(&self.graph, &pairs).unwrap()) {
            match (self.edges.get(pair), found) {
                (Some(data), Some(found)) => assert!(data.contains(&found), "{pair:?}"),
                (expected, found) => assert_eq!(expected.is_some(), found.is_some(), "{pair:?}"),
            }
        }
    }
}

/// Runs random batches.
fn run<E: Sample>(seed: u64, builder: Builder<E>) {
    let (mut world, mut rng) = (World::new(builder), Rng::new(seed));
    let vertices = world.graph.vertices() as u64;
    for round in 0..16 {
        // Few pairs, so that many edges are parallel, and a hub.
        let pair = |rng: &mut Rng| match rng.below(3) {
            0 => (0, 1 + rng.below(4) as u32),
            1 => (0, rng.below(vertices) as u32),
            _ => (rng.below(6) as u32, rng.below(vertices) as u32),
        };
        if rng.below(5) < 3 {
            let edges: Vec<_> = (0..rng.below(120))
                .map(|_| {
                    let (a, b) = pair(&mut rng);
                    (a, b, E::random(&mut rng))
                })
                .collect();
            world.insert(&edges);
        } else {
            let pairs: Vec<_> = (0..rng.below(150)).map(|_| pair(&mut rng)).collect();
            world.remove(&pairs);
        }
        match round % 8 {
            5 => world.graph.flush().unwrap(),
            // Pairs with many edges keep their chains; there are six sources.
            7 => assert!(world.graph.rehash(2).unwrap() <= 6),
            _ => {}
        }
        world.check();
    }
}

#[test]
fn random_batches_agree_with_lists() {
    for seed in 0..2 {
        run::<()>(seed, DynamicGraph::builder().vertices(40));
        run::<u32>(seed, DynamicGraph::builder().vertices(40));
        run::<u64>(seed, DynamicGraph::builder().vertices(40).table_slabs(0));
    }
}

#[test]
fn one_pair_has_hundreds_of_edges() {
    let mut world = World::<u32>::new(DynamicGraph::builder().vertices(5));
    let edges: Vec<_> = (0..300).map(|data| (1, 2, data)).collect();
    world.insert(&edges);
    world.check();
    // All are in one bucket of a table, so no table makes their chain short.
    assert_eq!(world.graph.rehash(2).unwrap(), 1);
    world.check();
    world.remove(&[(1, 2); 250]);
    world.check();
    world.graph.flush().unwrap();
    world.remove(&[(1, 2); 60]);
    assert!(world.edges.is_empty());
    world.check();
}

#[test]
fn too_many_parallel_edges_are_refused() {
    // A chain has 64 slabs of 7 edges: that of a bucket, or the one behind the record, which has 7 more.
    let graph = DynamicGraph::<u64>::builder().vertices(3).parallel_edges(true).build().unwrap();
    let failed = graph.insert(&[0; 500], &[1; 500], &[9; 500]);
    let Err(Error::NoRoom { outcomes, .. }) = failed else { panic!("{failed:?}") };
    let inserted = outcomes.count(Outcome::Inserted);
    assert!((64 * 7..=65 * 7).contains(&inserted) && outcomes.refused() == 500 - inserted, "{inserted}");
    assert_eq!(graph.edge_count().unwrap(), inserted);
    graph.validate().unwrap();
}

#[test]
fn removed_vertices_lose_all_parallel_edges() {
    let mut rng = Rng::new(5);
    for _ in 0..4 {
        let mut world = World::<u32>::new(DynamicGraph::builder().vertices(30));
        let edges: Vec<_> =
            (0..700).map(|_| (rng.below(3) as u32 * 5, rng.below(8) as u32, rng.below(9) as u32)).collect();
        world.insert(&edges);
        let gone = [1, 5, 6, 29];
        assert_eq!(world.graph.remove_vertices(&gone).unwrap().count(Outcome::Removed), 4);
        world.edges.retain(|(a, b), _| !gone.contains(a) && !gone.contains(b));
        world.check();
        // The vertices are used again, without edges.
        assert_eq!(world.graph.insert_vertices(4).unwrap().len(), 4);
        world.check();
        world.insert(&edges);
        world.check();
    }
}

#[test]
fn parallel_edges_are_built_expired_merged_and_saved() {
    let mut graph = DynamicGraph::<u64>::builder().vertices(9).parallel_edges(true).build().unwrap();
    let times: Vec<u64> = (0..90).collect();
    let (sources, targets): (Vec<u32>, Vec<u32>) = (0..90).map(|edge| (edge % 2, 3 + edge % 3)).unzip();
    assert!(graph.bulk_build(&sources, &targets, &times).unwrap().all_placed());
    assert_eq!(graph.expire(60).unwrap(), 60);
    assert_eq!((graph.edge_count().unwrap(), graph.degree(&[0, 1]).unwrap()), (30, vec![15, 15]));
    let mut saved = Vec::new();
    graph.save(&mut saved).unwrap();
    let loaded = DynamicGraph::load(&saved[..], DynamicGraph::<u64>::builder()).unwrap();
    let edges = |graph: &DynamicGraph<u64>| {
        let found = graph.neighbors(&[0, 1]).unwrap();
        let mut edges: Vec<(u32, u64)> = (0..2)
            .flat_map(|row| found.of(row).iter().copied().zip(found.data(row).iter().copied()))
            .collect();
        edges.sort_unstable();
        edges
    };
    let mut expected: Vec<(u32, u64)> = (60..90).map(|edge| (3 + edge % 3, u64::from(edge))).collect();
    expected.sort_unstable();
    assert_eq!(edges(&graph), expected);
    assert_eq!(edges(&loaded), expected);
    // The loaded graph keeps parallel edges, too. An upsert changes one of them.
    assert_eq!(loaded.insert(&[0], &[3], &[60]).unwrap(), [Outcome::Inserted]);
    assert_eq!(loaded.upsert(Merge::Add, &[0], &[3], &[1000]).unwrap(), [Outcome::Replaced]);
    let changed = edges(&loaded);
    assert_eq!(changed.len(), 31);
    let large: Vec<_> = changed.iter().filter(|edge| edge.1 >= 1000).collect();
    assert!(large.len() == 1 && large[0].0 == 3, "{large:?}");
    loaded.validate().unwrap();
}

#[test]
fn graphs_with_halves_keep_no_parallel_edges() {
    let builder = || DynamicGraph::<()>::builder().vertices(3).parallel_edges(true);
    assert!(matches!(builder().kind(Kind::Undirected).build(), Err(Error::ParallelHalves)));
    assert!(matches!(builder().in_edges(true).build(), Err(Error::ParallelHalves)));
    assert!(builder().self_edges(true).build().is_ok());
}
