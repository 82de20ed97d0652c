//! A variant of the hash map in a package of its own: a probing scheme, and a line for its kernels. The tests
//! and the benchmark program have a line each.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

mod linear;

pub use linear::Linear;
use phalanx_kernels::hash_map::{Packed, Table};

/// A table that the library does not compile.
pub type LinearTable = Table<Packed, Linear<3>, 2, 4>;

phalanx_kernels::table_instances! { types { linear3_64_2x4_u32_u32: LinearTable } }
