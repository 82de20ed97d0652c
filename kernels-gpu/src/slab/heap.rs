//! The driver's own allocator, for comparison: what a kernel without a pool would call.
use simt::{GlobalSlice, Thread, heap_allocate, heap_free, kernel};

/// Allocates `bytes` bytes for each element and writes the address: 0 where the heap has no more. A thread an
/// element.
#[kernel]
pub fn heap_give(bytes: usize, addresses: GlobalSlice<u64>) {
    let index = Thread::index();
    if index < addresses.len() {
        addresses.write(index, heap_allocate(bytes) as u64);
    }
}

/// Addresses of pieces of the heap.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Pieces(GlobalSlice<u64>);

impl Pieces {
    /// The pieces at `addresses`.
    ///
    /// # Safety
    /// - Each element is 0, or came from [`heap_give()`], stands there once, and was not freed before.
    /// - Nothing uses the pieces any more when one kernel frees them.
    pub unsafe fn new(addresses: GlobalSlice<u64>) -> Self {
        Self(addresses)
    }
}

/// Frees what [`heap_give()`] gave.
#[kernel]
pub fn heap_take(pieces: Pieces) {
    let index = Thread::index();
    if index < pieces.0.len() {
        let address = pieces.0.read(index) as usize;
        // SAFETY: the promise of `Pieces::new`.
        unsafe { heap_free(core::ptr::with_exposed_provenance_mut(address)) };
    }
}
