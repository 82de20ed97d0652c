//! Sequential objects.
use crate::Event;
use std::fmt::Debug;
use std::hash::Hash;

/// States in which an operation may have its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needs<S> {
    /// This state only.
    State(S),
    /// All states of this [kind](Model::kind).
    Kind(u32),
}

/// Effect of an operation with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect<S> {
    /// States in which the operation may have the outcome.
    pub needs: Needs<S>,
    /// State afterwards, whatever it was before; `None` if the operation leaves the state as it is.
    pub leaves: Option<S>,
}

/// A sequential object.
///
/// The object consists of parts that do not affect one another (the keys of a map); each operation accesses
/// one. An object with operations on many keys at once (ranges, snapshots) has a single part, `()`, and the
/// whole map as its state.
pub trait Model: Debug + Sync {
    /// Operation with its arguments.
    type Op: Clone + Debug + Eq + Hash + Send + Sync;
    /// Outcome of an operation.
    type Outcome: Clone + Debug + Eq + Hash + Send + Sync;
    /// Identifier of a part.
    type Part: Clone + Debug + Ord + Hash + Send + Sync;
    /// State of a part.
    type State: Clone + Debug + Eq + Hash + Send + Sync;

    /// Returns the part that an operation accesses.
    fn part(&self, op: &Self::Op) -> Self::Part;

    /// Returns the state of a part before the first event.
    fn initial(&self, part: &Self::Part) -> Self::State;

    /// Returns the state after `op` if `op` may have `outcome` in `state`, else `None`.
    fn step(&self, state: &Self::State, op: &Self::Op, outcome: &Self::Outcome) -> Option<Self::State>;

    /// Returns the kind of a state, for [`Needs::Kind`]: for a map, whether the key is present.
    fn kind(&self, _state: &Self::State) -> u32 {
        0
    }

    /// Returns what `op` needs to have `outcome`, and the state that it leaves; `None` if neither depends in
    /// so simple a way on the state. It agrees with [`step`](Self::step) in every state.
    ///
    /// If all operations on a part have an effect, the check takes time polynomial in the number of
    /// overlapping operations in most cases, among them those whose values are distinct.
    fn effect(&self, _op: &Self::Op, _outcome: &Self::Outcome) -> Option<Effect<Self::State>> {
        None
    }

    /// Returns the approximate memory that a state takes, in bytes.
    fn size_in_bytes(&self, _state: &Self::State) -> usize {
        size_of::<Self::State>()
    }

    /// Returns `true` if `op` leaves every state in which it may have `outcome` unchanged: a read, or a
    /// failed insert.
    ///
    /// The result speeds the search up considerably. It must not be `true` for an operation that changes some
    /// state; `false` is always correct.
    fn only_observes(&self, _op: &Self::Op, _outcome: &Self::Outcome) -> bool {
        false
    }
}

/// Event of a model's histories.
pub type EventOf<M> = Event<<M as Model>::Op, <M as Model>::Outcome>;
