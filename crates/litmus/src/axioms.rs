//! The PTX memory model as axioms: all executions of a litmus program, by enumeration.
//!
//! An execution assigns a write to each read (`rf`), a modification order to each location (`co`), and an
//! order to the sequentially consistent fences (`sc`). It is allowed if it satisfies the six axioms of the
//! PTX ISA, chapter "Memory Consistency Model". Nothing here refers to the emulator.
//!
//! Names of relations, `x` to `y`:
//!
//! - `po`: program order. `strong`: `x` and `y` are morally strong: both strong, with scopes that include
//!   each other's thread; or of one thread.
//! - `observed`: `y` reads the write `x`, or from a read-modify-write that has observed it.
//! - `synchronizes`: from the first operation of a release pattern to the last of an acquire pattern, if a
//!   read of the latter has observed a write of the former; and along `sc`.
//! - `base`: the transitive closure of `po` and `synchronizes`. `cause`: `base`, also behind `observed`.
//!
//! Modification orders are total, also among writes that race. PTX leaves these unordered, so for programs
//! with races the result may lack outcomes that PTX allows.
use crate::{LOCATIONS, Op, Outcome, REGISTERS};
use simt::{Order, Scope};
use std::collections::BTreeSet;

/// A relation: per event, the set of events that it relates to.
type Relation = Vec<u32>;

/// Operations on relations of at most 32 events.
fn no_pairs(events: usize) -> Relation {
    vec![0; events]
}

fn has(relation: &Relation, from: usize, to: usize) -> bool {
    relation[from] >> to & 1 == 1
}

fn add(relation: &mut Relation, from: usize, to: usize) {
    relation[from] |= 1 << to;
}

fn union(a: &Relation, b: &Relation) -> Relation {
    a.iter().zip(b).map(|(a, b)| a | b).collect()
}

/// Returns the pairs from `a` to `b` by way of a common event.
fn compose(a: &Relation, b: &Relation) -> Relation {
    let reached = |set: &u32| (0..b.len()).filter(|i| set >> i & 1 == 1).fold(0, |all, i| all | b[i]);
    a.iter().map(reached).collect()
}

fn close(mut relation: Relation) -> Relation {
    for middle in 0..relation.len() {
        for from in 0..relation.len() {
            if has(&relation, from, middle) {
                relation[from] |= relation[middle];
            }
        }
    }
    relation
}

fn is_irreflexive(relation: &Relation) -> bool {
    (0..relation.len()).all(|event| !has(relation, event, event))
}

/// An operation of the program.
#[derive(Clone, Copy)]
struct Event {
    thread: usize,
    op: Op,
    reads: bool,
    writes: bool,
    /// Whether it is a sequentially consistent fence.
    sc: bool,
    /// Order and scope. Of fences, acquire-release.
    order: Order,
    scope: Scope,
    /// The last read of the thread before it.
    last_read: Option<usize>,
}

impl Event {
    fn new(thread: usize, op: Op, last_read: Option<usize>) -> Self {
        let (reads, writes, order, scope) = match op {
            Op::Store(_, _, order, scope) => (false, true, order, scope),
            Op::StoreRead(_, order) => (false, true, order, Scope::Device),
            Op::Load(_, order, scope) => (true, false, order, scope),
            Op::LoadThere(order) => (true, false, order, Scope::Device),
            Op::Exchange(_, _, order, scope) => (true, true, order, scope),
            Op::Fence(scope) | Op::FenceSc(scope) => (false, false, Order::AcqRel, scope),
        };
        let sc = matches!(op, Op::FenceSc(_));
        Self { thread, op, reads, writes, sc, order, scope, last_read }
    }

    fn is_fence(&self) -> bool {
        !self.reads && !self.writes
    }

    fn is_strong(&self) -> bool {
        self.order != Order::Weak
    }

    fn releases(&self) -> bool {
        self.is_fence() || self.writes && matches!(self.order, Order::Release | Order::AcqRel)
    }

    fn acquires(&self) -> bool {
        self.is_fence() || self.reads && matches!(self.order, Order::Acquire | Order::AcqRel)
    }
}

