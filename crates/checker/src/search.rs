//! The search for an order (Wing and Gong 1993, with Lowe's cache of configurations, 2017), for any model.
//! [`crate::register`] has more shortcuts for operations whose effects are known.
//!
//! The search proceeds along the calls and returns. A configuration consists of a position, the set of open
//! operations that have taken effect, and the state. At the return of an operation that has not taken effect,
//! some open operation must take effect. Each one that the model allows is tried, depth first; no
//! configuration is explored twice. Three measures keep the number of configurations small:
//!
//! 1. Returned operations are forgotten, so the cost depends on the overlap, not on the length of the
//!    history.
//! 2. An open operation that only observes, and may take effect, takes effect at once. This loses no
//!    solution: in any order found later, the operation can be moved to this point without any effect on
//!    others. (A write of the current value must wait: it leaves this state unchanged, but may change the
//!    state at its point in another order.)
//! 3. Of open operations with equal arguments and outcomes, only the one that returns first is tried, since
//!    they are interchangeable.
use crate::timeline::{Point, Timeline};
use crate::{EventOf, Model};
use std::collections::{HashMap, HashSet};

/// Set of slots whose operations have taken effect, 64 per word, without trailing zero words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mask(Vec<u64>);

impl Mask {
    pub fn has(&self, slot: usize) -> bool {
        self.0.get(slot / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    pub fn insert(&mut self, slot: usize) {
        if self.0.len() <= slot / 64 {
            self.0.resize(slot / 64 + 1, 0);
        }
        self.0[slot / 64] |= 1 << (slot % 64);
    }

    pub fn remove(&mut self, slot: usize) {
        if let Some(word) = self.0.get_mut(slot / 64) {
            *word &= !(1 << (slot % 64));
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// Returns the memory that a set takes, in bytes.
    pub fn size_in_bytes(&self) -> usize {
        size_of::<Self>() + 8 * self.0.capacity()
    }
}

/// State of the search.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Configuration<S> {
    position: usize,
    done: Mask,
    state: S,
}

/// Outcome of a search.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is an order up to the last position.
    Explained,
    /// There is no order; no attempt got past this return.
    Stuck(usize),
    /// The budget is exhausted after so many configurations.
    OutOfBudget(usize),
}

/// States at positions where no operation is open.
pub type Cuts<S> = HashMap<usize, HashSet<S>>;

/// Limits of a search.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Maximum number of configurations to explore.
    pub configurations: usize,
    /// Maximum memory for configurations, in bytes.
    pub bytes: usize,
}

/// Bytes of a hash table per byte of its entries, at the worst: it doubles at 7/8, and copies as it does.
const TABLE: usize = 4;

/// Part of its budget that a search has used.
#[derive(Default)]
pub struct Used {
    configurations: usize,
    bytes: usize,
}

impl Used {
    /// Counts a configuration that is remembered. Returns `false` if the budget does not suffice for it
    /// beside `waiting` others of about its size.
    pub fn count(&mut self, bytes: usize, waiting: usize, budget: Budget) -> bool {
        self.configurations += 1;
        self.bytes += TABLE * bytes;
        self.configurations <= budget.configurations
            && self.bytes.saturating_add(2 * waiting * bytes) <= budget.bytes
    }
}

/// A search over a part's timeline.
pub struct Search<'a, M: Model> {
    pub model: &'a M,
    pub events: &'a [&'a EventOf<M>],
    pub timeline: &'a Timeline,
    pub budget: Budget,
    /// Events to leave out.
    pub ignored: &'a HashSet<usize>,
}

