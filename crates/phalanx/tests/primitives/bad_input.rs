//! What does not fit together is an error that says what to do, and does nothing.
use super::device;
use phalanx::primitives::{Bits, Fold, Test, Workspace, scan_bytes, sort_bytes};
use phalanx::{Device, Error};

#[test]
fn workspaces_that_are_too_small_do_not_grow() {
    let device = device();
    let mut keys = device.from_slice(&[3u32, 1, 2]).unwrap();
    let needed = sort_bytes::<u32, ()>(3);
    let mut work = Workspace::on_device(&device, needed - 256).unwrap();
    let error = work.sort_keys_in_place(&mut keys, Bits::ALL).unwrap_err();
    assert!(matches!(error, Error::Workspace { needed: n, .. } if n == needed), "{error}");
    assert_eq!((keys.read().unwrap(), work.bytes()), (vec![3, 1, 2], needed - 256));
    work.reserve(needed).unwrap();
    work.sort_keys_in_place(&mut keys, Bits::ALL).unwrap();
    assert_eq!(keys.read().unwrap(), [1, 2, 3]);
}

#[test]
fn lengths_that_differ_are_refused() {
    let device = device();
    let mut work = Workspace::on_device(&device, 1 << 16).unwrap();
    let (three, two) = (device.zeroed::<u32>(3).unwrap(), device.zeroed::<u32>(2).unwrap());
    let (mut to, mut count) = (device.zeroed::<u32>(2).unwrap(), device.zeroed::<u32>(1).unwrap());
    let flags = device.zeroed::<u8>(4).unwrap();
    let refusals = [
        work.sort_keys(&three, &mut to, Bits::ALL),
        work.exclusive_scan(Fold::Sum, &three, &mut to),
        work.offsets(&two, &mut to),
        work.reduce(Fold::Sum, &three, &mut to),
        work.compact(&two, Test::Flagged(&flags), &mut to, &mut count),
        work.merge_keys(&three, &two, &mut to),
        work.unique(&three, &mut to, &mut count),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, Err(Error::Length { .. })), "{refusal:?}");
    }
}

#[test]
fn bits_that_keys_do_not_have_are_refused() {
    let device = device();
    let mut work = Workspace::on_device(&device, 1 << 16).unwrap();
    let mut keys = device.zeroed::<u32>(2).unwrap();
    for (first, end) in [(0, 33), (9, 8), (33, 33)] {
        let error = work.sort_keys_in_place(&mut keys, Bits::new(first, end)).unwrap_err();
        assert!(matches!(error, Error::Bits { bits: 32, .. }), "{error}");
    }
    let mut bins = device.zeroed::<u32>(2).unwrap();
    assert!(matches!(work.histogram(&keys, 32, &mut bins), Err(Error::Bits { .. })));
}

#[test]
fn buffers_of_other_devices_are_refused() {
    let (device, other) = (device(), Device::emulator(Default::default()));
    let mut work = Workspace::on_device(&device, scan_bytes::<u32>(2)).unwrap();
    let (here, mut there) = (device.zeroed::<u32>(2).unwrap(), other.zeroed::<u32>(2).unwrap());
    let error = work.inclusive_scan(Fold::Sum, &here, &mut there).unwrap_err();
    assert!(matches!(error, Error::Elsewhere { .. }), "{error}");
    let error = work.sort_keys_in_place(&mut there, Bits::ALL).unwrap_err();
    assert!(matches!(error, Error::Elsewhere { .. }), "{error}");
}

#[test]
fn tiles_that_there_are_not_are_named_with_those_there_are() {
    let device = device();
    let mut work = Workspace::on_device(&device, 1 << 16).unwrap();
    work.set_tile(Some("7x7"));
    let mut keys = device.zeroed::<u32>(2).unwrap();
    let error = work.sort_keys_in_place(&mut keys, Bits::ALL).unwrap_err().to_string();
    assert!(error.contains("`7x7`") && error.contains("384x21"), "{error}");
    let error = work.scan_in_place(Fold::Min, &mut keys, false).unwrap_err().to_string();
    assert!(error.contains("512x16"), "{error}");
}
