//! Triangle counting.
use super::executed::{Executed, ExecutedSlices};
use super::traversal::{Adjacent, PartBuffers, Step, Traversal};
use crate::graph::kernels::{Launch, Whole, launch_resident};
use crate::graph::{Data, DynamicGraph, Kind};
use crate::map::check;
use crate::map::launch::nothing;
use crate::primitives::{Workspace, scan_bytes, sort_segments_bytes};
use crate::{Error, Outcome, Result};
use gpu::{AsSlice, Buffer, Device, Stream, Tier};
use phalanx_kernels::graph::algorithms::Orientation;
use phalanx_kernels::graph::algorithms::kernels::TriangleCount;
use phalanx_kernels::graph::{BatchEdges, ExecutedBatch, Groups, TRIANGLE};
use std::ops::Range;

/// Counts the triangles of an undirected graph.
///
/// ```
/// use phalanx::DynamicGraph;
/// use phalanx::graph::Kind;
/// use phalanx::graph::algorithms::triangles;
///
/// let graph = DynamicGraph::<()>::builder().vertices(4).kind(Kind::Undirected).build()?;
/// assert!(graph.insert(&[0, 0, 0, 1, 1, 2], &[1, 2, 3, 2, 3, 3])?.all_placed());
/// assert_eq!(triangles(&graph)?, 4);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// Cost: three passes over the graph, a sort of the rows of oriented edges, and for each of these edges as
/// many binary searches as the shorter row of its ends has targets. The rows of a
/// [`CsrMerge`](crate::graph::CsrMerge) without large vertices need no sort. 16 bytes per edge and 12 per
/// vertex meanwhile, and the workspace of the sort. Waits.
///
/// # Errors
/// [`Error::Directed`] if the graph is directed; [`Error::TooMany`] for more than 2^30 - 1 edges;
/// [`Error::Device`] if the device is lost or lacks the memory.
pub fn triangles(graph: &impl Adjacent) -> Result<u64> {
    graph.traverse(|traversal| {
        check_undirected(traversal.kind)?;
        Oriented::new(traversal)?.count(&traversal.stream)
    })
}

fn check_undirected(kind: Kind) -> Result<()> {
    match kind {
        Kind::Undirected => Ok(()),
        Kind::Directed => Err(Error::Directed),
    }
}

/// Sorted rows of the oriented edges of a graph.
struct Oriented {
    offsets: Buffer<u32>,
    targets: Buffer<u32>,
    sources: Buffer<u32>,
}

impl Oriented {
    fn new(traversal: &Traversal) -> Result<Self> {
        let (stream, vertices) = (&traversal.stream, traversal.vertices);
        let (device, parts) = (stream.device(), traversal.parts()?);
        let (degrees, counts) = (device.buffer::<u32>(vertices)?, device.buffer::<u32>(vertices)?);
        let mut offsets = device.buffer::<u32>(vertices + 1)?;
        traversal.launch(Step::Degrees(degrees.global(), parts.slices()))?;
        let count = orientation(&degrees, &counts, &parts);
        traversal.launch(Step::Orient(count))?;
        Workspace::new(stream, scan_bytes::<u32>(vertices))?.offsets(&counts, &mut offsets)?;
        let edges = last(stream, &offsets)? as usize;
        let (mut targets, sources) = (device.buffer::<u32>(edges)?, device.buffer::<u32>(edges)?);
        traversal.launch(Step::Orient(Orientation {
            offsets: offsets.global(),
            targets: targets.global(),
            sources: sources.global(),
            ..count
        }))?;
        stream.synchronize()?;
        // Sorted rows keep their order, but for those of which several warps take parts.
        if !traversal.is_sorted || parts.len()? > 0 {
            let mut work = Workspace::new(stream, sort_segments_bytes::<u32, ()>(edges, vertices))?;
            work.sort_segments_in_place(&mut targets, &offsets)?;
            stream.synchronize()?;
        }
        Ok(Self { offsets, targets, sources })
    }

    fn count(&self, stream: &Stream) -> Result<u64> {
        let total = stream.device().zeroed::<u64>(1)?;
        let (offsets, targets) = (self.offsets.global(), self.targets.global());
        let (sources, lanes) = (self.sources.global(), targets.len().saturating_mul(8));
        let kernel = TriangleCount { offsets, targets, sources, total: total.global() };
        // SAFETY: the buffers outlive the launch, which is waited for.
        unsafe { launch_resident(stream, lanes, kernel)? };
        stream.synchronize()?;
        Ok(total.read()?[0])
    }
}

