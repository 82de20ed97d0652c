//! Count of the work submitted to a device, by which a call that must come after it knows whether to wait.
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of submissions to the streams of a device, and how many of them have completed for certain.
#[derive(Debug, Default)]
pub struct Submissions(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    submitted: u64,
    completed: u64,
    /// Whether another library may submit work to a stream, which is not counted.
    has_foreign: bool,
}

impl Submissions {
    // Numbers are valid even after a panic.
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a submission. Called after it: a wait that begins in between need not include it.
    pub fn add(&self) {
        self.counts().submitted += 1;
    }

    pub fn add_foreign_stream(&self) {
        self.counts().has_foreign = true;
    }

    /// Returns the number to pass to [`Self::completed`] after a wait.
    pub fn begin_wait(&self) -> u64 {
        self.counts().submitted
    }

    pub fn completed(&self, submitted: u64) {
        let mut counts = self.counts();
        counts.completed = counts.completed.max(submitted);
    }

    /// Returns whether work may be running that was submitted before.
    pub fn may_run(&self) -> bool {
        let counts = self.counts();
        counts.has_foreign || counts.completed < counts.submitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_covers_what_was_submitted_before_it_began() {
        let submissions = Submissions::default();
        assert!(!submissions.may_run());
        submissions.add();
        let begun = submissions.begin_wait();
        assert!(submissions.may_run(), "another thread's wait has only begun");
        submissions.add();
        submissions.completed(begun);
        assert!(submissions.may_run(), "the second came after the wait began");
        submissions.completed(submissions.begin_wait());
        assert!(!submissions.may_run());
        submissions.completed(begun);
        assert!(!submissions.may_run(), "an earlier wait that ends late");
        submissions.add_foreign_stream();
        assert!(submissions.may_run());
    }
}
