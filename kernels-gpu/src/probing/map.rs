//! The view of a map that kernels take, and the probe loop that every operation of every scheme goes through.
use super::bucket::{Bucket, Lane};
use super::operation::{Change, Operation, Outcome};
use super::probe::{Cursor, Hashed, Probe};
use super::slot::{Scalar, Slot};
use core::marker::PhantomData;
use simt::hash::{mix32, mix64};
use simt::{Convergence, Global, Instance, Order, Scope, Thread, Tile, Turn, Word, share_work};

/// A kind of table: slots `S`, probing scheme `P`, buckets of `W * L` slots read by tiles of `W` lanes, `L` slots a lane.
#[derive(Clone, Copy, Debug)]
pub struct Table<S, P, const W: u32, const L: usize>(PhantomData<(S, P)>);

/// What kernels and hosts need to know of a [`Table`]. The operations are written in terms of this, once for all kinds.
pub trait Config: Instance + Send + Sync {
    /// Keys.
    type Key: Scalar;
    /// Values.
    type Value: Scalar;
    /// Slots.
    type Slot: Slot<Key = Self::Key, Value = Self::Value>;

    /// Slots in a bucket, the filter's not included.
    const CAPACITY: u32;
    /// Slots at the start of a bucket that hold no pairs.
    const HEADER: u32;
    /// Bytes in a bucket.
    const BUCKET_BYTES: usize;
    /// Looks that a walk takes beyond one a bucket.
    const EXTRA: u32;
    /// Lanes in the tile that executes an operation.
    const TILE: u32;

    /// Executes the operation of every lane of the warp that says `pending`. All lanes call it together.
    fn execute<O: Operation>(
        map: MapView<Self>,
        pending: bool,
        operation: O,
        key: Self::Key,
        argument: Self::Value,
    ) -> (Outcome, Self::Value);
}

/// A map as a kernel sees it.
#[repr(C)]
#[derive(Debug)]
pub struct MapView<M> {
    buckets: Global<u64>,
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
pub const STRIPES: usize = 64;

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
    /// A view of a table of `count` buckets, and the annex after them.
    ///
    /// # Safety
    /// - `buckets` points to `(count + 1) * M::BUCKET_BYTES` bytes and `tallies` to `STRIPES * STRIPE_WORDS` words of device memory that
    ///   live as long as the view is used, aligned to 128 bytes.
    /// - `count` is a prime below 2^31.
    /// - Every byte of the buckets was `0xFF` before the first operation, and only operations of this kind have written them.
    pub unsafe fn new(buckets: *mut u64, tallies: *mut u64, count: u32, looks: u32) -> Self {
        // SAFETY: the caller's promise; kernels make only relaxed accesses to both, and the scans run alone.
        let (buckets, tallies) = unsafe { (Global::new(buckets), Global::new(tallies)) };
        Self { buckets, tallies, count, left: looks.min(count + M::EXTRA), of: PhantomData }
    }

    /// Buckets, the annex not counted.
    #[inline(always)]
    pub fn bucket_count(self) -> u32 {
        self.count
    }

    /// Slots in all buckets, the annex included, filters included.
    #[inline(always)]
    pub fn slot_count(self) -> usize {
        (self.count as usize + 1) * (M::CAPACITY + M::HEADER) as usize
    }

    /// The key as it is stored, and where its walk begins.
    #[inline(always)]
    fn start(self, key: M::Key) -> (StoredOf<M>, Cursor) {
        let top = key_of::<M>(M::Slot::EMPTY).to_u64();
        let from_top = top - key.to_u64();
        if from_top < M::Slot::RESERVED as u64 {
            return (StoredOf::<M>::from_u64(from_top), Cursor::only(self.count));
        }
        (StoredOf::<M>::from_u64(key.to_u64()), Cursor::start(hash(key), self.count, self.left))
    }

    /// The pair in the slot at `position` of all slots, in memory order. Only where no other access runs.
    #[inline(always)]
    pub fn pair_at(self, position: usize) -> Option<(M::Key, M::Value)> {
        let per_bucket = (M::CAPACITY + M::HEADER) as usize;
        let word = self.slot_at(position).load(Order::Relaxed, Scope::Device);
        if position % per_bucket < M::HEADER as usize || !M::Slot::is_live(word) {
            return None;
        }
        let stored = key_of::<M>(word).to_u64();
        let in_annex = position / per_bucket == self.count as usize;
        let key = if in_annex { key_of::<M>(M::Slot::EMPTY).to_u64() - stored } else { stored };
        Some((M::Key::from_u64(key), M::Slot::value(word)))
    }

