//! Graphs as compressed sparse rows, and snapshots.
use super::data::Data;
use super::kernels::{Launch, Whole};
use super::memory::{ClearedRows, MOST_VERTICES, Memory, RowSpace};
use super::{DynamicGraph, Kind};
use crate::map::batches::check_same_device;
#[allow(unused_imports)] // for links in the documentation
use crate::{Error, Result};
use bytemuck::Pod;
use gpu::{Buffer, Device, Slice, Stream};
use phalanx_kernels::graph::{ROW_THREADS, RowCopy, row_groups};
use simt::GlobalSlice;
use std::sync::{Arc, PoisonError};

/// A graph as compressed sparse rows in device memory: the neighbours of all vertices in one array, and the
/// offset at which those of each vertex begin. Made by [`DynamicGraph::to_csr`].
///
/// ```
/// use phalanx::DynamicGraph;
///
/// let graph = DynamicGraph::<u32>::builder().vertices(3).build()?;
/// assert!(graph.insert(&[0, 2, 0], &[1, 0, 2], &[5, 7, 6])?.all_placed());
/// let csr = graph.to_csr()?;
/// assert_eq!((csr.vertices(), csr.edge_count(), csr.targets().len()), (3, 3, 3));
/// let rows = csr.read()?;
/// assert_eq!((rows.offsets.len(), csr.offsets().len()), (4, 4));
/// assert_eq!((rows.targets[2], rows.data[2]), (0, 7));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `read` waits for the device and copies all to the host. The others are O(1).
#[derive(Debug)]
pub struct Csr<E: Data> {
    offsets: Buffer<u64>,
    /// Memory for targets; the first `len` are those of the graph.
    targets: Buffer<u32>,
    /// As many as targets, or none if edges have no data.
    data: Buffer<E::Bits>,
    len: usize,
    edges: usize,
    kind: Kind,
}

/// A [`Csr`] on the host.
///
/// ```
/// use phalanx::graph::Rows;
///
/// let rows = Rows { offsets: vec![0, 1], targets: vec![0], data: vec![()] };
/// assert_eq!(rows.of(0), [0]);
/// ```
///
/// # Cost
///
/// O(1) on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows<E> {
    /// Place in [`Self::targets`] at which the row of each vertex begins, and the number of all targets.
    pub offsets: Vec<u64>,
    /// Targets of the edges, row by row; in any order within a row.
    pub targets: Vec<u32>,
    /// Data of the edges, in the same order.
    pub data: Vec<E>,
}

impl<E> Rows<E> {
    /// Returns the targets of a vertex.
    ///
    /// # Panics
    /// If there is no such vertex.
    pub fn of(&self, vertex: u32) -> &[u32] {
        let offset = |vertex: usize| self.offsets[vertex] as usize;
        &self.targets[offset(vertex as usize)..offset(vertex as usize + 1)]
    }
}

impl<E: Data> Csr<E> {
    /// Copies rows to a device. The rows of an undirected graph have each edge at both ends, which is not
    /// checked.
    ///
    /// ```
    /// use phalanx::graph::algorithms::Components;
    /// use phalanx::graph::{Csr, Kind, Rows};
    ///
    /// let rows = Rows { offsets: vec![0, 1, 2, 2], targets: vec![1, 0], data: vec![(); 2] };
    /// let csr = Csr::from_rows(&phalanx::Device::from_environment()?, &rows, Kind::Undirected)?;
    /// assert_eq!(Components::of(&csr)?.read()?, [0, 0, 2]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Rows`] if the offsets do not begin with 0, decrease, or do not end with the number of
    /// targets, if a target has no row, or if the numbers of targets and data differ; [`Error::TooLarge`] for
    /// more than 2^32 - 4 vertices; [`Error::Device`] if the device lacks the memory.
    pub fn from_rows(device: &Device, rows: &Rows<E>, kind: Kind) -> Result<Self> {
        let Rows { offsets, targets, data } = rows;
        let vertices = offsets.len().saturating_sub(1);
        let fault = match () {
            _ if offsets.first() != Some(&0) => "the offsets do not begin with 0",
            _ if !offsets.is_sorted() => "the offsets decrease",
            _ if offsets.last() != Some(&(targets.len() as u64)) => "the last offset is not that of the end",
            _ if targets.iter().any(|&target| target as usize >= vertices) => "a target has no row",
            _ if data.len() != targets.len() => "the numbers of targets and data differ",
            _ => "",
        };
        if !fault.is_empty() {
            return Err(Error::Rows(fault));
        }
        if vertices > MOST_VERTICES {
            return Err(Error::TooLarge { what: "vertices", asked: vertices, most: MOST_VERTICES });
        }
        crate::register_kernels(device);
        let bits: &[E::Bits] = if E::HAS_DATA { bytemuck::cast_slice(data) } else { &[] };
        let loops =
            (0..vertices as u32).map(|vertex| rows.of(vertex).iter().filter(|&&to| to == vertex).count());
        let edges = match kind {
            Kind::Directed => targets.len(),
            Kind::Undirected => (targets.len() + loops.sum::<usize>()) / 2,
        };
        let (len, data) = (targets.len(), device.from_slice(bits)?);
        let (offsets, targets) = (device.from_slice(offsets)?, device.from_slice(targets)?);
        Ok(Self { offsets, targets, data, len, edges, kind })
    }

