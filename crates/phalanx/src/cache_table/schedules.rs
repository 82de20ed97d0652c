//! Schedules of host threads that submit batches and leases, and of the queues that execute them.
//!
//! The order of batches and the leases are the table's own code. The device is a model: each queue executes
//! its work in a thread of its own, and events are flags. shuttle chooses which thread runs next. The model
//! panics if two batches that exclude each other run at the same time, if a batch does not wait for an
//! earlier one that it excludes, or if leased rows may be evicted while they are read; shuttle reports a
//! batch that never runs as a deadlock. So an inserter waits for the batches submitted before it, and for no
//! later ones. A failure prints its schedule, which `shuttle::replay` repeats.
//!
//! [`RULES`] states for each [`Lock`] which groups may run beside each other. Another lock is one more line.
use super::groups::{Group, Groups, Lock};
use super::lease::Leases;
use super::queue::Queue;
use crate::Result;
use gpu::Device;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};
use shuttle::thread::{JoinHandle, spawn};
use shuttle::{Config, Runner};
use simt::GlobalSlice;
use simt::emulator::Options;
use std::collections::BTreeSet;

/// Groups in the order of a [`Table`].
const GROUPS: [Group; 5] = [Group::Lookups, Group::Readers, Group::Updaters, Group::Inserters, Group::Movers];

/// Whether two groups may run beside each other, by their places in [`GROUPS`].
type Table = [[bool; 5]; 5];

/// Returns the table in which these pairs of groups may run beside each other.
const fn table(pairs: &[(Group, Group)]) -> Table {
    let (mut table, mut pair) = ([[false; 5]; 5], 0);
    while pair < pairs.len() {
        let (a, b) = (pairs[pair].0 as usize, pairs[pair].1 as usize);
        (table[a][b], table[b][a]) = (true, true);
        pair += 1;
    }
    table
}

/// The paper's rule (HierarchicalKV, table 4): lookups are readers, and movers are inserters.
const PAPER: Table = table(&[
    (Group::Lookups, Group::Lookups),
    (Group::Lookups, Group::Readers),
    (Group::Readers, Group::Readers),
    (Group::Updaters, Group::Updaters),
]);
/// A reader-writer lock.
const READER_WRITER: Table = table(&[
    (Group::Lookups, Group::Lookups),
    (Group::Lookups, Group::Readers),
    (Group::Readers, Group::Readers),
]);
/// Lookups run beside all but movers.
const CONCURRENT: Table = table(&[
    (Group::Lookups, Group::Lookups),
    (Group::Lookups, Group::Readers),
    (Group::Lookups, Group::Updaters),
    (Group::Lookups, Group::Inserters),
    (Group::Readers, Group::Readers),
    (Group::Updaters, Group::Updaters),
]);

/// The groups that each lock lets run beside each other.
const RULES: [(Lock, Table); 3] =
    [(Lock::Groups, PAPER), (Lock::Plain, READER_WRITER), (Lock::Concurrent, CONCURRENT)];

/// Number of schedules of each kind.
const SCHEDULES: usize = 400;

/// Runs `play` under random schedules, and under those of probabilistic concurrency testing with three
/// changes of priority.
fn explore(play: impl Fn() + Send + Sync + Clone + 'static) {
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = Config::new();
        config.stack_size = 1 << 18;
        Runner::new(scheduler, config).run(play.clone());
    };
    run(Box::new(RandomScheduler::new_from_seed(1, SCHEDULES)));
    run(Box::new(PctScheduler::new_from_seed(1, 3, SCHEDULES)));
}

/// A fault of the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// No event completes.
    SignalsNothing,
    /// Work does not wait for events.
    WaitsForNothing,
    /// All events count as complete.
    CompletesEarly,
}

/// An event of the model.
#[derive(Clone, Debug)]
struct Flag {
    state: Arc<(Mutex<bool>, Condvar)>,
    completes_early: bool,
}

impl Flag {
    fn set(&self) {
        *self.state.0.lock().unwrap() = true;
        self.state.1.notify_all();
    }

    fn wait(&self) {
        let mut is_set = self.state.0.lock().unwrap();
        while !*is_set {
            is_set = self.state.1.wait(is_set).unwrap();
        }
    }
}

