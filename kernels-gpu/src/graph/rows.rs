//! Copies of a graph into compressed sparse rows, by one pass over the vertices.
//!
//! A tile of vertices has one for each thread of a block. A warp takes 32 of them, one per lane:
//!
//! ```text
//! each lane           reads its record, and counts the edges; a table has their number there
//! tiles of four       count those in the slabs of small vertices
//! the block           publishes the sum (`primitives::carry`)
//! lanes and tiles     collect the edges of records and slabs in shared memory
//! the block           finds its place by look-back
//! the warp            writes offsets, and copies the edges to the rows
//! ```
//!
//! A warp with a table, or with more edges than shared memory has room for, reads them again, and writes to
//! the rows itself. Tables are listed by parts, which the warps of a second launch copy.
//!
//! # A tile ahead
//!
//! Look-back waits for sums of other blocks. So the grid has as many blocks as are resident at a time, and
//! each collects its next tile before it looks back for the current one. The numbers of tiles, and why the
//! wait ends, are those of `primitives::tiles`.
use super::algorithms::{PART_BUCKETS, Part, PartList};
use super::kind::{Config, Edges};
use super::link::Link;
use super::record::{RECORD_SLOTS, Record, removed};
use super::view::{GraphView, SLAB_TILE, Start};
use crate::keyed::kernels::write_if;
use crate::keyed::{Lane, Scalar, Slot};
use crate::primitives::carry::{Announced, Carry};
use crate::primitives::lookback::{Values, scan_lanes};
use crate::primitives::operator::Sum;
use crate::primitives::tiles::{NONE, TileClaims};
use crate::primitives::{ticket, unrolled};
use crate::slab::list::Node;
use crate::slab::{Handle, Pool};
use simt::{Block, Global, GlobalSlice, Order, Scope, Shared, Thread, Tile, device, shared};

/// Number of threads per block, and of vertices per tile.
pub const ROW_THREADS: u32 = 256;

/// Warps of a block.
const WARPS: u32 = ROW_THREADS / 32;

/// Slots of a record, with the control slot.
const SLOTS: usize = RECORD_SLOTS as usize + 1;

/// Words of shared memory of a warp: room for an average of 20 edges without data per vertex, and of 10 with
/// weights.
const STAGE: usize = 640;

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
}

#[device]
impl<D: Scalar> RowCopy<D> {
    /// Writes an edge, if there is room.
    fn put(self, place: u64, (target, data): (u32, D)) {
        write_if(self.targets, place as usize, target);
        write_if(self.data, place as usize, data);
    }

    /// Writes the first `count` edges in shared memory from a place on. All lanes of the warp call it
    /// together, after they have stored them.
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
                    // SAFETY: the place is below the room.
                    let (target, bits) = unsafe { stage.load(has_data, place) };
                    // SAFETY: the place is below the length.
                    let at = unsafe { Global::new(targets.as_ptr()).offset(place as usize) };
                    at.store(target, Order::Weak, Scope::Device);
                    if has_data {
                        write_if(data, place as usize, bits);
                    }
                }
            });
            place += 128;
        }
        warp.sync();
    }
}

/// Shared memory of a warp.
#[derive(Clone, Copy)]
struct Stage {
    words: Shared<u32>,
    first: u32,
    /// Number of words.
    len: u32,
}

#[device]
impl Stage {
    /// Returns the calling warp's part of the block's words, of which each of [`WARPS`] warps has `len`.
    /// There may be two parts for each, of which this is the first one.
    fn of_warp(words: Shared<u32>, len: usize) -> Self {
        assert!(words.len() >= WARPS as usize * len);
        Self { words, first: Thread::index_in_block() / 32 % WARPS * len as u32, len: len as u32 }
    }

    /// Returns the other of two stages. There are two.
    fn other(self) -> Self {
        let half = WARPS * self.len;
        assert!(self.words.len() >= 2 * half as usize);
        Self { first: if self.first < half { self.first + half } else { self.first - half }, ..self }
    }

