//! Benchmarks of the removal of vertices of `phalanx::DynamicGraph`: undirected graphs without data of edges.
//!
//! | op | before | what is timed |
//! |---|---|---|
//! | `vertex_remove` | a graph with all edges | removal of `n` vertices, chosen at random, and of their edges |
//!
//! | param | what |
//! |---|---|
//! | `edges` | `uniform` (default), `rmat`, `grid`, `geometric` |
//! | `vertices` | number of vertices |
//! | `degree` | edges per vertex, counted at one end; default 8; a grid has 1.3 |
//!
//! The call takes the ids from the host and returns the outcomes, 5 bytes per vertex. `counted` has
//! statistics of the degrees, and the number of edges that are removed. After a repetition the graph is built
//! anew.
use super::edge_batch::{degrees, kind_of, stand_in};
use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, ensure};
use phalanx::graph::Kind;
use phalanx::{DynamicGraph, Outcome, Outcomes};
use rayon::prelude::*;
use std::collections::BTreeMap;
use workloads::edges::Edge;

/// Removals of vertices.
#[derive(Debug)]
pub struct Vertices<'a>(pub &'a Gpu);

impl Structure for Vertices<'_> {
    fn name(&self) -> &'static str {
        "GraphVertices"
    }

    fn variants(&self) -> Vec<String> {
        vec!["default".to_owned()]
    }

    fn ops(&self) -> Vec<&'static str> {
        vec!["vertex_remove"]
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        Ok(Box::new(Prepared::new(self.0, case)?))
    }
}

/// Prepared case.
struct Prepared<'a> {
    gpu: &'a Gpu,
    /// Halves of all edges.
    degrees: Vec<u32>,
    edges: Vec<Edge>,
    removed: Vec<u32>,
    /// Degrees after the removal.
    rest: Vec<u32>,
    graph: Option<DynamicGraph<()>>,
    outcomes: Option<Outcomes>,
    counted: BTreeMap<String, f64>,
}

/// Returns the number of edges at each vertex.
fn halves_of(edges: &[Edge], vertices: usize) -> Vec<u32> {
    let halves: Vec<Edge> = edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
    degrees(&halves, vertices as u32).0
}

impl<'a> Prepared<'a> {
    fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let degree = case.number_if_given("degree")?.unwrap_or(8.0);
        let asked = case.number("vertices")? as u32;
        let (vertices, edges) = stand_in(&kind_of(case), asked, degree, case.seed)?;
        // A multiplicative hash orders the vertices at random.
        let mut removed: Vec<u32> = (0..vertices as u32).collect();
        removed
            .par_sort_unstable_by_key(|&vertex| (u64::from(vertex) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        removed.truncate(case.n as usize);
        ensure!(removed.len() == case.n as usize, "there are only {vertices} vertices");
        let mut is_removed = vec![false; vertices];
        removed.iter().for_each(|&vertex| is_removed[vertex as usize] = true);
        let stays = |&&(a, b): &&Edge| !is_removed[a as usize] && !is_removed[b as usize];
        let left: Vec<Edge> = edges.par_iter().filter(stays).copied().collect();
        let degrees = halves_of(&edges, vertices);
        let counted = [
            ("edges", edges.len() as f64),
            ("removed_edges", (edges.len() - left.len()) as f64),
            ("largest_degree", f64::from(degrees.iter().max().copied().unwrap_or_default())),
            ("average_degree", 2.0 * edges.len() as f64 / vertices.max(1) as f64),
        ];
        Ok(Self {
            gpu,
            degrees,
            rest: halves_of(&left, vertices),
            edges,
            removed,
            graph: None,
            outcomes: None,
            counted: counted.map(|(name, value)| (name.to_owned(), value)).into(),
        })
    }
}

impl Benchmark for Prepared<'_> {
    fn restore(&mut self) -> Result<()> {
        self.graph = None;
        let builder = DynamicGraph::builder().device(&self.gpu.device).kind(Kind::Undirected);
        let graph: DynamicGraph<()> = builder.degrees(&self.degrees).build()?;
        for part in self.edges.chunks(1 << 24) {
            let (sources, targets): (Vec<u32>, Vec<u32>) = part.iter().copied().unzip();
            ensure!(graph.insert(&sources, &targets)?.all_placed(), "edges were refused");
        }
        self.graph = Some(graph);
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        let graph = self.graph.as_mut().context("`restore` builds the graph")?;
        self.outcomes = Some(graph.remove_vertices(&self.removed)?);
        Ok(())
    }

    fn verify(&mut self) -> Result<Verified> {
        let graph = self.graph.as_ref().context("`restore` builds the graph")?;
        let outcomes = self.outcomes.take().context("`launch` removes the vertices")?;
        let removed = outcomes.count(Outcome::Removed);
        ensure!(removed == self.removed.len(), "{removed} of {} vertices removed", self.removed.len());
        let vertices: Vec<u32> = (0..self.rest.len() as u32).collect();
        let found = graph.degree(&vertices)?;
        let wrong = vertices.iter().find(|&&vertex| found[vertex as usize] != self.rest[vertex as usize]);
        ensure!(wrong.is_none(), "vertex {wrong:?} has a wrong number of edges");
        let (edges, expected) =
            (graph.edge_count()? as u64, self.rest.iter().map(|&d| u64::from(d)).sum::<u64>());
        ensure!(2 * edges == expected, "{edges} edges instead of {}", expected / 2);
        Ok(Verified::all(self.removed.len()))
    }

    fn operations(&self) -> u64 {
        self.removed.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let bytes = self.graph.as_ref().map_or(0, DynamicGraph::memory_usage);
        vec![Metric::TableBytes(bytes as u64), Metric::Counted(self.counted.clone())]
    }
}
