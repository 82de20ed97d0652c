//! Scripts of calls on a map in a file, what they record, and the contents that crashes may leave.
use crate::common::Rng;
use crate::system::{Event, Fault as SystemFault, Recorder};
use phalanx::PersistentMap;
use phalanx::persistent_map::{Builder, Durability, Plain};
use simt::emulator::{Fault, Options, Schedule, StoreLog};
use simt::hash::mix64;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Numbers of keys, and the tags of their values.
pub type Model = BTreeMap<u64, u64>;

/// A number of one byte times this has that byte eight times. Since no byte is 0, the record has few stores
/// for a write of the host.
const BYTES: u64 = 0x0101_0101_0101_0101;

/// A value made of its key and a tag, from which a torn one differs.
pub trait Tagged: Plain + PartialEq + Debug {
    fn of(key: u64, tag: u64) -> Self;

    /// Returns the tag, which is wrong if the value is torn.
    fn tag(&self) -> u64;
}

impl Tagged for u64 {
    fn of(key: u64, tag: u64) -> Self {
        tag.wrapping_mul(0x0101_0101) << 32 | mix64(key ^ tag) >> 32
    }

    fn tag(&self) -> u64 {
        self >> 56
    }
}

impl Tagged for [u64; 3] {
    fn of(key: u64, tag: u64) -> Self {
        [tag.wrapping_mul(BYTES), mix64(key ^ tag), !tag.wrapping_mul(BYTES)]
    }

    fn tag(&self) -> u64 {
        self[0] >> 56
    }
}

/// Number of keys of a random script. Tables of the least size have room for 24.
const KEYS: u64 = 56;

/// Maximum number of keys.
const MOST_KEYS: u64 = 200;

/// Returns the key with a number.
fn key(number: u64) -> u64 {
    (number + 1) * BYTES
}

#[derive(Clone, Debug)]
pub enum Step {
    Insert(Vec<u64>),
    InsertNew(Vec<u64>),
    Update(Vec<u64>),
    Remove(Vec<u64>),
    Sync,
    /// Grows the map.
    Reserve,
    Compact,
    Clear,
    /// Drops the map, and opens it again.
    Reopen,
}

/// The time between two calls.
#[derive(Clone, Debug)]
pub struct Boundary {
    /// Number of events of the emulator.
    pub stores: usize,
    /// Number of recorded calls of the system.
    pub calls: usize,
    /// Contents of the map.
    pub model: Model,
    /// Whether all of them survive loss of power.
    pub is_durable: bool,
}

/// A script that was executed.
pub struct Recording {
    pub log: StoreLog,
    pub events: Vec<Event>,
    /// Contents of the files when the record began.
    pub before: Vec<Vec<u8>>,
    /// The first one follows the creation of the file.
    pub boundaries: Vec<Boundary>,
}

/// Conditions of an execution.
#[derive(Clone, Debug)]
pub struct Setting {
    pub seed: u64,
    pub durability: Durability,
    pub faults: Vec<Fault>,
    pub system: Option<SystemFault>,
    /// Number of keys for which the map has room when it is created.
    pub capacity: usize,
}

impl Setting {
    pub fn new(seed: u64, durability: Durability) -> Self {
        Self { seed, durability, faults: Vec::new(), system: None, capacity: 1 }
    }

    /// Returns the device of the seed's schedule.
    pub fn device(&self) -> gpu::Device {
        let seed = self.seed;
        let schedule = match seed % 3 {
            0 => Schedule::Random { seed },
            1 => Schedule::Pct { seed, depth: 3 },
            _ => Schedule::Pct { seed, depth: 10 },
        };
        let options = Options::explore(schedule);
        gpu::Device::emulator(Options { faults: self.faults.clone(), step_limit: 4_000_000, ..options })
    }
}

/// Returns a folder in memory, if the system has one.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

pub fn builder<V: Tagged>(device: &gpu::Device, durability: Durability) -> Builder<u64, V> {
    PersistentMap::<u64, V>::builder().capacity(1).seed(1).durability(durability).device(device)
}

/// Returns the contents of a map, or why they are wrong.
pub fn contents<V: Tagged>(map: &PersistentMap<u64, V>) -> Result<Model, String> {
    map.check().map_err(|error| error.to_string())?;
    let (keys, values) = map.export().map_err(|error| error.to_string())?;
    let mut model = Model::new();
    for (&found, value) in keys.iter().zip(&values) {
        let number = (0..MOST_KEYS).find(|&number| key(number) == found);
        let number = number.filter(|_| *value == V::of(found, value.tag()));
        let Some(number) = number else { return Err(format!("key {found:x} has the value {value:x?}")) };
        if model.insert(number, value.tag()).is_some() {
            return Err(format!("key {number} has two items"));
        }
    }
    Ok(model)
}

/// A script in execution.
struct Run<V> {
    map: Option<PersistentMap<u64, V>>,
    model: Model,
    tag: u64,
}

