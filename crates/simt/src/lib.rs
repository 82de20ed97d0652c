//! Primitives for device code: thread and tile ids, collectives, ordered memory operations, and the
//! work-sharing loop.
//!
//! A kernel is written once against this crate and runs on two back ends. Compiled for `nvptx64`, it becomes
//! PTX for an NVIDIA GPU. Compiled for the host, it runs on an emulator of the same execution model
//! ([`emulator`]), whose lanes are coroutines and whose schedules can be explored and replayed. Nothing else
//! in the project contains `asm!`, an intrinsic or an atomic of `core`.
//!
//! | word | meaning |
//! |---|---|
//! | [`Thread`] | the calling thread: its index in the block, the grid and the warp |
//! | [`Tile`] | 1 to 32 neighbouring lanes that execute an operation together, and their collectives |
//! | [`share_work`] | lets a tile execute the operation of each of its lanes, one after the other |
//! | [`Global`], [`GlobalSlice`] | pointers to global memory whose accesses name an [`Order`] and a [`Scope`] |
//! | [`heap_allocate`], [`heap_free`] | the driver's own allocator in kernels |
//! | [`poison`], [`unpoison`] | tell the emulator which memory kernels have freed |
//! | [`fence`], [`fence_sc`], [`Block::sync`] | fences and barriers |
//! | [`shared!`], [`Shared`], [`SharedShape`] | shared memory of a block |
//! | [`Kernel`], [`kernel`], [`instances!`] | entry points and their typed launches |
//! | [`Instance`], [`Name`] | the types that generic kernels are compiled for, and their names |
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(asm_experimental_arch, link_llvm_intrinsics, stdarch_nvptx),
    allow(internal_features)
)]

#[cfg_attr(target_arch = "nvptx64", path = "nvptx/mod.rs")]
#[cfg_attr(not(target_arch = "nvptx64"), path = "emulator/mod.rs")]
mod backend;

mod block;
#[cfg(not(target_arch = "nvptx64"))]
mod grid;
pub mod hash;
mod kernel;
mod memory;
mod name;
mod thread;
mod tile;
mod work_sharing;

pub use block::{Block, Shared, SharedShape};
#[cfg(not(target_arch = "nvptx64"))]
pub use grid::Grid;
pub use kernel::{Instance, Kernel};
pub use memory::{
    Global, GlobalSlice, Order, Scope, Word, fence, fence_sc, heap_allocate, heap_free, poison, unpoison,
};
pub use name::Name;
pub use simt_macros::{device, instances, kernel};
pub use thread::{Thread, black_box, clock, fault, pause, spin_hint, timer, trap};
pub use tile::{Convergence, Independent, Lockstep, Shuffle, Tile};
pub use work_sharing::{CurrentOp, Queue, share_work};

#[cfg(not(target_arch = "nvptx64"))]
pub use backend::public as emulator;

#[doc(hidden)]
pub mod private {
    //! Items that the macros of this crate expand to. Not for direct use.
    #[cfg(target_arch = "nvptx64")]
    pub use crate::backend::follow;
    pub use crate::backend::{SharedAddress, shared_site};
    #[cfg(not(target_arch = "nvptx64"))]
    pub use crate::kernel::symbol_of;
    pub use crate::name::is_name;
}
