//! Variants in a package of its own: a hash map with another probing scheme, and a cache table with another
//! score policy, each with a line for its kernels. The tests and the benchmark program of the map have a line
//! each.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

mod decaying;
mod linear;

pub use decaying::Decaying;
pub use linear::Linear;
use phalanx_kernels::cache::Cache;
use phalanx_kernels::hash_map::{Packed, Table};

/// A table that the library does not compile.
pub type LinearTable = Table<Packed, Linear<3>, 2, 4>;

phalanx_kernels::table_instances! { types { linear3_64_2x4_u32_u32: LinearTable } }

/// A cache table that the library does not compile.
pub type DecayingCache = Cache<u64, u64, Decaying, 4, 8>;

/// The kernels of [`DecayingCache`].
pub mod cache {
    use super::DecayingCache;

    phalanx_kernels::cache_instances! { types { decaying_4x8_u64_u64: DecayingCache } }
}
