//! What a structure's counters say.
use crate::Result;
use gpu::Buffer;
use phalanx_kernels::keyed::{STRIPE_WORDS, STRIPES};

/// The sums of the stripes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pairs or keys.
    pub live: usize,
    /// Slots that are no longer empty.
    pub taken: usize,
    /// Writing walks that have become long.
    pub long: usize,
}

impl Counts {
    /// Reads the counters. Waits for the launches that were asked for before.
    pub fn read(tallies: &Buffer<u64>) -> Result<Self> {
        let words = tallies.read()?;
        let sum = |word: usize| {
            words.chunks(STRIPE_WORDS).fold(0u64, |sum, stripe| sum.wrapping_add(stripe[word])) as usize
        };
        Ok(Self { live: sum(0), taken: sum(1), long: sum(2) })
    }

    /// Sets the counters. Nothing may run.
    pub fn write(self, tallies: &mut Buffer<u64>) -> Result<()> {
        let mut words = vec![0; STRIPES * STRIPE_WORDS];
        let counts = [self.live, self.taken, self.long];
        words.iter_mut().zip(counts).for_each(|(word, count)| *word = count as u64);
        Ok(tallies.write(&words)?)
    }

    /// Slots of removed pairs. Counters that are read while another thread's launch runs may be one addition apart: then none.
    pub fn removed(self) -> usize {
        self.taken.saturating_sub(self.live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_amid_an_addition_are_no_panic() {
        assert_eq!(Counts { live: 2, taken: 1, long: 1 }.removed(), 0);
    }
}
