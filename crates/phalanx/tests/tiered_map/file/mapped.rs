//! Suites with shards in a mapped file.
#[path = "../../tiered/faults.rs"]
mod faults;
#[path = "../../tiered/streams.rs"]
mod streams;

/// The maps of [`crate::model`] in a file.
mod model {
    pub use crate::model::*;
    use gpu::Device;
    use phalanx::tiered_map::{Builder, Storage};
    use phalanx::{Key, TieredMap, Value};

    pub fn small<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
        crate::model::small(device).storage(Storage::File(path()))
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
            TieredMap::builder().device(device).storage(Storage::File(path())),
            capacity,
        )
    }
}
