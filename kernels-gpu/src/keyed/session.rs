//! The operations by name, for kernels of your own.
//!
//! A [`Session`] is what a thread of a kernel opens on a map. It counts what it adds and removes, so that the
//! map's length stays right, and hands the count in when it ends.
use super::kind::{Kind, TileKind, View};
use super::operation::{self, Merge, Operation, Outcome};
use super::slot::Scalar;
use super::tallies::Tally;
use simt::{Convergence, Tile};

/// Who executes the operations of a [`Session`].
pub trait Team<M: Kind>: Copy {
    /// Executes an operation where `wanted`; else gives [`Outcome::Absent`].
    fn execute<O: Operation>(
        self,
        map: M::View,
        wanted: bool,
        operation: O,
        key: M::Key,
        argument: M::Value,
    ) -> (Outcome, M::Value);

    /// Orders what the lanes of the team have done before with what they do next, memory included.
    fn sync(self);

    /// Whether the calling lane counts what the team does.
    fn counts(self) -> bool;

    /// Hands in what the lanes have counted, at the end of a session.
    fn record(self, map: M::View, tally: Tally);
}

/// Every lane of the warp brings an operation of its own, or none; all lanes call together.
#[derive(Clone, Copy, Debug)]
pub struct Lanes;

impl<M: Kind> Team<M> for Lanes {
    #[inline(always)]
    #[track_caller]
    fn execute<O: Operation>(
        self,
        map: M::View,
        wanted: bool,
        operation: O,
        key: M::Key,
        argument: M::Value,
    ) -> (Outcome, M::Value) {
        M::execute(map, wanted, operation, key, argument)
    }

    #[inline(always)]
    #[track_caller]
    fn sync(self) {
        Tile::<32>::lockstep().sync();
    }

    #[inline(always)]
    fn counts(self) -> bool {
        true
    }

    #[inline(always)]
    #[track_caller]
    fn record(self, map: M::View, tally: Tally) {
        M::tallies(map).record(tally);
    }
}

/// All lanes of the tile bring the same operation, and say the same of whether it is wanted. Independent
/// tiles may be anywhere when they call.
impl<M: TileKind<W>, C: Convergence, const W: u32> Team<M> for Tile<W, C> {
    #[inline(always)]
    #[track_caller]
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

    #[inline(always)]
    #[track_caller]
    fn sync(self) {
        Tile::sync(self);
    }

    #[inline(always)]
    fn counts(self) -> bool {
        self.rank() == 0
    }

    #[inline(always)]
    #[track_caller]
    fn record(self, map: M::View, tally: Tally) {
        M::tallies(map).record_alone(tally);
    }
}

/// A thread's work on a map. Ask for [`Lanes`] to bring an operation a lane, for a tile to bring an operation
/// a tile.
///
/// Blocks have whole tiles: their threads are a multiple of the table's `W`.
///
/// Where an operation takes an `Option`, `None` takes part and asks for nothing: all lanes of a team make
/// each call together, with or without an operation of their own.
///
/// ```
/// use phalanx_kernels::probing::{DoubleHash, Hinted, MapView, Merge, Packed, Session, Lanes, Table};
/// use phalanx_kernels::probing::{ANNEX, Config, STRIPES, STRIPE_WORDS};
/// use simt::emulator::{Emulator, Options};
/// use simt::{GlobalSlice, Grid, Thread, kernel};
///
/// type Counts = Table<Packed, Hinted<16>, 2, 4>;
///
/// /// Counts how often each word occurs.
/// #[kernel]
/// fn count_words(map: MapView<Counts>, words: GlobalSlice<u32>) {
///     let mut session = Session::new(map, Lanes);
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
/// # let buckets = allocate((3 + ANNEX as usize) * Counts::BUCKET_BYTES, 0xff).cast();
/// # let filters = allocate(Counts::filter_words(3) * 4, 0xff).cast();
/// # let tallies = allocate(STRIPES * STRIPE_WORDS * 8, 0).cast::<u64>();
/// # let words = allocate(4 * 70, 7).cast();
/// # // SAFETY: memory of these sizes, filled as a table wants it, which nobody else uses.
/// # let map = unsafe { MapView::new(buckets, filters, tallies, 3, 8) };
/// # let words = unsafe { GlobalSlice::from_raw_parts(words, 70) };
/// device.launch(Grid::new(3, 32), CountWords { map, words })?;
/// # let live: u64 = (0..STRIPES).map(|stripe| unsafe { tallies.add(stripe * STRIPE_WORDS).read() }).sum();
/// # assert_eq!(live, 1);
/// # let slots = (0..3 * 8).map(|slot| unsafe { buckets.add(slot).read() });
/// # let slots: Vec<u64> = slots.filter(|&slot| slot != u64::MAX).collect();
/// # assert_eq!(slots, [70 << 32 | 0x0707_0707]);
/// # Ok::<(), simt::emulator::Failure>(())
/// ```
///
/// On the host, `phalanx::HashMap::view` gives the view.
///
/// # Concurrency
/// Every operation may run beside every other, of this kernel and of others, and is linearizable.
///
/// Other lanes of a tile may read and write the pair than the one that asks. A session orders what they do
/// with what the asking lane does, as if that one had made the operation itself by relaxed accesses:
/// - A lane whose operation has written may show that by a fence and a flag: a thread that acquires the flag
///   finds the pair.
/// - A lane that has acquired such a flag finds the pair.
///
/// The pair itself publishes nothing: a lane that finds a key need not see what another wrote elsewhere
/// before it inserted the key. Use a flag for that.
#[derive(Debug)]
#[must_use = "a session does nothing by itself"]
pub struct Session<M: Kind, T: Team<M> = Lanes> {
    map: M::View,
    team: T,
    tally: Tally,
}

