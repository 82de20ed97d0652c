//! Breadth-first search, level by level, with a queue for each level.
use super::parts::{Adjacency, PartList, VERTEX_TILE, for_each_item};
use crate::keyed::kernels::{read_if, write_if};
use simt::{GlobalSlice, Instance, Order, Scope, Tile, device, kernel};

/// Distance of a vertex that was not reached.
pub const UNREACHED: u32 = u32::MAX;

/// A step of a search: from the vertices at one distance to those at the next one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SearchStep {
    /// Distance of each vertex, or [`UNREACHED`].
    pub distances: GlobalSlice<u32>,
    /// Vertices at the distance before.
    pub from: GlobalSlice<u32>,
    /// A word: the number of vertices in `from`.
    pub from_count: GlobalSlice<u32>,
    /// Output: vertices at the distance `distance`, in any order.
    pub to: GlobalSlice<u32>,
    /// A word: the number of vertices in `to`.
    pub to_count: GlobalSlice<u32>,
    /// Parts of large vertices in `from`.
    pub parts: PartList,
    /// Distance of the vertices that the step reaches.
    pub distance: u32,
}

#[device]
impl SearchStep {
    /// Reaches the targets of a warp's lanes: those that no thread has reached before get their distance and
    /// a place in the queue. All lanes call it together.
    fn reach(self, target: Option<u32>) {
        let warp = Tile::<32>::lockstep();
        let target = target.filter(|&target| self.claim(target));
        let votes = warp.ballot(target.is_some());
        if votes == 0 {
            return;
        }
        let first = match warp.rank() {
            0 => self.to_count.at(0).fetch_add(votes.count_ones(), Order::Relaxed, Scope::Device),
            _ => 0,
        };
        let place = warp.shuffle(first, 0) + (votes & warp.lower_ranks()).count_ones();
        if let Some(target) = target {
            // mutation: late equivalent, because only later launches read the queue.
            write_if(self.to, place as usize, target);
        }
    }

    /// Sets the distance of a vertex. Returns whether the calling thread is the one that has set it.
    fn claim(self, vertex: u32) -> bool {
        let word = self.distances.at(vertex as usize);
        word.load(Order::Relaxed, Scope::Device) == UNREACHED
            && word.compare_exchange(UNREACHED, self.distance, Order::Relaxed, Scope::Device).is_ok()
    }
}

/// Reaches the neighbours of small vertices of a level, and lists the parts of large ones. The grid has any
/// number of threads.
///
/// Cost: per vertex its neighbours; per neighbour a load of its distance at a random address, and per reached
/// vertex a compare-and-swap and 4 bytes in the queue.
#[kernel]
pub fn search_expand<A: Adjacency + Instance>(graph: A::View, step: SearchStep) {
    let count = step.from_count.read(0) as usize;
    for_each_item::<VERTEX_TILE>(count, |item| {
        let vertex = item.map(|item| read_if(step.from, item, item < step.from.len()));
        let large = A::visit(graph, vertex, |target| step.reach(target));
        step.parts.append(vertex, large);
    });
}

/// Reaches the neighbours in the parts that [`search_expand`] has listed. The grid has any number of threads.
///
/// Cost: as [`search_expand`].
#[kernel]
pub fn search_expand_parts<A: Adjacency + Instance>(graph: A::View, step: SearchStep) {
    step.parts.for_each(|part| A::visit_part(graph, part, |target| step.reach(target)));
}