/// Work of a queue.
enum Work {
    Wait(Flag),
    Signal(Flag),
    /// A batch, by its number.
    Batch(usize),
    /// A batch that evicts all rows but those whose bits are set. `leased` are the hosts with leases when it
    /// was submitted.
    Evict {
        number: usize,
        bits: Option<GlobalSlice<u32>>,
        leased: BTreeSet<u32>,
    },
    ClearBits(GlobalSlice<u32>),
    Mark {
        positions: GlobalSlice<u32>,
        bits: GlobalSlice<u32>,
    },
    /// Writes the position of a host's row.
    Locate {
        host: u32,
        positions: GlobalSlice<u32>,
    },
    /// A kernel of the user, which reads the host's leased row.
    Read(u32),
}

/// The end of a queue to which a host submits.
#[derive(Clone)]
struct Line {
    work: mpsc::Sender<Work>,
    fault: Option<Fault>,
}

impl Line {
    fn push(&self, work: Work) -> Result<()> {
        self.work.send(work).expect("a queue ends after its host");
        Ok(())
    }
}

impl Queue for Line {
    type Event = Flag;

    fn record(&self) -> Result<Flag> {
        let completes_early = self.fault == Some(Fault::CompletesEarly);
        let flag = Flag { state: Arc::default(), completes_early };
        if self.fault != Some(Fault::SignalsNothing) {
            self.push(Work::Signal(flag.clone()))?;
        }
        Ok(flag)
    }

    fn wait(&self, event: &Flag) -> Result<()> {
        if self.fault != Some(Fault::WaitsForNothing) {
            self.push(Work::Wait(event.clone()))?;
        }
        Ok(())
    }

    fn is_complete(event: &Flag) -> Result<bool> {
        Ok(event.completes_early || *event.state.0.lock().unwrap())
    }

    unsafe fn clear_bits(&self, bits: GlobalSlice<u32>) -> Result<()> {
        self.push(Work::ClearBits(bits))
    }

    unsafe fn mark(&self, positions: GlobalSlice<u32>, bits: GlobalSlice<u32>) -> Result<()> {
        self.push(Work::Mark { positions, bits })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Submitted,
    Running,
    Ended,
}

/// Pairs of groups of which batches ran at the same time, over all schedules.
type Seen = std::sync::Arc<std::sync::Mutex<BTreeSet<[usize; 2]>>>;

/// A device, and what its batches do.
struct Model {
    table: Table,
    seen: Seen,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The batches in the order of their submission.
    batches: Vec<(Group, Progress)>,
    /// Hosts that hold a lease.
    leased: BTreeSet<u32>,
    /// Hosts whose rows a kernel reads.
    reading: BTreeSet<u32>,
    /// A bit for each host whose row the running batch does not evict, if it evicts others.
    evicting: Option<u32>,
}

impl State {
    fn check_readers(&self) {
        let Some(bits) = self.evicting else { return };
        let is_kept = |host: &u32| bits >> host & 1 == 1;
        assert!(self.reading.iter().all(is_kept), "a row is evicted while a kernel reads it");
    }
}

/// Returns the word of a slice of one word.
fn load(word: GlobalSlice<u32>) -> u32 {
    // SAFETY: the emulator's memory is the host's, and the buffer lives until all queues have ended. All
    // threads of a schedule share one thread of the system.
    unsafe { word.at(0).as_ptr().read() }
}

/// Sets the word of a slice of one word.
fn store(word: GlobalSlice<u32>, value: u32) {
    // SAFETY: as for `load`.
    unsafe { word.at(0).as_ptr().write(value) }
}

impl Model {
    fn new(table: Table, seen: &Seen) -> Arc<Self> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Arc::new(Self { table, seen: seen.clone(), state, changed })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Changes the state.
    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changed.notify_all();
        result
    }

    /// Waits until the state is so.
    fn wait_until(&self, is_so: impl Fn(&State) -> bool) {
        let mut state = self.state();
        while !is_so(&state) {
            state = self.changed.wait(state).unwrap();
        }
    }

    /// Returns the number of a new batch.
    fn submit(&self, group: Group) -> usize {
        self.update(|state| {
            state.batches.push((group, Progress::Submitted));
            state.batches.len() - 1
        })
    }

