//! Ordered operations concurrent with insertions and removals: each returned pair was present at some time,
//! pairs that are always present are returned exactly once, and keys are in ascending order.
use crate::common::{Rng, all_seeds, replay};
use crate::faults::{assert_effects, with};
use crate::mutation::{all_settings, setting, settings, told};
use crate::steps::{COLLECT, COUNT, HIGHEST, IDLE, INSERT, LANES, LOWEST, REMOVE, Script, Step, Told};
use crate::world::{Finding, HasFixture, Setting};
use gpu::{Device, Grid};
use phalanx_kernels::btree::{Config, TreeView};
use phalanx_kernels::keyed::{Get, Insert, Kind, Outcome, PerLane, Remove, Scalar, Session};
use simt::emulator::{Detect, Fault, Launch, Options, Schedule, WeakMemory};
use simt::{GlobalSlice, Instance, Kernel, Order, Scope, Thread};
use std::collections::BTreeSet;

/// Rebuild of the directory by the whole block, which is a warp.
const LIST: u8 = 2;
/// Look-up of a key; the count is 1 if it is found.
pub const FIND: u8 = 7;
const WRITES: [u8; 5] = [INSERT, INSERT, REMOVE, REMOVE, LIST];
const ASKS: [u8; 4] = [COLLECT, COUNT, LOWEST, HIGHEST];
/// Maximum number of pairs in the result of a range.
const ROOM: usize = 160;
/// Exclusive upper bound of all keys but the topmost.
const KEYS: u64 = 150;

/// Steps of a launch: per round, one step for each lane.
pub type Part = Vec<Vec<Step>>;

/// Initial keys, each with itself as its value, and launches of one block. In each round all lanes perform
/// the same kind of step.
#[derive(Debug)]
pub struct Plan {
    pub units: u32,
    pub fill: BTreeSet<u64>,
    pub parts: Vec<Part>,
    /// Whether races are reported. They are not for variants that read weakly on purpose.
    pub races: bool,
}

impl Plan {
    fn new<M: HasFixture>(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let crowd = M::crowd(&mut rng);
        let many = rng.pick(&[0, 6, 20, 60, 100]);
        let mut fill: BTreeSet<u64> = (0..many).map(|_| rng.below(KEYS)).collect();
        if rng.below(2) == 0 {
            fill.insert(u64::MAX);
        }
        let part = |_| {
            let writes = rng.below(2) == 0;
            let round = |_| {
                let kind = if writes { rng.pick(&WRITES) } else { rng.pick(&ASKS) };
                (0..LANES).map(|_| step(&mut rng, kind)).collect()
            };
            (0..2).map(round).collect()
        };
        let parts = (0..3).map(part).collect();
        Self { units: crowd.buckets.max(64), fill, parts, races: true }
    }

    /// Returns a plan in which a full leaf is split while it is read, and new pairs take the slots of moved
    /// ones.
    fn overtaken() -> Self {
        let inserts = [25, 26, 27].map(|key| by_tile(&[insertion(key)])).to_vec();
        let parts = vec![vec![by_tile(&[listing(0, KEYS)]); 2], inserts];
        Self { units: 64, fill: (1..=6).map(|key| 10 * key).collect(), parts, races: true }
    }

    /// Returns a plan in which the first of several leaves is split while it is read, by a key of its upper
    /// or of its lower half.
    fn divided(seed: u64) -> Self {
        let mut inserts = [11, 12, 13, 14, 15].map(|key| by_tile(&[insertion(key)])).to_vec();
        if seed.is_multiple_of(2) {
            inserts.reverse();
        }
        let parts = vec![vec![by_tile(&[listing(0, KEYS)]); 3], inserts];
        Self { units: 64, fill: (1..=12).map(|key| 10 * key).collect(), parts, races: true }
    }

    /// Returns a plan in which the last leaf, of 70 to 120, is split. Its new pair takes the slot of one that
    /// has moved, or the next new pair does, or, if leaves merge, the pairs of the leaf before do. Reads
    /// begin with the full leaf.
    fn reused(seed: u64) -> Self {
        let writes: &[Step] = match seed / 3 % 3 {
            0 => &[insertion(75)],
            1 => &[insertion(125), insertion(75)],
            _ => &[insertion(125), removal(40)],
        };
        let writes = writes.iter().map(|&step| by_tile(&[step])).collect();
        let mut parts = vec![vec![by_tile(&[listing(70, KEYS)]); 2]; 6];
        parts.push(writes);
        Self { units: 64, fill: (1..=12).map(|key| 10 * key).collect(), parts, races: true }
    }

