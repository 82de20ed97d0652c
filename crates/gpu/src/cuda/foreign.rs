//! Checks of other libraries' memory and streams. The context must be current.
use super::context::Context;
use super::driver::{Code, describe};
use cust::sys;
use cust::sys::CUpointer_attribute::{
    CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
};
use std::ptr::null_mut;

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;
/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: usize = 2;

const OTHER_CONTEXT: &str = "it belongs to another context than the device's primary context";

/// Reads an attribute of an address, as the driver reports it.
///
/// # Safety
/// - `T` is the attribute's type.
unsafe fn attribute<T>(
    which: sys::CUpointer_attribute,
    address: sys::CUdeviceptr,
    mut value: T,
) -> Result<T, String> {
    // SAFETY: the driver writes a `T` on success (the caller's obligation), and does not access the address.
    let code = unsafe { sys::cuPointerGetAttribute((&raw mut value).cast(), which, address) } as Code;
    if code == 0 {
        Ok(value)
    } else {
        Err(format!("the driver does not know the address: {}", describe(code)))
    }
}

/// Returns the reason why the memory cannot be used on the context's device.
pub fn check_memory(context: &Context, address: sys::CUdeviceptr, bytes: usize) -> Result<(), String> {
    // SAFETY: the attributes' types.
    let (owner, ordinal, start, size) = unsafe {
        (
            attribute::<sys::CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, address, null_mut())?,
            attribute::<i32>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address, -1)?,
            attribute::<sys::CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address, 0)?,
            attribute::<usize>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address, 0)?,
        )
    };
    let left = size.saturating_sub((address - start) as usize);
    if i64::from(ordinal) != i64::from(context.facts.ordinal) {
        return Err(format!("it belongs to device {ordinal}, not to device {}", context.facts.ordinal));
    }
    // Memory of pools has no context.
    if !owner.is_null() && !context.is(owner) {
        return Err(OTHER_CONTEXT.to_owned());
    }
    let short = || format!("the allocation there has only {left} bytes from the pointer on");
    if bytes <= left { Ok(()) } else { Err(short()) }
}

/// Returns the reason why the stream cannot be used. Notes a stream that the null stream does not wait for.
///
/// # Safety
/// - The handle is a stream that exists, or one of the driver's default streams.
pub unsafe fn check_stream(context: &Context, stream: sys::CUstream) -> Result<(), String> {
    if stream.addr() == PER_THREAD {
        return Err("the per-thread default stream is another stream in each thread".to_owned());
    }
    let (mut owner, mut flags) = (null_mut(), 0);
    // SAFETY: the stream exists (the caller's obligation); the calls write on success.
    let codes = unsafe {
        [sys::cuStreamGetCtx(stream, &mut owner) as Code, sys::cuStreamGetFlags(stream, &mut flags) as Code]
    };
    if let Some(&code) = codes.iter().find(|&&code| code != 0) {
        return Err(format!("the driver does not accept the handle: {}", describe(code)));
    }
    if !context.is(owner) {
        return Err(OTHER_CONTEXT.to_owned());
    }
    if flags & NON_BLOCKING != 0 {
        context.add_unordered_stream();
    }
    Ok(())
}
