//! The view of a map that kernels take, and the probe loop that every operation of every scheme goes through.
use super::bucket::{Bucket, Lane, Spot};
use super::operation::{Change, Operation, Outcome};
use super::probe::{Cursor, Hashed, Probe};
use super::slot::{Scalar, Slot};
use core::marker::PhantomData;
use simt::hash::{mix32, mix64};
use simt::{Convergence, Global, Instance, Order, Scope, Thread, Tile, Turn, share_work};

/// A kind of table: slots `S`, probing scheme `P`, buckets of `W * L` slots read by tiles of `W` lanes, `L` slots a lane.
#[derive(Clone, Copy, Debug)]
pub struct Table<S, P, const W: u32, const L: usize>(PhantomData<(S, P)>);

/// What kernels and hosts need to know of a [`Table`]. The operations are written in terms of this, once for all kinds.
///
/// Every [`Table`] of a [`Slot`] and a [`Probe`] has it, those of other packages too. The kinds that the kernels of this package are
/// compiled for have a name besides ([`Instance`]).
///
/// # Safety
/// - [`Self::BUCKET_BYTES`] are those of [`Self::SLOTS`] words of [`Self::Slot`]: scans reach that far.
/// - [`Self::filter_words`] covers every bucket that [`Self::execute`] looks at, which stays within the view's buckets and annex.
pub unsafe trait Config: Copy + Send + Sync + 'static {
    /// Keys.
    type Key: Scalar;
    /// Values.
    type Value: Scalar;
    /// Slots.
    type Slot: Slot<Key = Self::Key, Value = Self::Value>;

    /// Slots in a bucket.
    const SLOTS: u32;
    /// Bits of filter a bucket has, or none.
    const FILTER_BITS: u32;
    /// Bytes in a bucket.
    const BUCKET_BYTES: usize;
    /// Whether it needs a compare-and-swap of 16 bytes: sm_90.
    const NEEDS_WIDE_SWAP: bool;
    /// Looks that a walk takes beyond one a bucket.
    const EXTRA: u32;
    /// Lanes in the tile that executes an operation.
    const TILE: u32;
    /// Registers a thread of a writing kernel may have. Measured: with 40 an insert of 8-byte pairs is 2 % faster than with the
    /// 45 that the assembler takes, a mixed batch 8 %; with 48 for 16-byte pairs 1 % and 3 %.
    const REGISTERS: u32;

    /// Words of filter for a table of `count` buckets and its annex.
    fn filter_words(count: u32) -> usize {
        ((count + ANNEX) as usize * Self::FILTER_BITS as usize).div_ceil(32)
    }

    /// Executes the operation of every lane of the warp that says `pending`. All lanes call it together.
    fn execute<O: Operation>(
        map: MapView<Self>,
        pending: bool,
        operation: O,
        key: Self::Key,
        argument: Self::Value,
    ) -> (Outcome, Self::Value);
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
#[derive(Debug)]
pub struct MapView<M> {
    buckets: Global<u64>,
    filters: Global<u32>,
    tallies: Global<u64>,
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

/// Words between two stripes of the tallies: a sector of 32 bytes each, so that warps that finish together do not queue.
pub const STRIPE_WORDS: usize = 4;
/// Stripes of the tallies.
pub const STRIPES: usize = 256;
/// Buckets behind the table for the keys that look like a state of a slot.
pub const ANNEX: u32 = 16;

/// How many keys a launch has added and slots it has taken, one lane's share.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    live: u32,
    taken: u32,
}

impl Tally {
    /// Counts an outcome.
    #[inline(always)]
    pub fn count(&mut self, outcome: Outcome) {
        self.taken += (outcome == Outcome::Inserted) as u32;
        self.live = self
            .live
            .wrapping_add((outcome == Outcome::Inserted) as u32)
            .wrapping_sub((outcome == Outcome::Removed) as u32);
    }
}

