//! Ids of vertices beside a map of ids.
use crate::common::Rng;
use phalanx::graph::{Kind, VertexIndex};
use phalanx::{DynamicGraph, Error, Outcome};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Words that a hash map may use for its own purposes, and others.
const SPECIAL: [u64; 6] = [0, 1, u64::MAX, u64::MAX - 1, u64::MAX - 2, 1 << 63];

/// A graph with an index, and what both should contain.
struct World {
    graph: DynamicGraph<u32>,
    index: VertexIndex,
    vertices: HashMap<u64, u32>,
    edges: BTreeMap<(u64, u64), u32>,
    /// Whether ids are inserted from device buffers.
    on_device: bool,
}

impl World {
    fn new(kind: Kind) -> Self {
        let graph = DynamicGraph::<u32>::builder().vertices(2).kind(kind).build().unwrap();
        let index = VertexIndex::new(&graph).unwrap();
        Self { graph, index, vertices: HashMap::new(), edges: BTreeMap::new(), on_device: false }
    }

    fn name(&self, a: u64, b: u64) -> (u64, u64) {
        if self.graph.kind() == Kind::Undirected { (a.min(b), a.max(b)) } else { (a, b) }
    }

    /// Gets or inserts ids that are on the device.
    fn get_or_insert(&mut self, ids: &[u64]) -> Vec<u32> {
        let device = self.graph.device().clone();
        let (ids, mut vertices) = (device.from_slice(ids).unwrap(), device.buffer(ids.len()).unwrap());
        self.index.get_or_insert_on_device(&mut self.graph, &ids, &mut vertices).unwrap();
        vertices.read().unwrap()
    }

    /// Notes the vertices that ids have got, and checks that equal ids have equal vertices, and that no
    /// vertex has two ids.
    fn note(&mut self, ids: &[u64], vertices: &[u32]) {
        assert_eq!(ids.len(), vertices.len());
        for (&id, &vertex) in ids.iter().zip(vertices) {
            assert_eq!(*self.vertices.entry(id).or_insert(vertex), vertex, "{id}");
        }
        let distinct: BTreeSet<u32> = self.vertices.values().copied().collect();
        assert_eq!(distinct.len(), self.vertices.len());
    }

    fn insert(&mut self, edges: &[(u64, u64, u32)]) {
        let (from, to): (Vec<u64>, Vec<u64>) = edges.iter().map(|edge| (edge.0, edge.1)).unzip();
        let (sources, targets) = match self.on_device {
            true => (self.get_or_insert(&from), self.get_or_insert(&to)),
            false => self.index.get_or_insert_ends(&mut self.graph, &from, &to).unwrap(),
        };
        self.note(&from, &sources);
        self.note(&to, &targets);
        let data: Vec<u32> = edges.iter().map(|edge| edge.2).collect();
        assert!(self.graph.insert(&sources, &targets, &data).unwrap().all_placed());
        for &(a, b, data) in edges {
            let name = self.name(a, b);
            self.edges.insert(name, data);
        }
    }

    fn remove(&mut self, ids: &[u64]) {
        let outcomes = self.index.remove(&mut self.graph, ids).unwrap();
        let mut removed: BTreeMap<u64, usize> = BTreeMap::new();
        for (&id, &outcome) in ids.iter().zip(outcomes.iter()) {
            assert!(matches!(outcome, Outcome::Removed | Outcome::Absent));
            *removed.entry(id).or_default() += usize::from(outcome == Outcome::Removed);
        }
        for (id, many) in removed {
            assert_eq!(many, usize::from(self.vertices.remove(&id).is_some()), "{id}");
            self.edges.retain(|&(a, b), _| a != id && b != id);
        }
    }

    /// Checks all ids, those of `others`, and all edges.
    fn check(&self, others: &[u64]) {
        let ids: Vec<u64> = self.vertices.keys().chain(others).copied().collect();
        let expected: Vec<u32> =
            ids.iter().map(|id| self.vertices.get(id).copied().unwrap_or(VertexIndex::ABSENT)).collect();
        assert_eq!(self.index.get(&ids).unwrap(), expected);
        assert_eq!(self.index.len().unwrap(), self.vertices.len());
        let names: HashMap<u32, u64> = self.vertices.iter().map(|(&id, &vertex)| (vertex, id)).collect();
        let all: Vec<u32> = (0..self.graph.vertices() as u32 + 3).chain([u32::MAX, u32::MAX - 3]).collect();
        let expected: Vec<Option<u64>> = all.iter().map(|vertex| names.get(vertex).copied()).collect();
        assert_eq!(self.index.id_of(&all).unwrap(), expected);
        let (from, to): (Vec<u64>, Vec<u64>) = self.edges.keys().copied().unzip();
        let (sources, targets) = self.index.ends(&from, &to).unwrap();
        let expected: Vec<Option<u32>> = self.edges.values().copied().map(Some).collect();
        assert_eq!(self.graph.weight(&sources, &targets).unwrap(), expected);
        assert_eq!(self.graph.edge_count().unwrap(), self.edges.len());
        self.graph.validate().unwrap();
    }
}

