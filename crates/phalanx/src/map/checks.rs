//! When the counters of a structure must be read to know whether it is too full. A read waits for the device
//! and copies 8 KiB: more than the rest of a small call costs.
use super::counts::Counts;
use super::launch::BatchOp;
use crate::Result;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Upper bound of the number of taken slots, from the last count and the elements submitted since.
#[derive(Debug, Default)]
pub struct Checks(Mutex<Bound>);

#[derive(Debug, Default)]
struct Bound {
    /// Taken slots at the last count, which has not happened yet if `None`.
    taken: Option<usize>,
    /// Elements submitted since that may have changed the structure.
    since: usize,
    /// Whether the user's kernels may change the structure, too.
    is_viewed: bool,
}

impl Checks {
    // Numbers are valid even after a panic.
    fn bound(&self) -> MutexGuard<'_, Bound> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a batch of `len` elements was submitted. Called afterwards: a count in between may
    /// include the elements twice, but never omits them.
    pub fn submitted(&self, op: BatchOp, len: usize) {
        if op.writes() {
            let mut bound = self.bound();
            bound.since = bound.since.saturating_add(len);
        }
    }

    /// Records that kernels of the user may change the structure from now on.
    pub fn viewed(&self) {
        self.bound().is_viewed = true;
    }

    /// Returns whether kernels of the user may change the structure.
    #[cfg(feature = "sharded-map")]
    pub fn are_viewed(&self) -> bool {
        self.bound().is_viewed
    }

    /// Returns whether at most `most` slots will be taken for certain when `more` more elements are executed.
    pub fn fits(&self, more: usize, most: usize) -> bool {
        let bound = self.bound();
        let after = bound.taken.map(|taken| taken.saturating_add(bound.since).saturating_add(more));
        !bound.is_viewed && after.is_some_and(|after| after <= most)
    }

    /// Returns whether a count is due: more than `most` slots may be taken, or `every` elements or more were
    /// submitted since the last one.
    pub fn is_due(&self, most: usize, every: usize) -> bool {
        self.bound().since >= every.max(1) || !self.fits(0, most)
    }

    /// Reads the counters by `read`, which waits for all earlier launches.
    pub fn count(&self, read: impl FnOnce() -> Result<Counts>) -> Result<Counts> {
        let before = self.bound().since;
        let counts = read()?;
        let mut bound = self.bound();
        // Another thread may have counted meanwhile.
        bound.since = bound.since.saturating_sub(before);
        bound.taken = Some(counts.taken);
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(checks: &Checks, taken: usize) {
        checks.count(|| Ok(Counts { taken, ..Counts::default() })).unwrap();
    }

    #[test]
    fn a_count_is_due_when_the_bound_exceeds_it() {
        let checks = Checks::default();
        assert!(checks.is_due(100, 1000), "nothing is known");
        counted(&checks, 60);
        assert!(!checks.is_due(100, 1000) && checks.fits(40, 100) && !checks.fits(41, 100));
        checks.submitted(BatchOp::Get, 1000);
        checks.submitted(BatchOp::Insert, 40);
        assert!(!checks.is_due(100, 1000) && checks.is_due(100, 40), "forty elements");
        checks.submitted(BatchOp::Remove, 1);
        assert!(checks.is_due(100, 1000) && !checks.fits(0, 100));
        counted(&checks, 60);
        assert!(!checks.is_due(100, 1000));
        checks.viewed();
        counted(&checks, 60);
        assert!(checks.is_due(100, 1000), "kernels that nobody counts");
    }

    #[test]
    fn elements_submitted_during_a_count_are_not_forgotten() {
        let checks = Checks::default();
        checks.submitted(BatchOp::Insert, 5);
        let during = || {
            checks.submitted(BatchOp::Insert, 7);
            Ok(Counts { taken: 5, ..Counts::default() })
        };
        checks.count(during).unwrap();
        assert!(checks.fits(0, 12) && !checks.fits(0, 11));
    }
}
