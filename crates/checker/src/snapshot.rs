//! The sequential ordered map as one part: operations on several keys at once, and snapshots that are queried
//! later.
//!
//! All operations access the same part, so the search covers orders of all that overlap: keep histories
//! short.
use crate::{MapModel, MapOp, MapOutcome, MapValue, Model};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;

/// Operation on an ordered map with snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SnapshotOp<K, V> {
    /// Operation on a key.
    Key(MapOp<K, V>),
    /// Returns the pairs between two keys, both inclusive.
    Range(K, K),
    /// Returns the number of pairs between two keys.
    Count(K, K),
    /// Returns the pair with the lowest key between two keys.
    Lowest(K, K),
    /// Returns the pair with the highest key between two keys.
    Highest(K, K),
    /// Takes a snapshot under a name.
    Take(u32),
    /// Queries the snapshot of a name. (Neither an operation on a key nor another [`Take`](Self::Take).)
    At(u32, Box<SnapshotOp<K, V>>),
}

/// Outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SnapshotOutcome<K, V> {
    /// Outcome of an operation on a key.
    Key(MapOutcome<V>),
    /// Pairs in key order.
    Pairs(Vec<(K, V)>),
    /// Number of pairs.
    Count(u64),
    /// A snapshot was taken.
    Taken,
}

/// The current contents and the snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State<K: Ord, V> {
    now: BTreeMap<K, V>,
    kept: BTreeMap<u32, BTreeMap<K, V>>,
}

/// An ordered map that holds the pairs of `initial` before the first event.
#[derive(Clone, Debug)]
pub struct SnapshotModel<K, V> {
    /// Initial contents of the map.
    pub initial: BTreeMap<K, V>,
}

impl<K, V> Model for SnapshotModel<K, V>
where
    K: Clone + Debug + Ord + Hash + Send + Sync,
    V: MapValue,
{
    type Op = SnapshotOp<K, V>;
    type Outcome = SnapshotOutcome<K, V>;
    type Part = ();
    type State = State<K, V>;

    fn part(&self, _op: &Self::Op) {}

    fn initial(&self, _part: &()) -> State<K, V> {
        State { now: self.initial.clone(), kept: BTreeMap::new() }
    }

    fn size_in_bytes(&self, state: &State<K, V>) -> usize {
        // Nodes of a B-tree are half full or more.
        let pairs = state.now.len() + state.kept.values().map(BTreeMap::len).sum::<usize>();
        size_of_val(state) + 2 * (pairs * size_of::<(K, V)>() + state.kept.len() * size_of::<(u32, Self)>())
    }

    fn step(&self, state: &State<K, V>, op: &Self::Op, outcome: &Self::Outcome) -> Option<State<K, V>> {
        match (op, outcome) {
            (SnapshotOp::Key(op), SnapshotOutcome::Key(outcome)) => on_key(state, op, outcome),
            (SnapshotOp::Take(name), SnapshotOutcome::Taken) => {
                let mut after = state.clone();
                after.kept.insert(*name, state.now.clone());
                Some(after)
            }
            (SnapshotOp::At(name, question), _) => {
                is_answer(state.kept.get(name)?, question, outcome).then(|| state.clone())
            }
            _ => is_answer(&state.now, op, outcome).then(|| state.clone()),
        }
    }

    fn only_observes(&self, op: &Self::Op, outcome: &Self::Outcome) -> bool {
        match (op, outcome) {
            (SnapshotOp::Key(op), SnapshotOutcome::Key(outcome)) => {
                MapModel::default().only_observes(op, outcome)
            }
            (SnapshotOp::Take(_), _) => false,
            _ => true,
        }
    }
}

/// Returns the state after an operation on a key, if the operation may have this outcome.
fn on_key<K, V>(state: &State<K, V>, op: &MapOp<K, V>, outcome: &MapOutcome<V>) -> Option<State<K, V>>
where
    K: Clone + Debug + Ord + Hash + Send + Sync,
    V: MapValue,
{
    let before = state.now.get(op.key()).cloned();
    let value = MapModel::default().step(&before, op, outcome)?;
    let mut after = state.clone();
    match value {
        Some(value) => after.now.insert(op.key().clone(), value),
        None => after.now.remove(op.key()),
    };
    Some(after)
}

