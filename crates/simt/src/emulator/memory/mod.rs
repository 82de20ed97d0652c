//! Memory of the emulated device.
//!
//! Global memory is memory of the host: [`registry`] knows the live buffers, [`access`] checks each access
//! against them, [`global`] makes the access, by the atomics of the host in [`atomics`]. [`shared`] is the
//! memory of blocks.
pub mod access;
pub mod atomics;
pub mod global;
pub mod registry;
pub mod shared;
