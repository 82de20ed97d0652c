//! Tiny tables on an emulated device, rounds of concurrent launches, and what their results must satisfy.
#[path = "aborted.rs"]
mod aborted;
#[path = "copies.rs"]
mod copies;
#[path = "explain.rs"]
mod explain;
#[path = "hot.rs"]
mod hot;
#[path = "mixes.rs"]
mod mixes;
#[path = "retired.rs"]
mod retired;
#[path = "twins.rs"]
mod twins;
pub use aborted::ends_beside_aborted_claims;
pub use copies::{copy_alone, copy_bits};
use explain::explain;
pub use hot::{read_rows, steps_of_updates};
pub use mixes::absent;
use mixes::{READERS, apart, churn, duel, parts, reuse};
pub use retired::{removal_in_order, update_in_order};
pub use twins::recover_twins;

use crate::common::Rng;
use crate::reread::{
    ChangeAndGet, ChangeAndInsert, GetTwice, displace, exchange, read_own, remove_updated, reread,
    reread_many, supplant,
};
use gpu::{Buffer, Device, Grid};

use phalanx_kernels::keyed::Outcome;
use phalanx_kernels::persistent::kernels::{
    PersistentContains, PersistentContainsCached, PersistentGet, PersistentGetCached, PersistentInsert,
    PersistentInsertNew, PersistentRemove, PersistentUpdate,
};
use phalanx_kernels::persistent::pages::{PageCopies, PersistentCopyPages};
use phalanx_kernels::persistent::recover::{
    DUPLICATES, FINDINGS, MISPLACED, PersistentCheck, PersistentRebuild, PersistentResolve,
};
use phalanx_kernels::persistent::refresh::PersistentRefresh;
use phalanx_kernels::persistent::{
    CacheView, Changes, Config, Geometry, Hashed, Lookups, MOST_LEVELS, PersistentView, Search,
};
use simt::Instance;
use simt::emulator::{Failure, Fault, Launch, Mode, Options, Schedule, StoreLog, WeakMemory};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Mutex;

/// Fault that a test has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The emulator ended the launch because of a race, a hang, a fault, ...
    Machine(Failure),
    /// Results that no order of the elements explains.
    Wrong(String),
    /// The table's memory is wrong.
    Memory(String),
    /// A copied page is wrong.
    Copy(String),
}

impl Finding {
    /// Returns whether the findings are equal, apart from addresses.
    pub fn is_same(&self, other: &Self) -> bool {
        let (Self::Machine(a), Self::Machine(b)) = (self, other) else { return self == other };
        crate::common::is_same_failure(a, b)
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Machine(failure) => failure.fmt(f),
            Self::Wrong(text) | Self::Memory(text) | Self::Copy(text) => f.write_str(text),
        }
    }
}

/// Conditions of a run.
#[derive(Clone, Debug)]
pub struct Setting {
    pub schedule: Schedule,
    pub weak_memory: WeakMemory,
    pub faults: Vec<Fault>,
    /// Whether pages are copied beside the batches.
    pub copies: bool,
    /// Actions of the launches of a round.
    pub mix: Mix,
    pub cache: Cached,
    /// Whether all keys have one fingerprint.
    pub alike: bool,
    /// Minimum and maximum number of keys that fill the table before the rounds.
    pub fill: (u64, u64),
    /// Number of rounds.
    pub rounds: u32,
}

/// Contents of a table's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// There is no cache.
    Nothing,
    /// Random items. Refreshes run beside batches.
    Random,
    /// The items that were read most often. Refreshes run beside batches.
    Hot,
    /// As `Random`, but the first refresh runs beside the first batches.
    Fresh,
}