    /// Begins a batch, and checks the others.
    fn begin(&self, number: usize) {
        self.update(|state| {
            let group = state.batches[number].0;
            for (other, (theirs, progress)) in state.batches.iter().enumerate() {
                let may_run = self.table[group as usize][*theirs as usize];
                let runs = *progress == Progress::Running;
                let is_earlier = other < number && *progress != Progress::Ended;
                assert!(may_run || !runs && !is_earlier, "{group:?} do not wait for {theirs:?}");
                if runs {
                    let mut pair = [group as usize, *theirs as usize];
                    pair.sort_unstable();
                    self.seen.lock().unwrap().insert(pair);
                }
            }
            state.batches[number].1 = Progress::Running;
        });
        shuttle::thread::yield_now();
    }

    fn end(&self, number: usize) {
        self.update(|state| state.batches[number].1 = Progress::Ended);
    }

    /// Executes a batch that evicts all rows without a bit, and checks the leases.
    fn evict(&self, number: usize, bits: u32, leased: &BTreeSet<u32>) {
        assert!(
            (0..32).all(|host| bits >> host & 1 == 0 || leased.contains(&host)),
            "a row is kept for no lease"
        );
        self.update(|state| {
            state.evicting = Some(bits);
            state.check_readers();
        });
        self.begin(number);
        self.end(number);
        self.update(|state| state.evicting = None);
    }

    /// Reads the row of a host.
    fn read(&self, host: u32) {
        self.update(|state| {
            state.reading.insert(host);
            state.check_readers();
        });
        shuttle::thread::yield_now();
        self.update(|state| state.reading.remove(&host));
    }

    fn execute(&self, work: Work) {
        match work {
            Work::Wait(flag) => flag.wait(),
            Work::Signal(flag) => flag.set(),
            Work::Batch(number) => {
                self.begin(number);
                self.end(number);
            }
            Work::Evict { number, bits, leased } => self.evict(number, bits.map_or(0, load), &leased),
            Work::ClearBits(bits) => store(bits, 0),
            Work::Mark { positions, bits } => store(bits, load(bits) | 1 << load(positions)),
            Work::Locate { host, positions } => store(positions, host),
            Work::Read(host) => self.read(host),
        }
    }
}

/// Queues of a device, each with a thread that executes its work until its host has dropped its end.
struct Queues {
    model: Arc<Model>,
    fault: Option<Fault>,
    /// Queues that do not run yet.
    waiting: Vec<mpsc::Receiver<Work>>,
    running: Vec<JoinHandle<()>>,
}

impl Queues {
    fn new(model: &Arc<Model>, fault: Option<Fault>) -> Self {
        Self { model: model.clone(), fault, waiting: Vec::new(), running: Vec::new() }
    }

    /// Creates a queue.
    fn line(&mut self) -> Line {
        let (work, queue) = mpsc::channel();
        self.waiting.push(queue);
        Line { work, fault: self.fault }
    }

    /// Lets the queues execute their work.
    fn start(&mut self) {
        for queue in self.waiting.drain(..) {
            let model = self.model.clone();
            self.running.push(spawn(move || queue.into_iter().for_each(|work| model.execute(work))));
        }
    }

    /// Waits until all queues have ended, and checks that every batch has run.
    fn finish(self) {
        join(self.running);
        assert!(self.model.state().batches.iter().all(|(_, progress)| *progress == Progress::Ended));
    }
}

