//! Lists for tests, and the model that they are compared with.
use gpu::Device;
pub use phalanx::TieredSkipList as Map;
use phalanx::tiered_skip_list::{Builder, Costs};
pub use phalanx::tiered_skip_list::{Placement, Progress};
use phalanx::{Key, Outcome, TieredSkipList, Value};
use std::collections::BTreeMap;

/// Returns the device that the environment names.
pub fn device() -> Device {
    Device::from_environment().expect("PHALANX_DEVICE names a device that is there")
}

/// Returns a new emulated device, into which faults can be injected.
pub fn emulator() -> Device {
    Device::emulator(Default::default())
}

/// Returns a builder of a list of inner lists for 100 pairs, which are copied from some operations on.
pub fn small<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
    let costs = Costs { access_ns: 1.0, write_ratio: 1.0, copy_rate: 100.0 };
    TieredSkipList::builder().device(device).capacity(1000).list_capacity(100).costs(costs)
}

/// Returns a builder of a list of other inner lists than those of [`small`].
pub fn divided<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
    small(device).list_capacity(60)
}

/// Returns a builder of a list for 800 pairs, whose inner lists split with more.
pub fn growing<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
    divided(device).capacity(800)
}

/// Creates a map for a number of pairs.
pub type New = fn(&Device, usize) -> Map<u32, u32>;

/// A list is divided from the beginning.
pub const OUTGROWING: Option<New> = None;

/// Builds a list with the least budget: batches of more than 128 elements are divided into chunks.
pub fn least<K: Key, V: Value>(builder: Builder<K, V>) -> TieredSkipList<K, V> {
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

/// Returns the pairs of a list, which must be in key order.
pub fn all_pairs<K: Key + Ord, V: Value>(list: &TieredSkipList<K, V>) -> BTreeMap<K, V> {
    let all: Vec<_> = list.iter().unwrap().collect();
    assert!(all.is_sorted_by(|left, right| left.0 < right.0), "in key order, and each key once");
    assert_eq!(all.len(), list.len(), "counted");
    all.into_iter().collect()
}

/// Checks that a list has these pairs, by all ways to read it.
pub fn check<K: Key + Ord, V: Value + PartialEq>(
    list: &TieredSkipList<K, V>,
    model: &BTreeMap<K, V>,
    absent: &[K],
) {
    assert_eq!(all_pairs(list), *model);
    let keys: Vec<K> = model.keys().copied().chain(absent.iter().copied()).collect();
    let expected: Vec<Option<V>> = keys.iter().map(|key| model.get(key).copied()).collect();
    let is_there: Vec<bool> = expected.iter().map(Option::is_some).collect();
    assert_eq!(list.get(&keys).unwrap(), expected);
    assert_eq!(list.contains_key(&keys).unwrap(), is_there);
    check_order(list, model, &keys);
    assert!(list.peak_device_bytes() <= list.budget());
}

/// Checks the queries by key order from each of `keys`.
pub fn check_order<K: Key + Ord, V: Value + PartialEq>(
    list: &TieredSkipList<K, V>,
    model: &BTreeMap<K, V>,
    keys: &[K],
) {
    use std::ops::Bound::{Excluded, Unbounded};
    let pair = |pair: Option<(&K, &V)>| pair.map(|(&key, &value)| (key, value));
    let each = |next: &dyn Fn(K) -> Option<(K, V)>| keys.iter().map(|&key| next(key)).collect::<Vec<_>>();
    let above = |key| pair(model.range((Excluded(key), Unbounded)).next());
    assert_eq!(list.successor(keys).unwrap(), each(&above));
    assert_eq!(list.predecessor(keys).unwrap(), each(&|key| pair(model.range(..key).next_back())));
    assert_eq!(list.ceiling(keys).unwrap(), each(&|key| pair(model.range(key..).next())));
    assert_eq!(list.floor(keys).unwrap(), each(&|key| pair(model.range(..=key).next_back())));
    assert_eq!(list.first().unwrap(), pair(model.first_key_value()));
    assert_eq!(list.last().unwrap(), pair(model.last_key_value()));
}

/// Inserts pairs of which keys may be equal, and checks the outcomes. Equal keys must have equal values.
pub fn insert<K: Key + Ord, V: Value>(
    list: &TieredSkipList<K, V>,
    model: &mut BTreeMap<K, V>,
    (keys, values): (&[K], &[V]),
) {
    let before = model.len();
    let outcomes = list.insert(keys, values).unwrap();
    model.extend(keys.iter().copied().zip(values.iter().copied()));
    assert!(outcomes.all_placed());
    assert_eq!(outcomes.count(Outcome::Inserted), model.len() - before, "one for each new key");
}

/// Returns the keys and values for numbers: values follow from keys.
pub fn of<K: Key, V: Value>(numbers: &[u64], key: fn(u64) -> K, value: fn(u64) -> V) -> (Vec<K>, Vec<V>) {
    numbers.iter().map(|&number| (key(number), value(number))).unzip()
}
