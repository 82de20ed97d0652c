//! The baseline that merges batches into rows, against a map of edges.
use crate::common::Rng;
use crate::oracle;
use crate::samples;
use phalanx::graph::algorithms::{Components, bfs, triangles};
use phalanx::graph::{CsrMerge, Data, Kind};
use phalanx::{Device, Error, Outcome, Outcomes};
use std::collections::BTreeMap;

/// Data of edges.
trait Sample: Data {
    fn of(number: u64) -> Self;
    fn insert(graph: &mut CsrMerge<Self>, ends: (&[u32], &[u32]), data: &[Self])
    -> phalanx::Result<Outcomes>;
}

impl Sample for () {
    fn of(_number: u64) {}

    fn insert(graph: &mut CsrMerge<()>, ends: (&[u32], &[u32]), _data: &[()]) -> phalanx::Result<Outcomes> {
        graph.insert(ends.0, ends.1)
    }
}

macro_rules! samples {
    ($($data:ty)*) => {$(
        impl Sample for $data {
            fn of(number: u64) -> Self {
                number as Self
            }

            fn insert(
                graph: &mut CsrMerge<Self>,
                ends: (&[u32], &[u32]),
                data: &[Self],
            ) -> phalanx::Result<Outcomes> {
                graph.insert(ends.0, ends.1, data)
            }
        }
    )*};
}
samples!(u32 f32 u64);

/// A graph, and the edges that it should have.
struct World<E: Data> {
    graph: CsrMerge<E>,
    edges: BTreeMap<(u32, u32), E>,
    kind: Kind,
}

impl<E: Sample> World<E> {
    fn new(vertices: usize, kind: Kind) -> Self {
        let device = Device::from_environment().unwrap();
        Self { graph: CsrMerge::new(&device, vertices, kind).unwrap(), edges: BTreeMap::new(), kind }
    }

    fn name(&self, (a, b): (u32, u32)) -> (u32, u32) {
        if self.kind == Kind::Undirected && a > b { (b, a) } else { (a, b) }
    }

    fn is_edge(&self, (a, b): (u32, u32)) -> bool {
        a != b && (a.max(b) as usize) < self.graph.vertices()
    }

    /// Inserts edges, and checks the outcome of each: the first of equal edges counts.
    fn insert(&mut self, batch: &[(u32, u32)], first: u64) {
        let (sources, targets): (Vec<u32>, Vec<u32>) = batch.iter().copied().unzip();
        let data: Vec<E> = (first..).take(batch.len()).map(E::of).collect();
        let outcomes = E::insert(&mut self.graph, (&sources, &targets), &data).unwrap();
        let mut new = BTreeMap::new();
        for ((&edge, &data), outcome) in batch.iter().zip(&data).zip(outcomes.iter()) {
            let name = self.name(edge);
            let expected = match new.contains_key(&name) || self.edges.contains_key(&name) {
                _ if !self.is_edge(edge) => Outcome::Refused,
                false => Outcome::Inserted,
                true if size_of::<E>() == 0 => Outcome::Found,
                true => Outcome::Replaced,
            };
            assert_eq!(*outcome, expected, "{edge:?}");
            if self.is_edge(edge) {
                new.entry(name).or_insert(data);
            }
        }
        self.edges.extend(new);
    }

    fn remove(&mut self, batch: &[(u32, u32)]) {
        let (sources, targets): (Vec<u32>, Vec<u32>) = batch.iter().copied().unzip();
        let outcomes = self.graph.remove(&sources, &targets).unwrap();
        for (&edge, outcome) in batch.iter().zip(outcomes.iter()) {
            let was_there = self.edges.remove(&self.name(edge)).is_some();
            let expected = if was_there { Outcome::Removed } else { Outcome::Absent };
            assert_eq!(*outcome, expected, "{edge:?}");
        }
    }

    fn check(&self) {
        let rows = self.graph.read().unwrap();
        let mut found = Vec::new();
        for vertex in 0..self.graph.vertices() as u32 {
            let range = rows.offsets[vertex as usize] as usize..rows.offsets[vertex as usize + 1] as usize;
            found.extend(range.map(|place| (vertex, rows.targets[place], rows.data[place])));
        }
        let mut expected: Vec<(u32, u32, E)> =
            self.edges.iter().map(|(&(a, b), &data)| (a, b, data)).collect();
        if self.kind == Kind::Undirected {
            expected.extend(self.edges.iter().map(|(&(a, b), &data)| (b, a, data)));
        }
        expected.sort_by_key(|edge| (edge.0, edge.1));
        assert_eq!(found, expected);
        assert_eq!(self.graph.edge_count(), self.edges.len());
    }
}

