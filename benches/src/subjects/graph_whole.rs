//! Benchmarks of operations on a whole `phalanx::DynamicGraph`.
//!
//! | op | before | what is timed | operations |
//! |---|---|---|---|
//! | `bulk_build` | no edges | a bulk build of `n` edges on the device | edges |
//! | `build_from` | `n` edges in rows | a new graph with the edges of the rows, its allocation included | edges |
//! | `to_csr` | `n` edges | the copy into compressed sparse rows, whose memory is there | edges |
//! | `to_csr_new` | `n` edges | the same, with the allocation of the rows | edges |
//! | `copy_csr` | `n` edges in rows | a copy of these rows: the bound of `to_csr` | edges |
//! | `insert_copied` | half of the edges, and a snapshot | insertion of the other half | inserted edges |
//! | `insert_alone` | half of the edges | the same without a snapshot | inserted edges |
//! | `expire` | `n` edges with timestamps | removal of the older half, by age | removed edges |
//! | `remove_old` | the same | removal of the same edges by a batch | removed edges |
//! | `remove_vertices` | `degree` times `vertices` edges | removal of `n` vertices, and of their edges | vertices |
//! | `flush` | `n` edges, of which half were removed | the flush | edges that are left |
//!
//! | param | what |
//! |---|---|
//! | `vertices` | number of vertices; for `rmat` a power of two, for `grid` a square |
//! | `edges` | `uniform` (default), `rmat`, `geometric`, or `grid`, which has 1.3 edges per vertex |
//! | `degree` | edges per vertex, counted at one end |
//! | `kind` | `directed` (default), `undirected`, or `in_edges` |
//! | `removed` | `random` (default) vertices, or `hub`: only the vertex with most edges |
//!
//! Graphs have no data of edges, except for `expire` and `remove_old`. `remove_vertices` takes the ids from
//! the host and returns the outcomes, 5 bytes per vertex. `counted` has the number of edges, statistics of
//! the degrees, the number of edges that a removal of vertices removes, and the bytes per edge of a bulk
//! build.
use super::edge_batch::{EdgeBatch, degrees, draw, kind_of, named};
use super::inputs::Inputs;
use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, bail, ensure};
use gpu::Buffer;
use phalanx::graph::{Builder, Csr, Data, Kind, Snapshot};
use phalanx::{DynamicGraph, Outcome};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use workloads::edges::Edge;

/// Operations on whole graphs.
#[derive(Debug)]
pub struct Wholes<'a> {
    gpu: &'a Gpu,
    inputs: Inputs<Input>,
}

impl<'a> Wholes<'a> {
    /// Returns the operations on `gpu`.
    pub fn new(gpu: &'a Gpu) -> Self {
        Self { gpu, inputs: Inputs::default() }
    }
}

impl Structure for Wholes<'_> {
    fn name(&self) -> &'static str {
        "GraphWhole"
    }

    fn variants(&self) -> Vec<String> {
        vec!["default".to_owned()]
    }

    fn ops(&self) -> Vec<&'static str> {
        Timed::NAMES.iter().map(|&(name, _)| name).collect()
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        Ok(match Timed::of(&case.op)? {
            timed @ (Timed::Expire | Timed::RemoveOld) => Box::new(Prepared::<u64>::new(self, case, timed)?),
            timed => Box::new(Prepared::<()>::new(self, case, timed)?),
        })
    }
}

/// Timed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    BulkBuild,
    BuildFrom,
    ToCsr,
    ToCsrNew,
    CopyCsr,
    InsertCopied,
    InsertAlone,
    Expire,
    RemoveOld,
    RemoveVertices,
    Flush,
}

