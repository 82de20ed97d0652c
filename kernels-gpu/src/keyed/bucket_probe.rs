//! One probe of a bucket by a tile: the tile reads the bucket and votes, and one lane acts by one
//! compare-and-swap.
use super::bucket::{Bucket, Lane, SlotMatch};
use super::operation::{Change, Operation, Outcome};
use super::slot::{Scalar, Slot};
use simt::{Convergence, CurrentOp, Global, Order, Scope, Tile, device};

/// The data of the current operation that a tile needs from its owner.
#[derive(Clone, Copy, Debug)]
pub struct Request<S: Slot, O> {
    /// The operation.
    pub operation: O,
    /// The key in its stored form.
    pub key: S::Stored,
    /// The argument of the operation.
    pub argument: S::Value,
}

#[device]
impl<S: Slot, O: Operation> Request<S, O> {
    /// Broadcasts the owner's request to every lane of the tile.
    #[device(caller)]
    #[allow(clippy::wrong_self_convention)] // named like `CurrentOp::from_owner`
    pub fn from_owner<const W: u32>(self, turn: CurrentOp<W, impl Convergence>) -> Self {
        Self {
            operation: turn.from_owner(self.operation),
            key: turn.from_owner(self.key),
            argument: if O::WRITES { turn.from_owner(self.argument) } else { self.argument },
        }
    }

    /// Returns whether an absent key is to be inserted. Constant if the operation cannot write.
    pub fn places(&self) -> bool {
        O::WRITES && self.operation.places()
    }

    /// Returns the new word of a slot that contains the operation's key and has the word `word` before it.
    pub fn changed(&self, word: S::Word) -> S::Word {
        let (old, argument) = (S::value(word), self.argument);
        let new = match self.operation.change() {
            Change::Keep => return word,
            Change::Erase => return S::EMPTY,
            Change::Set => argument,
            Change::Add => old.wrapping_add(argument),
            Change::AddSigned => old.add_signed(argument),
            Change::AddFloat => old.add_float(argument),
            Change::Min => old.min(argument),
            Change::Max => old.max(argument),
        };
        S::pack(self.key, new)
    }

    /// Changes the value of a pair by one atomic operation on the value half of its slot. Returns the
    /// previous value. The operation is one that changes values.
    #[device(caller)]
    pub(crate) fn change_value(&self, slot: Global<S::Word>) -> S::Value {
        let (value, argument) = (S::value_part(slot), self.argument);
        let (order, scope) = (Order::Relaxed, Scope::Device);
        match self.operation.change() {
            // Also where the old value is ignored: measured, atomics on one address run several times as
            // fast as stores to it.
            Change::Set | Change::Keep | Change::Erase => value.exchange(argument, order, scope),
            Change::Add => value.fetch_add(argument, order, scope),
            Change::AddSigned => value.fetch_add(argument.signed_addend(), order, scope),
            Change::AddFloat => add_float(value, argument),
            Change::Min => value.fetch_min(argument, order, scope),
            Change::Max => value.fetch_max(argument, order, scope),
        }
    }

    /// Returns the value that the operation makes of a present one, or an arbitrary one if it removes it.
    pub(crate) fn changed_value(operation: O, old: S::Value, argument: S::Value) -> S::Value {
        let request = Self { operation, key: S::Stored::default(), argument };
        S::value(request.changed(S::pack(request.key, old)))
    }

    /// Returns the outcome of the operation if this was its last probe.
    pub fn conclude(&self, found: bool, done: bool) -> Outcome {
        let present = if found { self.operation.outcome() } else { Outcome::Inserted };
        let absent = if self.places() { Outcome::Refused } else { Outcome::Absent };
        if done { present } else { absent }
    }
}

/// Result of a tile's votes on a bucket. All lanes agree on it.
#[derive(Clone, Copy, Debug)]
pub struct ProbeResult {
    /// Mask of the lanes that can act: those that found the key or, if none did, an empty slot for it.
    actors: u32,
    /// Whether the bucket contains the key.
    pub found: bool,
    /// Whether the operation must wait until another tile has published its pair.
    pub waits: bool,
    /// Whether the bucket has no empty slot that the operation may take.
    full: bool,
}

#[device]
impl ProbeResult {
    /// Returns whether no lane can act and none has to wait.
    pub fn is_decided(&self) -> bool {
        self.actors == 0 && !self.waits
    }

    /// Returns whether the bucket is full and does not contain the key, so that the key may be in a later
    /// bucket.
    pub fn continues(&self) -> bool {
        self.is_decided() && self.full
    }
}

/// A bucket that a tile has read, as one lane sees it.
#[derive(Clone, Copy, Debug)]
pub struct BucketProbe<S: Slot, const W: u32, const L: usize> {
    bucket: Bucket<S, W, L>,
    hit: SlotMatch<S::Word>,
    /// Whether another slot of the lane has the key, too.
    is_hit_twice: bool,
    /// The lane's first empty slot, or other slot that the operation may take.
    pub open: SlotMatch<S::Word>,
    /// Result of the tile's votes.
    pub result: ProbeResult,
}