impl<M: Kind, T: Team<M>> Session<M, T> {
    /// Opens a session.
    #[inline(always)]
    pub fn new<V: View<Kind = M>>(map: V, team: T) -> Self
    where
        M: Kind<View = V>,
    {
        Self { map, team, tally: Tally::default() }
    }

    /// Executes any operation where `wanted`; else gives [`Outcome::Absent`]. The value is the one that was
    /// there; the argument where the key was not, and from a removal.
    #[inline(always)]
    #[track_caller]
    pub fn execute<O: Operation>(
        &mut self,
        wanted: bool,
        operation: O,
        key: M::Key,
        argument: M::Value,
    ) -> (Outcome, M::Value) {
        // What the asking lanes have acquired is known to the lanes that act for them.
        self.team.sync();
        let (outcome, value) = self.team.execute(self.map, wanted, operation, key, argument);
        if O::WRITES {
            // What other lanes have written is ordered before what the asking lanes do next.
            self.team.sync();
        }
        if O::WRITES && wanted && self.team.counts() {
            self.tally.count(outcome);
        }
        (outcome, value)
    }

    #[inline(always)]
    #[track_caller]
    fn with_key<O: Operation>(&mut self, operation: O, key: Option<M::Key>) -> (Outcome, M::Value) {
        let none = (M::Key::from_u64(0), M::Value::from_u64(0));
        self.execute(key.is_some(), operation, key.unwrap_or(none.0), none.1)
    }

    #[inline(always)]
    #[track_caller]
    fn with_pair<O: Operation>(
        &mut self,
        operation: O,
        pair: Option<(M::Key, M::Value)>,
    ) -> (Outcome, M::Value) {
        let (key, value) = pair.unwrap_or((M::Key::from_u64(0), M::Value::from_u64(0)));
        self.execute(pair.is_some(), operation, key, value)
    }

    /// The key's value, or nothing where it is not there.
    #[inline(always)]
    #[track_caller]
    pub fn get(&mut self, key: Option<M::Key>) -> Option<M::Value> {
        let (outcome, value) = self.with_key(operation::Get, key);
        (outcome == Outcome::Found).then_some(value)
    }

    /// Whether the key is there.
    #[inline(always)]
    #[track_caller]
    pub fn contains_key(&mut self, key: Option<M::Key>) -> bool {
        self.with_key(operation::ContainsKey, key).0 == Outcome::Found
    }

    /// Inserts or replaces: [`Outcome::Inserted`], [`Outcome::Replaced`] or [`Outcome::Refused`].
    #[inline(always)]
    #[track_caller]
    pub fn insert(&mut self, pair: Option<(M::Key, M::Value)>) -> Outcome {
        self.with_pair(operation::Insert, pair).0
    }

    /// Inserts where the key is not there: [`Outcome::Inserted`], [`Outcome::Found`] or [`Outcome::Refused`].
    #[inline(always)]
    #[track_caller]
    pub fn insert_new(&mut self, pair: Option<(M::Key, M::Value)>) -> Outcome {
        self.with_pair(operation::InsertNew, pair).0
    }

    /// Inserts or merges: [`Outcome::Inserted`], [`Outcome::Replaced`] or [`Outcome::Refused`].
    #[inline(always)]
    #[track_caller]
    pub fn upsert(&mut self, merge: Merge, pair: Option<(M::Key, M::Value)>) -> Outcome {
        self.with_pair(merge.operation(), pair).0
    }

    /// The key's value, which is inserted where it is not there. Nothing where there was no room for it.
    #[inline(always)]
    #[track_caller]
    pub fn get_or_insert(&mut self, pair: Option<(M::Key, M::Value)>) -> Option<M::Value> {
        let (outcome, value) = self.with_pair(operation::Coded::GET_OR_INSERT, pair);
        matches!(outcome, Outcome::Found | Outcome::Inserted).then_some(value)
    }

    /// Removes the key; gives whether it was there.
    #[inline(always)]
    #[track_caller]
    pub fn remove(&mut self, key: Option<M::Key>) -> bool {
        self.with_key(operation::Remove, key).0 == Outcome::Removed
    }

    /// Ends the session. All lanes of the warp ([`Lanes`]) call it together, which counts more cheaply than
    /// dropping it: one lane of the warp adds for all.
    #[inline(always)]
    #[track_caller]
    pub fn finish(mut self) {
        let tally = core::mem::take(&mut self.tally);
        self.team.record(self.map, tally);
    }
}

/// Counts too, each lane for itself: lanes may drop their sessions anywhere.
impl<M: Kind, T: Team<M>> Drop for Session<M, T> {
    #[inline(always)]
    fn drop(&mut self) {
        M::tallies(self.map).record_alone(self.tally);
    }
}
