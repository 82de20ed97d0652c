//! Suites with shards in a file that kernels cannot access.
#[path = "../batches.rs"]
mod batches;
#[path = "../../tiered/faults.rs"]
mod faults;
#[path = "../growth.rs"]
mod growth;
#[path = "../../tiered/streams.rs"]
mod streams;
#[path = "../../tiered/types.rs"]
mod types;

/// The maps of [`crate::model`] in a file.
mod model {
    pub use crate::model::*;
    use gpu::Device;
    use phalanx::tiered_map::{Builder, Storage};
    use phalanx::{Key, TieredMap, Value};

    /// The policies of maps that use the file.
    pub const PLACEMENTS: [Placement; 3] =
        [Placement::ByCost, Placement::AlwaysCopy, Placement::AlwaysInPlace];

    pub fn small<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
        crate::model::small(device).storage(Storage::StagedFile(path()))
    }

    pub fn divided<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
        small(device).shards(4)
    }

    pub fn growing<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
        divided(device).capacity(200)
    }

    pub const OUTGROWING: Option<New> = Some(outgrowing);

    /// A resident map has no file.
    pub const CHURNED: Option<New> = None;

    pub fn outgrowing<K: Key, V: Value>(device: &Device, capacity: usize) -> TieredMap<K, V> {
        crate::model::outgrowing_of(
            TieredMap::builder().device(device).storage(Storage::StagedFile(path())),
            capacity,
        )
    }
}
