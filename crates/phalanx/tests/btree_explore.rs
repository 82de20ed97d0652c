//! Explores schedules of operations on small trees on the emulator, with every detector and a stale L1 cache.
//! The words of a node are read one by one, in any order. The outcomes are checked for linearizability, and
//! the tree for its invariants. `PHALANX_SEED` replays one seed. Without it a quarter of the seeds are
//! explored; `PHALANX_SEEDS=1` explores all, `PHALANX_SEEDS=50` fifty times as many.
mod common;
#[path = "explore/faults.rs"]
mod faults;
#[path = "btree_explore/hot.rs"]
mod hot;
#[path = "btree_explore/mutants.rs"]
mod mutants;
#[path = "../../testing/src/explore/mutation.rs"]
mod mutation;
#[path = "btree_explore/order.rs"]
mod order;
#[path = "../../testing/src/explore/plan.rs"]
mod plan;
#[path = "btree_explore/range_results.rs"]
mod range_results;
#[path = "../../testing/src/explore/script.rs"]
mod script;
#[path = "explore/sessions.rs"]
mod sessions;
#[path = "btree_explore/steps.rs"]
mod steps;
#[path = "btree_explore/trees.rs"]
mod trees;
#[path = "../../testing/src/explore/world.rs"]
mod world;

use phalanx_kernels::btree::{self, Config, ReadOnly, phased};
use phalanx_kernels::keyed::{Packed, PerLane, Wide};
use phalanx_kernels::mvbtree::{Concurrent, Coupled, Grouped, InPlace, OutOfPlace, Tree, Versioned};
use phalanx_kernels::slab::{Light, Spread};
use script::ByLanes;
use simt::{Instance, Tile};
use std::convert::Infallible;

/// Number of seeds per tree variant.
const SEEDS: u64 = 400;

// Nodes of 6 pairs, so that small trees have every feature of large ones, and the compiled nodes of 14 pairs.
explore! {
    [by_order: order, one seed in 2]
    six_4x2_u32_u32: Tree<Packed, Spread<64>, Concurrent, 4, 2>, SEEDS;
    six_8x1_u64_u64: Tree<Wide<u64, u64>, Light<128>, Concurrent, 8, 1>, SEEDS / 2;
    fourteen_4x4_u32_u32: Tree<Packed, Spread<128>, Concurrent, 4, 4>, SEEDS / 4;
    grouped_4x2_u32_u32: Tree<Packed, Spread<64>, Grouped, 4, 2>, SEEDS / 2;
    coupled_4x2_u32_u32: Tree<Packed, Spread<64>, Coupled, 4, 2>, SEEDS / 4;
}

/// Regression test: two concurrent rebuilds of a directory shared scratch space, and look-ups then accessed
/// memory outside the pool.
#[test]
fn deep_trees_whose_directory_is_rebuilt_meanwhile_are_sound() {
    order::deep_ones_are_sound::<Tree<Packed, Spread<64>, Concurrent, 4, 2>>("deep_4x2_u32_u32", SEEDS / 4);
    order::deep_ones_are_sound::<Tree<Wide<u64, u64>, Light<128>, Concurrent, 8, 1>>(
        "deep_8x1_u64_u64",
        SEEDS / 4,
    );
}

/// The directory of a tree whose nodes were freed is cleared.
#[test]
fn trees_in_the_slabs_of_another_one_are_sound() {
    order::refilled_ones_are_sound::<Tree<Packed, Spread<64>, Concurrent, 4, 2>>("refilled", SEEDS / 4);
}

#[test]
fn deep_trees_with_versions_are_sound() {
    type Deep<A> = Tree<Versioned<Packed>, Spread<64>, A, 4, 2>;
    order::deep_ones_are_sound::<Deep<InPlace>>("deep_in_place_4x2_u32_u32", SEEDS / 4);
    order::deep_ones_are_sound::<Deep<OutOfPlace>>("deep_out_of_place_4x2_u32_u32", SEEDS / 4);
}

#[test]
fn a_pair_that_comes_back_to_another_slot_is_told_once() {
    order::all_are_told_once::<Tree<Packed, Spread<64>, Concurrent, 4, 2>>(4 * SEEDS);
    order::all_are_told_once::<Tree<Packed, Spread<128>, Concurrent, 4, 4>>(SEEDS);
}

#[test]
fn hot_keys_are_updated_beside_splits_and_removals() {
    hot::all_are_sound::<Tree<Packed, Spread<64>, Concurrent, 4, 2>>("hot_4x2_u32_u32", 2 * SEEDS);
    hot::all_are_sound::<Tree<Wide<u64, u64>, Light<128>, Concurrent, 8, 1>>("hot_8x1_u64_u64", SEEDS);
}

#[test]
fn headers_that_are_seen_late_are_waited_for() {
    order::late_headers_are_waited_for::<Tree<Packed, Spread<64>, Concurrent, 4, 2>>(SEEDS);
}

#[test]
fn a_pair_that_is_seen_twice_is_told_once() {
    order::twins_are_told_once::<Tree<Packed, Spread<128>, Concurrent, 4, 4>>();
    order::twins_are_told_once::<Tree<Packed, Spread<64>, Concurrent, 4, 2>>();
}

#[test]
fn ranges_go_where_they_should() {
    type By<A, const W: u32, const L: usize> = Tree<Packed, Spread<128>, A, W, L>;
    range_results::ranges_go_where_they_should::<By<Concurrent, 4, 4>, By<Concurrent, 4, 4>>(SEEDS / 2);
    range_results::ranges_go_where_they_should::<By<Concurrent, 8, 2>, By<Concurrent, 8, 2>>(SEEDS / 4);
}

/// Explores the compiled variants.
struct Compiled;

impl btree::Visitor for Compiled {
    type Output = Infallible;

    fn visit<M: Config + Instance>(&mut self) -> Option<Infallible> {
        mutation::all_are_sound::<M, ByLanes>(M::NAME, SEEDS / 20);
        order::all_are_sound::<M>(M::NAME, SEEDS / 40);
        None
    }
}

/// Collects ranges by read-only kernels from trees that other kernels filled: more seeds for the default.
impl phased::Visitor for Compiled {
    type Output = Infallible;

    fn visit<M: ReadOnly + Instance>(&mut self) -> Option<Infallible> {
        let seeds = if M::NAME == phased::NAMES[0] { SEEDS / 2 } else { SEEDS / 20 };
        range_results::ranges_go_where_they_should::<M::Writers, M>(seeds);
        None
    }
}

#[test]
fn compiled_kinds_are_linearizable() {
    btree::visit(&mut Compiled);
}

#[test]
fn read_only_kinds_read_what_others_wrote() {
    phased::visit(&mut Compiled);
}

#[test]
fn what_a_session_did_is_published_by_the_lane_that_asked() {
    sessions::are_published::<Tree<Packed, Spread<64>, Concurrent, 4, 2>, PerLane>(16, SEEDS);
    sessions::are_published::<Tree<Packed, Spread<64>, Concurrent, 4, 2>, Tile<4>>(16, SEEDS);
}
