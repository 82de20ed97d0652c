//! Copies of a graph into compressed sparse rows, by one pass over the vertices.
//!
//! A lane takes as many vertices as fill a line with their records: four, two or one. They are in *groups* of
//! 32, one per lane of a warp; a block has eight warps:
//!
//! ```text
//! each lane           reads its records, and counts their edges; a table has their number there
//! tiles of four       count those in the slabs of small vertices
//! the block           finds its place by look-back (see `primitives::carry`), and writes offsets
//! lanes and tiles     collect the edges of records and slabs in shared memory
//! the warp            copies them to the rows
//! ```
//!
//! If shared memory has room, all groups are collected at once, otherwise one after the other. A group with a
//! table, or with more edges than there is room for, is written to the rows directly. Tables are listed by
//! parts, which the warps of a second launch copy.
use super::algorithms::{PART_BUCKETS, Part, PartList};
use super::kind::{Config, Edges, slab_slots};
use super::link::Link;
use super::record::{RECORD_SLOTS, Record, removed};
use super::view::{GraphView, SLAB_TILE, Start};
use crate::keyed::kernels::write_if;
use crate::keyed::{Lane, Scalar, Slot};
use crate::primitives::carry::Carry;
use crate::primitives::lookback::{Values, scan_lanes};
use crate::primitives::operator::Sum;
use crate::primitives::{ticket, unrolled};
use crate::slab::list::Node;
use crate::slab::{Handle, Pool};
use simt::{GlobalSlice, Order, Scope, Shared, Thread, Tile, device, shared};

/// Number of threads per block.
pub const ROW_THREADS: u32 = 256;

/// Warps of a block.
const WARPS: u32 = ROW_THREADS / 32;

/// Slots of a record, with the control slot.
const SLOTS: usize = RECORD_SLOTS as usize + 1;

/// Maximum number of groups of a warp.
const GROUPS: usize = 4;

/// Returns the number of groups of a warp, in a graph whose records have `record_bytes` bytes.
const fn groups_of(record_bytes: usize) -> usize {
    let groups = 128 / record_bytes;
    if groups > GROUPS { GROUPS } else { groups }
}

/// Returns the number of vertices per block, in a graph whose records have `record_bytes` bytes.
///
/// ```
/// assert_eq!([32, 64, 128].map(phalanx_kernels::graph::row_vertices), [1024, 512, 256]);
/// ```
pub const fn row_vertices(record_bytes: usize) -> u32 {
    ROW_THREADS * groups_of(record_bytes) as u32
}

/// Words of shared memory of a warp: room for the edges of 32 small vertices with a slab each, of all kinds.
const STAGE: usize = 1408;

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
    /// Words for look-back, two for each block, which are 0.
    pub status: GlobalSlice<u64>,
    /// Number of blocks that have begun: a word, which is 0.
    pub tickets: GlobalSlice<u32>,
}

#[device]
impl<D: Scalar> RowCopy<D> {
    /// Writes an edge, if there is room.
    fn put(self, place: u64, (target, data): (u32, D)) {
        write_if(self.targets, place as usize, target);
        write_if(self.data, place as usize, data);
    }
}

/// Shared memory of a warp.
#[derive(Clone, Copy)]
struct Stage {
    words: Shared<u32>,
    first: usize,
}

#[device]
impl Stage {
    /// Returns the number of edges for which there is room.
    const fn room<D: Scalar>(has_data: bool) -> u32 {
        (STAGE / if has_data { 1 + size_of::<D>() / 4 } else { 1 }) as u32
    }

    /// Stores an edge; `place` is below the room.
    fn store<D: Scalar>(self, has_data: bool, place: u32, (target, data): (u32, D)) {
        let (room, bits) = (Self::room::<D>(has_data) as usize, data.to_u64());
        let at = self.first + place as usize;
        self.words.store(at, target);
        if has_data {
            self.words.store(at + room, bits as u32);
            if size_of::<D>() == 8 {
                self.words.store(at + 2 * room, (bits >> 32) as u32);
            }
        }
    }

    /// Loads an edge.
    fn load<D: Scalar>(self, has_data: bool, place: u32) -> (u32, D) {
        let room = Self::room::<D>(has_data) as usize;
        let at = self.first + place as usize;
        let target = self.words.load(at);
        if !has_data {
            return (target, D::narrow(0));
        }
        let high = if size_of::<D>() == 8 { self.words.load(at + 2 * room) } else { 0 };
        let bits = self.words.load(at + room) as u64 | (high as u64) << 32;
        (target, D::narrow(bits as u128))
    }
}

