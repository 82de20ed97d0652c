//! Probing schemes: in which buckets a key may lie, in which order, and when a search may end.
//!
//! Every scheme walks the same sequence of a double hash (the number of buckets is prime, so every step from
//! 1 to one less visits them all) and differs in what a scheme may differ in without giving up the uniqueness
//! of keys: where on the walk a key may be placed, and what tells a search that the key did not go on.
use super::map::ANNEX;
use crate::keyed::Hashed;
use simt::hash::{mix32, reduce};

/// Where an operation stands on its walk. Lives in the registers of the operation's owner.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    /// The bucket to look at.
    pub bucket: u32,
    /// Buckets that may still be looked at, this one included.
    pub left: u32,
    /// Distance to the next bucket, once known.
    step: u32,
    /// The bucket's place on the walk.
    place: u32,
}

/// From so many buckets on a walk is long. What makes it so is a key that is removed and inserted over and
/// over, not chance: of 7.6 million inserts in simulated tables of 4 slots a bucket, filled to a load of
/// 0.95, five walked 64 buckets and none 128. A bound of 32 is met by chance once in 6 700 inserts there.
pub const LONG: u32 = 128;

impl Cursor {
    /// In the packed word: the bucket.
    pub const BUCKET: u32 = u32::MAX >> 1;
    /// In the packed word: no bucket may be looked at after this one.
    pub const LAST: u32 = 1 << 31;

    /// What a tile needs to know, in the one word that a shuffle moves.
    #[inline(always)]
    pub fn pack(self) -> u32 {
        let last = if self.left == 1 { Self::LAST } else { 0 };
        self.bucket | last
    }

    /// The first bucket of the walk in a table of `buckets`, `left` of which may be looked at.
    #[inline(always)]
    pub fn start(hash: Hashed, buckets: u32, left: u32) -> Self {
        Self { bucket: reduce(hash.first, buckets), left, step: 0, place: 0 }
    }

    /// The walk through the annex behind a table of `buckets`: bucket after bucket.
    #[inline(always)]
    pub fn annex(buckets: u32) -> Self {
        Self { bucket: buckets, left: ANNEX, step: 0, place: 2 }
    }

    /// Whether a walk that might take `looks` looks has become [long](LONG); in the annex, whether half of it
    /// is behind.
    #[inline(always)]
    pub fn is_long(self, buckets: u32, looks: u32) -> bool {
        let in_annex = self.bucket >= buckets;
        self.left <= if in_annex { ANNEX / 2 } else { looks.saturating_sub(LONG) }
    }

    /// Goes on to the next place of the walk. The table has at least two buckets.
    #[inline(always)]
    pub fn advance<P: Probe>(&mut self, hash: Hashed, buckets: u32) {
        self.left -= 1;
        if self.bucket >= buckets {
            self.bucket += 1;
        } else {
            P::advance(self, hash, buckets);
        }
    }

    /// Goes to the next bucket of the double hash.
    #[inline(always)]
    fn stride(&mut self, hash: Hashed, buckets: u32) {
        if self.step == 0 {
            self.step = 1 + reduce(mix32(hash.second ^ 0x9e37_79b9), buckets - 1);
        }
        self.bucket = Self::wrap(self.bucket as u64 + self.step as u64, buckets);
    }

    #[inline(always)]
    fn wrap(bucket: u64, buckets: u32) -> u32 {
        if bucket >= buckets as u64 { (bucket - buckets as u64) as u32 } else { bucket as u32 }
    }
}

