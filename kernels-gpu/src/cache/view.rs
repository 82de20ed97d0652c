//! The table as kernels see it: access to its digests, keys, scores and rows, and locks of slots.
use super::digest::{Digest, Digests, free_bytes};
use super::layout::{Blocks, NOWHERE, Record, SLOTS, block, word_of};
use super::mode::{Mode, Sought};
use super::policy::ScorePolicy;
use super::summary::Summary;
use crate::keyed::{Chunk, Scalar};
use simt::{Global, GlobalSlice, Order, Scope, device, recheck};

/// The types of a [`Cache`](super::Cache), and the search of its tiles.
pub trait Config: Copy + Send + Sync + 'static {
    /// Type of the keys.
    type Key: Scalar;
    /// Type of the scores.
    type Score: Scalar;
    /// Policy of the scores.
    type Policy: ScorePolicy<Self::Score>;
    /// Whether a search compares only the keys of slots with the key's digest.
    const USES_DIGESTS: bool;

    /// Searches the keys of all lanes that pass `pending`, each by the lane's tile. All lanes of the warp
    /// call it together.
    #[doc(hidden)]
    fn search<M: Mode>(view: CacheView<Self>, pending: bool, key: Self::Key) -> Sought;
}

/// Memory of the rows, by position: a slot's row has no pointer. Each bucket's first slots have their rows in
/// the near part, the others in the far part.
///
/// ```
/// use phalanx_kernels::cache::{Rows, SLOTS};
///
/// /// Describes rows of four words, those of half the slots in host memory.
/// ///
/// /// # Safety
/// /// - As for `Rows::new`.
/// unsafe fn halves(near: *mut u32, far: *mut u32) -> Rows {
///     // SAFETY: the caller's obligation.
///     let rows = unsafe { Rows::new(near, far, SLOTS / 2, 4) };
///     assert!(rows.words() == 4);
///     rows
/// }
/// ```
///
/// ```text
/// near:  bucket 0: rows of slots 0 .. n-1   | bucket 1: rows of slots 0 .. n-1   | ...
/// far:   bucket 0: rows of slots n .. 127   | bucket 1: rows of slots n .. 127   | ...
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    near: Global<u32>,
    far: Global<u32>,
    /// Number of slots of a bucket whose rows are in the near part.
    near_slots: u32,
    /// Words in a row.
    words: u32,
}

#[device]
impl Rows {
    /// Describes rows of `words` words, `near_slots` of each bucket in the near part.
    ///
    /// # Safety
    /// - `near` points to `near_slots` rows for each bucket of the table, `far` to `SLOTS - near_slots`,
    ///   aligned to 16 bytes, of memory that the device can access and that outlives all uses.
    /// - `near_slots` is at most [`SLOTS`], and `words` is from 1 to 1024.
    pub unsafe fn new(near: *mut u32, far: *mut u32, near_slots: u32, words: u32) -> Self {
        // SAFETY: the caller's obligations. Operations access a row by weak accesses only while the slot is
        // theirs or nothing writes.
        let (near, far) = unsafe { (Global::new(near), Global::new(far)) };
        Self { near, far, near_slots, words }
    }

    /// Returns the number of words in a row.
    pub fn words(self) -> u32 {
        self.words
    }

    /// Returns the number of slots of a bucket whose rows are in the near part.
    pub(super) fn near_slots(self) -> u32 {
        self.near_slots
    }

    /// Returns whether the row of a slot is in the far part.
    pub(super) fn is_far(self, position: u32) -> bool {
        position % SLOTS >= self.near_slots
    }

    /// Returns the row of a slot.
    ///
    /// # Safety
    /// - The position is that of a slot of the table.
    pub(super) unsafe fn of(self, position: u32) -> Global<u32> {
        let (bucket, slot) = ((position / SLOTS) as usize, position % SLOTS);
        let is_near = !self.is_far(position);
        let far_slots = SLOTS - self.near_slots;
        let row = if is_near {
            bucket * self.near_slots as usize + slot as usize
        } else {
            bucket * far_slots as usize + (slot - self.near_slots) as usize
        };
        let base = if is_near { self.near } else { self.far };
        // SAFETY: the part has rows for this many slots of every bucket.
        unsafe { base.offset(row * self.words as usize) }
    }
}

