//! Probabilistic concurrency testing: strict random priorities with a few points of change.
//!
//! Two deviations from the paper. The length of a run is not known beforehand, so the points of change are
//! drawn anew for each span of steps, and each span is as long as all before it: the last one, half of the
//! run, has as many points as the paper gives to the whole. And priorities alone would starve the lane that a
//! spinning lane waits for: who spins drops to the lowest priority, and so does, every [`PERIOD`] steps,
//! whoever runs.
use super::random::below;
use super::scheduler::{Runnable, Scheduler};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// Steps after which the running lane drops, whatever it does.
const PERIOD: u64 = 2048;
/// Steps of the first span.
const FIRST_SPAN: u32 = 4;

/// The policy.
pub struct Pct {
    generator: ChaCha8Rng,
    depth: u32,
    /// The points of change in the current span, which ends before step `end`.
    changes: Vec<u64>,
    end: u64,
    /// By lane; lanes get theirs when they are first seen.
    priorities: Vec<Option<i64>>,
    lowest: i64,
    step: u64,
}

impl Pct {
    pub fn new(generator: ChaCha8Rng, depth: u32) -> Self {
        let depth = depth.max(1);
        Self { generator, depth, changes: Vec::new(), end: 0, priorities: Vec::new(), lowest: 0, step: 0 }
    }

    /// Draws the points of change of the span that begins with this step.
    fn begin_span(&mut self) {
        let length = self.step.clamp(FIRST_SPAN.into(), u32::MAX.into()) as u32;
        self.end = self.step + u64::from(length);
        self.changes.clear();
        for _ in 1..self.depth {
            self.changes.push(self.step + u64::from(below(&mut self.generator, length)));
        }
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

impl Scheduler for Pct {
    fn next(&mut self, runnable: &Runnable, current: Option<u32>) -> Option<u32> {
        if self.step == self.end {
            self.begin_span();
        }
        self.step += 1;
        if let Some(lane) = current
            && (self.step.is_multiple_of(PERIOD) || self.changes.contains(&(self.step - 1)))
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
