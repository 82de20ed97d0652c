//! Histories of updates, look-ups, range queries and snapshots: there must be one linearization of all of
//! them that explains every outcome.
use crate::common::{Rng, seeds};
use crate::faults::{assert_effects, with};
use crate::mutation::{setting, settings, told};
use crate::steps::{COLLECT, COUNT, HIGHEST, IDLE, INSERT, LANES, LOWEST, REMOVE, Script, Step};
use crate::trees::Forest;
use crate::world::{Finding, HasFixture, Setting};
use checker::{Event, MapOp, MapOutcome, SnapshotModel, SnapshotOp, SnapshotOutcome};
use gpu::{Buffer, Device, Grid};
use phalanx_kernels::keyed::{Get, Insert, Kind, Outcome, PerLane, Remove, Scalar, Session};
use phalanx_kernels::mvbtree::{Config, LATEST, TreeView, Versions};
use simt::emulator::{FailureKind, Fault, Launch, Options, WeakMemory};
use simt::{GlobalSlice, Kernel, Thread, timer};
use std::collections::BTreeMap;

const GET: u8 = 2;
/// Takes a snapshot for the tile; later queries of its lanes in the launch read that snapshot.
const TAKE: u8 = 7;
const WRITES: [u8; 3] = [INSERT, INSERT, REMOVE];
const ASKS: [u8; 7] = [COLLECT, COLLECT, COUNT, LOWEST, HIGHEST, GET, TAKE];
/// Maximum number of pairs in the result of a range.
const ROOM: usize = 64;
/// Exclusive upper bound of keys.
const KEYS: u64 = 24;
/// Name of the snapshot that was taken before all operations.
const BEFORE: u32 = u32::MAX;

/// Launch of one block. In each round all lanes perform the same kind of step or nothing.
#[derive(Clone, Debug)]
struct Part {
    rounds: Vec<Vec<Step>>,
    /// Whether queries read the snapshot that was taken before all operations.
    asks_the_past: bool,
    /// Whether the launch leaves its epoch after each round and enters again. It then takes no snapshots.
    comes_and_goes: bool,
}

/// Initial keys, each with itself as its value, and concurrent launches.
#[derive(Debug)]
pub struct Plan {
    units: u32,
    fill: Vec<u64>,
    parts: Vec<Part>,
}

impl Plan {
    pub fn new<M: HasFixture + Config>(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x51ab);
        let many = rng.pick(&[0, 4, 5, 6, 10, 16]);
        let fill = (0..many).map(|_| rng.below(KEYS)).collect();
        let writer = |rng: &mut Rng| Part::new(rng, &WRITES, 3, M::TILE as usize, false);
        let mut parts = vec![writer(&mut rng), writer(&mut rng)];
        // Concurrently with in-place writers, only queries of the past read a consistent snapshot.
        let past = !M::Versions::CLOCK_MOVES || rng.below(4) == 0;
        parts.push(Part::new(&mut rng, &ASKS, 4, M::TILE as usize, past));
        if rng.below(2) == 0 {
            let past = !M::Versions::CLOCK_MOVES || rng.below(4) == 0;
            parts.push(Part::new(&mut rng, &ASKS, 3, M::TILE as usize, past));
        }
        Self { units: rng.pick(&[14, 60, 60, 60]), fill, parts }
    }
}