/// A program with what does not depend on the execution.
struct Model {
    events: Vec<Event>,
    threads: usize,
    po: Relation,
    strong: Relation,
    /// Whether address dependencies are kept: a thread's operations are ordered after what was released to
    /// its earlier reads.
    hardware: bool,
}

/// The write that each read observes; `None` for the initial value.
type Sources = Vec<Option<usize>>;

/// Locations and values of the events of an execution.
struct Values {
    location: Vec<usize>,
    read: Vec<u32>,
    written: Vec<u32>,
}

impl Model {
    fn new(program: &[Vec<Op>], one_block: bool, hardware: bool) -> Self {
        let mut events = Vec::new();
        for (thread, ops) in program.iter().enumerate() {
            let mut last_read = None;
            for op in ops {
                let event = Event::new(thread, *op, last_read);
                last_read = if event.reads { Some(events.len()) } else { last_read };
                events.push(event);
            }
        }
        let (mut po, mut strong) = (no_pairs(events.len()), no_pairs(events.len()));
        for (i, a) in events.iter().enumerate() {
            for (j, b) in events.iter().enumerate().filter(|(j, _)| *j != i) {
                let near = one_block || a.scope != Scope::Block && b.scope != Scope::Block;
                if a.thread == b.thread && i < j {
                    add(&mut po, i, j);
                }
                if a.thread == b.thread || a.is_strong() && b.is_strong() && near {
                    add(&mut strong, i, j);
                }
            }
        }
        Self { events, threads: program.len(), po, strong, hardware }
    }

    /// Returns `true` if accesses of different threads to one location, of which one writes, are morally
    /// strong. (Address-dependent reads may access any location.)
    fn is_free_of_races(&self) -> bool {
        let place = |event: &Event| match event.op {
            Op::Store(at, ..) | Op::Load(at, ..) | Op::Exchange(at, ..) | Op::StoreRead(at, _) => Some(at),
            _ => None,
        };
        let conflict = |a: &Event, b: &Event| {
            let same = place(a).zip(place(b)).is_none_or(|(a, b)| a == b);
            a.thread != b.thread && !a.is_fence() && !b.is_fence() && same && (a.writes || b.writes)
        };
        let all = || self.events.iter().enumerate();
        all().all(|(i, a)| all().all(|(j, b)| !conflict(a, b) || has(&self.strong, i, j)))
    }

    /// Computes the values of an execution; `None` if a value depends on itself ("no thin air"), or a read
    /// observes a write of another location.
    fn values(&self, sources: &Sources) -> Option<Values> {
        let count = self.events.len();
        let mut values = Values { location: vec![0; count], read: vec![0; count], written: vec![0; count] };
        for event in 0..count {
            let last = || self.read_value(sources, self.events[event].last_read?, count);
            values.location[event] = match self.events[event].op {
                Op::Store(at, ..) | Op::Load(at, ..) | Op::Exchange(at, ..) | Op::StoreRead(at, _) => at,
                Op::LoadThere(_) => last()? as usize,
                Op::Fence(_) | Op::FenceSc(_) => LOCATIONS,
            };
            if self.events[event].writes {
                values.written[event] = self.written_value(sources, event, count)?;
            }
            if self.events[event].reads {
                values.read[event] = self.read_value(sources, event, count)?;
            }
        }
        let matches = |(event, source): (usize, &Option<usize>)| {
            source.is_none_or(|write| values.location[write] == values.location[event])
        };
        sources.iter().enumerate().all(matches).then_some(values)
    }

    /// Returns what an event reads; `None` after more steps than there are events, in a cycle.
    fn read_value(&self, sources: &Sources, event: usize, steps: usize) -> Option<u32> {
        let steps = steps.checked_sub(1)?;
        sources[event].map_or(Some(0), |write| self.written_value(sources, write, steps))
    }

    fn written_value(&self, sources: &Sources, event: usize, steps: usize) -> Option<u32> {
        match self.events[event].op {
            Op::Store(_, value, ..) | Op::Exchange(_, value, ..) => Some(value),
            _ => self.read_value(sources, self.events[event].last_read?, steps),
        }
    }

