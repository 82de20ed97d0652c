//! Samples of the keys of a batch, from which the borders of lists are chosen.
use phalanx_kernels::keyed::{Scalar, hash};

/// Keys in order, and the number of pairs that each stands for.
pub type Weights<K> = Vec<(K, f64)>;

/// Least number of keys in a sample.
const LEAST: usize = 1 << 14;
/// Number of keys in a sample for each list: so the estimate of a list is wrong by some 6 %.
const EACH: usize = 1 << 8;

/// A sample of a batch, in order.
#[derive(Debug)]
pub struct Sample<K> {
    keys: Vec<K>,
    /// Number of elements of the batch for each key of the sample.
    each: f64,
}

impl<K: Scalar + Ord> Sample<K> {
    /// Takes a sample of a batch, for this number of lists: an element at random of each of many pieces.
    pub fn of(batch: &[K], lists: usize) -> Self {
        let step = batch.len().div_ceil(LEAST.max(lists.saturating_mul(EACH))).max(1);
        let any = |(index, piece): (usize, &[K])| piece[hash(index as u64, 0).first as usize % piece.len()];
        let mut keys: Vec<K> = batch.chunks(step).enumerate().map(any).collect();
        keys.sort_unstable();
        let each = batch.len() as f64 / keys.len().max(1) as f64;
        Self { keys, each }
    }

    /// Returns the keys of the sample from `low` to `high`.
    pub fn within(&self, (low, high): (K, K)) -> &[K] {
        let first = self.keys.partition_point(|&key| key < low);
        &self.keys[first..first + self.keys[first..].partition_point(|&key| key <= high)]
    }

    /// Returns the expected number of distinct keys in the batch, of the part in which the sample has these
    /// `keys`. If most keys of the sample are equal to others, it has about all keys of the batch.
    pub fn expected(&self, keys: &[K]) -> usize {
        let distinct = keys.len() - keys.windows(2).filter(|pair| pair[0] == pair[1]).count();
        match 4 * distinct < keys.len() {
            true => 2 * distinct,
            false => (keys.len() as f64 * self.each).ceil() as usize,
        }
    }
}

/// Returns the lowest keys of all lists but the first, if `parts` lists from the key `low` on get equal
/// shares of the pairs that are `there` and of those in a `sample`. Equal keys may make it fewer.
pub fn cuts<K: Scalar + Ord>(there: Weights<K>, sample: Weights<K>, parts: usize, low: K) -> Vec<K> {
    let mut all = there;
    all.extend(sample);
    all.sort_by_key(|&(key, _)| key);
    let total: f64 = all.iter().map(|(_, weight)| weight).sum();
    let (mut before, mut cut, mut cuts) = (0.0, 0, Vec::new());
    for (key, weight) in all {
        let share = (before * parts as f64 / total) as usize;
        if share > cut && share < parts && key > *cuts.last().unwrap_or(&low) {
            cut = share;
            cuts.push(key);
        }
        before += weight;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_get_equal_shares() {
        let there: Weights<u32> = (0..100).map(|index| (10 * index, 5.0)).collect();
        let sample: Weights<u32> = (0..50).map(|index| (2000 + index, 10.0)).collect();
        assert_eq!(cuts(there.clone(), sample.clone(), 4, 0), [500, 2000, 2025]);
        assert_eq!(cuts(there, Vec::new(), 2, 0), [500]);
        assert_eq!(cuts(sample, Vec::new(), 1, 0), []);
        assert_eq!(cuts::<u32>(Vec::new(), Vec::new(), 5, 0), []);
    }

    #[test]
    fn equal_keys_stay_together() {
        let same: Weights<u64> = vec![(7, 1.0); 100];
        assert_eq!(cuts(same.clone(), Vec::new(), 4, 0), [7]);
        assert_eq!(cuts(same.clone(), Vec::new(), 4, 7), []);
        let ends = vec![(3, 1.0), (9, 1.0), (10, 50.0)];
        assert_eq!(cuts(same, ends, 4, 0), [7, 9], "two shares begin at the same key");
        let many: Vec<u64> = (0..1 << 16).map(|index| index % 100).collect();
        let sample = Sample::of(&many, 1);
        assert_eq!(sample.expected(sample.within((0, u64::MAX))), 200);
        assert_eq!(sample.within((200, 300)), []);
    }

    #[test]
    fn samples_are_of_the_whole_batch() {
        let batch: Vec<u32> = (0..1 << 20).rev().collect();
        let sample = Sample::of(&batch, 1000);
        assert!(sample.keys.len() >= 1 << 17);
        for part in 0..16u32 {
            let expected = sample.expected(sample.within((part << 16, (part << 16) + 0xffff)));
            assert!(expected.abs_diff(1 << 16) < 1 << 12, "{expected}");
        }
    }
}
