//! Ordered operations, compared with `std::collections::BTreeMap`.
use crate::common::{Rng, is_sampled, seed};
use crate::kinds::{Kind, Tested, contents};
use checker::MapValue;
use gpu::{Buffer, Stream};
use phalanx::btree::Ordered;
use phalanx::map::Word;
use phalanx::slab_alloc::Stats;
use phalanx::{BTree, Error, Outcome, Result, SkipList};
use phalanx_kernels::keyed::Scalar;
use phalanx_testing::counts::each_count;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

/// Result of a batch with one neighbour per key.
type Nexts<K, V> = Result<Vec<Option<(K, V)>>>;

/// Pairs of one range.
type Within<K, V> = Vec<(K, V)>;

/// Operations of ordered maps beyond those of all maps.
pub trait ByOrder: Tested {
    fn successor(&self, keys: &[Self::Key]) -> Nexts<Self::Key, Self::Value>;
    fn predecessor(&self, keys: &[Self::Key]) -> Nexts<Self::Key, Self::Value>;
    fn ceiling(&self, keys: &[Self::Key]) -> Nexts<Self::Key, Self::Value>;
    fn floor(&self, keys: &[Self::Key]) -> Nexts<Self::Key, Self::Value>;
    fn first(&self) -> Result<Option<(Self::Key, Self::Value)>>;
    fn last(&self) -> Result<Option<(Self::Key, Self::Value)>>;
    fn range(&self, ranges: &[impl RangeBounds<Self::Key>]) -> Result<Vec<Within<Self::Key, Self::Value>>>;
    fn count(&self, ranges: &[impl RangeBounds<Self::Key>]) -> Result<Vec<u64>>;
    fn ordered_on<'a>(&'a self, stream: &'a Stream) -> Ordered<'a, Self::Key, Self::Value>;
    fn bulk_build(&mut self, keys: &[Self::Key], values: &[Self::Value], fill: f64) -> Result<()>;
    fn bulk_build_sorted(
        &mut self,
        keys: &Buffer<Self::Key>,
        values: &Buffer<Self::Value>,
        fill: f64,
    ) -> Result<()>;
    fn compact(&mut self, fill: f64) -> Result<()>;
    fn stats(&self) -> Result<Stats>;
    fn depth(&self) -> Result<u32>;
}

macro_rules! by_order {
    ($($of:ident)*) => {$(
        impl<K: Word, V: Word + MapValue> ByOrder for $of<K, V> {
            fn successor(&self, keys: &[K]) -> Nexts<K, V> {
                Self::successor(self, keys)
            }

            fn predecessor(&self, keys: &[K]) -> Nexts<K, V> {
                Self::predecessor(self, keys)
            }

            fn ceiling(&self, keys: &[K]) -> Nexts<K, V> {
                Self::ceiling(self, keys)
            }

            fn floor(&self, keys: &[K]) -> Nexts<K, V> {
                Self::floor(self, keys)
            }

            fn first(&self) -> Result<Option<(K, V)>> {
                Self::first(self)
            }

            fn last(&self) -> Result<Option<(K, V)>> {
                Self::last(self)
            }

            fn range(&self, ranges: &[impl RangeBounds<K>]) -> Result<Vec<Vec<(K, V)>>> {
                Self::range(self, ranges)
            }

            fn count(&self, ranges: &[impl RangeBounds<K>]) -> Result<Vec<u64>> {
                Self::count(self, ranges)
            }

            fn ordered_on<'a>(&'a self, stream: &'a Stream) -> Ordered<'a, K, V> {
                Self::ordered_on(self, stream)
            }

            fn bulk_build(&mut self, keys: &[K], values: &[V], fill: f64) -> Result<()> {
                Self::bulk_build(self, keys, values, fill)
            }

            fn bulk_build_sorted(&mut self, keys: &Buffer<K>, values: &Buffer<V>, fill: f64) -> Result<()> {
                Self::bulk_build_sorted(self, keys, values, fill)
            }

            fn compact(&mut self, fill: f64) -> Result<()> {
                Self::compact(self, fill)
            }

            fn stats(&self) -> Result<Stats> {
                Self::stats(self)
            }

            fn depth(&self) -> Result<u32> {
                Self::depth(self)
            }
        }
    )*};
}
by_order!(BTree SkipList);

