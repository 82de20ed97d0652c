//! PageRank, by passes over all edges.
//!
//! Ranks are floats of 32 bits. The sums over neighbours are in fixed point, in words of 64 bits with
//! [`ONE`] for 1: such additions commute, so the result depends neither on the schedule nor on the order in
//! which a graph stores its edges, and an atomic addition needs no loop.
use super::degrees::NO_VERTEX;
use super::parts::{Adjacency, PartList, VERTEX_TILE, add_of_warp, visit_all, warp_sum};
use simt::{GlobalSlice, Instance, Order, Scope, Thread, Tile, device, kernel};

/// The number 1 in fixed point.
pub const ONE: u64 = 1 << 60;

/// Memory and parameters of an iteration.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ranking {
    /// Bits of the rank of each vertex.
    pub ranks: GlobalSlice<u32>,
    /// Bits of the rank of each vertex divided by its degree.
    pub shares: GlobalSlice<u32>,
    /// Degree of each vertex, or [`NO_VERTEX`].
    pub degrees: GlobalSlice<u32>,
    /// Sum of the shares that each vertex receives, in fixed point. 0 before an iteration.
    pub sums: GlobalSlice<u64>,
    /// Two words for each iteration, in fixed point, 0 before it: the rank of vertices with edges, and the
    /// sum of the changes of all ranks.
    pub totals: GlobalSlice<u64>,
    /// Parts of large vertices.
    pub parts: PartList,
    /// Share of a rank that comes from neighbours.
    pub damping: f32,
    /// Number of vertices that exist.
    pub existing: u32,
    /// Sum of changes, in fixed point, up to which no further iteration follows.
    pub tolerance: u64,
    /// Number of iterations before this one.
    pub iteration: u32,
}

#[device]
fn to_fixed(number: f32) -> u64 {
    (number * ONE as f32) as u64
}

#[device]
fn from_fixed(number: u64) -> f32 {
    number as f32 * (1.0 / ONE as f32)
}

#[device]
impl Ranking {
    /// Returns whether the ranks have converged before this iteration. No thread of the launch writes the
    /// word.
    fn is_done(self) -> bool {
        self.iteration > 0 && self.totals.read(2 * self.iteration as usize - 1) <= self.tolerance
    }

    /// Returns the share of a vertex in fixed point.
    fn share(self, vertex: Option<u32>) -> u64 {
        match vertex {
            Some(vertex) => to_fixed(f32::from_bits(self.shares.read(vertex as usize))),
            None => 0,
        }
    }

    fn receive(self, vertex: u32, share: u64) {
        if share != 0 {
            self.sums.at(vertex as usize).fetch_add(share, Order::Relaxed, Scope::Device);
        }
    }

    /// Writes the rank of a vertex with this degree, and its share. Returns what it adds to the rank of
    /// vertices with edges.
    fn set(self, vertex: usize, degree: u32, rank: f32) -> u64 {
        // mutation: late equivalent, because only later launches read the word.
        self.ranks.write(vertex, rank.to_bits());
        // mutation: late equivalent, because only later launches read the word.
        self.sums.write(vertex, 0);
        let share = if degree == 0 { 0.0 } else { rank / degree as f32 };
        // mutation: late equivalent, because only later launches read the word.
        self.shares.write(vertex, share.to_bits());
        if degree == 0 { 0 } else { to_fixed(rank) }
    }

    /// Calls `rank_of` for each vertex of the calling thread that exists, with its index, and sets its rank
    /// to the result. Vertices that do not exist get 0. Adds the ranks of vertices with edges to the total of
    /// the iteration `iteration`. All threads call it.
    fn set_all(self, iteration: u32, mut rank_of: impl FnMut(usize) -> f32) {
        let (mut vertex, mut with_edges) = (Thread::index(), 0);
        while vertex < self.degrees.len() {
            let degree = self.degrees.read(vertex);
            if degree == NO_VERTEX {
                self.set(vertex, degree, 0.0);
            } else {
                with_edges += self.set(vertex, degree, rank_of(vertex));
            }
            vertex += Thread::count();
        }
        add_of_warp(self.totals.at(2 * iteration as usize), with_edges);
    }
}

