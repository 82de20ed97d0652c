//! Integer hash functions: bijections that spread every bit of the key over the word.
//!
//! ```
//! use simt::hash::{mix32, mix64, reduce};
//!
//! assert_ne!(mix32(1), mix32(2));
//! assert_ne!(mix64(1), mix64(2));
//! assert!(reduce(mix32(1), 10) < 10); // a bucket of ten
//! ```
//!
//! # Cost
//!
//! `mix32` and `mix64` are two multiplications and three shifts each, `reduce` one multiplication: a few
//! instructions in registers, without memory access.
use simt_macros::device;

/// Mixes 32 bits (the finaliser of MurmurHash3: two multiplications).
#[device]
pub const fn mix32(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x85eb_ca6b);
    x ^= x >> 13;
    x = x.wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// Mixes 64 bits (the finaliser of SplitMix64).
#[device]
pub const fn mix64(mut x: u64) -> u64 {
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Maps a mixed word onto `0..range` by the high half of a product: no division, any range.
#[device]
pub const fn reduce(mixed: u32, range: u32) -> u32 {
    ((mixed as u64 * range as u64) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reduce_stays_in_range_and_reaches_both_ends() {
        for range in [1, 2, 3, 1000, u32::MAX] {
            assert_eq!(reduce(0, range), 0);
            assert_eq!(reduce(u32::MAX, range), range - 1);
        }
    }

    #[test]
    fn mixing_changes_half_the_bits() {
        let flipped: u32 = (0..1000u32).map(|x| (mix32(x) ^ mix32(x ^ 1)).count_ones()).sum();
        assert!((14_000..18_000).contains(&flipped), "{flipped} of 32 000 bits");
        let flipped: u32 = (0..1000u64).map(|x| (mix64(x) ^ mix64(x ^ 1)).count_ones()).sum();
        assert!((29_000..35_000).contains(&flipped), "{flipped} of 64 000 bits");
    }
}
