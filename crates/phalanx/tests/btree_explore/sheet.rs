//! What lanes are to do round by round, in device memory, and where they tell what was answered.
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
/// Lanes of a block: a warp.
pub const LANES: usize = 32;

/// What a lane does in a round: a change of the key `from`, or a question about a range. Nothing if its kind
/// is none.
#[derive(Clone, Copy, Debug)]
pub struct Deed {
    pub kind: u8,
    pub from: u64,
    pub to: u64,
}

pub const IDLE: Deed = Deed { kind: u8::MAX, from: 0, to: 0 };

/// What a launch is told, and what it tells, at `lane * rounds + round`; of a range, up to `ROOM` pairs.
#[derive(Clone, Copy)]
pub struct Sheet<K, V, const ROOM: usize> {
    pub rounds: usize,
    pub kinds: GlobalSlice<u8>,
    pub froms: GlobalSlice<K>,
    pub tos: GlobalSlice<K>,
    pub counts: GlobalSlice<u64>,
    pub keys: GlobalSlice<K>,
    pub values: GlobalSlice<V>,
}

impl<K: Scalar, V: Scalar, const ROOM: usize> Sheet<K, V, ROOM> {
    /// The kind of a round is that of the first lane that is not idle.
    pub fn kind(&self, round: usize) -> u8 {
        let lanes = self.kinds.len() / self.rounds;
        let kind = |lane: usize| self.kinds.read(lane * self.rounds + round);
        (0..lanes).map(kind).find(|kind| *kind != IDLE.kind).unwrap_or(COUNT)
    }

    /// Asks about a range, and tells what is answered.
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

/// The buffers of a sheet.
pub struct Told<K: Scalar, V: Scalar, const ROOM: usize> {
    pub deeds: Vec<Deed>,
    rounds: usize,
    kinds: Buffer<u8>,
    froms: Buffer<K>,
    tos: Buffer<K>,
    pub counts: Buffer<u64>,
    pub keys: Buffer<K>,
    pub values: Buffer<V>,
}

impl<K: Scalar, V: Scalar, const ROOM: usize> Told<K, V, ROOM> {
    /// Of rounds, in each of which a lane does a deed.
    pub fn new(device: &Device, part: &[Vec<Deed>]) -> gpu::Result<Self> {
        let (rounds, lanes) = (part.len(), part[0].len());
        let deeds: Vec<Deed> =
            (0..lanes).flat_map(|lane| part.iter().map(move |round| round[lane])).collect();
        let ends =
            |end: fn(&Deed) -> u64| deeds.iter().map(|deed| K::from_u64(end(deed))).collect::<Vec<_>>();
        Ok(Self {
            rounds,
            kinds: device.from_slice(&deeds.iter().map(|deed| deed.kind).collect::<Vec<_>>())?,
            froms: device.from_slice(&ends(|deed| deed.from))?,
            tos: device.from_slice(&ends(|deed| deed.to))?,
            counts: device.zeroed(deeds.len())?,
            keys: device.zeroed(deeds.len() * ROOM)?,
            values: device.zeroed(deeds.len() * ROOM)?,
            deeds,
        })
    }

    pub fn sheet(&self) -> Sheet<K, V, ROOM> {
        Sheet {
            rounds: self.rounds,
            kinds: self.kinds.slice(),
            froms: self.froms.slice(),
            tos: self.tos.slice(),
            counts: self.counts.slice(),
            keys: self.keys.slice(),
            values: self.values.slice(),
        }
    }
}
