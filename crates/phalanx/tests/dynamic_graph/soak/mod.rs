//! Random scripts of calls on a random graph, compared with a map of its edges: all operations, batches of
//! all sizes, bad ends, faults of copies and allocations, files between. The seed of a script selects
//! everything.
//!
//! `cargo xtask soak` runs ten thousand scripts. Without `PHALANX_SEEDS` a quarter of `SCRIPTS` is run.
mod script;
mod verbs;

use crate::common::{emulator, replay, seeds};
use script::{Counters, Script};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use verbs::Verbs;

/// Number of scripts per kind of data, unless a variable asks for more.
const SCRIPTS: u64 = 40;

fn run<E: Verbs>(name: &str) {
    let (device, mut counters) = (emulator().unwrap(), Counters::default());
    for seed in seeds(SCRIPTS) {
        let run = AssertUnwindSafe(|| Script::<E>::new(&device, seed, &mut counters).run());
        if let Err(panic) = catch_unwind(run) {
            eprintln!("script {seed} of {name}; {}", replay(seed));
            resume_unwind(panic);
        }
    }
    println!("dynamic_graph, {name}: {counters}");
    assert!(counters.is_varied(), "scripts that test little: {counters}");
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
