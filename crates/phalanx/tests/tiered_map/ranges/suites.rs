//! Suites with a range of keys for each shard.
#[path = "../../tiered/faults.rs"]
mod faults;
#[path = "../../tiered/streams.rs"]
mod streams;

/// The maps of [`crate::model`], divided by ranges.
mod model {
    pub use crate::model::*;
    use gpu::Device;
    use phalanx::tiered_map::{Builder, Partition};
    use phalanx::{Key, TieredMap, Value};

    /// Returns a builder of a map with so many ranges of the keys below 2000.
    fn ranged<K: Key + From<u16>, V: Value>(device: &Device, ranges: u64) -> Builder<K, V> {
        let (keys, each) = (K::from(0)..=K::from(1999), 2000 / ranges);
        let builder = TieredMap::builder().device(device).capacity(800).costs(cheap_copies());
        builder.partition(Partition::ByRange { keys, each })
    }

    pub fn small<K: Key + From<u16>, V: Value>(device: &Device) -> Builder<K, V> {
        ranged(device, 8)
    }

    pub fn divided<K: Key + From<u16>, V: Value>(device: &Device) -> Builder<K, V> {
        ranged(device, 4)
    }

    pub fn growing<K: Key + From<u16>, V: Value>(device: &Device) -> Builder<K, V> {
        ranged(device, 8).capacity(200)
    }

    pub const OUTGROWING: Option<New> = None;
}
