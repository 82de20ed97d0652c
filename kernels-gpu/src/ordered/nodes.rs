//! The nodes of an ordered structure, as a kernel sees them.
use super::directory::Directory;
use super::fixed_nodes::Start;
use super::node::Node;
use super::types::{Stored, Types, VersionsOf};
use super::versioning::Versions;
use crate::keyed::Counters;
use crate::slab::{Handle, Pool};
use simt::device;

/// Nodes in slabs of a pool that tiles of `W` lanes read with `L` words per lane, with what leads to them.
#[repr(C)]
pub struct Nodes<T: Types, const W: u32, const L: usize> {
    pub(crate) counters: Counters,
    pub(crate) pool: T::Pool,
    pub(crate) directory: Directory<T::Slot>,
    pub(crate) versions: VersionsOf<T>,
}

impl<T: Types, const W: u32, const L: usize> Clone for Nodes<T, W, L> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Types, const W: u32, const L: usize> Copy for Nodes<T, W, L> {}

#[device(caller)]
impl<T: Types, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Returns the node of a handle, which was read in a node of this tree or just allocated from its pool.
    pub(crate) fn node(self, handle: Handle) -> Node<T::Slot, W, L> {
        const { assert!(Node::<T::Slot, W, L>::BYTES == T::Pool::BYTES, "a node is a slab") };
        // SAFETY: the handles that callers pass name live slabs of the pool, which are nodes or blank.
        unsafe { Node::at(self.pool.slab(handle)) }
    }

    /// Returns the tree at a snapshot's timestamp, for reading only. With [`LATEST`] it is the current state.
    pub fn at(self, at: u32) -> Self {
        Self { versions: self.versions.at_timestamp(at), ..self }
    }

    /// Returns the node where the traversal for a key begins.
    pub(crate) fn start(self, key: Stored<T>, wanted: bool) -> Start<T::Slot> {
        let start = Start::<T::Slot>::of(key);
        let searches = wanted && !start.is_reserved();
        Start { node: if searches { self.directory.find::<T::Access>(key) } else { start.node }, ..start }
    }
}
