//! Schedules of operations on one slab list, explored on the emulator with every detector on and stale L1: a
//! pool that has three slabs to give, so that lists grow and room runs out. What the operations answered is
//! checked for linearizability, and the list for its invariants: no key twice, empty slots at the end alone,
//! live slabs exactly those in lists. `PHALANX_SEED` replays one seed, `PHALANX_SEEDS=50` hunts fifty times
//! as long.
#[path = "slab_list_explore/chains.rs"]
mod chains;
mod common;
#[path = "explore/flaws.rs"]
mod flaws;
#[path = "explore/hunt.rs"]
mod hunt;
#[path = "slab_list_explore/many.rs"]
mod many;
#[path = "slab_list_explore/mutants.rs"]
mod mutants;
#[path = "explore/plan.rs"]
mod plan;
#[path = "explore/pool.rs"]
mod pool;
#[path = "explore/script.rs"]
mod script;
#[path = "explore/sessions.rs"]
mod sessions;
#[path = "explore/world.rs"]
mod world;

use hunt::kinds;
use phalanx_kernels::keyed::{Bare, Lanes, Packed, Published, Wide};
use phalanx_kernels::slab::list::Lists;
use phalanx_kernels::slab::{Light, Spread};
use simt::Tile;
use simt::emulator::WeakMemory;

/// The name that replays.
const PROGRAM: &str = "slab_list_explore";

/// The weak memory under which plans are played too: walks follow links, whose order rests on dependencies.
const WEAK: WeakMemory = WeakMemory::Hardware;

/// Seeds for each kind of lists.
const SEEDS: u64 = 300;

// The names of the compiled kinds.
kinds! {
    [many_values_a_key: many, one seed in 1]
    spread_128_4x4_u32_u32: Lists<Packed, Spread<128>, 4, 4>, SEEDS;
    spread_128_4x2_u64_u64: Lists<Wide<u64, u64>, Spread<128>, 4, 2>, SEEDS;
    spread_128_4x2_u32_u64: Lists<Wide<u32, u64>, Spread<128>, 4, 2>, SEEDS / 2;
    published_128_4x2_u64_u64: Lists<Published<u64, u64>, Spread<128>, 4, 2>, SEEDS;
    published_128_4x2_u64_u32: Lists<Published<u64, u32>, Spread<128>, 4, 2>, SEEDS / 2;
    light_128_4x4_u32_u32: Lists<Packed, Light<128>, 4, 4>, SEEDS / 2;
    spread_128_2x8_u32_u32: Lists<Packed, Spread<128>, 2, 8>, SEEDS / 2;
    spread_128_8x2_u32_u32: Lists<Packed, Spread<128>, 8, 2>, SEEDS / 3;
    spread_128_16x1_u32_u32: Lists<Packed, Spread<128>, 16, 1>, SEEDS / 4;
    spread_256_32x1_u32_u32: Lists<Packed, Spread<256>, 32, 1>, SEEDS / 6;
}

// Sets: no key has many values.
kinds! {
    spread_128_4x8_u32: Lists<Bare<u32>, Spread<128>, 4, 8>, SEEDS;
    spread_128_4x4_u64: Lists<Bare<u64>, Spread<128>, 4, 4>, SEEDS;
    spread_128_32x1_u32: Lists<Bare<u32>, Spread<128>, 32, 1>, SEEDS / 6;
}

#[test]
fn what_a_session_did_is_published_by_the_lane_that_asked() {
    sessions::are_published::<Lists<Packed, Spread<128>, 4, 4>, Lanes>(1, SEEDS);
    sessions::are_published::<Lists<Packed, Spread<128>, 4, 4>, Tile<4>>(1, SEEDS);
}