impl<M: Config> MapView<M> {
    /// A view of a table of `count` buckets, and the [`ANNEX`] after them.
    ///
    /// # Safety
    /// - `buckets` points to `(count + ANNEX) * M::BUCKET_BYTES` bytes, `filters` to `M::filter_words(count)` words and `tallies` to
    ///   `STRIPES * STRIPE_WORDS` words of device memory that live as long as the view is used, aligned to 128 bytes.
    /// - `count` is a prime below 2^31 - 64.
    /// - Every byte of buckets and filters was `0xFF` before the first operation, and only operations of this kind wrote them.
    pub unsafe fn new(
        buckets: *mut u64,
        filters: *mut u32,
        tallies: *mut u64,
        count: u32,
        looks: u32,
    ) -> Self {
        // SAFETY: the caller's promise; kernels make only relaxed accesses to all three.
        let (buckets, filters, tallies) =
            unsafe { (Global::new(buckets), Global::new(filters), Global::new(tallies)) };
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
        let top = key_of::<M>(M::Slot::EMPTY).to_u64();
        let from_top = top - key.to_u64();
        if from_top < M::Slot::RESERVED as u64 {
            return (StoredOf::<M>::from_u64(from_top), Cursor::annex(self.count));
        }
        (
            StoredOf::<M>::from_u64(key.to_u64()),
            Cursor::start(hash(StoredOf::<M>::from_u64(key.to_u64())), self.count, self.left),
        )
    }

    /// The pair in the slot at `position` of all slots, in memory order. Only where no other access runs.
    #[inline(always)]
    pub fn pair_at(self, position: usize) -> Option<(M::Key, M::Value)> {
        let word = self.slot_at(position).load(Order::Relaxed, Scope::Device);
        if !M::Slot::is_live(word) {
            return None;
        }
        let stored = key_of::<M>(word).to_u64();
        let in_annex = position / M::SLOTS as usize >= self.count as usize;
        let key = if in_annex { key_of::<M>(M::Slot::EMPTY).to_u64() - stored } else { stored };
        Some((M::Key::from_u64(key), M::Slot::value(word)))
    }

    /// Removes the pair in the slot at `position`. Only where no other operation runs. Gives whether there was one.
    #[inline(always)]
    pub fn erase_at(self, position: usize) -> bool {
        let slot = self.slot_at(position);
        M::Slot::erase(slot, M::Slot::key(slot.load(Order::Relaxed, Scope::Device)))
    }

    #[inline(always)]
    fn slot_at(self, position: usize) -> Global<<M::Slot as Slot>::Word> {
        if position >= self.slot_count() {
            simt::trap();
        }
        // SAFETY: the position is one of the table's slots.
        unsafe { self.buckets.cast::<<M::Slot as Slot>::Word>().offset(position) }
    }

    /// Adds what the lanes of the warp have counted to the map's tallies. All lanes call it together, once a launch.
    #[inline(always)]
    #[track_caller]
    pub fn record(self, tally: Tally) {
        let warp = Tile::<32>::lockstep();
        let (live, taken) = (warp.reduce_add(tally.live), warp.reduce_add(tally.taken));
        if warp.rank() == 0 && (live | taken) != 0 {
            self.add(live as i32 as i64 as u64, taken as u64);
        }
    }

    /// As [`Self::record`] for the calling lane alone, wherever the others are. Costs two additions in memory a lane.
    #[inline(always)]
    #[track_caller]
    pub fn record_alone(self, tally: Tally) {
        if (tally.live | tally.taken) != 0 {
            self.add(tally.live as i32 as i64 as u64, tally.taken as u64);
        }
    }

    /// Adds to a stripe of the tallies.
    #[inline(always)]
    #[track_caller]
    fn add(self, live: u64, taken: u64) {
        let stripe = Thread::index() / 32 % STRIPES;
        // SAFETY: the stripe is one of the tallies'.
        let (lives, takens) = unsafe {
            let stripe = self.tallies.offset(stripe * STRIPE_WORDS);
            (stripe, stripe.offset(1))
        };
        lives.fetch_add(live, Order::Relaxed, Scope::Device);
        takens.fetch_add(taken, Order::Relaxed, Scope::Device);
    }
}

