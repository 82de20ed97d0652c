//! Probabilistic concurrency testing: strict random priorities with a few change points.
//!
//! There are two deviations from the paper:
//!
//! 1. The length of a run is unknown in advance. Change points are therefore drawn per span of steps, and
//!    each span is as long as all spans before it. The last span, half of the run, has as many change points
//!    as the paper assigns to the whole run.
//! 2. Priorities alone would starve the lane that a spinning lane waits for. A lane that spins therefore
//!    drops to the lowest priority, and so does the running lane every [`PERIOD`] steps.
use super::random::below;
use super::scheduler::{Runnable, Scheduler};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// Steps after which the running lane drops to the lowest priority.
const PERIOD: u64 = 2048;
/// Steps of the first span.
const FIRST_SPAN: u32 = 4;

/// Scheduler with random priorities.
pub struct Pct {
    generator: ChaCha8Rng,
    depth: u32,
    /// Change points in the current span, which ends before step `end`.
    changes: Vec<u64>,
    end: u64,
    /// Priority by lane, assigned when the lane is first seen.
    priorities: Vec<Option<i64>>,
    lowest: i64,
    step: u64,
}

impl Pct {
    pub fn new(generator: ChaCha8Rng, depth: u32) -> Self {
        let depth = depth.max(1);
        Self { generator, depth, changes: Vec::new(), end: 0, priorities: Vec::new(), lowest: 0, step: 0 }
    }

    /// Draws the change points of the span that begins with this step.
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
