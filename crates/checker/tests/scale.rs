//! Long histories with few overlaps per key take seconds; one wrong outcome among a million is detected.
use checker::{Event, Failure, MapModel, MapOp, MapOutcome, check, map};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A simple random number generator for tests.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, range: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) * range) >> 31
    }
}

fn history(events: u64, keys: u64, spread: u64) -> Vec<Event<MapOp<u64, u64>, MapOutcome<u64>>> {
    let mut numbers = Numbers(1);
    let mut states = HashMap::new();
    (0..events)
        .map(|index| {
            let (key, value) = (numbers.below(keys), index);
            let op = match numbers.below(4) {
                0 => MapOp::Insert(key, value),
                1 => MapOp::InsertNew(key, value),
                2 => MapOp::Remove(key),
                _ => MapOp::Get(key),
            };
            let state = states.entry(key).or_insert(None);
            let (outcome, after) = map::answer(state, &op);
            *state = after;
            let instant = spread + index * 10;
            let (start, end) = (instant - numbers.below(spread), instant + numbers.below(spread));
            Event { op, outcome, start, end, thread: 0 }
        })
        .collect()
}

fn timed(
    events: &[Event<MapOp<u64, u64>, MapOutcome<u64>>],
) -> (Result<usize, Failure<MapModel<u64, u64>>>, Duration) {
    let start = Instant::now();
    (check(&MapModel::default(), events).map(|summary| summary.overlap), start.elapsed())
}

#[test]
fn a_million_events_on_many_keys() {
    let mut events = history(1_000_000, 100_000, 1_000_000);
    let (verdict, time) = timed(&events);
    assert!(matches!(verdict, Ok(2..=16)), "{verdict:?}");
    assert!(time < Duration::from_secs(60), "{time:?}");
    let wrong = events
        .iter()
        .position(|event| matches!(event.outcome, MapOutcome::Found(_)) && event.start > 5_000_000);
    events[wrong.unwrap()].outcome = MapOutcome::Found(u64::MAX);
    let Err(Failure::Violation(violation)) = timed(&events).0 else { panic!("the wrong answer was missed") };
    assert!(violation.events.len() <= 16, "{violation}");
}

#[test]
fn a_hundred_thousand_events_on_one_key() {
    let (verdict, time) = timed(&history(100_000, 1, 60));
    assert!(matches!(verdict, Ok(4..=16)), "{verdict:?}");
    assert!(time < Duration::from_secs(60), "{time:?}");
}