    /// Returns the outcome of an execution.
    fn outcome(&self, values: &Values, co: &Relation) -> Outcome {
        let mut registers = vec![u32::MAX; self.threads * REGISTERS];
        let mut next = vec![0; self.threads];
        for (i, event) in self.events.iter().enumerate().filter(|(_, event)| event.reads) {
            registers[event.thread * REGISTERS + next[event.thread]] = values.read[i];
            next[event.thread] += 1;
        }
        let last = |location: usize| {
            let writes = |i: &usize| self.events[*i].writes && values.location[*i] == location;
            (0..self.events.len()).filter(writes).find(|i| co[*i] == 0).map_or(0, |i| values.written[i])
        };
        (registers, (0..LOCATIONS).map(last).collect())
    }
}

/// An execution.
struct Execution<'a> {
    model: &'a Model,
    location: &'a [usize],
    sources: &'a Sources,
    co: &'a Relation,
    sc: &'a Relation,
}

impl Execution<'_> {
    fn all(&self) -> impl Iterator<Item = (usize, Event)> + Clone {
        self.model.events.iter().copied().enumerate()
    }

    fn rf(&self) -> Relation {
        let mut rf = no_pairs(self.sources.len());
        self.sources
            .iter()
            .enumerate()
            .for_each(|(read, source)| source.iter().for_each(|&write| add(&mut rf, write, read)));
        rf
    }

    /// From each read to the writes that follow the one that it observes.
    fn reads_before(&self) -> Relation {
        let mut fr = no_pairs(self.sources.len());
        for (read, _) in self.all().filter(|(_, event)| event.reads) {
            fr[read] = match self.sources[read] {
                Some(write) => self.co[write],
                None => self.writes_of(self.location[read]),
            } & !(1 << read);
        }
        fr
    }

    fn writes_of(&self, location: usize) -> u32 {
        let writes = |(i, event): &(usize, Event)| event.writes && self.location[*i] == location;
        self.all().filter(writes).fold(0, |set, (i, _)| set | 1 << i)
    }

    fn observed(&self, rf: &Relation) -> Relation {
        let direct: Relation = rf.iter().zip(&self.model.strong).map(|(rf, strong)| rf & strong).collect();
        // Further on only from read-modify-writes, which are reads that write.
        let updates = self.all().filter(|(_, event)| event.reads && event.writes);
        let updates = updates.fold(0, |set, (i, _)| set | 1 << i);
        let mut observed = direct.clone();
        for _ in 0..direct.len() {
            let at_updates = observed.iter().map(|set| set & updates).collect();
            observed = union(&observed, &compose(&at_updates, &direct));
        }
        observed
    }

    /// Returns the first operation and the write of each release pattern.
    fn release_patterns(&self) -> Vec<(usize, usize)> {
        let has_order = |first, write| has(&self.model.po, first, write);
        self.patterns(Event::releases, |event| event.writes, has_order)
    }

    /// Returns the last operation and the read of each acquire pattern.
    fn acquire_patterns(&self) -> Vec<(usize, usize)> {
        let has_order = |last, read| has(&self.model.po, read, last);
        self.patterns(Event::acquires, |event| event.reads, has_order)
    }

    /// Returns the ordering operation and the access of each pattern: one operation that is both, or a fence
    /// or an operation at the location of the access, in program order with it.
    fn patterns(
        &self,
        orders: impl Fn(&Event) -> bool,
        accesses: impl Fn(&Event) -> bool,
        has_order: impl Fn(usize, usize) -> bool,
    ) -> Vec<(usize, usize)> {
        let mut patterns = Vec::new();
        for (ordering, a) in self.all().filter(|(_, event)| orders(event)) {
            if accesses(&a) {
                patterns.push((ordering, ordering));
            }
            for (access, _) in self.all().filter(|(_, event)| accesses(event) && event.is_strong()) {
                let there = a.is_fence() || self.location[ordering] == self.location[access];
                if has_order(ordering, access) && there {
                    patterns.push((ordering, access));
                }
            }
        }
        patterns
    }

    fn synchronizes(&self, observed: &Relation) -> Relation {
        let mut synchronizes: Relation =
            self.sc.iter().zip(&self.model.strong).map(|(sc, strong)| sc & strong).collect();
        let acquires = self.acquire_patterns();
        for (first, write) in self.release_patterns() {
            for &(last, read) in &acquires {
                if has(observed, write, read) && has(&self.model.strong, first, last) {
                    add(&mut synchronizes, first, last);
                }
            }
        }
        synchronizes
    }

    /// Order by address dependencies: from what precedes a release pattern to what follows a read that has
    /// observed it.
    fn dependent(&self, observed: &Relation, cause: &Relation) -> Relation {
        let mut dependent = no_pairs(self.sources.len());
        for (first, write) in self.release_patterns() {
            for (read, _) in self.all().filter(|(_, event)| event.reads && event.is_strong()) {
                if !has(observed, write, read) || !has(&self.model.strong, first, read) {
                    continue;
                }
                for (before, later) in dependent.iter_mut().enumerate() {
                    if before == first || has(cause, before, first) {
                        *later |= self.model.po[read];
                    }
                }
            }
        }
        dependent
    }

    fn is_allowed(&self) -> bool {
        let (rf, fr) = (self.rf(), self.reads_before());
        let observed = self.observed(&rf);
        let base = close(union(&self.model.po, &self.synchronizes(&observed)));
        let cause = union(&base, &compose(&observed, &base));
        let order = if self.model.hardware {
            union(&cause, &self.dependent(&observed, &cause))
        } else {
            cause.clone()
        };
        self.is_coherent(&order)
            && self.keeps_fence_order(&cause)
            && self.is_atomic()
            && self.is_sc_per_location(&rf, &fr)
            && self.is_causal(&order)
    }

    /// Coherence: a write that precedes another of its location in causality order precedes it in `co`.
    fn is_coherent(&self, order: &Relation) -> bool {
        let writes = || self.all().filter(|(_, event)| event.writes);
        writes().all(|(a, _)| {
            let mut later = writes().filter(|&(b, _)| a != b && self.location[a] == self.location[b]);
            !has(order, a, a) && later.all(|(b, _)| !has(order, a, b) || has(self.co, a, b))
        })
    }

    /// FenceSC: `sc` does not contradict causality order.
    fn keeps_fence_order(&self, cause: &Relation) -> bool {
        let fences = || self.all().filter(|(_, event)| event.sc);
        fences().all(|(a, _)| {
            fences().all(|(b, _)| {
                a == b || !has(cause, a, b) || !has(&self.model.strong, a, b) || has(self.sc, a, b)
            })
        })
    }

    /// Atomicity: no write comes between a read-modify-write and the write that it reads.
    fn is_atomic(&self) -> bool {
        self.all().filter(|(_, event)| event.reads && event.writes).all(|(update, _)| {
            let before = |write: usize| has(self.co, write, update);
            let after_source = |write: usize| self.sources[update].is_none_or(|s| has(self.co, s, write));
            let rivals = self.all().filter(|(_, event)| event.writes);
            self.sources[update].is_none_or(before)
                && rivals
                    .filter(|&(w, _)| self.location[w] == self.location[update] && w != update)
                    .all(|(write, _)| !before(write) || !after_source(write))
        })
    }

    /// SC per location: program order and morally strong communication among the accesses of a location have
    /// no cycle.
    fn is_sc_per_location(&self, rf: &Relation, fr: &Relation) -> bool {
        let mut steps = no_pairs(self.sources.len());
        for (a, x) in self.all().filter(|(_, event)| !event.is_fence()) {
            for (b, y) in self.all().filter(|(_, event)| !event.is_fence()) {
                let communicates = has(rf, a, b) || has(fr, a, b) || has(self.co, a, b);
                let both = x.is_strong() && y.is_strong() || x.thread == y.thread;
                if self.location[a] == self.location[b]
                    && (has(&self.model.po, a, b) || communicates && both && has(&self.model.strong, a, b))
                {
                    add(&mut steps, a, b);
                }
            }
        }
        is_irreflexive(&close(steps))
    }

    /// Causality: a read does not observe a write that it precedes in causality order, nor one that is
    /// overwritten by a write that precedes it.
    fn is_causal(&self, order: &Relation) -> bool {
        self.all().filter(|(_, event)| event.reads).all(|(read, _)| {
            let same = |write: usize| write != read && self.location[write] == self.location[read];
            self.all().filter(|&(write, event)| event.writes && same(write)).all(|(write, _)| {
                let forward = has(order, read, write) && self.sources[read] == Some(write);
                let overwritten = self.sources[read].is_none_or(|source| has(self.co, source, write));
                !(forward || overwritten && has(order, write, read))
            })
        })
    }
}

