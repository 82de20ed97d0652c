//! Skip lists of super-nodes (GFSL): layers of linked nodes of 16 or 32 words. The device side of `SkipList`.
//! See `docs/structures/skip-list.md`.
//!
//! Nodes, ordered queries, bulk builds and the directory are in [`ordered`](crate::ordered): a layer of a
//! skip list is a level whose nodes need no parent. This module has the traversal of an operation on one key,
//! splits that raise keys, and merges.
mod compact;
mod inspect;
mod instances;
pub mod kernels;
mod list;
mod merge;
mod policy;
mod split;
mod walk;

#[doc(no_inline)]
pub use crate::ordered::*;
pub use compact::{Layout, NodeArray, SlabReservation};
pub use instances::*;
pub use list::{Layers, List, ListOf};
pub use policy::{Counted, Event, Policy, Sorted, Together, Unsorted};
