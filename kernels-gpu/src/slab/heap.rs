//! The driver's own allocator, for comparison: what a kernel without a pool would call.
//!
//! # Cost
//!
//! An allocation or a free is one call of the driver's allocator per element, which takes locks in device
//! memory, and an access of 8 bytes to the address.
use simt::{GlobalSlice, Thread, heap_allocate, heap_free, kernel};

/// Allocates `bytes` bytes for each element and writes the address, or 0 if the heap is exhausted. One thread
/// per element.
#[kernel]
pub fn heap_give(bytes: usize, addresses: GlobalSlice<u64>) {
    let index = Thread::index();
    if index < addresses.len() {
        addresses.write(index, heap_allocate(bytes) as u64);
    }
}

/// Addresses of pieces of the heap.
///
/// ```
/// use phalanx_kernels::slab::heap::{HeapTake, Pieces};
/// use simt::GlobalSlice;
///
/// /// Returns the kernel that frees the pieces.
/// ///
/// /// # Safety
/// /// - As for `Pieces::new`.
/// unsafe fn free_all(addresses: GlobalSlice<u64>) -> HeapTake {
///     // SAFETY: the caller's obligation.
///     HeapTake { pieces: unsafe { Pieces::new(addresses) } }
/// }
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Pieces(GlobalSlice<u64>);

impl Pieces {
    /// Returns the pieces at `addresses`.
    ///
    /// # Safety
    /// - Each element is 0, or an address that [`heap_give()`] returned, occurs once, and has not been freed
    ///   before.
    /// - Nothing uses the pieces any more when a kernel frees them.
    pub unsafe fn new(addresses: GlobalSlice<u64>) -> Self {
        Self(addresses)
    }
}

/// Frees the pieces that [`heap_give()`] allocated.
#[kernel]
pub fn heap_take(pieces: Pieces) {
    let index = Thread::index();
    if index < pieces.0.len() {
        let address = pieces.0.read(index) as usize;
        // SAFETY: the obligation of `Pieces::new`.
        unsafe { heap_free(core::ptr::with_exposed_provenance_mut(address)) };
    }
}
