//! What goes by order, while others insert and remove: each pair that is given was there at some moment,
//! those that are there throughout are given, once, and keys come in order.
use crate::common::{Dice, replay, seeds};
use crate::hunt::{setting, settings, told};
use crate::sheet::{COLLECT, COUNT, Deed, HIGHEST, IDLE, INSERT, LANES, LOWEST, REMOVE, Sheet, Told};
use crate::world::{Crowded, Finding, Setting};
use gpu::{Device, Grid};
use phalanx_kernels::btree::{Config, TreeView};
use phalanx_kernels::keyed::{Insert, Kind, Lanes, Outcome, Remove, Scalar, Session};
use simt::emulator::{Detect, Launch, Options, Schedule};
use simt::{GlobalSlice, Kernel, Order, Scope, Thread};
use std::collections::BTreeSet;

/// The directory is made anew, by the whole block, which is a warp.
const LIST: u8 = 2;
const WRITES: [u8; 5] = [INSERT, INSERT, REMOVE, REMOVE, LIST];
const ASKS: [u8; 4] = [COLLECT, COUNT, LOWEST, HIGHEST];
/// Pairs that a range has room for.
const ROOM: usize = 160;
/// Keys are below it, but for the topmost.
const KEYS: u64 = 150;

/// A launch: rounds, in each of which a lane does a deed.
type Part = Vec<Vec<Deed>>;

/// Keys that are there before, each with itself for a value, and launches of one block: rounds, in each of
/// which all lanes do the same kind.
#[derive(Debug)]
struct Plan {
    units: u32,
    fill: BTreeSet<u64>,
    parts: Vec<Part>,
    /// Whether races are told. Not those of kinds that read weakly on purpose.
    races: bool,
}

impl Plan {
    fn new<M: Crowded>(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let crowd = M::crowd(&mut dice);
        let many = dice.pick(&[0, 6, 20, 60, 100]);
        let mut fill: BTreeSet<u64> = (0..many).map(|_| dice.below(KEYS)).collect();
        if dice.below(2) == 0 {
            fill.insert(u64::MAX);
        }
        let part = |_| {
            let writes = dice.below(2) == 0;
            let round = |_| {
                let kind = if writes { dice.pick(&WRITES) } else { dice.pick(&ASKS) };
                (0..LANES).map(|_| deed(&mut dice, kind)).collect()
            };
            (0..2).map(round).collect()
        };
        let parts = (0..3).map(part).collect();
        Self { units: crowd.buckets.max(64), fill, parts, races: true }
    }

    /// A full leaf that is split while it is read: the slots of pairs that move are taken by others.
    fn overtaken() -> Self {
        let inserts = [25, 26, 27].map(|key| by_tile(&[insertion(key)])).to_vec();
        let parts = vec![vec![by_tile(&[listing(0, KEYS)]); 2], inserts];
        Self { units: 64, fill: (1..=6).map(|key| 10 * key).collect(), parts, races: true }
    }

    /// A pair is removed and inserted again while its leaf is read, into the slot of another one that was
    /// removed before.
    fn returned() -> Self {
        let writes = [removal(10), removal(50), insertion(50)].map(|deed| by_tile(&[deed])).to_vec();
        let count = Deed { kind: COUNT, ..listing(0, KEYS) };
        let parts = vec![vec![by_tile(&[listing(0, KEYS)]), by_tile(&[count])], writes];
        Self { units: 64, fill: (1..=5).map(|key| 10 * key).collect(), parts, races: true }
    }

    /// The last split was never raised, for the pool had no slab for the root's: so who comes for the keys
    /// that were cut off comes by the node of 150 to 170. That gets a key while it is read, so that those
    /// behind it move; and then the same tile passes it.
    fn passed() -> Self {
        let inserts = vec![by_tile(&[155, 230].map(insertion))];
        let parts = vec![vec![by_tile(&[listing(150, 170)]); 2], inserts];
        Self { units: 9, fill: (0..=22).map(|key| 10 * key).collect(), parts, races: true }
    }

