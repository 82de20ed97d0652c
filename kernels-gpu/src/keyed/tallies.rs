//! How many keys a structure holds: counted where warps finish, in stripes, so that they do not queue.
use super::operation::Outcome;
use simt::{Global, Order, Scope, Thread, Tile};

/// Words between two stripes of the tallies: a sector of 32 bytes each, so that warps that finish together do
/// not queue.
pub const STRIPE_WORDS: usize = 4;
/// Stripes of the tallies.
pub const STRIPES: usize = 256;

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

    /// Counts `many` keys that went.
    #[inline(always)]
    pub fn remove(&mut self, many: u32) {
        self.live = self.live.wrapping_sub(many);
    }
}

/// A structure's counters: [`STRIPES`] stripes of { live keys, slots taken, long walks }.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Tallies(Global<u64>);

impl Tallies {
    /// The counters at `words`.
    ///
    /// # Safety
    /// - `words` are `STRIPES * STRIPE_WORDS` words of device memory that live as long as these are used, and
    ///   that only relaxed accesses touch meanwhile.
    #[inline(always)]
    pub unsafe fn new(words: Global<u64>) -> Self {
        Self(words)
    }

    /// Adds what the lanes of the warp have counted. All lanes call it together, once a launch.
    #[inline(always)]
    #[track_caller]
    pub fn record(self, tally: Tally) {
        let warp = Tile::<32>::lockstep();
        let (live, taken) = (warp.reduce_add(tally.live), warp.reduce_add(tally.taken));
        if warp.rank() == 0 && (live | taken) != 0 {
            self.add(live as i32 as i64 as u64, taken as u64);
        }
    }

    /// As [`Self::record`] for the calling lane alone, wherever the others are. Costs two additions in memory
    /// a lane.
    #[inline(always)]
    #[track_caller]
    pub fn record_alone(self, tally: Tally) {
        if (tally.live | tally.taken) != 0 {
            self.add(tally.live as i32 as i64 as u64, tally.taken as u64);
        }
    }

    /// Counts a writing walk that has become long, for the calling lane alone: the host makes room where
    /// removed keys are the reason.
    #[inline(always)]
    #[track_caller]
    pub fn record_long(self) {
        self.add_word(2, 1);
    }

    /// Sets a word: what thread `index` does where as many threads as there are words say that there are
    /// `live` keys. Runs alone.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn reset(self, index: usize, live: u64) {
        if index < STRIPES * STRIPE_WORDS {
            // SAFETY: a word of the tallies.
            let word = unsafe { self.0.offset(index) };
            word.store(if index < 2 { live } else { 0 }, Order::Relaxed, Scope::Device);
        }
    }

    /// The slots that stripe `index` says were taken.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn taken(self, index: usize) -> u64 {
        // SAFETY: the stripe is one of the tallies'.
        let word = unsafe { self.0.offset(index % STRIPES * STRIPE_WORDS + 1) };
        word.load(Order::Relaxed, Scope::Device)
    }

    /// Adds to a stripe.
    #[inline(always)]
    #[track_caller]
    fn add(self, live: u64, taken: u64) {
        self.add_word(0, live);
        self.add_word(1, taken);
    }

    #[inline(always)]
    #[track_caller]
    fn add_word(self, word: usize, many: u64) {
        let stripe = Thread::index() / 32 % STRIPES;
        // SAFETY: the stripe is one of the tallies', and the word one of its.
        let counter = unsafe { self.0.offset(stripe * STRIPE_WORDS + word) };
        counter.fetch_add(many, Order::Relaxed, Scope::Device);
    }
}
