//! Binds libcuda on first use, so that one binary runs with and without a driver.
//!
//! `cust` calls the functions of the CUDA driver (`cuInit`, ...) as plain external symbols and links
//! `-lcuda`: such a program does not even start if no driver is installed. This crate defines those symbols
//! itself. Each is two instructions, a load from a table and a jump. The first call of any function fills the
//! table from `libcuda.so.1`.
//!
//! * Without a driver, every function returns `CUDA_ERROR_NO_DEVICE` (100).
//! * A function missing from an older driver returns `CUDA_ERROR_NOT_SUPPORTED` (801).
//! * [`PATH_VARIABLE`] names another library to load; then only that one is tried.
//! * [`library`] returns the library that was loaded, or the reasons why none was.
//!
//! The symbols are hidden: they bind the calls of the binary into which they are linked and are never
//! exported from it, so they cannot interpose on the real driver once it is loaded.
//!
//! # Linking
//!
//! `-lcuda` is resolved by `stub/lib64/libcuda.so`, a linker script that links nothing. This crate's build
//! script adds its folder to the search path of every program that depends on it. One problem remains: the
//! build script of `cust` panics unless it finds a folder that looks like a CUDA installation. Without a
//! toolkit, set `CUDA_LIBRARY_PATH` to any folder that has a subfolder `lib64`, in the environment or in
//! `.cargo/config.toml`:
//!
//! ```toml
//! [env]
//! CUDA_LIBRARY_PATH = "/usr"
//! ```
//!
//! # Concurrency
//!
//! Any number of threads may make the first calls: one fills the table, and the others wait for it.
#![cfg(target_os = "linux")]

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("cuda-late knows how to forward calls on x86_64 and aarch64 only");

mod functions;
mod library;
mod trampoline;

pub use library::{Library, NotFound, PATH_VARIABLE, library};

/// `CUDA_ERROR_NO_DEVICE`, returned by every function without a driver.
pub const NO_DEVICE: u32 = 100;

/// `CUDA_ERROR_NOT_SUPPORTED`, returned by a function that the driver lacks.
pub const NOT_SUPPORTED: u32 = 801;
