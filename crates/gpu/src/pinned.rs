//! Addresses of pinned buffers.
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Addresses of the pinned buffers of a device: first byte and size.
#[derive(Debug, Default)]
pub struct PinnedRanges(Mutex<BTreeMap<usize, usize>>);

impl PinnedRanges {
    // Each insertion and removal is complete, also if a thread panics.
    fn ranges(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a buffer.
    pub fn add(&self, host: *mut u8, bytes: usize) {
        self.ranges().insert(host.addr(), bytes);
    }

    /// Removes a buffer.
    pub fn remove(&self, host: *mut u8) {
        self.ranges().remove(&host.addr());
    }

    /// Returns whether the bytes lie in one pinned buffer of the device.
    pub fn contain(&self, address: usize, bytes: usize) -> bool {
        let ranges = self.ranges();
        let below = ranges.range(..=address).next_back();
        below.is_some_and(|(start, size)| address - start + bytes <= *size)
    }
}