impl<V: Tagged> Run<V> {
    fn change(&mut self, step: &Step, numbers: &[u64]) -> phalanx::Result<()> {
        self.tag += 1;
        let (map, tag) = (self.map.as_ref().expect("an open map"), self.tag);
        let keys: Vec<u64> = numbers.iter().map(|&number| key(number)).collect();
        let values: Vec<V> = keys.iter().map(|&key| V::of(key, tag)).collect();
        match step {
            Step::Insert(_) => assert!(map.insert(&keys, &values)?.all_placed()),
            Step::InsertNew(_) => assert!(map.insert_new(&keys, &values)?.all_placed()),
            Step::Update(_) => drop(map.update(&keys, &values)?),
            _ => drop(map.remove(&keys)?),
        }
        for number in numbers {
            let is_present = self.model.contains_key(number);
            match step {
                Step::Insert(_) => drop(self.model.insert(*number, tag)),
                Step::InsertNew(_) if !is_present => drop(self.model.insert(*number, tag)),
                Step::Update(_) if is_present => drop(self.model.insert(*number, tag)),
                Step::Remove(_) => drop(self.model.remove(number)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Executes a step. Returns whether the contents then survive loss of power.
    fn step(&mut self, step: &Step, open: impl FnOnce() -> phalanx::Result<PersistentMap<u64, V>>) -> bool {
        if let Step::Insert(keys) | Step::InsertNew(keys) | Step::Update(keys) | Step::Remove(keys) = step {
            self.change(step, keys).unwrap_or_else(|error| panic!("{step:?}: {error}"));
            return false;
        }
        if let Step::Reopen = step {
            self.map = None;
            self.map = Some(open().unwrap());
            return false;
        }
        let map = self.map.as_mut().expect("an open map");
        match step {
            Step::Sync => drop(map.sync().unwrap()),
            Step::Reserve => map.reserve(map.capacity()).unwrap(),
            Step::Compact => map.compact().unwrap(),
            _ => map.clear().unwrap(),
        }
        if let Step::Clear = step {
            self.model.clear();
            return false;
        }
        true
    }
}

/// Executes steps on a new map, and records them.
pub fn execute<V: Tagged>(setting: &Setting, steps: &[Step]) -> Recording {
    let (folder, device) = (folder(), setting.device());
    let path = folder.path().join("map");
    let recorder = Recorder::start(folder.path(), &device, setting.system);
    let (builder, mut boundaries) = (|| builder::<V>(&device, setting.durability), Vec::new());
    let map = builder().capacity(setting.capacity).create(&path).unwrap();
    let mut run = Run { map: Some(map), model: Model::new(), tag: 0 };
    let mut note = |model: &Model, is_durable| {
        let (stores, calls) = recorder.now();
        boundaries.push(Boundary { stores, calls, model: model.clone(), is_durable });
    };
    note(&run.model, true);
    for step in steps {
        let is_durable = run.step(step, || builder().open(&path));
        note(&run.model, is_durable);
    }
    drop(run);
    finish(&recorder, boundaries)
}

/// Ends a record.
fn finish(recorder: &Recorder, boundaries: Vec<Boundary>) -> Recording {
    recorder.now();
    let (events, before) = recorder.calls();
    Recording { log: recorder.take_stores(), events, before, boundaries }
}

/// Opens the file that a crash has left, and records that.
pub fn record_recovery<V: Tagged>(setting: &Setting, bytes: &[u8]) -> Recording {
    let (folder, device) = (folder(), setting.device());
    let path = folder.path().join("map");
    std::fs::write(&path, bytes).unwrap();
    let recorder = Recorder::start(folder.path(), &device, setting.system);
    recorder.add(&path);
    drop(builder::<V>(&device, setting.durability).open(&path).unwrap());
    finish(&recorder, Vec::new())
}

/// Returns the steps of a seed: batches of up to `most` keys, with each other step among them.
pub fn steps(seed: u64, durability: Durability, most: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let mut steps = Vec::new();
    let others = [Step::Sync, Step::Reserve, Step::Sync, Step::Compact, Step::Reopen, Step::Clear];
    let first = rng.below(others.len() as u64) as usize;
    for turn in 0..others.len() {
        (0..2 + rng.below(2)).for_each(|_| steps.push(batch(&mut rng, most)));
        let other = &others[(first + turn) % others.len()];
        if durability == Durability::Machine && matches!(other, Step::Reopen) {
            // Otherwise the changes since the last sync would be lost.
            steps.push(Step::Sync);
        }
        steps.push(other.clone());
    }
    steps.push(Step::Insert(keys(&mut rng, 40)));
    steps
}

fn batch(rng: &mut Rng, most: u64) -> Step {
    let most = rng.pick(&[most, most / 2, 2]);
    let keys = keys(rng, most);
    match rng.below(6) {
        0..=2 => Step::Insert(keys),
        3 => Step::InsertNew(keys),
        4 => Step::Update(keys),
        _ => Step::Remove(keys),
    }
}

/// Returns up to `most` different keys.
pub fn keys(rng: &mut Rng, most: u64) -> Vec<u64> {
    let first = rng.below(KEYS);
    let stride = rng.pick(&[1, 3, 5, 9]);
    (0..1 + rng.below(most)).map(|index| (first + index * stride) % KEYS).collect()
}
