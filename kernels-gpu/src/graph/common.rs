//! Triangles of the edges of a batch: common neighbours of their ends.
//!
//! A triangle with `k` edges of the batch is found at each of them, and counts as a `k`-th there. The sum is
//! in sixths, which have no remainder.
use super::algorithms::{Part, add_of_warp, lower_bound};
use super::kind::Config;
use super::search::Half;
use super::view::GraphView;
use crate::keyed::kernels::{read_if, write_if};
use crate::keyed::{ContainsKey, Outcome};
use simt::{GlobalSlice, Thread, Word, device};

/// The number 1 as triangles are counted.
pub const TRIANGLE: u64 = 6;

/// The distinct edges of a batch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BatchEdges {
    /// Keys of the edges, sorted: the smaller end in the high half. The key of all ones stands for no edge.
    pub keys: GlobalSlice<u64>,
    /// A word: the number of keys.
    pub count: GlobalSlice<u32>,
    /// The end whose neighbours are visited in the high half, the other one in the low half.
    pub ends: GlobalSlice<u64>,
    /// Number of parts of the visited end of each edge.
    pub parts: GlobalSlice<u64>,
    /// Number of parts of all edges before each one, and of all.
    pub offsets: GlobalSlice<u64>,
}

#[device]
impl BatchEdges {
    fn len(self) -> usize {
        (self.count.read(0) as usize).min(self.keys.len())
    }

    /// Returns whether the batch has an edge.
    fn has(self, a: u32, b: u32) -> bool {
        let key = (a.min(b) as u64) << 32 | a.max(b) as u64;
        let place = lower_bound(self.len(), |place| self.keys.read(place) < key);
        place < self.len() && self.keys.read(place) == key
    }

    /// Returns the edge and the index of the part with this number, below the number of all parts.
    fn part(self, number: u64) -> (u64, u32) {
        let edge = lower_bound(self.offsets.len(), |place| self.offsets.read(place) <= number).max(1) - 1;
        (self.ends.read(edge), (number - self.offsets.read(edge)) as u32)
    }
}

/// Chooses the end of each edge that has fewer parts, and writes their number.
#[device]
pub(super) fn choose_ends<M: Config>(graph: GraphView<M>, batch: BatchEdges) {
    let mut edge = Thread::index();
    while edge < batch.parts.len() {
        let key = read_if(batch.keys, edge, edge < batch.len());
        let (one, other) = ((key >> 32) as u32, key as u32);
        let sizes = [one, other].map(|vertex| M::size(graph, vertex).parts.max(1));
        let ends = if sizes[0] <= sizes[1] { key } else { (other as u64) << 32 | one as u64 };
        let is_edge = edge < batch.len() && key != u64::MAX;
        write_if(batch.ends, edge, ends);
        batch.parts.write(edge, if is_edge { sizes[0].min(sizes[1]) as u64 } else { 0 });
        edge += Thread::count();
    }
}

/// Adds the triangles of the batch's edges to `total`, in sixths. A warp takes a part.
#[device]
pub(super) fn count_common<M: Config>(graph: GraphView<M>, batch: BatchEdges, total: GlobalSlice<u64>) {
    let parts = batch.offsets.read(batch.offsets.len() - 1);
    let (mut number, mut sum) = ((Thread::index() / 32) as u64, 0);
    while number < parts {
        let (ends, index) = batch.part(number);
        let (vertex, other) = ((ends >> 32) as u32, ends as u32);
        M::visit_part(graph, Part { vertex, index }, |target| {
            let target = target.filter(|&target| target != vertex && target != other);
            let half = Half { source: other, target: target.unwrap_or(0), data: M::Data::narrow(0) };
            let found = M::execute::<_, false>(graph, target.is_some(), ContainsKey, half);
            if let Some(target) = target.filter(|_| found.outcome == Outcome::Found) {
                let many = 1 + batch.has(vertex, target) as u64 + batch.has(other, target) as u64;
                sum += TRIANGLE / many;
            }
        });
        number += (Thread::count() / 32) as u64;
    }
    add_of_warp(total.at(0), sum);
}
