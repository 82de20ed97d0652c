//! The calls and returns of a part's events in time order, and the operations open between them.
use crate::Event;

/// A call or a return, by the index of its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    Call(usize),
    Return(usize),
}

/// All calls and returns. Each open operation occupies a slot. Slots are reused, so their number is the
/// maximum overlap.
pub struct Timeline {
    pub points: Vec<Point>,
    /// Slot of each event.
    pub slot: Vec<usize>,
    /// Position of each event's call.
    pub calls: Vec<usize>,
    /// Position of each event's return.
    pub returns: Vec<usize>,
    /// Per slot, the events that occupy it and the positions where each starts, ascending.
    occupants: Vec<Vec<(usize, usize)>>,
}

impl Timeline {
    pub fn new<O, R>(events: &[&Event<O, R>]) -> Self {
        let mut order: Vec<_> = (0..events.len())
            .flat_map(|event| [(events[event].start, false, event), (events[event].end, true, event)])
            .collect();
        // At equal times calls come before returns: equal times count as overlap.
        order.sort_unstable();
        let mut timeline = Self {
            points: Vec::with_capacity(order.len()),
            slot: vec![0; events.len()],
            calls: vec![0; events.len()],
            returns: vec![0; events.len()],
            occupants: Vec::new(),
        };
        let mut free = Vec::new();
        order.into_iter().for_each(|(_, returns, event)| timeline.push(returns, event, &mut free));
        timeline
    }

    fn push(&mut self, returns: bool, event: usize, free: &mut Vec<usize>) {
        let position = self.points.len();
        if returns {
            self.points.push(Point::Return(event));
            self.returns[event] = position;
            free.push(self.slot[event]);
            return;
        }
        self.points.push(Point::Call(event));
        self.calls[event] = position;
        let slot = free.pop().unwrap_or(self.occupants.len());
        if slot == self.occupants.len() {
            self.occupants.push(Vec::new());
        }
        self.slot[event] = slot;
        self.occupants[slot].push((position, event));
    }

    /// Returns the events open at `position` (called before it and not returned before it), by slot.
    pub fn open_at(&self, position: usize) -> impl Iterator<Item = usize> {
        self.occupants.iter().filter_map(move |occupants| {
            let after = occupants.partition_point(|&(called, _)| called < position);
            let (_, event) = *occupants.get(after.checked_sub(1)?)?;
            (self.returns[event] >= position).then_some(event)
        })
    }

    /// Returns the maximum number of operations open at one time.
    pub fn overlap(&self) -> usize {
        self.occupants.len()
    }

    /// Returns the positions before which no operation is open, ascending, up to and including `last`; 0 is
    /// the first.
    pub fn cuts(&self, last: usize) -> Vec<usize> {
        let mut open = 0usize;
        let mut cuts = Vec::new();
        for (position, point) in self.points[..=last].iter().enumerate() {
            if open == 0 {
                cuts.push(position);
            }
            match point {
                Point::Call(_) => open += 1,
                Point::Return(_) => open -= 1,
            }
        }
        cuts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(intervals: &[(u64, u64)]) -> Timeline {
        let events: Vec<_> = intervals
            .iter()
            .map(|&(start, end)| Event { op: (), outcome: (), start, end, thread: 0 })
            .collect();
        Timeline::new(&events.iter().collect::<Vec<_>>())
    }

    #[test]
    fn equal_times_overlap() {
        let timeline = timeline(&[(0, 1), (1, 2)]);
        assert_eq!(timeline.points, [Point::Call(0), Point::Call(1), Point::Return(0), Point::Return(1)]);
        assert_eq!(timeline.cuts(3), [0]);
    }

    #[test]
    fn slots_are_reused_and_know_who_is_open() {
        let timeline = timeline(&[(0, 3), (1, 2), (4, 6), (5, 7)]);
        assert_eq!(timeline.occupants.len(), 2);
        let open = |position| {
            let mut open: Vec<_> = timeline.open_at(position).collect();
            open.sort_unstable();
            open
        };
        assert_eq!(open(0), []);
        assert_eq!(open(2), [0, 1]);
        assert_eq!(open(3), [0]);
        assert_eq!(open(4), []);
        assert_eq!(open(6), [2, 3]);
        assert_eq!(timeline.cuts(7), [0, 4]);
    }
}
