//! The PTX back end. Collectives are LLVM intrinsics, because those are convergent and `asm!` is not; memory
//! operations are `asm!`, because the intrinsics and `core`'s atomics know neither scopes nor, here, their
//! orders.
mod collectives;
mod memory;
mod shared;

pub use collectives::*;
pub use memory::*;
pub use shared::*;

use core::arch::asm;
use core::arch::nvptx;

unsafe extern "C" {
    #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
    fn sreg_laneid() -> u32;
}

#[inline(always)]
pub fn thread_index() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_thread_idx_x() as u32 }
}

#[inline(always)]
pub fn block_index() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_block_idx_x() as u32 }
}

#[inline(always)]
pub fn block_size() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_block_dim_x() as u32 }
}

#[inline(always)]
pub fn grid_size() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_grid_dim_x() as u32 }
}

#[inline(always)]
pub fn lane() -> u32 {
    // SAFETY: reads a special register.
    unsafe { sreg_laneid() }
}

/// What every entry does first: lets the stream's next launch take what this one leaves free of the device,
/// then waits until the launch before has ended and its writes are visible. Where launches do not overlap
/// both do nothing.
#[inline(always)]
pub fn follow() {
    if cfg!(target_feature = "sm_90") {
        // SAFETY: order launches, nothing else. Not `nomem`: no access of the kernel moves up across them.
        unsafe { asm!("griddepcontrol.launch_dependents;", "griddepcontrol.wait;", options(nostack)) };
    }
}

#[inline(always)]
pub fn clock() -> u64 {
    let ticks: u64;
    // SAFETY: reads a special register; volatile, since each read differs.
    unsafe { asm!("mov.u64 {}, %clock64;", out(reg64) ticks, options(nostack)) };
    ticks
}

#[inline(always)]
pub fn timer() -> u64 {
    let nanoseconds: u64;
    // SAFETY: reads a special register; volatile, since each read differs.
    unsafe { asm!("mov.u64 {}, %globaltimer;", out(reg64) nanoseconds, options(nostack)) };
    nanoseconds
}

#[inline(always)]
pub fn spin_hint() {
    // SAFETY: suspends the thread for a moment, nothing else.
    unsafe { asm!("nanosleep.u32 20;", options(nostack)) };
}

#[inline(always)]
pub fn pause(nanoseconds: u32) {
    // SAFETY: as for `spin_hint`.
    unsafe { asm!("nanosleep.u32 {};", in(reg32) nanoseconds, options(nostack)) };
}

#[inline(always)]
pub fn opaque(word: u32) -> u32 {
    let same: u32;
    // SAFETY: copies a register. Not pure, so that it stays where it stands.
    unsafe { asm!("mov.b32 {}, {};", out(reg32) same, in(reg32) word, options(nostack, nomem)) };
    same
}

#[inline(always)]
pub fn trap() -> ! {
    // SAFETY: ends the launch.
    unsafe { nvptx::trap() }
}

// What the driver provides to every module.
unsafe extern "C" {
    fn malloc(bytes: u64) -> *mut u8;
    fn free(pointer: *mut u8);
}

/// Nothing: a GPU checks no access.
#[inline(always)]
pub fn poison(_pointer: impl FnOnce() -> *mut u8, _bytes: usize, _name: u32) {}

/// Nothing.
#[inline(always)]
pub fn unpoison(_pointer: impl FnOnce() -> *mut u8) {}

#[inline(always)]
pub fn heap_allocate(bytes: usize) -> *mut u8 {
    // SAFETY: any size may be asked for.
    unsafe { malloc(bytes as u64) }
}

/// # Safety
/// - `pointer` is null, or came from `heap_allocate` and is not used again.
#[inline(always)]
pub unsafe fn heap_free(pointer: *mut u8) {
    // SAFETY: the caller's.
    unsafe { free(pointer) }
}

#[inline(always)]
pub fn fault(_message: &'static str) {}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    trap()
}