type StoredOf<M> = <<M as Config>::Slot as Slot>::Stored;

#[inline(always)]
fn key_of<M: Config>(word: <M::Slot as Slot>::Word) -> StoredOf<M> {
    M::Slot::key(word)
}

/// Two hashes of a key. A 64-bit key gives both by one mixing; a 32-bit key's second one is mixed when a walk needs it.
#[inline(always)]
fn hash<K: Scalar>(key: K) -> Hashed {
    if K::BITS == 64 {
        let mixed = mix64(key.to_u64());
        Hashed { first: (mixed >> 32) as u32, second: mixed as u32 }
    } else {
        let key = key.to_u64() as u32;
        Hashed { first: mix32(key), second: key }
    }
}

/// What a tile needs from the operation's owner for one look at one bucket.
#[derive(Clone, Copy)]
struct Request<S: Slot, O> {
    operation: O,
    key: S::Stored,
    argument: S::Value,
    bucket: u32,
    /// The walk ends with this bucket.
    last: bool,
    quota: u32,
}

/// What the votes of a tile say about a bucket. All lanes agree.
#[derive(Clone, Copy)]
struct Verdict {
    /// The lanes that can act: that have the key, or else an empty slot for it.
    actors: u32,
    /// The tile has the key before it.
    found: bool,
    /// Nothing may be placed before another tile has shown its pair.
    waits: bool,
    /// There is no empty slot where the walk stands.
    full: bool,
}

/// The operation of one lane on its walk, as the work-sharing loop executes it: the one probe loop of every scheme.
struct Walk<S: Slot, P, O, const W: u32, const L: usize> {
    map: MapView<Table<S, P, W, L>>,
    operation: O,
    key: S::Stored,
    argument: S::Value,
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

    /// What the operation whose turn it is asks for.
    #[inline(always)]
    #[track_caller]
    fn request<C: Convergence>(&self, turn: Turn<W, C>) -> Request<S, O> {
        let place = turn.from_owner(self.cursor.pack());
        let slots = W * L as u32;
        Request {
            operation: turn.from_owner(self.operation),
            key: turn.from_owner(self.key),
            argument: if O::WRITES { turn.from_owner(self.argument) } else { self.argument },
            bucket: place & Cursor::BUCKET,
            last: place & Cursor::LAST != 0,
            quota: if P::EXTRA > 0 { turn.from_owner(P::quota(self.cursor, slots)) } else { slots },
        }
    }

    /// Whether an absent key is to be placed. Constant where the operation cannot write.
    #[inline(always)]
    fn places(request: &Request<S, O>) -> bool {
        O::WRITES && request.operation.places()
    }

    /// The lane's first slot that may take the key: an empty one within the quota.
    #[inline(always)]
    fn open(request: &Request<S, O>, rank: u32, lane: &Lane<S, L>) -> Spot<S::Word> {
        let within = |j: u32| P::EXTRA == 0 || rank * L as u32 + j < request.quota;
        lane.first(|j, word| S::is_empty(word) && within(j))
    }

    /// The key's bit in the filter of the bucket, and the word that it is in. The bit is made of the key alone, so that any
    /// lane can tell it: the top bits of a product.
    #[inline(always)]
    fn filter_bit(&self, request: &Request<S, O>) -> (Global<u32>, u32) {
        let key = request.key.to_u64();
        let mixed = ((key as u32) ^ ((key >> 32) as u32).rotate_left(16)).wrapping_mul(0x9e37_79b1);
        let (per_word, chosen) = (32 / P::FILTER_BITS, mixed >> (32 - P::FILTER_BITS.ilog2()));
        // SAFETY: every bucket and the annex have their bits in the filters.
        let word = unsafe { self.map.filters.offset((request.bucket / per_word) as usize) };
        (word, 1 << (request.bucket % per_word * P::FILTER_BITS + chosen))
    }

    /// Whether the filter says that the key may have gone on from the bucket (its bit is cleared).
    #[inline(always)]
    #[track_caller]
    fn went_on(&self, request: &Request<S, O>) -> bool {
        let (word, bit) = self.filter_bit(request);
        word.load_hot(Order::Relaxed, Scope::Device) & bit == 0
    }

