//! What B-trees, B-trees with snapshots, and skip lists share: structures of linked nodes whose slabs come
//! from a pool, ordered by key.
mod analysis;
mod append;
pub mod builder;
pub mod bulk_build;
pub mod directory;
pub mod growth;
pub mod history;
pub mod inspect;
pub mod kernels;
pub mod large_batches;
pub mod memory;
pub mod queries;
mod rebuild_batch;
pub mod sorter;
pub mod tree;
