//! Entry points of graphs.
//!
//! # Cost
//!
//! Batches read a source, a target and, if there are data, a word per element, and write a byte. `look_up`
//! and changes read a record per element, and a line for each slab of the chain of edges that are not in a
//! record; changes execute a compare-and-swap. The kernels of growth read and write the vertices that a batch
//! has listed, and end at once if there are none. [`graph_degree`] reads a record and the slabs of a small
//! vertex, [`graph_neighbors`] all slabs of a vertex; [`graph_inspect`] reads the whole graph, and compares
//! the edges of each chain with each other.
use super::algorithms::PartList;
use super::batch::{Changes, Growth, Lookups, first_pass, look_up, repair, second_pass};
use super::common::{BatchEdges, ExecutedBatch, choose_ends};
use super::grow::plan_all;
use super::kind::Config;
use super::rows::RowCopy;
use super::view::{GraphView, SLAB_TILE};
use super::whole::{count_sources, free_parts, free_removed, list_parts, mark_removed, unlink};
use crate::keyed::kernels::{read_if, write_if};
use crate::keyed::{Append, ContainsKey, CounterDelta, Get, Insert, OpCode, Remove, Upsert};
use simt::{BoundedSlice, GlobalSlice, Instance, Order, Scope, Thread, Tile, kernel};

/// Inserts edges, and replaces the data of those that are present. Defers those for which a vertex must grow.
#[kernel(registers = M::REGISTERS)]
pub fn graph_insert<M: Config + Instance>(graph: GraphView<M>, edges: Changes<M::Data>, growth: Growth) {
    first_pass::<M, _, true>(graph, Insert, edges, growth);
}

/// Inserts the edges that [`graph_insert`] has deferred.
#[kernel(registers = M::REGISTERS)]
pub fn graph_insert_deferred<M: Config + Instance>(
    graph: GraphView<M>,
    edges: Changes<M::Data>,
    growth: Growth,
) {
    second_pass::<M, _>(graph, Insert, edges, growth);
}

/// Inserts edges in the first empty slots, also where such an edge is present. Defers those for which a
/// vertex must grow.
#[kernel(registers = M::REGISTERS)]
pub fn graph_append<M: Config + Instance>(graph: GraphView<M>, edges: Changes<M::Data>, growth: Growth) {
    first_pass::<M, _, true>(graph, Append, edges, growth);
}

/// Inserts the edges that [`graph_append`] has deferred.
#[kernel(registers = M::REGISTERS)]
pub fn graph_append_deferred<M: Config + Instance>(
    graph: GraphView<M>,
    edges: Changes<M::Data>,
    growth: Growth,
) {
    second_pass::<M, _>(graph, Append, edges, growth);
}

/// Inserts edges, and merges into the data of those that are present by the operation with the code `code`.
/// Defers those for which a vertex must grow.
#[kernel(registers = M::REGISTERS)]
pub fn graph_upsert<M: Config + Instance>(
    graph: GraphView<M>,
    code: u32,
    edges: Changes<M::Data>,
    growth: Growth,
) {
    first_pass::<M, _, true>(graph, Upsert(OpCode::from_code(code)), edges, growth);
}

/// Inserts or merges the edges that [`graph_upsert`] has deferred.
#[kernel(registers = M::REGISTERS)]
pub fn graph_upsert_deferred<M: Config + Instance>(
    graph: GraphView<M>,
    code: u32,
    edges: Changes<M::Data>,
    growth: Growth,
) {
    second_pass::<M, _>(graph, Upsert(OpCode::from_code(code)), edges, growth);
}

/// Plans the growth of the vertices that a batch has listed.
#[kernel]
pub fn graph_plan<M: Config + Instance>(graph: GraphView<M>, growth: Growth) {
    plan_all(graph, growth);
}

/// Moves edges to the tables that [`graph_plan`] has planned.
#[kernel(registers = M::REGISTERS)]
pub fn graph_move<M: Config + Instance>(graph: GraphView<M>, growth: Growth) {
    M::move_edges(graph, growth);
}

