//! Triangles of the edges of a batch: common neighbours of their ends.
//!
//! A triangle with `k` edges of the batch is found at each of them, and counts as a `k`-th there. The sum is
//! in sixths, which have no remainder.
//!
//! A warp serves an edge whose ends are small: half a warp reads the neighbours of each end, at the same
//! time, into shared memory, where they are compared. If only one end is small, or one has a much larger
//! table than the other, a warp takes up to eight buckets of the visited end, collects their neighbours in
//! shared memory, and looks up 32 of them at a time in the table of the other end. Other edges are grouped:
//! see [`super::groups`].
use super::algorithms::{PART_BUCKETS, see_all};
use super::bucket_walk::{BUCKETS, BucketWalk};
use super::found::{Found, Trace};
use super::groups::{Groups, NO_PLACE, is_grouped, ranges_of};
use super::key_set::{KeySet, NO_EDGE, edge_key};
use super::kind::{Config, Edges};
use super::record::Table;
use super::row_memory::WarpWords;
use super::view::{GraphView, SLAB_TILE};
use crate::keyed::Slot;
use crate::primitives::unrolled;
use crate::slab::Pool;
use simt::{GlobalSlice, Order, Scope, Thread, Tile, device, shared};

/// The number 1 as triangles are counted.
pub const TRIANGLE: u64 = 6;

/// A batch whose outcomes are known.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExecutedBatch {
    /// Source of each edge.
    pub sources: GlobalSlice<u32>,
    /// Target of each edge.
    pub targets: GlobalSlice<u32>,
    /// Code of the outcome of each edge.
    pub outcomes: GlobalSlice<u8>,
    /// Code of the outcome of the edges that count.
    pub wanted: u32,
}

#[device]
impl ExecutedBatch {
    /// Returns the key of an edge that counts.
    fn key(self, edge: usize) -> Option<u64> {
        let (source, target) = (self.sources.read(edge), self.targets.read(edge));
        let counts = self.outcomes.read(edge) as u32 == self.wanted && source != target;
        counts.then(|| edge_key(source, target))
    }
}

/// The edges of a batch, without those that do not count and repetitions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BatchEdges {
    /// The hash set of the keys of the edges: at least as many words as there are edges, a power of two, zero
    /// before.
    pub set: GlobalSlice<u64>,
    /// The key of each edge with two small ends; zero in place of others.
    pub small: GlobalSlice<u64>,
    /// The ends of each edge with a large end: in the high half the one whose neighbours are visited.
    pub large: GlobalSlice<u64>,
    /// Three sections:
    ///
    /// - for each edge in `large` that is in no group, the number of parts of the visited end, 1 if that is
    ///   small; 0 for other edges;
    /// - for each group, the number of its edges times that of the ranges of its table: zero before;
    /// - for each group, the number of its edges: zero before.
    pub counts: GlobalSlice<u64>,
    /// Sum of the counts before each one, and of all.
    pub offsets: GlobalSlice<u64>,
    /// Edges with two large ends.
    pub groups: Groups,
    /// Number of parts that warps have taken, and of units of groups (an edge and a range each); zero before.
    pub taken: GlobalSlice<u64>,
}

/// Index of the number of parts that were taken: see [`BatchEdges::taken`].
const PARTS: usize = 0;
/// Index of the number of units of groups that were taken.
pub(super) const UNITS: usize = 1;

#[device]
impl BatchEdges {
    /// Returns the last of `len` entries from `first` on whose offset is at most `part`. Each round divides
    /// the range by 32. The lanes of a warp call it together.
    pub(super) fn entry_of(self, part: u64, (mut first, mut len): (usize, usize)) -> usize {
        let warp = Tile::<32>::lockstep();
        while len > 1 {
            let step = len.div_ceil(32);
            let own = warp.rank() as usize * step;
            let is_before = own < len && self.offsets.read(first + own) <= part;
            let skipped = step * warp.ballot(is_before).count_ones().saturating_sub(1) as usize;
            first += skipped;
            len = step.min(len - skipped);
        }
        first
    }

