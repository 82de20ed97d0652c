//! Benchmarks of batches on `phalanx::DynamicGraph` and on the baseline `phalanx::graph::CsrMerge`: directed
//! graphs without data of edges, batches on device buffers.
//!
//! | op | before | what is timed |
//! |---|---|---|
//! | `insert` | `base` edges | insertion of `n` edges |
//! | `remove` | `base` edges, and `n` others | removal of the others |
//! | `has_edge` | the same, only in a graph | lookups of the others |
//!
//! | param | what |
//! |---|---|
//! | `on` | `graph` (default) or `csr_merge` |
//! | `vertices` | number of vertices, for `rmat` a power of two |
//! | `base` | number of edges before; for `rmat`, with repetitions |
//! | `edges` | `uniform` (default): all distinct; `rmat`: edges repeat; `grid`, `geometric`: both halves of undirected edges |
//! | `drawn` | the batch: `alike` (default), except for `grid` and `geometric`; or `random`, distinct pairs of vertices |
//! | `hubs`, `every` | each `every`-th edge of the batch begins at one of so many vertices |
//! | `hub_degree` | number of neighbours of each of these vertices before |
//!
//! `counted` has statistics of the degrees before the batch. After a repetition the batch is undone, and a
//! graph is flushed.
use super::edge_batch::{EdgeBatch, both_halves, degrees, kind_of, named};
use super::inputs::Inputs;
use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, bail, ensure};
use phalanx::graph::{CsrMerge, Kind};
use phalanx::{DynamicGraph, Outcome};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use workloads::edges::{Edge, add_hubs, rmat, uniform};

/// Batches on both structures.
#[derive(Debug)]
pub struct Merges<'a> {
    gpu: &'a Gpu,
    /// Edges before the batches, sorted and distinct.
    bases: Inputs<Vec<Edge>>,
}

impl<'a> Merges<'a> {
    /// Returns the batches on `gpu`.
    pub fn new(gpu: &'a Gpu) -> Self {
        Self { gpu, bases: Inputs::default() }
    }
}

impl Structure for Merges<'_> {
    fn name(&self) -> &'static str {
        "GraphBatches"
    }

    fn variants(&self) -> Vec<String> {
        vec!["default".to_owned()]
    }

    fn ops(&self) -> Vec<&'static str> {
        Timed::NAMES.iter().map(|&(name, _)| name).collect()
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        Ok(Box::new(Prepared::new(self, case)?))
    }
}

/// Timed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    Insert,
    Remove,
    HasEdge,
}

