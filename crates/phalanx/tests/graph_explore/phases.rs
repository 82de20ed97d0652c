//! Kernels that change and look up edges at the same time, without growth of vertices. Each operation must
//! take effect at one moment.
use crate::common::{Rng, outcomes, replay, seeds};
use crate::setting::{Setting, told};
use crate::world::{Checked, Sample, World};
use checker::{Event, MapModel, MapOp, MapOutcome};
use gpu::{Buffer, Grid};
use phalanx::DynamicGraph;
use phalanx_kernels::graph::{Config, Edges, GraphView, Half};
use phalanx_kernels::keyed::{Bare, OpCode, Outcome, Packed, Published, Scalar, Wide};
use phalanx_kernels::slab::Spread;
use simt::emulator::{Launch, WeakMemory};
use simt::{GlobalSlice, Instance, Kernel, Thread, timer};
use std::collections::HashMap;

/// Number of vertices: a hub with a table, a full small vertex, and others.
pub const VERTICES: u32 = 64;
/// Number of seeds per kind of graph.
const SEEDS: u64 = 300;

/// Operations of a launch: the step of lane `r` in round `i` is at `r * rounds + i`.
pub struct Script<M: Config> {
    graph: GraphView<M>,
    rounds: u32,
    codes: GlobalSlice<u8>,
    sources: GlobalSlice<u32>,
    targets: GlobalSlice<u32>,
    data: GlobalSlice<M::Data>,
    results: GlobalSlice<M::Data>,
    outcomes: GlobalSlice<u8>,
    starts: GlobalSlice<u64>,
    ends: GlobalSlice<u64>,
}

impl<M: Config> Clone for Script<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Config> Copy for Script<M> {}

impl<M: Config> Kernel for Script<M> {
    const PROGRAM: &'static str = "explore";
    const NAME: &'static str = "script";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        for round in 0..self.rounds as usize {
            let index = Thread::index() * self.rounds as usize + round;
            let code = self.codes.read(index);
            let edge = Half {
                source: self.sources.read(index),
                target: self.targets.read(index),
                data: self.data.read(index),
            };
            let start = timer();
            let operation = OpCode::from_code(code.into());
            let (outcome, data) = self.graph.apply(code != NOTHING, operation, edge);
            self.outcomes.write(index, outcome as u8);
            self.results.write(index, data);
            self.starts.write(index, start);
            self.ends.write(index, timer());
        }
    }
}

/// Code of a step without an operation.
const NOTHING: u8 = u8::MAX;

/// Operation: code, source, target and data.
pub type Step = (u8, u32, u32, u64);

/// Buffers of a launch.
pub struct Part<D: Scalar> {
    steps: Vec<Step>,
    rounds: u32,
    codes: Buffer<u8>,
    sources: Buffer<u32>,
    targets: Buffer<u32>,
    data: Buffer<D>,
    results: Buffer<D>,
    outcomes: Buffer<u8>,
    starts: Buffer<u64>,
    ends: Buffer<u64>,
}

impl<D: Scalar> Part<D> {
    pub fn new(device: &gpu::Device, steps: Vec<Step>, rounds: u32) -> gpu::Result<Self> {
        let data: Vec<D> = steps.iter().map(|step| D::from_u64(step.3)).collect();
        let len = steps.len();
        Ok(Self {
            rounds,
            codes: device.from_slice(&steps.iter().map(|step| step.0).collect::<Vec<_>>())?,
            sources: device.from_slice(&steps.iter().map(|step| step.1).collect::<Vec<_>>())?,
            targets: device.from_slice(&steps.iter().map(|step| step.2).collect::<Vec<_>>())?,
            data: device.from_slice(&data)?,
            results: device.buffer(len)?,
            outcomes: device.buffer(len)?,
            starts: device.buffer(len)?,
            ends: device.buffer(len)?,
            steps,
        })
    }

    pub fn script<M: Config<Data = D>>(&self, graph: GraphView<M>) -> Script<M> {
        Script {
            graph,
            rounds: self.rounds,
            codes: self.codes.global(),
            sources: self.sources.global(),
            targets: self.targets.global(),
            data: self.data.global(),
            results: self.results.global(),
            outcomes: self.outcomes.global(),
            starts: self.starts.global(),
            ends: self.ends.global(),
        }
    }

