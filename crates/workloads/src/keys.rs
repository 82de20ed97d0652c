//! Unique keys, and values derived from them.
//!
//! Key `i` is a seeded bijection of the counter `i`: two additions and xors around two rounds of a well-known
//! finaliser (MurmurHash3's for 32 bits, SplitMix64's for 64). Distinct counters yield distinct keys.
//! Therefore a range of counters that was never inserted yields keys that are certainly absent, without a set
//! to tell them apart.
use crate::permutation::Permutation;
use crate::random::{Source, below, tabulate};
use crate::{Error, Result, check_available};
use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// A key or a value: `u32` or `u64`.
pub trait Key: sealed::Sealed + Copy + Default + Debug + Eq + Ord + Hash + Send + Sync + 'static {
    /// Number of bits in the word.
    const BITS: u32;
    /// Returns the low bits of `wide`.
    fn truncate(wide: u64) -> Self;
    /// Returns the word widened to 64 bits.
    fn widen(self) -> u64;
    /// Applies a fixed bijection that spreads every bit over the word.
    fn mix(self) -> Self;
    /// Returns the wrapping sum.
    fn add(self, other: Self) -> Self;
}

impl Key for u32 {
    const BITS: u32 = 32;

    fn truncate(wide: u64) -> Self {
        wide as u32
    }

    fn widen(self) -> u64 {
        self.into()
    }

    fn mix(mut self) -> Self {
        self = (self ^ (self >> 16)).wrapping_mul(0x85eb_ca6b);
        self = (self ^ (self >> 13)).wrapping_mul(0xc2b2_ae35);
        self ^ (self >> 16)
    }

    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

impl Key for u64 {
    const BITS: u32 = 64;

    fn truncate(wide: u64) -> Self {
        wide
    }

    fn widen(self) -> u64 {
        self
    }