impl Timed {
    const NAMES: [(&'static str, Self); 11] = [
        ("bulk_build", Self::BulkBuild),
        ("build_from", Self::BuildFrom),
        ("to_csr", Self::ToCsr),
        ("to_csr_new", Self::ToCsrNew),
        ("copy_csr", Self::CopyCsr),
        ("insert_copied", Self::InsertCopied),
        ("insert_alone", Self::InsertAlone),
        ("expire", Self::Expire),
        ("remove_old", Self::RemoveOld),
        ("remove_vertices", Self::RemoveVertices),
        ("flush", Self::Flush),
    ];

    fn of(op: &str) -> Result<Self> {
        named(&Self::NAMES, op).with_context(|| format!("no operation on a whole graph is called '{op}'"))
    }

    /// Returns whether the operation leaves the graph as it was.
    fn only_reads(self) -> bool {
        matches!(self, Self::ToCsr | Self::ToCsrNew | Self::CopyCsr)
    }
}

/// The edges of a case: distinct ones, in random order, the smaller vertex first if edges are undirected.
struct Input {
    vertices: usize,
    edges: Vec<Edge>,
    /// The edges as directed ones, sorted: those of undirected graphs in both directions.
    sorted: Vec<Edge>,
    degrees: Vec<u32>,
    /// Statistics of the degrees.
    counted: BTreeMap<String, f64>,
}

impl Input {
    fn new(case: &Case, degree: f64, kind: Kind) -> Result<Self> {
        let (asked, is_undirected) = (case.number("vertices")? as u32, kind == Kind::Undirected);
        let (vertices, edges) = draw(&kind_of(case), (asked, degree), is_undirected, case.seed)?;
        let sorted = directed(&edges, is_undirected);
        let (degrees, counted) = degrees(&sorted, vertices as u32);
        Ok(Self { vertices, edges, sorted, degrees, counted })
    }

    fn largest(&self) -> u32 {
        (0..self.vertices as u32).max_by_key(|&vertex| self.degrees[vertex as usize]).unwrap_or(0)
    }

    /// Returns `many` vertices at random.
    fn some_vertices(&self, many: usize) -> Result<Vec<u32>> {
        let mut vertices: Vec<u32> = (0..self.vertices as u32).collect();
        // A multiplicative hash orders the vertices at random.
        let order = |&vertex: &u32| (u64::from(vertex) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        vertices.par_sort_unstable_by_key(order);
        vertices.truncate(many);
        ensure!(vertices.len() == many, "there are only {} vertices", self.vertices);
        Ok(vertices)
    }
}

/// Returns edges as directed ones, sorted: undirected ones in both directions.
fn directed(edges: &[Edge], is_undirected: bool) -> Vec<Edge> {
    let both = |&(a, b): &Edge| [(a, b), (b, a)].into_iter().take(1 + usize::from(is_undirected));
    let mut sorted: Vec<Edge> = edges.par_iter().flat_map_iter(both).collect();
    sorted.par_sort_unstable();
    sorted
}

/// Data of the edges of a benchmark.
trait Stamped: Data {
    /// Returns the data of edge number `number`.
    fn stamp(number: usize) -> Self;

    /// Inserts edges that are on the device.
    fn insert(gpu: &Gpu, graph: &DynamicGraph<Self>, batch: &mut Columns<Self>) -> Result<()>;

    /// Removes the edges whose number is below `before`.
    fn expire(graph: &DynamicGraph<Self>, before: usize) -> Result<usize>;

    /// Builds the graph from edges that are on the device.
    fn bulk_build(graph: &mut DynamicGraph<Self>, batch: &mut Columns<Self>) -> Result<()>;
}

/// A batch on the device, with its data.
struct Columns<E: Data> {
    edges: EdgeBatch,
    data: Buffer<E>,
}

impl Stamped for () {
    fn stamp(_: usize) {}

    fn insert(gpu: &Gpu, graph: &DynamicGraph<()>, batch: &mut Columns<()>) -> Result<()> {
        let EdgeBatch { sources, targets, outcomes } = &mut batch.edges;
        Ok(graph.on(&gpu.stream).insert(&*sources, &*targets, outcomes)?)
    }

    fn expire(_: &DynamicGraph<()>, _: usize) -> Result<usize> {
        bail!("edges without data have no age")
    }

    fn bulk_build(graph: &mut DynamicGraph<()>, batch: &mut Columns<()>) -> Result<()> {
        let EdgeBatch { sources, targets, outcomes } = &mut batch.edges;
        Ok(graph.bulk_build_on_device(&*sources, &*targets, outcomes)?)
    }
}

impl Stamped for u64 {
    fn stamp(number: usize) -> u64 {
        number as u64
    }

