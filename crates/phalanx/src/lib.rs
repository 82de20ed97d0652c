//! Concurrent data structures that live on a GPU.
//!
//! The kernels are written in Rust. They are compiled to PTX for NVIDIA GPUs (feature `cuda`) and for an
//! emulator that needs no GPU. One program runs on both: [`Device::auto`] selects a GPU if there is one.
//!
//! ```
//! use phalanx::HashMap;
//!
//! let map = HashMap::<u32, u32>::with_capacity(1000)?;
//! assert!(map.insert(&[1, 2, 3], &[10, 20, 30])?.all_placed());
//! assert_eq!(map.get(&[2, 4])?, [Some(20), None]);
//! # Ok::<(), phalanx::Error>(())
//! ```
//!
//! Every structure has batch calls on host slices, which block, and on device buffers with a stream, which do
//! not block. Calls that may run concurrently take `&self`. For kernel authors, [`kernels`], the package
//! `phalanx-kernels`, has device-side functions of the same names. A crate of kernels depends on that package
//! alone and not on this one, which runs only on the host.
//!
//! # Cost
//!
//! Types and modules have a section on the cost of their calls: kernel launches, waits for the device, copies
//! between host and device, and allocations of device memory. The pages in `docs/structures` state the memory
//! accesses of each operation and measured rates. A call that returns no `Result` neither launches a kernel
//! nor waits for the device: it reads or sets O(1) words on the host, unless it states more. It may wait for
//! another thread that replaces the structure's memory.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(all(
        feature = "hash-map",
        feature = "slab-hash",
        feature = "btree",
        feature = "mvbtree",
        feature = "skip-list",
        feature = "tiered-map",
        feature = "tiered-skip-list"
    )),
    allow(dead_code, unused_imports, unused_macros, reason = "families share code, and some are left out")
)]

#[cfg(feature = "btree")]
pub mod btree;
#[cfg(feature = "cache-table")]
pub mod cache_table;
mod error;
#[cfg(feature = "dynamic-graph")]
pub mod graph;
#[cfg(feature = "hash-map")]
pub mod hash_map;
pub mod map;
mod methods;
#[cfg(feature = "mvbtree")]
pub mod mvbtree;
mod number;
#[cfg(feature = "_ordered")]
pub(crate) mod ordered;
#[cfg(feature = "persistent-map")]
pub mod persistent_map;
#[cfg(feature = "primitives")]
pub mod primitives;
mod program;
#[cfg(feature = "serde")]
mod serialization;
#[cfg(feature = "sharded-map")]
pub mod sharded_map;
#[cfg(feature = "skip-list")]
pub mod skiplist;
#[cfg(feature = "_slab-alloc")]
pub mod slab_alloc;
#[cfg(feature = "slab-hash")]
pub mod slab_hash;
mod std_traits;
#[cfg(feature = "tiered-map")]
pub mod tiered_map;
#[cfg(feature = "tiered-skip-list")]
pub mod tiered_skip_list;

#[cfg(feature = "btree")]
pub use btree::BTree;
#[cfg(feature = "cache-table")]
pub use cache_table::CacheTable;
pub use error::{Error, Result};
#[cfg(feature = "sharded-map")]
pub use exchange;
pub use gpu::{self, Device, emulator};
#[cfg(feature = "dynamic-graph")]
pub use graph::DynamicGraph;
#[cfg(feature = "hash-map")]
pub use hash_map::HashMap;
pub use map::{Key, Map, Merge, OldValues, Op, Outcome, Outcomes, Value};
#[cfg(feature = "mvbtree")]
pub use mvbtree::MultiVersionBTree;
#[cfg(feature = "persistent-map")]
pub use persistent_map::PersistentMap;
pub use phalanx_kernels as kernels;
pub use phalanx_macros::{Key, Value};
pub use program::register_kernels;
#[cfg(feature = "sharded-map")]
pub use sharded_map::ShardedMap;
#[cfg(feature = "skip-list")]
pub use skiplist::SkipList;
#[cfg(feature = "_slab-alloc")]
pub use slab_alloc::SlabAlloc;
#[cfg(feature = "slab-hash")]
pub use slab_hash::{SlabHash, SlabMultiMap, SlabSet};
#[cfg(feature = "tiered-map")]
pub use tiered_map::TieredMap;
#[cfg(feature = "tiered-skip-list")]
pub use tiered_skip_list::TieredSkipList;

#[doc(hidden)]
pub mod private {
    //! Items for this package's own tests and benchmarks, hidden from users. Those for tests are exported
    //! because tests inside the library that build structures would compile all their kernels again.
    pub use crate::map::export::{by, of_count, on_device};
    pub use crate::map::host::with_chunks;
    #[cfg(feature = "mvbtree")]
    pub use crate::mvbtree::clock::begin_at;
    #[cfg(feature = "sharded-map")]
    pub use crate::sharded_map::partition::Partition;
}

// Compiles and runs the examples of the pages.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/batches.md")]
#[doc = include_str!("../../../docs/structures/btree.md")]
#[doc = include_str!("../../../docs/structures/cache-table.md")]
#[doc = include_str!("../../../docs/structures/hashmap.md")]
#[doc = include_str!("../../../docs/structures/multiversion-b-tree.md")]
#[doc = include_str!("../../../docs/structures/primitives.md")]
#[doc = include_str!("../../../docs/structures/reclaim.md")]
#[doc = include_str!("../../../docs/structures/skip-list.md")]
#[doc = include_str!("../../../docs/structures/slab-alloc.md")]
#[doc = include_str!("../../../docs/structures/slab-hash.md")]
#[doc = include_str!("../../../docs/structures/tiered-map.md")]
#[doc = include_str!("../../../docs/structures/tiered-skip-list.md")]
struct Pages;

#[cfg(all(doctest, feature = "persistent-map"))]
#[doc = include_str!("../../../docs/structures/persistent-map.md")]
struct PersistentPage;

#[cfg(all(doctest, feature = "dynamic-graph"))]
#[doc = include_str!("../../../docs/structures/dynamic-graph.md")]
struct GraphPage;

#[cfg(all(doctest, feature = "sharded-map"))]
#[doc = include_str!("../../../docs/scale-out.md")]
struct ScaleOutPage;

// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
