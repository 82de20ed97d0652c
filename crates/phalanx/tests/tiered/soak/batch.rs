//! Batches that change a map, and their effect on the model.
use super::super::model::Map;
use gpu::{Buffer, Device};
use phalanx::map::OpCode;
use phalanx::tiered_map::Batches;
use phalanx::{Error, Merge, Op, Outcome, Result};
use phalanx_testing::fault::Injected;
use std::collections::BTreeMap;

pub type Model = BTreeMap<u32, u32>;

/// Operations that change a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Insert,
    InsertNew,
    Add,
    GetOrInsert,
    Replace,
    Remove,
    Take,
    /// A mixed batch of the operations before, as the key selects.
    Mixed,
}

impl Verb {
    pub const ALL: [Self; 8] = [
        Self::Insert,
        Self::InsertNew,
        Self::Add,
        Self::GetOrInsert,
        Self::Replace,
        Self::Remove,
        Self::Take,
        Self::Mixed,
    ];

    /// Returns the operation on a key.
    fn on(self, key: u32) -> Self {
        match self {
            Self::Mixed => {
                [Self::Insert, Self::InsertNew, Self::Add, Self::GetOrInsert, Self::Remove][key as usize % 5]
            }
            other => other,
        }
    }

    /// Returns the value of a key after the operation, its outcome, and the value that is returned.
    fn effect(self, was: Option<u32>, value: u32) -> (Option<u32>, Outcome, Option<u32>) {
        use Outcome::{Absent, Found, Inserted, Removed, Replaced};
        match (self, was) {
            (Self::Insert | Self::Replace | Self::Mixed, was) => {
                (Some(value), if was.is_some() { Replaced } else { Inserted }, was)
            }
            (Self::InsertNew | Self::GetOrInsert, Some(was)) => (Some(was), Found, Some(was)),
            (Self::InsertNew | Self::Add, None) => (Some(value), Inserted, None),
            (Self::GetOrInsert, None) => (Some(value), Inserted, Some(value)),
            (Self::Add, Some(was)) => (Some(was.wrapping_add(value)), Replaced, None),
            (Self::Remove | Self::Take, None) => (None, Absent, None),
            (Self::Remove, Some(_)) => (None, Removed, None),
            (Self::Take, Some(was)) => (None, Removed, Some(was)),
        }
    }

    fn returns(self) -> bool {
        matches!(self, Self::GetOrInsert | Self::Replace | Self::Take)
    }
}

/// Result of a call: whether each element is done and, unless it failed, outcomes and values.
pub struct Said {
    pub done: Vec<bool>,
    outcomes: Option<Vec<Outcome>>,
    results: Option<Vec<Option<u32>>>,
    /// Whether a copy or an allocation has failed.
    pub is_error: bool,
}

impl Said {
    fn of(outcomes: Vec<Outcome>, results: Option<Vec<Option<u32>>>) -> Self {
        let done = outcomes.iter().map(|&outcome| outcome != Outcome::Refused).collect();
        Self { done, outcomes: Some(outcomes), results, is_error: false }
    }

    fn error(error: Error, len: usize) -> Self {
        let done = match error {
            Error::NoRoom { outcomes, .. } => return Self::of(outcomes.into(), None),
            Error::Interrupted { done, source } => {
                assert!(matches!(*source, Error::Device(_) | Error::ShardFile { .. }), "{source}");
                done
            }
            Error::Device(_) | Error::ShardFile { .. } => vec![false; len],
            other => panic!("another error: {other}"),
        };
        Self { done, outcomes: None, results: None, is_error: true }
    }
}

/// A batch of equal operations, or of mixed ones. Equal keys have equal values.
pub struct Batch {
    pub verb: Verb,
    pub keys: Vec<u32>,
    pub values: Vec<u32>,
}

impl Batch {
    /// Calls the method on host slices, with a fault.
    pub fn on_host(&self, map: &Map<u32, u32>, fault: &mut Injected<'_>) -> Said {
        let said = fault.during(|| self.call(map));
        said.unwrap_or_else(|error| Said::error(error, self.keys.len()))
    }

    fn call(&self, map: &Map<u32, u32>) -> Result<Said> {
        let (keys, values) = (&self.keys[..], &self.values[..]);
        let of = |outcomes: phalanx::Outcomes| Said::of(outcomes.into(), None);
        match self.verb {
            Verb::Insert => map.insert(keys, values).map(of),
            Verb::InsertNew => map.insert_new(keys, values).map(of),
            Verb::Add => map.upsert(Merge::Add, keys, values).map(of),
            Verb::GetOrInsert => map.get_or_insert(keys, values).map(|results| Said {
                done: results.iter().map(Option::is_some).collect(),
                outcomes: None,
                results: Some(results),
                is_error: false,
            }),
            Verb::Replace => map.replace(keys, values).map(of_old),
            Verb::Take => map.take(keys).map(of_old),
            Verb::Remove => map.remove(keys).map(|removed| {
                let outcome = |is_removed| if is_removed { Outcome::Removed } else { Outcome::Absent };
                Said::of(removed.into_iter().map(outcome).collect(), None)
            }),
            Verb::Mixed => map
                .execute(&self.operations())
                .map(|results| Said::of(results.into_iter().map(|(outcome, _)| outcome).collect(), None)),
        }
    }

