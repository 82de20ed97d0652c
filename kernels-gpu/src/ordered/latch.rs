//! Latches of nodes.
use super::access::Access;
use super::meta::Meta;
use super::node::Node;
use super::nodes::Nodes;
use crate::keyed::{Lane, Slot};
use crate::slab::{Handle, Pool};
use simt::{Convergence, Tile, device};

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
impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> Nodes<S, P, A, W, L> {
    /// Tries to latch a node for the tile, if `wanted`, and reads the node under the latch. Returns whether
    /// the tile holds the latch.
    pub(crate) fn try_latch<C: Convergence>(
        self,
        tile: Tile<W, C>,
        handle: Handle,
        wanted: bool,
    ) -> (LatchedNode<S, W, L>, bool) {
        let node = self.node(handle);
        let mut got = false;
        if wanted && tile.rank() == 0 {
            got = node.try_latch(A::TAKE);
        }
        let has_latch = tile.any(got);
        // A vote orders no memory: the barrier makes what one lane has acquired visible to all lanes.
        tile.sync();
        (self.read_latched(tile, handle, has_latch), has_latch)
    }

    /// Reads a node whose latch the tile holds, if `has_latch`.
    pub(crate) fn read_latched<C: Convergence>(
        self,
        tile: Tile<W, C>,
        handle: Handle,
        has_latch: bool,
    ) -> LatchedNode<S, W, L> {
        let node = self.node(handle);
        let read = node.read_latched(tile.rank(), has_latch);
        let ((low, meta), (high, link)) = (read.header(tile), read.tail(tile));
        LatchedNode { handle, node, read, low, meta, high, link }
    }
}