    /// Returns the operations with their outcomes. Where edges have no data, all are 0.
    fn events(&self, has_data: bool, thread: u32) -> gpu::Result<Vec<MapEvent>> {
        let (results, outcomes) = (self.results.read()?, self.outcomes.read()?);
        let (starts, ends) = (self.starts.read()?, self.ends.read()?);
        let seen = |data: u64| if has_data { data } else { 0 };
        let event = |(index, &(code, source, target, data)): (usize, &Step)| {
            let key = u64::from(source) << 32 | u64::from(target);
            let op = match code {
                NOTHING => return None,
                0 => MapOp::Get(key),
                1 => MapOp::Insert(key, seen(data)),
                2 => MapOp::InsertNew(key, seen(data)),
                _ => MapOp::Remove(key),
            };
            let found = seen(results[index].to_u64());
            let outcome = match Outcome::from_code(outcomes[index])? {
                Outcome::Refused => MapOutcome::Refused,
                Outcome::Inserted => MapOutcome::Inserted,
                Outcome::Replaced => MapOutcome::Replaced(Some(found)),
                Outcome::Found => MapOutcome::Found(found),
                Outcome::Removed => MapOutcome::Removed(None),
                Outcome::Absent => MapOutcome::Absent,
            };
            Some(Event { op, outcome, start: starts[index], end: ends[index], thread })
        };
        Ok(self.steps.iter().enumerate().filter_map(event).collect())
    }
}

type MapEvent = Event<MapOp<u64, u64>, MapOutcome<u64>>;

/// Edge data as the words of a model.
pub trait Words: Sample {
    /// Returns the word of the data.
    fn word(self) -> u64;
    /// Returns the data with a word.
    fn of(word: u64) -> Self;
}

macro_rules! words {
    ($($data:ty: |$value:ident| $word:expr, |$bits:ident| $of:expr;)*) => {$(
        impl Words for $data {
            fn word(self) -> u64 {
                let $value = self;
                $word
            }

            fn of(word: u64) -> Self {
                let $bits = word;
                $of
            }
        }
    )*};
}
words! {
    (): |_value| 0, |_bits| ();
    u32: |value| value.into(), |bits| bits as u32;
    u64: |value| value, |bits| bits;
}

/// Returns the steps of a launch of `lanes` lanes, few of which have an operation at a time.
pub fn steps(rng: &mut Rng, lanes: u32, rounds: u32, pairs: &[(u32, u32)]) -> Vec<Step> {
    let step = |rng: &mut Rng| {
        let code = if rng.below(8) < 2 { rng.pick(&[0, 1, 1, 2, 2, 3, 3]) } else { NOTHING };
        let (source, target) = rng.pick(pairs);
        (code, source, target, rng.below(100))
    };
    (0..lanes * rounds).map(|_| step(rng)).collect()
}

/// Fills a graph: a hub with a table, and a small vertex whose record or slab is nearly full.
pub fn filled<E: Words>(setting: &Setting, rng: &mut Rng, variant: &str) -> Result<World<E>, String> {
    let builder = DynamicGraph::<E>::builder().device(&setting.device()).variant(variant);
    // The pool has 32 slabs; vertices of their own take all but a few.
    let mut world = World::new(builder.vertices(VERTICES as usize).slabs(32).table_slabs(8).fixed(true));
    let mut edges: Vec<(u32, u32, E)> = (10..55).map(|target| (0, target, E::of(1))).collect();
    let small = rng.pick(&[4, 6, 7, 14, 21, 36]);
    edges.extend((10..10 + small).map(|target| (1, target, E::of(2))));
    let full = rng.pick(&[26, 29, 30]);
    edges.extend((2..2 + full).flat_map(|source| (40..48).map(move |target| (source, target, E::of(3)))));
    edges.retain(|edge| edge.0 != edge.1);
    let outcomes = match E::insert(&world.graph, &edges) {
        Err(phalanx::Error::Device(error)) => return Err(error.to_string()),
        said => outcomes(said),
    };
    world.try_inserted(&edges, &outcomes)?;
    Ok(world)
}