    fn insert(gpu: &Gpu, graph: &DynamicGraph<u64>, batch: &mut Columns<u64>) -> Result<()> {
        let EdgeBatch { sources, targets, outcomes } = &mut batch.edges;
        Ok(graph.on(&gpu.stream).insert(&*sources, &*targets, &batch.data, outcomes)?)
    }

    fn expire(graph: &DynamicGraph<u64>, before: usize) -> Result<usize> {
        Ok(graph.expire(before as u64)?)
    }

    fn bulk_build(_: &mut DynamicGraph<u64>, _: &mut Columns<u64>) -> Result<()> {
        bail!("bulk builds of edges with data take slices of the host")
    }
}

/// Prepared case.
struct Prepared<'a, E: Stamped> {
    gpu: &'a Gpu,
    timed: Timed,
    kind: Kind,
    has_in_edges: bool,
    input: Arc<Input>,
    graph: Option<DynamicGraph<E>>,
    /// The first half of the edges, and the second one.
    halves: [Columns<E>; 2],
    /// All edges, for a bulk build.
    all: Option<Columns<E>>,
    rows: Option<Csr<E>>,
    snapshot: Option<Snapshot<E>>,
    copies: Option<(Buffer<u64>, Buffer<u32>)>,
    /// The vertices that are removed.
    removed: Vec<u32>,
    outcomes: Vec<Outcome>,
    counted: BTreeMap<String, f64>,
}

impl<'a, E: Stamped> Prepared<'a, E> {
    fn new(wholes: &Wholes<'a>, case: &Case, timed: Timed) -> Result<Self> {
        let (gpu, kinds) = (wholes.gpu, [("directed", 0), ("undirected", 1), ("in_edges", 2)]);
        let kind_code = case.choice("kind", &kinds)?;
        let kind = if kind_code == 1 { Kind::Undirected } else { Kind::Directed };
        let (vertices, n) = (case.number("vertices")?, case.n as f64);
        let degree = if timed == Timed::RemoveVertices { case.number("degree")? } else { n / vertices };
        let description = format!("{} {degree} {vertices} {kind:?} {}", kind_of(case), case.seed);
        let input = wholes.inputs.get(description, || Input::new(case, degree, kind))?;
        let is_hub = case.choice("removed", &[("random", false), ("hub", true)])?;
        let removed = match timed {
            Timed::RemoveVertices if is_hub => vec![input.largest()],
            Timed::RemoveVertices => input.some_vertices(case.n as usize)?,
            _ => Vec::new(),
        };
        let columns = |first: usize, edges: &[Edge]| -> Result<Columns<E>> {
            let data: Vec<E> = (first..first + edges.len()).map(E::stamp).collect();
            Ok(Columns { edges: EdgeBatch::new(gpu, edges)?, data: gpu.device.from_slice(&data)? })
        };
        let (first, second) = input.edges.split_at(input.edges.len() / 2);
        let mut counted = input.counted.clone();
        counted.insert("edges".to_owned(), input.edges.len() as f64);
        Ok(Self {
            gpu,
            timed,
            kind,
            has_in_edges: kind_code == 2,
            graph: None,
            halves: [columns(0, first)?, columns(first.len(), second)?],
            all: if timed == Timed::BulkBuild { Some(columns(0, &input.edges)?) } else { None },
            rows: None,
            snapshot: None,
            copies: None,
            removed,
            outcomes: Vec::new(),
            counted,
            input,
        })
    }

    fn builder(&self) -> Builder<E> {
        let builder = DynamicGraph::builder().device(&self.gpu.device).kind(self.kind);
        builder.in_edges(self.has_in_edges).degrees(&self.input.degrees)
    }

    /// Inserts one of the halves of the edges, and checks the outcomes.
    fn insert(&mut self, graph: &DynamicGraph<E>, half: usize) -> Result<()> {
        E::insert(self.gpu, graph, &mut self.halves[half])?;
        all_are(&self.halves[half].edges.outcomes, Outcome::Inserted)
    }

