//! The PTX of the structures' kernels.
use gpu::Program;

/// Kernels of this package's structures. Structures register it with their device themselves. A program that
/// launches kernels of `phalanx-kernels` itself must register it with [`gpu::Device::add_program`].
pub static PROGRAM: Program = Program { name: "phalanx-kernels", ptx: TEXTS };

#[cfg(feature = "cuda")]
const TEXTS: &[(u32, &str)] =
    &[(80, include_str!(env!("PHALANX_PTX_SM_80"))), (90, include_str!(env!("PHALANX_PTX_SM_90")))];

#[cfg(not(feature = "cuda"))]
const TEXTS: &[(u32, &str)] = &[];
