//! The common part of the examinations of trees and skip lists. They check a structure node by node, while
//! nothing else runs.
use super::access::Access;
use super::meta::{Meta, handle_of};
use super::node::Node;
use super::nodes::Nodes;
use super::types::{Stored, Types};
use crate::keyed::Slot;
use crate::slab::{Handle, Pool};
use simt::{Order, Scope, device};

/// Findings of the examination of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// 1 if a node was examined.
    pub nodes: u32,
    /// Number of its children.
    pub children: u32,
    /// 1 if it is latched or closed, or has sharers, or is a shared zombie.
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

#[device]
impl Meta {
    /// Whether a tile holds the node, or is a sharer.
    pub(crate) fn is_held<T: Types>(self) -> bool {
        self.is_latched() || (T::Access::SHARES && (self.is_closed() || self.has_sharers()))
    }
}

#[device(caller)]
impl<T: Types, const W: u32, const L: usize> Nodes<T, W, L> {
    pub(crate) fn ends(self, handle: Handle) -> Ends<Stored<T>> {
        let node = self.node(handle);
        let (header, tail) = (
            node.header().load(Order::Relaxed, Scope::Device),
            node.tail().load(Order::Relaxed, Scope::Device),
        );
        let meta = Meta::read(T::Slot::value(header));
        Ends {
            low: T::Slot::key(header),
            meta,
            high: T::Slot::key(tail),
            link: handle_of(T::Slot::value(tail)),
        }
    }

    /// Whether a handle names a live slab.
    pub(crate) fn is_live(self, handle: Handle) -> bool {
        !handle.is_none() && self.pool.is_live(handle)
    }

    /// Examines the keys of a leaf. Those above its high key are left over from splits and do not count.
    pub(crate) fn examine_leaf(node: Node<T::Slot, W, L>, ends: Ends<Stored<T>>, found: &mut Findings) {
        let mut position = 0;
        while position < Node::<T::Slot, W, L>::SLOTS {
            let key = T::Slot::key(node.word(position).load(Order::Relaxed, Scope::Device));
            if key <= ends.high {
                found.pairs += 1;
                found.misplaced += (key < ends.low) as u32;
                let mut other = 0;
                while other < position {
                    let twin = T::Slot::key(node.word(other).load(Order::Relaxed, Scope::Device));
                    found.misplaced += (twin == key) as u32;
                    other += 1;
                }
            }
            position += 1;
        }
    }
}