/// Actions of the launches of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Everything, mostly on two keys.
    All,
    /// Two launches insert one absent key, and others remove keys.
    Duel,
    /// Launches insert, remove, update and read two keys, so that slots change their items often.
    Churn,
    /// One key is removed and inserted again while others read it.
    Reuse,
    /// The same, with many readers.
    Crowd,
    /// Launches of several elements update one key, which another one removes and inserts.
    Hot,
    /// Launches change keys of their own.
    Apart,
    /// Threads read a key twice while others change it.
    Reread,
    /// Many threads of a warp read a key twice while another one updates it.
    RereadMany,
    /// A thread removes a key and reads it while others update it.
    Updated,
    /// Threads update a key and read it.
    ReadOwn,
    /// A thread removes or updates a key, and inserts another one, while others use the first.
    Displace,
    /// A thread removes a key, and inserts another one, while others update or remove the first.
    Supplant,
    /// A thread removes or updates a key, and another one inserts or updates another key, while many read the
    /// first one.
    Exchange,
}

impl Setting {
    /// Returns the setting of a seed: random schedules alternate with priority-based ones.
    pub fn new(seed: u64, weak: bool) -> Self {
        let schedule = match seed % 3 {
            0 => Schedule::Random { seed },
            1 => Schedule::Pct { seed, depth: 3 },
            _ => Schedule::Pct { seed, depth: 10 },
        };
        let weak_memory = if weak { WeakMemory::Ptx } else { WeakMemory::Off };
        Self {
            schedule,
            weak_memory,
            faults: Vec::new(),
            copies: false,
            mix: Mix::All,
            cache: Cached::Nothing,
            alike: false,
            fill: (0, KEYS),
            rounds: 2,
        }
    }

    fn options(&self) -> Options {
        let options = Options::explore(self.schedule.clone());
        let (weak_memory, faults) = (self.weak_memory, self.faults.clone());
        Options { weak_memory, faults, stale_l1: true, step_limit: 400_000, ..options }
    }
}

/// Totals of runs without a finding: elements by outcome, and pages by whether their copies are whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct Played {
    pub outcomes: [usize; 6],
    pub copies: [usize; 2],
    /// Lookups that have found their keys in copies of the cache, and others.
    pub hits: [u64; 2],
}

impl AddAssign for Played {
    fn add_assign(&mut self, other: Self) {
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(sum, more)| *sum += more);
        self.copies.iter_mut().zip(other.copies).for_each(|(sum, more)| *sum += more);
        self.hits.iter_mut().zip(other.hits).for_each(|(sum, more)| *sum += more);
    }
}

impl Played {
    /// Requires that each outcome has occurred three times, but for refusals, which need full tables, and
    /// copies of both kinds.
    pub fn assert_rare_paths(&self, copies: bool) {
        assert!(self.outcomes.iter().skip(1).all(|&count| count >= 3), "{self:?}");
        assert!(!copies || self.copies.iter().all(|&count| count >= 3), "{self:?}");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Get,
    /// Two elements of one thread, which are executed one after the other. All first ones of a launch are
    /// before the second ones.
    Reread,
    Contains,
    Insert,
    InsertNew,
    Update,
    Remove,
    /// A lookup by the thread of the element before, after that element.
    ThenGet,
    /// An insertion of another key, likewise.
    ThenInsert,
}

/// An element: its action, key, and the tag of its value.
#[derive(Clone, Copy, Debug)]
pub struct Element {
    pub action: Action,
    pub key: u64,
    pub tag: u32,
}

/// An element's result. `tag` is that of a value that was read.
#[derive(Clone, Copy, Debug)]
struct Answer {
    element: Element,
    outcome: Outcome,
    tag: Option<u32>,
}

/// Keys of a world, by their tags.
pub type Model = BTreeMap<u64, u32>;

/// Number of keys.
pub const KEYS: u64 = 14;

/// Seed of the hash function.
const SEED: u64 = 1;

/// Lines of a cache.
const LINES: u32 = 4;

/// Returns the words of all keys. If they are `alike`, all have the fingerprint of the first one.
fn keys<C: Config>(alike: bool) -> Vec<Vec<u64>> {
    /// Keys by the number of their words, and whether they are alike.
    type Found = BTreeMap<(u32, bool), Vec<Vec<u64>>>;
    /// The search takes long: few keys have the same fingerprint.
    static FOUND: Mutex<Found> = Mutex::new(Found::new());
    let words = |number: u64| {
        let mut words = vec![number; C::KEY_WORDS as usize];
        if C::KEY_WORDS > 1 {
            // The first word does not tell all keys of several words apart.
            words[0] = if alike { number % 2 } else { number / 2 };
        }
        words
    };
    let fingerprint = |words: &[u64]| Hashed::of(words, SEED).fingerprint();
    let wanted = fingerprint(&words(0));
    let find = || {
        let chosen = (0..).map(words).filter(|words| !alike || fingerprint(words) == wanted);
        chosen.take(KEYS as usize).collect()
    };
    FOUND.lock().unwrap().entry((C::KEY_WORDS, alike)).or_insert_with(find).clone()
}

pub struct World<C> {
    device: Device,
    /// Words of the keys, by their numbers.
    keys: Vec<Vec<u64>>,
    geometry: Geometry,
    value_words: usize,
    levels: Vec<Buffer<u32>>,
    fingerprints: Buffer<u32>,
    reserved: Buffer<u32>,
    dirty: Buffer<u32>,
    lines: Buffer<u32>,
    heat: Buffer<u32>,
    counts: Buffer<u64>,
    cache: Cached,
    fill: (u64, u64),
    /// Number of refreshes.
    turn: Cell<u32>,
    of: std::marker::PhantomData<C>,
}

/// Buffers of a launch.
struct Buffers {
    keys: Buffer<u64>,
    values: Buffer<u32>,
    outcomes: Buffer<u8>,
}

impl<C: Search + Instance> World<C> {
    fn new(setting: &Setting) -> Self {
        let device = Device::emulator(setting.options());
        let (cache, fill) = (setting.cache, setting.fill);
        Self { cache, fill, keys: keys::<C>(setting.alike), ..Self::on(device) }
    }