/// Returns the orientation that only counts edges.
fn orientation(degrees: &Buffer<u32>, counts: &Buffer<u32>, parts: &PartBuffers) -> Orientation {
    Orientation {
        degrees: degrees.global(),
        counts: counts.global(),
        offsets: nothing(),
        targets: nothing(),
        sources: nothing(),
        parts: parts.slices(),
    }
}

/// Waits, and returns the last element.
fn last(stream: &Stream, offsets: &Buffer<u32>) -> Result<u32> {
    stream.synchronize()?;
    let mut last = [0];
    offsets.read_into(offsets.len() - 1, &mut last)?;
    Ok(last[0])
}

/// The number of triangles of an undirected graph, kept up to date over batches.
///
/// Call [`Self::inserted`] after each insertion, and [`Self::removing`] before each removal. No other batch
/// may change the graph between the batch and the call.
///
/// ```
/// use phalanx::DynamicGraph;
/// use phalanx::graph::Kind;
/// use phalanx::graph::algorithms::Triangles;
///
/// let graph = DynamicGraph::<()>::builder().vertices(4).kind(Kind::Undirected).build()?;
/// let mut triangles = Triangles::of(&graph)?;
/// let (sources, targets) = ([0, 1, 2, 0, 1], [1, 2, 0, 3, 3]);
/// let outcomes = graph.insert(&sources, &targets)?;
/// triangles.inserted(&graph, &sources, &targets, &outcomes)?;
/// assert_eq!(triangles.count(), 2);
/// triangles.removing(&graph, &[1], &[2])?;
/// assert!(graph.remove(&[1], &[2])?.len() == 1 && triangles.count() == 1);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `count` is O(1). The memory for a batch is kept for the next ones; one with more edges than any before
/// allocates it anew.
#[derive(Debug)]
pub struct Triangles {
    count: u64,
    /// Memory of the longest batch so far.
    memory: Option<BatchMemory>,
}

impl Triangles {
    /// Counts the triangles of a graph: see [`triangles`].
    ///
    /// # Errors
    /// As [`triangles`].
    pub fn of(graph: &impl Adjacent) -> Result<Self> {
        Ok(Self { count: triangles(graph)?, memory: None })
    }

    /// Returns the number of triangles.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Takes the memory for a batch of `len` edges.
    fn take_memory(&mut self, device: &Device, len: usize) -> Result<BatchMemory> {
        match self.memory.take().filter(|memory| memory.has_room(device, len)) {
            Some(memory) => Ok(memory),
            None => BatchMemory::new(device, len),
        }
    }

    /// Counts the triangles with edges of a batch that have the outcome `wanted`.
    fn count_batch<E: Data>(
        &mut self,
        graph: &DynamicGraph<E>,
        batch: ExecutedSlices<'_>,
        wanted: Outcome,
    ) -> Result<u64> {
        let mut memory = self.take_memory(graph.device(), batch.sources.len())?;
        let found = memory.count(graph, batch, wanted)?;
        self.memory = Some(memory);
        Ok(found)
    }

    /// Adds the triangles of a batch that was inserted with these outcomes.
    ///
    /// Cost: copies the batch to the device, and inserts its edges into a hash set. For each new edge between
    /// small vertices, compares their neighbours. For each new edge between a small and a large vertex, or
    /// between vertices of very different sizes, reads the neighbours of the smaller one, and looks each up
    /// at the other. Other new edges are grouped by their larger end: reads that end once for 16 edges of a
    /// group at best, once for each at worst, and the other ends; looks up common neighbours and about 4 % of
    /// the others. Per triangle found, two lookups in the set. 9 bytes per edge meanwhile; 156 to 312 bytes
    /// per edge of the longest batch, and the workspace of a scan, are kept. Waits.
    ///
    /// # Errors
    /// [`Error::Directed`] if the graph is directed; [`Error::Length`] if the slices differ in length;
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn inserted<E: Data>(
        &mut self,
        graph: &DynamicGraph<E>,
        sources: &[u32],
        targets: &[u32],
        outcomes: &[Outcome],
    ) -> Result<()> {
        check_undirected(graph.kind())?;
        let batch = Executed::new(graph.device(), (sources, targets), outcomes)?;
        self.count += self.count_batch(graph, batch.slices(), Outcome::Inserted)?;
        Ok(())
    }

