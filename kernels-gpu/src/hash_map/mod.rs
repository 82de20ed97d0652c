//! Open addressing over buckets that a tile reads at once: the device side of `phalanx::HashMap`. The
//! repository's page `docs/structures/hashmap.md` describes layout, proof and costs.
//!
//! In a custom kernel, take a [`MapView`] and open a [`Session`] on it. The type of the view is the map's
//! kind of table, whose name `phalanx::HashMap::variant` returns. The types of the default kinds are:
//! | key, value | variant | type |
//! |---|---|---|
//! | 32, 32 bits | `hinted8_64_2x4_u32_u32` | [`DefaultTable`] |
//! | others | `double_64_2x2_u64_u64`, `.._u32_u64`, `.._u64_u32` | [`DefaultWide<K, V>`](DefaultWide) |
//! | others, before sm_90 | `published_64_2x2_u64_u64`, `.._u32_u64`, `.._u64_u32` | [`DefaultPublished<K, V>`](DefaultPublished) |
//!
//! [`NAMES`] lists the names of all kinds.
//!
//! # Cost
//!
//! [`MapView::share`] reads, per operation, 1.1 buckets of 64 bytes on average at load 0.8 and 1.4 at load
//! 0.95 (default kinds for pairs of 32 bits), each by one or two loads of 16 bytes per lane; two ballots per
//! bucket; a filter word for each full bucket that it passes. An insertion adds a compare-and-swap, and an
//! atomic on the filter of each bucket that it finds full. Methods of [`Cursor`] and [`Probe`] are arithmetic
//! in registers: a multiplication, and a mixing when the step is first needed.
mod instances;
mod probe_loop;
mod probing_scheme;
mod table;

#[doc(no_inline)]
pub use crate::keyed::*;
pub use instances::*;
pub use probing_scheme::{Cursor, DoubleHash, Hinted, LONG, OVERFLOW_BUCKETS, Probe, TwoChoice};
pub use table::{Config, MapView, Table, Visitor};

/// The default kind of table for 32-bit keys and values.
pub type DefaultTable = Table<Packed, Hinted<8>, 2, 4>;

/// The default kind for other keys and values, on devices with a 16-byte compare-and-swap.
pub type DefaultWide<K, V> = Table<Wide<K, V>, DoubleHash, 2, 2>;

/// The default kind for other keys and values on older devices.
pub type DefaultPublished<K, V> = Table<Published<K, V>, DoubleHash, 2, 2>;
