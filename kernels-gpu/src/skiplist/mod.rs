//! Skip lists of super-nodes (GFSL): layers of linked nodes of 16 or 32 words. The device side of `SkipList`.
//! See `docs/structures/skip-list.md`.
//!
//! Nodes, ordered queries, bulk builds and the directory are in [`ordered`](crate::ordered): a layer of a
//! skip list is a level whose nodes need no parent. This module has the traversal of an operation on one key,
//! splits that raise keys, and merges.
//!
//! ```
//! use phalanx_kernels::keyed::{Insert, Outcome, Packed};
//! use phalanx_kernels::skiplist::{Layers, List, NodeArray, SlabReservation, TreeView, Unsorted};
//! use phalanx_kernels::slab::Spread;
//! use simt::{GlobalSlice, Tile};
//!
//! type Own = List<Packed, Spread<128>, Unsorted, 8, 2>;
//!
//! /// Inserts a pair, by a tile of eight lanes.
//! fn insert_pair(list: TreeView<Own>, key: u32, value: u32) -> Outcome {
//!     list.share(Tile::<8>::lockstep(), true, Insert, key, value).0
//! }
//!
//! /// Executes one of the steps of a compaction, which the host launches one after the other.
//! fn compact_step<M: Layers>(
//!     list: TreeView<M>,
//!     (step, index): (u32, usize),
//!     data: NodeArray<M::Key>,
//!     count: GlobalSlice<u64>,
//!     claims: SlabReservation,
//! ) {
//!     match step {
//!         0 => M::gather(list, index, data.lows, data.handles, count),
//!         1 => M::sweep_nodes(list, index),
//!         2 => M::relink(list, index, data),
//!         3 => M::claim(list, index, claims),
//!         _ => M::index(list, index as u64, data),
//!     }
//! }
//! ```
//!
//! # Cost
//!
//! A lookup reads one node of 128 or 256 bytes per layer below the directory's; a miss one more, and its
//! tail. An update executes an atomic to latch the data node, a store per word that changes, and a store to
//! release it; in a shared node, four atomics and a read of the node. A split allocates a slab, writes half a
//! node and two words, fences, and then latches and shifts a node of layer 1. A merge latches the next node
//! and writes at most a third of a node.
//! [`Layers::gather`], [`Layers::sweep_nodes`] and [`Layers::relink`] read a data node each;
//! [`Layers::claim`] executes an atomic per word of the bitmap from which it takes slabs; [`Layers::index`]
//! writes a node. The methods of [`Layout`] (`within`, `slabs`, `slabs_upto`) are arithmetic, O(layers).
mod compact;
mod inspect;
#[cfg(feature = "skip-list")]
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
#[cfg(feature = "skip-list")]
pub use instances::*;
pub use list::{Layers, List, ListOf};
pub use policy::{Counted, Event, Policy, Sorted, Together, Unsorted};
