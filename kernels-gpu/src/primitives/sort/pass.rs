//! One pass over a digit.
use super::key::{DIGITS, Payload, SortKey};
use crate::primitives::lookback::{DigitCounts, Flag};
use crate::primitives::{Tiled, limited, ticket, unrolled};
use core::marker::PhantomData;
use simt::{
    Block, GlobalSlice, Instance, Lockstep, Order, Scope, Shared, SharedShape, Thread, Tile, Word, black_box,
    device, kernel,
};

/// The types of a pass and the size of its tiles.
pub trait Plan: Tiled {
    /// Key type.
    type Key: SortKey;
    /// Payload type.
    type Value: Payload;
    /// Number of threads per block.
    const THREADS: u32;
    /// Number of elements per thread.
    const ITEMS: usize;
    /// Whether lanes with equal digits find each other by `match.any`, not by ballots.
    const MATCH: bool;

    /// Body of [`radix_pass`], for one thread.
    fn pass(pass: Pass<Self::Key, Moved<Self>>);
}

/// Word type of a plan's payload.
pub type Moved<P> = <<P as Plan>::Value as Payload>::Word;

/// The arguments of a pass.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PassParts<K, W> {
    /// The elements' keys, in the order of the previous pass.
    pub from: GlobalSlice<K>,
    /// Number of keys, in one word, if it is not known when the pass is launched; otherwise empty.
    pub limit: GlobalSlice<u32>,
    /// Destination of the keys in their new order.
    pub to: GlobalSlice<K>,
    /// Payload of the keys; empty if there is none.
    pub values: GlobalSlice<W>,
    /// Destination of the payload.
    pub values_to: GlobalSlice<W>,
    /// Number of occurrences of each digit value.
    pub counts: GlobalSlice<u32>,
    /// Ticket counter for the tiles' numbers: one word, zero before.
    pub tickets: GlobalSlice<u32>,
    /// Words in which tiles publish their counts: [`DIGITS`] words per tile, zero before.
    pub status: GlobalSlice<u32>,
    /// The `status` of the next pass, which this pass clears: as many words, or none.
    pub next_status: GlobalSlice<u32>,
    /// Position of the digit's lowest bit.
    pub shift: u32,
    /// Mask of the digit's bits.
    pub mask: u32,
}

/// Arguments of a pass that fulfil the obligations of [`Pass::new`]. The kernel writes to positions computed
/// from the counts, without bounds checks.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Pass<K, W>(PassParts<K, W>);

impl<K, W> Pass<K, W> {
    /// Returns the pass with these arguments.
    ///
    /// # Safety
    /// - `to` has as many elements as `from`. If there is a payload, so have `values` and `values_to`.
    /// - `counts` are the counts of the digit at `shift` in the first `limit[0]` elements of `from`, or in
    ///   all of them if `limit` is empty; `mask` is below [`DIGITS`].
    /// - `tickets` and `status` are zero before the pass, and `status` has [`DIGITS`] words for each tile.
    /// - Nothing else writes to the buffers while the pass runs, and its grid has one block of
    ///   [`Plan::THREADS`] threads for each tile.
    pub unsafe fn new(parts: PassParts<K, W>) -> Self {
        Self(parts)
    }
}

/// Sorts by a digit, stably. The grid has one block of [`Plan::THREADS`] threads for each tile
/// ([`super::tile`]) of `from`.
#[kernel]
pub fn radix_pass<P: Plan + Instance>(pass: Pass<P::Key, Moved<P>>) {
    P::pass(pass);
}

/// Maximum number of digits per thread. A thread handles the digits `k * THREADS + thread`.
const OWN: usize = 8;

/// A tile's shared memory: first the counters of each warp, then the keys in their new order, then the
/// payload.
struct Staging<P, const ITEMS: usize>(PhantomData<P>);

impl<P: Plan, const ITEMS: usize> SharedShape for Staging<P, ITEMS> {
    type Word = u128;
    const LEN: usize = {
        let counters = (P::THREADS / 32 * DIGITS * 4) as usize;
        let widest = if P::Value::BYTES as usize > size_of::<P::Key>() {
            P::Value::BYTES as usize
        } else {
            size_of::<P::Key>()
        };
        let elements = P::THREADS as usize * ITEMS * widest;
        (if counters > elements { counters } else { elements }).div_ceil(16)
    };
}

