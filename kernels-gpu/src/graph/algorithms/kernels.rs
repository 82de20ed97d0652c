//! Entry points of the steps of algorithms that do not read the graph.
use super::components::{compress, join};
use super::page_rank::{self, Ranking};
use super::triangles::count_in_rows;
use crate::graph::edge_set::{EdgeSet, NO_EDGE, edge_key};
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

/// Writes a key for each distinct edge of a batch that has the outcome with the code `wanted` and two ends:
/// the smaller one in the high half, the larger one in the low half. The others get the key of all ones.
/// `set` has at least as many words as there are edges, a power of two, all ones before; afterwards it is the
/// hash set of the keys. The grid has any number of threads.
///
/// Cost: 9 bytes read and 8 written per edge, and a compare-and-swap per probe of the set.
#[kernel]
pub fn edge_keys(
    sources: GlobalSlice<u32>,
    targets: GlobalSlice<u32>,
    outcomes: GlobalSlice<u8>,
    wanted: u32,
    keys: GlobalSlice<u64>,
    set: GlobalSlice<u64>,
) {
    let mut edge = Thread::index();
    while edge < keys.len() {
        let (source, target) = (sources.read(edge), targets.read(edge));
        let is_wanted = outcomes.read(edge) as u32 == wanted && source != target;
        let key = edge_key(source, target);
        keys.write(edge, if is_wanted && EdgeSet(set).insert(key) { key } else { NO_EDGE });
        edge += Thread::count();
    }
}