impl Plan {
    /// Returns a plan with two tiles that take snapshots at the same time and read them repeatedly,
    /// concurrently with a few changes to the same leaf.
    pub fn racing(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x7ace);
        let reader = |_| {
            let mut rounds = vec![by_one_lane(0, COLLECT, 0); 5];
            rounds[0] = by_one_lane(0, TAKE, 0);
            rounds
        };
        let writers = [4, 4].map(|rounds| few_changes(&mut rng, rounds));
        Self::of([0, 1].map(reader).into_iter().chain(writers))
    }

    /// Returns a plan with two tiles that take a snapshot each and read it twice, concurrently with two
    /// changes of one leaf: so short that schedules often delay the decisive steps.
    pub fn helping(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x4e1b);
        let mut reader = vec![by_one_lane(0, COLLECT, 0); 3];
        reader[0] = by_one_lane(0, TAKE, 0);
        Self::of([reader.clone(), reader, few_changes(&mut rng, 2)].into_iter())
    }

    /// Returns a plan with two tiles whose queries of the current state take a snapshot each, concurrently
    /// with a few changes.
    pub fn asking(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0xa5c1);
        let reader = vec![by_one_lane(0, COLLECT, 0); 4];
        Self::of([reader.clone(), reader, few_changes(&mut rng, 3)].into_iter())
    }

    /// Returns a plan with a lane that queries the current state later than the other lanes of its tile, one
    /// of which takes the snapshot for it, concurrently with a few changes.
    pub fn late(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x1a7e);
        let reader = vec![by_one_lane(1, COLLECT, 0); 3];
        let writers = [3, 3].map(|rounds| few_changes(&mut rng, rounds));
        Self::of([reader].into_iter().chain(writers))
    }

    /// Returns a plan with a writer that enters and leaves an epoch for each of many changes, which frees
    /// versions, concurrently with a reader that stays inside.
    pub fn reclaiming(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0xf4ee);
        let reader = vec![by_one_lane(0, COLLECT, 0); 3];
        let writer = few_changes(&mut rng, 8);
        let mut plan = Self::of([reader, writer].into_iter());
        plan.parts[1].comes_and_goes = true;
        plan
    }

    /// Returns a plan with writers that free versions, and then split a leaf and the root, which is full. The
    /// pool is so small that new nodes and copies are slabs that were freed before.
    pub fn recycling(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5ab5);
        let writer = |part: u64| {
            let mut rounds = few_changes(&mut rng, 6);
            rounds.extend((0..3).map(|n| by_one_lane(0, INSERT, 14 + 2 * n + part)));
            rounds
        };
        let mut plan = Self::of((0..2).map(writer));
        plan.parts.iter_mut().for_each(|part| part.comes_and_goes = true);
        Self { units: 20, fill: (0..14).collect(), ..plan }
    }

    /// Returns a plan in which a full leaf is split while another writer changes keys of its upper half, and
    /// a reader looks a key up there, takes a snapshot and reads it.
    pub fn dividing(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0xd171);
        let upper = [4, 6, 8];
        let splits = vec![by_one_lane(0, INSERT, rng.pick(&[1, 3, 5, 7]))];
        let changes = (0..3).map(|_| by_one_lane(0, rng.pick(&WRITES), rng.pick(&upper))).collect();
        let mut reads = vec![by_one_lane(0, COLLECT, 0); 4];
        reads[0] = by_one_lane(0, GET, rng.pick(&upper));
        reads[1] = by_one_lane(0, TAKE, 0);
        Self { fill: (0..5).map(|n| 2 * n).collect(), ..Self::of([splits, changes, reads].into_iter()) }
    }

    /// Returns concurrent launches on two keys.
    fn of(parts: impl Iterator<Item = Vec<Vec<Step>>>) -> Self {
        let part = |rounds| Part { rounds, asks_the_past: false, comes_and_goes: false };
        Self { units: 60, fill: vec![0, 1], parts: parts.map(part).collect() }
    }
}

/// Returns a round in which one lane performs a step on one key or on all keys.
fn by_one_lane(lane: usize, kind: u8, key: u64) -> Vec<Step> {
    let mut lanes = vec![IDLE; LANES];
    lanes[lane] = Step { kind, from: key, to: if kind == COLLECT { KEYS } else { key } };
    lanes
}

/// Returns rounds in which one lane changes one of three keys.
fn few_changes(rng: &mut Rng, rounds: usize) -> Vec<Vec<Step>> {
    (0..rounds).map(|_| by_one_lane(0, rng.pick(&WRITES), rng.below(3))).collect()
}

