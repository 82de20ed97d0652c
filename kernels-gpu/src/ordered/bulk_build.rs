//! Builds trees from sorted pairs, level by level: every node is computed on its own, from the input alone.
use super::fixed_nodes::{EMPTY_TREE_NODES, FIRST_LEAF, RESERVED_LEAF, ROOT, largest};
use super::meta::{Meta, entry};
use super::node::Node;
use super::nodes::Nodes;
use super::types::{Stored, Types, WordOf};
use crate::keyed::{Scalar, Slot};
use crate::mvbtree::version::Version;
use crate::slab::{Handle, Pool};
use simt::{GlobalSlice, Thread, device};

/// A level of the tree: its number of nodes, the number of input pairs below each, and the number of its
/// first node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Level, counted from the leaves up.
    pub level: u32,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of input pairs below a node of this level.
    pub span: u64,
    /// Slab of its first node. The root's level has none: its one node is the root.
    pub first: u64,
}

#[device]
impl Level {
    /// Returns the leaves of a tree of `count` pairs, `fill` in each.
    pub fn leaves(count: u64, fill: u32) -> Self {
        let nodes = count.div_ceil(fill as u64);
        let nodes = if nodes == 0 { 1 } else { nodes };
        Self { level: 0, nodes, span: fill as u64, first: FIRST_LEAF.to_word() as u64 }
    }

    /// Returns the level above, with `fill` children per node.
    pub fn above(self, fill: u32) -> Self {
        Self {
            level: self.level + 1,
            nodes: self.nodes.div_ceil(fill as u64),
            span: self.span * fill as u64,
            first: self.first + self.nodes,
        }
    }

    /// Whether it is the root's.
    pub fn is_root(self) -> bool {
        self.level > 0 && self.nodes == 1
    }

    /// Returns the level of node number `number` and the level below it. For [`ROOT`], and beyond the last
    /// node, the level is the root's; below the leaves it is the leaves again.
    fn of(number: u64, leaves: Self, fill: u32) -> (Self, Self) {
        let mut below = leaves;
        let mut at = below;
        while !at.is_root() && (number < at.first || number >= at.first + at.nodes) {
            below = at;
            at = at.above(fill);
        }
        (at, below)
    }
}

/// Returns the number of slabs of a tree that is built of `count` pairs, with `fill` of them in a node: from
/// 2 to its slots.
pub fn nodes(count: u64, fill: u32) -> u64 {
    let mut level = Level::leaves(count, fill);
    while !level.is_root() {
        level = level.above(fill);
    }
    // The root, the reserved leaf, and all between.
    level.first - FIRST_LEAF.to_word() as u64 + EMPTY_TREE_NODES as u64 - 1
}

/// Input of a bulk build.
#[derive(Debug)]
pub struct Input<S: Slot> {
    /// Sorted keys, all distinct.
    pub keys: GlobalSlice<S::Key>,
    /// Their values.
    pub values: GlobalSlice<S::Value>,
    /// Number of pairs, without the one whose key looks like an empty slot; if there is one, it follows them.
    pub count: u64,
    /// Number of pairs in a node.
    pub fill: u32,
    /// Number of leaves: that of [`Level::leaves`] for `count` pairs. Stored, so that not every thread
    /// divides.
    pub leaves: u64,
}

impl<S: Slot> Clone for Input<S> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Slot> Copy for Input<S> {}

impl<S: Slot> Input<S> {
    /// Creates the input from sorted keys and their values.
    pub fn new(keys: GlobalSlice<S::Key>, values: GlobalSlice<S::Value>, count: u64, fill: u32) -> Self {
        Self { keys, values, count, fill, leaves: Level::leaves(count, fill).nodes }
    }

    /// Ends the launch if levels would not become smaller towards the root.
    #[device(caller)]
    fn check(&self) {
        if self.fill < 2 || self.leaves == 0 {
            simt::trap();
        }
    }

    #[device]
    fn level_of_leaves(&self) -> Level {
        Level { level: 0, nodes: self.leaves, span: self.fill as u64, first: FIRST_LEAF.to_word() as u64 }
    }

    #[device(caller)]
    fn key(&self, index: u64) -> S::Stored {
        S::Stored::from_u64(self.keys.read(index as usize).to_u64())
    }

    /// Returns the lowest key of node `index` of a level.
    #[device(caller)]
    fn low(&self, level: Level, index: u64) -> S::Stored {
        if index == 0 { S::Stored::from_u64(0) } else { self.key(index * level.span) }
    }
}

/// The node that a tile builds.
struct Plan<S: Slot> {
    input: Input<S>,
    at: Level,
    below: Level,
    /// The node's index in its level.
    index: u64,
}

#[device(caller)]
impl<S: Slot> Plan<S> {
    /// Returns the pair at position `place`, or an empty one.
    fn pair(&self, place: u32) -> S::Word {
        let index = self.index * self.input.fill as u64 + place as u64;
        let exists = place < self.input.fill;
        if self.at.level == 0 {
            let pairs = exists && index < self.input.count;
            return if pairs { self.input_pair(index) } else { S::EMPTY };
        }
        if !exists || index >= self.below.nodes {
            return S::EMPTY;
        }
        let child = Handle::from_word((self.below.first + index) as u32);
        entry::<S>(self.input.low(self.below, index), child)
    }

    fn input_pair(&self, index: u64) -> S::Word {
        S::pack(self.input.key(index), self.input.values.read(index as usize))
    }

    /// Returns the high key and the number of the next node.
    fn tail(&self) -> (S::Stored, Option<u64>) {
        let next = self.index + 1;
        if next >= self.at.nodes {
            return (largest::<S>(), None);
        }
        let above = self.input.low(self.at, next).to_u64();
        (S::Stored::from_u64(above.wrapping_sub(1)), Some(self.at.first + next))
    }
}

