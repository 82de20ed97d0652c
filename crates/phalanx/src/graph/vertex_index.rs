//! Ids of 64 bits for the vertices of a graph.
use super::DynamicGraph;
use super::data::Data;
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::map::batches::check_same_device;
use crate::map::check;
use crate::map::launch::nothing;
use crate::primitives::{Bits, Test, Workspace, compact_bytes, sort_bytes};
use crate::{HashMap, Outcome, Outcomes, Result};
use gpu::{AsSlice, AsSliceMut, Buffer, Device, Grid, Slice, SliceMut, Stream};
use phalanx_kernels::graph::index::{IndexAbsent, IndexWrite};
use phalanx_kernels::primitives::words::{GatherWords, Words};
use simt::GlobalSlice;

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
/// | `get_or_insert_on_device` | a copy of the new ids to the host, and of their vertices back; see there |
/// | `get_on` | a lookup per id, and a pass over the outcomes, in the stream; no wait |
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
        mut outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.look_up(stream, ids.view(), vertices.view_mut(), (outcomes.view_mut(), nothing()))
    }

    /// [`Self::get_on`], which writes 1 to `flags` for absent ids and 0 for others, unless it is empty.
    fn look_up(
        &self,
        stream: &Stream,
        ids: Slice<'_, u64>,
        mut vertices: SliceMut<'_, u32>,
        (mut outcomes, flags): (SliceMut<'_, u8>, GlobalSlice<u8>),
    ) -> Result<()> {
        check_same_device(self.device(), "stream", stream.device())?;
        self.vertices.on(stream).get(ids, vertices.view_mut(), outcomes.view_mut())?;
        let (grid, outcomes) = (Grid::for_items(ids.len(), THREADS), outcomes.view().global());
        let kernel = IndexAbsent { outcomes, vertices: vertices.view().global(), flags };
        // SAFETY: the lookup has checked the slices, which lie in live memory; dropping their buffers waits
        // for the launch.
        unsafe { Ok(stream.launch(grid, kernel)?) }
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
        let added = self.insert_new(graph, &new)?;
        for (vertex, id) in vertices.iter_mut().zip(ids).filter(|(vertex, _)| is_new(vertex)) {
            // All absent ids are among the new ones.
            *vertex = new.binary_search(id).map_or(Self::ABSENT, |place| added[place]);
        }
        Ok(vertices)
    }

    /// As [`Self::get_or_insert`], for ids on the device, whose vertices are written to `vertices`. Only new
    /// ids are copied to the host. Waits.
    ///
    /// ```
    /// use phalanx::DynamicGraph;
    /// use phalanx::graph::VertexIndex;
    ///
    /// let mut graph = DynamicGraph::<()>::builder().vertices(1).build()?;
    /// let mut index = VertexIndex::new(&graph)?;
    /// let device = graph.device().clone();
    /// let ids = device.from_slice(&[70u64, 5, 70, 6])?;
    /// let mut vertices = device.buffer::<u32>(4)?;
    /// index.get_or_insert_on_device(&mut graph, &ids, &mut vertices)?;
    /// assert_eq!(vertices.read()?, [3, 1, 3, 2]);
    /// // Edges 70 -> 5 and 70 -> 6, without a copy.
    /// let stream = device.stream()?;
    /// let (sources, targets) = (device.from_slice(&[3u32, 3])?, device.from_slice(&[1u32, 2])?);
    /// graph.on(&stream).insert(&sources, &targets, None)?;
    /// assert_eq!(graph.edge_count()?, 2);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: two lookups per id; a pass over the vertices, and a sort of the new ids; for these, the cost of
    /// [`Self::get_or_insert`].
    ///
    /// # Errors
    /// [`Error::Length`] if lengths differ; [`Error::OtherDevice`] if a buffer is of another device;
    /// otherwise as [`Self::get_or_insert`].
    pub fn get_or_insert_on_device<E: Data>(
        &mut self,
        graph: &mut DynamicGraph<E>,
        ids: impl AsSlice<u64>,
        mut vertices: impl AsSliceMut<u32>,
    ) -> Result<()> {
        check_same_device(self.device(), "graph", graph.device())?;
        let (stream, ids) = (self.device().stream()?, ids.view());
        let mut outcomes = self.device().buffer::<u8>(ids.len())?;
        let flags = self.device().buffer::<u8>(ids.len())?;
        self.look_up(&stream, ids, vertices.view_mut(), (outcomes.slice_mut(..)?, flags.global()))?;
        let new = self.new_ids(&stream, ids, &flags)?;
        if new.is_empty() {
            return Ok(stream.synchronize()?);
        }
        self.insert_new(graph, &new)?;
        self.get_on(&stream, ids, vertices.view_mut(), &mut outcomes)?;
        Ok(stream.synchronize()?)
    }

    /// Returns the ids with flags, in ascending order, each once.
    fn new_ids(&self, stream: &Stream, ids: Slice<'_, u64>, flags: &Buffer<u8>) -> Result<Vec<u64>> {
        let (device, len) = (self.device(), ids.len());
        let mut count = device.zeroed::<u32>(1)?;
        let (mut new, mut distinct) = (device.buffer::<u64>(len)?, device.buffer::<u64>(len)?);
        let mut work = Workspace::new(stream, compact_bytes(len).max(sort_bytes::<u64, ()>(len)))?;
        work.compact(ids, Test::Flagged(flags.into()), &mut new, &mut count)?;
        let found = read_count(stream, &count)?;
        if found == 0 {
            return Ok(Vec::new());
        }
        work.sort_keys_in_place(new.slice_mut(..found)?, Bits::ALL)?;
        work.unique(new.slice(..found)?, distinct.slice_mut(..found)?, &mut count)?;
        let found = read_count(stream, &count)?;
        Ok(distinct.slice(..found)?.read()?)
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

    /// Inserts vertices for new ids, which differ, and returns them. After an error all is as before.
    fn insert_new<E: Data>(&mut self, graph: &mut DynamicGraph<E>, new: &[u64]) -> Result<Vec<u32>> {
        let added = graph.insert_vertices(new.len())?;
        if let Err(error) = self.assign(new, &added, graph.vertices()) {
            // If the device is lost, there is nothing to restore.
            drop(self.vertices.remove(new));
            drop(graph.remove_vertices(&added));
            return Err(error);
        }
        Ok(added)
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
        // 0 for vertices that do not exist.
        let (places, words) = (device.from_slice(vertices)?, device.zeroed::<u64>(vertices.len())?);
        let (from, to, grid) = (self.ids.global(), words.global(), Grid::for_items(vertices.len(), THREADS));
        let (more, order) = (nothing(), places.global());
        // SAFETY: the buffers outlive the launch, since dropping them waits for it. Only this launch writes
        // the ids, and no launch writes the array: `&self`.
        unsafe { stream.launch(grid, GatherWords::<Words<u64>> { from, more, order, words: 1, to })? };
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

/// Waits, and returns the number in a buffer.
fn read_count(stream: &Stream, count: &Buffer<u32>) -> Result<usize> {
    stream.synchronize()?;
    let mut number = [0];
    count.read_into(0, &mut number)?;
    Ok(number[0] as usize)
}
