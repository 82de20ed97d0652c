//! The devices on which the suite runs.
use gpu::{Device, Error, Program};
use simt::emulator::Options;

/// The compiled kernels of the suite.
pub static PROGRAM: Program =
    Program { name: env!("CARGO_PKG_NAME"), ptx: &[(80, include_bytes!("kernels.ptx"))] };

/// Checks that a message has these parts.
#[track_caller]
pub fn expect_parts(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

pub fn emulator() -> Option<Device> {
    let device = Device::emulator(Options::default());
    device.add_program(&PROGRAM);
    Some(device)
}

pub fn cuda() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => {
            device.add_program(&PROGRAM);
            Some(device)
        }
        Err(error) => {
            assert!(std::env::var_os("PHALANX_REQUIRE_CUDA").is_none(), "a CUDA device is required: {error}");
            println!("skipped: no CUDA device ({error})");
            None
        }
    }
}