    /// Returns a plan without splits in which lower keys of a leaf are removed and inserted while it is read.
    fn shifted(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut change = |_| {
            let key = 10 * (1 + rng.below(2));
            by_tile(&[if rng.below(2) == 0 { removal(key) } else { insertion(key) }])
        };
        let writes = (0..4).map(&mut change).collect();
        let count = Step { kind: COUNT, ..listing(0, KEYS) };
        let highest = Step { kind: HIGHEST, ..listing(0, KEYS) };
        let reads = vec![by_tile(&[listing(0, KEYS)]), by_tile(&[count]), by_tile(&[highest])];
        Self {
            units: 64,
            fill: (1..=6).map(|key| 10 * key).collect(),
            parts: vec![reads, writes],
            races: true,
        }
    }

    /// Returns a plan in which a pair is removed and reinserted while its leaf is read, into the slot of a
    /// pair that was removed earlier.
    fn returned() -> Self {
        let writes = [removal(10), removal(50), insertion(50)].map(|step| by_tile(&[step])).to_vec();
        let count = Step { kind: COUNT, ..listing(0, KEYS) };
        let parts = vec![vec![by_tile(&[listing(0, KEYS)]), by_tile(&[count])], writes];
        Self { units: 64, fill: (1..=5).map(|key| 10 * key).collect(), parts, races: true }
    }

    /// Returns a plan in which the last split has no index entry, because the pool had no slab to split the
    /// root. Searches for the keys in its new node therefore arrive through the node of 150 to 170. That node
    /// receives 155 while it is read, so that the keys behind 155 move, and the same tile then passes through
    /// the node.
    fn passed() -> Self {
        let inserts = vec![by_tile(&[155, 230].map(insertion))];
        let parts = vec![vec![by_tile(&[listing(150, 170)]); 2], inserts];
        Self { units: 9, fill: (0..=22).map(|key| 10 * key).collect(), parts, races: true }
    }

    /// Returns [`Self::overtaken`] with a third launch that removes pairs from the reused slots. For variants
    /// that read tails weakly.
    fn emptied(inserts: &[u64], removals: &[u64]) -> Self {
        let part =
            |keys: &[u64], step: fn(u64) -> Step| keys.iter().map(|&key| by_tile(&[step(key)])).collect();
        let reads = vec![by_tile(&[listing(0, KEYS)]); 6];
        let parts = [reads, part(inserts, insertion), part(removals, removal)];
        let parts = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Self { parts, races: false, ..Self::overtaken() }
    }

    /// Returns a plan in which an underfull node, {30, 50}, merges with the next one, while other threads
    /// search for the highest key below all keys of the next node.
    fn merged() -> Self {
        let writes =
            [insertion(72), insertion(74), removal(60), removal(40)].map(|step| by_tile(&[step])).to_vec();
        let highest = Step { kind: HIGHEST, ..listing(0, 65) };
        let parts = vec![vec![by_tile(&[highest]); 3], writes];
        Self { units: 64, fill: (0..=22).map(|key| 10 * key).collect(), parts, races: true }
    }

    /// Returns a plan in which a node of two pairs, whose next node has become a zombie, is linked past the
    /// zombie, and is then split.
    fn bypassed() -> Self {
        let first = [removal(60), removal(30), listing(0, KEYS)].map(|step| by_tile(&[step])).to_vec();
        let second = [41, 42, 43, 44, 45].map(|key| by_tile(&[insertion(key)])).to_vec();
        Self {
            units: 64,
            fill: (0..=22).map(|key| 10 * key).collect(),
            parts: vec![first, second],
            races: true,
        }
    }

    /// Returns a plan in which a data node merges with the first one of the next index node, whose low key
    /// then is above that of the data node. A split of the data node makes an entry below the index node.
    fn lowered() -> Self {
        let removals = [70, 100, 110].map(removal).into_iter();
        let inserts = [81, 82, 83, 91, 92].map(insertion);
        let writes = removals.chain(inserts).map(|step| by_tile(&[step])).collect();
        let parts = vec![vec![by_tile(&[listing(0, KEYS)]); 2], writes];
        Self { units: 64, fill: (0..=40).map(|key| 10 * key).collect(), parts, races: true }
    }

    /// Returns two or three launches that change a deep tree in a few places, search it and rebuild its
    /// directory.
    fn deep(seed: u64, fill: &BTreeSet<u64>) -> Self {
        let mut rng = Rng::new(seed);
        let keys = fill.len() as u64 * APART;
        let places: Vec<u64> = (0..1 + rng.below(3)).map(|_| rng.below(keys)).collect();
        let kinds = [INSERT, INSERT, REMOVE, LIST, LIST, COUNT];
        let part = |_| {
            let round = |_| {
                let kind = rng.pick(&kinds);
                let step = |rng: &mut Rng| {
                    let from = (rng.pick(&places) + rng.below(3 * APART)).min(keys);
                    let to = if kind == COUNT { from + rng.below(6 * APART) } else { from };
                    if kind == LIST || rng.below(3) == 0 { Step { kind, from, to } } else { IDLE }
                };
                (0..LANES).map(|_| step(&mut rng)).collect()
            };
            (0..3).map(round).collect()
        };
        let parts = (0..2 + seed % 2).map(part).collect();
        Self { units: DEEP_UNITS, fill: fill.clone(), parts, races: true }
    }

