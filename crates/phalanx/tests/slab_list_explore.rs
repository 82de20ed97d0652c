//! Explores schedules of operations on one slab list on the emulator, with every detector and a stale L1
//! cache. The pool has three free slabs, so that lists grow and memory runs out. The outcomes are checked for
//! linearizability, and the list for its invariants: no duplicate keys, empty slots only at the end, and live
//! slabs exactly those in lists. `PHALANX_SEED` replays one seed. Without it a quarter of the seeds are
//! explored; `PHALANX_SEEDS=1` explores all, `PHALANX_SEEDS=50` fifty times as many.
#[path = "slab_list_explore/chains.rs"]
mod chains;
mod common;
#[path = "explore/flaws.rs"]
mod flaws;
#[path = "slab_list_explore/full.rs"]
mod full;
#[path = "slab_list_explore/many.rs"]
mod many;
#[path = "slab_list_explore/mutants.rs"]
mod mutants;
#[path = "../../testing/src/explore/mutation.rs"]
mod mutation;
#[path = "../../testing/src/explore/plan.rs"]
mod plan;
#[path = "explore/pool.rs"]
mod pool;
#[path = "../../testing/src/explore/script.rs"]
mod script;
#[path = "explore/sessions.rs"]
mod sessions;
#[path = "../../testing/src/explore/world.rs"]
mod world;

use phalanx_kernels::keyed::{Bare, Packed, PerLane, Published, Wide};
use phalanx_kernels::slab::list::{self, Config, Lists};
use phalanx_kernels::slab::{Light, Spread};
use simt::{Instance, Tile};
use std::any::TypeId;
use std::convert::Infallible;

/// Number of seeds per list variant.
const SEEDS: u64 = 300;

// Named like the compiled variants.
explore! {
    (maps)
    [many_values_a_key: many, one seed in 1]
    spread_128_4x4_u32_u32: Lists<Packed, Spread<128>, 4, 4>, SEEDS;
    spread_128_4x2_u64_u64: Lists<Wide<u64, u64>, Spread<128>, 4, 2>, SEEDS;
    spread_128_4x2_u32_u64: Lists<Wide<u32, u64>, Spread<128>, 4, 2>, SEEDS / 2;
    spread_128_4x2_u64_u32: Lists<Wide<u64, u32>, Spread<128>, 4, 2>, SEEDS / 15;
    published_spread_128_4x2_u64_u64: Lists<Published<u64, u64>, Spread<128>, 4, 2>, SEEDS;
    published_spread_128_4x2_u64_u32: Lists<Published<u64, u32>, Spread<128>, 4, 2>, SEEDS / 2;
    published_spread_128_4x2_u32_u64: Lists<Published<u32, u64>, Spread<128>, 4, 2>, SEEDS / 15;
    light_128_4x4_u32_u32: Lists<Packed, Light<128>, 4, 4>, SEEDS / 2;
    light_128_4x2_u64_u64: Lists<Wide<u64, u64>, Light<128>, 4, 2>, SEEDS / 15;
    spread_128_2x8_u32_u32: Lists<Packed, Spread<128>, 2, 8>, SEEDS / 2;
    spread_128_8x2_u32_u32: Lists<Packed, Spread<128>, 8, 2>, SEEDS / 3;
    spread_128_16x1_u32_u32: Lists<Packed, Spread<128>, 16, 1>, SEEDS / 4;
    spread_256_8x4_u32_u32: Lists<Packed, Spread<256>, 8, 4>, SEEDS / 30;
    spread_256_32x1_u32_u32: Lists<Packed, Spread<256>, 32, 1>, SEEDS / 6;
}

// Sets: no key has several values.
explore! {
    (sets)
    spread_128_4x8_u32: Lists<Bare<u32>, Spread<128>, 4, 8>, SEEDS;
    spread_128_4x4_u64: Lists<Bare<u64>, Spread<128>, 4, 4>, SEEDS;
    light_128_4x8_u32: Lists<Bare<u32>, Light<128>, 4, 8>, SEEDS / 15;
    spread_128_32x1_u32: Lists<Bare<u32>, Spread<128>, 32, 1>, SEEDS / 6;
}

/// In these runs a tile reads two pairs of a key, of which the first has been removed: weak memory permits
/// it. The first two seeds fail if the first pair counts without a check, and the others if the last counts.
#[test]
fn a_removed_pair_does_not_hide_the_next_one() {
    fn is_sound<M: world::HasFixture + Instance>(seed: u64) {
        for choice in [plan::Choice::EXCHANGES, plan::Choice::EXCHANGES_AND_CHANGES] {
            let setting = world::Setting { choice, weak_memory: M::WEAK, ..mutation::setting::<M>(seed) };
            mutation::play::<M, script::ByLanes>(seed, &setting)
                .unwrap_or_else(|finding| panic!("{}", mutation::told(M::NAME, seed, &setting, &finding)));
        }
    }
    is_sound::<Lists<Packed, Spread<128>, 2, 8>>(2735);
    is_sound::<Lists<Packed, Spread<256>, 32, 1>>(8863);
    is_sound::<Lists<Packed, Spread<128>, 2, 8>>(5744);
    is_sound::<Lists<Packed, Spread<128>, 4, 4>>(9786);
    is_sound::<Lists<Wide<u64, u64>, Spread<128>, 4, 2>>(3623);
}

/// Collects the names of the compiled variants that are not among the types.
struct Missing(Vec<TypeId>, Vec<&'static str>);

impl list::Visitor for Missing {
    type Output = Infallible;

    fn visit<M: Config + Instance>(&mut self) -> Option<Infallible> {
        if !self.0.contains(&TypeId::of::<M>()) {
            self.1.push(M::NAME);
        }
        None
    }
}

#[test]
fn every_compiled_kind_is_explored() {
    let mut missing = Missing([maps(), sets()].concat(), Vec::new());
    list::visit(&mut missing);
    assert!(missing.1.is_empty(), "add {:?} to the lists of this program", missing.1);
}

#[test]
fn what_a_session_did_is_published_by_the_lane_that_asked() {
    sessions::are_published::<Lists<Packed, Spread<128>, 4, 4>, PerLane>(1, SEEDS);
    sessions::are_published::<Lists<Packed, Spread<128>, 4, 4>, Tile<4>>(1, SEEDS);
}

/// A pair that is published in steps is acquired before its value is changed or read.
#[test]
fn full_lists_are_sound_in_the_memory_model_of_ptx() {
    full::all_are_sound::<Packed, Spread<128>, 4, 4>("spread_128_4x4_u32_u32", SEEDS / 3);
    full::all_are_sound::<Published<u64, u64>, Spread<128>, 4, 2>("published_u64_u64", 2 * SEEDS);
    full::all_are_sound::<Published<u64, u32>, Spread<128>, 4, 2>("published_u64_u32", SEEDS);
}
