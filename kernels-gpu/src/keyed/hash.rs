//! Hashes of keys.
use super::slot::Scalar;
use simt::hash::{mix32, mix64};

/// The hash of a key: 32 mixed bits for the first bucket, and the means to more.
#[derive(Clone, Copy, Debug)]
pub struct Hashed {
    /// Mixed bits.
    pub first: u32,
    /// Bits that the distance is made of.
    pub second: u32,
}

/// Two hashes of a key. A 64-bit key gives both by one mixing; a 32-bit key's second one is mixed when a walk
/// needs it.
#[inline(always)]
pub fn hash<K: Scalar>(key: K) -> Hashed {
    if K::BITS == 64 {
        let mixed = mix64(key.to_u64());
        Hashed { first: (mixed >> 32) as u32, second: mixed as u32 }
    } else {
        let key = key.to_u64() as u32;
        Hashed { first: mix32(key), second: key }
    }
}
