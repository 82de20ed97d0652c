//! A baseline: compressed sparse rows that sorted batches are merged into.
use super::Kind;
use super::algorithms::{Adjacent, Bound, Source, Steps, Traversal};
use super::csr::Rows;
use super::data::{Data, Weight};
use super::kernels::resident_grid;
use crate::map::batches::{check_same_device, optional_slice, slice};
use crate::map::launch::nothing;
use crate::map::{check, outcome_of};
use crate::primitives::{Bits, Workspace, scan_bytes, sort_bytes};
use crate::{Error, Outcomes, Result};
use gpu::{AsSlice, Buffer, Device, Grid, OptionalSliceMut, Stream};
use phalanx_kernels::graph::Flags;
use phalanx_kernels::graph::algorithms::{CsrRows, RowsView};
use phalanx_kernels::graph::merge::{
    KeyBatch, MERGE_RUN, MergeFind, MergeKeys, MergeOffsets, MergeReplace, MergeSelect, MergeWords,
    Selection, SortedBatch,
};
use phalanx_kernels::primitives::words::{GatherWords, Words};
use simt::{GlobalSlice, Word};

/// Maximum number of vertices: a key has two of them, and a bit.
const MOST_VERTICES: usize = 1 << 31;

/// A graph as compressed sparse rows, which each batch copies: a baseline for measurements, to which
/// [`DynamicGraph`](super::DynamicGraph) is compared. It is the fastest structure for batches of about a
/// hundredth of all edges or more.
///
/// The batch is sorted by source and target, and merged into the rows by one pass over them. Rows are sorted.
/// Edges from a vertex to itself are refused; of equal edges in a batch the first one counts. Weights are not
/// checked: a NaN is stored.
///
/// ```
/// use phalanx::graph::algorithms::triangles;
/// use phalanx::graph::{CsrMerge, Kind};
/// use phalanx::{Device, Outcome};
///
/// let device = Device::from_environment()?;
/// let mut graph = CsrMerge::<()>::new(&device, 4, Kind::Undirected)?;
/// let outcomes = graph.insert(&[0, 1, 2, 3, 1], &[1, 2, 0, 3, 0])?;
/// assert_eq!(outcomes[3..], [Outcome::Refused, Outcome::Found]);
/// assert_eq!((graph.edge_count(), triangles(&graph)?), (3, 1));
/// assert_eq!(graph.remove(&[1, 2], &[0, 3])?, [Outcome::Removed, Outcome::Absent]);
/// assert_eq!(graph.read()?.targets, [2, 2, 0, 1]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// None: batches take `&mut self`, and run on the graph's own stream.
///
/// # Cost
///
/// A batch: a radix sort of a key of 8 bytes and a number of 4 per half, some 60 bytes per half for searches
/// and compaction, and a read and a write of all offsets (8 bytes per vertex), targets (4 bytes per half) and
/// data; eight launches besides those of the sort. Waits once, for the number of changes. The memory of the
/// rows is there twice, with up to a quarter more than needed. Slices of the host are copied in one piece.
///
/// Source of the idea: the baseline that papers on dynamic graphs usually omit; merge by positions instead of
/// a merge path, since the searches tell the positions.
#[derive(Debug)]
pub struct CsrMerge<E: Data> {
    rows: RowBuffers<E>,
    /// Memory into which the next batch writes.
    spare: RowBuffers<E>,
    kind: Kind,
    work: Workspace,
    scratch: Scratch<E>,
}

/// Offsets, targets and data. Targets and data may have more room than there are edges.
#[derive(Debug)]
struct RowBuffers<E: Data> {
    offsets: Buffer<u64>,
    targets: Buffer<u32>,
    data: Buffer<E::Bits>,
    /// Number of targets.
    len: usize,
}

impl<E: Data> RowBuffers<E> {
    fn new(device: &Device, vertices: usize) -> Result<Self> {
        let (targets, data) = (device.buffer(0)?, device.buffer(0)?);
        Ok(Self { offsets: device.zeroed(vertices + 1)?, targets, data, len: 0 })
    }

