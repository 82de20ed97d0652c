//! All kinds of table: how a case is run on each.
use gpu::Device;
use phalanx::Map;
use phalanx::hash_map::{Builder, HashMap, Key, Value, variants};
use std::collections::BTreeMap;

/// A kind of table on a device.
#[derive(Clone, Debug)]
pub struct Kind<K, V> {
    pub device: Device,
    pub name: &'static str,
    of: std::marker::PhantomData<(K, V)>,
}

impl<K: Key, V: Value> Kind<K, V> {
    /// A builder for it.
    pub fn builder(&self) -> Builder<K, V> {
        HashMap::builder().device(&self.device).variant(self.name)
    }

    /// Numbers cut to the key's and the value's size.
    pub fn pairs(&self, numbers: impl IntoIterator<Item = (u64, u64)>) -> (Vec<K>, Vec<V>) {
        numbers.into_iter().map(|(key, value)| (K::from_u64(key), V::from_u64(value))).unzip()
    }

    /// Numbers cut to the key's size.
    pub fn keys(&self, numbers: impl IntoIterator<Item = u64>) -> Vec<K> {
        numbers.into_iter().map(K::from_u64).collect()
    }
}

/// The kinds for these types that the device can run.
pub fn kinds<K: Key, V: Value>(device: &Device) -> Vec<Kind<K, V>> {
    let runs = |name: &&str| {
        HashMap::<K, V>::builder().device(device).variant(name).build().is_ok() || device.supports_cas128()
    };
    let kind = |name| Kind { device: device.clone(), name, of: std::marker::PhantomData };
    let kinds: Vec<_> = variants::<K, V>().into_iter().filter(runs).map(kind).collect();
    assert!(!kinds.is_empty(), "there is a kind of table for every pair of types");
    kinds
}

/// Calls `$case::<K, V>(kind)` with every kind of table.
macro_rules! every_kind {
    ($device:expr, $case:ident) => {
        $crate::kinds::kinds::<u32, u32>($device).iter().for_each($case);
        $crate::kinds::kinds::<u32, u64>($device).iter().for_each($case);
        $crate::kinds::kinds::<u64, u32>($device).iter().for_each($case);
        $crate::kinds::kinds::<u64, u64>($device).iter().for_each($case);
    };
}
pub(crate) use every_kind;

/// The map's pairs in the order of keys; fails where a key comes twice or the length is not their number.
#[track_caller]
pub fn contents<K: Key, V: Value>(map: &HashMap<K, V>) -> BTreeMap<K, V> {
    let (keys, values) = map.export().unwrap();
    let pairs: BTreeMap<K, V> = keys.iter().copied().zip(values).collect();
    assert_eq!(pairs.len(), keys.len(), "{}: a key is listed twice in {keys:?}", map.variant());
    assert_eq!(pairs.len(), map.len().unwrap(), "{}: the length is wrong", map.variant());
    pairs
}
