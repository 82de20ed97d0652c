//! One look of a tile at one bucket: it reads, votes, and one lane acts by one compare-and-swap.
use super::bucket::{Bucket, Lane, Spot};
use super::operation::{Change, Operation, Outcome};
use super::slot::{Scalar, Slot};
use simt::{Convergence, Global, Order, Scope, Tile, Turn};

/// What a tile needs to know of the operation whose turn it is, from its owner.
#[derive(Clone, Copy, Debug)]
pub struct Question<S: Slot, O> {
    /// The operation.
    pub operation: O,
    /// The key as it is stored.
    pub key: S::Stored,
    /// The argument.
    pub argument: S::Value,
}

impl<S: Slot, O: Operation> Question<S, O> {
    /// What the owner asks, told to every lane of the tile.
    #[inline(always)]
    #[track_caller]
    pub fn from_owner<const W: u32, C: Convergence>(self, turn: Turn<W, C>) -> Self {
        Self {
            operation: turn.from_owner(self.operation),
            key: turn.from_owner(self.key),
            argument: if O::WRITES { turn.from_owner(self.argument) } else { self.argument },
        }
    }

    /// Whether an absent key is to be placed. Constant where the operation cannot write.
    #[inline(always)]
    pub fn places(&self) -> bool {
        O::WRITES && self.operation.places()
    }

    /// What a slot that holds the operation's key, in `word`, holds after it.
    #[inline(always)]
    pub fn changed(&self, word: S::Word) -> S::Word {
        let (old, argument) = (S::value(word), self.argument);
        let new = match self.operation.change() {
            Change::Keep => return word,
            Change::Erase => return S::EMPTY,
            Change::Set => argument,
            Change::Add => old.wrapping_add(argument),
            Change::Min => old.min(argument),
            Change::Max => old.max(argument),
        };
        S::pack(self.key, new)
    }

    /// What the operation has come to, if this was its last look.
    #[inline(always)]
    pub fn conclude(&self, found: bool, done: bool) -> Outcome {
        let present = if found { self.operation.outcome() } else { Outcome::Inserted };
        let absent = if self.places() { Outcome::Refused } else { Outcome::Absent };
        if done { present } else { absent }
    }
}

/// What the votes of a tile say about a bucket. All lanes agree.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// The lanes that can act: that have the key, or else an empty slot for it.
    actors: u32,
    /// The tile has the key before it.
    pub found: bool,
    /// Nothing may be placed before another tile has shown its pair.
    pub waits: bool,
    /// There is no empty slot where the walk stands.
    full: bool,
}

impl Verdict {
    /// Nobody can act here, nor has to wait.
    #[inline(always)]
    pub fn is_over(&self) -> bool {
        self.actors == 0 && !self.waits
    }

    /// The bucket is full and does not have the key: the key may be further on.
    #[inline(always)]
    pub fn leads_on(&self) -> bool {
        self.is_over() && self.full
    }
}

/// A bucket that a tile has read, as one lane sees it.
#[derive(Clone, Copy, Debug)]
pub struct Look<S: Slot, const W: u32, const L: usize> {
    bucket: Bucket<S, W, L>,
    hit: Spot<S::Word>,
    open: Spot<S::Word>,
    /// What the tile makes of it.
    pub verdict: Verdict,
}

impl<S: Slot, const W: u32, const L: usize> Look<S, W, L> {
    /// Judges what the tile has read of a bucket. Two votes tell whether the key is there, and whether there
    /// is an empty slot for it, which is also where a search ends. An empty slot counts where `may_take(j)`
    /// says so of the lane's slot `j`.
    #[inline(always)]
    #[track_caller]
    pub fn at<O: Operation, C: Convergence>(
        tile: Tile<W, C>,
        bucket: Bucket<S, W, L>,
        lane: &Lane<S, L>,
        question: &Question<S, O>,
        may_take: impl Fn(u32) -> bool,
    ) -> Self {
        let hit = lane.first(|_, word| question.operation.matches() && S::key(word) == question.key);
        let open = lane.first(|j, word| S::is_empty(word) && may_take(j));
        let holders = tile.ballot(hit.exists);
        let empties = tile.ballot(open.exists);
        let waits = O::WRITES && S::PUBLISHES && tile.any(lane.first(|_, word| S::is_busy(word)).exists);
        let places = question.places();
        let actors = if holders == 0 && places && !waits { empties } else { holders };
        let verdict = Verdict { actors, found: holders != 0, full: empties == 0, waits: places && waits };
        Self { bucket, hit, open, verdict }
    }

    /// Lets the one lane act that can, if the tile is active. Returns all lanes whether the operation is
    /// done, and the value that was there.
    #[inline(always)]
    #[track_caller]
    pub fn act<O: Operation, C: Convergence>(
        &self,
        tile: Tile<W, C>,
        active: bool,
        question: &Question<S, O>,
    ) -> (bool, S::Value) {
        let (verdict, rank) = (self.verdict, tile.rank());
        let actor = verdict.actors.trailing_zeros();
        let acts = active && verdict.actors != 0 && rank == actor;
        let (done, value) = if acts { self.act_alone(rank, question) } else { (false, question.argument) };
        let value = if O::RETURNS { tile.shuffle(value, actor) } else { value };
        let done = if O::WRITES { tile.any(done) } else { verdict.found };
        (done, value)
    }

    /// What the one acting lane does: change the pair that is there, or claim the empty slot. Returns whether
    /// nothing came between, and what was there.
    #[inline(always)]
    #[track_caller]
    fn act_alone<O: Operation>(&self, rank: u32, question: &Question<S, O>) -> (bool, S::Value) {
        let spot = if self.hit.exists || !O::WRITES { self.hit } else { self.open };
        // SAFETY: the rank of a lane of the tile, and one of its slots.
        let slot = unsafe { self.bucket.slot(rank, spot.j as usize) };
        if O::WRITES && !self.hit.exists {
            let pair = S::pack(question.key, question.argument);
            return (S::claim(slot, pair), question.argument);
        }
        Self::change(question, slot, spot.word)
    }

    /// Changes the pair of a slot that was seen to hold `word`. Returns whether nothing came between (only
    /// removals meet), and the value that was there.
    #[inline(always)]
    #[track_caller]
    fn change<O: Operation>(
        question: &Question<S, O>,
        slot: Global<S::Word>,
        word: S::Word,
    ) -> (bool, S::Value) {
        let (value, argument) = (S::value_place(slot), question.argument);
        let (order, scope) = (Order::Relaxed, Scope::Device);
        if S::HAS_VALUE && !matches!(question.operation.change(), Change::Erase | Change::Keep) {
            S::acquire_pair(slot);
        }
        match question.operation.change() {
            Change::Erase => (S::erase(slot, question.key), argument),
            _ if !S::HAS_VALUE => (true, argument),
            Change::Keep => (true, S::settle(slot, word)),
            Change::Set if !O::RETURNS => {
                value.store(argument, order, scope);
                (true, argument)
            }
            Change::Set => (true, value.exchange(argument, order, scope)),
            Change::Add => (true, value.fetch_add(argument, order, scope)),
            Change::Min => (true, value.fetch_min(argument, order, scope)),
            Change::Max => (true, value.fetch_max(argument, order, scope)),
        }
    }
}
