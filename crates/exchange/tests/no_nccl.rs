//! Without NCCL, its exchange is an error that says what to do. One test per process, since it changes the
//! environment.
#![cfg(target_os = "linux")]
use exchange::{Error, Exchange, Limits, nccl_id};

#[test]
fn without_nccl_its_exchange_is_an_error() {
    // SAFETY: the only test of this process, before anything else reads the environment.
    unsafe { std::env::set_var("PHALANX_LIBNCCL", "/nonexistent/libnccl.so.2") };
    let device = gpu::Device::emulator(Default::default());
    let id = exchange::NcclId::from_bytes([0; 128]);
    let made = Exchange::nccl(&id, (0, 1), &device, Limits::default()).map(drop);
    for error in [nccl_id().map(drop).unwrap_err(), made.unwrap_err()] {
        assert!(matches!(error, Error::NoNccl(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains("/nonexistent/libnccl.so.2") && text.contains("PHALANX_LIBNCCL"), "{text}");
    }
}
