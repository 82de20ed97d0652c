//! Algorithms on graphs, on their compressed sparse rows, and after batches, against computations on the
//! host.
#![cfg(feature = "dynamic-graph")]
mod batches;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod merge;
mod oracle;
mod samples;
mod whole;
