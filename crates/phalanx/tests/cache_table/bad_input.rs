//! Wrong arguments are errors.
use crate::model::Table;
use phalanx::{CacheTable, Device, Error, emulator};

/// Checks that a call fails with an error of this pattern.
macro_rules! fails {
    ($call:expr, $pattern:pat) => {
        let result = $call;
        assert!(matches!(result, Err($pattern)), "{:?}", result.err());
    };
}

#[test]
fn impossible_shapes_are_errors() {
    fails!(Table::builder().capacity(0).build(), Error::ZeroCapacity);
    fails!(Table::builder().capacity(usize::MAX).build(), Error::TooLarge { .. });
    fails!(Table::builder().dim(0).build(), Error::RowBytes { dim: 0, .. });
    fails!(Table::builder().dim(1025).build(), Error::RowBytes { dim: 1025, element: 4 });
    fails!(Table::builder().dim(usize::MAX).build(), Error::RowBytes { .. });
    fails!(CacheTable::<u64, u8>::builder().dim(3).build(), Error::RowBytes { dim: 3, element: 1 });
    for share in [1.1, 1.003, -0.1, -0.003, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        fails!(Table::builder().rows_on_device(share).build(), Error::Share);
    }
    assert!([-0.0, 0.0, 1.0].iter().all(|share| Table::builder().rows_on_device(*share).build().is_ok()));
    fails!(Table::builder().variant("none").build(), Error::UnknownVariant { .. });
    assert!(CacheTable::<u64, u8>::builder().dim(4096).build().is_ok());
}

#[test]
fn lengths_that_differ_are_errors() {
    let table = Table::builder().capacity(100).dim(3).build().unwrap();
    fails!(table.insert(&[1, 2], &[1; 5]), Error::Length { what: "rows", expected: 6, found: 5 });
    fails!(table.insert_scored(&[1], &[1; 3], &[]), Error::Length { what: "scores", expected: 1, found: 0 });
    fails!(table.assign(&[1], &[1; 4]), Error::Length { what: "rows", .. });
    fails!(table.accumulate(&[1], &[]), Error::Length { what: "rows", .. });
    fails!(table.get_or_insert(&[], &[1]), Error::Length { what: "rows", expected: 0, found: 1 });
    fails!(table.assign_scores(&[1], &[1, 2]), Error::Length { what: "scores", .. });
    assert!(table.is_empty().unwrap());
}

#[test]
fn outputs_that_are_too_small_are_errors() {
    let table = Table::builder().capacity(100).build().unwrap();
    let (device, stream) = (table.device(), table.device().stream().unwrap());
    let (keys, rows) = (device.from_slice(&[1u64, 2]).unwrap(), device.from_slice(&[1u32, 2]).unwrap());
    let mut small = (device.zeroed::<u64>(1).unwrap(), device.zeroed::<u32>(2).unwrap());
    let (mut scores, mut count) = (device.zeroed::<u64>(2).unwrap(), device.zeroed::<u32>(1).unwrap());
    let evicted = phalanx::cache_table::EvictedBuffers {
        keys: (&mut small.0).into(),
        rows: (&mut small.1).into(),
        scores: (&mut scores).into(),
        count: (&mut count).into(),
    };
    let result = table.on(&stream).insert_evict(&keys, &rows, evicted, None);
    assert!(
        matches!(result, Err(Error::Length { what: "evicted keys", expected: 2, found: 1 })),
        "{result:?}"
    );
    let mut outcomes = device.zeroed::<u8>(1).unwrap();
    fails!(table.on(&stream).contains_key(&keys, &mut outcomes), Error::Length { what: "outcomes", .. });
    assert!(table.is_empty().unwrap());
}

#[test]
fn foreign_devices_are_errors() {
    let table = Table::builder().capacity(100).build().unwrap();
    let other = Device::emulator(emulator::Options::default());
    let (keys, rows) = (other.from_slice(&[1u64]).unwrap(), other.from_slice(&[1u32]).unwrap());
    let (stream, foreign) = (table.device().stream().unwrap(), other.stream().unwrap());
    fails!(table.on(&stream).insert(&keys, &rows, None), Error::OtherDevice { what: "keys", .. });
    let own = (table.device().from_slice(&[1u64]).unwrap(), table.device().from_slice(&[1u32]).unwrap());
    fails!(table.on(&stream).insert(&own.0, &rows, None), Error::OtherDevice { what: "rows", .. });
    fails!(table.on(&foreign).insert(&own.0, &own.1, None), Error::OtherDevice { what: "stream", .. });
}

#[test]
fn rows_between_words_are_errors() {
    let table = CacheTable::<u64, u8>::builder().capacity(100).dim(4).build().unwrap();
    let (device, stream) = (table.device(), table.device().stream().unwrap());
    let (keys, rows) = (device.from_slice(&[1u64]).unwrap(), device.zeroed::<u8>(6).unwrap());
    let shifted = rows.slice(1..5).unwrap();
    fails!(table.on(&stream).insert(&keys, shifted, None), Error::Misaligned { what: "rows" });
}

#[test]
fn an_epoch_that_goes_backwards_is_an_error() {
    let table = Table::builder().capacity(100).build().unwrap();
    table.set_epoch(5).unwrap();
    table.set_epoch(5).unwrap();
    fails!(table.set_epoch(4), Error::Epoch { asked: 4, current: 5 });
}

#[test]
fn empty_batches_do_nothing() {
    let table = Table::builder().capacity(100).build().unwrap();
    assert!(table.get(&[]).unwrap().is_empty());
    assert!(table.insert(&[], &[]).unwrap().is_empty());
    assert!(table.remove(&[]).unwrap().is_empty());
    assert!(table.insert_evict(&[], &[]).unwrap().1.keys.is_empty());
    assert!(table.export(..).unwrap().keys.is_empty());
}