fn join(threads: Vec<JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Submission of a batch: a call of [`Groups::submit`], or a wrong one.
type Submission = fn(&Groups<Flag>, Group, &Line, &dyn Fn() -> Result<()>);

fn submitted(groups: &Groups<Flag>, group: Group, line: &Line, submit: &dyn Fn() -> Result<()>) {
    groups.submit(group, line, submit).unwrap();
}

/// Hosts that submit batches of any groups.
#[derive(Clone)]
struct Hosts {
    lock: Lock,
    table: Table,
    seen: Seen,
    fault: Option<Fault>,
    submission: Submission,
    /// Whether the device begins when all batches have been submitted.
    is_late: bool,
}

impl Hosts {
    fn of((lock, table): (Lock, Table)) -> Self {
        Self { lock, table, seen: Seen::default(), fault: None, submission: submitted, is_late: false }
    }

    /// Plays one schedule: three hosts with a queue each submit three batches each.
    fn play(&self) {
        let (model, groups) = (Model::new(self.table, &self.seen), Arc::new(Groups::new(self.lock)));
        let mut queues = Queues::new(&model, self.fault);
        let hosts = (0..3).map(|_| {
            let (model, groups, line) = (model.clone(), groups.clone(), queues.line());
            let submission = self.submission;
            spawn(move || {
                for _ in 0..3 {
                    let group = GROUPS[thread_rng().gen_range(0..GROUPS.len())];
                    submission(&groups, group, &line, &|| line.push(Work::Batch(model.submit(group))));
                }
            })
        });
        let hosts = hosts.collect();
        if !self.is_late {
            queues.start();
        }
        join(hosts);
        queues.start();
        queues.finish();
    }

    fn explore(self) {
        explore(move || self.play());
    }
}

/// Batches that exclude each other never run at the same time, in the order of their submission; the others
/// do. All run.
#[test]
fn groups_run_beside_each_other_as_the_table_says() {
    for (lock, table) in RULES {
        let hosts = Hosts::of((lock, table));
        let seen = hosts.seen.clone();
        hosts.explore();
        let groups = GROUPS.len();
        let pairs = (0..groups).flat_map(|first| (first..groups).map(move |second| [first, second]));
        let allowed: BTreeSet<_> = pairs.filter(|[first, second]| table[*first][*second]).collect();
        assert_eq!(*seen.lock().unwrap(), allowed, "{lock:?}");
    }
}

/// Submissions end although the device does nothing.
#[test]
fn hosts_do_not_wait_for_the_device() {
    RULES.into_iter().for_each(|rule| Hosts { is_late: true, ..Hosts::of(rule) }.explore());
}

/// Hosts that lease a row each, and one that evicts all rows without a lease.
#[derive(Clone)]
struct Lessees {
    fault: Option<Fault>,
    /// Whether a lease lasts until a batch that was submitted under it has evicted rows.
    is_long: bool,
    eviction: Eviction,
}

/// Choice of the bits for a batch that evicts rows: a call of [`Leases::bits`], or a wrong one.
type Eviction = fn(&Leases<Flag>, &Model, &Device, &Line) -> Option<GlobalSlice<u32>>;

fn all_leased(leases: &Leases<Flag>, _: &Model, device: &Device, line: &Line) -> Option<GlobalSlice<u32>> {
    leases.bits(device, line, 2).unwrap()
}

const LESSEES: Lessees = Lessees { fault: None, is_long: false, eviction: all_leased };

/// State that the hosts of a schedule share.
#[derive(Clone)]
struct Shared {
    model: Arc<Model>,
    groups: Arc<Groups<Flag>>,
    leases: Arc<Leases<Flag>>,
    device: Device,
}

impl Shared {
    /// Leases the row of a host, reads it and ends the lease.
    fn lease(&self, host: u32, line: &Line, is_long: bool) {
        let Self { model, groups, leases, device } = self;
        let begin = || {
            model.update(|state| state.leased.insert(host));
            let number = model.submit(Group::Readers);
            let locate = |positions| line.push(Work::Locate { host, positions });
            let lease = leases.add(device, line, 1, locate)?;
            line.push(Work::Batch(number))?;
            Ok((lease, number))
        };
        let (lease, number) = groups.submit(Group::Readers, line, begin).unwrap();
        line.push(Work::Read(host)).unwrap();
        if is_long {
            let has_evicted = |batch: &(Group, Progress)| *batch == (Group::Inserters, Progress::Ended);
            model.wait_until(|state| state.batches[number..].iter().any(has_evicted));
        }
        leases.end(lease, line);
        model.update(|state| state.leased.remove(&host));
    }

    /// Evicts all rows that are not leased.
    fn evict(&self, line: &Line, eviction: Eviction) {
        let Self { model, groups, leases, device } = self;
        let submit = || {
            let (number, leased) = (model.submit(Group::Inserters), model.state().leased.clone());
            let bits = eviction(leases, model, device, line);
            line.push(Work::Evict { number, bits, leased })
        };
        groups.submit(Group::Inserters, line, submit).unwrap();
    }
}

impl Lessees {
    /// Plays one schedule of two hosts with leases and one that evicts.
    fn play(&self, device: &Device) {
        let model = Model::new(PAPER, &Seen::default());
        let mut queues = Queues::new(&model, self.fault);
        let (groups, leases) = (Arc::new(Groups::new(Lock::Groups)), Arc::default());
        let shared = Shared { model, groups, leases, device: device.clone() };
        let (mut hosts, Self { is_long, eviction, .. }) = (Vec::new(), self.clone());
        for host in 0..2 {
            let (shared, line) = (shared.clone(), queues.line());
            let leases = if is_long { 1 } else { 2 };
            hosts.push(spawn(move || (0..leases).for_each(|_| shared.lease(host, &line, is_long))));
        }
        let line = queues.line();
        hosts.push(spawn(move || {
            if is_long {
                shared.model.wait_until(|state| state.leased.len() == 2);
            }
            let evictions = if is_long { 1 } else { 3 };
            (0..evictions).for_each(|_| shared.evict(&line, eviction));
        }));
        queues.start();
        join(hosts);
        queues.finish();
    }

    fn explore(self) {
        let device = Device::emulator(Options::default());
        explore(move || self.play(&device));
    }
}

/// Leased rows are not evicted while they are read, also by work that precedes the end of the lease; rows
/// without a lease are.
#[test]
fn leased_rows_stay_and_no_others() {
    LESSEES.explore();
}

/// Batches of inserters run while leases hold rows.
#[test]
fn insertions_do_not_wait_for_leases() {
    Lessees { is_long: true, ..LESSEES }.explore();
}

#[test]
#[should_panic(expected = "Updaters do not wait for Updaters")]
fn a_lock_that_shares_too_much_is_found() {
    Hosts::of((Lock::Groups, READER_WRITER)).explore();
}

#[test]
#[should_panic(expected = "do not wait for")]
fn lookups_that_do_not_wait_for_inserters_are_found() {
    Hosts::of((Lock::Concurrent, PAPER)).explore();
}

#[test]
#[should_panic(expected = "do not wait for")]
fn batches_without_an_order_are_found() {
    let submission: Submission = |_, _, _, submit| submit().unwrap();
    Hosts { submission, ..Hosts::of(RULES[0]) }.explore();
}

/// The lock of the host covers the batch and its event together.
#[test]
#[should_panic(expected = "do not wait for")]
fn an_event_that_is_recorded_before_its_batch_is_found() {
    let submission: Submission = |groups, group, line, submit| {
        groups.submit(group, line, || Ok(())).unwrap();
        submit().unwrap();
    };
    Hosts { submission, ..Hosts::of(RULES[0]) }.explore();
}

#[test]
#[should_panic(expected = "Readers do not wait for Inserters")]
fn a_batch_that_overtakes_is_found() {
    explore(|| {
        let model = Model::new(PAPER, &Seen::default());
        let [_, readers] = [Group::Inserters, Group::Readers].map(|group| model.submit(group));
        model.begin(readers);
    });
}

fn with_fault(fault: Fault) {
    Hosts { fault: Some(fault), ..Hosts::of(RULES[0]) }.explore();
}

#[test]
#[should_panic(expected = "deadlock")]
fn events_that_never_complete_are_found() {
    with_fault(Fault::SignalsNothing);
}

#[test]
#[should_panic(expected = "do not wait for")]
fn streams_that_do_not_wait_are_found() {
    with_fault(Fault::WaitsForNothing);
}

#[test]
#[should_panic(expected = "do not wait for")]
fn events_that_are_dropped_early_are_found() {
    with_fault(Fault::CompletesEarly);
}

#[test]
#[should_panic(expected = "evicted while a kernel reads it")]
fn leases_without_effect_are_found() {
    Lessees { eviction: |_, _, _, _| None, ..LESSEES }.explore();
}

/// The batch after a lease has ended does not wait for the work that precedes its end.
#[test]
#[should_panic(expected = "evicted while a kernel reads it")]
fn a_lease_that_ends_before_its_work_is_found() {
    let eviction: Eviction = |leases, model, device, line| {
        let deaf = Line { fault: Some(Fault::WaitsForNothing), work: line.work.clone() };
        all_leased(leases, model, device, &deaf)
    };
    Lessees { eviction, ..LESSEES }.explore();
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_insertion_that_waits_for_leases_is_found() {
    let eviction: Eviction = |_, model, _, _| {
        model.wait_until(|state| state.leased.is_empty());
        None
    };
    Lessees { eviction, is_long: true, ..LESSEES }.explore();
}

#[test]
#[should_panic(expected = "kept for no lease")]
fn leases_that_hold_too_much_are_found() {
    let eviction: Eviction = |_, _, device, _| {
        let all = device.from_slice(&[3]).unwrap();
        let bits = all.global();
        std::mem::forget(all);
        Some(bits)
    };
    Lessees { eviction, ..LESSEES }.explore();
}
