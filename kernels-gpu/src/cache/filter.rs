//! Predicates of keys and scores, for scans.
use crate::keyed::Scalar;
use core::ops::{Bound, RangeBounds};
use simt::device;

/// A predicate of keys and scores: a scan counts, copies or removes the keys that it selects.
///
/// Kernels of the library use [`Filter`]. A kernel of one's own passes another predicate to
/// [`count_selected`](super::scan::count_selected), [`export_selected`](super::scan::export_selected) or
/// [`remove_selected`](super::scan::remove_selected).
///
/// ```
/// use phalanx_kernels::cache::Select;
///
/// /// Selects keys that were used more often than their lowest byte says.
/// #[derive(Clone, Copy, Debug)]
/// struct AboveLowByte;
///
/// impl Select<u64, u32> for AboveLowByte {
///     fn selects(self, key: u64, score: u32) -> bool {
///         score > key as u32 & 0xff
///     }
///
///     fn reads_scores(self) -> bool {
///         true // as by default
///     }
/// }
///
/// assert!(AboveLowByte.selects(0x105, 6) && !AboveLowByte.selects(0x105, 5));
/// assert!(Select::<u64, u32>::reads_keys(AboveLowByte));
/// ```
pub trait Select<K: Scalar, S: Scalar>: Copy + Send + Sync + 'static {
    /// Returns whether the key is selected.
    fn selects(self, key: K, score: S) -> bool;

    /// Returns whether [`selects`](Self::selects) depends on the key. If not, scans do not read keys, and
    /// pass 0. It must be the same for all threads.
    #[device]
    fn reads_keys(self) -> bool {
        true
    }

    /// Returns whether [`selects`](Self::selects) depends on the score. If not, scans do not read scores, and
    /// pass 0. It must be the same for all threads.
    #[device]
    fn reads_scores(self) -> bool {
        true
    }
}

/// Selects keys by up to three conditions, which must all hold: the key is in a range, some of its bits have
/// a pattern, and its score is in a range.
///
/// ```
/// use phalanx_kernels::cache::{Filter, Select};
///
/// let filter = Filter::<u64, u32>::all().keys(100..200).key_bits(0xf, 0x4).scores(7..);
/// assert!(filter.selects(0x74, 7) && !filter.selects(0x74, 6)); // the score
/// assert!(!filter.selects(0x4, 7) && !filter.selects(0x75, 7)); // the range, and the bits
/// assert!(Filter::<u64, u32>::all().selects(0, u32::MAX));
/// assert!(!Filter::<u64, u32>::all().keys(5..5).selects(5, 0)); // an empty range selects no key
/// ```
///
/// # Cost
///
/// A scan reads the keys only if there is a condition on them, and the scores only if there is one on these.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter<K, S> {
    lowest_key: K,
    highest_key: K,
    key_mask: K,
    key_pattern: K,
    lowest_score: S,
    highest_score: S,
}

impl<K: Scalar, S: Scalar> Filter<K, S> {
    /// Returns the filter that selects all keys.
    pub fn all() -> Self {
        Self {
            lowest_key: K::default(),
            highest_key: K::MAX,
            key_mask: K::default(),
            key_pattern: K::default(),
            lowest_score: S::default(),
            highest_score: S::MAX,
        }
    }

    /// Selects only keys in a range. Replaces an earlier range of keys.
    pub fn keys(self, keys: impl RangeBounds<K>) -> Self {
        let (lowest_key, highest_key) = ends(keys);
        Self { lowest_key, highest_key, ..self }
    }

    /// Selects only keys that have the bits of `pattern` where `mask` has ones: `key & mask == pattern`. No
    /// key is selected if the pattern has a bit that the mask lacks. Replaces earlier bits.
    pub fn key_bits(self, mask: K, pattern: K) -> Self {
        Self { key_mask: mask, key_pattern: pattern, ..self }
    }

    /// Selects only keys with scores in a range. Replaces an earlier range of scores.
    pub fn scores(self, scores: impl RangeBounds<S>) -> Self {
        let (lowest_score, highest_score) = ends(scores);
        Self { lowest_score, highest_score, ..self }
    }
}

/// Returns the lowest and the highest number of a range; 1 and 0 if it is empty.
fn ends<T: Scalar>(range: impl RangeBounds<T>) -> (T, T) {
    let low = match range.start_bound() {
        Bound::Included(low) => Some(low.to_u64()),
        Bound::Excluded(low) => low.to_u64().checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let high = match range.end_bound() {
        Bound::Included(high) => Some(high.to_u64()),
        Bound::Excluded(high) => high.to_u64().checked_sub(1),
        Bound::Unbounded => Some(T::MAX.to_u64()),
    };
    match (low, high) {
        (Some(low), Some(high)) if low <= high => (T::from_u64(low), T::from_u64(high)),
        _ => (T::from_u64(1), T::from_u64(0)),
    }
}

#[device]
impl<K: Scalar, S: Scalar> Select<K, S> for Filter<K, S> {
    fn selects(self, key: K, score: S) -> bool {
        let key_is_chosen =
            self.lowest_key <= key && key <= self.highest_key && key & self.key_mask == self.key_pattern;
        key_is_chosen && self.lowest_score <= score && score <= self.highest_score
    }

    fn reads_keys(self) -> bool {
        let (none, bits) = (K::default(), (self.key_mask, self.key_pattern));
        bits != (none, none) || (self.lowest_key, self.highest_key) != (none, K::MAX)
    }

    fn reads_scores(self) -> bool {
        (self.lowest_score, self.highest_score) != (S::default(), S::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_all_kinds_of_ends() {
        assert_eq!(ends::<u32>(..), (0, u32::MAX));
        assert_eq!(ends(3u32..=u32::MAX), (3, u32::MAX));
        assert_eq!(ends((Bound::Excluded(3u64), Bound::Unbounded)), (4, u64::MAX));
        assert_eq!(ends(..7u64), (0, 6));
        let empty = [
            ends(7u32..7),
            ends(..0),
            ends((Bound::Excluded(u32::MAX), Bound::Unbounded)),
            ends((Bound::Included(2), Bound::Included(1))),
        ];
        assert_eq!(empty, [(1, 0); 4]);
    }

    #[test]
    fn what_a_filter_does_not_read_does_not_matter() {
        let reads = |filter: Filter<u32, u64>| (filter.reads_keys(), filter.reads_scores());
        assert_eq!(reads(Filter::all()), (false, false));
        assert_eq!(reads(Filter::all().keys(1..)), (true, false));
        assert_eq!(reads(Filter::all().keys(..u32::MAX)), (true, false));
        assert_eq!(reads(Filter::all().key_bits(1, 0)), (true, false));
        assert_eq!(reads(Filter::all().key_bits(0, 1)), (true, false));
        assert_eq!(reads(Filter::all().scores(1..)), (false, true));
        // The key 0 is passed where keys are not read.
        assert!(Filter::<u32, u64>::all().selects(0, 0));
    }
}
