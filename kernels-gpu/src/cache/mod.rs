//! A table of bounded capacity that may stay full: the device side of `phalanx::CacheTable`. A key that finds
//! no free slot evicts the key with the lowest score of its buckets. The repository's page
//! `docs/structures/cache-table.md` describes layout, proof and costs.
//!
//! ```text
//! bucket of 128 slots
//! digests   128 bytes   a byte per slot: EMPTY, BUSY, ERASED, or eight bits of the key's hash
//! keys      128 keys
//! scores    128 scores
//! classes   128 bytes   a byte per slot: the class of its score, if the table has a summary of the scores
//! versions  128 words   a version per slot, if lookups run beside changes
//!                       keys, scores and versions are arrays, or lie in turns: see [`CacheView`]
//! rows      by position: the row of slot s of bucket b is the (128 b + s)-th
//! ```
//!
//! # Cost
//!
//! See [`kernels`] and [`scan`]. Constructors and accessors are arithmetic in registers.
mod action;
mod change;
pub mod classify;
mod digest;
mod evict;
mod filter;
mod hashed;
#[cfg(feature = "cache-table")]
mod instances;
pub mod kernels;
mod kind;
mod layout;
mod lookups;
pub mod many;
pub mod merge;
mod mode;
mod policy;
mod promote;
mod rows;
pub mod scan;
mod search;
mod sections;
pub mod summary;
mod versions;
mod view;

pub use action::Evicted;
pub use change::Changes;
pub use digest::Digest;
pub use filter::{Filter, Select};
pub use hashed::Hashed;
#[cfg(feature = "cache-table")]
pub use instances::*;
pub use kind::Cache;
pub use layout::{DIGEST_WORDS, MOST_BUCKETS, NOWHERE, Record, SLOTS, block};
pub use lookups::Lookups;
pub use policy::{BuiltIn, EXACTLY, Rule, ScorePolicy, Time};
pub use rows::{Chunk, Element, RowSlice};
pub use scan::Span;
pub use sections::{MOST_TABLES, Sections};
pub use summary::{CLASSES, Summary};
pub use view::{CacheView, Config, Rows, VIEW_WORDS};
