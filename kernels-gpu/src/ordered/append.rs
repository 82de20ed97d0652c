//! Appends sorted pairs, all above the keys of a tree, without reading the rest of the tree.
//!
//! The nodes for the new pairs are built level by level, as a bulk build does, and linked behind the last
//! node of each level: the *spine*. The lowest spine node with room for all nodes of the level below takes
//! them as children. Only spine nodes change:
//!
//! ```text
//! level 2          | root  A  B .. |                        has room: C' and D' become its children
//!                      /    \      \   \
//! level 1          | A ..| -> | B ..| -> | C' | -> | D' |   B: high key and link change
//!                               /  \        /  \     /
//! leaves              .. | a | -> | b | -> c' -> d' -> e'   b: high key and link change
//!                              spine: b, B, root
//! ```
//!
//! If the root lacks room, its entries move to a new node of its level, and it becomes the parent of that
//! node and of the new ones: the tree is one level higher.
//!
//! The steps, each a launch, while nothing else runs: [`super::kernels::find_spine`] lists the spine,
//! [`super::kernels::claim_nodes`] allocates all slabs, [`super::kernels::append_pairs`] writes all nodes, or
//! frees the slabs if some are missing. So a tree that lacks memory is unchanged.
//!
//! *The result is a tree.* Let `k` be the lowest new key, and let every bound in the spine (low keys, and the
//! keys of last entries) be below `k`. Each spine node below the one that takes the children covered the keys
//! up to the largest one; now it covers those up to `k - 1`, which is not below its low key, and all its
//! entries and pairs are below `k`. The new nodes of its level cover the keys from `k` on without gaps, as
//! those of a bulk build. The entries that the last changed node gets are above its other entries, and their
//! nodes cover the keys from `k` on, which its last child covered before.
use super::bulk_build::Level;
use super::fixed_nodes::{RESERVED_LEAF, ROOT, largest};
use super::meta::{Meta, entry, handle_of};
use super::node::Node;
use super::nodes::Nodes;
use super::types::{Stored, Types, WordOf};
use crate::keyed::{Scalar, Slot};
use crate::mvbtree::version::Version;
use crate::slab::{Handle, Pool};
use simt::{GlobalSlice, Order, Scope, Thread, Tile, device};

/// Number of levels of the highest tree to which pairs are appended.
pub const SPINE_LEVELS: usize = 16;

/// Number of words of a spine: the root's level (all ones if the tree has too many levels or a level could
/// not be followed to its end), the highest bound in the spine, and for each level from the leaves up a
/// handle and, in the high half, the number of entries.
pub const SPINE_WORDS: usize = 2 + SPINE_LEVELS;

/// Number of links that are followed to the end of a level. Only a skip list needs more than a few.
const MOST_LINKS: u32 = 256;

/// Dimensions of an append.
///
/// ```
/// use phalanx_kernels::ordered::AppendPlan;
///
/// // 100 pairs, ten in a node, to a tree with a root at level 1 that has three children.
/// let plan = AppendPlan::new(100, 10, 14, 1, |_| 3).unwrap();
/// assert_eq!((plan.nodes, plan.parent, plan.raises, plan.tiles()), (10, 1, 0, 13));
/// // The root has no room for them.
/// let plan = AppendPlan::new(100, 10, 14, 1, |_| 5).unwrap();
/// assert_eq!((plan.nodes, plan.parent, plan.raises), (12, 2, 1));
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendPlan {
    /// Number of new pairs, without that of the largest key.
    pub count: u64,
    /// Number of pairs or children of a new node.
    pub fill: u32,
    /// Level of the node that takes the uppermost new nodes as children.
    pub parent: u32,
    /// 1 if that is the root, one level higher than before.
    pub raises: u32,
    /// Number of slabs to allocate.
    pub nodes: u64,
}