    /// Returns the number of edges for which there is room.
    const fn room<D: Scalar>(self, has_data: bool) -> u32 {
        self.len / if has_data { 1 + size_of::<D>() as u32 / 4 } else { 1 }
    }

    /// Stores an edge, if its place is below the room.
    fn store<D: Scalar>(self, has_data: bool, place: u32, (target, data): (u32, D)) {
        let (room, bits) = (self.room::<D>(has_data), data.to_u64());
        if place >= room {
            return;
        }
        let at = self.first + place;
        // SAFETY: the warp's words begin at `first`, and are as many as the room needs.
        unsafe {
            self.words.store_unchecked(at, target);
            if has_data {
                self.words.store_unchecked(at + room, bits as u32);
                if size_of::<D>() == 8 {
                    self.words.store_unchecked(at + 2 * room, (bits >> 32) as u32);
                }
            }
        }
    }

    /// Loads an edge.
    ///
    /// # Safety
    /// - `place` is below the room.
    unsafe fn load<D: Scalar>(self, has_data: bool, place: u32) -> (u32, D) {
        let (room, at) = (self.room::<D>(has_data), self.first + place);
        // SAFETY: as in `store`.
        unsafe {
            let target = self.words.load_unchecked(at);
            if !has_data {
                return (target, D::narrow(0));
            }
            let high = if size_of::<D>() == 8 { self.words.load_unchecked(at + 2 * room) } else { 0 };
            let bits = self.words.load_unchecked(at + room) as u64 | (high as u64) << 32;
            (target, D::narrow(bits as u128))
        }
    }
}

/// The vertex of a lane.
#[derive(Clone, Copy)]
struct Own<S: Slot> {
    /// Slots of the record of a small vertex; otherwise tombstones.
    words: [S::Word; SLOTS],
    /// First slab of a small vertex.
    slab: Option<Handle>,
    /// Number of edges of a table, or 0.
    live: u32,
    /// Number of parts of the table, or 0.
    parts: u32,
}

/// A tile of vertices whose sum is published.
#[derive(Clone, Copy)]
struct Collected {
    /// The vertex of the calling lane.
    vertex: u32,
    /// Number of edges of the warp's vertices up to that of the lane.
    upto: u32,
    announced: Announced<u64>,
    /// Number of these edges that are in shared memory: all or none.
    staged: u32,
}

