//! Operations on the whole graph: flush, expected degrees, expiry, and the removal of vertices.
use super::algorithms::{Large, PART_BUCKETS, Part, PartList, VERTEX_TILE};
use super::batch::{Changes, Growth, REMOVED};
use super::chain::Chain;
use super::kind::{Config, Edges, slab_slots};
use super::link::Link;
use super::record::{RECORD_SLOTS, Table};
use super::search::Half;
use super::table::{buckets_of, class_for, growth_class};
use super::together::{Repeats, together};
use super::view::{GraphView, SLAB_TILE, Start};
use crate::keyed::kernels::{read_if, write_if};
use crate::keyed::{self, CounterDelta, Outcome, Scalar, Slot};
use crate::primitives::unrolled;
use crate::slab::Pool;
use simt::{GlobalSlice, Order, Scope, Thread, Tile, Word, device};

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> GraphView<Edges<S, P, W, L>> {
    /// Drops the tombstones of a small vertex, or lists a vertex that should get a table or another one, by
    /// the calling lane alone. Requires exclusive access to the graph.
    pub(super) fn flush(self, growth: Growth, vertex: u32) {
        if vertex >= self.record_count() {
            return;
        }
        // SAFETY: the vertex exists.
        let record = unsafe { self.record(vertex) };
        // mutation: block weak equivalent, because nothing else accesses the vertex in the launch.
        match Link::from_word(record.link().load(Order::Relaxed, Scope::Device)) {
            Link::TABLE => {
                let (table, live) = record.load_table();
                let class = growth_class(live as u64, slab_slots::<S, L>(), growth.tenths());
                let has_size = class.is_some_and(|class| buckets_of(class) == table.buckets);
                if !has_size || table.taken != live {
                    growth.add_listed(vertex);
                }
            }
            Link::NO_VERTEX => {}
            _ if self.count_live(vertex) > RECORD_SLOTS + slab_slots::<S, L>() => growth.add_listed(vertex),
            _ => self.compact(vertex),
        }
    }

    /// Lists a vertex that gets a table with `many` more edges, by the calling lane alone. Requires exclusive
    /// access to the graph.
    pub(super) fn expect(self, growth: Growth, vertex: u32, many: u32) {
        if many == 0 || vertex >= self.record_count() {
            return;
        }
        // SAFETY: the vertex exists.
        let record = unsafe { self.record(vertex) };
        let link = Link::from_word(record.link().load(Order::Relaxed, Scope::Device));
        let is_large = match link {
            Link::TABLE => {
                let (table, live) = record.load_table();
                live as u64 + many as u64 > table.buckets as u64 * slab_slots::<S, L>() as u64
            }
            _ => self.count_live(vertex) + many > RECORD_SLOTS + slab_slots::<S, L>(),
        };
        // SAFETY: the vertex exists.
        if is_large && link != Link::NO_VERTEX && unsafe { self.add_pressure(vertex, many) } {
            growth.add_listed(vertex);
        }
    }

    /// Lists a vertex of which a chain has more than `most` slabs, with `times` times its edges as pressure.
    /// The lanes of a warp call it together, with the same vertex. Requires exclusive access to the graph.
    pub(super) fn rehash(self, growth: Growth, vertex: u32, (most, times): (u32, u32)) {
        if vertex >= self.record_count() {
            return;
        }
        let warp = Tile::<32>::lockstep();
        // SAFETY: the vertex exists.
        let record = unsafe { self.record(vertex) };
        let link = Link::from_word(record.link().load(Order::Relaxed, Scope::Device));
        let (mut is_long, mut edges) = (false, 0);
        if link == Link::TABLE {
            let (table, live) = record.load_table();
            let mut bucket = warp.rank();
            while bucket < table.buckets {
                // SAFETY: a bucket of the table.
                let node = unsafe { self.first_node(Start { index: table.base + bucket, is_bucket: true }) };
                let next = Link::from_word(node.link().load(Order::Relaxed, Scope::Device));
                is_long |= self.slabs_from(next) >= most;
                bucket += 32;
            }
            edges = live;
        } else if warp.rank() == 0 && self.slabs_from(link) > most {
            (is_long, edges) = (true, self.count_live(vertex));
        }
        if warp.any(is_long) && warp.rank() == 0 {
            let pressure = edges.saturating_mul(times);
            // SAFETY: the vertex exists.
            if pressure == 0 || unsafe { self.add_pressure(vertex, pressure) } {
                growth.add_listed(vertex);
            }
        }
    }

    /// Returns the number of slabs of the pool in a chain from `link` on.
    fn slabs_from(self, mut link: Link) -> u32 {
        let mut slabs = 0;
        while let Some(slab) = link.slab() {
            slabs += 1;
            // SAFETY: the handle was read in a link of the graph.
            link = Link::from_word(unsafe { self.node(slab) }.link().load(Order::Relaxed, Scope::Device));
        }
        slabs
    }

    /// Removes the edges of a vertex whose data are below `before`. The lanes of the tile pass the same
    /// vertex, or none; tiles in lockstep call it together. Returns to each lane the number of edges that it
    /// has removed, without those that count at the other vertex.
    pub(super) fn expire(self, vertex: Option<u32>, before: S::Value) -> u32 {
        let tile = Tile::<SLAB_TILE>::lockstep();
        let vertex = vertex.filter(|&vertex| vertex < self.record_count());
        let (mut chain, mut removed, mut counted) = (Chain::of_vertex(self, vertex), 0, 0);
        while tile.any_converged(chain.is_at_slot()) {
            let slot = chain.slot(tile.rank());
            chain.advance(SLAB_TILE);
            let Some(slot) = slot else { continue };
            // mutation: block weak equivalent, because only this lane writes to the slot in the launch.
            let word = slot.load(Order::Relaxed, Scope::Device);
            if S::is_live(word) && S::read_value(slot, word) < before && S::erase(slot, S::key(word)) {
                removed += 1;
                let is_first = |vertex: u32| match self.flags().is_undirected() {
                    true => vertex as u64 <= S::key(word).to_u64(),
                    false => vertex < self.vertices(),
                };
                counted += vertex.is_some_and(is_first) as u32;
            }
        }
        let removed = tile.reduce_add(removed);
        if let Some(vertex) = vertex.filter(|_| removed > 0 && tile.rank() == 0) {
            // SAFETY: the vertex exists.
            let record = unsafe { self.record(vertex) };
            // mutation: block weak equivalent, because no link changes in the launch.
            if Link::from_word(record.link().load(Order::Relaxed, Scope::Device)) == Link::TABLE {
                let change = 0u64.wrapping_sub(removed as u64);
                // mutation: block tear equivalent, because only this lane changes the counts in the launch.
                record.counts().fetch_add(change, Order::Relaxed, Scope::Device);
            }
        }
        counted
    }

    /// Blanks a vertex and frees its memory, except the buckets of a table, which [`Self::free_part`] has
    /// blanked; its record then belongs to no vertex. The lanes of the tile pass the same vertex, or none;
    /// tiles in lockstep call it together. Requires exclusive access to the graph.
    pub(super) fn free_vertex(self, vertex: Option<u32>) {
        let tile = Tile::<SLAB_TILE>::lockstep();
        let record = vertex.filter(|&vertex| vertex < self.record_count()).map(|vertex| {
            // SAFETY: the vertex exists.
            unsafe { self.record(vertex) }
        });
        // mutation: block weak equivalent, because nothing else accesses the vertex in the launch.
        let link = record
            .map_or(Link::NONE, |record| Link::from_word(record.link().load(Order::Relaxed, Scope::Device)));
        let table = record.filter(|_| link == Link::TABLE).map(|record| record.load_table().0);
        // mutation: skip equivalent, because the vote in `free_chain` needs the link that each lane has read,
        // and no lane writes before it.
        tile.sync();
        self.free_chain(tile, link);
        if let Some(record) = record.filter(|_| tile.rank() == 0) {
            if let Some(table) = table {
                // SAFETY: the table of the vertex, which no longer exists.
                unsafe { self.arena().free(class_for(table.buckets), table.base) };
            }
            record.blank(Link::NO_VERTEX);
        }
    }

    /// Blanks the buckets in a part of a table, and frees the slabs behind them. All lanes of the warp call
    /// it together. Requires exclusive access to the graph.
    pub(super) fn free_part(self, part: Part) {
        let table = self.table_of(part.vertex);
        let bucket = part.index * PART_BUCKETS + Thread::lane() / SLAB_TILE;
        let bucket = (bucket < table.buckets).then_some(table.base + bucket);
        self.free_bucket(Tile::<SLAB_TILE>::lockstep(), bucket);
    }

    /// Calls `see` for the edges in a part of a table. All lanes of the warp call it together.
    pub(super) fn for_each_in_part(self, part: Part, see: impl FnMut(Option<(u32, S::Value)>)) {
        let first = part.index * PART_BUCKETS;
        let chain = Chain::of_buckets(self, self.table_of(part.vertex), first, first + PART_BUCKETS);
        self.for_each_in_chain(Tile::<32>::lockstep(), chain, see);
    }

    /// Returns the table of a vertex, or one without buckets.
    pub(super) fn table_of(self, vertex: u32) -> Table {
        Chain::of_small_or_table(self, Some(vertex)).1.map_or(Table::default(), |found| found.0)
    }

    /// Lets a record that belongs to no vertex belong to one, by the calling lane alone.
    pub(super) fn restore_vertex(self, vertex: u32) {
        if vertex < self.record_count() {
            // SAFETY: there is such a record.
            unsafe { self.record(vertex) }.blank(Link::NONE);
        }
    }
}

