//! Kinds of graphs: the types that kernels are compiled for.
use super::algorithms::{Adjacency, Part};
use super::batch::Growth;
use super::common::BatchEdges;
use super::inspect::Findings;
use super::record::Record;
use super::rows::RowCopy;
use super::search::{Executed, Half};
use super::together::Repeats;
use super::view::{GraphView, SLAB_TILE};
use crate::keyed::{Operation, Scalar, Slot, kind_name};
use crate::slab::Pool;
use crate::slab::list::Node;
use core::marker::PhantomData;
use simt::{GlobalSlice, Instance, Name, Tile, device};

/// A kind of graph: slots `S`, slabs of the pool `P`, records read by `W` lanes, `L` slots per lane.
#[derive(Clone, Copy, Debug)]
pub struct Edges<S, P, const W: u32, const L: usize>(PhantomData<(S, P)>);

impl<S: Slot, P: Pool, const W: u32, const L: usize> Instance for Edges<S, P, W, L> {
    const NAME: &'static str =
        const { &kind_name::<S>(Name::of("graph").part(S::NAME).part(P::NAME), W, L) }.as_str();
}

/// A kind of graph as kernels and hosts use it.
///
/// # Safety
/// - All functions access only the memory from which the view was made, and the slices that they take.
#[device]
pub unsafe trait Config: Adjacency<View = GraphView<Self>> {
    /// Word of the data of an edge; ignored if [`Self::HAS_DATA`] is false.
    type Data: Scalar;
    /// Pool of the slabs.
    type Pool: Pool;
    /// Whether edges have data.
    const HAS_DATA: bool;
    /// Number of edges in a slab.
    const SLAB_SLOTS: u32;
    /// Bytes of a record.
    const RECORD_BYTES: usize;
    /// Whether kernels need a 16-byte compare-and-swap, hence sm_90.
    const NEEDS_WIDE_SWAP: bool;
    /// Maximum number of registers per thread of a kernel that changes edges.
    const REGISTERS: u32;
    /// Maximum number of registers per thread of a kernel that looks edges up.
    const READS_IN: u32;

    /// Executes the operation of each lane of the warp that passes `pending`. See [`GraphView::execute`].
    fn execute<O: Operation, const DEFERS: bool>(
        graph: GraphView<Self>,
        pending: bool,
        operation: O,
        half: Half<Self::Data>,
    ) -> Executed<Self::Data>;

    /// Adds the changes of a warp's lanes to the counts of vertices with tables.
    fn count_in_tables(graph: GraphView<Self>, repeats: Repeats, change: u64);

    /// Adds `many` to the pressure of a vertex. Returns whether it had none.
    ///
    /// # Safety
    /// - The vertex exists.
    unsafe fn add_pressure(graph: GraphView<Self>, vertex: u32, many: u32) -> bool;

    /// Plans the growth of a listed vertex, by the calling lane alone.
    fn plan(graph: GraphView<Self>, growth: Growth, index: u32);

    /// Moves the edges of vertices that get tables, by all threads of the grid.
    fn move_edges(graph: GraphView<Self>, growth: Growth);

    /// Installs tables, by all threads of the grid.
    fn install(graph: GraphView<Self>, growth: Growth);

    /// Returns the number of edges in a record and behind it. The lanes of a tile of [`SLAB_TILE`] lanes pass
    /// the same one, or none.
    fn degree(graph: GraphView<Self>, record: Option<u32>) -> u32;

    /// Calls `see` for the edges in a record and behind it, by a warp. See
    /// [`GraphView::for_each_neighbor`].
    fn for_each_in_record(
        graph: GraphView<Self>,
        record: Option<u32>,
        see: impl FnMut(Option<(u32, Self::Data)>),
    );

    /// Copies the edges of a block's vertices into rows. See `rows.rs`.
    fn copy_rows(graph: GraphView<Self>, copy: RowCopy<Self::Data>);

    /// Copies the edges in the listed parts of tables into rows. See `rows.rs`.
    fn copy_parts(graph: GraphView<Self>, copy: RowCopy<Self::Data>);

    /// Counts the triangles of the edges of a batch that have two small ends. See `common.rs`.
    fn count_common(graph: GraphView<Self>, batch: BatchEdges, total: GlobalSlice<u64>);

    /// Counts the triangles of the other edges of a batch that are in no group. See `common.rs`.
    fn count_common_parts(graph: GraphView<Self>, batch: BatchEdges, total: GlobalSlice<u64>);

    /// Counts the triangles of the edges of a batch that are in groups. See `groups.rs`.
    fn count_common_groups(graph: GraphView<Self>, batch: BatchEdges, total: GlobalSlice<u64>);

    /// Calls `see` for the edges in a part of a table, by a warp.
    fn for_each_in_part(graph: GraphView<Self>, part: Part, see: impl FnMut(Option<(u32, Self::Data)>));

    /// Compacts a small vertex, or lists one whose table should be replaced, by the calling lane alone.
    fn flush(graph: GraphView<Self>, growth: Growth, vertex: u32);

    /// Lists a vertex that needs a larger table for `many` more edges, by the calling lane alone.
    fn expect(graph: GraphView<Self>, growth: Growth, vertex: u32, many: u32);

    /// Lists a vertex of which a chain is longer than the first number, by a warp: see
    /// [`graph_rehash`](super::kernels::graph_rehash).
    fn rehash(graph: GraphView<Self>, growth: Growth, vertex: u32, limits: (u32, u32));

