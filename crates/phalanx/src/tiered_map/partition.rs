//! Division of the keys among the shards.
use super::ledger::{Ledger, Metered};
use crate::map::encoding::Word;
use crate::{Error, Result};
use gpu::{Buffer, Device};
use phalanx_kernels::tiered::MOST_BITS;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Division of the keys of a [`TieredMap`](super::TieredMap) among its shards.
///
/// ```
/// use phalanx::TieredMap;
/// use phalanx::tiered_map::Partition;
///
/// let partition = Partition::ByRange { keys: 0..=99_999, each: 1000 };
/// let map = TieredMap::<u32, u32>::builder().capacity(100_000).partition(partition).build()?;
/// assert!(map.insert(&[7, 8, 5000], &[70, 80, 90])?.all_placed());
/// assert_eq!(map.get(&[8, 5000, 60_000])?, [Some(80), Some(90), None]);
/// assert_eq!((map.shards(), map.traffic().ended), (100, 1)); // 60 000 is in an empty range
/// # Ok::<(), phalanx::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Partition<K> {
    /// A hash of the key selects the shard. All keys cost the same, sparse ones and dense ones.
    #[default]
    ByHash,
    /// Each shard has the keys of a range, for keys that are dense or in clusters. A range has no memory
    /// before its first key. Lookups and removals of keys in ranges without pairs end without an access to a
    /// shard. There are no hot pairs.
    ByRange {
        /// The keys that are divided into ranges. Keys below belong to the first range and keys above to the
        /// last one, whose shards grow with them.
        keys: RangeInclusive<K>,
        /// Number of keys in each range. At most 2^20 ranges are possible.
        each: u64,
    },
}

/// Ranges of words, all of the same length but the first and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges {
    first: u64,
    pub each: u64,
    pub count: usize,
}

impl Ranges {
    /// Divides the words from `first` to `last`.
    pub fn new(first: u64, last: u64, each: u64) -> Result<Self> {
        const MOST: u64 = 1 << MOST_BITS;
        if each == 0 {
            return Err(Error::Zero { what: "keys of a range" });
        }
        let asked = last.checked_sub(first).map_or(0, |last| (last / each).saturating_add(1));
        match asked {
            1..=MOST => Ok(Self { first, each, count: asked as usize }),
            _ => Err(Error::Ranges { asked, most: MOST }),
        }
    }

    /// Returns the number of the range of a word.
    pub fn of(&self, word: u64) -> usize {
        (word.saturating_sub(self.first) / self.each).min(self.count as u64 - 1) as usize
    }

    /// Returns the bits of the numbers of ranges.
    pub fn bits(&self) -> u32 {
        self.count.next_power_of_two().trailing_zeros()
    }

    /// Returns the bytes of device memory that the ranges of keys of a type need.
    pub fn device_bytes<K>(&self) -> usize {
        (self.count - 1) * size_of::<K>()
    }
}

/// Ranges, with a copy on the device.
pub struct RangeTable<K> {
    pub ranges: Ranges,
    /// Lowest key of each range but the first.
    pub splitters: Metered<Buffer<K>>,
}

impl<K: Word> RangeTable<K> {
    /// Copies ranges to the device.
    pub fn new(ranges: Ranges, (device, ledger): (&Device, &Arc<Ledger>)) -> Result<Self> {
        let lowest = |number: usize| K::from_u64(ranges.first + number as u64 * ranges.each);
        let splitters: Vec<K> = (1..ranges.count).map(lowest).collect();
        let mut memory = ledger.buffer(device, splitters.len())?;
        memory.write(&splitters)?;
        Ok(Self { ranges, splitters: memory })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_has_a_range() {
        let ranges = Ranges::new(100, 199, 30).unwrap();
        assert_eq!((ranges.count, ranges.bits()), (4, 2));
        let words = [0, 99, 100, 129, 130, 189, 190, 199, 200, u64::MAX];
        assert_eq!(words.map(|word| ranges.of(word)), [0, 0, 0, 0, 1, 2, 3, 3, 3, 3]);
        let whole = Ranges::new(0, u64::MAX, 1 << 44).unwrap();
        assert_eq!((whole.count, whole.of(u64::MAX), whole.of(1 << 44)), (1 << 20, (1 << 20) - 1, 1));
        let one = Ranges::new(5, 5, u64::MAX).unwrap();
        assert_eq!((one.count, one.bits(), one.of(0), one.of(u64::MAX)), (1, 0, 0, 0));
    }

    #[test]
    fn no_range_and_too_many() {
        let asked = |first, last, each| match Ranges::new(first, last, each) {
            Err(Error::Ranges { asked, most: 0x10_0000 }) => asked,
            other => panic!("{other:?}"),
        };
        assert_eq!(asked(7, 6, 1), 0);
        assert_eq!(asked(0, 1 << 20, 1), (1 << 20) + 1);
        assert_eq!(asked(0, u64::MAX, 1), u64::MAX);
        assert!(matches!(Ranges::new(0, 1, 0), Err(Error::Zero { .. })));
        assert_eq!(Ranges::new(0, (1 << 20) - 1, 1).unwrap().count, 1 << 20);
    }

    #[test]
    fn splitters_are_the_bounds_of_the_ranges() {
        let (device, ledger) = (Device::emulator(Default::default()), Ledger::new(1000));
        let ranges = Ranges::new(10, 49, 10).unwrap();
        let table = RangeTable::<u32>::new(ranges, (&device, &ledger)).unwrap();
        assert_eq!(table.splitters.read().unwrap(), [20, 30, 40]);
        assert_eq!(ranges.device_bytes::<u32>(), ledger.used());
    }
}
