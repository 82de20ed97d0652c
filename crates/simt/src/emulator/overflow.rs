//! Overflows of lanes' stacks become failures of their launches.
//!
//! A lane that accesses memory is checked at each access ([`super::lane::Lane::step`]), above the part of its
//! stack that the emulator itself needs. A lane that recurses without any access reaches the guard page below
//! its stack. The handler of the signal then discards the stack and ends the lane, which holds nothing of the
//! emulator at that point: the emulator's own functions never reach the guard page.
//!
//! The handler needs the alternate signal stack that `std` gives to its threads. Other signals, and faults
//! elsewhere, go to the handler that was installed before.
use super::lane::Lane;
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, transmute};
use std::sync::OnceLock;

/// Handler that was installed before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Installs the handler, once in a process.
pub fn install_handler() {
    PREVIOUS.get_or_init(|| {
        let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a zeroed action has an empty mask; the handler has the signature that `SA_SIGINFO` requires
        // and calls only functions that signal handlers may call; the call writes the previous action.
        unsafe {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            action.sa_sigaction = on_fault as Handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGSEGV, &action, previous.as_mut_ptr());
            previous.assume_init()
        }
    });
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a description of the signal, whose fault has an address.
    let address = unsafe { (*info).si_addr() }.addr();
    match Lane::try_current().filter(|lane| lane.is_guard(address)) {
        // SAFETY: the kernel passes the registers of the interrupted code, which `end` replaces.
        Some(lane) => unsafe { end(lane, &mut *context.cast()) },
        None => call_previous(signal, info, context),
    }
}

/// Makes the interrupted lane end when the signal's handler returns.
///
/// # Safety
/// - The registers are those of the lane, which overflowed its stack outside of the emulator's functions.
#[cfg(target_arch = "x86_64")]
unsafe fn end(lane: &Lane, context: &mut libc::ucontext_t) {
    // SAFETY: the caller's obligation.
    let Some(to) = (unsafe { lane.overflow() }) else { return };
    let registers = &mut context.uc_mcontext.gregs;
    registers[libc::REG_RIP as usize] = to.rip.cast_signed();
    registers[libc::REG_RSP as usize] = to.rsp.cast_signed();
    registers[libc::REG_RBP as usize] = to.rbp.cast_signed();
    registers[libc::REG_RDI as usize] = to.rdi.cast_signed();
    registers[libc::REG_RSI as usize] = to.rsi.cast_signed();
}

/// Makes the interrupted lane end when the signal's handler returns.
///
/// # Safety
/// - The registers are those of the lane, which overflowed its stack outside of the emulator's functions.
#[cfg(target_arch = "aarch64")]
unsafe fn end(lane: &Lane, context: &mut libc::ucontext_t) {
    // SAFETY: the caller's obligation.
    let Some(to) = (unsafe { lane.overflow() }) else { return };
    let registers = &mut context.uc_mcontext;
    (registers.pc, registers.sp) = (to.pc, to.sp);
    (registers.regs[0], registers.regs[1]) = (to.x0, to.x1);
    (registers.regs[29], registers.regs[30]) = (to.x29, to.lr);
}

/// Leaves the signal to the handler that was installed before, or to the system.
fn call_previous(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let (handler, flags) =
        PREVIOUS.get().map_or((libc::SIG_DFL, 0), |previous| (previous.sa_sigaction, previous.sa_flags));
    if matches!(handler, libc::SIG_DFL | libc::SIG_IGN) {
        // SAFETY: restores the default action; the fault then occurs again and ends the process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    } else if flags & libc::SA_SIGINFO != 0 {
        // SAFETY: a handler with this flag has this signature.
        let handler = unsafe { transmute::<usize, Handler>(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: a handler without the flag has this signature.
        let handler = unsafe { transmute::<usize, extern "C" fn(c_int)>(handler) };
        handler(signal);
    }
}