/// For each digit, the position of its first element in the output minus that element's rank in the tile.
struct Starts;

impl SharedShape for Starts {
    type Word = u32;
    const LEN: usize = DIGITS as usize;
}

/// Sums of 32 digits each; two arrays, for two scans without a barrier between them.
struct Totals<const WHICH: u8>;

impl<const WHICH: u8> SharedShape for Totals<WHICH> {
    type Word = u32;
    const LEN: usize = (DIGITS / 32) as usize;
}

/// A thread's part of a tile.
#[derive(Clone, Copy)]
pub struct Job<P: Plan, const ITEMS: usize> {
    pass: PassParts<P::Key, Moved<P>>,
    tile: u32,
    /// Number of elements in the tile.
    valid: u32,
    thread: u32,
    warp: Tile<32, Lockstep>,
    /// Index of the thread's first element in the tile.
    first: u32,
    memory: Shared<u128>,
    starts: Shared<u32>,
}

#[device(caller)]
impl<P: Plan, const ITEMS: usize> Job<P, ITEMS> {
    const TILE: u32 = P::THREADS * ITEMS as u32;
    const WARPS: u32 = P::THREADS / 32;

    /// Executes a thread's whole part of the pass.
    pub fn run(pass: Pass<P::Key, Moved<P>>) {
        const {
            assert!(P::THREADS.is_multiple_of(32));
            assert!(P::THREADS >= DIGITS || DIGITS.is_multiple_of(P::THREADS));
        }
        let pass = PassParts { from: limited(pass.0.from, pass.0.limit), ..pass.0 };
        let (tile_len, len) = (Self::TILE as usize, pass.from.len());
        // As many blocks as there are tiles continue, so as many tickets are drawn.
        if Thread::block_index() as usize * tile_len >= len {
            return;
        }
        let tile = ticket(pass.tickets.at(0));
        let left = len - tile as usize * tile_len;
        Self::new(pass, tile, if left < tile_len { left as u32 } else { Self::TILE }).sort();
    }

    fn new(pass: PassParts<P::Key, Moved<P>>, tile: u32, valid: u32) -> Self {
        let (thread, warp) = (Thread::index_in_block(), Tile::lockstep());
        let first = thread / 32 * (32 * ITEMS as u32) + warp.rank();
        let memory = Shared::of::<Staging<P, ITEMS>>();
        Self { pass, tile, valid, thread, warp, first, memory, starts: Shared::of::<Starts>() }
    }

    fn sort(self) {
        let keys = self.load(self.pass.from, P::Key::LAST);
        self.clear_counters();
        Block::sync();
        self.count(&keys);
        Block::sync();
        let (counts, starts) = self.publish();
        Block::sync();
        let ranks = self.rank(&keys);
        Block::sync();
        self.stage(&keys, &ranks);
        self.look_back(counts, starts);
        Block::sync();
        let places = self.write_keys();
        if P::Value::BYTES > 0 {
            let values = self.load(self.pass.values, Moved::<P>::narrow(0));
            Block::sync();
            self.stage(&values, &ranks);
            Block::sync();
            self.write_values(&places);
        }
    }

    /// Loads the thread's elements of an array; `rest` beyond its end.
    fn load<T: Word>(self, from: GlobalSlice<T>, rest: T) -> [T; ITEMS] {
        let mut items = [rest; ITEMS];
        // SAFETY: the tile begins in the array. All elements read below lie in the array too.
        let start = unsafe { from.at(self.tile as usize * Self::TILE as usize).offset(self.first as usize) };
        // SAFETY: as above.
        let read = |i: usize| unsafe { start.offset(32 * i) }.load(Order::Weak, Scope::Device);
        if self.valid == Self::TILE {
            unrolled::<ITEMS>(|i| items[i] = read(i));
        } else {
            unrolled::<ITEMS>(|i| {
                if self.first + 32 * (i as u32) < self.valid {
                    items[i] = read(i);
                }
            });
        }
        items
    }

    #[device]
    fn counters(self) -> Shared<u32> {
        // SAFETY: the memory is aligned to 16 bytes.
        unsafe { self.memory.cast() }
    }

