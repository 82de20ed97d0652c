//! Map on an emulated device, and the findings when a plan runs on it.
#![allow(dead_code)] // each program uses some of these
use crate::common::Rng;
use crate::plan::{Choice, Part, Plan};
use crate::script::{self, Execution, ForgetFilter, NOTHING, Rows, Script};
use checker::{Combine, Event, MapModel, MapOp, MapOutcome};
use gpu::{Buffer, Device, Grid};
use phalanx_kernels::keyed::{Kind, Outcome, SHARD_WORDS, Scalar, Slot};
use simt::Global;
use simt::emulator::{FailureKind, Fault, Launch, Options, Schedule, WeakMemory};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::AddAssign;

/// Size and initial fill of a structure.
pub struct Fixture {
    /// Number of buckets.
    pub buckets: u32,
    /// Number of initial pairs.
    pub fill: u64,
    /// Maximum number of new keys in a plan.
    pub news: u64,
}

/// Structure in its own memory, so small that operations collide and memory runs out.
pub trait HasFixture: Kind {
    /// Memory of the structure.
    type Memory;

    /// Weak memory model for additional plans. Searches of most structures follow links, whose order relies
    /// on address dependencies.
    const WEAK: WeakMemory = WeakMemory::Hardware;

    /// Whether updates of existing keys may be refused, too.
    const REFUSES_CHANGES: bool = false;

    /// Whether an operation that takes a pair may miss a change of its value that overlaps with it.
    const TAKES_MISS_CHANGES: bool = false;

    /// Generates the size and the initial fill.
    fn crowd(rng: &mut Rng) -> Fixture;

    /// Allocates memory for `buckets` buckets, without pairs.
    fn memory(device: &Device, buckets: u32) -> gpu::Result<Self::Memory>;

    /// Copies the contents of another memory, possibly of another device.
    fn copy(to: &mut Self::Memory, from: &Self::Memory) -> gpu::Result<()>;

    /// Returns the kernel view.
    fn view(memory: &Self::Memory, buckets: u32) -> Self::View;

    /// Returns the pairs in the memory, and checks its layout.
    fn contents(memory: &Self::Memory, buckets: u32) -> Result<HashMap<u64, u64>, Finding>;

    /// Returns the number of nodes that have merged with the next one, and of those whose next one has, too.
    fn merged(_memory: &Self::Memory) -> [u64; 2] {
        [0; 2]
    }

    /// Returns a word of the filters, if there are any.
    fn filter(_memory: &Self::Memory) -> Option<Global<u32>> {
        None
    }
}

/// Fault that a test has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The emulator ended the launch because of a race, a hang, an invalid access, ...
    Machine(simt::emulator::Failure),
    /// No linearization explains the outcomes.
    Order(String),
    /// A key is in two slots.
    Twice(u64),
    /// The counters and the slots disagree about the length.
    Length { counted: u64, found: u64 },
    /// An empty slot precedes a used one in a bucket's list.
    Gap(u32),
    /// A bucket's list links to a slab that is not live, or that already is in a list.
    Link(u32),
    /// The number of live slabs differs from the number of slabs in lists.
    Slabs { live: usize, reached: usize },
}

impl Finding {
    /// Returns whether the findings are equal, apart from addresses.
    pub fn is_same(&self, other: &Self) -> bool {
        let (Self::Machine(a), Self::Machine(b)) = (self, other) else { return self == other };
        crate::common::is_same_failure(a, b)
    }
}

/// Returns whether the outcomes are wrong, rather than an access.
#[allow(dead_code)] // each program uses some of these
pub fn is_wrong(finding: &Finding) -> bool {
    !matches!(finding, Finding::Machine(_))
}

/// Returns whether the finding is a data race.
#[allow(dead_code)] // each program uses some of these
pub fn is_race(finding: &Finding) -> bool {
    matches!(finding, Finding::Machine(failure) if matches!(failure.kind, FailureKind::DataRace { .. }))
}

/// Returns whether the finding is an access outside every buffer.
#[allow(dead_code)] // each program uses some of these
pub fn is_outside(finding: &Finding) -> bool {
    matches!(finding, Finding::Machine(failure) if matches!(failure.kind, FailureKind::OutOfBounds { .. }))
}

