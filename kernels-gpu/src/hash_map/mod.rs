//! Open addressing over buckets that a tile reads at once: the device side of `phalanx::HashMap`. The
//! repository's page `docs/structures/hashmap.md` describes layout, proof and costs.
//!
//! In a custom kernel, take a [`MapView`] and open a [`Session`] on it. The type of the view is the map's
//! kind of table, whose name `phalanx::HashMap::variant` returns. The types of the default kinds are:
//! | key, value | variant | type |
//! |---|---|---|
//! | 32, 32 bits | `hinted8_64_2x4_u32_u32` | [`DefaultTable`] |
//! | others | `double_64_2x2_u64_u64`, `.._u32_u64`, `.._u64_u32` | [`DefaultWide<K, V>`](DefaultWide) |
//! | others, before sm_90 | `published_double_64_2x2_u64_u64`, `.._u32_u64`, `.._u64_u32` | [`DefaultPublished<K, V>`](DefaultPublished) |
//!
//! [`NAMES`] lists the names of all kinds.
mod instances;
mod probe_loop;
mod probing_scheme;
mod table;

#[doc(no_inline)]
pub use crate::keyed::*;
pub use instances::*;
pub use probing_scheme::{Cursor, DoubleHash, Hinted, LONG, OVERFLOW_BUCKETS, Probe, TwoChoice};
pub use table::{Config, MapView, Table};

/// The default kind of table for 32-bit keys and values.
pub type DefaultTable = Table<Packed, Hinted<8>, 2, 4>;

/// The default kind for other keys and values, on devices with a 16-byte compare-and-swap.
pub type DefaultWide<K, V> = Table<Wide<K, V>, DoubleHash, 2, 2>;

/// The default kind for other keys and values on older devices.
pub type DefaultPublished<K, V> = Table<Published<K, V>, DoubleHash, 2, 2>;
