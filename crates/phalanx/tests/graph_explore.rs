//! Explores schedules of operations on graphs on the emulator, with every detector and a stale L1 cache:
//! kernels that insert, remove and look up edges at the same time, whose outcomes are checked for
//! linearizability, batches with growth, which are checked against a map of edges, and algorithms.
//! `PHALANX_SEED` replays one seed. Without it a quarter of the seeds are explored; `PHALANX_SEEDS=1`
//! explores all.
#![cfg(feature = "dynamic-graph")]
#[path = "graph_explore/algorithms.rs"]
mod algorithms;
#[path = "graph_explore/batches.rs"]
mod batches;
#[path = "graph_explore/blocks.rs"]
mod blocks;
mod common;
#[path = "graph_explore/mutants.rs"]
mod mutants;
#[path = "graph_algorithms/oracle.rs"]
mod oracle;
#[path = "graph_explore/phases.rs"]
mod phases;
#[path = "graph_explore/rows.rs"]
mod rows;
#[path = "graph_explore/setting.rs"]
mod setting;
#[path = "graph_explore/visits.rs"]
mod visits;
#[path = "dynamic_graph/world.rs"]
mod world;
