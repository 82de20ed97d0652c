//! Tests the checker against the definition (all orders tried) and against histories that are correct by
//! construction.
use checker::oracle::is_linearizable;
use checker::{Combine, Event, Failure, MapModel, MapOp, MapOutcome, check, map};
use proptest::prelude::*;
use std::collections::HashMap;

type Op = MapOp<u8, u8>;
type Outcome = MapOutcome<u8>;
type History = Vec<Event<Op, Outcome>>;

fn ops() -> impl Strategy<Value = Op> {
    let (key, value) = (0..2u8, 0..3u8);
    let combine = prop_oneof![Just(Combine::Add), Just(Combine::Min), Just(Combine::Max)];
    (0..7u8, key, value, combine).prop_map(|(kind, key, value, combine)| match kind {
        0 => MapOp::Insert(key, value),
        1 => MapOp::InsertNew(key, value),
        2 => MapOp::Upsert(key, value, combine),
        3 => MapOp::GetOrInsert(key, value),
        4 => MapOp::Get(key),
        5 => MapOp::Contains(key),
        _ => MapOp::Remove(key),
    })
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let value = 0..3u8;
    prop_oneof![
        Just(MapOutcome::Inserted),
        Just(MapOutcome::Absent),
        Just(MapOutcome::Present),
        Just(MapOutcome::Refused),
        value.clone().prop_map(MapOutcome::Found),
        prop::option::of(value.clone()).prop_map(MapOutcome::Replaced),
        prop::option::of(value).prop_map(MapOutcome::Removed),
    ]
}

/// Generates events whose outcomes a sequential map returned at instants 10, 20, ..., with intervals around
/// the instants, and with some of the optional old values omitted.
fn right_histories(len: usize, spread: u64) -> impl Strategy<Value = History> {
    let event = (ops(), 0..spread, 0..spread, any::<bool>());
    prop::collection::vec(event, 1..len).prop_map(move |drawn| {
        let mut states = HashMap::new();
        let mut history = Vec::new();
        for (index, (op, before, after, tells)) in drawn.into_iter().enumerate() {
            let instant = (index as u64 + 1) * 10 + spread;
            let state = states.entry(*op.key()).or_insert(None);
            let (outcome, next) = map::answer(state, &op);
            *state = next;
            let outcome = if tells { outcome } else { silenced(outcome) };
            history.push(Event {
                op,
                outcome,
                start: instant - before,
                end: instant + after,
                thread: index as u32,
            });
        }
        history
    })
}

fn silenced(outcome: Outcome) -> Outcome {
    match outcome {
        MapOutcome::Replaced(_) => MapOutcome::Replaced(None),
        MapOutcome::Removed(_) => MapOutcome::Removed(None),
        other => other,
    }
}

/// Generates a correct history with one to three replaced outcomes: sometimes still correct, sometimes not.
fn tampered_histories() -> impl Strategy<Value = History> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), outcomes()), 1..4);
    (right_histories(8, 40), changes).prop_map(|(mut history, changes)| {
        for (index, outcome) in changes {
            let index = index.index(history.len());
            history[index].outcome = outcome;
        }
        history
    })
}

/// Uses few distinct times, so that many starts and ends are equal.
fn arbitrary_histories() -> impl Strategy<Value = History> {
    let event = (ops(), outcomes(), 0..6u64, 0..4u64);
    prop::collection::vec(event, 1..7).prop_map(move |drawn| {
        let event =
            |(op, outcome, start, length)| Event { op, outcome, start, end: start + length, thread: 0 };
        drawn.into_iter().map(event).collect()
    })
}

/// Generates histories on one key whose written values are distinct and many of whose outcomes report no old
/// value. Most times are equal, so that most operations overlap.
fn distinct_histories() -> impl Strategy<Value = History> {
    let outcome = (0..8u8, 0..8u8).prop_map(|(kind, value)| match kind {
        0 => MapOutcome::Inserted,
        1 | 2 => MapOutcome::Replaced(None),
        3 => MapOutcome::Replaced(Some(value)),
        4 => MapOutcome::Removed(None),
        5 => MapOutcome::Removed(Some(value)),
        6 => MapOutcome::Found(value),
        _ => [MapOutcome::Absent, MapOutcome::Present][usize::from(value % 2)].clone(),
    });
    let event = (outcome, 0..5u64, 0..5u64, any::<bool>());
    prop::collection::vec(event, 2..8).prop_map(move |drawn| {
        let event = |(index, (outcome, start, length, contains)): (usize, _)| {
            let op = match outcome {
                MapOutcome::Inserted | MapOutcome::Replaced(_) => MapOp::Insert(0, index as u8),
                MapOutcome::Removed(_) => MapOp::Remove(0),
                MapOutcome::Present => MapOp::Contains(0),
                MapOutcome::Absent if contains => MapOp::Contains(0),
                _ => MapOp::Get(0),
            };
            Event { op, outcome, start, end: start + length, thread: 0 }
        };
        drawn.into_iter().enumerate().map(event).collect()
    })
}

