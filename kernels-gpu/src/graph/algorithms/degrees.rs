//! Degrees of all vertices.
use super::parts::{Adjacency, PartList, VERTEX_TILE, visit_all};
use crate::keyed::kernels::write_if;
use simt::{GlobalSlice, Instance, Tile, kernel};

/// Degree of a vertex that does not exist.
pub const NO_VERTEX: u32 = u32::MAX;

/// Writes the degree of each vertex, or [`NO_VERTEX`], and lists the parts of large vertices. The grid has
/// any number of threads.
///
/// Cost: a pass over the vertices; 4 bytes written per vertex.
#[kernel]
pub fn degrees_count<A: Adjacency + Instance>(graph: A::View, degrees: GlobalSlice<u32>, parts: PartList) {
    let tile = Tile::<VERTEX_TILE>::lockstep();
    visit_all::<A>(graph, Some(parts), |vertex| {
        let mut own = 0;
        let large = A::visit(graph, vertex, |target| own += target.is_some() as u32);
        let degree = tile.reduce_add(own) + large.degree;
        if let Some(vertex) = vertex.filter(|_| tile.rank() == 0) {
            let degree = if A::exists(graph, vertex) { degree } else { NO_VERTEX };
            // mutation: late equivalent, because only later launches read the degrees.
            write_if(degrees, vertex as usize, degree);
        }
        large
    });
}
