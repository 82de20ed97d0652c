//! Dynamic graphs as algorithms see them.
use super::parts::{Adjacency, Large, Part, VERTEX_TILE};
use crate::graph::chain::Chain;
use crate::graph::record::Table;
use crate::graph::{Edges, GraphView};
use crate::keyed::Slot;
use crate::slab::Pool;
use simt::{Tile, device};

/// Number of buckets in a part of a table.
const PART_BUCKETS: u32 = 8;

/// Returns the size of a vertex with this table and so many edges, if it has one.
#[device]
fn size(table: Option<(Table, u32)>) -> Large {
    match table {
        Some((table, degree)) => Large { parts: table.buckets.div_ceil(PART_BUCKETS), degree },
        None => Large::default(),
    }
}

/// Calls `see` for the edges from a position on, by a tile. Tiles in lockstep call it together.
#[device]
fn see_chain<const T: u32, S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize>(
    graph: GraphView<Edges<S, P, W, L>>,
    mut chain: Chain<S, P, W, L>,
    mut see: impl FnMut(Option<u32>),
) {
    let tile = Tile::<T>::lockstep();
    while tile.any_converged(chain.is_at_slot()) {
        let target = chain.slot(tile.rank()).and_then(|slot| graph.target_in(slot));
        chain.advance(T);
        see(target);
    }
}

// SAFETY: vertices are checked, and slabs are accessed only through links and tables. Insertions have checked
// the targets.
#[device]
unsafe impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> Adjacency for Edges<S, P, W, L> {
    type View = GraphView<Self>;

    fn vertices(graph: GraphView<Self>) -> u32 {
        graph.vertices()
    }

    fn exists(graph: GraphView<Self>, vertex: u32) -> bool {
        vertex < graph.vertices() && !graph.is_removed(vertex)
    }

    fn visit(graph: GraphView<Self>, vertex: Option<u32>, see: impl FnMut(Option<u32>)) -> Large {
        let (chain, table) = Chain::of_small_or_table(graph, vertex);
        see_chain::<VERTEX_TILE, S, P, W, L>(graph, chain, see);
        size(table)
    }

    fn size(graph: GraphView<Self>, vertex: u32) -> Large {
        size(Chain::of_small_or_table(graph, Some(vertex)).1)
    }

    fn visit_part(graph: GraphView<Self>, part: Part, see: impl FnMut(Option<u32>)) {
        let chain = match Chain::of_small_or_table(graph, Some(part.vertex)) {
            (_, Some((table, _))) => {
                let first = part.index * PART_BUCKETS;
                Chain::of_buckets(graph, table, first, first + PART_BUCKETS)
            }
            (chain, None) => chain,
        };
        see_chain::<32, S, P, W, L>(graph, chain, see);
    }
}
