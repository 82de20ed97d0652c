//! The operations as methods, for use in custom kernels.
//!
//! A thread of a kernel opens a [`Session`] on a map. The session counts the keys that the thread adds and
//! removes, and adds the counts to the map's counters when it ends, so that the map's length stays correct.
use super::combine;
use super::counters::CounterDelta;
use super::kind::{Kind, TileKind, View};
use super::operation::{self, Combination, Merge, Operation, Outcome};
use super::slot::Scalar;
use simt::{Block, Convergence, Tile, device};

/// Mapping of the operations of a [`Session`] to the lanes that execute them.
pub trait Cooperation<M: Kind>: Copy {
    /// Executes an operation if `wanted`; otherwise returns [`Outcome::Absent`].
    fn execute<O: Operation>(
        self,
        map: M::View,
        wanted: bool,
        operation: O,
        key: M::Key,
        argument: M::Value,
    ) -> (Outcome, M::Value);

    /// Synchronizes the cooperating lanes: orders their earlier accesses, to memory too, before their later
    /// ones.
    fn sync(self);

    /// Returns whether the calling lane counts the outcomes.
    fn counts(self) -> bool;

    /// Adds the counts of the lanes to the map's counters, at the end of a session.
    fn record(self, map: M::View, delta: CounterDelta);
}

/// Every lane of the warp brings an operation of its own, or none. All lanes call together.
#[derive(Clone, Copy, Debug)]
pub struct PerLane;

#[device(caller)]
impl<M: Kind> Cooperation<M> for PerLane {
    fn execute<O: Operation>(
        self,
        map: M::View,
        wanted: bool,
        operation: O,
        key: M::Key,
        argument: M::Value,
    ) -> (Outcome, M::Value) {
        if const { combine::combines::<M, O>(Combination::Always) } {
            return combine::execute::<M, O>(map, wanted, operation, key, argument);
        }
        M::execute(map, wanted, operation, key, argument)
    }

    fn sync(self) {
        Tile::<32>::lockstep().sync();
    }

    #[device]
    fn counts(self) -> bool {
        true
    }

    fn record(self, map: M::View, delta: CounterDelta) {
        M::counters(map).record(delta);
    }
}

/// Every thread of the block brings an operation of its own, or none. All threads of the block call together,
/// at most 128. Where [`PerLane`] combines equal operations of a warp on a key, this does so for the block,
/// and for more operations ([`Combination::InBatches`]). The first blocks of a grid always do; others only if
/// recent batches or sessions have had equal keys in most warps.
///
/// ```
/// use phalanx_kernels::hash_map::{DefaultTable, MapView, Merge, PerBlock, Session};
/// use simt::{GlobalSlice, Thread, kernel};
///
/// /// Counts how often each word occurs, by blocks of at most 128 threads.
/// #[kernel]
/// fn count_words(map: MapView<DefaultTable>, words: GlobalSlice<u32>) {
///     let mut session = Session::new(map, PerBlock);
///     let index = Thread::index();
///     session.upsert(Merge::Add, (index < words.len()).then(|| (words.read(index), 1)));
///     session.finish();
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PerBlock;

#[device(caller)]
impl<M: Kind> Cooperation<M> for PerBlock {
    fn execute<O: Operation>(
        self,
        map: M::View,
        wanted: bool,
        operation: O,
        key: M::Key,
        argument: M::Value,
    ) -> (Outcome, M::Value) {
        if const { combine::combines::<M, O>(Combination::InBatches) } {
            return combine::block::execute::<M, O>(map, wanted, operation, key, argument);
        }
        M::execute(map, wanted, operation, key, argument)
    }

    fn sync(self) {
        Block::sync();
    }

    #[device]
    fn counts(self) -> bool {
        true
    }

    fn record(self, map: M::View, delta: CounterDelta) {
        M::counters(map).record(delta);
    }
}

/// All lanes of the tile bring the same operation and the same `wanted`. All tiles of the warp call together
/// if `C` is [`simt::Lockstep`]; [`simt::Independent`] tiles need not.
#[device(caller)]
impl<M: TileKind<W>, C: Convergence, const W: u32> Cooperation<M> for Tile<W, C> {
    fn execute<O: Operation>(
        self,
        map: M::View,
        wanted: bool,
        operation: O,
        key: M::Key,
        argument: M::Value,
    ) -> (Outcome, M::Value) {
        let (outcome, value) = M::share(map, self, wanted && self.rank() == 0, operation, key, argument);
        (self.shuffle(outcome, 0), self.shuffle(value, 0))
    }

    fn sync(self) {
        Tile::sync(self);
    }

    #[device]
    fn counts(self) -> bool {
        self.rank() == 0
    }

    fn record(self, map: M::View, delta: CounterDelta) {
        M::counters(map).record_alone(delta);
    }
}

