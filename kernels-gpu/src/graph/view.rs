//! The view of a graph that kernels take.
use super::kind::{Config, Edges};
use super::record::Record;
use super::search::Half;
use super::table::Arena;
use crate::keyed::{Counters, Scalar, Slot};
use crate::slab::list::Node;
use crate::slab::{Handle, Pool};
use core::fmt;
use simt::hash::{mix32, reduce};
use simt::{Global, GlobalSlice, Order, Scope, device};

/// Number of lanes of the tiles that search slabs.
pub const SLAB_TILE: u32 = 4;

/// Properties of a graph that kernels test.
///
/// ```
/// use phalanx_kernels::graph::Flags;
///
/// let flags = Flags::default().undirected().self_edges();
/// assert!(flags.is_undirected() && flags.has_self_edges() && !flags.has_floats());
/// assert!(Flags::NONE.and(Flags::NONE.floats()).has_floats());
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

#[device]
impl Flags {
    /// No property: a directed graph without self-edges, whose data are not floats.
    pub const NONE: Self = Self(0);

    /// Each edge is stored as two halves.
    pub const fn undirected(self) -> Self {
        Self(self.0 | 1)
    }

    /// Edges from a vertex to itself are allowed.
    pub const fn self_edges(self) -> Self {
        Self(self.0 | 2)
    }

    /// The data of edges are floats of 32 bits.
    pub const fn floats(self) -> Self {
        Self(self.0 | 4)
    }

    /// Each edge of a directed graph is also stored at its target.
    pub const fn in_edges(self) -> Self {
        Self(self.0 | 8)
    }

    /// A pair of vertices may have several edges.
    pub const fn parallel_edges(self) -> Self {
        Self(self.0 | 16)
    }

    /// Returns whether a pair of vertices may have several edges.
    pub fn has_parallel_edges(self) -> bool {
        self.0 & 16 != 0
    }

    /// Returns the properties of both.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether each edge is stored as two halves.
    pub fn is_undirected(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns whether edges from a vertex to itself are allowed.
    pub fn has_self_edges(self) -> bool {
        self.0 & 2 != 0
    }

    /// Returns whether the data of edges are floats.
    pub fn has_floats(self) -> bool {
        self.0 & 4 != 0
    }

    /// Returns whether each edge of a directed graph is also stored at its target.
    pub fn has_in_edges(self) -> bool {
        self.0 & 8 != 0
    }

    /// Returns the word of edge data with the bits `bits`, as slots have it, or `None` for a NaN.
    pub fn encode<D: Scalar>(self, bits: D) -> Option<D> {
        const INFINITY: u64 = 0x7f80_0000;
        if !self.has_floats() {
            return Some(bits);
        }
        let is_nan = (bits & (D::MAX ^ D::SIGN)).to_u64() > INFINITY;
        if is_nan { None } else { Some(bits.float_to_word()) }
    }

    /// Returns the bits of edge data whose word is `word`.
    pub fn decode<D: Scalar>(self, word: D) -> D {
        if self.has_floats() { word.word_to_float() } else { word }
    }
}

/// A graph as a kernel sees it.
#[repr(C)]
pub struct GraphView<M: Config> {
    records: Global<u64>,
    arena: Arena,
    counters: Counters,
    pool: M::Pool,
    vertices: u32,
    flags: Flags,
    /// A bit for each vertex that was removed, or nothing if none ever was.
    removed: GlobalSlice<u32>,
}

impl<M: Config> Clone for GraphView<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Config> Copy for GraphView<M> {}

impl<M: Config> fmt::Debug for GraphView<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphView").field("vertices", &self.vertices).field("flags", &self.flags).finish()
    }
}

/// The memory of a graph, from which a [`GraphView`] is made.
#[derive(Clone, Copy, Debug)]
pub struct GraphParts<P> {
    /// The records of the vertices.
    pub records: *mut u64,
    /// The memory of tables.
    pub arena: Arena,
    /// The counters: see [`Counters::new`].
    pub counters: *mut u64,
    /// The pool of slabs.
    pub pool: P,
    /// A bit for each vertex, set if it was removed; empty if none ever was.
    pub removed: GlobalSlice<u32>,
}

impl<M: Config> GraphView<M> {
    /// Returns a view of a graph with the vertices 0 to `vertices` - 1.
    ///
    /// # Safety
    /// - `parts.records` points to [`Self::record_count`] records, aligned to 128 bytes, and `parts.counters`
    ///   to `COUNTER_SHARDS * SHARD_WORDS` words, in device memory that outlives all uses of the view.
    /// - Every byte of the records and of the pool's free slabs was `0xFF` before the first operation, and
    ///   only operations of this kind have written to them.
    /// - `vertices` is at most 2^32 - 4.
    pub unsafe fn new(parts: GraphParts<M::Pool>, vertices: u32, flags: Flags) -> Self {
        let GraphParts { records, arena, counters, pool, removed } = parts;
        // SAFETY: the caller's obligation; kernels make only relaxed accesses to the counters.
        let (records, counters) = unsafe { (Global::new(records), Counters::new(Global::new(counters))) };
        Self { records, arena, counters, pool, vertices, flags, removed }
    }

    /// Returns the number of vertices.
    pub fn vertices(self) -> u32 {
        self.vertices
    }

    /// Returns the properties of the graph.
    pub fn flags(self) -> Flags {
        self.flags
    }

