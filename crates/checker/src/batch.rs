//! Batches of operations against `std::collections::HashMap`.
//!
//! The operations of a batch run concurrently, so where a key appears several times in one batch several
//! answers are right. Where it appears once there is one answer, and it is compared with the model's. Where
//! it appears more often the operations are a history in which all overlap, followed by a `Get` that finds
//! what they left, and the history is checked.
use crate::linear::{Checker, Failure, Violation};
use crate::map::answer;
use crate::{Event, MapModel, MapOp, MapOutcome, MapValue};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::hash::Hash;

/// A map that executes batches.
pub trait BatchMap<K, V> {
    /// Executes the operations, in any order or at once, and gives one answer for each.
    ///
    /// Optional parts of answers may be left out: `Replaced(None)`, `Removed(None)`, and `Present` for a
    /// failed `InsertNew`.
    fn apply(&mut self, batch: &[MapOp<K, V>]) -> Vec<MapOutcome<V>>;

    /// All pairs, in any order, each once; nothing when the map cannot list them.
    fn pairs(&mut self) -> Option<Vec<(K, V)>>;

    /// How many keys it says it has; nothing when it does not say.
    fn reported_len(&mut self) -> Option<usize>;
}

/// Where a map and the model part.
#[derive(Debug, thiserror::Error)]
pub enum Mismatch<K, V>
where
    K: Clone + Debug + Ord + Hash + Send + Sync,
    V: MapValue,
{
    /// A batch got the wrong number of answers.
    #[error("batch {batch}: {asked} operations got {answered} answers")]
    Count {
        /// The batch's index.
        batch: usize,
        /// Operations in it.
        asked: usize,
        /// Answers.
        answered: usize,
    },
    /// The only operation of a batch on its key got a wrong answer.
    #[error(
        "batch {batch}, operation {index}: {op:?} answered {found:?}; the model, holding {held:?}, answers \
         {expected:?}"
    )]
    Answer {
        /// The batch's index.
        batch: usize,
        /// The operation's index in the batch.
        index: usize,
        /// The operation.
        op: MapOp<K, V>,
        /// What the model held.
        held: Option<V>,
        /// What the map answered.
        found: MapOutcome<V>,
        /// What the model answers.
        expected: MapOutcome<V>,
    },
    /// The operations of a batch on one key got answers that no order gives. The `Get` at time 1 was added to
    /// see what they left.
    #[error("batch {batch}: {violation}")]
    Order {
        /// The batch's index.
        batch: usize,
        /// The operations.
        violation: Box<Violation<MapModel<K, V>>>,
    },
    /// A key appears too many times in one batch for a verdict.
    #[error("batch {batch}: {reason}")]
    Undecided {
        /// The batch's index.
        batch: usize,
        /// What the checker said.
        reason: String,
    },
    /// The number of keys is wrong.
    #[error("after batch {batch}: the map says that it has {found} keys; the model has {expected}")]
    Length {
        /// The batch's index.
        batch: usize,
        /// What the map says.
        found: usize,
        /// What the model says.
        expected: usize,
    },
    /// The listing has the wrong pairs for a key: none, another value, or several.
    #[error("after batch {batch}: the map lists {found:?} for key {key:?}; the model holds {expected:?}")]
    Contents {
        /// The batch's index.
        batch: usize,
        /// The key.
        key: K,
        /// The values listed.
        found: Vec<V>,
        /// The value that the model holds.
        expected: Option<V>,
    },
}

/// Runs the batches on `subject` and on the model, which both start empty, and compares every answer, and
/// after each batch the length and the contents. Returns what the map must hold in the end.
///
/// # Errors
/// The first [`Mismatch`].
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

/// The comparison of one batch.
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

    /// Looks for an order of operations on one key that leaves what a `Get` found after them.
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
        let Some(pairs) = self.subject.pairs() else { return Ok(()) };
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