impl<M: Model> Search<'_, M> {
    /// Searches for an order of the operations called from `first` (a cut) on, until the point at `last` is
    /// passed. Records the states at the cuts in `cuts`, if given.
    pub fn run(
        &self,
        first: usize,
        last: usize,
        state: M::State,
        mut cuts: Option<&mut Cuts<M::State>>,
    ) -> Outcome {
        let (mut explored, mut used) = (HashSet::new(), Used::default());
        let mut stack = vec![Configuration { position: first, done: Mask::default(), state }];
        let mut furthest = first;
        while let Some(mut at) = stack.pop() {
            let Some(returning) = self.advance(&mut at, last, cuts.as_deref_mut()) else {
                return Outcome::Explained;
            };
            furthest = furthest.max(at.position);
            if explored.contains(&at) {
                continue;
            }
            let bytes = size_of_val(&at) + at.done.size_in_bytes() + self.model.size_in_bytes(&at.state);
            if !used.count(bytes, stack.len(), self.budget) {
                return Outcome::OutOfBudget(explored.len());
            }
            self.branch(&at, returning, first, &mut stack);
            explored.insert(at);
        }
        Outcome::Stuck(furthest)
    }

    /// Advances to the next return whose operation has not taken effect. Returns `None` when `last` is
    /// passed.
    fn advance(
        &self,
        at: &mut Configuration<M::State>,
        last: usize,
        mut cuts: Option<&mut Cuts<M::State>>,
    ) -> Option<usize> {
        let mut open = self.timeline.open_at(at.position).count();
        while at.position <= last {
            if open == 0
                && let Some(cuts) = cuts.as_deref_mut()
            {
                cuts.entry(at.position).or_default().insert(at.state.clone());
            }
            match self.timeline.points[at.position] {
                Point::Call(_) => open += 1,
                Point::Return(event) => {
                    let slot = self.timeline.slot[event];
                    if !self.ignored.contains(&event) {
                        if !at.done.has(slot) {
                            return Some(event);
                        }
                        at.done.remove(slot);
                    }
                    open -= 1;
                }
            }
            at.position += 1;
        }
        None
    }

    /// Pushes all successors of `at`. The successor by the operation that returns here goes on top, to be
    /// tried first.
    fn branch(
        &self,
        at: &Configuration<M::State>,
        returning: usize,
        first: usize,
        stack: &mut Vec<Configuration<M::State>>,
    ) {
        let mut at = at.clone();
        let candidates = self.candidates(&at, first);
        if self.take_observers(&mut at, &candidates) {
            stack.push(at);
            return;
        }
        let mut last = None;
        for (event, state) in self.distinct(candidates) {
            let mut done = at.done.clone();
            done.insert(self.timeline.slot[event]);
            let next = Configuration { position: at.position, done, state };
            if event == returning { last = Some(next) } else { stack.push(next) }
        }
        stack.extend(last);
    }

    /// Returns the open operations that may take effect now, and the state after each.
    fn candidates(&self, at: &Configuration<M::State>, first: usize) -> Vec<(usize, M::State)> {
        let open = self.timeline.open_at(at.position);
        open.filter(|event| !at.done.has(self.timeline.slot[*event]) && !self.ignored.contains(event))
            .filter(|&event| self.timeline.returns[event] >= first)
            .filter_map(|event| {
                let Event { op, outcome } = self.question(event);
                Some((event, self.model.step(&at.state, op, outcome)?))
            })
            .collect()
    }

    /// Lets the candidates that only observe take effect. Returns `true` if there were any.
    fn take_observers(&self, at: &mut Configuration<M::State>, candidates: &[(usize, M::State)]) -> bool {
        let observes =
            |event: usize| self.model.only_observes(&self.events[event].op, &self.events[event].outcome);
        let mut any = false;
        for (event, _) in candidates.iter().filter(|(event, _)| observes(*event)) {
            at.done.insert(self.timeline.slot[*event]);
            any = true;
        }
        any
    }

    /// Keeps, of candidates with equal operations and outcomes, only the one that returns first.
    fn distinct(&self, candidates: Vec<(usize, M::State)>) -> impl Iterator<Item = (usize, M::State)> {
        let mut first: HashMap<_, (usize, M::State)> = HashMap::with_capacity(candidates.len());
        for (event, state) in candidates {
            let question = self.question(event);
            let earlier =
                first.get(&question).is_some_and(|(other, _)| self.returns(*other) < self.returns(event));
            if !earlier {
                first.insert(question, (event, state));
            }
        }
        // The iteration order of a hash map varies between runs; the search must be deterministic.
        let mut distinct: Vec<_> = first.into_values().collect();
        distinct.sort_unstable_by_key(|(event, _)| std::cmp::Reverse(self.returns(*event)));
        distinct.into_iter()
    }

    fn returns(&self, event: usize) -> usize {
        self.timeline.returns[event]
    }

    fn question(&self, event: usize) -> Event<'_, M> {
        let event = self.events[event];
        Event { op: &event.op, outcome: &event.outcome }
    }
}

/// Operation and outcome of an event, without its times.
struct Event<'a, M: Model> {
    op: &'a M::Op,
    outcome: &'a M::Outcome,
}

impl<M: Model> PartialEq for Event<'_, M> {
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op && self.outcome == other.outcome
    }
}

impl<M: Model> Eq for Event<'_, M> {}

impl<M: Model> std::hash::Hash for Event<'_, M> {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        self.op.hash(hasher);
        self.outcome.hash(hasher);
    }
}
