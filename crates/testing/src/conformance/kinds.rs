//! Variants of all maps, and functions that run a case on each of them.
use crate::common;
use checker::MapValue;
use gpu::Device;
use phalanx::btree::{self, BTree};
use phalanx::hash_map::{self, HashMap};
use phalanx::map::Word;
use phalanx::mvbtree::{self, MultiVersionBTree};
use phalanx::skiplist::{self, SkipList};
use phalanx::slab_hash::{self, SlabHash};
use phalanx::{Error, Map};
use phalanx_kernels::hash_map::Config;
use phalanx_kernels::keyed::Scalar;
use phalanx_kernels::slab::list;
use simt::Instance;
use std::any::type_name;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// Properties of a map that cases need beyond those of all maps.
pub trait Tested: Map<Key: Word, Value: Word + MapValue> + Sync + Sized {
    /// Builder of such maps.
    type Builder: Clone + Sync;

    /// Returns the names of its variants.
    fn names() -> Vec<&'static str>;

    /// Returns a builder of the variant of this name.
    fn builder(device: &Device, name: &str) -> Self::Builder;

    /// Creates a map of the variant with this capacity, which grows.
    fn growing(kind: &Kind<Self>, capacity: usize) -> phalanx::Result<Self>;

    /// Creates a small map of the variant that does not grow.
    fn fixed(kind: &Kind<Self>) -> Self;

    /// Loads a saved map into a growing one of the variant.
    fn load(saved: &[u8], kind: &Kind<Self>) -> phalanx::Result<Self>;

    /// Returns the name of its variant.
    fn name(&self) -> &str;

    /// Panics if an invariant of the map is violated while no operation runs.
    fn validate(&self);
}

/// Implements methods of [`Tested`] by those of the same names of a map, whose builder is in `$module`. With
/// `large_batches`, batches of any size and order are executed key by key: rebuilds have tests of their own.
macro_rules! own_methods {
    ($module:ident $($large_batches:ident)?) => {
        fn names() -> Vec<&'static str> {
            $module::variants::<K, V>()
        }

        fn builder(device: &Device, name: &str) -> Self::Builder {
            Self::builder().device(device).variant(name)$(.$large_batches($module::LargeBatches::Concurrent))?
        }

        fn name(&self) -> &str {
            self.variant()
        }
    };
    ($module:ident $($large_batches:ident)?, validate) => {
        own_methods!($module $($large_batches)?);

        fn validate(&self) {
            Self::validate(self).unwrap_or_else(|error| panic!("{}: {error}", self.variant()));
        }
    };
}

impl<K: Word, V: Word + MapValue> Tested for HashMap<K, V> {
    type Builder = hash_map::Builder<K, V>;

    own_methods!(hash_map);

    fn growing(kind: &Kind<Self>, capacity: usize) -> phalanx::Result<Self> {
        kind.builder().capacity(capacity).build()
    }

    fn fixed(kind: &Kind<Self>) -> Self {
        kind.builder().capacity(1).growth(hash_map::Growth::Fixed).build().unwrap()
    }

    fn load(saved: &[u8], kind: &Kind<Self>) -> phalanx::Result<Self> {
        Self::load(saved, kind.builder())
    }

    fn validate(&self) {
        let load = self.len().unwrap() as f64 / self.slots() as f64;
        assert_eq!(self.load_factor().unwrap(), load, "{}", self.variant());
    }
}

impl<K: Word, V: Word + MapValue> Tested for SlabHash<K, V> {
    type Builder = slab_hash::Builder<Self>;

    own_methods!(slab_hash, validate);

    /// Uses few buckets for any capacity, in order to test lists of many slabs.
    fn growing(kind: &Kind<Self>, capacity: usize) -> phalanx::Result<Self> {
        kind.builder().capacity(capacity).buckets(capacity.div_ceil(40) as u32).slabs(1).build()
    }

    /// Leaves so few unused slots that a sequence of batches exhausts the pool.
    fn fixed(kind: &Kind<Self>) -> Self {
        let mut map = kind.builder().buckets(4).slabs(1).growth(slab_hash::Growth::Fixed).build().unwrap();
        let slots = map.stats().unwrap().capacity as u64 * slots(kind.name) as u64;
        let (keys, values) = kind.columns((0..slots).map(|key| (1000 + key, key)));
        let inserted = map.insert(&keys, &values).unwrap();
        assert!(!inserted.contains(&phalanx::Outcome::Refused), "{}: {slots} slots", kind.name);
        map.retain_keys(K::from_u64(0)..=K::from_u64(0)).unwrap();
        map
    }

    fn load(saved: &[u8], kind: &Kind<Self>) -> phalanx::Result<Self> {
        Self::load(saved, kind.builder().slabs(1))
    }
}