    /// [`Self::overtaken`], while a third one takes pairs away from the slots that were reused. For kinds
    /// that read tails weakly.
    fn emptied(inserts: &[u64], removals: &[u64]) -> Self {
        let part =
            |keys: &[u64], deed: fn(u64) -> Deed| keys.iter().map(|&key| by_tile(&[deed(key)])).collect();
        let reads = vec![by_tile(&[listing(0, KEYS)]); 6];
        let parts = [reads, part(inserts, insertion), part(removals, removal)];
        let parts = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Self { parts, races: false, ..Self::overtaken() }
    }

    /// A node that becomes thin, {30, 50}, and merges with the next one, while others look for the highest
    /// key below all that the next one has.
    fn merged() -> Self {
        let writes =
            [insertion(72), insertion(74), removal(60), removal(40)].map(|deed| by_tile(&[deed])).to_vec();
        let highest = Deed { kind: HIGHEST, ..listing(0, 65) };
        let parts = vec![vec![by_tile(&[highest]); 3], writes];
        Self { units: 64, fill: (0..=22).map(|key| 10 * key).collect(), parts, races: true }
    }

    /// Two or three launches that change a deep tree in a few places, search it and rebuild its directory.
    fn deep(seed: u64, fill: &BTreeSet<u64>) -> Self {
        let mut dice = Dice::new(seed);
        let keys = fill.len() as u64 * APART;
        let places: Vec<u64> = (0..1 + dice.below(3)).map(|_| dice.below(keys)).collect();
        let kinds = [INSERT, INSERT, REMOVE, LIST, LIST, COUNT];
        let part = |_| {
            let round = |_| {
                let kind = dice.pick(&kinds);
                let deed = |dice: &mut Dice| {
                    let from = (dice.pick(&places) + dice.below(3 * APART)).min(keys);
                    let to = if kind == COUNT { from + dice.below(6 * APART) } else { from };
                    if kind == LIST || dice.below(3) == 0 { Deed { kind, from, to } } else { IDLE }
                };
                (0..LANES).map(|_| deed(&mut dice)).collect()
            };
            (0..3).map(round).collect()
        };
        let parts = (0..2 + seed % 2).map(part).collect();
        Self { units: DEEP_UNITS, fill: fill.clone(), parts, races: true }
    }

    /// What is there at some moment of the plan, and what is there throughout, where `stored` was there
    /// before.
    fn known(&self, stored: &BTreeSet<u64>) -> Known {
        let (inserted, removed) = (self.changed(INSERT), self.changed(REMOVE));
        Known {
            possible: stored.union(&inserted).copied().collect(),
            lasting: stored.difference(&removed).copied().collect(),
        }
    }

    fn deeds(&self) -> impl Iterator<Item = &Deed> {
        self.parts.iter().flatten().flatten()
    }

    fn changed(&self, kind: u8) -> BTreeSet<u64> {
        self.deeds().filter(|deed| deed.kind == kind).map(|deed| deed.from).collect()
    }
}

const fn insertion(key: u64) -> Deed {
    Deed { kind: INSERT, from: key, to: key }
}

const fn removal(key: u64) -> Deed {
    Deed { kind: REMOVE, from: key, to: key }
}

const fn listing(from: u64, to: u64) -> Deed {
    Deed { kind: COLLECT, from, to }
}

/// A round of these deeds, by a block of one tile of four lanes: of few lanes a schedule is more likely to
/// hold the one up that matters.
fn by_tile(deeds: &[Deed]) -> Vec<Deed> {
    deeds.iter().copied().chain([IDLE; 4]).take(4).collect()
}

fn deed(dice: &mut Dice, kind: u8) -> Deed {
    if dice.below(LANES as u64) > 3 {
        return IDLE;
    }
    let ends = [dice.below(KEYS), dice.below(KEYS)];
    let top = if dice.below(4) == 0 { u64::MAX } else { ends[0].max(ends[1]) };
    Deed { kind, from: ends[0].min(ends[1]), to: top }
}

