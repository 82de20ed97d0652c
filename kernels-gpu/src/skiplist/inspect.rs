//! Checks the invariants of a skip list node by node, while nothing else runs.
//!
//! The fields of [`Findings`] are those of trees. `children` counts how often a node is reached: by the link
//! of the node before it in its layer, where zombies are skipped; as a zombie; or as the first of its layer.
//! So each node but the root and the reserved leaf is reached once.
use super::policy::Policy;
use crate::keyed::{Scalar, Slot};
use crate::ordered::access::Access;
use crate::ordered::fixed_nodes::{RESERVED_LEAF, ROOT, largest};
use crate::ordered::inspect::{Ends, Findings};
use crate::ordered::meta::handle_of;
use crate::ordered::node::Node;
use crate::ordered::nodes::Nodes;
use crate::ordered::types::{Stored, Types};
use crate::slab::{Handle, Pool};
use simt::{Order, Scope, device};

/// Examines the node in slab number `number`, if that is live, by the calling lane alone. Requires exclusive
/// access to the list.
#[device(caller)]
pub(super) fn examine<T: Types<Access: Policy>, const W: u32, const L: usize>(
    nodes: Nodes<T, W, L>,
    number: u32,
) -> Findings {
    let mut found = Findings::default();
    if number as usize >= nodes.pool.units() || !nodes.pool.bitmaps().is_live(number) {
        return found;
    }
    let handle = nodes.pool.handle(number);
    let (node, ends) = (nodes.node(handle), nodes.ends(handle));
    found.nodes = 1;
    found.inner = !ends.meta.is_leaf() as u32;
    let is_zombie = is_zombie(handle, ends);
    let shares_in_vain = T::Access::SHARES && is_zombie && ends.meta.is_shared();
    found.latched = (ends.meta.is_held::<T>() || shares_in_vain) as u32;
    let is_first = ends.low.to_u64() == 0 && handle != ROOT && handle != RESERVED_LEAF;
    found.children = is_zombie as u32 + is_first as u32;
    match nodes.next(handle, ends) {
        Next::Node => found.children += !is_zombie as u32,
        Next::End => {}
        Next::Wrong => found.link_wrong = 1,
    }
    if ends.meta.is_leaf() {
        Nodes::<T, W, L>::examine_leaf(node, ends, &mut found);
        if T::Access::SORTED {
            found.misplaced += disorder(node, ends);
        }
    } else {
        nodes.examine_index(node, ends, &mut found);
    }
    if handle == ROOT {
        found.depth = ends.meta.level() + 1;
        found.misplaced += (ends.high != largest::<T::Slot>() || ends.low.to_u64() != 0) as u32;
    }
    found
}

/// Returns the number of pairs of a data node that are below the one before them.
#[device(caller)]
fn disorder<S: Slot, const W: u32, const L: usize>(node: Node<S, W, L>, ends: Ends<S::Stored>) -> u32 {
    let (mut position, mut before, mut wrong) = (0, ends.low, 0);
    while position < Node::<S, W, L>::SLOTS {
        let key = S::key(node.word(position).load(Order::Relaxed, Scope::Device));
        if key <= ends.high {
            wrong += (key < before) as u32;
            before = key;
        }
        position += 1;
    }
    wrong
}

/// Whether a node is a zombie: a data node that covers no key.
#[device]
fn is_zombie<K: Scalar>(handle: Handle, ends: Ends<K>) -> bool {
    ends.meta.is_leaf() && handle != RESERVED_LEAF && ends.high < ends.low
}

/// Target of a link.
enum Next {
    /// The next node of the layer.
    Node,
    /// None: the node is the last of its layer.
    End,
    /// Any other.
    Wrong,
}

#[device(caller)]
impl<T: Types<Access: Policy>, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Checks the link. Zombies are skipped; the target must be the node of the same layer that covers the
    /// keys from the next one on.
    fn next(self, handle: Handle, ends: Ends<Stored<T>>) -> Next {
        if ends.high == largest::<T::Slot>() {
            let is_last = ends.meta.is_leaf() && handle != RESERVED_LEAF;
            return if ends.link == if is_last { RESERVED_LEAF } else { Handle::NONE } {
                Next::End
            } else {
                Next::Wrong
            };
        }
        let (mut at, mut left) = (ends.link, self.pool.units());
        while self.is_live(at) && left > 0 {
            let next = self.ends(at);
            if !is_zombie(at, next) {
                let starts = if is_zombie(handle, ends) {
                    next.low <= ends.low
                } else {
                    next.low.to_u64() == ends.high.to_u64() + 1
                };
                let is_right = next.meta.level() == ends.meta.level() && starts;
                return if is_right { Next::Node } else { Next::Wrong };
            }
            (at, left) = (next.link, left - 1);
        }
        Next::Wrong
    }

    /// Examines the entries of an index node. They are sorted, the first one is at its low key, and each is
    /// valid: it leads to a node of the layer below that covers, or once covered, the keys from the entry's
    /// key on.
    fn examine_index(self, node: Node<T::Slot, W, L>, ends: Ends<Stored<T>>, found: &mut Findings) {
        let empty = T::Slot::key(T::Slot::EMPTY);
        let (mut position, mut before) = (0, None::<Stored<T>>);
        while position < Node::<T::Slot, W, L>::SLOTS {
            let word = node.word(position).load(Order::Relaxed, Scope::Device);
            let (low, child) = (T::Slot::key(word), handle_of(T::Slot::value(word)));
            let in_order = match before {
                None => low == ends.low,
                Some(before) => low == empty || (before != empty && before < low && low <= ends.high),
            };
            found.misplaced += !in_order as u32;
            if low != empty {
                let is_true = self.is_live(child) && {
                    let below = self.ends(child);
                    below.meta.level() + 1 == ends.meta.level() && below.low <= low
                };
                found.children_wrong += !is_true as u32;
            }
            (before, position) = (Some(low), position + 1);
        }
    }
}
