//! Ids, clocks, waiting, and ending the launch.
use simt::{GlobalSlice, Thread, kernel};

/// Reads the thread's ids.
#[kernel]
pub fn thread_ids(out: GlobalSlice<u32>) {
    out.write(0, Thread::index_in_block());
    out.write(1, Thread::block_index());
    out.write(2, Thread::block_size());
    out.write(3, Thread::grid_size());
    out.write(4, Thread::lane());
}

/// Reads each clock twice; the two reads must not be merged.
#[kernel]
pub fn clocks(out: GlobalSlice<u64>) {
    out.write(0, simt::clock());
    out.write(1, simt::clock());
    out.write(2, simt::timer());
    out.write(3, simt::timer());
}

/// Executes a spin hint.
#[kernel]
pub fn spin_hint() {
    simt::spin_hint();
}

/// Pauses for longer.
#[kernel]
pub fn pause() {
    simt::pause(600);
}

/// Hides a value from the optimiser: the sum is not folded.
#[kernel]
pub fn hidden_value(out: GlobalSlice<u32>) {
    out.write(0, simt::black_box(3u32) + 4);
}

/// Reports a misuse, which has an effect only on the emulator.
#[kernel]
pub fn fault(out: GlobalSlice<u32>) {
    simt::fault("told");
    out.write(0, 1);
}

/// Calls the driver's allocator.
#[kernel]
pub fn heap(out: GlobalSlice<u64>, bytes: usize) {
    let pointer = simt::heap_allocate(bytes);
    out.write(0, pointer as u64);
    // SAFETY: the test only inspects the code; it is never run.
    unsafe { simt::heap_free(pointer) };
}

/// Ends the launch.
#[kernel]
pub fn trap() {
    simt::trap();
}

/// Ends the launch by a panic.
#[kernel]
pub fn panic(index: usize) {
    assert!(index < 4);
}
