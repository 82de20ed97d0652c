//! Programs that must not compile: launches with wrong arguments, structs that have no words, sums that are
//! not defined. The errors say what is wrong, and what is supported.
use gpu::{Device, Grid};
use simt::{GlobalSlice, Thread, kernel};

#[kernel]
fn fill(out: GlobalSlice<u32>, value: u32) {
    out.write(Thread::index(), value);
}

/// Launches a kernel with the right arguments. The programs `wrong_*.rs` that launch one differ from this one
/// in a line. It is no program of trybuild, which then would compile all dependencies to machine code, and
/// call cargo once for each program.
#[test]
fn right_arguments_compile() {
    let device = Device::emulator(Default::default());
    let out = device.zeroed::<u32>(32).unwrap();
    let stream = device.default_stream();
    // SAFETY: the grid has no blocks, so the kernel accesses no memory.
    unsafe { stream.launch(Grid::new(0, 32), Fill { out: out.global(), value: 1 }) }.unwrap();
}

#[test]
fn wrong_programs_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
