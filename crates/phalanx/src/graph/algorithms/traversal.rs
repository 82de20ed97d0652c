//! Passes over the edges of a graph, whatever its layout.
use crate::Result;
use crate::graph::kernels::{launch_resident, resident_grid};
use crate::graph::memory::Memory;
use crate::graph::{Csr, Data, DynamicGraph, Kind};
use gpu::{Buffer, Device, Grid, Stream};
use phalanx_kernels::graph::algorithms::{
    Adjacency, ComponentsJoin, ComponentsJoinParts, CsrRows, DegreesCount, Orientation, PartList, RankGather,
    RankGatherParts, RankScatter, RankScatterParts, Ranking, RowsView, SMALL_ROW, SearchExpand,
    SearchExpandParts, SearchStep, TriangleOrient, TriangleOrientParts,
};
use simt::{GlobalSlice, Instance};

/// A graph on which algorithms run: a [`DynamicGraph`] or a [`Csr`].
///
/// ```
/// use phalanx::DynamicGraph;
/// use phalanx::graph::algorithms::{Adjacent, bfs};
///
/// fn reached(graph: &impl Adjacent) -> phalanx::Result<usize> {
///     Ok(bfs(graph, &[0])?.reached())
/// }
///
/// let graph = DynamicGraph::<()>::builder().vertices(3).build()?;
/// assert!(graph.insert(&[0], &[1])?.all_placed());
/// assert_eq!((reached(&graph)?, reached(&graph.to_csr()?)?), (2, 2));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// None: the trait has no methods of its own.
pub trait Adjacent: Source {}

impl<E: Data> Adjacent for DynamicGraph<E> {}
impl<E: Data> Adjacent for Csr<E> {}

/// The passes over a graph. A module that other packages cannot name has it, so they implement no graph.
pub trait Source {
    /// Returns the device that holds the graph.
    #[doc(hidden)]
    fn device_of(&self) -> &Device;

    /// Calls `run` with the passes over the graph, which does not change meanwhile.
    #[doc(hidden)]
    fn traverse<R>(&self, run: impl FnOnce(&Traversal) -> Result<R>) -> Result<R>;
}

/// A pass: a kernel that serves small vertices, and one that serves the parts of large ones.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Writes the degrees, and lists the parts for other passes.
    Degrees(GlobalSlice<u32>, PartList),
    /// Reaches the neighbours of a level.
    Search(SearchStep),
    /// Joins the labels of neighbours; the second field is 1 if edges are stored at both ends.
    Join(GlobalSlice<u32>, u32, PartList),
    /// Adds up the shares of neighbours.
    Gather(Ranking),
    /// Adds shares to the sums of neighbours.
    Scatter(Ranking),
    /// Counts or writes oriented edges.
    Orient(Orientation),
}

/// Launches on one graph.
pub trait Steps {
    /// Launches the kernels of a pass, for so many lanes of all vertices and of the parts of large ones.
    ///
    /// # Safety
    /// - The graph and the slices stay as they are until the kernels have ended, except by these kernels.
    unsafe fn launch(&self, stream: &Stream, lanes: [usize; 2], step: Step) -> gpu::Result<()>;
}

/// The view of a graph of the kind `A`.
pub struct Bound<A: Adjacency>(pub A::View);

impl<A: Adjacency + Instance> Steps for Bound<A> {
    unsafe fn launch(&self, stream: &Stream, [all, large]: [usize; 2], step: Step) -> gpu::Result<()> {
        let graph = self.0;
        // SAFETY: the caller's obligations. Each kernel runs with any number of threads.
        unsafe {
            match step {
                Step::Degrees(degrees, parts) => {
                    launch_resident(stream, all, DegreesCount::<A> { graph, degrees, parts })
                }
                // A search has many passes, most of them short: the query would take longer than it saves.
                Step::Search(step) => {
                    stream.launch(resident_grid(stream, all), SearchExpand::<A> { graph, step })?;
                    stream.launch(resident_grid(stream, large), SearchExpandParts::<A> { graph, step })
                }
                Step::Join(labels, is_undirected, parts) => {
                    let join = ComponentsJoin::<A> { graph, labels, is_undirected, parts };
                    launch_resident(stream, all, join)?;
                    let join = ComponentsJoinParts::<A> { graph, labels, is_undirected, parts };
                    launch_resident(stream, large, join)
                }
                Step::Gather(ranking) => {
                    launch_resident(stream, all, RankGather::<A> { graph, ranking })?;
                    launch_resident(stream, large, RankGatherParts::<A> { graph, ranking })
                }
                Step::Scatter(ranking) => {
                    launch_resident(stream, all, RankScatter::<A> { graph, ranking })?;
                    launch_resident(stream, large, RankScatterParts::<A> { graph, ranking })
                }
                Step::Orient(edges) => {
                    launch_resident(stream, all, TriangleOrient::<A> { graph, edges })?;
                    launch_resident(stream, large, TriangleOrientParts::<A> { graph, edges })
                }
            }
        }
    }
}

/// The passes over a graph that does not change meanwhile.
pub struct Traversal {
    pub stream: Stream,
    steps: Box<dyn Steps>,
    pub vertices: usize,
    /// Number of vertices that were not removed.
    pub existing: usize,
    pub kind: Kind,
    /// Maximum number of parts of large vertices.
    most_parts: usize,
    /// Whether the edges of a vertex without parts are seen in ascending order of targets.
    pub is_sorted: bool,
}

