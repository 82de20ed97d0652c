//! The driver: initialisation, version and meaning of error codes.
use crate::{Error, Result};
use cust::device::Device;
use cust::error::CudaError;
use cust::sys;
use std::ffi::{CStr, c_char};
use std::ptr::null;

/// Status code of the driver. A plain number, since drivers return codes that `cust`'s enums do not name.
pub type Code = u32;

pub const OUT_OF_MEMORY: Code = 2;
pub const NOT_READY: Code = 600;
pub const PEER_ACCESS_ENABLED: Code = 704;
const NO_DEVICE: Code = 100;

/// The oldest supported version of CUDA: the first with PTX for sm_80. The driver's compiler checks the
/// version that each PTX needs.
const OLDEST: i32 = 11;

/// Converts a pointer to the driver's address type.
pub fn address(pointer: *const u8) -> sys::CUdeviceptr {
    pointer.expose_provenance() as sys::CUdeviceptr
}

/// Converts an address of the driver to a pointer.
pub fn pointer(address: sys::CUdeviceptr) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// Initialises the driver. Repeated calls have no effect.
pub fn start() -> Result<()> {
    let library = cuda_late::library().map_err(|reason| Error::NoDriver { reason: reason.to_string() })?;
    // SAFETY: takes no pointers.
    let code = unsafe { sys::cuInit(0) } as Code;
    let path = library.path();
    let reason = match code {
        0 => match cust::CudaApiVersion::get() {
            Ok(version) if version.major() < OLDEST => {
                format!("{path} is for {}, and CUDA {OLDEST}.0 or later is needed", cuda_version())
            }
            _ => return Ok(()),
        },
        NO_DEVICE => format!("{path} is there and sees no GPU"),
        cuda_late::NOT_SUPPORTED => format!("{path} is no CUDA driver: it has no function cuInit"),
        code => format!("cuInit of {path}: {}", describe(code)),
    };
    Err(Error::NoDriver { reason })
}

/// Returns the device with the given ordinal.
pub fn device(ordinal: u32) -> Result<Device> {
    start()?;
    let found = Device::num_devices().map_err(|error| failed("cuDeviceGetCount", error))?;
    if ordinal >= found {
        return Err(Error::NoSuchDevice { asked: ordinal, found });
    }
    Device::get_device(ordinal).map_err(|error| failed("cuDeviceGet", error))
}

/// Converts an error of `cust`.
pub fn failed(call: &'static str, error: CudaError) -> Error {
    Error::Driver { call, cause: describe(error as Code) }
}

/// Returns a code's name, number and description, as the driver reports them.
pub fn describe(code: Code) -> String {
    let name = text(code, sys::cuGetErrorName).unwrap_or_else(|| "CUDA error".to_owned());
    let meaning = text(code, sys::cuGetErrorString).unwrap_or_else(|| "no explanation".to_owned());
    format!("{name} ({code}): {meaning}")
}

type Lookup = unsafe extern "C" fn(sys::CUresult, *mut *const c_char) -> sys::CUresult;
type PlainLookup = unsafe extern "C" fn(Code, *mut *const c_char) -> Code;

fn text(code: Code, lookup: Lookup) -> Option<String> {
    // SAFETY: `CUresult` is a 32-bit integer for C; as an integer here it may have any value.
    let lookup = unsafe { std::mem::transmute::<Lookup, PlainLookup>(lookup) };
    let mut text = null();
    // SAFETY: the driver sets the pointer to a static text of its own, leaves it unchanged or sets it to
    // null.
    let answer = unsafe { lookup(code, &mut text) };
    if answer != 0 || text.is_null() {
        return None;
    }
    // SAFETY: not null, hence a static C string.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Returns the kernel driver's version, such as `580.159.04`, or the supported CUDA version if the operating
/// system does not report it.
pub fn version() -> String {
    let read = |path| std::fs::read_to_string(path).ok();
    read("/sys/module/nvidia/version")
        .and_then(|text| first_version(&text))
        .or_else(|| read("/proc/driver/nvidia/version").and_then(|text| first_version(&text)))
        .unwrap_or_else(cuda_version)
}

/// Returns the first word that consists of digits and dots.
fn first_version(text: &str) -> Option<String> {
    let is_version = |word: &&str| {
        word.contains('.')
            && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    text.split_whitespace().find(is_version).map(str::to_owned)
}

fn cuda_version() -> String {
    match cust::CudaApiVersion::get() {
        Ok(version) => format!("CUDA {}.{}", version.major(), version.minor()),
        Err(_) => "unknown".to_owned(),
    }
}

/// Returns `true` if the context is unusable after `code`.
pub fn is_fatal(code: Code) -> bool {
    // Uncorrectable errors of memory and links; illegal address, timeout; a destroyed context; a failed
    // assertion; the errors of running kernels (stack, instruction, alignment, address space, program
    // counter, failed launch); and the codes that newer drivers added to these.
    matches!(code, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_the_system_says() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue May 27 2025\n\
            GCC version: 12.2.0";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build";
        assert_eq!(first_version(closed).as_deref(), Some("580.159.04"));
        assert_eq!(first_version(open).as_deref(), Some("580.65.06"));
        assert_eq!(first_version("580.159.04\n").as_deref(), Some("580.159.04"));
        assert_eq!(first_version("none. here"), None);
    }

    #[test]
    fn codes_are_described_without_a_driver_and_with_unknown_numbers() {
        for code in [NO_DEVICE, 999, 12345, u32::MAX] {
            assert!(describe(code).contains(&code.to_string()));
        }
    }

    #[test]
    fn traps_are_fatal_and_lack_of_memory_is_not() {
        assert!(is_fatal(719) && is_fatal(700));
        assert!(!is_fatal(OUT_OF_MEMORY) && !is_fatal(NOT_READY) && !is_fatal(701));
    }
}
