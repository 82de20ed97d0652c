//! Persistent maps on the emulator: all verbs against `std`'s map, growth, and what a file has after a sync,
//! a drop, the death of a process, and a copy of the file.
#![cfg(feature = "persistent-map")]
mod bad_input;
mod cache;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod fuzz;
mod growth;
mod growth_failures;
mod kill;
mod model;
mod sync;

use phalanx::Device;

/// A folder for the files of a test, which is removed at its end.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for temporary files")
}

fn device() -> Device {
    Device::from_environment().expect("a device")
}