/// Sets the first ranks: those of `previous`, and 0 for further vertices or, if it is empty, the average. The
/// sums are set to 0. The grid has any number of threads.
#[device]
pub fn rank_begin(ranking: Ranking, previous: GlobalSlice<u32>) {
    let other = if previous.is_empty() { 1.0 / ranking.existing as f32 } else { 0.0 };
    ranking.set_all(
        0,
        |vertex| {
            if vertex < previous.len() { f32::from_bits(previous.read(vertex)) } else { other }
        },
    );
}

/// Computes the new ranks from the sums, and sets the sums to 0. The grid has any number of threads.
#[device]
pub fn rank_update(ranking: Ranking) {
    if ranking.is_done() {
        return;
    }
    let Ranking { damping, iteration, .. } = ranking;
    let with_edges = from_fixed(ranking.totals.read(2 * iteration as usize));
    // What the sums lack to 1, also the rank of vertices without edges, is spread over all vertices.
    let base = (1.0 - damping * with_edges) / ranking.existing as f32;
    let mut changes = 0;
    ranking.set_all(iteration + 1, |vertex| {
        let rank = base + damping * from_fixed(ranking.sums.read(vertex));
        let change = rank - f32::from_bits(ranking.ranks.read(vertex));
        changes += to_fixed(if change < 0.0 { -change } else { change });
        rank
    });
    add_of_warp(ranking.totals.at(2 * iteration as usize + 1), changes);
}

/// Adds up the shares of the neighbours of small vertices, in a graph whose edges are stored at both ends,
/// and lists no parts: those of large vertices are listed before. The grid has any number of threads.
///
/// Cost: a pass over the vertices; per edge a load of a share at a random address; per vertex 8 bytes
/// written.
#[kernel]
pub fn rank_gather<A: Adjacency + Instance>(graph: A::View, ranking: Ranking) {
    if ranking.is_done() {
        return;
    }
    let tile = Tile::<VERTEX_TILE>::lockstep();
    visit_all::<A>(graph, None, |vertex| {
        let mut sum = 0;
        let large = A::visit(graph, vertex, |target| sum += ranking.share(target));
        let sum = tile_sum(tile, sum);
        if let Some(vertex) = vertex.filter(|_| tile.rank() == 0 && large.parts == 0) {
            // mutation: late equivalent, because only later launches read the word.
            ranking.sums.write(vertex as usize, sum);
        }
        large
    });
}

/// Returns the sum over the tile. Tiles in lockstep call it together.
#[device]
fn tile_sum(tile: Tile<VERTEX_TILE>, value: u64) -> u64 {
    let (mut sum, mut flip) = (value, VERTEX_TILE / 2);
    while flip > 0 {
        sum += tile.shuffle_xor(sum, flip);
        flip /= 2;
    }
    sum
}

/// Adds up the shares of the neighbours in the listed parts of large vertices. The grid has any number of
/// threads.
///
/// Cost: as [`rank_gather`]; an atomic per part.
#[kernel]
pub fn rank_gather_parts<A: Adjacency + Instance>(graph: A::View, ranking: Ranking) {
    if ranking.is_done() {
        return;
    }
    ranking.parts.for_each(|part| {
        let mut sum = 0;
        A::visit_part(graph, part, |target| sum += ranking.share(target));
        let sum = warp_sum(sum);
        if Thread::lane() == 0 {
            ranking.receive(part.vertex, sum);
        }
    });
}

/// Adds the share of each small vertex to the sums of its targets. The grid has any number of threads.
///
/// Cost: a pass over the vertices; per edge an atomic addition at a random address.
#[kernel]
pub fn rank_scatter<A: Adjacency + Instance>(graph: A::View, ranking: Ranking) {
    if ranking.is_done() {
        return;
    }
    visit_all::<A>(graph, None, |vertex| {
        let share = ranking.share(vertex);
        A::visit(graph, vertex, |target| {
            if let Some(target) = target {
                ranking.receive(target, share);
            }
        })
    });
}

/// Adds the share of large vertices to the sums of their targets in the listed parts. The grid has any number
/// of threads.
///
/// Cost: as [`rank_scatter`].
#[kernel]
pub fn rank_scatter_parts<A: Adjacency + Instance>(graph: A::View, ranking: Ranking) {
    if ranking.is_done() {
        return;
    }
    ranking.parts.for_each(|part| {
        let share = ranking.share(Some(part.vertex));
        A::visit_part(graph, part, |target| {
            if let Some(target) = target {
                ranking.receive(target, share);
            }
        });
    });
}
