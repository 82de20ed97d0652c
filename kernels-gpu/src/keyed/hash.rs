//! Hashes of keys.
use super::slot::Scalar;
use simt::device;
use simt::hash::{mix32, mix64};

/// The hash of a key: 32 mixed bits for the first bucket, and the bits from which the step is derived.
#[derive(Clone, Copy, Debug)]
pub struct Hashed {
    /// Mixed bits, which select the first bucket.
    pub first: u32,
    /// Bits from which the step between probes is derived.
    pub second: u32,
}

/// Returns the two hashes of a key for a seed, of which a 32-bit key uses the low half. For a 64-bit key one
/// mixing yields both; the second hash of a 32-bit key is mixed only when a probe sequence needs it.
#[device]
pub fn hash<K: Scalar>(key: K, seed: u64) -> Hashed {
    if K::BITS == 64 {
        let mixed = mix64(key.to_u64() ^ seed);
        Hashed { first: (mixed >> 32) as u32, second: mixed as u32 }
    } else {
        let key = key.to_u64() as u32 ^ seed as u32;
        Hashed { first: mix32(key), second: key }
    }
}
