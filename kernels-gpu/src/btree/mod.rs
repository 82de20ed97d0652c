//! B-link trees: ordered maps in nodes of 16 words. The device side of `BTree`. See
//! `docs/structures/btree.md`.
//!
//! Nodes, ordered queries, bulk builds and the directory are in [`ordered`](crate::ordered). This module has
//! the traversal of an operation on one key, and splits.
//!
//! # Cost
//!
//! [`TreeView::share`](TreeView) and the methods of the kinds here read one node of 128 or 256 bytes per
//! level below the directory's; a miss reads the leaf and its tail again. An update executes an atomic to
//! latch the leaf, one store of a word, and one store to release it. A split, one insertion in seven, also
//! latches the parent, allocates a slab, writes half a node and two words, shifts the parent's entries, and
//! fences.
mod inspect;
#[cfg(feature = "btree")]
mod instances;
pub mod kernels;
mod latch_coupling;
mod split;
pub(crate) mod tree;
mod walk;

#[doc(no_inline)]
pub use crate::ordered::*;
#[cfg(feature = "btree")]
pub use instances::*;
pub use tree::{ReadOnly, Tree, TreeOf};
