//! Explores schedules of operations on skip lists of a few nodes, like those on trees (`btree_explore`): with
//! every detector, a stale L1 cache, and words of a node read one by one in any order. The outcomes are
//! checked for linearizability, and the list for its invariants. `PHALANX_SEED` replays one seed. Without it
//! a quarter of the seeds are explored; `PHALANX_SEEDS=1` explores all, `PHALANX_SEEDS=50` fifty times as
//! many.
mod common;
#[path = "skiplist_explore/directed.rs"]
mod directed;
#[path = "explore/faults.rs"]
mod faults;
#[path = "btree_explore/hot.rs"]
mod hot;
#[path = "skiplist_explore/moving.rs"]
mod moving;
#[path = "skiplist_explore/mutants.rs"]
mod mutants;
#[path = "../../testing/src/explore/mutation.rs"]
mod mutation;
#[path = "btree_explore/order.rs"]
mod order;
#[path = "../../testing/src/explore/plan.rs"]
mod plan;
#[path = "../../testing/src/explore/script.rs"]
mod script;
#[path = "explore/sessions.rs"]
mod sessions;
#[path = "btree_explore/steps.rs"]
mod steps;
#[path = "skiplist_explore/thin.rs"]
mod thin;
#[path = "btree_explore/trees.rs"]
mod trees;
#[path = "../../testing/src/explore/world.rs"]
mod world;

use phalanx_kernels::keyed::{Packed, PerLane, Wide};
use phalanx_kernels::skiplist::{self, Layers, List, Sorted, Together, Unsorted};
use phalanx_kernels::slab::{Layered, Light, Spread};
use script::ByLanes;
use simt::{Instance, Tile};
use std::convert::Infallible;

/// Number of seeds per list variant.
const SEEDS: u64 = 400;

// Nodes of 6 pairs, so that small lists have every feature of large ones, and the compiled nodes of 14 and 30
// pairs.
explore! {
    [by_order: order, one seed in 2]
    six_4x2_u32_u32: List<Packed, Spread<64>, Unsorted, 4, 2>, SEEDS;
    six_8x1_u64_u64: List<Wide<u64, u64>, Light<128>, Unsorted, 8, 1>, SEEDS / 2;
    sorted_4x2_u32_u32: List<Packed, Spread<64>, Sorted, 4, 2>, SEEDS;
    sorted_8x1_u64_u64: List<Wide<u64, u64>, Spread<128>, Sorted, 8, 1>, SEEDS / 4;
    apart_4x2_u32_u32: List<Packed, Layered<Spread<64>, true>, Unsorted, 4, 2>, SEEDS / 4;
    fourteen_8x2_u32_u32: List<Packed, Spread<128>, Unsorted, 8, 2>, SEEDS / 4;
    thirty_8x4_u32_u32: List<Packed, Spread<256>, Unsorted, 8, 4>, SEEDS / 8;
}

/// Explores the compiled variants.
struct Compiled;

impl skiplist::Visitor for Compiled {
    type Output = Infallible;

    fn visit<M: Layers + Instance>(&mut self) -> Option<Infallible> {
        mutation::all_are_sound::<M, ByLanes>(M::NAME, SEEDS / 20);
        order::all_are_sound::<M>(M::NAME, SEEDS / 40);
        None
    }
}

#[test]
fn compiled_kinds_are_linearizable() {
    skiplist::visit(&mut Compiled);
}

/// Like the test for trees.
#[test]
fn deep_lists_whose_directory_is_rebuilt_meanwhile_are_sound() {
    order::deep_ones_are_sound::<List<Packed, Spread<64>, Unsorted, 4, 2>>("deep_4x2_u32_u32", SEEDS / 4);
    order::deep_ones_are_sound::<List<Packed, Spread<64>, Sorted, 4, 2>>(
        "deep_sorted_4x2_u32_u32",
        SEEDS / 4,
    );
    order::deep_ones_are_sound::<List<Wide<u64, u64>, Light<128>, Unsorted, 8, 1>>(
        "deep_8x1_u64_u64",
        SEEDS / 8,
    );
}

/// Insertions are refused in a full pool.
#[test]
fn pools_are_full_in_some_plans() {
    type Small = List<Packed, Spread<64>, Unsorted, 4, 2>;
    let played = mutation::settings::<Small>(SEEDS).map(|(seed, setting)| {
        mutation::play::<Small, ByLanes>(seed, &setting).expect("a sound plan").refused
    });
    let refused: usize = played.sum();
    assert!(common::seeds(SEEDS).count() < 100 || refused >= 3, "{refused} refused");
}

/// The directory of a list whose nodes were freed is cleared.
#[test]
fn lists_in_the_slabs_of_another_one_are_sound() {
    order::refilled_ones_are_sound::<List<Packed, Spread<64>, Unsorted, 4, 2>>("refilled", SEEDS / 4);
}

