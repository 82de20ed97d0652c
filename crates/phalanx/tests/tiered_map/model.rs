//! Maps for tests, and the model that they are compared with.
use gpu::Device;
pub use phalanx::TieredMap as Map;
use phalanx::tiered_map::{Builder, Costs};
pub use phalanx::tiered_map::{Placement, Progress};
use phalanx::{Key, Outcome, TieredMap, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Returns the device that the environment names.
pub fn device() -> Device {
    Device::from_environment().expect("PHALANX_DEVICE names a device that is there")
}

/// Returns a new emulated device, into which faults can be injected.
pub fn emulator() -> Device {
    Device::emulator(Default::default())
}

/// Returns a builder of a map of shards of about 1 KiB (for pairs of 8 bytes), which are copied from a few
/// operations on.
pub fn small<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
    TieredMap::builder().device(device).capacity(800).shards(8).costs(cheap_copies())
}

/// Costs by which a shard of some KiB is copied for a few operations.
pub fn cheap_copies() -> Costs {
    Costs { access_ns: 1.0, write_ratio: 1.0, copy_rate: 100.0 }
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

/// Creates a map for a number of pairs.
pub type New = fn(&Device, usize) -> Map<u32, u32>;

/// Returns a map that is divided into shards when it outgrows its budget.
pub const OUTGROWING: Option<New> = Some(outgrowing);

/// Builds a map with the least budget: batches of more than 128 elements are divided into chunks.
pub fn least<K: Key, V: Value>(builder: Builder<K, V>) -> TieredMap<K, V> {
    let budget = builder.min_budget().unwrap();
    builder.budget(budget).build().unwrap()
}

/// All policies.
pub const PLACEMENTS: [Placement; 5] = [
    Placement::ByCost,
    Placement::AlwaysCopy,
    Placement::AlwaysInPlace,
    Placement::Remote,
    Placement::Managed,
];

/// Returns `len` numbers below `most`, of which some are equal.
pub fn numbers(len: usize, most: u64, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(0xd129_0d3d_4a9f_7c15).wrapping_add(1);
            (state >> 33) % most
        })
        .collect()
}

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

/// Inserts pairs of which keys may be equal, and checks the outcomes. Equal keys must have equal values.
pub fn insert<K: Key + Ord, V: Value>(
    map: &TieredMap<K, V>,
    model: &mut BTreeMap<K, V>,
    (keys, values): (&[K], &[V]),
) {
    let before = model.len();
    let outcomes = map.insert(keys, values).unwrap();
    model.extend(keys.iter().copied().zip(values.iter().copied()));
    assert!(outcomes.all_placed());
    assert_eq!(outcomes.count(Outcome::Inserted), model.len() - before, "one for each new key");
}

/// Returns the keys and values for numbers: values follow from keys.
pub fn of<K: Key, V: Value>(numbers: &[u64], key: fn(u64) -> K, value: fn(u64) -> V) -> (Vec<K>, Vec<V>) {
    numbers.iter().map(|&number| (key(number), value(number))).unzip()
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