/// Calls `each` with every total order of the items.
fn permutations(items: &mut Vec<usize>, from: usize, each: &mut dyn FnMut(&[usize])) {
    if from >= items.len() {
        return each(items);
    }
    for other in from..items.len() {
        items.swap(from, other);
        permutations(items, from + 1, each);
        items.swap(from, other);
    }
}

/// Adds the order of `items` to a relation.
fn add_order(relation: &mut Relation, items: &[usize]) {
    for (i, &before) in items.iter().enumerate() {
        items[i + 1..].iter().for_each(|&after| add(relation, before, after));
    }
}

/// Calls `each` with every combination of one total order per group.
fn orders(groups: &[Vec<usize>], relation: &Relation, each: &mut dyn FnMut(&Relation)) {
    let Some((first, rest)) = groups.split_first() else { return each(relation) };
    permutations(&mut first.clone(), 0, &mut |order| {
        let mut relation = relation.clone();
        add_order(&mut relation, order);
        orders(rest, &relation, each);
    });
}

/// Calls `each` with every assignment of writes to reads.
fn sources(model: &Model, from: usize, chosen: &mut Sources, each: &mut dyn FnMut(&Sources)) {
    if from == model.events.len() {
        return each(chosen);
    }
    chosen.push(None);
    sources(model, from + 1, chosen, each);
    chosen.pop();
    if !model.events[from].reads {
        return;
    }
    for write in (0..model.events.len()).filter(|&write| model.events[write].writes && write != from) {
        chosen.push(Some(write));
        sources(model, from + 1, chosen, each);
        chosen.pop();
    }
}

