//! What the tests of tiered maps share: devices, policies, batches, and insertion into a map and its model.
use crate::model::{Builder, Map, Placement};
use gpu::Device;
use phalanx::{Key, Outcome, Value};
use std::collections::BTreeMap;

/// Returns the device that the environment names.
pub fn device() -> Device {
    Device::from_environment().expect("PHALANX_DEVICE names a device that is there")
}

/// Returns a new emulated device, into which faults can be injected.
pub fn emulator() -> Device {
    Device::emulator(Default::default())
}

/// Builds a map with the least budget: batches of more than 128 elements are divided into chunks.
pub fn least<K: Key, V: Value>(builder: Builder<K, V>) -> Map<K, V> {
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

/// Inserts pairs of which keys may be equal, and checks the outcomes. Equal keys must have equal values.
pub fn insert<K: Key + Ord, V: Value>(
    map: &Map<K, V>,
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

/// Creates a map for a number of pairs.
pub type New = fn(&Device, usize) -> Map<u32, u32>;
