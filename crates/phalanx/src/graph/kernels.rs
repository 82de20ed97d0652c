//! Launches on graphs of the compiled kinds.
use super::algorithms::{Bound, Steps};
use super::memory::Memory;
use crate::map::launch::{THREADS, nothing};
use crate::map::variant::{HasVariant, Variant};
use gpu::{Grid, Stream};
use phalanx_kernels::graph::algorithms::{PartList, VERTEX_TILE};
use phalanx_kernels::graph::kernels::{
    GraphAppend, GraphAppendDeferred, GraphChooseEnds, GraphCommon, GraphCommonGroups, GraphCommonParts,
    GraphCount, GraphDegree, GraphExpect, GraphExpire, GraphFlush, GraphFreeParts, GraphFreeRemoved,
    GraphHasEdge, GraphInsert, GraphInsertDeferred, GraphInspect, GraphInstall, GraphListParts,
    GraphMarkRemoved, GraphMove, GraphNeighbors, GraphPlan, GraphRehash, GraphRemove, GraphRepair,
    GraphRestore, GraphRowParts, GraphRows, GraphUnlink, GraphUpsert, GraphUpsertDeferred, GraphWeight,
};
use phalanx_kernels::graph::{
    BatchEdges, COUNTED_EACH, Changes, Config, ExecutedBatch, GraphView, Growth, Lookups, ROW_THREADS,
    RowCopy, SLAB_TILE,
};
use phalanx_kernels::keyed::{OpCode, Scalar};
use simt::{BoundedSlice, GlobalSlice, Instance, Kernel};
use std::any::Any;
use std::marker::PhantomData;

/// Records whose edges a launch counts: 32 MiB of counters stay in the second-level cache, where atomics at
/// random places are several times as fast as in memory.
const COUNTED_AT_ONCE: u32 = 1 << 23;

/// A launch on a graph.
#[derive(Clone, Copy, Debug)]
pub enum Launch<D> {
    /// Runs [`GraphInsert`], [`GraphAppend`] if the graph keeps parallel edges, or [`GraphUpsert`] with a
    /// merging operation.
    Insert(Option<OpCode>, Changes<D>, Growth),
    /// Runs [`GraphInsertDeferred`], [`GraphAppendDeferred`] or [`GraphUpsertDeferred`], with at most so many
    /// threads.
    InsertDeferred(Option<OpCode>, Changes<D>, Growth, usize),
    /// Runs [`GraphPlan`], with at most so many threads.
    Plan(Growth, usize),
    /// Runs [`GraphMove`], with at most so many threads.
    Move(Growth, usize),
    /// Runs [`GraphInstall`], with at most so many threads.
    Install(Growth, usize),
    /// Runs [`GraphRepair`].
    Repair(Changes<D>, Growth),
    /// Runs [`GraphRemove`].
    Remove(Changes<D>, Growth),
    /// Runs [`GraphHasEdge`].
    HasEdge(Lookups<D>),
    /// Runs [`GraphWeight`].
    Weight(Lookups<D>),
    /// Runs [`GraphDegree`] for vertices.
    Degree(Side, BoundedSlice<u32>, GlobalSlice<u32>),
    /// Runs [`GraphNeighbors`] for vertices.
    Neighbors(Side, GlobalSlice<u32>, GlobalSlice<u64>, GlobalSlice<u32>, GlobalSlice<D>),
    /// Runs a kernel on the whole graph.
    Whole(Whole<D>),
}

/// Edges of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Edges from the vertex, or all of an undirected graph.
    Out,
    /// Edges that lead to the vertex, of a graph that stores them there.
    In,
}

impl Side {
    /// Returns the distance of their record from that of the vertex.
    fn base(self, memory: &Memory) -> u32 {
        if self == Self::In { memory.vertices } else { 0 }
    }
}

