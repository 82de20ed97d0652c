//! Benchmarks of `phalanx::DynamicGraph` without data of edges, directed, with batches on device buffers.
//!
//! | op | before | what is timed |
//! |---|---|---|
//! | `insert` | no edges | insertion of `n` edges |
//! | `has_edge` | `n` edges | lookups of these |
//! | `has_edge_missed` | `n` edges | lookups of `n` other pairs of vertices |
//! | `remove` | `n` edges | removal of half of them |
//!
//! | param | what |
//! |---|---|
//! | `vertices` | number of vertices, for `rmat` a power of two |
//! | `edges` | `uniform` (default): all distinct; `rmat`: edges repeat; `grid`, `geometric`: both halves of undirected edges, so the degree is `n` / `vertices` |
//! | `order` | of the batch: `random` (default), or `sorted` by source |
//! | `hubs`, `every` | each `every`-th edge begins at one of so many vertices |
//! | `preallocated` | 1: tables are allocated for the degrees of the graph; by default memory for `n` edges that are spread uniformly, and vertices grow in the batch |
//! | `batch` | edges in a batch of `insert`; by default all. With it, `preallocated` memory is that of 2.5 times the edges, since tables are replaced |
//! | `load_factor` | of tables: see `Builder::load_factor` |
//!
//! `counted` has the largest degree, the average one, and the share of vertices without edges; for `insert`
//! with a `load_factor` also the average number of slabs in the chain of a bucket, and the share of the slots
//! of these slabs that have edges.
use super::edge_batch::{EdgeBatch, both_halves, degrees, kind_of, named};
use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, ensure};
use phalanx::kernels::graph::RECORD_SLOTS;
use phalanx::{DynamicGraph, Outcome};
use rayon::prelude::*;
use std::collections::BTreeMap;
use workloads::edges::{Edge, add_hubs, rmat, uniform};

/// Edges in a slab, without data.
const SLAB_SLOTS: u32 = 30;

/// Variants of dynamic graphs.
#[derive(Debug)]
pub struct Graphs<'a>(pub &'a Gpu);

impl Structure for Graphs<'_> {
    fn name(&self) -> &'static str {
        "DynamicGraph"
    }

    fn variants(&self) -> Vec<String> {
        vec!["default".to_owned()]
    }

    fn ops(&self) -> Vec<&'static str> {
        Timed::NAMES.iter().map(|&(name, _)| name).collect()
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        Ok(Box::new(Prepared::new(self.0, case)?))
    }
}

/// Timed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    Insert,
    HasEdge,
    HasEdgeMissed,
    Remove,
}

impl Timed {
    const NAMES: [(&'static str, Self); 4] = [
        ("insert", Self::Insert),
        ("has_edge", Self::HasEdge),
        ("has_edge_missed", Self::HasEdgeMissed),
        ("remove", Self::Remove),
    ];

    fn of(op: &str) -> Result<Self> {
        named(&Self::NAMES, op).with_context(|| format!("no operation of a graph is called '{op}'"))
    }
}

/// A batch of edges.
struct Batch {
    edges: Vec<Edge>,
    columns: EdgeBatch,
}

impl Batch {
    fn new(gpu: &Gpu, edges: Vec<Edge>) -> Result<Self> {
        Ok(Self { columns: EdgeBatch::new(gpu, &edges)?, edges })
    }

    /// Inserts all edges, in batches of `most`.
    fn insert(&mut self, gpu: &Gpu, graph: &DynamicGraph<()>, most: usize) -> Result<()> {
        let EdgeBatch { sources, targets, outcomes } = &mut self.columns;
        let (mut first, len, batches) = (0, sources.len(), graph.on(&gpu.stream));
        while first < len {
            let range = first..len.min(first.saturating_add(most));
            let (from, to) = (sources.slice(range.clone())?, targets.slice(range.clone())?);
            first = range.end;
            batches.insert(from, to, outcomes.slice_mut(range)?)?;
        }
        Ok(())
    }

    /// Lets the graph allocate its workspace for the batch, of which no element is executed.
    fn announce(&mut self, gpu: &Gpu, graph: &DynamicGraph<()>) -> Result<()> {
        let none = gpu.device.zeroed::<u32>(1)?;
        let EdgeBatch { sources, targets, outcomes } = &mut self.columns;
        Ok(graph.on(&gpu.stream).insert(sources.bounded_by(&none)?, &*targets, outcomes)?)
    }

