//! What a list was asked for that may leave nodes to be given back.
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Removals by their keys.
    pub removals: bool,
    /// Scans that remove.
    pub retained: bool,
}

#[derive(Debug, Default)]
struct Noted {
    /// Since the last blocking call ended.
    lately: Asked,
    /// Anything since all nodes were looked at.
    since_look: bool,
}

/// Notes of it, which any thread takes.
#[derive(Debug, Default)]
pub struct Notes(Mutex<Noted>);

impl Notes {
    // Bits alone are behind the lock: what a panic leaves is as good as any.
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removals are asked for.
    pub fn removals(&self) {
        let mut noted = self.noted();
        (noted.lately.removals, noted.since_look) = (true, true);
    }

    /// A scan that removes is asked for.
    pub fn retained(&self) {
        let mut noted = self.noted();
        (noted.lately.retained, noted.since_look) = (true, true);
    }

    /// What was asked for since this was called last.
    pub fn take(&self) -> Asked {
        std::mem::take(&mut self.noted().lately)
    }

    /// What was taken is due again: nobody could act on it.
    pub fn put_back(&self, asked: Asked) {
        let lately = &mut self.noted().lately;
        lately.removals |= asked.removals;
        lately.retained |= asked.retained;
    }

    /// Whether anything was asked for since [`Self::looked`].
    pub fn is_due(&self) -> bool {
        self.noted().since_look
    }

    /// From here on somebody looks at all nodes, once what was asked for before has ended.
    pub fn looked(&self) {
        self.noted().since_look = false;
    }

    /// Nobody has looked at all nodes after all.
    pub fn not_looked(&self) {
        self.noted().since_look = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_looked_at_once_for_what_was_asked() {
        let notes = Notes::default();
        assert!(!notes.is_due());
        notes.removals();
        assert_eq!(notes.take(), Asked { removals: true, retained: false });
        assert!(notes.is_due() && notes.take() == Asked::default());
        notes.looked();
        assert!(!notes.is_due());
        notes.retained();
        assert!(notes.is_due() && notes.take().retained);
    }

    #[test]
    fn what_could_not_be_done_is_due_again() {
        let notes = Notes::default();
        notes.removals();
        let asked = notes.take();
        notes.looked();
        notes.retained();
        notes.not_looked();
        notes.put_back(asked);
        assert!(notes.is_due());
        assert_eq!(notes.take(), Asked { removals: true, retained: true });
    }
}