    /// Makes room for `len` targets, whose old ones are lost.
    fn fit(&mut self, len: usize) -> Result<()> {
        let device = self.offsets.device().clone();
        if self.targets.len() < len {
            // The old memory is freed first.
            (self.targets, self.data) = (device.buffer(0)?, device.buffer(0)?);
            let room = len + len / 4;
            self.targets = device.buffer(room)?;
            self.data = device.buffer(if E::HAS_DATA { room } else { 0 })?;
        }
        self.len = len;
        Ok(())
    }

    fn targets(&self) -> GlobalSlice<u32> {
        self.targets.global().part(0, self.len)
    }

    fn data(&self) -> GlobalSlice<E::Bits> {
        self.data.global().part(0, self.len)
    }
}

/// Memory of a batch.
#[derive(Debug)]
struct Scratch<E: Data> {
    keys: Buffer<u64>,
    numbers: Buffer<u32>,
    places: Buffer<u64>,
    flags: Buffer<u32>,
    positions: Buffer<u32>,
    selected_keys: Buffer<u64>,
    selected_places: Buffer<u64>,
    selected_targets: Buffer<u32>,
    selected_elements: Buffer<u32>,
    values: Buffer<E::Bits>,
}

impl<E: Data> Scratch<E> {
    fn new(device: &Device, halves: usize) -> Result<Self> {
        Ok(Self {
            keys: device.buffer(halves)?,
            numbers: device.buffer(halves)?,
            places: device.buffer(halves)?,
            flags: device.buffer(halves)?,
            positions: device.buffer(halves + 1)?,
            selected_keys: device.buffer(halves)?,
            selected_places: device.buffer(halves)?,
            selected_targets: device.buffer(halves)?,
            selected_elements: device.buffer(halves)?,
            values: device.buffer(if E::HAS_DATA { halves } else { 0 })?,
        })
    }

    /// Returns the memory of `count` selected keys.
    fn selection(&self, count: usize) -> Selection {
        Selection {
            keys: self.selected_keys.global().part(0, count),
            places: self.selected_places.global().part(0, count),
            targets: self.selected_targets.global().part(0, count),
            elements: self.selected_elements.global().part(0, count),
        }
    }
}

/// A batch on the device.
#[derive(Clone, Copy)]
struct Batch<D> {
    sources: GlobalSlice<u32>,
    targets: GlobalSlice<u32>,
    data: GlobalSlice<D>,
    outcomes: GlobalSlice<u8>,
    removes: bool,
}

impl<E: Data> CsrMerge<E> {
    /// Creates a graph without edges.
    ///
    /// # Errors
    /// [`Error::Zero`] if there are no vertices; [`Error::TooLarge`] for more than 2^31;
    /// [`Error::Device`] if the device lacks the memory.
    pub fn new(device: &Device, vertices: usize, kind: Kind) -> Result<Self> {
        match vertices {
            0 => return Err(Error::Zero { what: "vertices" }),
            1..=MOST_VERTICES => {}
            _ => return Err(Error::TooLarge { what: "vertices", asked: vertices, most: MOST_VERTICES }),
        }
        Ok(Self {
            work: Workspace::new(&device.stream()?, 0)?,
            rows: RowBuffers::new(device, vertices)?,
            spare: RowBuffers::new(device, vertices)?,
            kind,
            scratch: Scratch::new(device, 0)?,
        })
    }

    /// Returns the stream on which batches run.
    pub fn stream(&self) -> &Stream {
        self.work.stream()
    }

    /// Returns the number of vertices.
    pub fn vertices(&self) -> usize {
        self.rows.offsets.len() - 1
    }

    /// Returns the number of edges. An edge of an undirected graph counts once.
    pub fn edge_count(&self) -> usize {
        self.rows.len / self.halves()
    }

    /// Returns the bytes of device memory that the graph holds between batches.
    pub fn memory_usage(&self) -> usize {
        let rows =
            |rows: &RowBuffers<E>| rows.offsets.byte_len() + rows.targets.byte_len() + rows.data.byte_len();
        let (s, halves) = (&self.scratch, self.scratch.keys.len());
        let scratch =
            s.keys.byte_len() * 3 + s.numbers.byte_len() * 4 + s.values.byte_len() + 4 * (halves + 1);
        rows(&self.rows) + rows(&self.spare) + scratch + self.work.memory_usage()
    }

