//! Batches of distinct keys, and their effects by definition.
use crate::Scripted;
use phalanx::{Error, Merge, Op, Outcome, Outcomes, Result};
use std::collections::BTreeMap;

/// The pairs that a map should have.
pub type Model = BTreeMap<u32, u32>;

/// Operation of a batch. All keys of one batch are different.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verb {
    Insert,
    InsertNew,
    Upsert,
    GetOrInsert,
    Replace,
    Execute,
    Remove,
    Take,
}

impl Verb {
    pub const ALL: [Self; 8] = [
        Self::Insert,
        Self::InsertNew,
        Self::Upsert,
        Self::GetOrInsert,
        Self::Replace,
        Self::Execute,
        Self::Remove,
        Self::Take,
    ];

    /// Returns whether the operation may refuse elements.
    pub fn inserts(self) -> bool {
        !matches!(self, Self::Remove | Self::Take)
    }

    /// Returns the value of a key after the operation, and what it returns: an outcome and a value.
    pub fn apply(self, key: u32, value: u32, before: Option<u32>) -> (Option<u32>, Told) {
        let has = before.is_some();
        let outcome = |absent, present| if has { present } else { absent };
        match self {
            Self::Insert => (Some(value), (Some(outcome(Outcome::Inserted, Outcome::Replaced)), None)),
            Self::InsertNew => {
                (before.or(Some(value)), (Some(outcome(Outcome::Inserted, Outcome::Found)), None))
            }
            Self::Upsert => {
                let sum = before.map_or(value, |before| before.wrapping_add(value));
                (Some(sum), (Some(outcome(Outcome::Inserted, Outcome::Replaced)), None))
            }
            Self::GetOrInsert => (before.or(Some(value)), (None, before.or(Some(value)))),
            Self::Replace => (Some(value), (Some(outcome(Outcome::Inserted, Outcome::Replaced)), before)),
            Self::Execute => mixed(key).apply(key, value, before),
            Self::Remove => (None, (Some(outcome(Outcome::Absent, Outcome::Removed)), None)),
            Self::Take => (None, (Some(outcome(Outcome::Absent, Outcome::Removed)), before)),
        }
    }

    /// Makes the call. Returns an outcome, and perhaps a value, for each element.
    pub fn call<M: Scripted>(self, map: &M, keys: &[u32], values: &[u32]) -> Result<Vec<Told>> {
        let plain = |outcomes: Outcomes| outcomes.iter().map(|&outcome| (Some(outcome), None)).collect();
        match self {
            Self::Insert => map.insert(keys, values).map(plain),
            Self::InsertNew => map.insert_new(keys, values).map(plain),
            Self::Upsert => map.upsert(Merge::Add, keys, values).map(plain),
            Self::GetOrInsert => {
                let found = map.get_or_insert(keys, values)?;
                Ok(found
                    .into_iter()
                    .map(|value| (value.is_none().then_some(Outcome::Refused), value))
                    .collect())
            }
            Self::Replace => map.replace(keys, values).map(both),
            Self::Take => map.take(keys).map(both),
            Self::Remove => {
                let outcome = |removed| if removed { Outcome::Removed } else { Outcome::Absent };
                Ok(map.remove(keys)?.into_iter().map(|removed| (Some(outcome(removed)), None)).collect())
            }
            Self::Execute => {
                let pairs = keys.iter().zip(values);
                let operations: Vec<_> =
                    pairs.map(|(&key, &value)| mixed(key).operation(key, value)).collect();
                let told = map.execute(&operations)?.into_iter().zip(keys);
                Ok(told.map(|((outcome, value), &key)| mixed(key).told(outcome, value)).collect())
            }
        }
    }

    /// Returns the operation as an element of a mixed batch.
    fn operation(self, key: u32, value: u32) -> Op<u32, u32> {
        match self {
            Self::Insert => Op::Insert(key, value),
            Self::InsertNew => Op::InsertNew(key, value),
            Self::Upsert => Op::Upsert(Merge::Add, key, value),
            Self::GetOrInsert => Op::GetOrInsert(key, value),
            _ => Op::Remove(key),
        }
    }

    /// Returns what [`Self::call`] would return for an element of a mixed batch.
    fn told(self, outcome: Outcome, value: Option<u32>) -> Told {
        match (self, outcome) {
            (_, Outcome::Refused) => (Some(outcome), None),
            (Self::GetOrInsert, _) => (None, value),
            _ => (Some(outcome), None),
        }
    }
}

/// The outcome and the value of an element, as far as the call returns them.
pub type Told = (Option<Outcome>, Option<u32>);

fn both(old: phalanx::map::OldValues<u32>) -> Vec<Told> {
    let (values, outcomes) = old.into_parts();
    outcomes.iter().copied().zip(values).map(|(outcome, value)| (Some(outcome), value)).collect()
}

/// Returns the operation of a key in mixed batches.
fn mixed(key: u32) -> Verb {
    [Verb::Insert, Verb::InsertNew, Verb::Upsert, Verb::GetOrInsert, Verb::Remove][key as usize % 5]
}

/// Returns the elements that a call has executed or refused, also if it lacked room.
pub fn told(said: Result<Vec<Told>>) -> Result<(Vec<Told>, bool)> {
    match said {
        Err(Error::NoRoom { outcomes, .. }) => {
            Ok((outcomes.iter().map(|&outcome| (Some(outcome), None)).collect(), true))
        }
        said => said.map(|told| (told, false)),
    }
}
