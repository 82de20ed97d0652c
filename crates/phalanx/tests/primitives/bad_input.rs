//! Inconsistent inputs are rejected with an error that explains the remedy, and nothing is executed.
use super::device;
use phalanx::primitives::{
    Bits, Fold, Test, Workspace, reduce_segments_bytes, scan_bytes, scan_segments_bytes, sort_bytes,
    sort_segments_bytes,
};
use phalanx::{Device, Error};

#[test]
fn workspaces_that_are_too_small_do_not_grow() {
    let device = device();
    let mut keys = device.from_slice(&[3u32, 1, 2]).unwrap();
    let needed = sort_bytes::<u32, ()>(3);
    let mut work = Workspace::on_device(&device, needed - 256).unwrap();
    let error = work.sort_keys_in_place(&mut keys, Bits::ALL).unwrap_err();
    assert!(matches!(error, Error::Workspace { needed: n, .. } if n == needed), "{error}");
    assert_eq!((keys.read().unwrap(), work.memory_usage()), (vec![3, 1, 2], needed - 256));
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
        work.compact(&two, Test::Flagged((&flags).into()), &mut to, &mut count),
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
    assert!(error.contains("128x24_nap"), "{error}");
}

#[test]
fn segments_that_do_not_fit_are_refused() {
    let (device, other) = (device(), Device::emulator(Default::default()));
    let mut work = Workspace::on_device(&device, 1 << 20).unwrap();
    let (none, at) = (device.zeroed::<u32>(0).unwrap(), device.from_slice(&[0u32, 1, 3]).unwrap());
    let there = other.zeroed::<u32>(3).unwrap();
    let (mut three, mut two) = (device.zeroed::<u32>(3).unwrap(), device.zeroed::<u32>(2).unwrap());
    let from = device.zeroed::<u32>(3).unwrap();
    let refusals = [
        work.reduce_segments(Fold::Sum, &from, &none, &mut two),
        work.reduce_segments(Fold::Sum, &from, &at, &mut three),
        work.exclusive_scan_segments(Fold::Sum, &from, &none, &mut three),
        work.inclusive_scan_segments(Fold::Sum, &from, &at, &mut two),
        work.scan_segments_in_place(Fold::Sum, &mut three, &none, true),
        work.sort_segments(&from, &at, &mut two),
        work.sort_segments_in_place(&mut three, &none),
        work.sort_segment_pairs_in_place((&mut three, &mut two), &at),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, Err(Error::Length { .. })), "{refusal:?}");
    }
    let elsewhere = [
        work.reduce_segments(Fold::Sum, &there, &at, &mut two),
        work.exclusive_scan_segments(Fold::Sum, &from, &there, &mut three),
        work.sort_segments_in_place(&mut three, &there),
    ];
    for refusal in elsewhere {
        assert!(matches!(refusal, Err(Error::Elsewhere { .. })), "{refusal:?}");
    }
    work.set_tile(Some("7x7"));
    let error = work.sort_segments_in_place(&mut three, &at).unwrap_err().to_string();
    assert!(error.contains("384x8"), "{error}");
    let error = work.reduce_segments(Fold::Max, &from, &at, &mut two).unwrap_err().to_string();
    assert!(error.contains("256x16"), "{error}");
}

#[test]
fn segments_need_what_they_say() {
    let device = device();
    let (at, from) = (device.from_slice(&[0u32, 1, 5000]).unwrap(), device.zeroed::<u64>(5000).unwrap());
    let (mut keys, mut values) = (device.zeroed::<u64>(5000).unwrap(), device.zeroed::<u8>(5000).unwrap());
    let mut sums = device.zeroed::<u64>(2).unwrap();
    let needs = [
        reduce_segments_bytes::<u64>(5000, 2),
        scan_segments_bytes::<u64>(5000),
        sort_segments_bytes::<u64, u8>(5000, 2),
    ];
    for (call, needed) in needs.into_iter().enumerate() {
        let mut ask = |bytes: usize| {
            let mut work = Workspace::on_device(&device, bytes).unwrap();
            match call {
                0 => work.reduce_segments(Fold::Sum, &from, &at, &mut sums),
                1 => work.scan_segments_in_place(Fold::Sum, &mut keys, &at, true),
                _ => work.sort_segment_pairs_in_place((&mut keys, &mut values), &at),
            }
        };
        let error = ask(needed - 256).unwrap_err();
        assert!(matches!(error, Error::Workspace { needed: n, .. } if n == needed), "{error}");
        ask(needed).unwrap();
    }
}
