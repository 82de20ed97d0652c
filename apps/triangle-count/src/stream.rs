//! The graph, and the number of its triangles after each batch.
use crate::edges::{Edge, Ids};
use anyhow::{Result, ensure};
use phalanx::graph::Kind;
use phalanx::graph::algorithms::{Triangles, triangles};
use phalanx::{Device, DynamicGraph, Outcome};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// State after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchState {
    /// Number of edges that were read so far, repeated ones included.
    pub read: u64,
    /// Number of edges of the graph.
    pub edges: u64,
    /// Number of its triangles.
    pub triangles: u64,
    /// Time of the batch on the device, copies included.
    pub time: Duration,
}

/// A graph whose number of triangles is kept.
#[derive(Debug)]
pub struct Counter {
    graph: DynamicGraph<()>,
    triangles: Triangles,
    /// Edges of the graph, oldest first, if there is a window.
    window: VecDeque<Edge>,
    /// Maximum number of edges of the graph.
    most: usize,
    read: u64,
    edges: u64,
}

impl Counter {
    /// Creates a graph without edges, of which the newest `window` edges stay, or all.
    ///
    /// # Errors
    /// Returns [`phalanx::Error`] when the device lacks the memory.
    pub fn new(device: &Device, window: Option<usize>) -> Result<Self> {
        let graph = DynamicGraph::builder().device(device).vertices(1).kind(Kind::Undirected).build()?;
        let (triangles, most) = (Triangles::of(&graph)?, window.unwrap_or(usize::MAX));
        Ok(Self { graph, triangles, window: VecDeque::new(), most, read: 0, edges: 0 })
    }

    /// Inserts a batch of edges between the vertices of `ids`, and removes the oldest edges beyond the
    /// window.
    ///
    /// # Errors
    /// Returns [`phalanx::Error`] when the device is lost or lacks the memory.
    pub fn add(&mut self, batch: &[Edge], ids: &Ids) -> Result<BatchState> {
        let start = Instant::now();
        if ids.len() > self.graph.vertices() {
            // Half as many more, so that few copies are made.
            let more = ids.len() + ids.len() / 2 - self.graph.vertices();
            self.graph.insert_vertices(more)?;
        }
        let (sources, targets): (Vec<u32>, Vec<u32>) = batch.iter().copied().unzip();
        let outcomes = self.graph.insert(&sources, &targets)?;
        self.triangles.inserted(&self.graph, &sources, &targets, &outcomes)?;
        let new = batch.iter().zip(outcomes.iter()).filter(|(_, outcome)| **outcome == Outcome::Inserted);
        if self.most < usize::MAX {
            self.window.extend(new.map(|(&edge, _)| edge));
            self.edges = self.window.len() as u64;
        } else {
            self.edges += new.count() as u64;
        }
        self.shrink()?;
        self.read += batch.len() as u64;
        let (read, edges) = (self.read, self.edges);
        Ok(BatchState { read, edges, triangles: self.triangles.count(), time: start.elapsed() })
    }

    /// Removes the oldest edges beyond the window.
    fn shrink(&mut self) -> Result<()> {
        let many = self.window.len().saturating_sub(self.most);
        if many == 0 {
            return Ok(());
        }
        let (sources, targets): (Vec<u32>, Vec<u32>) = self.window.drain(..many).unzip();
        self.triangles.removing(&self.graph, &sources, &targets)?;
        let removed = self.graph.remove(&sources, &targets)?.count(Outcome::Removed);
        ensure!(removed == many, "{removed} of {many} edges were removed");
        self.edges = self.window.len() as u64;
        Ok(())
    }

    /// Counts the triangles of the whole graph anew, and compares. Returns the time that it took.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the numbers differ, and [`phalanx::Error`] when the device is lost or
    /// lacks the memory.
    pub fn check(&self) -> Result<Duration> {
        let start = Instant::now();
        let (kept, counted) = (self.triangles.count(), triangles(&self.graph)?);
        ensure!(kept == counted, "{kept} triangles were kept, but the graph has {counted}");
        let edges = self.graph.edge_count()? as u64;
        ensure!(edges == self.edges, "{} edges were kept, but the graph has {edges}", self.edges);
        Ok(start.elapsed())
    }
}
