//! The probe loop: the one search that lookups, insertions, changes and removals of every probing scheme
//! share.
//!
//! ```text
//! for each bucket of the key's probe sequence
//!     read the bucket                                            all lanes of the tile, 16 bytes a load;
//!                                                                some lookups end at the load with the key
//!     vote: which lanes have the key, which an empty slot
//!     the key is there        lookup: return the value           no write
//!                             change: one atomic operation on the value half
//!                             removal: one compare-and-swap of the key half, to the tombstone
//!                             take, replace: one compare-and-swap of the slot, from the word that was read
//!     it is not, and a slot   insertion: one compare-and-swap of the slot
//!     is empty                others: the key is absent
//!     the bucket is full      insertion: set the key's bit in the bucket's filter, next bucket
//!                             others: next bucket if the bit is set, else the key is absent
//! ```
//!
//! A compare-and-swap that fails has met another operation: the tile reads the same bucket again in its next
//! round. A slot that was taken never becomes empty again while kernels run, and all operations on a key try
//! the same slots in the same order; so two insertions of one key meet at the same slot, and one of them
//! finds the other's pair. `docs/structures/hashmap.md` has the proof.
//!
//! [`Walk::round`] is one iteration. [`BucketProbe`] votes and acts.
use super::probing_scheme::{Cursor, Probe};
use super::table::{Config, MapView, Table};
use crate::keyed::{Bucket, BucketProbe, Operation, Outcome, Request, Scalar, Slot, hash};
use simt::{Convergence, CurrentOp, Global, Order, Scope, Tile, device, share_work};

impl<S: Slot, P: Probe, const W: u32, const L: usize> MapView<Table<S, P, W, L>>
where
    Table<S, P, W, L>: Config<Slot = S, Key = S::Key, Value = S::Value>,
{
    /// Executes the operations of all lanes that pass `pending`, each by the lane's tile, and returns to each
    /// lane its own result.
    #[device(caller)]
    pub fn share<O: Operation>(
        self,
        tile: Tile<W, impl Convergence>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        let (key, cursor) = self.start(key);
        let request = Request { operation, key, argument };
        let mut walk = Walk { map: self, request, cursor, outcome: Outcome::Absent };
        // mutation: skip barrier equivalent, because a session executes a barrier before the operation ends
        // for its caller, and within a tile the first lane alone sets and reads bits of filters.
        share_work(tile, pending, |turn| walk.round(turn));
        if O::WRITES && walk.cursor.is_long(self.count, self.max_probes) {
            self.counters.record_long();
        }
        (walk.outcome, walk.request.argument)
    }
}

/// The next probe of a tile, broadcast from the operation's owner.
#[derive(Clone, Copy)]
struct Route {
    bucket: u32,
    /// Whether the probe sequence ends with this bucket.
    last: bool,
    quota: u32,
}

/// One lane's operation during its search, as the work-sharing loop executes it: the one probe loop of every
/// scheme.
struct Walk<S: Slot, P, O, const W: u32, const L: usize> {
    map: MapView<Table<S, P, W, L>>,
    /// The lane's request. Its argument becomes the value that the operation returns, if any: until the
    /// operation is done, that is the argument.
    request: Request<S, O>,
    cursor: Cursor,
    outcome: Outcome,
}

