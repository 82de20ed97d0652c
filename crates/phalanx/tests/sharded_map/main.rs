//! Sharded maps against a model. Without a GPU, ranks have emulated devices. With `PHALANX_DEVICE=cuda` they
//! have all CUDA devices of the machine, and NCCL takes part where it is installed.
#![cfg(feature = "sharded-map")]

mod arguments;
mod columns;
mod direct;
mod failures;
mod faults;
mod model;
#[cfg(feature = "mvbtree")]
mod mvbtree;
mod owned;
mod ranks;
mod scripts;
mod shards;
#[cfg(feature = "slab-hash")]
mod slab;
mod small;
mod whole;