    /// Removes the edges of a vertex whose data are below `before`, by a tile of [`SLAB_TILE`] lanes. Returns
    /// the number of edges that the calling lane counts.
    fn expire(graph: GraphView<Self>, vertex: Option<u32>, before: Self::Data) -> u32;

    /// Blanks the buckets in a part of a table, by a warp.
    fn free_part(graph: GraphView<Self>, part: Part);

    /// Blanks a vertex and frees its memory, except the buckets of a table, by a tile of [`SLAB_TILE`] lanes.
    fn free_vertex(graph: GraphView<Self>, vertex: Option<u32>);

    /// Lets the record of a removed vertex belong to one again, by the calling lane alone.
    fn restore_vertex(graph: GraphView<Self>, vertex: u32);

    /// Examines a vertex, by the calling lane alone.
    fn inspect(graph: GraphView<Self>, vertex: u32) -> Findings;
}

// SAFETY: vertices are checked, and slabs are accessed only through links and tables.
#[device]
unsafe impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> Config for Edges<S, P, W, L> {
    type Data = S::Value;
    type Pool = P;
    const HAS_DATA: bool = S::HAS_VALUE;
    const SLAB_SLOTS: u32 = slab_slots::<S, L>();
    const RECORD_BYTES: usize = Record::<S, W, L>::BYTES;
    const NEEDS_WIDE_SWAP: bool = size_of::<S::Word>() == 16 && !S::PUBLISHES;
    const REGISTERS: u32 = if size_of::<S::Word>() == 4 { 64 } else { 80 };
    const READS_IN: u32 = if size_of::<S::Word>() == 4 { 32 } else { 40 };

    fn execute<O: Operation, const DEFERS: bool>(
        graph: GraphView<Self>,
        pending: bool,
        operation: O,
        half: Half<S::Value>,
    ) -> Executed<S::Value> {
        graph.execute::<O, DEFERS>(pending, operation, half)
    }

    fn count_in_tables(graph: GraphView<Self>, repeats: Repeats, change: u64) {
        graph.count_in_tables(repeats, change);
    }

    unsafe fn add_pressure(graph: GraphView<Self>, vertex: u32, many: u32) -> bool {
        // SAFETY: the caller's obligation.
        unsafe { graph.add_pressure(vertex, many) }
    }

    fn plan(graph: GraphView<Self>, growth: Growth, index: u32) {
        graph.plan(growth, index);
    }

    fn move_edges(graph: GraphView<Self>, growth: Growth) {
        graph.move_edges(growth);
    }

    fn install(graph: GraphView<Self>, growth: Growth) {
        graph.install(growth);
    }

    fn degree(graph: GraphView<Self>, record: Option<u32>) -> u32 {
        graph.degree(Tile::<SLAB_TILE>::lockstep(), record)
    }

    fn for_each_in_record(
        graph: GraphView<Self>,
        record: Option<u32>,
        see: impl FnMut(Option<(u32, S::Value)>),
    ) {
        graph.for_each_in_record(Tile::<32>::lockstep(), record, see);
    }

    fn copy_rows(graph: GraphView<Self>, copy: RowCopy<S::Value>) {
        graph.copy_rows(copy);
    }

    fn copy_parts(graph: GraphView<Self>, copy: RowCopy<S::Value>) {
        graph.copy_parts(copy);
    }

    fn count_common(graph: GraphView<Self>, batch: BatchEdges, total: GlobalSlice<u64>) {
        graph.count_common(batch, total);
    }

    fn count_common_parts(graph: GraphView<Self>, batch: BatchEdges, total: GlobalSlice<u64>) {
        graph.count_common_parts(batch, total);
    }

    fn count_common_groups(graph: GraphView<Self>, batch: BatchEdges, total: GlobalSlice<u64>) {
        graph.count_common_groups(batch, total);
    }

    fn for_each_in_part(graph: GraphView<Self>, part: Part, see: impl FnMut(Option<(u32, S::Value)>)) {
        graph.for_each_in_part(part, see);
    }

    fn flush(graph: GraphView<Self>, growth: Growth, vertex: u32) {
        graph.flush(growth, vertex);
    }

    fn expect(graph: GraphView<Self>, growth: Growth, vertex: u32, many: u32) {
        graph.expect(growth, vertex, many);
    }

    fn rehash(graph: GraphView<Self>, growth: Growth, vertex: u32, limits: (u32, u32)) {
        graph.rehash(growth, vertex, limits);
    }

    fn expire(graph: GraphView<Self>, vertex: Option<u32>, before: S::Value) -> u32 {
        graph.expire(vertex, before)
    }

    fn free_part(graph: GraphView<Self>, part: Part) {
        graph.free_part(part);
    }

    fn free_vertex(graph: GraphView<Self>, vertex: Option<u32>) {
        graph.free_vertex(vertex);
    }

    fn restore_vertex(graph: GraphView<Self>, vertex: u32) {
        graph.restore_vertex(vertex);
    }

    fn inspect(graph: GraphView<Self>, vertex: u32) -> Findings {
        graph.inspect(vertex)
    }
}

/// Number of edges in a slab of slots `S`.
pub(super) const fn slab_slots<S: Slot, const L: usize>() -> u32 {
    Node::<S, SLAB_TILE, L>::SLOTS
}
