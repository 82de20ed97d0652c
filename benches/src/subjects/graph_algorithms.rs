//! Benchmarks of `phalanx::graph::algorithms`, on a graph without data of edges and on compressed sparse
//! rows.
//!
//! | op | what is timed | operations |
//! |---|---|---|
//! | `bfs` | a search from the vertex with most edges | edges |
//! | `components` | connected components | edges |
//! | `page_rank` | ten iterations | ten times the edges |
//! | `triangles` | number of triangles | edges |
//! | `components_kept` | components after an insertion of `share` of the edges | these edges |
//! | `triangles_kept` | triangles after an insertion of `share` of the edges | these edges |
//! | `insert_and_count` | the number of triangles, and `rounds` - 1 times an insertion of `share` of the edges and the number anew | the edges that are counted |
//!
//! The three last ones run on the graph only; their batches are in device buffers. Times include the
//! allocation of temporary memory; results stay on the device until they are verified.
//!
//! | param | what |
//! |---|---|
//! | `edges` | `uniform` (default), `rmat`, `grid`, `geometric` |
//! | `degree` | edges per vertex, counted at one end, for `uniform`, `rmat` and `geometric`; default 16 |
//! | `on` | `graph` (default), `csr` (that of the graph), or `csr_merge` (sorted rows) |
//! | `replaced` | 1: half of the edges are removed, and others inserted, before; default 0 |
//! | `share` | share of the edges in a batch, default 0.01 |
//! | `rounds` | number of counts, default 5 |
//! | `load_factor` | of tables: see `Builder::load_factor` |
//!
//! `n` is the number of vertices. Graphs are undirected. `counted` has the number of edges, the largest and
//! the average degree, and for `bfs` the number of levels. All results are compared with those of the host,
//! but triangles above 2^23 edges with those of the algorithm for batches, of all edges at once.
use super::edge_batch::{EdgeBatch, kind_of, named, stand_in};
use super::inputs::Inputs;
use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, ensure};
use phalanx::DynamicGraph;
use phalanx::graph::algorithms::{
    Adjacent, Components, Distances, PageRank, Ranks, Triangles, bfs, page_rank, triangles,
};
use phalanx::graph::{Csr, CsrMerge, Kind};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use workloads::edges::Edge;

/// Number of iterations of PageRank.
const ITERATIONS: u32 = 10;

/// Number of edges up to which the host counts triangles.
const MOST_ON_HOST: usize = 1 << 23;

/// Algorithms on graphs.
#[derive(Debug)]
pub struct Algorithms<'a> {
    gpu: &'a Gpu,
    inputs: Inputs<Input>,
}

impl<'a> Algorithms<'a> {
    /// Returns the algorithms on `gpu`.
    pub fn new(gpu: &'a Gpu) -> Self {
        Self { gpu, inputs: Inputs::default() }
    }
}

/// The edges of a case, and what the host has computed of them.
struct Input {
    vertices: usize,
    /// The edges, in random order.
    edges: Vec<Edge>,
    lists: Lists,
    /// Right results.
    expected: Inputs<Expected>,
}

impl Input {
    fn new(case: &Case, degree: f64) -> Result<Self> {
        let (vertices, edges) = stand_in(&kind_of(case), case.n as u32, degree, case.seed)?;
        Ok(Self { vertices, lists: Lists::new(vertices, &edges), edges, expected: Inputs::default() })
    }
}

impl Structure for Algorithms<'_> {
    fn name(&self) -> &'static str {
        "GraphAlgorithms"
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

/// Timed algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    Bfs,
    Components,
    PageRank,
    Triangles,
    ComponentsKept,
    TrianglesKept,
    InsertAndCount,
}

