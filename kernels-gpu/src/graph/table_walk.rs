//! Walks over the slots in buckets of a table.
use super::kind::Edges;
use super::link::Link;
use super::view::{GraphView, SLAB_TILE, Start};
use crate::keyed::{Lane, Slot};
use crate::slab::Pool;
use crate::slab::list::Node;
use simt::{Order, Tile, device};

/// A warp's walk over buckets of a table: each tile takes every eighth bucket, and follows the links. Nothing
/// writes the graph meanwhile, so loads are weak.
#[derive(Clone, Copy)]
pub(super) struct TableWalk<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> {
    graph: GraphView<Edges<S, P, W, L>>,
    at: Option<Node<S, SLAB_TILE, L>>,
    /// Index of the tile's bucket in the arena.
    bucket: u32,
    /// Index behind the last bucket.
    end: u32,
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> TableWalk<S, P, W, L> {
    /// Begins a walk over buckets of a table of the graph: from the first of two slabs of the arena to that
    /// before the second one.
    pub fn new(graph: GraphView<Edges<S, P, W, L>>, (first, end): (u32, u32)) -> Self {
        let bucket = first + Tile::<32>::lockstep().rank() / SLAB_TILE;
        let mut walk = Self { graph, at: None, bucket, end };
        walk.at = walk.first_node();
        walk
    }

    fn first_node(self) -> Option<Node<S, SLAB_TILE, L>> {
        (self.bucket < self.end).then(|| {
            // SAFETY: a bucket of the table.
            unsafe { self.graph.first_node(Start { index: self.bucket, is_bucket: true }) }
        })
    }

    /// Returns whether the lane's tile has a further slab.
    pub fn is_at(self) -> bool {
        self.at.is_some()
    }

    /// Reads the slots of the lane in the next slab; they are empty if there is none. The lanes of the warp
    /// call it together.
    pub fn read(&mut self) -> [S::Word; L] {
        let tile = Tile::<SLAB_TILE>::lockstep();
        let (lane, link) = self.at.map_or((Lane::nothing(), Link::NONE), |node| {
            let read = node.read(tile.rank(), true, Order::Weak);
            (read.lane, Link::from_word(read.link.to_word()))
        });
        self.at = match Link::from_word(tile.shuffle(link.to_word(), SLAB_TILE - 1)).slab() {
            // SAFETY: the handle was read in a link of the graph.
            Some(next) => Some(unsafe { self.graph.node(next) }),
            None => {
                self.bucket += 32 / SLAB_TILE;
                self.first_node()
            }
        };
        lane.words()
    }
}
