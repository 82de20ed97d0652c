//! Explores schedules of operations on small versioned trees on the emulator, with every detector. Outcomes
//! of operations on single keys are checked key by key as for plain trees; queries of several keys and
//! snapshots are checked against one linearization of all operations. `PHALANX_SEED` replays one seed.
//! Without it a quarter of the seeds are explored; `PHALANX_SEEDS=1` explores all, `PHALANX_SEEDS=50` fifty
//! times as many.
mod common;
#[path = "explore/faults.rs"]
mod faults;
#[path = "mvbtree_explore/histories.rs"]
mod histories;
#[path = "mvbtree_explore/mutants.rs"]
mod mutants;
#[path = "../../testing/src/explore/mutation.rs"]
mod mutation;
#[path = "../../testing/src/explore/plan.rs"]
mod plan;
#[path = "../../testing/src/explore/script.rs"]
mod script;
#[path = "mvbtree_explore/several.rs"]
mod several;
#[path = "btree_explore/steps.rs"]
mod steps;
#[path = "btree_explore/trees.rs"]
mod trees;
#[path = "../../testing/src/explore/world.rs"]
mod world;

use faults::{assert_effects, with};
use histories::{Plan, plans_are_sound_if_weak, reuse_is_ordered};
use mutation::all_are_sound_if;
use phalanx_kernels::keyed::{Packed, Wide};
use phalanx_kernels::mvbtree::{self, Config, InPlace, OutOfPlace, Tree, Versioned};
use phalanx_kernels::reclaim::{Blocks, Group, Tiles};
use phalanx_kernels::slab::{Light, Spread};
use script::{ByLanes, ByTiles};
use simt::emulator::Fault;
use simt::{Independent, Instance, Lockstep};
use std::convert::Infallible;
use std::fmt::Debug;

/// Number of seeds per tree variant.
const SEEDS: u64 = 400;

/// Makes a participant try to advance the epoch at each entry, so that short runs reclaim memory.
pub fn eager() -> Fault {
    let is_late = faults::site("reclaim/participant.rs", "announce", "entry.set(LATE");
    Fault::replace(is_late, |_, _| 0)
}

/// Trees with leaves of 5 pairs.
type Small<A> = Tree<Versioned<Packed>, Spread<64>, A, 4, 2>;

explore! {
    [histories: histories, one seed in 1]
    in_place_4x2_u32_u32: Small<InPlace>, SEEDS;
    in_place_8x1_u64_u64: Tree<Versioned<Wide<u64, u64>>, Light<128>, InPlace, 8, 1>, SEEDS / 2;
    out_of_place_4x2_u32_u32: Small<OutOfPlace>, SEEDS;
    out_of_place_8x1_u64_u64: Tree<Versioned<Wide<u64, u64>>, Light<128>, OutOfPlace, 8, 1>, SEEDS / 2;
    out_of_place_4x4_u32_u32: Tree<Versioned<Packed>, Spread<128>, OutOfPlace, 4, 4>, SEEDS / 4;
}

/// Explores the compiled variants.
struct Compiled;

impl mvbtree::Visitor for Compiled {
    type Output = Infallible;

    fn visit<M: Config + Instance>(&mut self) -> Option<Infallible> {
        mutation::all_are_sound::<M, ByLanes>(M::NAME, SEEDS / 40);
        histories::all_are_sound::<M>(M::NAME, SEEDS / 20);
        None
    }
}

#[test]
fn compiled_kinds_are_linearizable() {
    mvbtree::visit(&mut Compiled);
}

/// Explores a variant whose participants try to advance the epoch at each entry: by lanes, by tiles, and
/// snapshots.
fn eager_ones_are_sound<G: Group + Debug>(name: &str, count: u64) {
    let faults = [eager()];
    all_are_sound_if::<Small<OutOfPlace<G>>, ByLanes>(name, count, with(&faults));
    all_are_sound_if::<Small<OutOfPlace<G>>, ByTiles<Independent, 4>>(name, count / 2, with(&faults));
    all_are_sound_if::<Small<OutOfPlace<G>>, ByTiles<Lockstep, 4>>(name, count / 2, with(&faults));
    histories::all_are_sound_with::<Small<OutOfPlace<G>>>(name, count, &faults);
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
    let faults = [eager()];
    reuse_is_ordered::<Small<OutOfPlace>>(SEEDS / 2, Plan::new::<Small<OutOfPlace>>, &faults);
    reuse_is_ordered::<Small<OutOfPlace>>(SEEDS / 2, Plan::recycling, &faults);
}

/// Trees with leaves of 5 pairs of 16 bytes.
type Wider<A> = Tree<Versioned<Wide<u64, u64>>, Light<128>, A, 4, 2>;

#[test]
fn snapshots_that_race_with_changes_are_sound() {
    for (name, plan) in [("racing", Plan::racing as fn(u64) -> Plan), ("asking", Plan::asking)] {
        plans_are_sound_if_weak::<Small<OutOfPlace>>(name, SEEDS / 2, plan, &[eager()]);
        plans_are_sound_if_weak::<Wider<OutOfPlace>>(name, SEEDS / 4, plan, &[eager()]);
    }
    plans_are_sound_if_weak::<Small<OutOfPlace>>("helping", SEEDS, Plan::helping, &[eager()]);
}

#[test]
fn snapshots_that_race_with_splits_are_sound() {
    plans_are_sound_if_weak::<Small<OutOfPlace>>("dividing", SEEDS, Plan::dividing, &[eager()]);
    plans_are_sound_if_weak::<Wider<OutOfPlace>>("dividing, wide", SEEDS / 2, Plan::dividing, &[eager()]);
}
