//! A timer queue: events by time, taken from the front while others are added and cancelled.
use phalanx::{Outcome, SkipList};

/// Key of an event: its time, and a number that makes it unique.
fn key(time: u32, number: u32) -> u64 {
    u64::from(time) << 32 | u64::from(number)
}

fn main() -> Result<(), phalanx::Error> {
    let timers = SkipList::<u64, u32>::with_capacity(1000)?;
    // 600 tasks are due at times 0 to 99, in no order.
    let keys: Vec<u64> = (0..600).map(|task| key(task * 37 % 100, task)).collect();
    let tasks: Vec<u32> = (0..600).collect();
    assert!(!timers.insert(&keys, &tasks)?.contains(&Outcome::Refused));
    assert_eq!(timers.remove(&[key(37, 1), key(37, 2)])?, [true, false]); // cancels task 1

    let mut ran = 0;
    for now in (9..100).step_by(10) {
        let due = timers.range(&[..key(now + 1, 0)])?.remove(0);
        assert!(due.is_sorted());
        let (times, tasks): (Vec<u64>, Vec<u32>) = due.into_iter().unzip();
        assert!(timers.remove(&times)?.iter().all(|&removed| removed));
        // Task 0 is periodic: it is due again after 40 units of time.
        if tasks.contains(&0) {
            assert_eq!(timers.insert(&[key(now + 40, 0)], &[0])?, [Outcome::Inserted]);
        }
        ran += tasks.len();
    }
    // All tasks but the cancelled one, and task 0 twice more.
    assert_eq!(ran, 601);
    let next = timers.first()?.map(|(key, task)| (key >> 32, task));
    assert_eq!(next, Some((129, 0)));
    println!("{ran} tasks ran; next: {next:?}");
    Ok(())
}