/// Installs the tables that [`graph_move`] has filled, and frees the old memory.
#[kernel]
pub fn graph_install<M: Config + Instance>(graph: GraphView<M>, growth: Growth) {
    M::install(graph, growth);
}

/// Makes both halves of each edge of a batch on an undirected graph equal, or erases one of them.
#[kernel]
pub fn graph_repair<M: Config + Instance>(graph: GraphView<M>, edges: Changes<M::Data>, growth: Growth) {
    repair::<M>(graph, edges, growth);
}

/// Removes edges.
#[kernel(registers = M::REGISTERS)]
pub fn graph_remove<M: Config + Instance>(graph: GraphView<M>, edges: Changes<M::Data>, growth: Growth) {
    first_pass::<M, _, false>(graph, Remove, edges, growth);
}

/// Tests which edges are present.
#[kernel(registers = M::READS_IN)]
pub fn graph_has_edge<M: Config + Instance>(graph: GraphView<M>, batch: Lookups<M::Data>) {
    look_up::<M, _>(graph, ContainsKey, batch);
}

/// Looks up the data of edges.
#[kernel(registers = M::READS_IN)]
pub fn graph_weight<M: Config + Instance>(graph: GraphView<M>, batch: Lookups<M::Data>) {
    look_up::<M, _>(graph, Get, batch);
}

/// Writes the degree of each vertex; 0 for vertices that do not exist. The record of a vertex is `base`
/// records further on: 0, or the number of vertices for the edges that lead to it. The grid has four threads
/// per vertex.
#[kernel]
pub fn graph_degree<M: Config + Instance>(
    graph: GraphView<M>,
    base: u32,
    vertices: BoundedSlice<u32>,
    degrees: GlobalSlice<u32>,
) {
    let vertices = vertices.resolve();
    let index = Thread::index() / SLAB_TILE as usize;
    let is_pending = index < vertices.len();
    let vertex = read_if(vertices, index, is_pending);
    let is_vertex = is_pending && vertex < graph.vertices();
    let degree = M::degree(graph, is_vertex.then(|| vertex + base));
    if is_pending && (Thread::lane()).is_multiple_of(SLAB_TILE) {
        // mutation: late equivalent, because nothing reads the output in the launch.
        write_if(degrees, index, degree);
    }
}

/// Copies the graph into compressed sparse rows, except the edges in tables, whose parts it lists. The grid
/// has a block of [`ROW_THREADS`](super::ROW_THREADS) threads for each tile of
/// [`RowCopy::tile_vertices`], or fewer.
#[kernel]
pub fn graph_rows<M: Config + Instance>(graph: GraphView<M>, copy: RowCopy<M::Data>) {
    M::copy_rows(graph, copy);
}

/// Copies the edges in the parts of tables that [`graph_rows`] has listed. The grid has any number of
/// threads.
#[kernel]
pub fn graph_row_parts<M: Config + Instance>(graph: GraphView<M>, copy: RowCopy<M::Data>) {
    M::copy_parts(graph, copy);
}

/// Writes targets and data of the edges of each vertex: those of vertex `i` from `offsets[i]` on, at most as
/// many as there are up to `offsets[i + 1]`. `base` is that of [`graph_degree`]. The grid has a warp per
/// vertex.
#[kernel]
pub fn graph_neighbors<M: Config + Instance>(
    graph: GraphView<M>,
    base: u32,
    vertices: GlobalSlice<u32>,
    offsets: GlobalSlice<u64>,
    targets: GlobalSlice<u32>,
    data: GlobalSlice<M::Data>,
) {
    let index = Thread::index() / 32;
    if index >= vertices.len() || index + 1 >= offsets.len() {
        return;
    }
    let vertex = vertices.read(index);
    let warp = Tile::<32>::lockstep();
    let (mut place, end) = (offsets.read(index) as usize, offsets.read(index + 1) as usize);
    let record = (vertex < graph.vertices()).then(|| vertex + base);
    M::for_each_in_record(graph, record, |edge| {
        let votes = warp.ballot(edge.is_some());
        let own = place + (votes & warp.lower_ranks()).count_ones() as usize;
        if let Some((target, bits)) = edge.filter(|_| own < end) {
            // mutation: late equivalent, because nothing reads the output in the launch.
            write_if(targets, own, target);
            // mutation: late equivalent, because nothing reads the output in the launch.
            write_if(data, own, bits);
        }
        place += votes.count_ones() as usize;
    });
}

