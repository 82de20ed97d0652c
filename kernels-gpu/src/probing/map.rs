//! The view of a map that kernels take, and the probe loop that every operation of every scheme goes through.
use super::probe::{Cursor, Probe};
use crate::keyed::{
    Bucket, Kind, Look, Operation, Outcome, Place, Question, Scalar, Slot, Tallies, TileKind, View, hash,
};
use core::marker::PhantomData;
use simt::{Convergence, Global, Instance, Order, Scope, Tile, Turn, share_work};

/// A kind of table: slots `S`, probing scheme `P`, buckets of `W * L` slots read by tiles of `W` lanes, `L`
/// slots a lane.
#[derive(Clone, Copy, Debug)]
pub struct Table<S, P, const W: u32, const L: usize>(PhantomData<(S, P)>);

/// What hosts need to know of a [`Table`] beside its being a [`Kind`].
///
/// Every [`Table`] of a [`Slot`] and a [`Probe`] has it, those of other packages too.
///
/// # Safety
/// - [`Self::BUCKET_BYTES`] are those of [`Self::SLOTS`] words of the kind's slots: scans reach that far.
/// - [`Self::filter_words`] covers every bucket that operations look at, which stay within the view's buckets
///   and annex.
pub unsafe trait Config: Kind<View = MapView<Self>> {
    /// Slots in a bucket.
    const SLOTS: u32;
    /// Bits of filter a bucket has, or none.
    const FILTER_BITS: u32;
    /// Bytes in a bucket.
    const BUCKET_BYTES: usize;
    /// Looks that a walk takes beyond one a bucket.
    const EXTRA: u32;

    /// Words of filter for a table of `count` buckets and its annex.
    fn filter_words(count: u32) -> usize {
        ((count + ANNEX) as usize * Self::FILTER_BITS as usize).div_ceil(32)
    }
}

/// Whom [`super::visit`] shows the kind of table that a name means.
pub trait Visitor {
    /// What it makes of it.
    type Output;
    /// Sees the kind.
    fn visit<M: Config + Instance>(self) -> Self::Output;
}

/// A map as a kernel sees it.
#[repr(C)]
pub struct MapView<M> {
    buckets: Global<u64>,
    filters: Global<u32>,
    tallies: Tallies,
    count: u32,
    left: u32,
    of: PhantomData<fn() -> M>,
}

impl<M> Clone for MapView<M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for MapView<M> {}

impl<M> core::fmt::Debug for MapView<M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MapView").field("buckets", &self.buckets).field("count", &self.count).finish()
    }
}

/// Buckets behind the table for the keys that look like a state of a slot.
pub const ANNEX: u32 = 16;

impl<M: Config> View for MapView<M> {
    type Kind = M;
}

impl<M: Config> MapView<M> {
    /// A view of a table of `count` buckets, and the [`ANNEX`] after them.
    ///
    /// # Safety
    /// - `buckets` points to `(count + ANNEX) * M::BUCKET_BYTES` bytes, `filters` to `M::filter_words(count)`
    ///   words and `tallies` to `STRIPES * STRIPE_WORDS` words of device memory that live as long as the view
    ///   is used, aligned to 128 bytes.
    /// - `count` is a prime below 2^31 - 64.
    /// - Every byte of buckets and filters was `0xFF` before the first operation, and only operations of this
    ///   kind wrote them.
    pub unsafe fn new(
        buckets: *mut u64,
        filters: *mut u32,
        tallies: *mut u64,
        count: u32,
        looks: u32,
    ) -> Self {
        // SAFETY: the caller's promise; kernels make only relaxed accesses to all three.
        let (buckets, filters, tallies) =
            unsafe { (Global::new(buckets), Global::new(filters), Tallies::new(Global::new(tallies))) };
        Self { buckets, filters, tallies, count, left: looks.min(count + M::EXTRA), of: PhantomData }
    }

    /// Buckets, the annex not counted.
    #[inline(always)]
    pub fn bucket_count(self) -> u32 {
        self.count
    }

    /// Slots in all buckets, the annex included.
    #[inline(always)]
    pub fn slot_count(self) -> usize {
        (self.count + ANNEX) as usize * M::SLOTS as usize
    }

    /// The key as it is stored, and where its walk begins.
    #[inline(always)]
    fn start(self, key: M::Key) -> (StoredOf<M>, Cursor) {
        if let Some(alias) = M::Slot::alias(key) {
            return (alias, Cursor::annex(self.count));
        }
        let stored = StoredOf::<M>::from_u64(key.to_u64());
        (stored, Cursor::start(hash(stored), self.count, self.left))
    }

