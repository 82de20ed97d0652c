//! Algorithms on graphs: breadth-first search, connected components, PageRank and triangle counting. See
//! `docs/structures/dynamic-graph.md`, section "Algorithms".
//!
//! Each algorithm is written once, over [`Adjacency`]: the neighbours of a vertex in a graph, or in
//! compressed sparse rows. A kernel that passes over vertices serves small ones by tiles of [`VERTEX_TILE`]
//! lanes, and lists the *parts* of large ones. A second kernel serves the listed parts, a warp each. So a
//! vertex with a million neighbours is served by thousands of warps.
//!
//! ```text
//! vertices   | 0 | 1 | 2 | 3 | ...      a tile each: neighbours of small vertices
//!                  │
//!                  ▼ large
//! parts      | (1, 0) | (1, 1) | ...    a warp each: eight buckets of a table, or 256 targets of a row
//! ```
//!
//! # Memory orders
//!
//! Nothing writes the graph meanwhile. Words that several threads of a launch write (distances, labels, sums,
//! counts) are accessed by relaxed atomics: each word has its whole state. All others are written in an
//! earlier launch than they are read, and accessed by weak loads and stores.
//!
//! # Cost
//!
//! A pass over vertices reads a record and the slabs behind it, or two offsets and a row. A listed part costs
//! 8 bytes written and read. Each kernel states what it adds.
mod components;
mod degrees;
#[cfg(feature = "dynamic-graph")]
pub mod instances;
#[cfg(feature = "dynamic-graph")]
pub mod kernels;
mod of_graph;
mod page_rank;
mod parts;
mod rows;
mod search;
mod triangles;

pub use components::{
    ComponentsJoin, ComponentsJoinParts, components_join, components_join_parts, compress, join,
};
pub use degrees::{DegreesCount, NO_VERTEX, degrees_count};
pub(super) use of_graph::{read, see_all, target_in};
pub use page_rank::{
    ONE, RankGather, RankGatherParts, RankScatter, RankScatterParts, Ranking, rank_begin, rank_gather,
    rank_gather_parts, rank_scatter, rank_scatter_parts, rank_update,
};
pub use parts::{Adjacency, Large, Part, PartList, VERTEX_TILE};
pub(super) use parts::{PART_BUCKETS, add_of_warp};
pub use rows::{CsrRows, ROW_PART, RowsView, SMALL_ROW};
pub use search::{
    SearchExpand, SearchExpandParts, SearchStep, UNREACHED, search_expand, search_expand_parts,
};
#[cfg(feature = "dynamic-graph")]
pub(super) use triangles::lower_bound;
pub use triangles::{
    Orientation, TriangleOrient, TriangleOrientParts, count_in_rows, triangle_orient, triangle_orient_parts,
};
