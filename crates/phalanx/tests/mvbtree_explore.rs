//! Explores schedules of operations on small versioned trees on the emulator, with every detector. Outcomes
//! of operations on single keys are checked key by key as for plain trees; queries of several keys and
//! snapshots are checked against one linearization of all operations. `PHALANX_SEED` replays one seed,
//! `PHALANX_SEEDS=50` explores fifty times as many seeds.
mod common;
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

use mutation::kinds;
use phalanx_kernels::keyed::{Packed, Slot, Wide};
use phalanx_kernels::mvbtree::{Access, InPlace, MovingClock, OutOfPlace, Tree, Versioned, Versions};
use phalanx_kernels::reclaim::{Blocks, FaultPolicy, Group, Tiles};
use phalanx_kernels::slab::{Light, Pool, Spread};
use simt::Order;
use simt::emulator::WeakMemory;
use std::fmt::Debug;
use std::marker::PhantomData;

trees::crowded!(Tree: Access, refuses A::Versions::VERSIONED);

/// Name of this test program in replay commands.
const PROGRAM: &str = "mvbtree_explore";

/// Weak memory model for additional plans. Searches follow links, whose order relies on address dependencies.
const WEAK: WeakMemory = WeakMemory::Hardware;

/// Number of seeds per tree variant.
const SEEDS: u64 = 400;

/// Fault policy that tries to advance the epoch at each entry, so that short runs reclaim memory.
#[derive(Clone, Copy, Debug)]
struct Eager;

impl FaultPolicy for Eager {
    const SELDOM: u32 = 1;
}

/// [`OutOfPlace`] with another fault policy.
#[derive(Clone, Copy, Debug)]
struct Ruled<G, R>(PhantomData<(G, R)>);

impl<G: Group + Debug, R: FaultPolicy + Debug> Access for Ruled<G, R> {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    type Versions = MovingClock<G, R>;
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
    eager_4x2_u32_u32: Small<Ruled<Blocks, Eager>>, SEEDS;
    by_tiles_4x2_u32_u32: Small<Ruled<Tiles<4, 8>, Eager>>, SEEDS / 2;
}

#[test]
fn a_slab_that_is_allocated_again_is_written_after_what_was_written_before() {
    moments::reuse_is_ordered::<Small<Ruled<Blocks, Eager>>>(SEEDS);
}