    #[inline(always)]
    fn slot_at(self, position: usize) -> Global<<M::Slot as Slot>::Word> {
        if position >= self.slot_count() {
            simt::trap();
        }
        // SAFETY: the position is one of the table's slots.
        unsafe { self.buckets.cast::<<M::Slot as Slot>::Word>().offset(position) }
    }
}

type StoredOf<M> = <<M as Kind>::Slot as Slot>::Stored;

/// Where a tile looks next, from the operation's owner.
#[derive(Clone, Copy)]
struct Route {
    bucket: u32,
    /// The walk ends with this bucket.
    last: bool,
    quota: u32,
}

/// The operation of one lane on its walk, as the work-sharing loop executes it: the one probe loop of every
/// scheme.
struct Walk<S: Slot, P, O, const W: u32, const L: usize> {
    map: MapView<Table<S, P, W, L>>,
    question: Question<S, O>,
    cursor: Cursor,
    outcome: Outcome,
    value: S::Value,
}

impl<S: Slot, P: Probe, O: Operation, const W: u32, const L: usize> Walk<S, P, O, W, L>
where
    Table<S, P, W, L>: Config<Slot = S, Key = S::Key, Value = S::Value>,
{
    #[inline(always)]
    fn bucket(&self, index: u32) -> Bucket<S, W, L> {
        let words = Bucket::<S, W, L>::BYTES / 8;
        // SAFETY: cursors stay within the buckets and the annex that follows them, as `Probe` promises.
        unsafe { Bucket::at(self.map.buckets.offset(index as usize * words)) }
    }

    #[inline(always)]
    #[track_caller]
    fn route<C: Convergence>(&self, turn: Turn<W, C>) -> Route {
        let place = turn.from_owner(self.cursor.pack());
        let slots = W * L as u32;
        let quota = if P::EXTRA > 0 { turn.from_owner(P::quota(self.cursor, slots)) } else { slots };
        Route { bucket: place & Cursor::BUCKET, last: place & Cursor::LAST != 0, quota }
    }

    /// The key's bit in the filter of the bucket, and the word that it is in. The bit is made of the key
    /// alone, so that any lane can tell it: the top bits of a product.
    #[inline(always)]
    fn filter_bit(&self, key: S::Stored, bucket: u32) -> (Global<u32>, u32) {
        let key = key.to_u64();
        let mixed = ((key as u32) ^ ((key >> 32) as u32).rotate_left(16)).wrapping_mul(0x9e37_79b1);
        let (per_word, chosen) = (32 / P::FILTER_BITS, mixed >> (32 - P::FILTER_BITS.ilog2()));
        // SAFETY: every bucket and the annex have their bits in the filters.
        let word = unsafe { self.map.filters.offset((bucket / per_word) as usize) };
        (word, 1 << (bucket % per_word * P::FILTER_BITS + chosen))
    }

    /// Whether the filter says that the key may have gone on from the bucket (its bit is cleared).
    #[inline(always)]
    #[track_caller]
    fn went_on(&self, key: S::Stored, bucket: u32) -> bool {
        let (word, bit) = self.filter_bit(key, bucket);
        word.load_hot(Order::Relaxed, Scope::Device) & bit == 0
    }

    /// Tells later searches that the key goes on from the bucket.
    #[inline(always)]
    #[track_caller]
    fn pass_on(&self, key: S::Stored, bucket: u32) {
        let (word, bit) = self.filter_bit(key, bucket);
        word.fetch_and_hot(!bit, Order::Relaxed, Scope::Device);
    }

    /// One round of the operation whose turn it is: one look, and on. Returns whether the operation is
    /// finished.
    #[inline(always)]
    #[track_caller]
    fn round<C: Convergence>(&mut self, turn: Turn<W, C>) -> bool {
        let (tile, route) = (turn.tile(), self.route(turn));
        let question = self.question.from_owner(turn);
        let (rank, bucket) = (tile.rank(), self.bucket(route.bucket));
        let within = |j: u32| P::EXTRA == 0 || rank * L as u32 + j < route.quota;
        let look = Look::at(tile, bucket, &bucket.load(rank, turn.is_active()), &question, within);
        let (done, value) = look.act(tile, turn.is_active(), &question);

        let onward = self.goes_on(turn, &question, route, look.verdict.leads_on());
        if turn.is_mine() {
            (self.outcome, self.value) = (question.conclude(look.verdict.found, done), value);
            if onward {
                self.cursor.advance::<P>(hash(simt::opaque(self.question.key)), self.map.count);
            }
        }
        if S::PUBLISHES && look.verdict.waits && !done {
            simt::spin_hint();
        }
        done || (look.verdict.is_over() && !onward)
    }

    /// Whether the walk goes on from a bucket that it has found `through`: full, and without the key. All
    /// lanes agree.
    ///
    /// A placing operation says so in the filter before the tile looks further, so that no search ends before
    /// a key; the others ask the filter.
    #[inline(always)]
    #[track_caller]
    fn goes_on<C: Convergence>(
        &self,
        turn: Turn<W, C>,
        question: &Question<S, O>,
        route: Route,
        through: bool,
    ) -> bool {
        let (tile, through) = (turn.tile(), through && !route.last);
        if P::FILTER_BITS == 0 {
            return through;
        }
        let asks = turn.is_active() && tile.rank() == 0 && through;
        let mut stops = false;
        if asks && question.places() {
            self.pass_on(question.key, route.bucket);
        } else if asks {
            stops = !self.went_on(question.key, route.bucket);
        }
        if O::WRITES {
            tile.sync();
        }
        let stops = !O::PLACES_ALWAYS && tile.any(stops);
        through && !stops
    }
}