/// Returns a tree built by insertions and removals, and its expected contents. The ends of the key space are
/// in it on every other turn.
pub fn grown<M: ByOrder>(kind: &Kind<M>, turn: u64) -> (M, BTreeMap<M::Key, M::Value>) {
    let tree = kind.map(1);
    let mut rng = Rng::new(seed() + turn);
    let spread = [400, 5000, u64::MAX][turn as usize % 3];
    let mut keys: Vec<u64> = (0..[3, 60, 900][turn as usize % 3]).map(|_| rng.below(spread)).collect();
    if turn.is_multiple_of(2) {
        keys.extend([0, u64::MAX, u64::MAX - 1, u64::from(u32::MAX), u64::from(u32::MAX) - 1]);
    }
    let (keys, values) = kind.columns(keys.into_iter().enumerate().map(|(place, key)| (key, place as u64)));
    let mut expected = BTreeMap::new();
    for (&key, &value) in keys.iter().zip(&values) {
        expected.entry(key).or_insert(value);
    }
    let (distinct, first): (Vec<M::Key>, Vec<M::Value>) =
        expected.iter().map(|(&key, &value)| (key, value)).unzip();
    // Not in order, because leaves store pairs in order of arrival.
    let half = distinct.len() / 2;
    assert!(tree.insert(&distinct[half..], &first[half..]).unwrap().all_placed());
    assert!(tree.insert(&distinct[..half], &first[..half]).unwrap().all_placed());
    // A range of keys is removed, so that leaves are empty.
    let gone: Vec<M::Key> = distinct.iter().copied().skip(half / 2).take(half).collect();
    assert!(tree.remove(&gone).unwrap().iter().all(|&removed| removed));
    expected.retain(|key, _| !gone.contains(key));
    assert_eq!(contents(&tree), expected, "{}", kind.name);
    (tree, expected)
}

/// Returns keys to query: existing keys, their neighbours, and the ends.
pub fn questions<K: Word, V>(expected: &BTreeMap<K, V>) -> Vec<K> {
    let around = |key: &K| {
        let key = key.to_u64();
        [key.saturating_sub(1), key, key.saturating_add(1)]
    };
    let ends = [0, 1, u64::MAX, u64::MAX - 1];
    expected.keys().flat_map(around).chain(ends).map(K::from_u64).collect()
}

pub fn order_is_that_of_std<M: ByOrder>(kind: &Kind<M>) {
    for turn in kind.turns() {
        let (tree, expected) = grown(kind, turn);
        let keys = questions(&expected);
        let pair = |(key, value): (&M::Key, &M::Value)| (*key, *value);
        let above = |key: &M::Key| expected.range((Bound::Excluded(*key), Bound::Unbounded)).next().map(pair);
        let below = |key: &M::Key| expected.range(..*key).next_back().map(pair);
        let (next, before) = (tree.successor(&keys).unwrap(), tree.predecessor(&keys).unwrap());
        assert_eq!(next, keys.iter().map(above).collect::<Vec<_>>(), "{}, turn {turn}", kind.name);
        assert_eq!(before, keys.iter().map(below).collect::<Vec<_>>(), "{}, turn {turn}", kind.name);
        let from = |key: &M::Key| expected.range(*key..).next().map(pair);
        let until = |key: &M::Key| expected.range(..=*key).next_back().map(pair);
        let (ceiling, floor) = (tree.ceiling(&keys).unwrap(), tree.floor(&keys).unwrap());
        assert_eq!(ceiling, keys.iter().map(from).collect::<Vec<_>>(), "{}, turn {turn}", kind.name);
        assert_eq!(floor, keys.iter().map(until).collect::<Vec<_>>(), "{}, turn {turn}", kind.name);
        assert_eq!(tree.first().unwrap(), expected.first_key_value().map(pair), "{}", kind.name);
        assert_eq!(tree.last().unwrap(), expected.last_key_value().map(pair), "{}", kind.name);
        assert!(tree.iter().unwrap().eq(expected.iter().map(pair)), "{}: out of order", kind.name);
    }
    let empty = kind.map(1);
    assert_eq!((empty.first().unwrap(), empty.last().unwrap()), (None, None), "{}", kind.name);
    assert_eq!(empty.successor(&[]).unwrap(), [], "{}", kind.name);
}

