//! Prefix sums over tiles by decoupled look-back (Merrill and Garland, 2016).
//!
//! A tile first publishes its own sum ([`Flag::Partial`]), then the sum of itself and all tiles before it
//! ([`Flag::Inclusive`]). To compute the sum of all tiles before tile `t`, a tile adds up the partial sums of
//! `t - 1`, `t - 2` and so on, until it finds an inclusive one.
//!
//! # Correctness
//!
//! - *One word suffices.* The flag lies in the same word as its value, and a word is read and written in one
//!   access. So relaxed accesses suffice: they publish no other memory, and an acquire would make nothing
//!   else visible. A value of several words has a flag in each; a reader that finds different flags reads
//!   again ([`Published`]).
//! - *States only advance*: empty, partial, inclusive. By the coherence of each word a reader never sees an
//!   older state after a newer one; and if it did, both would lead to the same sum.
//! - *The wait ends.* Blocks draw their numbers when they begin to run (`super::ticket`), and a tile
//!   publishes its partial sum before it waits for another. So only words of running blocks are waited for,
//!   and tile 0 waits for none. (For blocks with several tiles see `super::tiles`.)
//! - *Words are empty at first*: an earlier launch cleared them, and launches in a stream are ordered.
//!
//! ```
//! use phalanx_kernels::primitives::lookback::{Monoid, Published, Values, scan_lanes, stride};
//! use phalanx_kernels::primitives::operator::Sum;
//! use simt::{GlobalSlice, Tile};
//!
//! assert_eq!(Sum::<u64>::combine(3, 4), 7);
//! let words = [0, 1].map(|place| (5u64 << 32 | 6).word(place));
//! assert_eq!((words, u64::from_words(|place| words[place])), ([6, 5], 5 << 32 | 6));
//! assert_eq!((stride(2), stride(3)), (2, 4));
//!
//! /// Returns the prefix sum of each lane, and the warp's sum.
//! fn prefix_and_sum(warp: Tile<32>, value: u64) -> (u64, u64) {
//!     (scan_lanes::<Sum<u64>>(warp, value, 32), Sum::<u64>::fold(warp, value))
//! }
//!
//! /// Returns the words in which the tiles of a launch publish their sums.
//! fn status(words: GlobalSlice<u64>) -> Values {
//!     Values::of(words)
//! }
//! ```
//!
//! # Cost
//!
//! A tile publishes its sum twice, and looks back over 32 tiles per load of a warp. [`scan_lanes`] is five
//! shuffles and combinations. Conversions are arithmetic in registers.
use simt::{Global, GlobalSlice, Order, Scope, Shuffle, Tile, device, pause, spin_hint};

/// State of a tile's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// Nothing is published yet. Zero, so that clearing the memory sets it.
    Empty = 0,
    /// The sum of the tile alone.
    Partial = 1,
    /// The sum of the tile and all tiles before it.
    Inclusive = 2,
}

/// The words in which the counts of one digit are published: 30 bits of count and two of flag. Each tile has
/// a row of [`DigitCounts::COLUMNS`] words.
#[derive(Clone, Copy, Debug)]
pub struct DigitCounts {
    column: Global<u32>,
}

/// Number of words that a thread reads at a time in look-back.
const WINDOW: usize = 4;

#[device(caller)]
impl DigitCounts {
    /// Number of digit values.
    pub const COLUMNS: usize = super::sort::DIGITS as usize;
    const SHIFT: u32 = 30;
    const COUNT: u32 = (1 << Self::SHIFT) - 1;

    /// Returns the column of a digit in `words`, which have a row for each tile of the launch.
    pub(super) fn of(words: GlobalSlice<u32>, digit: u32) -> Self {
        Self { column: words.at(digit as usize) }
    }

    #[device]
    fn word(self, tile: u32) -> Global<u32> {
        // SAFETY: the launch has a row for each of its tiles.
        unsafe { self.column.offset(tile as usize * Self::COLUMNS) }
    }

    /// Publishes a tile's count.
    pub(super) fn publish(self, tile: u32, count: u32, flag: Flag) {
        self.word(tile).store((flag as u32) << Self::SHIFT | count, Order::Relaxed, Scope::Device);
    }

