//! Suites with shards in a mapped file.
#[path = "../../tiered/faults.rs"]
mod faults;
#[path = "in_file.rs"]
mod model;
#[path = "../../tiered/streams.rs"]
mod streams;

use phalanx::tiered_map::Storage;
use std::path::PathBuf;

/// The kind of file.
const STORAGE: fn(PathBuf) -> Storage = Storage::File;
