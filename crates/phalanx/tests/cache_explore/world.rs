//! Tiny cache table on an emulated device, and the launches of batches on it.
use crate::check;
use crate::common::Rng;
use crate::plan::{Action, Element, KEYS, Kind, Part, Plan, digest, is_read_before, row};
use bytemuck::Pod;
use gpu::{Buffer, Device, Grid};
use phalanx_kernels::cache::kernels::{
    CacheAccumulate, CacheAssign, CacheGet, CacheGetAndTouch, CacheGetConcurrent, CacheGetOrInsert,
    CacheInsert, CacheInsertEvict, CacheRemove,
};
use phalanx_kernels::cache::{
    CLASSES, CacheView, Changes, Chunk, Config, Digest, Evicted, Hashed, Lookups, Record, RowSlice, Rows,
    SLOTS, Summary, Time,
};
use phalanx_kernels::keyed::{Outcome, Scalar};
use simt::emulator::{Failure, Fault, Launch, Options, Schedule, WeakMemory};
use simt::{BoundedSlice, GlobalSlice, Instance};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Fault that a test has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The emulator ended the launch because of a race, a hang, a fault, ...
    Machine(Failure),
    /// Outcomes, rows or scores that no order of the elements explains.
    Wrong(String),
    /// The table's memory is wrong: a locked slot, a key twice or in a slot where no search looks.
    Layout(String),
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
            Self::Wrong(text) | Self::Layout(text) => f.write_str(text),
        }
    }
}

/// Conditions of a run.
#[derive(Clone, Debug)]
pub struct Setting {
    pub schedule: Schedule,
    pub weak_memory: WeakMemory,
    pub faults: Vec<Fault>,
    /// Whether lookups run beside the batches.
    pub looks_up: bool,
    /// Whether each launch has many elements.
    pub is_crowded: bool,
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
        Self { schedule, weak_memory, faults: Vec::new(), looks_up: false, is_crowded: false }
    }
}

/// Totals of runs without a finding: batches, and elements by outcome.
#[derive(Clone, Copy, Debug, Default)]
pub struct Played {
    pub steps: u64,
    pub evicted: usize,
    pub outcomes: [usize; 6],
    /// Lookups beside changes by their result: found as before the batch, found otherwise, absent.
    pub looked_up: [usize; 3],
    /// Present keys of batches that were evicted before they were locked, and then placed again.
    pub lost_races: usize,
    /// Slots of removed keys that got another key.
    pub reused: usize,
    /// Keys that were placed in their second bucket.
    pub second_choices: usize,
}

impl AddAssign for Played {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.evicted += other.evicted;
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(sum, more)| *sum += more);
        self.looked_up.iter_mut().zip(other.looked_up).for_each(|(sum, more)| *sum += more);
        self.lost_races += other.lost_races;
        self.reused += other.reused;
        self.second_choices += other.second_choices;
    }
}

impl Played {
    /// Counts the rare paths of a batch.
    fn note(&mut self, batch: &check::Batch) {
        let check::Batch { plan, before, answers, after, .. } = batch;
        let is_again = |answer: &&Answer| {
            answer.outcome == Outcome::Inserted && before.slots.contains_key(&answer.element.key)
        };
        self.lost_races += answers.iter().filter(is_again).count();
        let slots = before.digests.iter().zip(&after.digests);
        self.reused += slots.filter(|(old, new)| **old == Digest::ERASED && new.has_key()).count();
        let is_second = |answer: &&Answer| {
            let hashed = Hashed::of(answer.element.key, plan.seed);
            let bucket = after.slots.get(&answer.element.key).map(|slot| slot.position / SLOTS);
            answer.outcome == Outcome::Inserted
                && bucket.is_some_and(|bucket| bucket != hashed.bucket(0, plan.buckets))
        };
        self.second_choices += answers.iter().filter(is_second).count();
    }

    /// Requires that keys of batches were evicted, and placed again, three times unless a seed is replayed.
    pub fn assert_lost_races(&self) {
        assert!(self.lost_races >= 3 || crate::common::seeds(100).count() < 3, "{self:?}");
    }

