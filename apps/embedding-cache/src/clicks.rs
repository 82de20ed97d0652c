//! The synthetic click stream: which items are requested.
use anyhow::{Context, Result, ensure};
use workloads::random::Source;
use workloads::{Permutation, Zipf};

/// Parameters of the stream.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of items.
    pub items: u64,
    /// Exponent of the Zipf distribution.
    pub theta: f64,
    /// Number of batches after which the hot set moves; 0 for never.
    pub drift_every: u64,
    /// Share of the ranks by which it moves.
    pub drift: f64,
    /// Seed of all draws.
    pub seed: u64,
}

/// A stream of requests with a Zipf distribution over items, whose ranks change in steps.
///
/// At each step the most popular items become the least popular ones, and all others become more popular.
/// Batches depend only on the options and their number.
#[derive(Clone, Debug)]
pub struct Clicks {
    options: Options,
    zipf: Zipf,
    items_by_rank: Permutation,
}

impl Clicks {
    /// Creates the stream.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when an option lies outside its range.
    pub fn new(options: Options) -> Result<Self> {
        let Options { items, theta, drift, seed, .. } = options;
        ensure!((0.0..=1.0).contains(&drift), "--drift {drift} is no share: choose 0 to 1");
        let zipf = Zipf::new(items, theta).with_context(|| {
            format!("no stream of {items} items: choose at least one, and --theta 0 to 10")
        })?;
        Ok(Self {
            options,
            zipf,
            items_by_rank: Permutation::new(items, &Source::new(seed, "items by rank")),
        })
    }

    /// Returns the items that a training batch requests.
    pub fn training(&self, batch: u64, len: usize) -> Vec<u64> {
        self.draw(batch, len, &format!("train {batch}"))
    }

    /// Returns the items that the serving after a training batch requests.
    pub fn serving(&self, batch: u64, len: usize) -> Vec<u64> {
        self.draw(batch, len, &format!("serve {batch}"))
    }

    /// Returns whether the hot set has moved before this batch.
    pub fn moves_at(&self, batch: u64) -> bool {
        batch > 0 && self.steps(batch) != self.steps(batch - 1)
    }

    fn steps(&self, batch: u64) -> u64 {
        batch.checked_div(self.options.drift_every).unwrap_or(0)
    }

    fn draw(&self, batch: u64, len: usize, purpose: &str) -> Vec<u64> {
        let items = self.options.items;
        let step = (self.options.drift * items as f64) as u64;
        let shift = (u128::from(self.steps(batch)) * u128::from(step) % u128::from(items)) as u64;
        let item = |rank: u64| self.items_by_rank.at((rank + shift) % items);
        Source::new(self.options.seed, purpose).generate(len, |generator, _| item(self.zipf.rank(generator)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Options = Options { items: 1000, theta: 1.0, drift_every: 10, drift: 0.5, seed: 1 };

    /// Returns the most frequent item of a batch.
    fn hottest(clicks: &Clicks, batch: u64) -> u64 {
        let mut counts = [0; 1000];
        clicks.training(batch, 5000).iter().for_each(|item| counts[*item as usize] += 1);
        (0..1000).max_by_key(|item| counts[*item as usize]).unwrap()
    }

    #[test]
    fn the_hot_set_moves_at_the_stated_batches_only() {
        let clicks = Clicks::new(OPTIONS).unwrap();
        assert_eq!((0..31).filter(|batch| clicks.moves_at(*batch)).collect::<Vec<_>>(), [10, 20, 30]);
        let hot: Vec<_> = [0, 9, 10, 19, 20].iter().map(|batch| hottest(&clicks, *batch)).collect();
        assert!(hot[0] == hot[1] && hot[1] != hot[2] && hot[2] == hot[3], "{hot:?}");
        assert_eq!(hot[4], hot[0], "two steps by a half are a whole turn");
        let still = Clicks::new(Options { drift_every: 0, ..OPTIONS }).unwrap();
        assert_eq!(hottest(&still, 50), hottest(&still, 0));
    }

    #[test]
    fn batches_differ_and_repeat_with_their_seed() {
        let clicks = Clicks::new(OPTIONS).unwrap();
        let first = clicks.training(3, 100);
        assert_eq!(Clicks::new(OPTIONS).unwrap().training(3, 100), first);
        let others = [clicks.training(4, 100), clicks.serving(3, 100)];
        let seeded = Clicks::new(Options { seed: 2, ..OPTIONS }).unwrap().training(3, 100);
        assert!(others.iter().chain([&seeded]).all(|other| *other != first));
    }
}