#[test]
fn hot_keys_are_updated_beside_splits_and_merges() {
    hot::all_are_sound::<List<Packed, Spread<64>, Unsorted, 4, 2>>("hot_4x2_u32_u32", 2 * SEEDS);
    hot::all_are_sound::<List<Packed, Spread<64>, Together, 4, 2>>("hot_together_4x2_u32_u32", SEEDS);
    hot::all_are_sound::<List<Wide<u64, u64>, Light<128>, Unsorted, 8, 1>>("hot_8x1_u64_u64", 4 * SEEDS);
}

#[test]
fn hot_keys_are_updated_beside_removals() {
    hot::removals_are_sound::<List<Packed, Spread<64>, Unsorted, 4, 2>>("hot, removed", 4 * SEEDS);
}

#[test]
fn warps_update_a_hot_key_beside_splits_and_merges() {
    hot::warps_are_sound::<List<Packed, Spread<64>, Unsorted, 4, 2>>("warps_4x2_u32_u32", SEEDS);
    hot::warps_are_sound::<List<Wide<u64, u64>, Light<128>, Unsorted, 8, 1>>("warps_8x1_u64_u64", SEEDS / 2);
}

/// A sharer that goes back to the index if its key is beyond the node comes to the node again, forever.
#[test]
fn hot_keys_behind_a_shared_node_without_an_index_entry_are_updated() {
    hot::linked_ones_are_sound::<List<Packed, Spread<64>, Unsorted, 4, 2>>("linked_4x2_u32_u32", SEEDS);
}

#[test]
fn a_pair_that_comes_back_to_another_slot_is_told_once() {
    order::all_are_told_once::<List<Packed, Spread<64>, Unsorted, 4, 2>>(4 * SEEDS);
}

/// An index node refuses an entry below its low key, which belongs into one further left.
#[test]
fn entries_below_an_index_node_are_raised_elsewhere() {
    order::entries_below_a_node_are_raised::<List<Packed, Spread<64>, Unsorted, 4, 2>>(SEEDS / 4);
}

/// A reader may come to a new node as soon as it is linked.
#[test]
fn new_nodes_are_read_as_they_were_written() {
    order::divided_ones_are_sound::<List<Packed, Spread<64>, Unsorted, 4, 2>>("divided", SEEDS);
    order::divided_ones_are_sound::<List<Wide<u64, u64>, Light<128>, Unsorted, 4, 2>>("wide", 8 * SEEDS);
    order::divided_ones_are_sound::<List<Packed, Spread<64>, Sorted, 4, 2>>("divided, sorted", SEEDS);
    order::divided_ones_are_sound::<List<Wide<u64, u64>, Spread<128>, Sorted, 4, 2>>("sorted, wide", SEEDS);
}

/// The link past a zombie is stored before the latch is released.
#[test]
fn nodes_are_split_after_they_were_linked_past_a_zombie() {
    order::bypassed_zombies_are_sound::<List<Packed, Spread<64>, Unsorted, 4, 2>>(4 * SEEDS);
    order::bypassed_zombies_are_sound::<List<Wide<u64, u64>, Light<128>, Unsorted, 4, 2>>(2 * SEEDS);
}

/// A node with sorted pairs is a sequence lock.
#[test]
fn ranges_are_sound_while_pairs_move() {
    order::shifted_ones_are_sound::<List<Packed, Spread<64>, Sorted, 4, 2>>("shifted", 8 * SEEDS);
    order::shifted_ones_are_sound::<List<Wide<u64, u64>, Spread<128>, Sorted, 4, 2>>("wide", 8 * SEEDS);
    order::shifted_ones_are_sound::<List<Packed, Spread<64>, Unsorted, 4, 2>>("unsorted", SEEDS);
}

/// Pairs move one by one, not in order, into the node with which an underfull node merges. Before all of them
/// have moved, the pairs below its low key do not determine the highest key.
#[test]
fn the_highest_key_is_found_while_nodes_merge() {
    order::highest_keys_are_found_while_nodes_merge::<List<Packed, Spread<64>, Unsorted, 4, 2>>(4 * SEEDS);
    order::highest_keys_are_found_while_nodes_merge::<List<Packed, Spread<64>, Sorted, 4, 2>>(4 * SEEDS);
}

#[test]
fn what_a_session_did_is_published_by_the_lane_that_asked() {
    sessions::are_published::<List<Packed, Spread<64>, Sorted, 4, 2>, PerLane>(16, SEEDS);
    sessions::are_published::<List<Packed, Spread<64>, Sorted, 4, 2>, Tile<4>>(16, SEEDS);
}

/// Without the fence after the latch, seed 220 fails.
#[test]
fn a_sorted_node_is_not_believed_while_its_pairs_move() {
    order::are_sound_under_weak_memory::<List<Packed, Spread<64>, Sorted, 4, 2>>(200..240);
}
