//! The counters of a structure.
use crate::Result;
use gpu::Buffer;
use phalanx_kernels::keyed::{COUNTER_SHARDS, SHARD_WORDS, Scalar, hash};
use simt::hash::reduce;

/// Sums of the counter shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pairs or keys.
    pub live: usize,
    /// Slots that are no longer empty, including tombstones.
    pub taken: usize,
    /// Updates whose probe sequence was long.
    pub long: usize,
}

impl Counts {
    /// Reads the counters. Waits for all earlier launches.
    pub fn read(counters: &Buffer<u64>) -> Result<Self> {
        Ok(Self::of(&counters.read()?))
    }

    /// Returns the sums of counters that have been read.
    pub fn of(words: &[u64]) -> Self {
        let sum = |word: usize| {
            words.chunks(SHARD_WORDS).fold(0u64, |sum, stripe| sum.wrapping_add(stripe[word])) as usize
        };
        Self { live: sum(0), taken: sum(1), long: sum(2) }
    }

    /// Sets the counters. Nothing may run.
    pub fn write(self, counters: &mut Buffer<u64>) -> Result<()> {
        let mut words = vec![0; COUNTER_SHARDS * SHARD_WORDS];
        let counts = [self.live, self.taken, self.long];
        words.iter_mut().zip(counts).for_each(|(word, count)| *word = count as u64);
        Ok(counters.write(&words)?)
    }

    /// Returns the number of slots of removed pairs. Counters that are read while another thread's launch
    /// runs may differ by one addition: then the result is 0 rather than an underflow.
    pub fn removed(self) -> usize {
        self.taken.saturating_sub(self.live)
    }
}

/// Estimates the number of distinct keys by linear counting: each key sets one of some bits, and the number
/// of bits that stay cleared yields the estimate. A margin of four standard deviations is added (12 % for 100
/// keys, 0.5 % for 65 000), so the result is hardly ever too small; it never exceeds the number of elements.
/// Sorting all keys would take longer than inserting them.
pub fn distinct<K: Scalar>(keys: &[K]) -> usize {
    let bits = (4 * keys.len()).clamp(256, 1 << 31).next_power_of_two();
    let mut seen = vec![0u64; bits / 64];
    for &key in keys {
        let bit = reduce(hash(key, 0).first, bits as u32) as usize;
        seen[bit / 64] |= 1 << (bit % 64);
    }
    let cleared: usize = seen.iter().map(|word| word.count_zeros() as usize).sum();
    let bits = bits as f64;
    let found = bits * (bits / cleared.max(1) as f64).ln();
    ((found * (1.0 + 4.0 / (2.0 * bits).sqrt())).ceil() as usize).min(keys.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_count_once() {
        assert_eq!((distinct::<u32>(&[]), distinct(&[7u32]), distinct(&[7u64; 1000])), (0, 1, 2));
        for many in [10, 1000, 100_000] {
            let all: Vec<u32> = (0..many as u32).collect();
            assert_eq!(distinct(&all), all.len());
            let keys: Vec<u64> = (0..3 * many).map(|n| n % many * 64).collect();
            let found = distinct(&keys);
            let many = many as usize;
            assert!((many..=many + 3 + many / 20).contains(&found), "{found} for {many}");
        }
    }

    #[test]
    fn counters_amid_an_addition_are_no_panic() {
        assert_eq!(Counts { live: 2, taken: 1, long: 1 }.removed(), 0);
    }
}
