//! Triangles of the edges of a batch whose ends both have tables.
//!
//! These edges are grouped by the end with more parts. The table of that end is divided into ranges of
//! buckets. A *unit* of work is an edge and a range. A warp takes units that follow each other: edges of one
//! group, in one range. It sets a bit in shared memory for each neighbour in the range, and tests the bits of
//! those neighbours of the other ends that belong to the range. A table is in the order of hashes, so these
//! are in a few consecutive buckets. Only neighbours whose bits are set are looked up in the larger table. If
//! the other ends have few neighbours in the range, all of these are looked up, and no bits are set.
use super::algorithms::PART_BUCKETS;
use super::bucket_walk::BucketWalk;
use super::common::{BatchEdges, NONE, UNITS, run_of};
use super::found::{Found, Trace};
use super::key_set::KeySet;
use super::kind::Edges;
use super::record::Table;
use super::row_memory::WarpWords;
use super::view::{GraphView, Start};
use crate::keyed::Slot;
use crate::primitives::unrolled;
use crate::slab::Pool;
use simt::{GlobalSlice, Order, Scope, Thread, Tile, device, shared};

/// The groups of a batch's edges.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Groups {
    /// The end that the edges of a group have in common plus one, as a hash set: at least as many words as
    /// there are edges, a power of two, zero before.
    pub keys: GlobalSlice<u64>,
    /// The group of each edge in the high half, and its number in the group; all ones if it is in no group.
    pub places: GlobalSlice<u64>,
    /// The other ends of the edges, group by group.
    pub ends: GlobalSlice<u32>,
}

/// Number of parts in a range of a table.
const RANGE_PARTS: u32 = 8;
/// Number of buckets in a range of a table.
const RANGE_BUCKETS: u32 = RANGE_PARTS * PART_BUCKETS;
/// Number of words of bits of a warp: 16 bits for each slot of 4 bytes in a range, of which about two thirds
/// are taken.
const BIT_WORDS: u32 = 1024;
/// Maximum number of units that a warp takes at a time, at most one for each lane.
const RUN: u64 = 16;
/// Number of buckets whose bits are set in the time in which the neighbours in one bucket are looked up.
const SET_PER_LOOKED_UP: u32 = 16;

/// In place of an edge's place in a group: it is in none.
pub(super) const NO_PLACE: u64 = u64::MAX;

/// Returns the number of ranges of a table with so many parts.
#[device]
pub(super) fn ranges_of(parts: u32) -> u32 {
    parts.div_ceil(RANGE_PARTS)
}

/// Returns whether an edge belongs to a group, given the numbers of parts of its ends: unless a range of the
/// larger table has the hashes of less than half a bucket of the smaller one.
#[device]
pub(super) fn is_grouped(less: u32, more: u32) -> bool {
    2 * less * PART_BUCKETS >= ranges_of(more)
}

#[device]
impl BatchEdges {
    /// Adds an edge to the group of an end, whose table has so many ranges. Returns its place, or
    /// [`NO_PLACE`] if there are too many groups.
    ///
    /// Relaxed: later launches read the counts.
    pub(super) fn join_group(self, end: u32, ranges: u32) -> u64 {
        let (first, groups) = (self.large.len(), self.groups.keys.len());
        let Some((group, _)) = KeySet(self.groups.keys).insert(end as u64 + 1) else { return NO_PLACE };
        self.counts.at(first + group).fetch_add(ranges as u64, Order::Relaxed, Scope::Device);
        let number = self.counts.at(first + groups + group).fetch_add(1, Order::Relaxed, Scope::Device);
        (group as u64) << 32 | number
    }

    /// Returns the place among the ends at which those of a group begin.
    fn first_end(self, group: usize) -> usize {
        let first = self.large.len() + self.groups.keys.len();
        (self.offsets.read(first + group) - self.offsets.read(first)) as usize
    }