    /// Returns the keys that may be present at some time of the plan, and those that always are, if the tree
    /// contained `stored` before.
    fn known(&self, stored: &BTreeSet<u64>) -> Known {
        let (inserted, removed) = (self.changed(INSERT), self.changed(REMOVE));
        Known {
            possible: stored.union(&inserted).copied().collect(),
            lasting: stored.difference(&removed).copied().collect(),
        }
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.parts.iter().flatten().flatten()
    }

    fn changed(&self, kind: u8) -> BTreeSet<u64> {
        self.steps().filter(|step| step.kind == kind).map(|step| step.from).collect()
    }
}

pub const fn insertion(key: u64) -> Step {
    Step { kind: INSERT, from: key, to: key }
}

pub const fn removal(key: u64) -> Step {
    Step { kind: REMOVE, from: key, to: key }
}

pub const fn listing(from: u64, to: u64) -> Step {
    Step { kind: COLLECT, from, to }
}

/// Returns a round of these steps for a block of one tile of four lanes. With few lanes a schedule is more
/// likely to delay the decisive one.
pub fn by_tile(steps: &[Step]) -> Vec<Step> {
    steps.iter().copied().chain([IDLE; 4]).take(4).collect()
}

fn step(rng: &mut Rng, kind: u8) -> Step {
    if rng.below(LANES as u64) > 3 {
        return IDLE;
    }
    let ends = [rng.below(KEYS), rng.below(KEYS)];
    let top = if rng.below(4) == 0 { u64::MAX } else { ends[0].max(ends[1]) };
    Step { kind, from: ends[0].min(ends[1]), to: top }
}

struct Play<M: Config> {
    tree: TreeView<M>,
    script: Script<M::Key, M::Value, ROOM>,
}

impl<M: Config> Clone for Play<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Config> Copy for Play<M> {}

impl<M: Config> Kernel for Play<M> {
    const PROGRAM: &'static str = "btree_explore";
    const NAME: &'static str = "order";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        M::enter(self.tree);
        let mut session = Session::<M, _>::new(self.tree, PerLane);
        for round in 0..self.script.rounds {
            let index = Thread::index() * self.script.rounds + round;
            let wanted = self.script.kinds.read(index) != IDLE.kind;
            let key = self.script.froms.read(index);
            let value = M::Value::from_u64(key.to_u64());
            match self.script.kind(round) {
                INSERT => {
                    let outcome = crate::script::ask(&mut session, wanted, Insert, key, value).0;
                    self.script.counts.write(index, u64::from(outcome != Outcome::Refused));
                }
                REMOVE => {
                    crate::script::ask(&mut session, wanted, Remove, key, value);
                }
                FIND => {
                    let outcome = crate::script::ask(&mut session, wanted, Get, key, value).0;
                    self.script.counts.write(index, u64::from(outcome == Outcome::Found));
                }
                LIST => M::rebuild_directory(self.tree),
                kind => self.script.ask(self.tree, kind, wanted, index),
            }
        }
        session.finish();
        M::leave(self.tree);
    }
}

impl<K: Scalar, V: Scalar> Told<K, V, ROOM> {
    /// Returns each range query with its count and its keys, and checks that each value is its key, truncated
    /// to its size.
    fn answers(&self) -> Vec<(Step, u64, Vec<u64>)> {
        let (counts, keys) = (self.counts.read().expect("memory"), self.keys.read().expect("memory"));
        let values = self.values.read().expect("memory");
        let answer = |(index, &step): (usize, &Step)| {
            let many = match step.kind {
                COLLECT => counts[index] as usize,
                LOWEST | HIGHEST => (counts[index] as usize).min(1),
                _ => 0,
            };
            let places = index * ROOM..index * ROOM + many;
            let own = |place: usize| V::from_u64(keys[place].to_u64()) == values[place];
            assert!(places.clone().all(own), "values belong to their keys");
            (step, counts[index], keys[places].iter().map(|key| key.to_u64()).collect())
        };
        self.steps
            .iter()
            .enumerate()
            .map(answer)
            .filter(|answer| answer.0.kind >= COLLECT && answer.0.kind != IDLE.kind)
            .collect()
    }
}

