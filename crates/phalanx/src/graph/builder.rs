//! Construction of graphs.
use super::data::Data;
use super::kernels::{self, Shape, resident_grid};
use super::memory::{Load, Memory, Workspace};
use super::order::Order;
use super::{DynamicGraph, Kind};
use crate::map::handle::Handle;
use crate::map::variant::select;
use crate::program::open;
use crate::slab_alloc::SlabAlloc;
use crate::{Error, Result};
use gpu::Device;
use phalanx_kernels::graph::merge::RowSlabs;
use phalanx_kernels::graph::{Flags, RECORD_SLOTS, SLAB_BYTES, slabs_for};
use simt::GlobalSlice;
use std::marker::PhantomData;
use std::sync::{Mutex, Weak};

/// Number of elements from which on a thread inserts eight consecutive ones.
const LARGE_BATCH: usize = 1 << 20;
/// Minimum number of slabs of a super block of a pool that may grow.
const LEAST_SUPER_BLOCK: usize = 1 << 13;
/// Number of targets of rows whose edges are inserted at a time.
const ROWS_AT_ONCE: usize = 1 << 29;

/// Parameters of a [`DynamicGraph`]; created by [`DynamicGraph::builder`].
///
/// ```
/// use phalanx::graph::Kind;
/// use phalanx::{Device, DynamicGraph};
///
/// let graph = DynamicGraph::<u32>::builder()
///     .device(&Device::from_environment()?)
///     .vertices(1000)
///     .kind(Kind::Undirected)
///     .self_edges(true)
///     .edges(5000)
///     .budget(1 << 30)
///     .build()?;
/// assert_eq!((graph.vertices(), graph.kind()), (1000, Kind::Undirected));
/// let graph = DynamicGraph::<()>::builder().degrees(&[3, 100, 5]).fixed(true).build()?;
/// assert_eq!(graph.vertices(), 3);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// Setters copy the parameters on the host. `build` allocates the records (32 bytes per vertex without data,
/// 64 with a weight, 128 with a timestamp), pool and arena, and writes each byte once.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<E> {
    device: Option<Device>,
    pub(super) vertices: usize,
    kind: Kind,
    self_edges: bool,
    in_edges: bool,
    parallel_edges: bool,
    edges: usize,
    degrees: Vec<u32>,
    /// Offsets of rows, whose degrees are the expected ones. They outlive the builder.
    pub(super) rows: Option<GlobalSlice<u64>>,
    slabs: Option<usize>,
    tables: Option<usize>,
    load: Option<f64>,
    budget: usize,
    is_fixed: bool,
    large_batch: usize,
    pub(super) rows_at_once: usize,
    variant: Option<String>,
    of: PhantomData<fn() -> E>,
}

impl<E> Default for Builder<E> {
    fn default() -> Self {
        Self {
            device: None,
            vertices: 0,
            kind: Kind::Directed,
            self_edges: false,
            in_edges: false,
            parallel_edges: false,
            edges: 0,
            degrees: Vec::new(),
            rows: None,
            slabs: None,
            tables: None,
            load: None,
            budget: usize::MAX,
            is_fixed: false,
            large_batch: LARGE_BATCH,
            rows_at_once: ROWS_AT_ONCE,
            variant: None,
            of: PhantomData,
        }
    }
}

impl<E: Data> Builder<E> {
    /// Sets the device that holds the graph. Default: [`Device::from_environment`].
    pub fn device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// Sets the number of vertices, whose ids are 0 to `vertices` - 1.
    pub fn vertices(mut self, vertices: usize) -> Self {
        self.vertices = vertices;
        self
    }

    /// Sets whether edges have a direction. Default: [`Kind::Directed`].
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets whether edges from a vertex to itself are allowed. Default: they are refused.
    pub fn self_edges(mut self, are_allowed: bool) -> Self {
        self.self_edges = are_allowed;
        self
    }

    /// Sets whether a directed graph stores each edge also at its target, as an undirected one does. Then
    /// [`DynamicGraph::in_neighbors`] exists, and [`DynamicGraph::remove_vertices`] reads only the edges of
    /// the removed vertices. Memory and the cost of batches that change the graph double. Default: only at
    /// the source. Without effect on undirected graphs.
    pub fn in_edges(mut self, are_stored: bool) -> Self {
        self.in_edges = are_stored;
        self
    }

