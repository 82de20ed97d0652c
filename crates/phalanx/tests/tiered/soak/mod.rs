//! Random scripts of calls on a random map, compared with a model: all operations, batches of all sizes,
//! faults of copies and allocations, files between. The seed of a script selects everything.
//!
//! `cargo xtask soak` runs ten thousand scripts of each structure. Without `PHALANX_SEEDS` a quarter of
//! `SCRIPTS` is run.
mod batch;
mod script;

use super::model::emulator;
use phalanx_testing::common::{replay, seeds};
use script::{Counters, Script};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Number of scripts, unless `PHALANX_SEEDS` multiplies it.
const SCRIPTS: u64 = 40;

#[test]
fn scripts() {
    let (device, mut counters) = (emulator(), Counters::default());
    for seed in seeds(SCRIPTS) {
        let run = AssertUnwindSafe(|| Script::new(&device, seed, &mut counters).run());
        if let Err(panic) = catch_unwind(run) {
            eprintln!("script {seed}; {}", replay(seed));
            resume_unwind(panic);
        }
    }
    println!("{}: {counters}", env!("CARGO_CRATE_NAME"));
    assert!(counters.is_varied(), "scripts that test little: {counters}");
}