/// Examines the whole graph and adds to `report`: see [`super::Findings`]. Requires exclusive access to the
/// graph. The grid has a thread per record.
#[kernel]
pub fn graph_inspect<M: Config + Instance>(graph: GraphView<M>, report: GlobalSlice<u64>) {
    let index = Thread::index();
    if index < graph.record_count() as usize {
        M::inspect(graph, index as u32).add_to(report);
    }
}

/// Drops tombstones: compacts small vertices, and lists those whose tables should be replaced. Requires
/// exclusive access to the graph. The grid has a thread per vertex.
#[kernel]
pub fn graph_flush<M: Config + Instance>(graph: GraphView<M>, growth: Growth) {
    let index = Thread::index();
    if index < graph.record_count() as usize {
        M::flush(graph, growth, index as u32);
    }
}

/// Adds the numbers of halves that each of `many` records from `first` on stores of a batch to `counts`. The
/// grid has a thread for each [`COUNTED_EACH`](super::COUNTED_EACH) halves.
#[kernel]
pub fn graph_count<M: Config + Instance>(
    graph: GraphView<M>,
    edges: Changes<M::Data>,
    counts: GlobalSlice<u32>,
    first: u32,
    many: u32,
) {
    count_sources(graph, edges, counts, (first, many));
}

/// Lists the vertices that need larger tables for `counts` more edges. Requires exclusive access to the
/// graph. The grid has a thread per vertex.
#[kernel]
pub fn graph_expect<M: Config + Instance>(graph: GraphView<M>, counts: GlobalSlice<u32>, growth: Growth) {
    let index = Thread::index();
    if index < counts.len() {
        M::expect(graph, growth, index as u32, counts.read(index));
    }
}

/// Lists the vertices of which a chain has more than `most` slabs: the bucket itself and those behind it, or
/// those behind the record of a small vertex. Adds `times` times the edges of such a vertex to its pressure.
/// Requires exclusive access to the graph. The grid has a warp per vertex.
#[kernel]
pub fn graph_rehash<M: Config + Instance>(graph: GraphView<M>, growth: Growth, most: u32, times: u32) {
    let index = Thread::index() / 32;
    if index < graph.record_count() as usize {
        M::rehash(graph, growth, index as u32, (most, times));
    }
}

/// Removes the edges whose data are below `before`, and adds their number to `removed`. The grid has four
/// threads per vertex.
#[kernel]
pub fn graph_expire<M: Config + Instance>(
    graph: GraphView<M>,
    before: GlobalSlice<M::Data>,
    removed: GlobalSlice<u64>,
) {
    let index = Thread::index() / SLAB_TILE as usize;
    let vertex = (index < graph.record_count() as usize).then_some(index as u32);
    let many = M::expire(graph, vertex, before.read(0));
    let mut delta = CounterDelta::default();
    delta.remove(many);
    // mutation: block tear unreached, because only warps that are 256 apart add to the same words: launches
    // of the explorers have fewer.
    graph.counters().record(delta);
    let warp = Tile::<32>::lockstep();
    let sum = warp.reduce_add(many);
    if sum > 0 && warp.rank() == 0 {
        removed.at(0).fetch_add(sum as u64, Order::Relaxed, Scope::Device);
    }
}

/// Marks vertices as removed. The grid has a thread per element.
#[kernel]
pub fn graph_mark_removed<M: Config + Instance>(
    graph: GraphView<M>,
    vertices: GlobalSlice<u32>,
    outcomes: GlobalSlice<u8>,
) {
    mark_removed(graph, vertices, outcomes);
}

