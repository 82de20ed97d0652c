//! Histories of changes of keys, look-ups, questions about ranges, and snapshots: there must be one order of
//! all of them that explains every answer.
use crate::common::Dice;
use crate::hunt::{setting, settings, told};
use crate::sheet::{COLLECT, COUNT, Deed, HIGHEST, IDLE, INSERT, LANES, LOWEST, REMOVE, Sheet};
use crate::trees::Forest;
use crate::world::{Crowded, Finding, Setting};
use checker::{Event, MapOp, MapOutcome, SnapshotModel, SnapshotOp, SnapshotOutcome};
use gpu::{Buffer, Device, Grid};
use phalanx_kernels::btree::{Config, LATEST, TreeView, Versions};
use phalanx_kernels::keyed::{Get, Insert, Kind, Lanes, Outcome, Remove, Scalar, Session};
use simt::emulator::{FailureKind, Launch, Options, WeakMemory};
use simt::{GlobalSlice, Kernel, Thread, timer};
use std::collections::BTreeMap;

const GET: u8 = 2;
/// A snapshot of the tile; what lanes of its tile ask later in the launch is asked of that.
const TAKE: u8 = 7;
const WRITES: [u8; 3] = [INSERT, INSERT, REMOVE];
const ASKS: [u8; 7] = [COLLECT, COLLECT, COUNT, LOWEST, HIGHEST, GET, TAKE];
/// Pairs that a range has room for.
const ROOM: usize = 64;
/// Keys are below it.
const KEYS: u64 = 24;
/// The name of the snapshot that was taken before everything.
const BEFORE: u32 = u32::MAX;

/// A launch of one block: rounds, in each of which all lanes do the same kind or nothing.
#[derive(Clone, Debug)]
struct Part {
    rounds: Vec<Vec<Deed>>,
    /// It asks of the snapshot that was taken before everything.
    asks_the_past: bool,
    /// It leaves its epoch after each round, and enters again. (Then it takes no snapshots.)
    comes_and_goes: bool,
}

/// Keys that are there before, each with itself for a value, and launches side by side.
#[derive(Debug)]
pub struct Plan {
    units: u32,
    fill: Vec<u64>,
    parts: Vec<Part>,
}

impl Plan {
    pub fn new<M: Crowded + Config>(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x51ab);
        let many = dice.pick(&[0, 4, 5, 6, 10, 16]);
        let fill = (0..many).map(|_| dice.below(KEYS)).collect();
        let writer = |dice: &mut Dice| Part::new(dice, &WRITES, 3, M::TILE as usize, false);
        let mut parts = vec![writer(&mut dice), writer(&mut dice)];
        // Beside writers in place, only what is asked of the past is true of one moment.
        let past = !M::Versions::MOVES || dice.below(4) == 0;
        parts.push(Part::new(&mut dice, &ASKS, 4, M::TILE as usize, past));
        if dice.below(2) == 0 {
            let past = !M::Versions::MOVES || dice.below(4) == 0;
            parts.push(Part::new(&mut dice, &ASKS, 3, M::TILE as usize, past));
        }
        Self { units: dice.pick(&[14, 60, 60, 60]), fill, parts }
    }
}

impl Plan {
    /// Two tiles that take snapshots at the same time and ask again and again what is in them, beside a few
    /// changes of the same leaf.
    pub fn racing(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x7ace);
        let reader = |_| {
            let mut rounds = vec![alone(0, COLLECT, 0); 5];
            rounds[0] = alone(0, TAKE, 0);
            rounds
        };
        let writers = [4, 4].map(|rounds| few_changes(&mut dice, rounds));
        Self::of([0, 1].map(reader).into_iter().chain(writers))
    }

    /// A lane that asks what there is now comes later than the others of its tile, of which one takes the
    /// snapshot for it; beside a few changes.
    pub fn late(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x1a7e);
        let reader = vec![alone(1, COLLECT, 0); 3];
        let writers = [3, 3].map(|rounds| few_changes(&mut dice, rounds));
        Self::of([reader].into_iter().chain(writers))
    }

    /// Launches side by side, on two keys.
    fn of(parts: impl Iterator<Item = Vec<Vec<Deed>>>) -> Self {
        let part = |rounds| Part { rounds, asks_the_past: false, comes_and_goes: false };
        Self { units: 60, fill: vec![0, 1], parts: parts.map(part).collect() }
    }
}

