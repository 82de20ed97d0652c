//! Hashes of keys: a key's buckets in each level, and its fingerprint.
use simt::device;
use simt::hash::{mix64, reduce};

/// The hash of a key: two words. The first selects the buckets of the first two hash locations, the second
/// those of further ones, and the fingerprint.
///
/// ```
/// use phalanx_kernels::persistent::Hashed;
///
/// let hashed = Hashed::of(&[7, 8], 42); // a key of 16 bytes
/// assert!(hashed.bucket(0, 100) < 100 && (1..1 << 14).contains(&hashed.fingerprint()));
/// // A bucket of a level has two in the next one.
/// assert_eq!(hashed.bucket(1, 200) / 2, hashed.bucket(1, 100));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Hashed {
    pub(super) first: u64,
    pub(super) second: u64,
}

/// Number added between the words of a key, so that words which cancel out do not make keys collide.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[device]
impl Hashed {
    /// Hashes the words of a key. Tables with the same seed hash it to the same number.
    pub fn of(words: &[u64], seed: u64) -> Self {
        let (mut hash, mut index) = (seed, 0);
        while index < words.len() {
            hash = Self::mix(hash, words[index]);
            index += 1;
        }
        Self::finish(hash)
    }

    /// Adds a word of a key to the hash of the words before.
    pub(super) fn mix(hash: u64, word: u64) -> u64 {
        mix64(hash.wrapping_add(STEP) ^ word)
    }

    /// Returns the hash of a key whose words have been added.
    pub(super) fn finish(hash: u64) -> Self {
        Self { first: hash, second: mix64(hash ^ STEP) }
    }

    /// Returns the key's bucket at hash location `location`, from 0 to 3, in a level of `buckets` buckets. In
    /// a level of half as many buckets, it has half this number.
    pub fn bucket(self, location: u32, buckets: u32) -> u32 {
        let bits = match location {
            0 => (self.first >> 32) as u32,
            1 => self.first as u32,
            2 => self.second as u32,
            _ => (self.first ^ self.second >> 7) as u32,
        };
        reduce(bits, buckets)
    }

    /// Returns the hash in the key's fingerprint: 14 bits, not all 0.
    pub fn fingerprint(self) -> u32 {
        let bits = (self.second >> 50) as u32;
        if bits == 0 { 1 } else { bits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_levels_contain_each_other() {
        for key in 0..1000 {
            let hashed = Hashed::of(&[key], 3);
            for location in 0..4 {
                for buckets in [1, 3, 127, 5000] {
                    let of = |level: u32| hashed.bucket(location, buckets << level);
                    assert!((0..3).all(|level| of(level + 1) / 2 == of(level)));
                }
            }
        }
    }

    #[test]
    fn locations_and_fingerprints_are_independent_and_spread() {
        let keys = 0..100_000u64;
        for location in 0..4 {
            let mut taken = [0u32; 64];
            keys.clone().for_each(|key| taken[Hashed::of(&[key], 0).bucket(location, 64) as usize] += 1);
            // 100 000 / 64 = 1562, with a standard deviation of 39.
            assert!(taken.iter().all(|count| (1365..1760).contains(count)), "{location}: {taken:?}");
        }
        // Pairs of numbers below 8: each 100 000 / 64 times.
        for (a, b) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (0, 4), (1, 4), (2, 4), (3, 4)] {
            let mut taken = [0u32; 64];
            for key in keys.clone() {
                let hashed = Hashed::of(&[key, 1], 0);
                let of = |part| if part == 4 { hashed.fingerprint() >> 11 } else { hashed.bucket(part, 8) };
                taken[(of(a) * 8 + of(b)) as usize] += 1;
            }
            assert!(taken.iter().all(|count| (1365..1760).contains(count)), "{a} {b}: {taken:?}");
        }
    }
}
