//! Hashes of keys: a key's buckets, its digest, and the sector in which its searches begin.
use super::digest::Digest;
use crate::keyed::Scalar;
use simt::device;
use simt::hash::{mix64, reduce};

/// The hash of a key.
///
/// ```text
/// bit  63 .. 32             31 .. 10               9 8      7 .. 0
///      first bucket         second bucket          sector   digest
/// ```
///
/// ```
/// use phalanx_kernels::cache::Hashed;
///
/// let hashed = Hashed::of(7u64, 0);
/// let (first, second) = (hashed.bucket(0, 100), hashed.bucket(1, 100));
/// assert!(first != second && hashed.sector() < 4 && hashed.digest().has_key());
/// ```
///
/// A bucket is the product of 32 bits and the number of buckets, shifted right. With at most 2^22 buckets,
/// the second bucket depends on the bits above 9 only, so digests are independent of it.
#[derive(Clone, Copy, Debug)]
pub struct Hashed(u64);

#[device]
impl Hashed {
    /// Hashes a key. Structures with the same seed hash it to the same number.
    pub fn of<K: Scalar>(key: K, seed: u64) -> Self {
        Self(mix64(key.to_u64() ^ seed))
    }

    /// Returns the digest of the key.
    pub fn digest(self) -> Digest {
        Digest::of_hash(self.0)
    }

    /// Returns the sector of 32 slots, from 0 to 3, in which searches begin.
    pub fn sector(self) -> u32 {
        self.0 as u32 >> 8 & 3
    }

    /// Returns the key's `choice`-th bucket: the first or the second of `buckets`. They differ, unless there
    /// is only one.
    pub fn bucket(self, choice: u32, buckets: u32) -> u32 {
        let first = reduce((self.0 >> 32) as u32, buckets);
        if choice == 0 {
            return first;
        }
        let second = reduce(self.0 as u32, buckets);
        if second != first {
            return second;
        }
        if first + 1 < buckets { first + 1 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_of_a_key_differ_and_keys_spread_over_all() {
        for buckets in [1, 2, 3, 100] {
            let mut taken = vec![[0; 2]; buckets as usize];
            for key in 0..1000 * buckets as u64 {
                let hashed = Hashed::of(key, 7);
                let both = [0, 1].map(|choice| hashed.bucket(choice, buckets));
                assert!(buckets == 1 || both[0] != both[1]);
                (0..2).for_each(|choice| taken[both[choice] as usize][choice] += 1);
            }
            assert!(taken.iter().flatten().all(|count| (800..1200).contains(count)), "{taken:?}");
        }
    }

    #[test]
    fn seeds_place_keys_elsewhere() {
        let bucket = |key, seed| Hashed::of(key, seed).bucket(0, 1000);
        assert!((0..100u64).filter(|&key| bucket(key, 1) == bucket(key, 2)).count() < 5);
    }
}