    /// As [`Self::inserted`], of edges in device memory, with the codes of their outcomes. Waits for all work
    /// that the device has.
    ///
    /// ```
    /// use phalanx::DynamicGraph;
    /// use phalanx::graph::Kind;
    /// use phalanx::graph::algorithms::Triangles;
    ///
    /// let graph = DynamicGraph::<()>::builder().vertices(4).kind(Kind::Undirected).build()?;
    /// let mut triangles = Triangles::of(&graph)?;
    /// let (device, stream) = (graph.device(), graph.device().default_stream());
    /// let (sources, targets) = (device.from_slice(&[0u32, 1, 2])?, device.from_slice(&[1u32, 2, 0])?);
    /// let mut outcomes = device.zeroed::<u8>(3)?;
    /// graph.on(&stream).insert(&sources, &targets, &mut outcomes)?;
    /// triangles.inserted_slices(&graph, &sources, &targets, &outcomes)?;
    /// assert_eq!(triangles.count(), 1);
    /// triangles.removing_slices(&graph, &sources, &targets)?;
    /// assert_eq!(triangles.count(), 0);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::inserted`], without the copies.
    ///
    /// # Errors
    /// As [`Self::inserted`]; [`Error::OtherDevice`] if a slice is on another device.
    pub fn inserted_slices<E: Data>(
        &mut self,
        graph: &DynamicGraph<E>,
        sources: impl AsSlice<u32>,
        targets: impl AsSlice<u32>,
        outcomes: impl AsSlice<u8>,
    ) -> Result<()> {
        check_undirected(graph.kind())?;
        let batch = ExecutedSlices::new(graph.device(), (sources.view(), targets.view()), outcomes.view())?;
        self.count += self.count_batch(graph, batch, Outcome::Inserted)?;
        Ok(())
    }

    /// Subtracts the triangles that a removal of these edges will destroy.
    ///
    /// Cost: as [`Self::inserted`], and a lookup of each edge. A byte more per edge is kept.
    ///
    /// # Errors
    /// As [`Self::inserted`].
    pub fn removing<E: Data>(
        &mut self,
        graph: &DynamicGraph<E>,
        sources: &[u32],
        targets: &[u32],
    ) -> Result<()> {
        let device = graph.device();
        self.removing_slices(graph, &device.from_slice(sources)?, &device.from_slice(targets)?)
    }

    /// As [`Self::removing`], of edges in device memory.
    ///
    /// Cost: as [`Self::removing`], without the copies.
    ///
    /// # Errors
    /// As [`Self::inserted_slices`].
    pub fn removing_slices<E: Data>(
        &mut self,
        graph: &DynamicGraph<E>,
        sources: impl AsSlice<u32>,
        targets: impl AsSlice<u32>,
    ) -> Result<()> {
        check_undirected(graph.kind())?;
        let (sources, targets) = (sources.view(), targets.view());
        check("targets", sources.len(), targets.len())?;
        let (device, len) = (graph.device(), sources.len());
        let mut memory = self.take_memory(device, len)?;
        let mut codes = match memory.codes.take() {
            Some(codes) => codes,
            None => device.buffer(memory.room)?,
        };
        graph.on(&device.default_stream()).has_edge(sources, targets, &mut codes.slice_mut(..len)?)?;
        let batch = ExecutedSlices::new(device, (sources, targets), codes.slice(..len)?)?;
        let lost = memory.count(graph, batch, Outcome::Found)?;
        self.count = self.count.saturating_sub(lost);
        self.memory = Some(BatchMemory { codes: Some(codes), ..memory });
        Ok(())
    }
}

/// Memory that a count keeps from batch to batch.
#[derive(Debug)]
struct BatchMemory {
    stream: Stream,
    /// Edges that there is room for.
    room: usize,
    /// Room for all arrays of [`BatchEdges`] except `offsets` and `ends`.
    words: Buffer<u64>,
    offsets: Buffer<u64>,
    ends: Buffer<u32>,
    /// Six times the number of triangles of all batches so far.
    sixths: Buffer<u64>,
    /// Pinned memory for a copy of that word.
    told: Buffer<u64>,
    /// The same number before the next batch.
    seen: u64,
    work: Workspace,
    /// Codes of the outcomes of lookups.
    codes: Option<Buffer<u8>>,
}

