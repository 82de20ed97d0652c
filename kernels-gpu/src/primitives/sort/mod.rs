//! Onesweep radix sort (Adinets and Merrill, 2022): the digits' histograms are computed in one read of the
//! keys, and a pass over a digit reads and writes each element once.
//!
//! ```text
//! keys ──► radix_histograms ──► 256 counts per digit
//!   │
//!   └──► radix_pass (digit 0) ──► radix_pass (digit 1) ──► ...    one launch each, one block per tile
//!
//! a tile:  load ─ count digits ─ publish ─ rank ─ stage in order ─ look back ─ write runs ─ values likewise
//! ```
//!
//! The position of an element is the sum of three numbers: the elements with smaller digits in the array,
//! those with its digit in earlier tiles, and those with its digit before it in the tile. The first comes
//! from the histogram, the second from look-back, the third from ranking; so each pass is stable.
//!
//! **Ranking.** A warp owns a piece of the tile; lane `l` owns its elements `32 i + l`. Lanes with equal
//! digits find each other by eight ballots; the highest of them adds their number to the warp's counter of
//! the digit, which starts at the position of the warp's first element with that digit. The counters are
//! initialized from a separate count of all digits beforehand. The second count lets the tile publish its
//! counts before it ranks, so that later tiles wait less for them.
//!
//! **Look-back.** One thread per digit: see [`super::lookback`]. The first tile adds the histogram to the
//! counts that it publishes, so no other tile reads the histogram.
//!
//! **The last tile** is padded with keys whose digits are all ones. They come after all others, so they rank
//! last, and are neither counted nor written.
//!
//! ```
//! use phalanx_kernels::primitives::sort::{Counted, Keys, Moved, Pass, PassParts, Plan, Radix, SortKey};
//! use phalanx_kernels::primitives::sort::tile;
//! use simt::GlobalSlice;
//!
//! assert_eq!(0x1234u32.digit(8, 0xff), 0x12);
//! assert_eq!(tile::<Radix<u32, (), 384, 21>>(), 384 * 21);
//!
//! /// Executes a pass, as the entry point does.
//! ///
//! /// # Safety
//! /// - As for `Pass::new`.
//! unsafe fn pass_by<P: Plan>(parts: PassParts<P::Key, Moved<P>>) {
//!     // SAFETY: the caller's obligation.
//!     P::pass(unsafe { Pass::new(parts) });
//! }
//!
//! /// Counts the digits of all bits of the keys, as the entry point does.
//! fn count_digits(keys: GlobalSlice<u64>, counts: GlobalSlice<u32>) {
//!     Keys::<u64>::histograms(keys, 0, 64, counts);
//! }
//! ```
//!
//! # Cost
//!
//! [`radix_histograms`] reads each key once, and executes an atomic in shared memory per key and digit.
//! [`radix_pass`] reads and writes each element once; per key eight ballots and at most two atomics in shared
//! memory; 2 KiB of status words per tile. [`SortKey::digit`] is a shift and a mask.
mod histogram;
mod key;
mod pass;

pub use histogram::{Counted, RadixHistograms, radix_histograms};
pub use key::{DIGIT_BITS, DIGITS, Payload, SortKey};
pub use pass::{Moved, Pass, PassParts, Plan, RadixPass, radix_pass};

use super::{Tiled, plan_name, tile_name};
use core::marker::PhantomData;
use simt::{Instance, Name, Word, device};

/// Maximum number of elements of a sort: counts have 30 bits beside their flag.
pub const MOST: usize = (1 << 30) - 1;

/// Returns the number of elements of a tile.
pub const fn tile<P: Plan>() -> usize {
    P::THREADS as usize * P::ITEMS
}

/// The keys of a sort without their payload, as histograms need them.
#[derive(Clone, Copy, Debug)]
pub struct Keys<K>(PhantomData<K>);

impl<K: Word> Instance for Keys<K> {
    const NAME: &'static str = const { &Name::of("").unsigned::<K>() }.as_str();
}

/// A pass with `THREADS` threads per block and `ITEMS` elements per thread. Lanes with equal digits find each
/// other by ballots, or by `match.any` if `MATCH`.
#[derive(Clone, Copy, Debug)]
pub struct Radix<K, V, const THREADS: u32, const ITEMS: usize, const MATCH: bool = false>(
    PhantomData<fn() -> (K, V)>,
);

impl<K: SortKey, V: Payload + Send + Sync, const THREADS: u32, const ITEMS: usize, const MATCH: bool> Instance
    for Radix<K, V, THREADS, ITEMS, MATCH>
{
    const NAME: &'static str = const { &plan_name::<Self>() }.as_str();
}

impl<K: SortKey, V: Payload + Send + Sync, const THREADS: u32, const ITEMS: usize, const MATCH: bool> Tiled
    for Radix<K, V, THREADS, ITEMS, MATCH>
{
    type Types = (K, V);
    const TYPES: &'static str =
        const { &Name::of("").unsigned::<K>().text("_").number(V::BYTES as usize) }.as_str();
    const TILE: &'static str =
        const { &tile_name(THREADS, ITEMS).part(if MATCH { "match" } else { "" }) }.as_str();
}

impl<K: SortKey, V: Payload + Send + Sync, const THREADS: u32, const ITEMS: usize, const MATCH: bool> Plan
    for Radix<K, V, THREADS, ITEMS, MATCH>
{
    type Key = K;
    type Value = V;
    const THREADS: u32 = THREADS;
    const ITEMS: usize = ITEMS;
    const MATCH: bool = MATCH;

    #[device(caller)]
    fn pass(pass: Pass<K, V::Word>) {
        pass::Job::<Self, ITEMS>::run(pass);
    }
}