    /// Sets whether the graph keeps all parallel edges: several from one vertex to another. Default: a pair
    /// of vertices has at most one edge. For directed graphs without [`Self::in_edges`] only: where an edge
    /// is stored at both ends, nothing tells which halves of parallel edges belong together.
    ///
    /// An insertion then never searches for its edge, and is `Inserted` or `Refused`. `has_edge` and `weight`
    /// find any of the parallel edges, `upsert` merges into any one, and `remove` removes any one per element
    /// of its batch. `edge_count`, `degree`, `neighbors`, `to_csr` and algorithms see all. A lookup beside
    /// batches that change the graph may miss an edge if all that are parallel to it are removed, and others
    /// inserted, during the lookup.
    ///
    /// ```
    /// use phalanx::{DynamicGraph, Outcome};
    ///
    /// let graph = DynamicGraph::<u32>::builder().vertices(3).parallel_edges(true).build()?;
    /// assert!(graph.insert(&[0, 0, 0], &[1, 1, 2], &[10, 20, 30])?.all_placed());
    /// assert_eq!((graph.edge_count()?, graph.degree(&[0])?), (3, vec![3]));
    /// let outcomes = graph.remove(&[0, 0, 0], &[1, 1, 1])?;
    /// assert_eq!((outcomes.count(Outcome::Removed), outcomes.count(Outcome::Absent)), (2, 1));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn parallel_edges(mut self, are_kept: bool) -> Self {
        self.parallel_edges = are_kept;
        self
    }

    /// Sets the number of edges for which memory is allocated, assuming that they are spread over the
    /// vertices uniformly. Default: eight per vertex.
    pub fn edges(mut self, edges: usize) -> Self {
        self.edges = edges;
        self
    }

    /// Sets the expected degree of each vertex, for which memory is allocated, and at least as many vertices
    /// as degrees.
    pub fn degrees(mut self, degrees: &[u32]) -> Self {
        self.degrees = degrees.to_vec();
        self
    }

    /// Sets the number of single slabs, instead of deriving it from degrees or edges.
    pub fn slabs(mut self, slabs: usize) -> Self {
        self.slabs = Some(slabs);
        self
    }

    /// Sets the load of the tables of vertices with many edges: the ratio of edges to the slots of the
    /// buckets, from 0.1 to 8, in steps of 0.1. Chains of buckets have about as many slabs. Default: 0.6 for
    /// vertices that grow in a batch, so that the number of buckets doubles, and 0.7 where the number of
    /// edges is known: in [`DynamicGraph::bulk_build`] and [`DynamicGraph::flush`]. A higher load takes less
    /// memory, and makes operations slower.
    ///
    /// ```
    /// use phalanx::DynamicGraph;
    ///
    /// let graph = DynamicGraph::<()>::builder().vertices(2000).load_factor(2.0).build()?;
    /// assert!(graph.insert(&[0; 1500], &(1..1501).collect::<Vec<_>>())?.all_placed());
    /// assert_eq!(graph.stats()?.table_slabs, 32); // and further slabs behind the buckets
    /// assert!(DynamicGraph::<()>::builder().vertices(9).load_factor(9.0).build().is_err());
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn load_factor(mut self, load: f64) -> Self {
        self.load = Some(load);
        self
    }

    /// Sets the number of slabs of tables, instead of deriving it from degrees or edges.
    pub fn table_slabs(mut self, slabs: usize) -> Self {
        self.tables = Some(slabs);
        self
    }

    /// Sets the maximum number of bytes of single slabs. Default: limited only by the device.
    pub fn budget(mut self, bytes: usize) -> Self {
        self.budget = bytes;
        self
    }

    /// Sets whether the memory is fixed: then edges that do not fit are refused. Default: blocking calls
    /// allocate more.
    pub fn fixed(mut self, is_fixed: bool) -> Self {
        self.is_fixed = is_fixed;
        self
    }

    /// Sets the number of elements from which on a thread inserts eight consecutive ones. For tests.
    #[doc(hidden)]
    pub fn large_batch(mut self, elements: usize) -> Self {
        self.large_batch = elements;
        self
    }

    /// Sets the number of targets whose edges [`Self::build_from`] inserts at a time. For tests.
    #[doc(hidden)]
    pub fn rows_at_once(mut self, targets: usize) -> Self {
        self.rows_at_once = targets.max(1);
        self
    }

    /// Selects the variant by name. Default: the fastest that the device supports.
    pub fn variant(mut self, name: &str) -> Self {
        self.variant = Some(name.to_owned());
        self
    }

    /// Creates a graph without edges.
    ///
    /// # Errors
    /// [`Error::Zero`] if there are no vertices; [`Error::TableLoad`] for a load that is not from 0.1 to 8;
    /// [`Error::ParallelHalves`] for parallel edges that are stored at both ends;
    /// [`Error::TooLarge`] for more than 2^32 - 4 vertices, half as
    /// many with in-edges, or more than 2^27 slabs of tables; [`Error::UnknownVariant`] if no variant has the
    /// name; [`Error::NeedsWideSwap`] if the device lacks the variant's compare-and-swap;
    /// [`Error::TooManySlabs`] or [`Error::Budget`] for too many slabs; [`Error::Device`] if the device lacks
    /// the memory.
    pub fn build(self) -> Result<DynamicGraph<E>> {
        let vertices = self.vertices.max(self.degrees.len());
        let most = Memory::most_vertices(self.flags());
        if vertices == 0 {
            return Err(Error::Zero { what: "vertices" });
        }
        if vertices > most {
            return Err(Error::TooLarge { what: "vertices", asked: vertices, most });
        }
        if self.parallel_edges && (self.flags().is_undirected() || self.flags().has_in_edges()) {
            return Err(Error::ParallelHalves);
        }
        let load = Load::of(self.load)?;
        let device = open(self.device.as_ref())?;
        let kernels = select(&device, self.variant.as_deref(), kernels::all::<E::Bits>(E::HAS_DATA))?;
        let shape = kernels.shape();
        let (slabs, tables) = match self.rows {
            Some(offsets) => sizes_of_rows(&device, offsets, shape, load)?,
            None => self.sizes(vertices, shape, load),
        };
        // The targets of edges are assumed to be spread as their sources are.
        let sides = 1 + usize::from(self.flags().has_in_edges());
        let (slabs, tables) = (sides * slabs, sides * tables);
        let (slabs, tables) = (self.slabs.unwrap_or(slabs), self.tables.unwrap_or(tables));
        let pool = SlabAlloc::builder()
            .device(&device)
            .capacity(slabs.max(1))
            .super_block_or_eighth(self.super_block(slabs, sides * vertices))
            .budget(self.budget)
            .build()?;
        let memory = Memory::new(&device, (shape, self.flags()), vertices, tables, pool)?;
        let order = Mutex::new(Order::new(Workspace::new(&device, load)?));
        let handle = Handle::new(device, Box::new(kernels), memory);
        Ok(DynamicGraph {
            handle,
            order,
            kind: self.kind,
            is_fixed: self.is_fixed,
            large_batch: self.large_batch,
            last_snapshot: Mutex::new((0, Weak::new())),
            of: PhantomData,
        })
    }

    /// Returns the number of slabs per super block, of which the pool can have 255, or `None` for an eighth
    /// of `slabs`. A pool that is small at first, since the expected degrees are, may have to grow far
    /// beyond them: to four slabs per record, and to a quarter of a gigabyte in any case.
    fn super_block(&self, slabs: usize, records: usize) -> Option<usize> {
        if self.is_fixed || self.slabs.is_some() {
            return None;
        }
        let wanted = LEAST_SUPER_BLOCK.max(slabs / 8).max(records / 64).min(1 << 24).next_power_of_two();
        let affordable = (self.budget / SLAB_BYTES / 8).max(1).ilog2();
        Some(wanted.min(1 << affordable).max(32))
    }

    fn flags(&self) -> Flags {
        let mut flags = E::FLAGS;
        if self.kind == Kind::Undirected {
            flags = flags.undirected();
        } else if self.in_edges {
            flags = flags.in_edges();
        }
        if self.parallel_edges {
            flags = flags.parallel_edges();
        }
        if self.self_edges { flags.self_edges() } else { flags }
    }

    /// Returns the numbers of single slabs and of slabs of tables.
    fn sizes(&self, vertices: usize, shape: Shape, load: Load) -> (usize, usize) {
        let small = RECORD_SLOTS as usize + shape.slab_slots;
        let of = |degree: u64| slabs_for(degree, shape.slab_slots as u32, load.growth);
        if !self.degrees.is_empty() {
            let add = |a: (usize, usize), b: (u32, u32)| (a.0 + b.0 as usize, a.1 + b.1 as usize);
            let (slabs, tables) = self.degrees.iter().map(|&degree| of(degree.into())).fold((0, 0), add);
            return with_spare(slabs, tables, load);
        }
        let halves = if self.kind == Kind::Undirected { 2 } else { 1 };
        let edges = if self.edges == 0 { 8 * vertices } else { self.edges * halves };
        let mean = edges as f64 / vertices as f64;
        let shares = [RECORD_SLOTS as usize, small].map(|most| 1.0 - poisson_up_to(most, mean));
        // Vertices with tables have had a slab before.
        let slabs = (vertices as f64 * shares[0] * 1.1) as usize;
        let table = of((mean as usize).max(small + 1) as u64).1 as usize;
        // An eighth of the edges may be in large vertices, however they are spread.
        let tables = (vertices as f64 * shares[1] * 1.1) as usize * table;
        let tables = tables.max(edges / shape.slab_slots / 8);
        (slabs + behind(tables, load) + 64, tables + 8)
    }
}