/// Returns all outcomes that the model allows.
fn outcomes(model: &Model) -> BTreeSet<Outcome> {
    let (count, mut found) = (model.events.len(), BTreeSet::new());
    let fences: Vec<_> = (0..count).filter(|&i| model.events[i].sc).collect();
    sources(model, 0, &mut Vec::new(), &mut |sources| {
        let Some(values) = model.values(sources) else { return };
        let writes = |at| {
            let is_there = |&i: &usize| model.events[i].writes && values.location[i] == at;
            (0..count).filter(is_there).collect::<Vec<_>>()
        };
        let groups: Vec<_> = (0..LOCATIONS).map(writes).collect();
        orders(&groups, &no_pairs(count), &mut |co| {
            let outcome = model.outcome(&values, co);
            if found.contains(&outcome) {
                return;
            }
            let mut allowed = false;
            orders(std::slice::from_ref(&fences), &no_pairs(count), &mut |sc| {
                let location = &values.location;
                allowed |= allowed || Execution { model, location, sources, co, sc }.is_allowed();
            });
            if allowed {
                found.insert(outcome);
            }
        });
    });
    found
}

/// Returns all outcomes that PTX allows; with `hardware`, of the executions that also keep address
/// dependencies. The threads are in one block or each in its own.
pub fn allowed(program: &[Vec<Op>], one_block: bool, hardware: bool) -> BTreeSet<Outcome> {
    outcomes(&Model::new(program, one_block, hardware))
}

/// Returns `true` if no two accesses of the program can race.
pub fn is_free_of_races(program: &[Vec<Op>], one_block: bool) -> bool {
    Model::new(program, one_block, false).is_free_of_races()
}
