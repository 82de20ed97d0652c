//! Mutation tests of `skiplist_explore`. They are a separate program, because each planted bug is compiled as
//! a list variant.
mod common;
#[path = "skiplist_mutants/mutants.rs"]
mod mutants;
#[path = "explore/mutation.rs"]
mod mutation;
#[path = "btree_explore/order.rs"]
#[allow(dead_code)] // each program uses some of these
mod order;
#[path = "explore/plan.rs"]
mod plan;
#[path = "explore/script.rs"]
#[allow(dead_code)] // as above
mod script;
#[path = "btree_explore/steps.rs"]
mod steps;
#[path = "btree_explore/trees.rs"]
mod trees;
#[path = "explore/world.rs"]
mod world;

use phalanx_kernels::keyed::Slot;
use phalanx_kernels::skiplist::{List, Policy};
use phalanx_kernels::slab::Pool;
use simt::emulator::WeakMemory;

trees::crowded!(List: Policy, refuses false);

/// Name of this test program in replay commands.
const PROGRAM: &str = "skiplist_mutants";

/// Weak memory model for additional plans. Searches follow links, whose order relies on address dependencies.
const WEAK: WeakMemory = WeakMemory::Hardware;
