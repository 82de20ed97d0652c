//! Routing of a batch to the shards of a structure that is larger than the device memory it may use: the
//! device side of `phalanx::TieredMap`. The repository's page `docs/structures/tiered-map.md` describes
//! layout, algorithm and costs.
//!
//! A shard is a table of a [hash map](crate::hash_map), and the kernels of hash maps execute the operations.
//! The kernels here bring the elements of a batch into the order of the shards, and the results back.
//!
//! ```text
//! keys      k0  k1  k2  k3  k4       in the order of the batch
//! routes    shard of the key in the high bits, position of its first bucket in the low bits
//! order     k3  k0  k4  k1  k2       sorted by route: each shard's elements are together
//! bounds    0       2   2       5    first element of each shard
//! ```
//!
//! # Cost
//!
//! Each kernel reads and writes each element once; [`kernels::tiered_gather`] reads and
//! [`kernels::tiered_scatter`] writes at random addresses. [`kernels::tiered_fold`] reads 8 KiB. For the
//! cache of hot pairs see [`hot::kernels`], for elements of several chunks [`parts`], for small batches
//! [`scattered`].
pub mod hot;
#[cfg(feature = "tiered-map")]
mod instances;
pub mod kernels;
pub mod parts;
mod route;
pub mod scattered;

#[cfg(feature = "tiered-map")]
pub use instances::*;
pub use parts::part_word;
pub use route::{MOST_BITS, Route, Routed, route, route_in_range, shard_of};
