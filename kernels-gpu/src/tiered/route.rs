//! The shard of a key.
use crate::keyed::{Scalar, hash};
use core::marker::PhantomData;
use simt::{GlobalSlice, Instance, Name, device};

/// Maximum number of bits that select a shard.
pub const MOST_BITS: u32 = 20;

/// Changes the seed of a shard's table into that of the choice of the shard, so that both use different bits:
/// otherwise a shard's keys would use only a part of its buckets.
const OF_SHARDS: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the shard of a key, of 2^`bits` shards.
///
/// ```
/// use phalanx_kernels::tiered::shard_of;
///
/// assert_eq!(shard_of(7u32, 0, 1), 0);
/// assert!(shard_of(7u32, 3, 1) < 8);
/// ```
#[device]
pub fn shard_of<K: Scalar>(key: K, bits: u32, seed: u64) -> u32 {
    (hash(key, seed ^ OF_SHARDS).first as u64 >> (32 - bits.min(MOST_BITS))) as u32
}

/// Returns the word by which elements are sorted: the shard of the key in the high `bits` bits, then the high
/// bits of the hash that selects its first bucket. `S` is the type in which a table stores the key.
///
/// ```
/// use phalanx_kernels::tiered::{route, shard_of};
///
/// assert_eq!(route::<u32, u64>(7, 3, 1) >> 29, shard_of(7u32, 3, 1));
/// ```
#[device]
pub fn route<K: Scalar, S: Scalar>(key: K, bits: u32, seed: u64) -> u32 {
    let bits = bits.min(MOST_BITS);
    let low = hash(S::from_u64(key.to_u64()), seed).first >> bits;
    ((shard_of(key, bits, seed) as u64) << (32 - bits)) as u32 | low
}

/// Returns the word by which elements are sorted, of a key in shard number `shard`, which has the keys from
/// `low` to `high`: the shard in the high `bits` bits, then the position of the key in this range, in equal
/// steps.
///
/// ```
/// use phalanx_kernels::tiered::route_in_range;
///
/// assert_eq!(route_in_range(100u32, (100, 163), 5, 3), 5 << 29);
/// assert_eq!(route_in_range(132u32, (100, 163), 5, 3), 5 << 29 | 1 << 28);
/// ```
#[device]
pub fn route_in_range<K: Scalar>(key: K, (low, high): (K, K), shard: u32, bits: u32) -> u32 {
    let (low, room) = (low.to_u64(), 32 - bits.min(MOST_BITS));
    let width = 64 - high.to_u64().wrapping_sub(low).leading_zeros();
    let position = key.to_u64().wrapping_sub(low);
    let position = if width > room { position >> (width - room) } else { position << (room - width) };
    ((shard as u64) << room) as u32 | position as u32
}

/// Returns the number of sorted keys that are not above `key`.
#[device(caller)]
pub(super) fn not_above<K: Scalar>(sorted: GlobalSlice<K>, key: K) -> usize {
    let (mut first, mut len) = (0, sorted.len());
    while len > 0 {
        let half = len / 2;
        if sorted.read(first + half) <= key {
            (first, len) = (first + half + 1, len - half - 1);
        } else {
            len = half;
        }
    }
    first
}

/// Types of keys that are routed.
pub trait Routed: Copy + Send + Sync + 'static {
    /// Type of the keys.
    type Key: Scalar;
    /// Type in which a table stores them.
    type Stored: Scalar;
}

/// Keys of type `K` that tables store as `S`.
#[derive(Clone, Copy, Debug)]
pub struct Route<K, S>(PhantomData<fn() -> (K, S)>);

impl<K: Scalar, S: Scalar> Routed for Route<K, S> {
    type Key = K;
    type Stored = S;
}

impl<K: Scalar, S: Scalar> Instance for Route<K, S> {
    const NAME: &'static str = const { &Name::of("").unsigned::<K>().unsigned::<S>() }.as_str();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_get_equal_shares_of_all_buckets() {
        let (bits, mut counts) = (4, [[0u32; 16]; 16]);
        for key in 0..1u32 << 16 {
            let route = route::<u32, u32>(key, bits, 3);
            assert_eq!(route >> (32 - bits), shard_of(key, bits, 3));
            counts[(route >> 28) as usize][(route >> 24 & 15) as usize] += 1;
        }
        let [least, most] = [Iterator::min, Iterator::max].map(|of| of(counts.iter().flatten()).copied());
        assert!(least > Some(190) && most < Some(330), "{least:?} {most:?}");
    }

    #[test]
    fn routes_in_ranges_have_the_order_of_the_keys() {
        let ranges = [(0, 99), (100, 101), (102, 102), (103, 1 << 40), (1 << 40 | 1, u64::MAX)];
        let mut last = 0;
        for (shard, (low, high)) in ranges.into_iter().enumerate() {
            for key in [low, low + (high - low) / 3, low + (high - low) / 2, high] {
                let route = route_in_range(key, (low, high), shard as u32, 3);
                assert!(route >= last && route >> 29 == shard as u32, "{key}: {route:x}");
                last = route;
            }
        }
        assert_eq!(route_in_range(u64::MAX, (0, u64::MAX), 0, 0), u32::MAX);
    }

    #[test]
    fn one_shard_orders_by_bucket() {
        assert_eq!(route::<u64, u64>(9, 0, 5), hash(9u64, 5).first);
        assert_eq!(shard_of(9u64, 0, 5), 0);
    }
}
