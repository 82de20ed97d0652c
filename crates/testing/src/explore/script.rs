//! Kernel that runs a part of a plan on any map variant and records the start and end of each operation.
use phalanx_kernels::keyed::{
    Change, Combination, ContainsKey, Cooperation, Get, Insert, InsertNew, Kind, OpCode, Operation, Outcome,
    PerBlock, PerLane, Remove, Session, TileKind,
};
use simt::{Convergence, Global, GlobalSlice, Kernel, Order, Scope, Shuffle, Thread, Tile, timer};
use std::marker::PhantomData;

/// Kinds of rounds: operations selected at run time, or one operation compiled for all lanes.
pub const KINDS: [u8; 6] = [MIXED, GET, CONTAINS_KEY, INSERT, INSERT_NEW, REMOVE];
/// Each lane performs its own operation, selected by its code.
pub const MIXED: u8 = 0;
/// All lanes perform [`Get`].
pub const GET: u8 = 1;
/// All lanes perform [`ContainsKey`].
pub const CONTAINS_KEY: u8 = 2;
/// All lanes perform [`Insert`].
pub const INSERT: u8 = 3;
/// All lanes perform [`InsertNew`].
pub const INSERT_NEW: u8 = 4;
/// All lanes perform [`Remove`].
pub const REMOVE: u8 = 5;
/// As [`MIXED`], by operations that return what they remove or replace.
pub const EXCHANGES: u8 = 6;
/// Code of a row without an operation.
pub const NOTHING: u8 = u8::MAX;

/// Rows of a launch: the elements of row r in round i are at `r * rounds + i`.
#[derive(Clone, Copy)]
pub struct Rows<K, V> {
    pub kinds: GlobalSlice<u8>,
    pub codes: GlobalSlice<u8>,
    pub keys: GlobalSlice<K>,
    pub arguments: GlobalSlice<V>,
    pub results: GlobalSlice<V>,
    pub outcomes: GlobalSlice<u8>,
    pub starts: GlobalSlice<u64>,
    pub ends: GlobalSlice<u64>,
}

/// Assignment of rows to threads.
pub trait Execution<M: Kind>: Copy + Send + Sync + 'static {
    /// Number of threads per row.
    const WIDTH: u32;
    /// Minimum number of rows.
    const ROWS: u32 = 1;
    /// Runs the rows of the calling thread's launch.
    fn play(map: M::View, rows: Rows<M::Key, M::Value>);
}

/// One row per lane: the lanes of a warp share their work.
#[derive(Clone, Copy)]
pub struct ByLanes;

impl<M: Kind> Execution<M> for ByLanes {
    const WIDTH: u32 = 1;

    fn play(map: M::View, rows: Rows<M::Key, M::Value>) {
        play::<M, _, SOUND>(map, rows, PerLane, Thread::index());
    }
}

/// As [`ByLanes`], with a planted bug in the operations of [`EXCHANGES`].
#[derive(Clone, Copy)]
#[allow(dead_code)] // not every program plants one
pub struct ByFlawedLanes<const FLAW: u8>;

impl<M: Kind, const FLAW: u8> Execution<M> for ByFlawedLanes<FLAW> {
    const WIDTH: u32 = 1;

    fn play(map: M::View, rows: Rows<M::Key, M::Value>) {
        play::<M, _, FLAW>(map, rows, PerLane, Thread::index());
    }
}

/// As [`ByLanes`], in blocks of three warps, which combine equal operations. The last warp has 16 lanes.
/// `FLAW` is a planted bug as of [`ByFlawedLanes`], or 0.
#[derive(Clone, Copy)]
#[allow(dead_code)] // as above
pub struct ByBlocks<const FLAW: u8 = SOUND>;

impl<M: Kind, const FLAW: u8> Execution<M> for ByBlocks<FLAW> {
    const WIDTH: u32 = 1;
    const ROWS: u32 = 80;

    fn play(map: M::View, rows: Rows<M::Key, M::Value>) {
        play::<M, _, FLAW>(map, rows, PerBlock, Thread::index());
    }
}

/// One row per tile.
#[derive(Clone, Copy)]
pub struct ByTiles<C, const W: u32>(PhantomData<C>);

impl<M: TileKind<W>, C: Convergence + Send + Sync, const W: u32> Execution<M> for ByTiles<C, W> {
    const WIDTH: u32 = W;

    fn play(map: M::View, rows: Rows<M::Key, M::Value>) {
        play::<M, _, SOUND>(map, rows, Tile::<W, C>::this(), Thread::index() / W as usize);
    }
}

