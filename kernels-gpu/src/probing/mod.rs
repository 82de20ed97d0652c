//! Open addressing over buckets that a tile reads at once: the device side of `phalanx::HashMap`. The
//! repository's page `docs/structures/hashmap.md` has layout, proof and costs.
//!
//! In a kernel of your own, take a [`MapView`] and open a [`Session`] on it. The view's type is the kind of
//! table that the map has; `phalanx::HashMap::variant` names it, and these are the types of the kinds that a
//! map gets unless it is told otherwise:
//!
//! | key, value | variant | type |
//! |---|---|---|
//! | 32, 32 bits | `hinted8_64_2x4_u32_u32` | [`DefaultTable`] |
//! | others | `double_64_2x2_u64_u64`, `.._u32_u64`, `.._u64_u32` | [`DefaultWide<K, V>`](DefaultWide) |
//! | others, before sm_90 | `published_64_2x2_u64_u64`, `.._u32_u64`, `.._u64_u32` | [`DefaultPublished<K, V>`](DefaultPublished) |
//!
//! [`NAMES`] has the names of all.
mod instances;
mod map;
mod probe;

#[doc(no_inline)]
pub use crate::keyed::*;
pub use instances::*;
pub use map::{ANNEX, Config, MapView, Table, Visitor};
pub use probe::{Cursor, DoubleHash, Hinted, LONG, Probe, TwoChoice};

/// The kind of table that a map of 32-bit keys and values gets unless it is told otherwise.
pub type DefaultTable = Table<Packed, Hinted<8>, 2, 4>;

/// The kind that a map of other keys and values gets, on devices that swap 16 bytes at once.
pub type DefaultWide<K, V> = Table<Wide<K, V>, DoubleHash, 2, 2>;

/// The kind that a map of other keys and values gets on older devices.
pub type DefaultPublished<K, V> = Table<Published<K, V>, DoubleHash, 2, 2>;