    fn clear_counters(self) {
        const { assert!(DIGITS / 32 / 4 == 2) };
        unrolled::<2>(|turn| {
            // SAFETY: a warp has 256 counters, which are two times four for each lane.
            unsafe { self.memory.store_unchecked(turn as u32 * P::THREADS + self.thread, 0) }
        });
    }

    #[device]
    fn digit(self, key: P::Key) -> u32 {
        key.digit(self.pass.shift, self.pass.mask)
    }

    /// Returns the index of the counter of the thread's warp for a digit.
    #[device]
    fn counter(self, digit: u32) -> u32 {
        self.thread / 32 * DIGITS + digit
    }

    fn count(self, keys: &[P::Key; ITEMS]) {
        // SAFETY: a digit is below `DIGITS`.
        unrolled::<ITEMS>(|i| unsafe {
            self.counters().fetch_add_unchecked(self.counter(self.digit(keys[i])), 1);
        });
    }

    /// Calls `body` with each digit that the thread handles, and its index among the thread's digits. Either
    /// all lanes of a warp call `body` or none.
    fn own(self, mut body: impl FnMut(usize, u32)) {
        unrolled::<OWN>(|k| {
            let digit = k as u32 * P::THREADS + self.thread;
            if (k as u32 * P::THREADS) < DIGITS && (P::THREADS <= DIGITS || digit < DIGITS) {
                body(k, digit);
            }
        });
    }

    /// Adds up the warps' counts of each digit and publishes the sums; turns the counters into ranks in the
    /// tile. Returns the count and the first rank of each of the thread's digits.
    fn publish(self) -> ([u32; OWN], [u32; OWN]) {
        let mut counts = [0; OWN];
        self.own(|k, digit| {
            counts[k] = self.warps(digit, |_, count, sum| sum + count);
        });
        let pads = Self::TILE - self.valid;
        let mut published = counts;
        self.own(|k, digit| published[k] -= if digit == self.pass.mask { pads } else { 0 });
        self.publish_counts(&published);
        let starts = self.scan::<0>(&counts);
        self.own(|k, digit| {
            let mut next = starts[k];
            self.warps(digit, |counter, count, sum| {
                // SAFETY: as in `warps`.
                unsafe { self.counters().store_unchecked(counter, next) };
                next += count;
                sum
            });
        });
        (published, starts)
    }

    /// Folds the warps' counters of a digit.
    fn warps(self, digit: u32, mut fold: impl FnMut(u32, u32, u32) -> u32) -> u32 {
        let mut sum = 0;
        unrolled::<32>(|warp| {
            if (warp as u32) < Self::WARPS {
                let counter = warp as u32 * DIGITS + digit;
                // SAFETY: each warp has a counter for each digit.
                sum = fold(counter, unsafe { self.counters().load_unchecked(counter) }, sum);
            }
        });
        sum
    }

    /// Publishes the tile's counts; the first tile directly publishes the ends of its digits in the output.
    fn publish_counts(self, counts: &[u32; OWN]) {
        if self.tile == 0 {
            let mut all = [0; OWN];
            self.own(|k, digit| all[k] = self.pass.counts.read(digit as usize));
            let bases = self.scan::<1>(&all);
            self.own(|k, digit| {
                DigitCounts::of(self.pass.status, digit).publish(0, bases[k] + counts[k], Flag::Inclusive);
            });
        } else {
            self.own(|k, digit| {
                DigitCounts::of(self.pass.status, digit).publish(self.tile, counts[k], Flag::Partial);
            });
        }
    }

    /// Returns, for each of the thread's digits, the sum over all smaller digits. Contains a barrier.
    fn scan<const WHICH: u8>(self, counts: &[u32; OWN]) -> [u32; OWN] {
        let (totals, lane) = (Shared::of::<Totals<WHICH>>(), self.warp.rank());
        let mut sums = *counts;
        self.own(|k, digit| {
            let mut by = 1;
            while by < 32 {
                let below = self.warp.shuffle_up(sums[k], by);
                sums[k] += if lane >= by { below } else { 0 };
                by *= 2;
            }
            if lane == 31 {
                totals.store(digit as usize / 32, sums[k]);
            }
            sums[k] -= counts[k];
        });
        Block::sync();
        self.own(|k, digit| {
            unrolled::<8>(|group| {
                if (group as u32) < digit / 32 {
                    sums[k] += totals.load(group);
                }
            });
        });
        sums
    }