pub fn play<M: Kind, T: Cooperation<M>, const FLAW: u8>(
    map: M::View,
    rows: Rows<M::Key, M::Value>,
    team: T,
    row: usize,
) {
    M::enter(map);
    let mut session = Session::new(map, team);
    let rounds = rows.kinds.len();
    for round in 0..rounds {
        let index = row * rounds + round;
        let (code, key, argument) =
            (rows.codes.read(index), rows.keys.read(index), rows.arguments.read(index));
        let wanted = code != NOTHING;
        let start = timer();
        let (outcome, value) = match rows.kinds.read(round) {
            GET => ask(&mut session, wanted, Get, key, argument),
            CONTAINS_KEY => ask(&mut session, wanted, ContainsKey, key, argument),
            INSERT => ask(&mut session, wanted, Insert, key, argument),
            INSERT_NEW => ask(&mut session, wanted, InsertNew, key, argument),
            REMOVE => ask(&mut session, wanted, Remove, key, argument),
            EXCHANGES => {
                let operation = Exchange::<FLAW>(OpCode::from_code(code.into()));
                ask(&mut session, wanted, operation, key, argument)
            }
            _ => ask(&mut session, wanted, OpCode::from_code(code.into()), key, argument),
        };
        let end = timer();
        if team.counts() {
            rows.note(index, outcome, value, (start, end));
        }
    }
    session.finish();
    M::leave(map);
}

/// Operation chosen at run time, of which [`OpCode::REMOVE`] and [`OpCode::INSERT`] act as `Take` and
/// `Replace` do. Equal operations of a warp on a key are combined.
#[derive(Clone, Copy)]
struct Exchange<const FLAW: u8>(OpCode);

/// No flaw.
const SOUND: u8 = 0;
/// Flaw: the arguments of combined operations are not merged.
#[allow(dead_code)] // as above
pub const MERGES_NOTHING: u8 = 1;

impl<const FLAW: u8> Shuffle for Exchange<FLAW> {
    fn map_words(self, word: impl FnMut(u32) -> u32) -> Self {
        Self(self.0.map_words(word))
    }
}

impl<const FLAW: u8> Operation for Exchange<FLAW> {
    const WRITES: bool = true;
    const PLACES_ALWAYS: bool = false;
    const RETURNS: bool = true;
    const EXCHANGES: bool = true;
    const COMBINES: Combination = Combination::Always;
    const MERGES: bool = FLAW != MERGES_NOTHING;

    fn is_same(self, other: Self) -> bool {
        self.0 == other.0
    }

    fn places(self) -> bool {
        self.0.places()
    }

    fn change(self) -> Change {
        self.0.change()
    }

    fn outcome(self) -> Outcome {
        self.0.outcome()
    }
}

/// Performs one operation. It is generic over the operation because a single function with all operations
/// takes a compiler several times as long.
#[inline(never)]
pub fn ask<M: Kind, T: Cooperation<M>, O: Operation>(
    session: &mut Session<M, T>,
    wanted: bool,
    operation: O,
    key: M::Key,
    argument: M::Value,
) -> (Outcome, M::Value) {
    // mutation: early load performance, because the hint only decides whether equal operations are combined.
    // mutation: skip late store performance, because the hint only decides the same.
    // mutation: skip barrier unreached, because the script publishes nothing: `explore/sessions.rs` does.
    session.execute(wanted, operation, key, argument)
}

impl<K, V: simt::Word> Rows<K, V> {
    fn note(self, index: usize, outcome: Outcome, value: V, (start, end): (u64, u64)) {
        self.outcomes.write(index, outcome as u8);
        self.results.write(index, value);
        self.starts.write(index, start);
        self.ends.write(index, end);
    }
}

/// Launch of a part.
pub struct Script<M: Kind, E> {
    pub map: M::View,
    pub rows: Rows<M::Key, M::Value>,
    pub by: PhantomData<E>,
}

impl<M: Kind, E> Clone for Script<M, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Kind, E> Copy for Script<M, E> {}

impl<M: Kind, E: Execution<M>> Kernel for Script<M, E> {
    const PROGRAM: &'static str = "explore";
    const NAME: &'static str = "script";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        E::play(self.map, self.rows);
    }
}

/// Kernel that overwrites a filter, which no kernel of the library does: a planted bug.
#[derive(Clone, Copy)]
pub struct ForgetFilter(pub Global<u32>);

impl Kernel for ForgetFilter {
    const PROGRAM: &'static str = "explore";
    const NAME: &'static str = "forget_filter";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        self.0.store(u32::MAX, Order::Relaxed, Scope::Device);
    }
}