impl Part {
    fn new(rng: &mut Rng, kinds: &[u8], rounds: u64, tile: usize, asks_the_past: bool) -> Self {
        let comes_and_goes = asks_the_past || kinds.contains(&INSERT) || rng.below(2) == 0;
        let count = 1 + rng.below(rounds);
        let round = |rng: &mut Rng| {
            let mut kind = rng.pick(kinds);
            if kind == TAKE && comes_and_goes || kind == GET && asks_the_past {
                kind = COLLECT;
            }
            let mut lanes = vec![IDLE; LANES];
            for _ in 0..1 + rng.below(2) {
                let place = rng.below(LANES as u64) as usize;
                // One lane of a tile takes its snapshot.
                let place = if kind == TAKE { place / tile * tile } else { place };
                let ends = [rng.below(KEYS), rng.below(KEYS)];
                lanes[place] = Step { kind, from: ends[0].min(ends[1]), to: ends[0].max(ends[1]) };
            }
            lanes
        };
        let rounds = (0..count).map(|_| round(rng)).collect();
        Self { rounds, asks_the_past, comes_and_goes }
    }
}

struct Play<M: Config> {
    tree: TreeView<M>,
    script: Script<M::Key, M::Value, ROOM>,
    comes_and_goes: bool,
    /// Start and end of each step.
    starts: GlobalSlice<u64>,
    ends: GlobalSlice<u64>,
}

impl<M: Config> Clone for Play<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Config> Copy for Play<M> {}

impl<M: Config> Kernel for Play<M> {
    const PROGRAM: &'static str = "mvbtree_explore";
    const NAME: &'static str = "histories";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        M::enter(self.tree);
        let mut session = Session::<M, _>::new(self.tree, PerLane);
        let mut reader = self.tree;
        for round in 0..self.script.rounds {
            let index = Thread::index() * self.script.rounds + round;
            let wanted = self.script.kinds.read(index) != IDLE.kind;
            let key = self.script.froms.read(index);
            let value = M::Value::from_u64(key.to_u64() + 100 * round as u64);
            let start = timer();
            match self.script.kind(round) {
                INSERT => {
                    let outcome = crate::script::ask(&mut session, wanted, Insert, key, value).0;
                    self.script.counts.write(index, outcome as u64);
                }
                REMOVE => {
                    let outcome = crate::script::ask(&mut session, wanted, Remove, key, value).0;
                    self.script.counts.write(index, outcome as u64);
                }
                GET => {
                    let (outcome, value) = M::execute(reader, wanted, Get, key, value);
                    self.script.counts.write(index, outcome as u64);
                    self.script.values.write(index * ROOM, value);
                }
                TAKE => reader = self.tree.at(M::snapshot(self.tree)),
                kind => self.script.ask(reader, kind, wanted, index),
            }
            let end = timer();
            self.starts.write(index, start);
            self.ends.write(index, end);
            if self.comes_and_goes {
                M::leave(self.tree);
                M::enter(self.tree);
            }
        }
        session.finish();
        M::leave(self.tree);
    }
}

type Op = SnapshotOp<u64, u64>;
type Said = SnapshotOutcome<u64, u64>;

/// Buffers of a launch.
struct Told<K: Scalar, V: Scalar> {
    part: Part,
    script: crate::steps::Told<K, V, ROOM>,
    starts: Buffer<u64>,
    ends: Buffer<u64>,
}

impl<K: Scalar, V: Scalar> Told<K, V> {
    fn new(device: &Device, part: &Part) -> gpu::Result<Self> {
        let script = crate::steps::Told::new(device, &part.rounds)?;
        let steps = script.steps.len();
        Ok(Self { part: part.clone(), script, starts: device.zeroed(steps)?, ends: device.zeroed(steps)? })
    }

    fn play<M: Config<Key = K, Value = V>>(&self, tree: TreeView<M>) -> Play<M> {
        let (starts, ends) = (self.starts.global(), self.ends.global());
        Play { tree, script: self.script.script(), comes_and_goes: self.part.comes_and_goes, starts, ends }
    }

