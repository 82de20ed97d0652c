//! Latches of nodes.
use super::access::Access;
use super::meta::Meta;
use super::node::Node;
use super::nodes::Nodes;
use super::types::Types;
use crate::keyed::{Lane, Slot};
use crate::slab::Handle;
use simt::{Convergence, Order, Tile, device};

/// A node that the tile has latched and read under the latch.
#[derive(Clone, Copy, Debug)]
pub struct LatchedNode<S: Slot, const W: u32, const L: usize> {
    /// Its handle.
    pub handle: Handle,
    /// Its location.
    pub node: Node<S, W, L>,
    /// The words of it that the calling lane holds.
    pub read: Lane<S, L>,
    /// Its lowest key.
    pub low: S::Stored,
    /// Its level and latch.
    pub meta: Meta,
    /// Its highest key.
    pub high: S::Stored,
    /// The node to its right.
    pub link: Handle,
}

#[device]
impl<T: Types, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Tries to latch a node for the tile, if `wanted`, and reads the node under the latch. Returns whether
    /// the tile holds the latch. It does not try to hold a [shared](super::share) leaf, which the tile that
    /// merges another leaf into it may meet.
    pub(crate) fn try_latch(
        self,
        tile: Tile<W, impl Convergence>,
        handle: Handle,
        wanted: bool,
    ) -> (LatchedNode<T::Slot, W, L>, bool) {
        let node = self.node(handle);
        let mut got = false;
        if wanted && tile.rank() == 0 {
            let before = node.set(Meta::LATCH, Order::Acquire);
            got = !before.is_latched();
            if T::Access::SHARES && T::Access::MERGES && got && before.is_shared() {
                node.add(Meta::LATCH.wrapping_neg(), Order::Relaxed);
                got = false;
            }
        }
        let has_latch = tile.any(got);
        // A vote orders no memory: the barrier makes what one lane has acquired visible to all lanes.
        tile.sync();
        (self.read_latched(tile, handle, has_latch), has_latch)
    }

    /// Releases a node that the tile holds alone, by the calling lane alone. Its level rises by `raised`, and
    /// it is shared from now on if the tile `makes_shared`.
    pub(crate) fn release_node(
        self,
        held: &LatchedNode<T::Slot, W, L>,
        raised: u32,
        makes_shared: bool,
        order: Order,
    ) {
        if T::Access::SHARES {
            // Not a store, because other tiles count meanwhile.
            held.node.add(held.meta.release_addend(makes_shared).wrapping_add(raised), order);
        } else {
            held.node.release(held.meta.level() + raised, order);
        }
    }

    /// Reads a node whose latch the tile holds, if `has_latch`.
    pub(crate) fn read_latched(
        self,
        tile: Tile<W, impl Convergence>,
        handle: Handle,
        has_latch: bool,
    ) -> LatchedNode<T::Slot, W, L> {
        let node = self.node(handle);
        let read = node.read_latched(tile.rank(), has_latch);
        let ((low, meta), (high, link)) = (read.header(tile), read.tail(tile));
        LatchedNode { handle, node, read, low, meta, high, link }
    }
}
