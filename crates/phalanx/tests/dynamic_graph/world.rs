//! A graph beside a map of its edges.
use crate::common::Rng;
use phalanx::graph::{Builder, Data, Kind};
use phalanx::{DynamicGraph, Outcome, Outcomes, Result};
use std::collections::BTreeMap;

/// Edge data of tests.
pub trait Sample: Data {
    /// Returns random data.
    fn random(rng: &mut Rng) -> Self;
    /// Inserts edges.
    fn insert(graph: &DynamicGraph<Self>, edges: &[(u32, u32, Self)]) -> Result<Outcomes>;
    /// Returns the data of edges.
    fn weights(graph: &DynamicGraph<Self>, edges: &[(u32, u32)]) -> Vec<Option<Self>>;
}

/// Returns the sources and targets of edges.
pub fn ends<E: Copy>(edges: &[(u32, u32, E)]) -> (Vec<u32>, Vec<u32>) {
    edges.iter().map(|edge| (edge.0, edge.1)).unzip()
}

impl Sample for () {
    fn random(_rng: &mut Rng) {}

    fn insert(graph: &DynamicGraph<()>, edges: &[(u32, u32, ())]) -> Result<Outcomes> {
        let (sources, targets) = ends(edges);
        graph.insert(&sources, &targets)
    }

    fn weights(graph: &DynamicGraph<()>, edges: &[(u32, u32)]) -> Vec<Option<()>> {
        let (sources, targets): (Vec<_>, Vec<_>) = edges.iter().copied().unzip();
        graph.has_edge(&sources, &targets).unwrap().into_iter().map(|has| has.then_some(())).collect()
    }
}

macro_rules! samples {
    ($($data:ty: $random:expr;)*) => {$(
        impl Sample for $data {
            fn random(rng: &mut Rng) -> Self {
                let random: fn(&mut Rng) -> Self = $random;
                random(rng)
            }

            fn insert(graph: &DynamicGraph<Self>, edges: &[(u32, u32, Self)]) -> Result<Outcomes> {
                let (sources, targets) = ends(edges);
                let data: Vec<_> = edges.iter().map(|edge| edge.2).collect();
                graph.insert(&sources, &targets, &data)
            }

            fn weights(graph: &DynamicGraph<Self>, edges: &[(u32, u32)]) -> Vec<Option<Self>> {
                let (sources, targets): (Vec<_>, Vec<_>) = edges.iter().copied().unzip();
                graph.weight(&sources, &targets).unwrap()
            }
        }
    )*};
}
samples! {
    u32: |rng| rng.below(1 << 32) as u32;
    f32: |rng| rng.below(1000) as f32 / 8.0 - 60.0;
    u64: |rng| rng.below(u64::MAX);
}

/// A graph, and the edges that it should have.
pub struct World<E: Data> {
    pub graph: DynamicGraph<E>,
    pub edges: BTreeMap<(u32, u32), E>,
}

impl<E: Sample> World<E> {
    pub fn new(builder: Builder<E>) -> Self {
        Self { graph: builder.build().unwrap(), edges: BTreeMap::new() }
    }

    /// Returns the name of an edge.
    pub fn name(&self, a: u32, b: u32) -> (u32, u32) {
        if self.graph.kind() == Kind::Undirected && a > b { (b, a) } else { (a, b) }
    }

    /// Inserts edges between vertices that exist, none of which is a self-edge.
    pub fn insert(&mut self, edges: &[(u32, u32, E)]) {
        let outcomes = E::insert(&self.graph, edges).unwrap();
        assert!(outcomes.all_placed(), "{} of {}", outcomes.refused(), edges.len());
        self.inserted(edges, &outcomes);
    }