    /// Builds the graph with the edges that it has before the operation.
    fn build(&mut self) -> Result<()> {
        (self.graph, self.rows, self.snapshot) = (None, None, None);
        let mut graph = self.builder().build()?;
        if self.timed != Timed::BulkBuild {
            // Memory for tables that the second half of the edges replaces.
            graph.reserve(self.input.edges.len())?;
            self.insert(&graph, 0)?;
        }
        match self.timed {
            Timed::BulkBuild | Timed::InsertAlone => {}
            Timed::InsertCopied => self.snapshot = Some(graph.snapshot()?),
            _ => self.insert(&graph, 1)?,
        }
        if self.timed == Timed::Flush {
            self.remove(&graph)?;
        }
        if self.timed == Timed::CopyCsr {
            let rows = graph.to_csr()?;
            let buffers = (rows.offsets().len(), rows.targets().len());
            self.copies = Some((self.gpu.device.buffer(buffers.0)?, self.gpu.device.buffer(buffers.1)?));
            self.rows = Some(rows);
        }
        if self.timed == Timed::BuildFrom {
            self.rows = Some(graph.to_csr()?);
            graph = DynamicGraph::builder().device(&self.gpu.device).vertices(1).build()?;
        }
        self.graph = Some(graph);
        Ok(())
    }

    /// Removes the first half of the edges.
    fn remove(&mut self, graph: &DynamicGraph<E>) -> Result<()> {
        let EdgeBatch { sources, targets, outcomes } = &mut self.halves[0].edges;
        Ok(graph.on(&self.gpu.stream).remove(&*sources, &*targets, outcomes)?)
    }

    fn run(&mut self, graph: &mut DynamicGraph<E>) -> Result<()> {
        match self.timed {
            Timed::BulkBuild => {
                E::bulk_build(graph, self.all.as_mut().context("the case has all edges")?)?;
            }
            Timed::BuildFrom => {
                let rows = self.rows.as_ref().context("`restore` makes the rows")?;
                *graph = DynamicGraph::builder().in_edges(self.has_in_edges).build_from(rows)?;
            }
            Timed::ToCsr => graph.to_csr_into(self.rows.as_mut().context("`restore` makes the rows")?)?,
            Timed::ToCsrNew => self.rows = Some(graph.to_csr()?),
            Timed::CopyCsr => {
                let (Some(rows), Some((offsets, targets))) = (&self.rows, &mut self.copies) else {
                    bail!("`restore` makes the rows");
                };
                offsets.copy_from(rows.offsets())?;
                targets.copy_from(rows.targets())?;
                self.gpu.device.synchronize()?;
            }
            Timed::InsertCopied | Timed::InsertAlone => E::insert(self.gpu, graph, &mut self.halves[1])?,
            Timed::Expire => {
                let half = self.input.edges.len() / 2;
                let removed = E::expire(graph, half)?;
                ensure!(removed == half, "{removed} edges have expired instead of {half}");
            }
            Timed::RemoveOld => self.remove(graph)?,
            Timed::RemoveVertices => {
                self.outcomes = graph.remove_vertices(&self.removed)?.iter().copied().collect();
            }
            Timed::Flush => graph.flush()?,
        }
        Ok(())
    }

    /// Returns the edges that the graph has after the operation, as directed ones, sorted.
    fn expected(&self) -> Vec<Edge> {
        match self.timed {
            Timed::Expire | Timed::RemoveOld | Timed::Flush => {
                let edges = &self.input.edges;
                directed(&edges[edges.len() / 2..], self.kind == Kind::Undirected)
            }
            Timed::RemoveVertices => {
                let mut is_removed = vec![false; self.input.vertices];
                self.removed.iter().for_each(|&vertex| is_removed[vertex as usize] = true);
                let is_left = |edge: &Edge| !is_removed[edge.0 as usize] && !is_removed[edge.1 as usize];
                self.input.sorted.par_iter().copied().filter(is_left).collect()
            }
            _ => self.input.sorted.clone(),
        }
    }

