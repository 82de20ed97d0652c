//! Iteration over the edges of a vertex.
use super::chain::Chain;
use super::kind::Edges;
use super::link::Link;
use super::view::{GraphView, SLAB_TILE};
use crate::keyed::{Scalar, Slot};
use crate::slab::Pool;
use simt::{Convergence, Global, Order, Scope, Tile, device};

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> GraphView<Edges<S, P, W, L>> {
    /// Calls `see` for the edges of a vertex: target and bits of the data. The lanes of the tile pass the
    /// same vertex, and see different edges. They call `see` together, with `None` where a lane has no edge.
    /// Tiles in lockstep iterate together: a tile without further edges calls `see` with `None`.
    ///
    /// A vertex that does not exist has no edges. Each edge that is present during the whole iteration is
    /// shown once.
    pub fn for_each_neighbor<const T: u32>(
        self,
        tile: Tile<T, impl Convergence>,
        vertex: Option<u32>,
        see: impl FnMut(Option<(u32, S::Value)>),
    ) {
        self.for_each_in_record(tile, vertex.filter(|&vertex| vertex < self.vertices()), see);
    }

    /// Calls `see` for the edges that lead to a vertex: source and bits of the data. Otherwise as
    /// [`Self::for_each_neighbor`]. A graph that does not store them shows none; an undirected one stores
    /// each edge at both ends, so its neighbours are both.
    pub fn for_each_in_neighbor<const T: u32>(
        self,
        tile: Tile<T, impl Convergence>,
        vertex: Option<u32>,
        see: impl FnMut(Option<(u32, S::Value)>),
    ) {
        let has_any = self.flags().has_in_edges();
        let vertex = vertex.filter(|&vertex| has_any && vertex < self.vertices());
        self.for_each_in_record(tile, vertex.map(|vertex| vertex + self.vertices()), see);
    }

    /// Calls `see` for the edges in a record and behind it.
    pub(super) fn for_each_in_record<const T: u32>(
        self,
        tile: Tile<T, impl Convergence>,
        record: Option<u32>,
        see: impl FnMut(Option<(u32, S::Value)>),
    ) {
        self.for_each_in_chain(tile, Chain::of_vertex(self, record), see);
    }

    /// Calls `see` for the edges in a chain.
    pub(super) fn for_each_in_chain<const T: u32>(
        self,
        tile: Tile<T, impl Convergence>,
        mut chain: Chain<S, P, W, L>,
        mut see: impl FnMut(Option<(u32, S::Value)>),
    ) {
        while tile.any_converged(chain.is_at_slot()) {
            let edge = chain.slot(tile.rank()).and_then(|slot| self.edge_in(slot));
            chain.advance(T);
            see(edge);
        }
    }

    /// Reads the edge in a slot, if there is one.
    fn edge_in(self, slot: Global<S::Word>) -> Option<(u32, S::Value)> {
        let word = slot.load(Order::Relaxed, Scope::Device);
        if !S::is_live(word) {
            return None;
        }
        let data = if S::HAS_VALUE { S::read_value(slot, word) } else { S::value(word) };
        Some((S::key(word).to_u64() as u32, self.flags().decode(data)))
    }

    /// Returns the number of edges in a record and behind it, 0 if there is no such record. The lanes of the
    /// tile pass the same one. Tiles in lockstep call it together.
    pub(super) fn degree(self, tile: Tile<SLAB_TILE, impl Convergence>, vertex: Option<u32>) -> u32 {
        let vertex = vertex.filter(|&vertex| vertex < self.record_count());
        let record = vertex.map(|vertex| {
            // SAFETY: the vertex exists.
            unsafe { self.record(vertex) }
        });
        let is_table = |word| Link::from_word(word) == Link::TABLE;
        let counted = record
            // mutation: early equivalent, because a relaxed load may return an older word, too: nothing
            // orders it after the write of another warp.
            .filter(|record| is_table(record.link().load(Order::Relaxed, Scope::Device)))
            .map(|record| record.load_table().1);
        let (mut chain, mut live) = (Chain::of_vertex(self, vertex.filter(|_| counted.is_none())), 0);
        while tile.any_converged(chain.is_at_slot()) {
            // mutation: early equivalent, because a relaxed load may return an older word, too: nothing
            // orders it after the write of another warp.
            let word = chain.slot(tile.rank()).map(|slot| slot.load(Order::Relaxed, Scope::Device));
            live += word.is_some_and(S::is_live) as u32;
            chain.advance(SLAB_TILE);
        }
        let live = tile.reduce_add(live);
        counted.unwrap_or(live)
    }
}
