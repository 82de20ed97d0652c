//! All kinds of all maps: how a case is run on each.
use checker::MapValue;
use gpu::Device;
use phalanx::btree::{self, BTree};
use phalanx::hash_map::{self, Builder, HashMap, Key, Value};
use phalanx::mvbtree::{self, MultiVersionBTree};
use phalanx::skiplist::{self, SkipList};
use phalanx::slab_hash::{self, SlabHash};
use phalanx::{Error, Map};
use phalanx_kernels::keyed::Scalar;
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// What a case needs to know of a map beside what all maps can do.
pub trait Tested: Map<Key: Key, Value: Value + MapValue> + Sync + Sized {
    /// The names of its kinds.
    fn names() -> Vec<&'static str>;

    /// A map of the kind for so many pairs, which grows.
    fn growing(kind: &Kind<Self>, capacity: usize) -> phalanx::Result<Self>;

    /// A small map of the kind that does not grow.
    fn fixed(kind: &Kind<Self>) -> Self;

    /// Reads a saved map into a growing one of the kind.
    fn load(saved: &[u8], kind: &Kind<Self>) -> phalanx::Result<Self>;

    /// The name of its kind.
    fn name(&self) -> &str;

    /// Fails where the map is not as it must be when nothing runs.
    fn validate(&self);
}

impl<K: Key, V: Value + MapValue> Tested for HashMap<K, V> {
    fn names() -> Vec<&'static str> {
        hash_map::variants::<K, V>()
    }

    fn growing(kind: &Kind<Self>, capacity: usize) -> phalanx::Result<Self> {
        kind.builder().capacity(capacity).build()
    }

    fn fixed(kind: &Kind<Self>) -> Self {
        kind.builder().capacity(1).growth(hash_map::Growth::Fixed).build().unwrap()
    }

    fn load(saved: &[u8], kind: &Kind<Self>) -> phalanx::Result<Self> {
        Self::load(saved, kind.builder())
    }

    fn name(&self) -> &str {
        self.variant()
    }

    fn validate(&self) {
        let load = self.len().unwrap() as f64 / self.slots() as f64;
        assert_eq!(self.load_factor().unwrap(), load, "{}", self.variant());
    }
}

impl<K: Key, V: Value + MapValue> Tested for SlabHash<K, V> {
    fn names() -> Vec<&'static str> {
        slab_hash::variants::<K, V>()
    }

    /// Of a few buckets, whatever the capacity: lists of many slabs are what there is to test.
    fn growing(kind: &Kind<Self>, capacity: usize) -> phalanx::Result<Self> {
        kind.builder().capacity(capacity).buckets(capacity.div_ceil(40) as u32).slabs(1).build()
    }

    /// Of so few slots that are not used up that a sequence of batches meets the end of the pool.
    fn fixed(kind: &Kind<Self>) -> Self {
        let mut map = kind.builder().buckets(4).slabs(1).growth(slab_hash::Growth::Fixed).build().unwrap();
        let slots = map.stats().unwrap().capacity as u64 * slots::<Self>(kind);
        let (keys, values) = kind.pairs((0..slots).map(|key| (1000 + key, key)));
        let inserted = map.insert(&keys, &values).unwrap();
        assert!(!inserted.contains(&phalanx::Outcome::Refused), "{}: {slots} slots", kind.name);
        map.retain_keys(K::from_u64(0)..=K::from_u64(0)).unwrap();
        map
    }

    fn load(saved: &[u8], kind: &Kind<Self>) -> phalanx::Result<Self> {
        Self::load(saved, kind.builder().slabs(1))
    }

    fn name(&self) -> &str {
        self.variant()
    }

    fn validate(&self) {
        Self::validate(self).unwrap_or_else(|error| panic!("{}: {error}", self.variant()));
    }
}

