//! Multimaps under the explorer: concurrent appends, removals of one and of all values, and traversals of the
//! list.
//!
//! Appends, removals of one value and look-ups must be linearizable per key; a removal of all values counts
//! as one removal of each pair that it counted. A traversal (count, collect, removal of all) must have
//! processed every pair that was present during the whole traversal. Every value is appended only once, so
//! that it identifies its append.
use crate::chains::{self, Chains};
use crate::common::Rng;
use crate::mutation::{all_settings, setting, settings, told};
use crate::world::{Finding, HasFixture, Setting};
use checker::{Event, Model};
use gpu::{Buffer, Device, Grid};
use phalanx_kernels::keyed::{
    ContainsKey, CounterDelta, MultiOpCode, OfMany, OpCode, Outcome, Packed, PerLane, Published, Remove,
    Scalar, Session, Slot, Wide,
};
use phalanx_kernels::slab::list::{Append, Collect, Config, Count, Gather, Lists, ListsView, RemoveAll};
use phalanx_kernels::slab::{Light, Pool, Spread};
use simt::emulator::{Launch, Options};
use simt::{GlobalSlice, Kernel, Thread, timer};
use std::collections::{BTreeSet, HashMap};
use std::marker::PhantomData;

const APPEND: u8 = 0;
const REMOVE_ONE: u8 = 1;
const CONTAINS: u8 = 2;
const COUNT: u8 = 3;
const REMOVE_ALL: u8 = 4;
const COLLECT: u8 = 5;
/// Look-up by the operation for keys with one value at most.
const CONTAINS_UNIQUE: u8 = 8;
/// Each lane by its value: an append if it is even, a removal of one value if it is odd.
const MIXED: u8 = 7;
/// Kinds of rounds.
const KINDS: [u8; 8] = [APPEND, APPEND, MIXED, REMOVE_ONE, CONTAINS, COUNT, REMOVE_ALL, COLLECT];
fn is_even(value: u64) -> bool {
    value.is_multiple_of(2)
}

/// Key of a lane without an operation.
const NOTHING: u64 = 0;
/// Maximum number of values that a lane collects.
const ROOM: usize = 64;

/// Launch of one block: the kind of each round, and the key and value of each lane in each round.
#[derive(Clone, Debug)]
struct Part {
    kinds: Vec<u8>,
    rows: Vec<Vec<(u64, u64)>>,
}

/// Initial pairs, and concurrent launches.
#[derive(Debug)]
struct Plan {
    fill: Vec<(u64, u64)>,
    parts: Vec<Part>,
}

impl Plan {
    fn new<M: HasFixture>(seed: u64, lanes: u64) -> Self {
        let mut rng = Rng::new(seed);
        let fill = M::crowd(&mut rng).fill;
        let mut keys: Vec<u64> = (0..1 + rng.below(2)).map(|key| 1 + key).collect();
        if rng.below(4) == 0 {
            keys.push(u64::MAX);
        }
        // Few pairs have the plan's keys; the others fill the list.
        let filler = |place: u64| if place.is_multiple_of(7) { 1 + place / 7 % 2 } else { 1000 + place };
        let fill: Vec<_> = (0..fill).map(|place| (filler(place), place)).collect();
        let mut next = 1000;
        let parts = (0..2 + rng.below(2)).map(|_| Part::new(&mut rng, &keys, lanes, &mut next)).collect();
        Self { fill, parts }
    }

    /// Returns a plan in which one lane appends values of a key that has one, and removes one value after
    /// each append, while another one looks for the key. So the key is never absent.
    fn replacing(seed: u64, lanes: u64, lookup: u8) -> Self {
        let mut rng = Rng::new(seed);
        let (len, key) = (1 + rng.below(17), 1);
        let at = rng.below(len);
        let fill = (0..len).map(|place| (if place == at { key } else { 1000 + place }, place)).collect();
        let replacing = [APPEND, REMOVE_ONE].repeat(1 + rng.below(3) as usize);
        let parts =
            vec![Part::of_one_key(&replacing, key, lanes), Part::of_one_key(&[lookup; 3], key, lanes)];
        Self { fill, parts }
    }
}