/// Returns the numbers of single slabs and of slabs of tables for vertices with the degrees of rows.
fn sizes_of_rows(
    device: &Device,
    offsets: GlobalSlice<u64>,
    shape: Shape,
    load: Load,
) -> Result<(usize, usize)> {
    let (stream, totals) = (device.stream()?, device.zeroed::<u64>(2)?);
    let (slots, tenths) = (shape.slab_slots as u32, load.growth);
    let kernel = RowSlabs { offsets, slots, tenths, totals: totals.global() };
    // SAFETY: the rows outlive the builder, and the totals this call, which waits.
    unsafe { stream.launch(resident_grid(&stream, offsets.len()), kernel)? };
    stream.synchronize()?;
    let totals = totals.read()?;
    Ok(with_spare(totals[0] as usize, totals[1] as usize, load))
}

/// Returns the numbers of slabs for vertices that need `slabs` and `tables`, with those behind buckets.
fn with_spare(slabs: usize, tables: usize, load: Load) -> (usize, usize) {
    (slabs + behind(tables, load) + 32, tables)
}

/// Returns the number of slabs behind the buckets of tables: a bucket in fifty is full at the default load,
/// and at a higher one chains have as many slabs as the load and one more.
fn behind(tables: usize, load: Load) -> usize {
    match load.most() {
        most if most <= 0.7 => tables / 50,
        most => (tables as f64 * (most + 0.5)) as usize,
    }
}

/// Returns the probability that a Poisson distributed number with this mean is at most `most`.
fn poisson_up_to(most: usize, mean: f64) -> f64 {
    let (mut probability, mut sum) = ((-mean).exp(), 0.0);
    for number in 0..=most {
        sum += probability;
        probability *= mean / (number + 1) as f64;
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_degrees() {
        let shape = Shape { has_data: false, record_bytes: 32, slab_slots: 30 };
        let load = Load::of(None).unwrap();
        let builder = Builder::<()>::default().degrees(&[7, 37, 38]);
        assert_eq!(builder.sizes(3, shape, load), (2 + 32, 3));
        assert_eq!((behind(100, load), behind(100, Load::of(Some(2.0)).unwrap())), (2, 250));
        assert!((poisson_up_to(7, 4.0) - 0.9489).abs() < 1e-4);
        assert!(poisson_up_to(37, 1000.0) < 1e-9);
    }
}
