//! Typical violations of concurrent maps, planted one by one: each must be detected and reported in a few
//! lines.
use checker::{Combine, Event, Failure, MapModel, MapOp, MapOutcome, Violation, check};

type Op = MapOp<u32, u32>;
type Outcome = MapOutcome<u32>;
type Model = MapModel<u32, u32>;

use checker::MapOp::{Get, GetOrInsert, Insert, InsertNew, Remove, Upsert};
use checker::MapOutcome::{Absent, Found, Inserted, Refused, Removed, Replaced};

/// Creates a history from `(op, outcome, start, end)`.
fn history<const N: usize>(events: [(Op, Outcome, u64, u64); N]) -> Vec<Event<Op, Outcome>> {
    let event = |((op, outcome, start, end), thread)| Event { op, outcome, start, end, thread };
    events.into_iter().zip(0..).map(event).collect()
}

fn violation(history: &[Event<Op, Outcome>]) -> Violation<Model> {
    match check(&Model::default(), history) {
        Err(Failure::Violation(violation)) => *violation,
        other => panic!("expected a violation, got {other:?}"),
    }
}

fn accept(history: &[Event<Op, Outcome>]) {
    if let Err(failure) = check(&Model::default(), history) {
        panic!("{failure}");
    }
}

#[test]
fn a_lost_update() {
    let add = |amount, old, start, end| (Upsert(1, amount, Combine::Add), Replaced(old), start, end);
    let with = |last| {
        history([
            (Insert(1, 10), Inserted, 0, 1),
            add(1, None, 2, 5),
            add(1, None, 3, 6),
            (Get(1), Found(last), 7, 8),
        ])
    };
    accept(&with(12));
    let violation = violation(&with(11));
    assert_eq!((violation.part, violation.stuck), (1, violation.events.len() - 1));
}

#[test]
fn a_stale_read() {
    let with = |start| {
        history([
            (Insert(1, 10), Inserted, 0, 1),
            (Insert(1, 20), Replaced(Some(10)), 2, 5),
            (Get(1), Found(10), start, 9),
        ])
    };
    accept(&with(5));
    let violation = violation(&with(6));
    assert_eq!(
        violation.events.len(),
        2,
        "the second insert and the read contradict each other:\n{violation}"
    );
    assert!(violation.whatever_before);
}

/// Two inserts both found the key absent: the table holds it twice, and one copy survives the remove.
#[test]
fn a_duplicate_key_after_remove() {
    let inserts = [(Insert(1, 10), Inserted, 0, 4), (Insert(1, 20), Replaced(None), 1, 5)];
    let [first, second] = inserts;
    let with = |last| {
        history([first.clone(), second.clone(), (Remove(1), Removed(None), 6, 7), (Get(1), last, 8, 9)])
    };
    accept(&with(Absent));
    violation(&with(Found(10)));
    violation(&with(Found(20)));
    violation(&history([(Insert(1, 10), Inserted, 0, 4), (InsertNew(1, 20), Inserted, 1, 5)]));
}

#[test]
fn a_pair_that_two_remove() {
    let takes = |first, second| {
        history([(Insert(1, 10), Inserted, 0, 1), (Remove(1), first, 2, 5), (Remove(1), second, 3, 6)])
    };
    accept(&takes(Removed(Some(10)), Absent));
    accept(&takes(Absent, Removed(Some(10))));
    violation(&takes(Removed(Some(10)), Removed(Some(10))));
}

/// A removal returns a value that another operation has replaced, and returned, before.
#[test]
fn a_value_that_is_returned_twice() {
    let with = |taken, end| {
        history([
            (Insert(1, 10), Inserted, 0, 1),
            (Insert(1, 20), Replaced(Some(10)), 2, end),
            (Insert(1, 30), Replaced(Some(20)), 3, 6),
            (Remove(1), Removed(Some(taken)), 5, 8),
        ])
    };
    accept(&with(30, 4));
    accept(&with(30, 7));
    violation(&with(10, 7));
    violation(&with(20, 7));
}

#[test]
fn a_resurrected_value() {
    let with = |read| {
        history([
            (Insert(1, 10), Inserted, 0, 1),
            (Remove(1), Removed(Some(10)), 2, 3),
            (Insert(1, 20), Inserted, 4, 5),
            (Remove(1), Removed(Some(20)), 6, 9),
            (Get(1), read, 8, 10),
        ])
    };
    accept(&with(Absent));
    accept(&with(Found(20)));
    violation(&with(Found(10)));
}

