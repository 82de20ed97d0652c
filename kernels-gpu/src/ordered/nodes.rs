//! The nodes of an ordered structure, as a kernel sees them.
use super::access::Access;
use super::directory::Directory;
use super::fixed_nodes::Start;
use super::node::Node;
use super::versioning::Versions;
use crate::keyed::{Counters, Slot};
use crate::slab::{Handle, Pool};
use simt::device;

/// Nodes in slabs of the pool `P` that tiles of `W` lanes read with `L` words per lane, with what leads to
/// them. `A` is the access policy.
#[repr(C)]
pub struct Nodes<S: Slot, P, A: Access, const W: u32, const L: usize> {
    pub(crate) counters: Counters,
    pub(crate) pool: P,
    pub(crate) directory: Directory<S>,
    pub(crate) versions: A::Versions,
}

impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> Clone for Nodes<S, P, A, W, L> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> Copy for Nodes<S, P, A, W, L> {}

#[device(caller)]
impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> Nodes<S, P, A, W, L> {
    /// Returns the node of a handle, which was read in a node of this tree or just allocated from its pool.
    pub(crate) fn node(self, handle: Handle) -> Node<S, W, L> {
        const { assert!(Node::<S, W, L>::BYTES == P::BYTES, "a node is a slab") };
        // SAFETY: the handles that callers pass name live slabs of the pool, which are nodes or blank.
        unsafe { Node::at(self.pool.slab(handle)) }
    }

    /// Returns the tree at a snapshot's timestamp, for reading only. With [`LATEST`] it is the current state.
    pub fn at(self, at: u32) -> Self {
        Self { versions: self.versions.at_timestamp(at), ..self }
    }

    /// Returns the node where the traversal for a key begins.
    pub(crate) fn start(self, key: S::Stored, wanted: bool) -> Start<S> {
        let start = Start::<S>::of(key);
        let searches = wanted && !start.is_reserved();
        Start { node: if searches { self.directory.find::<A>(key) } else { start.node }, ..start }
    }
}
