//! Examination of a whole graph, for tests and for authors of kernels.
use super::chain::Chain;
use super::kind::Edges;
use super::link::Link;
use super::search::Half;
use super::view::{GraphView, Start};
use crate::keyed::{Scalar, Slot};
use crate::slab::Pool;
use simt::{GlobalSlice, Order, Scope, device};

/// Number of words of a report.
pub const REPORT_WORDS: usize = 9;

/// Counts of an examination, as words of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Slabs of the pool in chains.
    pub slabs: u32,
    /// Slabs of the arena in tables.
    pub buckets: u32,
    /// Edges; of an undirected graph, first halves.
    pub edges: u32,
    /// Empty slots before a taken one in the same chain.
    pub gaps: u32,
    /// Links to slabs that are not live.
    pub dead_links: u32,
    /// Tables whose counts are wrong.
    pub wrong_counts: u32,
    /// Edges to vertices that do not exist, or that occur twice.
    pub wrong_edges: u32,
    /// Halves whose other half is missing or has other data.
    pub single_halves: u32,
    /// Vertices that still count deferred insertions.
    pub pressures: u32,
}

#[device]
impl Findings {
    /// Adds the findings to a report.
    pub fn add_to(self, report: GlobalSlice<u64>) {
        let words = [
            self.slabs, self.buckets, self.edges, self.gaps, self.dead_links, self.wrong_counts,
            self.wrong_edges, self.single_halves, self.pressures,
        ];
        let mut word = 0;
        while word < REPORT_WORDS {
            if words[word] != 0 {
                report.at(word).fetch_add(words[word] as u64, Order::Relaxed, Scope::Device);
            }
            word += 1;
        }
    }
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> GraphView<Edges<S, P, W, L>> {
    /// Examines a vertex, by the calling lane alone. Requires exclusive access to the graph.
    pub(super) fn inspect(self, vertex: u32) -> Findings {
        let mut found = Findings::default();
        if vertex >= self.record_count() {
            return found;
        }
        // SAFETY: the vertex exists.
        let record = unsafe { self.record(vertex) };
        // mutation: block weak equivalent, because nothing writes to the graph in the launch.
        match Link::from_word(record.link().load(Order::Relaxed, Scope::Device)) {
            Link::TABLE => {
                let (table, live) = record.load_table();
                let (mut bucket, mut taken) = (0, 0);
                while bucket < table.buckets {
                    // SAFETY: a bucket of the table.
                    let chain = unsafe { Chain::of_bucket(self, table.base + bucket) };
                    taken += self.inspect_chain(vertex, chain, &mut found);
                    bucket += 1;
                }
                found.buckets = table.buckets;
                let edges = self.live_of(vertex);
                found.wrong_counts = (taken != table.taken || edges != live) as u32;
                // mutation: block weak equivalent, because nothing writes to the graph in the launch.
                found.pressures = (record.pressure().load(Order::Relaxed, Scope::Device) != u32::MAX) as u32;
            }
            Link::NO_VERTEX => {}
            link => {
                self.inspect_chain(vertex, Chain::of_small(self, Some(vertex)), &mut found);
                found.pressures = match link.slab() {
                    Some(slab) => {
                        // SAFETY: the handle was read in the link of a record.
                        let word = Self::slab_pressure(unsafe { self.node(slab) });
                        // mutation: block weak equivalent, because nothing writes to the graph in the launch.
                        (word.load(Order::Relaxed, Scope::Device) != u32::MAX) as u32
                    }
                    None => (link != Link::NONE) as u32,
                };
            }
        }
        found
    }

    /// Returns the number of edges of a vertex, counted anew.
    fn live_of(self, vertex: u32) -> u32 {
        let (mut chain, mut live) = (Chain::of_vertex(self, Some(vertex)), 0);
        while let Some(slot) = chain.slot(0) {
            // mutation: block weak equivalent, because nothing writes to the graph in the launch.
            live += S::is_live(slot.load(Order::Relaxed, Scope::Device)) as u32;
            chain.advance(1);
        }
        live
    }

    /// Examines a chain. Returns the number of its taken slots.
    fn inspect_chain(self, vertex: u32, mut chain: Chain<S, P, W, L>, found: &mut Findings) -> u32 {
        let (mut taken, mut empty) = (0, false);
        while let Some(slot) = chain.slot(0) {
            // mutation: block weak equivalent, because nothing writes to the graph in the launch.
            let word = slot.load(Order::Relaxed, Scope::Device);
            found.gaps += (empty && !S::is_empty(word)) as u32;
            empty |= S::is_empty(word);
            taken += !S::is_empty(word) as u32;
            if S::is_live(word) {
                self.inspect_edge(vertex, S::key(word).to_u64() as u32, S::value(word), chain, found);
            }
            if let Some(slab) = chain.slab_ahead() {
                // mutation: block weak equivalent, because nothing writes to the graph in the launch.
                if !self.pool().is_live(slab) {
                    found.dead_links += 1;
                    return taken;
                }
                found.slabs += 1;
            }
            chain.advance(1);
        }
        taken
    }

    /// Examines the edge at the position of `rest`.
    fn inspect_edge(
        self,
        vertex: u32,
        target: u32,
        data: S::Value,
        mut rest: Chain<S, P, W, L>,
        found: &mut Findings,
    ) {
        let own = Half { source: vertex, target, data };
        // Each half is the other one of its other one.
        let (is_out, other) = (vertex < self.vertices(), self.other_half(own));
        let is_loop = target == if is_out { vertex } else { other.target };
        found.edges += (is_out && (!self.flags().is_undirected() || vertex <= target)) as u32;
        if target >= self.vertices() || (is_loop && !self.flags().has_self_edges()) {
            found.wrong_edges += 1;
            return;
        }
        rest.advance(1);
        let mut others = if self.flags().has_parallel_edges() { Chain::of_small(self, None) } else { rest };
        while let Some(slot) = others.slot(0) {
            // mutation: block weak equivalent, because nothing writes to the graph in the launch.
            let word = slot.load(Order::Relaxed, Scope::Device);
            found.wrong_edges += (S::is_live(word) && S::key(word).to_u64() == target as u64) as u32;
            others.advance(1);
        }
        if self.halves() == 2 && self.find_alone(other.source, other.target) != Some(data) {
            found.single_halves += 1;
        }
    }

    /// Returns the word of the data of an edge, by the calling lane alone.
    fn find_alone(self, source: u32, target: u32) -> Option<S::Value> {
        // SAFETY: the vertex exists: see `inspect_edge`.
        let record = unsafe { self.record(source) };
        // mutation: block weak equivalent, because nothing writes to the graph in the launch.
        let link = Link::from_word(record.link().load(Order::Relaxed, Scope::Device));
        let mut chain = if link == Link::TABLE {
            let (table, _) = record.load_table();
            let start = Start::bucket(table.base, table.buckets, target);
            // SAFETY: a bucket of the table.
            unsafe { Chain::of_bucket(self, start.index) }
        } else {
            Chain::of_small(self, Some(source))
        };
        while let Some(slot) = chain.slot(0) {
            // mutation: block weak equivalent, because nothing writes to the graph in the launch.
            let word = slot.load(Order::Relaxed, Scope::Device);
            if S::is_live(word) && S::key(word).to_u64() == target as u64 {
                return Some(S::value(word));
            }
            chain.advance(1);
        }
        None
    }
}
