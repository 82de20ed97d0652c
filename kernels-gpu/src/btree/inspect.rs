//! Checks the invariants of a tree node by node, while nothing else runs.
use super::super::slab::{Handle, Pool};
use super::access::Access;
use super::history::{Version, Versions};
use super::node::{Meta, Node, handle_of};
use super::tree::{RESERVED_LEAF, ROOT, Tree, TreeView, largest};
use crate::keyed::{Scalar, Slot};
use simt::{Order, Scope, device};

/// Findings of the examination of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// 1 if a node was examined.
    pub nodes: u32,
    /// Number of its children.
    pub children: u32,
    /// 1 if it is latched.
    pub latched: u32,
    /// Number of pairs out of order or out of the node's bounds, and of duplicate keys.
    pub misplaced: u32,
    /// Number of children that are not live nodes of the level below, or do not cover exactly the keys
    /// between their entry and the next.
    pub children_wrong: u32,
    /// 1 if its link does not lead to the next node of its level.
    pub link_wrong: u32,
    /// 1 if it is an old version of a leaf, and no node.
    pub versions: u32,
    /// 1 if it is a leaf that was never stamped.
    pub undated: u32,
    /// Number of the user's pairs.
    pub pairs: u32,
    /// For the root, the number of levels of the tree.
    pub depth: u32,
    /// 1 if it is above the leaves.
    pub inner: u32,
}

/// Header and tail of a node, as one lane reads them.
#[derive(Clone, Copy)]
pub(crate) struct Ends<K> {
    pub(crate) low: K,
    pub(crate) meta: Meta,
    pub(crate) high: K,
    pub(crate) link: Handle,
}

#[device(caller)]
impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> TreeView<Tree<S, P, A, W, L>> {
    /// Examines the node in slab number `number`, if that is live, by the calling lane alone. Requires
    /// exclusive access to the tree.
    pub(crate) fn examine(self, number: u32) -> Findings {
        let mut found = Findings::default();
        if number as usize >= self.pool().units() || !self.pool().bitmaps().is_live(number) {
            return found;
        }
        let handle = self.pool().handle(number);
        let (node, ends) = (self.node(handle), self.ends(handle));
        if ends.meta.is_old() {
            found.versions = 1;
            return found;
        }
        found.nodes = 1;
        found.inner = !ends.meta.is_leaf() as u32;
        found.latched = ends.meta.is_latched() as u32;
        found.link_wrong = !self.is_next(handle, ends) as u32;
        if ends.meta.is_leaf() {
            found.undated = (A::Versions::VERSIONED && self.is_undated(node)) as u32;
            Self::examine_leaf(node, ends, &mut found);
        } else {
            self.examine_inner(node, ends, &mut found);
        }
        if handle == ROOT {
            found.depth = ends.meta.level() + 1;
            found.misplaced += (ends.high != largest::<S>() || ends.low.to_u64() != 0) as u32;
        }
        found
    }

    pub(crate) fn ends(self, handle: Handle) -> Ends<S::Stored> {
        let node = self.node(handle);
        let (header, tail) = (
            node.header().load(Order::Relaxed, Scope::Device),
            node.tail().load(Order::Relaxed, Scope::Device),
        );
        let meta = Meta::read(S::value(header));
        Ends { low: S::key(header), meta, high: S::key(tail), link: handle_of(S::value(tail)) }
    }

    /// Whether a leaf is unstamped.
    fn is_undated(self, node: Node<S, W, L>) -> bool {
        Version::of::<S>(node.version().load(Order::Relaxed, Scope::Device)).stamp().is_none()
    }

    /// Whether a handle names a live slab.
    pub(crate) fn is_live(self, handle: Handle) -> bool {
        !handle.is_none() && self.pool().is_live(handle)
    }

    /// Whether the link leads to the next node of the level, or nowhere at its end.
    fn is_next(self, handle: Handle, ends: Ends<S::Stored>) -> bool {
        if ends.high == largest::<S>() {
            let is_last_leaf = ends.meta.is_leaf() && handle != RESERVED_LEAF;
            return ends.link == if is_last_leaf { RESERVED_LEAF } else { Handle::NONE };
        }
        if !self.is_live(ends.link) {
            return false;
        }
        let next = self.ends(ends.link);
        next.meta.level() == ends.meta.level() && next.low.to_u64() == ends.high.to_u64() + 1
    }

    /// Examines the keys of a leaf. Those above its high key are left over from splits and do not count.
    pub(crate) fn examine_leaf(node: Node<S, W, L>, ends: Ends<S::Stored>, found: &mut Findings) {
        let mut position = 0;
        while position < Node::<S, W, L>::SLOTS {
            let key = S::key(node.word(position).load(Order::Relaxed, Scope::Device));
            if key <= ends.high {
                found.pairs += 1;
                found.misplaced += (key < ends.low) as u32;
                let mut other = 0;
                while other < position {
                    let twin = S::key(node.word(other).load(Order::Relaxed, Scope::Device));
                    found.misplaced += (twin == key) as u32;
                    other += 1;
                }
            }
            position += 1;
        }
    }

    /// Examines the entries of an inner node: they are sorted, the first one is at its low key, and each
    /// child covers the keys up to the next entry.
    fn examine_inner(self, node: Node<S, W, L>, ends: Ends<S::Stored>, found: &mut Findings) {
        let entry = |position: u32| {
            let is_slot = position < Node::<S, W, L>::SLOTS;
            let word =
                if is_slot { node.word(position).load(Order::Relaxed, Scope::Device) } else { S::EMPTY };
            (S::key(word), handle_of(S::value(word)))
        };
        let empty = S::key(S::EMPTY);
        found.misplaced += (entry(0).0 != ends.low) as u32;
        let mut position = 0;
        while position < Node::<S, W, L>::SLOTS {
            let ((low, child), (next, _)) = (entry(position), entry(position + 1));
            if low == empty {
                found.misplaced += (next != empty) as u32;
            } else {
                found.children += 1;
                found.misplaced += (next <= low || low > ends.high) as u32;
                let high = if next == empty { ends.high.to_u64() } else { next.to_u64().wrapping_sub(1) };
                found.children_wrong += !self.is_child(child, ends.meta.level(), low, high) as u32;
            }
            position += 1;
        }
    }

    fn is_child(self, child: Handle, level: u32, low: S::Stored, high: u64) -> bool {
        if !self.is_live(child) {
            return false;
        }
        let ends = self.ends(child);
        ends.meta.level() + 1 == level && ends.low == low && ends.high.to_u64() == high
    }
}