    /// Returns rows for `vertices` vertices, with memory for `len` targets, which are not written yet.
    fn with_room(device: &Device, vertices: usize, len: usize, kind: Kind) -> Result<Self> {
        let (offsets, targets) = (device.buffer(vertices + 1)?, device.buffer(len)?);
        let data = device.buffer(if E::HAS_DATA { len } else { 0 })?;
        Ok(Self { offsets, targets, data, len, edges: 0, kind })
    }

    /// Makes the rows those of a graph without edges. Waits for the stream.
    fn forget(&mut self, stream: &Stream) -> Result<()> {
        (self.len, self.edges) = (0, 0);
        // SAFETY: the memory is the caller's, whose work of the stream is all that uses it, until the wait.
        unsafe { stream.fill(self.offsets.global(), 0)? };
        Ok(stream.synchronize()?)
    }

    /// Returns the number of vertices, removed ones included.
    pub fn vertices(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the number of edges. An edge of an undirected graph is in two rows and counts once.
    pub fn edge_count(&self) -> usize {
        self.edges
    }

    /// Returns whether edges have a direction. If not, each is in the rows of both ends.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the offsets of the rows.
    pub fn offsets(&self) -> &Buffer<u64> {
        &self.offsets
    }

    /// Returns the targets, row by row.
    pub fn targets(&self) -> Slice<'_, u32> {
        front(&self.targets, self.len)
    }

    /// Returns the bits of the data of edges.
    pub(super) fn bits(&self) -> GlobalSlice<E::Bits> {
        self.data.global().part(0, self.len.min(self.data.len()))
    }

    /// Copies the graph to the host.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost.
    pub fn read(&self) -> Result<Rows<E>> {
        let (offsets, targets) = (self.offsets.read()?, self.targets().read()?);
        let data = match E::HAS_DATA {
            true => front(&self.data, self.len).read()?.into_iter().map(E::from_bits).collect(),
            false => vec![E::from_bits(Default::default()); targets.len()],
        };
        Ok(Rows { offsets, targets, data })
    }
}

/// The state of a graph at one moment, which later batches do not change. Made by [`DynamicGraph::snapshot`].
///
/// ```
/// use phalanx::DynamicGraph;
///
/// let graph = DynamicGraph::<()>::builder().vertices(3).build()?;
/// assert!(graph.insert(&[0], &[1])?.all_placed());
/// let snapshot = graph.snapshot()?;
/// assert_eq!(graph.remove(&[0], &[1])?.len(), 1);
/// assert_eq!((snapshot.csr().edge_count(), graph.edge_count()?), (1, 0));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `csr` is O(1). Clones share the memory, which is freed with the last of them.
#[derive(Clone, Debug)]
pub struct Snapshot<E: Data>(Arc<Csr<E>>);

impl<E: Data> Snapshot<E> {
    /// Returns the edges.
    pub fn csr(&self) -> &Csr<E> {
        &self.0
    }
}