    /// Writes the other ends of the edges of each group to its places.
    pub(super) fn collect_ends(self) {
        let mut edge = Thread::index();
        while edge < self.large.len() {
            let place = self.groups.places.read(edge);
            if place != NO_PLACE {
                let first = self.first_end((place >> 32) as usize);
                // mutation: late equivalent, because only later launches read the ends.
                self.groups.ends.write(first + place as u32 as usize, (self.large.read(edge) >> 32) as u32);
            }
            edge += Thread::count();
        }
    }
}

/// A warp's bits in shared memory: each vertex of a set has one, which it may share with others.
#[derive(Clone, Copy)]
struct Bits(WarpWords<BIT_WORDS>);

#[device]
impl Bits {
    fn of_warp() -> Self {
        Self(WarpWords::new(shared!([u32; WarpWords::<BIT_WORDS>::BLOCK])))
    }

    /// Returns the word of a vertex, and its bit.
    fn place(vertex: u32) -> (u32, u32) {
        let hash = vertex.wrapping_mul(0x9E37_79B1);
        (hash >> (32 - BIT_WORDS.ilog2()), hash >> (27 - BIT_WORDS.ilog2()) & 31)
    }

    fn set(self, vertex: u32) {
        let (word, bit) = Self::place(vertex);
        self.0.or(word, 1 << bit);
    }

    fn is_set(self, vertex: u32) -> bool {
        let (word, bit) = Self::place(vertex);
        self.0.load(word) >> bit & 1 != 0
    }
}

/// Sets the bits of the neighbours on a walk. The lanes of the warp call it together.
#[device]
fn set_bits<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize>(
    bits: Bits,
    mut walk: BucketWalk<S, P, W, L>,
) {
    while walk.is_at() {
        walk.read().into_iter().flatten().for_each(|target| bits.set(target));
    }
    Tile::<32>::lockstep().sync();
}

/// A range of hashes, as fractions of 2^32: from the first to below the second.
#[derive(Clone, Copy)]
struct Range(u64, u64);

#[device]
impl Range {
    /// Returns the range of the hashes that lead to buckets of a table, and these buckets: see
    /// [`Table::slabs_of_part`].
    fn of(table: Table, index: u32) -> (Self, (u32, u32)) {
        let slabs = table.slabs_of_part(index, RANGE_BUCKETS);
        let (first, end) = ((slabs.0 - table.base) as u64, (slabs.1 - table.base) as u64);
        let buckets = table.buckets.max(1) as u64;
        (Self((first << 32) / buckets, (end << 32).div_ceil(buckets)), slabs)
    }