impl<K: Key, V: Value + MapValue> Tested for BTree<K, V> {
    fn names() -> Vec<&'static str> {
        btree::variants::<K, V>()
    }

    /// With room for almost nothing, so that it grows.
    fn growing(kind: &Kind<Self>, _capacity: usize) -> phalanx::Result<Self> {
        kind.builder().nodes(1).build()
    }

    /// Whose nodes are used up, by keys that are gone: those that a sequence of batches names meet in few
    /// leaves.
    fn fixed(kind: &Kind<Self>) -> Self {
        kind.used_up(kind.builder().nodes(1).growth(btree::Growth::Fixed).build().unwrap(), 1500)
    }

    fn load(saved: &[u8], kind: &Kind<Self>) -> phalanx::Result<Self> {
        Self::load(saved, kind.builder().nodes(1))
    }

    fn name(&self) -> &str {
        self.variant()
    }

    fn validate(&self) {
        Self::validate(self).unwrap_or_else(|error| panic!("{}: {error}", self.variant()));
    }
}

impl<K: Key, V: Value + MapValue> Tested for SkipList<K, V> {
    fn names() -> Vec<&'static str> {
        skiplist::variants::<K, V>()
    }

    /// With room for almost nothing, so that it grows.
    fn growing(kind: &Kind<Self>, _capacity: usize) -> phalanx::Result<Self> {
        kind.builder().nodes(1).build()
    }

    /// Whose nodes are used up, by keys that are gone: a sequence of batches first meets in few nodes, and
    /// has the others given back amid a batch.
    fn fixed(kind: &Kind<Self>) -> Self {
        kind.used_up(kind.builder().nodes(1).growth(skiplist::Growth::Fixed).build().unwrap(), 800)
    }

    fn load(saved: &[u8], kind: &Kind<Self>) -> phalanx::Result<Self> {
        Self::load(saved, kind.builder().nodes(1))
    }

    fn name(&self) -> &str {
        self.variant()
    }

    fn validate(&self) {
        Self::validate(self).unwrap_or_else(|error| panic!("{}: {error}", self.variant()));
    }
}

impl<K: Key, V: Value + MapValue> Tested for MultiVersionBTree<K, V> {
    fn names() -> Vec<&'static str> {
        mvbtree::variants::<K, V>()
    }

    /// With room for almost nothing, so that it grows; but out of place, where batches in streams need room
    /// for what they replace.
    fn growing(kind: &Kind<Self>, capacity: usize) -> phalanx::Result<Self> {
        if kind.name.contains("out_of_place") && capacity > 1 {
            return kind.builder().nodes(20 * capacity).build();
        }
        kind.builder().nodes(1).build()
    }

    /// With room for all that a sequence of batches makes of versions: what is refused when there is none has
    /// a case of its own.
    fn fixed(kind: &Kind<Self>) -> Self {
        kind.builder().nodes(4000).growth(mvbtree::Growth::Fixed).build().unwrap()
    }

    fn load(saved: &[u8], kind: &Kind<Self>) -> phalanx::Result<Self> {
        Self::load(saved, kind.builder().nodes(1))
    }

    fn name(&self) -> &str {
        self.variant()
    }

    fn validate(&self) {
        Self::validate(self).unwrap_or_else(|error| panic!("{}: {error}", self.variant()));
    }
}

/// Pairs in a slab, whose size the kind's name tells.
fn slots<M: Tested>(kind: &Kind<M>) -> u64 {
    let bytes = if kind.name.contains("_256_") { 256 } else { 128 };
    let pair = if (M::Key::BITS, M::Value::BITS) == (32, 32) { 8 } else { 16 };
    bytes / pair - 1
}

/// A kind of map on a device.
#[derive(Clone, Debug)]
pub struct Kind<M> {
    pub device: Device,
    pub name: &'static str,
    of: PhantomData<fn() -> M>,
}

impl<M: Tested> Kind<M> {
    /// A map for so many pairs, which grows.
    pub fn map(&self, capacity: usize) -> M {
        M::growing(self, capacity).unwrap()
    }

