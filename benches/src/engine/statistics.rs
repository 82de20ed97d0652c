//! Statistics of a few times: median, extremes, and confidence interval of the median.

/// Summary of times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Median.
    pub median: f64,
    /// Smallest time.
    pub min: f64,
    /// Largest time.
    pub max: f64,
    /// Lower end of the median's confidence interval.
    pub low: f64,
    /// Upper end of the median's confidence interval.
    pub high: f64,
}

/// Confidence that the interval contains the true median.
pub const CONFIDENCE: f64 = 0.95;

/// Summarizes times. Returns `None` if there are none.
///
/// The confidence interval is based on order statistics: with `n` independent times, the `k`-th smallest and
/// the `k`-th largest enclose the true median with the probability `1 - 2 P(Binomial(n, 1/2) < k)`, for any
/// distribution. The function uses the largest `k` that reaches [`CONFIDENCE`]. With fewer than six times
/// there is no such `k`, and the interval consists of the extremes.
pub fn summarize(times: &[f64]) -> Option<Summary> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let n = sorted.len();
    let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
    let k = rank(n).max(1);
    Some(Summary { median, min, max, low: sorted[k - 1], high: sorted[n - k] })
}

/// Returns the largest `k` whose interval reaches the confidence, or 0 if there is none.
fn rank(n: usize) -> usize {
    let mut term = 0.5f64.powi(n as i32);
    let mut tail = 0.0;
    for k in 0..=n / 2 {
        // Here `tail` is the probability of fewer than `k` times below the median.
        if 2.0 * (tail + term) > 1.0 - CONFIDENCE {
            return k;
        }
        tail += term;
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    n / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Compares the ranks with tables of the sign test's interval (two-sided, 95 %).
    #[test]
    fn ranks_are_those_of_the_tables() {
        for (n, expected) in
            [(1, 0), (5, 0), (6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (15, 4), (20, 6), (25, 8)]
        {
            assert_eq!(rank(n), expected, "{n} times");
        }
    }

    #[test]
    fn summaries_of_few_and_many() {
        assert_eq!(summarize(&[]), None);
        let one = summarize(&[2.0]).unwrap();
        assert_eq!((one.median, one.low, one.high), (2.0, 2.0, 2.0));
        let times: Vec<f64> = (1..=11).rev().map(f64::from).collect();
        assert_eq!(
            summarize(&times),
            Some(Summary { median: 6.0, min: 1.0, max: 11.0, low: 2.0, high: 10.0 })
        );
        assert_eq!(summarize(&[1.0, 2.0]).unwrap().median, 1.5);
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_median(times in prop::collection::vec(0.0..1e3f64, 1..40)) {
            let summary = summarize(&times).unwrap();
            prop_assert!(summary.min <= summary.low && summary.low <= summary.median);
            prop_assert!(summary.median <= summary.high && summary.high <= summary.max);
        }
    }
}