/// Returns `true` if the query of `map` has this outcome.
fn is_answer<K: Clone + Ord, V: Clone + Eq>(
    map: &BTreeMap<K, V>,
    question: &SnapshotOp<K, V>,
    outcome: &SnapshotOutcome<K, V>,
) -> bool {
    use SnapshotOp::{Count, Highest, Lowest, Range};
    let (Range(low, high) | Count(low, high) | Lowest(low, high) | Highest(low, high)) = question else {
        return false;
    };
    if low > high {
        return matches!(outcome, SnapshotOutcome::Count(0))
            || matches!(outcome, SnapshotOutcome::Pairs(pairs) if pairs.is_empty());
    }
    let mut pairs = map.range(low.clone()..=high.clone()).map(|(key, value)| (key.clone(), value.clone()));
    match (question, outcome) {
        (Range(..), SnapshotOutcome::Pairs(found)) => pairs.eq(found.iter().cloned()),
        (Lowest(..), SnapshotOutcome::Pairs(found)) => pairs.next().into_iter().eq(found.iter().cloned()),
        (Highest(..), SnapshotOutcome::Pairs(found)) => {
            pairs.next_back().into_iter().eq(found.iter().cloned())
        }
        (Count(..), SnapshotOutcome::Count(found)) => pairs.count() as u64 == *found,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, check};

    type Op = SnapshotOp<u32, u32>;
    type Answer = SnapshotOutcome<u32, u32>;

    fn event(op: Op, outcome: Answer, start: u64, end: u64) -> Event<Op, Answer> {
        Event { op, outcome, start, end, thread: 0 }
    }

    fn insert(key: u32, start: u64, end: u64) -> Event<Op, Answer> {
        event(Op::Key(MapOp::Insert(key, key)), Answer::Key(MapOutcome::Inserted), start, end)
    }

    fn range(keys: &[u32], start: u64, end: u64) -> Event<Op, Answer> {
        let pairs = keys.iter().map(|&key| (key, key)).collect();
        event(Op::Range(0, 100), Answer::Pairs(pairs), start, end)
    }

    fn is_right(events: &[Event<Op, Answer>]) -> bool {
        check(&SnapshotModel { initial: BTreeMap::from([(5, 5)]) }, events).is_ok()
    }

    #[test]
    fn two_ranges_agree_about_the_order_of_two_insertions() {
        let inserts = [insert(1, 0, 10), insert(2, 0, 10)];
        let history = |a: &[u32], b: &[u32]| [&inserts[..], &[range(a, 1, 9), range(b, 1, 9)]].concat();
        assert!(is_right(&history(&[1, 5], &[1, 2, 5])));
        assert!(is_right(&history(&[2, 5], &[5])));
        assert!(!is_right(&history(&[1, 5], &[2, 5])), "one of them was first");
    }

    #[test]
    fn snapshots_answer_as_of_when_they_were_taken() {
        let take = event(Op::Take(1), Answer::Taken, 4, 6);
        let at = |question, outcome| event(Op::At(1, Box::new(question)), outcome, 30, 31);
        let history = |late| [insert(1, 0, 3), take.clone(), insert(2, 10, 12), late];
        let pairs = |keys: &[u32]| Answer::Pairs(keys.iter().map(|&key| (key, key)).collect());
        assert!(is_right(&history(at(Op::Range(0, 9), pairs(&[1, 5])))));
        assert!(!is_right(&history(at(Op::Range(0, 9), pairs(&[1, 2, 5])))), "2 came later");
        assert!(!is_right(&history(at(Op::Range(0, 9), pairs(&[5])))), "1 was there before");
        assert!(is_right(&history(at(Op::Count(0, 9), Answer::Count(2)))));
        assert!(is_right(&history(at(Op::Lowest(2, 9), pairs(&[5])))));
        assert!(is_right(&history(at(Op::Highest(0, 4), pairs(&[1])))));
        assert!(is_right(&history(at(Op::Highest(6, 9), pairs(&[])))));
        assert!(!is_right(&history(at(Op::Highest(0, 9), pairs(&[1])))));
    }

    #[test]
    fn values_count_too() {
        let odd = event(Op::Range(5, 5), Answer::Pairs(vec![(5, 6)]), 0, 1);
        assert!(!is_right(&[odd]));
    }
}
