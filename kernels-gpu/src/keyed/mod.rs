//! Code that all structures with lookup by key share, however they locate a key: the layout of pairs in slots
//! and of slots in buckets, the operations on a bucket, sessions, and the kernel entry points.
//!
//! Each family (`probing`, `slab`) adds its [`Kind`]s: a view, and a search that leads from a key to the
//! bucket that contains it or may receive it.
mod bucket;
mod bucket_probe;
mod counters;
mod hash;
pub mod kernels;
mod kind;
mod operation;
mod session;
mod slot;

pub use bucket::{Bucket, Lane, SlotMatch};
pub use bucket_probe::{BucketProbe, ProbeResult, Request};
pub use counters::{COUNTER_SHARDS, CounterDelta, Counters, SHARD_WORDS};
pub use hash::{Hashed, hash};
pub(crate) use kind::kind_name;
pub use kind::{EntryRef, Kind, TileKind, View};
pub use operation::{
    Append, Change, ContainsKey, Get, Insert, InsertNew, Merge, MultiOpCode, OpCode, Operation, Outcome,
    Remove,
};
pub use session::{Cooperation, PerLane, Session};
pub use slot::{
    Appearance, AtOnce, Bare, Chunk, InSteps, Packed, Published, Reserved, Scalar, Slot, SplitWord, Wide,
};