    /// Returns an empty table on a device that explores nothing.
    pub fn for_recovery() -> Self {
        Self::on(Device::emulator(Options { mode: Mode::Fast { workers: 1 }, ..Options::default() }))
    }

    /// Replaces the image, and opens it. Returns its contents.
    pub fn recover(&mut self, levels: &[&[u8]]) -> Result<Model, Finding> {
        for (level, bytes) in self.levels.iter_mut().zip(levels) {
            let words: Vec<u32> = bytes.chunks(4).map(bytemuck::pod_read_unaligned).collect();
            level.write(&words).unwrap();
        }
        self.rebuild()?;
        self.contents()
    }

    fn on(device: Device) -> Self {
        let value_words = if C::VALUE_BYTES > 0 { 2 } else { 5 };
        let item_words = (2 * C::KEY_WORDS + value_words as u32).next_multiple_of(2);
        // A line of slot bits, and two buckets.
        let page_bytes = (128 + 2 * C::SLOTS * item_words * 4).next_multiple_of(128);
        let stored = if C::VALUE_BYTES > 0 { 0 } else { value_words as u32 };
        let geometry = Geometry::new(page_bytes, (C::SLOTS, item_words), stored).with_first(1);
        let words = |above| (geometry.pages(above) * geometry.page_words()) as usize;
        let levels = (0..C::LEVELS).map(|above| device.zeroed(words(above)).unwrap()).collect();
        let pages: u32 = (0..C::LEVELS).map(|above| geometry.pages(above)).sum();
        let group_words = PersistentView::<C>::group_words() as usize;
        Self {
            keys: keys::<C>(false),
            geometry,
            value_words,
            levels,
            fingerprints: device.zeroed(group_words).unwrap(),
            reserved: device.zeroed(1 << C::LEVELS).unwrap(),
            dirty: device.zeroed(pages as usize).unwrap(),
            lines: device.zeroed((LINES * item_words) as usize).unwrap(),
            heat: device.zeroed(((C::SLOTS << C::LEVELS) / 4) as usize).unwrap(),
            counts: device.zeroed(2).unwrap(),
            cache: Cached::Nothing,
            fill: (0, KEYS),
            turn: Cell::new(0),
            device,
            of: std::marker::PhantomData,
        }
    }

