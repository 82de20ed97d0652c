//! Sequential objects.
use crate::Event;
use std::fmt::Debug;
use std::hash::Hash;

/// What a sequential object answers.
///
/// The object falls into parts that do not affect one another (the keys of a map); each operation touches
/// one. An object with operations on many keys at once (ranges, snapshots) has a single part, `()`, and the
/// whole map as its state.
pub trait Model: Debug + Sync {
    /// What can be asked.
    type Op: Clone + Debug + Eq + Hash + Send + Sync;
    /// What can be answered.
    type Outcome: Clone + Debug + Eq + Hash + Send + Sync;
    /// What names a part.
    type Part: Clone + Debug + Ord + Hash + Send + Sync;
    /// What a part holds.
    type State: Clone + Debug + Eq + Hash + Send + Sync;

    /// The part that an operation touches.
    fn part(&self, op: &Self::Op) -> Self::Part;

    /// What a part holds before the first event.
    fn initial(&self, part: &Self::Part) -> Self::State;

    /// What the part holds after `op` if `op` may answer `outcome` in `state`, else nothing.
    fn step(&self, state: &Self::State, op: &Self::Op, outcome: &Self::Outcome) -> Option<Self::State>;

    /// Whether every state in which `op` may answer `outcome` is the same after it: a read, a failed insert.
    ///
    /// The search is much faster where this is known, and wrong where it is claimed of an operation that
    /// changes some state. `false` is always right.
    fn only_observes(&self, _op: &Self::Op, _outcome: &Self::Outcome) -> bool {
        false
    }
}

/// The events of a model's histories.
pub type EventOf<M> = Event<<M as Model>::Op, <M as Model>::Outcome>;
