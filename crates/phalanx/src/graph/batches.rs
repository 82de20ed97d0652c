//! Batches on device buffers, submitted to a stream.
use super::DynamicGraph;
use super::data::{Data, Weight};
use super::kernels::{Launch, Side};
use super::memory::Memory;
use super::order::Order;
use crate::map::batches::{check_same_device, elements_of, optional_slice, slice};
use crate::map::check;
use crate::map::launch::nothing;
use crate::{Error, Merge, Result};
use gpu::{AsBounded, AsSlice, AsSliceMut, OptionalSliceMut, Slice, Stream};
use phalanx_kernels::graph::{BATCH_WORDS, Changes, Lookups};
use phalanx_kernels::keyed::OpCode;
use simt::GlobalSlice;

/// Number of consecutive elements per thread of a large batch that inserts.
const EACH: u32 = 8;

/// Batches on device buffers. The calls submit work to a stream and do not wait for it. Created by
/// [`DynamicGraph::on`].
///
/// Outcomes are the codes of [`Outcome`](crate::Outcome), one byte per element. These calls let vertices
/// grow, but never allocate memory: edges that do not fit are refused. A count on the device may bound a
/// batch: see `Buffer::bounded_by`.
///
/// ```
/// use phalanx::{DynamicGraph, Outcome};
///
/// let graph = DynamicGraph::<()>::builder().vertices(1000).build()?;
/// let (device, stream) = (graph.device(), graph.device().stream()?);
/// let (sources, targets) = (device.from_slice(&[1u32, 2])?, device.from_slice(&[3u32, 2])?);
/// let mut outcomes = device.zeroed::<u8>(2)?;
/// let batches = graph.on(&stream);
/// batches.insert(&sources, &targets, &mut outcomes)?;
/// assert_eq!(outcomes.read()?, [Outcome::Inserted as u8, Outcome::Refused as u8]); // a self-edge
/// batches.has_edge(&sources, &targets, &mut outcomes)?;
/// assert_eq!(outcomes.read()?, [Outcome::Found as u8, Outcome::Absent as u8]);
/// let mut degrees = device.zeroed::<u32>(2)?;
/// batches.degree(&sources, &mut degrees)?;
/// assert_eq!(degrees.read()?, [1, 0]);
/// batches.remove(&sources, &targets, None)?;
/// assert_eq!(graph.edge_count()?, 0);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::{DynamicGraph, Merge};
///
/// let graph = DynamicGraph::<f32>::builder().vertices(1000).build()?;
/// let (device, stream) = (graph.device(), graph.device().stream()?);
/// let (sources, targets) = (device.from_slice(&[1u32])?, device.from_slice(&[3u32])?);
/// let mut weights = device.from_slice(&[0.5f32])?;
/// let batches = graph.on(&stream);
/// batches.insert(&sources, &targets, &weights, None)?;
/// batches.upsert(Merge::Add, &sources, &targets, &weights, None)?;
/// batches.weight(&sources, &targets, &mut weights, None)?;
/// assert_eq!(weights.read()?, [1.0]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// As for [`DynamicGraph`].
///
/// # Cost
///
/// `has_edge`, `weight`, `degree` and `remove` launch one kernel. `insert` and `upsert` fill 16 bytes and
/// launch five kernels, of which four end at once if no vertex grows; in an undirected graph one more. No
/// call waits for the device, except to enlarge the workspace when a batch is longer than any before.
#[derive(Debug)]
pub struct Batches<'a, E: Data> {
    graph: &'a DynamicGraph<E>,
    stream: Stream,
    /// Maximum number of records that grow in a batch, if the caller knows it.
    most_listed: usize,
}

impl<'a, E: Data> Batches<'a, E> {
    pub(super) fn new(graph: &'a DynamicGraph<E>, stream: &Stream) -> Self {
        Self { graph, stream: stream.clone(), most_listed: usize::MAX }
    }

    /// Sets the maximum number of records that grow in a batch.
    pub(super) fn with_most_listed(self, most_listed: usize) -> Self {
        Self { most_listed, ..self }
    }

    /// Removes edges. Outcomes: `Removed`, `Absent`.
    ///
    /// # Errors
    /// [`Error::Length`] if lengths differ; [`Error::TooLarge`] for 2^31 elements or more;
    /// [`Error::OtherDevice`] if a buffer or the stream is of another device; [`Error::Device`] if the device
    /// is lost.
    pub fn remove(
        &self,
        sources: impl AsBounded<u32>,
        targets: impl AsSlice<u32>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let edges = self.changes(sources, targets, nothing(), outcomes)?;
        self.submit_removal(edges)
    }

