//! The keys of a timed batch.
use crate::engine::suite::Case;
use anyhow::Result;
use rayon::prelude::*;
use std::collections::HashMap;
use workloads::random::{Source, below};
use workloads::{Permutation, ScrambledZipf};

/// Choice of a batch's keys from as many candidates as the batch has elements, and whether the table merges
/// equal keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// Every candidate once. The call promises that keys are distinct.
    Distinct,
    /// Every candidate once, without the promise.
    Merged,
    /// Candidates drawn uniformly: about 63 % of them occur.
    Uniform,
    /// Candidates drawn by a Zipf distribution with this exponent.
    Zipf(f64),
}

impl Keys {
    /// Returns the choice that the parameter `keys` names; `theta` is the exponent.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] for another name, or when the exponent is missing.
    pub fn of(case: &Case) -> Result<Self> {
        let named = [("distinct", 0), ("merged", 1), ("uniform", 2), ("zipf", 3)];
        Ok(match case.choice("keys", &named)? {
            0 => Self::Distinct,
            1 => Self::Merged,
            2 => Self::Uniform,
            _ => Self::Zipf(case.number("theta")?),
        })
    }

    /// Returns whether each key occurs once.
    pub fn are_distinct(self) -> bool {
        matches!(self, Self::Distinct | Self::Merged)
    }

    /// Returns whether the table merges equal keys.
    pub fn are_merged(self) -> bool {
        self != Self::Distinct
    }
}

/// Keys of a batch by their numbers.
#[derive(Debug, Default)]
pub struct Batch {
    /// Numbers of the elements' keys.
    pub numbers: Vec<u64>,
    /// Number of distinct keys.
    pub distinct: usize,
    /// First and last element of each key; empty if keys are distinct.
    places: HashMap<u64, (usize, usize)>,
}

impl Batch {
    /// Draws the batch from candidates.
    ///
    /// # Errors
    /// Returns [`workloads::Error`] for an impossible Zipf distribution.
    pub fn new(candidates: Vec<u64>, keys: Keys, seed: u64) -> Result<Self> {
        let (len, source) = (candidates.len(), Source::new(seed, "cache batch"));
        let candidate = |index: u64| candidates[index as usize];
        let numbers: Vec<u64> = match keys {
            Keys::Distinct | Keys::Merged => {
                let order = Permutation::new(len as u64, &source);
                (0..len as u64).into_par_iter().map(|index| candidate(order.at(index))).collect()
            }
            Keys::Uniform => source.generate(len, |generator, _| candidate(below(generator, len as u64))),
            Keys::Zipf(theta) => {
                let zipf = ScrambledZipf::new(len as u64, theta, seed)?;
                source.generate(len, |generator, _| candidate(zipf.item(generator)))
            }
        };
        let mut places = HashMap::new();
        if !keys.are_distinct() {
            for (index, number) in numbers.iter().enumerate() {
                places.entry(*number).or_insert((index, index)).1 = index;
            }
        }
        let distinct = if keys.are_distinct() { len } else { places.len() };
        Ok(Self { numbers, distinct, places })
    }

    /// Returns the index of the first element with the key of this one.
    pub fn first(&self, index: usize) -> usize {
        self.places.get(&self.numbers[index]).map_or(index, |places| places.0)
    }

    /// Returns the index of the last element with the key of this one.
    pub fn last(&self, index: usize) -> usize {
        self.places.get(&self.numbers[index]).map_or(index, |places| places.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_the_asked_repetitions() {
        let batch = |keys| Batch::new((100..1100).collect(), keys, 3).unwrap();
        let all = batch(Keys::Distinct);
        let mut sorted = all.numbers.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(100..1100) && all.numbers[0] != 100 && all.last(7) == 7);
        assert_eq!(batch(Keys::Merged).numbers, all.numbers);
        let uniform = batch(Keys::Uniform);
        assert!((560..700).contains(&uniform.distinct), "{}", uniform.distinct);
        assert!(batch(Keys::Zipf(0.99)).distinct < uniform.distinct);
        for (index, number) in uniform.numbers.iter().enumerate() {
            let same = |other: &usize| uniform.numbers[*other] == *number;
            assert_eq!((0..1000).find(same), Some(uniform.first(index)));
            assert_eq!((0..1000).rfind(same), Some(uniform.last(index)));
        }
    }
}
