//! The comparison with the model: correct maps pass, and each planted fault is detected.
use checker::{BatchMap, Combine, MapOp, MapOutcome, Mismatch, compare_with_model, map};
use proptest::prelude::*;
use std::collections::HashMap;

type Op = MapOp<u16, u32>;

/// A map that executes a batch's operations from last to first, with a fault.
#[derive(Default)]
struct Subject {
    map: HashMap<u16, u32>,
    fault: Fault,
}

#[derive(Default, PartialEq)]
enum Fault {
    #[default]
    None,
    LosesAnswers,
    ForgetsSum,
    MiscountsByOne,
    ListsTwice,
    ReadsZero,
}

impl Subject {
    fn one(&mut self, op: &Op) -> MapOutcome<u32> {
        let state = self.map.get(op.key()).copied();
        let (outcome, after) = map::answer(&state, op);
        let forgotten = self.fault == Fault::ForgetsSum && matches!(op, MapOp::Upsert(..)) && state.is_some();
        match if forgotten { state } else { after } {
            Some(value) => self.map.insert(*op.key(), value),
            None => self.map.remove(op.key()),
        };
        match outcome {
            MapOutcome::Found(_) if self.fault == Fault::ReadsZero => MapOutcome::Found(0),
            MapOutcome::Replaced(_) => MapOutcome::Replaced(None),
            other => other,
        }
    }
}

impl BatchMap<u16, u32> for Subject {
    fn apply(&mut self, batch: &[Op]) -> Vec<MapOutcome<u32>> {
        let mut answers: Vec<_> = batch.iter().rev().map(|op| self.one(op)).collect();
        answers.reverse();
        if self.fault == Fault::LosesAnswers {
            answers.pop();
        }
        answers
    }

    fn contents(&mut self) -> Option<Vec<(u16, u32)>> {
        let twice = if self.fault == Fault::ListsTwice { 2 } else { 1 };
        Some(self.map.iter().flat_map(|(key, value)| vec![(*key, *value); twice]).collect())
    }

    fn reported_len(&mut self) -> Option<usize> {
        Some(self.map.len() + usize::from(self.fault == Fault::MiscountsByOne))
    }
}

fn ops() -> impl Strategy<Value = Op> {
    (0..6u8, 0..20u16, 1..100u32).prop_map(|(kind, key, value)| match kind {
        0 => MapOp::Insert(key, value),
        1 => MapOp::InsertNew(key, value),
        2 => MapOp::Upsert(key, value, Combine::Add),
        3 => MapOp::GetOrInsert(key, value),
        4 => MapOp::Get(key),
        _ => MapOp::Remove(key),
    })
}

proptest! {
    /// Keys repeat within batches; the subject's order is the reverse of the batch's.
    #[test]
    fn a_right_map_passes(batches in prop::collection::vec(prop::collection::vec(ops(), 0..30), 1..6)) {
        let mut subject = Subject::default();
        let compared = compare_with_model(&mut subject, &batches);
        let model = compared.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(model, subject.map);
    }
}

fn caught(fault: Fault, batches: &[Vec<Op>]) -> Mismatch<u16, u32> {
    compare_with_model(&mut Subject { fault, ..Subject::default() }, batches).unwrap_err()
}

#[test]
fn each_fault_is_named() {
    use Fault::{ForgetsSum, ListsTwice, LosesAnswers, MiscountsByOne, ReadsZero};
    let insert = vec![MapOp::Insert(1, 10)];
    let read = vec![MapOp::Get(1)];
    let add = MapOp::Upsert(1, 1, Combine::Add);
    let batches = [insert.clone(), read.clone()];
    assert!(matches!(caught(LosesAnswers, &batches), Mismatch::Count { batch: 0, asked: 1, answered: 0 }));
    assert!(matches!(
        caught(ReadsZero, &batches),
        Mismatch::Answer { batch: 1, index: 0, held: Some(10), .. }
    ));
    assert!(matches!(caught(MiscountsByOne, &batches), Mismatch::Length { found: 2, expected: 1, .. }));
    let Mismatch::Contents { key: 1, found, expected: Some(10), .. } = caught(ListsTwice, &batches) else {
        panic!("a pair listed twice went unseen");
    };
    assert_eq!(found, [10, 10]);
    assert!(matches!(caught(ForgetsSum, &[insert.clone(), vec![add.clone()]]), Mismatch::Contents { .. }));
    assert!(matches!(
        caught(ForgetsSum, &[insert, vec![add.clone(), add]]),
        Mismatch::Order { batch: 1, .. }
    ));
}
