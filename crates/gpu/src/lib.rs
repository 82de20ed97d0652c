//! The host runtime: devices, streams, events, buffers and typed launches, on CUDA and on the emulator.
//!
//! | word | meaning |
//! |---|---|
//! | [`Device`] | a CUDA device, or an emulated one |
//! | [`Buffer`], [`Tier`] | typed memory that kernels can access, and its location |
//! | [`Slice`], [`SliceMut`] | borrowed parts of buffers |
//! | [`Staging`], [`Layout`] | memory kept for calls on slices of the host |
//! | [`Stream`], [`Event`] | launches in order, and points in that order |
//! | [`Grid`], [`Kernel`] | the number of threads that run a kernel, and the kernel with its arguments |
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
//! The feature `emulator`, enabled by default, lets kernels run on the emulator. The feature `cuda` adds CUDA
//! devices, through `cust` and a `libcuda` that is bound on first use: the same binary runs with and without
//! a driver, and [`Device::auto`] chooses the device. Nothing outside the folder `cuda` uses `cust`. On a
//! machine without a CUDA toolkit, `cust` only builds if it is told where to look; a line in
//! `.cargo/config.toml` does this (see the crate `cuda-late`).
//!
//! # Concurrency
//!
//! Devices, streams, events and buffers may be shared and sent between threads; each call makes the device's
//! primary context current in its thread. Work submitted to one stream executes in order. Methods without a
//! stream wait for all work submitted to the device before, on any stream, and have completed when they
//! return.
//!
//! # Cost
//!
//! Types and modules have a section on the cost of their calls. A call that returns no `Result` neither
//! launches nor waits: it reads or sets O(1) words on the host, unless it states more. On the emulator,
//! copies and launches have completed when the call returns.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod buffer;
mod copies;
mod device;
#[cfg(feature = "emulator")]
mod emulated;
mod error;
mod event;
mod host;
mod interop;
mod launch;
mod machine;
mod memory;
mod name;
mod peer;
mod pinned;
mod program;
pub mod ptx;
mod slice;
mod stages;
mod staging;
mod stream;
mod submissions;
mod tier;

#[cfg(feature = "cuda")]
mod cuda;

pub use buffer::Buffer;
pub use copies::{CopyLog, CopyTime, CopyTimes};
pub use device::{DEVICE_VARIABLE, Device};
pub use error::{Error, Result};
pub use event::Event;
pub use host::host_memory;
pub use machine::Work;
pub use name::LaunchName;
pub use program::Program;
pub use simt::{Grid, Kernel, emulator};
pub use slice::{AsBounded, AsSlice, AsSliceMut, Bounded, Count, OptionalSliceMut, Slice, SliceMut};
pub use staging::{Column, Layout, Reach, Staging};
pub use stream::Stream;
pub use tier::Tier;