/// A round in which the tiles of a warp read slabs.
#[derive(Clone, Copy)]
struct Round {
    /// Lane whose slab the calling tile reads; 32 or more if none.
    owner: u32,
    /// Number of the tile that reads the slab of the calling lane; beyond the last one if none does.
    server: u32,
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> GraphView<Edges<S, P, W, L>> {
    /// Copies the edges of the calling block's tiles.
    pub(super) fn copy_rows(self, copy: RowCopy<S::Value>) {
        // The first one also has no vertices if the graph has none.
        let tiles = self.vertices().div_ceil(ROW_THREADS).max(1);
        let first = ticket(copy.tickets.at(0));
        // A block that begins late may find all tiles taken.
        if first >= tiles {
            return;
        }
        let carry = Carry::<Sum<u64>>::new(Values::of(copy.status), WARPS);
        let claims = TileClaims::of(copy.tickets, tiles);
        // Two stages: edges of the current tile and of the next one.
        let mut stage = Stage::of_warp(shared!([u32; 2 * WARPS as usize * STAGE]), STAGE);
        let mut collected = self.collect_tile(first, carry, stage, copy);
        let mut next = claims.first();
        loop {
            let mut following = collected;
            if next != NONE {
                following = self.collect_tile(next, carry, stage.other(), copy);
                claims.ask();
            } else {
                // Between two calls of `learn` there is a barrier in any case.
                Block::sync();
            }
            let (before, _) = carry.learn(collected.announced, 0);
            self.write_tile(collected, before, stage, copy);
            if next == NONE {
                return;
            }
            (collected, next, stage) = (following, claims.told(), stage.other());
        }
    }

    /// Reads and counts the edges of the block's vertices, publishes their number, collects them, and lists
    /// the parts of tables. All threads of the block call it together; it contains a barrier.
    fn collect_tile(
        self,
        tile: u32,
        carry: Carry<Sum<u64>>,
        stage: Stage,
        copy: RowCopy<S::Value>,
    ) -> Collected {
        let (warp, vertex) = (Tile::<32>::lockstep(), tile * ROW_THREADS + Thread::index_in_block());
        let mut own = self.own_row(vertex);
        let upto = scan_lanes::<Sum<u32>>(warp, self.degree_of(&own), 32);
        let total = warp.shuffle(upto, 31);
        let announced = carry.announce(tile, total as u64);
        copy.list_parts(vertex, own.parts);
        let mut staged = 0;
        if !warp.any(own.parts > 0) && total <= stage.room::<S::Value>(S::HAS_VALUE) {
            if size_of::<S::Word>() > 4 {
                // Read again: the slots would need too many registers.
                own = self.own_row(vertex);
            }
            let store = |place, edge| stage.store(S::HAS_VALUE, place, edge);
            self.write_rows(&own, before_lane(upto), store);
            staged = total;
        }
        Collected { vertex, upto, announced, staged }
    }

    /// Writes the offsets and edges of the warp's vertices; there are `before` edges before them. All lanes
    /// of the warp call it together.
    fn write_tile(self, collected: Collected, before: u64, stage: Stage, copy: RowCopy<S::Value>) {
        let Collected { vertex, upto, staged, .. } = collected;
        if vertex == 0 {
            write_if(copy.offsets, 0, 0);
        }
        if vertex < self.vertices() {
            write_if(copy.offsets, vertex as usize + 1, before + upto as u64);
        }
        if staged == Tile::<32>::lockstep().shuffle(upto, 31) {
            copy.put_staged(S::HAS_VALUE, before, (stage, staged));
        } else {
            let put = |place, edge| copy.put(before + place as u64, edge);
            self.write_rows(&self.own_row(vertex), before_lane(upto), put);
        }
    }

    /// Returns the calling lane's vertex. All lanes of the warp call it together.
    fn own_row(self, vertex: u32) -> Own<S> {
        let mut own = Own { words: [removed::<S>(); SLOTS], slab: None, live: 0, parts: 0 };
        match self.read_record(vertex, &mut own.words) {
            Link::TABLE => {
                let (table, live) = Record::<S, W, L>::described(&own.words);
                (own.live, own.parts) = (live, table.buckets.div_ceil(PART_BUCKETS));
                own.words = [removed::<S>(); SLOTS];
            }
            link if link.is_closed() => own.words = [removed::<S>(); SLOTS],
            link => own.slab = link.slab(),
        }
        own
    }

    /// Returns the number of edges of the calling lane's vertex. All lanes of the warp call it together.
    fn degree_of(self, own: &Own<S>) -> u32 {
        let mut degree = own.live;
        unrolled::<SLOTS>(|j| degree += S::is_live(own.words[j]) as u32);
        self.each_slab(own.slab, |round, lane| {
            let sum = Tile::<SLAB_TILE>::lockstep().reduce_add(live_in(lane));
            degree += round.of_server(sum, 0);
        });
        degree
    }

    /// Reads the slots of a record, and returns its link; no vertex if it does not exist.
    fn read_record(self, vertex: u32, words: &mut [S::Word; SLOTS]) -> Link {
        if vertex >= self.vertices() {
            return Link::NO_VERTEX;
        }
        // SAFETY: the vertex exists.
        let record = unsafe { self.record(vertex) };
        let (mut link, mut rank) = (Link::NONE, 0);
        while rank < W {
            let read = record.read(rank, true, Order::Weak);
            let lane = read.lane.words();
            unrolled::<L>(|j| words[rank as usize * L + j] = lane[j]);
            link = Link::from_word(read.link);
            rank += 1;
        }
        link
    }

    /// Calls `put` with a place and an edge for each edge of the calling lane's small vertex, of which the
    /// first one has the place `first`. All lanes of the warp call it together; tiles call `put` for the
    /// edges in slabs.
    fn write_rows(self, own: &Own<S>, first: u32, mut put: impl FnMut(u32, (u32, S::Value))) {
        let mut place = first;
        unrolled::<SLOTS>(|j| {
            if S::is_live(own.words[j]) {
                put(place, self.decoded(own.words[j]));
                place += 1;
            }
        });
        self.each_slab(own.slab, |round, lane| {
            let tile = Tile::<SLAB_TILE>::lockstep();
            let many = live_in(lane);
            let sum = tile.reduce_add(many);
            let begin = Tile::<32>::lockstep().shuffle(place, round.owner % 32);
            let (mut at, words) = (begin + before_in_tile(tile, many), lane.words());
            unrolled::<L>(|j| {
                if S::is_live(words[j]) {
                    put(at, self.decoded(words[j]));
                    at += 1;
                }
            });
            place += round.of_server(sum, 0);
        });
    }

    /// Calls `see` for the slabs that begin with `first`, and those behind them. Tiles of four lanes take the
    /// slabs of the warp's lanes in turn. All lanes of the warp call it together, and `see` as well.
    fn each_slab(self, first: Option<Handle>, mut see: impl FnMut(Round, &Lane<S, L>)) {
        let (warp, tile) = (Tile::<32>::lockstep(), Tile::<SLAB_TILE>::lockstep());
        let mut at = first;
        while warp.any(at.is_some()) {
            let round = Round::new(warp.ballot(at.is_some()), at.is_some());
            let handle = warp.shuffle(at.map_or(0, Handle::to_word), round.owner % 32);
            let is_there = round.owner < 32;
            // SAFETY: the handle was read in a link; nothing is accessed without one.
            let node = unsafe { self.node(Handle::from_word(handle)) };
            let read = node.read(tile.rank(), is_there, Order::Weak);
            let lane = if is_there { read.lane } else { Lane::nothing() };
            see(round, &lane);
            let next = round.of_server(read.link.to_word(), SLAB_TILE - 1);
            if round.is_served() {
                at = Link::from_word(next).slab();
            }
        }
    }

    /// Returns the edge in a slot.
    fn decoded(self, word: S::Word) -> (u32, S::Value) {
        (S::key(word).to_u64() as u32, self.flags().decode(S::value(word)))
    }

    /// Copies the edges in a part of a table, whose parts begin at the place `list` of the list. A tile takes
    /// each bucket. All lanes of the warp call it together.
    pub(super) fn copy_part(self, part: Part, list: usize, copy: RowCopy<S::Value>) {
        const {
            assert!(PART_BUCKETS == 32 / SLAB_TILE, "a tile for each bucket");
            assert!(32 * L * size_of::<S::Word>() <= 4 * PART_STAGE, "room for what a warp reads at a time");
        };
        let stage = Stage::of_warp(shared!([u32; WARPS as usize * PART_STAGE]), PART_STAGE);
        let (warp, tile) = (Tile::<32>::lockstep(), Tile::<SLAB_TILE>::lockstep());
        let (first, cursor) = (copy.offsets.read(part.vertex as usize), copy.cursors.at(list));
        let table = self.table_of(part.vertex);
        let index = part.index * PART_BUCKETS + warp.rank() / SLAB_TILE;
        let mut at = (index < table.buckets).then(|| {
            // SAFETY: a bucket of the table.
            unsafe { self.first_node(Start { index: table.base + index, is_bucket: true }) }
        });
        while warp.any(at.is_some()) {
            let (lane, link) = at.map_or((Lane::nothing(), Link::NONE), |node: Node<S, SLAB_TILE, L>| {
                let read = node.read(tile.rank(), true, Order::Weak);
                (read.lane, Link::from_word(read.link.to_word()))
            });
            let (many, words) = (live_in(&lane), lane.words());
            let upto = scan_lanes::<Sum<u32>>(warp, many, 32);
            let total = warp.shuffle(upto, 31);
            let begin = if warp.rank() == 0 && total > 0 {
                cursor.fetch_add(total, Order::Relaxed, Scope::Device)
            } else {
                0
            };
            let mut place = upto - many;
            unrolled::<L>(|j| {
                if S::is_live(words[j]) {
                    stage.store(S::HAS_VALUE, place, self.decoded(words[j]));
                    place += 1;
                }
            });
            copy.put_staged(S::HAS_VALUE, first + warp.shuffle(begin, 0) as u64, (stage, total));
            let next = Link::from_word(tile.shuffle(link.to_word(), SLAB_TILE - 1)).slab();
            at = next.map(|handle| {
                // SAFETY: the handle was read in a link of the graph.
                unsafe { self.node(handle) }
            });
        }
    }
}

#[device]
impl Round {
    /// Gives each tile one of the lanes in `waiting`, of which the calling lane is one if `waits`.
    fn new(waiting: u32, waits: bool) -> Self {
        let (mut rest, tile) = (waiting, Thread::lane() / SLAB_TILE);
        unrolled::<{ 32 / SLAB_TILE as usize - 1 }>(|before| {
            if (before as u32) < tile {
                rest &= rest.wrapping_sub(1);
            }
        });
        let before = (waiting & ((1 << Thread::lane()) - 1)).count_ones();
        Self { owner: rest.trailing_zeros(), server: if waits { before } else { u32::MAX } }
    }

