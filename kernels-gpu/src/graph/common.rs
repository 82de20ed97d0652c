//! Triangles of the edges of a batch: common neighbours of their ends.
//!
//! A triangle with `k` edges of the batch is found at each of them, and counts as a `k`-th there. The sum is
//! in sixths, which have no remainder.
//!
//! A warp serves an edge whose ends are small: half a warp reads the neighbours of each end, at the same
//! time, into shared memory, where they are compared. If only one end is small, or none, a warp takes up to
//! eight buckets of the visited end, collects their neighbours in shared memory, and looks up 32 of them at a
//! time in the table of the other end.
use super::algorithms::{PART_BUCKETS, add_of_warp, see_all, target_in};
use super::edge_set::{EdgeSet, NO_EDGE, edge_key};
use super::kind::{Config, Edges};
use super::record::Table;
use super::row_memory::WARPS;
use super::table_walk::TableWalk;
use super::view::GraphView;
use crate::keyed::Slot;
use crate::primitives::unrolled;
use crate::slab::Pool;
use simt::{GlobalSlice, Shared, Thread, Tile, device, shared};

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
    /// The hash set of the keys of the edges: at least as many words as there are edges, a power of two, all
    /// ones before.
    pub set: GlobalSlice<u64>,
    /// The key of each edge with two small ends; all ones in place of others.
    pub small: GlobalSlice<u64>,
    /// The ends of each edge of which one at least is large: in the high half that whose neighbours are
    /// visited.
    pub large: GlobalSlice<u64>,
    /// Number of parts of the visited end of such an edge, 1 if that is small; 0 for other edges.
    pub parts: GlobalSlice<u64>,
    /// Number of parts of all edges before each one, and of all.
    pub offsets: GlobalSlice<u64>,
}

#[device]
impl BatchEdges {
    /// Returns the last edge whose offset is at most `part`. Each round divides the range by 32. The lanes of
    /// a warp call it together.
    fn edge_of(self, part: u64) -> usize {
        let warp = Tile::<32>::lockstep();
        let (mut first, mut len) = (0, self.large.len());
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
    fn share(self, ends: [u32; 2], target: u32) -> u64 {
        let others = EdgeSet(self.set).count(ends.map(|end| edge_key(end, target)));
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
        let (mut small, mut parts) = (NO_EDGE, 0);
        if let Some(key) = batch.key(edge).filter(|&key| EdgeSet(edges.set).insert(key)) {
            let (one, other) = ((key >> 32) as u32, key as u32);
            let sizes = [one, other].map(|vertex| M::size(graph, vertex).parts);
            if sizes[0].max(sizes[1]) == 0 {
                small = key;
            } else {
                let is_turned = sizes[1] < sizes[0];
                edges.large.write(edge, if is_turned { (other as u64) << 32 | one as u64 } else { key });
                parts = sizes[0].min(sizes[1]).max(1);
            }
        }
        edges.small.write(edge, small);
        edges.parts.write(edge, parts as u64);
        edge += Thread::count();
    }
}

/// Returns the ends of an edge.
#[device]
fn ends_of(words: u64) -> [u32; 2] {
    [(words >> 32) as u32, words as u32]
}

/// Number of words of a warp in which neighbours are kept: as many as it reads of a table at a time.
const WORDS: u32 = 256;
/// Number of neighbours of a small end that are kept at a time. Those of a record and a slab are fewer.
const MOST_KEPT: u32 = 64;
/// Index of the first kept neighbour of the second end.
const SECOND: u32 = 128;
/// Number of words of a warp for common neighbours.
const FOUND: u32 = 64;
/// The number of no vertex, in place of a neighbour.
const NONE: u32 = u32::MAX;
/// Maximum number of parts that a warp takes, one after the other.
const RUN: u64 = 8;

/// Shared memory of a warp: neighbours, and common neighbours that have not been counted.
#[derive(Clone, Copy)]
struct Memory {
    words: Shared<u32>,
    first: u32,
}

#[device]
impl Memory {
    fn of_warp() -> Self {
        let words = shared!([u32; (WARPS * (WORDS + FOUND)) as usize]);
        Self { words, first: Thread::index_in_block() / 32 % WARPS * (WORDS + FOUND) }
    }

    fn load(self, place: u32) -> u32 {
        // SAFETY: a word of the warp.
        unsafe { self.words.load_unchecked(self.first + place % (WORDS + FOUND)) }
    }

