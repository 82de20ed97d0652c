//! Keys and rows that can be recognized: the number of a key follows from the key, and a row's elements from
//! its source.
use rayon::prelude::*;
use simt::hash::mix64;
use workloads::parallel;

/// Odd factor of the bijection from numbers to keys.
const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

/// Inverse of [`FACTOR`] modulo 2^64.
const INVERSE: u64 = inverse(FACTOR);

/// Returns the inverse of an odd number modulo 2^64, by Newton's method: each step doubles the right bits.
const fn inverse(odd: u64) -> u64 {
    let (mut found, mut step) = (odd, 0);
    while step < 5 {
        found = found.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(found)));
        step += 1;
    }
    found
}

/// Source of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOf {
    /// Row of the key with this number when the table is filled.
    Loaded(u64),
    /// Row of the element with this index in the timed batch.
    Given(u64),
    /// Sum of the row of a key and that of an element.
    Sum(u64, u64),
    /// Row that was not written: all bits are ones.
    Unwritten,
}

/// Keys by their numbers, and rows of `dim` elements by their sources.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    seed: u64,
    dim: usize,
    /// Number of different rows of loaded keys.
    period: u64,
}

impl Inputs {
    /// Returns the inputs of a seed, with rows of `dim` elements. Keys whose numbers differ by a multiple of
    /// `period` have the same row when they are loaded.
    pub fn new(seed: u64, dim: usize, period: usize) -> Self {
        Self { seed: mix64(seed), dim, period: period as u64 }
    }

    /// Returns the key of a number. Different numbers have different keys.
    pub fn key(&self, number: u64) -> u64 {
        let mixed = (number ^ self.seed).wrapping_mul(FACTOR);
        mixed ^ mixed >> 32
    }

    /// Returns the number of a key.
    pub fn number(&self, key: u64) -> u64 {
        (key ^ key >> 32).wrapping_mul(INVERSE) ^ self.seed
    }

    /// Returns the keys of numbers.
    pub fn keys(&self, numbers: &[u64]) -> Vec<u64> {
        parallel::map(numbers, |&number| self.key(number))
    }

    /// Returns rows, one behind the other.
    pub fn rows(&self, len: usize, of: impl Fn(u64) -> RowOf + Sync) -> Vec<f32> {
        let mut elements = vec![0.0; len * self.dim];
        elements.par_chunks_mut(self.dim).enumerate().for_each(|(index, row)| {
            let of = of(index as u64);
            row.iter_mut().enumerate().for_each(|(at, element)| *element = self.element(of, at));
        });
        elements
    }

    /// Returns whether a row has exactly the elements of its source.
    pub fn is_row(&self, of: RowOf, row: &[f32]) -> bool {
        let is_right = |(at, found): (usize, &f32)| found.to_bits() == self.element(of, at).to_bits();
        row.len() == self.dim && row.iter().enumerate().all(is_right)
    }

    /// Returns an element. Elements are integers below 2^22, so that sums of two are exact.
    fn element(&self, of: RowOf, at: usize) -> f32 {
        let part = |source: u64| {
            let mixed = mix64(source ^ self.seed).wrapping_mul(2 * at as u64 + 1);
            (mixed >> 42) as f32
        };
        let loaded = |number: u64| part(2 * (number % self.period));
        let given = |index: u64| part(2 * index + 1);
        match of {
            RowOf::Loaded(number) => loaded(number),
            RowOf::Given(index) => given(index),
            RowOf::Sum(number, index) => loaded(number) + given(index),
            RowOf::Unwritten => f32::from_bits(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_their_numbers() {
        let inputs = Inputs::new(7, 4, 100);
        let numbers = (0..1000).chain([1 << 32, 1 << 40, u64::MAX]);
        assert!(numbers.into_iter().all(|number| inputs.number(inputs.key(number)) == number));
        assert_ne!(inputs.key(1), Inputs::new(8, 4, 100).key(1));
    }

    #[test]
    fn rows_are_those_of_their_sources_alone() {
        let inputs = Inputs::new(7, 4, 100);
        let sources =
            [RowOf::Loaded(3), RowOf::Loaded(4), RowOf::Given(3), RowOf::Sum(3, 3), RowOf::Unwritten];
        for of in sources {
            let row = inputs.rows(1, |_| of);
            for other in sources {
                assert_eq!(inputs.is_row(other, &row), of == other, "{of:?} as {other:?}");
            }
        }
        assert!(inputs.is_row(RowOf::Loaded(103), &inputs.rows(1, |_| RowOf::Loaded(3))));
        let sum = inputs.rows(1, |_| RowOf::Sum(3, 5));
        let parts = inputs.rows(1, |_| RowOf::Loaded(3)).into_iter().zip(inputs.rows(1, |_| RowOf::Given(5)));
        assert!(parts.map(|(one, other)| one + other).eq(sum));
    }
}