    /// Copies the rows to the host.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost.
    pub fn read(&self) -> Result<Rows<E>> {
        let (mut targets, mut data) = (vec![0; self.rows.len], vec![Word::narrow(0); self.rows.len]);
        self.rows.targets.read_into(0, &mut targets)?;
        if E::HAS_DATA {
            self.rows.data.read_into(0, &mut data)?;
        }
        let data = data.into_iter().map(E::from_bits).collect();
        Ok(Rows { offsets: self.rows.offsets.read()?, targets, data })
    }

    /// Removes edges. Outcomes: `Removed`, `Absent`.
    ///
    /// # Errors
    /// [`Error::Length`] if the slices differ in length; [`Error::TooMany`] for 2^30 halves or more;
    /// [`Error::Device`] if the device is lost or lacks the memory. The graph is then as before.
    pub fn remove(&mut self, sources: &[u32], targets: &[u32]) -> Result<Outcomes> {
        self.run_host((sources, targets), nothing(), true)
    }

    /// Removes edges that are on the device. Otherwise as [`Self::remove`].
    ///
    /// ```
    /// use phalanx::graph::{CsrMerge, Kind};
    ///
    /// let device = phalanx::Device::from_environment()?;
    /// let mut graph = CsrMerge::<()>::new(&device, 4, Kind::Directed)?;
    /// let (sources, targets) = (device.from_slice(&[0u32, 1])?, device.from_slice(&[2u32, 3])?);
    /// graph.insert_on_device(&sources, &targets, None)?;
    /// assert_eq!(graph.edge_count(), 2);
    /// graph.remove_on_device(&sources, &targets, None)?;
    /// assert_eq!(graph.edge_count(), 0);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::remove`]; [`Error::OtherDevice`] if a buffer is on another device.
    pub fn remove_on_device(
        &mut self,
        sources: impl AsSlice<u32>,
        targets: impl AsSlice<u32>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        self.run_device((sources, targets), nothing(), outcomes, true)
    }

    fn halves(&self) -> usize {
        1 + usize::from(self.kind == Kind::Undirected)
    }

    fn bits(&self) -> u32 {
        (self.vertices() as u32 - 1).checked_ilog2().map_or(1, |log| log + 1)
    }

    fn grid(&self, items: usize) -> Grid {
        resident_grid(self.stream(), items)
    }

    /// Runs a batch of the host.
    fn run_host(
        &mut self,
        (sources, targets): (&[u32], &[u32]),
        data: GlobalSlice<E::Bits>,
        removes: bool,
    ) -> Result<Outcomes> {
        check("targets", sources.len(), targets.len())?;
        let device = self.stream().device().clone();
        let mut codes = device.zeroed::<u8>(sources.len())?;
        let (sources, targets) = (device.from_slice(sources)?, device.from_slice(targets)?);
        self.run_device((&sources, &targets), data, &mut codes, removes)?;
        self.stream().synchronize()?;
        Ok(codes.read()?.into_iter().map(outcome_of).collect::<Vec<_>>().into())
    }

    fn run_device(
        &mut self,
        (sources, targets): (impl AsSlice<u32>, impl AsSlice<u32>),
        data: GlobalSlice<E::Bits>,
        outcomes: impl OptionalSliceMut<u8>,
        removes: bool,
    ) -> Result<()> {
        let (device, sources) = (self.stream().device().clone(), sources.view());
        check_same_device(&device, "sources", sources.device())?;
        let len = sources.len();
        let targets = slice(&device, "targets", targets, len)?;
        let outcomes = optional_slice(&device, "outcomes", outcomes, len)?;
        let sources = slice(&device, "sources", sources, len)?;
        self.run(Batch { sources, targets, data, outcomes, removes })
    }