    /// Checks that of equal edges exactly one has the outcome `first`, all others `other`, and those from a
    /// vertex to itself `loops`.
    fn verify(&self, [first, other, loops]: [Outcome; 3]) -> Result<Verified> {
        let results = self.columns.check(&self.edges, |(source, target), equal| match source == target {
            true => equal.of(loops) == equal.all(),
            false => equal.of(first) == 1 && equal.of(first) + equal.of(other) == equal.all(),
        })?;
        let succeeded = results.par_iter().filter(|(_, code)| *code == first as u8).count() as u64;
        Ok(Verified { compared: results.len() as u64, succeeded })
    }

    /// Checks that all outcomes are the same, but for edges from a vertex to itself, which are absent.
    fn verify_lookups(&self, expected: Outcome) -> Result<Verified> {
        let outcomes = self.columns.outcomes.read()?;
        let of = |(source, target): Edge| if source == target { Outcome::Absent } else { expected };
        let mut results = self.edges.iter().zip(&outcomes);
        let wrong = results.find(|(edge, code)| **code != of(**edge) as u8);
        ensure!(wrong.is_none(), "the outcome of an edge: {wrong:?}");
        Ok(Verified::all(self.edges.len()))
    }
}

/// Prepared case.
struct Prepared<'a> {
    gpu: &'a Gpu,
    timed: Timed,
    graph: Option<DynamicGraph<()>>,
    vertices: usize,
    /// Expected degrees, if memory is allocated for them.
    degrees: Vec<u32>,
    /// Edges in a batch of an insertion.
    batch: usize,
    load_factor: Option<f64>,
    /// The edges of the graph.
    all: Batch,
    /// Those that are removed, or other ones that are looked up.
    some: Option<Batch>,
    counted: BTreeMap<String, f64>,
}

impl<'a> Prepared<'a> {
    fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let (timed, n, vertices) = (Timed::of(&case.op)?, case.n as usize, case.number("vertices")? as u32);
        let kind = kind_of(case);
        let is_sorted = case.choice("order", &[("random", false), ("sorted", true)])?;
        let draw = |first: usize| -> Result<Vec<Edge>> {
            let mut edges = match kind.as_str() {
                "rmat" => rmat(vertices.ilog2(), n, case.seed + first as u64),
                "grid" | "geometric" if first == 0 => both_halves(&kind, vertices, n, case.seed)?,
                _ => uniform(vertices, (first, n), case.seed)?,
            };
            if let (Some(hubs), 0) = (case.number_if_given("hubs")?, first) {
                add_hubs(&mut edges, (case.number("every")? as usize, hubs as u32));
            }
            if is_sorted {
                edges.par_sort_by_key(|edge| edge.0);
            }
            Ok(edges)
        };
        let edges = draw(0)?;
        let some = match timed {
            Timed::Insert | Timed::HasEdge => None,
            Timed::HasEdgeMissed => Some(Batch::new(gpu, absent(draw(n)?, &edges))?),
            Timed::Remove => Some(Batch::new(gpu, half(&edges))?),
        };
        let (mut degrees, counted) = degrees(&edges, vertices);
        let batch = case.number_if_given("batch")?;
        if batch.is_some() {
            // Room for the tables that larger ones replace, too.
            degrees.iter_mut().for_each(|degree| *degree = *degree * 5 / 2);
        }
        let is_allocated = case.number_if_given("preallocated")?.unwrap_or(0.0) > 0.0;
        Ok(Self {
            gpu,
            timed,
            graph: None,
            vertices: vertices as usize,
            degrees: if is_allocated { degrees } else { Vec::new() },
            batch: batch.map_or(usize::MAX, |batch| batch as usize).max(1),
            load_factor: case.number_if_given("load_factor")?,
            all: Batch::new(gpu, edges)?,
            some,
            counted,
        })
    }

    fn graph(&self) -> Result<&DynamicGraph<()>> {
        self.graph.as_ref().context("`restore` builds the graph")
    }

    /// Builds a graph without edges.
    fn build(&mut self) -> Result<()> {
        self.graph = None;
        let builder = DynamicGraph::builder().device(&self.gpu.device).vertices(self.vertices);
        let builder = match self.degrees.is_empty() {
            true => builder.edges(self.all.edges.len()),
            false => builder.degrees(&self.degrees),
        };
        let builder = match self.load_factor {
            Some(load) => builder.load_factor(load),
            None => builder,
        };
        let graph = builder.build()?;
        self.all.announce(self.gpu, &graph)?;
        self.graph = Some(graph);
        Ok(self.gpu.stream.synchronize()?)
    }

    /// Returns the average number of slabs in the chain of a bucket, and the share of their slots with edges.
    fn chains(&self) -> Result<[(String, f64); 2]> {
        let (graph, small) = (self.graph()?, (RECORD_SLOTS + SLAB_SLOTS) as usize);
        let (degrees, stats) =
            (graph.degree(&(0..self.vertices as u32).collect::<Vec<_>>())?, graph.stats()?);
        let (large, rest): (Vec<usize>, Vec<usize>) =
            degrees.iter().map(|&degree| degree as usize).partition(|&degree| degree > small);
        // Small vertices have a slab each for what does not fit the record.
        let behind = rest.iter().filter(|&&degree| degree > RECORD_SLOTS as usize).count();
        let slabs = (stats.table_slabs + stats.slabs).saturating_sub(behind) as f64;
        let edges = large.iter().sum::<usize>() as f64;
        Ok([
            ("chain".to_owned(), slabs / stats.table_slabs.max(1) as f64),
            ("utilisation".to_owned(), edges / (slabs * f64::from(SLAB_SLOTS)).max(1.0)),
        ])
    }

    /// Builds the graph with all edges.
    fn fill(&mut self) -> Result<()> {
        self.build()?;
        let graph = self.graph.take().context("it is built")?;
        self.all.insert(self.gpu, &graph, usize::MAX)?;
        self.all.verify([Outcome::Inserted, Outcome::Found, Outcome::Refused])?;
        self.graph = Some(graph);
        Ok(())
    }
}

