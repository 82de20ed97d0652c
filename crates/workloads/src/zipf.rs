//! Zipf-distributed choices: the item of rank `r` (from 0) is chosen with a probability proportional to `(r +
//! 1)^-theta`.
//!
//! For `theta` below 1 the sampler is the closed formula of Gray et al., "Quickly generating billion-record
//! synthetic databases" (SIGMOD 1994, section 3.2), which YCSB uses. It is exact for the two most popular
//! ranks and an approximation for the others, at one power per sample. From 1 on, where the formula has a
//! pole, the sampler is `rand_distr`'s exact rejection-inversion.
//!
//! [`ScrambledZipf`] also spreads the ranks over the items by a permutation. YCSB instead hashes the rank
//! modulo the number of items, which maps several ranks to one item; a permutation keeps the distribution
//! exact.
use crate::permutation::Permutation;
use crate::random::{Source, unit};
use crate::{Error, Result};
use rand::distr::Distribution;
use rand_chacha::rand_core::Rng;

/// A sampler of ranks `0..items`, the popular ones first.
#[derive(Clone, Debug)]
pub struct Zipf {
    items: u64,
    theta: f64,
    zeta: f64,
    sampler: Sampler,
}

#[derive(Clone, Debug)]
enum Sampler {
    Gray { alpha: f64, eta: f64, second: f64 },
    Rejection(rand_distr::Zipf<f64>),
}

impl Zipf {
    /// Creates the distribution over `items` items. `theta` 0 is uniform; YCSB's is 0.99.
    ///
    /// # Errors
    /// [`Error::Empty`] without items; [`Error::OutOfRange`] for a `theta` that is negative, above 10 or not
    /// a number.
    pub fn new(items: u64, theta: f64) -> Result<Self> {
        if items == 0 {
            return Err(Error::Empty { what: "the number of items of a Zipf distribution" });
        }
        if !(0.0..=10.0).contains(&theta) {
            return Err(Error::OutOfRange { what: "theta", range: "0..=10", found: theta });
        }
        let zeta = zeta(items, theta);
        Ok(Self { items, theta, zeta, sampler: Sampler::new(items, theta, zeta) })
    }

    /// Returns the number of items.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Returns the exact probability of `rank`.
    pub fn probability(&self, rank: u64) -> f64 {
        (rank as f64 + 1.0).powf(-self.theta) / self.zeta
    }

    /// Draws a rank.
    pub fn rank(&self, generator: &mut impl Rng) -> u64 {
        let rank = match &self.sampler {
            Sampler::Gray { alpha, eta, second } => self.gray(unit(generator), *alpha, *eta, *second),
            Sampler::Rejection(exact) => exact.sample(generator) as u64 - 1,
        };
        rank.min(self.items - 1)
    }

    fn gray(&self, uniform: f64, alpha: f64, eta: f64, second: f64) -> u64 {
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            0
        } else if scaled < second {
            1
        } else {
            (self.items as f64 * (eta * uniform - eta + 1.0).powf(alpha)) as u64
        }
    }
}

impl Sampler {
    fn new(items: u64, theta: f64, zeta_of_all: f64) -> Self {
        if theta >= 1.0 {
            let exact = rand_distr::Zipf::new(items as f64, theta);
            return Self::Rejection(exact.expect("items and theta were checked"));
        }
        let second = 1.0 + 0.5f64.powf(theta);
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - theta)) / (1.0 - second / zeta_of_all);
        Self::Gray { alpha: 1.0 / (1.0 - theta), eta, second }
    }
}

/// Number of terms summed one by one before the Euler-Maclaurin formula.
const EXACT_TERMS: u64 = 4096;

/// Returns the sum of `i^-theta` for `i` in `1..=n`, to about 14 digits, in constant time.
fn zeta(n: u64, theta: f64) -> f64 {
    let last = n.min(EXACT_TERMS);
    let head: f64 = (1..=last).rev().map(|i| (i as f64).powf(-theta)).sum();
    if n == last { head } else { head + tail(last as f64, n as f64, theta) }
}

/// Approximates the terms after `from` up to `to`: integral, half the difference of the ends, and the first
/// correction.
fn tail(from: f64, to: f64, theta: f64) -> f64 {
    let integral = if theta == 1.0 {
        (to / from).ln()
    } else {
        (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta)
    };
    let ends = (to.powf(-theta) - from.powf(-theta)) / 2.0;
    integral + ends + theta / 12.0 * (from.powf(-theta - 1.0) - to.powf(-theta - 1.0))
}

