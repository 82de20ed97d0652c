//! Vector clocks hold, per lane, the latest epoch known of it. Views, for weak memory, hold per granule the
//! newest write known.
use std::rc::Rc;

/// Counters by index, zero if unset. Clones share their memory until one of them changes.
#[derive(Clone, Debug, Default)]
struct Counters<T>(Rc<Vec<T>>);

impl<T: Copy + Default + Ord> Counters<T> {
    fn get(&self, index: usize) -> T {
        self.0.get(index).copied().unwrap_or_default()
    }

    fn set(&mut self, index: usize, count: T) {
        let counts = Rc::make_mut(&mut self.0);
        if counts.len() <= index {
            counts.resize(index + 1, T::default());
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
            counts.resize(other.0.len(), T::default());
        }
        for (mine, theirs) in counts.iter_mut().zip(other.0.iter()) {
            *mine = (*mine).max(*theirs);
        }
    }
}

/// Position of a write in the modification orders of its granules (see [`super::versions`]).
pub type Time = u64;

/// Per granule of memory, the time of the newest write known.
#[derive(Clone, Debug, Default)]
pub struct View(Counters<Time>);

impl View {
    /// Returns the time of the newest known write of `place`; 0 if none is known.
    pub fn get(&self, place: usize) -> Time {
        self.0.get(place)
    }

    /// Records that the write of `place` at `time`, and all its earlier writes, are known.
    pub fn set_at_least(&mut self, place: usize, time: Time) {
        if self.get(place) < time {
            self.0.set(place, time);
        }
    }

    /// Adds the knowledge of `other`.
    pub fn join(&mut self, other: &Self) {
        self.0.join(&other.0);
    }
}

/// A vector clock and its view: knowledge of a lane's epochs includes knowledge of its writes.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    epochs: Counters<u32>,
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

    /// Adds the knowledge of `other`.
    pub fn join(&mut self, other: &Self) {
        self.epochs.join(&other.epochs);
        self.view.join(&other.view);
    }
}

/// Joins `other` into a clock that may be absent.
pub fn join(into: &mut Option<Clock>, other: &Clock) {
    match into {
        Some(clock) => clock.join(other),
        None => *into = Some(other.clone()),
    }
}
