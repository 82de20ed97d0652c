//! Devices that the environment variable names wrongly, or that are not available. The process has no other
//! test, because this one changes the environment.
use gpu::{DEVICE_VARIABLE, Error as DeviceError};
use phalanx::{
    BTree, Error, HashMap, MultiVersionBTree, Result, SkipList, SlabAlloc, SlabHash, SlabMultiMap, SlabSet,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Creates a structure of each family on the device that the environment names.
fn make_each() -> [Result<()>; 8] {
    [
        HashMap::<u32, u32>::with_capacity(10).map(drop),
        SlabAlloc::builder().super_block_slabs(32).build().map(drop),
        SlabHash::<u32, u32>::with_capacity(10).map(drop),
        SlabSet::<u32>::with_capacity(10).map(drop),
        SlabMultiMap::<u32, u32>::with_capacity(10).map(drop),
        BTree::<u32, u32>::with_capacity(10).map(drop),
        MultiVersionBTree::<u32, u32>::with_capacity(10).map(drop),
        SkipList::<u32, u32>::with_capacity(10).map(drop),
    ]
}

#[test]
fn no_structure_is_made_elsewhere_than_asked() {
    let make = |value: &OsStr| {
        // SAFETY: this is the only test of the process, and no other thread reads the environment.
        unsafe { std::env::set_var(DEVICE_VARIABLE, value) };
        make_each().into_iter().enumerate()
    };
    for value in ["emulator", "auto", "emulator:0"] {
        make(value.as_ref()).for_each(|(index, made)| assert!(made.is_ok(), "{value}, {index}: {made:?}"));
    }
    for (index, made) in make("cuda:99".as_ref()) {
        assert!(matches!(made, Err(Error::Device(_))), "structure {index}: {made:?}");
    }
    let names =
        ["", "gpu", "CUDA", " emulator", "emulator:1", "auto:0:0", "cuda:-1", "cuda:4294967296", "cuda:"];
    for value in names.map(OsStr::new).into_iter().chain([OsStr::from_bytes(b"emulator\xff")]) {
        for (index, made) in make(value) {
            let error = made.unwrap_err();
            assert!(matches!(error, Error::Device(DeviceError::BadDeviceName { .. })), "{index}: {error}");
            assert!(error.to_string().contains(&*value.to_string_lossy()), "{index}: {error}");
        }
    }
}
