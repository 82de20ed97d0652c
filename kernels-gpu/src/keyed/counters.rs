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

/// Counters of a structure: [`COUNTER_SHARDS`] shards of { live keys, slots taken, long probe sequences, skew
/// of the batches in some shards }.
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

    /// Returns the record of equal keys that the calling block uses.
    #[device]
    pub(crate) fn skew_hint(self) -> SkewHint {
        let shard = Thread::block_index() as usize % SkewHint::WORDS * (COUNTER_SHARDS / SkewHint::WORDS);
        // SAFETY: a shard of the counters, and the last of its words.
        SkewHint(unsafe { self.0.offset(shard * SHARD_WORDS + SHARD_WORDS - 1) })
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

/// Record of equal keys in a structure's recent batches. A batch with a skewed distribution of keys has equal
/// ones in most warps.
///
/// Some blocks of each batch are samples, and write whether they have seen equal keys; the others read this.
/// So a batch of many blocks finds out by itself, within its first hundreds of blocks. Batches of different
/// skew that follow each other, or run together, only cost time.
///
/// There are several words, so that the blocks' loads do not go to one sector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SkewHint(Global<u64>);

#[device(caller)]
impl SkewHint {
    /// Number of words.
    const WORDS: usize = 16;
    /// One in this many blocks with the same word is a sample.
    const PERIOD: usize = 32;
    /// Number of samples without equal keys after which batches are no longer skewed. A warp of
    /// Zipf-distributed keys (theta 0.99) lacks equal keys in one of seven cases.
    const PATIENCE: u64 = 8;

    /// Returns whether the calling block is a sample: the first one of a batch always is.
    #[device]
    pub(crate) fn is_sample() -> bool {
        (Thread::block_index() as usize / Self::WORDS).is_multiple_of(Self::PERIOD)
    }

    /// Returns whether a recent sample had equal keys.
    pub(crate) fn is_skewed(self) -> bool {
        self.0.load(Order::Relaxed, Scope::Device) != 0
    }

    /// Notes whether any lane of the first warp has seen equal keys, if the block is a sample. All threads of
    /// the block call it together. Other blocks may write meanwhile: a lost note is only one sample less.
    pub(crate) fn note(self, is_seen: bool) {
        if !Self::is_sample() {
            return;
        }
        let is_seen = Tile::<32>::lockstep().any(is_seen);
        if Thread::index_in_block() == 0 {
            let left = self.0.load(Order::Relaxed, Scope::Device);
            let new = if is_seen { Self::PATIENCE } else { left.saturating_sub(1) };
            if new != left {
                self.0.store(new, Order::Relaxed, Scope::Device);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simt::emulator::{Emulator, Options};
    use simt::{GlobalSlice, Grid, kernel};

    /// Notes equal keys, or none, and writes what each block knows afterwards.
    #[kernel]
    fn note_keys(words: GlobalSlice<u64>, equal: u32, seen: GlobalSlice<u64>) {
        // SAFETY: the words are as many as the counters need.
        let hint = unsafe { Counters::new(words.at(0)) }.skew_hint();
        // One lane of the first warp sees equal keys.
        hint.note(equal != 0 && Thread::index_in_block() == 5);
        if Thread::index_in_block() == 0 {
            seen.write(Thread::block_index() as usize, hint.is_skewed() as u64);
        }
    }

    fn zeroed(device: &Emulator, len: usize) -> GlobalSlice<u64> {
        let pointer = device.allocate(8 * len, 128);
        // SAFETY: just allocated with this size.
        unsafe {
            pointer.write_bytes(0, 8 * len);
            device.mark_initialized(pointer, 8 * len);
            GlobalSlice::from_raw_parts(pointer.cast(), len)
        }
    }

    fn read(slice: GlobalSlice<u64>) -> Vec<u64> {
        // SAFETY: no kernel is running, and the whole slice was initialized.
        (0..slice.len()).map(|index| unsafe { slice.at(index).as_ptr().read() }).collect()
    }

    #[test]
    fn samples_tell_the_other_blocks_and_forget_with_patience() {
        const BLOCKS: usize = 3 * SkewHint::WORDS;
        let device = Emulator::new(Options::default());
        let (words, seen) = (zeroed(&device, COUNTER_SHARDS * SHARD_WORDS), zeroed(&device, BLOCKS));
        let note = |equal: bool, blocks: usize| {
            let kernel = NoteKeys { words, equal: equal.into(), seen };
            device.launch(Grid::new(blocks as u32, 64), kernel).unwrap();
            read(seen)[..blocks].iter().filter(|&&seen| seen != 0).count()
        };
        // The first blocks are samples, and no other block writes.
        assert_eq!(note(true, 1), 1);
        assert_eq!(read(words).iter().sum::<u64>(), SkewHint::PATIENCE);
        note(true, BLOCKS);
        assert_eq!(note(true, BLOCKS), BLOCKS);
        let words = read(words);
        assert_eq!(words.iter().sum::<u64>(), SkewHint::PATIENCE * SkewHint::WORDS as u64);
        let counts = words.chunks(SHARD_WORDS).flat_map(|shard| &shard[..SHARD_WORDS - 1]);
        assert!(counts.into_iter().all(|&count| count == 0), "{words:?}");
        for launch in 1..=SkewHint::PATIENCE {
            let expected = if launch < SkewHint::PATIENCE { SkewHint::WORDS } else { 0 };
            assert_eq!(note(false, SkewHint::WORDS), expected, "launch {launch}");
        }
    }
}