    /// Tells later searches that the key goes on from the bucket.
    #[inline(always)]
    #[track_caller]
    fn pass_on(&self, request: &Request<S, O>) {
        let (word, bit) = self.filter_bit(request);
        word.fetch_and_hot(!bit, Order::Relaxed, Scope::Device);
    }

    /// Two votes tell whether the key is there, and whether there is an empty slot for it, which is also where a search ends.
    #[inline(always)]
    #[track_caller]
    fn judge<C: Convergence>(
        tile: Tile<W, C>,
        places: bool,
        lane: &Lane<S, L>,
        hit: bool,
        open: bool,
    ) -> Verdict {
        let holders = tile.ballot(hit);
        let empties = tile.ballot(open);
        let waits = O::WRITES && S::PUBLISHES && tile.any(lane.first(|_, word| S::is_busy(word)).exists);
        let actors = if holders == 0 && places && !waits { empties } else { holders };
        Verdict { actors, found: holders != 0, full: empties == 0, waits: places && waits }
    }

    /// What the one acting lane does: change the pair that is there, or claim the empty slot. Gives whether nothing came
    /// between, and what was there.
    #[inline(always)]
    #[track_caller]
    fn act(
        &self,
        rank: u32,
        request: &Request<S, O>,
        hit: Spot<S::Word>,
        open: Spot<S::Word>,
    ) -> (bool, S::Value) {
        let spot = if hit.exists || !O::WRITES { hit } else { open };
        let slot = self.bucket(request.bucket).slot(rank, spot.j as usize);
        if O::WRITES && !hit.exists {
            let pair = S::pack(request.key, request.argument);
            return (S::claim(slot, pair), request.argument);
        }
        self.change(request, slot, spot.word)
    }

    /// Changes the pair of a slot that was seen to hold `word`. Gives whether nothing came between (only removals meet), and
    /// the value that was there.
    #[inline(always)]
    #[track_caller]
    fn change(&self, request: &Request<S, O>, slot: Global<S::Word>, word: S::Word) -> (bool, S::Value) {
        let (value, argument) = (S::value_place(slot), request.argument);
        let (order, scope) = (Order::Relaxed, Scope::Device);
        match request.operation.change() {
            Change::Keep => (true, S::settle(slot, word)),
            Change::Set if !O::RETURNS => {
                value.store(argument, order, scope);
                (true, argument)
            }
            Change::Set => (true, value.exchange(argument, order, scope)),
            Change::Add => (true, value.fetch_add(argument, order, scope)),
            Change::Min => (true, value.fetch_min(argument, order, scope)),
            Change::Max => (true, value.fetch_max(argument, order, scope)),
            Change::Erase => (S::erase(slot, request.key), argument),
        }
    }

    /// One round of the operation whose turn it is: the tile reads a bucket, votes, and one lane acts by one
    /// compare-and-swap. Gives whether the operation is finished.
    #[inline(always)]
    #[track_caller]
    fn round<C: Convergence>(&mut self, turn: Turn<W, C>) -> bool {
        let (tile, rank, request) = (turn.tile(), turn.tile().rank(), self.request(turn));
        let places = Self::places(&request);
        let lane = self.bucket(request.bucket).load(rank, turn.is_active());
        let hit = lane.first(|_, word| S::key(word) == request.key);
        let open = Self::open(&request, rank, &lane);
        let verdict = Self::judge(tile, places, &lane, hit.exists, open.exists);

        let actor = verdict.actors.trailing_zeros();
        let acts = turn.is_active() && verdict.actors != 0 && rank == actor;
        let (done, value) =
            if acts { self.act(rank, &request, hit, open) } else { (false, request.argument) };
        let value = if O::RETURNS { tile.shuffle(value, actor) } else { value };
        let done = if O::WRITES { tile.any(done) } else { verdict.found };

        let ended = verdict.actors == 0 && !verdict.waits;
        let onward = self.goes_on(turn, &request, ended && verdict.full);
        if turn.is_mine() {
            self.conclude(&request, verdict.found, done, value);
            if onward {
                self.cursor.advance::<P>(hash(simt::opaque(self.key)), self.map.count);
            }
        }
        if S::PUBLISHES && verdict.waits && !done {
            simt::spin_hint();
        }
        done || (ended && !onward)
    }

