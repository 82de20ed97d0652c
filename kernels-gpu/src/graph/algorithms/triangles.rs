//! Triangle counting in oriented rows.
//!
//! Each edge is directed from the endpoint of lower degree to that of higher degree, by id if they are equal.
//! The directed edges of a vertex are few, also of a hub. They are written to compressed sparse rows, which
//! the host sorts. Then each triangle is a common target of the ends of exactly one directed edge: that
//! between the two lowest of its vertices.
use super::parts::{Adjacency, PartList, VERTEX_TILE, add_of_warp, for_each_item, visit_all};
use simt::{GlobalSlice, Instance, Order, Scope, Tile, device, kernel};

/// Memory of directed edges.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Orientation {
    /// Degree of each vertex.
    pub degrees: GlobalSlice<u32>,
    /// Output: the number of directed edges of each vertex.
    pub counts: GlobalSlice<u32>,
    /// Place at which the row of each vertex begins; empty while they are only counted.
    pub offsets: GlobalSlice<u32>,
    /// Output: targets, row by row.
    pub targets: GlobalSlice<u32>,
    /// Output: the source of each target.
    pub sources: GlobalSlice<u32>,
    /// Parts of large vertices.
    pub parts: PartList,
}

#[device]
impl Orientation {
    /// Returns the target if the edge is directed to it.
    fn directed(self, source: u32, target: Option<u32>) -> Option<u32> {
        target.filter(|&target| {
            let (from, to) = (self.degrees.read(source as usize), self.degrees.read(target as usize));
            from < to || from == to && source < target
        })
    }

    /// Writes a directed edge at a place of its row, unless edges are only counted.
    fn put(self, source: u32, target: Option<u32>, place: u32) {
        if self.offsets.is_empty() {
            return;
        }
        if let Some(target) = target {
            let place = (self.offsets.read(source as usize) + place) as usize;
            // mutation: late equivalent, because only later launches read the rows.
            self.targets.write(place, target);
            // mutation: late equivalent, because only later launches read the rows.
            self.sources.write(place, source);
        }
    }
}

/// Counts the directed edges of small vertices, or writes them; sets the counts of large vertices to 0. The
/// grid has any number of threads.
///
/// Cost: a pass over the vertices; per edge a load of a degree at a random address; 8 bytes written per
/// directed edge.
#[kernel]
pub fn triangle_orient<A: Adjacency + Instance>(graph: A::View, edges: Orientation) {
    let tile = Tile::<VERTEX_TILE>::lockstep();
    visit_all::<A>(graph, None, |vertex| {
        let (source, mut count) = (vertex.unwrap_or(0), 0);
        let large = A::visit(graph, vertex, |target| {
            let target = edges.directed(source, target);
            let votes = tile.ballot(target.is_some());
            edges.put(source, target, count + (votes & tile.lower_ranks()).count_ones());
            count += votes.count_ones();
        });
        if vertex.is_some() && tile.rank() == 0 {
            // mutation: late equivalent, because only later launches read the counts.
            edges.counts.write(source as usize, count);
        }
        large
    });
}

/// Counts the directed edges in the listed parts of large vertices, or writes them. The grid has any number
/// of threads.
///
/// Cost: as [`triangle_orient`]; an atomic per 32 neighbours.
#[kernel]
pub fn triangle_orient_parts<A: Adjacency + Instance>(graph: A::View, edges: Orientation) {
    let warp = Tile::<32>::lockstep();
    edges.parts.for_each(|part| {
        let word = edges.counts.at(part.vertex as usize);
        A::visit_part(graph, part, |target| {
            let target = edges.directed(part.vertex, target);
            let votes = warp.ballot(target.is_some());
            let is_first = votes != 0 && warp.rank() == 0;
            let first =
                if is_first { word.fetch_add(votes.count_ones(), Order::Relaxed, Scope::Device) } else { 0 };
            let place = warp.shuffle(first, 0) + (votes & warp.lower_ranks()).count_ones();
            edges.put(part.vertex, target, place);
        });
    });
}

/// Adds the number of common targets of the ends of each directed edge to `total`. The rows are sorted. The
/// grid has any number of threads.
#[device]
pub fn count_in_rows(
    offsets: GlobalSlice<u32>,
    targets: GlobalSlice<u32>,
    sources: GlobalSlice<u32>,
    total: GlobalSlice<u64>,
) {
    let row = |vertex: u32| {
        let (first, end) = (offsets.read(vertex as usize), offsets.read(vertex as usize + 1));
        targets.part(first as usize, (end - first) as usize)
    };
    let mut found = 0;
    for_each_item::<VERTEX_TILE>(targets.len(), |edge| {
        let Some(edge) = edge else { return };
        let (one, other) = (row(sources.read(edge)), row(targets.read(edge)));
        let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
        let mut place = Tile::<VERTEX_TILE>::lockstep().rank() as usize;
        while place < short.len() {
            found += is_in(long, short.read(place)) as u64;
            place += VERTEX_TILE as usize;
        }
    });
    add_of_warp(total.at(0), found);
}

/// Returns whether a sorted row has a target.
#[device]
fn is_in(row: GlobalSlice<u32>, target: u32) -> bool {
    let place = lower_bound(row.len(), |place| row.read(place) < target);
    place < row.len() && row.read(place) == target
}

/// Returns the number of the first elements of `len` for which `is_below` holds. It holds for no element
/// after one for which it does not.
#[device]
pub(in crate::graph) fn lower_bound(len: usize, mut is_below: impl FnMut(usize) -> bool) -> usize {
    let (mut first, mut rest) = (0, len);
    while rest > 0 {
        let half = rest / 2;
        if is_below(first + half) {
            first += half + 1;
            rest -= half + 1;
        } else {
            rest = half;
        }
    }
    first
}