/// Returns whether the finding is a hang.
#[allow(dead_code)] // each program uses some of these
pub fn is_hang(finding: &Finding) -> bool {
    matches!(finding, Finding::Machine(failure) if matches!(failure.kind, FailureKind::Hang { .. }))
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Machine(failure) => failure.fmt(f),
            Self::Order(violation) => f.write_str(violation),
            Self::Twice(key) => write!(f, "key {key} is in two slots"),
            Self::Length { counted, found } => {
                write!(f, "the counters say {counted} keys, and there are {found}")
            }
            Self::Gap(bucket) => write!(f, "list {bucket} has an empty slot before a taken one"),
            Self::Link(bucket) => write!(f, "list {bucket} leads to a slab that is not its own"),
            Self::Slabs { live, reached } => write!(f, "{live} slabs are live, and {reached} are in lists"),
        }
    }
}

/// Conditions of a run.
#[derive(Clone, Debug)]
pub struct Setting {
    pub schedule: Schedule,
    /// Operations in plans.
    pub choice: Choice,
    /// Whether 16-byte compare-and-swap is available.
    pub cas128: bool,
    /// Whether another kernel concurrently overwrites the filters.
    pub forget: bool,
    /// Memory model: the values that strong reads may return.
    pub weak_memory: WeakMemory,
    /// Faults injected into the kernels.
    pub faults: Vec<Fault>,
}

/// Totals of runs without a finding.
#[derive(Clone, Copy, Debug, Default)]
pub struct Played {
    pub steps: u64,
    pub operations: usize,
    pub refused: usize,
    /// See [`HasFixture::merged`].
    pub merged: [u64; 2],
}

impl AddAssign for Played {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.operations += other.operations;
        self.refused += other.refused;
        (0..2).for_each(|place| self.merged[place] += other.merged[place]);
    }
}

/// Buffers of a part.
struct Answers<K: Scalar, V: Scalar> {
    kinds: Buffer<u8>,
    codes: Buffer<u8>,
    keys: Buffer<K>,
    arguments: Buffer<V>,
    results: Buffer<V>,
    outcomes: Buffer<u8>,
    starts: Buffer<u64>,
    ends: Buffer<u64>,
}

impl<K: Scalar, V: Scalar> Answers<K, V> {
    fn new(device: &Device, part: &Part) -> gpu::Result<Self> {
        let steps = || part.rows.iter().flatten();
        let len = steps().count();
        let (keys, arguments): (Vec<K>, Vec<V>) =
            steps().map(|step| (K::from_u64(step.1), V::from_u64(step.2))).unzip();
        Ok(Self {
            kinds: device.from_slice(&part.kinds)?,
            codes: device.from_slice(&steps().map(|step| step.0).collect::<Vec<_>>())?,
            keys: device.from_slice(&keys)?,
            arguments: device.from_slice(&arguments)?,
            results: device.buffer(len)?,
            outcomes: device.buffer(len)?,
            starts: device.buffer(len)?,
            ends: device.buffer(len)?,
        })
    }

    fn rows(&self) -> Rows<K, V> {
        Rows {
            kinds: self.kinds.global(),
            codes: self.codes.global(),
            keys: self.keys.global(),
            arguments: self.arguments.global(),
            results: self.results.global(),
            outcomes: self.outcomes.global(),
            starts: self.starts.global(),
            ends: self.ends.global(),
        }
    }

    /// Returns the operations with their outcomes, and for each the kind of its round. If values are not
    /// returned, all of them are 0.
    fn events(&self, part: &Part, thread: u32, has_value: bool) -> gpu::Result<Vec<(u8, Event<Op, Answer>)>> {
        let (results, outcomes) = (self.results.read()?, self.outcomes.read()?);
        let (starts, ends) = (self.starts.read()?, self.ends.read()?);
        let rounds = part.kinds.len();
        let event = |index: usize| {
            let (code, key, argument) = part.rows[index / rounds][index % rounds];
            let kind = part.kinds[index % rounds];
            let key = K::from_u64(key).to_u64();
            let seen = |value: u64| if has_value { value } else { 0 };
            let (argument, value) = (seen(argument), seen(results[index].to_u64()));
            let value = Part::tells_values(kind).then_some(value);
            let op = operation(kind, code, key, argument)?;
            let outcome = answer(Outcome::from_code(outcomes[index])?, kind, value);
            Some((kind, Event { op, outcome, start: starts[index], end: ends[index], thread }))
        };
        Ok((0..results.len()).filter_map(event).collect())
    }
}