    fn view(&self) -> PersistentView<C> {
        let mut levels = [self.levels[0].pointer(); MOST_LEVELS];
        levels.iter_mut().zip(&self.levels).for_each(|(to, level)| *to = level.pointer());
        // SAFETY: the memory has the right sizes and outlives every launch here.
        let view = unsafe { PersistentView::new(levels, self.fingerprints.pointer(), self.geometry, SEED) };
        let view = view.with_pages(self.dirty.global(), true).with_reserved(self.reserved.global());
        if self.cache == Cached::Nothing {
            return view;
        }
        let heat = if self.cache == Cached::Hot { self.heat.global() } else { self.heat.global().part(0, 0) };
        let cache = CacheView {
            lines: self.lines.global(),
            heat,
            counts: self.counts.global(),
            share: LINES << 16,
            // The first warp of a launch notes reads in each 16th turn.
            turn: 16 * self.turn.get(),
            stamp: 0,
        };
        // SAFETY: as above.
        unsafe { view.with_cache(cache) }
    }

    /// Returns the words of a value: each has a part of the tag.
    fn value(&self, key: u64, tag: u32) -> Vec<u32> {
        let words = [tag, key as u32 ^ tag, tag.wrapping_mul(3), tag + 7, !tag];
        words[..self.value_words].to_vec()
    }

    /// Returns the tag of a value, or an error if it is torn or another key's.
    fn tag(&self, key: u64, value: &[u32]) -> Result<u32, String> {
        if self.value(key, value[0]) == value {
            Ok(value[0])
        } else {
            Err(format!("{value:x?} of key {key}"))
        }
    }

    fn buffers(&self, elements: &[Element]) -> Buffers {
        let keys: Vec<u64> =
            elements.iter().flat_map(|element| self.keys[element.key as usize].clone()).collect();
        let values: Vec<u32> =
            elements.iter().flat_map(|element| self.value(element.key, element.tag)).collect();
        Buffers {
            keys: self.device.from_slice(&keys).unwrap(),
            values: self.device.from_slice(&values).unwrap(),
            outcomes: self.device.filled(elements.len(), 0xff).unwrap(),
        }
    }

    fn launch(&self, part: &[Element], buffers: &Buffers) -> Launch {
        let (view, grid) = (self.view(), Grid::new(1, 32));
        let (keys, values) = (buffers.keys.global(), buffers.values.global());
        let outcomes = buffers.outcomes.global();
        let lookups = Lookups { keys: keys.into(), values, outcomes };
        let changes = Changes { keys: keys.into(), values, outcomes };
        let span = |first: usize, count: usize| Lookups {
            keys: keys.part(first * C::KEY_WORDS as usize, count * C::KEY_WORDS as usize).into(),
            values: values.part(first * self.value_words, count * self.value_words),
            outcomes: outcomes.part(first, count),
        };
        let at = |index: usize| span(index, 1);
        let change_at = |index: usize| {
            let Lookups { keys, values, outcomes } = at(index);
            Changes { keys, values, outcomes }
        };
        match part[0].action {
            first if part[part.len() - 1].action == Action::ThenGet => {
                let removes = u32::from(first == Action::Remove);
                Launch::new(grid, ChangeAndGet::<C> { view, removes, keys: change_at(0), then: at(1) })
            }
            first if part[part.len() - 1].action == Action::ThenInsert => {
                let removes = u32::from(first == Action::Remove);
                let (keys, others) = (change_at(0), change_at(1));
                Launch::new(grid, ChangeAndInsert::<C> { view, removes, keys, others })
            }
            Action::Reread => {
                let half = part.len() / 2;
                Launch::new(grid, GetTwice::<C> { view, first: span(0, half), second: span(half, half) })
            }
            Action::Get if self.cache != Cached::Nothing => {
                Launch::new(grid, PersistentGetCached::<C> { view, batch: lookups })
            }
            Action::Contains if self.cache != Cached::Nothing => {
                Launch::new(grid, PersistentContainsCached::<C> { view, batch: lookups })
            }
            Action::Get | Action::ThenGet => Launch::new(grid, PersistentGet::<C> { view, batch: lookups }),
            Action::Contains => Launch::new(grid, PersistentContains::<C> { view, batch: lookups }),
            Action::Insert | Action::ThenInsert => {
                Launch::new(grid, PersistentInsert::<C> { view, batch: changes })
            }
            Action::InsertNew => Launch::new(grid, PersistentInsertNew::<C> { view, batch: changes }),
            Action::Update => Launch::new(grid, PersistentUpdate::<C> { view, batch: changes }),
            Action::Remove => Launch::new(grid, PersistentRemove::<C> { view, batch: changes }),
        }
    }