    /// Numbers cut to the key's and the value's size.
    pub fn pairs(&self, numbers: impl IntoIterator<Item = (u64, u64)>) -> (Vec<M::Key>, Vec<M::Value>) {
        numbers.into_iter().map(|(key, value)| (M::Key::from_u64(key), M::Value::from_u64(value))).unzip()
    }

    /// A map that does not grow once so many keys have used up its room, all of which are gone.
    fn used_up(&self, mut map: M, many: u64) -> M {
        let (keys, values) = self.pairs((0..many).map(|key| (1000 + key, key)));
        assert!(map.insert(&keys, &values).unwrap().contains(&phalanx::Outcome::Refused), "{}", self.name);
        map.retain_keys(M::Key::from_u64(0)..=M::Key::from_u64(0)).unwrap();
        map
    }

    /// Numbers cut to the key's size.
    pub fn keys(&self, numbers: impl IntoIterator<Item = u64>) -> Vec<M::Key> {
        numbers.into_iter().map(M::Key::from_u64).collect()
    }
}

impl<K: Key, V: Value + MapValue> Kind<HashMap<K, V>> {
    /// A builder for it.
    pub fn builder(&self) -> Builder<K, V> {
        HashMap::builder().device(&self.device).variant(self.name)
    }
}

impl<K: Key, V: Value + MapValue> Kind<SlabHash<K, V>> {
    /// A builder for it.
    pub fn builder(&self) -> slab_hash::Builder<SlabHash<K, V>> {
        SlabHash::builder().device(&self.device).variant(self.name)
    }
}

impl<K: Key, V: Value + MapValue> Kind<BTree<K, V>> {
    /// A builder for it.
    pub fn builder(&self) -> btree::Builder<K, V> {
        BTree::builder().device(&self.device).variant(self.name)
    }
}

impl<K: Key, V: Value + MapValue> Kind<SkipList<K, V>> {
    /// A builder for it.
    pub fn builder(&self) -> skiplist::Builder<K, V> {
        SkipList::builder().device(&self.device).variant(self.name)
    }
}

impl<K: Key, V: Value + MapValue> Kind<MultiVersionBTree<K, V>> {
    /// A builder for it.
    pub fn builder(&self) -> mvbtree::Builder<K, V> {
        MultiVersionBTree::builder().device(&self.device).variant(self.name)
    }
}

/// The kinds for these types that the device can run.
pub fn kinds<M: Tested>(device: &Device) -> Vec<Kind<M>> {
    let kind = |name| Kind { device: device.clone(), name, of: PhantomData };
    let runs = |kind: &Kind<M>| !matches!(M::growing(kind, 1), Err(Error::NeedsWideSwap { .. }));
    let kinds: Vec<_> = M::names().into_iter().map(kind).filter(runs).collect();
    assert!(!kinds.is_empty(), "there is a kind of map for every pair of types");
    kinds
}

/// Runs a case on every kind of map for these types.
pub fn each<M: Tested>(device: &Device, case: impl Fn(&Kind<M>)) {
    kinds::<M>(device).iter().for_each(case);
}

/// Runs a case on the first kind for these types.
pub fn first<M: Tested>(device: &Device, case: impl Fn(&Kind<M>)) {
    case(&kinds::<M>(device)[0]);
}

/// The map's pairs in the order of keys; fails where a key comes twice, the length is not their number, or
/// the map is not valid.
#[track_caller]
pub fn contents<M: Tested>(map: &M) -> BTreeMap<M::Key, M::Value> {
    let (keys, values) = map.export().unwrap();
    let pairs: BTreeMap<_, _> = keys.iter().copied().zip(values).collect();
    assert_eq!(pairs.len(), keys.len(), "{}: a key is listed twice in {keys:?}", map.name());
    assert_eq!(pairs.len(), map.len().unwrap(), "{}: the length is wrong", map.name());
    map.validate();
    pairs
}
