//! Counters of a structure's keys: warps add to them as they finish, in shards, so that their additions do
//! not contend.
use super::operation::Outcome;
use simt::{Global, Order, Scope, Thread, Tile, device};

/// Words from one shard of the counters to the next: each shard has a 32-byte sector, so that warps that
/// finish at the same time do not contend.
pub const SHARD_WORDS: usize = 4;
/// Number of shards of the counters.
pub const COUNTER_SHARDS: usize = 256;

/// One lane's change to the counters: keys added and slots taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct CounterDelta {
    live: u32,
    taken: u32,
}

#[device]
impl CounterDelta {
    /// Counts the outcome of one operation.
    pub fn count(&mut self, outcome: Outcome) {
        self.taken += (outcome == Outcome::Inserted) as u32;
        self.live = self
            .live
            .wrapping_add((outcome == Outcome::Inserted) as u32)
            .wrapping_sub((outcome == Outcome::Removed) as u32);
    }

    /// Counts `many` removed keys.
    pub fn remove(&mut self, many: u32) {
        self.live = self.live.wrapping_sub(many);
    }
}

/// Counters of a structure: [`COUNTER_SHARDS`] shards of { live keys, slots taken, long probe sequences }.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Counters(Global<u64>);

#[device(caller)]
impl Counters {
    /// Returns the counters at `words`.
    ///
    /// # Safety
    /// - `words` points to `COUNTER_SHARDS * SHARD_WORDS` words of device memory that outlive all uses of the
    ///   counters and are touched only by relaxed accesses meanwhile.
    #[device]
    pub unsafe fn new(words: Global<u64>) -> Self {
        Self(words)
    }

    /// Adds the deltas of the warp's lanes. All lanes call it together, once per launch.
    pub fn record(self, delta: CounterDelta) {
        let warp = Tile::<32>::lockstep();
        let (live, taken) = (warp.reduce_add(delta.live), warp.reduce_add(delta.taken));
        if warp.rank() == 0 && (live | taken) != 0 {
            self.add(live as i32 as i64 as u64, taken as u64);
        }
    }

    /// As [`Self::record`], but for the calling lane alone, with no requirement on the other lanes. Costs two
    /// atomic additions per lane.
    pub fn record_alone(self, delta: CounterDelta) {
        if (delta.live | delta.taken) != 0 {
            self.add(delta.live as i32 as i64 as u64, delta.taken as u64);
        }
    }

    /// Counts a long probe sequence of a writing operation, for the calling lane alone. If tombstones are the
    /// cause, the host rehashes.
    pub fn record_long(self) {
        self.add_word(2, 1);
    }

    /// Sets word `index` so that the counters report `live` keys, all in taken slots. One thread per word
    /// calls it. Requires exclusive access to the structure.
    pub(crate) fn reset(self, index: usize, live: u64) {
        if index < COUNTER_SHARDS * SHARD_WORDS {
            // SAFETY: the index is that of a word of the counters.
            let word = unsafe { self.0.offset(index) };
            word.store(if index < 2 { live } else { 0 }, Order::Relaxed, Scope::Device);
        }
    }

    /// Counts `many` new pairs, for the calling lane alone.
    pub(crate) fn add_pairs(self, many: u64) {
        self.add(many, many);
    }

    /// Returns the number of taken slots in shard `index`.
    pub(crate) fn taken(self, index: usize) -> u64 {
        // SAFETY: the shard index is reduced modulo the number of shards.
        let word = unsafe { self.0.offset(index % COUNTER_SHARDS * SHARD_WORDS + 1) };
        word.load(Order::Relaxed, Scope::Device)
    }

    /// Adds to the calling warp's shard.
    fn add(self, live: u64, taken: u64) {
        self.add_word(0, live);
        self.add_word(1, taken);
    }

    fn add_word(self, word: usize, many: u64) {
        let stripe = Thread::index() / 32 % COUNTER_SHARDS;
        // SAFETY: the shard index is reduced modulo the number of shards, and `word` is below `SHARD_WORDS`.
        let counter = unsafe { self.0.offset(stripe * SHARD_WORDS + word) };
        counter.fetch_add(many, Order::Relaxed, Scope::Device);
    }
}