    /// Requires that each outcome and each rare path that the kinds of batches can have has occurred three
    /// times.
    pub fn assert_rare_paths(&self, kinds: &[Kind], looks_up: bool) {
        let is_seen = |what: &str, count: usize| {
            assert!(count >= 3, "{kinds:?}: {what} occurred {count} times: {self:?}");
        };
        if looks_up {
            self.looked_up.iter().for_each(|&count| is_seen("a result of lookups", count));
        }
        let expected: &[Outcome] = match kinds[0] {
            Kind::Change => &[Outcome::Replaced, Outcome::Found, Outcome::Absent],
            Kind::Remove => &[Outcome::Removed, Outcome::Inserted, Outcome::Absent],
            _ => &[Outcome::Refused, Outcome::Inserted, Outcome::Replaced],
        };
        expected.iter().for_each(|&outcome| is_seen("an outcome", self.outcomes[outcome as usize]));
        match kinds[0] {
            Kind::Change => {}
            Kind::Remove => is_seen("a removed key's slot that is taken", self.reused),
            _ => {
                is_seen("an eviction", self.evicted);
                is_seen("a key in its second bucket", self.second_choices);
            }
        }
    }
}

/// A key's slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    pub position: u32,
    pub score: u64,
    pub row: Vec<u32>,
}

/// Contents of a table.
#[derive(Clone, Debug)]
pub struct Table {
    pub slots: BTreeMap<u64, Slot>,
    pub digests: Vec<Digest>,
    /// Number of batches before.
    pub time: u64,
}

/// Result of an element.
#[derive(Clone, Debug)]
pub struct Answer {
    pub action: Action,
    pub now: u64,
    pub element: Element,
    pub outcome: Outcome,
    /// Row that was returned, if the batch returns rows and the key was present or placed.
    pub row: Option<Vec<u32>>,
}

/// Evicted key, score and row.
pub type Lost = (u64, u64, Vec<u32>);

/// Keys and scores of all slots.
type Entries<C> = (Vec<<C as Config>::Key>, Vec<<C as Config>::Score>);

/// Bounds of the classes of scores.
const BOUNDS: [u64; CLASSES - 1] = {
    let (mut bounds, mut class) = ([0; CLASSES - 1], 0);
    while class < CLASSES - 1 {
        bounds[class] = class as u64 * 3 / 2;
        class += 1;
    }
    bounds
};

/// Returns the class of a score.
fn class_of(score: u64) -> u8 {
    BOUNDS.iter().filter(|&&bound| bound <= score).count() as u8
}

/// A table in the memory of a device.
struct World<C: Config> {
    device: Device,
    plan: Plan,
    digests: Buffer<u32>,
    keys: Buffer<C::Key>,
    scores: Buffer<C::Score>,
    rows: Buffer<u32>,
    classes: Buffer<u8>,
    /// Bounds of classes with one score, and of classes with two.
    bounds: Buffer<C::Score>,
    /// Versions of the slots; empty unless lookups run beside changes.
    versions: Buffer<u32>,
    /// A record for each slot in place of `keys`, `scores` and `versions`, if lookups run beside changes of a
    /// table with a summary.
    records: Option<Buffer<u32>>,
}

/// Buffers of a launch.
struct Buffers<K, S> {
    keys: Buffer<K>,
    scores: Buffer<S>,
    rows: Buffer<u32>,
    outcomes: Buffer<u8>,
    /// Output rows.
    to: Buffer<u32>,
}

/// Buffers of evicted keys.
struct Output<K, S> {
    keys: Buffer<K>,
    scores: Buffer<S>,
    rows: Buffer<u32>,
    count: Buffer<u32>,
}

fn nothing<T: simt::Word>() -> GlobalSlice<T> {
    // SAFETY: the slice has no words.
    unsafe { GlobalSlice::from_raw_parts(std::ptr::dangling_mut(), 0) }
}