    /// Checks rows against the edges that the graph has.
    fn check(&self, rows: &Csr<E>, expected: &[Edge]) -> Result<()> {
        let rows = rows.read()?;
        ensure!(
            rows.targets.len() == expected.len(),
            "{} targets instead of {}",
            rows.targets.len(),
            expected.len()
        );
        let row = |vertex: usize| {
            let mut row =
                rows.targets[rows.offsets[vertex] as usize..rows.offsets[vertex + 1] as usize].to_vec();
            row.sort_unstable();
            row.into_iter().map(move |target| (vertex as u32, target))
        };
        let found: Vec<Edge> = (0..self.input.vertices).into_par_iter().flat_map_iter(row).collect();
        let wrong = found.par_iter().zip(expected).find_any(|(found, expected)| found != expected);
        ensure!(wrong.is_none(), "an edge, and the one expected there: {wrong:?}");
        Ok(())
    }
}

/// Checks that all outcomes are the same.
fn all_are(outcomes: &Buffer<u8>, expected: Outcome) -> Result<()> {
    let codes = outcomes.read()?;
    let other = codes.par_iter().position_any(|&code| code != expected as u8);
    ensure!(other.is_none(), "the outcome of element {other:?} is not {expected:?}");
    Ok(())
}

impl<E: Stamped> Benchmark for Prepared<'_, E> {
    fn restore(&mut self) -> Result<()> {
        if !self.timed.only_reads() || self.graph.is_none() {
            self.build()?;
        }
        if let (Timed::ToCsr, Some(graph)) = (self.timed, &self.graph) {
            let rows = self.rows.take().map_or_else(|| graph.to_csr(), Ok)?;
            // SAFETY: nothing uses the rows meanwhile.
            unsafe { self.gpu.stream.fill(rows.targets().global(), 0xff)? };
            self.rows = Some(rows);
        }
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        let mut graph = self.graph.take().context("`restore` builds the graph")?;
        self.run(&mut graph)?;
        self.graph = Some(graph);
        Ok(())
    }

    fn verify(&mut self) -> Result<Verified> {
        let graph = self.graph.as_ref().context("`restore` builds the graph")?;
        match self.timed {
            Timed::BulkBuild => {
                all_are(
                    &self.all.as_ref().context("the case has all edges")?.edges.outcomes,
                    Outcome::Inserted,
                )?;
            }
            Timed::InsertCopied | Timed::InsertAlone => {
                all_are(&self.halves[1].edges.outcomes, Outcome::Inserted)?;
            }
            Timed::RemoveOld => all_are(&self.halves[0].edges.outcomes, Outcome::Removed)?,
            Timed::RemoveVertices => {
                let is_right = |outcome: &Outcome| *outcome == Outcome::Removed;
                ensure!(self.outcomes.iter().all(is_right), "a vertex was not removed");
            }
            _ => {}
        }
        let expected = self.expected();
        match (&self.rows, &self.copies) {
            (Some(rows), Some((offsets, targets))) => {
                ensure!(offsets.read()? == rows.offsets().read()?, "other offsets");
                ensure!(targets.read()? == rows.targets().read()?, "other targets");
            }
            (Some(rows), None) if self.timed.only_reads() => self.check(rows, &expected)?,
            _ => self.check(&graph.to_csr()?, &expected)?,
        }
        if self.timed == Timed::RemoveVertices {
            let halves = 1 + usize::from(self.kind == Kind::Undirected);
            let removed = (self.input.sorted.len() - expected.len()) / halves;
            self.counted.insert("removed_edges".to_owned(), removed as f64);
        }
        if self.timed == Timed::BulkBuild {
            let each = graph.memory_usage() as f64 / self.input.edges.len().max(1) as f64;
            self.counted.insert("bytes_per_edge".to_owned(), each);
        }
        Ok(Verified::all(self.operations() as usize))
    }

    fn operations(&self) -> u64 {
        let edges = self.input.edges.len();
        let operations = match self.timed {
            Timed::BulkBuild | Timed::BuildFrom => edges,
            Timed::ToCsr | Timed::ToCsrNew | Timed::CopyCsr => edges,
            Timed::Expire | Timed::RemoveOld => edges / 2,
            Timed::InsertCopied | Timed::InsertAlone | Timed::Flush => edges - edges / 2,
            Timed::RemoveVertices => self.removed.len(),
        };
        operations as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let bytes = self.graph.as_ref().map_or(0, DynamicGraph::memory_usage);
        vec![Metric::TableBytes(bytes as u64), Metric::Counted(self.counted.clone())]
    }
}
