//! Probing schemes: which buckets may contain a key, in which order they are probed, and when a search may
//! end.
//!
//! Every scheme uses the same double-hash sequence (the number of buckets is prime, so every step from 1 to
//! the number of buckets less 1 visits them all). Schemes differ only where the uniqueness of keys permits
//! it: where in the sequence a key may be inserted, and how a search learns that the key did not overflow
//! further.
use crate::keyed::Hashed;
use core::marker::PhantomData;
use simt::hash::{mix32, reduce};
use simt::{Name, bound, device};

/// Position of an operation in its probe sequence. Lives in the registers of the operation's owner.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    /// Bucket to probe.
    pub bucket: u32,
    /// Number of probes left, including this one.
    pub left: u32,
    /// Step to the next bucket; 0 if not yet computed.
    step: u32,
    /// Index of the bucket in the probe sequence.
    place: u32,
}

/// Number of overflow buckets behind the table, for the keys equal to a reserved pattern.
pub const OVERFLOW_BUCKETS: u32 = 16;

/// Number of probes from which on a probe sequence counts as long. A key that is removed and inserted again
/// and again causes it, not chance: of 7.6 million inserts in simulated tables of 4 slots per bucket, filled
/// to a load of 0.95, five probed 64 buckets and none 128. There, one insert in 6 700 reaches a bound of 32
/// by chance.
pub const LONG: u32 = 128;

#[device]
impl Cursor {
    /// Mask of the bucket in the packed word.
    pub const BUCKET: u32 = u32::MAX >> 1;
    /// Flag in the packed word: no bucket may be probed after this one.
    pub const LAST: u32 = 1 << 31;

    /// Packs the part of the cursor that a tile needs into one word, so that one shuffle moves it.
    pub fn pack(self) -> u32 {
        let last = if self.left == 1 { Self::LAST } else { 0 };
        self.bucket | last
    }

    /// Returns the start of a probe sequence of at most `left` probes in a table of `buckets` buckets.
    pub fn start(hash: Hashed, buckets: u32, left: u32) -> Self {
        Self { bucket: reduce(hash.first, buckets), left, step: 0, place: 0 }
    }

    /// Returns the start of a linear probe sequence through the overflow buckets behind a table of `buckets`
    /// buckets.
    pub fn overflow(buckets: u32) -> Self {
        Self { bucket: buckets, left: bound(OVERFLOW_BUCKETS), step: 0, place: 2 }
    }

    /// Returns whether a sequence of at most `max_probes` probes has become [long](LONG) or, in the overflow
    /// buckets, whether at least half of it has been used.
    pub fn is_long(self, buckets: u32, max_probes: u32) -> bool {
        let in_overflow = self.bucket >= buckets;
        let least =
            if in_overflow { bound(OVERFLOW_BUCKETS / 2) } else { max_probes.saturating_sub(bound(LONG)) };
        self.left <= least
    }

    /// Advances to the next bucket of the probe sequence. The table has at least two buckets.
    pub fn advance<P: Probe>(&mut self, hash: Hashed, buckets: u32) {
        self.left -= 1;
        if self.bucket >= buckets {
            self.bucket += 1;
        } else {
            P::advance(self, hash, buckets);
        }
    }

    /// Advances to the next bucket of the double hash.
    fn stride(&mut self, hash: Hashed, buckets: u32) {
        if self.step == 0 {
            self.step = 1 + reduce(mix32(hash.second ^ 0x9e37_79b9), buckets - 1);
        }
        self.bucket = Self::wrap(self.bucket as u64 + self.step as u64, buckets);
    }

    fn wrap(bucket: u64, buckets: u32) -> u32 {
        if bucket >= buckets as u64 { (bucket - buckets as u64) as u32 } else { bucket as u32 }
    }
}

/// A probing scheme.
///
/// ```compile_fail
/// # use phalanx_kernels::hash_map::{Cursor, Hashed, Probe};
/// #[derive(Clone, Copy)]
/// struct Astray;
///
/// // The cursor determines which memory is accessed: this needs an `unsafe impl`.
/// impl Probe for Astray {
///     const NAME: &'static str = "astray";
///     const FILTER_BITS: u32 = 0;
///     const EXTRA_PROBES: u32 = 0;
///     fn advance(cursor: &mut Cursor, _hash: Hashed, _buckets: u32) {
///         cursor.bucket = 1 << 30;
///     }
/// }
/// ```
///
/// # Safety
/// - [`Self::advance`] leaves the cursor at a bucket below `buckets` if it was at one before.
/// - [`Self::FILTER_BITS`] is 0, 8, 16 or 32.
pub unsafe trait Probe: Copy + Send + Sync + 'static {
    /// Name of the scheme, with which the names of its tables begin: letters, digits and underscores.
    const NAME: &'static str;
    /// Number of filter bits per bucket (0, 8, 16 or 32). The filter records which keys overflowed from the
    /// full bucket.
    const FILTER_BITS: u32;
    /// Number of probes that an operation may make beyond one per bucket.
    const EXTRA_PROBES: u32;
    /// Whether nothing writes while kernels run: their loads may then come from the L1 cache. See [`Phased`].
    const FROZEN: bool = false;

    /// Advances the cursor from a bucket of the table, which has at least two buckets.
    fn advance(cursor: &mut Cursor, hash: Hashed, buckets: u32);

    /// Returns how many of a bucket's `slots` slots, from the first, may take the key at this index of the
    /// probe sequence.
    #[device]
    fn quota(_cursor: Cursor, slots: u32) -> u32 {
        slots
    }
}

