//! Copies of a graph into compressed sparse rows, by one pass over the vertices.
//!
//! A warp takes one or two *groups* of 32 vertices, one per lane. Those of a block's warps are a tile:
//!
//! ```text
//! each lane      reads its records, and counts the edges; a table has their number there
//!                queues the first slab of a small vertex in shared memory
//! the warp       counts the edges in queued slabs: a lane follows the chain of one of them
//! the block      publishes the sum (`primitives::carry`)
//! each lane      collects the edges of records, and then of queued slabs, in shared memory
//! the block      finds its place by look-back
//! the warp       writes offsets, and copies the edges to the rows, between those of tables
//! ```
//!
//! Few vertices have slabs where degrees are small. The queue brings them together, so that a warp executes
//! the code of slabs once for all its vertices.
//!
//! A warp with more edges than shared memory has room for reads them again, and writes to the rows itself.
//! Tables are listed by parts, which the warps of a second launch copy.
//!
//! # A tile ahead
//!
//! Look-back waits for sums of other blocks. So the grid has as many blocks as are resident at a time, and
//! each collects its next tile before it looks back for the current one. The numbers of tiles, and why the
//! wait ends, are those of `primitives::tiles`. A block draws the number of the tile after next before it
//! looks back, or, if it needs long to write the current one, afterwards: others wait for the sum of the tile
//! that it has drawn.
use super::algorithms::{PART_BUCKETS, Part, PartList};
use super::kind::Edges;
use super::link::Link;
use super::record::{RECORD_SLOTS, Record};
use super::row_memory::{GROUPS, Queue, ROW_THREADS, Stage, WARPS};
use super::table_walk::TableWalk;
use super::view::{GraphView, SLAB_TILE};
use crate::keyed::kernels::write_if;
use crate::keyed::{Scalar, Slot};
use crate::primitives::carry::{Announced, Carry};
use crate::primitives::lookback::{Values, scan_lanes};
use crate::primitives::operator::Sum;
use crate::primitives::tiles::{NONE, TileClaims};
use crate::primitives::{ticket, unrolled};
use crate::slab::{Handle, Pool};
use simt::{Block, Global, GlobalSlice, Order, Scope, Shared, Thread, Tile, device, shared};

/// Slots of a record, with the control slot.
const SLOTS: usize = RECORD_SLOTS as usize + 1;

/// Words of shared memory of a warp for edges: room for an average of 20 edges without data per vertex of a
/// group, and of 10 with weights.
const STAGE: usize = 640;

/// Average number of edges per vertex up to which a warp takes [`GROUPS`] groups.
const MOST_OF_GROUPS: u64 = 8;

/// Words of shared memory of a warp that copies parts: room for a slab of each bucket.
const PART_STAGE: usize = 256;

/// The rows, and memory of the copy.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RowCopy<D> {
    /// Output: places at which the rows begin, and the end of the last one.
    pub offsets: GlobalSlice<u64>,
    /// Output: targets. Those for which there is no room are left out.
    pub targets: GlobalSlice<u32>,
    /// Output: bits of the data of edges; empty if there are none.
    pub data: GlobalSlice<D>,
    /// Parts of the tables.
    pub parts: PartList,
    /// A word per part: the number of copied edges of the table, in the place of its first part.
    pub cursors: GlobalSlice<u32>,
    /// Words for look-back, two for each tile, which are 0.
    pub status: GlobalSlice<u64>,
    /// Number of tiles that have been taken: a word, which is 0.
    pub tickets: GlobalSlice<u32>,
    /// Number of groups of 32 vertices that a warp takes at a time: see [`row_groups`].
    pub groups: u32,
}

/// Returns the number of groups of 32 vertices that a warp should take at a time, of a graph with so many
/// vertices and targets. One, if edges have data: more records of such would need too many registers.
pub const fn row_groups(vertices: u32, targets: u64, has_data: bool) -> u32 {
    if has_data || targets > vertices as u64 * MOST_OF_GROUPS { 1 } else { GROUPS as u32 }
}

#[device]
impl<D: Scalar> RowCopy<D> {
    /// Returns the number of vertices of a tile.
    pub fn tile_vertices(self) -> u32 {
        ROW_THREADS * self.groups
    }

    /// Returns the vertex of the calling lane in the first group of a tile.
    fn vertex(self, tile: u32) -> u32 {
        (tile * WARPS + Thread::index_in_block() / 32) * 32 * self.groups + Thread::lane()
    }