/// A round in which one lane does something, with one key or with all.
fn alone(lane: usize, kind: u8, key: u64) -> Vec<Deed> {
    let mut lanes = vec![IDLE; LANES];
    lanes[lane] = Deed { kind, from: key, to: if kind == COLLECT { KEYS } else { key } };
    lanes
}

/// Rounds in which one lane changes one of three keys.
fn few_changes(dice: &mut Dice, rounds: usize) -> Vec<Vec<Deed>> {
    (0..rounds).map(|_| alone(0, dice.pick(&WRITES), dice.below(3))).collect()
}

impl Part {
    fn new(dice: &mut Dice, kinds: &[u8], rounds: u64, tile: usize, asks_the_past: bool) -> Self {
        let comes_and_goes = asks_the_past || kinds.contains(&INSERT) || dice.below(2) == 0;
        let count = 1 + dice.below(rounds);
        let round = |dice: &mut Dice| {
            let mut kind = dice.pick(kinds);
            if kind == TAKE && comes_and_goes || kind == GET && asks_the_past {
                kind = COLLECT;
            }
            let mut lanes = vec![IDLE; LANES];
            for _ in 0..1 + dice.below(2) {
                let place = dice.below(LANES as u64) as usize;
                // One of a tile stands for it in a snapshot.
                let place = if kind == TAKE { place / tile * tile } else { place };
                let ends = [dice.below(KEYS), dice.below(KEYS)];
                lanes[place] = Deed { kind, from: ends[0].min(ends[1]), to: ends[0].max(ends[1]) };
            }
            lanes
        };
        let rounds = (0..count).map(|_| round(dice)).collect();
        Self { rounds, asks_the_past, comes_and_goes }
    }
}

