//! The kernels of the tests. `kernels.ptx` beside this file is the output of the device compiler for them
//! (sm_80).
use simt::{GlobalSlice, Instance, Order, Scope, Thread, kernel};

/// Writes `value` to each element.
#[kernel]
pub fn fill(out: GlobalSlice<u32>, value: u32) {
    if Thread::index() < out.len() {
        out.write(Thread::index(), value);
    }
}

/// Adds `source` to `target`, element by element. The only kernel that limits its registers.
#[kernel(registers = 32)]
pub fn add(target: GlobalSlice<u64>, source: GlobalSlice<u64>) {
    let index = Thread::index();
    if index < target.len() {
        target.write(index, target.read(index) + source.read(index));
    }
}

/// Counts the threads of the grid.
#[kernel]
pub fn count(total: GlobalSlice<u32>) {
    total.at(0).fetch_add(1, Order::Relaxed, Scope::Device);
}

/// Waits for `ticks` ticks of the device-wide clock, then writes `value` to the first element.
#[kernel]
pub fn slow(out: GlobalSlice<u32>, ticks: u64, value: u32) {
    let start = simt::timer();
    while simt::timer() - start < ticks {
        simt::spin_hint();
    }
    if Thread::index() == 0 {
        out.write(0, value);
    }
}

/// Accesses an element out of range, which ends the launch.
#[kernel]
pub fn fail(out: GlobalSlice<u32>) {
    out.write(out.len(), 1);
}

/// Takes no arguments and does nothing.
#[kernel]
pub fn idle() {}

/// Primes, as a table that becomes a variable in PTX.
static PRIMES: [u32; 8] = [2, 3, 5, 7, 11, 13, 17, 19];

/// Mixes the first primes by a recursive function, which therefore stays a function in PTX.
#[inline(never)]
fn mix_primes(count: usize) -> u32 {
    if count == 0 { 0 } else { PRIMES[count - 1] ^ mix_primes(count - 1).rotate_left(3) }
}

/// Writes `mix_primes` of each element's index.
#[kernel]
pub fn lookup(out: GlobalSlice<u32>) {
    let index = Thread::index();
    if index < out.len() {
        out.write(index, mix_primes(index % 9));
    }
}

/// Returns the value that `lookup` writes at `index`.
#[cfg(not(target_arch = "nvptx64"))]
pub fn looked_up(index: usize) -> u32 {
    mix_primes(index % 9)
}

/// Writes the size of a type.
#[kernel]
pub fn size<T: Instance>(out: GlobalSlice<u32>, of: T) {
    let _ = of;
    out.write(0, size_of::<T>() as u32);
}

/// A struct of four bytes.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Small(pub u32);

/// A struct of sixteen bytes.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Large(pub [u64; 2]);

simt::instances! {
    named { small: Small, large: Large }
    kernels { Size }
}
