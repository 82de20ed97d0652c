//! The common part of B-trees and skip lists: ordered maps in linked nodes of 16 or 32 words. A B-link tree
//! (`btree`) and a skip list (`skiplist`) are levels of such nodes, each linked to the next of its level;
//! they differ in how a split becomes known to the level above.
//!
//! | file | contents |
//! |---|---|
//! | `node`, `meta` | the layout of a node, and the words that a tile reads of one |
//! | `nodes`, `fixed_nodes` | access to the nodes of a structure; the root and other nodes that always exist |
//! | `search` | the step of a search from one node to the next |
//! | `latch`, `backoff` | latches of nodes, and pauses after failed attempts |
//! | `leaf` | lookups and changes in a leaf |
//! | `directory`, `rebuild_directory` | an index of one level, where searches begin |
//! | `range` | ranges, successors, predecessors and counts; `sink` and `staging` write their pairs |
//! | `sorted_pairs`, `split_plan` | the pairs of a node in key order, and which of them a split moves |
//! | `bulk_build` | construction from sorted pairs |
//! | `scan`, `inspect` | scans of all leaves, and checks of the invariants |
//! | `access` | policies: what may run concurrently, and the memory orders that it needs |
//! | `types` | slots, pool and policy as one parameter |
//! | `versioning` | what leaves need of versions; `mvbtree` has the versions themselves |
//! | `view`, `kernels` | the view that kernels take, and the entry points |
pub(crate) mod access;
pub(crate) mod backoff;
pub(crate) mod bulk_build;
pub(crate) mod directory;
pub(crate) mod fixed_nodes;
pub(crate) mod inspect;
pub mod kernels;
pub(crate) mod latch;
pub(crate) mod leaf;
pub(crate) mod meta;
pub(crate) mod node;
pub(crate) mod nodes;
pub(crate) mod range;
mod rebuild_directory;
mod scan;
pub(crate) mod search;
pub(crate) mod sink;
mod sorted_pairs;
pub(crate) mod split_plan;
mod staging;
pub(crate) mod types;
pub(crate) mod versioning;
pub(crate) mod view;

pub use access::{Access, Concurrent, Coupled, Grouped, Phased};
pub use bulk_build::{Input, Level, nodes};
pub use directory::{
    COUNTERS, Directory, HEAD, THREADS as DIRECTORY_THREADS, directory_entries, directory_words,
};
pub use fixed_nodes::{EMPTY_TREE_NODES, FIRST_LEAF, RESERVED_LEAF, ROOT};
pub use inspect::Findings;
pub use meta::Meta;
pub use node::Node;
pub use range::{Answer, Collect, CollectWide, Count, Highest, Lowest, Seek, Span, Trace};
pub use sink::Sink;
pub use types::Types;
pub use versioning::{FROM_PIN, LATEST, PIN, RawVersions, Time, Unversioned, Versions};
pub use view::{Config, TreeView};