struct Play<M: Config> {
    tree: TreeView<M>,
    sheet: Sheet<M::Key, M::Value, ROOM>,
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
        let mut session = Session::<M, _>::new(self.tree, Lanes);
        for round in 0..self.sheet.rounds {
            let index = Thread::index() * self.sheet.rounds + round;
            let wanted = self.sheet.kinds.read(index) != IDLE.kind;
            let key = self.sheet.froms.read(index);
            let value = M::Value::from_u64(key.to_u64());
            match self.sheet.kind(round) {
                INSERT => {
                    let outcome = crate::script::ask(&mut session, wanted, Insert, key, value).0;
                    self.sheet.counts.write(index, u64::from(outcome != Outcome::Refused));
                }
                REMOVE => {
                    crate::script::ask(&mut session, wanted, Remove, key, value);
                }
                LIST => M::list(self.tree),
                kind => self.sheet.ask(self.tree, kind, wanted, index),
            }
        }
        session.finish();
        M::leave(self.tree);
    }
}

impl<K: Scalar, V: Scalar> Told<K, V, ROOM> {
    /// What was asked of ranges, how many there were, and the keys that were told; each with itself, cut to
    /// its size, for a value.
    fn answers(&self) -> Vec<(Deed, u64, Vec<u64>)> {
        let (counts, keys) = (self.counts.read().expect("memory"), self.keys.read().expect("memory"));
        let values = self.values.read().expect("memory");
        let answer = |(index, &deed): (usize, &Deed)| {
            let many = match deed.kind {
                COLLECT => counts[index] as usize,
                LOWEST | HIGHEST => (counts[index] as usize).min(1),
                _ => 0,
            };
            let places = index * ROOM..index * ROOM + many;
            let own = |place: usize| V::from_u64(keys[place].to_u64()) == values[place];
            assert!(places.clone().all(own), "values belong to their keys");
            (deed, counts[index], keys[places].iter().map(|key| key.to_u64()).collect())
        };
        self.deeds
            .iter()
            .enumerate()
            .map(answer)
            .filter(|answer| answer.0.kind >= COLLECT && answer.0.kind != IDLE.kind)
            .collect()
    }
}

/// What was there at all, and what was there throughout.
struct Known {
    possible: BTreeSet<u64>,
    lasting: BTreeSet<u64>,
}

impl Known {
    fn is_right(&self, deed: Deed, count: u64, keys: &[u64], top: u64) -> bool {
        let range = deed.from..=deed.to.min(top);
        let must: Vec<u64> = self.lasting.range(range.clone()).copied().collect();
        let may = self.possible.range(range.clone()).count() as u64;
        let are_possible = keys.iter().all(|key| self.possible.contains(key) && range.contains(key));
        let rest = match deed.kind {
            COLLECT => keys.is_sorted_by(|a, b| a < b) && must.iter().all(|key| keys.contains(key)),
            LOWEST => must.first().is_none_or(|lasting| keys.first().is_some_and(|key| key <= lasting)),
            HIGHEST => must.last().is_none_or(|lasting| keys.first().is_some_and(|key| key >= lasting)),
            _ => count >= must.len() as u64 && count <= may,
        };
        are_possible && rest
    }
}