impl<C> World<C>
where
    C: Config + Instance,
    C::Key: Pod,
    C::Score: Pod,
{
    fn new(options: Options, plan: Plan, looks_up: bool) -> gpu::Result<Self> {
        let (device, slots) = (Device::emulator(options), (plan.buckets * SLOTS) as usize);
        let mut world = Self {
            digests: device.zeroed(slots / 4)?,
            keys: device.buffer(slots)?,
            // As the table's owner: evictions also read the scores of slots that are being taken first.
            scores: device.zeroed(slots)?,
            rows: device.buffer(slots * plan.words as usize)?,
            classes: device.zeroed(slots)?,
            bounds: device.from_slice(&BOUNDS.map(C::Score::from_u64))?,
            versions: device.zeroed(if looks_up { slots } else { 0 })?,
            records: (looks_up && plan.has_summary())
                .then(|| device.zeroed(slots * Record::of::<C::Key, C::Score>().words as usize))
                .transpose()?,
            device,
            plan,
        };
        world.fill()?;
        Ok(world)
    }

    /// Places and removes keys as the kernels do.
    fn fill(&mut self) -> gpu::Result<()> {
        let (seed, words) = (self.plan.seed, self.plan.words);
        let mut digests = vec![Digest::EMPTY; (self.plan.buckets * SLOTS) as usize];
        let (mut placed, contents) = (Vec::new(), self.plan.contents().collect::<Vec<_>>());
        for (key, score) in contents {
            let hashed = Hashed::of(key, seed);
            let slots = |choice| {
                let first = hashed.bucket(choice, self.plan.buckets) * SLOTS;
                (0..SLOTS).map(move |slot| first + (hashed.sector() * 32 + slot) % SLOTS)
            };
            let mut slots = (0..self.plan.choices).flat_map(slots);
            let Some(free) = slots.find(|&slot| digests[slot as usize] == Digest::EMPTY) else { continue };
            if placed.len() == self.plan.fill.0 {
                break;
            }
            digests[free as usize] = hashed.digest();
            self.write_entry(free as usize, C::Key::from_u64(key), C::Score::from_u64(score))?;
            self.rows.write_at(self.row_of(free), &row(key, 0, words))?;
            self.classes.write_at(free as usize, &[class_of(score)])?;
            placed.push(free);
        }
        let removed = placed.iter().step_by(7).take(self.plan.fill.1);
        removed.for_each(|&slot| digests[slot as usize] = Digest::ERASED);
        let word = |four: &[Digest]| (0..4).fold(0, |word, byte| four[byte].put_in(word, byte as u32));
        self.digests.write(&digests.chunks(4).map(word).collect::<Vec<_>>())
    }

    /// Writes the key and the score of a slot.
    fn write_entry(&mut self, position: usize, key: C::Key, score: C::Score) -> gpu::Result<()> {
        let Record { words, score: at, .. } = Record::of::<C::Key, C::Score>();
        if let Some(records) = &mut self.records {
            let first = position * words as usize;
            records.write_at(first, bytemuck::cast_slice(&[key]))?;
            return records.write_at(first + at as usize, bytemuck::cast_slice(&[score]));
        }
        self.keys.write_at(position, &[key])?;
        self.scores.write_at(position, &[score])
    }

    /// Reads the keys and the scores of all slots.
    fn entries(&self) -> gpu::Result<Entries<C>> {
        let Some(records) = &self.records else { return Ok((self.keys.read()?, self.scores.read()?)) };
        let Record { words, score, .. } = Record::of::<C::Key, C::Score>();
        let all = records.read()?;
        let slots = all.chunks(words as usize);
        let key = |record: &[u32]| -> C::Key {
            bytemuck::pod_read_unaligned(bytemuck::cast_slice(&record[..size_of::<C::Key>() / 4]))
        };
        let score = |record: &[u32]| -> C::Score {
            let words = &record[score as usize..][..size_of::<C::Score>() / 4];
            bytemuck::pod_read_unaligned(bytemuck::cast_slice(words))
        };
        Ok(slots.map(|record| (key(record), score(record))).unzip())
    }

    fn view(&self) -> CacheView<C> {
        let (rows, plan) = (self.rows.pointer(), &self.plan);
        let near = plan.near_slots();
        let far = rows.wrapping_add((near * plan.buckets * plan.words) as usize);
        // SAFETY: the memory has the right sizes and outlives every launch here.
        unsafe {
            let rows = Rows::new(rows, far, near, plan.words);
            let shape = (plan.buckets, plan.choices);
            let view = |entries| CacheView::new(self.digests.pointer(), entries, rows, shape, plan.seed);
            let view = if let Some(records) = &self.records {
                let Record { score, version, .. } = Record::of::<C::Key, C::Score>();
                let (first, versions) =
                    (records.pointer(), records.global().part(version as usize, usize::MAX));
                view((first.cast(), first.wrapping_add(score as usize).cast())).with_records(versions)
            } else {
                let entries = (self.keys.pointer(), self.scores.pointer());
                view(entries).with_versions(self.versions.global())
            };
            let summary = Summary::new(self.classes.global(), self.bounds.global());
            if plan.has_summary() { view.with_summary(summary) } else { view }
        }
    }

    fn chunk(&self) -> Chunk {
        if self.plan.words.is_multiple_of(4) { Chunk::Four } else { Chunk::One }
    }

    /// Returns where the row of a slot begins.
    fn row_of(&self, position: u32) -> usize {
        let near = self.plan.near_slots();
        let (bucket, slot) = (position / SLOTS, position % SLOTS);
        let index = if slot < near {
            bucket * near + slot
        } else {
            near * self.plan.buckets + bucket * (SLOTS - near) + slot - near
        };
        (index * self.plan.words) as usize
    }

    /// Reads the table, and checks that each key is in a slot where searches look for it.
    fn table(&self, time: u64) -> Result<Table, Finding> {
        let words = self.digests.read().expect("memory");
        let (keys, scores) = self.entries().expect("memory");
        let (rows, classes) = (self.rows.read().expect("memory"), self.classes.read().expect("memory"));
        let digests: Vec<_> =
            (0..words.len() * 4).map(|slot| Digest::in_word(words[slot / 4], slot as u32 % 4)).collect();
        let mut slots = BTreeMap::new();
        for position in (0..digests.len()).filter(|&slot| !digests[slot].is_free()) {
            let (key, first) = (keys[position].to_u64(), self.row_of(position as u32));
            let row = rows[first..first + self.plan.words as usize].to_vec();
            let position = position as u32;
            self.check_slot(&digests, position, key)?;
            let slot = Slot { position, score: scores[position as usize].to_u64(), row };
            let (class, expected) = (classes[position as usize], class_of(slot.score));
            if self.plan.has_summary() && class != expected {
                let text = format!("slot {position} has class {class}, not {expected}, and {slot:x?}");
                return Err(Finding::Layout(text));
            }
            if let Some(other) = slots.insert(key, slot) {
                return Err(Finding::Layout(format!(
                    "key {key} is in slots {} and {position}",
                    other.position
                )));
            }
        }
        Ok(Table { slots, digests, time })
    }

    fn check_slot(&self, digests: &[Digest], position: u32, key: u64) -> Result<(), Finding> {
        let (seed, found) = (self.plan.seed, digests[position as usize]);
        let bucket = position / SLOTS;
        let hashed = Hashed::of(key, seed);
        let is_its_bucket =
            (0..self.plan.choices).any(|choice| hashed.bucket(choice, self.plan.buckets) == bucket);
        if found != digest(key, seed) || !is_its_bucket {
            return Err(Finding::Layout(format!(
                "slot {position} has the digest {found:?} and the key {key}"
            )));
        }
        let is_cut_off = |slot: u32| {
            digests[(bucket * SLOTS + slot) as usize] == Digest::EMPTY
                && is_read_before(key, seed, slot / 32, position % SLOTS)
        };
        // A search that reads a line at once sees all sectors.
        let by_sectors = C::NAME.contains("1x8") || C::NAME.contains("2x4");
        if by_sectors && (0..SLOTS).any(is_cut_off) {
            return Err(Finding::Layout(format!("an EMPTY slot ends the search of key {key} too early")));
        }
        Ok(())
    }

    fn buffers(&self, part: &Part) -> gpu::Result<Buffers<C::Key, C::Score>> {
        let (elements, words) = (&part.elements, self.plan.words);
        let keys: Vec<_> = elements.iter().map(|element| C::Key::from_u64(element.key)).collect();
        let scores: Vec<_> = elements.iter().map(|element| C::Score::from_u64(element.given)).collect();
        let rows: Vec<_> = elements.iter().flat_map(|element| row(element.key, element.tag, words)).collect();
        Ok(Buffers {
            keys: self.device.from_slice(&keys)?,
            scores: self.device.from_slice(&scores)?,
            rows: self.device.from_slice(&rows)?,
            outcomes: self.device.filled(keys.len(), 0xff)?,
            to: self.device.filled(rows.len(), 0xee)?,
        })
    }

    fn output(&self, len: usize) -> gpu::Result<Output<C::Key, C::Score>> {
        let words = self.plan.words as usize;
        Ok(Output {
            keys: self.device.buffer(len)?,
            scores: self.device.buffer(len)?,
            rows: self.device.buffer(len * words)?,
            count: self.device.zeroed(1)?,
        })
    }

    fn launch(
        &self,
        part: &Part,
        buffers: &Buffers<C::Key, C::Score>,
        output: &Output<C::Key, C::Score>,
    ) -> Launch {
        let (view, grid, to) = (self.view(), Grid::new(1, 32), RowSlice::new(buffers.to.global()));
        let batch = Changes {
            keys: BoundedSlice::from(buffers.keys.global()),
            scores: buffers.scores.global(),
            rows: RowSlice::new(buffers.rows.global()),
            outcomes: buffers.outcomes.global(),
            ends: nothing(),
            order: nothing(),
            time: Time { now: part.now, epoch: 0 },
            parameter: self.plan.rule as u32,
            chunk: self.chunk(),
        };
        let evicted = Evicted {
            keys: output.keys.global(),
            scores: output.scores.global(),
            rows: RowSlice::new(output.rows.global()),
            count: output.count.global(),
        };
        let element = phalanx_kernels::cache::Element::Int32;
        match part.action {
            Action::Place(Kind::InsertEvict) => {
                Launch::new(grid, CacheInsertEvict::<C> { view, batch, evicted })
            }
            Action::Place(Kind::GetOrInsert) => Launch::new(grid, CacheGetOrInsert::<C> { view, batch, to }),
            Action::Place(Kind::Accumulate) => {
                Launch::new(grid, CacheAccumulate::<C> { view, batch, element })
            }
            Action::Place(_) => Launch::new(grid, CacheInsert::<C> { view, batch }),
            Action::Assign => Launch::new(grid, CacheAssign::<C> { view, batch }),
            Action::GetAndTouch => Launch::new(grid, CacheGetAndTouch::<C> { view, batch, to }),
            Action::Remove => Launch::new(grid, CacheRemove::<C> { view, batch }),
            Action::LookUp => {
                let batch = self.lookups(&buffers.keys, (to, &buffers.outcomes));
                Launch::new(grid, CacheGetConcurrent::<C> { view, batch })
            }
        }
    }

    fn run(&self, launches: Vec<Launch>) -> Result<u64, Finding> {
        let emulator = self.device.emulator_handle().expect("an emulator");
        emulator.launch_all(launches).map(|report| report.steps).map_err(Finding::Machine)
    }

    /// Runs the launches of a batch concurrently. Returns the results, and what was evicted.
    fn play(&self, parts: &[Part]) -> Result<(Vec<Answer>, Vec<Lost>, u64), Finding> {
        let buffers: Vec<_> = parts.iter().map(|part| self.buffers(part).expect("memory")).collect();
        let len = parts.iter().map(|part| part.elements.len()).sum();
        let output = self.output(len).expect("memory");
        let launches =
            parts.iter().zip(&buffers).map(|(part, buffers)| self.launch(part, buffers, &output)).collect();
        let steps = self.run(launches)?;
        let answers = parts.iter().zip(&buffers).flat_map(|(part, buffers)| self.answers(part, buffers));
        Ok((answers.collect(), self.lost(&output, len)?, steps))
    }

    fn answers(&self, part: &Part, buffers: &Buffers<C::Key, C::Score>) -> Vec<Answer> {
        let (outcomes, to) = (buffers.outcomes.read().expect("memory"), buffers.to.read().expect("memory"));
        let returns =
            matches!(part.action, Action::Place(Kind::GetOrInsert) | Action::GetAndTouch | Action::LookUp);
        let words = self.plan.words as usize;
        let answer = |(index, &element): (usize, &Element)| {
            let outcome = Outcome::from_code(outcomes[index]).expect("an outcome");
            let has_row = returns && matches!(outcome, Outcome::Found | Outcome::Inserted);
            let row = has_row.then(|| to[index * words..][..words].to_vec());
            Answer { action: part.action, now: part.now, element, outcome, row }
        };
        part.elements.iter().enumerate().map(answer).collect()
    }

    fn lost(&self, output: &Output<C::Key, C::Score>, len: usize) -> Result<Vec<Lost>, Finding> {
        let (count, words) = (output.count.read().expect("memory")[0] as usize, self.plan.words as usize);
        if count > len {
            return Err(Finding::Wrong(format!("{count} keys were evicted for {len} elements")));
        }
        let (keys, scores) = (output.keys.read().expect("memory"), output.scores.read().expect("memory"));
        let rows = output.rows.read().expect("memory");
        let lost = |index: usize| {
            (keys[index].to_u64(), scores[index].to_u64(), rows[index * words..][..words].to_vec())
        };
        Ok((0..count).map(lost).collect())
    }

    fn lookups(&self, keys: &Buffer<C::Key>, (rows, outcomes): (RowSlice, &Buffer<u8>)) -> Lookups<C::Key> {
        Lookups {
            keys: BoundedSlice::from(keys.global()),
            rows,
            far: nothing(),
            missed: nothing(),
            missed_indices: nothing(),
            missed_count: nothing(),
            outcomes: outcomes.global(),
            chunk: self.chunk(),
        }
    }

    /// Looks up the keys, which are at most 32, and compares the results with the table.
    fn look_up(&self, keys: &[u64], table: &Table) -> Result<(), Finding> {
        let words = self.plan.words as usize;
        let typed: Vec<_> = keys.iter().map(|&key| C::Key::from_u64(key)).collect();
        let typed = self.device.from_slice(&typed).expect("memory");
        let rows = self.device.filled::<u32>(keys.len() * words, 0xee).expect("memory");
        let outcomes = self.device.filled::<u8>(keys.len(), 0xff).expect("memory");
        let batch = self.lookups(&typed, (RowSlice::new(rows.global()), &outcomes));
        self.run(vec![Launch::new(Grid::new(1, 32), CacheGet::<C> { view: self.view(), batch })])?;
        let (rows, outcomes) = (rows.read().expect("memory"), outcomes.read().expect("memory"));
        for (index, key) in keys.iter().enumerate() {
            let found = (outcomes[index] == Outcome::Found as u8).then(|| &rows[index * words..][..words]);
            let slot = table.slots.get(key).map(|slot| &slot.row[..]);
            if found != slot {
                let text = format!("a lookup of key {key} returns {found:x?}, and its slot has {slot:x?}");
                return Err(Finding::Wrong(text));
            }
        }
        Ok(())
    }
}

