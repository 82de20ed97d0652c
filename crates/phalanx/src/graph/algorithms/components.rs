//! Connected components.
use super::executed::{Executed, ExecutedSlices};
use super::traversal::{Adjacent, Step};
use crate::Result;
use crate::graph::kernels::resident_grid;
#[allow(unused_imports)] // for links in the documentation
use crate::{Error, Outcome, Outcomes};
use gpu::{AsSlice, Buffer, Stream};
use phalanx_kernels::graph::algorithms::kernels::{ComponentsCompress, ComponentsJoinEdges};
use phalanx_kernels::primitives::words::CountUp;

/// The connected components of a graph: for each vertex the smallest vertex that is connected with it. In a
/// directed graph the direction of edges does not matter.
///
/// ```
/// use phalanx::DynamicGraph;
/// use phalanx::graph::algorithms::Components;
///
/// let graph = DynamicGraph::<()>::builder().vertices(5).build()?;
/// assert!(graph.insert(&[1, 4], &[2, 3])?.all_placed());
/// let mut components = Components::of(&graph)?;
/// assert_eq!((components.read()?, components.count()?), (vec![0, 1, 1, 3, 3], 3));
/// let outcomes = graph.insert(&[3, 0], &[1, 0])?;
/// components.insert(&[3, 0], &[1, 0], &outcomes)?;
/// assert_eq!(components.labels().read()?, [0, 1, 1, 1, 1]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `labels` is O(1). `read` and `count` copy the labels to the host.
#[derive(Debug)]
pub struct Components {
    labels: Buffer<u32>,
}

impl Components {
    /// Computes the components of a graph. A vertex that was removed is a component by itself.
    ///
    /// Cost: a pass over the graph, with the paths of both ends of each edge to their roots, mostly one or
    /// two loads at random addresses; four launches. 4 bytes per vertex.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn of(graph: &impl Adjacent) -> Result<Self> {
        graph.traverse(|traversal| {
            let (stream, parts) = (&traversal.stream, traversal.parts()?);
            let components = Self { labels: stream.device().buffer(traversal.vertices)? };
            let words = components.labels.global();
            // SAFETY: the labels outlive the launch.
            unsafe { stream.launch(traversal.grid(words.len()), CountUp { words })? };
            traversal.launch(Step::Join(words, traversal.is_undirected(), parts.slices()))?;
            components.compress(stream)?;
            Ok(components)
        })
    }

    /// Adds edges that were inserted into the graph. `outcomes` are those of the insertion; refused edges are
    /// left out. The components are those of the graph afterwards, if no edge was removed and no vertex was
    /// inserted since they were computed.
    ///
    /// Cost: copies the batch to the device; 9 bytes per edge and the paths of both ends; 8 bytes per vertex;
    /// two launches. Waits.
    ///
    /// # Errors
    /// [`Error::Length`] if the slices differ in length; [`Error::Device`] if the device is lost or lacks the
    /// memory.
    pub fn insert(&mut self, sources: &[u32], targets: &[u32], outcomes: &[Outcome]) -> Result<()> {
        let batch = Executed::new(self.labels.device(), (sources, targets), outcomes)?;
        self.join(batch.slices())
    }

    /// As [`Self::insert`], of edges in device memory, with the codes of their outcomes. Waits for all work
    /// that the device has.
    ///
    /// ```
    /// use phalanx::DynamicGraph;
    /// use phalanx::graph::algorithms::Components;
    ///
    /// let graph = DynamicGraph::<()>::builder().vertices(5).build()?;
    /// let mut components = Components::of(&graph)?;
    /// let (device, stream) = (graph.device(), graph.device().default_stream());
    /// let (sources, targets) = (device.from_slice(&[3u32, 0])?, device.from_slice(&[1u32, 0])?);
    /// let mut outcomes = device.zeroed::<u8>(2)?;
    /// graph.on(&stream).insert(&sources, &targets, &mut outcomes)?;
    /// components.insert_slices(&sources, &targets, &outcomes)?;
    /// assert_eq!(components.read()?, [0, 1, 2, 1, 4]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: the paths of both ends of each edge; 8 bytes per vertex; two launches.
    ///
    /// # Errors
    /// [`Error::Length`] if the slices differ in length; [`Error::OtherDevice`] if one is on another device;
    /// [`Error::Device`] if the device is lost.
    pub fn insert_slices(
        &mut self,
        sources: impl AsSlice<u32>,
        targets: impl AsSlice<u32>,
        outcomes: impl AsSlice<u8>,
    ) -> Result<()> {
        let ends = (sources.view(), targets.view());
        self.join(ExecutedSlices::new(self.labels.device(), ends, outcomes.view())?)
    }

    /// Joins the ends of edges, and waits.
    fn join(&mut self, batch: ExecutedSlices<'_>) -> Result<()> {
        let stream = self.labels.device().default_stream();
        let join = ComponentsJoinEdges {
            labels: self.labels.global(),
            sources: batch.sources.global(),
            targets: batch.targets.global(),
            outcomes: batch.outcomes.global(),
        };
        // SAFETY: the slices outlive the launch, which is waited for.
        unsafe { stream.launch(resident_grid(&stream, join.sources.len()), join)? };
        self.compress(&stream)?;
        Ok(stream.synchronize()?)
    }

    /// Sets each label to its root.
    fn compress(&self, stream: &Stream) -> Result<()> {
        let labels = self.labels.global();
        // SAFETY: dropping the labels waits for the launch.
        unsafe { Ok(stream.launch(resident_grid(stream, labels.len()), ComponentsCompress { labels })?) }
    }

    /// Returns the smallest vertex of each vertex's component, on the device.
    pub fn labels(&self) -> &Buffer<u32> {
        &self.labels
    }

    /// Copies the smallest vertex of each vertex's component to the host.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost.
    pub fn read(&self) -> Result<Vec<u32>> {
        Ok(self.labels.read()?)
    }

    /// Returns the number of components.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost.
    pub fn count(&self) -> Result<usize> {
        Ok(self.read()?.into_iter().zip(0..).filter(|(label, vertex)| label == vertex).count())
    }
}