/// A tree of keys that came one after the other, each with itself for a value, in so many slabs.
pub fn filled<M: Crowded<Memory = crate::trees::Forest> + Config>(
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

/// Plays a plan and looks for what is wrong. Returns how many ranges were asked about.
fn explore<M: Crowded<Memory = crate::trees::Forest> + Config>(
    plan: &Plan,
    setting: &Setting,
) -> Result<usize, Finding> {
    let stored: BTreeSet<u64> = plan.fill.iter().map(|&key| M::Key::from_u64(key).to_u64()).collect();
    let filled = filled::<M>(&stored, plan.units);
    explore_from::<M>(plan, &filled, setting).map(|(ranges, _)| ranges)
}

/// [`explore`] of a tree that has the plan's keys. Returns the tree, too.
fn explore_from<M: Crowded<Memory = crate::trees::Forest> + Config>(
    plan: &Plan,
    filled: &crate::trees::Forest,
    setting: &Setting,
) -> Result<(usize, crate::trees::Forest), Finding> {
    let stored: BTreeSet<u64> = plan.fill.iter().map(|&key| M::Key::from_u64(key).to_u64()).collect();
    let detect = Detect { races: plan.races, ..Detect::ALL };
    let options = Options {
        stale_l1: true,
        weak_memory: setting.weak_memory,
        step_limit: 1 << 19,
        detect,
        ..Options::explore(setting.schedule.clone())
    };
    let device = Device::emulator(options);
    let mut memory = M::memory(&device, plan.units).expect("memory");
    M::copy(&mut memory, filled).expect("memory");
    let told = play::<M>(&device, &memory, &plan.parts)?;
    M::pairs(&memory, plan.units)?;
    let known = plan.known(&stored);
    let answers: Vec<_> = told.iter().flat_map(Told::answers).collect();
    let top = M::Key::MAX.to_u64();
    match answers.iter().find(|(deed, count, keys)| !known.is_right(*deed, *count, keys, top)) {
        Some(wrong) => {
            Err(Finding::Order(format!("{wrong:?}, and {:?} were there throughout", known.lasting)))
        }
        None => Ok((answers.len(), memory)),
    }
}

/// Plays plans of `count` seeds on trees of three to six levels; all must be sound, and all keys are found
/// afterwards by way of the directory that the launches have left.
pub fn deep_ones_are_sound<M: Crowded<Memory = crate::trees::Forest> + Config>(name: &str, count: u64) {
    let deep: Vec<_> = DEEP.iter().map(|&many| deep_tree::<M>(many)).collect();
    let (mut plans, mut events) = (0, [0; 3]);
    for (seed, setting) in settings::<M>(count) {
        // Kinds of schedules come by turns, too: each with every depth.
        let (fill, filled) = &deep[(seed / 3) as usize % deep.len()];
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

/// Keys of deep trees: the fewest make three levels above the leaves where nodes have six pairs.
const DEEP: [u64; 3] = [60, 160, 400];
/// How far they lie apart.
const APART: u64 = 8;
/// Slabs of their pools. An odd number: copies keep the directory that was there.
const DEEP_UNITS: u32 = 1001;

/// A tree of so many keys, and its directory.
fn deep_tree<M: Crowded<Memory = crate::trees::Forest> + Config>(
    many: u64,
) -> (BTreeSet<u64>, crate::trees::Forest) {
    let keys: BTreeSet<u64> = (0..many).map(|index| index * APART).collect();
    let memory = filled::<M>(&keys, DEEP_UNITS);
    let pairs = M::pairs(&memory, DEEP_UNITS).expect("a sound tree");
    assert_eq!(pairs.len() as u64, many, "the pool has room for versions, too");
    let calm = Device::emulator(Options::default());
    let mut copy = M::memory(&calm, DEEP_UNITS).expect("memory");
    M::copy(&mut copy, &memory).expect("memory");
    let rebuild = Deed { kind: LIST, ..listing(0, 0) };
    play::<M>(&calm, &copy, &[vec![vec![rebuild; LANES]]]).expect("a directory");
    (keys, copy)
}

/// Looks each key up in a copy of the tree.
fn find_all<M: Crowded<Memory = crate::trees::Forest> + Config>(
    memory: &crate::trees::Forest,
    keys: &BTreeSet<u64>,
) -> Result<(), Finding> {
    let calm = Device::emulator(Options { step_limit: 1 << 16, ..Options::default() });
    let mut copy = M::memory(&calm, DEEP_UNITS).expect("memory");
    M::copy(&mut copy, memory).expect("memory");
    let keys: Vec<u64> = keys.iter().copied().collect();
    let round = |keys: &[u64]| -> Vec<Deed> {
        let asked = keys.iter().map(|&key| Deed { kind: COUNT, ..listing(key, key) });
        asked.chain([IDLE; LANES]).take(LANES).collect()
    };
    let told = play::<M>(&calm, &copy, &[keys.chunks(LANES).map(round).collect()])?;
    match told.iter().flat_map(Told::answers).find(|(_, count, _)| *count != 1) {
        Some((deed, count, _)) => {
            Err(Finding::Order(format!("key {} is found {count} times afterwards", deed.from)))
        }
        None => Ok(()),
    }
}

/// Whether something is found within so many schedules of a full leaf that is split while it is read, which
/// replays.
pub fn is_found<M: Crowded<Memory = crate::trees::Forest> + Config>(count: u64) -> bool {
    is_found_in::<M>(&Plan::overtaken(), count, setting::<M>)
}

/// [`is_found`] where a leaf changes while it is read, and is then latched by others who pass it.
#[allow(dead_code)] // trees have no version to lose
pub fn is_found_where_others_pass<M: Crowded<Memory = crate::trees::Forest> + Config>(count: u64) -> bool {
    is_found_in::<M>(&Plan::passed(), count, |seed| {
        let schedule = Schedule::Pct { seed, depth: 2 };
        Setting { schedule, ..setting::<M>(seed) }
    })
}

/// What is looked for by [`is_found_by_an_old_tail`] and its contrary: keys that are inserted while a full
/// leaf is read, and those that are removed then.
const EMPTIED: [(&[u64], &[u64]); 3] =
    [(&[25, 26, 27], &[]), (&[25], &[25; 6]), (&[25, 26], &[26, 25, 26, 25])];

/// Whether something is found within so many schedules of one of [`EMPTIED`], which replays: of kinds that
/// read tails weakly, so that they may see any value that nothing orders the end of before.
#[allow(dead_code)] // bugs are planted in some programs
pub fn is_found_by_an_old_tail<M: Crowded<Memory = crate::trees::Forest> + Config>(
    which: usize,
    count: u64,
) -> bool {
    let (inserts, removals) = EMPTIED[which];
    is_found_in::<M>(&Plan::emptied(inserts, removals), count, setting::<M>)
}

/// Plays schedules of all [`EMPTIED`]; all must be sound.
#[allow(dead_code)] // as above
pub fn no_tail_is_too_old<M: Crowded<Memory = crate::trees::Forest> + Config>(count: u64) {
    for (inserts, removals) in EMPTIED {
        let plan = |_| Plan::emptied(inserts, removals);
        explore_soundly::<M>("tails of leaves whose slots are reused", count, plan);
    }
}

/// Plays schedules of a pair that comes back to another slot of its leaf while that is read; all must be
/// sound.
#[allow(dead_code)] // bugs are planted in a program of their own
pub fn all_are_told_once<M: Crowded<Memory = crate::trees::Forest> + Config>(count: u64) {
    explore_soundly::<M>("a pair that comes back", count, |_| Plan::returned());
}

/// Plays schedules of searches for the highest key while nodes merge; all must be sound.
#[allow(dead_code)] // trees do not merge
pub fn highest_keys_are_found_while_nodes_merge<M: Crowded<Memory = crate::trees::Forest> + Config>(
    count: u64,
) {
    explore_soundly::<M>("the highest key of nodes that merge", count, |_| Plan::merged());
}

/// Writes one word, after so many reads of it.
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

/// A key stands in two slots of the first leaf for a while, any two, as a reader may see one that is removed
/// and comes back: it is told once. Of tiles of four lanes.
#[allow(dead_code)] // of trees alone
pub fn twins_are_told_once<M: Crowded<Memory = crate::trees::Forest> + Config>() {
    let calm = Device::emulator(Options::default());
    for many in 1..u64::from(M::SLOTS) {
        let keys: BTreeSet<u64> = (1..=many).map(|n| 10 * (n * 5 % 31)).collect();
        let filled = M::memory(&calm, 64).expect("memory");
        // In no order.
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
            let reads = Play::<M> { tree: memory.view(), sheet: told.sheet() };
            let hide = Show { word: u64::MAX, after: 60, ..show };
            let launches = vec![Launch::new(Grid::new(1, 4), reads), Launch::new(Grid::new(1, 1), hide)];
            emulator.launch_all(launches).expect("a range");
            let (_, _, found) = &told.answers()[0];
            assert!(found.iter().eq(&keys), "{many} pairs, slot {from} at {place} too: {found:?}");
        }
    }
}

/// Plays schedules in which a leaf's header is seen some time after the link to it, as two relaxed stores may
/// be: nothing before it may be told again.
#[allow(dead_code)] // of trees alone
pub fn late_headers_are_waited_for<M: Crowded<Memory = crate::trees::Forest> + Config>(count: u64) {
    let keys: Vec<u64> = (1..=12).map(|n| 10 * n).collect();
    let calm = Device::emulator(Options::default());
    let filled = M::memory(&calm, 64).expect("memory");
    let rows = keys.iter().map(|&key| by_tile(&[insertion(key)])).collect();
    play::<M>(&calm, &filled, &[rows]).expect("a tree");
    let asked = [15, 5, 25].map(|from| by_tile(&[listing(from, 115)])).to_vec();
    for seed in seeds(count) {
        let schedule = Schedule::Random { seed };
        let device = Device::emulator(Options { step_limit: 1 << 19, ..Options::explore(schedule) });
        let mut memory = M::memory(&device, 64).expect("memory");
        M::copy(&mut memory, &filled).expect("memory");
        let (place, word) = memory.hide_second_leaf::<M>();
        let told = Told::<M::Key, M::Value, ROOM>::new(&device, &asked).expect("memory");
        let reads = Play::<M> { tree: memory.view(), sheet: told.sheet() };
        let shows = Show { words: memory.words(), place, word, after: seed % 400 };
        let launches = vec![Launch::new(Grid::new(1, 4), reads), Launch::new(Grid::new(1, 1), shows)];
        let ended = device.emulator_handle().expect("an emulator").launch_all(launches);
        assert!(ended.is_ok(), "{ended:?}\n{}", replay(crate::PROGRAM, seed));
        for (deed, _, told) in told.answers() {
            let wanted = keys.iter().copied().filter(|key| (deed.from..=deed.to).contains(key));
            assert!(told.iter().copied().eq(wanted), "{deed:?}: {told:?}\n{}", replay(crate::PROGRAM, seed));
        }
    }
}

fn is_found_in<M: Crowded<Memory = crate::trees::Forest> + Config>(
    plan: &Plan,
    count: u64,
    setting: fn(u64) -> Setting,
) -> bool {
    let play = |seed| explore::<M>(plan, &setting(seed)).err();
    let first = (0..count).find_map(|seed| play(seed).map(|finding| (seed, finding)));
    first.is_some_and(|(seed, finding)| {
        println!("found by seed {seed}: {finding}");
        play(seed).is_some_and(|again| again.is_same(&finding))
    })
}

/// The buffers of launches on a tree of the kind `M`.
type Tolds<M> = Vec<Told<<M as Kind>::Key, <M as Kind>::Value, ROOM>>;

/// Plays parts side by side.
fn play<M: Crowded<Memory = crate::trees::Forest> + Config>(
    device: &Device,
    memory: &crate::trees::Forest,
    parts: &[Part],
) -> Result<Tolds<M>, Finding> {
    let told: Tolds<M> = parts.iter().map(|part| Told::new(device, part).expect("memory")).collect();
    let launch = |(part, told): (&Part, &Told<M::Key, M::Value, ROOM>)| {
        Launch::new(
            Grid::new(1, part[0].len() as u32),
            Play::<M> { tree: memory.view(), sheet: told.sheet() },
        )
    };
    let launches: Vec<_> = parts.iter().zip(&told).map(launch).collect();
    device.emulator_handle().expect("an emulator").launch_all(launches).map_err(Finding::Machine)?;
    Ok(told)
}

/// Plays the plans of `count` seeds; all must be sound. Returns how many ranges were asked about.
fn explore_soundly<M: Crowded<Memory = crate::trees::Forest> + Config>(
    name: &str,
    count: u64,
    plan: impl Fn(u64) -> Plan,
) -> usize {
    let explore = |(seed, setting): (u64, Setting)| {
        explore::<M>(&plan(seed), &setting)
            .unwrap_or_else(|finding| panic!("{}", told(name, seed, &setting, &finding)))
    };
    settings::<M>(count).map(explore).sum()
}

/// Plays the plans of `count` seeds; all must be sound.
pub fn all_are_sound<M: Crowded<Memory = crate::trees::Forest> + Config>(name: &str, count: u64) {
    let ranges = explore_soundly::<M>(name, count, Plan::new::<M>);
    println!("{name}: {ranges} ranges");
}

/// Plays the plans of these seeds under weak memory; all must be sound.
#[allow(dead_code)] // of sorted skip lists alone
pub fn are_sound_under_weak_memory<M: Crowded<Memory = crate::trees::Forest> + Config>(
    seeds: std::ops::Range<u64>,
) {
    for seed in seeds {
        let setting = Setting { weak_memory: crate::WEAK, ..setting::<M>(seed) };
        explore::<M>(&Plan::new::<M>(seed), &setting)
            .unwrap_or_else(|finding| panic!("{}", told("weak memory", seed, &setting, &finding)));
    }
}
