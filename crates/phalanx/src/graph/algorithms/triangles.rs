//! Triangle counting.
use super::executed::{Executed, ExecutedSlices};
use super::traversal::{Adjacent, PartBuffers, Step, Traversal};
use crate::graph::kernels::{Launch, Whole, resident_grid};
use crate::graph::{Data, DynamicGraph, Kind};
use crate::map::check;
use crate::map::launch::nothing;
use crate::primitives::{Workspace, scan_bytes, sort_segments_bytes};
use crate::{Error, Outcome, Result};
use gpu::{AsSlice, Buffer, Stream};
use phalanx_kernels::graph::algorithms::Orientation;
use phalanx_kernels::graph::algorithms::kernels::{EdgeKeys, TriangleCount};
use phalanx_kernels::graph::{BatchEdges, TRIANGLE};

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
        unsafe { stream.launch(resident_grid(stream, lanes), kernel)? };
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
/// `count` is O(1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triangles(u64);

impl Triangles {
    /// Counts the triangles of a graph: see [`triangles`].
    ///
    /// # Errors
    /// As [`triangles`].
    pub fn of(graph: &impl Adjacent) -> Result<Self> {
        Ok(Self(triangles(graph)?))
    }

    /// Returns the number of triangles.
    pub fn count(self) -> u64 {
        self.0
    }

    /// Adds the triangles of a batch that was inserted with these outcomes.
    ///
    /// Cost: copies the batch to the device, and inserts its edges into a hash set. For each new edge between
    /// small vertices, compares their neighbours; for each other new edge, looks up all neighbours of the end
    /// with fewer buckets at the other end. Per triangle found, two lookups in the set. 65 to 97 bytes per
    /// edge meanwhile, and the workspace of a scan. Waits.
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
        self.0 += of_batch(graph, batch.slices(), Outcome::Inserted)?;
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
        self.0 += of_batch(graph, batch, Outcome::Inserted)?;
        Ok(())
    }

    /// Subtracts the triangles that a removal of these edges will destroy.
    ///
    /// Cost: as [`Self::inserted`], and a lookup of each edge.
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
        let mut outcomes = graph.device().buffer::<u8>(sources.len())?;
        graph.on(&graph.device().default_stream()).has_edge(sources, targets, &mut outcomes)?;
        let batch = ExecutedSlices::new(graph.device(), (sources, targets), (&outcomes).into())?;
        let lost = of_batch(graph, batch, Outcome::Found)?;
        self.0 = self.0.saturating_sub(lost);
        Ok(())
    }
}

/// Counts the triangles with edges of a batch that have the outcome `wanted`.
fn of_batch<E: Data>(graph: &DynamicGraph<E>, batch: ExecutedSlices<'_>, wanted: Outcome) -> Result<u64> {
    graph.traverse_memory(|traversal, memory| {
        let (device, stream, len) = (graph.device(), &traversal.stream, batch.sources.len());
        let set = device.filled::<u64>((4 * len).next_power_of_two(), 0xFF)?;
        // The ends, parts and offsets of the edges, and the total: one allocation.
        let mut words = device.zeroed::<u64>(3 * len + 2)?;
        let [ends, parts] = [0, len].map(|first| words.global().part(first, len));
        let (offsets, total) = (words.global().part(2 * len, len + 1), words.global().part(3 * len + 1, 1));
        let edges = BatchEdges { set: set.global(), ends, parts, offsets };
        let kernel = EdgeKeys {
            sources: batch.sources.global(),
            targets: batch.targets.global(),
            outcomes: batch.outcomes.global(),
            wanted: wanted as u32,
            keys: ends,
            set: set.global(),
        };
        // SAFETY: the buffers outlive the launch, which is waited for below.
        unsafe { stream.launch(resident_grid(stream, len), kernel)? };
        graph.launch_on(stream, memory, Launch::Whole(Whole::ChooseEnds(edges)))?;
        let mut work = Workspace::new(stream, scan_bytes::<u64>(len))?;
        let (before, mut offsets) = words.split_at_mut(2 * len)?;
        work.offsets(before.slice(len..)?, offsets.slice_mut(..=len)?)?;
        graph.launch_on(stream, memory, Launch::Whole(Whole::Common(edges, total)))?;
        stream.synchronize()?;
        let mut sixths = [0];
        words.read_into(3 * len + 1, &mut sixths)?;
        Ok(sixths[0] / TRIANGLE)
    })
}