    /// Writes `Found` or `Absent` for each pair of vertices.
    ///
    /// # Errors
    /// As [`Self::remove`].
    pub fn has_edge(
        &self,
        sources: impl AsBounded<u32>,
        targets: impl AsSlice<u32>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let lookups = self.lookups(sources, targets, nothing(), outcomes)?;
        self.submit_lookup(Launch::HasEdge(lookups))
    }

    /// Writes the number of edges that lead to each vertex; 0 for vertices that do not exist. In an
    /// undirected graph, this is the degree.
    ///
    /// # Errors
    /// [`Error::NoInEdges`] if the graph is directed and was built without
    /// [`Builder::in_edges`](super::Builder::in_edges); otherwise as [`Self::remove`].
    pub fn in_degree(&self, vertices: impl AsBounded<u32>, degrees: impl AsSliceMut<u32>) -> Result<()> {
        let vertices = elements_of(self.graph.device(), "vertices", vertices)?;
        let degrees = slice(self.graph.device(), "degrees", degrees, vertices.max_len())?;
        self.submit_lookup(Launch::Degree(self.graph.in_side()?, vertices, degrees))
    }

    /// Writes the degree of each vertex; 0 for vertices that do not exist.
    ///
    /// # Errors
    /// As [`Self::remove`].
    pub fn degree(&self, vertices: impl AsBounded<u32>, degrees: impl AsSliceMut<u32>) -> Result<()> {
        let vertices = elements_of(self.graph.device(), "vertices", vertices)?;
        let degrees = slice(self.graph.device(), "degrees", degrees, vertices.max_len())?;
        self.submit_lookup(Launch::Degree(Side::Out, vertices, degrees))
    }

