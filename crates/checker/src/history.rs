//! What was asked, what was answered, and when.
use serde::{Deserialize, Serialize};

/// An operation that was called and returned.
///
/// Times may come from any clock that all threads share; only their order counts. Equal times count as
/// overlap: an operation precedes another one only if its end is smaller than the other's start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event<Op, Outcome> {
    /// What was asked, arguments included.
    pub op: Op,
    /// What was answered.
    pub outcome: Outcome,
    /// A time before which the operation had no effect.
    pub start: u64,
    /// A time after which it had no further effect; not below `start`.
    pub end: u64,
    /// Who called: for messages only.
    pub thread: u32,
}

impl<Op, Outcome> Event<Op, Outcome> {
    /// Whether it had returned before the other one was called.
    pub fn precedes(&self, other: &Self) -> bool {
        self.end < other.start
    }
}