/// A thread's access to a map. With [`PerLane`] each lane brings its own operation; with a [`Tile`] each tile
/// brings one.
///
/// The number of threads of a block must be a multiple of the table's `W`, so that all tiles are whole.
///
/// Where an operation takes an `Option`, a lane that passes `None` takes part in the call without an
/// operation. All cooperating lanes make each call together.
///
/// ```
/// use phalanx_kernels::hash_map::{DoubleHash, Hinted, MapView, Merge, Packed, Session, PerLane, Table};
/// use phalanx_kernels::hash_map::{Config, OVERFLOW_BUCKETS, COUNTER_SHARDS, SHARD_WORDS};
/// use simt::emulator::{Emulator, Options};
/// use simt::{GlobalSlice, Grid, Thread, kernel};
///
/// type Counts = Table<Packed, Hinted<16>, 2, 4>;
///
/// /// Counts how often each word occurs.
/// #[kernel]
/// fn count_words(map: MapView<Counts>, words: GlobalSlice<u32>) {
///     let mut session = Session::new(map, PerLane);
///     let index = Thread::index();
///     let pair = (index < words.len()).then(|| (words.read(index), 1));
///     session.upsert(Merge::Add, pair);
///     session.finish();
/// }
///
/// # let device = Emulator::new(Options::default());
/// # let allocate = |bytes: usize, byte: u8| {
/// #     let pointer = device.allocate(bytes, 128);
/// #     // SAFETY: just allocated with this size.
/// #     unsafe { pointer.write_bytes(byte, bytes); device.mark_initialized(pointer, bytes) };
/// #     pointer
/// # };
/// # let buckets = allocate((3 + OVERFLOW_BUCKETS as usize) * Counts::BUCKET_BYTES, 0xff).cast();
/// # let filters = allocate(Counts::filter_words(3) * 4, 0xff).cast();
/// # let counters = allocate(COUNTER_SHARDS * SHARD_WORDS * 8, 0).cast::<u64>();
/// # let words = allocate(4 * 70, 7).cast();
/// # // SAFETY: memory of these sizes, initialized as a table requires, which nothing else uses.
/// # let map = unsafe { MapView::new(buckets, filters, counters, 3, 8) };
/// # let words = unsafe { GlobalSlice::from_raw_parts(words, 70) };
/// device.launch(Grid::new(3, 32), CountWords { map, words })?;
/// # let live = (0..COUNTER_SHARDS).map(|shard| unsafe { counters.add(shard * SHARD_WORDS).read() });
/// # let live: u64 = live.sum();
/// # assert_eq!(live, 1);
/// # let slots = (0..3 * 8).map(|slot| unsafe { buckets.add(slot).read() });
/// # let slots: Vec<u64> = slots.filter(|&slot| slot != u64::MAX).collect();
/// # assert_eq!(slots, [70 << 32 | 0x0707_0707]);
/// # Ok::<(), simt::emulator::Failure>(())
/// ```
///
/// On the host, `phalanx::HashMap::view` returns the view.
///
/// ```
/// use phalanx_kernels::keyed::{Insert, Kind, Outcome, Session};
///
/// /// Executes each operation on a key, as all lanes of a warp do for a key of their own, or for none.
/// fn try_all<M: Kind<Value = u32>>(session: &mut Session<M>, key: Option<M::Key>) -> bool {
///     let pair = key.map(|key| (key, 7));
///     let is_new = session.insert_new(pair) == Outcome::Inserted;
///     session.insert(pair);
///     let value = session.get(key).or(session.get_or_insert(pair));
///     if let Some(key) = key {
///         assert!(value == Some(7) || session.execute(true, Insert, key, 7).0 == Outcome::Refused);
///     }
///     let (outcome, old) = session.replace(pair);
///     let has_replaced = outcome == Outcome::Replaced && old == Some(7) && session.take(key) == old;
///     is_new && has_replaced && !session.contains_key(key) && !session.remove(key)
/// }
/// ```
///
/// # Concurrency
/// Every operation may run concurrently with every other, of the same kernel and of others, and is
/// linearizable, except for the value that [`Session::take`] returns: see the page of the structure.
///
/// The lane that reads or writes a pair may be another lane of the tile than the one that requested the
/// operation. A session orders the accesses of the acting lanes with those of the requesting lane, as if the
/// requesting lane had executed the operation itself by relaxed accesses:
/// - After an operation that writes, the requesting lane may publish it by a fence and a flag: a thread that
///   acquires the flag finds the pair.
/// - A lane that has acquired such a flag finds the pair.
///
/// The pair itself publishes nothing: a lane that finds a key need not see other writes that the inserting
/// thread made before it inserted the key. Use a flag for that.
#[derive(Debug)]
#[must_use = "a session does nothing by itself"]
pub struct Session<M: Kind, T: Cooperation<M> = PerLane> {
    map: M::View,
    team: T,
    delta: CounterDelta,
}

#[device(caller)]
impl<M: Kind, T: Cooperation<M>> Session<M, T> {
    /// Opens a session on `map`.
    #[device]
    pub fn new<V: View<Kind = M>>(map: V, team: T) -> Self
    where
        M: Kind<View = V>,
    {
        Self { map, team, delta: CounterDelta::default() }
    }

