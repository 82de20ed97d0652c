//! Events: operations with their outcomes and times.
use serde::{Deserialize, Serialize};

/// A completed operation.
///
/// Times may come from any clock that all threads share; only their order matters. Equal times count as
/// overlap: an operation precedes another only if its end is less than the other's start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event<Op, Outcome> {
    /// Operation, with its arguments.
    pub op: Op,
    /// Outcome of the operation.
    pub outcome: Outcome,
    /// Time of the call: before it, the operation had no effect.
    pub start: u64,
    /// Time of the return: after it, the operation has no further effect. At least `start`.
    pub end: u64,
    /// Calling thread, used only in messages.
    pub thread: u32,
}

impl<Op, Outcome> Event<Op, Outcome> {
    /// Returns `true` if this operation returned before `other` was called.
    pub fn precedes(&self, other: &Self) -> bool {
        self.end < other.start
    }
}