pub fn ranges_are_those_of_std<M: ByOrder>(kind: &Kind<M>) {
    for turn in kind.turns() {
        let (tree, expected) = grown(kind, turn);
        let (keys, mut rng) = (questions(&expected), Rng::new(turn));
        let keys: Vec<M::Key> =
            keys.iter().copied().step_by(keys.len() / 60 + 1).chain([keys[0], M::Key::MAX]).collect();
        let mut bounds = |key: M::Key| match rng.below(3) {
            0 => Bound::Included(key),
            1 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        };
        // Adjacent keys, distant keys and, since a key occurs twice, equal keys.
        let ends =
            keys.windows(2).map(|pair| (pair[0], pair[1])).chain(keys.iter().map(|&key| (keys[0], key)));
        let sorted = ends.map(|(a, b)| (a.min(b), a.max(b)));
        let ranges: Vec<_> = sorted.map(|(low, high)| (bounds(low), bounds(high))).collect();
        let inside = |range: &(Bound<M::Key>, Bound<M::Key>)| {
            let pairs = expected.iter().filter(|(key, _)| range.contains(*key));
            pairs.map(|(key, value)| (*key, *value)).collect::<Vec<_>>()
        };
        let answers: Vec<_> = ranges.iter().map(inside).collect();
        assert_eq!(tree.range(&ranges).unwrap(), answers, "{}, turn {turn}", kind.name);
        let counts: Vec<u64> = answers.iter().map(|pairs| pairs.len() as u64).collect();
        assert_eq!(tree.count(&ranges).unwrap(), counts, "{}, turn {turn}", kind.name);
    }
    let (tree, expected) = grown(kind, 2);
    let all: Vec<(M::Key, M::Value)> = expected.into_iter().collect();
    assert_eq!(tree.range(&[..]).unwrap(), [all], "{}", kind.name);
}

/// Replaces the pairs of a tree by the given ones. Sorting is the same for all variants and takes most of the
/// time, so only the first variant sorts; the others get the pairs in order.
fn build_at_once<M: ByOrder>(
    tree: &mut M,
    kind: &Kind<M>,
    (keys, values): (&[M::Key], &[M::Value]),
    expected: &BTreeMap<M::Key, M::Value>,
    fill: f64,
) {
    if kind.name == M::names()[0] {
        return tree.bulk_build(keys, values, fill).unwrap();
    }
    let (keys, values): (Vec<_>, Vec<_>) = expected.iter().map(|(&key, &value)| (key, value)).unzip();
    let (keys, values) = (kind.device.from_slice(&keys).unwrap(), kind.device.from_slice(&values).unwrap());
    tree.bulk_build_sorted(&keys, &values, fill).unwrap();
}

pub fn trees_are_built_at_once<M: ByOrder>(kind: &Kind<M>) {
    let mut tree = kind.map(1);
    let fills = if kind.is_main { &[0.01, 0.5, 0.7, 1.0][..] } else { &[0.01, 1.0] };
    // Trees of 1300 pairs are searched through the directory, and have three levels if nodes are full.
    let counts = [0, 1, 15, 1300, 2, 13, 14, 100, 197];
    let counts = if kind.is_main { &counts[..] } else { &counts[..4] };
    for (place, &count) in counts.iter().enumerate() {
        for (part, &fill) in fills.iter().enumerate() {
            for top in [false, true] {
                if !is_sampled(&kind.device, &[place, part, top.into()]) {
                    continue;
                }
                let numbers = (0..count).map(|n| (count - n) * 31).chain(top.then_some(u64::MAX));
                let (keys, values) = kind.columns(numbers.map(|key| (key, key ^ 7)));
                let expected: BTreeMap<M::Key, M::Value> =
                    keys.iter().copied().zip(values.iter().copied()).collect();
                build_at_once(&mut tree, kind, (&keys, &values), &expected, fill);
                assert_eq!(contents(&tree), expected, "{}: {count} at {fill}", kind.name);
                let found: Vec<_> = values.iter().copied().map(Some).collect();
                assert_eq!(tree.get(&keys).unwrap(), found, "{}: {count} at {fill}", kind.name);
                let (more, values) = kind.columns((0..count + 20).map(|n| (n * 17 + 5, n)));
                assert!(tree.insert(&more, &values).unwrap().all_placed());
                contents(&tree);
            }
        }
    }
}