    /// Notes the edges of an insertion that were not refused, and checks the outcomes.
    pub fn inserted(&mut self, edges: &[(u32, u32, E)], outcomes: &[Outcome]) {
        let mut given: BTreeMap<(u32, u32), (Vec<E>, Vec<Outcome>)> = BTreeMap::new();
        for (&(a, b, data), &outcome) in edges.iter().zip(outcomes) {
            let entry = given.entry(self.name(a, b)).or_default();
            entry.0.push(data);
            entry.1.push(outcome);
        }
        let names: Vec<(u32, u32)> = given.keys().copied().collect();
        let stored = E::weights(&self.graph, &names);
        for ((name, (data, outcomes)), stored) in given.into_iter().zip(stored) {
            if outcomes.contains(&Outcome::Refused) {
                assert!(outcomes.iter().all(|&outcome| outcome == Outcome::Refused), "{name:?} {outcomes:?}");
                assert_eq!(stored, self.edges.get(&name).copied(), "{name:?}");
                continue;
            }
            let present = if size_of::<E>() == 0 { Outcome::Found } else { Outcome::Replaced };
            let new = outcomes.iter().filter(|&&outcome| outcome == Outcome::Inserted).count();
            assert_eq!(new, usize::from(!self.edges.contains_key(&name)), "{name:?} {outcomes:?}");
            assert!(outcomes.iter().all(|&outcome| outcome == Outcome::Inserted || outcome == present));
            let stored = stored.unwrap_or_else(|| panic!("{name:?} is missing"));
            assert!(data.contains(&stored), "{name:?} has {stored:?}, not one of {data:?}");
            self.edges.insert(name, stored);
        }
    }

    /// Removes edges.
    pub fn remove(&mut self, edges: &[(u32, u32)]) {
        let (sources, targets): (Vec<_>, Vec<_>) = edges.iter().copied().unzip();
        let outcomes = self.graph.remove(&sources, &targets).unwrap();
        let mut removed: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for (&(a, b), &outcome) in edges.iter().zip(outcomes.iter()) {
            assert!(matches!(outcome, Outcome::Removed | Outcome::Absent), "{outcome:?}");
            *removed.entry(self.name(a, b)).or_default() += usize::from(outcome == Outcome::Removed);
        }
        for (name, many) in removed {
            let was_present = self.edges.remove(&name).is_some();
            assert_eq!(many, usize::from(was_present), "{name:?}");
        }
    }

    /// Checks the whole graph.
    #[track_caller]
    pub fn check(&self) {
        self.graph.validate().unwrap();
        assert_eq!(self.graph.edge_count().unwrap(), self.edges.len());
        let vertices: Vec<u32> = (0..self.graph.vertices() as u32).collect();
        let mut expected: Vec<Vec<(u32, E)>> = vertices.iter().map(|_| Vec::new()).collect();
        for (&(a, b), &data) in &self.edges {
            expected[a as usize].push((b, data));
            if self.graph.kind() == Kind::Undirected && a != b {
                expected[b as usize].push((a, data));
            }
        }
        let degrees = self.graph.degree(&vertices).unwrap();
        let mut found = self.graph.neighbors(&vertices).unwrap();
        found.sort();
        for (vertex, edges) in expected.iter_mut().enumerate() {
            edges.sort_by_key(|edge| edge.0);
            assert_eq!(degrees[vertex] as usize, edges.len(), "degree of {vertex}");
            let of: Vec<(u32, E)> =
                found.of(vertex).iter().copied().zip(found.data(vertex).iter().copied()).collect();
            assert_eq!(&of, edges, "edges of {vertex}");
        }
    }

    /// Looks up pairs of vertices in both orders.
    #[track_caller]
    pub fn look_up(&self, pairs: &[(u32, u32)]) {
        let mut both: Vec<(u32, u32)> = pairs.to_vec();
        both.extend(pairs.iter().map(|&(a, b)| (b, a)));
        let found = E::weights(&self.graph, &both);
        for (&(a, b), found) in both.iter().zip(found) {
            assert_eq!(found, self.edges.get(&self.name(a, b)).copied(), "{a} {b}");
        }
    }
}

/// Returns random edges between `vertices` vertices, none of which is a self-edge. A part of the sources are
/// vertices below `hubs`.
pub fn random_edges<E: Sample>(rng: &mut Rng, count: usize, vertices: u64, hubs: u64) -> Vec<(u32, u32, E)> {
    let mut edges = Vec::new();
    while edges.len() < count {
        let sources = if hubs > 0 && rng.below(2) == 0 { hubs } else { vertices };
        let (source, target) = (rng.below(sources) as u32, rng.below(vertices) as u32);
        if source != target {
            edges.push((source, target, E::random(rng)));
        }
    }
    edges
}