/// A launch on the whole graph.
#[derive(Clone, Copy, Debug)]
pub enum Whole<D> {
    /// Runs [`GraphInspect`].
    Inspect(GlobalSlice<u64>),
    /// Runs [`GraphRows`] and [`GraphRowParts`].
    Rows(RowCopy<D>),
    /// Runs [`GraphFlush`].
    Flush(Growth),
    /// Runs [`GraphCount`].
    Count(Changes<D>, GlobalSlice<u32>),
    /// Runs [`GraphExpect`].
    Expect(GlobalSlice<u32>, Growth),
    /// Runs [`GraphRehash`] with a length of chains and a factor of the pressure.
    Rehash(Growth, u32, u32),
    /// Runs [`GraphExpire`].
    Expire(GlobalSlice<D>, GlobalSlice<u64>),
    /// Runs [`GraphMarkRemoved`] for vertices.
    MarkRemoved(GlobalSlice<u32>, GlobalSlice<u8>),
    /// Runs [`GraphListParts`] for vertices, or for all records without them.
    ListParts(Option<(GlobalSlice<u32>, GlobalSlice<u8>)>, PartList),
    /// Runs [`GraphUnlink`] for vertices.
    Unlink(GlobalSlice<u32>, GlobalSlice<u8>, PartList),
    /// Runs [`GraphFreeParts`].
    FreeParts(PartList),
    /// Runs [`GraphFreeRemoved`] for vertices.
    FreeRemoved(GlobalSlice<u32>, GlobalSlice<u8>),
    /// Runs [`GraphRestore`] for vertices.
    Restore(GlobalSlice<u32>),
    /// Runs [`GraphChooseEnds`].
    ChooseEnds(ExecutedBatch, BatchEdges),
    /// Runs [`GraphCommon`], [`GraphCommonParts`] and [`GraphCommonGroups`].
    Common(BatchEdges, GlobalSlice<u64>),
}

/// Properties of a kind of graph that the host needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Whether edges have data.
    pub has_data: bool,
    /// Bytes of a record.
    pub record_bytes: usize,
    /// Edges in a slab.
    pub slab_slots: usize,
}

/// Launches on graphs of one kind, with data in words `D`.
pub trait Kernels<D>: HasVariant + Send + Sync {
    /// Returns the properties of the kind.
    fn shape(&self) -> Shape;

    /// Launches a kernel.
    ///
    /// # Safety
    /// - The memory is that of a graph of this kind, and stays as it is until the kernel has ended, and so do
    ///   the slices. Kernels that need exclusive access to the graph have it.
    unsafe fn launch(&self, stream: &Stream, memory: &Memory, launch: Launch<D>) -> gpu::Result<()>;

    /// Returns the passes of algorithms over the graph.
    ///
    /// # Safety
    /// - The memory is that of a graph of this kind, and stays as it is while the passes are used.
    unsafe fn steps(&self, memory: &Memory) -> Box<dyn Steps>;
}

/// The kind `M` as a value.
pub struct KindTag<M>(PhantomData<fn() -> M>);

impl<M: Config + Instance> HasVariant for KindTag<M> {
    fn variant(&self) -> Variant {
        Variant::with::<M>(M::NAME, M::NEEDS_WIDE_SWAP)
    }
}

/// Returns a grid of `items` threads, at least one warp.
fn over(items: usize) -> Grid {
    Grid::for_items(items, THREADS)
}

impl<M: Config + Instance> Kernels<M::Data> for KindTag<M> {
    fn shape(&self) -> Shape {
        let (record_bytes, slab_slots) = (M::RECORD_BYTES, M::SLAB_SLOTS as usize);
        Shape { has_data: M::HAS_DATA, record_bytes, slab_slots }
    }

    unsafe fn steps(&self, memory: &Memory) -> Box<dyn Steps> {
        // SAFETY: the caller's obligations.
        Box::new(Bound::<M>(unsafe { memory.view::<M>() }))
    }