impl Traversal {
    /// Returns the passes over rows with so many vertices and targets.
    pub fn of_rows(
        stream: &Stream,
        steps: Box<dyn Steps>,
        (vertices, targets): (usize, usize),
        kind: Kind,
    ) -> Self {
        // Less than one part for each 128 targets, rounded up.
        let most_parts = targets / SMALL_ROW + 1;
        let (stream, existing) = (stream.clone(), vertices);
        Self { stream, steps, vertices, existing, kind, most_parts, is_sorted: false }
    }

    /// Returns the passes over sorted rows.
    pub fn sorted(self) -> Self {
        Self { is_sorted: true, ..self }
    }

    /// Calls `run`, and waits for the kernels that it has submitted.
    pub fn run<R>(&self, run: impl FnOnce(&Self) -> Result<R>) -> Result<R> {
        let result = run(self)?;
        self.stream.synchronize()?;
        Ok(result)
    }

    /// Returns a grid for `items` items, of which a thread may have several.
    pub fn grid(&self, items: usize) -> Grid {
        resident_grid(&self.stream, items)
    }

    /// Submits a pass.
    pub fn launch(&self, step: Step) -> Result<()> {
        let tiles = self.vertices.saturating_mul(phalanx_kernels::graph::algorithms::VERTEX_TILE as usize);
        let lanes = [tiles, self.most_parts.saturating_mul(32)];
        // SAFETY: the graph does not change, as `Source::traverse` states. Dropping the slices' buffers waits
        // for the kernels.
        unsafe { Ok(self.steps.launch(&self.stream, lanes, step)?) }
    }

    /// Returns 1 if edges are stored at both ends, otherwise 0.
    pub fn is_undirected(&self) -> u32 {
        u32::from(self.kind == Kind::Undirected)
    }

    /// Allocates a list of parts.
    pub fn parts(&self) -> Result<PartBuffers> {
        PartBuffers::new(self.stream.device(), self.most_parts)
    }
}

/// Memory of a list of parts, and of another one after it.
pub struct PartBuffers {
    pub words: Buffer<u64>,
    /// The number of parts of each list.
    counts: Buffer<u32>,
}

impl PartBuffers {
    /// Allocates an empty list of at most so many parts.
    pub fn new(device: &Device, most: usize) -> Result<Self> {
        Ok(Self { words: device.buffer(most)?, counts: device.zeroed(2)? })
    }

    /// Waits, and returns the number of parts that the last pass has listed.
    pub fn len(&self) -> Result<usize> {
        Ok(self.counts.read()?[0] as usize)
    }

    pub fn slices(&self) -> PartList {
        PartList { words: self.words.global(), count: self.counts.global().part(0, 1) }
    }

    /// Returns another list, which is empty. Its parts overwrite those of [`Self::slices`].
    pub fn other_slices(&self) -> PartList {
        PartList { count: self.counts.global().part(1, 1), ..self.slices() }
    }
}

impl<E: Data> DynamicGraph<E> {
    /// Calls `run` with the passes over the graph and its memory, between two batches. Then waits for the
    /// stream, also if `run` has failed.
    pub(in crate::graph) fn traverse_memory<R>(
        &self,
        stream: &Stream,
        run: impl FnOnce(&Traversal, &Memory) -> Result<R>,
    ) -> Result<R> {
        let memory = self.handle.read();
        let vertices = memory.vertices as usize;
        let traversal = Traversal {
            // SAFETY: the memory is locked, and `run` ends before the lock does.
            steps: unsafe { self.handle.kernels().steps(&memory) },
            stream: stream.clone(),
            vertices,
            existing: vertices - memory.free_ids.len(),
            kind: self.kind(),
            // A table has two buckets at least.
            most_parts: memory.tables() / 2,
            is_sorted: false,
        };
        let mut result = None;
        let submitted = self.order().read(stream, || {
            result = Some(run(&traversal, &memory)?);
            Ok(())
        });
        // Kernels and copies that were submitted before an error use slices of the caller.
        let ended = stream.synchronize();
        submitted?;
        ended?;
        result.ok_or_else(|| crate::Error::Invalid("a pass has no result".to_owned()))
    }
}

impl<E: Data> Source for DynamicGraph<E> {
    fn device_of(&self) -> &Device {
        self.device()
    }

    fn traverse<R>(&self, run: impl FnOnce(&Traversal) -> Result<R>) -> Result<R> {
        self.traverse_memory(&self.device().stream()?, |traversal, _| run(traversal))
    }
}

impl<E: Data> Source for Csr<E> {
    fn device_of(&self) -> &Device {
        self.targets().device()
    }

    fn traverse<R>(&self, run: impl FnOnce(&Traversal) -> Result<R>) -> Result<R> {
        let view = RowsView { offsets: self.offsets().global(), targets: self.targets().global() };
        let (stream, steps) = (self.device_of().stream()?, Box::new(Bound::<CsrRows>(view)));
        Traversal::of_rows(&stream, steps, (self.vertices(), self.targets().len()), self.kind()).run(run)
    }
}
