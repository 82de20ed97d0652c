//! The hunt of `skiplist_explore` hunted. A program of its own, for each planted bug is compiled as a kind of
//! list.
mod common;
#[path = "explore/hunt.rs"]
mod hunt;
#[path = "skiplist_mutants/mutants.rs"]
mod mutants;
#[path = "btree_explore/order.rs"]
#[allow(dead_code)] // each program uses a part
mod order;
#[path = "explore/plan.rs"]
mod plan;
#[path = "explore/script.rs"]
#[allow(dead_code)] // as above
mod script;
#[path = "btree_explore/sheet.rs"]
mod sheet;
#[path = "btree_explore/trees.rs"]
mod trees;
#[path = "explore/world.rs"]
mod world;

use phalanx_kernels::keyed::Slot;
use phalanx_kernels::skiplist::{List, Policy};
use phalanx_kernels::slab::Pool;
use simt::emulator::WeakMemory;

trees::crowded!(List: Policy, refuses false);

/// The name that replays.
const PROGRAM: &str = "skiplist_mutants";

/// The weak memory under which plans are played too: walks follow links, whose order rests on dependencies.
const WEAK: WeakMemory = WeakMemory::Hardware;
