//! Batches of operations against `std::collections::HashMap`.
//!
//! The operations of a batch run concurrently, so if a key appears several times in one batch, several
//! results are correct. If a key appears once, its result is compared with the model's. Otherwise the
//! operations on the key form a history in which all overlap, followed by a `Get` of the final value, and the
//! history is checked.
use crate::linear::{Checker, Failure, Violation};
use crate::map::answer;
use crate::{Event, MapModel, MapOp, MapOutcome, MapValue};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::hash::Hash;

/// A map that executes batches.
pub trait BatchMap<K, V> {
    /// Executes the operations, in any order or concurrently, and returns one outcome per operation.
    ///
    /// Optional parts of outcomes may be omitted: `Replaced(None)`, `Removed(None)`, and `Present` for a
    /// failed `InsertNew`.
    fn apply(&mut self, batch: &[MapOp<K, V>]) -> Vec<MapOutcome<V>>;

    /// Returns all pairs, in any order, each once; `None` if the map cannot list them.
    fn contents(&mut self) -> Option<Vec<(K, V)>>;

    /// Returns the number of keys that the map reports; `None` if it reports none.
    fn reported_len(&mut self) -> Option<usize>;
}

/// Difference between a map and the model.
#[derive(Debug, thiserror::Error)]
pub enum Mismatch<K, V>
where
    K: Clone + Debug + Ord + Hash + Send + Sync,
    V: MapValue,
{
    /// A batch returned the wrong number of outcomes.
    #[error("batch {batch}: {asked} operations got {answered} answers")]
    Count {
        /// Index of the batch.
        batch: usize,
        /// Number of operations in the batch.
        asked: usize,
        /// Number of outcomes.
        answered: usize,
    },
    /// The only operation of a batch on its key returned a wrong outcome.
    #[error(
        "batch {batch}, operation {index}: {op:?} answered {found:?}; the model, holding {held:?}, answers \
         {expected:?}"
    )]
    Answer {
        /// Index of the batch.
        batch: usize,
        /// Index of the operation in the batch.
        index: usize,
        /// Operation.
        op: MapOp<K, V>,
        /// Value in the model before the operation.
        held: Option<V>,
        /// Outcome of the map.
        found: MapOutcome<V>,
        /// Outcome of the model.
        expected: MapOutcome<V>,
    },
    /// No order of a batch's operations on one key explains their outcomes. The `Get` at time 1 was added to
    /// observe the final value.
    #[error("batch {batch}: {violation}")]
    Order {
        /// Index of the batch.
        batch: usize,
        /// Operations that no order explains.
        violation: Box<Violation<MapModel<K, V>>>,
    },
    /// A key appears too many times in one batch for the check to decide.
    #[error("batch {batch}: {reason}")]
    Undecided {
        /// Index of the batch.
        batch: usize,
        /// Message of the checker.
        reason: String,
    },
    /// The reported number of keys is wrong.
    #[error("after batch {batch}: the map says that it has {found} keys; the model has {expected}")]
    Length {
        /// Index of the batch.
        batch: usize,
        /// Number reported by the map.
        found: usize,
        /// Number in the model.
        expected: usize,
    },
    /// The listing has wrong pairs for a key: none, another value, or several.
    #[error("after batch {batch}: the map lists {found:?} for key {key:?}; the model holds {expected:?}")]
    Contents {
        /// Index of the batch.
        batch: usize,
        /// Key with the wrong pairs.
        key: K,
        /// Values listed by the map.
        found: Vec<V>,
        /// Value in the model.
        expected: Option<V>,
    },
}

/// Runs the batches on `subject` and on the model, which must both start empty. Compares every outcome and,
/// after each batch, the length and the contents. Returns the expected final contents.
///
/// # Errors
/// [`Mismatch`]: the first one found.
pub fn compare_with_model<K, V, M>(
    subject: &mut M,
    batches: &[Vec<MapOp<K, V>>],
) -> Result<HashMap<K, V>, Mismatch<K, V>>
where
    K: Clone + Debug + Ord + Hash + Send + Sync,
    V: MapValue,
    M: BatchMap<K, V>,
{
    let mut model = HashMap::new();
    for (batch, ops) in batches.iter().enumerate() {
        Comparison { subject, batch, model: &mut model }.run(ops)?;
    }
    Ok(model)
}

/// Comparison of one batch.
struct Comparison<'a, K, V, M> {
    subject: &'a mut M,
    batch: usize,
    model: &'a mut HashMap<K, V>,
}