    pub(super) fn changes(
        &self,
        sources: impl AsBounded<u32>,
        targets: impl AsSlice<u32>,
        data: GlobalSlice<E::Bits>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<Changes<E::Bits>> {
        let Lookups { sources, targets, data, outcomes } = self.lookups(sources, targets, data, outcomes)?;
        let each = if sources.max_len() >= self.graph.large_batch { EACH } else { 1 };
        Ok(Changes { sources, targets, data, outcomes, each })
    }

    pub(super) fn lookups(
        &self,
        sources: impl AsBounded<u32>,
        targets: impl AsSlice<u32>,
        data: GlobalSlice<E::Bits>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<Lookups<E::Bits>> {
        let device = self.graph.device();
        check_same_device(device, "stream", self.stream.device())?;
        let sources = elements_of(device, "sources", sources)?;
        let (len, most) = (sources.max_len(), i32::MAX as usize);
        if len > most {
            return Err(Error::TooLarge { what: "edges of a batch", asked: len, most });
        }
        let targets = slice(device, "targets", targets, len)?;
        if !data.is_empty() {
            check("data", len, data.len())?;
        }
        Ok(Lookups { sources, targets, data, outcomes: optional_slice(device, "outcomes", outcomes, len)? })
    }

    /// Returns data as words.
    pub(super) fn words(&self, data: Slice<'_, E>) -> Result<GlobalSlice<E::Bits>> {
        check_same_device(self.graph.device(), "data", data.device())?;
        if data.is_empty() || !E::HAS_DATA {
            return Ok(nothing());
        }
        // SAFETY: the data are plain bytes of the size and alignment of their words. The caller of the launch
        // keeps them.
        Ok(unsafe { GlobalSlice::from_raw_parts(data.pointer().cast(), data.len()) })
    }

    pub(super) fn submit_lookup(&self, launch: Launch<E::Bits>) -> Result<()> {
        let memory = self.graph.handle.read();
        self.graph.order().look_up(&self.stream, || self.launch(&memory, launch))
    }

    pub(super) fn submit_removal(&self, edges: Changes<E::Bits>) -> Result<()> {
        let memory = self.graph.handle.read();
        self.graph.order().change(&self.stream, |order| {
            self.launch(&memory, Launch::Remove(edges, order.workspace.growth()))
        })
    }

    /// Submits the two passes of an insertion, and the growth between them. Merges into the data of present
    /// edges by the operation `merge`, if there is one; otherwise replaces them.
    pub(super) fn submit_insertion(&self, merge: Option<OpCode>, edges: Changes<E::Bits>) -> Result<()> {
        let memory = self.graph.handle.read();
        let halves = edges.sources.max_len() * memory.halves();
        self.graph.order().change(&self.stream, |order| {
            order.workspace.fit((halves, halves.min(self.most_listed)), &memory)?;
            let growth = order.workspace.growth();
            // SAFETY: no other batch uses the words: changes run one after the other.
            unsafe { self.stream.fill(growth.words.part(0, BATCH_WORDS), 0)? };
            self.launch(&memory, Launch::Insert(merge, edges, growth))?;
            self.grow(order, &memory, halves)?;
            let most = self.threads(halves);
            self.launch(&memory, Launch::InsertDeferred(merge, edges, growth, most))?;
            if memory.halves() == 2 {
                self.launch(&memory, Launch::Repair(edges, growth))?;
            }
            Ok(())
        })
    }

    /// Submits the growth of the vertices that a batch of `halves` halves has listed.
    fn grow(&self, order: &mut Order, memory: &Memory, halves: usize) -> Result<()> {
        let (growth, listed) = (order.workspace.growth(), self.threads(halves));
        // A tile of four lanes for each small vertex, and one for each bucket of a table.
        let tiles = self.threads(4 * halves.saturating_add(memory.tables()));
        order.begin_move(&self.stream)?;
        self.launch(memory, Launch::Plan(growth, listed))?;
        self.launch(memory, Launch::Move(growth, tiles))?;
        self.launch(memory, Launch::Install(growth, tiles))?;
        order.end_move(&self.stream)
    }

    /// Returns the number of threads for `items` items, of which a thread may have several.
    fn threads(&self, items: usize) -> usize {
        items.min(self.graph.device().resident_threads() as usize)
    }

    fn launch(&self, memory: &Memory, launch: Launch<E::Bits>) -> Result<()> {
        // SAFETY: the memory outlives the launch, since dropping its buffers waits for it, and so do the
        // slices' buffers. The order of batches keeps apart those that must not run concurrently; operations
        // that replace memory take the write lock and wait for the device.
        unsafe { Ok(self.graph.handle.kernels().launch(&self.stream, memory, launch)?) }
    }
}

/// Batches on edges without data.
impl Batches<'_, ()> {
    /// Inserts edges. Outcomes: `Inserted`, `Found`, `Refused`.
    ///
    /// # Errors
    /// As [`Self::remove`].
    pub fn insert(
        &self,
        sources: impl AsBounded<u32>,
        targets: impl AsSlice<u32>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let edges = self.changes(sources, targets, nothing(), outcomes)?;
        self.submit_insertion(None, edges)
    }
}

/// Batches on edges with data.
impl<E: Weight> Batches<'_, E> {
    /// Inserts edges, and replaces the data of those that are present. Outcomes: `Inserted`, `Replaced`,
    /// `Refused`.
    ///
    /// # Errors
    /// As [`Self::remove`].
    pub fn insert(
        &self,
        sources: impl AsBounded<u32>,
        targets: impl AsSlice<u32>,
        data: impl AsSlice<E>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let edges = self.weighted(sources, targets, data.view(), outcomes)?;
        self.submit_insertion(None, edges)
    }

    /// Inserts edges, and merges into the data of those that are present. Outcomes: `Inserted`, `Replaced`,
    /// `Refused`.
    ///
    /// # Errors
    /// As [`Self::remove`].
    pub fn upsert(
        &self,
        merge: Merge<E>,
        sources: impl AsBounded<u32>,
        targets: impl AsSlice<u32>,
        data: impl AsSlice<E>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let edges = self.weighted(sources, targets, data.view(), outcomes)?;
        self.submit_insertion(Some(merge.operation()), edges)
    }

    /// Writes the data of edges that are present, and `Found` or `Absent` for each pair of vertices. Leaves
    /// the data of absent edges as they are.
    ///
    /// # Errors
    /// As [`Self::remove`].
    pub fn weight(
        &self,
        sources: impl AsBounded<u32>,
        targets: impl AsSlice<u32>,
        data: impl AsSliceMut<E>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let sources = sources.bounded();
        check("data", sources.elements().len(), data.view().len())?;
        let words = self.words(data.view())?;
        let lookups = self.lookups(sources, targets, words, outcomes)?;
        self.submit_lookup(Launch::Weight(lookups))
    }

    fn weighted(
        &self,
        sources: impl AsBounded<u32>,
        targets: impl AsSlice<u32>,
        data: Slice<'_, E>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<Changes<E::Bits>> {
        let sources = sources.bounded();
        check("data", sources.elements().len(), data.len())?;
        let words = self.words(data)?;
        self.changes(sources, targets, words, outcomes)
    }
}
