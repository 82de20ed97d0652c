//! Edges of stand-ins for data sets, batches of edges on the device, and the check of their outcomes.
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use gpu::Buffer;
use phalanx::Outcome;
use rayon::prelude::*;
use std::collections::BTreeMap;
use workloads::edges::{Edge, geometric, grid, rmat, uniform};

/// Returns the value with a name.
pub fn named<T: Copy>(names: &[(&str, T)], name: &str) -> Option<T> {
    names.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// Returns the kind of the edges of a case; `uniform` by default.
pub fn kind_of(case: &Case) -> String {
    case.params.get("edges").map_or_else(|| "uniform".to_owned(), ToString::to_string)
}

/// Share of the edges of a grid that are there.
const GRID_SHARE: f64 = 0.65;

/// Draws the edges of a graph of about `n` vertices: `uniform`, `rmat`, `grid` (a stand-in for networks of
/// roads) or `geometric` (one for triangulations and random geometric graphs). `degree` is the number of
/// edges per vertex, counted at one end; a grid has 1.3. Returns the number of vertices, and distinct edges
/// between different vertices, in random order; those of `undirected` graphs with the smaller vertex first.
///
/// # Errors
/// Returns [`anyhow::Error`] for another kind, or more uniform edges than there are pairs.
pub fn draw(kind: &str, (n, degree): (u32, f64), undirected: bool, seed: u64) -> Result<(usize, Vec<Edge>)> {
    let (side, count) = (n.isqrt(), (f64::from(n) * degree) as usize);
    let (vertices, drawn) = match kind {
        "uniform" => (n, uniform(n, (0, count), seed)?),
        "rmat" => (1 << n.ilog2(), rmat(n.ilog2(), count, seed)),
        "grid" => (side * side, grid((side, side), GRID_SHARE, seed)),
        "geometric" => (n, geometric(n, 2.0 * degree, seed)),
        other => anyhow::bail!("edges are 'uniform', 'rmat', 'grid' or 'geometric', not '{other}'"),
    };
    let turned = |(a, b): Edge| if undirected { (a.min(b), a.max(b)) } else { (a, b) };
    let mut edges: Vec<Edge> = drawn.into_par_iter().filter(|(a, b)| a != b).map(turned).collect();
    edges.par_sort_unstable();
    edges.dedup();
    shuffle(&mut edges);
    Ok((vertices as usize, edges))
}

/// Draws undirected edges: see [`draw`].
///
/// # Errors
/// As [`draw`].
pub fn stand_in(kind: &str, n: u32, degree: f64, seed: u64) -> Result<(usize, Vec<Edge>)> {
    draw(kind, (n, degree), true, seed)
}

/// Draws `n` directed edges of a grid or a geometric graph of `vertices` vertices: both halves of each edge,
/// in random order.
///
/// # Errors
/// Returns [`anyhow::Error`] if the graph has fewer edges; otherwise as [`stand_in`].
pub fn both_halves(kind: &str, vertices: u32, n: usize, seed: u64) -> Result<Vec<Edge>> {
    // A few more than needed, since the number is random.
    let mut degree = n as f64 / 2.0 / f64::from(vertices) * 1.05 + 0.1;
    let mut edges = stand_in(kind, vertices, degree, seed)?.1;
    // Points at the border of a square have fewer neighbours, which matters in small graphs.
    while edges.len() < n / 2 && kind == "geometric" && degree < f64::from(vertices) {
        degree *= 1.3;
        edges = stand_in(kind, vertices, degree, seed)?.1;
    }
    ensure!(edges.len() >= n / 2, "the {kind} graph has only {} halves of edges", 2 * edges.len());
    edges.truncate(n / 2);
    let mut halves: Vec<Edge> = edges.into_par_iter().flat_map_iter(|(a, b)| [(a, b), (b, a)]).collect();
    shuffle(&mut halves);
    Ok(halves)
}

/// Orders edges at random, and alike in every run: by a multiplicative hash.
fn shuffle(edges: &mut [Edge]) {
    let order = |&(a, b): &Edge| (u64::from(a) << 32 | u64::from(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    edges.par_sort_unstable_by_key(order);
}

/// Returns the number of edges of each source, and statistics.
pub fn degrees(edges: &[Edge], vertices: u32) -> (Vec<u32>, BTreeMap<String, f64>) {
    let mut degrees = vec![0; vertices as usize];
    edges.iter().for_each(|(source, _)| degrees[*source as usize] += 1);
    let most = degrees.iter().max().copied().unwrap_or_default();
    let without = degrees.iter().filter(|&&degree| degree == 0).count();
    let share = |many: usize| many as f64 / f64::from(vertices.max(1));
    let counted = [
        ("largest_degree", f64::from(most)),
        ("average_degree", share(edges.len())),
        ("without_edges", share(without)),
    ];
    (degrees, counted.map(|(name, value)| (name.to_owned(), value)).into())
}

/// Edges on the device, and memory for their outcomes.
pub struct EdgeBatch {
    /// Sources, one per edge.
    pub sources: Buffer<u32>,
    /// Targets.
    pub targets: Buffer<u32>,
    /// Codes of the outcomes.
    pub outcomes: Buffer<u8>,
}

impl EdgeBatch {
    /// Copies edges to the device.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the device lacks memory.
    pub fn new(gpu: &Gpu, edges: &[Edge]) -> Result<Self> {
        let column = |of: fn(&Edge) -> u32| {
            let words: Vec<u32> = edges.par_iter().map(of).collect();
            gpu.device.from_slice(&words)
        };
        let (sources, targets) = (column(|edge| edge.0)?, column(|edge| edge.1)?);
        Ok(Self { sources, targets, outcomes: gpu.device.zeroed(edges.len())? })
    }

    /// Checks that the outcomes of equal edges satisfy `is_right`. Returns all edges with their outcomes.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] with an edge and its outcomes when they are wrong.
    pub fn check(
        &self,
        edges: &[Edge],
        is_right: impl Fn(Edge, EqualEdges<'_>) -> bool + Sync,
    ) -> Result<Vec<(Edge, u8)>> {
        let outcomes = self.outcomes.read()?;
        let mut results: Vec<(Edge, u8)> =
            edges.par_iter().copied().zip(outcomes.par_iter().copied()).collect();
        results.par_sort_unstable();
        let wrong = results
            .par_chunk_by(|left, right| left.0 == right.0)
            .find_any(|equal| !is_right(equal[0].0, EqualEdges(equal)))
            .map(|equal| (equal[0].0, equal.iter().map(|(_, code)| *code).collect::<Vec<_>>()));
        ensure!(wrong.is_none(), "outcomes of an edge: {wrong:?}");
        Ok(results)
    }
}

/// The elements of a batch with one edge.
#[derive(Clone, Copy)]
pub struct EqualEdges<'a>(&'a [(Edge, u8)]);

impl EqualEdges<'_> {
    /// Returns the number of elements.
    pub fn all(self) -> usize {
        self.0.len()
    }

    /// Returns the number of elements with an outcome.
    pub fn of(self, outcome: Outcome) -> usize {
        self.0.iter().filter(|(_, code)| *code == outcome as u8).count()
    }
}
