//! Memory of the emulated device.
//!
//! Global memory is host memory. [`registry`] holds the live buffers, [`check`] checks each access against
//! them, and [`global`] performs the access by the host atomics in [`atomics`]. [`shared`] accesses the
//! memory of blocks, whose [`arrays`] are declared by kernels.
pub mod access;
pub mod arrays;
pub mod atomics;
pub mod check;
pub mod global;
pub mod ranges;
pub mod registry;
pub mod shared;
