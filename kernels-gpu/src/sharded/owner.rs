//! The rank that has a key.
use crate::keyed::Scalar;
use simt::device;
use simt::hash::{mix64, reduce};

/// Odd factor, by which a key is multiplied before it is mixed. Tables mix keys, too, after an exclusive-or
/// with a seed; no seed makes both functions equal.
const OF_OWNERS: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the owner of a key among `owners` ranks, which need not be a power of two: the upper 32 bits of a
/// hash of the key, times `owners`, divided by 2^32. The hash is independent of those that select buckets.
///
/// ```
/// use phalanx_kernels::sharded::owner_of;
///
/// assert_eq!(owner_of(7u32, 1), 0);
/// assert!(owner_of(7u64, 3) < 3);
/// assert_eq!(owner_of(7u32, 5), owner_of(7u64, 5)); // as numbers, whatever their type is
/// ```
#[device]
pub fn owner_of<K: Scalar>(key: K, owners: u32) -> u32 {
    reduce((mix64(key.to_u64().wrapping_mul(OF_OWNERS)) >> 32) as u32, owners)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyed::hash;

    /// Returns the chi-square statistic of counts that should be equal.
    fn chi_square(counts: &[u32]) -> f64 {
        let mean = counts.iter().sum::<u32>() as f64 / counts.len() as f64;
        counts.iter().map(|&count| (count as f64 - mean).powi(2) / mean).sum()
    }

    /// Checks that keys spread evenly over owners, and the keys of each owner over buckets: each statistic is
    /// within five standard deviations of its mean.
    fn check<K: Scalar>(keys: impl Fn(u64) -> K, owners: u32, seed: u64) {
        const BUCKETS: usize = 256;
        let mut fills = vec![[0u32; BUCKETS]; owners as usize];
        (0..1u64 << 16).map(keys).for_each(|key| {
            let bucket = reduce(hash(key, seed).first, BUCKETS as u32);
            fills[owner_of(key, owners) as usize][bucket as usize] += 1;
        });
        let is_even = |counts: &[u32]| {
            let free = counts.len() as f64 - 1.0;
            chi_square(counts) < free + 5.0 * (2.0 * free).sqrt() + 3.0
        };
        let of_owners: Vec<u32> = fills.iter().map(|fill| fill.iter().sum()).collect();
        assert!(is_even(&of_owners), "{owners} owners: {of_owners:?}");
        assert!(fills.iter().all(|fill| is_even(fill)), "{owners} owners, seed {seed}");
    }

    #[test]
    fn owners_and_buckets_are_independent() {
        for owners in [2, 3, 5, 8, 32] {
            for seed in [0, 1, OF_OWNERS, u64::MAX] {
                check(|number| number, owners, seed);
                check(|number| number as u32, owners, seed);
                check(|number| number << 20, owners, seed);
                check(mix64, owners, seed);
            }
        }
    }
}