    fn mix(mut self) -> Self {
        self = (self ^ (self >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self = (self ^ (self >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self ^ (self >> 31)
    }

    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

/// An endless supply of distinct keys. Any key may occur, including `0` and the largest: no structure may
/// reserve one.
#[derive(Clone, Debug)]
pub struct UniqueKeys<K> {
    before: u64,
    between: u64,
    of: PhantomData<K>,
}

impl<K: Key> UniqueKeys<K> {
    /// Creates the key sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        let [before, between] = Source::new(seed, "unique keys").words();
        Self { before, between, of: PhantomData }
    }

    /// Returns the key of a counter, taken modulo the number of keys.
    pub fn at(&self, counter: u64) -> K {
        K::truncate(counter ^ self.before).mix().add(K::truncate(self.between)).mix()
    }

    /// Returns the first `n` keys: those that a structure holds.
    ///
    /// # Errors
    /// [`Error::TooMany`] when `n` is more than half of all keys.
    pub fn present(&self, n: usize) -> Result<Vec<K>> {
        self.range(0, n)
    }

    /// Returns `n` keys that no call of [`present`](Self::present) returns.
    ///
    /// # Errors
    /// [`Error::TooMany`] when `n` is more than half of all keys.
    pub fn absent(&self, n: usize) -> Result<Vec<K>> {
        self.range(Self::FIRST_ABSENT, n)
    }

    /// Counter of the first key that [`absent`](Self::absent) returns.
    pub const FIRST_ABSENT: u64 = 1 << (K::BITS - 1);

    /// Returns the keys of `n` counters, starting at `first`.
    fn range(&self, first: u64, n: usize) -> Result<Vec<K>> {
        check_available("unique keys", n as u64, Self::FIRST_ABSENT)?;
        Ok(tabulate(n, |index| self.at(first + index)))
    }
}

/// Returns the value of a key. A reader can thus verify any value that it finds.
pub fn value_of<K: Key, V: Key>(key: K) -> V {
    V::truncate((key.widen() ^ 0x9e37_79b9_7f4a_7c15).mix())
}

/// Returns the value of a key after an update. Every update of a key writes the same value, so the result of
/// concurrent updates is known, and a concurrent reader may see this value or [`value_of`].
pub fn updated_value_of<K: Key, V: Key>(key: K) -> V {
    V::truncate((key.widen() ^ 0xd1b5_4a32_d192_ed03).mix())
}

/// Returns `n` keys in random order, of which `rate * n` (rounded down) repeat another key, chosen uniformly.
///
/// # Errors
/// [`Error::OutOfRange`] when `rate` is not in `0..1`; [`Error::TooMany`] as for [`UniqueKeys::present`].
pub fn with_duplicates<K: Key>(n: usize, rate: f64, seed: u64) -> Result<Vec<K>> {
    let repeated = repeats(n as u64, rate)?;
    let unique = n as u64 - repeated;
    let keys = UniqueKeys::<K>::new(seed).present(unique as usize)?;
    let order = Permutation::new(n as u64, &Source::new(seed, "order of duplicates"));
    let source = Source::new(seed, "duplicates");
    Ok(source.generate(n, |generator, index| {
        let (place, other) = (order.at(index as u64), below(generator, unique));
        keys[if place < unique { place } else { other } as usize]
    }))
}

/// Returns the number of keys, of `n`, that repeat another one at `rate`.
pub(crate) fn repeats(n: u64, rate: f64) -> Result<u64> {
    if !(0.0..1.0).contains(&rate) {
        return Err(Error::OutOfRange { what: "the rate of duplicates", range: "0..1", found: rate });
    }
    Ok((n as f64 * rate) as u64)
}

/// Returns a checksum of a sequence of words that depends on their order (FNV-1a over their 64-bit values).
/// Tests and suites identify an input by it.
pub fn checksum<K: Key>(words: &[K]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325, |sum, word| (sum ^ word.widen()).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn all_distinct<K: Key>(keys: impl IntoIterator<Item = K>, n: usize) {
        assert_eq!(keys.into_iter().collect::<HashSet<_>>().len(), n);
    }

    #[test]
    fn present_and_absent_keys_are_distinct() {
        let keys = UniqueKeys::<u32>::new(11);
        let (hits, misses) = (keys.present(200_000).unwrap(), keys.absent(200_000).unwrap());
        all_distinct(hits.into_iter().chain(misses), 400_000);
        let keys = UniqueKeys::<u64>::new(11);
        let (hits, misses) = (keys.present(200_000).unwrap(), keys.absent(200_000).unwrap());
        all_distinct(hits.into_iter().chain(misses), 400_000);
    }

    /// All 2^32 counters would take too long. The mixers must not collide on 2^16 low and 2^16 high counters.
    #[test]
    fn the_mixers_are_bijections_of_sampled_lattices() {
        all_distinct((0..1u32 << 16).map(|x| x.mix()), 1 << 16);
        all_distinct((0..1u32 << 16).map(|x| (x << 16).mix()), 1 << 16);
        all_distinct((0..1u64 << 16).map(|x| (x << 48).mix()), 1 << 16);
    }

    #[test]
    fn keys_spread_evenly() {
        let mut counts = [0u32; 64];
        for key in UniqueKeys::<u32>::new(5).present(640_000).unwrap() {
            counts[(key >> 26) as usize] += 1;
        }
        let chi_squared: f64 = counts.iter().map(|&count| (count as f64 - 1e4).powi(2) / 1e4).sum();
        assert!(chi_squared < 120.0, "chi squared {chi_squared} with 63 degrees of freedom");
    }

    #[test]
    fn duplicates_come_at_their_rate() {
        let keys = with_duplicates::<u32>(100_000, 0.2, 1).unwrap();
        all_distinct(keys.iter().copied(), 80_000);
        let first_half: HashSet<_> = keys[..50_000].iter().collect();
        assert!((42_000..47_000).contains(&first_half.len()), "not mixed: {}", first_half.len());
        all_distinct(with_duplicates::<u64>(1_000, 0.0, 1).unwrap(), 1_000);
    }

    #[test]
    fn bad_requests_are_errors() {
        assert!(matches!(UniqueKeys::<u32>::new(1).present((1 << 31) + 1), Err(Error::TooMany { .. })));
        assert!(matches!(with_duplicates::<u32>(10, 1.0, 1), Err(Error::OutOfRange { .. })));
        assert!(matches!(with_duplicates::<u32>(10, f64::NAN, 1), Err(Error::OutOfRange { .. })));
        assert_eq!(with_duplicates::<u32>(0, 0.5, 1).unwrap(), []);
    }

    #[test]
    fn values_differ_from_their_updates() {
        assert!((0..10_000u32).all(|key| value_of::<_, u64>(key) != updated_value_of::<_, u64>(key)));
    }
}