    /// Writes an edge, if there is room.
    fn put(self, place: u64, (target, data): (u32, D)) {
        // mutation: late equivalent, because nothing reads the output in the launch.
        write_if(self.targets, place as usize, target);
        // mutation: late equivalent, because nothing reads the output in the launch.
        write_if(self.data, place as usize, data);
    }

    /// Writes the first `count` edges in shared memory to the rows from a place on. All lanes of the warp
    /// call it together, after they have stored them.
    fn put_staged(self, has_data: bool, first: u64, (stage, count): (Stage, u32)) {
        let warp = Tile::<32>::lockstep();
        warp.sync();
        let count = count.min(stage.room::<D>(has_data)) as usize;
        let targets = self.targets.part(first as usize, count);
        let data = self.data.part(first as usize, if has_data { count } else { 0 });
        let (mut place, end) = (warp.rank(), targets.len() as u32);
        while place < end {
            unrolled::<4>(|i| {
                let place = place + 32 * i as u32;
                if place < end {
                    // SAFETY: the place is below the number of targets, and so below the room.
                    let (target, bits) = unsafe { stage.load(has_data, place) };
                    // SAFETY: the place is below the number of targets.
                    let at = unsafe { Global::new(targets.as_ptr()).offset(place as usize) };
                    // mutation: late equivalent, because nothing reads the output in the launch.
                    at.store(target, Order::Weak, Scope::Device);
                    if has_data {
                        // mutation: late equivalent, because nothing reads the output in the launch.
                        write_if(data, place as usize, bits);
                    }
                }
            });
            place += 128;
        }
        warp.sync();
    }
}

/// A part of a table, as a warp copies it.
#[derive(Clone, Copy, Default)]
struct ListedPart {
    /// Index of its first bucket among the slabs of the arena.
    bucket: u32,
    /// Number of buckets from there to the end of the table.
    buckets: u32,
    /// Index of the table's word among the cursors.
    cursor: u32,
    /// Place at which the row begins.
    first: u64,
}

#[device]
impl ListedPart {
    /// Returns the part that a lane has. All lanes of the warp call it together.
    fn of_lane(self, lane: u32) -> Self {
        let warp = Tile::<32>::lockstep();
        let [bucket, buckets, cursor] =
            [self.bucket, self.buckets, self.cursor].map(|value| warp.shuffle(value, lane));
        Self { bucket, buckets, cursor, first: warp.shuffle(self.first, lane) }
    }
}

/// Memory of the calling warp.
#[derive(Clone, Copy)]
struct Memory {
    stage: Stage,
    queue: Queue,
    /// A word for each warp: whether it needs long to write the edges that it collects.
    slow: Shared<u32>,
}

/// The vertices of a lane, one in each group.
#[derive(Clone, Copy)]
struct Rows<S: Slot> {
    /// Slots that were read: those of the records or, if there is one group, those of the record and of the
    /// first fourth of the first slab.
    words: [[S::Word; SLOTS]; GROUPS],
    /// A bit for each of them that has edges.
    has_edges: u32,
    /// A bit for each group whose vertex has a queued chain.
    is_queued: u32,
    /// Number of queued chains of the warp.
    chains: u32,
    /// Numbers of edges of the warp's vertices before that of the lane, and up to it.
    begin: [u32; GROUPS],
    upto: [u32; GROUPS],
    /// Whether a vertex of the warp has a table.
    has_tables: bool,
    /// Number of the warp's edges.
    total: u32,
}

/// The tables of a warp's vertices.
#[derive(Clone, Copy)]
struct Tables {
    /// Number of edges in the table of the lane's vertex, in each group.
    live: [u32; GROUPS],
    /// Number of its parts.
    parts: [u32; GROUPS],
    /// Number of edges in the tables of vertices before that of the lane.
    before: [u32; GROUPS],
    /// Number of edges in all tables of the warp.
    all: u32,
}

/// A tile of vertices whose sum is published.
#[derive(Clone, Copy, Default)]
struct Collected {
    /// Numbers of edges of the warp's vertices up to that of the lane.
    upto: [u32; GROUPS],
    announced: Announced<u64>,
    staged: Staged,
}

/// Number of the edges of a warp that are in shared memory, with [`Staged::TABLES`] if others are in tables,
/// and [`Staged::SLOW`].
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Staged(u32);