#[device(caller)]
impl<S: Slot, P: Probe, O: Operation, const W: u32, const L: usize> Walk<S, P, O, W, L>
where
    Table<S, P, W, L>: Config<Slot = S, Key = S::Key, Value = S::Value>,
{
    /// Order of the loads.
    const LOADS: Order = {
        assert!(!(P::FROZEN && O::WRITES), "`Phased` is for lookups");
        if P::FROZEN { Order::Weak } else { Order::Relaxed }
    };

    /// Executes one round of the current operation: one probe, then the advance to the next bucket. Returns
    /// whether the operation is finished.
    fn round(&mut self, turn: CurrentOp<W, impl Convergence>) -> bool {
        let (tile, route) = (turn.tile(), self.route(turn));
        let request = self.request.from_owner(turn);
        let (rank, bucket) = (tile.rank(), self.bucket(route.bucket));
        let read = if !O::WRITES && L > S::PER_CHUNK && self.request.operation.reads_in_steps() {
            let is = |word: S::Word| S::key(word) == request.key;
            bucket.load_in_steps(tile, turn.is_active(), Self::LOADS, is)
        } else {
            bucket.load(rank, turn.is_active(), Self::LOADS)
        };
        let is_for = |j: u32| P::EXTRA_PROBES == 0 || rank * L as u32 + j < route.quota;
        let may_take = |j: u32, word: S::Word| Self::is_empty(word) && is_for(j);
        let probe = BucketProbe::new(tile, bucket, &read, &request, may_take);
        let (done, value) = probe.act(tile, turn.is_active(), &request);
        let onward = self.goes_on(turn, &request, route, probe.result.continues());
        if turn.is_mine() {
            self.outcome = request.conclude(probe.result.found, done);
            if O::RETURNS {
                self.request.argument = value;
            }
            if onward {
                self.cursor
                    .advance::<P>(hash(simt::black_box(self.request.key), self.map.seed), self.map.count);
            }
        }
        if S::PUBLISHES && probe.result.waits && !done {
            simt::spin_hint();
        }
        done || (probe.result.is_decided() && !onward)
    }

    /// Returns whether the search continues past a bucket. `through` is whether the bucket is full and does
    /// not contain the key. All lanes agree on the result.
    ///
    /// An inserting operation sets the key's overflow bit before the tile probes further, so that no search
    /// ends before the key; other operations consult the filter.
    fn goes_on(
        &self,
        turn: CurrentOp<W, impl Convergence>,
        request: &Request<S, O>,
        route: Route,
        through: bool,
    ) -> bool {
        let (tile, through) = (turn.tile(), through && !route.last);
        if P::FILTER_BITS == 0 {
            return through;
        }
        let asks = turn.is_active() && tile.rank() == 0 && through;
        let mut stops = false;
        if asks && request.places() {
            self.set_overflow(request.key, route.bucket);
        } else if asks {
            stops = !self.has_overflowed(request.key, route.bucket);
        }
        if O::WRITES {
            tile.sync();
        }
        let stops = !O::PLACES_ALWAYS && tile.any(stops);
        through && !stops
    }

    #[device]
    fn bucket(&self, index: u32) -> Bucket<S, W, L> {
        let words = Bucket::<S, W, L>::BYTES / 8;
        // SAFETY: cursors stay within the buckets and the overflow buckets that follow them, as `Probe`
        // promises.
        unsafe { Bucket::at(self.map.buckets.offset(index as usize * words)) }
    }

    /// Returns whether a slot is empty. An operation that reads no value compares the whole word all the
    /// same: otherwise the assembler reads only the key halves, by twice as many loads, and one key that all
    /// warps ask for is found at half the rate.
    #[device]
    fn is_empty(word: S::Word) -> bool {
        let reads_keys = O::WRITES && !O::RETURNS;
        if reads_keys && S::HAS_VALUE && size_of::<S::Word>() == 8 {
            return word == S::EMPTY;
        }
        S::is_empty(word)
    }

    fn route(&self, turn: CurrentOp<W, impl Convergence>) -> Route {
        let place = turn.from_owner(self.cursor.pack());
        let slots = W * L as u32;
        let quota = if P::EXTRA_PROBES > 0 { turn.from_owner(P::quota(self.cursor, slots)) } else { slots };
        Route { bucket: place & Cursor::BUCKET, last: place & Cursor::LAST != 0, quota }
    }

    /// Returns the key's bit in the bucket's filter, and the word that contains it. The bit depends on the
    /// key alone, so any lane can compute it: the top bits of a product.
    #[device]
    fn filter_bit(&self, key: S::Stored, bucket: u32) -> (Global<u32>, u32) {
        let key = key.to_u64();
        let mixed = ((key as u32) ^ ((key >> 32) as u32).rotate_left(16)).wrapping_mul(0x9e37_79b1);
        let (per_word, chosen) = (32 / P::FILTER_BITS, mixed >> (32 - P::FILTER_BITS.ilog2()));
        // SAFETY: the filters have bits for every bucket and overflow bucket.
        let word = unsafe { self.map.filters.offset((bucket / per_word) as usize) };
        (word, 1 << (bucket % per_word * P::FILTER_BITS + chosen))
    }

    /// Returns whether the key may have overflowed from the bucket, according to the filter (its bit is
    /// cleared).
    fn has_overflowed(&self, key: S::Stored, bucket: u32) -> bool {
        let (word, bit) = self.filter_bit(key, bucket);
        word.load_hot(Self::LOADS, Scope::Device) & bit == 0
    }

    /// Records in the filter that the key overflows from the bucket, for later searches.
    fn set_overflow(&self, key: S::Stored, bucket: u32) {
        let (word, bit) = self.filter_bit(key, bucket);
        word.fetch_and_hot(!bit, Order::Relaxed, Scope::Device);
    }
}