impl Part {
    fn new(rng: &mut Rng, keys: &[u64], lanes: u64, next: &mut u64) -> Self {
        let kinds: Vec<u8> = (0..1 + rng.below(3)).map(|_| rng.pick(&KINDS)).collect();
        let step = |rng: &mut Rng, next: &mut u64| {
            *next += 1;
            let idles = rng.below(lanes) > 3;
            (if idles { NOTHING } else { rng.pick(keys) }, *next)
        };
        let rows = (0..lanes).map(|_| kinds.iter().map(|_| step(rng, next)).collect()).collect();
        Self { kinds, rows }
    }

    /// Returns a launch in which one lane appends the pairs.
    fn appends(pairs: &[(u64, u64)], lanes: u64) -> Self {
        Self::of_one_lane(vec![APPEND; pairs.len()], pairs.to_vec(), lanes)
    }

    /// Returns a launch in which one lane executes operations on one key.
    fn of_one_key(kinds: &[u8], key: u64, lanes: u64) -> Self {
        let row = (0..kinds.len() as u64).map(|round| (key, 2000 + round)).collect();
        Self::of_one_lane(kinds.to_vec(), row, lanes)
    }

    fn of_one_lane(kinds: Vec<u8>, row: Vec<(u64, u64)>, lanes: u64) -> Self {
        let idle = vec![(NOTHING, 0); row.len()];
        let rows = (0..lanes).map(|lane| if lane == 0 { row.clone() } else { idle.clone() });
        Self { kinds, rows: rows.collect() }
    }
}

/// Inputs and outputs of a launch, at `lane * rounds + round`.
#[derive(Clone, Copy)]
struct Script<K, V> {
    kinds: GlobalSlice<u8>,
    wants: GlobalSlice<u8>,
    keys: GlobalSlice<K>,
    values: GlobalSlice<V>,
    outcomes: GlobalSlice<u8>,
    counts: GlobalSlice<u32>,
    collected: GlobalSlice<V>,
    starts: GlobalSlice<u64>,
    ends: GlobalSlice<u64>,
}

/// Kernel that runs a part. `R` removes all pairs of a key.
struct Play<M: Config, R> {
    lists: ListsView<M>,
    script: Script<M::Key, M::Value>,
    by: PhantomData<R>,
}

impl<M: Config, R> Clone for Play<M, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Config, R> Copy for Play<M, R> {}

impl<M: Config, R> Kernel for Play<M, R>
where
    R: Gather<Slot = M::Slot> + Default + Send + Sync + 'static,
    M::Slot: Slot<Key = M::Key, Value = M::Value>,
{
    const PROGRAM: &'static str = "slab_list_explore";
    const NAME: &'static str = "play";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        let Self { lists, script, .. } = self;
        let (mut session, mut gone) = (Session::new(lists, PerLane), CounterDelta::default());
        for round in 0..script.kinds.len() {
            let index = Thread::index() * script.kinds.len() + round;
            let (wanted, key) = (script.wants.read(index) != 0, script.keys.read(index));
            let value = script.values.read(index);
            let start = timer();
            let (outcome, count) = match script.kinds.read(round) {
                APPEND => (session.execute(wanted, Append, key, value).0, 0),
                REMOVE_ONE => (session.execute(wanted, OfMany(Remove), key, value).0, 0),
                MIXED => {
                    let code = if is_even(value.to_u64()) { OpCode::INSERT } else { OpCode::REMOVE };
                    (session.execute(wanted, MultiOpCode(code), key, value).0, 0)
                }
                CONTAINS => (session.execute(wanted, OfMany(ContainsKey), key, value).0, 0),
                CONTAINS_UNIQUE => (session.execute(wanted, ContainsKey, key, value).0, 0),
                COUNT => (Outcome::Found, M::gather(lists, wanted, Count::default(), key)),
                REMOVE_ALL => (Outcome::Removed, M::gather(lists, wanted, R::default(), key)),
                _ => {
                    let (values, from) = (script.collected, (index * ROOM) as u64);
                    let collect = Collect { values, from, room: ROOM as u32 };
                    (Outcome::Found, M::gather(lists, wanted, collect, key))
                }
            };
            let end = timer();
            gone.remove(if script.kinds.read(round) == REMOVE_ALL { count } else { 0 });
            script.outcomes.write(index, outcome as u8);
            script.counts.write(index, count);
            script.starts.write(index, start);
            script.ends.write(index, end);
        }
        session.finish();
        M::counters(lists).record(gone);
    }
}

