//! Shared memory. An address is one of the `.shared` window, so every access names the state space.
use crate::{SharedShape, Word};
use core::arch::asm;
use simt_macros::device;

/// Address in the `.shared` window. 32 bits suffice, and take half the arithmetic of 64.
pub type SharedAddress = u32;

/// Returns the array of one `shared!` line. Inlined into the function that the macro generates, which is
/// never inlined, so the array exists once.
#[device]
pub fn shared_site<const BYTES: usize>(_site: usize) -> SharedAddress {
    let address: u32;
    // SAFETY: declares an array and takes its address.
    unsafe {
        asm!(
            "{{ .shared .align 16 .b8 array[{bytes}]; mov.u32 {address}, array; }}",
            bytes = const BYTES, address = out(reg32) address, options(nostack)
        );
    }
    address
}

/// Returns the array of a shape. Never inlined, so the array exists once; functions are not merged on this
/// target, so each shape has a separate array.
#[inline(never)]
pub fn shared_shape<S: SharedShape>() -> SharedAddress {
    let address: u32;
    // SAFETY: as in `shared_site`.
    unsafe {
        asm!(
            "{{ .shared .align 16 .b8 array[{bytes}]; mov.u32 {address}, array; }}",
            bytes = const { S::LEN * size_of::<S::Word>() }, address = out(reg32) address, options(nostack)
        );
    }
    address
}

/// Reads an element.
///
/// # Safety
/// - `address` lies in an array of `shared_site`, aligned for `T`.
#[device]
pub unsafe fn load_shared<T: Word>(address: SharedAddress) -> T {
    // SAFETY: one load of `size_of::<T>()` bytes, from an address for which the caller vouches.
    unsafe {
        match size_of::<T>() {
            1 | 4 => {
                let word: u32;
                match size_of::<T>() {
                    1 => asm!("ld.shared.u8 {}, [{}];", out(reg32) word, in(reg32) address, options(nostack)),
                    _ => {
                        asm!("ld.shared.b32 {}, [{}];", out(reg32) word, in(reg32) address, options(nostack))
                    }
                }
                T::narrow(word as u128)
            }
            _ => {
                let (low, high): (u64, u64);
                match size_of::<T>() {
                    8 => {
                        asm!("ld.shared.b64 {}, [{}];", out(reg64) low, in(reg32) address, options(nostack));
                        high = 0;
                    }
                    _ => {
                        asm!(
                            "ld.shared.v2.b64 {{{}, {}}}, [{}];",
                            out(reg64) low, out(reg64) high, in(reg32) address, options(nostack)
                        )
                    }
                }
                T::narrow(low as u128 | (high as u128) << 64)
            }
        }
    }
}

/// Reads an element that may be uninitialised. The instruction is opaque to the compiler, so the value is
/// merely arbitrary.
///
/// # Safety
/// - As for `load_shared`.
#[device]
pub unsafe fn load_shared_uninit<T: Word>(address: SharedAddress) -> T {
    // SAFETY: the caller's obligation.
    unsafe { load_shared(address) }
}

/// Writes an element.
///
/// # Safety
/// - As for `load_shared`.
#[device]
pub unsafe fn store_shared<T: Word>(address: SharedAddress, value: T) {
    let (low, high) = (value.widen() as u64, (value.widen() >> 64) as u64);
    // SAFETY: one store of `size_of::<T>()` bytes, to an address for which the caller vouches.
    unsafe {
        match size_of::<T>() {
            1 => asm!("st.shared.u8 [{}], {};", in(reg32) address, in(reg32) low as u32, options(nostack)),
            4 => asm!("st.shared.b32 [{}], {};", in(reg32) address, in(reg32) low as u32, options(nostack)),
            8 => asm!("st.shared.b64 [{}], {};", in(reg32) address, in(reg64) low, options(nostack)),
            _ => {
                asm!(
                    "st.shared.v2.b64 [{}], {{{}, {}}};",
                    in(reg32) address, in(reg64) low, in(reg64) high, options(nostack)
                )
            }
        }
    }
}

/// Adds to an element; returns the old value.
///
/// # Safety
/// - As for `load_shared`.
#[device]
pub unsafe fn fetch_add_shared(address: SharedAddress, value: u32) -> u32 {
    let old: u32;
    // SAFETY: one atomic at an address for which the caller vouches.
    unsafe {
        asm!(
            "atom.relaxed.cta.shared.add.u32 {}, [{}], {};",
            out(reg32) old, in(reg32) address, in(reg32) value, options(nostack)
        );
    }
    old
}

/// Adds to an element if `wanted` and returns the old value; else returns an arbitrary value.
///
/// # Safety
/// - As for `load_shared`, if `wanted`.
#[device]
pub unsafe fn fetch_add_shared_if(wanted: bool, place: impl FnOnce() -> SharedAddress, value: u32) -> u32 {
    let old: u32;
    // SAFETY: one atomic under a predicate, at an address for which the caller vouches if the predicate
    // holds.
    unsafe {
        asm!(
            "{{ .reg .pred wanted; setp.ne.u32 wanted, {}, 0; \
             @wanted atom.relaxed.cta.shared.add.u32 {}, [{}], {}; }}",
            in(reg32) wanted as u32, out(reg32) old, in(reg32) place(), in(reg32) value, options(nostack)
        );
    }
    old
}

/// Sets bits of an element.
///
/// # Safety
/// - As for `load_shared`.
#[device]
pub unsafe fn or_shared(address: SharedAddress, bits: u32) {
    // SAFETY: one atomic at an address for which the caller vouches.
    unsafe {
        asm!(
            "red.relaxed.cta.shared.or.b32 [{}], {};",
            in(reg32) address, in(reg32) bits, options(nostack)
        );
    }
}
