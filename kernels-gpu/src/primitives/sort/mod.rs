//! Radix sort, by the one-sweep way (Adinets and Merrill, 2022): the digits' histograms are made in one read
//! of the keys, and a pass over a digit reads and writes each element once.
//!
//! ```text
//! keys ──► radix_histograms ──► 256 counts a digit
//!   │
//!   └──► radix_pass (digit 0) ──► radix_pass (digit 1) ──► ...         a launch each, a block a tile
//!
//! a tile:  load ─ count digits ─ publish ─ rank ─ stage in order ─ look back ─ write runs ─ values likewise
//! ```
//!
//! An element goes to: elements with smaller digits in the array, then those of its digit in earlier tiles,
//! then those before it in the tile. The first comes from the histogram, the second from looking back, the
//! third from ranking; so each pass is stable.
//!
//! **Ranking.** A warp owns a piece of the tile, lane `l` its elements `32 i + l`. Lanes with equal digits
//! find each other by eight ballots; the highest of them adds their number to the warp's counter of the
//! digit, which starts at the place where the warp's first such element goes. Counters are set up by a count
//! of all digits beforehand. That counts twice, and lets the tile publish its counts before it ranks: whoever
//! waits for them waits less.
//!
//! **Looking back.** A thread a digit: see [`super::lookback`]. The first tile adds the histogram to what it
//! publishes, so nobody else reads it.
//!
//! **The last tile** is filled up with keys whose digits are all ones. They stand after all others, so they
//! rank last, and are neither counted nor written.
mod histogram;
mod pass;

pub use histogram::{Counted, RadixHistograms, radix_histograms};
pub use pass::{Pass, PassParts, RadixPass, radix_pass};

use core::marker::PhantomData;
use simt::{Instance, Shuffle, Word};

/// Bits of a digit.
pub const DIGIT_BITS: u32 = 8;

/// Values of a digit.
pub const DIGITS: u32 = 1 << DIGIT_BITS;

/// The most elements that a sort takes: counts have 30 bits beside their flag.
pub const MOST: usize = (1 << 30) - 1;

/// A word that arrays are sorted by.
pub trait SortKey: Word + Shuffle {
    /// Bits.
    const BITS: u32;
    /// A key of which every digit is the last one.
    const LAST: Self;

    /// The bits from `shift` on that `mask` keeps.
    fn digit(self, shift: u32, mask: u32) -> u32;
}

impl SortKey for u32 {
    const BITS: u32 = 32;
    const LAST: Self = u32::MAX;

    #[inline(always)]
    fn digit(self, shift: u32, mask: u32) -> u32 {
        self >> shift & mask
    }
}

impl SortKey for u64 {
    const BITS: u32 = 64;
    const LAST: Self = u64::MAX;

    #[inline(always)]
    fn digit(self, shift: u32, mask: u32) -> u32 {
        (self >> shift) as u32 & mask
    }
}

/// What goes with a key: nothing, or a word.
pub trait Payload: Copy + 'static {
    /// What is moved.
    type Word: Word;
    /// Bytes of it; 0 for nothing.
    const BYTES: u32;
}

impl Payload for () {
    type Word = u8;
    const BYTES: u32 = 0;
}

macro_rules! payloads {
    ($($word:ty)*) => {$(
        impl Payload for $word {
            type Word = $word;
            const BYTES: u32 = size_of::<$word>() as u32;
        }
    )*};
}
payloads!(u32 u64 u128);

/// How a pass is done: the types, and the size of a tile.
pub trait Plan: Copy + Send + Sync + 'static {
    /// The key.
    type Key: SortKey;
    /// What goes with it.
    type Value: Payload;
    /// Threads a block.
    const THREADS: u32;
    /// Elements a thread.
    const ITEMS: usize;

    /// What a thread of [`radix_pass`] does.
    fn pass(pass: Pass<Self::Key, Moved<Self>>);
}

/// The word that a plan moves beside its keys.
pub type Moved<P> = <<P as Plan>::Value as Payload>::Word;

/// Elements of a tile.
pub const fn tile<P: Plan>() -> usize {
    P::THREADS as usize * P::ITEMS
}

/// The keys of a sort alone, which is what histograms are made of.
#[derive(Clone, Copy, Debug)]
pub struct Keys<K>(PhantomData<K>);

/// A pass of `THREADS` threads a block and `ITEMS` elements a thread. Lanes with equal digits find each other
/// by ballots, or by `match.any` where `MATCH` says so.
#[derive(Clone, Copy, Debug)]
pub struct Radix<K, V, const THREADS: u32, const ITEMS: usize, const MATCH: bool = false>(
    PhantomData<fn() -> (K, V)>,
);

impl<K: SortKey, V: Payload + Send + Sync, const THREADS: u32, const ITEMS: usize, const MATCH: bool> Plan
    for Radix<K, V, THREADS, ITEMS, MATCH>
{
    type Key = K;
    type Value = V;
    const THREADS: u32 = THREADS;
    const ITEMS: usize = ITEMS;

    #[inline(always)]
    #[track_caller]
    fn pass(pass: Pass<K, V::Word>) {
        pass::Job::<K, V, THREADS, ITEMS, MATCH>::run(pass);
    }
}

/// Takes a type by its name: see `simt::instances!`.
pub trait Visitor {
    /// What it makes of it.
    type Output;

    /// Is shown the type.
    fn visit<P: Plan + Instance>(self) -> Self::Output;
}