    fn store(self, place: u32, word: u32) {
        // SAFETY: a word of the warp.
        unsafe { self.words.store_unchecked(self.first + place % (WORDS + FOUND), word) }
    }
}

/// The common neighbours of the ends of edges, one edge after the other.
struct Common {
    memory: Memory,
    batch: BatchEdges,
    ends: [u32; 2],
    /// Number of those that have not been counted.
    many: u32,
    /// Sum of the lane's shares.
    sum: u64,
}

#[device]
impl Common {
    fn new(batch: BatchEdges) -> Self {
        Self { memory: Memory::of_warp(), batch, ends: [NONE; 2], many: 0, sum: 0 }
    }

    /// Adds the lane's target if it is a common neighbour. The lanes of the warp call it together.
    fn add(&mut self, target: u32, is_common: bool) {
        let is_other = target != self.ends[0] && target != self.ends[1];
        let votes = Tile::<32>::lockstep().ballot(is_common && is_other);
        if is_common && is_other {
            let before = (votes & ((1 << Thread::lane()) - 1)).count_ones();
            self.memory.store(WORDS + self.many + before, target);
        }
        self.many += votes.count_ones();
        if self.many > FOUND - 32 {
            self.count();
        }
    }

    /// Counts up to 32 common neighbours. The lanes of the warp call it together.
    fn count(&mut self) {
        let (warp, first) = (Tile::<32>::lockstep(), self.many.saturating_sub(32));
        warp.sync();
        let place = first + warp.rank();
        if place < self.many {
            self.sum += self.batch.share(self.ends, self.memory.load(WORDS + place));
        }
        self.many = first;
        warp.sync();
    }

    /// Counts all common neighbours. The lanes of the warp call it together.
    fn count_all(&mut self) {
        while self.many > 0 {
            self.count();
        }
    }
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
    /// edge.
    pub(super) fn count_common(self, batch: BatchEdges, total: GlobalSlice<u64>) {
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
                common.count_all();
            }
        }
        add_of_warp(total.at(0), common.sum);
    }

    /// As [`Self::count_common`], of the other edges. A warp takes parts that follow each other.
    pub(super) fn count_common_parts(self, batch: BatchEdges, total: GlobalSlice<u64>) {
        let (parts, warps) = (batch.offsets.read(batch.large.len()), (Thread::count() / 32) as u64);
        // All warps have work before any takes a second part.
        let run = parts.div_ceil(warps).clamp(1, RUN) as u32;
        let (mut part, mut common) = ((Thread::index() / 32) as u64 * run as u64, Common::new(batch));
        while part < parts {
            let (mut edge, mut left) = (batch.edge_of(part), (parts - part).min(run as u64) as u32);
            loop {
                let index = (part - batch.offsets.read(edge)) as u32;
                common.ends = ends_of(batch.large.read(edge));
                self.compare_part(&mut common, index);
                common.count_all();
                (part, left) = (part + 1, left - 1);
                if left == 0 {
                    break;
                }
                edge = batch.next_edge_of(edge, part);
            }
            part += (warps - 1) * run as u64;
        }
        add_of_warp(total.at(0), common.sum);
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
            let place = (many + (votes & ((1 << tile.rank()) - 1)).count_ones()).wrapping_sub(first);
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
        let first = (index * PART_BUCKETS).min(one.buckets);
        let end = (first + PART_BUCKETS).min(one.buckets);
        let mut walk = TableWalk::new(self, (one.base + first, one.base + end));
        let mut many = kept;
        loop {
            if one.buckets > 0 {
                many = self.keep(common.memory, walk.read());
            }
            warp.sync();
            self.look_up(common, many, other);
            if !warp.any(walk.is_at()) {
                return;
            }
            warp.sync();
        }
    }

    /// Keeps the neighbours in slots of each lane. Returns their number. The lanes of the warp call it
    /// together.
    fn keep(self, memory: Memory, words: [S::Word; L]) -> u32 {
        const { assert!(32 * L <= WORDS as usize, "room for what a warp reads at a time") };
        let (warp, mut many) = (Tile::<32>::lockstep(), 0);
        unrolled::<L>(|j| {
            let target = target_in::<S>(words[j]);
            let votes = warp.ballot(target.is_some());
            if let Some(target) = target {
                memory.store(many + (votes & ((1 << warp.rank()) - 1)).count_ones(), target);
            }
            many += votes.count_ones();
        });
        many
    }

    /// Adds those of the first `many` kept neighbours that are in a table. The lanes of the warp call it
    /// together.
    fn look_up(self, common: &mut Common, many: u32, table: Table) {
        let mut place = Thread::lane();
        while place < many.next_multiple_of(32) {
            let target = (place < many).then(|| common.memory.load(place));
            // SAFETY: the table of a vertex, as its record describes it.
            let is_found = unsafe { self.is_in_table(table, target) };
            common.add(target.unwrap_or(NONE), is_found);
            place += 32;
        }
    }
}