impl Timed {
    const NAMES: [(&'static str, Self); 7] = [
        ("bfs", Self::Bfs),
        ("components", Self::Components),
        ("page_rank", Self::PageRank),
        ("triangles", Self::Triangles),
        ("components_kept", Self::ComponentsKept),
        ("triangles_kept", Self::TrianglesKept),
        ("insert_and_count", Self::InsertAndCount),
    ];

    fn of(op: &str) -> Result<Self> {
        named(&Self::NAMES, op).with_context(|| format!("no algorithm is called '{op}'"))
    }

    fn is_kept(self) -> bool {
        matches!(self, Self::ComponentsKept | Self::TrianglesKept)
    }
}

/// Neighbours of all vertices on the host.
struct Lists {
    offsets: Vec<usize>,
    targets: Vec<u32>,
}

impl Lists {
    fn new(vertices: usize, edges: &[Edge]) -> Self {
        let mut halves: Vec<Edge> = edges.par_iter().flat_map_iter(|&(a, b)| [(a, b), (b, a)]).collect();
        halves.par_sort_unstable();
        let mut offsets = vec![0; vertices + 1];
        halves.iter().for_each(|&(source, _)| offsets[source as usize + 1] += 1);
        (0..vertices).for_each(|vertex| offsets[vertex + 1] += offsets[vertex]);
        Self { offsets, targets: halves.into_par_iter().map(|half| half.1).collect() }
    }

    fn vertices(&self) -> usize {
        self.offsets.len() - 1
    }

    fn of(&self, vertex: u32) -> &[u32] {
        &self.targets[self.offsets[vertex as usize]..self.offsets[vertex as usize + 1]]
    }

    fn degree(&self, vertex: u32) -> usize {
        self.of(vertex).len()
    }

    /// Returns the vertex with most edges.
    fn largest(&self) -> u32 {
        (0..self.vertices() as u32).max_by_key(|&vertex| self.degree(vertex)).unwrap_or(0)
    }

    fn distances(&self, source: u32) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.vertices()];
        let (mut level, mut distance) = (vec![source], 0);
        distances[source as usize] = 0;
        while !level.is_empty() {
            distance += 1;
            let mut next = Vec::new();
            for &target in level.iter().flat_map(|&vertex| self.of(vertex)) {
                if distances[target as usize] == u32::MAX {
                    distances[target as usize] = distance;
                    next.push(target);
                }
            }
            level = next;
        }
        distances
    }

    /// Returns the smallest vertex of each component.
    fn components(&self) -> Vec<u32> {
        let mut labels = vec![u32::MAX; self.vertices()];
        for first in 0..self.vertices() as u32 {
            let mut open = if labels[first as usize] == u32::MAX { vec![first] } else { vec![] };
            while let Some(vertex) = open.pop() {
                if labels[vertex as usize] == u32::MAX {
                    labels[vertex as usize] = first;
                    open.extend(
                        self.of(vertex).iter().filter(|&&target| labels[target as usize] == u32::MAX),
                    );
                }
            }
        }
        labels
    }

    /// Returns the ranks after [`ITERATIONS`] iterations.
    fn ranks(&self, damping: f64) -> Vec<f64> {
        let count = self.vertices() as f64;
        let mut ranks = vec![1.0 / count; self.vertices()];
        for _ in 0..ITERATIONS {
            let share = |vertex: u32| ranks[vertex as usize] / self.degree(vertex) as f64;
            let without = |vertex: &u32| self.degree(*vertex) == 0;
            let lost: f64 = (0..self.vertices() as u32)
                .into_par_iter()
                .filter(without)
                .map(|vertex| ranks[vertex as usize])
                .sum();
            let base = (1.0 - damping + damping * lost) / count;
            let rank = |vertex: u32| {
                base + damping * self.of(vertex).iter().map(|&target| share(target)).sum::<f64>()
            };
            ranks = (0..self.vertices() as u32).into_par_iter().map(rank).collect();
        }
        ranks
    }

    /// Returns the number of triangles: for each edge the common neighbours of its ends that come later.
    fn triangles(&self) -> u64 {
        let is_later = |a: u32, b: u32| (self.degree(a), a) < (self.degree(b), b);
        let later: Vec<Vec<u32>> = (0..self.vertices() as u32)
            .into_par_iter()
            .map(|vertex| self.of(vertex).iter().copied().filter(|&to| is_later(vertex, to)).collect())
            .collect();
        let of = |row: &Vec<u32>| {
            let common = |target: &u32| common(row, &later[*target as usize]);
            row.iter().map(common).sum::<u64>()
        };
        later.par_iter().map(of).sum()
    }
}