/// Buffers of a launch.
struct Told<K: Scalar, V: Scalar> {
    kinds: Buffer<u8>,
    wants: Buffer<u8>,
    keys: Buffer<K>,
    values: Buffer<V>,
    outcomes: Buffer<u8>,
    counts: Buffer<u32>,
    collected: Buffer<V>,
    starts: Buffer<u64>,
    ends: Buffer<u64>,
}

impl<K: Scalar, V: Scalar> Told<K, V> {
    fn new(device: &Device, part: &Part) -> gpu::Result<Self> {
        let steps = || part.rows.iter().flatten();
        let (keys, values): (Vec<K>, Vec<V>) =
            steps().map(|&(key, value)| (K::from_u64(key), V::from_u64(value))).unzip();
        let wants: Vec<u8> = steps().map(|step| u8::from(step.0 != NOTHING)).collect();
        let len = wants.len();
        Ok(Self {
            kinds: device.from_slice(&part.kinds)?,
            wants: device.from_slice(&wants)?,
            keys: device.from_slice(&keys)?,
            values: device.from_slice(&values)?,
            outcomes: device.buffer(len)?,
            counts: device.buffer(len)?,
            collected: device.zeroed(len * ROOM)?,
            starts: device.buffer(len)?,
            ends: device.buffer(len)?,
        })
    }

    fn script(&self) -> Script<K, V> {
        Script {
            kinds: self.kinds.global(),
            wants: self.wants.global(),
            keys: self.keys.global(),
            values: self.values.global(),
            outcomes: self.outcomes.global(),
            counts: self.counts.global(),
            collected: self.collected.global(),
            starts: self.starts.global(),
            ends: self.ends.global(),
        }
    }

    /// Returns the steps of all lanes with an operation, and their results.
    fn steps(&self, part: &Part, thread: u32) -> gpu::Result<Vec<Step>> {
        let (outcomes, counts) = (self.outcomes.read()?, self.counts.read()?);
        let (starts, ends, collected) = (self.starts.read()?, self.ends.read()?, self.collected.read()?);
        let rounds = part.kinds.len();
        let step = |index: usize| {
            let (key, value) = part.rows[index / rounds][index % rounds];
            let count = counts[index] as usize;
            let kind = match part.kinds[index % rounds] {
                MIXED if is_even(value) => APPEND,
                MIXED => REMOVE_ONE,
                kind => kind,
            };
            let listed = if kind == COLLECT { count.min(ROOM) } else { 0 };
            let values = &collected[index * ROOM..][..listed];
            Step {
                kind,
                key: K::from_u64(key).to_u64(),
                value,
                outcome: outcomes[index],
                count,
                values: values.iter().map(|value| value.to_u64()).collect(),
                start: starts[index],
                end: ends[index],
                thread,
            }
        };
        let is_done = |index: &usize| part.rows[index / rounds][index % rounds].0 != NOTHING;
        Ok((0..outcomes.len()).filter(is_done).map(step).collect())
    }
}

/// Step of a lane, and its result.
#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    key: u64,
    value: u64,
    outcome: u8,
    count: usize,
    values: Vec<u64>,
    start: u64,
    end: u64,
    thread: u32,
}

/// Model: the number of pairs of each key.
#[derive(Debug)]
struct Counts(HashMap<u64, usize>);

/// Kind of an operation that queries the final number of pairs of a key.
const LEFT: u8 = 6;

impl Model for Counts {
    type Op = (u8, u64);
    type Outcome = (u8, usize);
    type Part = u64;
    type State = usize;

    fn part(&self, op: &(u8, u64)) -> u64 {
        op.1
    }

    fn initial(&self, key: &u64) -> usize {
        self.0.get(key).copied().unwrap_or(0)
    }

