//! The sequential map, with at most one value per key.
use crate::{Effect, Model, Needs};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

/// Function by which an upsert combines the old value with its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Combine {
    /// Wrapping sum.
    Add,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
}

/// Operation on a map.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MapOp<K, V> {
    /// Inserts the pair, or replaces the key's value. The outcome may hold the old value.
    Insert(K, V),
    /// Inserts the pair unless the key is present.
    InsertNew(K, V),
    /// Inserts the pair, or combines its value with the old one.
    Upsert(K, V, Combine),
    /// Returns the key's value; inserts the pair if the key is absent.
    GetOrInsert(K, V),
    /// Returns the key's value.
    Get(K),
    /// Tests whether the key is present.
    Contains(K),
    /// Removes the key. The outcome may hold the removed value.
    Remove(K),
}

impl<K, V> MapOp<K, V> {
    /// Returns the key of the operation.
    pub fn key(&self) -> &K {
        match self {
            Self::Insert(key, _) | Self::InsertNew(key, _) | Self::Upsert(key, _, _) => key,
            Self::GetOrInsert(key, _) | Self::Get(key) | Self::Contains(key) | Self::Remove(key) => key,
        }
    }
}

/// Outcome of an operation on a map. If an old value is optional, an implementation that does not report it
/// returns `None`, which matches any value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MapOutcome<V> {
    /// The key was absent and has been inserted.
    Inserted,
    /// The key was present (with this value, if given), and its value was overwritten.
    Replaced(Option<V>),
    /// The key was present with this value; nothing was written.
    Found(V),
    /// The key was present; nothing was written.
    Present,
    /// The key was absent; nothing was written.
    Absent,
    /// The key was present (with this value, if given) and has been removed.
    Removed(Option<V>),
    /// The key was absent, and the map was full.
    Refused,
}

/// A value that [`Combine`] can combine.
pub trait MapValue: Clone + Debug + Eq + Hash + Send + Sync {
    /// Combines the old value `self` with `new`.
    fn combine(&self, new: &Self, by: Combine) -> Self;
}

macro_rules! values {
    ($($word:ty)*) => {$(
        impl MapValue for $word {
            fn combine(&self, new: &Self, by: Combine) -> Self {
                match by {
                    Combine::Add => self.wrapping_add(*new),
                    Combine::Min => *self.min(new),
                    Combine::Max => *self.max(new),
                }
            }
        }
    )*};
}
values!(u8 u16 u32 u64 u128 usize);

/// A map that holds the pairs of `initial` before the first event.
#[derive(Clone, Debug)]
pub struct MapModel<K, V> {
    /// Initial contents of the map.
    pub initial: HashMap<K, V>,
}

impl<K, V> Default for MapModel<K, V> {
    fn default() -> Self {
        Self { initial: HashMap::new() }
    }
}

impl<K, V> Model for MapModel<K, V>
where
    K: Clone + Debug + Ord + Hash + Send + Sync,
    V: MapValue,
{
    type Op = MapOp<K, V>;
    type Outcome = MapOutcome<V>;
    type Part = K;
    type State = Option<V>;

    fn part(&self, op: &Self::Op) -> K {
        op.key().clone()
    }

    fn initial(&self, key: &K) -> Option<V> {
        self.initial.get(key).cloned()
    }

    fn step(&self, state: &Option<V>, op: &Self::Op, outcome: &Self::Outcome) -> Option<Option<V>> {
        match state {
            None => on_absent(op, outcome),
            Some(old) => on_present(old, op, outcome),
        }
    }

    fn kind(&self, state: &Option<V>) -> u32 {
        state.is_some().into()
    }

    fn effect(&self, op: &Self::Op, outcome: &Self::Outcome) -> Option<Effect<Option<V>>> {
        match outcome {
            MapOutcome::Inserted | MapOutcome::Absent | MapOutcome::Refused => {
                let after = on_absent(op, outcome)?;
                Some(Effect { needs: Needs::Kind(0), leaves: after.is_some().then_some(after) })
            }
            MapOutcome::Found(old) | MapOutcome::Replaced(Some(old)) | MapOutcome::Removed(Some(old)) => {
                let after = on_present(old, op, outcome)?;
                let before = Some(old.clone());
                let leaves = (after != before).then_some(after);
                Some(Effect { needs: Needs::State(before), leaves })
            }
            MapOutcome::Present | MapOutcome::Replaced(None) | MapOutcome::Removed(None) => {
                on_any_present(op, outcome).map(|leaves| Effect { needs: Needs::Kind(1), leaves })
            }
        }
    }

    fn only_observes(&self, _op: &Self::Op, outcome: &Self::Outcome) -> bool {
        use MapOutcome::{Absent, Found, Present, Refused};
        matches!(outcome, Found(_) | Present | Absent | Refused)
    }
}