/// A Zipf sampler with the popular items scattered over `0..items`.
#[derive(Clone, Debug)]
pub struct ScrambledZipf {
    zipf: Zipf,
    place: Permutation,
}

impl ScrambledZipf {
    /// As [`Zipf::new`]; `seed` determines the popular items.
    ///
    /// # Errors
    /// As [`Zipf::new`].
    pub fn new(items: u64, theta: f64, seed: u64) -> Result<Self> {
        let place = Permutation::new(items, &Source::new(seed, "scrambled zipf"));
        Ok(Self { zipf: Zipf::new(items, theta)?, place })
    }

    /// Draws an item.
    pub fn item(&self, generator: &mut impl Rng) -> u64 {
        self.item_of_rank(self.zipf.rank(generator))
    }

    /// Returns the item of popularity `rank` (0 is the most popular).
    pub fn item_of_rank(&self, rank: u64) -> u64 {
        self.place.at(rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: usize = 400_000;

    fn ranks(items: u64, theta: f64) -> Vec<u64> {
        let zipf = Zipf::new(items, theta).unwrap();
        Source::new(1, "zipf test").generate(SAMPLES, |generator, _| zipf.rank(generator))
    }

    fn share(ranks: &[u64], wanted: std::ops::Range<u64>) -> f64 {
        ranks.iter().filter(|rank| wanted.contains(rank)).count() as f64 / ranks.len() as f64
    }

    /// Asserts that a share equals `expected`, within the relative `tolerance` plus four standard deviations
    /// of the sampling.
    fn assert_share(ranks: &[u64], wanted: std::ops::Range<u64>, expected: f64, tolerance: f64) {
        let found = share(ranks, wanted.clone());
        let noise = 4.0 * (expected / SAMPLES as f64).sqrt();
        assert!(
            (found - expected).abs() < tolerance * expected + noise,
            "{wanted:?}: {found}, expected {expected}"
        );
    }

    #[test]
    fn frequencies_follow_the_definition() {
        for (items, theta) in [(1_000, 0.5), (100_000, 0.99), (1 << 26, 0.99), (1_000, 1.0), (100_000, 1.2)] {
            let (ranks, zipf) = (ranks(items, theta), Zipf::new(items, theta).unwrap());
            assert_share(&ranks, 0..1, zipf.probability(0), 0.0);
            assert_share(&ranks, 1..2, zipf.probability(1), 0.0);
            for (first, last) in [(2, 10), (10, 100), (100, 1_000)] {
                let expected = (first..last).map(|rank| zipf.probability(rank)).sum();
                assert_share(&ranks, first..last, expected, 0.12);
            }
        }
    }

    #[test]
    fn the_formula_agrees_with_an_exact_sampler() {
        let exact = rand_distr::Zipf::new(1e6, 0.99).unwrap();
        let other =
            Source::new(2, "exact").generate(SAMPLES, |generator, _| exact.sample(generator) as u64 - 1);
        let ours = ranks(1_000_000, 0.99);
        for range in [0..1, 1..2, 2..32, 32..1_000, 1_000..30_000, 30_000..1_000_000] {
            assert_share(&ours, range.clone(), share(&other, range), 0.05);
        }
    }

    #[test]
    fn theta_zero_is_uniform() {
        let ranks = ranks(10, 0.0);
        (0..10).for_each(|rank| assert_share(&ranks, rank..rank + 1, 0.1, 0.0));
    }

    #[test]
    fn the_constant_time_zeta_agrees_with_the_sum() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.5] {
            let sum: f64 = (1..=1_000_000u64).rev().map(|i| (i as f64).powf(-theta)).sum();
            assert!((zeta(1_000_000, theta) / sum - 1.0).abs() < 1e-12, "theta {theta}");
        }
    }

    #[test]
    fn scrambling_keeps_frequencies_and_moves_items() {
        let zipf = ScrambledZipf::new(1_000, 0.99, 1).unwrap();
        let items = Source::new(1, "scrambled").generate(SAMPLES, |generator, _| zipf.item(generator));
        let hot = zipf.item_of_rank(0);
        assert_ne!(hot, 0);
        assert_share(&items, hot..hot + 1, zipf.zipf.probability(0), 0.0);
    }

    #[test]
    fn few_items_and_bad_parameters() {
        for items in 1..4 {
            assert!(ranks(items, 0.99).iter().all(|&rank| rank < items));
        }
        assert!(matches!(Zipf::new(0, 0.99), Err(Error::Empty { .. })));
        for theta in [-0.1, f64::NAN, f64::INFINITY] {
            assert!(matches!(Zipf::new(10, theta), Err(Error::OutOfRange { .. })), "{theta}");
        }
    }
}
