//! Ids of 64 bits for the vertices of a graph.
use super::DynamicGraph;
use super::data::Data;
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::map::batches::check_same_device;
use crate::map::check;
use crate::{HashMap, Outcome, Outcomes, Result};
use gpu::{AsSlice, AsSliceMut, Buffer, Device, Grid, Stream};
use phalanx_kernels::graph::index::{IndexRead, IndexWrite};

/// Threads per block.
const THREADS: u32 = 128;

/// Maps ids of 64 bits, of any values, to the vertices of one graph, on its device: a
/// [`HashMap`] from ids to vertices, and an array of the ids in the order of the vertices.
///
/// Calls that insert or remove take the graph, which is always the same one. A vertex that has an id is
/// removed by [`Self::remove`], not by [`DynamicGraph::remove_vertices`], which does not know the index.
/// Vertices without an id may exist beside.
///
/// ```
/// use phalanx::graph::VertexIndex;
/// use phalanx::{DynamicGraph, Outcome};
///
/// let mut graph = DynamicGraph::<f32>::builder().vertices(1).build()?;
/// let mut index = VertexIndex::new(&graph)?;
/// let (from, to) = ([7_000_000_000, 42], [42, 9]);
/// let (sources, targets) = index.get_or_insert_ends(&mut graph, &from, &to)?;
/// assert!(graph.insert(&sources, &targets, &[0.5, 1.5])?.all_placed());
///
/// // Later batches name edges by ids, too. Ids without a vertex have no edges.
/// let (sources, targets) = index.ends(&[42, 43], &[9, 9])?;
/// assert_eq!(graph.weight(&sources, &targets)?, [Some(1.5), None]);
/// let found = graph.neighbors(&index.get(&[42])?)?;
/// assert_eq!(index.id_of(found.of(0))?, [Some(9)]);
///
/// assert_eq!(index.remove(&mut graph, &[9, 10])?, [Outcome::Removed, Outcome::Absent]);
/// assert_eq!((index.len()?, graph.edge_count()?), (2, 1));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// Lookups take `&self` and may run in several streams and host threads. `get_or_insert` and `remove` take
/// `&mut self` and `&mut DynamicGraph`, and wait for the device.
///
/// # Cost
///
/// | call | cost |
/// |---|---|
/// | `get`, `ends` | copies of ids and vertices; a lookup in the map per id |
/// | `get_or_insert` | the same; sorts the new ids on the host, and inserts them into the map; [`DynamicGraph::insert_vertices`]; a launch that writes the array; if it is too short, a longer one and a copy |
/// | `id_of` | the copies; a launch that reads 8 bytes per vertex, and a lookup per id |
/// | `remove` | a lookup and a removal per id; [`DynamicGraph::remove_vertices`] |
/// | `get_on` | a fill of the vertices, and a lookup per id, in the stream; no wait |
/// | `len` | waits for the device; copies 8 KiB |
pub struct VertexIndex {
    vertices: HashMap<u64, u32>,
    /// Id of each vertex, which is valid if the map leads from it to this vertex.
    ids: Buffer<u64>,
}

impl std::fmt::Debug for VertexIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VertexIndex").field("device", &self.device().name()).finish_non_exhaustive()
    }
}

impl VertexIndex {
    /// The vertex that lookups return for ids without one. No graph has it, so it has no edges.
    pub const ABSENT: u32 = u32::MAX;