/// Runs the plan of a seed.
pub fn run<E: Words, M>(setting: &Setting) -> Checked
where
    M: Config<Data = E::Bits> + Instance,
{
    let mut rng = Rng::new(setting.seed);
    let mut world = filled::<E>(setting, &mut rng, M::NAME)?;
    let text = |error: gpu::Error| error.to_string();
    let mut pairs: Vec<(u32, u32)> = (0..1 + rng.below(3)).map(|_| (1, 50 + rng.below(6) as u32)).collect();
    pairs.extend([(0, 10), (0, 60), (1, 10), (63, 5), (1, 45)]);
    let device = world.graph.device().clone();
    let (rounds, launches) = (1 + rng.below(3) as u32, 2 + rng.below(2));
    let part = |rng: &mut Rng| Part::new(&device, steps(rng, 32, rounds, &pairs), rounds);
    let parts: Vec<Part<E::Bits>> =
        (0..launches).map(|_| part(&mut rng)).collect::<gpu::Result<_>>().map_err(text)?;
    // SAFETY: nothing else uses the graph until the launches have ended.
    let view = unsafe { world.graph.view::<M>() }.map_err(|error| error.to_string())?;
    let scripts = parts.iter().map(|part| Launch::new(Grid::new(1, 32), part.script(view)));
    let emulator = device.emulator_handle().ok_or("no emulator")?;
    emulator.launch_all(scripts.collect()).map_err(|failure| failure.to_string())?;
    let initial: HashMap<u64, u64> =
        world.edges.iter().map(|(&(a, b), data)| (u64::from(a) << 32 | u64::from(b), data.word())).collect();
    let mut events = Vec::new();
    for (part, thread) in parts.iter().zip(0..) {
        events.extend(part.events(size_of::<E>() > 0, thread).map_err(text)?);
    }
    // The edges afterwards, as lookups behind all others.
    let found = E::weights(&world.graph, &pairs)?;
    for (&(a, b), data) in pairs.iter().zip(found) {
        let outcome = data.map_or(MapOutcome::Absent, |data| MapOutcome::Found(data.word()));
        let op = MapOp::Get(u64::from(a) << 32 | u64::from(b));
        events.push(Event { op, outcome, start: u64::MAX, end: u64::MAX, thread: u32::MAX });
        match data {
            Some(data) => world.edges.insert((a, b), data),
            None => world.edges.remove(&(a, b)),
        };
    }
    checker::check(&MapModel { initial }, &events).map_err(|failure| failure.to_string())?;
    world.try_check()
}

/// Runs the plans of all seeds, of which a part under weak memory.
fn all_are_sound<E: Words, M: Config<Data = E::Bits> + Instance>(count: u64) {
    for seed in seeds(count) {
        let is_weak = seed % 4 == 3;
        let weak_memory = if is_weak { WeakMemory::Hardware } else { WeakMemory::Off };
        let setting = Setting { weak_memory, cas128: !M::NAME.contains("published"), ..Setting::new(seed) };
        let found = run::<E, M>(&setting);
        assert!(found.is_ok(), "{}: {}\n{}", M::NAME, found.unwrap_err(), replay(seed));
    }
}

#[test]
fn edges_without_data_are_linearizable() {
    all_are_sound::<(), Edges<Bare<u32>, Spread<128>, 1, 8>>(SEEDS);
}

#[test]
fn weights_are_linearizable() {
    all_are_sound::<u32, Edges<Packed, Spread<128>, 2, 4>>(SEEDS);
}

#[test]
fn timestamps_are_linearizable() {
    all_are_sound::<u64, Edges<Wide<u32, u64>, Spread<128>, 4, 2>>(SEEDS);
}

#[test]
fn published_timestamps_are_linearizable() {
    all_are_sound::<u64, Edges<Published<u32, u64>, Spread<128>, 4, 2>>(SEEDS);
}

#[test]
fn runs_replay() {
    let run = |seed| run::<(), Edges<Bare<u32>, Spread<128>, 1, 8>>(&Setting::new(seed));
    assert_eq!(run(5).map_err(|text| told(&text)), run(5).map_err(|text| told(&text)));
}
