//! All device code of Phalanx: memory layouts, operations, views and kernel entry points. Each family of
//! structures is a module.
//!
//! The same source runs on a GPU (compiled to PTX) and on the emulator (compiled for the host). Kernel
//! authors depend on this package and call the structures' views from their own kernels; [`hash_map`]
//! shows how.
//!
//! # Features
//!
//! A family's module is always there, for kernels of one's own. The features `hash-map`, `slab-alloc`,
//! `slab-hash`, `btree`, `mvbtree`, `skip-list`, `primitives`, `cache-table` and `tiered-map` (all on by
//! default), `persistent-map`, `dynamic-graph` and `sharded-map` (off) add its list of compiled kernels for
//! the default types; `variants` adds the types of the papers' experiments to these lists, and `baselines`
//! the kernels of the benchmarks' baselines and limits.
//!
//! # Cost
//!
//! Modules and types state the accesses to memory of their functions: reads of 16 bytes per lane, atomics,
//! fences and collectives. A host function or accessor that states none is arithmetic on its arguments, O(1),
//! without access to memory.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

#[cfg(feature = "baselines")]
pub mod baseline;
pub mod btree;
pub mod cache;
pub mod graph;
pub mod hash_map;
pub mod keyed;
#[cfg(feature = "baselines")]
pub mod litmus;
pub mod mvbtree;
pub mod ordered;
pub mod persistent;
pub mod primitives;
pub mod reclaim;
#[cfg(feature = "baselines")]
pub mod roofline;
pub mod sharded;
pub mod skiplist;
pub mod slab;
pub mod tiered;