/// Number of halves that a thread of the kernel `graph_count` counts.
pub const COUNTED_EACH: usize = 4;

/// Adds the numbers of edges of a batch to `counts`, a word per record, for `many` records from `first` on.
/// The grid has a thread for each [`COUNTED_EACH`] halves.
#[device]
pub(super) fn count_sources<M: Config>(
    graph: GraphView<M>,
    edges: Changes<M::Data>,
    counts: GlobalSlice<u32>,
    (first, many): (u32, u32),
) {
    let (halves, sources) = (graph.halves(), edges.sources.resolve());
    let begin = Thread::index() / 32 * 32 * COUNTED_EACH + Thread::lane() as usize;
    let mut found = [(0, 0); COUNTED_EACH];
    unrolled::<COUNTED_EACH>(|i| {
        let number = begin + 32 * i;
        let (element, half) = (number / halves, number % halves);
        let is_pending = element < sources.len();
        let ends = [read_if(sources, element, is_pending), read_if(edges.targets, element, is_pending)];
        let own = Half { source: ends[0], target: ends[1], data: M::Data::narrow(0) };
        let vertex = if half == 0 { ends[0] } else { graph.other_half(own).source };
        let exists = is_pending && ends[0] < graph.vertices() && ends[1] < graph.vertices();
        found[i] = (vertex, (exists && vertex.wrapping_sub(first) < many) as u32);
    });
    unrolled::<COUNTED_EACH>(|i| {
        let (vertex, is_counted) = found[i];
        let group = together(vertex, is_counted);
        if group.is_leader {
            counts.at(vertex as usize).fetch_add(group.many, Order::Relaxed, Scope::Device);
        }
    });
}