    /// Returns the rank of each element in the sorted tile.
    fn rank(self, keys: &[P::Key; ITEMS]) -> [u32; ITEMS] {
        let lane = self.warp.rank();
        let lower = (1 << lane) - 1;
        let mut ranks = [0; ITEMS];
        unrolled::<ITEMS>(|i| {
            // `black_box`: otherwise the digits of the first count would be kept in registers until here.
            let digit = self.digit(black_box(keys[i]));
            let equal = match P::MATCH {
                true => self.warp.match_any(digit),
                false => self.warp.match_bits::<{ super::DIGIT_BITS }>(digit),
            };
            let last = 31 - equal.leading_zeros();
            let (counter, many) = (self.counter(digit), equal.count_ones());
            // SAFETY: a digit is below `DIGITS`.
            let next = unsafe { self.counters().fetch_add_if(lane == last, counter, many) };
            ranks[i] = self.warp.shuffle(next, last) + (equal & lower).count_ones();
        });
        ranks
    }

    /// Stores the thread's elements at their ranks in shared memory.
    fn stage<T: Word>(self, items: &[T; ITEMS], ranks: &[u32; ITEMS]) {
        // SAFETY: the memory is aligned, and large enough for a tile of the wider of both types; ranks are
        // below the tile's size.
        unrolled::<ITEMS>(|i| unsafe { self.memory.cast::<T>().store_unchecked(ranks[i], items[i]) });
    }

    /// Obtains the counts of the earlier tiles by look-back, and computes the start of each digit of the tile
    /// in the output. Clears the tile's part of the next pass's status.
    fn look_back(self, counts: [u32; OWN], starts: [u32; OWN]) {
        self.own(|k, digit| {
            let status = DigitCounts::of(self.pass.status, digit);
            let place = self.tile as usize * DIGITS as usize + digit as usize;
            if place < self.pass.next_status.len() {
                self.pass.next_status.write(place, 0);
            }
            let before = match self.tile {
                0 => status.published(0) - counts[k],
                tile => {
                    let before = status.before(tile);
                    status.publish(tile, before + counts[k], Flag::Inclusive);
                    before
                }
            };
            self.starts.store(digit as usize, before.wrapping_sub(starts[k]));
        });
    }

    /// Writes the keys so that neighbouring threads write neighbouring keys of a digit. Returns the positions
    /// of the thread's keys.
    fn write_keys(self) -> [u32; ITEMS] {
        // SAFETY: the memory is aligned.
        let staged = unsafe { self.memory.cast::<P::Key>() };
        let (to, mut places) = (self.pass.to.at(0), [0; ITEMS]);
        self.each_valid(|i, rank| {
            // SAFETY: ranks are below the tile's size, digits below `DIGITS`.
            let key = unsafe { staged.load_unchecked(rank) };
            // SAFETY: as above.
            places[i] = unsafe { self.starts.load_unchecked(self.digit(key)) }.wrapping_add(rank);
            // SAFETY: the counts sum up to the number of keys, and `to` has as many elements.
            unsafe { to.offset(places[i] as usize) }.store(key, Order::Weak, Scope::Device);
        });
        places
    }

    /// Calls `body` with the ranks that the thread writes; neighbouring threads get neighbouring ranks. Only
    /// the last tile needs to check which ranks exist.
    fn each_valid(self, mut body: impl FnMut(usize, u32)) {
        let rank = |i: usize| i as u32 * P::THREADS + self.thread;
        if self.valid == Self::TILE {
            unrolled::<ITEMS>(|i| body(i, rank(i)));
        } else {
            unrolled::<ITEMS>(|i| {
                if rank(i) < self.valid {
                    body(i, rank(i));
                }
            });
        }
    }

    fn write_values(self, places: &[u32; ITEMS]) {
        // SAFETY: the memory is aligned.
        let staged = unsafe { self.memory.cast::<Moved<P>>() };
        let to = self.pass.values_to.at(0);
        self.each_valid(|i, rank| {
            // SAFETY: as in `write_keys`.
            let value = unsafe { staged.load_unchecked(rank) };
            // SAFETY: as in `write_keys`.
            unsafe { to.offset(places[i] as usize) }.store(value, Order::Weak, Scope::Device);
        });
    }
}