/// Returns the state after an operation on an absent key, if the operation may have this outcome.
fn on_absent<K, V: Clone>(op: &MapOp<K, V>, outcome: &MapOutcome<V>) -> Option<Option<V>> {
    use MapOp::{Contains, Get, GetOrInsert, Insert, InsertNew, Remove, Upsert};
    use MapOutcome::{Absent, Inserted, Refused};
    match (op, outcome) {
        (Insert(_, new) | InsertNew(_, new) | Upsert(_, new, _) | GetOrInsert(_, new), Inserted) => {
            Some(Some(new.clone()))
        }
        (Insert(..) | InsertNew(..) | Upsert(..) | GetOrInsert(..), Refused) => Some(None),
        (Get(_) | Contains(_) | Remove(_), Absent) => Some(None),
        _ => None,
    }
}

/// Returns the state after an operation on a key with the value `old`, if the operation may have this
/// outcome.
fn on_present<K, V: MapValue>(old: &V, op: &MapOp<K, V>, outcome: &MapOutcome<V>) -> Option<Option<V>> {
    use MapOp::{Contains, Get, GetOrInsert, Insert, InsertNew, Remove, Upsert};
    use MapOutcome::{Found, Present, Removed, Replaced};
    let claimed = match outcome {
        Found(claimed) | Replaced(Some(claimed)) | Removed(Some(claimed)) => claimed,
        _ => old,
    };
    if claimed != old {
        return None;
    }
    match (op, outcome) {
        (Insert(_, new), Replaced(_)) => Some(Some(new.clone())),
        (Upsert(_, new, by), Replaced(_)) => Some(Some(old.combine(new, *by))),
        (InsertNew(..) | GetOrInsert(..) | Get(_), Found(_)) => Some(Some(old.clone())),
        (InsertNew(..) | Contains(_), Present) => Some(Some(old.clone())),
        (Remove(_), Removed(_)) => Some(None),
        _ => None,
    }
}

/// Returns the state that an operation leaves if the key is present with an unknown value, and `Some(None)`
/// if it leaves the value as it is. `None` if it may not have this outcome, or leaves a value that depends on
/// the old one.
#[allow(clippy::option_option)] // the state is an option itself
fn on_any_present<K, V: Clone>(op: &MapOp<K, V>, outcome: &MapOutcome<V>) -> Option<Option<Option<V>>> {
    match (op, outcome) {
        (MapOp::Insert(_, new), MapOutcome::Replaced(_)) => Some(Some(Some(new.clone()))),
        (MapOp::Remove(_), MapOutcome::Removed(_)) => Some(Some(None)),
        (MapOp::InsertNew(..) | MapOp::Contains(_), MapOutcome::Present) => Some(None),
        _ => None,
    }
}