    /// Returns the number of halves as which an edge is stored: 1 or 2.
    pub fn halves(self) -> usize {
        1 + (self.flags.is_undirected() || self.flags.has_in_edges()) as usize
    }

    /// Returns the number of records: one for each vertex, and then, if edges are also stored at their
    /// targets, another one for each vertex, which has the sources of the edges that lead to it.
    pub fn record_count(self) -> u32 {
        self.vertices << self.flags.has_in_edges() as u32
    }

    /// Returns the other half of an edge that is stored as two.
    pub(super) fn other_half(self, half: Half<M::Data>) -> Half<M::Data> {
        let (source, target) = if self.flags.is_undirected() {
            (half.target, half.source)
        } else if half.source < self.vertices {
            (half.target.wrapping_add(self.vertices), half.source)
        } else {
            (half.target, half.source - self.vertices)
        };
        Half { source, target, ..half }
    }

    /// Returns the counters of the edges.
    pub(super) fn counters(self) -> Counters {
        self.counters
    }

    /// Returns the pool of slabs.
    pub(super) fn pool(self) -> M::Pool {
        self.pool
    }

    /// Returns the arena of tables.
    pub(super) fn arena(self) -> Arena {
        self.arena
    }

    /// Returns whether there is a record `source` and a vertex `target`, or were before a removal.
    pub(super) fn has(self, source: u32, target: u32) -> bool {
        source < self.record_count() && target < self.vertices
    }

    /// Returns whether both vertices exist, or were removed.
    pub(super) fn has_both(self, source: u32, target: u32) -> bool {
        source < self.vertices && target < self.vertices
    }

    /// Returns whether a vertex was removed.
    pub(super) fn is_removed(self, vertex: u32) -> bool {
        let word = vertex as usize / 32;
        if word >= self.removed.len() {
            return false;
        }
        // mutation: block weak equivalent, because marks are set in earlier launches.
        self.removed.at(word).load(Order::Relaxed, Scope::Device) >> (vertex % 32) & 1 != 0
    }

    /// Marks a vertex as removed. Returns whether it existed.
    pub(super) fn mark_removed(self, vertex: u32) -> bool {
        let (word, bit) = (vertex as usize / 32, 1 << (vertex % 32));
        let is_there = vertex < self.vertices && word < self.removed.len();
        is_there && self.removed.at(word).fetch_or(bit, Order::Relaxed, Scope::Device) & bit == 0
    }

    /// Clears the mark of a vertex that was removed.
    pub(super) fn clear_removed(self, vertex: u32) {
        let word = vertex as usize / 32;
        if word < self.removed.len() {
            self.removed.at(word).fetch_and(!(1 << (vertex % 32)), Order::Relaxed, Scope::Device);
        }
    }
}

/// Beginning of a chain of slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Index of a slab of the arena, or word of the handle of a slab of the pool.
    pub index: u32,
    /// Whether the slab is a bucket of a table.
    pub is_bucket: bool,
}

#[device]
impl Start {
    /// Returns the bucket of a target in the table of `buckets` buckets at `base`.
    pub fn bucket(base: u32, buckets: u32, target: u32) -> Self {
        Self { index: base + reduce(mix32(target), buckets), is_bucket: true }
    }

    /// Returns the beginning at a slab of the pool.
    pub fn slab(handle: Handle) -> Self {
        Self { index: handle.to_word(), is_bucket: false }
    }
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> GraphView<Edges<S, P, W, L>> {
    /// Returns the record with this index: that of a vertex, or of the edges that lead to it.
    ///
    /// # Safety
    /// - Nothing is accessed through the record unless the index is below [`Self::record_count`].
    pub(super) unsafe fn record(self, vertex: u32) -> Record<S, W, L> {
        let words = Record::<S, W, L>::BYTES / 8;
        // SAFETY: the caller's obligation.
        unsafe { Record::at(self.records.offset(vertex as usize * words)) }
    }

    /// Returns a slab of the pool as a node of a chain.
    ///
    /// # Safety
    /// - Nothing is accessed through the node unless the handle was read in a link of the graph, or names a
    ///   blank slab that the pool has just allocated.
    pub(super) unsafe fn node(self, handle: Handle) -> Node<S, SLAB_TILE, L> {
        // SAFETY: the caller's obligation; slabs in links are nodes of chains.
        unsafe { Node::at(self.pool().slab(handle)) }
    }

    /// Returns the first node of a chain.
    ///
    /// # Safety
    /// - Nothing is accessed through the node unless the chain is one of the graph.
    pub(super) unsafe fn first_node(self, start: Start) -> Node<S, SLAB_TILE, L> {
        if start.is_bucket {
            // SAFETY: as above, for a bucket of a table.
            return unsafe { Node::at(self.arena().slab(start.index)) };
        }
        // SAFETY: the caller's obligation.
        unsafe { self.node(Handle::from_word(start.index)) }
    }

    /// Returns the location of the number of deferred insertions of a small vertex, minus one, which its
    /// first slab has.
    pub(super) fn slab_pressure(node: Node<S, SLAB_TILE, L>) -> Global<u32> {
        const { assert!(Node::<S, SLAB_TILE, L>::BYTES == super::table::SLAB_BYTES, "a slab has 128 bytes") };
        // SAFETY: the word before the link. No slot includes it.
        unsafe { node.base().cast::<u32>().offset(Node::<S, SLAB_TILE, L>::BYTES / 4 - 2) }
    }
}
