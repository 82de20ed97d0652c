//! Bad input is an error.
use crate::model::{device, emulator, small};
use phalanx::tiered_map::Placement;
use phalanx::{Error, TieredMap};

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
    let builder = || TieredMap::<u32, u32>::builder().device(&device());
    fails!(builder().capacity(0).build(), Error::ZeroCapacity);
    fails!(builder().capacity(usize::MAX).build(), Error::TooLarge { .. });
    for load_factor in [0.0, -1.0, 1.1, f64::NAN] {
        fails!(builder().load_factor(load_factor).build(), Error::LoadFactor(_));
    }
    for shards in [0, 3, usize::MAX, 1 << 21] {
        fails!(builder().shards(shards).build(), Error::Shards { .. });
    }
    fails!(builder().budget(0).build(), Error::DeviceBudget { asked: 0, .. });
    fails!(builder().variant("none").build(), Error::UnknownVariant { .. });
    fails!(builder().capacity(1 << 40).placement(Placement::Remote).build(), Error::TooLarge { .. });
}

/// Shards that exceed the host's memory as a whole are refused before the first one is allocated.
#[test]
fn more_than_the_hosts_memory() {
    let device = emulator();
    let handle = device.emulator_handle().unwrap();
    let builder = TieredMap::<u32, u32>::builder().device(&device);
    for builder in [builder.clone().capacity(1 << 40), builder.load_factor(1e-10)] {
        handle.fail_allocations_after(1);
        let Err(Error::Device(gpu::Error::OutOfMemory { tier, bytes, free, total })) = builder.build() else {
            panic!("8 TiB of host memory")
        };
        assert!(tier == gpu::Tier::Pinned && bytes > 8 << 40 && free <= total, "{bytes}");
        assert_eq!(handle.fail_allocations_after(u64::MAX), 1, "nothing was allocated");
    }
}

#[test]
fn lengths() {
    let map = small::<u32, u32>(&device()).build().unwrap();
    fails!(map.insert(&[1, 2], &[1]), Error::Length { what: "values", expected: 2, found: 1 });
    fails!(map.replace(&[1], &[]), Error::Length { .. });
    fails!(map.get_or_insert(&[1], &[]), Error::Length { .. });
    fails!(map.get_into(&[1], &mut [], &mut [false]), Error::Length { what: "values", .. });
    fails!(map.get_into(&[1], &mut [0], &mut []), Error::Length { what: "found", .. });
    fails!(map.contains_into(&[1], &mut []), Error::Length { what: "found", .. });
    assert!(map.is_empty());
}
