//! Skip lists of super-nodes (GFSL): layers of linked nodes of 16 or 32 words. The device side of `SkipList`.
//! See `docs/structures/skip-list.md`.
//!
//! Layout of nodes, what goes by order, building at once and the directory are the B-link tree's (`btree`): a
//! layer of a skip list is a level whose nodes need no parent. What is here is what that changes: the walk,
//! splits that raise keys, and merges.
mod inspect;
mod instances;
pub mod kernels;
mod list;
mod merge;
mod policy;
mod split;
mod tidy;
mod walk;

pub use instances::*;
pub use list::{Layers, List, Visitor};
pub use policy::{Counted, Event, Policy, Sorted, Together, Unsorted};
pub use tidy::{Claims, Ground, Layout};
