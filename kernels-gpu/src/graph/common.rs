//! Triangles of the edges of a batch: common neighbours of their ends.
//!
//! A triangle with `k` edges of the batch is found at each of them, and counts as a `k`-th there. The sum is
//! in sixths, which have no remainder.
//!
//! A warp serves an edge whose ends are small: half a warp reads the neighbours of each end, at the same
//! time, and the lanes compare those that they have read. If only one end is small, or none, a warp visits
//! the neighbours of one end, eight buckets at a time, and looks each up in the table of the other end.
use super::algorithms::{Adjacency, Part, add_of_warp, picked, see_all};
use super::edge_set::{EdgeSet, NO_EDGE, edge_key};
use super::kind::{Config, Edges};
use super::record::Table;
use super::view::GraphView;
use crate::keyed::Slot;
use crate::primitives::unrolled;
use crate::slab::Pool;
use simt::{GlobalSlice, Thread, Tile, device};

/// The number 1 as triangles are counted.
pub const TRIANGLE: u64 = 6;

/// The edges of a batch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BatchEdges {
    /// The hash set of the edges: see [`edge_keys`](super::algorithms::kernels::edge_keys).
    pub set: GlobalSlice<u64>,
    /// The key of each edge, or all ones; after [`graph_choose_ends`](super::kernels::graph_choose_ends) the
    /// end whose neighbours are visited in the high half, the other one in the low half.
    pub ends: GlobalSlice<u64>,
    /// Number of parts of the visited end of each edge after the first one.
    pub parts: GlobalSlice<u64>,
    /// Number of such parts of all edges before each one, and of all.
    pub offsets: GlobalSlice<u64>,
}

#[device]
impl BatchEdges {
    /// Returns the number of parts of all edges.
    fn all_parts(self) -> u64 {
        self.ends.len() as u64 + self.offsets.read(self.ends.len())
    }

    /// Returns the ends of an edge and the index of the part with this number: first the first part of each
    /// edge, which needs no search, then the others. The lanes of a warp call it together.
    fn part(self, number: u64) -> (u64, u32) {
        let Some(other) = number.checked_sub(self.ends.len() as u64) else {
            return (self.ends.read(number as usize), 0);
        };
        let edge = self.edge_of(other);
        (self.ends.read(edge), 1 + (other - self.offsets.read(edge)) as u32)
    }

