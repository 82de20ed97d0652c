//! The words of a bitmap that a single lane probes for a free slab.
use simt::device;
use simt::hash::{mix32, reduce};

/// Number of probes of bitmap words before an allocation by a single lane gives up. A lost race for a bit
/// counts as a probe.
///
/// The bitmap is divided into 256 strata of equal size, and each probe reads a random word of the next
/// stratum. While one word in `k` has a free bit, wherever those words lie, all probes fail with a
/// probability of at most (1 - 1/k)^256: 1.4e-15 for one in eight. A pool of up to 2048 slabs is searched
/// completely: each of its words is at least as wide as four strata, so at least three strata lie within the
/// word, and a probe of one of them loads it. The probes beyond 256 make up for those that lose a race to
/// another lane.
pub const MAX_PROBES: u32 = 256 + 32;

/// Golden ratio times 2^32: its consecutive multiples are spread evenly over the words.
pub(super) const GOLDEN: u32 = 0x9e37_79b9;

/// The sequence of words that a lane probes: a random word of each stratum in turn.
#[derive(Clone, Copy)]
pub(super) struct Walk {
    /// Position in the bitmap, as a fraction of 2^32. Its top byte is the stratum.
    share: u32,
    /// Random bits from which the next position is derived; also determines the first bit to try.
    pub(super) mixed: u32,
}

#[device]
impl Walk {
    pub(super) fn new(seed: u32) -> Self {
        let mixed = mix32(seed);
        Self { share: mixed, mixed }
    }

    pub(super) fn go_on(&mut self) {
        self.mixed = mix32(self.mixed.wrapping_add(GOLDEN));
        self.share = ((self.share >> 24) + 1) << 24 | self.mixed >> 8;
    }

    /// Returns the index of the word among `words`.
    pub(super) fn word(self, words: u32) -> u32 {
        reduce(self.share, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns the words of the first `probes` probes.
    fn visited(seed: u32, words: u32, probes: u32) -> BTreeSet<u32> {
        let mut walk = Walk::new(seed);
        let probe = |_| {
            let word = walk.word(words);
            walk.go_on();
            word
        };
        (0..probes).map(probe).collect()
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
            // 51 200 random positions: most differ if the bitmap is large enough, within a stratum too.
            assert!(all.len() > 34_000 && *all.last().unwrap() < words, "{} of {words} words", all.len());
        }
        let strata = |seed| visited(seed, 1 << 16, 256).into_iter().map(|word| word >> 8).collect();
        assert!((0..200).all(|seed| BTreeSet::<u32>::len(&strata(seed)) == 256), "a look in each stratum");
    }
}
