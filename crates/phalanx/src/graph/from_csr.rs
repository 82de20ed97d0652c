//! Graphs that are built from compressed sparse rows.
use super::csr::{Csr, Rows};
use super::csr_merge::threads_of_runs;
use super::data::Data;
use super::kernels::resident_grid;
use super::{Builder, DynamicGraph, Kind};
use crate::map::outcome_of;
use crate::{Error, Outcome, Result};
use gpu::Buffer;
use phalanx_kernels::graph::merge::RowSources;
use std::ops::Range;

impl<E: Data> Builder<E> {
    /// Creates a graph with the edges of rows, on their device, of their kind, and with at least their number
    /// of vertices. Memory is allocated for their degrees. Equal edges count once, unless
    /// [`parallel_edges`](Self::parallel_edges) keeps them.
    ///
    /// ```
    /// use phalanx::graph::{Csr, Kind, Rows};
    /// use phalanx::{Device, DynamicGraph};
    ///
    /// let rows = Rows { offsets: vec![0, 2, 3, 4], targets: vec![1, 2, 0, 0], data: vec![5, 6, 5, 6] };
    /// let csr = Csr::<u32>::from_rows(&Device::from_environment()?, &rows, Kind::Undirected)?;
    /// let graph = DynamicGraph::<u32>::builder().build_from(&csr)?;
    /// assert_eq!((graph.vertices(), graph.edge_count()?), (3, 2));
    /// assert_eq!(graph.weight(&[2], &[0])?, [Some(6)]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`DynamicGraph::bulk_build_on_device`], and a kernel that writes 4 bytes per target; 5 bytes
    /// per target meanwhile, for at most 2^29 targets at a time. The edges of an undirected graph are
    /// inserted from the rows of their smaller ends. Waits.
    ///
    /// # Errors
    /// [`Error::Rows`] if the graph refuses an edge: one that leads from a vertex to itself, unless
    /// [`self_edges`](Self::self_edges) allows it, or one whose data are NaN. [`Error::NoRoom`] if the memory
    /// is fixed and too small. Otherwise as [`Self::build`].
    pub fn build_from(self, rows: &Csr<E>) -> Result<DynamicGraph<E>> {
        let at_once = self.rows_at_once;
        let vertices = self.vertices.max(rows.vertices());
        let mut builder = self.device(rows.offsets().device()).kind(rows.kind()).vertices(vertices);
        builder.rows = Some(rows.offsets().global());
        let mut graph = builder.build()?;
        let len = rows.targets().len();
        for first in (0..len).step_by(at_once) {
            graph.insert_rows(rows, first..(first + at_once).min(len))?;
        }
        graph.order().workspace.trim()?;
        Ok(graph)
    }
}

impl<E: Data> DynamicGraph<E> {
    /// Inserts the edges of the targets in `range`.
    fn insert_rows(&mut self, rows: &Csr<E>, range: Range<usize>) -> Result<()> {
        let (device, stream) = (self.device().clone(), self.device().stream()?);
        let sources = device.buffer::<u32>(range.len())?;
        let mut outcomes = device.zeroed::<u8>(range.len())?;
        let kernel = RowSources {
            offsets: rows.offsets().global(),
            targets: rows.targets().global(),
            first: range.start as u64,
            one_half: u32::from(rows.kind() == Kind::Undirected),
            sources: sources.global(),
        };
        let targets = rows.targets().slice(range.clone())?;
        // SAFETY: the buffers outlive the launch: dropping them waits for it.
        unsafe { stream.launch(resident_grid(&stream, threads_of_runs(range.len())), kernel)? };
        stream.synchronize()?;
        self.expect_edges(sources.global(), kernel.targets.part(range.start, range.len()))?;
        let data = if E::HAS_DATA { rows.bits().part(range.start, range.len()) } else { rows.bits() };
        let before = self.edge_count()?;
        let batches = self.on(&stream);
        batches.submit_insertion(None, batches.changes(&sources, targets, data, &mut outcomes)?)?;
        stream.synchronize()?;
        let added = self.edge_count()? - before;
        let is_whole = range.len() == rows.targets().len();
        match rows.kind() {
            Kind::Directed if added == range.len() => Ok(()),
            Kind::Undirected if is_whole && added == rows.edge_count() => Ok(()),
            _ => self.complete(rows, range.start, &outcomes),
        }
    }

    /// Inserts the edges that were refused once more, with more memory. `outcomes` are those of the targets
    /// from `first` on.
    fn complete(&self, rows: &Csr<E>, first: usize, outcomes: &Buffer<u8>) -> Result<()> {
        let (codes, Rows { offsets, targets, data }) = (outcomes.read()?, rows.read()?);
        let source = |place: usize| (offsets.partition_point(|&begin| begin <= place as u64) - 1) as u32;
        let is_other_half = |place| rows.kind() == Kind::Undirected && source(place) > targets[place];
        let refused = (first..first + codes.len())
            .filter(|&place| outcome_of(codes[place - first]) == Outcome::Refused && !is_other_half(place));
        let mut again = (Vec::new(), Vec::new(), Vec::new());
        for place in refused {
            again.0.push(source(place));
            again.1.push(targets[place]);
            again.2.push(data[place]);
        }
        match self.insert_any(&again.0, &again.1, &again.2)?.refused() {
            0 => Ok(()),
            _ => {
                Err(Error::Rows("an edge that leads from a vertex to itself, or has NaN as data, is refused"))
            }
        }
    }
}