/// Returns each second edge.
fn half(edges: &[Edge]) -> Vec<Edge> {
    edges.iter().copied().step_by(2).collect()
}

/// Returns the edges that are not among `present`, and as many of them again as are.
fn absent(drawn: Vec<Edge>, present: &[Edge]) -> Vec<Edge> {
    let mut sorted = present.to_vec();
    sorted.par_sort_unstable();
    let len = drawn.len();
    let kept: Vec<Edge> = drawn.into_par_iter().filter(|edge| sorted.binary_search(edge).is_err()).collect();
    kept.iter().copied().cycle().take(if kept.is_empty() { 0 } else { len }).collect()
}

impl Benchmark for Prepared<'_> {
    fn restore(&mut self) -> Result<()> {
        match (self.timed, &self.graph) {
            (Timed::Insert, _) => self.build(),
            (Timed::Remove, _) | (_, None) => self.fill(),
            _ => Ok(()),
        }
    }

    fn launch(&mut self) -> Result<()> {
        let graph = self.graph.take().context("`restore` builds the graph")?;
        if self.timed == Timed::Insert {
            self.all.insert(self.gpu, &graph, self.batch)?;
        } else {
            let batch = self.some.as_mut().unwrap_or(&mut self.all);
            let EdgeBatch { sources, targets, outcomes } = &mut batch.columns;
            let batches = graph.on(&self.gpu.stream);
            match self.timed {
                Timed::Remove => batches.remove(&*sources, &*targets, outcomes)?,
                _ => batches.has_edge(&*sources, &*targets, outcomes)?,
            }
        }
        self.graph = Some(graph);
        Ok(())
    }

    fn verify(&mut self) -> Result<Verified> {
        let (edges, batch) = (self.graph()?.edge_count()?, self.some.as_ref().unwrap_or(&self.all));
        match self.timed {
            Timed::Insert => {
                let verified = batch.verify([Outcome::Inserted, Outcome::Found, Outcome::Refused])?;
                let expected = verified.succeeded as usize;
                ensure!(edges == expected, "{edges} edges instead of {expected}");
                if self.load_factor.is_some() {
                    let chains = self.chains()?;
                    self.counted.extend(chains);
                }
                Ok(verified)
            }
            Timed::HasEdge => batch.verify_lookups(Outcome::Found),
            Timed::HasEdgeMissed => batch.verify_lookups(Outcome::Absent),
            Timed::Remove => batch.verify([Outcome::Removed, Outcome::Absent, Outcome::Absent]),
        }
    }

    fn operations(&self) -> u64 {
        self.some.as_ref().unwrap_or(&self.all).edges.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let bytes = self.graph.as_ref().map_or(0, DynamicGraph::memory_usage);
        vec![Metric::TableBytes(bytes as u64), Metric::Counted(self.counted.clone())]
    }
}
