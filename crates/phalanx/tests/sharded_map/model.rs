//! The model: for each key the values that it may have.
//!
//! Elements of one step with the same key run in some order, so the model keeps all values that an order can
//! leave, and the values that gets return narrow them.
use phalanx::Outcome;
use std::collections::{BTreeMap, BTreeSet};

/// An operation of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Insert,
    InsertNew,
    /// Adds the values.
    Upsert,
    Get,
    Contains,
    Remove,
}

pub const OPS: [Op; 6] = [Op::Insert, Op::InsertNew, Op::Upsert, Op::Get, Op::Contains, Op::Remove];

/// A rank's part of a step.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub keys: Vec<u64>,
    pub values: Vec<u64>,
}

/// A step of a script.
#[derive(Clone, Debug)]
pub struct Step {
    pub op: Op,
    /// A batch for each rank.
    pub batches: Vec<Batch>,
}

/// A rank's results of a step: an outcome for each element, and a value if it is found.
pub type Results = Vec<(Outcome, Option<u64>)>;

#[derive(Debug)]
pub struct Model {
    pairs: BTreeMap<u64, BTreeSet<u64>>,
    /// Mask of the values' bits.
    mask: u64,
}

/// The elements of a step with one key: their values and results.
type Elements = Vec<(u64, (Outcome, Option<u64>))>;

impl Model {
    pub fn new(mask: u64) -> Self {
        Self { mask, pairs: BTreeMap::new() }
    }

    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns whether the results of a step are those of some order, and applies the step.
    pub fn apply(&mut self, step: &Step, results: &[Results]) -> Result<(), String> {
        let mut by_key = BTreeMap::<u64, Elements>::new();
        for (batch, results) in step.batches.iter().zip(results) {
            if batch.keys.len() != results.len() {
                return Err(format!("{} results for {} keys", results.len(), batch.keys.len()));
            }
            for (index, (&key, &result)) in batch.keys.iter().zip(results).enumerate() {
                let value = batch.values.get(index).copied().unwrap_or(0);
                by_key.entry(key).or_default().push((value, result));
            }
        }
        let wrong = |key| {
            format!("{:?} of key {key}: {:?}, before {:?}", step.op, by_key[&key], self.pairs.get(&key))
        };
        let bad: Vec<_> =
            by_key.iter().filter(|(key, elements)| !self.is_right(step.op, **key, elements)).collect();
        if let Some((key, _)) = bad.first() {
            return Err(format!("{} keys are wrong; {}", bad.len(), wrong(**key)));
        }
        by_key.iter().for_each(|(&key, elements)| self.update(step.op, key, elements));
        Ok(())
    }

    fn is_right(&self, op: Op, key: u64, elements: &Elements) -> bool {
        let before = self.pairs.get(&key);
        let count = |outcome| elements.iter().filter(|(_, (found, _))| *found == outcome).count();
        let all = elements.len();
        match (op, before) {
            (Op::Insert | Op::Upsert, None) => {
                count(Outcome::Inserted) == 1 && count(Outcome::Replaced) == all - 1
            }
            (Op::Insert | Op::Upsert, Some(_)) => count(Outcome::Replaced) == all,
            (Op::InsertNew, None) => count(Outcome::Inserted) == 1 && count(Outcome::Found) == all - 1,
            (Op::InsertNew | Op::Contains, Some(_)) => count(Outcome::Found) == all,
            (Op::Get | Op::Contains, None) => count(Outcome::Absent) == all,
            (Op::Get, Some(may)) => {
                let first = elements[0].1.1;
                let same = elements.iter().all(|(_, (_, value))| *value == first);
                count(Outcome::Found) == all && same && first.is_some_and(|value| may.contains(&value))
            }
            (Op::Remove, None) => count(Outcome::Absent) == all,
            (Op::Remove, Some(_)) => count(Outcome::Removed) == 1 && count(Outcome::Absent) == all - 1,
        }
    }

    fn update(&mut self, op: Op, key: u64, elements: &Elements) {
        let values = || elements.iter().map(|(value, _)| *value);
        match op {
            Op::Insert => drop(self.pairs.insert(key, values().collect())),
            Op::InsertNew => {
                let new = |(value, (outcome, _)): &(u64, (Outcome, _))| {
                    (*outcome == Outcome::Inserted).then_some(*value)
                };
                if let Some(value) = elements.iter().find_map(new) {
                    self.pairs.insert(key, [value].into());
                }
            }
            Op::Upsert => {
                let sum = values().fold(0, u64::wrapping_add);
                let before = self.pairs.remove(&key).unwrap_or([0].into());
                let after = before.into_iter().map(|value| value.wrapping_add(sum) & self.mask);
                self.pairs.insert(key, after.collect());
            }
            Op::Get => {
                if let Some(value) = elements[0].1.1 {
                    self.pairs.insert(key, [value].into());
                }
            }
            Op::Contains => {}
            Op::Remove => drop(self.pairs.remove(&key)),
        }
    }
}
