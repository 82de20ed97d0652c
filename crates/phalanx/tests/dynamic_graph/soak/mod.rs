//! Random scripts of calls on a random graph, compared with a map of its edges: all operations, batches of
//! all sizes, bad ends, faults of copies and allocations, files between. The seed of a script selects
//! everything.
//!
//! A test runs a few scripts, and `cargo xtask soak` ten thousand.
mod script;
mod verbs;

use crate::common::emulator;
use phalanx_testing::scripts;
use script::Script;
use verbs::Verbs;

fn run<E: Verbs>(data: &str) {
    let device = emulator().unwrap();
    scripts::run(&format!("dynamic_graph, {data}"), 100, |seed, counters| {
        Script::<E>::new(&device, seed, counters).run();
    });
}

#[test]
fn scripts_of_edges_without_data() {
    run::<()>("no data");
}

#[test]
fn scripts_of_weights() {
    run::<u32>("weights");
}

#[test]
fn scripts_of_timestamps() {
    run::<u64>("timestamps");
}
