//! Builds a device crate to PTX with rustc's own `nvptx64-nvidia-cuda` target, and checks PTX with `ptxas`.
//!
//! ```no_run
//! use ptx_builder::{Arch, PtxBuilder};
//!
//! let ptx = PtxBuilder::new("../kernels-gpu").arch(Arch::Sm90).build()?;
//! println!("{} entries from {}", ptx.entries().count(), ptx.header().compiler);
//! # Ok::<(), ptx_builder::Error>(())
//! ```
//!
//! The interface resembles that of Rust-CUDA's `cuda_builder`; the compiler is an ordinary rustc, found by
//! [`Toolchain::discover`]. Its output carries a [`Header`] with the hash of the [`Sources`]. Therefore a
//! second build of the same sources runs no compiler, and shipped PTX can be verified to be fresh.
//!
//! # From a build script
//!
//! ```no_run
//! # fn main() -> Result<(), ptx_builder::Error> {
//! ptx_builder::PtxBuilder::new("../kernels-gpu").emit_rerun(true).build()?;
//! # Ok(())
//! # }
//! ```
//!
//! The device build does not see the variables that an outer cargo leaks into its children (`RUSTFLAGS`,
//! `RUSTC_WRAPPER`, `RUSTUP_TOOLCHAIN`, `CARGO_*`). It uses a separate target folder and a separate cargo
//! process, so neither waits for the other.

mod arch;
mod builder;
mod error;
mod header;
mod machine_code;
mod manifest;
mod packed;
mod ptx;
mod ptxas;
mod sources;
mod toolchain;

pub use arch::Arch;
pub use builder::PtxBuilder;
pub use error::Error;
pub use header::Header;
pub use machine_code::MachineCode;
pub use manifest::{pinned_channel, workspace_root};
pub use ptx::Ptx;
pub use ptxas::{EntryReport, Ptxas, PtxasReport};
pub use sources::Sources;
pub use toolchain::{Origin, Search, Toolchain};

/// Result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;
