//! Entry points of graphs.
//!
//! # Cost
//!
//! Batches read a source, a target and, if there are data, a word per element, and write a byte. [`look_up`]
//! and changes read a record per element, and a line for each slab of the chain of edges that are not in a
//! record; changes execute a compare-and-swap. The kernels of growth read and write the vertices that a batch
//! has listed, and end at once if there are none. [`graph_degree`] reads a record and the slabs of a small
//! vertex, [`graph_neighbors`] all slabs of a vertex; [`graph_inspect`] reads the whole graph, and compares
//! the edges of each chain with each other.
use super::batch::{Changes, Growth, Lookups, first_pass, look_up, repair, second_pass};
use super::grow::plan_all;
use super::kind::Config;
use super::view::{GraphView, SLAB_TILE};
use crate::keyed::kernels::{read_if, write_if};
use crate::keyed::{ContainsKey, Get, Insert, OpCode, Remove, Upsert};
use simt::{BoundedSlice, GlobalSlice, Instance, Thread, Tile, kernel};

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

/// Writes the degree of each vertex; 0 for vertices that do not exist. The grid has four threads per vertex.
#[kernel]
pub fn graph_degree<M: Config + Instance>(
    graph: GraphView<M>,
    vertices: BoundedSlice<u32>,
    degrees: GlobalSlice<u32>,
) {
    let vertices = vertices.resolve();
    let index = Thread::index() / SLAB_TILE as usize;
    let is_pending = index < vertices.len();
    let vertex = read_if(vertices, index, is_pending);
    let degree = M::degree(graph, is_pending.then_some(vertex));
    if is_pending && (Thread::lane()).is_multiple_of(SLAB_TILE) {
        write_if(degrees, index, degree);
    }
}

/// Writes targets and data of the edges of each vertex: those of vertex `i` from `offsets[i]` on, at most as
/// many as there are up to `offsets[i + 1]`. The grid has a warp per vertex.
#[kernel]
pub fn graph_neighbors<M: Config + Instance>(
    graph: GraphView<M>,
    vertices: GlobalSlice<u32>,
    offsets: GlobalSlice<u64>,
    targets: GlobalSlice<u32>,
    data: GlobalSlice<M::Data>,
) {
    let index = Thread::index() / 32;
    if index >= vertices.len() {
        return;
    }
    let warp = Tile::<32>::lockstep();
    let (mut place, end) = (offsets.read(index) as usize, offsets.read(index + 1) as usize);
    let lower = (1u32 << warp.rank()) - 1;
    M::for_each_neighbor(graph, Some(vertices.read(index)), |edge| {
        let votes = warp.ballot(edge.is_some());
        let own = place + (votes & lower).count_ones() as usize;
        if let Some((target, bits)) = edge.filter(|_| own < end) {
            write_if(targets, own, target);
            write_if(data, own, bits);
        }
        place += votes.count_ones() as usize;
    });
}

/// Examines the whole graph and adds to `report`: see [`super::Findings`]. Requires exclusive access to the
/// graph. The grid has a thread per vertex.
#[kernel]
pub fn graph_inspect<M: Config + Instance>(graph: GraphView<M>, report: GlobalSlice<u64>) {
    let index = Thread::index();
    if index < graph.vertices() as usize {
        M::inspect(graph, index as u32).add_to(report);
    }
}