/// Keys that may be present at some time, and keys that are always present.
struct Known {
    possible: BTreeSet<u64>,
    lasting: BTreeSet<u64>,
}

impl Known {
    fn is_right(&self, step: Step, count: u64, keys: &[u64], top: u64) -> bool {
        let range = step.from..=step.to.min(top);
        let must: Vec<u64> = self.lasting.range(range.clone()).copied().collect();
        let may = self.possible.range(range.clone()).count() as u64;
        let are_possible = keys.iter().all(|key| self.possible.contains(key) && range.contains(key));
        let rest = match step.kind {
            COLLECT => keys.is_sorted_by(|a, b| a < b) && must.iter().all(|key| keys.contains(key)),
            LOWEST => must.first().is_none_or(|lasting| keys.first().is_some_and(|key| key <= lasting)),
            HIGHEST => must.last().is_none_or(|lasting| keys.first().is_some_and(|key| key >= lasting)),
            _ => count >= must.len() as u64 && count <= may,
        };
        are_possible && rest
    }
}

/// Builds a tree of keys inserted one after the other, each with itself as its value, in a pool of `units`
/// slabs.
pub fn filled<M: HasFixture<Memory = crate::trees::Forest> + Config>(
    keys: &BTreeSet<u64>,
    units: u32,
) -> crate::trees::Forest {
    let mut rows = vec![vec![IDLE; LANES]; keys.len()];
    keys.iter().zip(&mut rows).for_each(|(&key, row)| row[0] = insertion(key));
    let calm = Device::emulator(Options::default());
    let memory = M::memory(&calm, units).expect("memory");
    if !rows.is_empty() {
        play::<M>(&calm, &memory, &[rows]).expect("a tree");
    }
    memory
}

/// Runs a plan and checks its results. Returns the number of range queries.
fn explore<M: HasFixture<Memory = crate::trees::Forest> + Config>(
    plan: &Plan,
    setting: &Setting,
) -> Result<usize, Finding> {
    let stored: BTreeSet<u64> = plan.fill.iter().map(|&key| M::Key::from_u64(key).to_u64()).collect();
    let filled = filled::<M>(&stored, plan.units);
    explore_from::<M>(plan, &filled, setting).map(|(ranges, _)| ranges)
}

/// Runs [`explore`] on a tree that already contains the plan's keys. Also returns the tree.
pub fn explore_from<M: HasFixture<Memory = crate::trees::Forest> + Config>(
    plan: &Plan,
    filled: &crate::trees::Forest,
    setting: &Setting,
) -> Result<(usize, crate::trees::Forest), Finding> {
    let stored: BTreeSet<u64> = plan.fill.iter().map(|&key| M::Key::from_u64(key).to_u64()).collect();
    let detect = Detect { races: plan.races, ..Detect::ALL };
    let options = Options {
        stale_l1: true,
        weak_memory: setting.weak_memory,
        faults: setting.faults.clone(),
        step_limit: 1 << 19,
        detect,
        ..Options::explore(setting.schedule.clone())
    };
    let device = Device::emulator(options);
    let mut memory = M::memory(&device, plan.units).expect("memory");
    M::copy(&mut memory, filled).expect("memory");
    let told = play::<M>(&device, &memory, &plan.parts)?;
    M::contents(&memory, plan.units)?;
    let known = plan.known(&stored);
    let answers: Vec<_> = told.iter().flat_map(Told::answers).collect();
    let top = M::Key::MAX.to_u64();
    match answers.iter().find(|(step, count, keys)| !known.is_right(*step, *count, keys, top)) {
        Some(wrong) => {
            Err(Finding::Order(format!("{wrong:?}, and {:?} were there throughout", known.lasting)))
        }
        None => Ok((answers.len(), memory)),
    }
}

/// Runs plans of `count` seeds on trees of three to six levels. All must be sound, and afterwards all keys
/// must be found through the directory that the launches have left.
pub fn deep_ones_are_sound<M: HasFixture<Memory = crate::trees::Forest> + Config>(name: &str, count: u64) {
    let deep = [true, false].map(|lists| DEEP.map(|many| deep_tree::<M>(many, lists)));
    let (mut plans, mut events) = (0, [0; 3]);
    for (seed, setting) in all_settings::<M>(count) {
        // Alternates the kinds of schedules, too: each is combined with every depth. Under weak memory a
        // search may see that a directory exists before it sees the entries: this requires zeroed memory.
        let spoiled = setting.weak_memory == WeakMemory::Off && seed % 2 == 0;
        let (fill, filled) = &deep[usize::from(spoiled)][(seed / 3) as usize % DEEP.len()];
        let plan = Plan::deep(seed, fill);
        let played = explore_from::<M>(&plan, filled, &setting).and_then(|(_, memory)| {
            let happened = memory.events_since(filled);
            find_all::<M>(&memory, &plan.known(fill).lasting).map(|()| happened)
        });
        let happened = played.unwrap_or_else(|finding| panic!("{}", told(name, seed, &setting, &finding)));
        plans += 1;
        (0..3).for_each(|event| events[event] += u64::from(happened[event]));
    }
    let [added, retired, rebuilt] = events;
    println!(
        "{name}: {plans} plans, {added} added slabs, {retired} retired some, {rebuilt} rebuilt the directory"
    );
    assert!(added > 0 && rebuilt > 0, "{name} explores what it is there for");
}

