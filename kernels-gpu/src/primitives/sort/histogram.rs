//! Histograms of all digits, in one read of the keys.
use super::key::{DIGIT_BITS, DIGITS, SortKey};
use crate::primitives::{is_aligned, limited, unrolled};
use core::marker::PhantomData;
use simt::{Block, Global, GlobalSlice, Instance, Order, Scope, Shared, SharedShape, Thread, device, kernel};

/// Number of 16-byte vectors that a thread reads at a time.
const VECTORS: usize = 4;

/// A key type whose digits are counted.
pub trait Counted: Copy + Send + Sync + 'static {
    /// Type of the keys.
    type Key: SortKey;

    /// Body of [`radix_histograms`], for one thread.
    fn histograms(keys: GlobalSlice<Self::Key>, first: u32, end: u32, counts: GlobalSlice<u32>);
}

macro_rules! counted {
    ($($key:ty, $in_vector:literal;)*) => {$(
        impl Counted for super::Keys<$key> {
            type Key = $key;

            #[device(caller)]
            fn histograms(keys: GlobalSlice<$key>, first: u32, end: u32, counts: GlobalSlice<u32>) {
                let shared = Shared::of::<Counts<$key>>();
                Count::<$key, $in_vector> { keys, first, end, counts: shared }.run(counts);
            }
        }
    )*};
}
counted! {
    u32, 4;
    u64, 2;
}

/// Counters of all digits of a key.
struct Counts<K>(PhantomData<K>);

impl<K: SortKey> SharedShape for Counts<K> {
    type Word = u32;
    const LEN: usize = (K::BITS / DIGIT_BITS * DIGITS) as usize;
}

#[derive(Clone, Copy)]
struct Count<K, const IN_VECTOR: usize> {
    keys: GlobalSlice<K>,
    first: u32,
    end: u32,
    counts: Shared<u32>,
}

#[device(caller)]
impl<K: SortKey, const IN_VECTOR: usize> Count<K, IN_VECTOR> {
    const DIGITS_OF_KEY: u32 = K::BITS / DIGIT_BITS;

    fn run(self, counts: GlobalSlice<u32>) {
        self.each_counter(|place| self.counts.store(place, 0));
        Block::sync();
        self.count_all();
        Block::sync();
        self.each_counter(|place| {
            let count = self.counts.load(place);
            if count > 0 && place < counts.len() {
                counts.at(place).fetch_add(count, Order::Relaxed, Scope::Device);
            }
        });
    }

    /// Calls `body` with the thread's share of the indices of the counters.
    fn each_counter(self, mut body: impl FnMut(usize)) {
        let mut place = Thread::index_in_block() as usize;
        while place < Counts::<K>::LEN {
            body(place);
            place += Thread::block_size() as usize;
        }
    }

    /// Counts the digits of all keys. Pieces of whole vectors are distributed over the blocks; the first
    /// threads count the remaining keys one by one, which are all keys if vectors of them are not aligned.
    fn count_all(self) {
        let threads = Thread::block_size() as usize;
        let piece = threads * VECTORS * IN_VECTOR;
        let whole = if is_aligned(self.keys, IN_VECTOR) { self.keys.len() / piece } else { 0 };
        let mut at = Thread::block_index() as usize;
        while at < whole {
            // SAFETY: the piece lies in the keys, whose vectors are aligned.
            let first =
                unsafe { self.keys.at(at * piece).offset(Thread::index_in_block() as usize * IN_VECTOR) };
            self.count_vectors(first, threads * IN_VECTOR);
            at += Thread::grid_size() as usize;
        }
        let mut rest = whole * piece + Thread::index();
        while rest < self.keys.len() {
            self.count_key(self.keys.read(rest));
            rest += Thread::count();
        }
    }

    /// Counts vectors that are `stride` keys apart; reads all of them first.
    fn count_vectors(self, first: Global<K>, stride: usize) {
        let mut keys = [[K::LAST; IN_VECTOR]; VECTORS];
        unrolled::<VECTORS>(|turn| {
            // SAFETY: the vectors of a piece, each aligned to its size.
            keys[turn] = unsafe { first.offset(turn * stride).load_vec(Order::Weak, Scope::Device) };
        });
        unrolled::<VECTORS>(|turn| unrolled::<IN_VECTOR>(|place| self.count_key(keys[turn][place])));
    }

    fn count_key(self, key: K) {
        for number in 0..Self::DIGITS_OF_KEY {
            let shift = self.first + number * DIGIT_BITS;
            if shift < self.end {
                let mask = mask_of(self.end - shift);
                // SAFETY: a digit is below `DIGITS`.
                unsafe { self.counts.fetch_add_unchecked(number * DIGITS + key.digit(shift, mask), 1) };
            }
        }
    }
}

/// Returns the mask of a digit if `left` bits are left to sort by.
#[device]
pub const fn mask_of(left: u32) -> u32 {
    if left < DIGIT_BITS { (1 << left) - 1 } else { DIGITS - 1 }
}

/// Adds to `counts` (256 per digit, zero before) the number of occurrences of each digit value in bits
/// `first` to `end` of `keys`, and clears `status` for the first pass. If `limit` is not empty, only the
/// first `limit[0]` keys are counted. Works with any grid.
#[kernel]
pub fn radix_histograms<P: Counted + Instance>(
    keys: GlobalSlice<P::Key>,
    limit: GlobalSlice<u32>,
    first: u32,
    end: u32,
    counts: GlobalSlice<u32>,
    status: GlobalSlice<u32>,
) {
    let mut word = Thread::index();
    while word < status.len() {
        status.write(word, 0);
        word += Thread::count();
    }
    P::histograms(limited(keys, limit), first, end, counts);
}