    /// Returns the count that the calling thread has published for a tile.
    pub(super) fn published(self, tile: u32) -> u32 {
        self.word(tile).load(Order::Relaxed, Scope::Device) & Self::COUNT
    }

    /// Returns the count of all tiles before `tile`, which is not the first.
    ///
    /// Reads several words at a time to overlap their latencies. Indices before the first tile are clamped to
    /// it; the repeated words are never used, because the first tile's word is inclusive.
    pub(super) fn before(self, tile: u32) -> u32 {
        let (mut sum, mut at) = (0, tile);
        loop {
            let words: [u32; WINDOW] = core::array::from_fn(|back| {
                self.word(at.saturating_sub(1 + back as u32)).load(Order::Relaxed, Scope::Device)
            });
            let mut waits = false;
            for word in words {
                let flag = word >> Self::SHIFT;
                waits |= flag == Flag::Empty as u32;
                if !waits {
                    sum += word & Self::COUNT;
                    at -= 1;
                }
                if !waits && flag == Flag::Inclusive as u32 {
                    return sum;
                }
            }
            if waits {
                spin_hint();
            }
        }
    }
}

/// A value that tiles publish in 64-bit words: 32 bits of the value and its flag in each.
pub trait Published: Shuffle {
    /// Number of words.
    const WORDS: usize;

    /// Returns the 32 bits with index `place`.
    fn word(self, place: usize) -> u32;

    /// Returns the value with the given words.
    fn from_words(word: impl FnMut(usize) -> u32) -> Self;
}

#[device]
impl Published for u32 {
    const WORDS: usize = 1;

    fn word(self, _place: usize) -> u32 {
        self
    }

    fn from_words(mut word: impl FnMut(usize) -> u32) -> Self {
        word(0)
    }
}

#[device]
impl Published for u64 {
    const WORDS: usize = 2;

    fn word(self, place: usize) -> u32 {
        (self >> (32 * place)) as u32
    }

    fn from_words(mut word: impl FnMut(usize) -> u32) -> Self {
        word(0) as u64 | (word(1) as u64) << 32
    }
}

#[device]
impl<V: Published> Published for (u32, V) {
    const WORDS: usize = 1 + V::WORDS;

    fn word(self, place: usize) -> u32 {
        if place == 0 { self.0 } else { self.1.word(place - 1) }
    }

    fn from_words(mut word: impl FnMut(usize) -> u32) -> Self {
        (word(0), V::from_words(|place| word(place + 1)))
    }
}

/// An associative operation with an identity, by which the sums of tiles are combined.
pub trait Monoid: Copy + Send + Sync + 'static {
    /// Type of the values.
    type Value: Published;
    /// Identity of the operation.
    const IDENTITY: Self::Value;

    /// Combines `first` and `second`, in this order.
    fn combine(first: Self::Value, second: Self::Value) -> Self::Value;

    /// Combines the values of all lanes in lane order, and returns the result to every lane. The lanes of the
    /// warp call it together.
    #[device(caller)]
    fn fold(warp: Tile<32>, value: Self::Value) -> Self::Value {
        let (mut all, mut flip) = (value, 1);
        while flip < 32 {
            let other = warp.shuffle_xor(all, flip);
            all = if warp.rank() & flip == 0 { Self::combine(all, other) } else { Self::combine(other, all) };
            flip *= 2;
        }
        all
    }
}

/// Returns to each of the first `lanes` lanes the combination of the values up to its own. All lanes of the
/// warp call it together.
#[device(caller)]
pub fn scan_lanes<M: Monoid>(warp: Tile<32>, value: M::Value, lanes: u32) -> M::Value {
    let (mut sum, mut by) = (value, 1);
    while by < lanes {
        let below = warp.shuffle_up(sum, by);
        sum = if warp.rank() >= by { M::combine(below, sum) } else { sum };
        by *= 2;
    }
    sum
}

/// Maximum number of words of a [`Published`], rounded up to whole pairs.
const MOST_WORDS: usize = 4;

/// Returns the number of words from one tile's value to the next, for values of `words` words. Values of
/// several words are read and written in pairs, 16 bytes at a time.
pub const fn stride(words: usize) -> usize {
    words.next_power_of_two()
}