/// Numbers of keys of deep trees. With nodes of six pairs, the smallest has three levels above the leaves.
const DEEP: [u64; 3] = [60, 160, 400];
/// Distance between adjacent keys.
const APART: u64 = 8;
/// Number of slabs in their pools. It is odd so that copies keep the existing directory.
const DEEP_UNITS: u32 = 1001;

/// Builds a tree of `many` keys, with its directory if it `lists` the nodes, or with one in spoiled memory
/// that is not used yet.
fn deep_tree<M: HasFixture<Memory = crate::trees::Forest> + Config>(
    many: u64,
    lists: bool,
) -> (BTreeSet<u64>, crate::trees::Forest) {
    let keys: BTreeSet<u64> = (0..many).map(|index| index * APART).collect();
    let memory = filled::<M>(&keys, DEEP_UNITS);
    let pairs = M::contents(&memory, DEEP_UNITS).expect("a sound tree");
    assert_eq!(pairs.len() as u64, many, "the pool has room for versions, too");
    let calm = Device::emulator(Options::default());
    let mut copy = M::memory(&calm, DEEP_UNITS).expect("memory");
    M::copy(&mut copy, &memory).expect("memory");
    let rebuild = Step { kind: LIST, ..listing(0, 0) };
    if lists {
        play::<M>(&calm, &copy, &[vec![vec![rebuild; LANES]]]).expect("a directory");
    } else {
        copy.spoil_directory::<M>();
    }
    (keys, copy)
}

/// Number of keys of [`refilled_ones_are_sound`], and of the pool's slabs, of which the nodes take most.
const REFILL: (u64, u32) = (300, 161);

/// Runs plans of `count` seeds under weak memory, on a tree in the slabs of another one, which was freed. All
/// must be sound: a search may see the number of steps of a new directory before its entries, and must then
/// find no entry of the other tree's directory.
#[allow(dead_code)] // used by some programs only
pub fn refilled_ones_are_sound<M>(name: &str, count: u64)
where
    M: HasFixture<Memory = crate::trees::Forest> + Config + Instance,
{
    let (many, units) = REFILL;
    let keys: BTreeSet<u64> = (0..many).map(|index| index * APART).collect();
    let mut memory = filled::<M>(&keys, units);
    let calm = Device::emulator(Options::default());
    let rebuild = Step { kind: LIST, ..listing(0, 0) };
    let play_on = |memory: &mut crate::trees::Forest, rows: Vec<Vec<Step>>| {
        let mut copy = M::memory(&calm, units).expect("memory");
        M::copy(&mut copy, memory).expect("memory");
        play::<M>(&calm, &copy, &[rows]).expect("a tree");
        *memory = copy;
    };
    play_on(&mut memory, vec![vec![rebuild; LANES]]);
    memory.free_all_nodes::<M>();
    let insert = |&key: &u64| [insertion(key)].into_iter().chain([IDLE; LANES]).take(LANES).collect();
    play_on(&mut memory, keys.iter().rev().map(insert).collect());
    for seed in all_seeds(count) {
        let setting = Setting { weak_memory: M::WEAK, ..setting::<M>(seed) };
        let plan = Plan { units, ..Plan::deep(seed, &keys) };
        let played = explore_from::<M>(&plan, &memory, &setting);
        played.unwrap_or_else(|finding| panic!("{}", told(name, seed, &setting, &finding)));
    }
}

/// Looks up each key in a copy of the tree.
fn find_all<M: HasFixture<Memory = crate::trees::Forest> + Config>(
    memory: &crate::trees::Forest,
    keys: &BTreeSet<u64>,
) -> Result<(), Finding> {
    let calm = Device::emulator(Options { step_limit: 1 << 16, ..Options::default() });
    let mut copy = M::memory(&calm, DEEP_UNITS).expect("memory");
    M::copy(&mut copy, memory).expect("memory");
    let keys: Vec<u64> = keys.iter().copied().collect();
    let round = |keys: &[u64]| -> Vec<Step> {
        let asked = keys.iter().map(|&key| Step { kind: COUNT, ..listing(key, key) });
        asked.chain([IDLE; LANES]).take(LANES).collect()
    };
    let told = play::<M>(&calm, &copy, &[keys.chunks(LANES).map(round).collect()])?;
    match told.iter().flat_map(Told::answers).find(|(_, count, _)| *count != 1) {
        Some((step, count, _)) => {
            Err(Finding::Order(format!("key {} is found {count} times afterwards", step.from)))
        }
        None => Ok(()),
    }
}

