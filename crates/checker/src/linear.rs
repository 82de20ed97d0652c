//! Linearizability check of a history, part by part.
use crate::register::Register;
use crate::search::{Budget, Outcome, Search};
use crate::timeline::Timeline;
use crate::window;
use crate::{EventOf, Model};
use rayon::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// Checks a history with the default budget.
///
/// # Errors
/// As [`Checker::check`].
pub fn check<M: Model>(model: &M, events: &[EventOf<M>]) -> Result<Summary, Failure<M>> {
    Checker::new(model).check(events)
}

/// Summary of a successful check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of events in the history.
    pub events: usize,
    /// Number of parts (keys) that the events access.
    pub parts: usize,
    /// Maximum number of operations on one part that overlapped at one time.
    pub overlap: usize,
}

/// Reason why a history does not pass.
#[derive(Debug, thiserror::Error)]
pub enum Failure<M: Model> {
    /// No order explains the results.
    #[error("{0}")]
    Violation(Box<Violation<M>>),
    /// An event ends before it starts.
    #[error(
        "event {index} ends at {end}, before it starts at {start}; its clock is not shared by all threads or \
         runs backwards"
    )]
    Backwards {
        /// Index of the event in the history.
        index: usize,
        /// Start of the event.
        start: u64,
        /// End of the event.
        end: u64,
    },
    /// Too many operations on a part overlap: the budget ran out before the search found an order or excluded
    /// all orders.
    #[error(
        "undecided: {explored} configurations of the {events} operations on {part:?} were explored; raise \
         the budget or the memory of the checker, or record histories with fewer operations at a time on one \
         part"
    )]
    Undecided {
        /// Part of the object.
        part: M::Part,
        /// Number of events on the part.
        events: usize,
        /// Number of configurations explored: the budget, or what fits in the memory.
        explored: usize,
    },
}

/// Operations on a part that no order explains.
#[derive(Debug)]
pub struct Violation<M: Model> {
    /// Part of the object (for a map, the key).
    pub part: M::Part,
    /// Operations of the smallest window found, sorted by start.
    pub events: Vec<EventOf<M>>,
    /// Index of the operation in `events` that no order could place.
    pub stuck: usize,
    /// States in which the part may have been before the window. If
    /// [`whatever_before`](Self::whatever_before) is set, no order explains the operations from any of these
    /// states, which the part reached at various times.
    pub states: Vec<M::State>,
    /// Whether the operations contradict each other regardless of the state before them.
    pub whatever_before: bool,
}

impl<M: Model> fmt::Display for Violation<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, events, stuck, states, whatever_before } = self;
        writeln!(f, "not linearizable: on {part:?}, no order explains these {} operations", events.len())?;
        let shown = &states[..states.len().min(8)];
        let more = if states.len() > shown.len() { ", .." } else { "" };
        if *whatever_before {
            writeln!(f, "whatever it held before (of {shown:?}{more}):")?;
        } else {
            writeln!(f, "when it held one of {shown:?}{more} before:")?;
        }
        for (index, event) in events.iter().enumerate() {
            let mark = if index == *stuck { '>' } else { ' ' };
            let span = format!("[{}, {}]", event.start, event.end);
            writeln!(
                f,
                "{mark} thread {:<5} {span:<24} {:?} -> {:?}",
                event.thread, event.op, event.outcome
            )?;
        }
        write!(f, "'>' is the first to return whose result nothing allows")
    }
}

/// A check with its options.
#[derive(Clone, Copy, Debug)]
pub struct Checker<'a, M> {
    model: &'a M,
    budget: Budget,
}

/// Memory of a check by default, in bytes.
const MEMORY: usize = 256 << 20;

impl<'a, M: Model> Checker<'a, M> {
    /// Creates a check against `model`, with a budget of 20 million configurations per part and 256 MiB of
    /// memory.
    pub fn new(model: &'a M) -> Self {
        Self { model, budget: Budget { configurations: 20_000_000, bytes: MEMORY } }
    }

    /// Sets the number of configurations after which the check of a part gives up.
    pub fn budget(self, configurations: usize) -> Self {
        Self { budget: Budget { configurations, ..self.budget }, ..self }
    }

    /// Sets the memory that configurations may take, in bytes. The parts that are checked at a time share it
    /// equally; the check of a part gives up when its share is used up. The history and its parts take
    /// memory besides.
    pub fn memory(self, bytes: usize) -> Self {
        Self { budget: Budget { bytes, ..self.budget }, ..self }
    }

    /// Searches for an order that explains the history. If several parts have none, reports the first by
    /// `Ord`.
    ///
    /// The time is linear in the number of events if few overlap. If all operations on a part have an
    /// [effect](Model::effect) and the written values are distinct, it is polynomial in the number that
    /// overlap, except where operations on a map also remove and insert the key at the same time. Else it is
    /// exponential in the number of overlapping writes whose outcome does not report the old value.
    ///
    /// # Errors
    /// [`Failure::Violation`] when there is no such order; [`Failure::Undecided`] when the budget ran out;
    /// [`Failure::Backwards`] for an event that ends before it starts.
    pub fn check(&self, events: &[EventOf<M>]) -> Result<Summary, Failure<M>> {
        for (index, event) in events.iter().enumerate() {
            if event.end < event.start {
                return Err(Failure::Backwards { index, start: event.start, end: event.end });
            }
        }
        let mut parts: BTreeMap<M::Part, Vec<&EventOf<M>>> = BTreeMap::new();
        for event in events {
            parts.entry(self.model.part(&event.op)).or_default().push(event);
        }
        let parts: Vec<_> = parts.into_iter().collect();
        let at_a_time = rayon::current_num_threads().min(parts.len()).max(1);
        let budget = Budget { bytes: self.budget.bytes / at_a_time, ..self.budget };
        let failure =
            parts.par_iter().find_map_first(|(part, events)| self.check_part(part, events, budget).err());
        let overlap = || parts.iter().map(|(_, events)| Timeline::new(events).overlap()).max().unwrap_or(0);
        failure
            .map_or_else(|| Ok(Summary { events: events.len(), parts: parts.len(), overlap: overlap() }), Err)
    }

    fn check_part(&self, part: &M::Part, events: &[&EventOf<M>], budget: Budget) -> Result<(), Failure<M>> {
        let timeline = Timeline::new(events);
        let ignored = HashSet::new();
        let search = Search { model: self.model, events, timeline: &timeline, budget, ignored: &ignored };
        let last = timeline.points.len() - 1;
        let initial = self.model.initial(part);
        let outcome = match Register::new(self.model, events, &timeline, initial.clone()) {
            Some(register) => register.run(budget),
            None => search.run(0, last, initial, None),
        };
        match outcome {
            Outcome::Explained => Ok(()),
            Outcome::Stuck(at) => Err(Failure::Violation(Box::new(window::narrow(&search, part, at)))),
            Outcome::OutOfBudget(explored) => {
                Err(Failure::Undecided { part: part.clone(), events: events.len(), explored })
            }
        }
    }
}
