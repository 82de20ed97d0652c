//! The paper's three groups of batches, and the order of streams that keeps them apart.
use super::queue::{Mutex, MutexGuard, Queue, drop_ended};
use crate::Result;
use gpu::Event;
use std::sync::PoisonError;

/// A group of batches (HierarchicalKV, section 3.5). Readers run concurrently with readers, updaters with
/// updaters, and an inserter alone. Lookups and movers are groups of ours: see [`Lock::Concurrent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Readers that search keys and copy rows.
    Lookups,
    /// Other batches that only read.
    Readers,
    /// Batches that change rows and scores of keys that are present.
    Updaters,
    /// Batches that place, evict or remove keys.
    Inserters,
    /// Batches that move keys to other slots of their buckets.
    Movers,
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
    /// Readers run concurrently with readers, updaters with updaters, and an inserter alone.
    #[default]
    Groups,
    /// As `Groups`, but `get`, `get_missed` and `contains_key` run concurrently with all batches except
    /// [`promote`](super::CacheTable::promote). They return a row that the key had at one moment while they
    /// ran. They do not wait for batches that other streams or host threads have submitted before, and those
    /// do not wait for them: only a stream orders its own batches. Costs 4 bytes per slot, and with
    /// [`Victims::Summary`](super::Victims::Summary) up to 12 more, since key, score and version then share a
    /// record of 16 or 32 bytes.
    ///
    /// ```
    /// use phalanx::CacheTable;
    /// use phalanx::cache_table::Lock;
    ///
    /// let table = CacheTable::<u64, u32>::builder().dim(2).lock(Lock::Concurrent).build()?;
    /// assert!(table.insert(&[1], &[10, 10])?.all_placed());
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| table.insert(&[1], &[11, 11]));
    ///     let row = table.get(&[1]).unwrap().of(0).unwrap().to_vec();
    ///     assert!(row == [10, 10] || row == [11, 11]);
    /// });
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    Concurrent,
    /// Readers run concurrently; every other batch runs alone, as under a reader-writer lock. A baseline for
    /// measurements: it is never faster than `Groups`.
    Plain,
}

impl Lock {
    /// Returns whether batches run concurrently with lookups.
    pub(super) fn is_concurrent(self) -> bool {
        self == Self::Concurrent
    }

    /// Returns the group to which the batches of a group belong under this lock.
    fn class(self, group: Group) -> Group {
        match group {
            Group::Lookups if !self.is_concurrent() => Group::Readers,
            Group::Movers if !self.is_concurrent() => Group::Inserters,
            group => group,
        }
    }

    /// Returns whether two batches of the group may run at the same time.
    fn is_shared(self, group: Group) -> bool {
        group == Group::Readers || group == Group::Updaters && self != Self::Plain
    }
}

/// Orders the batches of a table: consecutive batches of a shared group form a phase, and so does each
/// inserter. Streams wait for the phase before; the host never waits. Concurrent lookups belong to no phase:
/// they wait for the last mover, and movers wait for them.
///
/// The order is that of the submissions: a batch waits only for batches that were submitted before it, so no
/// later batch delays it. Host threads that submit at the same time contend for the mutex, which is not fair;
/// each holds it while it submits one batch.
#[derive(Debug)]
pub struct Groups<E = Event> {
    lock: Lock,
    phases: Mutex<Phases<E>>,
}

#[derive(Debug)]
struct Phases<E> {
    /// Group of the current phase; none before the first batch.
    group: Option<Group>,
    /// Ends of the batches of the current phase.
    current: Vec<E>,
    /// Ends of the batches of the phase before, for which each batch of the current one waits.
    before: Vec<E>,
    /// Ends of the concurrent lookups since the last mover.
    lookups: Vec<E>,
    /// End of the last mover.
    moved: Vec<E>,
}

impl<E> Groups<E> {
    /// Creates the order of a table without batches.
    pub fn new(lock: Lock) -> Self {
        Self { lock, phases: Mutex::new(Phases::new()) }
    }

    /// Returns the rule for batches that may run at the same time.
    pub fn lock(&self) -> Lock {
        self.lock
    }

    /// Submits a batch to a stream by `submit`, ordered behind the batches that it may not run beside.
    pub fn submit<T, Q: Queue<Event = E>>(
        &self,
        group: Group,
        stream: &Q,
        submit: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let entered = self.enter(group, stream)?;
        let result = submit();
        // Also after an error: a part of the batch may have been submitted.
        entered.leave(stream)?;
        result
    }

    /// Begins a batch: what is submitted to the stream from now on is ordered behind the batches that it may
    /// not run beside. Other batches of the table wait, on the host, until the caller leaves.
    pub fn enter<Q: Queue<Event = E>>(&self, group: Group, stream: &Q) -> Result<Entered<'_, E>> {
        let mut phases = self.phases.lock().unwrap_or_else(PoisonError::into_inner);
        let group = self.lock.class(group);
        for event in phases.enter::<Q>(self.lock, group)? {
            stream.wait(event)?;
        }
        Ok(Entered { phases, group })
    }
}

