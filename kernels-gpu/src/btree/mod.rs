//! B-link trees: ordered maps in nodes of 16 words. The device side of `BTree`. See `docs/structures/btree.md`.
mod access;
mod bulk;
mod coupled;
mod directory;
mod inspect;
mod instances;
pub mod kernels;
mod node;
mod seek;
mod split;
mod tree;
mod walk;

pub use access::{Access, Concurrent, Coupled, Phased};
pub use bulk::{Input, Level, nodes};
pub use directory::{Directory, THREADS as DIRECTORY_THREADS, directory_entries, directory_words};
pub use inspect::Findings;
pub use instances::*;
pub use node::{Meta, Node};
pub use seek::{Answer, Collect, Count, Highest, Lowest, Seek, Sink, Span, Trace};
pub use tree::{ANNEX, Config, FIRST, LEAST, ROOT, Tree, TreeView, Visitor};