/// Number of words of [`CacheView::to_words`].
pub const VIEW_WORDS: usize = 10;

/// Returns the low and the high half of a word.
#[device]
fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// A cache table as a kernel sees it.
///
/// ```
/// use phalanx_kernels::cache::{BuiltIn, Cache, CacheView, Record, RowSlice, Rows, SLOTS, Summary, block};
/// use simt::GlobalSlice;
///
/// type Kind = Cache<u64, u64, BuiltIn, 8, 4>;
///
/// /// Returns the view of a table of one bucket, with rows of 8 words in one part of memory.
/// ///
/// /// # Safety
/// /// - As for `CacheView::new` and `Rows::new`.
/// unsafe fn view(
///     digests: *mut u32,
///     entries: (*mut u64, *mut u64),
///     rows: *mut u32,
///     (leased, versions): (GlobalSlice<u32>, GlobalSlice<u32>),
///     (classes, bounds): (GlobalSlice<u8>, GlobalSlice<u64>),
/// ) -> CacheView<Kind> {
///     // SAFETY: the caller's obligation.
///     let rows = unsafe { Rows::new(rows, rows, SLOTS, 8) };
///     let view = unsafe { CacheView::<Kind>::new(digests, entries, rows, (1, 1), 0) };
///     assert!((view.buckets(), view.choices(), view.seed(), view.rows().words()) == (1, 1, 0, 8));
///     let view = view.with_summary(Summary::new(classes, bounds));
///     assert!(block::<u64, u64>() == 2); // of `view.interleaved()`
///     let record = Record::of::<u64, u64>(); // of `view.with_records(versions)`
///     assert!((record.words, record.score, record.version) == (8, 2, 4));
///     assert!(view.to_words()[7] == 0); // the seed
///     assert!(RowSlice::new(leased).is_empty() == leased.is_empty());
///     view.with_leases(leased).with_versions(versions)
/// }
/// ```
#[repr(C)]
pub struct CacheView<C: Config> {
    digests: Global<u32>,
    keys: Global<C::Key>,
    scores: Global<C::Score>,
    rows: Rows,
    buckets: u32,
    /// Number of buckets in which a key can be: 1 or 2.
    choices: u32,
    seed: u64,
    /// A bit for each slot: whether a lease holds its row. No words if there are no leases.
    leased: GlobalSlice<u32>,
    summary: Summary<C::Score>,
    blocks: Blocks,
    /// Words from the first slot's version on, or no words: see [`versions`](super::versions).
    versions: GlobalSlice<u32>,
}

impl<C: Config> Clone for CacheView<C> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Config> Copy for CacheView<C> {}

impl<C: Config> core::fmt::Debug for CacheView<C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CacheView").field("digests", &self.digests).field("buckets", &self.buckets).finish()
    }
}

#[device]
impl<C: Config> CacheView<C> {
    /// Returns a view of a table of `buckets` buckets, in which each key has `choices` buckets.
    ///
    /// # Safety
    /// - `digests`, `keys` and `scores` point to [`SLOTS`] elements for each bucket, aligned to 128 bytes, of
    ///   device memory that outlives all uses; `rows` has a row for each.
    /// - Every digest was 0 before the first operation, and only operations of this kind with the same
    ///   number of choices and the same seed have written to them.
    /// - `buckets` is from 1 to [`MOST_BUCKETS`](super::MOST_BUCKETS), and `choices` is 1 or 2.
    pub unsafe fn new(
        digests: *mut u32,
        (keys, scores): (*mut C::Key, *mut C::Score),
        rows: Rows,
        (buckets, choices): (u32, u32),
        seed: u64,
    ) -> Self {
        // SAFETY: the caller's obligations. Keys and scores are accessed weakly only where `Rows` are.
        let (digests, keys, scores) =
            unsafe { (Global::new(digests), Global::new(keys), Global::new(scores)) };
        // SAFETY: no element of an empty slice is ever accessed.
        let (leased, classes, bounds) = unsafe {
            let no_words = GlobalSlice::from_raw_parts(digests.as_ptr(), 0);
            let no_classes = GlobalSlice::from_raw_parts(digests.as_ptr().cast(), 0);
            (no_words, no_classes, GlobalSlice::from_raw_parts(scores.as_ptr(), 0))
        };
        let (summary, blocks, versions) = (Summary::new(classes, bounds), Blocks::SEPARATE, leased);
        Self { digests, keys, scores, rows, buckets, choices, seed, leased, summary, blocks, versions }
    }