/// The vertices of a lane, one per group.
#[derive(Clone, Copy)]
struct Own<S: Slot> {
    /// Slots of the records of small vertices; tombstones for others.
    words: [[S::Word; SLOTS]; GROUPS],
    /// Slabs of small vertices.
    slabs: [Option<Handle>; GROUPS],
    /// Numbers of edges.
    degrees: [u32; GROUPS],
    /// Whether a vertex has a table, a bit per group.
    tables: u32,
}

/// A round in which the tiles of a warp read slabs.
#[derive(Clone, Copy)]
struct Round {
    /// Group and lane of the vertex whose slab the calling tile reads, if it reads one.
    owner: Option<(usize, u32)>,
    /// For each vertex of the calling lane, the number of the tile that reads its slab; beyond the last one
    /// if none does.
    servers: [u32; GROUPS],
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> GraphView<Edges<S, P, W, L>> {
    /// Number of groups of a warp.
    const ROW_GROUPS: usize = groups_of(Record::<S, W, L>::BYTES);

    /// Calls `body` with the number of each group. Arrays that it indexes stay in registers.
    fn each_group(mut body: impl FnMut(usize)) {
        unrolled::<GROUPS>(|group| {
            if group < Self::ROW_GROUPS {
                body(group);
            }
        });
    }

    /// Copies the edges of the calling block's vertices.
    pub(super) fn copy_rows(self, copy: RowCopy<S::Value>) {
        const {
            assert!(32 * (RECORD_SLOTS + slab_slots::<S, L>()) <= Stage::room::<S::Value>(S::HAS_VALUE));
        };
        let block = ticket(copy.tickets.at(0));
        let (warp, number) = (Tile::<32>::lockstep(), Thread::index_in_block() / 32);
        let vertex = (block * WARPS + number) * 32 * Self::ROW_GROUPS as u32 + warp.rank();
        let own = self.own_rows(vertex, copy);
        let (mut places, mut ends, mut total) = ([0; GROUPS], [0; GROUPS], 0);
        Self::each_group(|group| {
            let upto = scan_lanes::<Sum<u32>>(warp, own.degrees[group], 32);
            places[group] = total + upto - own.degrees[group];
            total += warp.shuffle(upto, 31);
            ends[group] = total;
        });
        let carry = Carry::<Sum<u64>>::new(Values::of(copy.status), WARPS);
        let (before, _) = carry.learn(carry.announce(block, total as u64), 0);
        Self::each_group(|group| {
            let vertex = vertex + 32 * group as u32;
            if vertex < self.vertices() {
                if vertex == 0 {
                    write_if(copy.offsets, 0, 0);
                }
                let end = before + (places[group] + own.degrees[group]) as u64;
                write_if(copy.offsets, vertex as usize + 1, end);
            }
        });
        let stage = Stage { words: shared!([u32; WARPS as usize * STAGE]), first: number as usize * STAGE };
        self.write_groups(copy, stage, own, (places, ends, before));
    }

    /// Returns the calling lane's vertices, of which that of the first group is `vertex`. All lanes of the
    /// warp call it together.
    fn own_rows(self, vertex: u32, copy: RowCopy<S::Value>) -> Own<S> {
        let none = removed::<S>();
        let (slabs, degrees) = ([None; GROUPS], [0; GROUPS]);
        let mut own = Own { words: [[none; SLOTS]; GROUPS], slabs, degrees, tables: 0 };
        let mut links = [Link::NO_VERTEX; GROUPS];
        Self::each_group(|group| {
            links[group] = self.read_record(vertex + 32 * group as u32, &mut own.words[group]);
        });
        Self::each_group(|group| {
            let link = links[group];
            if link == Link::TABLE {
                let vertex = vertex + 32 * group as u32;
                // SAFETY: a vertex with a link exists.
                let (table, live) = unsafe { self.record(vertex) }.load_table();
                copy.list_parts(vertex, table.buckets.div_ceil(PART_BUCKETS));
                own.degrees[group] = live;
                own.tables |= 1 << group;
            }
            if link.is_closed() {
                own.words[group] = [none; SLOTS];
            } else {
                own.degrees[group] = count_live::<S>(own.words[group]);
            }
            own.slabs[group] = link.slab();
        });
        self.each_slab(own.slabs, |round, lane| {
            let sum = Tile::<SLAB_TILE>::lockstep().reduce_add(live_in(lane));
            Self::each_group(|group| own.degrees[group] += round.of_server(group, sum, 0));
        });
        own
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

    /// Writes the edges of the calling warp's small vertices. `places` are those of the calling lane's rows
    /// among the edges of the warp, `ends` those behind the groups, and `before` is the number of edges
    /// before the warp. All lanes of the warp call it together.
    fn write_groups(
        self,
        copy: RowCopy<S::Value>,
        stage: Stage,
        own: Own<S>,
        (places, ends, before): ([u32; GROUPS], [u32; GROUPS], u64),
    ) {
        let (warp, room) = (Tile::<32>::lockstep(), Stage::room::<S::Value>(S::HAS_VALUE));
        let all = select(ends, Self::ROW_GROUPS as u32 - 1);
        let mut has_tables = 0;
        Self::each_group(|group| {
            has_tables |= (warp.any(own.tables >> group & 1 != 0) as u32) << group;
        });
        let is_joint = has_tables == 0 && all <= room;
        let (mut turn, turns) = (0, if is_joint { 1 } else { Self::ROW_GROUPS as u32 });
        while turn < turns {
            let begin = if turn == 0 { 0 } else { select(ends, turn - 1) };
            let end = if is_joint { all } else { select(ends, turn) };
            let is_staged = end - begin <= room && has_tables >> turn & 1 == 0;
            let chosen = if is_joint { u32::MAX } else { 1 << turn };
            self.write_rows(own, chosen, places, |place, edge| {
                if is_staged {
                    stage.store(S::HAS_VALUE, place - begin, edge);
                } else {
                    copy.put(before + place as u64, edge);
                }
            });
            if is_staged {
                warp.sync();
                let mut place = warp.rank();
                while place < end - begin {
                    copy.put(before + (begin + place) as u64, stage.load(S::HAS_VALUE, place));
                    place += 32;
                }
                warp.sync();
            }
            turn += 1;
        }
    }

    /// Calls `put` with a place and an edge for each edge of the calling lane's small vertices in the groups
    /// of `chosen`, a bit for each. `places` are those of the first edges. All lanes of the warp call it
    /// together; tiles call `put` for the edges in slabs.
    fn write_rows(
        self,
        own: Own<S>,
        chosen: u32,
        mut places: [u32; GROUPS],
        mut put: impl FnMut(u32, (u32, S::Value)),
    ) {
        let mut slabs = [None; GROUPS];
        Self::each_group(|group| {
            if chosen >> group & 1 != 0 {
                slabs[group] = own.slabs[group];
                // The control slot appears as a tombstone.
                unrolled::<SLOTS>(|j| {
                    if S::is_live(own.words[group][j]) {
                        put(places[group], self.decoded(own.words[group][j]));
                        places[group] += 1;
                    }
                });
            }
        });
        self.each_slab(slabs, |round, lane| {
            let tile = Tile::<SLAB_TILE>::lockstep();
            let many = live_in(lane);
            let sum = tile.reduce_add(many);
            let begin = round.of_owner(places);
            let (mut at, words) = (begin + before_in_tile(tile, many), lane.words());
            unrolled::<L>(|j| {
                if S::is_live(words[j]) {
                    put(at, self.decoded(words[j]));
                    at += 1;
                }
            });
            Self::each_group(|group| places[group] += round.of_server(group, sum, 0));
        });
    }

    /// Calls `see` for the slabs that begin with those of the calling lane's vertices, and those behind them.
    /// Tiles of four lanes take the slabs of the warp's vertices in turn. All lanes of the warp call it
    /// together, and `see` as well.
    fn each_slab(self, mut at: [Option<Handle>; GROUPS], mut see: impl FnMut(Round, &Lane<S, L>)) {
        let tile = Tile::<SLAB_TILE>::lockstep();
        loop {
            let (round, is_last) = Round::new(at);
            if is_last {
                return;
            }
            let handle = Handle::from_word(round.of_owner(at.map(|at| at.map_or(0, Handle::to_word))));
            let is_there = round.owner.is_some();
            // SAFETY: the handle was read in a link; nothing is accessed without one.
            let node = unsafe { self.node(handle) };
            let read = node.read(tile.rank(), is_there, Order::Weak);
            let lane = if is_there { read.lane } else { Lane::nothing() };
            see(round, &lane);
            Self::each_group(|group| {
                let next = round.of_server(group, read.link.to_word(), SLAB_TILE - 1);
                if round.is_served(group) {
                    at[group] = Link::from_word(next).slab();
                }
            });
        }
    }

    /// Returns the edge in a slot.
    fn decoded(self, word: S::Word) -> (u32, S::Value) {
        (S::key(word).to_u64() as u32, self.flags().decode(S::value(word)))
    }

    /// Copies the edges in a part of a table, whose parts begin at the place `list` of the list. A tile takes
    /// each bucket. All lanes of the warp call it together.
    pub(super) fn copy_part(self, part: Part, list: usize, copy: RowCopy<S::Value>) {
        const { assert!(PART_BUCKETS == 32 / SLAB_TILE, "a tile for each bucket") };
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
            let many = live_in(&lane);
            let upto = scan_lanes::<Sum<u32>>(warp, many, 32);
            let begin = if warp.rank() == 31 && upto > 0 {
                cursor.fetch_add(upto, Order::Relaxed, Scope::Device)
            } else {
                0
            };
            let mut place = first + (warp.shuffle(begin, 31) + upto - many) as u64;
            let words = lane.words();
            unrolled::<L>(|j| {
                if S::is_live(words[j]) {
                    copy.put(place, self.decoded(words[j]));
                    place += 1;
                }
            });
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
    /// Gives each tile one of the vertices with a slab, `slabs` being those of the calling lane. Returns also
    /// whether there are none. All lanes of the warp call it together.
    fn new(slabs: [Option<Handle>; GROUPS]) -> (Self, bool) {
        let (warp, lower) = (Tile::<32>::lockstep(), (1 << Thread::lane()) - 1);
        let (mut servers, mut owner, mut before) = ([u32::MAX; GROUPS], None, 0);
        let tile = Thread::lane() / SLAB_TILE;
        unrolled::<GROUPS>(|group| {
            let waiting = warp.ballot(slabs[group].is_some());
            if slabs[group].is_some() {
                servers[group] = before + (waiting & lower).count_ones();
            }
            let many = waiting.count_ones();
            if tile >= before && tile < before + many {
                owner = Some((group, nth_bit(waiting, tile - before)));
            }
            before += many;
        });
        (Self { owner, servers }, before == 0)
    }

    /// Returns whether a tile reads the slab of the calling lane's vertex in `group`.
    fn is_served(self, group: usize) -> bool {
        self.servers[group] < 32 / SLAB_TILE
    }

    /// Returns the value of the lane `rank` of the tile that reads the slab of the calling lane's vertex in
    /// `group`, or 0. All lanes of the warp call it together.
    fn of_server(self, group: usize, value: u32, rank: u32) -> u32 {
        let server = self.servers[group] % (32 / SLAB_TILE);
        let found = Tile::<32>::lockstep().shuffle(value, server * SLAB_TILE + rank);
        if self.is_served(group) { found } else { 0 }
    }

    /// Returns the value of the vertex whose slab the calling tile reads, of the values of the lanes'
    /// vertices; otherwise an arbitrary one. All lanes of the warp call it together.
    fn of_owner(self, values: [u32; GROUPS]) -> u32 {
        let (owner, lane) = self.owner.unwrap_or((0, 0));
        let mut found = 0;
        unrolled::<GROUPS>(|group| {
            let value = Tile::<32>::lockstep().shuffle(values[group], lane);
            if group == owner {
                found = value;
            }
        });
        found
    }
}

#[device]
impl<D: Scalar> RowCopy<D> {
    /// Lists the parts of a table, by the calling lane alone.
    fn list_parts(self, vertex: u32, parts: u32) {
        let count = self.parts.count.at(0);
        let place = count.fetch_add(parts, Order::Relaxed, Scope::Device) as usize;
        write_if(self.cursors, place, 0);
        let mut index = 0;
        while index < parts {
            write_if(self.parts.words, place + index as usize, (vertex as u64) << 32 | index as u64);
            index += 1;
        }
    }
}

/// Returns the value at `index`, or the last one if there is none.
#[device]
fn select(values: [u32; GROUPS], index: u32) -> u32 {
    let mut value = values[GROUPS - 1];
    unrolled::<GROUPS>(|at| {
        if at as u32 == index {
            value = values[at];
        }
    });
    value
}

/// Returns the index of the bit of `word` that is set and has `rank` set bits below, which exists.
#[device]
fn nth_bit(mut word: u32, mut rank: u32) -> u32 {
    while rank > 0 {
        word &= word.wrapping_sub(1);
        rank -= 1;
    }
    word.trailing_zeros()
}

/// Returns the number of edges in the slots of a record.
#[device]
fn count_live<S: Slot>(words: [S::Word; SLOTS]) -> u32 {
    let mut live = 0;
    unrolled::<SLOTS>(|j| live += S::is_live(words[j]) as u32);
    live
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
