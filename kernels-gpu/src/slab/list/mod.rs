//! Slab lists: chains of slabs, a bucket's each: the device side of `SlabHash`, `SlabSet` and `SlabMultiMap`. See
//! `docs/structures/slab-hash.md`.
mod gather;
mod instances;
pub mod kernels;
mod lists;
mod node;
mod walk;

pub use crate::keyed::Append;
pub use gather::{Collect, Count, Gather, RemoveAll};
pub use instances::*;
pub use lists::{Config, Findings, Lists, ListsView, Visitor};
pub use node::Node;
pub use walk::LONG;
