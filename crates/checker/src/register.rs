//! The search for an order of operations whose effects are known: each needs one state or a kind of states,
//! and leaves one state or the same ([`Effect`]).
//!
//! The search is that of [`crate::search`]: a configuration is a position in the timeline, the set of open
//! operations that have taken effect, and the state; some operation must take effect at the return of one
//! that has not. What each operation needs of the state permits four shortcuts. Gibbons and Korach ("Testing
//! shared memories", 1997) prove the case of a register whose written values are distinct.
//!
//! A state is *wanted* while an operation that needs exactly this state has not taken effect. It is *unique*
//! if at most one operation leaves it, or it is the first state and none does.
//!
//! 1. States of one kind that are not wanted are equivalent, so a configuration holds only the kind (it is
//!    *free*).
//! 2. A unique state that is wanted is not left, except by the last operation that wants it: the state never
//!    returns. If this operation keeps the kind, it takes effect as soon as it is the last.
//! 3. In a free state, an operation that needs only the kind and leaves the same kind takes effect at once,
//!    with all that want the states it leads to, if all these have been called (a *segment* that ends free).
//!    It can be moved here from its point in any order found later: the operation behind it there needs only
//!    the kind. Otherwise it waits until one of its segment's operations returns.
//! 4. Of segments that lead from a free state to a free one of another kind, only the one with the earliest
//!    return is tried. In any order found later, the two can be exchanged.
use crate::model::{Effect, Needs};
use crate::search::{Budget, Mask, Outcome, Used};
use crate::timeline::{Point, Timeline};
use crate::{EventOf, Model};
use std::collections::{HashMap, HashSet};

/// Index of a state.
type State = usize;

/// An operation.
struct Op {
    /// The state that it needs; `Err` with the kind if any of a kind suffices.
    needs: Result<State, u32>,
    leaves: Option<State>,
}

/// Properties of a state.
struct About {
    kind: u32,
    /// Number of operations that leave it, and one more if it is the first state.
    sources: usize,
    /// Operations that need exactly this state, by return.
    users: Vec<usize>,
}

/// The operations on a part, if all of their effects are known.
pub struct Register<'a> {
    timeline: &'a Timeline,
    ops: Vec<Op>,
    states: Vec<About>,
}

/// Current state of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// This state.
    State(State),
    /// Any of this kind that no operation wants.
    Free(u32),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Configuration {
    position: usize,
    done: Mask,
    at: At,
}

/// Operations that take effect together, and the state that they lead to.
struct Segment {
    ops: Vec<usize>,
    end: At,
    /// Whether it is known that no other operation has to come before the end is left: it ends free, or in a
    /// state that only an operation of another kind still wants.
    complete: bool,
    /// Operations that have been called and want the end.
    waiting: Vec<usize>,
}

/// Collects the states of a part's operations.
struct Interner<'a, M: Model> {
    model: &'a M,
    indices: HashMap<M::State, State>,
    states: Vec<About>,
}

impl<M: Model> Interner<'_, M> {
    fn index(&mut self, state: M::State) -> State {
        let kind = self.model.kind(&state);
        let next = self.states.len();
        let index = *self.indices.entry(state).or_insert(next);
        if index == next {
            self.states.push(About { kind, sources: 0, users: Vec::new() });
        }
        index
    }

    fn op(&mut self, effect: Effect<M::State>) -> Op {
        let needs = match effect.needs {
            Needs::State(state) => Ok(self.index(state)),
            Needs::Kind(kind) => Err(kind),
        };
        let leaves = effect.leaves.map(|state| self.index(state));
        leaves.iter().for_each(|&state| self.states[state].sources += 1);
        Op { needs, leaves }
    }
}

impl<'a> Register<'a> {
    /// Returns the operations of a part, whose first state has index 0; `None` if the effect of one is not
    /// known.
    pub fn new<M: Model>(
        model: &M,
        events: &[&EventOf<M>],
        timeline: &'a Timeline,
        first: M::State,
    ) -> Option<Self> {
        let mut interner = Interner { model, indices: HashMap::new(), states: Vec::new() };
        let first = interner.index(first);
        interner.states[first].sources = 1;
        let mut ops = Vec::with_capacity(events.len());
        for event in events {
            ops.push(interner.op(model.effect(&event.op, &event.outcome)?));
        }
        let mut states = interner.states;
        let mut by_return: Vec<_> = (0..ops.len()).collect();
        by_return.sort_unstable_by_key(|&op| timeline.returns[op]);
        for op in by_return {
            ops[op].needs.iter().for_each(|&state| states[state].users.push(op));
        }
        Some(Self { timeline, ops, states })
    }