impl Timed {
    const NAMES: [(&'static str, Self); 3] =
        [("insert", Self::Insert), ("remove", Self::Remove), ("has_edge", Self::HasEdge)];
}

/// One of the structures.
enum Subject {
    Graph(DynamicGraph<()>),
    Rows(CsrMerge<()>),
}

impl Subject {
    fn insert(&mut self, gpu: &Gpu, batch: &mut EdgeBatch) -> Result<()> {
        let EdgeBatch { sources, targets, outcomes } = batch;
        match self {
            Self::Graph(graph) => graph.on(&gpu.stream).insert(&*sources, &*targets, outcomes)?,
            Self::Rows(rows) => rows.insert_on_device(&*sources, &*targets, outcomes)?,
        }
        Ok(())
    }

    fn remove(&mut self, gpu: &Gpu, batch: &mut EdgeBatch) -> Result<()> {
        let EdgeBatch { sources, targets, outcomes } = batch;
        match self {
            Self::Graph(graph) => graph.on(&gpu.stream).remove(&*sources, &*targets, outcomes)?,
            Self::Rows(rows) => rows.remove_on_device(&*sources, &*targets, outcomes)?,
        }
        Ok(())
    }

    /// Drops the slots of removed edges, which rows do not have.
    fn flush(&mut self) -> Result<()> {
        match self {
            Self::Graph(graph) => Ok(graph.flush()?),
            Self::Rows(_) => Ok(()),
        }
    }

    fn has_edge(&mut self, gpu: &Gpu, batch: &mut EdgeBatch) -> Result<()> {
        let EdgeBatch { sources, targets, outcomes } = batch;
        match self {
            Self::Graph(graph) => Ok(graph.on(&gpu.stream).has_edge(&*sources, &*targets, outcomes)?),
            Self::Rows(_) => bail!("merged rows have no lookups by batches"),
        }
    }
}

/// Returns the edges before the batches: sorted, distinct.
fn base_of(case: &Case, hubs: (u32, u32)) -> Result<Vec<Edge>> {
    let (vertices, count) = (case.number("vertices")? as u32, case.number("base")? as usize);
    let mut base = match kind_of(case).as_str() {
        "uniform" => uniform(vertices, (0, count), case.seed)?,
        "rmat" => rmat(vertices.ilog2(), count, case.seed),
        kind => both_halves(kind, vertices, count, case.seed)?,
    };
    // The neighbours of hubs are the vertices with the largest ids; batches add those with the smallest.
    base.extend((0..hubs.0).flat_map(|hub| (vertices - hubs.1..vertices).map(move |target| (hub, target))));
    base.par_sort_unstable();
    base.dedup();
    Ok(base)
}

/// Prepared case.
struct Prepared<'a> {
    gpu: &'a Gpu,
    timed: Timed,
    on_rows: bool,
    vertices: usize,
    base: Arc<Vec<Edge>>,
    batch: Vec<Edge>,
    /// Edges of the batch that are not among the others, sorted.
    new: Vec<Edge>,
    /// The batch, and its new edges.
    columns: [EdgeBatch; 2],
    subject: Option<Subject>,
    /// Whether the new edges are in the graph.
    is_inserted: bool,
    counted: BTreeMap<String, f64>,
}

impl<'a> Prepared<'a> {
    fn new(merges: &Merges<'a>, case: &Case) -> Result<Self> {
        let (vertices, count) = (case.number("vertices")? as u32, case.number("base")? as usize);
        let (gpu, n, kind) = (merges.gpu, case.n as usize, kind_of(case));
        let timed =
            named(&Timed::NAMES, &case.op).with_context(|| format!("no batch is called '{}'", case.op))?;
        let is_random = case.choice("drawn", &[("alike", false), ("random", true)])?;
        let number = |name| Ok::<_, anyhow::Error>(case.number_if_given(name)?.unwrap_or(0.0) as u32);
        let hubs = (number("hubs")?, number("hub_degree")?.min(vertices));
        let description = format!("{kind} {vertices} {count} {hubs:?} {}", case.seed);
        let base = merges.bases.get(description, || base_of(case, hubs))?;
        let mut drawn = match kind.as_str() {
            "rmat" if !is_random => rmat(vertices.ilog2(), n, case.seed + 1),
            "uniform" => uniform(vertices, (count, n), case.seed)?,
            _ => uniform(vertices, (0, n), case.seed + 1)?,
        };
        if hubs.0 > 0 {
            add_hubs(&mut drawn, (case.number("every")? as usize, hubs.0));
        }
        let is_new = |edge: &Edge| edge.0 != edge.1 && base.binary_search(edge).is_err();
        let mut new: Vec<Edge> = drawn.par_iter().copied().filter(is_new).collect();
        new.par_sort_unstable();
        new.dedup();
        let batch = if timed == Timed::Insert { drawn } else { new.clone() };
        let columns = [EdgeBatch::new(gpu, &batch)?, EdgeBatch::new(gpu, &new)?];
        let on_rows = case.choice("on", &[("graph", false), ("csr_merge", true)])?;
        let (counted, vertices) = (degrees(&base, vertices).1, vertices as usize);
        Ok(Self {
            gpu,
            counted,
            timed,
            on_rows,
            vertices,
            base,
            batch,
            new,
            columns,
            subject: None,
            is_inserted: false,
        })
    }