type Op = MapOp<u64, u64>;
type Answer = MapOutcome<u64>;

fn operation(kind: u8, code: u8, key: u64, argument: u64) -> Option<Op> {
    Some(match (kind, code) {
        (_, NOTHING) => return None,
        (script::GET, _) | (script::MIXED | script::EXCHANGES, 0) => MapOp::Get(key),
        (script::INSERT, _) | (script::MIXED | script::EXCHANGES, 1) => MapOp::Insert(key, argument),
        (script::INSERT_NEW, _) | (script::MIXED | script::EXCHANGES, 2) => MapOp::InsertNew(key, argument),
        (script::REMOVE, _) | (script::MIXED | script::EXCHANGES, 3) => MapOp::Remove(key),
        (script::CONTAINS_KEY, _) => MapOp::Contains(key),
        (_, 4) => MapOp::GetOrInsert(key, argument),
        (_, 5) => MapOp::Upsert(key, argument, Combine::Add),
        (_, 6) => MapOp::Upsert(key, argument, Combine::Min),
        (..) => MapOp::Upsert(key, argument, Combine::Max),
    })
}

/// Converts the outcome of an operation in a round of this kind, and the value if such rounds return values.
fn answer(outcome: Outcome, kind: u8, value: Option<u64>) -> Answer {
    match outcome {
        Outcome::Refused => MapOutcome::Refused,
        Outcome::Inserted => MapOutcome::Inserted,
        Outcome::Replaced => MapOutcome::Replaced(value),
        Outcome::Found => value.map_or(MapOutcome::Present, MapOutcome::Found),
        Outcome::Removed => MapOutcome::Removed(value.filter(|_| kind == script::EXCHANGES)),
        Outcome::Absent => MapOutcome::Absent,
    }
}

/// Omits the values of takes that may have missed a change: see [`HasFixture::TAKES_MISS_CHANGES`]. What
/// exchanges change, they miss only if pairs are published in steps.
fn omit_missed<M: HasFixture>(events: &mut [(u8, Event<Op, Answer>)]) {
    let changes = events.iter().filter(|(kind, event)| {
        let may_be_missed =
            M::Slot::PUBLISHES || *kind != script::EXCHANGES || !matches!(event.op, Op::Insert(..));
        may_be_missed && matches!(event.outcome, Answer::Replaced(_))
    });
    let changes: Vec<_> = changes.map(|(_, event)| event.clone()).collect();
    for (_, event) in events.iter_mut().filter(|_| M::TAKES_MISS_CHANGES) {
        let overlaps = |change: &Event<Op, Answer>| {
            change.op.key() == event.op.key() && !change.precedes(event) && !event.precedes(change)
        };
        if matches!(event.outcome, Answer::Removed(Some(_))) && changes.iter().any(overlaps) {
            event.outcome = Answer::Removed(None);
        }
    }
}

/// Structure of one variant on a device.
struct World<M: HasFixture> {
    device: Device,
    memory: M::Memory,
    buckets: u32,
}

impl<M: HasFixture> World<M> {
    fn new(options: Options, buckets: u32) -> gpu::Result<Self> {
        let device = Device::emulator(options);
        let memory = M::memory(&device, buckets)?;
        Ok(Self { device, memory, buckets })
    }

    /// Copies the structure to another device.
    fn copy_to(&self, options: Options) -> gpu::Result<Self> {
        let mut copy = Self::new(options, self.buckets)?;
        M::copy(&mut copy.memory, &self.memory)?;
        Ok(copy)
    }

