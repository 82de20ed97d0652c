//! Checks the invariants of a tree node by node, while nothing else runs.
use crate::keyed::{Scalar, Slot};
use crate::mvbtree::version::Version;
use crate::ordered::fixed_nodes::{RESERVED_LEAF, ROOT, largest};
use crate::ordered::inspect::{Ends, Findings};
use crate::ordered::meta::handle_of;
use crate::ordered::node::Node;
use crate::ordered::nodes::Nodes;
use crate::ordered::types::{Stored, Types, VersionsOf};
use crate::ordered::versioning::Versions;
use crate::slab::{Handle, Pool};
use simt::{Order, Scope, device};

#[device(caller)]
impl<T: Types, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Examines the node in slab number `number`, if that is live, by the calling lane alone. Requires
    /// exclusive access to the tree.
    pub(crate) fn examine(self, number: u32) -> Findings {
        let mut found = Findings::default();
        if number as usize >= self.pool.units() || !self.pool.bitmaps().is_live(number) {
            return found;
        }
        let handle = self.pool.handle(number);
        let (node, ends) = (self.node(handle), self.ends(handle));
        if ends.meta.is_old() {
            found.versions = 1;
            return found;
        }
        found.nodes = 1;
        found.inner = !ends.meta.is_leaf() as u32;
        found.latched = ends.meta.is_held::<T>() as u32;
        found.link_wrong = !self.is_next(handle, ends) as u32;
        if ends.meta.is_leaf() {
            found.undated = (VersionsOf::<T>::VERSIONED && self.is_undated(node)) as u32;
            Self::examine_leaf(node, ends, &mut found);
        } else {
            self.examine_inner(node, ends, &mut found);
        }
        if handle == ROOT {
            found.depth = ends.meta.level() + 1;
            found.misplaced += (ends.high != largest::<T::Slot>() || ends.low.to_u64() != 0) as u32;
        }
        found
    }

    /// Whether a leaf is unstamped.
    fn is_undated(self, node: Node<T::Slot, W, L>) -> bool {
        Version::of::<T::Slot>(node.version().load(Order::Relaxed, Scope::Device)).stamp().is_none()
    }

    /// Whether the link leads to the next node of the level, or nowhere at its end.
    fn is_next(self, handle: Handle, ends: Ends<Stored<T>>) -> bool {
        if ends.high == largest::<T::Slot>() {
            let is_last_leaf = ends.meta.is_leaf() && handle != RESERVED_LEAF;
            return ends.link == if is_last_leaf { RESERVED_LEAF } else { Handle::NONE };
        }
        if !self.is_live(ends.link) {
            return false;
        }
        let next = self.ends(ends.link);
        next.meta.level() == ends.meta.level() && next.low.to_u64() == ends.high.to_u64() + 1
    }

    /// Examines the entries of an inner node: they are sorted, the first one is at its low key, and each
    /// child covers the keys up to the next entry.
    fn examine_inner(self, node: Node<T::Slot, W, L>, ends: Ends<Stored<T>>, found: &mut Findings) {
        let entry = |position: u32| {
            let is_slot = position < Node::<T::Slot, W, L>::SLOTS;
            let word = if is_slot {
                node.word(position).load(Order::Relaxed, Scope::Device)
            } else {
                T::Slot::EMPTY
            };
            (T::Slot::key(word), handle_of(T::Slot::value(word)))
        };
        let empty = T::Slot::key(T::Slot::EMPTY);
        found.misplaced += (entry(0).0 != ends.low) as u32;
        let mut position = 0;
        while position < Node::<T::Slot, W, L>::SLOTS {
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

    fn is_child(self, child: Handle, level: u32, low: Stored<T>, high: u64) -> bool {
        if !self.is_live(child) {
            return false;
        }
        let ends = self.ends(child);
        ends.meta.level() + 1 == level && ends.low == low && ends.high.to_u64() == high
    }
}
