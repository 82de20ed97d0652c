//! The search of a key: the one probe loop of lookups, changes and insertions.
//!
//! ```text
//! for each of the key's buckets
//!     for each step of the bucket, from the key's sector on      a step: one sector, or the whole line
//!         read the digests                                      all lanes of the tile, 16 bytes a load
//!         compare the keys of the slots with the key's digest   0.13 wrong ones a sector
//!         a slot has the key         end: present
//!         a slot is EMPTY            next bucket: an insertion would have used this slot
//! ```
//!
//! An insertion fills the sectors of a bucket in the order in which searches read them, and no slot becomes
//! EMPTY again: a removed key leaves ERASED. So a sector with an EMPTY slot ends the search of the bucket.
use super::digest::{ByteSet, Digest, Digests};
use super::hashed::Hashed;
use super::layout::{DIGEST_WORDS, NOWHERE, SLOTS, word_of};
use super::mode::{End, Mode, Sought};
use super::view::{CacheView, Config};
use simt::{Convergence, CurrentOp, Order, Scope, Tile, bound, device, recheck, share_work};

/// Searches the keys of all lanes that pass `pending`: see [`Config::search`].
#[device]
pub(super) fn search<C: Config, M: Mode, const W: u32, const N: usize>(
    view: CacheView<C>,
    pending: bool,
    key: C::Key,
) -> Sought {
    let hashed = Hashed::of(key, view.seed());
    let mut walk = Walk::<C, M, W, N> {
        view,
        key,
        hashed,
        step: 0,
        load: 0,
        free: (Sought::NOTHING, u32::MAX),
        result: Sought::NOTHING,
        mode: core::marker::PhantomData,
    };
    share_work(Tile::<W>::lockstep(), pending, |turn| walk.round(turn));
    walk.result
}

/// One lane's search, as the work-sharing loop executes it.
struct Walk<C: Config, M, const W: u32, const N: usize> {
    view: CacheView<C>,
    key: C::Key,
    hashed: Hashed,
    /// Number of steps done, over all buckets.
    step: u32,
    /// Number of slots of the current bucket that are known to be taken.
    load: u32,
    /// The free slot of the bucket with the fewest taken slots so far, and their number.
    free: (Sought, u32),
    result: Sought,
    mode: core::marker::PhantomData<M>,
}

/// Result of a step of a tile; the same in all its lanes.
#[derive(Clone, Copy)]
struct Step {
    found: Sought,
    free: Sought,
    /// Number of taken slots.
    load: u32,
    has_empty: bool,
    has_busy: bool,
}

#[device]
impl<C: Config, M: Mode, const W: u32, const N: usize> Walk<C, M, W, N> {
    /// Steps in a bucket.
    const STEPS: u32 = {
        let steps = DIGEST_WORDS / (W * N as u32);
        assert!(steps == 1 || steps == 4, "a step reads a sector or a whole line of digests");
        steps
    };
    /// Bit of a step's description: the last one of its bucket.
    const LAST: u32 = 1 << 8;
    /// Bit of a step's description: a step in the last bucket.
    const LAST_BUCKET: u32 = 1 << 9;

    /// Executes one step of the current search. Returns whether it is finished.
    fn round(&mut self, turn: CurrentOp<W, impl Convergence>) -> bool {
        let (first, about) = (turn.from_owner(self.first_word()), turn.from_owner(self.description()));
        let key = turn.from_owner(self.key);
        let step = self.read(turn, (first, Digest::from_byte(about)), key);
        let leaves = Self::STEPS == 1 || step.has_empty || about & Self::LAST != 0;
        let is_last_bucket = about & Self::LAST_BUCKET != 0;
        let found = step.found.position != NOWHERE;
        if turn.is_mine() {
            self.note(step, leaves, leaves && is_last_bucket);
        }
        found || (leaves && is_last_bucket)
    }

    /// Returns the first word of digests of the next step.
    #[device]
    fn first_word(&self) -> u32 {
        let sector = (self.hashed.sector() + self.step) % Self::STEPS;
        self.bucket() * DIGEST_WORDS + sector * (DIGEST_WORDS / Self::STEPS)
    }

    /// Returns the digest of the key, and whether the next step is the last one of its bucket, and is in the
    /// last bucket.
    #[device]
    fn description(&self) -> u32 {
        let is_last = self.step % Self::STEPS == bound(Self::STEPS - 1);
        let is_last_bucket = self.step / Self::STEPS + 1 == bound(self.view.choices());
        let bits = if is_last { Self::LAST } else { 0 } | if is_last_bucket { Self::LAST_BUCKET } else { 0 };
        self.hashed.digest().byte() | bits
    }