    /// Runs a batch whose memory the caller keeps.
    fn run(&mut self, batch: Batch<E::Bits>) -> Result<()> {
        let halves = batch.sources.len() * self.halves();
        if self.scratch.keys.len() < halves {
            self.scratch = Scratch::new(self.stream().device(), halves)?;
        }
        self.work.reserve(sort_bytes::<u64, u32>(halves).max(scan_bytes::<u32>(halves)))?;
        self.sort(batch, halves)?;
        let sorted = self.sorted(batch, halves);
        let has_data = u32::from(E::HAS_DATA);
        // SAFETY: the memory outlives the launch: dropping its buffers waits for it.
        unsafe {
            let find = MergeFind { batch: sorted, has_data, outcomes: batch.outcomes };
            self.stream().launch(self.grid(halves), find)?;
        }
        let flags = self.scratch.flags.slice(..halves)?;
        self.work.offsets(flags, self.scratch.positions.slice_mut(..halves + 1)?)?;
        self.stream().synchronize()?;
        let mut changes = [0];
        self.scratch.positions.read_into(halves, &mut changes)?;
        self.replace(batch, sorted)?;
        if changes[0] > 0 {
            self.merge(batch, sorted, changes[0] as usize)?;
        }
        Ok(())
    }

    /// Writes the keys of a batch, and sorts them.
    fn sort(&mut self, batch: Batch<E::Bits>, halves: usize) -> Result<()> {
        let flags = if self.kind == Kind::Undirected { Flags::NONE.undirected() } else { Flags::NONE };
        let bits = self.bits();
        let keys = KeyBatch {
            sources: batch.sources,
            targets: batch.targets,
            keys: self.scratch.keys.global().part(0, halves),
            numbers: self.scratch.numbers.global().part(0, halves),
            vertices: self.vertices() as u32,
            bits,
            flags,
        };
        // SAFETY: as for `run`.
        unsafe { self.stream().launch(self.grid(halves), MergeKeys { batch: keys })? };
        let Scratch { keys, numbers, .. } = &mut self.scratch;
        let (keys, numbers) = (keys.slice_mut(..halves)?, numbers.slice_mut(..halves)?);
        self.work.sort_pairs_in_place(keys, numbers, Bits::new(0, 2 * bits + 1))
    }

    /// Returns the sorted batch as kernels take it.
    fn sorted(&self, batch: Batch<E::Bits>, halves: usize) -> SortedBatch {
        SortedBatch {
            keys: self.scratch.keys.global().part(0, halves),
            numbers: self.scratch.numbers.global().part(0, halves),
            offsets: self.rows.offsets.global(),
            targets: self.rows.targets(),
            places: self.scratch.places.global().part(0, halves),
            flags: self.scratch.flags.global().part(0, halves),
            bits: self.bits(),
            halves: self.halves() as u32,
            removes: u32::from(batch.removes),
        }
    }

    /// Replaces the data of present edges.
    fn replace(&self, batch: Batch<E::Bits>, sorted: SortedBatch) -> Result<()> {
        if batch.removes || !E::HAS_DATA {
            return Ok(());
        }
        let kernel =
            MergeReplace::<Words<E::Bits>> { batch: sorted, data: batch.data, old: self.rows.data() };
        // SAFETY: as for `run`.
        unsafe { Ok(self.stream().launch(self.grid(sorted.keys.len()), kernel)?) }
    }

    /// Merges `changes` selected keys into the rows.
    fn merge(&mut self, batch: Batch<E::Bits>, sorted: SortedBatch, changes: usize) -> Result<()> {
        let selected = self.scratch.selection(changes);
        let positions = self.scratch.positions.global();
        let old = self.rows.len;
        self.spare.fit(if batch.removes { old - changes } else { old + changes })?;
        let Selection { keys, places, targets, elements } = selected;
        let (removes, bits) = (sorted.removes, sorted.bits);
        let offsets = MergeOffsets {
            old: self.rows.offsets.global(),
            keys,
            bits,
            removes,
            new: self.spare.offsets.global(),
        };
        // SAFETY: as for `run`.
        unsafe {
            let stream = self.stream();
            stream
                .launch(self.grid(sorted.keys.len()), MergeSelect { batch: sorted, positions, selected })?;
            stream.launch(self.grid(threads_of_runs(offsets.old.len())), offsets)?;
        }
        let moves = Moves { places, changes, removes };
        self.move_words(self.rows.targets(), moves, targets, self.spare.targets())?;
        if E::HAS_DATA {
            let values = self.scratch.values.global().part(0, changes);
            let (from, to) = (self.rows.data(), self.spare.data());
            if !batch.removes {
                let (data, more) = (batch.data, nothing());
                let gather =
                    GatherWords::<Words<E::Bits>> { from: data, more, order: elements, words: 1, to: values };
                // SAFETY: as for `run`.
                unsafe { self.stream().launch(self.grid(changes), gather)? };
            }
            self.move_words(from, moves, values, to)?;
        }
        std::mem::swap(&mut self.rows, &mut self.spare);
        Ok(())
    }

