//! Compressed sparse rows as a graph.
use super::parts::{Adjacency, Large, Part, VERTEX_TILE};
use simt::{GlobalSlice, Instance, Tile, device};

/// Maximum number of targets of a row that a tile serves.
pub const SMALL_ROW: usize = 128;
/// Number of targets in a part of a longer row.
pub const ROW_PART: usize = 256;

/// Graphs as compressed sparse rows, as a type.
#[derive(Clone, Copy, Debug)]
pub struct CsrRows;

impl Instance for CsrRows {
    const NAME: &'static str = "csr";
}

/// Compressed sparse rows as kernels take them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RowsView {
    /// Place in `targets` at which the row of each vertex begins, and the number of all targets.
    pub offsets: GlobalSlice<u64>,
    /// Targets, each below the number of rows.
    pub targets: GlobalSlice<u32>,
}

#[device]
impl RowsView {
    /// Returns the row of a vertex; an empty one for a vertex that does not exist.
    fn row(self, vertex: Option<u32>) -> GlobalSlice<u32> {
        match vertex {
            Some(vertex) if (vertex as usize) + 1 < self.offsets.len() => {
                let (first, end) =
                    (self.offsets.read(vertex as usize), self.offsets.read(vertex as usize + 1));
                self.targets.part(first as usize, end.saturating_sub(first) as usize)
            }
            _ => self.targets.part(0, 0),
        }
    }
}

/// Returns the size of a row that is long.
#[device]
fn size(row: GlobalSlice<u32>) -> Large {
    if row.len() <= SMALL_ROW {
        return Large::default();
    }
    Large { parts: row.len().div_ceil(ROW_PART) as u32, degree: row.len() as u32 }
}

/// Calls `see` for the targets, by a tile. Tiles in lockstep call it together.
#[device]
fn see_all<const T: u32>(targets: GlobalSlice<u32>, mut see: impl FnMut(Option<u32>)) {
    let (tile, mut first) = (Tile::<T>::lockstep(), 0);
    while tile.any_converged(first < targets.len()) {
        let place = first + tile.rank() as usize;
        see((place < targets.len()).then(|| targets.read(place)));
        first += T as usize;
    }
}

// SAFETY: slices check their accesses. The host has checked the targets.
#[device]
unsafe impl Adjacency for CsrRows {
    type View = RowsView;

    fn vertices(graph: RowsView) -> u32 {
        graph.offsets.len().saturating_sub(1) as u32
    }

    fn exists(graph: RowsView, vertex: u32) -> bool {
        vertex < Self::vertices(graph)
    }

    fn visit(graph: RowsView, vertex: Option<u32>, see: impl FnMut(Option<u32>)) -> Large {
        let row = graph.row(vertex);
        let large = size(row);
        see_all::<VERTEX_TILE>(row.part(0, if large.parts > 0 { 0 } else { SMALL_ROW }), see);
        large
    }

    fn size(graph: RowsView, vertex: u32) -> Large {
        size(graph.row(Some(vertex)))
    }

    fn visit_part(graph: RowsView, part: Part, see: impl FnMut(Option<u32>)) {
        let row = graph.row(Some(part.vertex));
        see_all::<32>(row.part(part.index as usize * ROW_PART, ROW_PART), see);
    }
}
