//! Launches with programmatic stream serialization: the blocks of a launch become resident while the previous
//! launch in the stream still drains, and wait there for its end (the first instruction of every `simt`
//! entry). This removes most of the gap between two launches, which dominates the cost of small launches.
use super::driver::Code;
use crate::Grid;
use cust::sys;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Instruction in the code of a kernel that waits for the previous launch.
pub const WAIT: &str = "griddepcontrol.wait";

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`.
const OVERLAPPED: u32 = 6;

/// `CUlaunchAttribute`.
#[repr(C)]
struct Attribute {
    id: u32,
    padding: u32,
    /// A union of 64 bytes; used as an `int` at its start.
    value: [u32; 16],
}

/// `CUlaunchConfig`.
#[repr(C)]
struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: sys::CUstream,
    attributes: *mut Attribute,
    attribute_count: u32,
}

unsafe extern "C" {
    // Missing from `cust`'s declarations, which predate it (CUDA 11.8).
    fn cuLaunchKernelEx(
        config: *const Config,
        function: sys::CUfunction,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Code;
}

/// Launches a function that itself waits for the previous launch.
///
/// # Safety
/// - As for the driver's `cuLaunchKernel`: the stream belongs to the current context, and the parameters are
///   those of the function.
/// - The function contains [`WAIT`] before any access.
pub unsafe fn launch(
    function: sys::CUfunction,
    grid: Grid,
    stream: sys::CUstream,
    parameters: *mut *mut c_void,
) -> Code {
    let mut value = [0; 16];
    value[0] = 1;
    let mut attribute = Attribute { id: OVERLAPPED, padding: 0, value };
    let (attributes, attribute_count) = (&raw mut attribute, 1);
    let (grid, block) = ([grid.blocks, 1, 1], [grid.threads, 1, 1]);
    let config = Config { grid, block, shared_bytes: 0, stream, attributes, attribute_count };
    // SAFETY: the caller's obligations; the driver copies the configuration.
    unsafe { cuLaunchKernelEx(&config, function, parameters, null_mut()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn the_structs_are_laid_out_as_the_driver_reads_them() {
        assert_eq!((size_of::<Attribute>(), offset_of!(Attribute, value)), (72, 8));
        let offsets =
            [offset_of!(Config, shared_bytes), offset_of!(Config, stream), offset_of!(Config, attributes)];
        assert_eq!(
            (offsets, offset_of!(Config, attribute_count), size_of::<Config>()),
            ([24, 32, 40], 48, 56)
        );
    }
}
