//! The kernel that plays a part of a plan on any kind of map and writes down when each operation began and
//! ended.
use phalanx_kernels::keyed::{
    Coded, ContainsKey, Get, Insert, InsertNew, Kind, Lanes, Operation, Outcome, Remove, Session, Slot, Team,
};
use phalanx_kernels::probing::{Probe, Table};
use phalanx_kernels::slab::Pool;
use phalanx_kernels::slab::list::Lists;
use simt::{Convergence, Global, GlobalSlice, Kernel, Order, Scope, Thread, Tile, timer};
use std::marker::PhantomData;

/// What the lanes of a launch do in one round: operations chosen when they run, or one compiled for all.
pub const KINDS: [u8; 6] = [MIXED, GET, CONTAINS_KEY, INSERT, INSERT_NEW, REMOVE];
/// Each lane its own operation, by its code.
pub const MIXED: u8 = 0;
/// [`Get`].
pub const GET: u8 = 1;
/// [`ContainsKey`].
pub const CONTAINS_KEY: u8 = 2;
/// [`Insert`].
pub const INSERT: u8 = 3;
/// [`InsertNew`].
pub const INSERT_NEW: u8 = 4;
/// [`Remove`].
pub const REMOVE: u8 = 5;
/// The code of a row that asks for nothing.
pub const NOTHING: u8 = u8::MAX;

/// The rows of a launch: row r of round i has the elements at `r * rounds + i`.
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

/// Who executes a row.
pub trait Execution<M: Kind>: Copy + Send + Sync + 'static {
    /// Threads that share a row.
    const WIDTH: u32;
    /// Plays the rows of the calling thread's launch.
    fn play(map: M::View, rows: Rows<M::Key, M::Value>);
}

/// A row a lane: the lanes of a warp share their work.
#[derive(Clone, Copy)]
pub struct ByLanes;

impl<M: Kind> Execution<M> for ByLanes {
    const WIDTH: u32 = 1;

    fn play(map: M::View, rows: Rows<M::Key, M::Value>) {
        play::<M, _>(map, rows, Lanes, Thread::index());
    }
}

/// A row a tile.
#[derive(Clone, Copy)]
pub struct ByTiles<C>(PhantomData<C>);

macro_rules! by_tiles {
    ($($kind:ident: $policy:ident;)*) => {$(
        impl<S: Slot, P: $policy, C, const W: u32, const L: usize> Execution<$kind<S, P, W, L>> for ByTiles<C>
        where
            C: Convergence + Send + Sync,
        {
            const WIDTH: u32 = W;

            fn play(map: <$kind<S, P, W, L> as Kind>::View, rows: Rows<S::Key, S::Value>) {
                play::<$kind<S, P, W, L>, _>(map, rows, Tile::<W, C>::this(), Thread::index() / W as usize);
            }
        }
    )*};
}

by_tiles! {
    Table: Probe;
    Lists: Pool;
}

pub fn play<M: Kind, T: Team<M>>(map: M::View, rows: Rows<M::Key, M::Value>, team: T, row: usize) {
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
            _ => ask(&mut session, wanted, Coded::from_code(code.into()), key, argument),
        };
        let end = timer();
        if team.counts() {
            rows.note(index, outcome, value, (start, end));
        }
    }
    session.finish();
    M::leave(map);
}

/// A function for each operation: in one for all, which holds what all of them take, a compiler spends
/// several times as long.
#[inline(never)]
pub fn ask<M: Kind, T: Team<M>, O: Operation>(
    session: &mut Session<M, T>,
    wanted: bool,
    operation: O,
    key: M::Key,
    argument: M::Value,
) -> (Outcome, M::Value) {
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

/// The launch of a part.
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

/// Overwrites a filter, as no kernel of the product does: a planted bug.
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