    /// Returns the words of the view for lookups in several tables: without leases, versions and summary.
    pub fn to_words(self) -> [u64; VIEW_WORDS] {
        let pair = |low: u32, high: u32| low as u64 | (high as u64) << 32;
        let Self { rows, blocks, .. } = self;
        [
            self.digests.as_ptr() as u64,
            self.keys.as_ptr() as u64,
            self.scores.as_ptr() as u64,
            rows.near.as_ptr() as u64,
            rows.far.as_ptr() as u64,
            pair(rows.near_slots, rows.words),
            pair(self.buckets, self.choices),
            self.seed,
            pair(blocks.shift, blocks.key_pitch),
            blocks.score_pitch as u64,
        ]
    }

    /// Returns the view with the words that `word` returns for their indices.
    ///
    /// # Safety
    /// - The words are those of a view of this kind: see [`Self::to_words`]. Its memory outlives all uses.
    #[device(caller)]
    pub(super) unsafe fn from_words(word: impl Fn(usize) -> u64) -> Self {
        let (near_slots, words) = halves(word(5));
        let (buckets, choices) = halves(word(6));
        let (shift, key_pitch) = halves(word(8));
        let rows = (word(3) as usize as *mut u32, word(4) as usize as *mut u32);
        let entries = (word(1) as usize as *mut C::Key, word(2) as usize as *mut C::Score);
        // SAFETY: the caller's obligation.
        let view = unsafe {
            let rows = Rows::new(rows.0, rows.1, near_slots, words);
            Self::new(word(0) as usize as *mut u32, entries, rows, (buckets, choices), word(7))
        };
        let blocks = Blocks { shift, key_pitch, score_pitch: word(9) as u32, ..view.blocks };
        Self { blocks, ..view }
    }

    /// Returns the view of a table of whose rows some are leased: those of the slots whose bits are set, bit
    /// `i % 32` of word `i / 32` for slot `i`. Their keys are neither evicted nor removed. Without words, no
    /// row is leased.
    pub fn with_leases(self, leased: GlobalSlice<u32>) -> Self {
        Self { leased, ..self }
    }

    /// Returns the view of a table with a version for each slot, all even before the first operation. Lookups
    /// may then run beside changes: see [`kernels`](super::kernels#concurrent-lookups).
    pub fn with_versions(self, versions: GlobalSlice<u32>) -> Self {
        Self { versions, ..self }
    }

    /// Returns the view of a table with this summary of its scores, which has a class for each slot.
    pub fn with_summary(self, summary: Summary<C::Score>) -> Self {
        Self { summary, ..self }
    }

    /// Returns the view of a table whose keys and scores alternate: [`block`] keys, as many scores, and so
    /// on. A slot's key and score are then neighbours.
    ///
    /// # Safety
    /// - The memory that was passed as that of the keys has this layout; the scores that were passed are
    ///   those behind the first block of keys in it.
    pub unsafe fn interleaved(self) -> Self {
        let block = block::<C::Key, C::Score>();
        let words = block * (C::Key::BITS + C::Score::BITS) / 32;
        let (key_pitch, score_pitch) = (words / (C::Key::BITS / 32), words / (C::Score::BITS / 32));
        let blocks = Blocks { shift: block.trailing_zeros(), key_pitch, score_pitch, ..self.blocks };
        Self { blocks, ..self }
    }