/// Returns the number of equal elements of two sorted rows.
fn common(mut one: &[u32], mut other: &[u32]) -> u64 {
    let mut found = 0;
    while let ([first, rest @ ..], [second, others @ ..]) = (one, other) {
        found += u64::from(first == second);
        if first <= second {
            one = rest;
        }
        if second <= first {
            other = others;
        }
    }
    found
}

/// Result of an algorithm.
enum Found {
    Distances(Distances),
    Components(Components),
    Ranks(Ranks),
    Count(u64),
    Counts(Vec<u64>),
}

impl Found {
    /// Returns an error unless the result is the right one.
    fn check(&self, expected: &Expected) -> Result<()> {
        match (self, expected) {
            (Self::Distances(found), Expected::Labels(expected)) => {
                same(&found.distances().read()?, expected)
            }
            (Self::Components(found), Expected::Labels(expected)) => same(&found.read()?, expected),
            (Self::Ranks(found), Expected::Ranks(expected)) => {
                let found = found.read()?;
                let pairs = found.par_iter().zip(expected);
                let difference: f64 =
                    pairs.map(|(&found, expected)| (f64::from(found) - expected).abs()).sum();
                ensure!(difference < 1e-5, "ranks differ by {difference} in all");
                Ok(())
            }
            (Self::Count(found), Expected::Count(expected)) => {
                ensure!(found == expected, "{found} triangles instead of {expected}");
                Ok(())
            }
            (Self::Counts(found), Expected::Counts(expected)) => {
                ensure!(found == expected, "{found:?} triangles instead of {expected:?}");
                Ok(())
            }
            _ => anyhow::bail!("a result of another algorithm"),
        }
    }
}

/// Result of an algorithm on the host.
enum Expected {
    Labels(Vec<u32>),
    Ranks(Vec<f64>),
    Count(u64),
    Counts(Vec<u64>),
}

/// A graph, or its rows.
enum Subject {
    Graph(Box<DynamicGraph<()>>),
    Rows(Box<Csr<()>>),
    Sorted(Box<CsrMerge<()>>),
}

/// Kind of subject.
#[derive(Clone, Copy)]
enum On {
    Graph,
    Rows,
    SortedRows,
}

/// Prepared case.
struct Prepared<'a> {
    gpu: &'a Gpu,
    timed: Timed,
    input: Arc<Input>,
    /// Number of edges that the graph has at first; the others are inserted after the first result.
    kept: usize,
    /// Number of edges in a batch.
    batch: usize,
    /// Batches of the rounds, on the device.
    batches: Vec<EdgeBatch>,
    load_factor: Option<f64>,
    is_replaced: bool,
    on: On,
    subject: Option<Subject>,
    source: u32,
    /// The components before the batch.
    components: Option<Components>,
    /// The kept number of triangles.
    count: Option<Triangles>,
    found: Option<Found>,
    counted: BTreeMap<String, f64>,
    operations: u64,
}

fn columns(edges: &[Edge]) -> (Vec<u32>, Vec<u32>) {
    edges.iter().copied().unzip()
}

