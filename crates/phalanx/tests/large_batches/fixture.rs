//! Maps that may rebuild themselves, and keys in several orders.
use crate::kinds::{Kind, Tested, contents};
use checker::MapValue;
use phalanx::btree::{Growth, LargeBatches};
use phalanx::map::Word;
use phalanx::slab_alloc::Stats;
use phalanx::{BTree, MultiVersionBTree, SkipList};
use phalanx_kernels::keyed::Scalar;
use std::collections::BTreeMap;

/// Length of a batch in any order that rebuilds an empty map.
pub const LEN: u64 = 1 << 14;

/// Length of a batch that rebuilds a map if it is crowded.
pub const CROWD: u64 = 1 << 11;

/// An ordered map.
pub trait Ordered: Tested {
    /// Creates a map with a policy for large batches and for a pool without free nodes, which has `nodes`
    /// nodes.
    fn with(kind: &Kind<Self>, large: LargeBatches, growth: Growth, nodes: usize) -> Self;

    fn stats(&self) -> Stats;
}

macro_rules! ordered {
    ($($of:ident)*) => {$(
        impl<K: Word, V: Word + MapValue> Ordered for $of<K, V> {
            fn with(kind: &Kind<Self>, large: LargeBatches, growth: Growth, nodes: usize) -> Self {
                kind.builder().large_batches(large).growth(growth).nodes(nodes).build().unwrap()
            }

            fn stats(&self) -> Stats {
                Self::stats(self).unwrap()
            }
        }
    )*};
}
ordered!(BTree SkipList MultiVersionBTree);

/// Creates an empty map with a policy for large batches.
pub fn new_map<M: Ordered>(kind: &Kind<M>, large: LargeBatches) -> M {
    M::with(kind, large, Growth::Pool, 1)
}

/// Returns whether the nodes are as many as those of a map that was just built of its pairs, 0.7 full.
/// Operations on single pairs leave another number of nodes.
pub fn is_rebuilt<M: Ordered>(map: &M) -> bool {
    let pairs = contents(map);
    let fill = if map.name().starts_with("mvtree") { 9 } else { 10 };
    let nodes = |pairs: usize| phalanx_kernels::ordered::nodes(pairs as u64, fill) as usize;
    // The largest key may have a leaf of its own.
    let has_largest = pairs.contains_key(&M::Key::from_u64(u64::MAX));
    let live = map.stats().live;
    live == nodes(pairs.len()) || (has_largest && live == nodes(pairs.len() - 1))
}

/// Whether a call is seen not to rebuild its map; `rebuilds` makes the call on a new map each time, and
/// returns whether the map [looks rebuilt](is_rebuilt). Operations on single pairs may happen to leave as
/// many nodes as a rebuild, but not each time.
pub fn stays(mut rebuilds: impl FnMut() -> bool) -> bool {
    (0..6).any(|_| !rebuilds())
}

/// Number of a key or value.
pub type Number = fn(u64) -> u64;

/// Returns different numbers below 2^31 in random order.
pub fn random(n: u64) -> u64 {
    (n * 0x9e37_79b1) & 0x7fff_ffff
}

/// Contents of a map, by `std`'s.
pub type Model<M> = BTreeMap<<M as phalanx::Map>::Key, <M as phalanx::Map>::Value>;

/// Creates a map with a policy that has at most `many` pairs, whose keys are multiples of 3, and its model.
pub fn filled<M: Ordered>(kind: &Kind<M>, large: LargeBatches, many: u64) -> (M, Model<M>) {
    let pair = |n| (random(n) % many * 3, random(n) % many + (1 << 30));
    let (map, (keys, values)) = (new_map(kind, large), kind.columns((0..many).map(pair)));
    for (keys, values) in keys.chunks(1000).zip(values.chunks(1000)) {
        assert!(map.insert(keys, values).unwrap().all_placed(), "{}", kind.name);
    }
    let model = contents(&map);
    (map, model)
}
