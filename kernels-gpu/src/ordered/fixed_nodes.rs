//! The nodes that every ordered structure has, and the one where the search for a key begins.
use crate::keyed::{Scalar, Slot};
use crate::slab::Handle;
use simt::device;

/// Handle of the root. It never changes: a split of the root moves its pairs into two new nodes below it.
pub const ROOT: Handle = Handle::from_word(0);
/// Handle of the leaf for the one key that looks like an empty slot. It is the last leaf.
pub const RESERVED_LEAF: Handle = Handle::from_word(1);
/// Handle of the first of the other leaves.
pub const FIRST_LEAF: Handle = Handle::from_word(2);
/// Number of slabs of an empty tree.
pub const EMPTY_TREE_NODES: usize = 3;

/// Node where the traversal for a key begins, and the key as it is stored there.
#[derive(Clone, Copy, Debug)]
pub struct Start<S: Slot> {
    /// The key as it is stored.
    pub key: S::Stored,
    /// The first node.
    pub node: Handle,
}

#[device]
impl<S: Slot> Start<S> {
    /// Returns the start for a key. The one key that looks like an empty slot is stored as 0 in a leaf of its
    /// own; all others start at the root.
    pub fn of(key: S::Stored) -> Self {
        if key == S::key(S::EMPTY) {
            return Self { key: S::Stored::from_u64(0), node: RESERVED_LEAF };
        }
        Self { key, node: ROOT }
    }

    /// Whether the key is in the reserved leaf.
    pub fn is_reserved(&self) -> bool {
        self.node == RESERVED_LEAF
    }
}

/// Returns the largest key that the ordered leaves hold; the key above it is in the reserved leaf.
#[device]
pub fn largest<S: Slot>() -> S::Stored {
    S::Stored::from_u64(S::key(S::EMPTY).to_u64() - 1)
}