#[test]
fn random_scripts_agree_with_a_map() {
    for (seed, kind) in [(1, Kind::Directed), (2, Kind::Undirected), (3, Kind::Undirected)] {
        let (mut world, mut rng) = (World::new(kind), Rng::new(seed));
        world.on_device = seed == 3;
        let id = |rng: &mut Rng| match rng.below(8) {
            0 => SPECIAL[rng.below(6) as usize],
            _ => rng.below(40) * 0x1234_5678_9abc,
        };
        for _ in 0..25 {
            if rng.below(3) > 0 {
                let mut edges = BTreeMap::new();
                for _ in 0..rng.below(40) {
                    let (a, b) = (id(&mut rng), id(&mut rng));
                    if a != b {
                        edges.insert(world.name(a, b), rng.below(1000) as u32);
                    }
                }
                let edges: Vec<_> = edges.into_iter().map(|((a, b), data)| (a, b, data)).collect();
                world.insert(&edges);
            } else {
                let ids: Vec<u64> = (0..rng.below(12)).map(|_| id(&mut rng)).collect();
                world.remove(&ids);
            }
            world.check(&SPECIAL);
        }
    }
}

#[test]
fn equal_ids_of_a_batch_get_one_vertex() {
    let mut world = World::new(Kind::Directed);
    let vertices = world.index.get_or_insert(&mut world.graph, &[9, 5, 9, 9, 5, 7]).unwrap();
    // The graph had two vertices; new ones are in ascending order of the ids.
    assert_eq!(vertices, [4, 2, 4, 4, 2, 3]);
    assert_eq!((world.graph.vertices(), world.index.len().unwrap()), (5, 3));
    assert_eq!(world.index.get_or_insert(&mut world.graph, &[5, 6]).unwrap(), [2, 5]);
    assert_eq!(world.index.id_of(&[0, 1, 2, 5]).unwrap(), [None, None, Some(5), Some(6)]);
    assert!(world.index.get_or_insert(&mut world.graph, &[]).unwrap().is_empty());
}

#[test]
fn ids_on_the_device_get_vertices_in_ascending_order() {
    let mut world = World::new(Kind::Directed);
    assert_eq!(world.get_or_insert(&[9, 5, 9, 9, 5, 7]), [4, 2, 4, 4, 2, 3]);
    assert_eq!(world.get_or_insert(&[u64::MAX, 5, 0]), [6, 2, 5]);
    assert_eq!(world.get_or_insert(&[7, 7]), [3, 3]);
    assert!(world.get_or_insert(&[]).is_empty());
    assert_eq!((world.graph.vertices(), world.index.len().unwrap()), (7, 5));
    let device = world.graph.device().clone();
    let (ids, mut short) = (device.zeroed::<u64>(3).unwrap(), device.buffer::<u32>(2).unwrap());
    let failed = world.index.get_or_insert_on_device(&mut world.graph, &ids, &mut short);
    assert!(matches!(failed, Err(Error::Length { .. })));
}

#[test]
fn vertices_of_removed_ids_are_reused() {
    let mut world = World::new(Kind::Undirected);
    world.insert(&[(10, 20, 1), (20, 30, 2), (30, 10, 3)]);
    let vertex = world.vertices[&20];
    world.remove(&[20, 20, 99]);
    world.check(&[20, 99]);
    // Another id gets the vertex, and the old one gets another.
    world.insert(&[(40, 10, 4)]);
    assert_eq!(world.vertices[&40], vertex);
    world.insert(&[(20, 40, 5)]);
    assert_ne!(world.vertices[&20], vertex);
    world.check(&[99]);
    // An id is removed and inserted in consecutive batches, many times.
    let before = world.graph.vertices();
    for round in 0..20 {
        world.remove(&[20, 30]);
        world.insert(&[(30, 20, round)]);
        world.check(&[99]);
    }
    assert_eq!(world.graph.vertices(), before);
}

#[test]
fn the_array_of_ids_grows() {
    let mut world = World::new(Kind::Directed);
    for round in 0..6u64 {
        let edges: Vec<_> =
            (0..100).map(|id| (round * 1000 + id, round * 1000 + id + 1, id as u32)).collect();
        world.insert(&edges);
    }
    world.check(&[100_000]);
    // Vertices without ids, too.
    world.graph.insert_vertices(50).unwrap();
    world.check(&[100_000]);
    assert!(world.index.memory_usage() > 0 && !world.index.is_empty().unwrap());
}

#[test]
fn a_failed_insertion_changes_nothing() {
    let mut world = World::new(Kind::Directed);
    world.insert(&[(1, 2, 3)]);
    let other = phalanx::Device::emulator(Default::default());
    let mut elsewhere = DynamicGraph::<u32>::builder().device(&other).vertices(3).build().unwrap();
    let failed = world.index.get_or_insert(&mut elsewhere, &[5]);
    assert!(matches!(failed, Err(Error::OtherDevice { .. })));
    assert!(matches!(world.index.remove(&mut elsewhere, &[1]), Err(Error::OtherDevice { .. })));
    assert!(matches!(world.index.ends(&[1], &[]), Err(Error::Length { .. })));
    let failed = world.index.get_or_insert_ends(&mut world.graph, &[1], &[2, 3]);
    assert!(matches!(failed, Err(Error::Length { .. })));
    world.check(&[5]);
}
