//! Memory of the emulated device.
//!
//! Global memory is host memory. [`registry`] holds the live buffers, [`access`] checks each access against
//! them, and [`global`] performs the access by the host atomics in [`atomics`]. [`shared`] is the memory of
//! blocks.
pub mod access;
pub mod atomics;
pub mod global;
pub mod registry;
pub mod shared;
