//! Entry points of the steps of algorithms that do not read the graph.
use super::components::{compress, join};
use super::page_rank::{self, Ranking};
use super::triangles::count_in_rows;
use crate::keyed::Outcome;
use simt::{GlobalSlice, Thread, kernel};

/// Sets the label of each vertex to the root of its tree. The grid has any number of threads.
///
/// Cost: per vertex its path to the root, and 4 bytes written.
#[kernel]
pub fn components_compress(labels: GlobalSlice<u32>) {
    let mut vertex = Thread::index();
    while vertex < labels.len() {
        compress(labels, vertex);
        vertex += Thread::count();
    }
}

/// Joins the components of the ends of each edge of a batch, except those that were refused; `outcomes` may
/// be empty. Edges with a vertex beyond the labels are left out. The grid has any number of threads.
///
/// Cost: 8 bytes read per edge and the paths of both ends; per joined pair of trees a compare-and-swap.
#[kernel]
pub fn components_join_edges(
    labels: GlobalSlice<u32>,
    sources: GlobalSlice<u32>,
    targets: GlobalSlice<u32>,
    outcomes: GlobalSlice<u8>,
) {
    let mut edge = Thread::index();
    while edge < sources.len() {
        let (source, target) = (sources.read(edge), targets.read(edge));
        let is_refused = edge < outcomes.len() && outcomes.read(edge) == Outcome::Refused as u8;
        if !is_refused && (source.max(target) as usize) < labels.len() {
            join(labels, source, target);
        }
        edge += Thread::count();
    }
}

/// Begins a ranking: see [`page_rank::rank_begin`]. The grid has any number of threads.
///
/// Cost: 8 bytes read and 16 written per vertex.
#[kernel]
pub fn rank_begin(ranking: Ranking, previous: GlobalSlice<u32>) {
    page_rank::rank_begin(ranking, previous);
}

/// Ends an iteration: see [`page_rank::rank_update`]. The grid has any number of threads.
///
/// Cost: 16 bytes read and 16 written per vertex.
#[kernel]
pub fn rank_update(ranking: Ranking) {
    page_rank::rank_update(ranking);
}

/// Counts triangles in oriented rows: see [`count_in_rows`]. The grid has any number of threads.
///
/// Cost: per directed edge the shorter of the rows of its ends, and for each of its targets a binary search
/// in the longer one.
#[kernel]
pub fn triangle_count(
    offsets: GlobalSlice<u32>,
    targets: GlobalSlice<u32>,
    sources: GlobalSlice<u32>,
    total: GlobalSlice<u64>,
) {
    count_in_rows(offsets, targets, sources, total);
}