    /// Searches for an order of all operations.
    pub fn run(&self, budget: Budget) -> Outcome {
        let (mut explored, mut used) = (HashSet::new(), Used::default());
        let mut stack = vec![Configuration { position: 0, done: Mask::default(), at: At::State(0) }];
        let mut furthest = 0;
        while let Some(mut at) = stack.pop() {
            let Some(returning) = self.advance(&mut at) else { return Outcome::Explained };
            furthest = furthest.max(at.position);
            if explored.contains(&at) {
                continue;
            }
            let bytes = size_of_val(&at) + at.done.size_in_bytes();
            if !used.count(bytes, stack.len(), budget) {
                return Outcome::OutOfBudget(explored.len());
            }
            self.branch(&at, returning, &mut stack);
            explored.insert(at);
        }
        Outcome::Stuck(furthest)
    }

    /// Advances to the next return whose operation has not taken effect and cannot at once. Returns `None` at
    /// the end.
    fn advance(&self, at: &mut Configuration) -> Option<usize> {
        while let Some(point) = self.timeline.points.get(at.position) {
            if let Point::Return(op) = *point {
                if !self.is_done(at, op) {
                    self.settle(at);
                }
                if !self.is_done(at, op) {
                    return Some(op);
                }
                at.done.remove(self.timeline.slot[op]);
            }
            at.position += 1;
        }
        None
    }

    fn is_called(&self, at: &Configuration, op: usize) -> bool {
        self.timeline.calls[op] < at.position
    }

    /// Returns `true` if the operation, which has not returned, has taken effect.
    fn is_done(&self, at: &Configuration, op: usize) -> bool {
        self.is_called(at, op) && at.done.has(self.timeline.slot[op])
    }

    /// Returns the operations that want a state, those that have not been called included.
    fn wanting(&self, at: &Configuration, state: State) -> impl Iterator<Item = usize> {
        let users = &self.states[state].users;
        let first = users.partition_point(|&op| self.timeline.returns[op] < at.position);
        users[first..].iter().copied().filter(|&op| !self.is_done(at, op))
    }

    /// Returns the operations that have been called and have not taken effect.
    fn open(&self, at: &Configuration) -> Vec<usize> {
        self.timeline.open_at(at.position).filter(|&op| !self.is_done(at, op)).collect()
    }

    fn is_unique(&self, state: State) -> bool {
        self.states[state].sources <= 1
    }

    fn kind(&self, at: At) -> u32 {
        match at {
            At::State(state) => self.states[state].kind,
            At::Free(kind) => kind,
        }
    }

    fn is_enabled(&self, at: At, op: usize) -> bool {
        match self.ops[op].needs {
            Ok(state) => at == At::State(state),
            Err(kind) => self.kind(at) == kind,
        }
    }

    fn take(&self, at: &mut Configuration, op: usize) {
        at.done.insert(self.timeline.slot[op]);
        if let Some(state) = self.ops[op].leaves {
            at.at = At::State(state);
        }
    }

    /// Lets the operations take effect that may do so at once.
    fn settle(&self, at: &mut Configuration) {
        loop {
            for op in self.open(at) {
                if self.ops[op].leaves.is_none() && self.is_enabled(at.at, op) {
                    self.take(at, op);
                }
            }
            let now = at.at;
            match now {
                At::State(state) if self.leave(at, state) => {}
                At::State(_) => return,
                At::Free(kind) => return self.take_closed_segments(at, kind),
            }
        }
    }

    /// Leaves a state that is not wanted, or only by one operation, which keeps the kind. Returns `true` if
    /// this changes the configuration.
    fn leave(&self, at: &mut Configuration, state: State) -> bool {
        let kind = self.states[state].kind;
        let wanting: Vec<_> = self.wanting(at, state).take(2).collect();
        match wanting[..] {
            [] => at.at = At::Free(kind),
            [last] if self.is_unique(state) && self.is_called(at, last) && self.keeps(kind, last) => {
                self.take(at, last);
            }
            _ => return false,
        }
        true
    }

    /// Returns `true` if the operation leaves a state of this kind.
    fn keeps(&self, kind: u32, op: usize) -> bool {
        self.ops[op].leaves.is_some_and(|to| self.states[to].kind == kind)
    }

    /// Lets complete segments that keep the kind take effect in a free state.
    fn take_closed_segments(&self, at: &mut Configuration, kind: u32) {
        for op in self.open(at) {
            if self.is_done(at, op) || !self.starts(kind, op) {
                continue;
            }
            if let Some(segment) = self.segment(at, op).filter(|segment| segment.end == At::Free(kind)) {
                segment.ops.iter().for_each(|&op| at.done.insert(self.timeline.slot[op]));
            }
        }
    }

