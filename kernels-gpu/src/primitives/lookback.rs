//! How a tile learns what stands before it: decoupled look-back (Merrill and Garland, 2016).
//!
//! A tile publishes first what it has itself ([`Flag::Partial`]), then what it has with all tiles before it
//! ([`Flag::Inclusive`]). Whoever needs what stands before tile `t` adds up the partials of `t - 1`, `t - 2`
//! and so on, until it meets an inclusive one.
//!
//! # Why this is safe
//!
//! - *One word says it all.* The flag lies in the word whose value it is about, and a word is read and
//!   written in one access. So relaxed accesses are enough: nothing else is published by them, and there is
//!   nothing that an acquire could make visible. A value of several words has a flag in each; a reader that
//!   finds two different ones reads again ([`Published`]).
//! - *Words only move on*: empty, partial, inclusive. Coherence of one word is all that is needed for a
//!   reader never to see an older state after a newer one; and it would not matter, for both lead to the same
//!   sum.
//! - *The wait ends.* Numbers are given out when blocks begin to run ([`super::ticket`]), and a tile
//!   publishes its partial before it waits for anybody. So all words that are waited for come from blocks
//!   that run, and tile 0 waits for none. (A block that has several tiles: see [`super::tiles`].)
//! - *Words are empty before*: the launch before this one cleared them, and launches in a stream are ordered.
use simt::{Global, GlobalSlice, Order, Scope, Shuffle, Tile, pause, spin_hint};

/// What a word of a tile says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// Nothing yet. It must be zero: cleared memory says so.
    Empty = 0,
    /// The tile alone.
    Partial = 1,
    /// The tile, and all before it.
    Inclusive = 2,
}

/// The words that the counts of one digit are published in: 30 bits, and two for the flag. A row of
/// [`DigitCounts::COLUMNS`] a tile.
#[derive(Clone, Copy, Debug)]
pub struct DigitCounts {
    column: Global<u32>,
}

/// Words that a thread reads at a time when it looks back.
const WINDOW: usize = 4;

impl DigitCounts {
    /// Digits.
    pub const COLUMNS: usize = super::sort::DIGITS as usize;
    const SHIFT: u32 = 30;
    const COUNT: u32 = (1 << Self::SHIFT) - 1;

    /// Those of a digit, in `words` that have a row for each tile of the launch.
    #[inline(always)]
    #[track_caller]
    pub(super) fn of(words: GlobalSlice<u32>, digit: u32) -> Self {
        Self { column: words.at(digit as usize) }
    }

    #[inline(always)]
    fn word(self, tile: u32) -> Global<u32> {
        // SAFETY: the launch has a row for each of its tiles.
        unsafe { self.column.offset(tile as usize * Self::COLUMNS) }
    }

    /// Publishes a tile's count.
    #[inline(always)]
    #[track_caller]
    pub(super) fn publish(self, tile: u32, count: u32, flag: Flag) {
        self.word(tile).store((flag as u32) << Self::SHIFT | count, Order::Relaxed, Scope::Device);
    }

    /// What the calling thread has published for a tile.
    #[inline(always)]
    #[track_caller]
    pub(super) fn published(self, tile: u32) -> u32 {
        self.word(tile).load(Order::Relaxed, Scope::Device) & Self::COUNT
    }

    /// The count of all tiles before `tile`, which is not the first.
    ///
    /// Words are read a few at a time, since each takes its time to come; those beyond the first tile are
    /// read as its own, and never looked at, for its word is inclusive.
    #[inline(always)]
    #[track_caller]
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

/// A value that tiles publish in words of 32 bits, each with its flag: 64 bits in all.
pub trait Published: Shuffle {
    /// Words.
    const WORDS: usize;

    /// Word number `place`.
    fn word(self, place: usize) -> u32;

    /// The value of its words.
    fn from_words(word: impl FnMut(usize) -> u32) -> Self;
}

impl Published for u32 {
    const WORDS: usize = 1;

    #[inline(always)]
    fn word(self, _place: usize) -> u32 {
        self
    }

    #[inline(always)]
    fn from_words(mut word: impl FnMut(usize) -> u32) -> Self {
        word(0)
    }
}

impl Published for u64 {
    const WORDS: usize = 2;

    #[inline(always)]
    fn word(self, place: usize) -> u32 {
        (self >> (32 * place)) as u32
    }

