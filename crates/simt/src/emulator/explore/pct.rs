//! Probabilistic concurrency testing: strict random priorities with a few points of change.
//!
//! Two deviations from the paper. The length of a run is not known beforehand, so each point of change is drawn from
//! `1..2^e` with a random `e`: short and long runs get their share. And priorities alone would starve the lane that a spinning lane waits for: who
//! spins drops to the lowest priority, and so does, every [`PERIOD`] steps, whoever runs.
use super::random::below;
use super::scheduler::{Runnable, Scheduler};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// Steps after which the running lane drops, whatever it does.
const PERIOD: u64 = 2048;
/// Points of change lie before step `2^LONGEST`.
const LONGEST: u32 = 16;

/// The policy.
pub struct Pct {
    generator: ChaCha8Rng,
    changes: Vec<u64>,
    /// By lane; lanes get theirs when they are first seen.
    priorities: Vec<Option<i64>>,
    lowest: i64,
    step: u64,
}

impl Pct {
    pub fn new(mut generator: ChaCha8Rng, depth: u32) -> Self {
        let changes = (1..depth.max(1)).map(|_| change_point(&mut generator)).collect();
        Self { generator, changes, priorities: Vec::new(), lowest: 0, step: 0 }
    }

    fn priority(&mut self, lane: u32) -> i64 {
        let lane = lane as usize;
        if self.priorities.len() <= lane {
            self.priorities.resize(lane + 1, None);
        }
        *self.priorities[lane].get_or_insert_with(|| (self.generator.next_u64() >> 2) as i64)
    }

    fn drop_to_lowest(&mut self, lane: u32) {
        self.priority(lane);
        self.lowest -= 1;
        self.priorities[lane as usize] = Some(self.lowest);
    }
}

fn change_point(generator: &mut ChaCha8Rng) -> u64 {
    let exponent = 2 + below(generator, LONGEST - 1);
    u64::from(below(generator, 1 << exponent))
}

impl Scheduler for Pct {
    fn next(&mut self, runnable: &Runnable, current: Option<u32>) -> Option<u32> {
        self.step += 1;
        if let Some(lane) = current
            && (self.step.is_multiple_of(PERIOD) || self.changes.contains(&self.step))
        {
            self.drop_to_lowest(lane);
        }
        runnable.lanes().iter().copied().max_by_key(|&lane| (self.priority(lane), lane))
    }

    fn choose(&mut self, options: u32) -> Option<u32> {
        Some(below(&mut self.generator, options))
    }

    fn spins(&mut self, lane: u32) {
        self.drop_to_lowest(lane);
    }
}