/// A batch that has entered its group, and is being submitted.
#[must_use = "later batches wait only for a batch that has left"]
pub struct Entered<'a, E> {
    phases: MutexGuard<'a, Phases<E>>,
    group: Group,
}

impl<E> Entered<'_, E> {
    /// Ends the batch: that is all work in the stream.
    pub fn leave<Q: Queue<Event = E>>(mut self, stream: &Q) -> Result<()> {
        self.phases.leave(self.group, stream)
    }
}

impl<E> Phases<E> {
    fn new() -> Self {
        let [current, before, lookups, moved] = [const { Vec::new() }; 4];
        Self { group: None, current, before, lookups, moved }
    }

    /// Begins a phase unless the batch belongs to the current one, or to none. Returns the events for which
    /// it waits.
    fn enter<Q: Queue<Event = E>>(
        &mut self,
        lock: Lock,
        group: Group,
    ) -> Result<impl Iterator<Item = &E> + use<'_, E, Q>> {
        if group != Group::Lookups && (self.group != Some(group) || !lock.is_shared(group)) {
            self.group = Some(group);
            if !self.current.is_empty() {
                self.before = std::mem::take(&mut self.current);
            }
        }
        drop_ended::<Q, E>(&mut self.current)?;
        drop_ended::<Q, E>(&mut self.lookups)?;
        let (phase, lookups): (&[E], &[E]) = match group {
            Group::Lookups => (&self.moved, &[]),
            Group::Movers => (&self.before, &self.lookups),
            _ => (&self.before, &[]),
        };
        Ok(phase.iter().chain(lookups))
    }

    /// Notes the end of a batch that has entered: that of all work in the stream.
    fn leave<Q: Queue<Event = E>>(&mut self, group: Group, stream: &Q) -> Result<()> {
        match group {
            Group::Lookups => self.lookups.push(stream.record()?),
            Group::Movers => {
                let (moved, current) = (stream.record()?, stream.record()?);
                self.lookups.clear();
                (self.moved, self.current) = (vec![moved], vec![current]);
            }
            _ => self.current.push(stream.record()?),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache_table::queue::MANY_EVENTS;
    use gpu::{Device, Stream};
    use simt::emulator::Options;

    /// Enters the groups one after the other. Returns for each the number of batches that it waits for.
    fn waits(lock: Lock, groups: &[Group]) -> Vec<usize> {
        let device = Device::emulator(Options::default());
        let (stream, mut phases) = (device.stream().unwrap(), Phases::new());
        let enter = |&group| {
            let group = lock.class(group);
            let waits = phases.enter::<Stream>(lock, group).unwrap().count();
            phases.leave(group, &stream).unwrap();
            waits
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
    fn without_concurrent_lookups_these_are_readers_and_movers_are_inserters() {
        use Group::*;
        for lock in [Lock::Groups, Lock::Plain] {
            assert_eq!(waits(lock, &[Lookups, Readers, Inserters, Lookups, Lookups]), [0, 0, 2, 1, 1]);
            assert_eq!(waits(lock, &[Lookups, Movers, Inserters, Lookups]), [0, 1, 1, 1]);
        }
    }

    #[test]
    fn concurrent_lookups_wait_only_for_movers_and_only_movers_for_them() {
        use Group::*;
        let lock = Lock::Concurrent;
        assert_eq!(waits(lock, &[Inserters, Lookups, Lookups, Inserters, Readers]), [0, 0, 0, 1, 1]);
        assert_eq!(waits(lock, &[Updaters, Lookups, Updaters, Inserters]), [0, 0, 0, 2]);
        // The inserter and the lookup; then the mover only.
        assert_eq!(waits(lock, &[Inserters, Lookups, Movers, Lookups]), [0, 0, 2, 1]);
        assert_eq!(waits(lock, &[Movers, Lookups, Inserters, Movers, Movers]), [0, 1, 1, 2, 1]);
    }

    #[test]
    fn a_long_phase_keeps_no_events_of_batches_that_have_ended() {
        let device = Device::emulator(Options::default());
        let (lock, stream, mut phases) = (Lock::Concurrent, device.stream().unwrap(), Phases::new());
        for group in [Group::Readers, Group::Lookups].repeat(10 * MANY_EVENTS) {
            let _ = phases.enter::<Stream>(lock, group).unwrap();
            phases.leave(group, &stream).unwrap();
        }
        assert!(phases.current.len() <= MANY_EVENTS && phases.lookups.len() <= MANY_EVENTS);
    }
}
