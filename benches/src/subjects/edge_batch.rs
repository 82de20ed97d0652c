//! Batches of edges on the device, and the check of their outcomes.
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use gpu::Buffer;
use phalanx::Outcome;
use rayon::prelude::*;
use workloads::edges::Edge;

/// Returns the value with a name.
pub fn named<T: Copy>(names: &[(&str, T)], name: &str) -> Option<T> {
    names.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
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