/// Returns the first `len` elements of a buffer, which has as many.
fn front<T: Pod>(buffer: &Buffer<T>, len: usize) -> Slice<'_, T> {
    Slice::from(buffer).slice(..len.min(buffer.len())).unwrap_or_else(|_| buffer.into())
}

/// Returns the last offset.
fn last_of(offsets: &Buffer<u64>) -> Result<usize> {
    let mut last = [0];
    offsets.read_into(offsets.len() - 1, &mut last)?;
    Ok(last[0] as usize)
}

impl<E: Data> DynamicGraph<E> {
    /// Copies the graph into compressed sparse rows. Batches that change the graph wait for the copy; lookups
    /// do not.
    ///
    /// Cost: two launches, which read all records and slabs once from memory, those of a warp's vertices with
    /// more than 640 edges twice; waits for the number of edges, and for the copy. 16 bytes per 128 vertices
    /// and 12 per two slabs of the arena, which the graph keeps.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn to_csr(&self) -> Result<Csr<E>> {
        let mut rows = Csr::with_room(self.device(), 0, 0, self.kind)?;
        self.to_csr_into(&mut rows)?;
        Ok(rows)
    }

    /// Copies the graph into rows, as [`Self::to_csr`], and uses their memory where it suffices.
    ///
    /// ```
    /// let graph = phalanx::DynamicGraph::<()>::builder().vertices(3).build()?;
    /// let mut rows = graph.to_csr()?;
    /// assert!(graph.insert(&[0], &[2])?.all_placed());
    /// graph.to_csr_into(&mut rows)?;
    /// assert_eq!(rows.read()?.of(0), [2]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::to_csr`]; if the rows are large enough, without an allocation, and the number of
    /// edges is read beside the copy.
    ///
    /// # Errors
    /// [`Error::OtherDevice`] if the rows are on another device, otherwise as [`Self::to_csr`]. If the
    /// copy fails, also for lack of memory for larger rows, these have no edges any more.
    pub fn to_csr_into(&self, rows: &mut Csr<E>) -> Result<()> {
        check_same_device(self.device(), "rows", rows.offsets.device())?;
        let memory = self.handle.read();
        // The mutex is held meanwhile, so no change is submitted.
        let mut order = self.order();
        let found = order.rows.take();
        let mut space = found.map_or_else(|| RowSpace::new(self.device()).map(Box::new), Ok)?;
        let copied = order.read_to_end(&space.streams(), || self.copy_rows(&memory, &mut space, rows));
        order.rows = Some(space);
        drop((order, memory));
        copied?;
        rows.kind = self.kind;
        rows.edges = self.edges_in(rows)?;
        Ok(())
    }

    /// Returns the number of targets of an edge in rows, unless it leads from a vertex to itself.
    fn halves_of_rows(&self) -> usize {
        1 + usize::from(self.kind == Kind::Undirected)
    }

    /// Copies the graph into rows, which get the room that they lack, and waits for the copy. It is submitted
    /// before the host knows the number of edges, which is read meanwhile, and leaves out those that do not
    /// fit. After an error the copy has ended, too, and the rows have no edges.
    fn copy_rows(&self, memory: &Memory, space: &mut RowSpace, rows: &mut Csr<E>) -> Result<()> {
        let copied = self.try_copy_rows(memory, space, rows);
        if copied.is_err() {
            // The first error is the cause of a second one.
            rows.forget(&space.stream()).ok();
        }
        copied
    }

    fn try_copy_rows(&self, memory: &Memory, space: &mut RowSpace, rows: &mut Csr<E>) -> Result<()> {
        let vertices = memory.vertices as usize;
        space.fit_vertices(vertices.div_ceil(ROW_THREADS as usize).max(1))?;
        let has_rows = rows.vertices() == vertices && !rows.targets.is_empty();
        if has_rows {
            self.submit_copy(memory, space, rows, rows.len)?;
        }
        let counts = space.counted(memory);
        space.stream().synchronize()?;
        let counts = counts?;
        let most = self.most_targets(counts.0);
        if !has_rows || !self.has_room(counts, space, rows) {
            self.fit_rows(memory, counts, space, rows)?;
            self.submit_copy(memory, space, rows, most)?;
            space.stream().synchronize()?;
        }
        rows.len = if self.has_loops(memory) { last_of(&rows.offsets)?.min(most) } else { most };
        Ok(())
    }

    /// Returns the number of targets in rows of so many edges, self-edges of undirected graphs counted twice.
    fn most_targets(&self, edges: usize) -> usize {
        edges * self.halves_of_rows()
    }

    /// Returns whether rows and space are large enough for so many edges and slabs of tables.
    fn has_room(&self, (edges, tables): (usize, usize), space: &RowSpace, rows: &Csr<E>) -> bool {
        rows.targets.len() >= self.most_targets(edges) && space.has_parts(tables / 2)
    }

    /// Makes room for so many edges and slabs of tables.
    fn fit_rows(
        &self,
        memory: &Memory,
        (edges, tables): (usize, usize),
        space: &mut RowSpace,
        rows: &mut Csr<E>,
    ) -> Result<()> {
        let (vertices, most) = (memory.vertices as usize, self.most_targets(edges));
        space.fit_parts(tables / 2)?;
        if rows.vertices() != vertices || rows.targets.len() < most {
            *rows = Csr::with_room(self.device(), vertices, most, self.kind)?;
        }
        Ok(())
    }

    /// Submits a copy into rows, of about so many targets.
    fn submit_copy(&self, memory: &Memory, space: &RowSpace, rows: &Csr<E>, expected: usize) -> Result<()> {
        // SAFETY: the stream has the fills before the launch, and nothing else uses the space.
        let ClearedRows { parts, cursors, status, tickets } = unsafe { space.cleared()? };
        let (offsets, targets) = (rows.offsets.global(), rows.targets.global());
        let groups = row_groups(memory.vertices, expected as u64, E::HAS_DATA);
        let data = rows.data.global();
        let copy = RowCopy { offsets, targets, data, parts, cursors, status, tickets, groups };
        self.launch_on(&space.stream(), memory, Launch::Whole(Whole::Rows(copy)))
    }

    /// Returns whether an edge may be in rows once although others are in two.
    fn has_loops(&self, memory: &Memory) -> bool {
        memory.flags.is_undirected() && memory.flags.has_self_edges()
    }

    /// Returns the number of edges in rows: the number of targets or, in an undirected graph, half of those
    /// that are not self-edges, and the self-edges.
    fn edges_in(&self, rows: &Csr<E>) -> Result<usize> {
        if !self.has_loops(&self.handle.read()) {
            return Ok(rows.len / self.halves_of_rows());
        }
        let (offsets, targets) = (rows.offsets.read()?, rows.targets().read()?);
        let row = |vertex: usize| &targets[offsets[vertex] as usize..offsets[vertex + 1] as usize];
        let is_loop = |vertex: usize| row(vertex).contains(&(vertex as u32));
        let loops = (0..offsets.len() - 1).filter(|&vertex| is_loop(vertex)).count();
        Ok((targets.len() + loops) / 2)
    }

    /// Returns the state of the graph between two batches. Later batches do not change it. Snapshots without
    /// a batch in between share their memory.
    ///
    /// Cost: as [`Self::to_csr`], or O(1) if nothing has changed since the last snapshot that is alive.
    ///
    /// # Errors
    /// As [`Self::to_csr`].
    pub fn snapshot(&self) -> Result<Snapshot<E>> {
        let mut last = self.last_snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.order().changes;
        if let Some(csr) = last.1.upgrade().filter(|_| last.0 == changes) {
            return Ok(Snapshot(csr));
        }
        let csr = Arc::new(self.to_csr()?);
        // If a batch was submitted between the two, the next snapshot is another copy.
        *last = (changes, Arc::downgrade(&csr));
        Ok(Snapshot(csr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_forgotten_are_those_of_no_edges() {
        let device = Device::emulator(Default::default());
        let rows = Rows { offsets: vec![0, 2, 2, 3], targets: vec![1, 2, 0], data: vec![5u32, 6, 7] };
        let mut csr = Csr::from_rows(&device, &rows, Kind::Directed).unwrap();
        csr.forget(&device.stream().unwrap()).unwrap();
        assert_eq!((csr.vertices(), csr.edge_count()), (3, 0));
        assert_eq!(csr.read().unwrap(), Rows { offsets: vec![0; 4], targets: vec![], data: vec![] });
    }
}
