//! Checks whether the outcomes of concurrent operations are linearizable.
//!
//! Record a history: the operation, outcome, call time and return time of each event. The history is
//! linearizable (Herlihy and Wing, 1990) if some total order of the operations yields the same outcomes on a
//! sequential object, with each operation taking effect between its call and its return. [`check`] searches
//! for such an order. If there is none, it returns the smallest window of operations found that no order
//! explains.
//!
//! ```
//! use checker::{Event, MapModel, MapOp, MapOutcome, check};
//!
//! let event = |op, outcome, start, end| Event { op, outcome, start, end, thread: 0 };
//! let history = [
//!     event(MapOp::Insert(7u32, 1u32), MapOutcome::Inserted, 0, 5),
//!     event(MapOp::Get(7), MapOutcome::Absent, 3, 9),   // overlaps the insert: may come first
//!     event(MapOp::Get(7), MapOutcome::Absent, 11, 12), // does not: a stale read
//! ];
//! assert!(check(&MapModel::default(), &history[..2]).is_ok());
//! println!("{}", check(&MapModel::default(), &history).unwrap_err());
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`history`] | events |
//! | [`model`] | sequential objects: the trait [`Model`] |
//! | [`map`] | the model of a map, and its operations |
//! | [`snapshot`] | the model of an ordered map as a whole: ranges, and snapshots that are queried later |
//! | [`linear`] | the check of each part, in parallel, in bounded memory |
//! | [`batch`] | batches against `std::collections::HashMap`, duplicates within a batch included |
//! | [`oracle`] | the same check by trying all orders, for histories of a few events |

pub mod batch;
pub mod history;
pub mod linear;
pub mod map;
pub mod model;
pub mod oracle;
mod register;
mod search;
pub mod snapshot;
mod timeline;
mod window;

pub use batch::{BatchMap, Mismatch, compare_with_model};
pub use history::Event;
pub use linear::{Checker, Failure, Summary, Violation, check};
pub use map::{Combine, MapModel, MapOp, MapOutcome, MapValue};
pub use model::{Effect, EventOf, Model, Needs};
pub use snapshot::{SnapshotModel, SnapshotOp, SnapshotOutcome};