/// Returns the outcome of a sequential map, and the state afterwards. Tests generate correct histories with
/// it.
pub fn answer<K, V: MapValue>(state: &Option<V>, op: &MapOp<K, V>) -> (MapOutcome<V>, Option<V>) {
    use MapOp::{Contains, Get, GetOrInsert, Insert, InsertNew, Remove, Upsert};
    use MapOutcome::{Absent, Found, Inserted, Present, Removed, Replaced};
    let Some(old) = state.clone() else {
        return match op {
            Insert(_, new) | InsertNew(_, new) | Upsert(_, new, _) | GetOrInsert(_, new) => {
                (Inserted, Some(new.clone()))
            }
            Get(_) | Contains(_) | Remove(_) => (Absent, None),
        };
    };
    match op {
        Insert(_, new) => (Replaced(Some(old)), Some(new.clone())),
        Upsert(_, new, by) => (Replaced(Some(old.clone())), Some(old.combine(new, *by))),
        InsertNew(..) | GetOrInsert(..) | Get(_) => (Found(old.clone()), Some(old)),
        Contains(_) => (Present, Some(old)),
        Remove(_) => (Removed(Some(old)), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In both states, the model accepts the outcome that `answer` returns for every operation, and reaches
    /// the same state.
    #[test]
    fn the_model_accepts_its_own_answers() {
        let model = MapModel::<u8, u8>::default();
        let ops = [
            MapOp::Insert(0, 3),
            MapOp::InsertNew(0, 3),
            MapOp::Upsert(0, 3, Combine::Add),
            MapOp::Upsert(0, 3, Combine::Min),
            MapOp::Upsert(0, 3, Combine::Max),
            MapOp::GetOrInsert(0, 3),
            MapOp::Get(0),
            MapOp::Contains(0),
            MapOp::Remove(0),
        ];
        for op in &ops {
            for state in [None, Some(5), Some(255)] {
                let (outcome, after) = answer(&state, op);
                assert_eq!(model.step(&state, op, &outcome), Some(after), "{op:?} in {state:?}");
            }
        }
    }

    /// The effect of an operation agrees with the model's step, for all operations, outcomes and states.
    #[test]
    fn effects_agree_with_steps() {
        let model = MapModel::<u8, u8>::default();
        let values = [1u8, 2, 3];
        let ops = values.iter().flat_map(|&v| {
            let upserts = [Combine::Add, Combine::Min, Combine::Max].map(|by| MapOp::Upsert(0, v, by));
            let others = [MapOp::Insert(0, v), MapOp::InsertNew(0, v), MapOp::GetOrInsert(0, v)];
            upserts.into_iter().chain(others).chain([MapOp::Get(0), MapOp::Contains(0), MapOp::Remove(0)])
        });
        let outcomes: Vec<_> = values
            .iter()
            .flat_map(|&v| {
                let of = [MapOutcome::Replaced(Some(v)), MapOutcome::Found(v), MapOutcome::Removed(Some(v))];
                of.into_iter().chain([MapOutcome::Inserted, MapOutcome::Present, MapOutcome::Absent]).chain([
                    MapOutcome::Replaced(None),
                    MapOutcome::Removed(None),
                    MapOutcome::Refused,
                ])
            })
            .collect();
        let mut effects = 0;
        for (op, outcome) in ops.flat_map(|op| outcomes.iter().map(move |outcome| (op.clone(), outcome))) {
            let Some(effect) = model.effect(&op, outcome) else { continue };
            effects += 1;
            for state in [None, Some(1), Some(2), Some(3), Some(4)] {
                let may = match &effect.needs {
                    Needs::State(needed) => state == *needed,
                    Needs::Kind(kind) => model.kind(&state) == *kind,
                };
                let after = may.then(|| effect.leaves.unwrap_or(state));
                assert_eq!(model.step(&state, &op, outcome), after, "{op:?} -> {outcome:?} in {state:?}");
            }
        }
        assert!(effects > 100, "{effects}");
    }

    #[test]
    fn combinations_combine() {
        assert_eq!(250u8.combine(&10, Combine::Add), 4);
        assert_eq!(5u8.combine(&3, Combine::Min), 3);
        assert_eq!(5u8.combine(&3, Combine::Max), 5);
    }

    #[test]
    fn wrong_old_values_and_wrong_kinds_of_answers_are_refused() {
        let model = MapModel::<u8, u8>::default();
        let wrong = [
            (Some(1), MapOp::Insert(0, 2), MapOutcome::Replaced(Some(9))),
            (Some(1), MapOp::Insert(0, 2), MapOutcome::Inserted),
            (None, MapOp::Insert(0, 2), MapOutcome::Replaced(None)),
            (Some(1), MapOp::Insert(0, 2), MapOutcome::Refused),
            (Some(1), MapOp::Remove(0), MapOutcome::Removed(Some(2))),
            (None, MapOp::Remove(0), MapOutcome::Removed(None)),
            (Some(1), MapOp::Get(0), MapOutcome::Absent),
            (None, MapOp::Get(0), MapOutcome::Inserted),
            (Some(1), MapOp::Get(0), MapOutcome::Present),
        ];
        for (state, op, outcome) in wrong {
            assert_eq!(model.step(&state, &op, &outcome), None, "{op:?} -> {outcome:?} in {state:?}");
        }
    }
}
