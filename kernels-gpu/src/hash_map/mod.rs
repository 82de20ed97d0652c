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
//!
//! A probing scheme of your own is a type, and a line in your list of instances:
//!
//! ```
//! use phalanx_kernels::hash_map::{Config, Cursor, Hashed, Packed, Probe, Table, hash};
//!
//! /// Linear probing.
//! #[derive(Clone, Copy)]
//! struct Linear;
//!
//! // SAFETY: the next bucket, or the first one, is a bucket of the table.
//! unsafe impl Probe for Linear {
//!     const NAME: &'static str = "linear";
//!     const FILTER_BITS: u32 = 0;
//!     const EXTRA_PROBES: u32 = 0;
//!
//!     fn advance(cursor: &mut Cursor, _hash: Hashed, buckets: u32) {
//!         cursor.bucket = (cursor.bucket + 1) % buckets;
//!     }
//! }
//!
//! let (hashed, buckets) = (hash(7u32, 0), 5);
//! let mut cursor = Cursor::start(hashed, buckets, 3);
//! let first = cursor.bucket;
//! cursor.advance::<Linear>(hashed, buckets);
//! assert_eq!((cursor.bucket, cursor.left), ((first + 1) % buckets, 2));
//! assert_eq!((cursor.pack() & Cursor::BUCKET, cursor.pack() & Cursor::LAST), (cursor.bucket, 0));
//! assert!(!cursor.is_long(buckets, 3) && Linear::quota(cursor, 8) == 8);
//! assert_eq!(Cursor::overflow(buckets).bucket, buckets); // behind the table
//! assert_eq!(Table::<Packed, Linear, 2, 4>::filter_words(buckets), 0);
//! ```
//!
//! A kernel that does not count its changes may use the view without a session:
//!
//! ```
//! use phalanx_kernels::hash_map::{DefaultTable, Get, MapView, Outcome};
//! use simt::Tile;
//!
//! /// Looks up a key in a table of `buckets` buckets, by a tile of two lanes.
//! ///
//! /// # Safety
//! /// - As for `MapView::new`.
//! unsafe fn look_up(memory: [*mut u64; 2], filters: *mut u32, buckets: u32, key: u32) -> Option<u32> {
//!     let [table, counters] = memory;
//!     // SAFETY: the caller's obligation.
//!     let map = unsafe { MapView::<DefaultTable>::new(table, filters, counters, buckets, 64) }.with_seed(0);
//!     assert!(map.slot_count() > 8 * map.bucket_count() as usize);
//!     let (outcome, value) = map.share(Tile::<2>::lockstep(), true, Get, key, 0);
//!     (outcome == Outcome::Found).then_some(value)
//! }
//! ```
//!
//! # Cost
//!
//! [`MapView::share`] reads, per operation, 1.1 buckets of 64 bytes on average at load 0.8 and 1.4 at load
//! 0.95 (default kinds for pairs of 32 bits), each by one or two loads of 16 bytes per lane; two ballots per
//! bucket; a filter word for each full bucket that it passes. An insertion adds a compare-and-swap, and an
//! atomic on the filter of each bucket that it finds full. Methods of [`Cursor`] and [`Probe`] are arithmetic
//! in registers: a multiplication, and a mixing when the step is first needed.
#[cfg(feature = "hash-map")]
mod instances;
mod probe_loop;
mod probing_scheme;
mod table;

#[doc(no_inline)]
pub use crate::keyed::*;
#[cfg(feature = "hash-map")]
pub use instances::*;
pub use probing_scheme::{Cursor, DoubleHash, Hinted, LONG, OVERFLOW_BUCKETS, Phased, Probe, TwoChoice};
pub use table::{Config, MapView, ReadOnly, Table};

/// The default kind of table for 32-bit keys and values.
pub type DefaultTable = Table<Packed, Hinted<8>, 2, 4>;

/// The default kind for other keys and values, on devices with a 16-byte compare-and-swap.
pub type DefaultWide<K, V> = Table<Wide<K, V>, DoubleHash, 2, 2>;

/// The default kind for other keys and values on older devices.
pub type DefaultPublished<K, V> = Table<Published<K, V>, DoubleHash, 2, 2>;