    /// Returns a refresh of the cache, if there is one.
    fn refresh(&self) -> Option<Launch> {
        self.turn.set(self.turn.get() + 1);
        let refresh = PersistentRefresh::<C> { view: self.view() };
        (self.cache != Cached::Nothing).then(|| Launch::new(Grid::new(1, 32), refresh))
    }

    fn run(&self, launches: Vec<Launch>) -> Result<(), Finding> {
        let emulator = self.device.emulator_handle().expect("an emulator");
        emulator.launch_all(launches).map(drop).map_err(Finding::Machine)
    }

    /// Runs the parts of a round concurrently, and copies of all pages if `copies`. Returns the results, and
    /// the consistent copies by level and page.
    fn round(&self, parts: &[Vec<Element>], copies: bool) -> Result<(Vec<Answer>, Copies), Finding> {
        let buffers: Vec<_> = parts.iter().map(|part| self.buffers(part)).collect();
        let mut launches: Vec<_> =
            parts.iter().zip(&buffers).map(|(part, buffers)| self.launch(part, buffers)).collect();
        launches.extend(self.refresh());
        let copied = Copied::new(self);
        if copies {
            launches.extend((0..C::LEVELS).map(|above| copied.launch(self, above)));
        }
        self.run(launches)?;
        let mut answers = Vec::new();
        for (part, buffers) in parts.iter().zip(&buffers) {
            self.answers(part, buffers, &mut answers)?;
        }
        Ok((answers, if copies { copied.read(self) } else { Copies::new() }))
    }

    fn answers(&self, part: &[Element], buffers: &Buffers, to: &mut Vec<Answer>) -> Result<(), Finding> {
        let (codes, values) = (buffers.outcomes.read().unwrap(), buffers.values.read().unwrap());
        for (index, &element) in part.iter().enumerate() {
            let outcome = Outcome::from_code(codes[index])
                .ok_or_else(|| Finding::Wrong(format!("{element:?} has no outcome")))?;
            let value = &values[index * self.value_words..][..self.value_words];
            let reads = matches!(element.action, Action::Get | Action::Reread | Action::ThenGet)
                && outcome == Outcome::Found;
            let torn = |text| Finding::Wrong(format!("a lookup returns {text}"));
            let tag = reads.then(|| self.tag(element.key, value)).transpose().map_err(torn)?;
            to.push(Answer { element, outcome, tag });
        }
        Ok(())
    }

    /// Returns the keys and the tags of all items, according to the slot bits.
    fn items(&self, page: &[u32]) -> Result<Vec<(u64, u32)>, String> {
        let geometry = self.geometry;
        let mut items = Vec::new();
        for slot in 0..(geometry.buckets_a_page() * C::SLOTS) as usize {
            if page[slot / 32] >> (slot % 32) & 1 == 0 {
                continue;
            }
            let first = geometry.bits_words() as usize + slot * geometry.item_words() as usize;
            let words = &page[first..][..geometry.item_words() as usize];
            let word = |index: usize| u64::from(words[2 * index]) | u64::from(words[2 * index + 1]) << 32;
            let found: Vec<u64> = (0..C::KEY_WORDS as usize).map(word).collect();
            let number = self.keys.iter().position(|words| *words == found);
            let key = number.ok_or_else(|| format!("an item has the key {found:?}"))? as u64;
            let value = &words[2 * C::KEY_WORDS as usize..][..self.value_words];
            items.push((key, self.tag(key, value).map_err(|text| format!("an item has {text}"))?));
        }
        Ok(items)
    }