    /// Takes the next [`PARTS`] or [`UNITS`] for a warp. Returns
    /// the number of those taken before. The lanes of the warp call it together.
    pub(super) fn take(self, index: usize, many: u64) -> u64 {
        let (warp, mut first) = (Tile::<32>::lockstep(), 0);
        if warp.rank() == 0 {
            first = self.taken.at(index).fetch_add(many, Order::Relaxed, Scope::Device);
        }
        warp.shuffle(first, 0)
    }

    /// Returns the edge of a part. The lanes of a warp call it together.
    fn edge_of(self, part: u64) -> usize {
        self.entry_of(part, (0, self.large.len()))
    }

    /// As [`Self::edge_of`], given that edge of the part before, near which it is unless few edges are large.
    fn next_edge_of(self, edge: usize, part: u64) -> usize {
        let warp = Tile::<32>::lockstep();
        let own = edge + 1 + warp.rank() as usize;
        let is_before = own < self.large.len() && self.offsets.read(own) <= part;
        match warp.ballot(is_before).count_ones() {
            32 => self.edge_of(part),
            many => edge + many as usize,
        }
    }

    /// Returns what the triangle of an edge of the batch and a common neighbour of its ends counts there.
    pub(super) fn share(self, ends: [u32; 2], target: u32) -> u64 {
        let others = KeySet(self.set).count(ends.map(|end| edge_key(end, target)));
        match others {
            0 => TRIANGLE,
            1 => TRIANGLE / 2,
            _ => TRIANGLE / 3,
        }
    }
}

/// Finds the edges of a batch that count. Of the ends of an edge, that with fewer parts is visited, a small
/// one if there is one.
#[device]
pub(super) fn choose_ends<M: Config>(graph: GraphView<M>, batch: ExecutedBatch, edges: BatchEdges) {
    let mut edge = Thread::index();
    while edge < edges.small.len() {
        let (mut small, mut parts, mut place) = (NO_EDGE, 0, NO_PLACE);
        let is_new = |&key: &u64| matches!(KeySet(edges.set).insert(key), Some((_, true)));
        if let Some(key) = batch.key(edge).filter(is_new) {
            let (one, other) = ((key >> 32) as u32, key as u32);
            let sizes = [one, other].map(|vertex| M::size(graph, vertex).parts);
            let (less, more) = (sizes[0].min(sizes[1]), sizes[0].max(sizes[1]));
            let turned = if sizes[1] < sizes[0] { key.rotate_left(32) } else { key };
            if more == 0 {
                small = key;
            } else {
                // mutation: late equivalent, because only later launches read the edges.
                edges.large.write(edge, turned);
                if is_grouped(less, more) {
                    place = edges.join_group(turned as u32, ranges_of(more));
                }
                parts = if place == NO_PLACE { less.max(1) } else { 0 };
            }
        }
        // mutation: late equivalent, because only later launches read the edges.
        edges.small.write(edge, small);
        // mutation: late equivalent, because only later launches read the counts.
        edges.counts.write(edge, parts as u64);
        // mutation: late equivalent, because only later launches read the places.
        edges.groups.places.write(edge, place);
        edge += Thread::count();
    }
}

/// Returns the ends of an edge.
#[device]
fn ends_of(words: u64) -> [u32; 2] {
    [(words >> 32) as u32, words as u32]
}

/// Number of words of a warp in which neighbours are kept.
const WORDS: u32 = 256;
/// Number of neighbours of a small end that are kept at a time. Those of a record and a slab are fewer.
const MOST_KEPT: u32 = 64;
/// Index of the first kept neighbour of the second end.
const SECOND: u32 = 128;
/// The number of no vertex, in place of a neighbour.
pub(super) const NONE: u32 = u32::MAX;
/// Maximum number of parts that a warp takes, one after the other.
const RUN: u64 = 4;

/// Returns how many of `all` items a warp takes at a time, at most `most`: each takes several times.
#[device]
pub(super) fn run_of(all: u64, most: u64) -> u64 {
    (all / (Thread::count() / 8) as u64).clamp(1, most)
}

/// Neighbours in the shared memory of a warp.
type Memory = WarpWords<WORDS>;

/// The common neighbours of the ends of edges, one edge after the other.
struct Common {
    memory: Memory,
    ends: [u32; 2],
    found: Found,
}