impl<K, V, M> Comparison<'_, K, V, M>
where
    K: Clone + Debug + Ord + Hash + Send + Sync,
    V: MapValue,
    M: BatchMap<K, V>,
{
    fn run(&mut self, ops: &[MapOp<K, V>]) -> Result<(), Mismatch<K, V>> {
        let outcomes = self.ask(ops)?;
        let mut by_key: BTreeMap<&K, Vec<usize>> = BTreeMap::new();
        for (index, op) in ops.iter().enumerate() {
            by_key.entry(op.key()).or_default().push(index);
        }
        let (single, shared): (Vec<_>, Vec<_>) = by_key.into_values().partition(|indices| indices.len() == 1);
        for index in single.into_iter().flatten() {
            self.compare(index, &ops[index], &outcomes[index])?;
        }
        let left =
            self.ask(&shared.iter().map(|of| MapOp::Get(ops[of[0]].key().clone())).collect::<Vec<_>>())?;
        for (indices, left) in shared.iter().zip(left) {
            let events = indices.iter().map(|&index| (ops[index].clone(), outcomes[index].clone()));
            self.explain(events.collect(), left)?;
        }
        self.compare_length()?;
        self.compare_contents()
    }

    fn ask(&mut self, ops: &[MapOp<K, V>]) -> Result<Vec<MapOutcome<V>>, Mismatch<K, V>> {
        let outcomes = self.subject.apply(ops);
        let (batch, asked, answered) = (self.batch, ops.len(), outcomes.len());
        if asked == answered { Ok(outcomes) } else { Err(Mismatch::Count { batch, asked, answered }) }
    }

    fn compare(
        &mut self,
        index: usize,
        op: &MapOp<K, V>,
        found: &MapOutcome<V>,
    ) -> Result<(), Mismatch<K, V>> {
        let held = self.model.get(op.key()).cloned();
        let Some(after) = crate::Model::step(&MapModel::<K, V>::default(), &held, op, found) else {
            let (batch, op, found) = (self.batch, op.clone(), found.clone());
            let (expected, _) = answer(&held, &op);
            return Err(Mismatch::Answer { batch, index, op, held, found, expected });
        };
        self.hold(op.key().clone(), after);
        Ok(())
    }

    /// Checks that some order of operations on one key explains their outcomes and the final value that a
    /// `Get` found.
    fn explain(
        &mut self,
        operations: Vec<(MapOp<K, V>, MapOutcome<V>)>,
        left: MapOutcome<V>,
    ) -> Result<(), Mismatch<K, V>> {
        let key = operations[0].0.key().clone();
        let event = |(op, outcome), time, thread| Event { op, outcome, start: time, end: time, thread };
        let indexed = operations.into_iter().zip(0..);
        let mut events: Vec<_> = indexed.map(|(operation, thread)| event(operation, 0, thread)).collect();
        events.push(event((MapOp::Get(key.clone()), left.clone()), 1, 0));
        let initial = self.model.get(&key).map(|value| (key.clone(), value.clone())).into_iter().collect();
        let batch = self.batch;
        match Checker::new(&MapModel { initial }).check(&events) {
            Ok(_) => {}
            Err(Failure::Violation(violation)) => return Err(Mismatch::Order { batch, violation }),
            Err(other) => return Err(Mismatch::Undecided { batch, reason: other.to_string() }),
        }
        self.hold(key, if let MapOutcome::Found(value) = left { Some(value) } else { None });
        Ok(())
    }

    fn hold(&mut self, key: K, value: Option<V>) {
        match value {
            Some(value) => self.model.insert(key, value),
            None => self.model.remove(&key),
        };
    }

    fn compare_length(&mut self) -> Result<(), Mismatch<K, V>> {
        let (batch, expected) = (self.batch, self.model.len());
        match self.subject.reported_len() {
            Some(found) if found != expected => Err(Mismatch::Length { batch, found, expected }),
            _ => Ok(()),
        }
    }

    fn compare_contents(&mut self) -> Result<(), Mismatch<K, V>> {
        let Some(pairs) = self.subject.contents() else { return Ok(()) };
        let mut listed: BTreeMap<K, Vec<V>> =
            self.model.keys().map(|key| (key.clone(), Vec::new())).collect();
        for (key, value) in pairs {
            listed.entry(key).or_default().push(value);
        }
        let wrong = listed.into_iter().find(|(key, found)| {
            let expected = self.model.get(key);
            found.len() != 1 || found.first() != expected
        });
        let Some((key, found)) = wrong else { return Ok(()) };
        let expected = self.model.get(&key).cloned();
        Err(Mismatch::Contents { batch: self.batch, key, found, expected })
    }
}
