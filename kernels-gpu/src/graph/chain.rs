//! The slots of a vertex in the order in which they are filled: record, slabs, buckets.
use super::kind::{Edges, slab_slots};
use super::link::Link;
use super::record::{RECORD_SLOTS, Record, Table};
use super::view::{GraphView, SLAB_TILE, Start};
use crate::keyed::Slot;
use crate::slab::list::Node;
use crate::slab::{Handle, Pool};
use simt::{Global, Order, Scope, bound, device};

/// A record or a slab.
#[derive(Clone, Copy, Debug)]
enum Piece<S, const W: u32, const L: usize> {
    Record(Record<S, W, L>),
    Slab(Node<S, SLAB_TILE, L>),
}

#[device]
impl<S: Slot<Key = u32>, const W: u32, const L: usize> Piece<S, W, L> {
    fn slots(self) -> u32 {
        match self {
            Self::Record(_) => bound(RECORD_SLOTS),
            Self::Slab(_) => bound(slab_slots::<S, L>()),
        }
    }

    fn link(self) -> Global<u32> {
        match self {
            Self::Record(record) => record.link(),
            Self::Slab(node) => node.link(),
        }
    }

    fn slot(self, position: u32) -> Global<S::Word> {
        match self {
            Self::Record(record) => record.slot(position),
            Self::Slab(node) => node.slot(position),
        }
    }
}

