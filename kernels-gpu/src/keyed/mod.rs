//! What all structures that find things by key share, however they find the place: how a pair lies in a slot
//! and slots in a bucket, what an operation does with the bucket before it, sessions, and the kernels' entry
//! points.
//!
//! A family (`probing`, `slab`) brings its [`Kind`]s: a view, and a way from a key to the bucket where it is
//! or may be placed.
mod bucket;
mod hash;
pub mod kernels;
mod kind;
mod look;
mod operation;
mod session;
mod slot;
mod tallies;

pub use bucket::{Bucket, Lane, Spot};
pub use hash::{Hashed, hash};
pub use kind::{Kind, Place, TileKind, View};
pub use look::{Look, Question, Verdict};
pub use operation::{
    Append, Change, Coded, CodedOfMany, ContainsKey, Get, Insert, InsertNew, Merge, Operation, Outcome,
    Remove,
};
pub use session::{Lanes, Session, Team};
pub use slot::{Appearance, AtOnce, Bare, Chunk, Halves, InSteps, Packed, Published, Scalar, Slot, Wide};
pub use tallies::{STRIPE_WORDS, STRIPES, Tallies, Tally};
