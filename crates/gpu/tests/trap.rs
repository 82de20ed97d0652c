//! A kernel that fails. It runs in a separate process, since a CUDA device is lost afterwards.

#[path = "suite/devices.rs"]
mod devices;
#[path = "suite/fake.rs"]
#[cfg(feature = "cuda")]
mod fake;
#[path = "suite/kernels.rs"]
#[allow(dead_code)]
mod kernels;

use gpu::{Device, Error, Grid, Result};
use kernels::Fail;

fn launch_failing(device: &Device) -> Result<()> {
    let out = device.zeroed::<u32>(8)?;
    let stream = device.stream()?;
    // SAFETY: the kernel ends at its first access, which is bounds-checked.
    unsafe { stream.launch(Grid::new(2, 32), Fail { out: out.global() }) }?;
    stream.synchronize()
}

#[test]
fn the_emulator_names_the_launch_and_goes_on() {
    let device = devices::emulator().unwrap();
    let error = launch_failing(&device).unwrap_err();
    assert!(matches!(error, Error::Emulator { .. }), "{error}");
    assert!(error.to_string().contains("kernel `fail` on 2 blocks of 32 threads"), "{error}");
    assert_eq!(device.from_slice(&[1u32]).unwrap().read().unwrap(), [1]);
}

#[test]
fn a_cuda_device_is_lost_and_says_so() {
    let Some(device) = devices::cuda() else { return };
    let before = device.from_slice(&[1u32]).unwrap();
    let error = launch_failing(&device).unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    devices::expect_parts(&error, &["kernel `fail` on 2 blocks of 32 threads", "Device::emulator"]);
    for error in [before.read().unwrap_err(), device.synchronize().unwrap_err(), device.stream().unwrap_err()]
    {
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    }
    drop(before);
    drop(device);
}

#[test]
#[cfg(feature = "cuda")]
fn the_cuda_back_end_says_so_over_our_driver() {
    fake::run_over_our_driver(&["a_cuda_device_is_lost"], &[]);
}
