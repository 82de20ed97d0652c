//! Vector clocks: for each lane, up to which of its epochs its past is known.
use std::rc::Rc;

/// A vector clock. Clones share their memory until one of them changes.
#[derive(Clone, Debug, Default)]
pub struct Clock(Rc<Vec<u32>>);

impl Clock {
    pub fn get(&self, lane: u32) -> u32 {
        self.0.get(lane as usize).copied().unwrap_or(0)
    }

    pub fn set(&mut self, lane: u32, epoch: u32) {
        let epochs = Rc::make_mut(&mut self.0);
        if epochs.len() <= lane as usize {
            epochs.resize(lane as usize + 1, 0);
        }
        epochs[lane as usize] = epoch;
    }

    /// Knows also what `other` knows.
    pub fn join(&mut self, other: &Self) {
        if Rc::ptr_eq(&self.0, &other.0) || other.0.is_empty() {
            return;
        }
        if self.0.is_empty() {
            *self = other.clone();
            return;
        }
        let epochs = Rc::make_mut(&mut self.0);
        if epochs.len() < other.0.len() {
            epochs.resize(other.0.len(), 0);
        }
        for (mine, theirs) in epochs.iter_mut().zip(other.0.iter()) {
            *mine = (*mine).max(*theirs);
        }
    }
}

/// Joins a clock that may not be there yet.
pub fn join(into: &mut Option<Clock>, other: &Clock) {
    match into {
        Some(clock) => clock.join(other),
        None => *into = Some(other.clone()),
    }
}
