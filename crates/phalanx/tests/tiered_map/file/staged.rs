//! Suites with shards in a file that kernels cannot access.
#[path = "../batches.rs"]
mod batches;
#[path = "../../tiered/faults.rs"]
mod faults;
#[path = "../growth.rs"]
mod growth;
#[path = "in_file.rs"]
mod in_file;
#[path = "../../tiered/streams.rs"]
mod streams;
#[path = "../../tiered/types.rs"]
mod types;

use phalanx::tiered_map::Storage;
use std::path::PathBuf;

/// The kind of file.
const STORAGE: fn(PathBuf) -> Storage = Storage::StagedFile;

/// The maps in such files.
mod model {
    pub use super::in_file::*;

    /// The policies of maps that use the file.
    pub const PLACEMENTS: [Placement; 3] =
        [Placement::ByCost, Placement::AlwaysCopy, Placement::AlwaysInPlace];
}