impl Staged {
    /// No edges are in shared memory, which has no room.
    const NONE: Self = Self(u32::MAX);
    /// Flag above any number of edges for which there is room: the warp has edges in tables.
    const TABLES: u32 = 1 << 31;
    /// Another one: a warp of the block needs long to write its edges.
    const SLOW: u32 = 1 << 30;

    /// Returns whether the block needs long to write the edges of the tile.
    #[device]
    fn is_slow(self) -> bool {
        self.0 & Self::SLOW != 0
    }
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> GraphView<Edges<S, P, W, L>> {
    /// Copies the edges of the calling block's tiles.
    pub(super) fn copy_rows(self, copy: RowCopy<S::Value>) {
        let copy = if S::HAS_VALUE { RowCopy { groups: 1, ..copy } } else { copy };
        if self.vertices() == 0 {
            if Thread::index() == 0 {
                write_if(copy.offsets, 0, 0);
            }
            return;
        }
        let tiles = self.vertices().div_ceil(copy.tile_vertices());
        let first = ticket(copy.tickets.at(0));
        // A block that begins late may find all tiles taken.
        if first >= tiles {
            return;
        }
        let carry = Carry::<Sum<u64>>::new(Values::of(copy.status), WARPS);
        let claims = TileClaims::of(copy.tickets, tiles);
        let queue = Queue::of_warp(shared!([u32; WARPS as usize * Queue::WORDS]));
        let slow = shared!([u32; WARPS as usize]);
        // Two stages: edges of the current tile and of the next one.
        let mut stage = Stage::of_warp(shared!([u32; 2 * WARPS as usize * STAGE]), STAGE);
        let (mut collected, mut next, mut is_first) = (Collected::default(), first, true);
        loop {
            let mut following = collected;
            if next != NONE {
                following =
                    self.collect_tile(next, carry, Memory { stage: stage.other(), queue, slow }, copy);
                if !collected.staged.is_slow() {
                    claims.ask();
                }
            } else {
                // Between two calls of `learn` there is a barrier in any case.
                Block::sync();
            }
            if is_first {
                // Instead of the barrier in `learn`.
                Block::sync();
            } else {
                // mutation: skip late store Relaxed 8 performance, because look-back otherwise adds the sums
                // of more tiles, which `announce` has published.
                let (before, _) = carry.learn(collected.announced, 0);
                self.write_tile(&collected, before, stage, copy);
            }
            if next == NONE {
                return;
            }
            if collected.staged.is_slow() {
                // Not before: other blocks wait until this one has counted the edges of the tile.
                claims.ask();
                Block::sync();
            }
            (collected, next, stage, is_first) = (following, claims.told(), stage.other(), false);
        }
    }

    /// Reads and counts the edges of the block's vertices, publishes their number, collects them, and lists
    /// the parts of tables. All threads of the block call it together; it contains a barrier.
    fn collect_tile(
        self,
        tile: u32,
        carry: Carry<Sum<u64>>,
        memory: Memory,
        copy: RowCopy<S::Value>,
    ) -> Collected {
        let (vertex, Memory { stage, queue, slow }, groups) = (copy.vertex(tile), memory, copy.groups);
        let rows = self.read_rows(vertex, groups, queue);
        let (warp, index) = (Tile::<32>::lockstep(), Thread::index_in_block() / 32 % WARPS);
        if warp.rank() == 0 {
            let is_slow = rows.has_tables || rows.total > stage.room::<S::Value>(S::HAS_VALUE);
            slow.store(index as usize, is_slow as u32);
        }
        let announced = carry.announce(tile, rows.total as u64);
        let (mut before, mut in_tables) = ([0; GROUPS], 0);
        if rows.has_tables {
            let tables = self.tables(vertex, groups);
            unrolled::<GROUPS>(|g| copy.list_parts(vertex + 32 * g as u32, tables.parts[g]));
            (before, in_tables) = (tables.before, tables.all);
        }
        let small = rows.total - in_tables;
        let has_room = small <= stage.room::<S::Value>(S::HAS_VALUE);
        if has_room {
            // SAFETY: the warp has `small` edges that are not in tables, so there is room.
            unsafe { self.store_rows(&rows, (before, groups), memory) };
        }
        let mut flags = if in_tables > 0 { Staged::TABLES } else { 0 };
        if warp.any(slow.load((warp.rank() % WARPS) as usize) != 0) {
            flags |= Staged::SLOW;
        }
        let staged = if has_room { Staged(small | flags) } else { Staged::NONE };
        Collected { upto: rows.upto, announced, staged }
    }

    /// Writes the offsets and edges of the warp's vertices; there are `before` edges before them. All lanes
    /// of the warp call it together.
    fn write_tile(self, collected: &Collected, before: u64, stage: Stage, copy: RowCopy<S::Value>) {
        let (Collected { upto, staged, .. }, vertex) = (*collected, copy.vertex(collected.announced.tile()));
        if vertex == 0 {
            // mutation: late equivalent, because nothing reads the offsets in the launch.
            write_if(copy.offsets, 0, 0);
        }
        unrolled::<GROUPS>(|g| {
            let vertex = vertex + 32 * g as u32;
            if (g as u32) < copy.groups && vertex < self.vertices() {
                // mutation: late equivalent, because nothing reads the offsets in the launch.
                write_if(copy.offsets, vertex as usize + 1, before + upto[g] as u64);
            }
        });
        if staged == Staged::NONE {
            unrolled::<GROUPS>(|g| {
                if (g as u32) < copy.groups {
                    self.put_row(vertex + 32 * g as u32, before + upto[g] as u64, copy);
                }
            });
        } else if staged.0 & Staged::TABLES != 0 {
            self.put_between(collected, before, stage, copy);
        } else {
            copy.put_staged(S::HAS_VALUE, before, (stage, staged.0 & !Staged::SLOW));
        }
    }

    /// Writes the edges of a vertex without a table to its row, which ends at `end`, by the calling lane
    /// alone.
    fn put_row(self, vertex: u32, end: u64, copy: RowCopy<S::Value>) {
        if self.link_of(vertex, &self.read_record(vertex)).is_closed() {
            return;
        }
        let mut place = end;
        self.each_word(vertex, |word| {
            if S::is_live(word) {
                place -= 1;
                copy.put(place, self.decoded(word));
            }
        });
    }

    /// Copies the edges in shared memory to the rows between those of tables: each lane those of its
    /// vertices. All lanes of the warp call it together.
    fn put_between(self, collected: &Collected, before: u64, stage: Stage, copy: RowCopy<S::Value>) {
        let (warp, tables) =
            (Tile::<32>::lockstep(), self.tables(copy.vertex(collected.announced.tile()), copy.groups));
        let mut all = 0;
        // mutation: skip equivalent, because of the barrier of the block in `learn`: it is between the stores
        // to shared memory and this.
        warp.sync();
        unrolled::<GROUPS>(|g| {
            let upto = collected.upto[g];
            let below = warp.shuffle_up(upto, 1);
            let mut place = if warp.rank() == 0 { all } else { below };
            all = warp.shuffle(upto, 31);
            while place < upto && tables.live[g] == 0 {
                // SAFETY: the edges in shared memory are those that are not in tables.
                let edge = unsafe { stage.load(S::HAS_VALUE, place - tables.before[g]) };
                copy.put(before + place as u64, edge);
                place += 1;
            }
        });
        // mutation: skip equivalent, because of the barrier of the block in `announce`: it is between this
        // and the next stores to the stage.
        warp.sync();
    }

    /// Reads the records of the calling lane's vertices, of which the first one is `vertex`, counts the
    /// edges, and queues chains of slabs. All lanes of the warp call it together.
    fn read_rows(self, vertex: u32, groups: u32, queue: Queue) -> Rows<S> {
        let mut rows = Rows {
            words: [[S::EMPTY; SLOTS]; GROUPS],
            has_edges: 0,
            is_queued: 0,
            chains: 0,
            begin: [0; GROUPS],
            upto: [0; GROUPS],
            has_tables: false,
            total: 0,
        };
        let (warp, tables) = (Tile::<32>::lockstep(), self.read_slots(&mut rows, (vertex, groups), queue));
        self.fold_chains(queue, &rows, groups, |number, words| number + live_in::<S, L>(words));
        warp.sync();
        unrolled::<GROUPS>(|g| {
            if (g as u32) < groups {
                let mut degree = tables[g] + rows.live(g);
                if groups == 1 {
                    degree += rows.live(1);
                }
                if rows.is_queued >> g & 1 != 0 {
                    degree += queue.number(32 * g as u32 + warp.rank());
                }
                rows.upto[g] = rows.total + scan_lanes::<Sum<u32>>(warp, degree, 32);
                rows.begin[g] = rows.upto[g] - degree;
                rows.total = warp.shuffle(rows.upto[g], 31);
            }
        });
        rows
    }

    /// Reads the slots of the lane's vertices, and queues the chains behind them. Returns the numbers of
    /// edges in tables. All lanes of the warp call it together.
    fn read_slots(self, rows: &mut Rows<S>, (vertex, groups): (u32, u32), queue: Queue) -> [u32; GROUPS] {
        let (mut live, mut slabs, mut is_table) = ([0; GROUPS], [None; GROUPS], false);
        unrolled::<GROUPS>(|g| {
            if (g as u32) < groups {
                rows.words[g] = self.read_record(vertex + 32 * g as u32);
            }
        });
        unrolled::<GROUPS>(|g| {
            if (g as u32) < groups {
                let link = self.link_of(vertex + 32 * g as u32, &rows.words[g]);
                if link == Link::TABLE {
                    live[g] = Record::<S, W, L>::described(&rows.words[g]).1;
                    is_table = true;
                }
                rows.words[g][SLOTS - 1] = S::EMPTY;
                rows.has_edges |= !link.is_closed() as u32 * (1 << g);
                slabs[g] = link.slab();
            }
        });
        if groups == 1
            && let Some(slab) = slabs[0]
        {
            // SAFETY: the handle was read in a link of the graph.
            let lane = unsafe { self.node(slab) }.read(0, true, Order::Weak).lane;
            let words = lane.words();
            unrolled::<L>(|j| rows.words[1][j] = words[j]);
            rows.has_edges |= 2;
            slabs[0] = slabs[0].filter(|_| !lane.first(|_, word| S::is_empty(word)).exists);
        }
        rows.queue(slabs, queue);
        rows.has_tables = Tile::<32>::lockstep().any(is_table);
        live
    }

    /// Returns the tables of the warp's vertices. All lanes of the warp call it together.
    fn tables(self, vertex: u32, groups: u32) -> Tables {
        let warp = Tile::<32>::lockstep();
        let mut tables = Tables { live: [0; GROUPS], parts: [0; GROUPS], before: [0; GROUPS], all: 0 };
        unrolled::<GROUPS>(|g| {
            if (g as u32) < groups {
                let vertex = vertex + 32 * g as u32;
                let words = self.read_record(vertex);
                if self.link_of(vertex, &words) == Link::TABLE {
                    let (table, live) = Record::<S, W, L>::described(&words);
                    (tables.live[g], tables.parts[g]) = (live, table.buckets.div_ceil(PART_BUCKETS));
                }
                let upto = scan_lanes::<Sum<u32>>(warp, tables.live[g], 32);
                tables.before[g] = tables.all + upto - tables.live[g];
                tables.all += warp.shuffle(upto, 31);
            }
        });
        tables
    }

    /// Reads the slots of a record, with the control slot. They are arbitrary if there is no such vertex.
    fn read_record(self, vertex: u32) -> [S::Word; SLOTS] {
        let mut words = [S::EMPTY; SLOTS];
        // SAFETY: the vertex exists, since the graph has one.
        let record = unsafe { self.record(vertex.min(self.vertices() - 1)) };
        let mut rank = 0;
        while rank < W {
            let lane = record.bucket().load(rank, true, Order::Weak).words();
            unrolled::<L>(|j| words[rank as usize * L + j] = lane[j]);
            rank += 1;
        }
        words
    }

    /// Returns the link in a record that was read; no vertex if it does not exist.
    fn link_of(self, vertex: u32, words: &[S::Word; SLOTS]) -> Link {
        let link = Record::<S, W, L>::link_in(words[SLOTS - 1]);
        if vertex < self.vertices() { link } else { Link::NO_VERTEX }
    }

    /// Stores the edges of the warp's small vertices in shared memory, in the order of the vertices. `before`
    /// has the numbers of edges in tables before each. All lanes of the warp call it together.
    ///
    /// # Safety
    /// - There is room for all edges that are not in tables.
    unsafe fn store_rows(self, rows: &Rows<S>, (before, groups): ([u32; GROUPS], u32), memory: Memory) {
        let (warp, Memory { stage, queue, .. }, mut at) = (Tile::<32>::lockstep(), memory, 0);
        unrolled::<GROUPS>(|g| {
            if (g as u32) < groups {
                at = stage.first + rows.begin[g] - before[g];
            }
            if rows.has_edges >> g & 1 != 0 {
                // SAFETY: the place of the vertex's first edge.
                at = unsafe { self.store_live(stage, &rows.words[g], at) };
            }
            let vertex = if (g as u32) < groups { g } else { 0 };
            if rows.is_queued >> vertex & 1 != 0 {
                queue.set(32 * vertex as u32 + warp.rank(), at);
            }
        });
        warp.sync();
        // SAFETY: the places behind those of the vertex's slots.
        self.fold_chains(queue, rows, groups, |at, words| unsafe { self.store_live(stage, words, at) });
    }

    /// Stores the edges in slots in the words of shared memory from `at` on. Returns the word behind them.
    ///
    /// # Safety
    /// - The words are those of places of the warp below the room.
    unsafe fn store_live<const N: usize>(self, stage: Stage, words: &[S::Word; N], mut at: u32) -> u32 {
        unrolled::<N>(|j| {
            let is_live = S::is_live(words[j]);
            if is_live {
                // SAFETY: the caller's obligation.
                unsafe { stage.store(S::HAS_VALUE, at, self.decoded(words[j])) };
            }
            at += is_live as u32;
        });
        at
    }

    /// Calls `step` with the slots in the queued chains: with the number of the chain's vertex, which is then
    /// what `step` returns. If there is one group, chains begin with the second fourth of a slab. A lane
    /// follows a chain, and reads a fourth of a slab at a time. Slots are filled in order, so an empty one is
    /// the chain's end. All lanes of the warp call it together.
    fn fold_chains(
        self,
        queue: Queue,
        rows: &Rows<S>,
        groups: u32,
        mut step: impl FnMut(u32, &[S::Word; L]) -> u32,
    ) {
        let warp = Tile::<32>::lockstep();
        let mut place = warp.rank();
        while warp.any(place < rows.chains) {
            let mut is_end = place >= rows.chains;
            // Lanes without a chain take the last one's handle, but read no slab and store no number.
            let (handle, vertex) = queue.chain(place.min(rows.chains - 1));
            // SAFETY: the handle was read in a link of the graph.
            let mut node = unsafe { self.node(handle) };
            let mut part = (groups == 1) as u32;
            let (mut number, has_chain) = (queue.number(vertex), !is_end);
            while warp.any(!is_end) {
                let read = node.read(part, !is_end, Order::Weak);
                // Otherwise the compiler lets the second load of a lane wait for the first one.
                warp.sync();
                if !is_end {
                    number = step(number, &read.lane.words());
                    is_end = read.lane.first(|_, word| S::is_empty(word)).exists;
                    part += 1;
                    if part == SLAB_TILE {
                        part = 0;
                        match Link::from_word(read.link.to_word()).slab() {
                            // SAFETY: the handle was read in a link of the graph.
                            Some(next) => node = unsafe { self.node(next) },
                            None => is_end = true,
                        }
                    }
                }
            }
            if has_chain {
                queue.set(vertex, number);
            }
            place += 32;
        }
    }

    /// Returns the edge in a slot.
    fn decoded(self, word: S::Word) -> (u32, S::Value) {
        (S::key(word).to_u64() as u32, self.flags().decode(S::value(word)))
    }

    /// Copies the edges in the listed parts of tables, by all warps of the grid. A warp reads the
    /// descriptions of 32 parts at a time.
    pub(super) fn copy_parts(self, copy: RowCopy<S::Value>) {
        let stage = Stage::of_warp(shared!([u32; WARPS as usize * PART_STAGE]), PART_STAGE);
        let (warp, count) = (Tile::<32>::lockstep(), copy.parts.len());
        let (mut first, warps) = (Thread::index() / 32, Thread::count() / 32);
        while first < count {
            let place = first + warp.rank() as usize * warps;
            let mut own = ListedPart::default();
            if place < count {
                own = self.listed(copy.parts.at(place), place, copy);
            }
            let many = (count - first).div_ceil(warps).min(32) as u32;
            let mut lane = 0;
            while lane < many {
                self.copy_part(own.of_lane(lane), stage, copy);
                lane += 1;
            }
            first += 32 * warps;
        }
    }

    /// Returns the description of a part at a place of the list.
    fn listed(self, part: Part, place: usize, copy: RowCopy<S::Value>) -> ListedPart {
        let table = self.table_of(part.vertex);
        let begin = part.index * PART_BUCKETS;
        ListedPart {
            bucket: table.base + begin,
            buckets: table.buckets - begin,
            cursor: place as u32 - part.index,
            first: copy.offsets.read(part.vertex as usize),
        }
    }

    /// Copies the edges in a part of a table. A tile takes each bucket. All lanes of the warp call it
    /// together.
    fn copy_part(self, part: ListedPart, stage: Stage, copy: RowCopy<S::Value>) {
        const {
            assert!(32 * L * size_of::<S::Word>() <= 4 * PART_STAGE, "room for what a warp reads at a time");
        };
        let warp = Tile::<32>::lockstep();
        let (first, cursor) = (part.first, copy.cursors.at(part.cursor as usize));
        let end = part.bucket + part.buckets.min(PART_BUCKETS);
        let mut walk = TableWalk::new(self, (part.bucket, end));
        while warp.any(walk.is_at()) {
            let words = walk.read();
            let many = live_in::<S, L>(&words);
            let upto = scan_lanes::<Sum<u32>>(warp, many, 32);
            let total = warp.shuffle(upto, 31);
            let begin = if warp.rank() == 0 && total > 0 {
                cursor.fetch_add(total, Order::Relaxed, Scope::Device)
            } else {
                0
            };
            // SAFETY: there is room for a slab of each bucket.
            unsafe { self.store_live(stage, &words, stage.first + upto - many) };
            copy.put_staged(S::HAS_VALUE, first + warp.shuffle(begin, 0) as u64, (stage, total));
        }
    }
}

#[device]
impl<S: Slot> Rows<S> {
    /// Returns the number of edges in the lane's slots of an array.
    fn live(&self, g: usize) -> u32 {
        let live = live_in::<S, SLOTS>(&self.words[g]);
        if self.has_edges >> g & 1 != 0 { live } else { 0 }
    }

