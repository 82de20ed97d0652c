//! The paper's three groups of batches, and the order of streams that keeps them apart.
use super::queue::{Mutex, Queue};
use crate::Result;
use gpu::Event;
use std::sync::PoisonError;

/// A group of batches (HierarchicalKV, section 3.5). Readers run beside readers, updaters beside updaters,
/// and an inserter alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Batches that only read.
    Readers,
    /// Batches that change rows and scores of keys that are present.
    Updaters,
    /// Batches that place, evict or remove keys.
    Inserters,
}

/// A rule for the batches of a table that may run at the same time, set by
/// [`Builder::lock`](super::Builder::lock).
///
/// ```
/// use phalanx::CacheTable;
/// use phalanx::cache_table::Lock;
///
/// let builder = CacheTable::<u64, u32>::builder().capacity(100);
/// let table = builder.lock(Lock::Plain).build()?;
/// assert!(table.insert(&[1], &[10])?.all_placed());
/// assert_eq!(table.get(&[1])?.found(), 1);
/// # Ok::<(), phalanx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lock {
    /// Readers run beside readers, updaters beside updaters, and an inserter alone.
    #[default]
    Groups,
    /// Readers run beside readers; every other batch runs alone, as under a reader-writer lock. Only for
    /// comparisons: it is never faster.
    Plain,
}

impl Lock {
    /// Returns whether two batches of the group may run at the same time.
    fn is_shared(self, group: Group) -> bool {
        match self {
            Self::Groups => group != Group::Inserters,
            Self::Plain => group == Group::Readers,
        }
    }
}

/// Orders the batches of a table: consecutive batches of a shared group form a phase, and so does each
/// inserter. Streams wait for the phase before; the host never waits.
///
/// The order is that of the submissions: a batch waits only for batches that were submitted before it, so no
/// later batch delays it. Host threads that submit at the same time contend for the lock, which is not fair;
/// each holds it while it submits one batch.
#[derive(Debug)]
pub struct Groups<E = Event>(Mutex<Phases<E>>);

#[derive(Debug)]
struct Phases<E> {
    lock: Lock,
    /// Group of the current phase; none before the first batch.
    group: Option<Group>,
    /// Ends of the batches of the current phase.
    current: Vec<E>,
    /// Ends of the batches of the phase before, for which each batch of the current one waits.
    before: Vec<E>,
}

/// Number of events above which those of batches that have ended are dropped. Low in unit tests, so that
/// short schedules exceed it.
const MANY_EVENTS: usize = if cfg!(test) { 2 } else { 64 };

impl<E> Groups<E> {
    /// Creates the order of a table without batches.
    pub fn new(lock: Lock) -> Self {
        Self(Mutex::new(Phases::new(lock)))
    }

    /// Submits a batch to a stream by `submit`, ordered behind the batches that it may not run beside.
    pub fn submit<T, Q: Queue<Event = E>>(
        &self,
        group: Group,
        stream: &Q,
        submit: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let mut phases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        phases.enter::<Q>(group)?;
        for event in &phases.before {
            stream.wait(event)?;
        }
        let result = submit();
        // Also after an error: a part of the batch may have been submitted.
        phases.current.push(stream.record()?);
        result
    }
}

impl<E> Phases<E> {
    fn new(lock: Lock) -> Self {
        Self { lock, group: None, current: Vec::new(), before: Vec::new() }
    }

    /// Begins a phase unless the current one may have one more batch of the group.
    fn enter<Q: Queue<Event = E>>(&mut self, group: Group) -> Result<()> {
        if self.group != Some(group) || !self.lock.is_shared(group) {
            self.group = Some(group);
            if !self.current.is_empty() {
                self.before = std::mem::take(&mut self.current);
            }
        }
        if self.current.len() >= MANY_EVENTS {
            let mut error = None;
            self.current.retain(|event| {
                !Q::is_complete(event).unwrap_or_else(|found| {
                    error = Some(found);
                    false
                })
            });
            error.map_or(Ok(()), Err)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::{Device, Stream};
    use simt::emulator::Options;

    /// Enters the groups one after the other. Returns for each the number of batches that it waits for.
    fn waits(lock: Lock, groups: &[Group]) -> Vec<usize> {
        let device = Device::emulator(Options::default());
        let (stream, mut phases) = (device.stream().unwrap(), Phases::new(lock));
        let enter = |&group| {
            phases.enter::<Stream>(group).unwrap();
            phases.current.push(stream.record().unwrap());
            phases.before.len()
        };
        groups.iter().map(enter).collect()
    }

    #[test]
    fn batches_of_a_shared_group_wait_only_for_the_phase_before() {
        use Group::*;
        assert_eq!(waits(Lock::Groups, &[Readers, Readers, Readers]), [0, 0, 0]);
        assert_eq!(waits(Lock::Groups, &[Readers, Readers, Updaters, Updaters, Readers]), [0, 0, 2, 2, 2]);
        assert_eq!(waits(Lock::Groups, &[Readers, Readers, Inserters, Inserters, Readers]), [0, 0, 2, 1, 1]);
    }

    #[test]
    fn under_a_plain_lock_only_readers_run_beside_each_other() {
        use Group::*;
        assert_eq!(waits(Lock::Plain, &[Readers, Readers, Readers]), [0, 0, 0]);
        assert_eq!(waits(Lock::Plain, &[Readers, Readers, Updaters, Updaters, Readers]), [0, 0, 2, 1, 1]);
        assert_eq!(waits(Lock::Plain, &[Inserters, Updaters, Inserters]), [0, 1, 1]);
    }

    #[test]
    fn a_long_phase_keeps_no_events_of_batches_that_have_ended() {
        let device = Device::emulator(Options::default());
        let (stream, mut phases) = (device.stream().unwrap(), Phases::new(Lock::Groups));
        for _ in 0..10 * MANY_EVENTS {
            phases.enter::<Stream>(Group::Readers).unwrap();
            phases.current.push(stream.record().unwrap());
        }
        assert!(phases.current.len() <= MANY_EVENTS);
    }
}
