//! B-link trees: ordered maps in nodes of 16 words. The device side of `BTree`. See
//! `docs/structures/btree.md`.
pub(crate) mod access;
pub(crate) mod bulk;
mod coupled;
pub(crate) mod directory;
mod history;
pub(crate) mod inspect;
mod instances;
pub mod kernels;
pub(crate) mod node;
pub(crate) mod seek;
mod sink;
pub(crate) mod split;
mod stage;
mod sweep;
pub(crate) mod tree;
pub(crate) mod walk;

pub use access::{Access, Concurrent, Coupled, Grouped, InPlace, OutOfPlace, Phased};
pub use bulk::{Input, Level, nodes};
pub use directory::{
    COUNTERS, Directory, HEAD, THREADS as DIRECTORY_THREADS, directory_entries, directory_words,
};
pub use history::{
    FROM_PIN, FixedClock, LATEST, MovingClock, PIN, RawVersions as HistoryParts, Time, Unversioned, Version,
    Versioned, Versions,
};
pub use inspect::Findings;
pub use instances::*;
pub use node::{Meta, Node};
pub use seek::{Answer, Collect, CollectWide, Count, Highest, Lowest, Seek, Span, Trace};
pub use sink::Sink;
pub use tree::{
    Config, EMPTY_TREE_NODES, FIRST_LEAF, RESERVED_LEAF, ROOT, ReadOnly, ReadOnlyVisitor, Tree, TreeView,
    Visitor,
};
