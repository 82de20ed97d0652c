//! Slab lists: chains of slabs, a bucket's each: the device side of `SlabHash`, `SlabSet` and `SlabMultiMap`.
//! See `docs/structures/slab-hash.md`.
mod gather;
mod instances;
pub mod kernels;
mod lists;
mod node;
mod walk;

pub use crate::keyed::Append;
use crate::keyed::{Bare, Packed, Published, Wide};
use crate::slab::Spread;
pub use gather::{Collect, Count, Gather, RemoveAll};
pub use instances::*;
pub use lists::{Config, Findings, Lists, ListsView, Visitor};
pub use node::Node;
pub use walk::LONG;

/// The kind of lists that maps of 32-bit keys and values get unless they are told otherwise.
pub type DefaultLists = Lists<Packed, Spread<128>, 4, 4>;

/// The kind that maps of other keys and values get, on devices that swap 16 bytes at once.
pub type DefaultWide<K, V> = Lists<Wide<K, V>, Spread<128>, 4, 2>;

/// The kind that maps of other keys and values get on older devices.
pub type DefaultPublished<K, V> = Lists<Published<K, V>, Spread<128>, 4, 2>;

/// The kind that sets of 32-bit keys get.
pub type DefaultSet32 = Lists<Bare<u32>, Spread<128>, 4, 8>;

/// The kind that sets of 64-bit keys get.
pub type DefaultSet64 = Lists<Bare<u64>, Spread<128>, 4, 4>;
