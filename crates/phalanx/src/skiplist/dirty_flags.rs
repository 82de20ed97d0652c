//! Flags for operations that may have left nodes to reclaim.
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Operations that may have left nodes to reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyFlags {
    /// Removals by key.
    pub removals: bool,
    /// Scans that remove.
    pub retained: bool,
}

#[derive(Debug, Default)]
struct DirtyState {
    /// Operations since the last blocking call ended.
    lately: DirtyFlags,
    /// Whether there were any since the last scan for nodes to reclaim.
    since_look: bool,
    /// Number of elements of removals since the merged nodes were last counted.
    removed: usize,
    /// Number of them below which a count is useless.
    allowance: usize,
}

/// [`DirtyFlags`] that any thread may set.
#[derive(Debug, Default)]
pub struct SharedDirtyFlags(Mutex<DirtyState>);

impl SharedDirtyFlags {
    // Only flags are behind the lock: they are valid even after a panic.
    fn noted(&self) -> MutexGuard<'_, DirtyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a batch of `len` elements was submitted that may remove.
    pub fn removals(&self, len: usize) {
        let mut noted = self.noted();
        (noted.lately.removals, noted.since_look) = (true, true);
        noted.removed = noted.removed.saturating_add(len);
    }

    /// Returns the number of elements of removals since the last count of merged nodes if a count is due: a
    /// removal merges one node at most.
    pub fn count_is_due(&self) -> Option<usize> {
        let noted = self.noted();
        (noted.removed >= noted.allowance).then_some(noted.removed)
    }

    /// Records that merged nodes were counted, after `removed` elements. The next count is due after
    /// `allowance` more.
    pub fn counted(&self, removed: usize, allowance: usize) {
        let mut noted = self.noted();
        // Another thread may have counted meanwhile.
        noted.removed = noted.removed.saturating_sub(removed);
        noted.allowance = allowance;
    }

    /// Records that a scan that removes was submitted.
    pub fn retained(&self) {
        let mut noted = self.noted();
        (noted.lately.retained, noted.since_look) = (true, true);
    }

    /// Returns the operations since the last call of this function, and clears them.
    pub fn take(&self) -> DirtyFlags {
        std::mem::take(&mut self.noted().lately)
    }

    /// Sets flags again that were taken but could not be acted on. Then a count is due.
    pub fn put_back(&self, asked: DirtyFlags) {
        let mut noted = self.noted();
        noted.lately.removals |= asked.removals;
        noted.lately.retained |= asked.retained;
        noted.allowance = 0;
    }

    /// Returns whether there were any operations since [`Self::looked`].
    pub fn is_due(&self) -> bool {
        self.noted().since_look
    }

    /// Records that a scan for nodes to reclaim begins, after all earlier operations have ended.
    pub fn looked(&self) {
        self.noted().since_look = false;
    }

    /// Records that the scan failed.
    pub fn not_looked(&self) {
        self.noted().since_look = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_looked_at_once_for_what_was_asked() {
        let dirty = SharedDirtyFlags::default();
        assert!(!dirty.is_due());
        dirty.removals(10);
        assert_eq!(dirty.take(), DirtyFlags { removals: true, retained: false });
        assert!(dirty.is_due() && dirty.take() == DirtyFlags::default());
        dirty.looked();
        assert!(!dirty.is_due());
        dirty.retained();
        assert!(dirty.is_due() && dirty.take().retained);
    }

    #[test]
    fn counts_are_due_after_as_many_removals_as_may_merge_many_nodes() {
        let dirty = SharedDirtyFlags::default();
        dirty.removals(10);
        assert_eq!(dirty.count_is_due(), Some(10), "nothing was counted");
        dirty.removals(5);
        dirty.counted(10, 64);
        assert_eq!(dirty.count_is_due(), None);
        dirty.removals(58);
        assert_eq!(dirty.count_is_due(), None, "63 elements");
        dirty.removals(1);
        assert_eq!(dirty.count_is_due(), Some(64));
    }

    #[test]
    fn what_could_not_be_done_is_due_again() {
        let dirty = SharedDirtyFlags::default();
        dirty.removals(10);
        let asked = dirty.take();
        dirty.looked();
        dirty.retained();
        dirty.not_looked();
        dirty.put_back(asked);
        assert!(dirty.is_due() && dirty.count_is_due().is_some());
        assert_eq!(dirty.take(), DirtyFlags { removals: true, retained: true });
    }
}
