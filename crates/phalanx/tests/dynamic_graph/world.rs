//! A graph beside a map of its edges.
#![allow(dead_code)] // each program uses some of these
use crate::common::Rng;
use phalanx::graph::{Builder, Data, Kind};
use phalanx::{DynamicGraph, Outcome, Outcomes};
use std::collections::BTreeMap;

/// Edge data of tests.
pub trait Sample: Data {
    /// Returns random data.
    fn random(rng: &mut Rng) -> Self;
    /// Inserts edges.
    fn insert(graph: &DynamicGraph<Self>, edges: &[(u32, u32, Self)]) -> phalanx::Result<Outcomes>;
    /// Returns the data of edges.
    fn weights(graph: &DynamicGraph<Self>, edges: &[(u32, u32)]) -> Result<Vec<Option<Self>>, String>;
}

/// Returns the sources and targets of edges.
pub fn ends<E: Copy>(edges: &[(u32, u32, E)]) -> (Vec<u32>, Vec<u32>) {
    edges.iter().map(|edge| (edge.0, edge.1)).unzip()
}

impl Sample for () {
    fn random(_rng: &mut Rng) {}

    fn insert(graph: &DynamicGraph<()>, edges: &[(u32, u32, ())]) -> phalanx::Result<Outcomes> {
        let (sources, targets) = ends(edges);
        graph.insert(&sources, &targets)
    }

    fn weights(graph: &DynamicGraph<()>, edges: &[(u32, u32)]) -> Result<Vec<Option<()>>, String> {
        let (sources, targets): (Vec<_>, Vec<_>) = edges.iter().copied().unzip();
        let found = graph.has_edge(&sources, &targets).map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|has| has.then_some(())).collect())
    }
}

