//! Bad input is rejected with an error that explains the remedy, and the pool stays unchanged.
use crate::common::emulator;
use phalanx::Error;
use phalanx::slab_alloc::{Builder, Light, SlabAlloc, Spread, Stats};
use phalanx_testing::refuses;

fn builder() -> Builder {
    SlabAlloc::builder().device(&emulator().unwrap()).super_block_slabs(64)
}

#[test]
fn parameters_must_make_a_pool() {
    refuses!(builder().capacity(0).build(), Error::ZeroCapacity, "at least 1");
    for bytes in [0, 64, 192, 512, usize::MAX] {
        refuses!(builder().slab_bytes(bytes).build(), Error::SlabBytes(_), "128", "256");
    }
    for slabs in [0, 1, 16, 33, 96, 1 << 25, usize::MAX] {
        refuses!(builder().super_block_slabs(slabs).build(), Error::SuperBlock(_), "power of two");
    }
}

#[test]
fn handles_must_suffice() {
    for slabs in [255 * 64 + 1, 1 << 40, usize::MAX] {
        refuses!(
            builder().capacity(slabs).build(),
            Error::TooManySlabs { .. },
            "16320",
            "larger super blocks"
        );
    }
    refuses!(builder().light(true).capacity(1 << 32).build(), Error::TooManySlabs { .. }, "4294967232");
    let mut pool = builder().capacity(255 * 64).build().unwrap();
    refuses!(pool.grow(1), Error::TooManySlabs { .. }, "larger super blocks");
    refuses!(pool.grow(usize::MAX), Error::TooManySlabs { .. }, "larger super blocks");
    assert_eq!(pool.allocate(1).unwrap().len(), 1);
}

#[test]
fn the_budget_is_kept() {
    let budget = 3 * 64 * 128;
    refuses!(builder().budget(budget).capacity(193).build(), Error::Budget { .. }, "24576", "32768", "raise");
    for light in [false, true] {
        let mut pool = builder().budget(budget).light(light).build().unwrap();
        let handles = pool.allocate(60).unwrap();
        refuses!(pool.grow(129), Error::Budget { asked: 32768, budget: 24576 }, "free slabs");
        refuses!(pool.grow(0), Error::Zero { what: "slabs" }, "at least 1");
        assert_eq!(pool.stats().unwrap(), Stats { capacity: 64, live: 60, free: 4, ..Stats::default() });
        pool.grow(65).unwrap();
        assert_eq!(pool.allocate(200).unwrap().len(), 192 - 60);
        pool.free(&handles).unwrap();
    }
}

#[test]
fn a_view_is_of_the_pools_kind() {
    let pool = builder().build().unwrap();
    // SAFETY: no kernel uses the views.
    unsafe {
        refuses!(pool.view::<Light<128>>(), Error::OtherPool { .. }, "light_128", "spread_128");
        refuses!(pool.view::<Spread<256>>(), Error::OtherPool { .. }, "spread_256", "spread_128");
        pool.view::<Spread<128>>().unwrap();
    }
}

#[test]
fn empty_batches_do_nothing() {
    let pool = builder().build().unwrap();
    assert_eq!(pool.allocate(0).unwrap(), []);
    pool.free(&[]).unwrap();
    pool.retire(&[]).unwrap();
    assert_eq!(pool.stats().unwrap(), Stats { capacity: 64, free: 64, ..Stats::default() });
    pool.close().unwrap();
}