    /// Requires that the table is sound, and returns its contents.
    fn contents(&self) -> Result<Model, Finding> {
        let findings = self.device.zeroed::<u32>(FINDINGS).unwrap();
        let check = PersistentCheck::<C> { view: self.view(), findings: findings.global() };
        self.run(vec![Launch::new(Grid::new(3, 8), check)])?;
        let found = findings.read().unwrap();
        if found.iter().any(|&count| count > 0) {
            return Err(Finding::Memory(format!("a check finds {found:?}")));
        }
        let mut model = Model::new();
        for level in &self.levels {
            for page in level.read().unwrap().chunks(self.geometry.page_words() as usize) {
                for (key, tag) in self.items(page).map_err(Finding::Memory)? {
                    if model.insert(key, tag).is_some() {
                        return Err(Finding::Memory(format!("key {key} has two items")));
                    }
                }
            }
        }
        self.check_reserved(&model)?;
        Ok(model)
    }

    fn check_reserved(&self, model: &Model) -> Result<(), Finding> {
        let reserved = self.reserved.read().unwrap().into_iter().fold(0, u32::wrapping_add);
        if C::IS_SMALL || reserved as usize == model.len() {
            return Ok(());
        }
        Err(Finding::Memory(format!("{reserved} slots are reserved for {} items", model.len())))
    }

    /// Requires that the fingerprints that are rebuilt from the image are those that the table has.
    fn check_rebuilt(&mut self) -> Result<(), Finding> {
        let before = self.fingerprints.read().unwrap();
        let found = self.rebuild()?;
        let after = self.fingerprints.read().unwrap();
        // Before the fingerprints are the version and links to the cache, which is empty now.
        let first = (C::SLOTS / 2) as usize;
        if before[first..] != after[first..] || found.iter().any(|&count| count > 0) {
            return Err(Finding::Memory("rebuilt fingerprints differ".to_owned()));
        }
        Ok(())
    }

    /// Rebuilds the fingerprints from the image, and resolves duplicates. Returns the findings.
    fn rebuild(&mut self) -> Result<Vec<u32>, Finding> {
        self.fingerprints.fill_bytes(0).unwrap();
        self.reserved.fill_bytes(0).unwrap();
        let findings = self.device.zeroed::<u32>(FINDINGS).unwrap();
        let (view, findings_there) = (self.view(), findings.global());
        let rebuild = |above: u32| {
            let pages = self.levels[above as usize].global();
            let rebuild = PersistentRebuild::<C> { view, above, first: 0, pages, findings: findings_there };
            Launch::new(Grid::new(self.geometry.pages(above), 32), rebuild)
        };
        self.run((0..C::LEVELS).map(rebuild).collect())?;
        let resolve = PersistentResolve::<C> { view, findings: findings_there };
        self.run(vec![Launch::new(Grid::new(3, 8), resolve)])?;
        let found = findings.read().unwrap();
        match found[MISPLACED] {
            0 => Ok(found),
            _ => Err(Finding::Memory("an item is in no bucket of its key".to_owned())),
        }
    }
}

/// Consistent copies: level, page, and its words.
type Copies = Vec<(u32, u32, Vec<u32>)>;

/// Copies of all pages, by level.
struct Copied {
    lists: Vec<Buffer<u32>>,
    copies: Vec<Buffer<u32>>,
    whole: Vec<Buffer<u32>>,
}

impl Copied {
    fn new<C: Search + Instance>(world: &World<C>) -> Self {
        let pages = |above| (0..world.geometry.pages(above)).collect::<Vec<u32>>();
        let zeroed = |level: &Buffer<u32>| world.device.zeroed(level.len()).unwrap();
        Self {
            lists: (0..C::LEVELS).map(|above| world.device.from_slice(&pages(above)).unwrap()).collect(),
            copies: world.levels.iter().map(zeroed).collect(),
            whole: (0..C::LEVELS)
                .map(|above| world.device.filled(world.geometry.pages(above) as usize, 0xff).unwrap())
                .collect(),
        }
    }

    fn launch<C: Search + Instance>(&self, world: &World<C>, above: u32) -> Launch {
        let (geometry, level) = (world.geometry, above as usize);
        let first: u32 = (0..above).map(|below| geometry.pages(below)).sum();
        let pages = PageCopies {
            level: world.levels[level].global(),
            list: self.lists[level].global(),
            dirty: world.dirty.global().part(first as usize, geometry.pages(above) as usize),
            words: (geometry.page_words(), geometry.bits_words()),
            copies: self.copies[level].global(),
            whole: self.whole[level].global(),
        };
        Launch::new(Grid::new(geometry.pages(above), 32), PersistentCopyPages { pages })
    }