    /// Returns the last edge whose offset is at most `part`. Each round divides the range by 32.
    fn edge_of(self, part: u64) -> usize {
        let warp = Tile::<32>::lockstep();
        let (mut first, mut len) = (0, self.ends.len());
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

/// Chooses the end of each edge that has fewer parts, a small one if there is one, and writes the number of
/// those after the first.
#[device]
pub(super) fn choose_ends<M: Config>(graph: GraphView<M>, batch: BatchEdges) {
    let mut edge = Thread::index();
    while edge < batch.ends.len() {
        let (key, mut rest) = (batch.ends.read(edge), 0);
        if key != NO_EDGE {
            let (one, other) = ((key >> 32) as u32, key as u32);
            let sizes = [one, other].map(|vertex| M::size(graph, vertex).parts);
            if sizes[1] < sizes[0] {
                batch.ends.write(edge, (other as u64) << 32 | one as u64);
            }
            rest = sizes[0].min(sizes[1]).saturating_sub(1);
        }
        batch.parts.write(edge, rest as u64);
        edge += Thread::count();
    }
}

/// Number of chunks of neighbours that the lanes keep. Those of a record and a slab are at most as many.
const KEPT: usize = 3;

/// The number of no vertex, in place of a neighbour.
const NONE: u32 = u32::MAX;

/// The neighbours of the ends of an edge, as the lanes of a warp keep them: those of the first end in the
/// lower half of the warp, those of the second end in the upper half.
#[derive(Clone, Copy)]
struct BothEnds {
    /// Table of the lane's end; without buckets if that is small.
    table: Table,
    /// A neighbour in each of some chunks of a small end, or [`NONE`].
    kept: [u32; KEPT],
    /// Number of chunks that the ends have.
    chunks: u32,
}

#[device]
impl BothEnds {
    /// Returns the table of the second end.
    fn second_table(self) -> Table {
        let (warp, Table { base, buckets, taken }) = (Tile::<32>::lockstep(), self.table);
        Table { base: warp.shuffle(base, 31), buckets: warp.shuffle(buckets, 31), taken }
    }

    /// Returns the chunks, as bits, in which the lane's neighbour of the second end is one of the first end,
    /// too.
    fn common(self) -> u32 {
        let warp = Tile::<32>::lockstep();
        let is_second = warp.rank() >= 16;
        let mut is_common = [false; KEPT];
        unrolled::<KEPT>(|chunk| {
            let mut rest = warp.ballot(!is_second && self.kept[chunk] != NONE);
            while rest != 0 {
                let wanted = warp.shuffle(self.kept[chunk], rest.trailing_zeros());
                unrolled::<KEPT>(|own| is_common[own] |= self.kept[own] == wanted);
                rest &= rest - 1;
            }
        });
        let mut chunks = 0;
        unrolled::<KEPT>(|own| chunks |= ((is_second && is_common[own]) as u32) << own);
        chunks
    }

    /// Returns the sum of the lane's shares of triangles.
    fn shares(self, batch: BatchEdges, ends: [u32; 2]) -> u64 {
        let (mut chunks, mut sum) = (self.common(), 0);
        while chunks != 0 {
            let target = picked(&self.kept, KEPT, chunks.trailing_zeros());
            if target != ends[0] && target != ends[1] {
                sum += batch.share(ends, target);
            }
            chunks &= chunks - 1;
        }
        sum
    }
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> GraphView<Edges<S, P, W, L>> {
    /// Adds the triangles of the batch's edges to `total`, in sixths. A warp takes a part.
    pub(super) fn count_common(self, batch: BatchEdges, total: GlobalSlice<u64>) {
        let parts = batch.all_parts();
        let (mut number, mut sum) = ((Thread::index() / 32) as u64, 0);
        while number < parts {
            let (ends, index) = batch.part(number);
            if ends != NO_EDGE {
                sum += self.shares_of(batch, [(ends >> 32) as u32, ends as u32], index);
            }
            number += (Thread::count() / 32) as u64;
        }
        add_of_warp(total.at(0), sum);
    }

    /// Returns the lane's shares of the triangles of an edge with the neighbours in a part of its first end,
    /// which is small if one of both is. The lanes of the warp call it together.
    fn shares_of(self, batch: BatchEdges, ends: [u32; 2], index: u32) -> u64 {
        let (mut first, mut sum) = ([0, 0], 0);
        // There is one round, unless chunks of small ends are more than the lanes keep: then each group of
        // chunks of one end is compared with each of the other end.
        loop {
            let both = self.both_ends(ends, first);
            let table = both.second_table();
            if table.buckets > 0 {
                return self.shares_in_table(batch, ends, index, table);
            }
            sum += both.shares(batch, ends);
            first[1] += KEPT as u32;
            if first[1] >= both.chunks {
                first = [first[0] + KEPT as u32, 0];
            }
            if first[0] >= both.chunks {
                return sum;
            }
        }
    }

    /// Returns the tables of the ends of an edge, or the neighbours in their chunks from these on. The lanes
    /// of the warp call it together.
    fn both_ends(self, ends: [u32; 2], first: [u32; 2]) -> BothEnds {
        let is_second = Thread::lane() >= 16;
        let (end, first) = if is_second { (ends[1], first[1]) } else { (ends[0], first[0]) };
        let (mut kept, mut chunks) = ([NONE; KEPT], 0);
        let (table, _) = see_all::<16, S, P, W, L>(self, Some(end), None, |target| {
            unrolled::<KEPT>(|place| {
                if chunks == first + place as u32 {
                    kept[place] = target.unwrap_or(NONE);
                }
            });
            chunks += 1;
        });
        BothEnds { table, kept, chunks }
    }

    /// Returns the lane's shares of the triangles of an edge with the neighbours in a part of its first end
    /// that are in the table of the second one. The lanes of the warp call it together.
    fn shares_in_table(self, batch: BatchEdges, ends: [u32; 2], index: u32, table: Table) -> u64 {
        let mut sum = 0;
        Edges::visit_part(self, Part { vertex: ends[0], index }, |target| {
            let target = target.filter(|&target| target != ends[0] && target != ends[1]);
            // SAFETY: the table of a vertex, as its record describes it.
            let is_found = unsafe { self.is_in_table(table, target) };
            if let Some(target) = target.filter(|_| is_found) {
                sum += batch.share(ends, target);
            }
        });
        sum
    }
}