/// Marks vertices as removed, and writes `Removed` or `Absent` for each. The grid has a thread for each.
#[device]
pub(super) fn mark_removed<M: Config>(
    graph: GraphView<M>,
    vertices: GlobalSlice<u32>,
    outcomes: GlobalSlice<u8>,
) {
    let index = Thread::index();
    if index >= vertices.len() {
        return;
    }
    let is_new = graph.mark_removed(vertices.read(index));
    let outcome = if is_new { Outcome::Removed } else { Outcome::Absent };
    // mutation: late equivalent, because only later launches read the outcomes.
    write_if(outcomes, index, outcome as u8);
}

/// Returns the index of the record that the calling thread's group of `width` threads processes: one of an
/// element whose outcome is `Removed`.
#[device]
fn removed_record<M: Config>(
    graph: GraphView<M>,
    (vertices, outcomes): (GlobalSlice<u32>, GlobalSlice<u8>),
    width: u32,
) -> Option<u32> {
    let (number, has_two) = (Thread::index() / width as usize, graph.flags().has_in_edges() as usize);
    let (index, which) = (number >> has_two, number & has_two);
    let is_there = index < vertices.len() && outcomes.read(index) == Outcome::Removed as u8;
    is_there.then(|| vertices.read(index) + which as u32 * graph.vertices())
}