/// Numbers of words for a batch of so many edges.
struct Sizes {
    edges: usize,
    /// Words of the hash set of the edges.
    set: usize,
    /// Words of the hash set of the groups.
    groups: usize,
}

impl Sizes {
    fn of(edges: usize) -> Self {
        Self { edges, set: 4 * edges.next_power_of_two(), groups: (edges + edges / 2).next_power_of_two() }
    }

    /// Returns the place of the counts among all words: see [`BatchEdges`]. Behind places and both kinds of
    /// edges.
    fn counts(&self) -> Range<usize> {
        3 * self.edges..4 * self.edges + 2 * self.groups
    }

    /// Returns the place of the words that must be zero at first: the counts of groups, taken work and both
    /// hash sets. They are the last ones.
    fn zeros(&self) -> Range<usize> {
        4 * self.edges..self.counts().end + 2 + self.set + self.groups
    }
}

impl BatchMemory {
    fn new(device: &Device, len: usize) -> Result<Self> {
        let (stream, sizes) = (device.stream()?, Sizes::of(len.next_power_of_two()));
        Ok(Self {
            room: sizes.edges,
            words: device.buffer(sizes.zeros().end)?,
            offsets: device.buffer(sizes.counts().len() + 1)?,
            ends: device.buffer(sizes.edges)?,
            sixths: device.zeroed(1)?,
            told: device.buffer_on(Tier::Pinned, 1)?,
            seen: 0,
            work: Workspace::new(&stream, scan_bytes::<u64>(sizes.counts().len()))?,
            codes: None,
            stream,
        })
    }

    /// Returns whether a batch of `len` edges of a graph on `device` has room.
    fn has_room(&self, device: &Device, len: usize) -> bool {
        self.stream.device() == device && len <= self.room
    }

    /// Returns the memory for a batch of these sizes.
    fn edges(&self, sizes: &Sizes) -> BatchEdges {
        let (words, mut first) = (self.words.global(), 0);
        let mut next = |len| {
            first += len;
            words.part(first - len, len)
        };
        let [places, small, large] = [0, 1, 2].map(|_| next(sizes.edges));
        let (counts, taken) = (next(sizes.counts().len()), next(2));
        let (set, keys) = (next(sizes.set), next(sizes.groups));
        let ends = self.ends.global().part(0, sizes.edges);
        let offsets = self.offsets.global().part(0, counts.len() + 1);
        let groups = Groups { keys, places, ends };
        BatchEdges { set, small, large, counts, offsets, groups, taken }
    }

    /// Counts the triangles with edges of a batch that have the outcome `wanted`.
    fn count<E: Data>(
        &mut self,
        graph: &DynamicGraph<E>,
        batch: ExecutedSlices<'_>,
        wanted: Outcome,
    ) -> Result<u64> {
        let sizes = Sizes::of(batch.sources.len());
        let edges = self.edges(&sizes);
        let batch = ExecutedBatch {
            sources: batch.sources.global(),
            targets: batch.targets.global(),
            outcomes: batch.outcomes.global(),
            wanted: wanted as u32,
        };
        let told = self.told.as_mut_slice()?;
        graph.traverse_memory(&self.stream, |_, memory| {
            let zeros = sizes.zeros();
            // SAFETY: memory of the batch, which nothing else uses, as in what follows.
            unsafe { self.stream.fill(self.words.global().part(zeros.start, zeros.len()), 0)? };
            graph.launch_on(&self.stream, memory, Launch::Whole(Whole::ChooseEnds(batch, edges)))?;
            let counts = self.words.slice(sizes.counts())?;
            self.work.offsets(counts, self.offsets.slice_mut(..=counts.len())?)?;
            let common = Whole::Common(edges, self.sixths.global());
            graph.launch_on(&self.stream, memory, Launch::Whole(common))?;
            // SAFETY: the slice is borrowed until `traverse_memory` has waited for the stream.
            unsafe { self.sixths.read_on(&self.stream, 0, told)? };
            Ok(())
        })?;
        let sixths = self.told.as_slice()?[0];
        Ok((sixths - std::mem::replace(&mut self.seen, sixths)) / TRIANGLE)
    }
}
