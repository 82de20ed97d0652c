//! Explores schedules of operations on small versioned trees on the emulator, with every detector. Outcomes
//! of operations on single keys are checked key by key as for plain trees; queries of several keys and
//! snapshots are checked against one linearization of all operations. `PHALANX_SEED` replays one seed,
//! `PHALANX_SEEDS=50` explores fifty times as many seeds.
mod common;
#[path = "explore/faults.rs"]
mod faults;
#[path = "mvbtree_explore/moments.rs"]
mod moments;
#[path = "mvbtree_explore/mutants.rs"]
mod mutants;
#[path = "explore/mutation.rs"]
mod mutation;
#[path = "explore/plan.rs"]
mod plan;
#[path = "explore/script.rs"]
mod script;
#[path = "mvbtree_explore/several.rs"]
mod several;
#[path = "btree_explore/steps.rs"]
mod steps;
#[path = "btree_explore/trees.rs"]
mod trees;
#[path = "explore/world.rs"]
mod world;

use faults::{assert_effects, with};
use mutation::{all_are_sound_if, kinds};
use phalanx_kernels::keyed::{Packed, Slot, Wide};
use phalanx_kernels::mvbtree::{Access, InPlace, OutOfPlace, Tree, Versioned, Versions};
use phalanx_kernels::reclaim::{Blocks, Group, Tiles};
use phalanx_kernels::slab::{Light, Pool, Spread};
use script::{ByLanes, ByTiles};
use simt::emulator::{Fault, WeakMemory};
use simt::{Independent, Lockstep};
use std::fmt::Debug;

trees::crowded!(Tree: Access, refuses A::Versions::VERSIONED);

/// Name of this test program in replay commands.
const PROGRAM: &str = "mvbtree_explore";

/// Weak memory model for additional plans. Searches follow links, whose order relies on address dependencies.
const WEAK: WeakMemory = WeakMemory::Hardware;

/// Number of seeds per tree variant.
const SEEDS: u64 = 400;

/// Makes a participant try to advance the epoch at each entry, so that short runs reclaim memory.
pub fn eager() -> Fault {
    let is_late = faults::site("reclaim/participant.rs", "announce", "entry.set(LATE");
    Fault::replace(is_late, |_, _| 0)
}

/// Trees with leaves of 5 pairs.
type Small<A> = Tree<Versioned<Packed>, Spread<64>, A, 4, 2>;

kinds! {
    [moments: moments, one seed in 1]
    in_place_4x2_u32_u32: Small<InPlace>, SEEDS;
    in_place_8x1_u64_u64: Tree<Versioned<Wide<u64, u64>>, Light<128>, InPlace, 8, 1>, SEEDS / 2;
    out_of_place_4x2_u32_u32: Small<OutOfPlace>, SEEDS;
    out_of_place_8x1_u64_u64: Tree<Versioned<Wide<u64, u64>>, Light<128>, OutOfPlace, 8, 1>, SEEDS / 2;
    out_of_place_4x4_u32_u32: Tree<Versioned<Packed>, Spread<128>, OutOfPlace, 4, 4>, SEEDS / 4;
}

/// Explores a variant whose participants try to advance the epoch at each entry: by lanes, by tiles, and
/// snapshots.
fn eager_ones_are_sound<G: Group + Debug>(name: &str, count: u64) {
    let faults = [eager()];
    all_are_sound_if::<Small<OutOfPlace<G>>, ByLanes>(name, count, with(&faults));
    all_are_sound_if::<Small<OutOfPlace<G>>, ByTiles<Independent>>(name, count / 2, with(&faults));
    all_are_sound_if::<Small<OutOfPlace<G>>, ByTiles<Lockstep>>(name, count / 2, with(&faults));
    moments::all_are_sound_with::<Small<OutOfPlace<G>>>(name, count, &faults);
    assert_effects(&faults);
}

#[test]
fn eager_blocks_are_sound() {
    eager_ones_are_sound::<Blocks>("eager_4x2_u32_u32", SEEDS);
}

#[test]
fn eager_tiles_are_sound() {
    eager_ones_are_sound::<Tiles<4, 8>>("by_tiles_4x2_u32_u32", SEEDS / 2);
}

#[test]
fn a_slab_that_is_allocated_again_is_written_after_what_was_written_before() {
    moments::reuse_is_ordered::<Small<OutOfPlace>>(SEEDS, &[eager()]);
}