    /// Returns whether a tile reads the slab of the calling lane.
    fn is_served(self) -> bool {
        self.server < 32 / SLAB_TILE
    }

    /// Returns the value of the lane `rank` of the tile that reads the calling lane's slab, or 0. All lanes
    /// of the warp call it together.
    fn of_server(self, value: u32, rank: u32) -> u32 {
        let found = Tile::<32>::lockstep().shuffle(value, self.server % (32 / SLAB_TILE) * SLAB_TILE + rank);
        if self.is_served() { found } else { 0 }
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
                write_if(self.parts.words, at, (vertex as u64) << 32 | index as u64);
                if index == 0 {
                    write_if(self.cursors, at, 0);
                }
                index += 32;
            }
            rest &= rest - 1;
        }
    }
}

/// Returns the number of edges in a lane's slots.
#[device]
fn live_in<S: Slot, const L: usize>(lane: &Lane<S, L>) -> u32 {
    let (words, mut live, mut j) = (lane.words(), 0, 0);
    while j < L {
        live += S::is_live(words[j]) as u32;
        j += 1;
    }
    live
}

/// Returns the sum up to the lane before the calling one, of which each lane has that up to its own.
#[device]
fn before_lane(upto: u32) -> u32 {
    let below = Tile::<32>::lockstep().shuffle_up(upto, 1);
    if Thread::lane() == 0 { 0 } else { below }
}

/// Returns the sum of the values of the tile's lanes before the calling one.
#[device]
fn before_in_tile(tile: Tile<SLAB_TILE>, value: u32) -> u32 {
    let (mut sum, mut by) = (value, 1);
    while by < SLAB_TILE {
        let below = tile.shuffle_up(sum, by);
        sum += if tile.rank() >= by { below } else { 0 };
        by *= 2;
    }
    sum - value
}

/// Copies the edges in the listed parts of tables. The grid has any number of threads.
#[device]
pub(super) fn copy_parts<M: Config>(graph: GraphView<M>, copy: RowCopy<M::Data>) {
    copy.parts.for_each_at(|place, part| M::copy_part(graph, part, place - part.index as usize, copy));
}
