//! Random scripts of calls on a random map, compared with a model: all operations, batches of all sizes,
//! faults of copies and allocations, files between. The seed of a script selects everything.
//!
//! A test runs a few scripts, and `cargo xtask soak` ten thousand of each structure.
mod batch;
mod script;

use super::model::emulator;
use script::Script;

#[test]
fn scripts() {
    let device = emulator();
    phalanx_testing::scripts::run(env!("CARGO_CRATE_NAME"), 500, |seed, counters| {
        Script::new(&device, seed, counters).run();
    });
}