#[device]
impl Common {
    fn new(batch: BatchEdges) -> Self {
        Self { memory: Memory::new(shared!([u32; Memory::BLOCK])), ends: [NONE; 2], found: Found::new(batch) }
    }

    /// Adds the lane's target if it is a common neighbour. The lanes of the warp call it together.
    fn add(&mut self, target: u32, is_common: bool) {
        self.found.keep(Trace { ends: self.ends, range: 0 }, target, is_common);
        self.found.count(32, |_, _| true);
    }

    /// Counts the common neighbours that are left, and adds their shares to `total`. The lanes of the warp
    /// call it together.
    fn add_to(mut self, total: GlobalSlice<u64>) {
        self.found.count(1, |_, _| true);
        self.found.add_to(total);
    }
}

/// Keeps the neighbours of each lane. Returns their number. The lanes of the warp call it together.
#[device]
fn keep(memory: Memory, targets: [Option<u32>; BUCKETS]) -> u32 {
    const { assert!(32 * BUCKETS <= WORDS as usize, "room for what a warp reads at a time") };
    let (warp, mut many) = (Tile::<32>::lockstep(), 0);
    unrolled::<BUCKETS>(|j| {
        let votes = warp.ballot(targets[j].is_some());
        if let Some(target) = targets[j] {
            memory.store(many + (votes & warp.lower_ranks()).count_ones(), target);
        }
        many += votes.count_ones();
    });
    many
}

/// Returns how many neighbours of each end are kept, of `many`, from these on.
#[device]
fn kept(many: [u32; 2], first: [u32; 2]) -> [u32; 2] {
    [0, 1].map(|end| many[end].saturating_sub(first[end]).min(MOST_KEPT))
}

