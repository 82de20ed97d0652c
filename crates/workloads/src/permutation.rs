//! A shuffle of `0..n` that is computed, not stored.
//!
//! The numbers below the next power of two are permuted by rounds of multiplication by an odd number,
//! addition and a shifted xor, each of which is invertible. A result outside `0..n` is permuted again until
//! it lies inside (cycle walking). This terminates, because the orbit of an element of `0..n` returns to it,
//! and two elements never collide.
use crate::random::Source;

const ROUNDS: usize = 4;

/// A pseudo-random bijection of `0..len` onto itself.
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    bits: u32,
    rounds: [(u64, u64); ROUNDS],
}

impl Permutation {
    /// Creates the permutation of `0..len` determined by `source`. `len` is at most 2^63.
    pub fn new(len: u64, source: &Source) -> Self {
        let words: [u64; 2 * ROUNDS] = source.words();
        let bits = len.max(2).next_power_of_two().trailing_zeros();
        Self { len, bits, rounds: std::array::from_fn(|round| (words[2 * round] | 1, words[2 * round + 1])) }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns `true` if the permutation is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the image of `index`, taken modulo `len`. The empty permutation returns 0.
    pub fn at(&self, index: u64) -> u64 {
        if self.len == 0 {
            return 0;
        }
        let mut number = self.scramble(index % self.len);
        while number >= self.len {
            number = self.scramble(number);
        }
        number
    }

    fn scramble(&self, mut number: u64) -> u64 {
        let (mask, shift) = ((1 << self.bits) - 1, self.bits.div_ceil(2));
        for (factor, term) in self.rounds {
            number = number.wrapping_mul(factor).wrapping_add(term) & mask;
            number ^= number >> shift;
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_appears_once(len in 0u64..5_000, seed: u64) {
            let permutation = Permutation::new(len, &Source::new(seed, "permutation"));
            let mut seen: Vec<u64> = (0..len).map(|index| permutation.at(index)).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..len).collect::<Vec<_>>());
        }
    }

    /// Neighbours must not remain neighbours, and each tenth of the input must spread over all tenths of the
    /// output.
    #[test]
    fn it_shuffles() {
        let len = 1_000_003u64;
        let permutation = Permutation::new(len, &Source::new(3, "permutation"));
        let mut cells = [[0u32; 10]; 10];
        for index in 0..len {
            let (from, to) = (index * 10 / len, permutation.at(index) * 10 / len);
            cells[from as usize][to as usize] += 1;
        }
        assert!(cells.iter().flatten().all(|&count| (9_000..11_000).contains(&count)), "{cells:?}");
        let close =
            (1..len).filter(|&i| permutation.at(i).abs_diff(permutation.at(i - 1)) < len / 100).count();
        assert!(
            (15_000..25_000).contains(&close),
            "{close} of a million neighbours landed within a hundredth"
        );
    }
}