    /// Returns the buckets of another table to which the hashes lead.
    fn within(self, table: Table) -> (u32, u32) {
        let place = |hash: u64| table.base + (hash >> 32) as u32;
        let buckets = table.buckets as u64;
        (place(self.0 * buckets), place(self.1 * buckets + u32::MAX as u64))
    }
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> GraphView<Edges<S, P, W, L>> {
    /// Adds the triangles of the batch's edges that are in groups to `total`, in sixths. Warps take edges
    /// that follow each other.
    pub(super) fn count_common_groups(self, batch: BatchEdges, total: GlobalSlice<u64>) {
        let first = batch.large.len();
        let begin = batch.offsets.read(first);
        let end = batch.offsets.read(first + batch.groups.keys.len());
        let (run, mut found) = (run_of(end - begin, RUN), Found::new(batch));
        loop {
            let mut unit = begin + batch.take(UNITS, run);
            if unit >= end {
                break;
            }
            let behind = end.min(unit + run);
            while unit < behind {
                unit += self.count_in_group(&mut found, batch, (unit, behind));
            }
        }
        found.count(1, |trace, target| self.is_neighbor(trace, target));
        found.add_to(total);
    }

    /// Adds the common neighbours of edges of one group in one range, of those from the first unit to before
    /// the second. Returns their number. The lanes of the warp call it together.
    fn count_in_group(self, found: &mut Found, batch: BatchEdges, (unit, behind): (u64, u64)) -> u64 {
        let (first, groups) = (batch.large.len(), batch.groups.keys.len());
        let entry = batch.entry_of(unit, (first, groups));
        let group = entry - first;
        let edges = batch.counts.read(entry + groups).max(1);
        let index = unit - batch.offsets.read(entry);
        let (range, number) = ((index / edges) as u32, index % edges);
        let many = (behind - unit).min(edges - number);
        let ends = batch.groups.ends.part(batch.first_end(group) + number as usize, many as usize);
        self.count_in_range(found, (batch.groups.keys.read(group).wrapping_sub(1) as u32, range), ends);
        many
    }

    /// Adds the common neighbours of a vertex and each of `ends`, at most 32, in a range of its table. The
    /// lanes of the warp call it together.
    fn count_in_range(self, found: &mut Found, (vertex, range): (u32, u32), ends: GlobalSlice<u32>) {
        let (warp, bits) = (Tile::<32>::lockstep(), Bits::of_warp());
        let (hashes, buckets) = Range::of(self.large_table(vertex), range);
        let own = (warp.rank() as usize) < ends.len();
        let end = if own { ends.read(warp.rank() as usize) } else { NONE };
        let (first, behind) = if own { hashes.within(self.large_table(end)) } else { (0, 0) };
        let tested = warp.reduce_add(behind - first);
        let bits = (SET_PER_LOOKED_UP * tested >= buckets.1 - buckets.0).then_some(bits);
        if let Some(bits) = bits {
            bits.0.clear();
            set_bits(bits, BucketWalk::new(self, buckets));
        }
        let mut number = 0;
        while number < ends.len() as u32 {
            let (first, behind) = (warp.shuffle(first, number), warp.shuffle(behind, number));
            let trace = Trace { ends: [vertex, warp.shuffle(end, number)], range };
            self.test_bits(found, trace, bits, BucketWalk::new(self, (first, behind)));
            number += 1;
        }
        // mutation: skip equivalent, because each lane has tested its bits before the last vote of `keep`,
        // which needs them.
        warp.sync();
    }

    /// Adds the neighbours on a walk whose bits are set, or all if there are no bits. The lanes of the warp
    /// call it together.
    fn test_bits(
        self,
        found: &mut Found,
        trace: Trace,
        bits: Option<Bits>,
        mut walk: BucketWalk<S, P, W, L>,
    ) {
        while walk.is_at() {
            let targets = walk.read();
            let are_set = targets
                .map(|target| target.is_some_and(|target| bits.is_none_or(|bits| bits.is_set(target))));
            unrolled::<2>(|pair| {
                unrolled::<2>(|j| {
                    found.keep(trace, targets[2 * pair + j].unwrap_or(NONE), are_set[2 * pair + j]);
                });
                found.count(32, |trace, target| self.is_neighbor(trace, target));
            });
        }
    }

    /// Returns whether the lane's target, if it has one, is a neighbour of the first end of its edge, and in
    /// the range: another range may have led to the same bucket of the second end. The lanes of the warp call
    /// it together.
    fn is_neighbor(self, trace: Trace, target: Option<u32>) -> bool {
        let table = target.map_or(Table::default(), |_| self.large_table(trace.ends[0]));
        let target = target.filter(|&target| {
            let bucket = Start::bucket(0, table.buckets, target).index;
            bucket / RANGE_BUCKETS == trace.range
        });
        // SAFETY: the table of a vertex, as its record describes it, if there is a target.
        unsafe { self.is_in_table(table, target) }
    }

    /// Returns the table of a vertex that has one, as all ends of edges in groups.
    fn large_table(self, vertex: u32) -> Table {
        // SAFETY: `choose_ends` adds only edges between vertices with tables to groups, and the graph has not
        // changed since then.
        unsafe { self.record(vertex) }.load_table().0
    }
}