/// A probing scheme.
///
/// ```compile_fail
/// # use phalanx_kernels::probing::{Cursor, Hashed, Probe};
/// #[derive(Clone, Copy)]
/// struct Astray;
///
/// // Memory is accessed where the cursor points: this needs an `unsafe impl`.
/// impl Probe for Astray {
///     const FILTER_BITS: u32 = 0;
///     const EXTRA: u32 = 0;
///     fn advance(cursor: &mut Cursor, _hash: Hashed, _buckets: u32) {
///         cursor.bucket = 1 << 30;
///     }
/// }
/// ```
///
/// # Safety
/// - [`Self::advance`] leaves the cursor at a bucket below `buckets`, from any that is there.
/// - [`Self::FILTER_BITS`] is 0, 8, 16 or 32.
pub unsafe trait Probe: Copy + Send + Sync + 'static {
    /// Bits of filter that each bucket has (0, 8, 16 or 32): which keys went on from it when it was full.
    const FILTER_BITS: u32;
    /// Looks that a walk takes beyond one a bucket.
    const EXTRA: u32;

    /// Goes on from a bucket of the table, of which there are at least two.
    fn advance(cursor: &mut Cursor, hash: Hashed, buckets: u32);

    /// How many slots of a bucket of `slots`, in its order, may take the key at this place of the walk.
    #[inline(always)]
    fn quota(_cursor: Cursor, slots: u32) -> u32 {
        slots
    }
}

/// Double hashing over buckets, with a filter of `BITS` bits for each: which keys went on from it when it was
/// full. The filters lie apart from the buckets and are small enough to stay in the L2 cache. A search ends
/// at the first bucket that has an empty slot or whose filter lacks the key's bit: at the first line nearly
/// always, at a load of 0.95 too.
#[derive(Clone, Copy, Debug)]
pub struct Hinted<const BITS: u32>;

// SAFETY: a stride ends within the table; the bits are asserted.
unsafe impl<const BITS: u32> Probe for Hinted<BITS> {
    const FILTER_BITS: u32 = {
        assert!(BITS == 8 || BITS == 16 || BITS == 32);
        BITS
    };
    const EXTRA: u32 = 0;

    #[inline(always)]
    fn advance(cursor: &mut Cursor, hash: Hashed, buckets: u32) {
        cursor.stride(hash, buckets);
    }
}

/// Double hashing without a filter: a search ends at the first bucket that has an empty slot.
#[derive(Clone, Copy, Debug)]
pub struct DoubleHash;

// SAFETY: a stride ends within the table.
unsafe impl Probe for DoubleHash {
    const FILTER_BITS: u32 = 0;
    const EXTRA: u32 = 0;

    #[inline(always)]
    fn advance(cursor: &mut Cursor, hash: Hashed, buckets: u32) {
        cursor.stride(hash, buckets);
    }
}

/// Two choices a key: three quarters of the first bucket, then three quarters of the second, then the rest of
/// each, then double hashing on from there. A search ends where the part of the bucket that the walk has come
/// to has an empty slot.
///
/// The two-choice tables of the literature compare the fill of both buckets, which lets two inserts of one
/// key choose differently. Here the places of a key are tried in a fixed order, so they meet at the same
/// slot.
#[derive(Clone, Copy, Debug)]
pub struct TwoChoice;

// SAFETY: strides, and the step back from one, end within the table.
unsafe impl Probe for TwoChoice {
    const FILTER_BITS: u32 = 0;
    const EXTRA: u32 = 2;

    #[inline(always)]
    fn advance(cursor: &mut Cursor, hash: Hashed, buckets: u32) {
        // The places 0, 1, 2, 3, 4 .. are the buckets first, second, first, second, third ..
        if cursor.place == 1 {
            cursor.bucket = Cursor::wrap(cursor.bucket as u64 + (buckets - cursor.step) as u64, buckets);
        } else {
            cursor.stride(hash, buckets);
        }
        cursor.place += 1;
    }

    #[inline(always)]
    fn quota(cursor: Cursor, slots: u32) -> u32 {
        if cursor.place < 2 { slots - slots / 4 } else { slots }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn walk<P: Probe>(hash: Hashed, buckets: u32) -> Vec<u32> {
        let mut cursor = Cursor::start(hash, buckets, buckets + P::EXTRA);
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