/// A position among the slots of a vertex or of a bucket. All lanes that use it together make the same calls.
#[derive(Clone, Copy)]
pub struct Chain<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> {
    graph: GraphView<Edges<S, P, W, L>>,
    /// Current piece, or `None` at the end.
    piece: Option<Piece<S, W, L>>,
    /// Location of the link that leads to the current piece, unless that is the first one.
    before: Option<Global<u32>>,
    position: u32,
    /// Buckets that follow, as indices of slabs of the arena.
    next_bucket: u32,
    end_bucket: u32,
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> Chain<S, P, W, L> {
    fn new(graph: GraphView<Edges<S, P, W, L>>, piece: Option<Piece<S, W, L>>) -> Self {
        Self { graph, piece, before: None, position: 0, next_bucket: 0, end_bucket: 0 }
    }

    /// Returns the first slot of a small vertex, or the end if there is none.
    pub fn of_small(graph: GraphView<Edges<S, P, W, L>>, vertex: Option<u32>) -> Self {
        let vertex = vertex.filter(|&vertex| vertex < graph.record_count());
        // SAFETY: the vertex exists.
        Self::new(graph, vertex.map(|vertex| Piece::Record(unsafe { graph.record(vertex) })))
    }

    /// Returns the first slot of a bucket.
    ///
    /// # Safety
    /// - The slab of the arena with this index is a bucket of a table.
    pub unsafe fn of_bucket(graph: GraphView<Edges<S, P, W, L>>, index: u32) -> Self {
        let start = Start { index, is_bucket: true };
        // SAFETY: the caller's obligation.
        Self::new(graph, Some(Piece::Slab(unsafe { graph.first_node(start) })))
    }

    /// Returns the first slot of a vertex, or the end if there is none.
    pub fn of_vertex(graph: GraphView<Edges<S, P, W, L>>, vertex: Option<u32>) -> Self {
        match Self::of_small_or_table(graph, vertex) {
            (_, Some((table, _))) => Self::of_buckets(graph, table, 0, table.buckets),
            (chain, None) => chain,
        }
    }

    /// Returns the first slot of a small vertex. If the vertex has a table, returns the end, the table and
    /// the number of live edges; if there is no vertex, the end.
    pub fn of_small_or_table(
        graph: GraphView<Edges<S, P, W, L>>,
        vertex: Option<u32>,
    ) -> (Self, Option<(Table, u32)>) {
        let chain = Self::of_small(graph, vertex);
        let Some(Piece::Record(record)) = chain.piece else { return (chain, None) };
        // mutation: early equivalent, because a relaxed load may return an older word, too: nothing orders it
        // after the write of another warp.
        match Link::from_word(record.link().load(Order::Relaxed, Scope::Device)) {
            Link::TABLE => (Self { piece: None, ..chain }, Some(record.load_table())),
            Link::NO_VERTEX => (Self { piece: None, ..chain }, None),
            _ => (chain, None),
        }
    }

    /// Returns the first slot of the buckets `first` to `end` - 1 of a table that has been read in a record,
    /// or the end if there are none.
    pub fn of_buckets(graph: GraphView<Edges<S, P, W, L>>, table: Table, first: u32, end: u32) -> Self {
        let end = end.min(table.buckets);
        let (next_bucket, end_bucket) = (table.base + first.min(end), table.base + end);
        let mut chain = Self { next_bucket, end_bucket, ..Self::new(graph, None) };
        chain.next_piece(None);
        chain
    }

    /// Returns whether the position is that of a slot.
    pub fn is_at_slot(&self) -> bool {
        self.piece.is_some()
    }

    /// Returns the slab of the pool to which the link behind the current slot leads, if this is the last slot
    /// of its record or slab.
    pub fn slab_ahead(&self) -> Option<Handle> {
        let piece = self.piece.filter(|piece| self.position + 1 == piece.slots())?;
        // mutation: block weak equivalent, because only `inspect` calls this, in whose launch nothing writes
        // to the graph.
        Link::from_word(piece.link().load(Order::Relaxed, Scope::Device)).slab()
    }

    /// Returns the slot `offset` places further on, unless the record or slab ends before.
    pub fn slot(&self, offset: u32) -> Option<Global<S::Word>> {
        let position = self.position + offset;
        match self.piece {
            Some(piece) if position < piece.slots() => Some(piece.slot(position)),
            _ => None,
        }
    }

    /// Moves `by` slots on, or to the beginning of the next record or slab if this one ends before.
    pub fn advance(&mut self, by: u32) {
        let Some(piece) = self.piece else { return };
        self.position += by;
        if self.position >= piece.slots() {
            let link = piece.link();
            self.before = Some(link);
            // mutation: early equivalent, because a relaxed load may return an older word, too: nothing
            // orders it after the write of another warp.
            self.next_piece(Link::from_word(link.load(Order::Relaxed, Scope::Device)).slab());
        }
    }

    /// Moves to a slab, or to the next bucket.
    fn next_piece(&mut self, slab: Option<Handle>) {
        self.position = 0;
        self.piece = match slab {
            // SAFETY: the handle was read in a link of the graph.
            Some(slab) => Some(Piece::Slab(unsafe { self.graph.node(slab) })),
            None if self.next_bucket < bound(self.end_bucket) => {
                let start = Start { index: self.next_bucket, is_bucket: true };
                self.next_bucket += 1;
                // SAFETY: a bucket of a table.
                Some(Piece::Slab(unsafe { self.graph.first_node(start) }))
            }
            None => None,
        };
    }

    /// Blanks the slots of a small vertex from the position on, and frees the slabs that are not needed, by
    /// the calling lane alone. Requires exclusive access to the vertex.
    pub fn cut(self) {
        let Some(piece) = self.piece else { return };
        let link = match self.before {
            Some(before) if self.position == 0 => before,
            _ => {
                let mut position = self.position;
                while position < piece.slots() {
                    // mutation: block weak late equivalent, because only later launches read the slots again.
                    piece.slot(position).store(S::EMPTY, Order::Relaxed, Scope::Device);
                    position += 1;
                }
                piece.link()
            }
        };
        // mutation: block weak equivalent, because nothing else accesses the vertex in the launch.
        let mut slab = Link::from_word(link.load(Order::Relaxed, Scope::Device)).slab();
        // mutation: block weak late equivalent, because only later launches read the link again.
        link.store(Link::NONE.to_word(), Order::Relaxed, Scope::Device);
        while let Some(handle) = slab {
            // SAFETY: the handle was read in a link of the graph.
            let node = unsafe { self.graph.node(handle) };
            // mutation: block weak equivalent, because nothing else accesses the slab in the launch.
            slab = Link::from_word(node.link().load(Order::Relaxed, Scope::Device)).slab();
            blank_alone(node);
            self.graph.pool().free(handle);
        }
    }
}

/// Blanks a slab, by the calling lane alone.
#[device]
fn blank_alone<S: Slot, const L: usize>(node: Node<S, SLAB_TILE, L>) {
    let mut pair = 0;
    while pair < Node::<S, SLAB_TILE, L>::BYTES / 16 {
        // SAFETY: 16 aligned bytes of the slab.
        // mutation: block weak late equivalent, because slabs are allocated only in later launches.
        unsafe { node.base().offset(2 * pair).store_vec([u64::MAX; 2], Order::Relaxed, Scope::Device) };
        pair += 1;
    }
}