    unsafe fn launch(&self, stream: &Stream, memory: &Memory, launch: Launch<M::Data>) -> gpu::Result<()> {
        let lanes = |vertices: usize| over(vertices * SLAB_TILE as usize);
        let threads = |edges: &Changes<M::Data>| over(edges.sources.max_len().div_ceil(edges.each as usize));
        // SAFETY: the caller's obligations. Each grid has a thread for every element, a tile or a warp for
        // every vertex, or any number of threads.
        unsafe {
            let graph = memory.view::<M>();
            let appends = memory.flags.has_parallel_edges();
            match launch {
                Launch::Insert(None, edges, growth) if appends => {
                    stream.launch(threads(&edges), GraphAppend { graph, edges, growth })
                }
                Launch::InsertDeferred(None, edges, growth, most) if appends => {
                    stream.launch(over(most), GraphAppendDeferred { graph, edges, growth })
                }
                Launch::Insert(None, edges, growth) => {
                    stream.launch(threads(&edges), GraphInsert { graph, edges, growth })
                }
                Launch::Insert(Some(code), edges, growth) => {
                    stream.launch(threads(&edges), GraphUpsert { graph, code: code.code(), edges, growth })
                }
                Launch::InsertDeferred(None, edges, growth, most) => {
                    stream.launch(over(most), GraphInsertDeferred { graph, edges, growth })
                }
                Launch::InsertDeferred(Some(code), edges, growth, most) => {
                    let code = code.code();
                    stream.launch(over(most), GraphUpsertDeferred { graph, code, edges, growth })
                }
                Launch::Plan(growth, most) => stream.launch(over(most), GraphPlan { graph, growth }),
                Launch::Move(growth, most) => stream.launch(over(most), GraphMove { graph, growth }),
                Launch::Install(growth, most) => stream.launch(over(most), GraphInstall { graph, growth }),
                Launch::Repair(edges, growth) => {
                    stream.launch(over(edges.sources.max_len()), GraphRepair { graph, edges, growth })
                }
                Launch::Remove(edges, growth) => {
                    stream.launch(threads(&edges), GraphRemove { graph, edges, growth })
                }
                Launch::HasEdge(batch) => {
                    stream.launch(over(batch.sources.max_len()), GraphHasEdge { graph, batch })
                }
                Launch::Weight(batch) => {
                    stream.launch(over(batch.sources.max_len()), GraphWeight { graph, batch })
                }
                Launch::Degree(side, vertices, degrees) => {
                    let base = side.base(memory);
                    stream.launch(lanes(vertices.max_len()), GraphDegree { graph, base, vertices, degrees })
                }
                Launch::Neighbors(side, vertices, offsets, targets, data) => {
                    let (base, grid) = (side.base(memory), over((offsets.len().max(1) - 1) * 32));
                    stream.launch(grid, GraphNeighbors { graph, base, vertices, offsets, targets, data })
                }
                Launch::Whole(launch) => launch_whole(stream, memory, graph, launch),
            }
        }
    }
}

/// Returns a grid for `items` items, of which a thread may have several: no more threads than the device
/// executes at once.
pub fn resident_grid(stream: &Stream, items: usize) -> Grid {
    over(items.min(stream.device().resident_threads() as usize))
}

/// Launches a kernel that runs with any number of threads, for `items` items: as [`resident_grid`], but with
/// no more blocks than the device executes at once with the kernel's registers. Others would begin when most
/// have ended, and the device would be half empty meanwhile.
///
/// # Safety
/// - As for [`Stream::launch`].
pub unsafe fn launch_resident<K: Kernel + Send + Sync + 'static>(
    stream: &Stream,
    items: usize,
    kernel: K,
) -> gpu::Result<()> {
    let grid = resident_grid(stream, items);
    let most = stream.device().occupancy_grid::<K>(grid.threads)?;
    // SAFETY: the caller's obligations.
    unsafe { stream.launch(Grid { blocks: grid.blocks.min(most.blocks), ..grid }, kernel) }
}

/// Launches the copy of a graph with so many vertices into rows.
///
/// # Safety
/// - As for [`Kernels::launch`].
unsafe fn launch_rows<M: Config + Instance>(
    stream: &Stream,
    vertices: usize,
    graph: GraphView<M>,
    copy: RowCopy<M::Data>,
) -> gpu::Result<()> {
    let device = stream.device();
    let mut grid = device.occupancy_grid::<GraphRows<M>>(ROW_THREADS)?;
    grid.blocks = grid.blocks.min(vertices.div_ceil(copy.tile_vertices() as usize).max(1) as u32);
    // SAFETY: the caller's obligation.
    unsafe { stream.launch(grid, GraphRows { graph, copy })? };
    if copy.parts.words.is_empty() {
        return Ok(());
    }
    let grid = device.occupancy_grid::<GraphRowParts<M>>(ROW_THREADS)?;
    // SAFETY: the caller's obligation.
    unsafe { stream.launch(grid, GraphRowParts { graph, copy }) }
}