    /// Builds the structure with the edges before.
    fn build(&self) -> Result<Subject> {
        let device = &self.gpu.device;
        let mut subject = match self.on_rows {
            true => Subject::Rows(CsrMerge::new(device, self.vertices, Kind::Directed)?),
            false => {
                let mut degrees = vec![0; self.vertices];
                let all = self.base.iter().chain(&self.new);
                all.for_each(|edge| degrees[edge.0 as usize] += 1);
                let mut graph = DynamicGraph::builder().device(device).degrees(&degrees).build()?;
                // Memory for tables that replace others: batches in streams allocate none.
                graph.reserve(self.new.len())?;
                Subject::Graph(graph)
            }
        };
        // In parts, so that the batch's memory is not that of all edges.
        for part in self.base.chunks(1 << 26) {
            subject.insert(self.gpu, &mut EdgeBatch::new(self.gpu, part)?)?;
            self.gpu.device.synchronize()?;
        }
        Ok(subject)
    }

    fn edge_count(&self) -> Result<usize> {
        Ok(match self.subject.as_ref().context("`restore` builds the graph")? {
            Subject::Graph(graph) => graph.edge_count()?,
            Subject::Rows(rows) => rows.edge_count(),
        })
    }

    /// Checks that of equal edges exactly one has the outcome of new edges, if the edge is new, and that the
    /// others have the outcomes of edges without a change.
    fn check_outcomes(&self) -> Result<()> {
        let (changed, other) = match self.timed {
            Timed::Remove => (Outcome::Removed, Outcome::Absent),
            Timed::Insert => (Outcome::Inserted, Outcome::Found),
            Timed::HasEdge => (Outcome::Found, Outcome::Absent),
        };
        self.columns[0].check(&self.batch, |edge, equal| {
            if edge.0 == edge.1 {
                return equal.of(Outcome::Refused) == equal.all();
            }
            let expected = usize::from(self.new.binary_search(&edge).is_ok());
            equal.of(changed) == expected && equal.of(other) == equal.all() - expected
        })?;
        Ok(())
    }
}

impl Benchmark for Prepared<'_> {
    fn restore(&mut self) -> Result<()> {
        let mut subject = match self.subject.take() {
            Some(subject) => subject,
            None => self.build()?,
        };
        let needs_batch = self.timed != Timed::Insert;
        if self.is_inserted && !needs_batch {
            subject.remove(self.gpu, &mut self.columns[1])?;
            subject.flush()?;
        } else if !self.is_inserted && needs_batch {
            subject.flush()?;
            subject.insert(self.gpu, &mut self.columns[1])?;
        }
        self.is_inserted = needs_batch;
        self.subject = Some(subject);
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        let mut subject = self.subject.take().context("`restore` builds the graph")?;
        match self.timed {
            Timed::Insert => subject.insert(self.gpu, &mut self.columns[0])?,
            Timed::Remove => subject.remove(self.gpu, &mut self.columns[0])?,
            Timed::HasEdge => subject.has_edge(self.gpu, &mut self.columns[0])?,
        }
        if let Subject::Rows(rows) = &subject {
            rows.stream().synchronize()?;
        }
        self.is_inserted = self.timed != Timed::Remove;
        self.subject = Some(subject);
        Ok(())
    }

    fn verify(&mut self) -> Result<Verified> {
        self.check_outcomes()?;
        let loops = self.base.iter().filter(|edge| edge.0 == edge.1).count();
        let expected = self.base.len() - loops + if self.is_inserted { self.new.len() } else { 0 };
        let edges = self.edge_count()?;
        ensure!(edges == expected, "{edges} edges instead of {expected}");
        Ok(Verified { compared: self.batch.len() as u64, succeeded: self.new.len() as u64 })
    }

    fn operations(&self) -> u64 {
        self.batch.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let bytes = match &self.subject {
            Some(Subject::Graph(graph)) => graph.memory_usage(),
            Some(Subject::Rows(rows)) => rows.memory_usage(),
            None => 0,
        };
        vec![Metric::TableBytes(bytes as u64), Metric::Counted(self.counted.clone())]
    }
}
