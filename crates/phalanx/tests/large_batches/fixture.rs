//! Maps that may rebuild themselves, and keys in several orders.
use crate::kinds::{Kind, Tested, contents};
use checker::MapValue;
use phalanx::btree::{Growth, LargeBatches};
use phalanx::map::Word;
use phalanx::slab_alloc::Stats;
use phalanx::{BTree, MultiVersionBTree, SkipList};
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

    /// Returns the number of batches that rebuilt the map.
    fn rebuilds(&self) -> u64;
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

            fn rebuilds(&self) -> u64 {
                Self::rebuilds(self)
            }
        }
    )*};
}
ordered!(BTree SkipList MultiVersionBTree);

/// Creates an empty map with a policy for large batches.
pub fn new_map<M: Ordered>(kind: &Kind<M>, large: LargeBatches) -> M {
    M::with(kind, large, Growth::Pool, 1)
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
