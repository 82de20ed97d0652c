//! Without a driver, everything else works. One test per process, since it changes the environment.
#[cfg(feature = "emulator")]
use gpu::emulator::Options;
use gpu::{DEVICE_VARIABLE, Device, Error};

/// Hides the driver, and leaves the choice of the device to the library.
fn hide_driver() {
    // SAFETY: each process has one test, which calls this before anything else reads the environment.
    unsafe {
        std::env::set_var("PHALANX_LIBCUDA", "/nonexistent/libcuda.so.1");
        std::env::remove_var(DEVICE_VARIABLE);
    }
}

#[test]
#[cfg(not(feature = "emulator"))]
fn without_a_driver_and_an_emulator_every_device_is_refused() {
    hide_driver();
    let cause = if cfg!(feature = "cuda") { "/nonexistent/libcuda.so.1" } else { "feature `cuda`" };
    for error in [Device::from_environment().unwrap_err(), Device::named("auto").unwrap_err()] {
        assert!(matches!(error, Error::NoDevice { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("feature `emulator`") && text.contains(cause), "both causes: {text}");
    }
    assert!(matches!(Device::named("emulator").unwrap_err(), Error::NotEmulated));
}

#[test]
#[cfg(feature = "emulator")]
fn without_a_driver_there_is_the_emulator() {
    hide_driver();
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
    let device = Device::from_environment().unwrap();
    for same in [Device::auto(), Device::named("emulator").unwrap(), Device::named("auto").unwrap()] {
        assert_eq!(device, same, "a process has one default device");
    }
    assert_ne!(device, Device::emulator(Options::default()));
    drop(device);
    for name in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "emulator:1", "auto:1", "CUDA"] {
        let error = Device::named(name).unwrap_err();
        assert!(matches!(&error, Error::BadDeviceName { text, from: "" } if text == name), "{error}");
    }
    assert!(Device::named("emulator").unwrap().is_emulator());
    for (value, works) in [("emulator", true), ("auto", true), ("cuda", false), ("nonsense", false)] {
        // SAFETY: as above.
        unsafe { std::env::set_var(DEVICE_VARIABLE, value) };
        assert_eq!(Device::from_environment().is_ok(), works, "{value}");
        assert!(Device::auto().is_emulator(), "{value}");
    }
    use_a_name_that_is_no_text();
}

#[cfg(all(unix, feature = "emulator"))]
fn use_a_name_that_is_no_text() {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: as above.
    unsafe { std::env::set_var(DEVICE_VARIABLE, std::ffi::OsStr::from_bytes(b"emulator\xff")) };
    let error = Device::from_environment().unwrap_err();
    assert!(matches!(&error, Error::BadDeviceName { .. }), "{error}");
    assert!(error.to_string().starts_with("PHALANX_DEVICE=`"), "{error}");
}

#[cfg(all(not(unix), feature = "emulator"))]
fn use_a_name_that_is_no_text() {}