/// Returns whether one of `count` schedules of a full leaf that is split while it is read has a finding that
/// replays.
pub fn is_found<M: HasFixture<Memory = crate::trees::Forest> + Config>(count: u64, faults: &[Fault]) -> bool {
    is_found_in::<M>(&Plan::overtaken(), count, setting::<M>, faults)
}

/// Checks as [`is_found`] does, with a leaf that changes while it is read and is then latched by other tiles
/// that pass through it.
#[allow(dead_code)] // trees have no versions
pub fn is_found_where_others_pass<M: HasFixture<Memory = crate::trees::Forest> + Config>(
    count: u64,
    faults: &[Fault],
) -> bool {
    let often_late = |seed| {
        let schedule = Schedule::Pct { seed, depth: 2 };
        Setting { schedule, ..setting::<M>(seed) }
    };
    is_found_in::<M>(&Plan::passed(), count, often_late, faults)
}

/// Plans of [`is_found_by_an_old_tail`] and [`no_tail_is_too_old`]: keys that are inserted while a full leaf
/// is read, and keys that are then removed.
const EMPTIED: [(&[u64], &[u64]); 3] =
    [(&[25, 26, 27], &[]), (&[25], &[25; 6]), (&[25, 26], &[26, 25, 26, 25])];

/// Returns whether one of `count` schedules of an [`EMPTIED`] plan has a finding that replays. One of the
/// faults makes reads of tails weak, so that they may return any value whose replacement does not happen
/// before the read.
#[allow(dead_code)] // used by some programs only
pub fn is_found_by_an_old_tail<M: HasFixture<Memory = crate::trees::Forest> + Config>(
    which: usize,
    count: u64,
    faults: &[Fault],
) -> bool {
    let (inserts, removals) = EMPTIED[which];
    is_found_in::<M>(&Plan::emptied(inserts, removals), count, setting::<M>, faults)
}

/// Runs schedules of all [`EMPTIED`] plans, with faults that make reads of tails weak; all must be sound.
#[allow(dead_code)] // as above
pub fn no_tail_is_too_old<M: HasFixture<Memory = crate::trees::Forest> + Config>(
    count: u64,
    faults: &[Fault],
) {
    for (inserts, removals) in EMPTIED {
        let plan = |_| Plan::emptied(inserts, removals);
        explore_soundly::<M>("tails of leaves whose slots are reused", count, plan, with(faults));
    }
    assert_effects(faults);
}

/// Runs schedules under weak memory in which a leaf is split while it is read; all must be sound.
#[allow(dead_code)] // used by some programs only
pub fn divided_ones_are_sound<M: HasFixture<Memory = crate::trees::Forest> + Config>(name: &str, count: u64) {
    let weak = |setting| Setting { weak_memory: M::WEAK, ..setting };
    explore_soundly::<M>(name, count, Plan::divided, weak);
}

/// Runs schedules under weak memory in which slots of moved pairs are used again; all must be sound.
#[allow(dead_code)] // as above
pub fn reused_slots_are_sound<M: HasFixture<Memory = crate::trees::Forest> + Config>(name: &str, count: u64) {
    let weak = |setting| Setting { weak_memory: M::WEAK, ..setting };
    explore_soundly::<M>(name, count, Plan::reused, weak);
}

/// Runs schedules in the PTX memory model in which pairs of a leaf move while it is read; all must be sound.
/// No leaf is split, and so no link leads to a new one: nothing relies on address dependencies.
#[allow(dead_code)] // used by some programs only
pub fn shifted_ones_are_sound<M: HasFixture<Memory = crate::trees::Forest> + Config>(name: &str, count: u64) {
    let ptx = |setting| Setting { weak_memory: WeakMemory::Ptx, ..setting };
    explore_soundly::<M>(name, count, Plan::shifted, ptx);
}

/// Runs schedules in which a pair returns to another slot of its leaf during a read; all must be sound.
#[allow(dead_code)] // mutants are in another program
pub fn all_are_told_once<M: HasFixture<Memory = crate::trees::Forest> + Config>(count: u64) {
    explore_soundly::<M>("a pair that comes back", count, |_| Plan::returned(), |setting| setting);
}

