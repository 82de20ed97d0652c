//! Code that all structures with lookup by key share, however they locate a key: the layout of pairs in slots
//! and of slots in buckets, the operations on a bucket, sessions, and the kernel entry points.
//!
//! Each family (`probing`, `slab`) adds its [`Kind`]s: a view, and a search that leads from a key to the
//! bucket that contains it or may receive it.
//!
//! # Cost
//!
//! | function | cost |
//! |---|---|
//! | methods of [`Slot`] and [`Scalar`] on words | arithmetic in registers |
//! | [`Slot::claim`] | one compare-and-swap; pairs that are published in steps, two stores more, the second a release |
//! | [`Slot::erase`] | one compare-and-swap |
//! | [`Slot::acquire_pair`], [`Slot::read_value`] | nothing where a pair appears by one swap; otherwise an acquiring load, and a load of the value |
//! | [`Chunk::load_if`] | one load of 16 bytes, or two of 8 |
//! | operations of a [`Session`] | those of the structure: see its page; a barrier of the cooperating lanes before, and one more after a write |
//! | [`Session::finish`] | two reductions per warp and two atomics of one lane; a session that is dropped instead, two atomics per lane |
//! | [`Counters::record`] | two reductions per warp, and two atomics of one lane if any lane counts |
//! | [`Counters::record_alone`], [`Counters::record_long`] | two atomics, one atomic |
//! | [`EntryRef::read`] | one load; [`EntryRef::erase`] a load and a compare-and-swap |
//! | [`hash()`] | one mixing: two or three multiplications |
//! | [`Kind::enter`], [`Kind::leave`] | nothing, or those of [`crate::reclaim`] |
//! | [`Kind::scan`] | reads the thread's share of the structure once |
//!
//! The methods of [`Operation`], [`OpCode`], [`Merge`] and [`Outcome`] are constants or a comparison.
mod bucket;
mod bucket_probe;
mod counters;
mod hash;
pub mod kernels;
mod kind;
mod operation;
mod session;
mod slot;

pub(crate) use bucket::{Bucket, Lane};
pub(crate) use bucket_probe::{BucketProbe, Request};
pub use counters::{COUNTER_SHARDS, CounterDelta, Counters, SHARD_WORDS};
pub use hash::{Hashed, hash};
pub use kind::{EntryRef, Kind, TileKind, View};
pub use operation::{
    Append, Change, ContainsKey, Get, Insert, InsertNew, Merge, MultiOpCode, OpCode, Operation, Outcome,
    Remove,
};
pub use session::{Cooperation, PerLane, Session};
pub use slot::{
    Appearance, AtOnce, Bare, Chunk, InSteps, Packed, Published, Reserved, Scalar, Slot, SplitWord, Wide,
};
