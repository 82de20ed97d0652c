//! The PTX of the structures' kernels.
use crate::Result;
use gpu::{Device, Program};

/// Kernels of this package's structures. Structures register it with their device themselves. A program that
/// launches kernels of `phalanx-kernels` itself must register it with [`gpu::Device::add_program`].
pub static PROGRAM: Program = Program { name: "phalanx-kernels", ptx: TEXTS };

#[cfg(feature = "cuda")]
const TEXTS: &[(u32, &str)] =
    &[(80, include_str!(env!("PHALANX_PTX_SM_80"))), (90, include_str!(env!("PHALANX_PTX_SM_90")))];

#[cfg(not(feature = "cuda"))]
const TEXTS: &[(u32, &str)] = &[];

/// Returns the device that a builder names or, without a name, that of the environment, with this package's
/// kernels registered.
pub(crate) fn open(device: Option<&Device>) -> Result<Device> {
    let device = device.cloned().map_or_else(Device::from_environment, Ok)?;
    device.add_program(&PROGRAM);
    Ok(device)
}
