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
use std::collections::BinaryHeap;

/// Steps after which the running lane drops to the lowest priority.
const PERIOD: u64 = 2048;
/// Steps of the first span.
const FIRST_SPAN: u32 = 4;

/// Scheduler with random priorities.
#[derive(Debug)]
pub struct Pct {
    generator: ChaCha8Rng,
    depth: u32,
    /// Change points in the current span, which ends before step `end`.
    changes: Vec<u64>,
    end: u64,
    priorities: Vec<Priority>,
    lowest: i64,
    step: u64,
    /// Lanes that have become runnable since the last choice, in order.
    woken: Vec<u32>,
    /// Every runnable lane, after `woken` has been added, with its priority; also outdated entries.
    queue: BinaryHeap<(i64, u32)>,
}

/// Priority of a lane.
#[derive(Clone, Copy, Debug, Default)]
struct Priority {
    /// Assigned when the lane is first seen.
    value: Option<i64>,
    /// Whether the queue has the lane with this value.
    queued: bool,
}

impl Pct {
    pub fn new(generator: ChaCha8Rng, depth: u32) -> Self {
        Self {
            generator,
            depth: depth.max(1),
            changes: Vec::new(),
            end: 0,
            priorities: Vec::new(),
            lowest: 0,
            step: 0,
            woken: Vec::new(),
            queue: BinaryHeap::new(),
        }
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

    /// Returns the lane's priority.
    fn priority(&mut self, lane: u32) -> &mut Priority {
        let lane = lane as usize;
        if self.priorities.len() <= lane {
            self.priorities.resize(lane + 1, Priority::default());
        }
        &mut self.priorities[lane]
    }

    /// Adds a lane to the queue, unless it is there.
    fn enqueue(&mut self, lane: u32) {
        if self.priority(lane).value.is_none() {
            self.priority(lane).value = Some((self.generator.next_u64() >> 2) as i64);
        }
        let priority = self.priority(lane);
        if let Some(value) = priority.value.filter(|_| !priority.queued) {
            priority.queued = true;
            self.queue.push((value, lane));
        }
    }

    fn drop_to_lowest(&mut self, lane: u32) {
        self.lowest -= 1;
        let lowest = self.lowest;
        *self.priority(lane) = Priority { value: Some(lowest), queued: false };
        self.enqueue(lane);
    }

    /// Returns the runnable lane of the highest priority. Removes the entries above it: those of lanes that
    /// wait, or whose priority has changed.
    fn highest(&mut self, runnable: &Runnable) -> Option<u32> {
        while let Some(&(value, lane)) = self.queue.peek() {
            let priority = self.priority(lane);
            let is_current = priority.value == Some(value);
            if is_current && runnable.contains(lane) {
                return Some(lane);
            }
            priority.queued &= !is_current;
            self.queue.pop();
        }
        None
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
        let mut woken = std::mem::take(&mut self.woken);
        woken.drain(..).for_each(|lane| self.enqueue(lane));
        self.woken = woken;
        self.highest(runnable)
    }

    fn choose(&mut self, options: u32) -> Option<u32> {
        Some(below(&mut self.generator, options))
    }

    fn wakes(&mut self, lane: u32) {
        self.woken.push(lane);
    }

    fn spins(&mut self, lane: u32) {
        self.drop_to_lowest(lane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn the_runnable_lane_of_the_highest_priority_is_next() {
        const LANES: u32 = 20;
        let (mut random, mut runnable) = (ChaCha8Rng::seed_from_u64(1), Runnable::default());
        let mut scheduler = Pct::new(ChaCha8Rng::seed_from_u64(2), 10);
        let mut current = None;
        for _ in 0..10 * PERIOD {
            let lane = below(&mut random, LANES);
            match current.filter(|_| below(&mut random, 3) == 0) {
                Some(waits) => runnable.remove(waits),
                None if !runnable.contains(lane) => {
                    runnable.insert(lane);
                    scheduler.wakes(lane);
                }
                None => {}
            }
            if let Some(spins) = current.filter(|_| below(&mut random, 50) == 0) {
                scheduler.spins(spins);
            }
            let next = scheduler.next(&runnable, current);
            let values = |&lane: &u32| (scheduler.priorities[lane as usize].value, lane);
            assert_eq!(next, runnable.lanes().iter().copied().max_by_key(values));
            current = next;
        }
        assert!(scheduler.lowest < -100 && scheduler.queue.len() < 3 * LANES as usize, "{scheduler:?}");
    }
}