    #[inline(always)]
    fn from_words(mut word: impl FnMut(usize) -> u32) -> Self {
        word(0) as u64 | (word(1) as u64) << 32
    }
}

impl<V: Published> Published for (u32, V) {
    const WORDS: usize = 1 + V::WORDS;

    #[inline(always)]
    fn word(self, place: usize) -> u32 {
        if place == 0 { self.0 } else { self.1.word(place - 1) }
    }

    #[inline(always)]
    fn from_words(mut word: impl FnMut(usize) -> u32) -> Self {
        (word(0), V::from_words(|place| word(place + 1)))
    }
}

/// What tiles combine: an associative operation with an identity.
pub trait Monoid: Copy + Send + Sync + 'static {
    /// What it combines.
    type Value: Published;
    /// What changes nothing.
    const IDENTITY: Self::Value;

    /// `first` and then `second`.
    fn combine(first: Self::Value, second: Self::Value) -> Self::Value;

    /// All lanes' values combined in the lanes' order, given to every lane. The lanes of the warp call it
    /// together.
    #[inline(always)]
    #[track_caller]
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

/// What the lanes up to each come to, of the first `lanes` lanes. All lanes of the warp call it together.
#[inline(always)]
#[track_caller]
pub fn scan_lanes<M: Monoid>(warp: Tile<32>, value: M::Value, lanes: u32) -> M::Value {
    let (mut sum, mut by) = (value, 1);
    while by < lanes {
        let below = warp.shuffle_up(sum, by);
        sum = if warp.rank() >= by { M::combine(below, sum) } else { sum };
        by *= 2;
    }
    sum
}

/// The most words of a [`Published`], and one to fill up pairs.
const MOST_WORDS: usize = 4;

/// Words from one tile's value to the next one's, for values of `words` words. More than one are read and
/// written in pairs, 16 bytes at a time.
pub const fn stride(words: usize) -> usize {
    words.next_power_of_two()
}

/// The words that tiles publish their values in, [`stride`] words a tile.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    words: GlobalSlice<u64>,
}

impl Values {
    /// Those of as many tiles as `words` has room for; it is aligned to 16 bytes.
    #[inline(always)]
    pub fn of(words: GlobalSlice<u64>) -> Self {
        Self { words }
    }

    /// Ends the launch where there is no room for a tile's value. Then there is room for those before it,
    /// too.
    #[inline(always)]
    #[track_caller]
    pub(super) fn check<V: Published>(self, tile: u32) {
        if (tile as usize + 1) * const { stride(V::WORDS) } > self.words.len() {
            simt::trap();
        }
    }

    #[inline(always)]
    fn word(self, tile: u32, stride: usize, place: usize) -> Global<u64> {
        // SAFETY: the tile was checked, or one behind it; places are below the stride.
        unsafe { Global::new(self.words.as_ptr().wrapping_add(tile as usize * stride + place)) }
    }

    /// Publishes the value of a tile that was [checked](Self::check).
    #[inline(always)]
    #[track_caller]
    pub(super) fn publish<V: Published>(self, tile: u32, value: V, flag: Flag) {
        let word = |place: usize| (flag as u64) << 32 | value.word(place) as u64;
        let stride = const { stride(V::WORDS) };
        let mut place = 0;
        while place + 1 < V::WORDS {
            let at = self.word(tile, stride, place);
            // SAFETY: a pair of one tile, aligned to itself, for the stride is even.
            unsafe { at.store_vec([word(place), word(place + 1)], Order::Relaxed, Scope::Device) };
            place += 2;
        }
        if place < V::WORDS {
            self.word(tile, stride, place).store(word(place), Order::Relaxed, Scope::Device);
        }
    }

    /// What a tile has published. Words that do not say the same (the tile is just publishing) are as good as
    /// none.
    #[inline(always)]
    #[track_caller]
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

    /// What all tiles before `tile`, which was [checked](Self::check), come to, given to every lane; all
    /// lanes of the warp call it together. 32 tiles at a time, a lane a tile: the nearest is the last lane's,
    /// so that lanes stand in the order of their tiles. Before the first look, and where it finds nothing, it
    /// waits for `nap` nanoseconds; 0 is a [`spin_hint`], and none before the first.
    #[inline(always)]
    #[track_caller]
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
            // The lane of the nearest inclusive one: what lanes below it have does not matter.
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