    /// Returns `true` if the operation needs only the kind, and leaves a state.
    fn starts(&self, kind: u32, op: usize) -> bool {
        self.ops[op].needs == Err(kind) && self.ops[op].leaves.is_some()
    }

    /// Returns the segment that an operation starts; `None` if it cannot be completed, since several
    /// operations have to leave a unique state.
    fn segment(&self, at: &Configuration, start: usize) -> Option<Segment> {
        let mut segment = Segment { ops: vec![], end: At::Free(0), complete: false, waiting: vec![] };
        let mut next = Some(start);
        while let Some(op) = next.take() {
            segment.ops.push(op);
            let state = self.ops[op].leaves?;
            segment.end = At::State(state);
            let wanting: Vec<_> = self.wanting(at, state).filter(|op| !segment.ops.contains(op)).collect();
            if wanting.is_empty() {
                (segment.end, segment.complete) = (At::Free(self.states[state].kind), true);
                return Some(segment);
            }
            if !self.is_unique(state) || !wanting.iter().all(|&op| self.is_called(at, op)) {
                segment.waiting = wanting.into_iter().filter(|&op| self.is_called(at, op)).collect();
                return Some(segment);
            }
            next = self.pass(&mut segment, state, &wanting)?;
        }
        Some(segment)
    }

    /// Passes a unique state in a segment, whose users have all been called. Returns the operation that
    /// leaves it for one of the same kind, if any; or `None` in place of the option if several have to.
    #[allow(clippy::option_option)] // the outer one is for `?`
    fn pass(&self, segment: &mut Segment, state: State, wanting: &[usize]) -> Option<Option<usize>> {
        let kind = self.states[state].kind;
        let (leaving, observing): (Vec<usize>, Vec<usize>) =
            wanting.iter().partition(|&&op| self.ops[op].leaves.is_some());
        segment.ops.extend(observing);
        segment.complete = true;
        match leaving[..] {
            [] => segment.end = At::Free(kind),
            [last] if self.keeps(kind, last) => return Some(Some(last)),
            [last] => segment.waiting = vec![last],
            _ => return None,
        }
        Some(None)
    }

    /// Pushes the successors of a configuration in which an operation returns. The one in which this
    /// operation takes effect goes on top.
    fn branch(&self, at: &Configuration, returning: usize, stack: &mut Vec<Configuration>) {
        match at.at {
            At::State(state) if self.is_unique(state) => {
                let wanting: Vec<_> = self.wanting(at, state).take(2).collect();
                if let [last] = wanting[..]
                    && self.is_called(at, last)
                {
                    stack.push(self.after(at, &[last], None));
                }
            }
            At::State(_) => {
                let leaving = |&op: &usize| self.ops[op].leaves.is_some() && self.is_enabled(at.at, op);
                let mut leaving: Vec<_> = self.open(at).into_iter().filter(leaving).collect();
                leaving.sort_unstable_by_key(|&op| std::cmp::Reverse(self.timeline.returns[op]));
                stack.extend(leaving.into_iter().map(|op| self.after(at, &[op], None)));
            }
            At::Free(kind) => self.branch_free(at, kind, returning, stack),
        }
    }

    fn branch_free(&self, at: &Configuration, kind: u32, returning: usize, stack: &mut Vec<Configuration>) {
        let starts = self.open(at).into_iter().filter(|&op| self.starts(kind, op));
        let mut segments: Vec<_> = starts.filter_map(|op| self.segment(at, op)).collect();
        let deadline = |segment: &Segment| segment.ops.iter().map(|&op| self.timeline.returns[op]).min();
        segments.sort_by_key(|segment| std::cmp::Reverse(deadline(segment)));
        let mut earliest = HashMap::new();
        for (i, segment) in segments.iter().enumerate() {
            if let At::Free(to) = segment.end {
                earliest.insert(to, i);
            }
        }
        for (i, segment) in segments.iter().enumerate() {
            let is_tried = match segment.end {
                At::Free(to) => earliest.get(&to) == Some(&i),
                At::State(state) => {
                    let has_returning =
                        segment.ops.contains(&returning) || segment.waiting.contains(&returning);
                    segment.complete
                        || has_returning
                        || !self.is_unique(state)
                        || self.states[state].kind != kind
                }
            };
            if is_tried {
                stack.push(self.after(at, &segment.ops, Some(segment.end)));
            }
        }
    }

    /// Returns the configuration after operations have taken effect.
    fn after(&self, at: &Configuration, ops: &[usize], end: Option<At>) -> Configuration {
        let mut next = at.clone();
        ops.iter().for_each(|&op| self.take(&mut next, op));
        next.at = end.unwrap_or(next.at);
        next
    }
}
