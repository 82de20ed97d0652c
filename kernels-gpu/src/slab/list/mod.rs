//! Slab lists: one chain of slabs per bucket. The device side of `SlabHash`, `SlabSet` and `SlabMultiMap`.
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
pub use lists::{Config, Findings, Lists, ListsView};
pub use node::Node;
pub use walk::LONG;

/// The default kind of lists for maps of 32-bit keys and values.
pub type DefaultLists = Lists<Packed, Spread<128>, 4, 4>;

/// The default kind for maps of other keys and values, on devices with a 16-byte compare-and-swap.
pub type DefaultWide<K, V> = Lists<Wide<K, V>, Spread<128>, 4, 2>;

/// The default kind for maps of other keys and values on older devices.
pub type DefaultPublished<K, V> = Lists<Published<K, V>, Spread<128>, 4, 2>;

/// The default kind for sets of 32-bit keys.
pub type DefaultSet32 = Lists<Bare<u32>, Spread<128>, 4, 8>;

/// The default kind for sets of 64-bit keys.
pub type DefaultSet64 = Lists<Bare<u64>, Spread<128>, 4, 4>;