impl<K: Word, V: Word + MapValue> Tested for BTree<K, V> {
    type Builder = btree::Builder<K, V>;

    own_methods!(btree large_batches, validate);

    /// Has almost no initial capacity, so that it grows.
    fn growing(kind: &Kind<Self>, _capacity: usize) -> phalanx::Result<Self> {
        kind.builder().nodes(1).build()
    }

    /// Its nodes have been used up by keys that are now removed; the keys of a sequence of batches fall into
    /// few leaves.
    fn fixed(kind: &Kind<Self>) -> Self {
        kind.used_up(kind.builder().nodes(1).growth(btree::Growth::Fixed).build().unwrap(), 1500)
    }

    fn load(saved: &[u8], kind: &Kind<Self>) -> phalanx::Result<Self> {
        Self::load(saved, kind.builder().nodes(1))
    }
}

impl<K: Word, V: Word + MapValue> Tested for SkipList<K, V> {
    type Builder = skiplist::Builder<K, V>;

    own_methods!(skiplist large_batches, validate);

    /// Has almost no initial capacity, so that it grows.
    fn growing(kind: &Kind<Self>, _capacity: usize) -> phalanx::Result<Self> {
        kind.builder().nodes(1).build()
    }

    /// Its nodes have been used up by keys that are now removed: a sequence of batches first falls into few
    /// nodes, and frees the others during a batch.
    fn fixed(kind: &Kind<Self>) -> Self {
        kind.used_up(kind.builder().nodes(1).growth(skiplist::Growth::Fixed).build().unwrap(), 800)
    }

    fn load(saved: &[u8], kind: &Kind<Self>) -> phalanx::Result<Self> {
        Self::load(saved, kind.builder().nodes(1))
    }
}

impl<K: Word, V: Word + MapValue> Tested for MultiVersionBTree<K, V> {
    type Builder = mvbtree::Builder<K, V>;

    own_methods!(mvbtree large_batches, validate);

    /// Has almost no initial capacity, so that it grows. Out-of-place variants have more, because batches in
    /// streams need memory for the nodes that they replace.
    fn growing(kind: &Kind<Self>, capacity: usize) -> phalanx::Result<Self> {
        if kind.name.contains("out_of_place") && capacity > 1 {
            return kind.builder().nodes(20 * capacity).build();
        }
        kind.builder().nodes(1).build()
    }

    /// Has enough memory for all versions of a sequence of batches. Refusals for lack of memory have their
    /// own case.
    fn fixed(kind: &Kind<Self>) -> Self {
        kind.builder().nodes(2000).growth(mvbtree::Growth::Fixed).build().unwrap()
    }

    fn load(saved: &[u8], kind: &Kind<Self>) -> phalanx::Result<Self> {
        Self::load(saved, kind.builder().nodes(1))
    }
}

/// Returns the number of pairs or keys in a slab of a variant of slab lists.
pub fn slots(name: &str) -> usize {
    struct Slots<'a>(&'a str);

    impl list::Visitor for Slots<'_> {
        type Output = usize;

        fn visit<M: list::Config + Instance>(&mut self) -> Option<usize> {
            (M::NAME == self.0).then_some(M::SLOTS as usize)
        }
    }

    list::visit(&mut Slots(name)).expect("a variant")
}

/// Variant of a map on a device.
pub struct Kind<M: Tested> {
    pub device: Device,
    pub name: &'static str,
    /// Whether long cases run in full on it: the first variant for keys and values of 32 bits, on a GPU also
    /// the first for 64 bits. Others share most of its code.
    pub is_main: bool,
    builder: M::Builder,
}

impl<M: Tested> Kind<M> {
    /// Returns a builder of this variant.
    pub fn builder(&self) -> M::Builder {
        self.builder.clone()
    }

    /// Creates a map with this capacity, which grows.
    pub fn map(&self, capacity: usize) -> M {
        M::growing(self, capacity).unwrap()
    }

    /// Returns the turns of a case that has six of them: all on the main variant and on a GPU, a third of
    /// them on each of the others.
    pub fn turns(&self) -> Range<u64> {
        match self.is_main || common::runs_all(&self.device) {
            true => 0..6,
            false => {
                let first = hash_of(self.name) % 3 * 2;
                first..first + 2
            }
        }
    }

    /// Converts numbers to keys and values, truncated to their sizes.
    pub fn columns(&self, numbers: impl IntoIterator<Item = (u64, u64)>) -> (Vec<M::Key>, Vec<M::Value>) {
        numbers.into_iter().map(|(key, value)| (M::Key::from_u64(key), M::Value::from_u64(value))).unzip()
    }

