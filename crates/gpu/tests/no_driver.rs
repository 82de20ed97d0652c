//! Without a driver, everything else works. One test per process, since it changes the environment.
use gpu::{DEVICE_VARIABLE, Device, Error};

#[test]
fn without_a_driver_there_is_the_emulator() {
    // SAFETY: the only test of this process, before anything else reads the environment.
    unsafe {
        std::env::set_var("PHALANX_LIBCUDA", "/nonexistent/libcuda.so.1");
        std::env::remove_var(DEVICE_VARIABLE);
    }
    for error in [Device::cuda(0).unwrap_err(), Device::named("cuda:3").unwrap_err()] {
        if cfg!(feature = "cuda") {
            assert!(matches!(error, Error::NoDriver { .. }), "{error}");
            assert!(error.to_string().contains("/nonexistent/libcuda.so.1"), "{error}");
        } else {
            assert!(matches!(error, Error::NotBuiltIn), "{error}");
        }
        assert!(error.to_string().contains("Device::emulator"), "it says what to do: {error}");
    }
    assert!(Device::auto().is_emulator());
    for name in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "emulator:1", "auto:1", "CUDA"] {
        let error = Device::named(name).unwrap_err();
        assert!(matches!(&error, Error::BadDeviceName { text } if text == name), "{error}");
    }
    assert!(Device::named("emulator").unwrap().is_emulator());
    for (value, works) in [("emulator", true), ("auto", true), ("cuda", false), ("nonsense", false)] {
        // SAFETY: as above.
        unsafe { std::env::set_var(DEVICE_VARIABLE, value) };
        assert_eq!(Device::from_environment().is_ok(), works, "{value}");
        assert!(Device::auto().is_emulator(), "{value}");
    }
}
