//! Keys and values of constant sizes, made from numbers.
use phalanx::persistent_map::Plain;
use simt::hash::mix64;
use std::hash::Hash;
use workloads::UniqueKeys;

/// A key: 8-byte words, the first of which is unique.
pub trait Key: Plain + Eq + Hash {
    /// Returns the key whose first word this is.
    fn of(word: u64) -> Self;
}

/// A value: 8-byte words made from a key and a version.
pub trait Value: Plain {
    /// Returns a version of the value of the key with this first word.
    fn of(word: u64, version: u32) -> Self;

    /// Returns whether this is that version as a whole.
    fn is(&self, word: u64, version: u32) -> bool;
}

macro_rules! items {
    ($($words:literal)*) => {$(
        impl Key for [u64; $words] {
            fn of(word: u64) -> Self {
                std::array::from_fn(|index| if index == 0 { word } else { mix64(word ^ index as u64) })
            }
        }
    )*};
}
items!(1 2 4 8);

macro_rules! values {
    ($($words:literal)*) => {$(
        impl Value for [u64; $words] {
            fn of(word: u64, version: u32) -> Self {
                let first = mix64(word ^ u64::from(version).wrapping_mul(STEP));
                std::array::from_fn(|index| first.wrapping_add(STEP.wrapping_mul(index as u64)))
            }

            fn is(&self, word: u64, version: u32) -> bool {
                *self == <Self as Value>::of(word, version)
            }
        }
    )*};
}
values!(1 16);

/// An odd number without a pattern.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The keys of a map by their numbers.
#[derive(Clone, Debug)]
pub struct Numbered(UniqueKeys<u64>);

/// Bit of the numbers whose keys are never inserted.
pub const ABSENT: u32 = 1 << 31;

impl Numbered {
    /// Creates the keys of a seed.
    pub fn new(seed: u64) -> Self {
        Self(UniqueKeys::new(seed))
    }

    /// Returns the first word of a number's key.
    pub fn word(&self, number: u32) -> u64 {
        let is_absent = number & ABSENT != 0;
        self.0.at(u64::from(number & !ABSENT) | if is_absent { UniqueKeys::<u64>::FIRST_ABSENT } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_and_versions_differ() {
        let keys = Numbered::new(3);
        let words: HashSet<u64> = (0..1000).chain(ABSENT..ABSENT + 1000).map(|n| keys.word(n)).collect();
        assert_eq!(words.len(), 2000);
        let key: [u64; 4] = Key::of(7);
        assert!(key[0] == 7 && key[1] != key[2] && key != <[u64; 4] as Key>::of(8));
        let value = <[u64; 16] as Value>::of(7, 1);
        assert!(value.is(7, 1) && !value.is(7, 2) && !value.is(8, 1));
        let mut torn = value;
        torn[15] = <[u64; 16] as Value>::of(7, 2)[15];
        assert!(!torn.is(7, 1) && !torn.is(7, 2));
    }
}