struct Play<M: Config> {
    tree: TreeView<M>,
    sheet: Sheet<M::Key, M::Value, ROOM>,
    comes_and_goes: bool,
    /// When each deed began and ended.
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
    const NAME: &'static str = "moments";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        M::enter(self.tree);
        let mut session = Session::<M, _>::new(self.tree, Lanes);
        let mut reader = self.tree;
        for round in 0..self.sheet.rounds {
            let index = Thread::index() * self.sheet.rounds + round;
            let wanted = self.sheet.kinds.read(index) != IDLE.kind;
            let key = self.sheet.froms.read(index);
            let value = M::Value::from_u64(key.to_u64() + 100 * round as u64);
            let start = timer();
            match self.sheet.kind(round) {
                INSERT => {
                    let outcome = crate::script::ask(&mut session, wanted, Insert, key, value).0;
                    self.sheet.counts.write(index, outcome as u64);
                }
                REMOVE => {
                    let outcome = crate::script::ask(&mut session, wanted, Remove, key, value).0;
                    self.sheet.counts.write(index, outcome as u64);
                }
                GET => {
                    let (outcome, value) = M::execute(reader, wanted, Get, key, value);
                    self.sheet.counts.write(index, outcome as u64);
                    self.sheet.values.write(index * ROOM, value);
                }
                TAKE => reader = M::at(self.tree, M::snapshot(self.tree)),
                kind => self.sheet.ask(reader, kind, wanted, index),
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

/// The buffers of a launch.
struct Told<K: Scalar, V: Scalar> {
    part: Part,
    sheet: crate::sheet::Told<K, V, ROOM>,
    starts: Buffer<u64>,
    ends: Buffer<u64>,
}

impl<K: Scalar, V: Scalar> Told<K, V> {
    fn new(device: &Device, part: &Part) -> gpu::Result<Self> {
        let sheet = crate::sheet::Told::new(device, &part.rounds)?;
        let deeds = sheet.deeds.len();
        Ok(Self { part: part.clone(), sheet, starts: device.zeroed(deeds)?, ends: device.zeroed(deeds)? })
    }

    fn play<M: Config<Key = K, Value = V>>(&self, tree: TreeView<M>) -> Play<M> {
        let (starts, ends) = (self.starts.slice(), self.ends.slice());
        Play { tree, sheet: self.sheet.sheet(), comes_and_goes: self.part.comes_and_goes, starts, ends }
    }

    /// What was asked and answered. Snapshots are named by launch, tile and round.
    fn events(&self, number: u32, tile: usize) -> Vec<Event<Op, Said>> {
        let told = &self.sheet;
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
                let (index, deed) = (lane * rounds + round, self.part.rounds[round][lane]);
                let (count, first) = (counts[index], values[index * ROOM].to_u64());
                let asked = (lane, round, deed);
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
        (lane, round, deed): (usize, usize, Deed),
        count: u64,
        first: u64,
        pairs: impl Fn(usize) -> Vec<(u64, u64)>,
    ) -> Option<(Op, Said)> {
        let Deed { kind, from, to } = deed;
        let on_key =
            |op, found: Option<MapOutcome<u64>>| Some((SnapshotOp::Key(op), SnapshotOutcome::Key(found?)));
        let name = |round: usize| Self::name(number, lane / tile, round);
        let question = match kind {
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
            None => return Some(question),
        };
        Some((SnapshotOp::At(then, Box::new(question.0)), question.1))
    }

    /// The name of what a tile took.
    fn name(number: u32, tile: usize, round: usize) -> u32 {
        (number * 64 + tile as u32) * 64 + round as u32
    }

    /// In which round before the tiles last took a snapshot, all of them.
    fn taken(&self, round: usize) -> Option<usize> {
        (0..round).rev().find(|round| self.is_taking(*round))
    }

    fn is_taking(&self, round: usize) -> bool {
        self.part.rounds[round].iter().any(|deed| deed.kind == TAKE)
    }

    /// Whether a lane stands for a tile that took a snapshot in a round, and asked of it.
    fn takes(&self, lane: usize, tile: usize, round: usize) -> bool {
        let asks = |later: &usize| {
            let lanes = &self.part.rounds[*later][lane..][..tile];
            self.taken(*later) == Some(round) && lanes.iter().any(|deed| deed.kind != IDLE.kind)
        };
        lane.is_multiple_of(tile)
            && self.is_taking(round)
            && (round..self.part.rounds.len()).any(|later| asks(&later))
    }
}

/// What a change has come to. What was refused claims nothing.
fn changed(code: u64) -> Option<MapOutcome<u64>> {
    match Outcome::from_code(code as u8)? {
        Outcome::Inserted => Some(MapOutcome::Inserted),
        Outcome::Replaced => Some(MapOutcome::Replaced(None)),
        Outcome::Removed => Some(MapOutcome::Removed(None)),
        Outcome::Absent => Some(MapOutcome::Absent),
        Outcome::Found | Outcome::Refused => None,
    }
}

/// The buffers of launches on a tree of the kind `M`.
type Tolds<M> = Vec<Told<<M as Kind>::Key, <M as Kind>::Value>>;

/// Plays parts side by side, those that ask of the past as of `past`.
fn play<M: Crowded<Memory = Forest> + Config>(
    device: &Device,
    memory: &Forest,
    parts: &[Part],
    past: u32,
) -> Result<Tolds<M>, Finding> {
    let told: Tolds<M> = parts.iter().map(|part| Told::new(device, part).expect("memory")).collect();
    let launch = |(part, told): (&Part, &Told<M::Key, M::Value>)| {
        let tree = M::at(memory.view(), if part.asks_the_past { past } else { LATEST });
        Launch::new(Grid::new(1, LANES as u32), told.play::<M>(tree))
    };
    let launches: Vec<_> = parts.iter().zip(&told).map(launch).collect();
    device.emulator_handle().expect("an emulator").launch_all(launches).map_err(Finding::Machine)?;
    Ok(told)
}

/// Inserts keys, each with itself for a value.
fn filled<M: Crowded<Memory = Forest> + Config>(
    plan: &Plan,
) -> Result<(Forest, BTreeMap<u64, u64>), Finding> {
    let calm = Device::emulator(Options::default());
    let memory = M::memory(&calm, plan.units).expect("memory");
    for &key in &plan.fill {
        let mut round = vec![IDLE; LANES];
        round[0] = Deed { kind: INSERT, from: key, to: key };
        let part = Part { rounds: vec![round], asks_the_past: false, comes_and_goes: false };
        play::<M>(&calm, &memory, &[part], LATEST)?;
    }
    let pairs = M::pairs(&memory, plan.units)?.into_iter().collect();
    Ok((memory, pairs))
}

/// Plays a plan and looks for what is wrong. Returns how many events there were.
fn explore<M: Crowded<Memory = Forest> + Config>(plan: &Plan, setting: &Setting) -> Result<usize, Finding> {
    let (filled, initial) = filled::<M>(plan)?;
    let options = Options {
        stale_l1: true,
        weak_memory: setting.weak_memory,
        step_limit: 1 << 19,
        ..Options::explore(setting.schedule.clone())
    };
    let device = Device::emulator(options);
    let mut memory = M::memory(&device, plan.units).expect("memory");
    M::copy(&mut memory, &filled).expect("memory");
    let past = 1000;
    if plan.parts.iter().any(|part| part.asks_the_past) {
        // One of a host's that was taken when the clock said so.
        memory.set_clock(u64::from(past) + 1);
    }
    let told = play::<M>(&device, &memory, &plan.parts, past)?;
    let pairs = M::pairs(&memory, plan.units)?;
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

/// Plays the plans of `count` seeds; all must be sound.
pub fn all_are_sound<M: Crowded<Memory = Forest> + Config>(name: &str, count: u64) {
    let mut events = 0;
    for (seed, setting) in settings::<M>(count) {
        events += explore::<M>(&Plan::new::<M>(seed), &setting)
            .unwrap_or_else(|finding| panic!("{}", told(name, seed, &setting, &finding)));
    }
    println!("{name}: {events} events");
}

/// As [`all_are_sound`], of plans of one sort.
pub fn plans_are_sound<M: Crowded<Memory = Forest> + Config>(count: u64, plan: fn(u64) -> Plan) {
    for seed in 0..count {
        explore::<M>(&plan(seed), &setting::<M>(seed))
            .unwrap_or_else(|finding| panic!("seed {seed}: {finding}"));
    }
}

/// Whether within so many seeds something is found that `is` what was planted, and replays.
pub fn is_found<M: Crowded<Memory = Forest> + Config>(
    count: u64,
    plan: fn(u64) -> Plan,
    is: fn(&Finding) -> bool,
) -> bool {
    let play = |seed| explore::<M>(&plan(seed), &setting::<M>(seed)).err();
    let first = (0..count).find_map(|seed| play(seed).filter(is).map(|finding| (seed, finding)));
    first.is_some_and(|(seed, finding)| {
        println!("found by seed {seed}: {finding}");
        play(seed).is_some_and(|again| again.is_same(&finding))
    })
}

/// Plays the plans of `count` seeds as weakly as PTX allows, which is more than links stand: of what is found
/// then only that counts which is written to a slab that was freed and allocated again.
pub fn reuse_is_ordered<M: Crowded<Memory = Forest> + Config>(count: u64) {
    for seed in 0..count {
        let setting = Setting { weak_memory: WeakMemory::Ptx, ..setting::<M>(seed) };
        let found = explore::<M>(&Plan::new::<M>(seed), &setting).err();
        let is_reuse = |finding: &Finding| {
            let Finding::Machine(failure) = finding else { return false };
            matches!(failure.kind, FailureKind::UnorderedReuse { .. })
        };
        if let Some(finding) = found.filter(is_reuse) {
            panic!("{}", told("slabs that are allocated again", seed, &setting, &finding));
        }
    }
}
