//! Operations of streams and the lock that the order of batches uses. Unit tests replace both, to explore the
//! schedules of host threads and of devices (`schedules.rs`).
use crate::Result;
use crate::map::launch::THREADS;
use gpu::{Event, Grid, Stream};
use phalanx_kernels::cache::kernels::CacheMarkLeases;
use simt::GlobalSlice;
use std::borrow::Borrow;

#[cfg(test)]
pub use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(test))]
pub use std::sync::{Mutex, MutexGuard};

/// A queue of work that a device executes in order: a stream, or a model of one.
pub trait Queue {
    /// A point in the order of the queue, which completes when all work submitted before it has.
    type Event;

    /// Records an event at the current end of the queue.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device is lost.
    fn record(&self) -> Result<Self::Event>;

    /// Makes all work submitted to the queue from now on wait for an event of any queue.
    ///
    /// # Errors
    /// As [`Self::record`].
    fn wait(&self, event: &Self::Event) -> Result<()>;

    /// Returns whether an event has completed. Does not wait.
    ///
    /// # Errors
    /// As [`Self::record`].
    fn is_complete(event: &Self::Event) -> Result<bool>;

    /// Submits an operation that clears the bits of all slots.
    ///
    /// # Safety
    /// - The words live until the queue has executed it.
    ///
    /// # Errors
    /// As [`Self::record`].
    unsafe fn clear_bits(&self, bits: GlobalSlice<u32>) -> Result<()>;

    /// Submits a kernel that sets the bits of the slots of a lease: see [`CacheMarkLeases`].
    ///
    /// # Safety
    /// - As for [`Self::clear_bits`].
    ///
    /// # Errors
    /// As [`Self::record`].
    unsafe fn mark(&self, positions: GlobalSlice<u32>, bits: GlobalSlice<u32>) -> Result<()>;
}

/// Number of events above which those that have completed are dropped. Low in unit tests, so that short
/// schedules exceed it.
pub const MANY_EVENTS: usize = if cfg!(test) { 2 } else { 64 };

/// Drops the events that have completed, if there are many. Keeps those of which the queue cannot say it.
///
/// # Errors
/// [`Error::Device`](crate::Error::Device) if the device is lost.
pub fn drop_ended<Q: Queue, E: Borrow<Q::Event>>(events: &mut Vec<E>) -> Result<()> {
    let mut result = Ok(());
    if events.len() >= MANY_EVENTS {
        events.retain(|event| match Q::is_complete(event.borrow()) {
            Ok(is_complete) => !is_complete,
            Err(error) => {
                result = Err(error);
                true
            }
        });
    }
    result
}

impl Queue for Stream {
    type Event = Event;

    fn record(&self) -> Result<Event> {
        Ok(Stream::record(self)?)
    }

    fn wait(&self, event: &Event) -> Result<()> {
        Ok(Stream::wait(self, event)?)
    }

    fn is_complete(event: &Event) -> Result<bool> {
        Ok(event.is_complete()?)
    }

    unsafe fn clear_bits(&self, bits: GlobalSlice<u32>) -> Result<()> {
        // SAFETY: the caller's obligation.
        unsafe { Ok(self.fill(bits, 0)?) }
    }

    unsafe fn mark(&self, positions: GlobalSlice<u32>, leased: GlobalSlice<u32>) -> Result<()> {
        let grid = Grid::for_items(positions.len(), THREADS);
        // SAFETY: the caller's obligation.
        unsafe { Ok(self.launch(grid, CacheMarkLeases { positions, leased })?) }
    }
}
