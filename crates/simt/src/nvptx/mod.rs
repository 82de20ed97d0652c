//! The PTX back end. Collectives are LLVM intrinsics, because these are convergent and `asm!` is not. Memory
//! operations are `asm!`, because the intrinsics and `core`'s atomics support no scopes and, on this target,
//! no orders.
mod collectives;
mod memory;
mod shared;

use crate::Kernel;
pub use collectives::*;
pub use memory::*;
pub use shared::*;
use simt_macros::device;

use core::arch::asm;
use core::arch::nvptx;

unsafe extern "C" {
    #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
    fn sreg_laneid() -> u32;
}

#[device]
pub fn thread_index() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_thread_idx_x() as u32 }
}

#[device]
pub fn block_index() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_block_idx_x() as u32 }
}

#[device]
pub fn block_size() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_block_dim_x() as u32 }
}

#[device]
pub fn grid_size() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_grid_dim_x() as u32 }
}

#[device]
pub fn lane() -> u32 {
    // SAFETY: reads a special register.
    unsafe { sreg_laneid() }
}

/// First instructions of every entry: allow the stream's next launch to use the resources that this launch
/// leaves free, then wait until the previous launch has ended and its writes are visible. If launches do not
/// overlap, both do nothing.
///
/// The comment before them tells tools that read the PTX the kernel's bound of registers (0 for none) and the
/// size of its argument struct.
#[device]
pub fn follow<K: Kernel>() {
    if cfg!(target_feature = "sm_90") {
        // SAFETY: they only order launches. Not `nomem`, so that no access of the kernel moves up across
        // them.
        unsafe {
            asm!(
                "// registers={} arguments={}",
                "griddepcontrol.launch_dependents;",
                "griddepcontrol.wait;",
                const match K::REGISTERS {
                    Some(most) => most,
                    None => 0,
                },
                const size_of::<K>(),
                options(nostack),
            );
        }
    }
}

#[device]
pub fn clock() -> u64 {
    let ticks: u64;
    // SAFETY: reads a special register; volatile, since reads differ.
    unsafe { asm!("mov.u64 {}, %clock64;", out(reg64) ticks, options(nostack)) };
    ticks
}

#[device]
pub fn timer() -> u64 {
    let nanoseconds: u64;
    // SAFETY: reads a special register; volatile, since reads differ.
    unsafe { asm!("mov.u64 {}, %globaltimer;", out(reg64) nanoseconds, options(nostack)) };
    nanoseconds
}

#[device]
pub fn spin_hint() {
    // SAFETY: only suspends the thread briefly.
    unsafe { asm!("nanosleep.u32 20;", options(nostack)) };
}

#[device]
pub fn pause(nanoseconds: u32) {
    // SAFETY: as for `spin_hint`.
    unsafe { asm!("nanosleep.u32 {};", in(reg32) nanoseconds, options(nostack)) };
}

#[device]
pub fn bound(count: u32) -> u32 {
    count
}

#[device]
pub fn recheck(holds: bool) -> bool {
    holds
}

#[device]
pub fn black_box(word: u32) -> u32 {
    let same: u32;
    // SAFETY: copies a register. Not `pure`, so that it is not moved.
    unsafe { asm!("mov.b32 {}, {};", out(reg32) same, in(reg32) word, options(nostack, nomem)) };
    same
}

#[device]
pub fn trap() -> ! {
    // SAFETY: ends the launch.
    unsafe { nvptx::trap() }
}

#[device]
pub fn index_out_of_range(_index: usize, _len: usize) -> ! {
    trap()
}

// Functions that the driver provides to every module.
unsafe extern "C" {
    fn malloc(bytes: u64) -> *mut u8;
    fn free(pointer: *mut u8);
}

/// Does nothing: a GPU checks no accesses.
#[device]
pub fn poison(_pointer: impl FnOnce() -> *mut u8, _bytes: usize, _name: u32) {}

/// Does nothing.
#[device]
pub fn unpoison(_pointer: impl FnOnce() -> *mut u8) {}

#[device]
pub fn heap_allocate(bytes: usize) -> *mut u8 {
    // SAFETY: any size is valid.
    unsafe { malloc(bytes as u64) }
}

/// # Safety
/// - `pointer` is null, or came from `heap_allocate` and is not used afterwards.
#[device]
pub unsafe fn heap_free(pointer: *mut u8) {
    // SAFETY: the caller's obligation.
    unsafe { free(pointer) }
}

#[device]
pub fn fault(_message: &'static str) {}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    trap()
}
