//! A graph that changes while it is queried: [`DynamicGraph`].
pub mod algorithms;
mod batches;
mod builder;
mod csr;
mod csr_merge;
mod data;
mod file;
mod from_csr;
mod growth;
mod host;
mod inspect;
mod kernels;
pub mod load;
mod memory;
mod neighbors;
mod order;
mod vertex_index;
mod whole;

use crate::map::counts::Counts;
use crate::map::handle::Handle;
#[allow(unused_imports)] // for links in the documentation
use crate::{Error, Outcome};
use crate::{Outcomes, Result};
pub use batches::Batches;
pub use builder::Builder;
pub use csr::{Csr, Rows, Snapshot};
pub use csr_merge::CsrMerge;
pub use data::{Data, Weight};
use gpu::{Device, Stream};
use kernels::{Kernels, Side};
use memory::Memory;
pub use neighbors::Neighbors;
use order::Order;
use phalanx_kernels::graph::{Config, GraphView};
use simt::Instance;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
pub use vertex_index::VertexIndex;

/// Whether edges have a direction.
///
/// ```
/// use phalanx::DynamicGraph;
/// use phalanx::graph::Kind;
///
/// let graph = DynamicGraph::<()>::builder().vertices(3).kind(Kind::Undirected).build()?;
/// assert!(graph.insert(&[0], &[1])?.all_placed());
/// assert_eq!(graph.has_edge(&[0, 1], &[1, 0])?, [true, true]);
/// # Ok::<(), phalanx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Edges have a source and a target.
    Directed,
    /// Edges have two endpoints. Both store the edge.
    Undirected,
}

/// Memory of a graph besides the records, in slabs of 128 bytes. See [`DynamicGraph::stats`].
///
/// ```
/// use phalanx::DynamicGraph;
///
/// let graph = DynamicGraph::<()>::builder().vertices(100).slabs(32).table_slabs(10).build()?;
/// assert!(graph.insert(&[0; 99], &(1..100).collect::<Vec<_>>())?.all_placed());
/// let stats = graph.stats()?; // one vertex with a table of six slabs
/// assert_eq!((stats.slabs, stats.slab_capacity), (0, 32));
/// assert_eq!((stats.table_slabs, stats.table_capacity), (6, 10));
/// # Ok::<(), phalanx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Single slabs in use: those of small vertices, and those behind full buckets of tables.
    pub slabs: usize,
    /// Single slabs, free ones included.
    pub slab_capacity: usize,
    /// Slabs that are in tables, or were in tables that are kept for vertices of the same size.
    pub table_slabs: usize,
    /// Slabs for tables, free ones included.
    pub table_capacity: usize,
}

/// A graph in device memory whose edges are inserted and removed in batches. Each vertex has a hash table of
/// its neighbours, which grows with it. `E` is the data of an edge: `()`, a weight (`u32` or `f32`) or a
/// timestamp (`u64`).
///
/// Vertices have the ids 0 to [`vertices`](Self::vertices) - 1. A pair of vertices has at most one edge,
/// unless [`Builder::parallel_edges`] is set. The page `docs/structures/dynamic-graph.md` describes layout,
/// proofs and costs.
///
/// ```
/// use phalanx::{DynamicGraph, Outcome};
///
/// let graph = DynamicGraph::<f32>::builder().vertices(1000).build()?;
/// let outcomes = graph.insert(&[1, 2, 5, 7], &[2, 3, 5, 1], &[0.5, 1.0, 9.0, 2.0])?;
/// assert_eq!(outcomes[2], Outcome::Refused); // a self-edge
/// assert_eq!(graph.has_edge(&[2, 3], &[3, 2])?, [true, false]);
/// assert_eq!(graph.weight(&[1], &[2])?, [Some(0.5)]);
/// assert_eq!(graph.remove(&[2, 2], &[3, 4])?, [Outcome::Removed, Outcome::Absent]);
/// assert_eq!((graph.edge_count()?, graph.degree(&[1, 2])?), (2, vec![1, 0]));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::DynamicGraph;
///
/// let mut graph = DynamicGraph::<()>::builder().vertices(100).table_slabs(2).build()?;
/// let targets: Vec<u32> = (1..100).collect();
/// assert!(graph.insert(&[0; 99], &targets)?.all_placed()); // the memory grows
/// let mut found = graph.neighbors(&[0, 1])?;
/// found.sort();
/// assert_eq!((found.of(0), found.of(1)), (&targets[..], &[][..]));
/// graph.reserve(1000)?;
/// graph.validate()?;
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// Batches of several streams and host threads may be submitted at any time. Those that change the graph run
/// one after the other, in the order of their submission. Lookups run concurrently with them, except while
/// vertices grow. Streams wait for each other by events; the host does not wait. In an undirected graph the
/// half at the vertex with the smaller id determines whether an edge is present.
///
/// # Cost
///
/// An edge of a small vertex is in the vertex's record: a lookup reads one sector of 32 bytes without data,
/// two with a weight, four with a timestamp. Other lookups read a slab of 128 bytes more. An insertion and a
/// removal execute a compare-and-swap in addition; in an undirected graph twice. Calls:
///
/// | call | cost |
/// |---|---|
/// | `insert`, `upsert` | copies of the elements and outcomes; per chunk a fill of 16 bytes and five launches, of which four end at once if no vertex grows; one more in an undirected graph; reads 32 bytes |
/// | `remove`, `has_edge`, `weight` | the copies; a launch per chunk |
/// | `degree` | the copies; a launch |
/// | `neighbors` | as `degree`; then a launch and a copy of the edges |
/// | `stats` | waits for the device; one launch reads the bitmaps |
/// | `edge_count` | waits for the device; copies 8 KiB |
/// | `reserve` | waits; allocates slabs and, if there are too few for tables, a larger arena, into which the old one is copied |
/// | `validate` | waits; launches that read the whole graph and compare the edges of each chain with each other |
/// | `view` | O(1) on the host; no launch |
pub struct DynamicGraph<E: Data> {
    handle: Handle<&'static dyn Kernels<E::Bits>, Memory>,
    order: Mutex<Order>,
    kind: Kind,
    /// Whether blocking calls allocate no memory.
    is_fixed: bool,
    /// Number of elements from which on a thread inserts eight consecutive ones.
    large_batch: usize,
    /// Number of changes before the last snapshot, and its edges.
    last_snapshot: Mutex<(u64, Weak<Csr<E>>)>,
    of: PhantomData<fn() -> E>,
}

