//! Common parts of the tests: devices, and replayable seeds.
#![allow(dead_code, unused_imports, unused_macros)] // each test uses some of these
#[cfg(feature = "cuda")]
use gpu::Device;
pub use phalanx_testing::common::*;
use ptx_builder::{Arch, Ptx, PtxBuilder};

/// Returns the first CUDA device. Without one the test is skipped, or fails if `PHALANX_REQUIRE_CUDA` is set.
#[cfg(feature = "cuda")]
pub fn cuda() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(error) => {
            assert!(std::env::var_os("PHALANX_REQUIRE_CUDA").is_none(), "a CUDA device is required: {error}");
            println!("skipped: no CUDA device ({error})");
            None
        }
    }
}

/// Returns the PTX of the test kernels (`device-crate`): built here, or taken from a bundle on machines
/// without sources or compiler.
pub fn test_kernels(arch: Arch) -> Ptx {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/device-crate");
    let ptx = match std::env::var_os("PHALANX_BUNDLE") {
        Some(bundle) => {
            let name = format!("test-ptx/phalanx-test-kernels.{arch}.ptx");
            Ptx::read(&std::path::Path::new(&bundle).join(name))
        }
        None => PtxBuilder::new(folder).arch(arch).build(),
    };
    ptx.unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the CUDA device with the test kernels added.
#[cfg(feature = "cuda")]
pub fn cuda_with_test_kernels() -> Option<Device> {
    static PROGRAM: std::sync::OnceLock<gpu::Program> = std::sync::OnceLock::new();
    let device = cuda()?;
    let program = PROGRAM.get_or_init(|| {
        let text = test_kernels(Arch::Sm80).text().as_bytes().to_owned().leak();
        gpu::Program { name: "phalanx-test-kernels", ptx: vec![(80, &*text)].leak() }
    });
    device.add_program(program);
    Some(device)
}

/// Declares a test for each case of each module, on the named device.
macro_rules! cases_on {
    ($device:ident: $($module:ident { $($case:ident)* })*) => {
        mod $device {
            $($(
                #[test]
                fn $case() {
                    if let Some(device) = crate::common::$device() {
                        crate::$module::$case(&device);
                    }
                }
            )*)*
        }
    };
}
#[allow(unused_imports)] // as above
pub(crate) use cases_on;
