//! Histories of one key in which many operations overlap are decided in at most a second, and the memory of
//! the check is bounded.
use checker::{Checker, Combine, Event, Failure, MapModel, MapOp, MapOutcome, check};
use std::time::{Duration, Instant};

type Model = MapModel<u32, u32>;
type History = Vec<Event<MapOp<u32, u32>, MapOutcome<u32>>>;

/// Number of overlapping writes.
const WRITES: u32 = 60;

fn event(
    op: MapOp<u32, u32>,
    outcome: MapOutcome<u32>,
    span: (u64, u64),
) -> Event<MapOp<u32, u32>, MapOutcome<u32>> {
    Event { op, outcome, start: span.0, end: span.1, thread: 0 }
}

/// Returns `true` if the history is linearizable, which takes at most a second to decide.
fn is_right(history: &History) -> bool {
    let (start, model) = (Instant::now(), Model { initial: [(1, 1_000)].into() });
    let verdict = check(&model, history);
    println!("{} operations, {} ms", history.len(), start.elapsed().as_millis());
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(!matches!(verdict, Err(Failure::Undecided { .. })), "{verdict:?}");
    verdict.is_ok()
}

fn blind_writes() -> History {
    let write = |value| event(MapOp::Insert(1, value), MapOutcome::Replaced(None), (0, 9));
    (0..WRITES).map(write).collect()
}

fn read(value: u32, span: (u64, u64)) -> Event<MapOp<u32, u32>, MapOutcome<u32>> {
    event(MapOp::Get(1), MapOutcome::Found(value), span)
}

#[test]
fn blind_writes_and_the_value_at_the_end() {
    let mut history = blind_writes();
    history.push(read(17, (10, 11)));
    assert!(is_right(&history));
    history.push(read(17, (12, 13)));
    assert!(is_right(&history));
    history.push(read(18, (14, 15)));
    assert!(!is_right(&history), "two last values");
    let mut history = blind_writes();
    history.push(read(WRITES, (10, 11)));
    assert!(!is_right(&history), "a value that nobody wrote");
    let mut history = blind_writes();
    history.push(read(1_000, (10, 11)));
    assert!(!is_right(&history), "the overwritten value");
}

#[test]
fn blind_writes_that_are_read_meanwhile() {
    let mut history = blind_writes();
    history.extend((0..WRITES).map(|value| read(value, (u64::from(value % 9), 9))));
    assert!(is_right(&history));
    // Values 0 and 1 are each read before and after a read of the other.
    let mut history = blind_writes();
    for (at, value) in [0, 1, 0].into_iter().enumerate() {
        history.push(read(value, (3 * at as u64, 3 * at as u64 + 1)));
    }
    assert!(!is_right(&history), "a value that comes back");
}

/// Each write reports the value that it replaced, in one chain whose order the times do not show.
#[test]
fn a_chain_of_exchanges() {
    let write = |value: u32| {
        let old = if value == 0 { 1_000 } else { value - 1 };
        event(MapOp::Insert(1, value), MapOutcome::Replaced(Some(old)), (0, 9))
    };
    let mut history: History = (0..WRITES).rev().map(write).collect();
    assert!(is_right(&history));
    history[5].outcome = MapOutcome::Replaced(Some(0));
    assert!(!is_right(&history), "two replaced the same value");
}

/// Every operation removes or inserts the key, all at the same time.
#[test]
fn inserts_and_removes() {
    let removes = (0..WRITES).map(|_| event(MapOp::Remove(1), MapOutcome::Removed(None), (0, 9)));
    let inserts = (0..WRITES).map(|value| event(MapOp::Insert(1, value), MapOutcome::Inserted, (0, 9)));
    let mut history: History = removes.chain(inserts).collect();
    assert!(is_right(&history));
    history.push(event(MapOp::Contains(1), MapOutcome::Present, (10, 11)));
    assert!(is_right(&history));
    history.push(event(MapOp::Contains(1), MapOutcome::Absent, (12, 13)));
    assert!(!is_right(&history), "one insert too many or too few");
}

/// The operations of several threads, of which each interval overlaps those of all others.
#[test]
fn a_long_history_of_many_threads() {
    const THREADS: u64 = 48;
    let mut history: History = (0..800u64)
        .map(|index| {
            let span = (index * 10, index * 10 + 10 * THREADS);
            event(MapOp::Insert(1, index as u32 + 2_000), MapOutcome::Replaced(None), span)
        })
        .collect();
    history.extend((0..400u64).map(|index| {
        let at = index * 20 + 10 * THREADS;
        read(2 * index as u32 + 2_000, (at - 5, at + 10 * THREADS))
    }));
    assert!(is_right(&history));
    let stale = read(2_000, (6_000, 6_001));
    history.push(stale);
    assert!(!is_right(&history), "a value from long before");
}

/// Upserts that report no old value are undecided: within the budget of configurations, or the memory.
#[test]
fn the_memory_is_bounded() {
    let upsert = |value| MapOp::Upsert(1, value, Combine::Add);
    let mut history: History =
        (0..40).map(|i| event(upsert(1 << (i % 30)), MapOutcome::Replaced(None), (0, 9))).collect();
    history.push(read(7, (10, 11)));
    let model = Model { initial: [(1, 7)].into() };
    let explored = |bytes| match Checker::new(&model).memory(bytes).check(&history) {
        Err(Failure::Undecided { explored, .. }) => explored,
        verdict => panic!("{verdict:?}"),
    };
    let (few, more) = (explored(1 << 20), explored(8 << 20));
    assert!((1_000..20_000).contains(&few), "{few}");
    assert!((6 * few..10 * few).contains(&more), "{few} {more}");
    let peak = peak_bytes();
    explored(64 << 20);
    assert!(peak_bytes() - peak < 64 << 20, "{} bytes", peak_bytes() - peak);
}

/// Returns the largest memory that the process has had so far, in bytes; 0 where the system does not tell.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok());
    kib.unwrap_or(0) << 10
}
