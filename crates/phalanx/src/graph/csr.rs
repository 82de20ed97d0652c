//! Graphs as compressed sparse rows, and snapshots.
use super::data::Data;
use super::kernels::{Launch, Whole};
use super::memory::{MOST_VERTICES, Memory};
use super::whole::parts_of_tables;
use super::{DynamicGraph, Kind};
use crate::map::counts::Counts;
#[allow(unused_imports)] // for links in the documentation
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream};
use phalanx_kernels::graph::{ROW_THREADS, RowCopy};
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
    targets: Buffer<u32>,
    data: Buffer<E::Bits>,
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
        let (offsets, targets) = (device.from_slice(offsets)?, device.from_slice(targets)?);
        Ok(Self { offsets, targets, data: device.from_slice(bits)?, edges, kind })
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
    pub fn targets(&self) -> &Buffer<u32> {
        &self.targets
    }

    /// Returns the bits of the data of edges.
    pub(super) fn bits(&self) -> GlobalSlice<E::Bits> {
        self.data.global()
    }

    /// Copies the graph to the host.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost.
    pub fn read(&self) -> Result<Rows<E>> {
        let (offsets, targets) = (self.offsets.read()?, self.targets.read()?);
        let data = match E::HAS_DATA {
            true => self.data.read()?.into_iter().map(E::from_bits).collect(),
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

/// Offsets, targets and data of rows.
type RowBuffers<E> = (Buffer<u64>, Buffer<u32>, Buffer<<E as Data>::Bits>);

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
    /// Cost: two launches, which read all records and slabs once from memory; waits for the number of edges.
    /// 4 bytes per vertex and 8 per two slabs of the arena meanwhile.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn to_csr(&self) -> Result<Csr<E>> {
        let (memory, stream) = (self.handle.read(), self.device().stream()?);
        let mut rows = None;
        // The mutex is held meanwhile, so no change is submitted.
        self.order().read(&stream, || {
            stream.synchronize()?;
            let mut halves = Counts::read(&memory.counters)?.live * self.halves_of_rows();
            loop {
                let (offsets, targets, data) = self.copy_rows(&stream, &memory, halves)?;
                let found = last_of(&offsets)?;
                if found == halves {
                    rows = Some((offsets, targets, data));
                    return Ok(());
                }
                // Self-edges of undirected graphs have one half.
                halves = found;
            }
        })?;
        drop(memory);
        let Some((offsets, targets, data)) = rows else {
            return Err(Error::Invalid("a copy into rows has no result".to_owned()));
        };
        let edges = self.edges_in(&targets, &offsets)?;
        Ok(Csr { offsets, targets, data, edges, kind: self.kind })
    }

    /// Returns the number of targets of an edge in rows, unless it leads from a vertex to itself.
    fn halves_of_rows(&self) -> usize {
        1 + usize::from(self.kind == Kind::Undirected)
    }

    /// Copies the graph into rows with room for `halves` targets, and waits. The last offset is the number of
    /// targets of the graph.
    fn copy_rows(&self, stream: &Stream, memory: &Memory, halves: usize) -> Result<RowBuffers<E>> {
        let (device, vertices) = (self.device(), memory.vertices as usize);
        let blocks = vertices.div_ceil(ROW_THREADS as usize);
        let (offsets, targets) = (device.buffer::<u64>(vertices + 1)?, device.buffer::<u32>(halves)?);
        let data = device.buffer::<E::Bits>(if E::HAS_DATA { halves } else { 0 })?;
        let (cursors, parts) = (device.buffer::<u32>(vertices)?, parts_of_tables(memory, stream)?);
        let (status, tickets) = (device.zeroed::<u64>(2 * blocks)?, device.zeroed::<u32>(1)?);
        let copy = RowCopy {
            offsets: offsets.global(),
            targets: targets.global(),
            data: data.global(),
            cursors: cursors.global(),
            parts: parts.slices(),
            status: status.global(),
            tickets: tickets.global(),
        };
        self.launch_on(stream, memory, Launch::Whole(Whole::Rows(copy)))?;
        stream.synchronize()?;
        Ok((offsets, targets, data))
    }

    /// Returns the number of edges in rows: the number of targets or, in an undirected graph, half of those
    /// that are not self-edges, and the self-edges.
    fn edges_in(&self, targets: &Buffer<u32>, offsets: &Buffer<u64>) -> Result<usize> {
        let flags = self.handle.read().flags;
        if !flags.is_undirected() || !flags.has_self_edges() {
            return Ok(targets.len() / if flags.is_undirected() { 2 } else { 1 });
        }
        let (offsets, targets) = (offsets.read()?, targets.read()?);
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