/// The words in which tiles publish their values, [`stride`] words per tile.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    words: GlobalSlice<u64>,
}

#[device(caller)]
impl Values {
    /// Returns the values in `words`, which is aligned to 16 bytes.
    #[device]
    pub fn of(words: GlobalSlice<u64>) -> Self {
        Self { words }
    }

    /// Ends the launch if there are no words for the value of `tile`. Otherwise there are words for all
    /// earlier tiles too.
    pub(super) fn check<V: Published>(self, tile: u32) {
        if (tile as usize + 1) * const { stride(V::WORDS) } > self.words.len() {
            simt::trap();
        }
    }

    #[device]
    fn word(self, tile: u32, stride: usize, place: usize) -> Global<u64> {
        // SAFETY: this tile or a later one was checked; `place` is below the stride.
        unsafe { Global::new(self.words.as_ptr().wrapping_add(tile as usize * stride + place)) }
    }

    /// Publishes the value of a tile that was [checked](Self::check).
    pub(super) fn publish<V: Published>(self, tile: u32, value: V, flag: Flag) {
        let word = |place: usize| (flag as u64) << 32 | value.word(place) as u64;
        let stride = const { stride(V::WORDS) };
        let mut place = 0;
        while place + 1 < V::WORDS {
            let at = self.word(tile, stride, place);
            // SAFETY: a pair of words of one tile, aligned to its size because the stride is even.
            unsafe { at.store_vec([word(place), word(place + 1)], Order::Relaxed, Scope::Device) };
            place += 2;
        }
        if place < V::WORDS {
            self.word(tile, stride, place).store(word(place), Order::Relaxed, Scope::Device);
        }
    }

    /// Reads a tile's flag and value. If the flags of the words differ, because the tile is just publishing,
    /// returns [`Flag::Empty`].
    fn read<V: Published>(self, tile: u32) -> (u32, V) {
        let mut words = [0; MOST_WORDS];
        let stride = const { stride(V::WORDS) };
        if V::WORDS == 1 {
            words[0] = self.word(tile, stride, 0).load(Order::Relaxed, Scope::Device);
        }
        for pair in 0..stride / 2 {
            let at = self.word(tile, stride, 2 * pair);
            // SAFETY: as in `publish`.
            [words[2 * pair], words[2 * pair + 1]] = unsafe { at.load_vec(Order::Relaxed, Scope::Device) };
        }
        let flag = (words[0] >> 32) as u32;
        let agree = words[1..V::WORDS].iter().all(|word| (*word >> 32) as u32 == flag);
        (if agree { flag } else { Flag::Empty as u32 }, V::from_words(|place| words[place] as u32))
    }

    /// Returns to every lane the sum of all tiles before `tile`, which was [checked](Self::check). All lanes
    /// of the warp call it together. Reads 32 tiles at a time, one per lane; the last lane reads the nearest
    /// tile, so that lanes are in the order of their tiles. Pauses for `nap` nanoseconds before the first
    /// read and after each read that finds a tile unpublished. If `nap` is 0, it does not pause before the
    /// first read, and uses [`spin_hint`] afterwards.
    pub(super) fn before<M: Monoid>(self, tile: u32, nap: u32) -> M::Value {
        let warp = Tile::<32>::lockstep();
        let (mut sum, mut end) = (M::IDENTITY, tile);
        if nap > 0 {
            pause(nap);
        }
        loop {
            let back = 32 - warp.rank();
            let (flag, value) = match end >= back {
                true => self.read::<M::Value>(end - back),
                false => (Flag::Inclusive as u32, M::IDENTITY),
            };
            let inclusive = warp.ballot(flag == Flag::Inclusive as u32);
            // The lane of the nearest inclusive value: the values of lower lanes are not needed.
            let nearest = if inclusive == 0 { 0 } else { 31 - inclusive.leading_zeros() };
            if warp.ballot(flag == Flag::Empty as u32) >> nearest != 0 {
                if nap > 0 {
                    pause(nap)
                } else {
                    spin_hint()
                }
                continue;
            }
            let needed = if warp.rank() >= nearest { value } else { M::IDENTITY };
            sum = M::combine(M::fold(warp, needed), sum);
            if inclusive != 0 {
                return sum;
            }
            end -= 32;
        }
    }
}