pub fn trees_are_built_anew<M: ByOrder>(kind: &Kind<M>) {
    let (mut tree, expected) = grown(kind, 2);
    let before = tree.stats().unwrap().live;
    tree.compact(1.0).unwrap();
    assert_eq!(contents(&tree), expected, "{}", kind.name);
    assert!(tree.stats().unwrap().live < before, "{}: {before} nodes", kind.name);
    tree.clear().unwrap();
    assert_eq!((tree.stats().unwrap().live, tree.len().unwrap(), tree.depth().unwrap()), (3, 0, 2));
    let (keys, values) = kind.columns([(5, 1), (5, 2), (9, 1)]);
    tree.bulk_build(&keys, &values, 0.5).unwrap();
    assert_eq!(tree.len().unwrap(), 2, "{}: equal keys are one", kind.name);
}

pub fn buffers_are_answered_in_order<M: ByOrder>(kind: &Kind<M>) {
    let tree = kind.map(1);
    let (keys, values) = kind.columns((0..300).map(|n| (n * 3, n)));
    assert!(tree.insert(&keys, &values).unwrap().all_placed());
    let device = &kind.device;
    let stream = device.stream().unwrap();
    let lows = device.from_slice(&kind.keys([10, 0, 500, 5000, 7])).unwrap();
    let highs = device.from_slice(&kind.keys([40, 2, u64::MAX, 6000, 6])).unwrap();
    let (mut found, mut values) =
        (device.buffer::<M::Key>(5 * 8).unwrap(), device.buffer::<M::Value>(5 * 8).unwrap());
    let mut counts = device.buffer::<u64>(5).unwrap();
    tree.ordered_on(&stream).range(&lows, &highs, 8, &mut found, &mut values, &mut counts).unwrap();
    assert_eq!(counts.read().unwrap(), [8, 1, 8, 0, 0], "{}", kind.name);
    let written = found.read().unwrap();
    assert_eq!(written[..8], kind.keys((4..12).map(|n| n * 3)), "{}", kind.name);
    assert_eq!(written[16..24], kind.keys((167..175).map(|n| n * 3)), "{}", kind.name);
    tree.ordered_on(&stream).count(&lows, &highs, &mut counts).unwrap();
    assert_eq!(counts.read().unwrap(), [10, 1, 133, 0, 0], "{}", kind.name);

    let (mut next, mut value) = (device.buffer::<M::Key>(5).unwrap(), device.buffer::<M::Value>(5).unwrap());
    let mut outcomes = device.buffer::<u8>(5).unwrap();
    let on = tree.ordered_on(&stream);
    on.successor(&lows, &mut next, &mut value, &mut outcomes).unwrap();
    let (yes, no) = (Outcome::Found as u8, Outcome::Absent as u8);
    assert_eq!(outcomes.read().unwrap(), [yes, yes, yes, no, yes], "{}", kind.name);
    assert_eq!(next.read().unwrap()[..3], kind.keys([12, 3, 501]), "{}", kind.name);
    on.predecessor(&lows, &mut next, &mut value, &mut outcomes).unwrap();
    assert_eq!(outcomes.read().unwrap(), [yes, no, yes, yes, yes], "{}", kind.name);
    assert_eq!(next.read().unwrap()[2..], kind.keys([498, 897, 6]), "{}", kind.name);
    on.ceiling(&lows, &mut next, &mut value, &mut outcomes).unwrap();
    assert_eq!(outcomes.read().unwrap(), [yes, yes, yes, no, yes], "{}", kind.name);
    assert_eq!(next.read().unwrap()[..3], kind.keys([12, 0, 501]), "{}", kind.name);
    on.floor(&lows, &mut next, &mut value, &mut outcomes).unwrap();
    assert_eq!(outcomes.read().unwrap(), [yes; 5], "{}", kind.name);
    assert_eq!(next.read().unwrap(), kind.keys([9, 0, 498, 897, 6]), "{}", kind.name);
    let short = device.from_slice(&kind.keys([1])).unwrap();
    assert!(matches!(on.count(&lows, &short, &mut counts), Err(Error::Length { .. })));
}