/// Launches a kernel on the whole graph.
///
/// # Safety
/// - As for [`Kernels::launch`].
unsafe fn launch_whole<M: Config + Instance>(
    stream: &Stream,
    memory: &Memory,
    graph: GraphView<M>,
    launch: Whole<M::Data>,
) -> gpu::Result<()> {
    let (all, records) = (memory.vertices as usize, memory.record_count());
    let (each, lanes) = (over(records), |records: usize| over(records * SLAB_TILE as usize));
    let records_of = |vertices: GlobalSlice<u32>| vertices.len() * (records / all);
    // SAFETY: the caller's obligations.
    unsafe {
        match launch {
            Whole::Inspect(report) => stream.launch(each, GraphInspect { graph, report }),
            Whole::Rows(copy) => launch_rows(stream, all, graph, copy),
            Whole::Flush(growth) => stream.launch(each, GraphFlush { graph, growth }),
            Whole::Count(edges, counts) => {
                let halves = edges.sources.max_len() * memory.halves();
                let grid = over(halves.div_ceil(COUNTED_EACH));
                let many = if stream.device().is_emulator() { 64 } else { COUNTED_AT_ONCE };
                (0..counts.len() as u32).step_by(many as usize).try_for_each(|first| {
                    stream.launch(grid, GraphCount { graph, edges, counts, first, many })
                })
            }
            Whole::Expect(counts, growth) => stream.launch(each, GraphExpect { graph, counts, growth }),
            Whole::Rehash(growth, most, times) => {
                stream.launch(over(records * 32), GraphRehash { graph, growth, most, times })
            }
            Whole::Expire(before, removed) => {
                stream.launch(lanes(records), GraphExpire { graph, before, removed })
            }
            Whole::MarkRemoved(vertices, outcomes) => {
                stream.launch(over(vertices.len()), GraphMarkRemoved { graph, vertices, outcomes })
            }
            Whole::ListParts(some, parts) => {
                let tiles = some.map_or(records, |(vertices, _)| records_of(vertices));
                let (vertices, outcomes) = some.unwrap_or((nothing(), nothing()));
                let (grid, all) = (over(tiles * VERTEX_TILE as usize), u32::from(some.is_none()));
                stream.launch(grid, GraphListParts { graph, all, vertices, outcomes, parts })
            }
            Whole::Unlink(vertices, outcomes, parts) => {
                let warps = if memory.halves() == 2 { records_of(vertices) } else { all };
                let threads = (warps * 32).max(stream.device().resident_threads() as usize);
                stream.launch(over(threads), GraphUnlink { graph, vertices, outcomes, parts })
            }
            Whole::FreeParts(parts) => {
                stream.launch(resident_grid(stream, usize::MAX), GraphFreeParts { graph, parts })
            }
            Whole::FreeRemoved(vertices, outcomes) => {
                stream.launch(lanes(records_of(vertices)), GraphFreeRemoved { graph, vertices, outcomes })
            }
            Whole::Restore(vertices) => stream.launch(over(vertices.len()), GraphRestore { graph, vertices }),
            Whole::ChooseEnds(batch, edges) => {
                let grid = resident_grid(stream, edges.small.len());
                stream.launch(grid, GraphChooseEnds { graph, batch, edges })
            }
            Whole::Common(batch, total) => {
                const { assert!(THREADS == ROW_THREADS, "shared memory for the warps of a block") };
                let lanes = batch.small.len().saturating_mul(32);
                launch_resident(stream, lanes, GraphCommon { graph, batch, total })?;
                launch_resident(stream, usize::MAX, GraphCommonParts { graph, batch, total })?;
                launch_resident(stream, usize::MAX, GraphCommonGroups { graph, batch, total })
            }
        }
    }
}

struct Collect(Vec<&'static dyn Any>);

impl phalanx_kernels::graph::Visitor for Collect {
    type Output = std::convert::Infallible;

    fn visit<M: Config + Instance>(&mut self) -> Option<Self::Output> {
        let kernels = const { &(&KindTag::<M>(PhantomData) as &'static dyn Kernels<M::Data>) };
        self.0.push(kernels);
        None
    }
}

/// Returns all kinds. Not generic: the emulator's kernels are compiled in this crate, and not again in every
/// program that creates a graph. This crate's unit tests compile none.
#[cfg_attr(test, allow(unused_mut))]
fn any() -> Vec<&'static dyn Any> {
    let mut kernels = Collect(Vec::new());
    #[cfg(not(test))]
    phalanx_kernels::graph::visit(&mut kernels);
    kernels.0
}

/// Returns the kinds with data in words `D`, or without data. The defaults are first.
pub fn all<D: Scalar>(has_data: bool) -> impl Iterator<Item = &'static dyn Kernels<D>> + Clone {
    let kinds = any().into_iter();
    kinds
        .filter_map(|any| any.downcast_ref::<&'static dyn Kernels<D>>().copied())
        .filter(move |kernels| kernels.shape().has_data == has_data)
}
