//! The budget of device memory: every allocation on the device is entered here.
use crate::primitives::Workspace;
use crate::{Error, Result};
use bytemuck::Pod;
use gpu::{Buffer, Device, Stream};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A budget in bytes of device memory, and what is used of it.
#[derive(Debug)]
pub struct Ledger {
    budget: usize,
    bytes: Mutex<Bytes>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bytes {
    used: usize,
    peak: usize,
}

/// Device memory that a ledger counts as long as it lives.
#[derive(Debug)]
pub struct Metered<T> {
    value: T,
    _entry: Entry,
}

/// Bytes that are given back when the value is dropped.
#[derive(Debug)]
struct Entry {
    bytes: usize,
    ledger: Arc<Ledger>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.ledger.entries().used -= self.bytes;
    }
}

impl<T> Deref for Metered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Metered<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl Ledger {
    /// Returns a ledger with nothing used.
    pub fn new(budget: usize) -> Arc<Self> {
        Arc::new(Self { budget, bytes: Mutex::default() })
    }

    // Each change is complete, also if a thread panics.
    fn entries(&self) -> MutexGuard<'_, Bytes> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the budget in bytes.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// Returns the bytes that are left.
    pub fn free(&self) -> usize {
        self.budget - self.used()
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> usize {
        self.entries().used
    }

    /// Returns the most bytes that were in use at one time.
    pub fn peak(&self) -> usize {
        self.entries().peak
    }

    /// Enters bytes before they are allocated.
    fn enter(self: &Arc<Self>, bytes: usize) -> Result<Entry> {
        let mut all = self.entries();
        let needed = all.used.saturating_add(bytes);
        if needed > self.budget {
            return Err(Error::DeviceBudget { asked: self.budget, needed });
        }
        all.used = needed;
        all.peak = all.peak.max(needed);
        drop(all);
        Ok(Entry { bytes, ledger: self.clone() })
    }

    fn hold<T>(self: &Arc<Self>, bytes: usize, allocate: impl FnOnce() -> Result<T>) -> Result<Metered<T>> {
        let entry = self.enter(bytes)?;
        Ok(Metered { value: allocate()?, _entry: entry })
    }

    /// Allocates elements on the device.
    pub fn buffer<T: Pod>(self: &Arc<Self>, device: &Device, len: usize) -> Result<Metered<Buffer<T>>> {
        self.hold(len.saturating_mul(size_of::<T>()), || Ok(device.buffer(len)?))
    }

    /// Creates a workspace of primitives.
    pub fn workspace(self: &Arc<Self>, stream: &Stream, bytes: usize) -> Result<Metered<Workspace>> {
        self.hold(bytes.next_multiple_of(16), || Workspace::new(stream, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_hard_and_the_peak_stays() {
        let (device, ledger) = (Device::emulator(Default::default()), Ledger::new(100));
        let first = ledger.buffer::<u32>(&device, 20).unwrap();
        assert!(matches!(
            ledger.buffer::<u64>(&device, 3),
            Err(Error::DeviceBudget { asked: 100, needed: 104 })
        ));
        drop(first);
        let second = ledger.buffer::<u64>(&device, 3).unwrap();
        assert_eq!((ledger.used(), ledger.peak(), second.len()), (24, 80, 3));
    }

    #[test]
    fn memory_that_is_not_there_is_not_counted() {
        let (device, ledger) = (Device::emulator(Default::default()), Ledger::new(usize::MAX));
        assert!(ledger.buffer::<u8>(&device, isize::MAX as usize).is_err());
        assert_eq!(ledger.used(), 0);
    }
}
