//! B-link trees: ordered maps in nodes of 16 words. The device side of `BTree`. See
//! `docs/structures/btree.md`.
//!
//! Nodes, ordered queries, bulk builds and the directory are in [`ordered`](crate::ordered). This module has
//! the traversal of an operation on one key, and splits.
mod inspect;
mod instances;
pub mod kernels;
mod latch_coupling;
mod split;
pub(crate) mod tree;
mod walk;

#[doc(no_inline)]
pub use crate::ordered::*;
pub use instances::*;
pub use tree::{ReadOnly, Tree, TreeOf};