fn batches_of<E: Sample>(vertices: u32, most: u64, kind: Kind) {
    let mut rng = Rng::new(u64::from(vertices) + most);
    let mut world = World::<E>::new(vertices as usize, kind);
    for batch in 0..12 {
        let count = rng.below(most) as usize;
        // Ends beyond the graph, and edges from a vertex to itself among them.
        let mut edges: Vec<(u32, u32)> = (0..count)
            .map(|_| (rng.below(u64::from(vertices) + 2) as u32, rng.below(u64::from(vertices)) as u32))
            .collect();
        if batch % 3 == 2 {
            edges.extend(world.edges.keys().copied().filter(|_| rng.below(3) == 0));
            world.remove(&edges);
        } else {
            world.insert(&edges, batch * 10_000);
        }
        world.check();
    }
    let all: Vec<(u32, u32)> = world.edges.keys().copied().collect();
    world.remove(&all);
    world.check();
}

#[test]
fn batches_agree_with_a_map() {
    for kind in [Kind::Directed, Kind::Undirected] {
        batches_of::<()>(50, 300, kind);
        batches_of::<u32>(33, 200, kind);
        batches_of::<f32>(64, 200, kind);
        batches_of::<u64>(20, 100, kind);
        batches_of::<()>(1, 5, kind);
        batches_of::<u64>(2, 8, kind);
        // Small batches into rows of several runs of a warp.
        batches_of::<()>(3000, 4000, kind);
    }
}

#[test]
fn small_batches_change_long_rows() {
    let mut world = World::<u32>::new(5000, Kind::Directed);
    world.insert(
        &(1..5000).step_by(2).map(|leaf| (7, leaf)).filter(|edge| edge.1 != 7).collect::<Vec<_>>(),
        0,
    );
    world.check();
    world.insert(&[(7, 0), (7, 2), (7, 4998), (7, 2500), (6, 9), (4999, 0), (0, 4999)], 1 << 20);
    world.check();
    world.remove(&[(7, 1), (7, 4999), (7, 1025), (0, 4999), (7, 6)]);
    world.check();
    world.insert(&[], 0);
    world.remove(&[]);
    world.check();
}

#[test]
fn algorithms_run_on_merged_rows() {
    for sample in samples::all() {
        let mut world = World::<()>::new(sample.vertices, Kind::Undirected);
        let (first, second) = sample.edges.split_at(sample.edges.len() / 2);
        world.insert(first, 0);
        world.insert(second, 0);
        let lists = oracle::lists(sample.vertices, &sample.edges, true);
        assert_eq!(triangles(&world.graph).unwrap(), oracle::triangles(&lists), "{}", sample.name);
        assert_eq!(bfs(&world.graph, &[0]).unwrap().read().unwrap(), oracle::distances(&lists, &[0]));
        assert_eq!(Components::of(&world.graph).unwrap().read().unwrap(), oracle::components(&lists));
    }
}

#[test]
fn bad_sizes_are_refused() {
    let device = Device::from_environment().unwrap();
    assert!(matches!(CsrMerge::<()>::new(&device, 0, Kind::Directed), Err(Error::Zero { .. })));
    let too_many = CsrMerge::<()>::new(&device, (1 << 31) + 1, Kind::Directed);
    assert!(matches!(too_many, Err(Error::TooLarge { .. })));
    let mut graph = CsrMerge::<u32>::new(&device, 3, Kind::Directed).unwrap();
    assert!(matches!(graph.insert(&[0, 1], &[1], &[1, 2]), Err(Error::Length { .. })));
    assert!(matches!(graph.insert(&[0, 1], &[1, 2], &[1]), Err(Error::Length { .. })));
    assert!(matches!(graph.remove(&[0, 1], &[1]), Err(Error::Length { .. })));
    let (words, mut outcomes) = (device.from_slice(&[0u32, 1]).unwrap(), device.zeroed::<u8>(1).unwrap());
    assert!(matches!(graph.remove_on_device(&words, &words, &mut outcomes), Err(Error::Length { .. })));
    assert_eq!(graph.edge_count(), 0);
}