    /// Removes the pair in the slot at `position`. Only where no other operation runs. Gives whether there was one.
    #[inline(always)]
    pub fn erase_at(self, position: usize) -> bool {
        let slot = self.slot_at(position);
        M::Slot::erase(slot, slot.load(Order::Relaxed, Scope::Device))
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

    /// Adds to a stripe of the tallies.
    #[inline(always)]
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

/// How far a step has brought an operation. All lanes of the tile agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// To the end.
    Done(Outcome),
    /// Nowhere: another tile changed the slot. Look at the bucket again.
    Again,
    /// Through this bucket.
    Onward,
}

/// One look at one bucket: what the tile needs from the operation's owner.
#[derive(Clone, Copy)]
struct Look<S: Slot, O> {
    operation: O,
    key: S::Stored,
    argument: S::Value,
    bucket: u32,
    quota: u32,
    active: bool,
}

impl<S: Slot, P: Probe, const W: u32, const L: usize> Table<S, P, W, L> {
    const HEADER: u32 = if P::FILTER { 1 } else { 0 };

    /// The bits of a lane's slots whose place in the bucket's order lies in `from..to`.
    #[inline(always)]
    fn slots_between(rank: u32, from: u32, to: u32) -> u32 {
        let first = rank * L as u32;
        let below = |end: u32| {
            let count = end.saturating_sub(first).min(L as u32);
            ((1u64 << count) - 1) as u32
        };
        below(to) & !below(from)
    }
}

impl<S: Slot, P: Probe, const W: u32, const L: usize> MapView<Table<S, P, W, L>>
where
    Table<S, P, W, L>: Config<Slot = S, Key = S::Key, Value = S::Value>,
{
    #[inline(always)]
    fn bucket(self, index: u32) -> Bucket<S, W, L> {
        let words = Bucket::<S, W, L>::BYTES / 8;
        // SAFETY: cursors stay below the bucket count, and the annex follows the last bucket.
        unsafe { Bucket::at(self.buckets.offset(index as usize * words)) }
    }

    /// The lane's slots that may take the key: empty ones within the quota; in the annex the one slot that is the key's own,
    /// whatever was removed from it, or any empty one where slots change in halves.
    #[inline(always)]
    fn open<O>(self, look: &Look<S, O>, rank: u32, lane: &Lane<S, L>) -> u32 {
        let header = Table::<S, P, W, L>::HEADER;
        if S::WHOLE && look.bucket == self.count {
            let own = header + look.key.to_u64() as u32;
            return lane.vacant() & Table::<S, P, W, L>::slots_between(rank, own, own + 1);
        }
        if look.quota == W * L as u32 {
            return lane.empty() & Self::pairs(rank);
        }
        lane.empty() & Table::<S, P, W, L>::slots_between(rank, header, look.quota)
    }

    /// The lane's slots that hold pairs: all but the filter.
    #[inline(always)]
    fn pairs(rank: u32) -> u32 {
        if P::FILTER && rank == 0 { !1 } else { !0 }
    }

    /// The filter bit of the key.
    #[inline(always)]
    fn filter_bit(key: S::Stored) -> u64 {
        1 << (hash(key).first & 63)
    }

    /// One look of a tile at one bucket. This is the whole of every operation but the walk.
    ///
    /// Every lane reads its slots; two votes tell whether the key is there and whether there is an empty slot (or, where nothing
    /// is to be placed, whether the key may have gone on); then one lane acts by one compare-and-swap.
    #[inline(always)]
    #[track_caller]
    fn look<O: Operation, C: Convergence>(self, tile: Tile<W, C>, look: Look<S, O>) -> (Progress, S::Value) {
        let (rank, places) = (tile.rank(), O::WRITES && look.operation.places());
        let bucket = self.bucket(look.bucket);
        let lane = if look.active { bucket.load(rank) } else { Lane::blank() };
        let hits = lane.matching(look.key) & Self::pairs(rank);
        let passed_on = P::FILTER && rank == 0 && lane.filter() & Self::filter_bit(look.key) == 0;
        let open = if places || !P::FILTER { self.open(&look, rank, &lane) } else { 0 };

        let holders = tile.ballot(hits != 0);
        let votes = tile.ballot(if places || !P::FILTER { open != 0 } else { passed_on });
        let waits = O::WRITES && !S::WHOLE && tile.any(lane.busy() & Self::pairs(rank) != 0);
        let actors = match holders {
            0 if places && !waits => votes,
            _ => holders,
        };

        let acts = look.active && actors != 0 && rank == actors.trailing_zeros();
        let (done, value) =
            if acts { self.act(&look, bucket, rank, &lane, hits, open) } else { (false, look.argument) };
        let value = if O::RETURNS { tile.shuffle(value, actors.trailing_zeros()) } else { value };
        let done = if O::WRITES { tile.any(done) } else { holders != 0 };

        let progress = match (actors != 0, holders != 0) {
            (true, _) if !done => Progress::Again,
            (true, true) => Progress::Done(look.operation.outcome()),
            (true, false) => Progress::Done(Outcome::Inserted),
            (false, _) if places && waits => Progress::Again,
            (false, _) if places => Progress::Onward,
            (false, _) if (votes != 0) == P::FILTER => Progress::Onward,
            (false, _) => Progress::Done(Outcome::Absent),
        };
        if P::FILTER && rank == 0 && places && look.active && progress == Progress::Onward && !passed_on {
            bucket.filter().fetch_and(!Self::filter_bit(look.key), Order::Relaxed, Scope::Device);
        }
        (progress, value)
    }

    /// What the one acting lane does: change the pair that is there, or claim the empty slot.
    #[inline(always)]
    #[track_caller]
    fn act<O: Operation>(
        self,
        look: &Look<S, O>,
        bucket: Bucket<S, W, L>,
        rank: u32,
        lane: &Lane<S, L>,
        hits: u32,
        open: u32,
    ) -> (bool, S::Value) {
        let j = if hits != 0 { hits } else { open }.trailing_zeros();
        let (slot, word) = (bucket.slot(rank, j as usize), lane.pick(j));
        if hits == 0 {
            return (S::claim(slot, word, S::pack(look.key, look.argument)), look.argument);
        }
        let old = S::settle(slot, word);
        let done = match look.operation.change(old, look.argument) {
            Change::Keep => true,
            Change::Write(new) => S::replace(slot, word, S::pack(look.key, new)),
            Change::Erase => S::erase(slot, word),
        };
        (done, old)
    }

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
        let (outcome, value) = self.share(tile, tile.rank() == 0, operation, key, argument);
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
        let (stored, mut cursor) = self.start(key);
        let mut result = (Outcome::Absent, argument);
        share_work(tile, pending, |turn: Turn<W, C>| {
            let (bucket, last) = unpack(turn.from_owner(pack(cursor)));
            let slots = W * L as u32;
            let look = Look {
                operation: turn.from_owner(operation),
                key: turn.from_owner(stored),
                argument: if O::WRITES { turn.from_owner(argument) } else { argument },
                bucket,
                quota: if P::EXTRA > 0 { turn.from_owner(P::quota(cursor, slots)) } else { slots },
                active: turn.is_active(),
            };
            let (progress, value) = self.look(tile, look);
            let (finished, outcome) = match progress {
                Progress::Done(outcome) => (true, outcome),
                Progress::Onward if last && look.operation.places() => (true, Outcome::Refused),
                Progress::Onward => (last, Outcome::Absent),
                Progress::Again => (false, Outcome::Absent),
            };
            if turn.is_mine() {
                result = (outcome, value);
                if progress == Progress::Onward && !last {
                    P::advance(&mut cursor, hash(key), self.count);
                }
            }
            finished
        });
        result
    }
}

/// The bucket and whether it is the walk's last, in the one word that a shuffle moves.
#[inline(always)]
fn pack(cursor: Cursor) -> u32 {
    cursor.bucket | ((cursor.left == 1) as u32) << 31
}

#[inline(always)]
fn unpack(word: u32) -> (u32, bool) {
    (word & (u32::MAX >> 1), word >> 31 != 0)
}

impl<S: Slot, P: Probe, const W: u32, const L: usize> Config for Table<S, P, W, L>
where
    Self: Instance + Send + Sync,
{
    type Key = S::Key;
    type Value = S::Value;
    type Slot = S;
    const CAPACITY: u32 = W * L as u32 - Self::HEADER;
    const HEADER: u32 = Table::<S, P, W, L>::HEADER;
    const BUCKET_BYTES: usize = Bucket::<S, W, L>::BYTES;
    const EXTRA: u32 = P::EXTRA;
    const TILE: u32 = W;

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
