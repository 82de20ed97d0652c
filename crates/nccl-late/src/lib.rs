//! Binds NCCL on first use, so that one binary runs with and without it.
//!
//! NCCL is NVIDIA's library for communication between GPUs, in one process, between processes and between
//! hosts. Programs that link it do not start where it is missing. This crate links nothing: [`library`] loads
//! `libnccl.so.2` when it is first called, and looks up every function that this crate has.
//!
//! * [`PATH_VARIABLE`] names another library to load; then only that one is tried.
//! * A library that is missing, older than [`OLDEST`], or without one of the functions is an [`Error`] that
//!   says which of these it is, and what to do.
//! * Building needs neither NCCL nor a CUDA toolkit.
//!
//! ```
//! match nccl_late::library() {
//!     Ok(nccl) => println!("NCCL {} from {}", nccl.version(), nccl.path()),
//!     Err(error) => println!("no NCCL: {error}"),
//! }
//! ```
//!
//! # The C interface
//!
//! | fact | consequence |
//! |---|---|
//! | Every function returns a status, an `int`; 0 is success and 7 "in progress" | [`Code`] |
//! | An id of 128 bytes names a communicator that is being made. It is passed by value | [`UniqueId`] |
//! | A communicator is an opaque pointer | [`Communicator`] |
//! | A communicator made by `ncclCommInitRank` is of mode *blocking*: a call returns when its work has been submitted, and waits for other ranks where NCCL needs them for this. In mode non-blocking, NCCL hands each group of calls to a new thread, which takes 150 µs | only mode blocking; a caller that must not hang has another thread call `ncclCommAbort`, which makes the call return |
//! | Calls between `ncclGroupStart` and `ncclGroupEnd` of a thread are submitted together, by the latter | sends and receives of one round cannot wait for each other |
//! | Work is submitted to a CUDA stream and reads the current CUDA device only when a communicator is made | `CUstream` handles are passed as pointers |
//!
//! # Concurrency
//!
//! Any number of threads may make the first call of [`library`]: one loads, the others wait for it. A
//! communicator must not be used by two threads at once, except for
//! [`abort`](Library::abort) and [`async_error`](Library::async_error).
//!
//! # Cost
//!
//! The first call of [`library`] loads a library of some hundred megabytes; later calls read a pointer. A
//! call of a function is one indirect call.
#![cfg(target_os = "linux")]

mod error;
mod functions;
mod library;
mod types;

pub use error::Error;
pub use library::{Library, PATH_VARIABLE, library};
pub use types::{Code, Communicator, DataType, OLDEST, UniqueId, Version};
