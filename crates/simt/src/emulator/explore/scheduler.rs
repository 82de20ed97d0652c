//! The interface of scheduling policies, and the runnable lanes that they pick from.

/// A scheduling policy: picks the next lane, and one of several values.
pub trait Scheduler {
    /// Picks the next lane, one of `runnable` (which is not empty). Returns `None` if the schedule does not
    /// fit the program.
    fn next(&mut self, runnable: &Runnable, current: Option<u32>) -> Option<u32>;

    /// Picks one of `0..options`. Returns `None` if the schedule does not fit the program.
    fn choose(&mut self, options: u32) -> Option<u32>;

    /// Notes that the lane has become runnable.
    fn wakes(&mut self, _lane: u32) {}

    /// Notes that the lane only waits for others.
    fn spins(&mut self, _lane: u32) {}
}

/// The runnable lanes, in an order that depends only on the run.
#[derive(Debug, Default)]
pub struct Runnable {
    lanes: Vec<u32>,
    /// Index of each lane in `lanes`, or `ABSENT`.
    places: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;

impl Runnable {
    pub fn lanes(&self) -> &[u32] {
        &self.lanes
    }

    pub fn contains(&self, lane: u32) -> bool {
        self.places.get(lane as usize).is_some_and(|&place| place != ABSENT)
    }

    pub fn insert(&mut self, lane: u32) {
        if self.places.len() <= lane as usize {
            self.places.resize(lane as usize + 1, ABSENT);
        }
        if !self.contains(lane) {
            self.places[lane as usize] = self.lanes.len() as u32;
            self.lanes.push(lane);
        }
    }

    pub fn remove(&mut self, lane: u32) {
        if self.contains(lane) {
            let place = std::mem::replace(&mut self.places[lane as usize], ABSENT) as usize;
            self.lanes.swap_remove(place);
            if let Some(&moved) = self.lanes.get(place) {
                self.places[moved as usize] = place as u32;
            }
        }
    }
}
