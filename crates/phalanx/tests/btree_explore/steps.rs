//! Steps of the lanes per round in device memory, and the buffers for their results.
use gpu::{Buffer, Device};
use phalanx_kernels::btree::{Answer, Collect, Config, Count, Highest, Lowest, Sink, Span, TreeView};
use phalanx_kernels::keyed::Scalar;
use simt::GlobalSlice;

pub const INSERT: u8 = 0;
pub const REMOVE: u8 = 1;
pub const COLLECT: u8 = 3;
pub const COUNT: u8 = 4;
pub const LOWEST: u8 = 5;
pub const HIGHEST: u8 = 6;
/// Lanes per block: one warp.
pub const LANES: usize = 32;

/// Step of a lane in a round: an update of the key `from`, or a range query. Other kinds do nothing.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub kind: u8,
    pub from: u64,
    pub to: u64,
}

pub const IDLE: Step = Step { kind: u8::MAX, from: 0, to: 0 };

/// Inputs and outputs of a launch, at `lane * rounds + round`; results of a range have up to `ROOM` pairs.
#[derive(Clone, Copy)]
pub struct Script<K, V, const ROOM: usize> {
    pub rounds: usize,
    pub kinds: GlobalSlice<u8>,
    pub froms: GlobalSlice<K>,
    pub tos: GlobalSlice<K>,
    pub counts: GlobalSlice<u64>,
    pub keys: GlobalSlice<K>,
    pub values: GlobalSlice<V>,
}

impl<K: Scalar, V: Scalar, const ROOM: usize> Script<K, V, ROOM> {
    /// Returns the kind of a round: that of the first lane that is not idle.
    pub fn kind(&self, round: usize) -> u8 {
        let lanes = self.kinds.len() / self.rounds;
        let kind = |lane: usize| self.kinds.read(lane * self.rounds + round);
        (0..lanes).map(kind).find(|kind| *kind != IDLE.kind).unwrap_or(COUNT)
    }

    /// Performs a range query and writes its result.
    pub fn ask<M>(&self, tree: TreeView<M>, kind: u8, wanted: bool, index: usize)
    where
        M: Config<Key = K, Value = V>,
    {
        let answer = self.seek(tree, kind, wanted, index);
        self.counts.write(index, answer.count);
        if kind != COLLECT && answer.count > 0 {
            self.keys.write(index * ROOM, answer.key);
            self.values.write(index * ROOM, answer.value);
        }
    }

    fn seek<M>(&self, tree: TreeView<M>, kind: u8, wanted: bool, index: usize) -> Answer<K, V>
    where
        M: Config<Key = K, Value = V>,
    {
        let Self { froms, tos, keys, values, .. } = *self;
        let offset = (index * ROOM) as u64;
        let span = Span { from: froms.read(index), to: tos.read(index), offset, room: ROOM as u32 };
        let sink = Sink { keys, values };
        match kind {
            COLLECT => M::seek::<Collect>(tree, wanted, span, sink),
            LOWEST => M::seek::<Lowest>(tree, wanted, span, sink),
            HIGHEST => M::seek::<Highest>(tree, wanted, span, sink),
            _ => M::seek::<Count>(tree, wanted, span, sink),
        }
    }
}

/// Buffers of a script.
pub struct Told<K: Scalar, V: Scalar, const ROOM: usize> {
    pub steps: Vec<Step>,
    rounds: usize,
    kinds: Buffer<u8>,
    froms: Buffer<K>,
    tos: Buffer<K>,
    pub counts: Buffer<u64>,
    pub keys: Buffer<K>,
    pub values: Buffer<V>,
}

impl<K: Scalar, V: Scalar, const ROOM: usize> Told<K, V, ROOM> {
    /// Creates the buffers for these rounds, each of which has one step per lane.
    pub fn new(device: &Device, part: &[Vec<Step>]) -> gpu::Result<Self> {
        let (rounds, lanes) = (part.len(), part[0].len());
        let steps: Vec<Step> =
            (0..lanes).flat_map(|lane| part.iter().map(move |round| round[lane])).collect();
        let ends =
            |end: fn(&Step) -> u64| steps.iter().map(|step| K::from_u64(end(step))).collect::<Vec<_>>();
        Ok(Self {
            rounds,
            kinds: device.from_slice(&steps.iter().map(|step| step.kind).collect::<Vec<_>>())?,
            froms: device.from_slice(&ends(|step| step.from))?,
            tos: device.from_slice(&ends(|step| step.to))?,
            counts: device.zeroed(steps.len())?,
            keys: device.zeroed(steps.len() * ROOM)?,
            values: device.zeroed(steps.len() * ROOM)?,
            steps,
        })
    }

    pub fn script(&self) -> Script<K, V, ROOM> {
        Script {
            rounds: self.rounds,
            kinds: self.kinds.global(),
            froms: self.froms.global(),
            tos: self.tos.global(),
            counts: self.counts.global(),
            keys: self.keys.global(),
            values: self.values.global(),
        }
    }
}