#[device(caller)]
impl<T: Types, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Builds the node in slab number `number` of the pool, by the lanes of a tile. Requires exclusive access
    /// to the tree. Ends the launch if the pool lacks slabs for the levels up to that node's, or if `input`
    /// has no levels.
    pub(crate) fn build(self, number: u64, input: Input<T::Slot>) {
        input.check();
        let (at, below) = Level::of(number, input.level_of_leaves(), input.fill);
        let rank = Thread::index() as u32 % W;
        let is_root = number == ROOT.to_word() as u64;
        if number == RESERVED_LEAF.to_word() as u64 {
            return self.build_reserved_leaf(input);
        }
        if at.is_root() && !is_root {
            return;
        }
        let end = if is_root { at.first } else { at.first + at.nodes };
        if end > self.pool.units() as u64 {
            simt::trap();
        }
        let index = if is_root { 0 } else { number - at.first };
        let plan = Plan { input, at, below, index };
        let handle = |number: u64| self.pool.handle(number as u32);
        self.node(handle(number)).write(rank, |position| {
            if position < Node::<T::Slot, W, L>::SLOTS {
                plan.translated(position, handle)
            } else if position == Node::<T::Slot, W, L>::HEADER {
                Node::<T::Slot, W, L>::header_word(plan.input.low(at, index), Meta::free(at.level))
            } else if position < Node::<T::Slot, W, L>::TAIL {
                Version::FIRST.word::<T::Slot>()
            } else {
                let last = if at.level == 0 { RESERVED_LEAF } else { Handle::NONE };
                let (high, next) = plan.tail();
                entry::<T::Slot>(high, next.map_or(last, handle))
            }
        });
    }

    /// Initializes thread `index`'s share of the state of a tree of `nodes` nodes other than the nodes: marks
    /// the live slabs, sets the counters to `pairs`, and empties the directory.
    pub(crate) fn begin(self, index: u64, nodes: u64, pairs: u64) {
        self.pool.bitmaps().reset(index, nodes);
        self.counters.reset(index as usize, pairs);
        if index == 0 {
            self.directory.invalidate();
        }
    }

    /// Builds node `number` of an empty tree, by the lanes of a tile. Requires exclusive access to the tree.
    /// Ends the launch if there is no such node.
    pub(crate) fn build_empty(self, number: u32) {
        if number as usize >= self.pool.units().min(EMPTY_TREE_NODES) {
            simt::trap();
        }
        let node = self.pool.handle(number);
        let zero = Stored::<T>::from_u64(0);
        if node == ROOT {
            self.write_single(node, 1, Handle::NONE, entry::<T::Slot>(zero, FIRST_LEAF));
        } else {
            let next = if node == FIRST_LEAF { RESERVED_LEAF } else { Handle::NONE };
            self.write_single(node, 0, next, T::Slot::EMPTY);
        }
    }

    /// Builds the leaf of the key that looks like an empty slot.
    fn build_reserved_leaf(self, input: Input<T::Slot>) {
        let (index, zero) = (input.count as usize, Stored::<T>::from_u64(0));
        let has_pair = index < input.keys.len();
        let pair = if has_pair { T::Slot::pack(zero, input.values.read(index)) } else { T::Slot::EMPTY };
        self.write_single(RESERVED_LEAF, 0, Handle::NONE, pair);
    }

    /// Writes a node for all keys of a level whose slots but the first are empty, by the lanes of a tile.
    fn write_single(self, node: Handle, level: u32, next: Handle, first: WordOf<T>) {
        self.node(node).write(Thread::index() as u32 % W, |position| {
            if position == 0 {
                first
            } else if position == Node::<T::Slot, W, L>::HEADER {
                Node::<T::Slot, W, L>::header_word(Stored::<T>::from_u64(0), Meta::free(level))
            } else if position == Node::<T::Slot, W, L>::TAIL {
                entry::<T::Slot>(largest::<T::Slot>(), next)
            } else if position > Node::<T::Slot, W, L>::HEADER {
                Version::FIRST.word::<T::Slot>()
            } else {
                T::Slot::EMPTY
            }
        });
    }
}

impl<S: Slot> Plan<S> {
    /// Returns [`Self::pair`] with the child's number translated to its handle.
    #[device(caller)]
    fn translated(&self, place: u32, handle: impl Fn(u64) -> Handle) -> S::Word {
        let word = self.pair(place);
        if self.at.level == 0 || S::key(word) == S::key(S::EMPTY) {
            return word;
        }
        entry::<S>(S::key(word), handle(S::value(word).to_u64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slab_is_a_node_of_one_level() {
        for fill in [2, 3, 7, 14] {
            for count in [0, 1, 2, 7, 14, 15, 100, 196, 197, 5000] {
                let total = nodes(count, fill);
                let leaves = count.div_ceil(u64::from(fill)).max(1);
                assert!(total >= leaves + 2, "{count} pairs, {fill} a node");
                let mut seen = std::collections::BTreeMap::new();
                for number in 2..total {
                    let (at, below) = Level::of(number, Level::leaves(count, fill), fill);
                    assert!(!at.is_root() && number < at.first + at.nodes, "{at:?}");
                    assert!(at.level == 0 || below.above(fill) == at);
                    *seen.entry(at.level).or_insert(0) += 1;
                }
                assert_eq!(seen[&0], leaves);
                assert!(
                    Level::of(total, Level::leaves(count, fill), fill).0.is_root(),
                    "nothing behind the last"
                );
            }
        }
    }
}
