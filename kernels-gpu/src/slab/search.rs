//! A free slab for a lane alone.
use super::bits::first_from;
use super::pool::Pool;
use simt::hash::{mix32, reduce};

/// At how many bitmap words (or again at one, where another lane was faster) a lane looks that allocates
/// alone.
///
/// The bitmap is cut into 256 strata of equal size, and every look is at a random word of the next stratum.
/// While one word in `k` has a free bit, wherever those words lie, all looks fail with a probability of at
/// most (1 - 1/k)^256: 1.4e-15 for one in eight. A pool of up to 2048 slabs is searched completely: four
/// strata a word, so that one look at least at each is certain. The looks beyond 256 are for those that
/// another lane spoils.
pub const LOOKS: u32 = 256 + 32;

/// Consecutive multiples of it are spread evenly over the words.
pub(super) const GOLDEN: u32 = 0x9e37_79b9;

/// The words that a lane looks at, one after the other: each at a random place of the next stratum.
#[derive(Clone, Copy)]
struct Walk {
    /// A word of the bitmap, as a share of 2^32. Its top byte is the stratum.
    share: u32,
    /// What the next place is made of; also says from which bit on to look.
    mixed: u32,
}

impl Walk {
    #[inline(always)]
    fn new(seed: u32) -> Self {
        let mixed = mix32(seed);
        Self { share: mixed, mixed }
    }

    #[inline(always)]
    fn go_on(&mut self) {
        self.mixed = mix32(self.mixed.wrapping_add(GOLDEN));
        self.share = ((self.share >> 24) + 1) << 24 | self.mixed >> 8;
    }

    /// The word, of so many.
    #[inline(always)]
    fn word(self, words: u32) -> u32 {
        reduce(self.share, words)
    }
}

/// Takes a free slab, by the calling lane alone, wherever other lanes are. Bounded: see [`LOOKS`]. Gives the
/// slab's number.
///
/// The first look is a blind one: it sets a bit and learns from what stood there what a load would have told.
/// In a pool that is not nearly full an allocation so costs one access.
#[inline(always)]
#[track_caller]
pub(super) fn search<P: Pool>(pool: P, seed: u32) -> Option<u32> {
    search_in(pool, 0, pool.bitmaps().words(), seed)
}

/// [`search`] in `words` words of the bitmap from word `first` on. There are so many.
#[inline(always)]
#[track_caller]
pub(super) fn search_in<P: Pool>(pool: P, first: u32, words: u32, seed: u32) -> Option<u32> {
    let mut walk = Walk::new(seed);
    let mut free = u32::MAX;
    for _ in 0..LOOKS {
        if free == 0 {
            walk.go_on();
            // SAFETY: one of the words.
            free = !unsafe { pool.bitmaps().look(first + walk.word(words)) };
        }
        if free != 0 {
            let (index, bit) = (first + walk.word(words), first_from(free, walk.mixed));
            // SAFETY: one of the words.
            let old = unsafe { pool.take(index, 1 << bit) };
            if old >> bit & 1 == 0 {
                return Some(index * 32 + bit);
            }
            free = !old;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The words of the first `looks` looks.
    fn visited(seed: u32, words: u32, looks: u32) -> BTreeSet<u32> {
        let mut walk = Walk::new(seed);
        let look = |_| {
            let word = walk.word(words);
            walk.go_on();
            word
        };
        (0..looks).map(look).collect()
    }

    #[test]
    fn small_bitmaps_are_searched_completely() {
        for words in 1..=64 {
            for seed in 0..200 {
                let missing = words - visited(seed, words, 255).len() as u32;
                assert_eq!(missing, 0, "of {words} words, by seed {seed}");
            }
        }
    }

    #[test]
    fn large_bitmaps_are_looked_at_everywhere() {
        for words in [1 << 16, 100_000, u32::MAX / 32] {
            let all: BTreeSet<u32> = (0..200).flat_map(|seed| visited(seed, words, 256)).collect();
            // 51 200 random places: most differ where there are enough, and within a stratum too.
            assert!(all.len() > 34_000 && *all.last().unwrap() < words, "{} of {words} words", all.len());
        }
        let strata = |seed| visited(seed, 1 << 16, 256).into_iter().map(|word| word >> 8).collect();
        assert!((0..200).all(|seed| BTreeSet::<u32>::len(&strata(seed)) == 256), "a look in each stratum");
    }
}