impl AppendPlan {
    /// Returns the dimensions for `count` pairs, at least 1, in nodes of `slots` slots. The root is at level
    /// `root`, and the spine node of level `l` has `used(l)` entries. Returns `None` if the tree would grow
    /// by more than a level.
    pub fn new(count: u64, fill: u32, slots: u32, root: u32, used: impl Fn(u32) -> u32) -> Option<Self> {
        let mut level = Level { first: 0, ..Level::leaves(count, fill) };
        loop {
            let (parent, nodes) = (level.level + 1, level.first + level.nodes);
            if parent > root {
                let fits = level.nodes < u64::from(slots);
                return fits.then_some(Self { count, fill, parent, raises: 1, nodes: nodes + 1 });
            }
            if level.nodes + u64::from(used(parent)) <= u64::from(slots) {
                return Some(Self { count, fill, parent, raises: 0, nodes });
            }
            level = level.above(fill);
        }
    }

    /// Returns the number of tiles of [`super::kernels::append_pairs`]: one for each new node, for each
    /// level, and for the other state of the tree.
    pub fn tiles(&self) -> u64 {
        self.nodes + self.parent as u64 + 2
    }
}

/// Input of an append.
pub struct Append<S: Slot> {
    /// Sorted distinct keys, all above those of the tree. If there is the largest key of all, it follows the
    /// `count` keys of the plan.
    pub keys: GlobalSlice<S::Key>,
    /// Their values.
    pub values: GlobalSlice<S::Value>,
    /// Handles of the new nodes, level by level from the leaves up; last, that of the root's old entries.
    pub handles: GlobalSlice<u32>,
    /// The spine of the tree.
    pub spine: GlobalSlice<u64>,
    /// Number of slabs that are missing.
    pub missing: GlobalSlice<u64>,
    /// Dimensions.
    pub plan: AppendPlan,
}

impl<S: Slot> Clone for Append<S> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Slot> Copy for Append<S> {}

#[device(caller)]
impl<S: Slot> Append<S> {
    fn leaves(&self) -> Level {
        let AppendPlan { count, fill, .. } = self.plan;
        Level { level: 0, nodes: count.div_ceil(fill as u64), span: fill as u64, first: 0 }
    }

    /// Returns the level below the parent.
    fn uppermost(&self) -> Level {
        let mut level = self.leaves();
        while level.level + 1 < self.plan.parent {
            level = level.above(self.plan.fill);
        }
        level
    }

    /// Returns the handle of a new node.
    fn handle(&self, number: u64) -> Handle {
        Handle::from_word(self.handles.read(number as usize))
    }

    /// Returns the lowest key of a node of a level.
    fn low(&self, level: Level, index: u64) -> S::Stored {
        S::Stored::from_u64(self.keys.read((index * level.span) as usize).to_u64())
    }

    /// Returns the entry of a new node for its parent.
    fn entry(&self, level: Level, index: u64) -> S::Word {
        entry::<S>(self.low(level, index), self.handle(level.first + index))
    }

    /// Returns the pair at an index, for a leaf.
    fn pair(&self, index: u64) -> S::Word {
        let key = S::Stored::from_u64(self.keys.read(index as usize).to_u64());
        S::pack(key, self.values.read(index as usize))
    }

    /// Returns the last key below all new ones.
    fn before(&self) -> S::Stored {
        S::Stored::from_u64(self.keys.read(0).to_u64().wrapping_sub(1))
    }

    /// Returns the word at `position` of a node of `level`, above `below`, that is a slot.
    fn slot(&self, (level, below): (Level, Level), index: u64, position: u32) -> S::Word {
        let child = index * self.plan.fill as u64 + position as u64;
        let many = if level.level == 0 { self.plan.count } else { below.nodes };
        if position >= self.plan.fill || child >= many {
            S::EMPTY
        } else if level.level == 0 {
            self.pair(child)
        } else {
            self.entry(below, child)
        }
    }

    /// Returns high key and link of a new node.
    fn tail(&self, level: Level, index: u64) -> S::Word {
        if index + 1 == level.nodes {
            let last = if level.level == 0 { RESERVED_LEAF } else { Handle::NONE };
            return entry::<S>(largest::<S>(), last);
        }
        let above = self.low(level, index + 1).to_u64();
        entry::<S>(S::Stored::from_u64(above.wrapping_sub(1)), self.handle(level.first + index + 1))
    }
}

