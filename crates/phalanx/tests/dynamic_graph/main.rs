//! Graphs on the emulator: all operations against a map of edges, growth, lack of memory, and bad input.
#![cfg(feature = "dynamic-graph")]
mod bad_input;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod from_csr;
mod growth;
mod in_edges;
mod load;
mod model;
mod parallel;
mod rehash;
mod room;
mod soak;
mod threads;
mod vertex_index;
mod whole;
mod world;
