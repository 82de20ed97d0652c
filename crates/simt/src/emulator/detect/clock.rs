//! Vector clocks: for each lane, up to which of its epochs its past is known; and views, for weak memory: for
//! each place, the newest write that is known.
use std::rc::Rc;

/// Counters by index, zero where none was set. Clones share their memory until one of them changes.
#[derive(Clone, Debug, Default)]
struct Counters(Rc<Vec<u32>>);

impl Counters {
    fn get(&self, index: usize) -> u32 {
        self.0.get(index).copied().unwrap_or(0)
    }

    fn set(&mut self, index: usize, count: u32) {
        let counts = Rc::make_mut(&mut self.0);
        if counts.len() <= index {
            counts.resize(index + 1, 0);
        }
        counts[index] = count;
    }

    /// Raises each counter to that of `other`.
    fn join(&mut self, other: &Self) {
        if Rc::ptr_eq(&self.0, &other.0) || other.0.is_empty() {
            return;
        }
        if self.0.is_empty() {
            *self = other.clone();
            return;
        }
        let counts = Rc::make_mut(&mut self.0);
        if counts.len() < other.0.len() {
            counts.resize(other.0.len(), 0);
        }
        for (mine, theirs) in counts.iter_mut().zip(other.0.iter()) {
            *mine = (*mine).max(*theirs);
        }
    }
}

/// For each place of memory, the time of the newest write that is known.
#[derive(Clone, Debug, Default)]
pub struct View(Counters);

impl View {
    /// The time of the newest write of `place` that is known; 0 where none is.
    pub fn get(&self, place: usize) -> u32 {
        self.0.get(place)
    }

    /// Knows the write of `place` that was made at `time`, and all before it.
    pub fn raise(&mut self, place: usize, time: u32) {
        if self.get(place) < time {
            self.0.set(place, time);
        }
    }

    /// Knows also what `other` knows.
    pub fn join(&mut self, other: &Self) {
        self.0.join(&other.0);
    }
}

/// A vector clock, and the view that goes with it: whoever learns of lanes' epochs learns of their writes.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    epochs: Counters,
    /// Empty unless memory is weak.
    pub view: View,
}

impl Clock {
    pub fn get(&self, lane: u32) -> u32 {
        self.epochs.get(lane as usize)
    }

    pub fn set(&mut self, lane: u32, epoch: u32) {
        self.epochs.set(lane as usize, epoch);
    }

    /// Knows also what `other` knows.
    pub fn join(&mut self, other: &Self) {
        self.epochs.join(&other.epochs);
        self.view.join(&other.view);
    }
}

/// Joins a clock that may not be there yet.
pub fn join(into: &mut Option<Clock>, other: &Clock) {
    match into {
        Some(clock) => clock.join(other),
        None => *into = Some(other.clone()),
    }
}
