//! Bad input is an error.
use crate::model::{device, emulator, small};
use phalanx::tiered_skip_list::Placement;
use phalanx::{Error, TieredSkipList};

/// Checks that a call fails with an error of this pattern.
macro_rules! fails {
    ($call:expr, $error:pat) => {
        match $call {
            Err($error) => {}
            Err(other) => panic!("another error: {other}"),
            Ok(_) => panic!("no error"),
        }
    };
}

#[test]
fn parameters() {
    let builder = || TieredSkipList::<u32, u32>::builder().device(&device());
    fails!(builder().capacity(0).build(), Error::ZeroCapacity);
    fails!(builder().list_capacity(0).build(), Error::ZeroCapacity);
    fails!(builder().list_capacity(usize::MAX).build(), Error::TooLarge { .. });
    fails!(builder().list_capacity(usize::MAX).min_budget(), Error::TooLarge { .. });
    fails!(builder().list_capacity(1 << 40).build(), Error::TooLarge { .. });
    fails!(builder().list_capacity(1 << 30).build(), Error::DeviceBudget { .. });
    fails!(builder().budget(0).build(), Error::DeviceBudget { asked: 0, .. });
    fails!(builder().variant("none").build(), Error::UnknownVariant { .. });
    fails!(builder().capacity(1 << 40).placement(Placement::Remote).build(), Error::TooLarge { .. });
}

/// A capacity that exceeds the host's memory is refused before the first image is allocated.
#[test]
fn more_than_the_hosts_memory() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    let builder = TieredSkipList::<u32, u32>::builder().device(&device);
    for builder in [builder.clone().capacity(1 << 40), builder.list_capacity(1).capacity(usize::MAX)] {
        handle.fail_allocations_after(1);
        let Err(Error::Device(gpu::Error::OutOfMemory { tier, bytes, free, total })) = builder.build() else {
            panic!("20 TiB of host memory")
        };
        assert!(tier == gpu::Tier::Pinned && bytes > 16 << 40 && free <= total, "{bytes}");
        assert_eq!(handle.fail_allocations_after(u64::MAX), 1, "nothing was allocated");
    }
}

#[test]
fn lengths() {
    let list = small::<u32, u32>(&device()).build().unwrap();
    fails!(list.insert(&[1, 2], &[1]), Error::Length { what: "values", expected: 2, found: 1 });
    fails!(list.replace(&[1], &[]), Error::Length { .. });
    fails!(list.get_or_insert(&[1], &[]), Error::Length { .. });
    fails!(list.get_into(&[1], &mut [], &mut [false]), Error::Length { what: "values", .. });
    fails!(list.get_into(&[1], &mut [0], &mut []), Error::Length { what: "found", .. });
    fails!(list.contains_into(&[1], &mut []), Error::Length { what: "found", .. });
    fails!(list.insert_into(&[1], &[1], &mut []), Error::Length { what: "outcomes", .. });
    assert!(list.is_empty());
}

#[test]
#[allow(clippy::reversed_empty_ranges, clippy::single_range_in_vec_init)] // they are the bad input
fn ranges() {
    let list = small::<u32, u32>(&device()).build().unwrap();
    assert!(list.insert(&[1, 2], &[1, 2]).unwrap().all_placed());
    fails!(list.range(&[5..3]), Error::Range { .. });
    fails!(list.count(&[0..1, 5..3]), Error::Range { .. });
    assert_eq!(list.range(&[1..1, 1..2]).unwrap(), [vec![], vec![(1, 1)]]);
}
