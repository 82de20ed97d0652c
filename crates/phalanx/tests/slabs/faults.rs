//! Frees of slabs that are not live, and slabs that are never freed.
use crate::common::emulator;
use crate::kinds;
use phalanx::Error;
use phalanx::slab_alloc::{Handle, SlabAlloc, Stats};
use simt::emulator::FailureKind;

fn pool() -> SlabAlloc {
    kinds(&emulator().unwrap(), 64).remove(0).build().unwrap()
}

/// Returns the message of the fault, and the kernel's source location.
fn fault(result: phalanx::Result<()>) -> (&'static str, String) {
    let Err(Error::Device(gpu::Error::Emulator { failure, .. })) = result else { panic!("{result:?}") };
    let FailureKind::Fault(said) = &failure.kind else { panic!("{failure}") };
    let line = failure.location.as_ref().expect("a line").to_string();
    (*said, line)
}

fn is_told(result: phalanx::Result<()>, words: &str) {
    let (said, line) = fault(result);
    assert!(said.contains(words), "`{said}` does not say `{words}`");
    assert!(line.contains("kernels.rs"), "{line}");
}

#[test]
fn double_frees_are_told_and_change_nothing() {
    let pool = pool();
    let handles = pool.allocate(40).unwrap();
    pool.free(&handles[..1]).unwrap();
    is_told(pool.free(&handles[..1]), "not live");
    let lone = pool.device().from_slice(&[handles[0].to_word()]).unwrap();
    is_told(pool.on(&pool.device().default_stream()).free_lone(&lone), "not live");
    assert_eq!(pool.stats().unwrap(), Stats { capacity: 64, live: 39, free: 25, retired: 0, faults: 2 });
}

#[test]
fn a_slab_named_twice_in_a_batch_is_a_double_free() {
    for twins in [[0, 1], [3, 4], [0, 39], [38, 39]] {
        let pool = pool();
        let mut handles = pool.allocate(40).unwrap();
        handles[twins[0]] = handles[twins[1]];
        is_told(pool.free(&handles), "not live");
        assert_eq!(pool.stats().unwrap().faults, 1);
    }
}

#[test]
fn handles_that_the_pool_does_not_have_are_told() {
    let device = emulator().unwrap();
    for builder in kinds(&device, 64) {
        let pool = builder.capacity(128).build().unwrap();
        let foreign = [64 << 1, 2 << 24, 64, 255 << 24, u32::MAX];
        let light = pool.kind().starts_with("light");
        for word in foreign.into_iter().filter(|word| !light || *word != 64) {
            let handle = [Handle::from_word(word)];
            is_told(pool.free(&handle), "does not have");
            is_told(pool.retire(&handle), "does not have");
        }
        assert_eq!(pool.stats().unwrap().faults, if light { 8 } else { 10 });
    }
}

#[test]
fn wrong_retirements_are_told() {
    let pool = pool();
    let handles = pool.allocate(3).unwrap();
    pool.retire(&handles[..1]).unwrap();
    is_told(pool.retire(&handles[..1]), "retired twice");
    pool.free(&handles[1..2]).unwrap();
    is_told(pool.retire(&handles[1..2]), "not live");
    let stats = pool.stats().unwrap();
    assert_eq!((stats.live, stats.retired, stats.faults), (1, 1, 2));
}

#[test]
fn a_slab_that_was_retired_and_freed_is_told_when_it_is_reclaimed() {
    let mut pool = pool();
    let handles = pool.allocate(3).unwrap();
    pool.retire(&handles).unwrap();
    pool.free(&handles[..1]).unwrap();
    is_told(pool.reclaim().map(drop), "not live");
    let stats = pool.stats().unwrap();
    assert_eq!((stats.live, stats.retired, stats.free, stats.faults), (0, 0, 64, 1));
}

#[test]
fn leaks_are_told_with_the_first_of_them() {
    let pool = pool();
    let handles = pool.allocate(9).unwrap();
    pool.retire(&handles[..2]).unwrap();
    let error = pool.close().unwrap_err();
    assert!(matches!(error, Error::Leak { live: 7, .. }), "{error:?}");
    let said = error.to_string();
    let lowest = handles[2..].iter().map(|handle| handle.to_word()).min().unwrap();
    let first = format!("{:?}", Handle::from_word(lowest));
    assert!(said.contains("7 slabs") && said.contains(&format!("them {first}")), "{said}");
}