    fn step(&self, &state: &usize, op: &(u8, u64), &(outcome, count): &(u8, usize)) -> Option<usize> {
        match (op.0, Outcome::from_code(outcome)?) {
            (APPEND, Outcome::Inserted) => Some(state + 1),
            (APPEND, Outcome::Refused) => Some(state),
            (REMOVE_ONE, Outcome::Removed) => state.checked_sub(1),
            (CONTAINS, Outcome::Found) => (state > 0).then_some(state),
            (REMOVE_ONE | CONTAINS, Outcome::Absent) => (state == 0).then_some(state),
            (LEFT, _) => (state == count).then_some(state),
            _ => None,
        }
    }

    fn only_observes(&self, op: &(u8, u64), &(outcome, _): &(u8, usize)) -> bool {
        op.0 != APPEND && outcome != Outcome::Removed as u8 || outcome == Outcome::Refused as u8
    }
}

/// All steps, and the final pairs.
struct History {
    fill: Vec<(u64, u64)>,
    steps: Vec<Step>,
    left: Vec<(u64, u64)>,
}

impl History {
    /// Returns the steps that the model knows: a removal of all values is one removal of each pair.
    fn events(&self) -> Vec<Event<(u8, u64), (u8, usize)>> {
        let mut events = Vec::new();
        for step in self.steps.iter().filter(|step| !matches!(step.kind, COUNT | COLLECT)) {
            let all = step.kind == REMOVE_ALL;
            let kind = match step.kind {
                REMOVE_ALL => REMOVE_ONE,
                CONTAINS_UNIQUE => CONTAINS,
                kind => kind,
            };
            let event = Event {
                op: (kind, step.key),
                outcome: (step.outcome, 0),
                start: step.start,
                end: step.end,
                thread: step.thread,
            };
            events.extend(std::iter::repeat_n(event, if all { step.count } else { 1 }));
        }
        for key in self.steps.iter().map(|step| step.key).collect::<BTreeSet<_>>() {
            let left = self.left.iter().filter(|pair| pair.0 == key).count();
            let (op, outcome) = ((LEFT, key), (Outcome::Found as u8, left));
            events.push(Event { op, outcome, start: u64::MAX, end: u64::MAX, thread: u32::MAX });
        }
        events
    }

    /// Returns the start and end of the append of a value, or `None` if it was never appended.
    fn came(&self, pair: (u64, u64)) -> Option<(u64, u64)> {
        if self.fill.contains(&pair) {
            return Some((0, 0));
        }
        let is_it = |step: &&Step| {
            step.kind == APPEND && (step.key, step.value) == pair && step.outcome == Outcome::Inserted as u8
        };
        self.steps.iter().find(is_it).map(|step| (step.start, step.end))
    }

    /// Returns whether the values are distinct, in an order compatible with their appends, and appended
    /// before `before`.
    fn is_in_order(&self, key: u64, values: &[u64], before: u64) -> bool {
        let came: Option<Vec<(u64, u64)>> = values.iter().map(|&value| self.came((key, value))).collect();
        let Some(came) = came else { return false };
        let is_known = came.iter().all(|&(start, _)| start <= before);
        let in_order = (0..came.len()).all(|first| {
            (first + 1..came.len())
                .all(|second| values[first] != values[second] && came[second].1 >= came[first].0)
        });
        is_known && in_order
    }

    /// Returns the values that a traversal must have processed: those appended before it that are still
    /// present.
    fn lasting(&self, step: &Step) -> Vec<u64> {
        let came_before =
            |value: &u64| self.came((step.key, *value)).is_some_and(|(_, end)| end < step.start);
        let of_key = self.left.iter().filter(|pair| pair.0 == step.key).map(|pair| pair.1);
        of_key.filter(came_before).collect()
    }

    /// Returns the maximum number of pairs of the key that may have been present before the end of a step.
    fn possible(&self, step: &Step) -> usize {
        let appended = self.steps.iter().filter(|other| {
            other.kind == APPEND
                && other.key == step.key
                && other.outcome == Outcome::Inserted as u8
                && other.start <= step.end
        });
        self.fill.iter().filter(|pair| pair.0 == step.key).count() + appended.count()
    }