impl<'a> Prepared<'a> {
    fn new(algorithms: &Algorithms<'a>, case: &Case) -> Result<Self> {
        let timed = Timed::of(&case.op)?;
        let degree = case.number_if_given("degree")?.unwrap_or(16.0);
        let description = format!("{} {} {degree} {}", kind_of(case), case.n, case.seed);
        let input = algorithms.inputs.get(description, || Input::new(case, degree))?;
        let edges = input.edges.len();
        let batch = edges as f64 * case.number_if_given("share")?.unwrap_or(0.01);
        let source = input.lists.largest();
        let rounds = case.number_if_given("rounds")?.unwrap_or(5.0).max(1.0) as usize;
        let many = match timed {
            Timed::InsertAndCount => rounds - 1,
            _ => usize::from(timed.is_kept()),
        };
        let batch = (batch as usize).max(1).min(edges / many.max(1));
        let kept = edges - many * batch;
        let counted = [
            ("edges", edges as f64),
            ("largest_degree", input.lists.degree(source) as f64),
            ("average_degree", 2.0 * edges as f64 / input.vertices.max(1) as f64),
        ];
        Ok(Self {
            gpu: algorithms.gpu,
            timed,
            kept,
            batch,
            batches: Vec::new(),
            load_factor: case.number_if_given("load_factor")?,
            is_replaced: case.number_if_given("replaced")?.unwrap_or(0.0) > 0.0,
            on: case
                .choice("on", &[("graph", On::Graph), ("csr", On::Rows), ("csr_merge", On::SortedRows)])?,
            subject: None,
            source,
            components: None,
            count: None,
            found: None,
            counted: counted.map(|(name, value)| (name.to_owned(), value)).into(),
            operations: match timed {
                Timed::InsertAndCount => (0..=many).map(|round| kept + round * batch).sum::<usize>() as u64,
                _ => (edges - if timed.is_kept() { kept } else { 0 }) as u64,
            },
            input,
        })
    }

    fn builder(&self) -> phalanx::graph::Builder<()> {
        let (edges, mut degrees) = (&self.input.edges, vec![0; self.input.vertices]);
        edges.iter().for_each(|&(a, b)| [a, b].into_iter().for_each(|end| degrees[end as usize] += 1));
        let builder = DynamicGraph::builder().device(&self.gpu.device).degrees(&degrees);
        let builder = builder.kind(Kind::Undirected);
        self.load_factor.into_iter().fold(builder, |builder, load| builder.load_factor(load))
    }

    /// Builds the graph, without the edges of the batch.
    fn build(&mut self) -> Result<()> {
        self.subject = None;
        let graph = self.builder().build()?;
        let (first, last) = self.input.edges[..self.kept].split_at(self.kept / 2);
        if self.is_replaced {
            // Other edges take the place of the second half first.
            let others: Vec<Edge> =
                last.iter().map(|&(a, b)| (a, (b + 1) % self.input.vertices as u32)).collect();
            insert(&graph, &[first, &others].concat())?;
            let mut kept = first.to_vec();
            kept.par_sort_unstable();
            let is_other = |&&(a, b): &&Edge| kept.binary_search(&(a.min(b), a.max(b))).is_err();
            let (sources, targets) = columns(&others.iter().filter(is_other).copied().collect::<Vec<_>>());
            let removed = graph.remove(&sources, &targets)?.len();
            ensure!(removed == sources.len(), "a removal has {removed} outcomes");
        } else {
            insert(&graph, first)?;
        }
        insert(&graph, last)?;
        let edges = graph.edge_count()?;
        ensure!(edges == self.kept, "the graph has {edges} edges instead of {}", self.kept);
        self.subject = Some(match self.on {
            On::Graph => Subject::Graph(Box::new(graph)),
            On::Rows => Subject::Rows(Box::new(graph.to_csr()?)),
            On::SortedRows => Subject::Sorted(Box::new(merged(&graph)?)),
        });
        Ok(())
    }