    fn read<C: Search + Instance>(&self, world: &World<C>) -> Copies {
        let mut copies = Copies::new();
        for above in 0..C::LEVELS {
            let (words, whole) = (&self.copies[above as usize], self.whole[above as usize].read().unwrap());
            let words = words.read().unwrap();
            let pages = words.chunks(world.geometry.page_words() as usize).zip(whole).zip(0..);
            copies.extend(
                pages
                    .filter(|&((_, whole), _)| whole == 1)
                    .map(|((words, _), page)| (above, page, words.to_vec())),
            );
        }
        copies
    }
}

/// A round whose stores were recorded.
pub struct Round {
    before: Model,
    pub after: Model,
    answers: Vec<Answer>,
}

impl Round {
    /// Returns an error if a crash in the round must not leave these contents.
    pub fn allows(&self, found: &Model) -> Result<(), String> {
        for key in 0..KEYS {
            let of_key = || self.answers.iter().map(|answer| answer.element).filter(move |of| of.key == key);
            let (before, now) = (self.before.get(&key), found.get(&key));
            let is_allowed = match now {
                Some(tag) => before == Some(tag) || of_key().any(|of| of.tag == *tag && of.action.writes()),
                None => before.is_none() || of_key().any(|of| of.action == Action::Remove),
            };
            if !is_allowed {
                return Err(format!("key {key} had {before:?} and has {now:?}"));
            }
        }
        Ok(())
    }
}

impl Action {
    fn writes(self) -> bool {
        matches!(self, Self::Insert | Self::ThenInsert | Self::InsertNew | Self::Update)
    }
}

/// Plays one round of concurrent batches, and records its stores to the image: a region for each level.
pub fn record_round<C: Search + Instance>(
    seed: u64,
    setting: &Setting,
) -> Result<(StoreLog, Round), Finding> {
    let (mut rng, world) = (Rng::new(seed), World::<C>::new(setting));
    let (mut before, mut tag) = (Model::new(), 1);
    fill_table(&world, &mut rng, (&mut before, &mut tag))?;
    world.run(world.refresh().into_iter().collect())?;
    let parts = match setting.mix {
        Mix::Churn => churn(&mut rng, &mut tag),
        Mix::Hot => hot::parts(&mut rng, &mut tag, &before),
        _ => parts(&mut rng, &mut tag),
    };
    let emulator = world.device.emulator_handle().expect("an emulator");
    for level in &world.levels {
        // SAFETY: the levels live until the record has ended.
        unsafe { emulator.record_stores(level.pointer().cast_const().cast(), level.byte_len()) };
    }
    let played = world.round(&parts, false);
    let log = emulator.take_stores().expect("a record");
    let (answers, _) = played?;
    Ok((log, Round { before, after: world.contents()?, answers }))
}

/// Fills a table to a part of its slots, by one batch after the other.
fn fill_table<C: Search + Instance>(
    world: &World<C>,
    rng: &mut Rng,
    (model, tag): (&mut Model, &mut u32),
) -> Result<(), Finding> {
    let slots = (C::USABLE << C::LEVELS) - C::USABLE;
    let [least, most] = [world.fill.0, world.fill.1].map(|keys| keys.min(u64::from(slots)));
    for key in 0..least + rng.below(most - least + 1) {
        let element = Element { action: Action::Insert, key, tag: *tag };
        let (answers, _) = world.round(&[vec![element]], false)?;
        if answers[0].outcome == Outcome::Inserted {
            model.insert(key, *tag);
        }
        *tag += 1;
    }
    Ok(())
}

/// Plays rounds of concurrent batches.
pub fn play<C: Search + Instance>(seed: u64, setting: &Setting) -> Result<Played, Finding> {
    let (mut rng, mut world) = (Rng::new(seed), World::<C>::new(setting));
    let (mut model, mut played, mut tag) = (Model::new(), Played::default(), 1);
    fill_table(&world, &mut rng, (&mut model, &mut tag))?;
    if setting.cache != Cached::Fresh {
        world.run(world.refresh().into_iter().collect())?;
    }
    for _ in 0..setting.rounds {
        let parts = match setting.mix {
            Mix::All => parts(&mut rng, &mut tag),
            Mix::Duel => duel(&mut rng, &mut tag, &model),
            Mix::Churn => churn(&mut rng, &mut tag),
            Mix::Reuse => reuse(&mut tag, &model, 1),
            Mix::Crowd => reuse(&mut tag, &model, READERS),
            Mix::Hot => hot::parts(&mut rng, &mut tag, &model),
            Mix::Apart => apart(&mut rng, &mut tag),
            Mix::Reread => reread(&mut rng, &mut tag, &model),
            Mix::RereadMany => reread_many(&mut rng, &mut tag, &model),
            Mix::Updated => remove_updated(&mut rng, &mut tag, &model),
            Mix::ReadOwn => read_own(&mut rng, &mut tag, &model),
            Mix::Displace => displace(&mut rng, &mut tag, &model),
            Mix::Supplant => supplant(&mut rng, &mut tag, &model),
            Mix::Exchange => exchange(&mut rng, &mut tag, &model),
        };
        let (answers, copies) = world.round(&parts, setting.copies)?;
        answers.iter().for_each(|answer| played.outcomes[answer.outcome as usize] += 1);
        let after = world.contents()?;
        explain(&model, &after, &answers)?;
        if setting.copies {
            let pages: usize = (0..C::LEVELS).map(|above| world.geometry.pages(above) as usize).sum();
            played.copies[1] += copies.len();
            played.copies[0] += pages - copies.len();
            check_copies(&world, (&model, &after), &answers, &copies)?;
            check_marks(&world, &copies)?;
        }
        model = after;
    }
    played.hits = [0, 1].map(|index| world.counts.read().unwrap()[index]);
    world.check_rebuilt()?;
    Ok(played)
}

/// Requires that consistent copies have whole items with tags that their keys had, and each key that was
/// present all the time.
fn check_copies<C: Search + Instance>(
    world: &World<C>,
    (before, after): (&Model, &Model),
    answers: &[Answer],
    copies: &Copies,
) -> Result<(), Finding> {
    let mut found: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for (_, _, words) in copies {
        for (key, tag) in world.items(words).map_err(Finding::Copy)? {
            found.entry(key).or_default().push(tag);
        }
    }
    let is_all = copies.len() == world.dirty.len();
    for key in 0..KEYS {
        let of_key = || answers.iter().filter(|answer| answer.element.key == key);
        let written = |tag: u32| of_key().any(|answer| answer.element.tag == tag);
        let tags = found.remove(&key).unwrap_or_default();
        if let Some(tag) = tags.iter().find(|&&tag| before.get(&key) != Some(&tag) && !written(tag)) {
            return Err(Finding::Copy(format!("a copy has tag {tag} of key {key}")));
        }
        let stays = before.contains_key(&key)
            && after.contains_key(&key)
            && of_key().all(|answer| answer.outcome != Outcome::Removed);
        if is_all && stays && tags.len() != 1 {
            return Err(Finding::Copy(format!("copies have {tags:?} of key {key}, which was always there")));
        }
    }
    Ok(())
}

/// Requires that each page whose items differ from those of its consistent copy is marked.
fn check_marks<C: Search + Instance>(world: &World<C>, copies: &Copies) -> Result<(), Finding> {
    let marks = world.dirty.read().unwrap();
    for (above, page, copy) in copies {
        let first: u32 = (0..*above).map(|below| world.geometry.pages(below)).sum();
        let level = world.levels[*above as usize].read().unwrap();
        let words = world.geometry.page_words() as usize;
        let now = &level[*page as usize * words..][..words];
        let [before, now] = [copy, now].map(|words| world.items(words));
        if before != now && marks[(first + page) as usize] == 0 {
            let text = format!("page {page} of level {above} is not marked: {before:?} becomes {now:?}");
            return Err(Finding::Copy(text));
        }
    }
    Ok(())
}
