//! A free slab for a lane alone.
use super::bits::first_from;
use super::pool::Pool;
use simt::hash::{mix32, reduce};

/// At how many bitmap words (or again at one, where another lane was faster) a lane looks that allocates alone.
///
/// The bitmap is cut into 256 strata of equal size, and every look is at a random word of the next stratum. While one word in `k` has a
/// free bit, wherever those words lie, all looks fail with a probability of at most (1 - 1/k)^256: 1.4e-15 for one in eight. A pool of up to
/// 2048 slabs is searched completely: four strata a word, so that one look at least at each is certain. The looks beyond 256 are for
/// those that another lane spoils.
pub const LOOKS: u32 = 256 + 32;

/// Consecutive multiples of it are spread evenly over the words.
pub(super) const GOLDEN: u32 = 0x9e37_79b9;

/// Takes a free slab, by the calling lane alone, wherever other lanes are. Bounded: see [`LOOKS`]. Gives the slab's number.
///
/// The first look is a blind one: it sets a bit and learns from what stood there what a load would have told. In a pool that is not
/// nearly full an allocation so costs one access.
#[inline(always)]
#[track_caller]
pub(super) fn search<P: Pool>(pool: P, seed: u32) -> Option<u32> {
    let words = pool.bitmaps().words();
    let mut mixed = mix32(seed);
    let mut stratum = mixed >> 24;
    let mut index = reduce(mixed, words);
    let mut free = u32::MAX;
    for _ in 0..LOOKS {
        if free == 0 {
            mixed = mix32(mixed.wrapping_add(GOLDEN));
            stratum = stratum.wrapping_add(1);
            index = reduce(stratum << 24 | mixed >> 8, words);
            free = !pool.bitmaps().look(index);
        }
        if free != 0 {
            let bit = first_from(free, mixed);
            let old = pool.take(index, 1 << bit);
            if old >> bit & 1 == 0 {
                return Some(index * 32 + bit);
            }
            free = !old;
        }
    }
    None
}
