//! The symbols of the driver, each of which jumps through a table.
//!
//! They are written in assembly because a Rust function would have to repeat all signatures to forward its
//! arguments. A jump forwards whatever the caller left in registers and on the stack. Only the first call,
//! which finds its slot of the table empty, must preserve the argument registers while the table is filled.
use crate::functions::functions;
use crate::library;
use crate::{NO_DEVICE, NOT_SUPPORTED};
use core::arch::{global_asm, naked_asm};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    ($name:ident) => {
        // `rax` is free at the entry of a function without variable arguments, and no driver function has
        // any.
        global_asm!(
            concat!(".pushsection .text.", stringify!($name), ",\"ax\",@progbits"),
            concat!(".globl ", stringify!($name)),
            concat!(".hidden ", stringify!($name)),
            concat!(".type ", stringify!($name), ",@function"),
            concat!(stringify!($name), ":"),
            "mov rax, qword ptr [rip + {slots} + 8 * {index}]",
            "test rax, rax",
            "jz 2f",
            "jmp rax",
            "2:",
            "call {fill}",
            concat!("jmp ", stringify!($name)),
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            ".popsection",
            slots = sym SLOTS,
            index = const Index::$name as usize,
            fill = sym keep_arguments_and_fill,
        );
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    ($name:ident) => {
        // `x16` is the register that the calling convention reserves for veneers like this one.
        global_asm!(
            concat!(".pushsection .text.", stringify!($name), ",\"ax\",@progbits"),
            ".p2align 2",
            concat!(".globl ", stringify!($name)),
            concat!(".hidden ", stringify!($name)),
            concat!(".type ", stringify!($name), ",@function"),
            concat!(stringify!($name), ":"),
            "adrp x16, {slots} + 8 * {index}",
            "ldr x16, [x16, :lo12:{slots} + 8 * {index}]",
            "cbz x16, 2f",
            "br x16",
            "2:",
            "stp x29, x30, [sp, #-16]!",
            "bl {fill}",
            "ldp x29, x30, [sp], #16",
            concat!("b ", stringify!($name)),
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            ".popsection",
            slots = sym SLOTS,
            index = const Index::$name as usize,
            fill = sym keep_arguments_and_fill,
        );
    };
}

macro_rules! define {
    ($($name:ident)*) => {
        /// Slot index of each function.
        #[allow(non_camel_case_types)]
        #[repr(usize)]
        enum Index { $($name),* }

        const NAMES: &[&str] = &[$(concat!(stringify!($name), "\0")),*];

        $(jump!($name);)*
    };
}
functions!(define);

/// Addresses of the functions, null until the first call.
static SLOTS: [AtomicPtr<c_void>; NAMES.len()] = [const { AtomicPtr::new(null_mut()) }; NAMES.len()];

/// Fills the table with all argument registers saved: six general ones and eight vector ones.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn keep_arguments_and_fill() {
    // The stack holds two return addresses and `rbp`, then six registers; 8 more bytes align it to 16.
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 136",
        "movups [rsp], xmm0",
        "movups [rsp + 16], xmm1",
        "movups [rsp + 32], xmm2",
        "movups [rsp + 48], xmm3",
        "movups [rsp + 64], xmm4",
        "movups [rsp + 80], xmm5",
        "movups [rsp + 96], xmm6",
        "movups [rsp + 112], xmm7",
        "call {fill}",
        "movups xmm0, [rsp]",
        "movups xmm1, [rsp + 16]",
        "movups xmm2, [rsp + 32]",
        "movups xmm3, [rsp + 48]",
        "movups xmm4, [rsp + 64]",
        "movups xmm5, [rsp + 80]",
        "movups xmm6, [rsp + 96]",
        "movups xmm7, [rsp + 112]",
        "add rsp, 136",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        "ret",
        fill = sym fill,
    )
}

/// Fills the table with all argument registers saved: nine general ones (`x8` points to a large result) and
/// eight vector ones.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn keep_arguments_and_fill() {
    naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #-16]!",
        "stp x2, x3, [sp, #-16]!",
        "stp x4, x5, [sp, #-16]!",
        "stp x6, x7, [sp, #-16]!",
        "str x8, [sp, #-16]!",
        "stp q0, q1, [sp, #-32]!",
        "stp q2, q3, [sp, #-32]!",
        "stp q4, q5, [sp, #-32]!",
        "stp q6, q7, [sp, #-32]!",
        "bl {fill}",
        "ldp q6, q7, [sp], #32",
        "ldp q4, q5, [sp], #32",
        "ldp q2, q3, [sp], #32",
        "ldp q0, q1, [sp], #32",
        "ldr x8, [sp], #16",
        "ldp x6, x7, [sp], #16",
        "ldp x4, x5, [sp], #16",
        "ldp x2, x3, [sp], #16",
        "ldp x0, x1, [sp], #16",
        "ldp x29, x30, [sp], #16",
        "ret",
        fill = sym fill,
    )
}

/// Stores every function's address in its slot. Concurrent threads write the same addresses.
extern "C" fn fill() {
    let library = library().ok();
    for (slot, name) in SLOTS.iter().zip(NAMES) {
        slot.store(address(library, name), Ordering::Release);
    }
}

fn address(library: Option<&library::Library>, name: &str) -> *mut c_void {
    let Some(library) = library else {
        return no_device as *mut c_void;
    };
    let name = CStr::from_bytes_with_nul(name.as_bytes()).expect("the macro ends each name with a zero byte");
    library.symbol(name).unwrap_or(not_supported as *mut c_void)
}

extern "C" fn no_device() -> u32 {
    NO_DEVICE
}

extern "C" fn not_supported() -> u32 {
    NOT_SUPPORTED
}

unsafe extern "C" {
    fn cuInit(flags: u32) -> u32;
}

/// Ensures that a program which calls [`library`] also links the symbols, regardless of the order in which
/// the linker processes the crates.
///
/// The compiler itself requests an unmangled symbol in every final binary. Its reference to one function
/// pulls in the object file that defines them all.
#[unsafe(no_mangle)]
extern "C" fn phalanx_cuda_late_link() -> usize {
    cuInit as *const () as usize
}

pub(crate) fn link() {
    std::hint::black_box(phalanx_cuda_late_link as extern "C" fn() -> usize);
}