    /// Returns whether a traversal has processed all the pairs that it must, and no others.
    fn is_complete(&self, step: &Step) -> bool {
        let lasting = self.lasting(step);
        let bounds = lasting.len()..=self.possible(step);
        match step.kind {
            REMOVE_ALL => lasting.is_empty() && step.count <= *bounds.end(),
            COUNT => bounds.contains(&step.count),
            COLLECT => {
                bounds.contains(&step.count)
                    && lasting.iter().all(|value| step.values.contains(value))
                    && self.is_in_order(step.key, &step.values, step.end)
            }
            _ => true,
        }
    }

    fn check(&self) -> Result<(), Finding> {
        let wrong = |what: String| Err(Finding::Order(what));
        let mut initial = HashMap::new();
        self.fill.iter().for_each(|pair| *initial.entry(pair.0).or_insert(0) += 1);
        if let Some(step) = self.steps.iter().find(|step| !self.is_complete(step)) {
            return wrong(format!("a pass missed or made up some: {step:?}, and {:?} are left", self.left));
        }
        for &(key, _) in &self.left {
            let values: Vec<u64> = self.left.iter().filter(|pair| pair.0 == key).map(|pair| pair.1).collect();
            if !self.is_in_order(key, &values, u64::MAX) {
                return wrong(format!("key {key} has {values:?}, in another order than they came"));
            }
        }
        checker::check(&Counts(initial), &self.events())
            .map(drop)
            .map_err(|failure| Finding::Order(failure.to_string()))
    }
}

/// List variants that can be explored in this way.
pub trait Explored: HasFixture<Memory = Chains> + Config {
    /// Returns the final pairs in order, and checks the layout.
    fn left(memory: &Chains) -> Result<Vec<(u64, u64)>, Finding>;
}

impl<S: Slot, P: Pool, const W: u32, const L: usize> Explored for Lists<S, P, W, L> {
    fn left(memory: &Chains) -> Result<Vec<(u64, u64)>, Finding> {
        chains::contents_of::<S, P, W, L>(memory, 1)
    }
}

/// Runs the parts concurrently.
fn play<M: Explored, R>(device: &Device, memory: &Chains, parts: &[Part]) -> Result<Vec<Step>, Finding>
where
    R: Gather<Slot = M::Slot> + Default + Send + Sync + 'static,
    M::Slot: Slot<Key = M::Key, Value = M::Value>,
{
    let told: Vec<Told<M::Key, M::Value>> =
        parts.iter().map(|part| Told::new(device, part).expect("memory")).collect();
    let launch = |(part, told): (&Part, &Told<M::Key, M::Value>)| {
        let play = Play::<M, R> { lists: M::view(memory, 1), script: told.script(), by: PhantomData };
        Launch::new(Grid::new(1, part.rows.len() as u32), play)
    };
    let launches: Vec<_> = parts.iter().zip(&told).map(launch).collect();
    let emulator = device.emulator_handle().expect("an emulator");
    emulator.launch_all(launches).map_err(Finding::Machine)?;
    let parts = parts.iter().zip(&told).zip(0..);
    Ok(parts.flat_map(|((part, told), thread)| told.steps(part, thread).expect("memory")).collect())
}

/// Returns the number of lanes of a launch: a warp has at least two tiles, unless a tile is a whole warp.
fn lanes<M: Config>() -> u64 {
    u64::from((M::TILE.max(2) * 2).min(32))
}

/// Runs the plan of a seed and checks its results. Returns the numbers of operations and of refusals.
fn explore<M: Explored, R>(seed: u64, setting: &Setting) -> Result<(usize, usize), Finding>
where
    R: Gather<Slot = M::Slot> + Default + Send + Sync + 'static,
    M::Slot: Slot<Key = M::Key, Value = M::Value>,
{
    explore_plan::<M, R>(&Plan::new::<M>(seed, lanes::<M>()), setting)
}

