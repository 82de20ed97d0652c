//! Lists for tests, and the model that they are compared with.
pub use crate::common::*;
use gpu::Device;
pub use phalanx::TieredSkipList as Map;
use phalanx::tiered_skip_list::Costs;
pub use phalanx::tiered_skip_list::{Builder, Placement, Progress, Traffic};
use phalanx::{Key, TieredSkipList, Value};
use phalanx_testing::common::Rng;
use std::collections::BTreeMap;

/// Returns a builder of a list of inner lists for 100 pairs, which are copied from some operations on.
pub fn small<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
    let costs = Costs { access_ns: 1.0, write_ratio: 1.0, copy_rate: 100.0, ..Costs::default() };
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

/// A list is divided from the beginning.
pub const OUTGROWING: Option<New> = None;

/// Nodes of removed keys are used again.
pub const CHURNED: Option<New> = None;

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

/// Returns a builder of a random list for at least `pairs` pairs, and whether the list may refuse some.
pub fn random(device: &Device, rng: &mut Rng, pairs: usize) -> (Builder<u32, u32>, bool) {
    use Placement::{AlwaysCopy, AlwaysInPlace, ByCost, Managed, Remote};
    let placement = rng.pick(&[ByCost, ByCost, AlwaysCopy, AlwaysInPlace, Remote, Managed]);
    let is_flat = matches!(placement, Remote | Managed);
    let capacity = pairs.max(rng.pick(&[1, 200, 800, 3000]));
    let builder = small(device).placement(placement).capacity(capacity);
    let builder = builder.list_capacity(rng.pick(&[60, 100, 400, 2000]));
    let least = builder.min_budget().unwrap();
    (builder.budget(least + least * rng.pick(&[0, 0, 1, 3, 12]) / 4), is_flat)
}

/// Checks the queries by key order from each of `keys`, and between each two of them.
pub fn look_around(list: &TieredSkipList<u32, u32>, model: &BTreeMap<u32, u32>, keys: &[u32]) {
    check_order(list, model, keys);
    let ranges: Vec<_> = keys.windows(2).map(|ends| ends[0].min(ends[1])..=ends[0].max(ends[1])).collect();
    let within = ranges.iter().map(|range| model.range(range.clone()).map(|(&key, &value)| (key, value)));
    let expected: Vec<Vec<(u32, u32)>> = within.map(Iterator::collect).collect();
    assert!(list.count(&ranges).unwrap().into_iter().eq(expected.iter().map(|pairs| pairs.len() as u64)));
    assert_eq!(list.range(&ranges).unwrap(), expected);
}
