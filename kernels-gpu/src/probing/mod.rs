//! Open addressing over buckets that a tile reads at once: the device side of `HashMap`. (page to come)
mod bucket;
mod instances;
pub mod kernels;
mod map;
mod operation;
mod probe;
mod session;
mod slot;

pub use instances::*;
pub use map::{ANNEX, Config, MapView, STRIPE_WORDS, STRIPES, Table, Tally, Visitor};
pub use operation::{Change, Coded, ContainsKey, Get, Insert, InsertNew, Merge, Operation, Outcome, Remove};
pub use probe::{Cursor, DoubleHash, Hashed, Hinted, Probe, TwoChoice};
pub use session::{Lanes, Session, Team};
pub use slot::{Appearance, AtOnce, Halves, InSteps, Packed, Published, Scalar, Slot, Wide};