    /// Queues the chains that begin with a slab of each group, if any. All lanes of the warp call it
    /// together.
    fn queue(&mut self, slabs: [Option<Handle>; GROUPS], queue: Queue) {
        let warp = Tile::<32>::lockstep();
        // Lanes may still read the chains of the last call.
        // mutation: skip equivalent, because a block that copies rows has a barrier between two tiles.
        warp.sync();
        unrolled::<GROUPS>(|g| {
            let chains = warp.ballot(slabs[g].is_some());
            if let Some(slab) = slabs[g] {
                let before = (chains & warp.lower_ranks()).count_ones();
                self.is_queued |= 1 << g;
                queue.push(self.chains + before, slab, 32 * g as u32 + warp.rank());
            }
            self.chains += chains.count_ones();
        });
        warp.sync();
    }
}

#[device]
impl<D: Scalar> RowCopy<D> {
    /// Lists the `parts` parts of the calling lane's vertex. All lanes of the warp call it together.
    fn list_parts(self, vertex: u32, parts: u32) {
        let warp = Tile::<32>::lockstep();
        let mut rest = warp.ballot(parts > 0);
        if rest == 0 {
            return;
        }
        let upto = scan_lanes::<Sum<u32>>(warp, parts, 32);
        let begin = if warp.rank() == 31 {
            self.parts.count.at(0).fetch_add(upto, Order::Relaxed, Scope::Device)
        } else {
            0
        };
        let place = warp.shuffle(begin, 31) + upto - parts;
        while rest != 0 {
            let owner = rest.trailing_zeros();
            let [first, vertex, parts] = [place, vertex, parts].map(|value| warp.shuffle(value, owner));
            let mut index = warp.rank();
            while index < parts {
                let at = (first + index) as usize;
                // mutation: late equivalent, because only the next launch reads the list.
                write_if(self.parts.words, at, (vertex as u64) << 32 | index as u64);
                if index == 0 {
                    // mutation: late equivalent, because only the next launch reads the word.
                    write_if(self.cursors, at, 0);
                }
                index += 32;
            }
            rest &= rest - 1;
        }
    }
}

/// Returns the number of edges in slots.
#[device]
fn live_in<S: Slot, const L: usize>(words: &[S::Word; L]) -> u32 {
    let mut live = 0;
    unrolled::<L>(|j| live += S::is_live(words[j]) as u32);
    live
}
