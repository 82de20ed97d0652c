//! Maps for tests, and the model that they are compared with.
pub use crate::common::*;
use gpu::Device;
pub use phalanx::TieredMap as Map;
pub use phalanx::tiered_map::{Builder, Placement, Progress, Traffic};
use phalanx::tiered_map::{Costs, Growth, Partition, Storage};
use phalanx::{Key, TieredMap, Value};
use phalanx_testing::common::Rng;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Returns a builder of a map of shards of about 1 KiB (for pairs of 8 bytes), which are copied from a few
/// operations on.
pub fn small<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
    TieredMap::builder().device(device).capacity(800).shards(8).costs(cheap_copies())
}

/// Costs by which a shard of some KiB is copied for a few operations.
pub fn cheap_copies() -> Costs {
    Costs { access_ns: 1.0, write_ratio: 1.0, copy_rate: 100.0, ..Costs::default() }
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

/// Returns a builder of a random map for at least `pairs` pairs, and whether the map may refuse some.
pub fn random(device: &Device, rng: &mut Rng, pairs: usize) -> (Builder<u32, u32>, bool) {
    use Placement::{AlwaysCopy, AlwaysInPlace, ByCost, Managed, Remote};
    let growth = rng.pick(&[Growth::Doubling, Growth::Doubling, Growth::Doubling, Growth::Fixed]);
    let capacity = pairs.max(rng.pick(&[1, 200, 800, 3000]));
    let costs = Costs { shard_ns: rng.pick(&[0.0, 0.0, 1e9]), ..cheap_copies() };
    let builder = TieredMap::builder().device(device).costs(costs).capacity(capacity).growth(growth);
    let builder = builder.placement(rng.pick(&[ByCost, ByCost, AlwaysCopy, AlwaysInPlace, Remote, Managed]));
    let builder = match rng.below(5) {
        0 => builder.storage(Storage::File(path())),
        1 => builder.storage(Storage::StagedFile(path())),
        _ => builder,
    };
    let divided = builder.clone().shards(rng.pick(&[1, 2, 8, 32]));
    let least = divided.min_budget().unwrap();
    let (builder, least) = match rng.below(5) {
        0 => (builder.clone(), builder.min_budget().unwrap().max(least)),
        1 => by_range(builder, rng.pick(&[97, 400])),
        _ => (divided, least),
    };
    let (more, hot) = (least * rng.pick(&[0, 0, 1, 3, 12]) / 4, rng.pick(&[0, 1 << 12]));
    let builder = if rng.below(2) == 0 { builder.hot_pairs(hot) } else { builder };
    (builder.budget(least + more + hot), growth == Growth::Fixed)
}

/// Returns a builder of a map whose shards are ranges of keys, and its least budget.
fn by_range(builder: Builder<u32, u32>, each: u64) -> (Builder<u32, u32>, usize) {
    let builder = builder.partition(Partition::ByRange { keys: 0..=2999, each });
    let least = builder.min_budget().unwrap();
    (builder, least)
}

/// Calls the queries that other maps have.
pub fn look_around(_: &TieredMap<u32, u32>, _: &BTreeMap<u32, u32>, _: &[u32]) {}
