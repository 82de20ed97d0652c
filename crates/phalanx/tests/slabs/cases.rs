//! Individual cases.
use crate::common::{Rng, seed};
use crate::kinds;
use gpu::Device;
use phalanx::slab_alloc::{Handle, SlabAlloc, Stats};
use std::collections::HashSet;

fn words(handles: &[Handle]) -> HashSet<u32> {
    let set: HashSet<u32> = handles.iter().map(|handle| handle.to_word()).collect();
    assert_eq!(set.len(), handles.len(), "a slab was given twice");
    set
}

fn stats(capacity: usize, live: usize, retired: usize) -> Stats {
    Stats { capacity, live, free: capacity - live - retired, retired, faults: 0 }
}

/// A pool of this size is searched completely, so its last slab is found.
pub fn a_pool_gives_all_its_slabs_once(device: &Device) {
    for (builder, super_block) in [32, 64, 512, 2048]
        .into_iter()
        .flat_map(|size| kinds(device, size).into_iter().map(move |builder| (builder, size)))
    {
        let pool = builder.capacity(2048).build().unwrap();
        let handles = pool.allocate(2100).unwrap();
        assert_eq!(words(&handles).len(), 2048);
        let names = |handle: &Handle| {
            let light = pool.kind().starts_with("light");
            let (base, slab) = (handle.super_block() as usize, handle.slab() as usize);
            if light { slab < 2048 && base == 0 } else { slab < super_block && base < 2048 / super_block }
        };
        assert!(handles.iter().all(names), "{handles:?}");
        assert_eq!(pool.stats().unwrap(), stats(2048, 2048, 0));
        assert_eq!(pool.allocate(1).unwrap(), []);
        pool.free(&handles).unwrap();
        assert_eq!(pool.stats().unwrap(), stats(2048, 0, 0));
        pool.close().unwrap();
    }
}

/// Allocations return exactly the freed slabs.
pub fn slabs_of_a_full_pool_come_back(device: &Device) {
    for builder in kinds(device, 128) {
        let pool = builder.capacity(1280).build().unwrap();
        let handles = pool.allocate(1280).unwrap();
        let mut rng = Rng::new(seed());
        for count in [1, 31, 32, 33, 500] {
            let some: Vec<_> =
                (0..count).map(|_| rng.pick(&handles)).collect::<HashSet<_>>().into_iter().collect();
            pool.free(&some).unwrap();
            let again = pool.allocate(some.len()).unwrap();
            assert_eq!(words(&again), words(&some));
        }
        assert_eq!(pool.stats().unwrap().free, 0);
    }
}

/// Batches in a stream, with both methods to allocate and to free.
pub fn batches_on_buffers_do_the_same(device: &Device) {
    for builder in kinds(device, 1024) {
        let pool = builder.capacity(4096).build().unwrap();
        let stream = device.stream().unwrap();
        let (mut first, mut second) = (device.zeroed(700).unwrap(), device.zeroed(900).unwrap());
        pool.on(&stream).allocate(&mut first).unwrap();
        pool.on(&stream).allocate_lone(&mut second).unwrap();
        stream.synchronize().unwrap();
        let all = [first.read().unwrap(), second.read().unwrap()].concat();
        let set: HashSet<u32> = all.iter().copied().collect();
        assert!(set.len() == 1600 && !set.contains(&Handle::NONE.to_word()));
        assert_eq!(pool.stats().unwrap(), stats(4096, 1600, 0));
        pool.on(&stream).free_lone(&first).unwrap();
        pool.on(&stream).retire(&second).unwrap();
        assert_eq!(pool.stats().unwrap(), stats(4096, 0, 900));
        let mut pool = pool;
        assert_eq!(pool.reclaim().unwrap(), 900);
        assert_eq!(pool.stats().unwrap(), stats(4096, 0, 0));
        pool.on(&stream).allocate(&mut first).unwrap();
        pool.on(&stream).free(&first).unwrap();
        pool.close().unwrap();
    }
}

/// A pool with an eighth of its slabs free, in whole blocks or at random, refuses no request for seven
/// eighths of them.
pub fn nine_tenths_full_pools_give_what_is_left(device: &Device) {
    for (builder, random) in
        kinds(device, 8192).into_iter().take(2).flat_map(|b| [(b.clone(), false), (b, true)])
    {
        let pool = builder.capacity(1 << 15).build().unwrap();
        let mut handles = pool.allocate(1 << 15).unwrap();
        // In a pool of more than 2048 slabs the last slab may not be found, but nearly all others must be.
        assert!(handles.len() > (1 << 15) - 64, "{} of {} slabs", handles.len(), 1 << 15);
        handles.sort_by_key(
            |handle| if random { simt::hash::mix32(handle.to_word()) } else { handle.to_word() },
        );
        pool.free(&handles[..1 << 12]).unwrap();
        let asked = (1 << 12) - (1 << 9);
        assert_eq!(words(&pool.allocate(asked).unwrap()).len(), asked);
    }
}

/// Concurrent streams never receive the same slab. (On the emulator they run one after the other.)
pub fn streams_share_a_pool(device: &Device) {
    let pool = SlabAlloc::builder().device(device).super_block_slabs(1 << 14).build().unwrap();
    let streams: Vec<_> = (0..4).map(|_| device.stream().unwrap()).collect();
    let mut buffers: Vec<_> = (0..4).map(|_| device.zeroed::<u32>(3000).unwrap()).collect();
    for (stream, buffer) in streams.iter().zip(&mut buffers) {
        pool.on(stream).allocate(buffer).unwrap();
    }
    let all: Vec<Handle> =
        buffers.iter().flat_map(|buffer| buffer.read().unwrap()).map(Handle::from_word).collect();
    assert!(words(&all).len() == 12_000 && all.iter().all(|handle| !handle.is_none()));
    assert_eq!(pool.stats().unwrap().live, 12_000);
    for (stream, buffer) in streams.iter().zip(&buffers) {
        pool.on(stream).free(buffer).unwrap();
    }
    pool.close().unwrap();
}

/// Variants, sizes and memory usage are as requested.
pub fn names_say_what_the_kinds_are(device: &Device) {
    let expected = [("spread_128", 128), ("light_128", 128), ("spread_256", 256), ("light_256", 256)];
    for (builder, (kind, bytes)) in kinds(device, 64).into_iter().zip(expected) {
        let pool = builder.capacity(65).build().unwrap();
        assert_eq!((pool.kind(), pool.slab_bytes(), pool.capacity()), (kind, bytes, 128));
        assert!(pool.memory_usage() > 128 * bytes && pool.memory_usage() < 128 * bytes + 4096);
        assert_eq!(pool.device(), device);
    }
}
