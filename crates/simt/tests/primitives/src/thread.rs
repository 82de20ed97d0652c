//! Ids, clocks, the end of the road.
use simt::{GlobalSlice, Thread, kernel};

/// Who the thread is.
#[kernel]
pub fn thread_ids(out: GlobalSlice<u32>) {
    out.write(0, Thread::index_in_block());
    out.write(1, Thread::block_index());
    out.write(2, Thread::block_size());
    out.write(3, Thread::grid_size());
    out.write(4, Thread::lane());
}

/// Two reads of each clock, which must not become one.
#[kernel]
pub fn clocks(out: GlobalSlice<u64>) {
    out.write(0, simt::clock());
    out.write(1, simt::clock());
    out.write(2, simt::timer());
    out.write(3, simt::timer());
}

/// Waiting.
#[kernel]
pub fn spin_hint() {
    simt::spin_hint();
}

/// Waiting for longer.
#[kernel]
pub fn pause() {
    simt::pause(600);
}

/// A value that the compiler does not see through: the sum is not folded.
#[kernel]
pub fn opaque(out: GlobalSlice<u32>) {
    out.write(0, simt::opaque(3u32) + 4);
}

/// A misuse that is told on the emulator alone.
#[kernel]
pub fn fault(out: GlobalSlice<u32>) {
    simt::fault("told");
    out.write(0, 1);
}

/// The driver's allocator.
#[kernel]
pub fn heap(out: GlobalSlice<u64>, bytes: usize) {
    let pointer = simt::heap_allocate(bytes);
    out.write(0, pointer as u64);
    // SAFETY: the test only looks at the code; nobody runs it.
    unsafe { simt::heap_free(pointer) };
}

/// Ends the launch.
#[kernel]
pub fn trap() {
    simt::trap();
}

/// A panic ends it too.
#[kernel]
pub fn panic(index: usize) {
    assert!(index < 4);
}