    /// Executes any operation if `wanted`; otherwise returns [`Outcome::Absent`]. The returned value is the
    /// previous one, or the argument if the key was absent or was removed.
    pub fn execute<O: Operation>(
        &mut self,
        wanted: bool,
        operation: O,
        key: M::Key,
        argument: M::Value,
    ) -> (Outcome, M::Value) {
        // The acting lanes must observe everything that the requesting lanes have acquired.
        self.team.sync();
        let (outcome, value) = self.team.execute(self.map, wanted, operation, key, argument);
        if O::WRITES {
            // Writes of the acting lanes are ordered before later accesses of the requesting lanes.
            self.team.sync();
        }
        if O::WRITES && wanted && self.team.counts() {
            self.delta.count(outcome);
        }
        (outcome, value)
    }

    fn with_key<O: Operation>(&mut self, operation: O, key: Option<M::Key>) -> (Outcome, M::Value) {
        let none = (M::Key::from_u64(0), M::Value::from_u64(0));
        self.execute(key.is_some(), operation, key.unwrap_or(none.0), none.1)
    }

    fn with_pair<O: Operation>(
        &mut self,
        operation: O,
        pair: Option<(M::Key, M::Value)>,
    ) -> (Outcome, M::Value) {
        let (key, value) = pair.unwrap_or((M::Key::from_u64(0), M::Value::from_u64(0)));
        self.execute(pair.is_some(), operation, key, value)
    }

    /// Returns the key's value, or `None` if the key is absent.
    pub fn get(&mut self, key: Option<M::Key>) -> Option<M::Value> {
        let (outcome, value) = self.with_key(operation::Get, key);
        (outcome == Outcome::Found).then_some(value)
    }

    /// Returns whether the key is present.
    pub fn contains_key(&mut self, key: Option<M::Key>) -> bool {
        self.with_key(operation::ContainsKey, key).0 == Outcome::Found
    }

    /// Inserts the pair or replaces the value. Returns [`Outcome::Inserted`], [`Outcome::Replaced`] or
    /// [`Outcome::Refused`].
    pub fn insert(&mut self, pair: Option<(M::Key, M::Value)>) -> Outcome {
        self.with_pair(operation::Insert, pair).0
    }

    /// Inserts the pair if the key is absent. Returns [`Outcome::Inserted`], [`Outcome::Found`] or
    /// [`Outcome::Refused`].
    pub fn insert_new(&mut self, pair: Option<(M::Key, M::Value)>) -> Outcome {
        self.with_pair(operation::InsertNew, pair).0
    }

    /// Inserts the pair or merges the value. Returns [`Outcome::Inserted`], [`Outcome::Replaced`] or
    /// [`Outcome::Refused`].
    pub fn upsert(&mut self, merge: Merge, pair: Option<(M::Key, M::Value)>) -> Outcome {
        self.with_pair(operation::Upsert(merge.operation()), pair).0
    }

    /// Returns the key's value, after inserting the pair if the key is absent. Returns `None` if the pair did
    /// not fit.
    pub fn get_or_insert(&mut self, pair: Option<(M::Key, M::Value)>) -> Option<M::Value> {
        let (outcome, value) = self.with_pair(operation::GetOrInsert, pair);
        matches!(outcome, Outcome::Found | Outcome::Inserted).then_some(value)
    }

    /// Removes the key. Returns whether it was present.
    pub fn remove(&mut self, key: Option<M::Key>) -> bool {
        self.with_key(operation::Remove, key).0 == Outcome::Removed
    }

    /// Removes the key. Returns the value that it had, or `None` if it was absent.
    pub fn take(&mut self, key: Option<M::Key>) -> Option<M::Value> {
        let (outcome, value) = self.with_key(operation::Take, key);
        (outcome == Outcome::Removed).then_some(value)
    }

    /// Inserts the pair or replaces the value. Returns [`Outcome::Inserted`], [`Outcome::Replaced`] or
    /// [`Outcome::Refused`], and the replaced value.
    pub fn replace(&mut self, pair: Option<(M::Key, M::Value)>) -> (Outcome, Option<M::Value>) {
        let (outcome, value) = self.with_pair(operation::Replace, pair);
        (outcome, (outcome == Outcome::Replaced).then_some(value))
    }

    /// Ends the session. All lanes of the warp ([`PerLane`]) call it together, which is cheaper than dropping
    /// the session: one lane of the warp adds the counts of all.
    pub fn finish(mut self) {
        let delta = core::mem::take(&mut self.delta);
        self.team.record(self.map, delta);
    }
}

/// Each lane adds its own counts, so lanes may drop their sessions independently.
impl<M: Kind, T: Cooperation<M>> Drop for Session<M, T> {
    #[device]
    fn drop(&mut self) {
        M::counters(self.map).record_alone(self.delta);
    }
}