/// Runs batches of the kinds, one after the other, and checks each.
pub fn play<C>(seed: u64, kinds: &[Kind], setting: &Setting) -> Result<Played, Finding>
where
    C: Config + Instance,
    C::Key: Pod,
    C::Score: Pod,
{
    let plan = Plan { is_crowded: setting.is_crowded, ..Plan::new(seed) };
    let options = Options {
        stale_l1: true,
        weak_memory: setting.weak_memory,
        faults: setting.faults.clone(),
        step_limit: 1 << 20,
        ..Options::explore(setting.schedule.clone())
    };
    let world = World::<C>::new(options, plan.clone(), setting.looks_up).expect("memory");
    let (mut rng, mut table) = (Rng::new(seed ^ 0x77), world.table(0)?);
    let mut played = Played::default();
    for round in 0..2 {
        let kind = if kinds.len() == 2 { kinds[round] } else { rng.pick(kinds) };
        let mut parts = plan.batch(&mut rng, kind, &table);
        if setting.looks_up {
            parts.extend(plan.lookups(&mut rng, &parts, &table));
        }
        let (answers, lost, steps) = world.play(&parts)?;
        let (looked_up, answers): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|answer| answer.action == Action::LookUp);
        let after = world.table(table.time + 1)?;
        let checked = check::Batch { plan: &plan, kind, before: &table, answers: &answers, after: &after };
        played.evicted += checked.check::<C>(&lost)?;
        for answer in &looked_up {
            played.looked_up[checked.check_lookup::<C>(answer)?] += 1;
        }
        played.steps += steps;
        answers.iter().for_each(|answer| played.outcomes[answer.outcome as usize] += 1);
        played.note(&checked);
        let mut keys: Vec<_> = answers.iter().map(|answer| answer.element.key).collect();
        keys.extend((0..8).map(|_| rng.below(2 * KEYS)));
        keys.truncate(32);
        world.look_up(&keys, &after)?;
        table = after;
    }
    Ok(played)
}
