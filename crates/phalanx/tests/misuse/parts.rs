//! Buffers of nothing, parts at the end of the address space, counts and columns of something else.
use super::*;
use phalanx::gpu::{Error as DeviceError, Layout, Reach};
use phalanx::primitives::{Bits, Fold, Workspace};
use std::ops::Bound::{Excluded, Unbounded};

#[test]
fn parts_at_the_end_of_the_address_space() {
    let mut words = emulator().from_slice(&[1u32, 2, 3]).unwrap();
    refuses!(words.slice(..=usize::MAX), DeviceError::SliceRange { len: 3, .. }, "3 elements");
    refuses!(words.slice((Excluded(usize::MAX), Unbounded)), DeviceError::SliceRange { len: 3, .. });
    let (start, end) = (2, 1);
    refuses!(words.slice(start..end), DeviceError::SliceRange { len: 3, .. });
    refuses!(words.split_at_mut(4).map(|_| ()), DeviceError::SliceRange { len: 3, .. });
    let copy = words.device().from_slice(&[4u32, 5]).unwrap();
    refuses!(words.copy_at(usize::MAX, &copy), DeviceError::Length { len: 3, .. }, "buffer of 3");
    assert_eq!(words.read().unwrap(), [1, 2, 3]);
}

#[test]
fn buffers_of_elements_without_bytes() {
    let device = emulator();
    let nothing = device.buffer::<()>(usize::MAX).unwrap();
    assert_eq!((nothing.len(), nothing.byte_len()), (usize::MAX, 0));
    assert_eq!(nothing.slice(5..).unwrap().len(), usize::MAX - 5);
    let (mut keys, mut units) =
        (device.from_slice(&[3u32, 1]).unwrap(), device.from_slice(&[(); 2]).unwrap());
    let mut work = Workspace::on_device(&device, 1 << 16).unwrap();
    work.sort_pairs_in_place(&mut keys, &mut units, Bits::ALL).unwrap();
    assert_eq!((keys.read().unwrap(), units.read().unwrap()), (vec![1, 3], vec![(); 2]));
}

#[test]
fn counts_of_another_device() {
    fn check(map: impl Family) {
        let (keys, there) =
            (map.device().from_slice(&[3u32, 4]).unwrap(), emulator().from_slice(&[1u32]).unwrap());
        let stream = map.device().stream().unwrap();
        let batch = map.on(&stream).insert(keys.bounded_by(&there).unwrap(), &keys, None);
        refuses!(batch, Error::OtherDevice { what: "count", .. }, "map.device()");
        is_unchanged(&map);
    }
    each_map!(check);
}

/// A count above the number of elements means all of them.
#[test]
fn counts_that_are_too_large_or_not_one() {
    fn check(map: impl Family) {
        let (device, stream) = (map.device(), map.device().stream().unwrap());
        let (keys, values) =
            (device.from_slice(&[2u32, 1]).unwrap(), device.from_slice(&[20u32, 10]).unwrap());
        for len in [0, 2] {
            let counts = device.zeroed::<u32>(len).unwrap();
            refuses!(keys.bounded_by(&counts).map(|_| ()), DeviceError::Length { .. }, "bounded_by");
        }
        let most = device.from_slice(&[u32::MAX]).unwrap();
        map.on(&stream).insert(keys.bounded_by(&most).unwrap(), &values, None).unwrap();
        let short = values.slice(..1).unwrap();
        let batch = map.on(&stream).insert(keys.bounded_by(&most).unwrap(), short, None);
        refuses!(batch, Error::Length { expected: 2, found: 1, .. }, "values");
        is_unchanged(&map);
    }
    each_map!(check);
}

#[test]
fn columns_of_another_layout() {
    let mut layout = Layout::default();
    let (small, large) = (layout.column::<u64>(4).unwrap(), layout.column::<u64>(1 << 20).unwrap());
    refuses!(layout.column::<u64>(usize::MAX).map(|_| ()), DeviceError::TooLarge { .. }, "address space");
    let mut staging = emulator().staging(64, Reach::Copied).unwrap();
    refuses!(staging.upload(large), DeviceError::Length { .. }, "upload");
    refuses!(staging.read(large).map(|_| ()), DeviceError::Length { .. });
    refuses!(staging.global(large).map(|_| ()), DeviceError::Length { .. });
    staging.host(small).unwrap().fill(7);
    staging.upload(small).unwrap();
}

/// The results of such segments are unspecified, but nothing outside of them changes and nothing ends.
#[test]
fn segments_that_descend_or_are_elsewhere() {
    let device = emulator();
    let mut work = Workspace::on_device(&device, 1 << 20).unwrap();
    let (from, at) =
        (device.from_slice(&[1u32, 2, 3]).unwrap(), device.from_slice(&[2u32, 0, u32::MAX]).unwrap());
    let (mut sums, mut sorted) = (device.filled::<u32>(4, 7).unwrap(), device.filled::<u32>(5, 7).unwrap());
    work.reduce_segments(Fold::Sum, &from, &at, sums.slice_mut(1..3).unwrap()).unwrap();
    work.sort_segments(&from, &at, sorted.slice_mut(1..4).unwrap()).unwrap();
    work.exclusive_scan_segments(Fold::Sum, &from, &at, sorted.slice_mut(1..4).unwrap()).unwrap();
    work.stream().synchronize().unwrap();
    let (sums, sorted) = (sums.read().unwrap(), sorted.read().unwrap());
    assert_eq!([sums[0], sums[3], sorted[0], sorted[4]], [0x0707_0707; 4]);
    assert_eq!(from.read().unwrap(), [1, 2, 3]);
}

#[test]
fn files_that_are_read_twice() {
    fn check<M: Family>(map: M) {
        let mut file = Vec::new();
        map.save(&mut file).unwrap();
        let mut reader = &file[..];
        is_unchanged(&M::load_on(&mut reader, map.device()).unwrap());
        refuses!(M::load_on(&mut reader, map.device()), Error::Format(_), "truncated");
    }
    each_map!(check);
}