    /// Moves words to the new rows.
    fn move_words<T: Word>(
        &self,
        old: GlobalSlice<T>,
        moves: Moves,
        values: GlobalSlice<T>,
        new: GlobalSlice<T>,
    ) -> Result<()> {
        let Moves { places, changes, removes } = moves;
        let values = if removes != 0 { values.part(0, 0) } else { values };
        let grid = self.grid(threads_of_runs(old.len()).max(changes));
        // SAFETY: as for `run`.
        unsafe {
            Ok(self.stream().launch(grid, MergeWords::<Words<T>> { old, places, values, removes, new })?)
        }
    }
}

/// Returns the number of threads that move `len` elements, a warp for each run.
pub(super) fn threads_of_runs(len: usize) -> usize {
    len.div_ceil(MERGE_RUN) * 32
}

/// The places of selected keys.
#[derive(Clone, Copy)]
struct Moves {
    places: GlobalSlice<u64>,
    changes: usize,
    removes: u32,
}

impl CsrMerge<()> {
    /// Inserts edges. Outcomes: `Inserted`, `Found`, `Refused`. Refused are edges from a vertex to itself,
    /// and those whose endpoint does not exist.
    ///
    /// # Errors
    /// As [`Self::remove`].
    pub fn insert(&mut self, sources: &[u32], targets: &[u32]) -> Result<Outcomes> {
        self.run_host((sources, targets), nothing(), false)
    }

    /// Inserts edges that are on the device. Otherwise as [`Self::insert`].
    ///
    /// # Errors
    /// As [`Self::remove_on_device`].
    pub fn insert_on_device(
        &mut self,
        sources: impl AsSlice<u32>,
        targets: impl AsSlice<u32>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        self.run_device((sources, targets), nothing(), outcomes, false)
    }
}

impl<E: Weight> CsrMerge<E> {
    /// Inserts edges, and replaces the data of those that are present. Outcomes: `Inserted`, `Replaced`,
    /// `Refused`. Refused are edges from a vertex to itself, and those whose endpoint does not exist.
    ///
    /// ```
    /// use phalanx::graph::{CsrMerge, Kind};
    ///
    /// let device = phalanx::Device::from_environment()?;
    /// let mut graph = CsrMerge::<f32>::new(&device, 3, Kind::Directed)?;
    /// assert!(graph.insert(&[0, 0], &[2, 1], &[0.5, 1.5])?.all_placed());
    /// let rows = graph.read()?;
    /// assert_eq!((rows.targets, rows.data), (vec![1, 2], vec![1.5, 0.5]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::remove`].
    pub fn insert(&mut self, sources: &[u32], targets: &[u32], data: &[E]) -> Result<Outcomes> {
        check("data", sources.len(), data.len())?;
        let data = self.stream().device().from_slice(data)?;
        // SAFETY: plain bytes of the size and alignment of their words; the buffer outlives the batch, which
        // is waited for.
        let words = unsafe { GlobalSlice::from_raw_parts(data.pointer().cast(), data.len()) };
        self.run_host((sources, targets), words, false)
    }
}

impl<E: Data> Adjacent for CsrMerge<E> {}

impl<E: Data> Source for CsrMerge<E> {
    fn device_of(&self) -> &Device {
        self.stream().device()
    }

    fn traverse<R>(&self, run: impl FnOnce(&Traversal) -> Result<R>) -> Result<R> {
        let view = RowsView { offsets: self.rows.offsets.global(), targets: self.rows.targets() };
        let steps: Box<dyn Steps> = Box::new(Bound::<CsrRows>(view));
        let sizes = (self.vertices(), self.rows.len);
        Traversal::of_rows(self.stream(), steps, sizes, self.kind).sorted().run(run)
    }
}