    /// Returns the operations with their outcomes. Snapshots are named by launch, tile and round.
    fn events(&self, number: u32, tile: usize) -> Vec<Event<Op, Said>> {
        let told = &self.script;
        let (counts, keys) = (told.counts.read().expect("memory"), told.keys.read().expect("memory"));
        let (values, starts) = (told.values.read().expect("memory"), self.starts.read().expect("memory"));
        let (ends, rounds) = (self.ends.read().expect("memory"), self.part.rounds.len());
        let pairs = |index: usize, many: usize| {
            let places = index * ROOM..index * ROOM + many;
            places.map(|place| (keys[place].to_u64(), values[place].to_u64())).collect()
        };
        let mut events = Vec::new();
        for lane in 0..LANES {
            for round in 0..rounds {
                let (index, step) = (lane * rounds + round, self.part.rounds[round][lane]);
                let (count, first) = (counts[index], values[index * ROOM].to_u64());
                let asked = (lane, round, step);
                if self.takes(lane, tile, round) {
                    let taken =
                        (SnapshotOp::Take(Self::name(number, lane / tile, round)), SnapshotOutcome::Taken);
                    events.push(Event {
                        op: taken.0,
                        outcome: taken.1,
                        start: starts[index],
                        end: ends[index],
                        thread: number,
                    });
                    continue;
                }
                let Some((op, said)) =
                    self.said(number, tile, asked, count, first, |many| pairs(index, many))
                else {
                    continue;
                };
                let thread = number * LANES as u32 + lane as u32;
                events.push(Event { op, outcome: said, start: starts[index], end: ends[index], thread });
            }
        }
        events
    }

    fn said(
        &self,
        number: u32,
        tile: usize,
        (lane, round, step): (usize, usize, Step),
        count: u64,
        first: u64,
        pairs: impl Fn(usize) -> Vec<(u64, u64)>,
    ) -> Option<(Op, Said)> {
        let Step { kind, from, to } = step;
        let on_key =
            |op, found: Option<MapOutcome<u64>>| Some((SnapshotOp::Key(op), SnapshotOutcome::Key(found?)));
        let name = |round: usize| Self::name(number, lane / tile, round);
        let request = match kind {
            INSERT => return on_key(MapOp::Insert(from, from + 100 * round as u64), changed(count)),
            REMOVE => return on_key(MapOp::Remove(from), changed(count)),
            GET if self.taken(round).is_none() => {
                let is_found = count == Outcome::Found as u64;
                let found = if is_found { MapOutcome::Found(first) } else { MapOutcome::Absent };
                return on_key(MapOp::Get(from), Some(found));
            }
            COLLECT => (SnapshotOp::Range(from, to), SnapshotOutcome::Pairs(pairs(count as usize))),
            COUNT => (SnapshotOp::Count(from, to), SnapshotOutcome::Count(count)),
            LOWEST => (SnapshotOp::Lowest(from, to), SnapshotOutcome::Pairs(pairs(count.min(1) as usize))),
            HIGHEST => (SnapshotOp::Highest(from, to), SnapshotOutcome::Pairs(pairs(count.min(1) as usize))),
            GET => {
                let found = if count == Outcome::Found as u64 { vec![(from, first)] } else { vec![] };
                (SnapshotOp::Range(from, from), SnapshotOutcome::Pairs(found))
            }
            _ => return None,
        };
        let then = match self.taken(round) {
            _ if self.part.asks_the_past => BEFORE,
            Some(round) => name(round),
            None => return Some(request),
        };
        Some((SnapshotOp::At(then, Box::new(request.0)), request.1))
    }

    /// Returns the name of a tile's snapshot.
    fn name(number: u32, tile: usize, round: usize) -> u32 {
        (number * 64 + tile as u32) * 64 + round as u32
    }

    /// Returns the last earlier round in which the tiles took a snapshot.
    fn taken(&self, round: usize) -> Option<usize> {
        (0..round).rev().find(|round| self.is_taking(*round))
    }

    fn is_taking(&self, round: usize) -> bool {
        self.part.rounds[round].iter().any(|step| step.kind == TAKE)
    }

    /// Returns whether a lane represents a tile that took a snapshot in a round and queried it.
    fn takes(&self, lane: usize, tile: usize, round: usize) -> bool {
        let asks = |later: &usize| {
            let lanes = &self.part.rounds[*later][lane..][..tile];
            self.taken(*later) == Some(round) && lanes.iter().any(|step| step.kind != IDLE.kind)
        };
        lane.is_multiple_of(tile)
            && self.is_taking(round)
            && (round..self.part.rounds.len()).any(|later| asks(&later))
    }
}