    /// Runs an algorithm on a whole graph.
    fn run(&mut self, graph: &impl Adjacent) -> Result<Found> {
        Ok(match self.timed {
            Timed::Bfs => {
                let found = bfs(graph, &[self.source])?;
                self.counted.insert("levels".to_owned(), f64::from(found.depth()));
                Found::Distances(found)
            }
            Timed::Components => Found::Components(Components::of(graph)?),
            Timed::PageRank => {
                let parameters = PageRank { tolerance: 0.0, iterations: ITERATIONS, ..PageRank::default() };
                Found::Ranks(page_rank(graph, &parameters)?)
            }
            _ => Found::Count(triangles(graph)?),
        })
    }

    /// Counts the triangles, then inserts each batch and counts them anew.
    fn run_rounds(&mut self, graph: &DynamicGraph<()>) -> Result<Found> {
        let mut counts = vec![triangles(graph)?];
        for EdgeBatch { sources, targets, outcomes } in &mut self.batches {
            graph.on(&self.gpu.stream).insert(&*sources, &*targets, outcomes)?;
            counts.push(triangles(graph)?);
        }
        Ok(Found::Counts(counts))
    }

    /// Updates the result after a batch.
    fn update(&mut self, graph: &DynamicGraph<()>) -> Result<Found> {
        let EdgeBatch { sources, targets, outcomes } =
            self.batches.first().context("`restore` inserts the batch")?;
        if self.timed == Timed::TrianglesKept {
            let mut count = self.count.take().context("`restore` counts the triangles")?;
            count.inserted_slices(graph, sources, targets, outcomes)?;
            let found = count.count();
            // Kept: freeing its memory is no part of an update.
            self.count = Some(count);
            return Ok(Found::Count(found));
        }
        let mut components = self.components.take().context("`restore` computes the components")?;
        components.insert_slices(sources, targets, outcomes)?;
        Ok(Found::Components(components))
    }

    /// Computes the result before the batch, and inserts it.
    fn begin(&mut self) -> Result<()> {
        self.build()?;
        let Some(Subject::Graph(graph)) = &self.subject else {
            anyhow::bail!("results are kept for a graph, not for rows");
        };
        let mut batch = EdgeBatch::new(self.gpu, &self.input.edges[self.kept..])?;
        if self.timed == Timed::TrianglesKept {
            let mut count = Triangles::of(&**graph)?;
            // The edges are not there yet. Afterwards the memory of a batch is, as after any other batch.
            count.removing_slices(&**graph, &batch.sources, &batch.targets)?;
            self.count = Some(count);
        } else {
            self.components = Some(Components::of(&**graph)?);
        }
        graph.on(&self.gpu.stream).insert(&batch.sources, &batch.targets, &mut batch.outcomes)?;
        self.batches = vec![batch];
        Ok(())
    }

    /// Computes the right result.
    fn expected(&self) -> Result<Expected> {
        let lists = &self.input.lists;
        Ok(match self.timed {
            Timed::Bfs => Expected::Labels(lists.distances(self.source)),
            Timed::Components | Timed::ComponentsKept => Expected::Labels(lists.components()),
            Timed::PageRank => Expected::Ranks(lists.ranks(f64::from(PageRank::default().damping))),
            Timed::InsertAndCount => {
                let edges = &self.input.edges;
                let ends = (self.kept..=edges.len()).step_by(self.batch);
                Expected::Counts(ends.map(|end| self.count(&edges[..end])).collect::<Result<_>>()?)
            }
            _ => Expected::Count(self.count(&self.input.edges)?),
        })
    }

    /// Counts the triangles of some of the edges: on the host or, if they are many, as those of a batch.
    fn count(&self, edges: &[Edge]) -> Result<u64> {
        if edges.len() <= MOST_ON_HOST {
            return Ok(Lists::new(self.input.vertices, edges).triangles());
        }
        let graph = self.builder().build()?;
        let mut count = Triangles::of(&graph)?;
        let (sources, targets) = columns(edges);
        let outcomes = graph.insert(&sources, &targets)?;
        count.inserted(&graph, &sources, &targets, &outcomes)?;
        Ok(count.count())
    }
}

