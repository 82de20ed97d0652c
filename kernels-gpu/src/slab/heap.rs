//! The driver's own allocator, for comparison: what a kernel without a pool would call.
use simt::{GlobalSlice, Thread, heap_allocate, heap_free, kernel};

/// Allocates `bytes` bytes for each element and writes the address: 0 where the heap has no more. A thread an element.
#[kernel]
pub fn heap_give(bytes: usize, addresses: GlobalSlice<u64>) {
    let index = Thread::index();
    if index < addresses.len() {
        addresses.write(index, heap_allocate(bytes) as u64);
    }
}

/// Frees what [`heap_give()`] gave.
#[kernel]
pub fn heap_take(addresses: GlobalSlice<u64>) {
    let index = Thread::index();
    if index < addresses.len() {
        let address = addresses.read(index) as usize;
        // SAFETY: each address came from `heap_give` and stands once among the elements, by its caller's promise.
        unsafe { heap_free(core::ptr::with_exposed_provenance_mut(address)) };
    }
}