#[device(caller)]
impl<T: Types, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Writes the spine: see [`SPINE_WORDS`]. The lanes of a warp call it together; each tile does the same.
    pub(crate) fn find_spine(self, spine: GlobalSlice<u64>) {
        let tile = Tile::<W>::lockstep();
        let is_first = Thread::index() == 0;
        let (mut at, mut links, mut bound, mut root) = (ROOT, 0, 0, u64::MAX);
        loop {
            let read = self.node(at).read(tile.rank(), true, Order::Relaxed);
            let ((low, meta), (high, link)) = (read.header(tile), read.tail(tile));
            if high != largest::<T::Slot>() && !link.is_none() && links < MOST_LINKS {
                (at, links) = (link, links + 1);
                continue;
            }
            let used = read.count(tile, |word| !T::Slot::is_empty(word));
            let level = meta.level() as usize;
            root = if at == ROOT { level as u64 } else { root };
            let is_usable = high == largest::<T::Slot>() && level < SPINE_LEVELS && (level == 0 || used > 0);
            if !is_usable {
                root = u64::MAX;
            }
            bound = bound.max(low.to_u64());
            if is_first && is_usable {
                spine.write(2 + level, at.to_word() as u64 | (used as u64) << 32);
            }
            if !is_usable || level == 0 {
                break;
            }
            let last = self.node(at).word(used - 1).load(Order::Relaxed, Scope::Device);
            bound = bound.max(T::Slot::key(last).to_u64());
            (at, links) = (handle_of(T::Slot::value(last)), 0);
        }
        if is_first {
            spine.write(0, root);
            spine.write(1, bound);
        }
    }

    /// Executes share `number` of an append, by the lanes of a tile: writes a new node, or the end of a spine
    /// node, or the parent, or the rest. If slabs are missing, it frees the share's slab instead.
    pub(crate) fn append(self, number: u64, input: Append<T::Slot>) {
        let plan = input.plan;
        let is_plan = plan.fill >= 2 && plan.count > 0 && plan.nodes > plan.raises as u64 && plan.raises <= 1;
        if !is_plan || plan.parent == 0 || plan.parent as usize > SPINE_LEVELS {
            simt::trap();
        }
        let (rank, built) = (Thread::index() as u32 % W, plan.nodes - plan.raises as u64);
        if input.missing.read(0) != 0 {
            if number < plan.nodes && rank == 0 && !input.handle(number).is_none() {
                self.pool.free(input.handle(number));
            }
        } else if number < built {
            self.write_appended(number, input);
        } else if number < built + (plan.parent - plan.raises) as u64 {
            self.end_spine_node((number - built) as u32, input);
        } else if number == plan.nodes + plan.parent as u64 {
            match plan.raises {
                0 => self.extend_parent(input),
                _ => self.raise_root(input),
            }
        } else if number == plan.nodes + plan.parent as u64 + 1 {
            self.finish_append(input);
        }
    }

    /// Returns the node of a handle from the input. Ends the launch if the pool has no such slab.
    fn checked(self, handle: Handle) -> Node<T::Slot, W, L> {
        if self.pool.number(handle).is_none() {
            simt::trap();
        }
        self.node(handle)
    }

    /// Returns the spine node of a level, and its number of entries.
    fn spine_node(self, spine: GlobalSlice<u64>, level: u32) -> (Node<T::Slot, W, L>, u32) {
        let word = spine.read(2 + level as usize);
        (self.checked(Handle::from_word(word as u32)), (word >> 32) as u32)
    }

    /// Writes a new node.
    fn write_appended(self, number: u64, input: Append<T::Slot>) {
        let mut level = input.leaves();
        let mut below = level;
        while number >= level.first + level.nodes {
            below = level;
            level = level.above(input.plan.fill);
        }
        let index = number - level.first;
        self.checked(input.handle(number)).write(Thread::index() as u32 % W, |position| {
            if position < Node::<T::Slot, W, L>::SLOTS {
                input.slot((level, below), index, position)
            } else if position == Node::<T::Slot, W, L>::HEADER {
                let low = input.low(level, index);
                Node::<T::Slot, W, L>::header_word(low, Meta::free(level.level))
            } else if position < Node::<T::Slot, W, L>::TAIL {
                Version::FIRST.word::<T::Slot>()
            } else {
                input.tail(level, index)
            }
        });
    }

    /// Ends the last node of a level before the new keys, and links it to the level's new nodes.
    fn end_spine_node(self, level: u32, input: Append<T::Slot>) {
        let mut new = input.leaves();
        while new.level < level {
            new = new.above(input.plan.fill);
        }
        let rank = Thread::index() as u32 % W;
        if rank == 0 {
            let (node, _) = self.spine_node(input.spine, level);
            let tail = entry::<T::Slot>(input.before(), input.handle(new.first));
            node.tail().store(tail, Order::Relaxed, Scope::Device);
        }
    }

    /// Adds the uppermost new nodes to the entries of the spine node above them.
    fn extend_parent(self, input: Append<T::Slot>) {
        let (new, mut index) = (input.uppermost(), (Thread::index() as u32 % W) as u64);
        let (node, used) = self.spine_node(input.spine, input.plan.parent);
        while index < new.nodes {
            let place = node.word(used + index as u32);
            place.store(input.entry(new, index), Order::Relaxed, Scope::Device);
            index += W as u64;
        }
    }

    /// Moves the root's entries to a new node before the new ones of its level, and makes the root their
    /// parent.
    fn raise_root(self, input: Append<T::Slot>) {
        let (new, rank) = (input.uppermost(), Thread::index() as u32 % W);
        let left = input.handle(input.plan.nodes - 1);
        let (root, zero) = (self.node(ROOT), Stored::<T>::from_u64(0));
        let words = |position: u32| -> WordOf<T> { root.word(position).load(Order::Relaxed, Scope::Device) };
        self.checked(left).write(rank, |position| {
            if position == Node::<T::Slot, W, L>::TAIL {
                entry::<T::Slot>(input.before(), input.handle(new.first))
            } else {
                words(position)
            }
        });
        // Each lane has read what it overwrites now.
        root.write(rank, |position| {
            if position == 0 {
                entry::<T::Slot>(zero, left)
            } else if position < Node::<T::Slot, W, L>::SLOTS && position as u64 <= new.nodes {
                input.entry(new, position as u64 - 1)
            } else if position < Node::<T::Slot, W, L>::SLOTS {
                T::Slot::EMPTY
            } else if position == Node::<T::Slot, W, L>::HEADER {
                Node::<T::Slot, W, L>::header_word(zero, Meta::free(input.plan.parent))
            } else if position < Node::<T::Slot, W, L>::TAIL {
                Version::FIRST.word::<T::Slot>()
            } else {
                entry::<T::Slot>(largest::<T::Slot>(), Handle::NONE)
            }
        });
    }

    /// Writes the pair of the largest key, counts the pairs, and empties the directory.
    fn finish_append(self, input: Append<T::Slot>) {
        let rank = Thread::index() as u32 % W;
        if rank != 0 {
            return;
        }
        let (count, zero) = (input.plan.count as usize, Stored::<T>::from_u64(0));
        if count < input.keys.len() {
            let place = self.node(RESERVED_LEAF).word(0);
            let pair = T::Slot::pack(zero, input.values.read(count));
            place.store(pair, Order::Relaxed, Scope::Device);
        }
        self.counters.add_pairs(input.keys.len() as u64);
        self.directory.invalidate();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_have_a_parent_with_room() {
        for count in [1, 9, 10, 11, 140, 141, 5000] {
            for root in 1..5 {
                for used in 1..=14 {
                    let Some(plan) = AppendPlan::new(count, 10, 14, root, |_| used) else {
                        assert!(count > 100, "{count} pairs fit");
                        continue;
                    };
                    let mut level = Level { first: 0, ..Level::leaves(count, 10) };
                    while level.level + 1 < plan.parent {
                        level = level.above(10);
                    }
                    let used = if plan.raises == 1 { 1 } else { u64::from(used) };
                    assert!(level.nodes + used <= 14 && plan.parent <= root + plan.raises);
                    assert_eq!(plan.nodes, level.first + level.nodes + u64::from(plan.raises));
                }
            }
        }
    }
}
