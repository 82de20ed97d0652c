//! Schedules of operations on small trees that keep versions, explored on the emulator with every detector
//! on. What operations on keys answered is checked key by key as for plain trees; what asks about several
//! keys, and snapshots, by one order of everything. `PHALANX_SEED` replays one seed, `PHALANX_SEEDS=50` hunts
//! fifty times as long.
mod common;
#[path = "explore/hunt.rs"]
mod hunt;
#[path = "mvbtree_explore/moments.rs"]
mod moments;
#[path = "mvbtree_explore/mutants.rs"]
mod mutants;
#[path = "explore/plan.rs"]
mod plan;
#[path = "explore/script.rs"]
mod script;
#[path = "mvbtree_explore/several.rs"]
mod several;
#[path = "btree_explore/sheet.rs"]
mod sheet;
#[path = "btree_explore/trees.rs"]
mod trees;
#[path = "explore/world.rs"]
mod world;

use hunt::kinds;
use phalanx_kernels::btree::{Access, Dated, InPlace, Moving, OutOfPlace, Tree, Versions};
use phalanx_kernels::keyed::{Packed, Slot, Wide};
use phalanx_kernels::reclaim::{Blocks, Group, Rules, Tiles};
use phalanx_kernels::slab::{Light, Pool, Spread};
use simt::Order;
use simt::emulator::WeakMemory;
use std::fmt::Debug;
use std::marker::PhantomData;

trees::crowded!(Tree: Access, refuses A::Versions::KEEPS);

/// The name that replays.
const PROGRAM: &str = "mvbtree_explore";

/// The weak memory under which plans are played too: walks follow links, whose order rests on dependencies.
const WEAK: WeakMemory = WeakMemory::Hardware;

/// Seeds for each kind of tree.
const SEEDS: u64 = 400;

/// Looks for the end of an epoch at each entry, so that short runs reclaim.
#[derive(Clone, Copy, Debug)]
struct Eager;

impl Rules for Eager {
    const SELDOM: u32 = 1;
}

/// [`OutOfPlace`], by other rules.
#[derive(Clone, Copy, Debug)]
struct Ruled<G, R>(PhantomData<(G, R)>);

impl<G: Group + Debug, R: Rules + Debug> Access for Ruled<G, R> {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    type Versions = Moving<G, R>;
}

/// Trees of leaves of 5 pairs.
type Small<A> = Tree<Dated<Packed>, Spread<64>, A, 4, 2>;

kinds! {
    [moments: moments, one seed in 1]
    in_place_4x2_u32_u32: Small<InPlace>, SEEDS;
    in_place_8x1_u64_u64: Tree<Dated<Wide<u64, u64>>, Light<128>, InPlace, 8, 1>, SEEDS / 2;
    out_of_place_4x2_u32_u32: Small<OutOfPlace>, SEEDS;
    out_of_place_8x1_u64_u64: Tree<Dated<Wide<u64, u64>>, Light<128>, OutOfPlace, 8, 1>, SEEDS / 2;
    out_of_place_4x4_u32_u32: Tree<Dated<Packed>, Spread<128>, OutOfPlace, 4, 4>, SEEDS / 4;
    eager_4x2_u32_u32: Small<Ruled<Blocks, Eager>>, SEEDS;
    by_tiles_4x2_u32_u32: Small<Ruled<Tiles<4, 8>, Eager>>, SEEDS / 2;
}

#[test]
fn a_slab_that_is_allocated_again_is_written_after_what_was_written_before() {
    moments::reuse_is_ordered::<Small<Ruled<Blocks, Eager>>>(SEEDS);
}
