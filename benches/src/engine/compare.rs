//! Comparison of a run with an earlier one, record by record.
use super::record::Record;
use itertools::Itertools;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Relation between the intervals of the two medians.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trend {
    /// The new interval lies below the old one.
    Faster,
    /// The new interval lies above the old one.
    Slower,
    /// The intervals overlap.
    Same,
    /// The earlier run has no such record.
    New,
    /// This run has no such record.
    Missing,
    /// One of the two has a wrong result, so its time is meaningless.
    Unverified,
    /// Emulated times are not compared.
    Emulated,
}

impl fmt::Display for Trend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_lowercase())
    }
}

/// Two records with the same identity, or one record without a counterpart.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Identity of the measurement.
    pub identity: String,
    /// Earlier median.
    pub before_ms: Option<f64>,
    /// New median.
    pub after_ms: Option<f64>,
    /// Result of the comparison.
    pub verdict: Trend,
}

impl Comparison {
    fn of(old: Option<&Record>, new: Option<&Record>, identity: String) -> Self {
        let [before_ms, after_ms] = [old, new].map(|record| record.map(|record| record.median_ms));
        Self { identity, before_ms, after_ms, verdict: verdict(old, new) }
    }

    /// Returns the earlier median divided by the new one.
    pub fn speedup(&self) -> Option<f64> {
        Some(self.before_ms? / self.after_ms?)
    }
}

/// Compares each record with the last record of the same identity in `baseline`.
pub fn compare(baseline: &[Record], records: &[Record]) -> Vec<Comparison> {
    let old: HashMap<_, _> = baseline.iter().map(|record| (record.identity(), record)).collect();
    let new: HashSet<_> = records.iter().map(Record::identity).collect();
    let present = records.iter().map(|new| (new.identity(), Some(new)));
    let missing = old.keys().filter(|identity| !new.contains(*identity)).sorted();
    let all = present.chain(missing.map(|identity| (identity.clone(), None)));
    all.map(|(identity, new)| Comparison::of(old.get(&identity).copied(), new, identity)).collect()
}

fn verdict(old: Option<&Record>, new: Option<&Record>) -> Trend {
    let Some(old) = old else { return Trend::New };
    let Some(new) = new else { return Trend::Missing };
    let ((old_low, old_high), (new_low, new_high)) = (old.interval_ms(), new.interval_ms());
    if !(old.verified && new.verified) {
        Trend::Unverified
    } else if new.is_emulated() || old.is_emulated() {
        Trend::Emulated
    } else if new_high < old_low {
        Trend::Faster
    } else if new_low > old_high {
        Trend::Slower
    } else {
        Trend::Same
    }
}

/// Returns whether any result is slower, or is wrong and was correct before.
pub fn has_regression(comparisons: &[Comparison]) -> bool {
    comparisons.iter().any(|comparison| matches!(comparison.verdict, Trend::Slower | Trend::Unverified))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn record(op: &str, low: f64, high: f64) -> Record {
        Record {
            schema: 1,
            suite: "hashmap/load-factor".to_owned(),
            structure: "HashMap".to_owned(),
            variant: "default".to_owned(),
            op: op.to_owned(),
            key_bits: 32,
            value_bits: 32,
            n: 1000,
            params: [("load_factor".to_owned(), crate::engine::record::Param::Number(0.8))].into(),
            device: "NVIDIA H200".to_owned(),
            driver: "580.1".to_owned(),
            commit: "abc".to_owned(),
            seed: 1,
            reps: 11,
            median_ms: (low + high) / 2.0,
            min_ms: low,
            max_ms: high,
            ci_low_ms: Some(low),
            ci_high_ms: Some(high),
            mops: 1e3,
            limit: Some("line128".to_owned()),
            limit_mops: Some(2e3),
            ratio: Some(0.5),
            verified: true,
            ..Record::default()
        }
    }

    fn verdicts(old: &[Record], new: &[Record]) -> Vec<Trend> {
        compare(old, new).into_iter().map(|comparison| comparison.verdict).collect()
    }

    #[test]
    fn intervals_decide() {
        let old = [record("insert", 2.0, 3.0)];
        assert_eq!(verdicts(&old, &[record("insert", 1.0, 1.9)]), [Trend::Faster]);
        assert_eq!(verdicts(&old, &[record("insert", 3.1, 4.0)]), [Trend::Slower]);
        assert_eq!(verdicts(&old, &[record("insert", 2.9, 4.0)]), [Trend::Same]);
        assert_eq!(verdicts(&old, &[record("find_hit", 2.9, 4.0)]), [Trend::New, Trend::Missing]);
        assert!(has_regression(&compare(&old, &[record("insert", 3.1, 4.0)])));
        assert!(!has_regression(&compare(&old, &[record("insert", 1.0, 4.0)])));
    }

    #[test]
    fn wrong_results_and_emulated_times_are_not_compared() {
        let old = [record("insert", 2.0, 3.0)];
        let wrong = Record { verified: false, ..record("insert", 1.0, 1.5) };
        assert_eq!(verdicts(&old, &[wrong]), [Trend::Unverified]);
        let emulated = Record { driver: "emulator".to_owned(), ..record("insert", 9.0, 9.5) };
        assert_eq!(verdicts(&old, &[emulated]), [Trend::Emulated]);
    }

    #[test]
    fn speedup_is_by_medians() {
        let comparison = &compare(&[record("insert", 2.0, 4.0)], &[record("insert", 1.0, 2.0)])[0];
        assert_eq!(comparison.speedup(), Some(2.0));
    }
}