/// Adds the kept neighbours that both small ends have. `many` are their numbers, at most [`MOST_KEPT`].
#[device]
fn compare(common: &mut Common, many: [u32; 2]) {
    let (memory, lane) = (common.memory, Thread::lane());
    // Four are compared at a time.
    if lane < 3 {
        memory.store(many[0] + lane, NONE);
    }
    Tile::<32>::lockstep().sync();
    let mut first = 0;
    while first < many[1] {
        let own = if first + lane < many[1] { memory.load(SECOND + first + lane) } else { NONE };
        let (mut is_common, mut place) = (false, 0);
        while place < many[0] {
            unrolled::<4>(|next| is_common |= memory.load(place + next as u32) == own);
            place += 4;
        }
        common.add(own, is_common && own != NONE);
        first += 32;
    }
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> GraphView<Edges<S, P, W, L>> {
    /// Adds the triangles of the batch's edges with two small ends to `total`, in sixths. A warp takes an
    /// edge. Also collects the ends in groups.
    pub(super) fn count_common(self, batch: BatchEdges, total: GlobalSlice<u64>) {
        batch.collect_ends();
        let (len, warps) = (batch.small.len(), Thread::count() / 32);
        let read = |edge: usize| if edge < len { batch.small.read(edge) } else { NO_EDGE };
        let (mut edge, mut common) = (Thread::index() / 32, Common::new(batch));
        let mut next = read(edge);
        while edge < len {
            let words = next;
            edge += warps;
            // Read while the warp waits for the neighbours.
            next = read(edge);
            if words != NO_EDGE {
                common.ends = ends_of(words);
                self.compare_small(&mut common);
            }
        }
        common.add_to(total);
    }

    /// As [`Self::count_common`], of the other edges that are in no group. A warp takes parts that follow
    /// each other.
    pub(super) fn count_common_parts(self, batch: BatchEdges, total: GlobalSlice<u64>) {
        let (parts, mut common) = (batch.offsets.read(batch.large.len()), Common::new(batch));
        let run = run_of(parts, RUN);
        loop {
            let mut part = batch.take(PARTS, run);
            if part >= parts {
                break;
            }
            let (mut edge, behind) = (batch.edge_of(part), parts.min(part + run));
            loop {
                let index = (part - batch.offsets.read(edge)) as u32;
                common.ends = ends_of(batch.large.read(edge));
                self.compare_part(&mut common, index);
                part += 1;
                if part == behind {
                    break;
                }
                edge = batch.next_edge_of(edge, part);
            }
        }
        common.add_to(total);
    }

    /// Adds the common neighbours of two small ends. The lanes of the warp call it together.
    fn compare_small(self, common: &mut Common) {
        let mut first = [0, 0];
        // There is one round, unless the ends have more neighbours than are kept: then each group of
        // neighbours of one end is compared with each of the other end.
        loop {
            let (_, many) = self.both_ends(common.memory, common.ends, first);
            compare(common, kept(many, first));
            first[1] += MOST_KEPT;
            if first[1] >= many[1] {
                first = [first[0] + MOST_KEPT, 0];
            }
            if first[0] >= many[0] {
                return;
            }
        }
    }

    /// Adds the common neighbours in a part of the first end; the second one is large. The lanes of the warp
    /// call it together.
    fn compare_part(self, common: &mut Common, index: u32) {
        let mut first = 0;
        // There is one round, unless a small end has more neighbours than are kept.
        loop {
            let (tables, many) = self.both_ends(common.memory, common.ends, [first, 0]);
            self.compare_table(common, tables, (index, kept(many, [first, 0])[0]));
            first += MOST_KEPT;
            if first >= many[0] {
                return;
            }
        }
    }

    /// Returns the tables of the ends of an edge, without buckets if they are small, and the numbers of
    /// neighbours of small ends. Keeps these from `first` on: those of the first end from the first word on,
    /// those of the second end from [`SECOND`] on. The lanes of the warp call it together.
    fn both_ends(self, memory: Memory, ends: [u32; 2], first: [u32; 2]) -> ([Table; 2], [u32; 2]) {
        let (warp, tile) = (Tile::<32>::lockstep(), Tile::<16>::lockstep());
        // Lanes may still read what was kept before.
        warp.sync();
        let is_second = warp.rank() >= 16;
        let (end, first, begin) =
            if is_second { (ends[1], first[1], SECOND) } else { (ends[0], first[0], 0) };
        let mut many = 0;
        let (table, _) = see_all::<16, S, P, W, L>(self, Some(end), None, |target| {
            let votes = tile.ballot(target.is_some());
            let place = (many + (votes & tile.lower_ranks()).count_ones()).wrapping_sub(first);
            if let Some(target) = target.filter(|_| place < MOST_KEPT) {
                memory.store(begin + place, target);
            }
            many += votes.count_ones();
        });
        let of_end = |lane| {
            let (base, buckets) = (warp.shuffle(table.base, lane), warp.shuffle(table.buckets, lane));
            Table { base, buckets, ..table }
        };
        ([0, 31].map(of_end), [0, 31].map(|lane| warp.shuffle(many, lane)))
    }

    /// Adds the common neighbours in a part of the first end, or of its kept neighbours if it is small; the
    /// second end has a table. The lanes of the warp call it together.
    fn compare_table(self, common: &mut Common, [one, other]: [Table; 2], (index, kept): (u32, u32)) {
        let warp = Tile::<32>::lockstep();
        let mut walk = BucketWalk::new(self, one.slabs_of_part(index, PART_BUCKETS));
        let mut many = kept;
        loop {
            if walk.is_at() {
                many = keep(common.memory, walk.read());
            }
            warp.sync();
            self.look_up(common, many, other);
            if !walk.is_at() {
                return;
            }
            warp.sync();
        }
    }

    /// Adds those of the first `many` kept neighbours that are in a table. The lanes of the warp call it
    /// together.
    fn look_up(self, common: &mut Common, many: u32, table: Table) {
        // A tile serves its lanes one after the other: so few neighbours are spread over the tiles.
        let mut place = Thread::lane() % SLAB_TILE * (32 / SLAB_TILE) + Thread::lane() / SLAB_TILE;
        while place < many.next_multiple_of(32) {
            let target = (place < many).then(|| common.memory.load(place));
            // SAFETY: the table of a vertex, as its record describes it.
            let is_found = unsafe { self.is_in_table(table, target) };
            common.add(target.unwrap_or(NONE), is_found);
            place += 32;
        }
    }
}