/// Runs schedules of searches for the highest key while nodes merge; all must be sound.
#[allow(dead_code)] // trees do not merge nodes
pub fn highest_keys_are_found_while_nodes_merge<M: HasFixture<Memory = crate::trees::Forest> + Config>(
    count: u64,
) {
    let name = "the highest key of nodes that merge";
    explore_soundly::<M>(name, count, |_| Plan::merged(), |setting| setting);
    // No node is split, and so no link leads to a new one: nothing relies on address dependencies.
    let ptx = |setting| Setting { weak_memory: WeakMemory::Ptx, ..setting };
    explore_soundly::<M>(name, count, |_| Plan::merged(), ptx);
    let reads = vec![by_tile(&[listing(0, KEYS)]); 3];
    let listed = |_| {
        let merged = Plan::merged();
        Plan { parts: vec![reads.clone(), merged.parts[1].clone()], ..merged }
    };
    explore_soundly::<M>(name, count, listed, ptx);
}

/// Runs schedules of a split whose entry is below the index node that led to it; all must be sound.
#[allow(dead_code)] // trees do not merge nodes
pub fn entries_below_a_node_are_raised<M: HasFixture<Memory = crate::trees::Forest> + Config>(count: u64) {
    explore_soundly::<M>("an entry below a node", count, |_| Plan::lowered(), |setting| setting);
}

/// Runs schedules in which a node is linked past a zombie and then split; all must be sound.
#[allow(dead_code)] // trees do not merge nodes
pub fn bypassed_zombies_are_sound<M: HasFixture<Memory = crate::trees::Forest> + Config>(count: u64) {
    explore_soundly::<M>("a zombie that is bypassed", count, |_| Plan::bypassed(), |setting| setting);
}

/// Kernel that writes one word after reading it `after` times.
#[derive(Clone, Copy)]
struct Show {
    words: GlobalSlice<u64>,
    place: usize,
    word: u64,
    after: u64,
}

impl Kernel for Show {
    const PROGRAM: &'static str = "btree_explore";
    const NAME: &'static str = "show";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        let place = self.words.at(self.place);
        for _ in 0..self.after {
            place.load(Order::Relaxed, Scope::Device);
        }
        place.store(self.word, Order::Relaxed, Scope::Device);
    }
}

/// Places a key temporarily in two slots of the first leaf, for all first slots. A reader may see this state
/// when a key is removed and reinserted; it must return the key once. For tiles of four lanes.
#[allow(dead_code)] // for trees only
pub fn twins_are_told_once<M: HasFixture<Memory = crate::trees::Forest> + Config>() {
    let calm = Device::emulator(Options::default());
    for many in 1..u64::from(M::SLOTS) {
        let keys: BTreeSet<u64> = (1..=many).map(|n| 10 * (n * 5 % 31)).collect();
        let filled = M::memory(&calm, 64).expect("memory");
        // Not in order.
        let rows = (1..=many).map(|n| by_tile(&[insertion(10 * (n * 5 % 31))])).collect();
        play::<M>(&calm, &filled, &[rows]).expect("a tree");
        let (slots, first) = filled.first_leaf::<M>();
        let (full, free): (Vec<usize>, Vec<usize>) =
            (0..slots.len()).partition(|&slot| slots[slot] != u64::MAX);
        for (seed, &from) in (0..).zip(&full) {
            let options = Options { step_limit: 1 << 19, ..Options::explore(Schedule::Random { seed }) };
            let device = Device::emulator(options);
            let mut memory = M::memory(&device, 64).expect("memory");
            M::copy(&mut memory, &filled).expect("memory");
            let place = first + free[seed as usize % free.len()];
            let emulator = device.emulator_handle().expect("an emulator");
            let show = Show { words: memory.words(), place, word: slots[from], after: 0 };
            emulator.launch_all(vec![Launch::new(Grid::new(1, 1), show)]).expect("a store");
            let asked = vec![by_tile(&[listing(0, KEYS * 4)])];
            let told = Told::<M::Key, M::Value, ROOM>::new(&device, &asked).expect("memory");
            let reads = Play::<M> { tree: memory.view(), script: told.script() };
            let hide = Show { word: u64::MAX, after: 60, ..show };
            let launches = vec![Launch::new(Grid::new(1, 4), reads), Launch::new(Grid::new(1, 1), hide)];
            emulator.launch_all(launches).expect("a range");
            let (_, _, found) = &told.answers()[0];
            assert!(found.iter().eq(&keys), "{many} pairs, slot {from} at {place} too: {found:?}");
        }
    }
}