/// Inserts edges, of which some may be there.
fn insert(graph: &DynamicGraph<()>, edges: &[Edge]) -> Result<()> {
    let (sources, targets) = columns(edges);
    let refused = graph.insert(&sources, &targets)?.refused();
    ensure!(refused == 0, "the graph refuses {refused} edges");
    Ok(())
}

/// Returns sorted rows with the edges of an undirected graph.
fn merged(graph: &DynamicGraph<()>) -> Result<CsrMerge<()>> {
    let rows = graph.to_csr()?.read()?;
    let mut merged = CsrMerge::<()>::new(graph.device(), graph.vertices(), Kind::Undirected)?;
    let edges = (0..graph.vertices() as u32)
        .flat_map(|vertex| rows.of(vertex).iter().map(move |&target| (vertex, target)));
    let (sources, targets): (Vec<u32>, Vec<u32>) = edges.filter(|edge| edge.0 < edge.1).unzip();
    let refused = merged.insert(&sources, &targets)?.refused();
    ensure!(refused == 0, "sorted rows refuse {refused} edges");
    Ok(merged)
}

impl Benchmark for Prepared<'_> {
    fn restore(&mut self) -> Result<()> {
        if self.timed.is_kept() {
            self.begin()?;
        } else if self.timed == Timed::InsertAndCount {
            self.build()?;
            let batches = self.input.edges[self.kept..].chunks(self.batch);
            self.batches = batches.map(|edges| EdgeBatch::new(self.gpu, edges)).collect::<Result<_>>()?;
        } else if self.subject.is_none() {
            self.build()?;
        }
        Ok(self.gpu.stream.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        let subject = self.subject.take().context("`restore` builds the graph")?;
        let found = match &subject {
            Subject::Graph(graph) if self.timed.is_kept() => self.update(graph)?,
            Subject::Graph(graph) if self.timed == Timed::InsertAndCount => self.run_rounds(graph)?,
            Subject::Graph(graph) => self.run(&**graph)?,
            Subject::Rows(rows) => self.run(&**rows)?,
            Subject::Sorted(rows) => self.run(&**rows)?,
        };
        (self.found, self.subject) = (Some(found), Some(subject));
        Ok(())
    }

    fn verify(&mut self) -> Result<Verified> {
        let found = self.found.take().context("`launch` computes a result")?;
        let of = match self.timed {
            Timed::ComponentsKept => Timed::Components,
            Timed::TrianglesKept => Timed::Triangles,
            timed => timed,
        };
        let batches = if of == Timed::InsertAndCount { (self.kept, self.batch) } else { (0, 0) };
        let expected = self.input.expected.get(format!("{of:?} {batches:?}"), || self.expected())?;
        found.check(&expected)?;
        Ok(Verified::all(self.operations() as usize))
    }

    fn operations(&self) -> u64 {
        let times = if self.timed == Timed::PageRank { u64::from(ITERATIONS) } else { 1 };
        times * self.operations
    }

    fn metrics(&self) -> Vec<Metric> {
        let bytes = match &self.subject {
            Some(Subject::Graph(graph)) => graph.memory_usage(),
            Some(Subject::Rows(rows)) => rows.offsets().byte_len() + 4 * rows.targets().len(),
            Some(Subject::Sorted(rows)) => rows.memory_usage(),
            None => 0,
        };
        vec![Metric::TableBytes(bytes as u64), Metric::Counted(self.counted.clone())]
    }
}

/// Checks that all labels are right.
fn same(found: &[u32], expected: &[u32]) -> Result<()> {
    let wrong = found.iter().zip(expected).enumerate().find(|(_, (found, expected))| found != expected);
    ensure!(wrong.is_none() && found.len() == expected.len(), "vertex, label, expected: {wrong:?}");
    Ok(())
}
