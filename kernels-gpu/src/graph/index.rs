//! The ids of vertices outside the graph, in the order of the vertices.
//!
//! All accesses are weak: a launch writes no word that it reads.
//!
//! # Cost
//!
//! [`index_write`] writes a word of 8 bytes at a random place per thread; [`index_absent`] reads a byte in
//! order, and writes a byte, and 4 where it is `Absent`.
use crate::keyed::Outcome;
use crate::keyed::kernels::write_if;
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

/// Writes the vertex of all ones where the outcome of a lookup is `Absent`; and to `flags`, unless it is
/// empty, 1 there and 0 elsewhere. The grid has a thread per vertex.
#[kernel]
pub fn index_absent(outcomes: GlobalSlice<u8>, vertices: GlobalSlice<u32>, flags: GlobalSlice<u8>) {
    let index = Thread::index();
    if index < outcomes.len() && index < vertices.len() {
        let is_absent = outcomes.read(index) == Outcome::Absent as u8;
        if is_absent {
            vertices.write(index, u32::MAX);
        }
        write_if(flags, index, is_absent as u8);
    }
}
