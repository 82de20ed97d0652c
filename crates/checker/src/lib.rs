//! Says whether what concurrent operations returned can be explained.
//!
//! Record a history: what each operation was asked, what it answered, when it was called and when it
//! returned. The history is linearizable (Herlihy and Wing, 1990) if the operations can be put in one order
//! that a sequential object would have answered the same way, in which each operation stands between its call
//! and its return. [`check`] looks for such an order; where there is none it gives the smallest window of
//! operations it can find that no order explains.
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
//! | module | what it holds |
//! |---|---|
//! | [`history`] | events |
//! | [`model`] | what a sequential object is: the trait [`Model`] |
//! | [`map`] | the model of a map, and its operations |
//! | [`snapshot`] | the model of an ordered map as a whole: ranges, and snapshots that are asked later |
//! | [`linear`] | the check, part by part, in parallel |
//! | [`batch`] | batches against `std::collections::HashMap`, duplicates within a batch included |
//! | [`oracle`] | the same question answered by trying all orders, for histories of a few events |

pub mod batch;
pub mod history;
pub mod linear;
pub mod map;
pub mod model;
pub mod oracle;
mod search;
pub mod snapshot;
mod timeline;
mod window;

pub use batch::{BatchMap, Mismatch, compare_with_model};
pub use history::Event;
pub use linear::{Checker, Failure, Summary, Violation, check};
pub use map::{Combine, MapModel, MapOp, MapOutcome, MapValue};
pub use model::{EventOf, Model};
pub use snapshot::{SnapshotModel, SnapshotOp, SnapshotOutcome};
