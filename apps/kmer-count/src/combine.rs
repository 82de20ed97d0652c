//! Combining nearby occurrences of k-mers.
use anyhow::Result;
use genomes::feed::Feed;
use std::time::Duration;

/// Combines nearby occurrences of a k-mer and sends the rest to the device.
///
/// A small direct-mapped table: a k-mer that hashes to an occupied slot evicts the k-mer there.
/// The table keeps frequent k-mers away from the device, where thousands of threads that add to the same
/// counter contend for it. Frequent k-mers occur when k is small, and in low-complexity regions of a genome.
///
/// Measured on an H200, one run each, when one thread read and packed:
///
/// - 20 million letters of a low-complexity region took 0.08 s; without the table they were not finished
///   after 20 s.
/// - 40 million random letters with k = 5 took 0.14 s rather than 0.40 s.
/// - Where few occurrences combine, the table costs time: with k = 8 the same letters took 0.25 s rather than
///   0.17 s, and 300 million random letters with k = 21, where none combine, took 1.54 s rather than 1.37 s.
/// - Reading and packing alone took 1.37 s of those, so sorting the batches concurrently could not save time.
#[derive(Debug)]
pub struct Combiner {
    places: Vec<(u64, u64)>,
    feed: Feed<u64>,
}

/// Number of hash bits that select a slot.
const PLACE_BITS: u32 = 11;

impl Combiner {
    /// Creates a combiner that sends k-mers and their counts.
    pub fn new(feed: Feed<u64>) -> Self {
        Self { places: vec![(0, 0); 1 << PLACE_BITS], feed }
    }

    /// Adds one occurrence of a k-mer.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the receiver is gone.
    #[inline]
    pub fn add(&mut self, kmer: u64) -> Result<()> {
        let place =
            &mut self.places[(kmer.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACE_BITS)) as usize];
        if place.0 == kmer {
            place.1 += 1;
            return Ok(());
        }
        let (kmer, count) = std::mem::replace(place, (kmer, 1));
        if count == 0 { Ok(()) } else { self.feed.push(kmer, count) }
    }

    /// Sends the remaining k-mers. Returns the time for which the receiver was waited for.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn finish(mut self) -> Result<Duration> {
        for &(kmer, count) in self.places.iter().filter(|&&(_, count)| count > 0) {
            self.feed.push(kmer, count)?;
        }
        self.feed.flush()?;
        Ok(self.feed.waited())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use genomes::feed::{Batches, channel};
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Returns the batches of a combiner: k-mers and counts.
    fn combined(kmers: &[u64], size: usize) -> Vec<Vec<(u64, u64)>> {
        let device = phalanx::Device::named("emulator").unwrap();
        let (feed, segments) = channel(size);
        let mut batches = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut combiner = Combiner::new(feed);
                kmers.iter().for_each(|&kmer| combiner.add(kmer).unwrap());
                combiner.finish().unwrap();
            });
            let take = |kmers: &[u64], counts: &[u64]| {
                batches.push(kmers.iter().copied().zip(counts.iter().copied()).collect());
                Ok(())
            };
            Batches::new(&device, size).unwrap().run(segments, take).unwrap();
        });
        batches
    }

    proptest! {
        #[test]
        fn nothing_is_lost(
            kmers in prop::collection::vec(prop_oneof![0..10u64, any::<u64>()], 0..5000),
            size in 1..100usize,
        ) {
            let mut sums = HashMap::new();
            let batches = combined(&kmers, size);
            batches.iter().flatten().for_each(|&(kmer, count)| *sums.entry(kmer).or_insert(0) += count);
            let mut expected = HashMap::new();
            kmers.iter().for_each(|&kmer| *expected.entry(kmer).or_insert(0u64) += 1);
            prop_assert_eq!(sums, expected);
            let sizes: Vec<_> = batches.iter().map(Vec::len).collect();
            prop_assert!(sizes.iter().rev().skip(1).all(|&len| len == size), "{:?}", sizes);
        }
    }

    #[test]
    fn what_is_frequent_is_joined() {
        let kmers: Vec<u64> = (0..100_000).map(|index| index % 4).collect();
        let batches = combined(&kmers, 1000);
        assert!(batches.len() == 1 && batches[0].len() == 4, "{batches:?}");
    }
}
