//! Dynamic graphs as algorithms see them.
//!
//! A tile reads a record by one load of each lane, and a slab by up to four, as many as its width needs, none
//! of which waits for another. They also read the link, which is in the last four bytes. The words of a piece
//! are visited in the order of their addresses, which is not that in which slots are filled. Loads are weak:
//! nothing writes the graph meanwhile.
use super::parts::{Adjacency, Large, PART_BUCKETS, Part, VERTEX_TILE};
use crate::graph::chain::Chain;
use crate::graph::link::Link;
use crate::graph::record::{RECORD_SLOTS, Table};
use crate::graph::{Edges, GraphView, SLAB_BYTES, SLAB_TILE};
use crate::keyed::{Scalar, Slot};
use crate::primitives::unrolled;
use crate::slab::Pool;
use crate::slab::list::Node;
use simt::{Global, Lockstep, Order, Scope, Tile, Word, device};

/// Reads a word of a record or slab, or an empty slot if there is none.
///
/// # Safety
/// - The piece at `base` has such a word.
#[device]
pub(in crate::graph) unsafe fn read<S: Slot>(
    base: Option<Global<u64>>,
    index: u32,
    is_within: bool,
) -> S::Word {
    match base.filter(|_| is_within) {
        // SAFETY: the caller's obligation. Pieces are aligned to their size.
        Some(base) => unsafe {
            base.cast::<S::Word>().offset(index as usize).load(Order::Weak, Scope::Device)
        },
        None => S::EMPTY,
    }
}

/// Maximum number of words that a lane reads of a slab: words of four bytes, by a tile of [`VERTEX_TILE`].
const MOST_LOADS: usize = SLAB_BYTES / (4 * VERTEX_TILE as usize);

/// Returns the number of words of type `W` that a lane of a tile of `T` lanes reads of a slab. It is
/// constant, so that the compiler removes other loads.
#[device]
const fn loads<const T: u32, W>() -> usize {
    (SLAB_BYTES / size_of::<W>()).div_ceil(T as usize)
}

/// Returns one of the first `len` words by an index that is not constant. The words stay in registers.
#[device]
fn picked<T: Copy, const N: usize>(words: &[T; N], len: usize, index: u32) -> T {
    let mut picked = words[0];
    unrolled::<N>(|at| {
        if at < len && at as u32 == index {
            picked = words[at];
        }
    });
    picked
}

/// Returns the link in the last word of a piece, which the lane `rank` has read, or none without a piece.
#[device]
fn link_in<const T: u32, S: Slot>(tile: Tile<T, Lockstep>, word: S::Word, rank: u32, is_there: bool) -> Link {
    let last = tile.shuffle((word.widen() >> (size_of::<S::Word>() * 8 - 32)) as u32, rank);
    if is_there { Link::from_word(last) } else { Link::NONE }
}

/// Returns the target in a slot, if it has an edge.
#[device]
pub(in crate::graph) fn target_in<S: Slot<Key = u32>>(word: S::Word) -> Option<u32> {
    S::is_live(word).then(|| S::key(word).to_u64() as u32)
}

/// The slabs of a table that a tile visits, as indices of slabs of the arena.
#[derive(Clone, Copy, Default)]
struct Buckets {
    next: u32,
    end: u32,
}

#[device]
impl Buckets {
    /// Returns the buckets in a part of a table.
    fn of_part(table: Table, part: u32) -> Self {
        let (next, end) = table.slabs_of_part(part, PART_BUCKETS);
        Self { next, end }
    }

    /// Returns the address of the slab that a link names or, without one, of the next bucket.
    fn slab_behind<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize>(
        &mut self,
        graph: GraphView<Edges<S, P, W, L>>,
        link: Link,
    ) -> Option<Global<u64>> {
        if let Some(slab) = link.slab() {
            // SAFETY: the handle was read in a link of the graph.
            return Some(unsafe { graph.node(slab) }.base());
        }
        (self.next < self.end).then(|| {
            self.next += 1;
            // SAFETY: a bucket of a table.
            unsafe { graph.arena().slab(self.next - 1) }
        })
    }
}

/// Calls `see` for the targets of a small vertex, or those in a part of a large one, if one is given. Returns
/// the table and the degree of a large vertex. Tiles in lockstep call it together.
///
/// There is one loop over the words of records and slabs, and so one call of `see`, which may be long. It is
/// left out where no tile has a target.
#[device]
pub(in crate::graph) fn see_all<const T: u32, S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize>(
    graph: GraphView<Edges<S, P, W, L>>,
    vertex: Option<u32>,
    part: Option<u32>,
    mut see: impl FnMut(Option<u32>),
) -> (Table, u32) {
    const { assert!(T > RECORD_SLOTS, "a lane for each slot of a record, and one for the link") };
    let tile = Tile::<T>::lockstep();
    let record = vertex.filter(|&vertex| vertex < graph.vertices()).map(|vertex| {
        // SAFETY: the vertex exists.
        unsafe { graph.record(vertex) }
    });
    let (mut base, mut is_record) = (record.map(|record| record.bucket().base()), true);
    let (mut buckets, mut found, loads) = (Buckets::default(), (Table::default(), 0), loads::<T, S::Word>());
    while tile.any_converged(base.is_some()) {
        let (count, slots) = if is_record {
            (RECORD_SLOTS + 1, RECORD_SLOTS)
        } else {
            ((SLAB_BYTES / size_of::<S::Word>()) as u32, Node::<S, SLAB_TILE, L>::SLOTS)
        };
        let mut words = [S::EMPTY; MOST_LOADS];
        unrolled::<MOST_LOADS>(|load| {
            if load < loads {
                let index = load as u32 * T + tile.rank();
                // SAFETY: the piece has so many words.
                words[load] = unsafe { read::<S>(base, index, index < count) };
            }
        });
        let last = picked(&words, loads, (count - 1) / T);
        let link = link_in::<T, S>(tile, last, (count - 1) % T, base.is_some());
        let mut first = 0;
        while first < SLAB_BYTES as u32 / size_of::<S::Word>() as u32 {
            let is_slot = first + tile.rank() < slots && !(is_record && link.is_closed());
            let target = if is_slot { target_in::<S>(picked(&words, loads, first / T)) } else { None };
            if tile.any_converged(target.is_some()) {
                see(target);
            }
            first += T;
        }
        if let Some(record) = record.filter(|_| is_record && link == Link::TABLE) {
            found = record.load_table();
            buckets = part.map_or(buckets, |part| Buckets::of_part(found.0, part));
        }
        base = buckets.slab_behind(graph, link);
        is_record = false;
    }
    found
}

/// Returns the size of a large vertex with this table and degree.
#[device]
fn size_of_large((table, degree): (Table, u32)) -> Large {
    Large { parts: table.buckets.div_ceil(PART_BUCKETS), degree }
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
        size_of_large(see_all::<VERTEX_TILE, S, P, W, L>(graph, vertex, None, see))
    }

    fn size(graph: GraphView<Self>, vertex: u32) -> Large {
        Chain::of_small_or_table(graph, Some(vertex)).1.map_or(Large::default(), size_of_large)
    }

    fn visit_part(graph: GraphView<Self>, part: Part, see: impl FnMut(Option<u32>)) {
        see_all::<32, S, P, W, L>(graph, Some(part.vertex), Some(part.index), see);
    }
}
