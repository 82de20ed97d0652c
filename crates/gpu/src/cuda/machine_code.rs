//! Machine code of programs: kernels that need no compilation on the devices of one compute capability.
//!
//! It is loaded as a whole when one of its kernels is used for the first time: the driver copies each kernel
//! to the device when that kernel is first launched. A driver that refuses it (because it is older than the
//! assembler) compiles the PTX instead.
use super::driver::{Code, describe, is_fatal};
use super::frame;
use cust::sys;
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

/// Start of the line that lists the kernels, after the line of the header.
const KERNELS: &str = "// machine code ";

/// Variable by which CUDA programs are told to compile all kernels from PTX.
const FORCES_PTX: &str = "CUDA_FORCE_PTX_JIT";

/// Call that loads machine code.
pub const LOAD: &str = "cuModuleLoadData";

/// Machine code of a program for the devices of one architecture.
#[derive(Debug)]
pub struct MachineCode {
    arch: u32,
    /// Names of the kernels, and sizes of their argument structs in bytes: `name:24`.
    kernels: &'static str,
    frame: &'static [u8],
    /// The loaded module; `None` after the driver has refused the code.
    module: Mutex<Option<Option<Module>>>,
}

/// A module of the driver.
#[derive(Debug, Clone, Copy)]
struct Module(sys::CUmodule);

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Module {}

impl MachineCode {
    /// Reads the list of kernels, if `file` is packed machine code.
    pub fn new(arch: u32, file: &'static [u8]) -> Option<Self> {
        let (kernels, frame) = frame::split(file, KERNELS)?;
        Some(Self { arch, kernels, frame, module: Mutex::default() })
    }

    /// Returns the size of a kernel's argument struct in bytes, if this is code of it for devices of `arch`.
    pub fn arguments(&self, symbol: &str, arch: u32) -> Option<usize> {
        let mut kernels = self.kernels.split(' ').filter(|_| self.arch == arch);
        kernels.find_map(|kernel| kernel.strip_prefix(symbol)?.strip_prefix(':')?.parse().ok())
    }

    /// Returns the module, which is loaded on first use, or `None` if the driver refuses it or is told to use
    /// PTX. The context must be current, and is the same in all calls.
    ///
    /// # Errors
    /// The code of [`LOAD`], if the context is lost.
    pub fn module(&self) -> Result<Option<sys::CUmodule>, Code> {
        let mut module = self.module.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = *module {
            return Ok(module.map(|Module(module)| module));
        }
        let loaded = if forces_ptx() { None } else { self.load()? };
        Ok(module.insert(loaded).map(|Module(module)| module))
    }

    fn load(&self) -> Result<Option<Module>, Code> {
        let image = match frame::unpacked(self.frame) {
            Ok(image) => image,
            Err(cause) => {
                tracing::warn!(cause, "machine code is damaged; the PTX is used instead");
                return Ok(None);
            }
        };
        let mut module = null_mut();
        // SAFETY: the image is a cubin: its header says its size.
        let code = unsafe { sys::cuModuleLoadData(&mut module, image.as_ptr().cast()) } as Code;
        match code {
            0 => Ok(Some(Module(module))),
            code if is_fatal(code) => Err(code),
            code => {
                tracing::debug!(cause = describe(code), "the driver refused machine code");
                Ok(None)
            }
        }
    }

    /// Takes the module, if it was loaded, for the caller to unload it.
    pub fn take_module(&self) -> Option<sys::CUmodule> {
        let mut module = self.module.lock().unwrap_or_else(PoisonError::into_inner);
        module.take().flatten().map(|Module(module)| module)
    }
}

/// Returns whether the environment asks for PTX: any value but 0.
fn forces_ptx() -> bool {
    std::env::var_os(FORCES_PTX).is_some_and(|value| !value.is_empty() && value != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKED: &[u8] =
        b"// header\n// machine code one:8 one__two:24\n\x28\xb5\x2f\xfd\x20\x01\x09\x00\x00x";

    #[test]
    fn kernels_are_found_by_name_and_architecture() {
        let code = MachineCode::new(90, PACKED).unwrap();
        assert_eq!(code.arguments("one", 90), Some(8));
        assert_eq!(code.arguments("one__two", 90), Some(24));
        assert_eq!(
            (code.arguments("on", 90), code.arguments("one", 86), code.arguments("two", 90)),
            (None, None, None)
        );
    }

    #[test]
    fn other_files_are_no_machine_code() {
        for file in [
            &b""[..],
            b"// header\n// entries one\n\x28\xb5\x2f\xfd",
            b"// header\n// machine code one:8\nELF",
        ] {
            assert!(MachineCode::new(90, file).is_none(), "{file:?}");
        }
    }
}