/// Returns the outcome of an update, or `None` if it was refused, because a refusal guarantees nothing else.
fn changed(code: u64) -> Option<MapOutcome<u64>> {
    match Outcome::from_code(code as u8)? {
        Outcome::Inserted => Some(MapOutcome::Inserted),
        Outcome::Replaced => Some(MapOutcome::Replaced(None)),
        Outcome::Removed => Some(MapOutcome::Removed(None)),
        Outcome::Absent => Some(MapOutcome::Absent),
        Outcome::Found | Outcome::Refused => None,
    }
}

/// Buffers of launches on trees of the variant `M`.
type Tolds<M> = Vec<Told<<M as Kind>::Key, <M as Kind>::Value>>;

/// Runs the parts concurrently. Queries of the past read at timestamp `past`.
fn play<M: HasFixture<Memory = Forest> + Config>(
    device: &Device,
    memory: &Forest,
    parts: &[Part],
    past: u32,
) -> Result<Tolds<M>, Finding> {
    let told: Tolds<M> = parts.iter().map(|part| Told::new(device, part).expect("memory")).collect();
    let launch = |(part, told): (&Part, &Told<M::Key, M::Value>)| {
        let tree = memory.view().at(if part.asks_the_past { past } else { LATEST });
        Launch::new(Grid::new(1, LANES as u32), told.play::<M>(tree))
    };
    let launches: Vec<_> = parts.iter().zip(&told).map(launch).collect();
    device.emulator_handle().expect("an emulator").launch_all(launches).map_err(Finding::Machine)?;
    Ok(told)
}

/// Timestamp of the snapshot that was taken before all operations.
const PAST: u32 = 1000;

/// Inserts the initial keys, each with itself as its value. If the past is read, some leaves get the stamp of
/// its snapshot, and others an older one.
fn filled<M: HasFixture<Memory = Forest> + Config>(
    plan: &Plan,
) -> Result<(Forest, BTreeMap<u64, u64>), Finding> {
    let calm = Device::emulator(Options::default());
    let mut memory = M::memory(&calm, plan.units).expect("memory");
    let reads_past = plan.parts.iter().any(|part| part.asks_the_past);
    for (place, &key) in plan.fill.iter().enumerate() {
        if reads_past && place == plan.fill.len() / 2 {
            memory.set_clock(PAST.into());
        }
        let mut round = vec![IDLE; LANES];
        round[0] = Step { kind: INSERT, from: key, to: key };
        let part = Part { rounds: vec![round], asks_the_past: false, comes_and_goes: false };
        play::<M>(&calm, &memory, &[part], LATEST)?;
    }
    let pairs = M::contents(&memory, plan.units)?.into_iter().collect();
    Ok((memory, pairs))
}

/// Runs a plan and checks its outcomes. Returns the number of events.
fn explore<M: HasFixture<Memory = Forest> + Config>(
    plan: &Plan,
    setting: &Setting,
) -> Result<usize, Finding> {
    let (filled, initial) = filled::<M>(plan)?;
    let options = Options {
        stale_l1: true,
        weak_memory: setting.weak_memory,
        faults: setting.faults.clone(),
        step_limit: 1 << 19,
        ..Options::explore(setting.schedule.clone())
    };
    let device = Device::emulator(options);
    let mut memory = M::memory(&device, plan.units).expect("memory");
    M::copy(&mut memory, &filled).expect("memory");
    if plan.parts.iter().any(|part| part.asks_the_past) {
        // The host took this snapshot at the current timestamp.
        memory.set_clock(u64::from(PAST) + 1);
    }
    let told = play::<M>(&device, &memory, &plan.parts, PAST)?;
    let pairs = M::contents(&memory, plan.units)?;
    let mut events = vec![event(SnapshotOp::Take(BEFORE), SnapshotOutcome::Taken, 0)];
    events.extend(told.iter().zip(0..).flat_map(|(told, number)| told.events(number, M::TILE as usize)));
    let count = events.len();
    let last = pairs.into_iter().collect::<BTreeMap<u64, u64>>().into_iter().collect();
    events.push(event(SnapshotOp::Range(0, u64::MAX), SnapshotOutcome::Pairs(last), u64::MAX));
    checker::check(&SnapshotModel { initial }, &events)
        .map_err(|failure| Finding::Order(failure.to_string()))?;
    Ok(count)
}