impl<E: Data> std::fmt::Debug for DynamicGraph<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DynamicGraph")
            .field("vertices", &self.vertices())
            .field("kind", &self.kind)
            .field("variant", &self.variant())
            .field("device", &self.device().name())
            .finish_non_exhaustive()
    }
}

/// Construction and properties.
impl<E: Data> DynamicGraph<E> {
    /// Returns a builder to set the parameters.
    pub fn builder() -> Builder<E> {
        Builder::default()
    }

    /// Returns the device that holds the graph.
    pub fn device(&self) -> &Device {
        &self.handle.device
    }

    /// Returns the name of the graph's variant.
    pub fn variant(&self) -> &str {
        self.handle.kernels().variant().name
    }

    /// Returns whether edges have a direction.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns whether the graph is directed and stores each edge also at its target: see
    /// [`Builder::in_edges`].
    pub fn has_in_edges(&self) -> bool {
        self.handle.read().flags.has_in_edges()
    }

    /// Returns the number of ids of vertices, those of removed ones included.
    pub fn vertices(&self) -> usize {
        self.handle.read().vertices as usize
    }

    /// Returns the number of edges. Waits for all earlier launches, and is then exact. An edge of an
    /// undirected graph counts once.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn edge_count(&self) -> Result<usize> {
        Ok(Counts::read(&self.handle.settled()?.counters)?.live)
    }

    /// Returns the use of slabs. Waits for all earlier launches.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn stats(&self) -> Result<Stats> {
        let memory = self.handle.settled()?;
        let pool = memory.pool.stats()?;
        Ok(Stats {
            slabs: pool.live,
            slab_capacity: pool.capacity,
            table_slabs: memory.used_tables()?,
            table_capacity: memory.tables(),
        })
    }

    /// Returns the bytes of device memory that the graph holds between calls.
    pub fn memory_usage(&self) -> usize {
        let memory = self.handle.read().memory_usage();
        let order = self.order();
        memory + order.workspace.memory_usage() + order.rows.as_ref().map_or(0, |space| space.memory_usage())
    }

    /// Returns batches on device buffers, which are submitted to `stream`.
    pub fn on(&self, stream: &Stream) -> Batches<'_, E> {
        Batches::new(self, stream)
    }

    /// Returns a view of the graph for your own kernels. `M` is the type of the variant that
    /// [`Self::variant`] names. In a kernel, [`GraphView::apply`] inserts, removes and looks up edges, and
    /// [`GraphView::for_each_neighbor`] iterates.
    ///
    /// # Errors
    /// [`Error::OtherVariant`] if the graph is of another variant.
    ///
    /// # Safety
    /// The view does not keep the graph alive, nor its memory at its address:
    /// - From this call until the end of the last kernel that takes the view, nothing may replace or move the
    ///   memory: no thread may submit a batch that inserts, nor call a method that takes `&mut self`.
    /// - Those kernels must run on the graph's device, and end before the graph is dropped.
    /// - They must change the graph only through [`GraphView::apply`], and must not insert and remove edges
    ///   at the same time if each is stored at both ends.
    pub unsafe fn view<M: Config<Data = E::Bits> + Instance>(&self) -> Result<GraphView<M>> {
        self.handle.kernels().variant().check::<M>()?;
        // SAFETY: of this variant; the caller keeps the memory.
        Ok(unsafe { self.handle.read().view() })
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Operations on host slices. The calls block until the results are there.
impl<E: Data> DynamicGraph<E> {
    /// Removes edges. Outcomes: `Removed`, `Absent`.
    ///
    /// ```
    /// use phalanx::{DynamicGraph, Outcome};
    ///
    /// let graph = DynamicGraph::<()>::builder().vertices(3).build()?;
    /// assert!(graph.insert(&[0], &[1])?.all_placed());
    /// assert_eq!(graph.remove(&[0, 0], &[1, 2])?, [Outcome::Removed, Outcome::Absent]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`] if the slices differ in length; [`Error::Device`] if the device is lost or lacks the
    /// memory.
    #[doc(alias = "erase")]
    pub fn remove(&self, sources: &[u32], targets: &[u32]) -> Result<Outcomes> {
        self.remove_edges(sources, targets)
    }

    /// Returns for each pair of vertices whether it has an edge. Pairs with a vertex that does not exist have
    /// none.
    ///
    /// ```
    /// use phalanx::DynamicGraph;
    ///
    /// let graph = DynamicGraph::<()>::builder().vertices(3).build()?;
    /// assert!(graph.insert(&[0], &[1])?.all_placed());
    /// assert_eq!(graph.has_edge(&[0, 1, 9], &[1, 0, 1])?, [true, false, false]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::remove`].
    #[doc(alias = "contains_edge")]
    pub fn has_edge(&self, sources: &[u32], targets: &[u32]) -> Result<Vec<bool>> {
        self.presence(sources, targets)
    }

    /// Returns the number of edges of each vertex; of a directed graph, the number of its targets. Vertices
    /// that do not exist have none.
    ///
    /// ```
    /// use phalanx::DynamicGraph;
    ///
    /// let graph = DynamicGraph::<()>::builder().vertices(3).build()?;
    /// assert!(graph.insert(&[0, 0], &[1, 2])?.all_placed());
    /// assert_eq!(graph.degree(&[0, 1, 9])?, [2, 0, 0]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn degree(&self, vertices: &[u32]) -> Result<Vec<u32>> {
        self.degrees(Side::Out, vertices)
    }

    /// Returns the edges of each vertex: targets and data, in any order. Vertices that do not exist have
    /// none.
    ///
    /// ```
    /// use phalanx::DynamicGraph;
    ///
    /// let graph = DynamicGraph::<u32>::builder().vertices(3).build()?;
    /// assert!(graph.insert(&[0, 0], &[1, 2], &[10, 20])?.all_placed());
    /// let mut found = graph.neighbors(&[0, 1])?;
    /// found.sort();
    /// assert_eq!((found.of(0), found.data(0), found.of(1)), (&[1, 2][..], &[10, 20][..], &[][..]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn neighbors(&self, vertices: &[u32]) -> Result<Neighbors<E>> {
        self.edges_of(Side::Out, vertices)
    }

    /// Returns the number of edges that lead to each vertex. Vertices that do not exist have none. In an
    /// undirected graph, this is the degree.
    ///
    /// ```
    /// use phalanx::DynamicGraph;
    ///
    /// let graph = DynamicGraph::<()>::builder().vertices(3).in_edges(true).build()?;
    /// assert!(graph.insert(&[0, 1], &[2, 2])?.all_placed());
    /// assert_eq!(graph.in_degree(&[0, 2, 9])?, [0, 2, 0]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoInEdges`] if the graph is directed and was built without [`Builder::in_edges`];
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn in_degree(&self, vertices: &[u32]) -> Result<Vec<u32>> {
        self.degrees(self.in_side()?, vertices)
    }

    /// Returns the edges that lead to each vertex: sources and data, in any order. Vertices that do not exist
    /// have none. In an undirected graph, these are the edges of the vertex.
    ///
    /// ```
    /// use phalanx::DynamicGraph;
    ///
    /// let graph = DynamicGraph::<u32>::builder().vertices(3).in_edges(true).build()?;
    /// assert!(graph.insert(&[0, 1], &[2, 2], &[10, 20])?.all_placed());
    /// let mut found = graph.in_neighbors(&[2])?;
    /// found.sort();
    /// assert_eq!((found.of(0), found.data(0)), (&[0, 1][..], &[10, 20][..]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::in_degree`].
    pub fn in_neighbors(&self, vertices: &[u32]) -> Result<Neighbors<E>> {
        self.edges_of(self.in_side()?, vertices)
    }
}