    /// Runs the parts concurrently. Returns the operations with their outcomes, and the number of steps.
    fn play<E: Execution<M>>(
        &self,
        parts: &[Part],
        setting: &Setting,
    ) -> Result<(Vec<Event<Op, Answer>>, u64), Finding> {
        let scripts: Vec<Answers<M::Key, M::Value>> =
            parts.iter().map(|part| Answers::new(&self.device, part).expect("memory")).collect();
        let launch = |(part, script): (&Part, &Answers<M::Key, M::Value>)| {
            let script = Script::<M, E> {
                map: M::view(&self.memory, self.buckets),
                rows: script.rows(),
                by: PhantomData,
            };
            Launch::new(Grid::new(1, part.rows.len() as u32 * E::WIDTH), script)
        };
        let mut launches: Vec<_> = parts.iter().zip(&scripts).map(launch).collect();
        if let Some(word) = M::filter(&self.memory).filter(|_| setting.forget) {
            launches.push(Launch::new(Grid::new(1, 1), ForgetFilter(word)));
        }
        let emulator = self.device.emulator_handle().expect("an emulator");
        let report = emulator.launch_all(launches).map_err(Finding::Machine)?;
        let parts = parts.iter().zip(&scripts).zip(0..);
        let has_value = M::Slot::HAS_VALUE;
        let events =
            parts.map(|((part, script), thread)| script.events(part, thread, has_value).expect("memory"));
        let mut events: Vec<_> = events.flatten().collect();
        omit_missed::<M>(&mut events);
        Ok((events.into_iter().map(|(_, event)| event).collect(), report.steps))
    }

    fn contents(&self) -> Result<HashMap<u64, u64>, Finding> {
        M::contents(&self.memory, self.buckets)
    }
}

/// Compares the counters with the number of pairs found.
pub fn counted<T>(counters: &Buffer<u64>, found: usize, pairs: T) -> Result<T, Finding> {
    let counters = counters.read().expect("memory");
    let counted = counters.iter().step_by(SHARD_WORDS).fold(0u64, |sum, live| sum.wrapping_add(*live));
    let found = found as u64;
    if counted == found { Ok(pairs) } else { Err(Finding::Length { counted, found }) }
}

/// Runs a plan and checks its outcomes.
pub fn explore<M: HasFixture, E: Execution<M>>(plan: &Plan, setting: &Setting) -> Result<Played, Finding> {
    let calm = Setting { forget: false, ..setting.clone() };
    let calmly = Options { cas128: setting.cas128, step_limit: 1 << 12, ..Options::default() };
    let fill = World::<M>::new(calmly, plan.buckets).expect("memory");
    fill.play::<E>(&[Part::insert_new(0..plan.fill, M::TILE / E::WIDTH)], &calm)?;
    let initial = fill.contents()?;
    let options = Options {
        stale_l1: true,
        weak_memory: setting.weak_memory,
        cas128: setting.cas128,
        faults: setting.faults.clone(),
        step_limit: 1 << 18,
        ..Options::explore(setting.schedule.clone())
    };
    let world = fill.copy_to(options).expect("memory");
    let (mut events, steps) = world.play::<E>(&plan.parts, setting)?;
    let (operations, refused) =
        (events.len(), events.iter().filter(|event| event.outcome == MapOutcome::Refused).count());
    // A refused operation guarantees only that it has changed nothing.
    events.retain(|event| !M::REFUSES_CHANGES || event.outcome != MapOutcome::Refused);
    events.extend(final_lookups::<M>(plan, &world.contents()?));
    checker::check(&MapModel { initial }, &events).map_err(|failure| Finding::Order(failure.to_string()))?;
    let merged = [0, 1].map(|place| M::merged(&world.memory)[place] - M::merged(&fill.memory)[place]);
    Ok(Played { steps, operations, refused, merged })
}

/// Returns the final contents as look-ups after all other operations.
fn final_lookups<M: Kind>(plan: &Plan, pairs: &HashMap<u64, u64>) -> Vec<Event<Op, Answer>> {
    let look = |key: u64| {
        let outcome = pairs.get(&key).map_or(MapOutcome::Absent, |&value| MapOutcome::Found(value));
        Event { op: MapOp::Get(key), outcome, start: u64::MAX, end: u64::MAX, thread: u32::MAX }
    };
    let named = plan.named().map(|key| M::Key::from_u64(key).to_u64());
    named.chain(0..plan.fill).map(look).collect()
}