pub fn searches_are_bounded_by_counts<M: ByOrder>(kind: &Kind<M>) {
    let (tree, name) = (kind.map(1), kind.name);
    let (keys, values) = kind.columns((0..50).map(|n| (n * 3, n)));
    assert!(tree.insert(&keys, &values).unwrap().all_placed());
    let stream = kind.device.stream().unwrap();
    each_count(&kind.device, 40, |counted| {
        let on = tree.ordered_on(&stream);
        let (lows, highs) = (counted.buffer(&keys[..40]), counted.buffer(&keys[2..42]));
        let lows = counted.bounded(&lows);
        let (mut found, mut values) = (counted.results::<M::Key>(), counted.results::<M::Value>());
        let (mut outcomes, mut counts) = (counted.results::<u8>(), counted.results::<u64>());
        on.successor(lows, &mut found, &mut values, &mut outcomes).unwrap();
        counted.check(name, &mut outcomes, |_| Outcome::Found as u8);
        counted.check(name, &mut found, |index| keys[index + 1]);
        counted.check(name, &mut values, |index| M::Value::from_u64(index as u64 + 1));
        on.floor(lows, &mut found, &mut values, &mut outcomes).unwrap();
        counted.check(name, &mut outcomes, |_| Outcome::Found as u8);
        counted.check(name, &mut found, |index| keys[index]);
        counted.check(name, &mut values, |index| M::Value::from_u64(index as u64));
        on.count(lows, &highs, &mut counts).unwrap();
        counted.check(name, &mut counts, |_| 3);
        on.range(lows, &highs, 1, &mut found, &mut values, &mut counts).unwrap();
        counted.check(name, &mut counts, |_| 1);
        counted.check(name, &mut found, |index| keys[index]);
    });
}

pub fn large_trees_have_many_levels<M: ByOrder>(kind: &Kind<M>) {
    let tree = kind.map(1);
    for part in if kind.is_main { 0..4u64 } else { 1..3 } {
        // Ascending, descending and random. The two shortest together are more than full nodes with 14 pairs
        // hold in three levels, or nodes with 30 pairs in two.
        let number = |n: u64| match part {
            0 => 1_000_000 + n,
            1 => 1_000_000 - n,
            _ => simt::hash::mix64(part << 32 | n) >> 33,
        };
        let (keys, values) = kind.columns((0..2000).map(|n| (number(n), n)));
        assert!(tree.insert(&keys, &values).unwrap().all_placed());
    }
    // The fill of nodes with 30 pairs depends on the schedule.
    let least = if kind.name.contains("_256_8x4_") { 3 } else { 4 };
    assert!(tree.depth().unwrap() >= least, "{}: {} levels", kind.name, tree.depth().unwrap());
    contents(&tree);
}

pub fn what_is_no_range_is_refused<M: ByOrder>(kind: &Kind<M>) {
    let mut tree = kind.map(1);
    let (low, high) = (M::Key::from_u64(3), M::Key::from_u64(5));
    let swapped = tree.range(&[high..low]);
    assert!(matches!(swapped, Err(Error::Range { low, high }) if low == "5" && high == "3"), "{}", kind.name);
    assert!(matches!(tree.count(&[high..=low]), Err(Error::Range { .. })), "{}", kind.name);
    assert_eq!(tree.range(&[low..low]).unwrap(), [[]], "{}", kind.name);
    let (keys, values) = kind.columns([(1, 1), (3, 3), (2, 2)]);
    for fill in [0.0, -1.0, 1.01, f64::NAN] {
        assert!(matches!(tree.bulk_build(&keys, &values, fill), Err(Error::Fill(_))), "{}", kind.name);
    }
    assert!(matches!(tree.bulk_build(&keys, &values[..2], 0.5), Err(Error::Length { .. })), "{}", kind.name);
    assert!(tree.insert(&keys, &values).unwrap().all_placed());
    let (unsorted, same) = (kind.device.from_slice(&keys).unwrap(), kind.device.from_slice(&values).unwrap());
    let refused = tree.bulk_build_sorted(&unsorted, &same, 0.5);
    assert!(matches!(refused, Err(Error::Unsorted { many: 1 })), "{}: {refused:?}", kind.name);
    assert_eq!(contents(&tree).len(), 3, "{}", kind.name);
}