    /// Whether the walk goes on from a bucket that it has found `through`: full, and without the key. All lanes agree.
    ///
    /// A placing operation says so in the filter before the tile looks further, so that no search ends before a key; the
    /// others ask the filter.
    #[inline(always)]
    #[track_caller]
    fn goes_on<C: Convergence>(&self, turn: Turn<W, C>, request: &Request<S, O>, through: bool) -> bool {
        let (tile, through) = (turn.tile(), through && !request.last);
        if P::FILTER_BITS == 0 {
            return through;
        }
        let asks = turn.is_active() && tile.rank() == 0 && through;
        let mut stops = false;
        if asks && Self::places(request) {
            self.pass_on(request);
        } else if asks {
            stops = !self.went_on(request);
        }
        if O::WRITES {
            tile.sync();
        }
        let stops = !O::PLACES_ALWAYS && tile.any(stops);
        through && !stops
    }

    /// Keeps what the operation has come to, if this was its last round.
    #[inline(always)]
    fn conclude(&mut self, request: &Request<S, O>, found: bool, done: bool, value: S::Value) {
        let present = if found { request.operation.outcome() } else { Outcome::Inserted };
        let absent = if Self::places(request) { Outcome::Refused } else { Outcome::Absent };
        self.outcome = if done { present } else { absent };
        self.value = value;
    }
}

impl<S: Slot, P: Probe, const W: u32, const L: usize> MapView<Table<S, P, W, L>>
where
    Table<S, P, W, L>: Config<Slot = S, Key = S::Key, Value = S::Value>,
{
    /// Executes one operation with a tile, all of whose lanes bring the same one.
    #[inline(always)]
    #[track_caller]
    pub fn operate<O: Operation, C: Convergence>(
        self,
        tile: Tile<W, C>,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        self.operate_if(tile, true, operation, key, argument)
    }

    /// [`Self::operate`] where `wanted`, of which all lanes of the tile must say the same; else [`Outcome::Absent`] and the argument.
    #[inline(always)]
    #[track_caller]
    pub fn operate_if<O: Operation, C: Convergence>(
        self,
        tile: Tile<W, C>,
        wanted: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        let (outcome, value) = self.share(tile, wanted && tile.rank() == 0, operation, key, argument);
        (tile.shuffle(outcome, 0), tile.shuffle(value, 0))
    }

    /// Executes the operations of all lanes that say `pending`, each by its tile, and gives each lane its own result.
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
        let (outcome, value) = (Outcome::Absent, argument);
        let mut walk = Walk { map: self, operation, key, argument, cursor, outcome, value };
        share_work(tile, pending, |turn| walk.round(turn));
        (walk.outcome, walk.value)
    }
}

// SAFETY: a bucket is `W * L` slots, and `Slot` and `Probe` promise that walks stay within the table.
unsafe impl<S: Slot, P: Probe, const W: u32, const L: usize> Config for Table<S, P, W, L> {
    type Key = S::Key;
    type Value = S::Value;
    type Slot = S;
    const SLOTS: u32 = W * L as u32;
    const FILTER_BITS: u32 = P::FILTER_BITS;
    const NEEDS_WIDE_SWAP: bool = size_of::<S::Word>() == 16 && !S::PUBLISHES;
    const BUCKET_BYTES: usize = Bucket::<S, W, L>::BYTES;
    const EXTRA: u32 = P::EXTRA;
    const TILE: u32 = W;
    const REGISTERS: u32 = if size_of::<S::Word>() == 8 { 40 } else { 48 };

    #[inline(always)]
    #[track_caller]
    fn execute<O: Operation>(
        map: MapView<Self>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        map.share(Tile::<W>::lockstep(), pending, operation, key, argument)
    }
}