    /// Fills a map that does not grow with at most `many` keys, until it refuses some, and removes all of
    /// them. The keys come in small batches: each one that is refused has searched the whole pool.
    fn used_up(&self, mut map: M, many: u64) -> M {
        let (keys, values) = self.columns((0..many).map(|key| (1000 + key, key)));
        let mut batches = keys.chunks(50).zip(values.chunks(50));
        let refuses = |(keys, values)| map.insert(keys, values).unwrap().contains(&phalanx::Outcome::Refused);
        assert!(batches.any(refuses), "{}", self.name);
        map.retain_keys(M::Key::from_u64(0)..=M::Key::from_u64(0)).unwrap();
        map
    }

    /// Converts numbers to keys, truncated to their size.
    pub fn keys(&self, numbers: impl IntoIterator<Item = u64>) -> Vec<M::Key> {
        numbers.into_iter().map(M::Key::from_u64).collect()
    }
}

/// Returns a variant of the hash map, which need not be one of `phalanx`.
pub fn table_kind<M>(device: &Device) -> Kind<HashMap<M::Key, M::Value>>
where
    M: Config<Key: Word, Value: Word + MapValue> + Instance,
{
    let builder = HashMap::builder().device(device).variant_of::<M>();
    Kind { device: device.clone(), name: M::NAME, is_main: true, builder }
}

/// Returns the variants for these types that the device supports.
pub fn kinds<M: Tested>(device: &Device) -> Vec<Kind<M>> {
    let kind = |(index, name)| Kind {
        device: device.clone(),
        name,
        is_main: index == 0 && has_one_size::<M>() && (size_of::<M::Key>() == 4 || common::runs_all(device)),
        builder: M::builder(device, name),
    };
    let runs = |kind: &Kind<M>| !matches!(M::growing(kind, 1), Err(Error::NeedsWideSwap { .. }));
    let kinds: Vec<_> = M::names().into_iter().enumerate().map(kind).filter(runs).collect();
    assert!(!kinds.is_empty(), "there is a kind of map for every pair of types");
    kinds
}

/// Runs a case on the variants of a map for these types: on a GPU or with `PHALANX_VARIANTS=all` on all of
/// them, otherwise on a sample.
pub fn each<M: Tested>(device: &Device, case: impl Fn(&Kind<M>)) {
    let (name, samples) = (name_of(&case), !common::runs_all(device));
    let is_run = |(index, kind): &(usize, Kind<M>)| !samples || is_sampled(name, *index == 0, kind);
    kinds::<M>(device).into_iter().enumerate().filter(is_run).for_each(|(_, kind)| case(&kind));
}

/// Returns the name of a function, without its type parameters.
fn name_of<T>(_: &T) -> &'static str {
    type_name::<T>().split('<').next().unwrap_or_default()
}

/// Returns whether a case runs on a variant. Each case has a sample of its own: the first variant for 32 bits
/// and for 64 bits, that for one of the two pairs of mixed sizes, and a quarter of the other variants. So all
/// cases together run on every variant. The seed of the tests selects other samples.
fn is_sampled<M: Tested>(case: &str, is_first: bool, kind: &Kind<M>) -> bool {
    match is_first {
        true if has_one_size::<M>() => true,
        true => hash_of(case).is_multiple_of(2) == (size_of::<M::Key>() == 4),
        false => hash_of((case, kind.name)).is_multiple_of(4),
    }
}

fn has_one_size<M: Tested>() -> bool {
    size_of::<M::Key>() == size_of::<M::Value>()
}

/// Returns a number that depends on `what` and the seed of the tests.
fn hash_of(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (what, common::seed()).hash(&mut hasher);
    hasher.finish()
}

/// Runs a case on every variant, if key and value have one size: for long cases that do not depend on that.
pub fn each_of_one_size<M: Tested>(device: &Device, case: impl Fn(&Kind<M>)) {
    if has_one_size::<M>() {
        each(device, case);
    }
}

/// Runs a case on the first variant for these types.
pub fn first<M: Tested>(device: &Device, case: impl Fn(&Kind<M>)) {
    case(&kinds::<M>(device)[0]);
}

/// Runs a case on the first variant, on the emulator only if key and value have one size: for long cases that
/// hardly depend on that.
pub fn first_of_one_size<M: Tested>(device: &Device, case: impl Fn(&Kind<M>)) {
    if !device.is_emulator() || has_one_size::<M>() {
        first(device, case);
    }
}

/// Returns the map's pairs in key order. Panics if a key occurs twice, the length is wrong, or an invariant
/// is violated.
#[track_caller]
pub fn contents<M: Tested>(map: &M) -> BTreeMap<M::Key, M::Value> {
    let (keys, values) = map.export().unwrap();
    let pairs: BTreeMap<_, _> = keys.iter().copied().zip(values).collect();
    assert_eq!(pairs.len(), keys.len(), "{}: a key is listed twice in {keys:?}", map.name());
    assert_eq!(pairs.len(), map.len().unwrap(), "{}: the length is wrong", map.name());
    map.validate();
    pairs
}