/// Double hashing over buckets, each with a filter of `BITS` bits that records which keys overflowed from it.
/// The filters lie apart from the buckets and are small enough to stay in the L2 cache. A search ends at the
/// first bucket that has an empty slot or whose filter does not record the key: nearly always at the first
/// line, even at a load of 0.95.
#[derive(Clone, Copy, Debug)]
pub struct Hinted<const BITS: u32>;

// SAFETY: a stride ends within the table; the number of bits is asserted.
unsafe impl<const BITS: u32> Probe for Hinted<BITS> {
    const NAME: &'static str = const { &Name::of("hinted").number(BITS as usize) }.as_str();
    const FILTER_BITS: u32 = {
        assert!(BITS == 8 || BITS == 16 || BITS == 32);
        BITS
    };
    const EXTRA_PROBES: u32 = 0;

    #[device]
    fn advance(cursor: &mut Cursor, hash: Hashed, buckets: u32) {
        cursor.stride(hash, buckets);
    }
}

/// Double hashing without a filter: a search ends at the first bucket that has an empty slot.
#[derive(Clone, Copy, Debug)]
pub struct DoubleHash;

// SAFETY: a stride ends within the table.
unsafe impl Probe for DoubleHash {
    const NAME: &'static str = "double";
    const FILTER_BITS: u32 = 0;
    const EXTRA_PROBES: u32 = 0;

    #[device]
    fn advance(cursor: &mut Cursor, hash: Hashed, buckets: u32) {
        cursor.stride(hash, buckets);
    }
}

/// Two choices per key: three quarters of the first bucket, then three quarters of the second, then the rest
/// of each, then double hashing from there on. A search ends at the first probe whose part of the bucket has
/// an empty slot.
///
/// The two-choice tables of the literature compare the fill of both buckets, so two inserts of one key may
/// choose differently. Here the slots for a key are tried in a fixed order, so concurrent inserts of the key
/// meet at the same slot.
#[derive(Clone, Copy, Debug)]
pub struct TwoChoice;

// SAFETY: strides, and the step back from one, end within the table.
#[device]
unsafe impl Probe for TwoChoice {
    const NAME: &'static str = "choice";
    const FILTER_BITS: u32 = 0;
    const EXTRA_PROBES: u32 = 2;

    fn advance(cursor: &mut Cursor, hash: Hashed, buckets: u32) {
        // Indices 0, 1, 2, 3, 4 .. of the sequence are the first, second, first, second, third .. bucket.
        if cursor.place == 1 {
            cursor.bucket = Cursor::wrap(cursor.bucket as u64 + (buckets - cursor.step) as u64, buckets);
        } else {
            cursor.stride(hash, buckets);
        }
        cursor.place += 1;
    }

    fn quota(cursor: Cursor, slots: u32) -> u32 {
        if cursor.place < 2 { slots - slots / 4 } else { slots }
    }
}

/// The scheme `P` for lookups while nothing writes: all loads are weak, so that the L1 cache may serve them.
/// Kernels that write do not compile for it. Tables are filled by kernels for `P` itself.
///
/// ```compile_fail
/// use phalanx_kernels::hash_map::{Hinted, Insert, MapView, Packed, Phased, Table};
/// use simt::Tile;
///
/// fn insert(map: MapView<Table<Packed, Phased<Hinted<8>>, 2, 4>>) {
///     map.share(Tile::<2>::lockstep(), true, Insert, 1, 1);
/// }
///
/// let _insert = insert as fn(_);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Phased<P>(PhantomData<P>);

// SAFETY: as the scheme `P`.
#[device]
unsafe impl<P: Probe> Probe for Phased<P> {
    const NAME: &'static str = const { &Name::of("phased").part(P::NAME) }.as_str();
    const FILTER_BITS: u32 = P::FILTER_BITS;
    const EXTRA_PROBES: u32 = P::EXTRA_PROBES;
    const FROZEN: bool = true;

    fn advance(cursor: &mut Cursor, hash: Hashed, buckets: u32) {
        P::advance(cursor, hash, buckets);
    }

    fn quota(cursor: Cursor, slots: u32) -> u32 {
        P::quota(cursor, slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn walk<P: Probe>(hash: Hashed, buckets: u32) -> Vec<u32> {
        let mut cursor = Cursor::start(hash, buckets, buckets + P::EXTRA_PROBES);
        let mut seen = vec![cursor.bucket];
        while cursor.left > 1 {
            cursor.advance::<P>(hash, buckets);
            seen.push(cursor.bucket);
        }
        seen
    }

    #[test]
    fn a_walk_visits_every_bucket() {
        for seed in 0..200 {
            let hash = Hashed { first: mix32(seed), second: mix32(!seed) };
            for buckets in [2, 3, 5, 31, 257] {
                let hinted = walk::<Hinted<16>>(hash, buckets);
                assert_eq!(hinted.len(), buckets as usize);
                assert_eq!(hinted.iter().collect::<HashSet<_>>().len(), buckets as usize);
                let choices = walk::<TwoChoice>(hash, buckets);
                assert_eq!(choices.iter().collect::<HashSet<_>>().len(), buckets as usize);
                assert_eq!((choices[0], choices[1]), (choices[2], choices[3]));
            }
        }
    }
}