/// Runs a plan and checks its results. Returns the numbers of operations and of refusals.
fn explore_plan<M: Explored, R>(plan: &Plan, setting: &Setting) -> Result<(usize, usize), Finding>
where
    R: Gather<Slot = M::Slot> + Default + Send + Sync + 'static,
    M::Slot: Slot<Key = M::Key, Value = M::Value>,
{
    let calm = Device::emulator(Options { cas128: setting.cas128, ..Options::default() });
    let filled = M::memory(&calm, 1).expect("memory");
    play::<M, R>(&calm, &filled, &[Part::appends(&plan.fill, lanes::<M>())])?;
    let options = Options {
        stale_l1: true,
        weak_memory: setting.weak_memory,
        cas128: setting.cas128,
        step_limit: 1 << 18,
        ..Options::explore(setting.schedule.clone())
    };
    let device = Device::emulator(options);
    let mut memory = M::memory(&device, 1).expect("memory");
    M::copy(&mut memory, &filled).expect("memory");
    let steps = play::<M, R>(&device, &memory, &plan.parts)?;
    let fill = plan.fill.iter().map(|&(key, value)| (M::Key::from_u64(key).to_u64(), value)).collect();
    let history = History { fill, steps, left: M::left(&memory)? };
    history.check()?;
    let is_refused = |step: &&Step| step.kind == APPEND && step.outcome == Outcome::Refused as u8;
    Ok((history.steps.len(), history.steps.iter().filter(is_refused).count()))
}

/// Runs the plans of `count` seeds; all must be sound.
pub fn all_are_sound<M: Explored>(name: &str, count: u64)
where
    M::Slot: Slot<Key = M::Key, Value = M::Value>,
{
    let (mut operations, mut refused) = (0, 0);
    for (seed, setting) in settings::<M>(count) {
        let played = explore::<M, RemoveAll<M::Slot>>(seed, &setting)
            .unwrap_or_else(|finding| panic!("{}", told(name, seed, &setting, &finding)));
        operations += played.0;
        refused += played.1;
    }
    println!("{name}: {operations} operations, {refused} of them refused");
}

/// Checks that one of `count` seeds has a finding that satisfies `is`, and that it replays.
pub fn is_found<M: Explored, R>(name: &str, count: u64, is: fn(&Finding) -> bool)
where
    R: Gather<Slot = M::Slot> + Default + Send + Sync + 'static,
    M::Slot: Slot<Key = M::Key, Value = M::Value>,
{
    let first = (0..count)
        .find_map(|seed| Some((seed, explore::<M, R>(seed, &setting::<M>(seed)).err().filter(is)?)));
    let (seed, finding) = first.unwrap_or_else(|| panic!("{name}: not found by {count} seeds"));
    let again = explore::<M, R>(seed, &setting::<M>(seed)).expect_err("what was found is there");
    assert!(again.is_same(&finding), "{name}: seed {seed} does not replay: {finding} and {again}");
    println!("{name}: found by seed {seed}: {finding}");
}

/// Replaces the values of a key that is never absent, under `count` seeds in both memory models, and returns
/// how many have a finding. Other lanes look for the key by operations of the kind `lookup`.
fn misses<M: Explored>(name: &str, count: u64, lookup: u8) -> usize
where
    M::Slot: Slot<Key = M::Key, Value = M::Value>,
{
    let mut found = 0;
    for (seed, setting) in all_settings::<M>(count) {
        let plan = Plan::replacing(seed, lanes::<M>(), lookup);
        if let Err(finding) = explore_plan::<M, RemoveAll<M::Slot>>(&plan, &setting) {
            println!("{}", told(name, seed, &setting, &finding));
            found += 1;
        }
    }
    found
}

#[test]
fn a_key_is_present_while_its_values_are_replaced() {
    assert_eq!(misses::<Lists<Packed, Spread<128>, 4, 4>>("packed", 1000, CONTAINS), 0);
    assert_eq!(misses::<Lists<Packed, Light<128>, 2, 8>>("packed, two lanes", 1000, CONTAINS), 0);
    assert_eq!(misses::<Lists<Wide<u64, u64>, Spread<128>, 4, 2>>("wide", 500, CONTAINS), 0);
    assert_eq!(misses::<Lists<Published<u64, u64>, Spread<128>, 4, 2>>("published", 2000, CONTAINS), 0);
}

#[test]
fn a_lookup_for_keys_with_one_value_misses_a_key_whose_values_are_replaced() {
    assert_ne!(misses::<Lists<Packed, Spread<128>, 4, 4>>("packed", 1000, CONTAINS_UNIQUE), 0);
    assert_ne!(
        misses::<Lists<Published<u64, u64>, Spread<128>, 4, 2>>("published", 1000, CONTAINS_UNIQUE),
        0
    );
}
