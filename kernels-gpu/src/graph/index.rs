//! The ids of vertices outside the graph, in the order of the vertices.
//!
//! All accesses are weak: a launch writes no word that it reads.
//!
//! # Cost
//!
//! Each thread reads and writes a word of 8 bytes at a random place.
use simt::{GlobalSlice, Thread, kernel};

/// Writes the id of each vertex to its place in `table`. Leaves out vertices behind its end. The vertices
/// differ. The grid has a thread per vertex.
#[kernel]
pub fn index_write(vertices: GlobalSlice<u32>, ids: GlobalSlice<u64>, table: GlobalSlice<u64>) {
    let index = Thread::index();
    if index < vertices.len() && index < ids.len() {
        let vertex = vertices.read(index) as usize;
        if vertex < table.len() {
            table.write(vertex, ids.read(index));
        }
    }
}

/// Reads the id of each vertex from its place in `table`; 0 for vertices behind its end. The grid has a
/// thread per vertex.
#[kernel]
pub fn index_read(vertices: GlobalSlice<u32>, table: GlobalSlice<u64>, ids: GlobalSlice<u64>) {
    let index = Thread::index();
    if index < vertices.len() && index < ids.len() {
        let vertex = vertices.read(index) as usize;
        ids.write(index, if vertex < table.len() { table.read(vertex) } else { 0 });
    }
}