#[test]
fn a_wrong_previous_value() {
    let with = |old| {
        history([
            (Insert(1, 10), Inserted, 0, 1),
            (Insert(1, 20), Replaced(Some(10)), 2, 6),
            (Insert(1, 30), Replaced(Some(old)), 3, 7),
        ])
    };
    accept(&with(20));
    violation(&with(10));
    violation(&with(99));
}

#[test]
fn two_winners_of_one_insert() {
    let with = |second| history([(GetOrInsert(1, 10), Inserted, 0, 5), (GetOrInsert(1, 20), second, 1, 6)]);
    accept(&with(Found(10)));
    violation(&with(Inserted));
    violation(&with(Found(20)));
}

#[test]
fn a_refusal_of_a_key_that_is_there() {
    accept(&history([(Insert(1, 10), Refused, 0, 1), (Get(1), Absent, 2, 3)]));
    violation(&history([(Insert(1, 10), Refused, 0, 1), (Get(1), Found(10), 2, 3)]));
    violation(&history([(Insert(1, 10), Inserted, 0, 1), (Insert(1, 11), Refused, 2, 3)]));
}

/// Two readers observe two concurrent writes in opposite orders: no order explains both.
#[test]
fn readers_that_disagree() {
    let events = [
        (Insert(1, 10), Inserted, 0, 100),
        (Insert(1, 20), Replaced(None), 0, 100),
        (Get(1), Found(10), 10, 20),
        (Get(1), Found(20), 30, 40),
        (Get(1), Found(10), 50, 60),
    ];
    accept(&history(events.clone())[..4]);
    violation(&history(events));
}

/// A write of the current value must not be treated as a read: another order may need it later.
#[test]
fn a_write_that_changes_nothing_here_may_change_something_elsewhere() {
    accept(&history([
        (Insert(1, 10), Inserted, 0, 1),
        (Insert(1, 20), Replaced(None), 2, 9),
        (Insert(1, 10), Replaced(None), 3, 4),
        (Get(1), Found(10), 11, 12),
    ]));
}

#[test]
fn the_initial_contents_count() {
    let model = Model { initial: [(1, 10)].into() };
    let read = history([(Get(1), Found(10), 0, 1)]);
    assert!(check(&model, &read).is_ok());
    assert!(check(&Model::default(), &read).is_err());
}

/// A window is small although the history is long and other threads read all the time.
#[test]
fn the_report_is_short_and_readable() {
    let mut events = Vec::new();
    let mut push = |op, outcome, start, end| {
        events.push(Event { op, outcome, start, end, thread: start as u32 % 7 });
    };
    push(Insert(5, 0), Inserted, 0, 1);
    for round in 1..500u32 {
        let at = u64::from(round) * 10;
        push(Insert(5, round), Replaced(Some(round - 1)), at, at + 3);
        push(Get(5), Found(round), at + 4, at + 8);
        push(Get(5), Found(if round == 400 { 398 } else { round }), at + 5, at + 9);
    }
    let violation = violation(&events);
    assert_eq!(violation.events.len(), 2, "{violation}");
    let text = violation.to_string();
    for part in ["on 5", "Get(5) -> Found(400)", "> thread", "Get(5) -> Found(398)", "[4005, 4009]"] {
        assert!(text.contains(part), "'{part}' is missing in\n{text}");
    }
}

#[test]
fn clocks_that_run_backwards_are_refused() {
    let events = history([(Get(1), Absent, 5, 4)]);
    assert!(matches!(check(&Model::default(), &events), Err(Failure::Backwards { index: 0, .. })));
}

/// Forty concurrent upserts that report no old value, then a value that they cannot add up to: the check
/// reports that it gave up.
#[test]
fn giving_up_is_not_a_verdict() {
    let upsert = |value: u32| MapOp::Upsert(1, 1u32 << (value % 30), Combine::Add);
    let mut events: Vec<_> = (0..40)
        .map(|value| Event { op: upsert(value), outcome: Replaced(None), start: 0, end: 9, thread: value })
        .collect();
    events.push(Event { op: Get(1), outcome: Found(99), start: 10, end: 11, thread: 0 });
    let model = Model { initial: [(1, 7)].into() };
    let checker = checker::Checker::new(&model).budget(10_000);
    assert!(matches!(checker.check(&events), Err(Failure::Undecided { explored: 10_000, .. })));
    events.pop();
    assert!(checker.check(&events).is_ok(), "an order is found long before the budget ends");
}
