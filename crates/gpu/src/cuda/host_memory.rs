//! Large pinned allocations: anonymous memory whose pages several threads touch before the driver pins them.
//!
//! `cuMemHostAlloc` lets one thread allocate, clear and pin all pages: on a machine with an H200, 0.4 s per
//! GiB. Pages of 2 MiB that 16 threads touch, and then `cuMemHostRegister`, take 0.04 s per GiB.
use memmap2::{Advice, MmapMut};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes from which an allocation is large.
const LARGE: usize = 64 << 20;

/// Distance of the bytes that are touched: the smallest size of a page.
const PAGE: usize = 4096;

/// Maximum number of threads that touch pages.
const MOST_THREADS: usize = 16;

/// Mappings of large pinned allocations by their addresses.
#[derive(Debug, Default)]
pub struct HostMemory(Mutex<BTreeMap<usize, MmapMut>>);

impl HostMemory {
    /// Maps `bytes` bytes of zeros, all of them in memory. Returns `None` if the allocation is not large, or
    /// might exceed the memory that the system has available: the driver then fails without harm.
    pub fn map(bytes: usize) -> Option<MmapMut> {
        let (available, _) = crate::host_memory()?;
        if bytes < LARGE || bytes > available {
            return None;
        }
        let mut map = MmapMut::map_anon(bytes).ok()?;
        // Only faster: the system may have no large pages.
        let _ = map.advise(Advice::HugePage);
        touch(&mut map);
        Some(map)
    }

    /// Keeps a mapping until it is [taken](Self::take).
    pub fn keep(&self, map: MmapMut) {
        self.maps().insert(map.as_ptr().addr(), map);
    }

    /// Returns the mapping that begins at an address, if there is one.
    pub fn take(&self, host: *mut u8) -> Option<MmapMut> {
        self.maps().remove(&host.addr())
    }

    // Each change is complete, also if a thread panics.
    fn maps(&self) -> MutexGuard<'_, BTreeMap<usize, MmapMut>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a zero to each page, by several threads.
fn touch(map: &mut [u8]) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let part = map.len().div_ceil(threads).next_multiple_of(PAGE);
    std::thread::scope(|scope| {
        for part in map.chunks_mut(part) {
            // A volatile store: the compiler may know that the bytes are zero.
            scope.spawn(|| {
                part.iter_mut().step_by(PAGE).for_each(|byte| {
                    // SAFETY: a place in the mapping that only this thread accesses.
                    unsafe { std::ptr::write_volatile(byte, 0) };
                });
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_allocations_are_zeros_and_kept_until_they_are_taken() {
        let memory = HostMemory::default();
        assert!(HostMemory::map(LARGE - 1).is_none() && HostMemory::map(usize::MAX).is_none());
        let mut map = HostMemory::map(LARGE + 1).expect("64 MiB");
        assert!(map.iter().all(|byte| *byte == 0));
        let host = map.as_mut_ptr();
        memory.keep(map);
        assert_eq!(memory.take(host).map(|map| map.len()), Some(LARGE + 1));
        assert!(memory.take(host).is_none());
    }
}