    /// Returns the view of a table with a record for each slot, see [`Record`]: key, score and version. So a
    /// lookup beside changes reads the version from the sector that it reads the key from.
    ///
    /// # Safety
    /// - The memory that was passed as that of the keys has this layout, aligned to 32 bytes. The scores that
    ///   were passed begin with that of the first record, and `versions` with its version; they are all words
    ///   from there on. All versions are even before the first operation.
    pub unsafe fn with_records(self, versions: GlobalSlice<u32>) -> Self {
        let Record { words, .. } = Record::of::<C::Key, C::Score>();
        let (key_pitch, score_pitch) = (words / (C::Key::BITS / 32), words / (C::Score::BITS / 32));
        Self { blocks: Blocks { shift: 0, key_pitch, score_pitch, version_pitch: words }, versions, ..self }
    }

    /// Returns whether the scores of slots that begin at a multiple of four lie next to each other in chunks
    /// of 16 bytes.
    pub(super) fn has_score_chunks(self) -> bool {
        self.blocks.shift > 0
    }

    /// Returns whether the slots have versions.
    pub(super) fn has_versions(self) -> bool {
        !self.versions.is_empty()
    }

    /// Returns the version of a slot. Ends the launch if the slots have no versions.
    #[device(caller)]
    pub(super) fn version(self, position: u32) -> Global<u32> {
        self.versions.at(position as usize * self.blocks.version_pitch as usize)
    }

    /// Returns the summary of the scores.
    pub(super) fn summary(self) -> Summary<C::Score> {
        self.summary
    }

    /// Returns the number of buckets.
    pub fn buckets(self) -> u32 {
        self.buckets
    }

    /// Returns the number of buckets in which a key can be.
    pub fn choices(self) -> u32 {
        self.choices
    }

    /// Returns the seed of the hash function.
    pub fn seed(self) -> u64 {
        self.seed
    }

    /// Returns the rows.
    pub fn rows(self) -> Rows {
        self.rows
    }

    /// Returns the bits of `slots` slots from `first` on, a multiple of `slots`, which is 1, 2, 4, 8 or 16:
    /// whether their rows are leased.
    #[device(caller)]
    pub(super) fn leased(self, first: u32, slots: u32) -> u32 {
        if self.leased.is_empty() {
            return 0;
        }
        self.leased.read((first / 32) as usize) >> (first % 32) & ((1 << slots) - 1)
    }

    /// Returns whether the row of a slot is leased.
    #[device(caller)]
    pub(super) fn is_leased(self, position: u32) -> bool {
        self.leased(position, 1) != 0
    }

    /// Returns the word of digests that contains that of a slot.
    ///
    /// # Safety
    /// - The position is that of a slot of the table.
    pub(super) unsafe fn digest_word(self, position: u32) -> Global<u32> {
        // SAFETY: a word has the digests of four slots.
        unsafe { self.digests.offset((position / 4) as usize) }
    }

    /// Returns the key's place in memory.
    ///
    /// # Safety
    /// - The position is that of a slot of the table.
    pub(super) unsafe fn key(self, position: u32) -> Global<C::Key> {
        // SAFETY: there is a key for each slot.
        unsafe { self.keys.offset(self.blocks.index(position, self.blocks.key_pitch)) }
    }

    /// Returns the score's place in memory.
    ///
    /// # Safety
    /// - The position is that of a slot of the table.
    pub(super) unsafe fn score(self, position: u32) -> Global<C::Score> {
        // SAFETY: there is a score for each slot.
        unsafe { self.scores.offset(self.blocks.index(position, self.blocks.score_pitch)) }
    }

    /// Loads the scores of four slots from the position `first` on, 16 bytes at once where they lie next to
    /// each other.
    ///
    /// # Safety
    /// - The positions are those of slots of the table, and `first` is a multiple of four.
    #[device(caller)]
    pub(super) unsafe fn four_scores(self, first: u32) -> [C::Score; 4] {
        // SAFETY: the caller's obligation.
        let place = |slot: usize| unsafe { self.score(first + slot as u32) };
        let (mut scores, mut slot) = ([C::Score::MAX; 4], 0);
        if !self.has_score_chunks() {
            while slot < 4 {
                scores[slot] = place(slot).load(Order::Relaxed, Scope::Device);
                slot += 1;
            }
            return scores;
        }
        let each = 128 / C::Score::BITS as usize;
        while slot < 4 {
            // SAFETY: the chunk's scores are neighbours; those of a bucket are aligned to 128 bytes.
            let chunk = unsafe { <C::Score as Scalar>::Chunk::load_if(place(slot), true, Order::Relaxed) };
            let mut i = 0;
            while i < each {
                scores[slot + i] = chunk.word(i);
                i += 1;
            }
            slot += each;
        }
        scores
    }

