//! Sequences of mixed batches with repeated keys on small maps. `checker` decides whether the outcomes are
//! linearizable.
use crate::common::{replay, runs_all, seed};
use crate::kinds::{Kind, Tested, contents};
use checker::{BatchMap, Combine, MapOp, MapOutcome, compare_with_model};
use phalanx::map::Word;
use phalanx::{Merge, Op, Outcome};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// Adapter from a map to `checker`.
struct Subject<M>(M);

impl<M: Tested> BatchMap<M::Key, M::Value> for Subject<M> {
    fn apply(&mut self, batch: &[MapOp<M::Key, M::Value>]) -> Vec<MapOutcome<M::Value>> {
        let ops: Vec<Op<M::Key, M::Value>> = batch.iter().map(operation).collect();
        let answers = self.0.execute(&ops).expect("the device runs the batch");
        answers.into_iter().map(|(outcome, value)| answer(outcome, value)).collect()
    }

    fn contents(&mut self) -> Option<Vec<(M::Key, M::Value)>> {
        self.0.validate();
        Some(self.0.iter().expect("the device lists the pairs").collect())
    }

    fn reported_len(&mut self) -> Option<usize> {
        Some(self.0.len().expect("the device counts"))
    }
}

fn operation<K: Word, V: Word>(op: &MapOp<K, V>) -> Op<K, V> {
    let merge = |by: Combine| match by {
        Combine::Add => Merge::Add,
        Combine::Min => Merge::Min,
        Combine::Max => Merge::Max,
    };
    match *op {
        MapOp::Insert(key, value) => Op::Insert(key, value),
        MapOp::InsertNew(key, value) => Op::InsertNew(key, value),
        MapOp::Upsert(key, value, by) => Op::Upsert(merge(by), key, value),
        MapOp::GetOrInsert(key, value) => Op::GetOrInsert(key, value),
        MapOp::Get(key) | MapOp::Contains(key) => Op::Get(key),
        MapOp::Remove(key) => Op::Remove(key),
    }
}

/// Converts an outcome and the value that came with it to those of the model.
///
/// # Panics
/// If the outcome requires a value and there is none, or the reverse.
pub fn answer<V>(outcome: Outcome, value: Option<V>) -> MapOutcome<V> {
    let has_value = matches!(outcome, Outcome::Inserted | Outcome::Replaced | Outcome::Found);
    assert_eq!(value.is_some(), has_value, "{outcome:?}");
    match outcome {
        Outcome::Refused => MapOutcome::Refused,
        Outcome::Inserted => MapOutcome::Inserted,
        Outcome::Replaced => MapOutcome::Replaced(value),
        Outcome::Found => MapOutcome::Found(value.expect("checked above")),
        Outcome::Removed => MapOutcome::Removed(None),
        Outcome::Absent => MapOutcome::Absent,
    }
}

/// Generates batches of operations on few keys, so that keys repeat. The five topmost keys are among them.
fn batches() -> impl Strategy<Value = Vec<Vec<(u8, u64, u64)>>> {
    let key = prop_oneof![6 => 0u64..60, 1 => (0u64..5).prop_map(|below| u64::MAX - below)];
    let value = prop_oneof![3 => 0u64..8, 1 => any::<u64>()];
    let operation = (0u8..12, key, value);
    prop::collection::vec(prop::collection::vec(operation, 0..70), 1..7)
}

fn op<K: Word, V: Word>((code, key, value): (u8, u64, u64)) -> MapOp<K, V> {
    let (key, value) = (K::from_u64(key), V::from_u64(value));
    match code {
        0..=2 => MapOp::Insert(key, value),
        3..=4 => MapOp::InsertNew(key, value),
        5 => MapOp::Upsert(key, value, Combine::Add),
        6 => MapOp::Upsert(key, value, Combine::Min),
        7 => MapOp::Upsert(key, value, Combine::Max),
        8 => MapOp::GetOrInsert(key, value),
        9 => MapOp::Get(key),
        _ => MapOp::Remove(key),
    }
}

fn compare<M: Tested>(kind: &Kind<M>, make: impl Fn(&Kind<M>) -> M) {
    let part = if runs_all(&kind.device) { 1 } else { 2 };
    let cases = if kind.is_main { 40 } else { 10 } / part;
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed().to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let result = runner.run(&batches(), |batches| {
        let mut subject = Subject(make(kind));
        let batches: Vec<Vec<_>> = batches.into_iter().map(|ops| ops.into_iter().map(op).collect()).collect();
        let expected = compare_with_model(&mut subject, &batches)
            .map_err(|mismatch| TestCaseError::fail(mismatch.to_string()))?;
        prop_assert_eq!(contents(&subject.0), expected.into_iter().collect());
        Ok(())
    });
    if let Err(TestError::Fail(reason, batches)) = &result {
        panic!("{}: {reason}\n{batches:?}\n{}", kind.name, replay(seed()));
    }
    result.unwrap();
}

pub fn batches_on_a_fixed_map_agree_with_the_model<M: Tested>(kind: &Kind<M>) {
    compare(kind, M::fixed);
}

pub fn batches_on_a_growing_map_agree_with_the_model<M: Tested>(kind: &Kind<M>) {
    compare(kind, |kind| kind.map(1));
}