/// Lists the parts of the large vertices among the removed ones, or of all large vertices if `all` is not 0.
/// The grid has eight threads for each record of each element, or for each record.
#[kernel]
pub fn graph_list_parts<M: Config + Instance>(
    graph: GraphView<M>,
    all: u32,
    vertices: GlobalSlice<u32>,
    outcomes: GlobalSlice<u8>,
    parts: PartList,
) {
    list_parts(graph, all, (vertices, outcomes), parts);
}

/// Erases the edges of removed vertices at their other ends. The grid has at least a warp per record of each
/// element if edges are stored at both ends, otherwise one per vertex of the graph. All warps serve `parts`:
/// the listed parts of large vertices, which the former leave out.
#[kernel(registers = M::REGISTERS)]
pub fn graph_unlink<M: Config + Instance>(
    graph: GraphView<M>,
    vertices: GlobalSlice<u32>,
    outcomes: GlobalSlice<u8>,
    parts: PartList,
) {
    unlink(graph, vertices, outcomes, parts);
}

/// Blanks the buckets in the listed parts. Requires exclusive access to the graph. The grid has any number of
/// threads.
#[kernel]
pub fn graph_free_parts<M: Config + Instance>(graph: GraphView<M>, parts: PartList) {
    free_parts(graph, parts);
}

/// Blanks removed vertices and frees their memory, of which [`graph_free_parts`] has blanked the buckets of
/// tables. Requires exclusive access to the graph. The grid has four threads per record of each element.
#[kernel]
pub fn graph_free_removed<M: Config + Instance>(
    graph: GraphView<M>,
    vertices: GlobalSlice<u32>,
    outcomes: GlobalSlice<u8>,
) {
    free_removed(graph, vertices, outcomes);
}

/// Lets removed vertices exist again, without edges. Requires exclusive access to the graph. The grid has a
/// thread per element.
#[kernel]
pub fn graph_restore<M: Config + Instance>(graph: GraphView<M>, vertices: GlobalSlice<u32>) {
    let index = Thread::index();
    if index < vertices.len() {
        let vertex = vertices.read(index);
        graph.clear_removed(vertex);
        M::restore_vertex(graph, vertex);
        if graph.flags().has_in_edges() {
            M::restore_vertex(graph, vertex.wrapping_add(graph.vertices()));
        }
    }
}

/// Finds the edges of a batch that count, puts them into the set, and writes which of the two following
/// kernels counts the triangles of each. The grid has any number of threads.
///
/// Cost: 9 bytes read and up to 24 written per edge, two records read, and a compare-and-swap per probe of
/// the set.
#[kernel]
pub fn graph_choose_ends<M: Config + Instance>(graph: GraphView<M>, batch: ExecutedBatch, edges: BatchEdges) {
    choose_ends(graph, batch, edges);
}

/// Adds the number of triangles with edges of a batch that have two small ends to `total`, in sixths, and
/// collects the ends in groups, for which no launch of its own is worth its time. The graph is undirected.
/// The grid has any number of blocks of 128 threads.
#[kernel]
pub fn graph_common<M: Config + Instance>(graph: GraphView<M>, batch: BatchEdges, total: GlobalSlice<u64>) {
    M::count_common(graph, batch, total);
}

/// As [`graph_common`], of the other edges that are in no group.
#[kernel]
pub fn graph_common_parts<M: Config + Instance>(
    graph: GraphView<M>,
    batch: BatchEdges,
    total: GlobalSlice<u64>,
) {
    M::count_common_parts(graph, batch, total);
}

/// As [`graph_common`], of the edges in groups, whose ends it has collected.
#[kernel]
pub fn graph_common_groups<M: Config + Instance>(
    graph: GraphView<M>,
    batch: BatchEdges,
    total: GlobalSlice<u64>,
) {
    M::count_common_groups(graph, batch, total);
}