    /// Reads `N` words of digests as lane `rank` of `width` lanes, which read `width * N` words from the
    /// word `first` on together. Reads nothing unless `wanted`; the words are then arbitrary.
    ///
    /// # Safety
    /// - The words are digests of the table, and `first` is a multiple of `width * N`.
    #[device(caller)]
    pub(super) unsafe fn read<const N: usize>(
        self,
        first: u32,
        (rank, width): (u32, u32),
        wanted: bool,
    ) -> Digests<N> {
        const { assert!(N.is_multiple_of(4), "lanes read 16 bytes at once") };
        let (mut words, mut j) = ([0; N], 0);
        while j < N {
            let index = first + word_of(rank, width, j as u32);
            // SAFETY: the caller's obligation. Four words that begin at a multiple of four are aligned.
            let four: [u32; 4] = unsafe {
                let place = self.digests.offset(index as usize);
                place.load_vec_if(wanted, Order::Relaxed, Scope::Device)
            };
            (words[j], words[j + 1], words[j + 2], words[j + 3]) = (four[0], four[1], four[2], four[3]);
            j += 4;
        }
        Digests { words }
    }

    /// Locks a slot whose digest is `from`, if it still is. `seen` is a value that the word of its digest
    /// has had. Returns whether the slot is locked now; it is for the caller alone, until it
    /// [releases](Self::release) it.
    ///
    /// # Safety
    /// - The position is that of a slot of the table.
    #[device(caller)]
    pub(super) unsafe fn lock(self, position: u32, from: Digest, mut seen: u32) -> bool {
        let byte = position % 4;
        // SAFETY: the caller's obligation.
        let word = unsafe { self.digest_word(position) };
        while recheck(Digest::in_word(seen, byte) == from) {
            let busy = Digest::BUSY.put_in(seen, byte);
            // Acquires the last release of the slot: the caller may read its key, score and row.
            match word.compare_exchange(seen, busy, Order::Acquire, Scope::Device) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// [Locks](Self::lock) the slot of a position if it is free, or else another free one whose digest is in
    /// the same word, and so in the same sector. Returns the slot's position, or [`NOWHERE`] if all four are
    /// taken or locked.
    ///
    /// # Safety
    /// - As for [`Self::lock`].
    #[device(caller)]
    pub(super) unsafe fn lock_free(self, position: u32, mut seen: u32) -> u32 {
        let (first, mut byte) = (position / 4 * 4, position % 4);
        // SAFETY: the caller's obligation.
        let word = unsafe { self.digest_word(position) };
        loop {
            let free = free_bytes(seen);
            if !recheck(free != 0) {
                return NOWHERE;
            }
            byte = if Digest::in_word(free, byte).byte() == 0 { free.trailing_zeros() / 8 } else { byte };
            let busy = Digest::BUSY.put_in(seen, byte);
            match word.compare_exchange(seen, busy, Order::Acquire, Scope::Device) {
                Ok(_) => return first + byte,
                Err(now) => seen = now,
            }
        }
    }

    /// Releases a slot that the caller has locked, with its new digest. Its key, score and row are complete.
    ///
    /// # Safety
    /// - The position is that of a slot of the table, and the caller has locked it.
    #[device(caller)]
    pub(super) unsafe fn release(self, position: u32, digest: Digest) {
        let change = digest.byte().wrapping_sub(Digest::BUSY.byte()) << (8 * (position % 4));
        // SAFETY: the caller's obligation. The byte is that of `BUSY` until this addition, so that no carry
        // leaves it, unless the digest is `EMPTY`, which is never released.
        unsafe { self.digest_word(position) }.fetch_add(change, Order::Release, Scope::Device);
    }
}