macro_rules! samples {
    ($($data:ty: $random:expr;)*) => {$(
        impl Sample for $data {
            fn random(rng: &mut Rng) -> Self {
                let random: fn(&mut Rng) -> Self = $random;
                random(rng)
            }

            fn insert(graph: &DynamicGraph<Self>, edges: &[(u32, u32, Self)]) -> phalanx::Result<Outcomes> {
                let (sources, targets) = ends(edges);
                let data: Vec<_> = edges.iter().map(|edge| edge.2).collect();
                graph.insert(&sources, &targets, &data)
            }

            fn weights(
                graph: &DynamicGraph<Self>,
                edges: &[(u32, u32)],
            ) -> Result<Vec<Option<Self>>, String> {
                let (sources, targets): (Vec<_>, Vec<_>) = edges.iter().copied().unzip();
                graph.weight(&sources, &targets).map_err(|error| error.to_string())
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

impl World<u64> {
    /// Lets the edges with data below `before` expire, and checks their number.
    pub fn try_expire(&mut self, before: u64) -> Checked {
        let expected = self.edges.values().filter(|&&time| time < before).count();
        self.edges.retain(|_, time| *time >= before);
        same(
            "number of expired edges",
            self.graph.expire(before).map_err(|error| error.to_string())?,
            expected,
        )
    }
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
    #[track_caller]
    pub fn insert(&mut self, edges: &[(u32, u32, E)]) {
        let outcomes = E::insert(&self.graph, edges).unwrap();
        assert!(outcomes.all_placed(), "{} of {}", outcomes.refused(), edges.len());
        self.inserted(edges, &outcomes);
    }

    /// Notes the edges of an insertion that were not refused, and checks the outcomes.
    #[track_caller]
    pub fn inserted(&mut self, edges: &[(u32, u32, E)], outcomes: &[Outcome]) {
        self.try_inserted(edges, outcomes).unwrap();
    }

    /// Removes edges.
    #[track_caller]
    pub fn remove(&mut self, edges: &[(u32, u32)]) {
        self.try_remove(edges).unwrap();
    }

    /// Checks the whole graph.
    #[track_caller]
    pub fn check(&self) {
        self.try_check().unwrap();
    }

    /// Looks up pairs of vertices in both orders.
    #[track_caller]
    pub fn look_up(&self, pairs: &[(u32, u32)]) {
        self.try_look_up(pairs).unwrap();
    }

    /// As [`Self::inserted`].
    pub fn try_inserted(&mut self, edges: &[(u32, u32, E)], outcomes: &[Outcome]) -> Checked {
        let mut given: BTreeMap<(u32, u32), (Vec<E>, Vec<Outcome>)> = BTreeMap::new();
        for (&(a, b, data), &outcome) in edges.iter().zip(outcomes) {
            let entry = given.entry(self.name(a, b)).or_default();
            entry.0.push(data);
            entry.1.push(outcome);
        }
        let names: Vec<(u32, u32)> = given.keys().copied().collect();
        let stored = E::weights(&self.graph, &names)?;
        for ((name, (data, outcomes)), stored) in given.into_iter().zip(stored) {
            let before = self.edges.get(&name).copied();
            explained(before, &data, &outcomes, stored).map_err(|text| format!("{name:?}: {text}"))?;
            match stored {
                Some(stored) => self.edges.insert(name, stored),
                None => self.edges.remove(&name),
            };
        }
        Ok(())
    }

    /// As [`Self::remove`].
    pub fn try_remove(&mut self, edges: &[(u32, u32)]) -> Checked {
        let (sources, targets): (Vec<_>, Vec<_>) = edges.iter().copied().unzip();
        let outcomes = self.graph.remove(&sources, &targets).map_err(|error| error.to_string())?;
        self.try_removed(edges, &outcomes)
    }

    /// Removes vertices, and so their edges.
    pub fn try_remove_vertices(&mut self, ids: &[u32]) -> Checked {
        let _ = self.graph.remove_vertices(ids).map_err(|error| error.to_string())?;
        self.edges.retain(|edge, _| !ids.contains(&edge.0) && !ids.contains(&edge.1));
        Ok(())
    }

    /// Notes the edges of a removal, and checks the outcomes.
    pub fn try_removed(&mut self, edges: &[(u32, u32)], outcomes: &[Outcome]) -> Checked {
        let mut removed: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for (&(a, b), &outcome) in edges.iter().zip(outcomes) {
            if !matches!(outcome, Outcome::Removed | Outcome::Absent) {
                return Err(format!("{outcome:?} by a removal"));
            }
            *removed.entry(self.name(a, b)).or_default() += usize::from(outcome == Outcome::Removed);
        }
        for (name, many) in removed {
            if many != usize::from(self.edges.remove(&name).is_some()) {
                return Err(format!("{name:?} was removed {many} times"));
            }
        }
        Ok(())
    }

    /// As [`Self::check`].
    pub fn try_check(&self) -> Checked {
        let text = |error: phalanx::Error| error.to_string();
        self.graph.validate().map_err(text)?;
        let (counted, edges) = (self.graph.edge_count().map_err(text)?, self.edges.len());
        same("number of edges", counted, edges)?;
        let vertices: Vec<u32> = (0..self.graph.vertices() as u32).collect();
        let degrees = self.graph.degree(&vertices).map_err(text)?;
        let mut found = self.graph.neighbors(&vertices).map_err(text)?;
        found.sort();
        for (vertex, edges) in self.neighbors().into_iter().enumerate() {
            same("degree", degrees[vertex] as usize, edges.len())?;
            let of: Vec<(u32, E)> =
                found.of(vertex).iter().copied().zip(found.data(vertex).iter().copied()).collect();
            same("edges of a vertex", of, edges)?;
        }
        self.try_check_in_edges(&vertices)
    }

    /// Checks the edges that lead to each vertex, if the graph stores them.
    fn try_check_in_edges(&self, vertices: &[u32]) -> Checked {
        if !self.graph.has_in_edges() {
            return Ok(());
        }
        let text = |error: phalanx::Error| error.to_string();
        let degrees = self.graph.in_degree(vertices).map_err(text)?;
        let mut found = self.graph.in_neighbors(vertices).map_err(text)?;
        found.sort();
        let mut expected = vec![Vec::new(); vertices.len()];
        self.edges.iter().for_each(|(&(a, b), &data)| expected[b as usize].push((a, data)));
        for (vertex, edges) in expected.into_iter().enumerate() {
            same("in-degree", degrees[vertex] as usize, edges.len())?;
            let of: Vec<(u32, E)> =
                found.of(vertex).iter().copied().zip(found.data(vertex).iter().copied()).collect();
            same("edges to a vertex", of, edges)?;
        }
        Ok(())
    }

    /// Returns the edges that each vertex should have, sorted.
    fn neighbors(&self) -> Vec<Vec<(u32, E)>> {
        let mut expected = vec![Vec::new(); self.graph.vertices()];
        for (&(a, b), &data) in &self.edges {
            expected[a as usize].push((b, data));
            if self.graph.kind() == Kind::Undirected && a != b {
                expected[b as usize].push((a, data));
            }
        }
        expected.iter_mut().for_each(|edges| edges.sort_by_key(|edge| edge.0));
        expected
    }

    /// As [`Self::look_up`].
    pub fn try_look_up(&self, pairs: &[(u32, u32)]) -> Checked {
        let mut both: Vec<(u32, u32)> = pairs.to_vec();
        both.extend(pairs.iter().map(|&(a, b)| (b, a)));
        let found = E::weights(&self.graph, &both)?;
        for (&(a, b), found) in both.iter().zip(found) {
            let expected = self.edges.get(&self.name(a, b)).copied();
            same("edge that was looked up", found, expected).map_err(|text| format!("{a} {b}: {text}"))?;
        }
        Ok(())
    }
}

/// Result of a check, with the difference.
pub type Checked = Result<(), String>;

/// Returns an error if two values differ.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Checked {
    if found == expected { Ok(()) } else { Err(format!("{what}: expected {expected:?}, found {found:?}")) }
}

/// Checks the outcomes of all elements of a batch that insert one edge: with these data, into a graph where
/// it had the data `before`, and after which it has the data `stored`.
fn explained<E: Sample>(before: Option<E>, data: &[E], outcomes: &[Outcome], stored: Option<E>) -> Checked {
    // Refused elements are as if the batch had not had them: another element with this edge may have found
    // memory that the growth of vertices has freed meanwhile.
    let all = outcomes.len();
    let executed = |&(_, &outcome): &(&E, &Outcome)| outcome != Outcome::Refused;
    let (data, outcomes): (Vec<E>, Vec<Outcome>) = data.iter().zip(outcomes).filter(executed).unzip();
    // An edge that was present keeps its place, so only a new one can be refused.
    if (outcomes.len() < all && before.is_some()) || (outcomes.is_empty() && stored.is_some()) {
        return Err(format!("{} of {all} refused, {before:?} before, then {stored:?}", all - outcomes.len()));
    }
    if outcomes.is_empty() {
        return Ok(());
    }
    let present = if size_of::<E>() == 0 { Outcome::Found } else { Outcome::Replaced };
    let new = outcomes.iter().filter(|&&outcome| outcome == Outcome::Inserted).count();
    let others = outcomes.iter().filter(|&&outcome| outcome == present).count();
    same("insertions", new, usize::from(before.is_none()))?;
    same("other outcomes", others, outcomes.len() - new)?;
    match stored {
        Some(stored) if data.contains(&stored) => Ok(()),
        stored => Err(format!("{stored:?} is not one of {data:?}")),
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