/// Runs schedules in which the header of a leaf becomes visible some time after the link to it, as is
/// possible with two relaxed stores. Earlier pairs must not be returned again.
#[allow(dead_code)] // for trees only
pub fn late_headers_are_waited_for<M: HasFixture<Memory = crate::trees::Forest> + Config>(count: u64) {
    let keys: Vec<u64> = (1..=12).map(|n| 10 * n).collect();
    let calm = Device::emulator(Options::default());
    let filled = M::memory(&calm, 64).expect("memory");
    let rows = keys.iter().map(|&key| by_tile(&[insertion(key)])).collect();
    play::<M>(&calm, &filled, &[rows]).expect("a tree");
    let asked = [15, 5, 25].map(|from| by_tile(&[listing(from, 115)])).to_vec();
    for seed in all_seeds(count) {
        let schedule = Schedule::Random { seed };
        let device = Device::emulator(Options { step_limit: 1 << 19, ..Options::explore(schedule) });
        let mut memory = M::memory(&device, 64).expect("memory");
        M::copy(&mut memory, &filled).expect("memory");
        let (place, word) = memory.hide_second_leaf::<M>();
        let told = Told::<M::Key, M::Value, ROOM>::new(&device, &asked).expect("memory");
        let reads = Play::<M> { tree: memory.view(), script: told.script() };
        let shows = Show { words: memory.words(), place, word, after: seed % 400 };
        let launches = vec![Launch::new(Grid::new(1, 4), reads), Launch::new(Grid::new(1, 1), shows)];
        let ended = device.emulator_handle().expect("an emulator").launch_all(launches);
        assert!(ended.is_ok(), "{ended:?}\n{}", replay(seed));
        for (step, _, told) in told.answers() {
            let wanted = keys.iter().copied().filter(|key| (step.from..=step.to).contains(key));
            assert!(told.iter().copied().eq(wanted), "{step:?}: {told:?}\n{}", replay(seed));
        }
    }
}

fn is_found_in<M: HasFixture<Memory = crate::trees::Forest> + Config>(
    plan: &Plan,
    count: u64,
    setting: fn(u64) -> Setting,
    faults: &[Fault],
) -> bool {
    let play = |seed| explore::<M>(plan, &with(faults)(setting(seed))).err();
    let first = (0..count).find_map(|seed| play(seed).map(|finding| (seed, finding)));
    assert_effects(faults);
    first.is_some_and(|(seed, finding)| {
        println!("found by seed {seed}: {finding}");
        play(seed).is_some_and(|again| again.is_same(&finding))
    })
}

/// Buffers of launches on trees of the variant `M`.
type Tolds<M> = Vec<Told<<M as Kind>::Key, <M as Kind>::Value, ROOM>>;

/// Runs the parts concurrently.
pub fn play<M: HasFixture<Memory = crate::trees::Forest> + Config>(
    device: &Device,
    memory: &crate::trees::Forest,
    parts: &[Part],
) -> Result<Tolds<M>, Finding> {
    let told: Tolds<M> = parts.iter().map(|part| Told::new(device, part).expect("memory")).collect();
    let launch = |(part, told): (&Part, &Told<M::Key, M::Value, ROOM>)| {
        Launch::new(
            Grid::new(1, part[0].len() as u32),
            Play::<M> { tree: memory.view(), script: told.script() },
        )
    };
    let launches: Vec<_> = parts.iter().zip(&told).map(launch).collect();
    device.emulator_handle().expect("an emulator").launch_all(launches).map_err(Finding::Machine)?;
    Ok(told)
}

/// Runs the plans of `count` seeds; all must be sound. Returns the number of range queries.
pub fn explore_soundly<M: HasFixture<Memory = crate::trees::Forest> + Config>(
    name: &str,
    count: u64,
    plan: impl Fn(u64) -> Plan,
    change: impl Fn(Setting) -> Setting,
) -> usize {
    let explore = |(seed, setting): (u64, Setting)| {
        let setting = change(setting);
        explore::<M>(&plan(seed), &setting)
            .unwrap_or_else(|finding| panic!("{}", told(name, seed, &setting, &finding)))
    };
    settings::<M>(count).map(explore).sum()
}

/// Runs the plans of `count` seeds; all must be sound.
pub fn all_are_sound<M: HasFixture<Memory = crate::trees::Forest> + Config>(name: &str, count: u64) {
    let ranges = explore_soundly::<M>(name, count, Plan::new::<M>, |setting| setting);
    println!("{name}: {ranges} ranges");
}

/// Runs the plans of these seeds under weak memory; all must be sound.
#[allow(dead_code)] // for sorted skip lists only
pub fn are_sound_under_weak_memory<M: HasFixture<Memory = crate::trees::Forest> + Config>(
    seeds: std::ops::Range<u64>,
) {
    for seed in seeds {
        let setting = Setting { weak_memory: M::WEAK, ..setting::<M>(seed) };
        explore::<M>(&Plan::new::<M>(seed), &setting)
            .unwrap_or_else(|finding| panic!("{}", told("weak memory", seed, &setting, &finding)));
    }
}