#[device(caller)]
impl<S: Slot, const W: u32, const L: usize> BucketProbe<S, W, L> {
    /// Evaluates a bucket that the tile has read. Two votes determine whether the key is present and whether
    /// there is an empty slot for it; an empty slot also ends a search. Slot `j` of the lane counts as an
    /// empty one for the key if `may_take(j, word)`.
    ///
    /// Loads may show a removed pair of a key as it was, beside the key's next pair. If several slots have
    /// the key, an operation that writes takes the first one, if [`Self::act`] finds that it is there. One
    /// that only reads takes the last one, since pairs are appended in the order of slots, without a check,
    /// which would take 4 % of the time of lookups. With [`Operation::OF_MANY`] the first one counts.
    pub fn new<O: Operation>(
        tile: Tile<W, impl Convergence>,
        bucket: Bucket<S, W, L>,
        lane: &Lane<S, L>,
        request: &Request<S, O>,
        may_take: impl Fn(u32, S::Word) -> bool,
    ) -> Self {
        let is_hit = |_, word| request.operation.matches() && S::key(word) == request.key;
        let hit = if Self::takes_last::<O>() { lane.last(0, is_hit) } else { lane.first(is_hit) };
        let is_hit_twice = Self::checks::<O>() && lane.last(0, is_hit).index != hit.index;
        let open = lane.first(may_take);
        let holders = tile.ballot(hit.exists);
        let empties = tile.ballot(open.exists);
        let waits = O::WRITES && S::PUBLISHES && tile.any(lane.first(|_, word| S::is_busy(word)).exists);
        let places = request.places();
        let actors = if holders == 0 && places && !waits { empties } else { holders };
        let verdict = ProbeResult { actors, found: holders != 0, full: empties == 0, waits: places && waits };
        Self { bucket, hit, is_hit_twice, open, result: verdict }
    }

    /// Returns whether the last of several slots with the key counts, and not the first one.
    const fn takes_last<O: Operation>() -> bool {
        !O::WRITES && !O::OF_MANY
    }

    /// Returns whether the first of several slots with the key is checked.
    const fn checks<O: Operation>() -> bool {
        O::WRITES && !O::OF_MANY
    }

    /// Lets the lane of the slot that counts act, or the first one with an empty slot, if the tile is active.
    /// Returns to all lanes whether the operation is done, and the previous value.
    pub fn act<O: Operation>(
        &self,
        tile: Tile<W, impl Convergence>,
        active: bool,
        request: &Request<S, O>,
    ) -> (bool, S::Value) {
        let (verdict, rank) = (self.result, tile.rank());
        let (actors, takes_last) = (verdict.actors, Self::takes_last::<O>() && verdict.found);
        let actor = if takes_last { 31 - actors.leading_zeros() } else { actors.trailing_zeros() };
        let acts = active && actors != 0 && rank == actor;
        let (done, value) = if acts { self.act_alone(rank, request) } else { (false, request.argument) };
        let value = if O::RETURNS { tile.shuffle(value, actor) } else { value };
        let done = if O::WRITES { tile.any(done) } else { verdict.found };
        (done, value)
    }

    /// Executes the action of the one acting lane: changes the present pair, or claims the empty slot.
    /// Returns whether no concurrent operation interfered, and the previous value.
    fn act_alone<O: Operation>(&self, rank: u32, request: &Request<S, O>) -> (bool, S::Value) {
        let found = if self.hit.exists || !O::WRITES { self.hit } else { self.open };
        // SAFETY: `rank` is the rank of a lane of the tile, and `j` the index of one of its slots.
        let slot = unsafe { self.bucket.slot(rank, found.index as usize) };
        if O::WRITES && !self.hit.exists {
            let pair = S::pack(request.key, request.argument);
            return (S::claim(slot, pair), request.argument);
        }
        // If each key has one pair, all but one of the slots were read as they had been before.
        if Self::checks::<O>() && self.is_among_several() && !still_has::<S>(slot, request.key) {
            return (false, request.argument);
        }
        Self::change(request, slot, found.word)
    }

    /// Returns whether other slots of the bucket have the key as well, in the acting lane.
    fn is_among_several(&self) -> bool {
        let holders = self.result.actors;
        self.is_hit_twice || holders & holders.wrapping_sub(1) != 0
    }

    /// Changes the pair of a slot that was read as `word`. Returns whether no concurrent operation interfered
    /// (only removals conflict, and with operations that exchange also changes of the value), and the
    /// previous value.
    fn change<O: Operation>(
        request: &Request<S, O>,
        slot: Global<S::Word>,
        word: S::Word,
    ) -> (bool, S::Value) {
        let argument = request.argument;
        if S::HAS_VALUE && !matches!(request.operation.change(), Change::Erase | Change::Keep) {
            S::acquire_pair(slot);
        }
        match request.operation.change() {
            Change::Erase if O::EXCHANGES => exchanged(S::take(slot, word), argument),
            Change::Erase => (S::erase(slot, request.key), argument),
            _ if !S::HAS_VALUE => (true, argument),
            Change::Keep => (true, S::read_value(slot, word)),
            Change::Set if O::EXCHANGES => exchanged(S::replace(slot, word, argument), argument),
            _ => (true, request.change_value(slot)),
        }
    }
}

/// Returns whether a slot has the key part that a load returned, which may be an old one. A compare-and-swap
/// of it with itself determines that, and later loads of the thread return nothing older.
#[device(caller)]
pub(crate) fn still_has<S: Slot>(slot: Global<S::Word>, key: S::Stored) -> bool {
    // mutation: skip equivalent, because it writes the word that is there.
    S::key_part(slot).compare_exchange(key, key, Order::Relaxed, Scope::Device).is_ok()
}

/// Returns whether a pair was exchanged, and its old value or, if not, `argument`.
#[device]
fn exchanged<V>(old: Option<V>, argument: V) -> (bool, V) {
    (old.is_some(), old.unwrap_or(argument))
}

/// Adds the float of a word to the float at `value` by one compare-and-swap, after as many futile ones as
/// other operations change the value meanwhile. Returns the previous word.
#[device(caller)]
fn add_float<V: Scalar>(value: Global<V>, argument: V) -> V {
    let mut old = value.load(Order::Relaxed, Scope::Device);
    loop {
        match value.compare_exchange(old, old.add_float(argument), Order::Relaxed, Scope::Device) {
            Ok(_) => return old,
            Err(found) => old = found,
        }
    }
}
