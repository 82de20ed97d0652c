//! Uniformly random scheduling.
use super::scheduler::{Runnable, Scheduler};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// Returns a random number below `range`.
pub fn below(generator: &mut ChaCha8Rng, range: u32) -> u32 {
    crate::hash::reduce(generator.next_u32(), range)
}

/// Scheduler that picks every runnable lane with the same probability.
pub struct Random(pub ChaCha8Rng);

impl Scheduler for Random {
    fn next(&mut self, runnable: &Runnable, _current: Option<u32>) -> Option<u32> {
        let lanes = runnable.lanes();
        Some(lanes[below(&mut self.0, lanes.len() as u32) as usize])
    }

    fn choose(&mut self, options: u32) -> Option<u32> {
        Some(below(&mut self.0, options))
    }
}