impl<S: Slot, P: Probe, const W: u32, const L: usize> MapView<Table<S, P, W, L>>
where
    Table<S, P, W, L>: Config<Slot = S, Key = S::Key, Value = S::Value>,
{
    /// Executes the operations of all lanes that say `pending`, each by its tile, and gives each lane its own
    /// result.
    #[inline(always)]
    #[track_caller]
    pub fn share<O: Operation, C: Convergence>(
        self,
        tile: Tile<W, C>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        let (key, cursor) = self.start(key);
        let question = Question { operation, key, argument };
        let mut walk = Walk { map: self, question, cursor, outcome: Outcome::Absent, value: argument };
        share_work(tile, pending, |turn| walk.round(turn));
        if O::WRITES && walk.cursor.is_long(self.count, self.left) {
            self.tallies.record_long();
        }
        (walk.outcome, walk.value)
    }
}

// SAFETY: a bucket is `W * L` slots, and `Slot` and `Probe` promise that walks stay within the table.
unsafe impl<S: Slot, P: Probe, const W: u32, const L: usize> Kind for Table<S, P, W, L> {
    type Key = S::Key;
    type Value = S::Value;
    type Slot = S;
    type View = MapView<Self>;
    const TILE: u32 = W;
    /// Measured: with 40 an insert of 8-byte pairs is 2 % faster than with the 45 that the assembler takes, a
    /// mixed batch 8 %; with 48 for 16-byte pairs 1 % and 3 %.
    const REGISTERS: u32 = if size_of::<S::Word>() == 8 { 40 } else { 48 };
    /// Measured: with 32, where all threads fit that a multiprocessor can have, finds are 12 % faster than
    /// with the 40 that the assembler takes, of 16-byte pairs 5 %.
    const READS_IN: u32 = 32;

    #[inline(always)]
    #[track_caller]
    fn execute<O: Operation>(
        map: MapView<Self>,
        pending: bool,
        operation: O,
        key: Self::Key,
        argument: Self::Value,
    ) -> (Outcome, Self::Value) {
        map.share(Tile::<W>::lockstep(), pending, operation, key, argument)
    }

    #[inline(always)]
    fn tallies(map: MapView<Self>) -> Tallies {
        map.tallies
    }

    fn scan_threads(map: MapView<Self>) -> usize {
        map.slot_count()
    }

    /// A slot a thread, in memory order.
    #[inline(always)]
    #[track_caller]
    fn scan(map: MapView<Self>, index: usize, mut see: impl FnMut(Option<Place<Self>>)) {
        let in_annex = index / Self::SLOTS as usize >= map.count as usize;
        let exists = index < map.slot_count();
        see(if exists { Place::read(map.slot_at(index), in_annex) } else { None });
    }
}

// SAFETY: as for `Kind`.
unsafe impl<S: Slot, P: Probe, const W: u32, const L: usize> Config for Table<S, P, W, L> {
    const SLOTS: u32 = W * L as u32;
    const FILTER_BITS: u32 = P::FILTER_BITS;
    const BUCKET_BYTES: usize = Bucket::<S, W, L>::BYTES;
    const EXTRA: u32 = P::EXTRA;
}

impl<S: Slot, P: Probe, const W: u32, const L: usize> TileKind<W> for Table<S, P, W, L> {
    #[inline(always)]
    #[track_caller]
    fn share<O: Operation, C: Convergence>(
        map: MapView<Self>,
        tile: Tile<W, C>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        map.share(tile, pending, operation, key, argument)
    }
}