/// Lists the parts of the large vertices among the removed ones, or of all large vertices if `all` is not 0.
/// The grid has a tile of [`VERTEX_TILE`] threads for each record of each element, or for each record.
#[device]
pub(super) fn list_parts<M: Config>(
    graph: GraphView<M>,
    all: u32,
    (vertices, outcomes): (GlobalSlice<u32>, GlobalSlice<u8>),
    parts: PartList,
) {
    let record = match all != 0 {
        true => Some((Thread::index() / VERTEX_TILE as usize) as u32).filter(|&at| at < graph.record_count()),
        false => removed_record(graph, (vertices, outcomes), VERTEX_TILE),
    };
    parts.append(record, record.map_or(Large::default(), |record| M::size(graph, record)));
}

/// Blanks the buckets in the listed parts. The grid has any number of threads.
#[device]
pub(super) fn free_parts<M: Config>(graph: GraphView<M>, parts: PartList) {
    parts.for_each(|part| M::free_part(graph, part));
}

/// Erases the edges of removed vertices at their other ends. The grid has at least a warp for each record of
/// each element if edges are stored at both ends, otherwise one for each vertex of the graph. The parts of
/// large vertices are served by all warps.
#[device]
pub(super) fn unlink<M: Config>(
    graph: GraphView<M>,
    vertices: GlobalSlice<u32>,
    outcomes: GlobalSlice<u8>,
    parts: PartList,
) {
    let record = match graph.halves() == 2 {
        true => removed_record(graph, (vertices, outcomes), 32),
        false => Some((Thread::index() / 32) as u32).filter(|&vertex| vertex < graph.vertices()),
    };
    let mut delta = CounterDelta::default();
    let small = record.filter(|&record| M::size(graph, record).parts == 0);
    let source = small.unwrap_or(0);
    M::for_each_in_record(graph, small, |edge| unlink_edge(graph, source, edge, &mut delta));
    parts.for_each(|part| {
        M::for_each_in_part(graph, part, |edge| unlink_edge(graph, part.vertex, edge, &mut delta));
    });
    graph.counters().record(delta);
}

/// Erases the other half of an edge in the record `source`, or the edge itself if it has no other half and
/// leads to a removed vertex. All lanes of the warp call it together, with the same record.
#[device]
fn unlink_edge<M: Config>(
    graph: GraphView<M>,
    source: u32,
    edge: Option<(u32, M::Data)>,
    delta: &mut CounterDelta,
) {
    let has_both = graph.halves() == 2;
    let own = !has_both && graph.is_removed(source);
    let half = Half { source, target: edge.map_or(0, |edge| edge.0), data: M::Data::narrow(0) };
    let is_gone = edge.is_some() && graph.is_removed(half.target);
    delta.remove((edge.is_some() && counts_at(graph, half, own, is_gone)) as u32);
    let erases = edge.is_some() && if has_both { !is_gone } else { is_gone && !own };
    let half = if has_both { graph.other_half(half) } else { half };
    let erased = M::execute::<_, false>(graph, erases, keyed::Remove, half);
    let is_erased = erases && erased.outcome == Outcome::Removed;
    M::count_in_tables(graph, Repeats::once(half.source, is_erased && erased.in_table), REMOVED);
}

/// Returns whether the removal of an edge counts where a visit has found this half. `own` tells whether a
/// vertex of which only the edges from it are stored was removed, `is_gone` whether the target was.
#[device]
fn counts_at<M: Config>(graph: GraphView<M>, half: Half<M::Data>, own: bool, is_gone: bool) -> bool {
    match (graph.flags().is_undirected(), graph.flags().has_in_edges()) {
        // An edge between removed vertices counts at its first half.
        (true, _) => !is_gone || half.source <= half.target,
        (_, true) => !is_gone || half.source < graph.vertices(),
        _ => own || is_gone,
    }
}

/// Blanks removed vertices, and frees their memory. The grid has a tile of four threads for each record of
/// each element.
#[device]
pub(super) fn free_removed<M: Config>(
    graph: GraphView<M>,
    vertices: GlobalSlice<u32>,
    outcomes: GlobalSlice<u8>,
) {
    M::free_vertex(graph, removed_record(graph, (vertices, outcomes), SLAB_TILE));
}