    /// Reads the digests from the word `first` on, and looks for the key among those that equal `digest`.
    fn read(
        &self,
        turn: CurrentOp<W, impl Convergence>,
        (first, digest): (u32, Digest),
        key: C::Key,
    ) -> Step {
        let (tile, active) = (turn.tile(), turn.is_active());
        // SAFETY: buckets and sectors are those of the table.
        let digests = unsafe { self.view.read::<N>(first, (tile.rank(), W), active) };
        let mine = if active { self.compare(first, &digests, digest, key) } else { NOWHERE };
        let found = chosen::<M, W>(tile, End::Present, self.slot(first, &digests, mine));
        // If a step reads a whole bucket, it is the bucket's last one anyway.
        let has_empty = Self::STEPS > 1 && tile.any(active && !digests.equal_to(Digest::EMPTY).is_empty());
        let mut step = Step { found, free: Sought::NOTHING, load: 0, has_empty, has_busy: false };
        if M::WAITS {
            step.has_busy = tile.any(active && !digests.equal_to(Digest::BUSY).is_empty());
        }
        if M::PLACES {
            let free = digests.free();
            let exists = active && !free.is_empty();
            let mine = if exists { self.position(first, free.first()) } else { NOWHERE };
            step.free = chosen::<M, W>(tile, End::Free, self.slot(first, &digests, mine));
            step.load = if self.view.choices() > 1 { tile.reduce_add(4 * N as u32 - free.len()) } else { 0 };
        }
        step
    }

    /// Returns the position of the slot of a digest that this lane has read, by its word and byte.
    #[device]
    fn position(&self, first: u32, (word, byte): (u32, u32)) -> u32 {
        let rank = Tile::<W>::lockstep().rank();
        (first + word_of(rank, W, word)) * 4 + byte
    }

    /// Returns a slot of a digest that this lane has read, or of none if the position is [`NOWHERE`].
    #[device]
    fn slot(&self, first: u32, digests: &Digests<N>, position: u32) -> Sought {
        // The inverse of `word_of`.
        let index = (position / 4).wrapping_sub(first);
        let seen = digests.word(index / (4 * W) * 4 + index % 4);
        Sought { end: End::Present, position, seen }
    }

    /// Returns the position of the slot among those of this lane that has the key, or [`NOWHERE`].
    fn compare(&self, first: u32, digests: &Digests<N>, digest: Digest, key: C::Key) -> u32 {
        let mut candidates = if C::USES_DIGESTS { digests.equal_to(digest) } else { digests.taken() };
        let mut found = NOWHERE;
        while !candidates.is_empty() {
            let position = self.position(first, candidates.first());
            // SAFETY: the position is that of a digest that was read. Its key was written before the digest.
            // mutation: early equivalent, because a digest and its key are read without an order anyway: a
            // change or lookup that finds the key compares it again, and one may miss a key that is placed
            // meanwhile.
            let is_same = unsafe { self.view.key(position) }.load(Order::Relaxed, Scope::Device) == key;
            found = if is_same { position } else { NOWHERE };
            candidates = if is_same { ByteSet::NOTHING } else { candidates.without_first() };
        }
        found
    }

    /// Notes what the tile found for the lane's own search. `leaves` is whether the search of the bucket ends
    /// with this step, `ends` whether that of the last bucket does.
    #[device]
    fn note(&mut self, step: Step, leaves: bool, ends: bool) {
        if step.found.position != NOWHERE {
            self.result = step.found;
            return;
        }
        if M::WAITS && !recheck(!step.has_busy) {
            self.result = Sought { end: End::Locked, ..Sought::NOTHING };
        }
        if M::PLACES {
            self.load += step.load;
            self.note_free(step.free, leaves);
            if ends {
                self.result = self.free.0;
            }
        }
        self.step = if leaves { (self.step / Self::STEPS + 1) * Self::STEPS } else { self.step + 1 };
    }

    /// Keeps the free slot if it is the first of a bucket with fewer taken slots than the one before.
    #[device]
    fn note_free(&mut self, free: Sought, leaves: bool) {
        let of_this = self.free.0.position / SLOTS == self.bucket() && self.free.0.position != NOWHERE;
        if free.position != NOWHERE && !of_this && self.load < self.free.1 {
            self.free = (free, self.load);
        }
        if leaves {
            self.load = 0;
        }
    }

    /// Returns the bucket of the next step.
    #[device]
    fn bucket(&self) -> u32 {
        self.hashed.bucket(self.step / Self::STEPS, self.view.buckets())
    }
}

/// Returns the slot of the first lane that has one, in all lanes of the tile, as the result of a search that
/// ends so. Only a search that precedes a lock returns the digests.
#[device(caller)]
fn chosen<M: Mode, const W: u32>(tile: Tile<W, impl Convergence>, end: End, mine: Sought) -> Sought {
    let holders = tile.ballot(mine.position != NOWHERE);
    let holder = holders.trailing_zeros() % W;
    let position = tile.shuffle(mine.position, holder);
    let seen = if M::LOCKS { tile.shuffle(mine.seen, holder) } else { 0 };
    if holders == 0 { Sought::NOTHING } else { Sought { end, position, seen } }
}
