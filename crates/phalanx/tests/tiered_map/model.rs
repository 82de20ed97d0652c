//! Maps for tests, and the model that they are compared with.
pub use crate::common::*;
use gpu::Device;
pub use phalanx::TieredMap as Map;
use phalanx::tiered_map::Costs;
pub use phalanx::tiered_map::{Builder, Placement, Progress, Traffic};
use phalanx::{Key, TieredMap, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Returns a builder of a map of shards of about 1 KiB (for pairs of 8 bytes), which are copied from a few
/// operations on.
pub fn small<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
    TieredMap::builder().device(device).capacity(800).shards(8).costs(cheap_copies())
}

/// Costs by which a shard of some KiB is copied for a few operations.
pub fn cheap_copies() -> Costs {
    Costs { access_ns: 1.0, write_ratio: 1.0, copy_rate: 100.0, slot_ns: 0.0 }
}

/// Returns a path for the file of a map of this thread. The name of the last one is gone.
pub fn path() -> PathBuf {
    let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "-");
    std::env::temp_dir().join(format!("phalanx-shards-{}-{thread}", std::process::id()))
}

/// Returns a builder of a map of other shards than those of [`small`].
pub fn divided<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
    small(device).shards(4)
}

/// Returns a builder of a map for 200 pairs, whose shards grow with more.
pub fn growing<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
    divided(device).capacity(200)
}

/// Returns a map that is divided into shards when it outgrows its budget.
pub const OUTGROWING: Option<New> = Some(outgrowing);

/// Returns a map whose slots are mostly those of removed keys.
pub const CHURNED: Option<New> = Some(churned);

/// Returns the pairs of a map.
pub fn all_pairs<K: Key + Ord, V: Value>(map: &TieredMap<K, V>) -> BTreeMap<K, V> {
    let all: Vec<_> = map.iter().unwrap().collect();
    let pairs: BTreeMap<K, V> = all.iter().copied().collect();
    assert_eq!((pairs.len(), all.len()), (map.len(), map.len()), "each key once, and counted");
    pairs
}

/// Checks that a map has these pairs, by all ways to read it.
pub fn check<K: Key + Ord, V: Value + PartialEq>(
    map: &TieredMap<K, V>,
    model: &BTreeMap<K, V>,
    absent: &[K],
) {
    assert_eq!(all_pairs(map), *model);
    let keys: Vec<K> = model.keys().copied().chain(absent.iter().copied()).collect();
    let expected: Vec<Option<V>> = keys.iter().map(|key| model.get(key).copied()).collect();
    let is_there: Vec<bool> = expected.iter().map(Option::is_some).collect();
    assert_eq!(map.get(&keys).unwrap(), expected);
    assert_eq!(map.contains_key(&keys).unwrap(), is_there);
    assert!(map.peak_device_bytes() <= map.budget());
}

/// Returns an empty resident map for some pairs, which is divided into shards when it has ten times as many.
pub fn outgrowing<K: Key, V: Value>(device: &Device, capacity: usize) -> TieredMap<K, V> {
    outgrowing_of(TieredMap::builder().device(device), capacity)
}

/// Returns a map as [`outgrowing`] does, with the other parameters of a builder.
pub fn outgrowing_of<K: Key, V: Value>(builder: Builder<K, V>, capacity: usize) -> TieredMap<K, V> {
    let builder = builder.capacity(capacity);
    let [whole, divided] = [builder.clone(), builder.clone().shards(8)].map(|all| all.min_budget().unwrap());
    builder.budget(whole.max(divided)).build().unwrap()
}

/// Returns an empty resident map for some pairs. Four fifths of its slots are those of removed keys, and its
/// budget has room for neither a second table nor three shards.
pub fn churned(device: &Device, capacity: usize) -> TieredMap<u32, u32> {
    let map = least(TieredMap::builder().device(device).capacity(capacity));
    for first in (0..map.slots() as u32 * 4 / 5 - 100).step_by(100) {
        let keys: Vec<u32> = (first..first + 100).map(|key| key + 1_000_000).collect();
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        assert!(map.remove(&keys).unwrap().iter().all(|&is_removed| is_removed));
    }
    map
}