fn event(op: Op, outcome: Said, at: u64) -> Event<Op, Said> {
    Event { op, outcome, start: at, end: at, thread: u32::MAX }
}

/// Runs the plans of `count` seeds; all must be sound.
pub fn all_are_sound<M: HasFixture<Memory = Forest> + Config>(name: &str, count: u64) {
    all_are_sound_with::<M>(name, count, &[]);
}

/// As [`all_are_sound`], with faults.
pub fn all_are_sound_with<M: HasFixture<Memory = Forest> + Config>(name: &str, count: u64, faults: &[Fault]) {
    let mut events = 0;
    for (seed, setting) in settings::<M>(count).map(|(seed, setting)| (seed, with(faults)(setting))) {
        events += explore::<M>(&Plan::new::<M>(seed), &setting)
            .unwrap_or_else(|finding| panic!("{}", told(name, seed, &setting, &finding)));
    }
    println!("{name}: {events} events");
    assert_effects(faults);
}

/// Runs plans of one kind as [`all_are_sound`] does.
pub fn plans_are_sound<M: HasFixture<Memory = Forest> + Config>(
    count: u64,
    plan: fn(u64) -> Plan,
    faults: &[Fault],
) {
    for seed in seeds(count) {
        explore::<M>(&plan(seed), &with(faults)(setting::<M>(seed)))
            .unwrap_or_else(|finding| panic!("seed {seed}: {finding}"));
    }
    assert_effects(faults);
}

/// As [`plans_are_sound`]; a part of the plans also runs under the program's weak memory model.
pub fn plans_are_sound_if_weak<M: HasFixture<Memory = Forest> + Config>(
    name: &str,
    count: u64,
    plan: fn(u64) -> Plan,
    faults: &[Fault],
) {
    let weak = seeds(count).map(|seed| (seed, Setting { weak_memory: M::WEAK, ..setting::<M>(seed) }));
    for (seed, setting) in
        settings::<M>(count).chain(weak).map(|(seed, setting)| (seed, with(faults)(setting)))
    {
        explore::<M>(&plan(seed), &setting)
            .unwrap_or_else(|finding| panic!("{}", told(name, seed, &setting, &finding)));
    }
    assert_effects(faults);
}

/// Returns whether one of `count` seeds has a finding that satisfies `is` and replays.
pub fn is_found<M: HasFixture<Memory = Forest> + Config>(
    count: u64,
    plan: fn(u64) -> Plan,
    faults: &[Fault],
    is: fn(&Finding) -> bool,
) -> bool {
    let play = |seed| explore::<M>(&plan(seed), &with(faults)(setting::<M>(seed))).err();
    let first = (0..count).find_map(|seed| play(seed).filter(is).map(|finding| (seed, finding)));
    assert_effects(faults);
    first.is_some_and(|(seed, finding)| {
        println!("found by seed {seed}: {finding}");
        play(seed).is_some_and(|again| again.is_same(&finding))
    })
}

/// Runs the plans of `count` seeds under the weakest memory model that PTX permits, which is too weak for
/// links. Only findings about writes to a slab that was freed and allocated again count.
pub fn reuse_is_ordered<M: HasFixture<Memory = Forest> + Config>(
    count: u64,
    plan: fn(u64) -> Plan,
    faults: &[Fault],
) {
    for seed in seeds(count) {
        let setting = Setting { weak_memory: WeakMemory::Ptx, ..with(faults)(setting::<M>(seed)) };
        let found = explore::<M>(&plan(seed), &setting).err();
        let is_reuse = |finding: &Finding| {
            let Finding::Machine(failure) = finding else { return false };
            matches!(failure.kind, FailureKind::UnorderedReuse { .. })
        };
        if let Some(finding) = found.filter(is_reuse) {
            panic!("{}", told("slabs that are allocated again", seed, &setting, &finding));
        }
    }
    assert_effects(faults);
}