    fn operations(&self) -> Vec<Op<u32, u32>> {
        let operation = |(&key, &value): (&u32, &u32)| match self.verb.on(key) {
            Verb::InsertNew => Op::InsertNew(key, value),
            Verb::Add => Op::Upsert(Merge::Add, key, value),
            Verb::GetOrInsert => Op::GetOrInsert(key, value),
            Verb::Remove => Op::Remove(key),
            _ => Op::Insert(key, value),
        };
        self.keys.iter().zip(&self.values).map(operation).collect()
    }

    /// Calls the method on device buffers, with a fault.
    pub fn on_device(&self, map: &Map<u32, u32>, fault: &mut Injected<'_>) -> Said {
        let device = map.device();
        let buffer = |words: &[u32]| device.from_slice(words).unwrap();
        let (keys, values, codes) = (buffer(&self.keys), buffer(&self.values), self.codes(device));
        let mut results = device.zeroed::<u32>(self.keys.len()).unwrap();
        let mut outcomes = device.zeroed::<u8>(self.keys.len()).unwrap();
        let stream = device.stream().unwrap();
        let columns = (&codes, &keys, &values);
        let submitted = fault.during(|| self.submit(map.on(&stream), columns, (&mut results, &mut outcomes)));
        match submitted {
            Err(error) => Said::error(error, self.keys.len()),
            Ok(()) => {
                stream.synchronize().unwrap();
                let outcome = |code| Outcome::from_code(code).expect("a code of an outcome");
                let outcomes: Vec<Outcome> = outcomes.read().unwrap().into_iter().map(outcome).collect();
                let is_valid = |outcome: Outcome, value| self.has_result(outcome).then_some(value);
                let found = outcomes.iter().zip(results.read().unwrap());
                let results = found.map(|(&outcome, value)| is_valid(outcome, value)).collect();
                Said::of(outcomes, Some(results).filter(|_| self.verb.returns()))
            }
        }
    }

    /// Returns whether an element with this outcome returns a value.
    fn has_result(&self, outcome: Outcome) -> bool {
        match self.verb {
            Verb::GetOrInsert => outcome != Outcome::Refused,
            Verb::Replace => outcome == Outcome::Replaced,
            _ => outcome == Outcome::Removed,
        }
    }

    fn submit(
        &self,
        batches: Batches<'_, u32, u32>,
        (codes, keys, values): (&Buffer<u8>, &Buffer<u32>, &Buffer<u32>),
        (results, outcomes): (&mut Buffer<u32>, &mut Buffer<u8>),
    ) -> Result<()> {
        match self.verb {
            Verb::Insert => batches.insert(keys, values, outcomes),
            Verb::InsertNew => batches.insert_new(keys, values, outcomes),
            Verb::Add => batches.upsert(Merge::Add, keys, values, outcomes),
            Verb::GetOrInsert => batches.get_or_insert(keys, values, results, outcomes),
            Verb::Replace => batches.replace(keys, values, results, outcomes),
            Verb::Take => batches.take(keys, results, outcomes),
            Verb::Remove => batches.remove(keys, outcomes),
            Verb::Mixed => batches.execute(codes, keys, values, results, outcomes),
        }
    }

    fn codes(&self, device: &Device) -> Buffer<u8> {
        let code = |&key: &u32| match self.verb.on(key) {
            Verb::InsertNew => OpCode::INSERT_NEW,
            Verb::Add => OpCode::ADD,
            Verb::GetOrInsert => OpCode::GET_OR_INSERT,
            Verb::Remove => OpCode::REMOVE,
            _ => OpCode::INSERT,
        };
        let codes: Vec<u8> = self.keys.iter().map(|key| code(key).code() as u8).collect();
        device.from_slice(&codes).unwrap()
    }

    /// Changes the model by the elements that are done, and compares outcomes and values. Those of elements
    /// with equal keys are compared in any order.
    pub fn apply(&self, model: &mut Model, said: &Said) {
        let mut by_key = BTreeMap::<u32, Vec<usize>>::new();
        for (place, &key) in self.keys.iter().enumerate().filter(|&(place, _)| said.done[place]) {
            by_key.entry(key).or_default().push(place);
        }
        for (key, places) in by_key {
            let (verb, value, mut now) =
                (self.verb.on(key), self.values[places[0]], model.get(&key).copied());
            let (mut outcomes, mut results) = (Vec::new(), Vec::new());
            for _ in &places {
                let (after, outcome, result) = verb.effect(now, value);
                now = after;
                outcomes.push(outcome);
                results.push(result);
            }
            if let Some(found) = &said.outcomes {
                assert_eq!(
                    sorted(places.iter().map(|&place| found[place] as u8)),
                    sorted(outcomes.iter().map(|&outcome| outcome as u8)),
                    "{verb:?} of {key}"
                );
            }
            if let Some(found) = &said.results {
                assert_eq!(
                    sorted(places.iter().map(|&place| found[place])),
                    sorted(results),
                    "{verb:?} of {key}"
                );
            }
            match now {
                Some(value) => model.insert(key, value),
                None => model.remove(&key),
            };
        }
    }
}

/// Returns the result of a call that returns old values.
fn of_old(old: phalanx::OldValues<u32>) -> Said {
    let (results, outcomes) = old.into_parts();
    Said::of(outcomes.into(), Some(results))
}

fn sorted<T: Ord>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.into_iter().collect();
    all.sort_unstable();
    all
}
