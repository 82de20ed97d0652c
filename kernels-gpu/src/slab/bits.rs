//! Operations on the bits of a word, and sums over a tile by votes.
use simt::{Convergence, Tile, device};

/// Returns the position of the set bit that has `below` set bits below it; arbitrary if there is none.
#[device]
pub fn place_of(word: u32, below: u32) -> u32 {
    let (mut rest, mut left, mut place) = (word, below, 0);
    let mut half = 16;
    while half > 0 {
        let lower = (rest & ((1 << half) - 1)).count_ones();
        if left >= lower {
            left -= lower;
            rest >>= half;
            place += half;
        }
        half /= 2;
    }
    place
}

/// Returns the lowest `many` set bits, or all of them if there are fewer.
#[device]
pub fn lowest(word: u32, many: u32) -> u32 {
    if many >= word.count_ones() {
        return word;
    }
    word & ((1 << place_of(word, many)) - 1)
}

/// Returns the position of the first set bit at or above `from` modulo 32, wrapping around.
#[device]
pub fn first_from(word: u32, from: u32) -> u32 {
    let from = from & 31;
    (word.rotate_right(from).trailing_zeros() + from) & 31
}

/// Returns the sum of `count` (at most 63) over the lanes of lower rank, by one vote for each of its bits.
/// Votes do not depend on one another, unlike the shuffles of a scan.
#[device(caller)]
pub fn sum_below<const W: u32>(tile: Tile<W, impl Convergence>, count: u32) -> u32 {
    if W == 1 {
        return 0;
    }
    let lower = tile.lower_ranks();
    let (mut sum, mut bit) = (0, 0);
    while bit < 6 {
        sum += (tile.ballot(count >> bit & 1 != 0) & lower).count_ones() << bit;
        bit += 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(word: u32) -> Vec<u32> {
        (0..32).filter(|bit| word >> bit & 1 != 0).collect()
    }

    #[test]
    fn places_are_those_that_counting_finds() {
        for word in [1, 0x8000_0000, u32::MAX, 0xF0F0_1234, 0x0001_0000, 0xAAAA_AAAA] {
            for (below, place) in bits(word).into_iter().enumerate() {
                assert_eq!(place_of(word, below as u32), place, "{word:#x}, {below}");
                assert_eq!(bits(lowest(word, below as u32)), bits(word)[..below]);
            }
            assert_eq!((lowest(word, word.count_ones()), lowest(word, 99)), (word, word));
        }
        assert_eq!((lowest(0, 3), lowest(7, 0)), (0, 0));
    }

    #[test]
    fn the_first_bit_goes_round() {
        for word in [1, 0x8000_0001, 0x00F0_0000] {
            for from in (0..70).chain(u32::MAX - 40..=u32::MAX) {
                let expected = (0..32).map(|i| (from % 32 + i) % 32).find(|bit| word >> bit & 1 != 0);
                assert_eq!(Some(first_from(word, from)), expected, "{word:#x} from {from}");
            }
        }
    }
}
