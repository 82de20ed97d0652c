//! Graphs whose vertices have a hash table of neighbours each. The device side of `DynamicGraph`. See
//! `docs/structures/dynamic-graph.md`.
//!
//! ```text
//! vertex 17   record 17 ──► slab                              a small vertex
//! vertex 18   record 18 ──► | bucket 0 | bucket 1 | ... |     a vertex with a table, in the arena
//!                                └──► slab
//! ```
//!
//! An operation on an edge reads the record of its source (`record.rs`). If the slots there do not decide, a
//! tile of four lanes searches a chain of slabs, by the loop of [slab lists](crate::slab::list). A batch of
//! insertions has two passes: the first one defers the insertions for which a vertex must grow; then the
//! listed vertices grow, at once and by all warps ([`kernels::graph_plan`], [`kernels::graph_move`],
//! [`kernels::graph_install`]); the second pass executes the deferred insertions.
//!
//! # Memory orders
//!
//! All accesses to records and slabs are relaxed. A slot is one word, which has its whole state, and no
//! operation needs two words to agree. The kernels of a batch are launches of one stream, so what one writes
//! is visible to the next one. Slots that are [published](crate::keyed::Published) in steps release and
//! acquire their data.
pub mod algorithms;
mod batch;
mod bucket_walk;
mod chain;
mod common;
mod found;
mod groups;
mod grow;
#[cfg(feature = "dynamic-graph")]
pub mod index;
mod inspect;
#[cfg(feature = "dynamic-graph")]
mod instances;
pub mod kernels;
mod key_set;
mod kind;
mod link;
#[cfg(feature = "dynamic-graph")]
pub mod merge;
mod moves;
mod neighbors;
mod record;
mod row_memory;
mod rows;
mod search;
mod small;
mod table;
mod table_walk;
mod together;
mod view;
mod whole;

pub use batch::{
    BATCH_WORDS, Changes, EXACT, EXACT_LOAD, GROWTH_LOAD, GROWTH_WORDS, Growth, GrowthWord, Lookups,
    PLAN_WORDS,
};
pub use common::{BatchEdges, ExecutedBatch, TRIANGLE};
pub use groups::Groups;
pub use inspect::{Findings, REPORT_WORDS};
#[cfg(feature = "dynamic-graph")]
pub use instances::*;
pub use kind::{Config, Edges};
pub use link::Link;
pub use record::RECORD_SLOTS;
pub use row_memory::ROW_THREADS;
pub use rows::{RowCopy, row_groups};
pub use search::{Executed, Fate, Half};
pub use table::{
    ARENA_COUNTS, ARENA_FIRSTS, ARENA_HEAD, Arena, CLASSES, MOST_ARENA, SLAB_BYTES, buckets_of, class_for,
    growth_class, places_of, slabs_for,
};
pub use together::Repeats;
pub use view::{Flags, GraphParts, GraphView, SLAB_TILE};
pub use whole::COUNTED_EACH;
