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
}

/// [`DirtyFlags`] that any thread may set.
#[derive(Debug, Default)]
pub struct SharedDirtyFlags(Mutex<DirtyState>);

impl SharedDirtyFlags {
    // Only flags are behind the lock: they are valid even after a panic.
    fn noted(&self) -> MutexGuard<'_, DirtyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that removals were submitted.
    pub fn removals(&self) {
        let mut noted = self.noted();
        (noted.lately.removals, noted.since_look) = (true, true);
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

    /// Sets flags again that were taken but could not be acted on.
    pub fn put_back(&self, asked: DirtyFlags) {
        let lately = &mut self.noted().lately;
        lately.removals |= asked.removals;
        lately.retained |= asked.retained;
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
        dirty.removals();
        assert_eq!(dirty.take(), DirtyFlags { removals: true, retained: false });
        assert!(dirty.is_due() && dirty.take() == DirtyFlags::default());
        dirty.looked();
        assert!(!dirty.is_due());
        dirty.retained();
        assert!(dirty.is_due() && dirty.take().retained);
    }

    #[test]
    fn what_could_not_be_done_is_due_again() {
        let dirty = SharedDirtyFlags::default();
        dirty.removals();
        let asked = dirty.take();
        dirty.looked();
        dirty.retained();
        dirty.not_looked();
        dirty.put_back(asked);
        assert!(dirty.is_due());
        assert_eq!(dirty.take(), DirtyFlags { removals: true, retained: true });
    }
}
