//! libcuda bound on first use, so that one binary runs with and without a driver.
//!
//! `cust` calls the functions of the CUDA driver (`cuInit`, ...) as plain external symbols and links
//! `-lcuda`: such a program does not even start where no driver is installed. This crate defines those
//! symbols itself. Each is two instructions, a load from a table and a jump; the first call of any fills the
//! table from `libcuda.so.1`.
//!
//! * Where there is no driver, every function returns `CUDA_ERROR_NO_DEVICE` (100).
//! * Where the driver is too old to have a function, that function returns `CUDA_ERROR_NOT_SUPPORTED` (801).
//! * [`PATH_VARIABLE`] names another library to load, and then only that one is tried.
//! * [`library`] says what was found, and why nothing was.
//!
//! The symbols are hidden: they bind the calls of the binary they are linked into and are never exported from
//! it, so that the real driver, once loaded, cannot run into them.
//!
//! # Linking
//!
//! `-lcuda` is satisfied by `stub/lib64/libcuda.so`, a linker script that links nothing; this crate's build
//! script puts its folder on the search path of every program that depends on it. One thing remains: the
//! build script of `cust` panics unless it finds a folder that looks like a CUDA installation. Where there is
//! no toolkit, set `CUDA_LIBRARY_PATH` to any folder that has a subfolder `lib64`, in the environment or in
//! `.cargo/config.toml`:
//!
//! ```toml
//! [env]
//! CUDA_LIBRARY_PATH = "/usr"
//! ```
//!
//! # Concurrency
//!
//! The first calls may come from any number of threads: one fills the table, the others wait for it.
#![cfg(target_os = "linux")]

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("cuda-late knows how to forward calls on x86_64 and aarch64 only");

mod functions;
mod library;
mod trampoline;

pub use library::{Library, NotFound, PATH_VARIABLE, library};

/// `CUDA_ERROR_NO_DEVICE`: what every function returns where there is no driver.
pub const NO_DEVICE: u32 = 100;

/// `CUDA_ERROR_NOT_SUPPORTED`: what a function returns that the driver lacks.
pub const NOT_SUPPORTED: u32 = 801;
