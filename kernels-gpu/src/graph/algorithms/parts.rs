//! Distribution of vertices over tiles, and of large vertices over warps.
use crate::keyed::kernels::write_if;
use simt::{Global, GlobalSlice, Order, Scope, Thread, Tile, device};

/// Number of lanes of the tiles that serve small vertices.
pub const VERTEX_TILE: u32 = 8;

/// Number of buckets in a part of a table.
pub(in crate::graph) const PART_BUCKETS: u32 = 8;

/// A part of the neighbours of a large vertex, which a warp serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The vertex.
    pub vertex: u32,
    /// Index of the part.
    pub index: u32,
}

/// Size of a large vertex; zeros for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Large {
    /// Number of parts.
    pub parts: u32,
    /// Number of neighbours.
    pub degree: u32,
}

/// A list of parts, which a kernel appends to and the next one reads.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PartList {
    /// A word per part: vertex in the high half, index in the low half. The host allocates as many as the
    /// graph can have.
    pub words: GlobalSlice<u64>,
    /// A word: the number of parts.
    pub count: GlobalSlice<u32>,
}

/// The neighbours of the vertices of a graph, as algorithms need them. Implemented by the kinds of graphs and
/// by [compressed sparse rows](super::CsrRows).
///
/// # Safety
/// - All functions access only the memory from which the view was made. Targets that they show are below
///   [`Self::vertices`].
#[device]
pub unsafe trait Adjacency: Copy + Send + Sync + 'static {
    /// View of a graph, which kernels take.
    type View: Copy + Send + Sync + 'static;

    /// Returns the number of vertices.
    fn vertices(graph: Self::View) -> u32;

    /// Returns whether a vertex exists.
    fn exists(graph: Self::View, vertex: u32) -> bool;

    /// Calls `see` for the neighbours of a small vertex, by a tile of [`VERTEX_TILE`] lanes. Returns the size
    /// of a large vertex, of which it shows none. The lanes of the tile pass the same vertex, or none; they
    /// call `see` together, with `None` where a lane has no neighbour. Tiles in lockstep call it together.
    fn visit(graph: Self::View, vertex: Option<u32>, see: impl FnMut(Option<u32>)) -> Large;

    /// Returns the size of a large vertex, by the calling lane alone.
    fn size(graph: Self::View, vertex: u32) -> Large;

    /// Calls `see` for the neighbours in a part of a vertex, by a warp. The only part of a small vertex has
    /// all its neighbours. Otherwise as [`Self::visit`].
    fn visit_part(graph: Self::View, part: Part, see: impl FnMut(Option<u32>));
}

#[device]
impl PartList {
    /// Appends the parts of a large vertex, by a tile. All tiles of the warp call it together; `large` and
    /// `vertex` are the same in all lanes of a tile.
    pub(in crate::graph) fn append(self, vertex: Option<u32>, large: Large) {
        let tile = Tile::<VERTEX_TILE>::lockstep();
        if !tile.any_converged(large.parts > 0) {
            return;
        }
        let is_first = tile.rank() == 0 && large.parts > 0;
        let place =
            if is_first { self.count.at(0).fetch_add(large.parts, Order::Relaxed, Scope::Device) } else { 0 };
        let place = tile.shuffle(place, 0) as usize;
        let mut index = tile.rank();
        while index < large.parts {
            let word = (vertex.unwrap_or(0) as u64) << 32 | index as u64;
            // mutation: late equivalent, because only later launches read the list.
            write_if(self.words, place + index as usize, word);
            index += VERTEX_TILE;
        }
    }

    /// Returns the number of parts that have been appended.
    pub(in crate::graph) fn len(self) -> usize {
        (self.count.read(0) as usize).min(self.words.len())
    }

    /// Returns a part.
    pub(in crate::graph) fn at(self, place: usize) -> Part {
        let word = self.words.read(place);
        Part { vertex: (word >> 32) as u32, index: word as u32 }
    }

    /// Calls `serve` for each part that the calling warp has.
    pub(in crate::graph) fn for_each(self, mut serve: impl FnMut(Part)) {
        let (count, mut place) = (self.len(), Thread::index() / 32);
        while place < count {
            serve(self.at(place));
            place += Thread::count() / 32;
        }
    }
}

/// Calls `serve` for each of `count` items that the calling tile has. All lanes of the warp call it together,
/// with `None` where a tile has none.
#[device]
pub(super) fn for_each_item<const T: u32>(count: usize, mut serve: impl FnMut(Option<usize>)) {
    let tiles = (32 / T) as usize;
    let (mut item, mut first) = (Thread::index() / T as usize, Thread::index() / 32 * tiles);
    while first < count {
        serve((item < count).then_some(item));
        item += Thread::count() / T as usize;
        first += Thread::count() / T as usize;
    }
}

/// Calls `serve` for each vertex that the calling tile has, and lists the parts of those that it finds to be
/// large, if there is a list. `serve` calls [`Adjacency::visit`] and returns its result.
#[device]
pub(super) fn visit_all<A: Adjacency>(
    graph: A::View,
    parts: Option<PartList>,
    mut serve: impl FnMut(Option<u32>) -> Large,
) {
    for_each_item::<VERTEX_TILE>(A::vertices(graph) as usize, |item| {
        let vertex = item.map(|item| item as u32);
        let large = serve(vertex);
        if let Some(parts) = parts {
            parts.append(vertex, large);
        }
    });
}

/// Returns the sum over the warp. All lanes call it together.
#[device]
pub(super) fn warp_sum(value: u64) -> u64 {
    let (warp, mut sum, mut flip) = (Tile::<32>::lockstep(), value, 16);
    while flip > 0 {
        sum = sum.wrapping_add(warp.shuffle_xor(sum, flip));
        flip /= 2;
    }
    sum
}

/// Adds the values of a warp's lanes to a word by one addition. All lanes call it together.
#[device]
pub(in crate::graph) fn add_of_warp(word: Global<u64>, value: u64) {
    let sum = warp_sum(value);
    if sum != 0 && Thread::lane() == 0 {
        word.fetch_add(sum, Order::Relaxed, Scope::Device);
    }
}