    /// Creates an index without ids for a graph.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn new<E: Data>(graph: &DynamicGraph<E>) -> Result<Self> {
        let vertices = HashMap::builder().device(graph.device()).capacity(graph.vertices()).build()?;
        Ok(Self { vertices, ids: graph.device().zeroed(graph.vertices())? })
    }

    /// Returns the device that holds the index.
    pub fn device(&self) -> &Device {
        self.ids.device()
    }

    /// Returns the number of ids. Waits for all earlier launches.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn len(&self) -> Result<usize> {
        self.vertices.len()
    }

    /// Returns whether there are no ids. Waits for all earlier launches.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns the bytes of device memory that the index holds between calls.
    pub fn memory_usage(&self) -> usize {
        self.vertices.memory_usage() + self.ids.byte_len()
    }

    /// Returns the vertex of each id, or [`Self::ABSENT`].
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn get(&self, ids: &[u64]) -> Result<Vec<u32>> {
        let found = self.vertices.get(ids)?;
        Ok(found.into_iter().map(|vertex| vertex.unwrap_or(Self::ABSENT)).collect())
    }

    /// Returns the vertices of both ends of edges, or [`Self::ABSENT`] for ids without one.
    ///
    /// # Errors
    /// [`Error::Length`] if the slices differ in length; [`Error::Device`] if the device is lost or lacks the
    /// memory.
    pub fn ends(&self, sources: &[u64], targets: &[u64]) -> Result<(Vec<u32>, Vec<u32>)> {
        check("targets", sources.len(), targets.len())?;
        Ok((self.get(sources)?, self.get(targets)?))
    }

    /// Writes the vertex of each id, or [`Self::ABSENT`], and `Found` or `Absent`. Submits the work to a
    /// stream, and does not wait for it.
    ///
    /// ```
    /// use phalanx::DynamicGraph;
    /// use phalanx::graph::VertexIndex;
    ///
    /// let mut graph = DynamicGraph::<()>::builder().vertices(1).build()?;
    /// let mut index = VertexIndex::new(&graph)?;
    /// assert_eq!(index.get_or_insert(&mut graph, &[70])?, [1]);
    /// let (device, stream) = (graph.device(), graph.device().stream()?);
    /// let ids = device.from_slice(&[70u64, 71])?;
    /// let (mut vertices, mut outcomes) = (device.buffer::<u32>(2)?, device.buffer::<u8>(2)?);
    /// index.get_on(&stream, &ids, &mut vertices, &mut outcomes)?;
    /// assert_eq!(vertices.read()?, [1, VertexIndex::ABSENT]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`] if lengths differ; [`Error::OtherDevice`] if a buffer or the stream is of another
    /// device; [`Error::Device`] if the device is lost.
    pub fn get_on(
        &self,
        stream: &Stream,
        ids: impl AsSlice<u64>,
        mut vertices: impl AsSliceMut<u32>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        let ids = ids.view();
        check_same_device(self.device(), "stream", stream.device())?;
        check_same_device(self.device(), "vertices", vertices.view().device())?;
        check("vertices", ids.len(), vertices.view().len())?;
        // SAFETY: the vertices lie in live memory of this device; dropping their buffer waits for the fill.
        unsafe { stream.fill(vertices.view().global(), 0xff)? };
        self.vertices.on(stream).get(ids, vertices.view_mut(), outcomes)
    }

    /// Returns the vertex of each id. Ids without one get new vertices of the graph, in ascending order of
    /// the ids; equal ids get one vertex.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more than 2^32 - 4 vertices; [`Error::OtherDevice`] if the graph is of another
    /// device; [`Error::NoRoom`] or [`Error::Device`] if the device is lost or lacks the memory. No id has
    /// got a vertex then, and the graph has no more vertices that exist than before.
    pub fn get_or_insert<E: Data>(&mut self, graph: &mut DynamicGraph<E>, ids: &[u64]) -> Result<Vec<u32>> {
        check_same_device(self.device(), "graph", graph.device())?;
        let mut vertices = self.get(ids)?;
        let is_new = |vertex: &u32| *vertex == Self::ABSENT;
        let mut new: Vec<u64> =
            ids.iter().zip(&vertices).filter(|(_, vertex)| is_new(vertex)).map(|(&id, _)| id).collect();
        if new.is_empty() {
            return Ok(vertices);
        }
        new.sort_unstable();
        new.dedup();
        let added = graph.insert_vertices(new.len())?;
        if let Err(error) = self.assign(&new, &added, graph.vertices()) {
            // As before; if the device is lost, there is nothing to restore.
            drop(self.vertices.remove(&new));
            drop(graph.remove_vertices(&added));
            return Err(error);
        }
        for (vertex, id) in vertices.iter_mut().zip(ids).filter(|(vertex, _)| is_new(vertex)) {
            // All absent ids are among the new ones.
            *vertex = new.binary_search(id).map_or(Self::ABSENT, |place| added[place]);
        }
        Ok(vertices)
    }

    /// Returns the vertices of both ends of edges, as [`Self::get_or_insert`] does.
    ///
    /// # Errors
    /// [`Error::Length`] if the slices differ in length; otherwise as [`Self::get_or_insert`].
    pub fn get_or_insert_ends<E: Data>(
        &mut self,
        graph: &mut DynamicGraph<E>,
        sources: &[u64],
        targets: &[u64],
    ) -> Result<(Vec<u32>, Vec<u32>)> {
        check("targets", sources.len(), targets.len())?;
        let mut vertices = self.get_or_insert(graph, &[sources, targets].concat())?;
        let targets = vertices.split_off(sources.len());
        Ok((vertices, targets))
    }

    /// Assigns vertices to new ids. The graph has `count` ids of vertices.
    fn assign(&mut self, ids: &[u64], vertices: &[u32], count: usize) -> Result<()> {
        if count > self.ids.len() {
            let mut longer = self.device().zeroed(count)?;
            longer.copy_at(0, &self.ids)?;
            self.ids = longer;
        }
        let (device, stream) = (self.device(), self.device().default_stream());
        let (places, words) = (device.from_slice(vertices)?, device.from_slice(ids)?);
        let (table, grid) = (self.ids.global(), Grid::for_items(ids.len(), THREADS));
        // SAFETY: the buffers outlive the launch, since dropping them waits for it. Vertices differ, and
        // nothing else accesses the array: `&mut self`, and lookups have ended.
        unsafe { stream.launch(grid, IndexWrite { vertices: places.global(), ids: words.global(), table })? };
        stream.synchronize()?;
        self.vertices.insert(ids, vertices).map(drop)
    }

    /// Returns the id of each vertex. Vertices that have none, or do not exist, have `None`.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn id_of(&self, vertices: &[u32]) -> Result<Vec<Option<u64>>> {
        let (device, stream) = (self.device(), self.device().stream()?);
        let (places, words) = (device.from_slice(vertices)?, device.buffer::<u64>(vertices.len())?);
        let (table, grid) = (self.ids.global(), Grid::for_items(vertices.len(), THREADS));
        // SAFETY: the buffers outlive the launch, since dropping them waits for it. Only this launch writes
        // the ids, and no launch writes the array: `&self`.
        unsafe { stream.launch(grid, IndexRead { vertices: places.global(), table, ids: words.global() })? };
        stream.synchronize()?;
        let ids = words.read()?;
        // An id is that of the vertex if it leads back.
        let back = self.get(&ids)?;
        let found = vertices.iter().zip(&back).zip(ids);
        Ok(found
            .map(|((&vertex, &back), id)| (vertex == back && vertex != Self::ABSENT).then_some(id))
            .collect())
    }

    /// Removes ids, their vertices and the edges of these. Outcomes: `Removed`, `Absent`; of equal ids one is
    /// removed.
    ///
    /// # Errors
    /// [`Error::OtherDevice`] if the graph is of another device; [`Error::Device`] if the device is lost or
    /// lacks the memory.
    pub fn remove<E: Data>(&mut self, graph: &mut DynamicGraph<E>, ids: &[u64]) -> Result<Outcomes> {
        check_same_device(self.device(), "graph", graph.device())?;
        let mut vertices = self.get(ids)?;
        vertices.retain(|&vertex| vertex != Self::ABSENT);
        // The vertices first: if that fails, the ids still lead to them, and the call can be repeated.
        drop(graph.remove_vertices(&vertices)?);
        let removed = self.vertices.remove(ids)?.into_iter();
        let outcome = |is_removed| if is_removed { Outcome::Removed } else { Outcome::Absent };
        Ok(removed.map(outcome).collect::<Vec<_>>().into())
    }
}