/// Generates correct histories on one key whose written values are distinct, with one or no tampered outcome
/// that swaps two values.
fn distinct_right_histories() -> impl Strategy<Value = History> {
    let swap = prop::option::of((any::<prop::sample::Index>(), any::<prop::sample::Index>()));
    (right_histories(9, 45), swap).prop_map(|(history, swap)| {
        let (mut state, mut distinct) = (None, Vec::new());
        for (index, mut event) in history.into_iter().enumerate() {
            let blind = matches!(event.outcome, MapOutcome::Replaced(None) | MapOutcome::Removed(None));
            event.op = match event.op {
                MapOp::Insert(..) | MapOp::Upsert(..) => MapOp::Insert(0, index as u8),
                MapOp::InsertNew(..) | MapOp::GetOrInsert(..) => MapOp::GetOrInsert(0, index as u8),
                MapOp::Get(_) => MapOp::Get(0),
                MapOp::Contains(_) => MapOp::Contains(0),
                MapOp::Remove(_) => MapOp::Remove(0),
            };
            let (outcome, next) = map::answer(&state, &event.op);
            event.outcome = if blind { silenced(outcome) } else { outcome };
            state = next;
            distinct.push(event);
        }
        if let Some((a, b)) = swap {
            let (a, b) = (a.index(distinct.len()), b.index(distinct.len()));
            let outcome = distinct[a].outcome.clone();
            distinct[a].outcome = std::mem::replace(&mut distinct[b].outcome, outcome);
        }
        distinct
    })
}

fn accepted(history: &History) -> bool {
    match check(&MapModel::default(), history) {
        Ok(_) => true,
        Err(Failure::Violation(_)) => false,
        Err(other) => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn tampered_histories_get_the_oracles_verdict(history in tampered_histories()) {
        prop_assert_eq!(accepted(&history), is_linearizable(&MapModel::default(), &history));
    }

    #[test]
    fn arbitrary_histories_get_the_oracles_verdict(history in arbitrary_histories()) {
        prop_assert_eq!(accepted(&history), is_linearizable(&MapModel::default(), &history));
    }

    #[test]
    fn arbitrary_histories_of_distinct_values_get_the_oracles_verdict(history in distinct_histories()) {
        prop_assert_eq!(accepted(&history), is_linearizable(&MapModel::default(), &history));
    }

    #[test]
    fn histories_of_distinct_values_get_the_oracles_verdict(history in distinct_right_histories()) {
        prop_assert_eq!(accepted(&history), is_linearizable(&MapModel::default(), &history));
    }

    /// Violations are genuine: no order explains a violation's events from any of the states that it names.
    #[test]
    fn the_events_of_a_violation_are_inexplicable(history in tampered_histories()) {
        if let Err(Failure::Violation(violation)) = check(&MapModel::default(), &history) {
            for state in &violation.states {
                let initial = state.iter().map(|value| (violation.part, *value)).collect();
                prop_assert!(!is_linearizable(&MapModel { initial }, &violation.events), "{}", violation);
            }
            prop_assert!(!violation.states.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn right_histories_pass(history in right_histories(300, 150)) {
        if let Err(failure) = check(&MapModel::default(), &history) {
            prop_assert!(false, "{}", failure);
        }
    }
}

/// Both verdicts must be frequent among the inputs above, or the equality of verdicts proves little.
#[test]
fn tampering_makes_both_kinds() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for strategy in [tampered_histories().boxed(), distinct_right_histories().boxed()] {
        let mut is_right = || accepted(&strategy.new_tree(&mut runner).unwrap().current());
        let right = (0..1_000).filter(|_| is_right()).count();
        assert!((100..900).contains(&right), "{right} of 1000 are right");
    }
    let strategy = distinct_histories();
    let mut is_right = || accepted(&strategy.new_tree(&mut runner).unwrap().current());
    let right = (0..10_000).filter(|_| is_right()).count();
    assert!((100..9_900).contains(&right), "{right} of 10000 are right");
}
