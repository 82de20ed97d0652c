//! The host runtime: devices, streams, events, buffers and typed launches, on CUDA and on the emulator.
//!
//! | word | meaning |
//! |---|---|
//! | [`Device`] | a CUDA device, or an emulated one |
//! | [`Buffer`], [`Tier`] | typed memory that kernels see, and where it lies |
//! | [`Stream`], [`Event`] | launches in order, and points in that order |
//! | [`Grid`], [`Kernel`] | how many threads run a kernel, and the kernel with its arguments |
//! | [`Program`] | a package's kernels as PTX, for CUDA devices |
//!
//! ```
//! use gpu::{Device, Grid};
//! # fn main() -> Result<(), gpu::Error> {
//! let device = Device::auto();
//! let mut numbers = device.from_slice(&[1u32, 2, 3])?;
//! numbers.fill_bytes(0)?;
//! assert_eq!(numbers.read()?, [0, 0, 0]);
//! # Ok(())
//! # }
//! ```
//!
//! # Back ends
//!
//! The feature `emulator`, which is on by default, has kernels run on the emulator. The feature `cuda` adds
//! CUDA devices, through `cust` and a `libcuda` that is bound on first use: the same binary runs with and
//! without a driver, and [`Device::auto`] decides. Nothing outside the folder `cuda` names `cust`. On a
//! machine without a CUDA toolkit `cust` has to be told where to look, or it does not build: a line in
//! `.cargo/config.toml` does (see the crate `cuda-late`).
//!
//! # Concurrency
//!
//! Devices, streams, events and buffers may be shared and sent between threads; each call makes the device's
//! primary context current in its thread. What is asked of one stream happens in order. The methods that name
//! no stream wait for everything that was asked of the device before, on any stream, and are done when they
//! return.

mod buffer;
mod device;
mod emulator;
mod error;
mod event;
mod launch;
mod machine;
mod memory;
mod program;
pub mod ptx;
mod stream;
mod tier;

#[cfg(feature = "cuda")]
mod cuda;

pub use buffer::Buffer;
pub use device::{DEVICE_VARIABLE, Device};
pub use error::{Error, Result};
pub use event::Event;
pub use launch::{Grid, LaunchName};
pub use program::Program;
pub use simt::Kernel;
pub use stream::Stream;
pub use tier::Tier;
