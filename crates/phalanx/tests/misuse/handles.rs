//! Handles that are dropped, cloned, shared by threads, or used within a call; panics of the caller's code.
use super::{Family, emulator, is_unchanged};
use phalanx::{
    BTree, Error, HashMap, MultiVersionBTree, Outcome, SkipList, SlabAlloc, SlabHash, SlabMultiMap, SlabSet,
};
use phalanx_testing::refuses;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

/// The handle of a device may be dropped before everything that was created on it.
#[test]
fn devices_that_are_dropped_first() {
    macro_rules! check {
        ($($family:ident)*) => {$(
            let device = emulator();
            let (map, stream) = ($family::filled(&device), device.stream().unwrap());
            let keys = device.from_slice(&[3u32]).unwrap();
            drop(device);
            map.on(&stream).insert(&keys, &keys, None).unwrap();
            drop(stream);
            assert_eq!(map.remove(&[3]).unwrap(), [true]);
            is_unchanged(&map);
        )*};
    }
    check!(HashMap SlabHash BTree MultiVersionBTree SkipList);
}

/// Sets, multimaps and pools that are dropped while batches on them run.
#[test]
fn sets_multimaps_and_pools_that_a_batch_uses() {
    let device = emulator();
    let stream = device.stream().unwrap();
    let keys = device.from_slice(&[3u32, 4]).unwrap();
    let (mut in_set, mut in_map) = (device.zeroed::<u8>(2).unwrap(), device.zeroed::<u8>(2).unwrap());
    let mut handles = device.zeroed::<u32>(4).unwrap();
    let set = SlabSet::<u32>::builder().device(&device).build().unwrap();
    set.on(&stream).insert(&keys, &mut in_set).unwrap();
    let many = SlabMultiMap::<u32, u32>::builder().device(&device).build().unwrap();
    many.on(&stream).insert(&keys, &keys, Some(&mut in_map)).unwrap();
    let pool = SlabAlloc::builder().device(&device).super_block_slabs(64).build().unwrap();
    pool.on(&stream).allocate(&mut handles).unwrap();
    drop((set, many, pool, stream, keys));
    assert_eq!(in_set.read().unwrap(), [Outcome::Inserted as u8; 2]);
    assert_eq!(in_map.read().unwrap(), [Outcome::Inserted as u8; 2]);
    assert_eq!(handles.read().unwrap().len(), 4);
}

/// Snapshots that are dropped while a query as of them runs in a stream.
#[test]
fn snapshots_that_a_batch_uses() {
    let tree = MultiVersionBTree::filled(&emulator());
    let (device, stream) = (tree.device().clone(), tree.device().stream().unwrap());
    let keys = device.from_slice(&[1u32, 2]).unwrap();
    let (mut values, mut outcomes) = (device.zeroed::<u32>(2).unwrap(), device.zeroed::<u8>(2).unwrap());
    let snapshot = tree.snapshot().unwrap();
    tree.at(&snapshot).unwrap().get_on(&stream, &keys, &mut values, &mut outcomes).unwrap();
    drop((snapshot, stream, keys));
    assert_eq!(tree.remove(&[1]).unwrap(), [true]);
    tree.drain().unwrap();
    assert_eq!((values.read().unwrap(), tree.len().unwrap()), (vec![10, 20], 1));
}

/// Clones of handles of devices and streams, each used and dropped by a thread of its own.
#[test]
fn clones_of_handles_in_other_threads() {
    fn check(map: impl Family + Send + Sync + 'static) {
        let stream = map.device().stream().unwrap();
        let map = Arc::new(map);
        let threads: Vec<_> = (0..4u32)
            .map(|thread| {
                let (map, stream, device) = (map.clone(), stream.clone(), map.device().clone());
                thread::spawn(move || {
                    let keys: Vec<u32> = (0..100).map(|n| 100 + 4 * n + thread).collect();
                    let keys = device.from_slice(&keys).unwrap();
                    let mut outcomes = device.zeroed::<u8>(100).unwrap();
                    map.on(&stream).insert(&keys, &keys, Some(&mut outcomes)).unwrap();
                    drop((stream, device));
                    assert_eq!(outcomes.read().unwrap(), [Outcome::Inserted as u8; 100]);
                })
            })
            .collect();
        drop(stream);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(map.len().unwrap(), 402);
    }
    each_map!(check);
}

/// The last of several owners drops the map, in a thread that did not create it.
#[test]
fn maps_that_another_thread_drops() {
    fn check(map: impl Family + Send + Sync + 'static) {
        let (device, map) = (map.device().clone(), Arc::new(map));
        let owners: Vec<_> = (0..3).map(|_| map.clone()).collect();
        drop(map);
        let threads = owners.into_iter().map(|map| thread::spawn(move || is_unchanged(&*map)));
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        device.synchronize().unwrap();
    }
    each_map!(check);
}

/// Threads compare two maps in both orders: none holds one map while it waits for the other.
#[test]
fn maps_that_are_compared_both_ways() {
    fn check<M: Family + Send + Sync>(map: M) {
        let other = M::filled(map.device());
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..20).for_each(|_| assert!(map.try_eq(&other).unwrap())));
                scope.spawn(|| (0..20).for_each(|_| assert!(other.try_eq(&map).unwrap())));
            }
        });
        assert!(map.try_eq(&map).unwrap());
        is_unchanged(&map);
    }
    each_map!(check);
}

/// The caller's iterators and writers call the map on which the call runs.
#[test]
fn calls_within_calls() {
    fn check(map: impl Family) {
        struct Calling<'a, M>(&'a M);

        impl<M: Family> Write for Calling<'_, M> {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let _ = self.0.insert(&[1], &[10]).map_err(io::Error::other)?;
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        map.try_extend(map.iter().unwrap()).unwrap();
        map.try_extend([1, 2].into_iter().map(|key| (key, map.get(&[key]).unwrap()[0].unwrap()))).unwrap();
        map.save(Calling(&map)).unwrap();
        is_unchanged(&map);
    }
    each_map!(check);
}

#[test]
fn panics_of_the_callers_code() {
    struct Panicking;

    impl Write for Panicking {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            panic!("the writer's")
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn check(mut map: impl Family) {
        let panics = |call: &mut dyn FnMut()| assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
        panics(&mut || map.retain(|_, _| panic!("the predicate's")).unwrap());
        panics(&mut || map.save(Panicking).unwrap());
        panics(&mut || map.try_extend([1].into_iter().map(|_| panic!("the iterator's"))).unwrap());
        is_unchanged(&map);
    }
    each_map!(check);
}

/// A thread panics while others use the map and its device.
#[test]
fn threads_that_panic() {
    fn check(map: impl Family + Send + Sync) {
        thread::scope(|scope| {
            let failing = scope.spawn(|| {
                let _kept = (map.device().stream().unwrap(), map.device().from_slice(&[1u32]).unwrap());
                assert_eq!(map.get(&[1]).unwrap(), [None], "this thread fails");
            });
            scope.spawn(|| {
                for key in 100..130 {
                    assert!(map.insert(&[key], &[key]).unwrap().all_placed());
                    assert_eq!(map.remove(&[key]).unwrap(), [true]);
                }
            });
            assert!(failing.join().is_err());
        });
        is_unchanged(&map);
    }
    each_map!(check);
}

/// Memory of another library that is used with a map of another device, or is none.
#[test]
fn foreign_memory_that_is_none() {
    use phalanx::gpu::Error as DeviceError;
    use std::ptr::{null_mut, without_provenance_mut};

    fn check(map: impl Family) {
        let (device, other) = (map.device().clone(), emulator());
        let owned = device.from_slice(&[3u32, 4]).unwrap();
        let wrap = |pointer, len| {
            // SAFETY: refused, so nothing is accessed.
            unsafe { device.wrap_memory::<u32>(pointer, len) }
        };
        refuses!(wrap(null_mut(), 1), DeviceError::ForeignMemory { bytes: 4, .. }, "null");
        let askew = owned.pointer().wrapping_byte_add(2);
        refuses!(wrap(askew, 1), DeviceError::ForeignMemory { .. }, "aligned to 4");
        refuses!(wrap(owned.pointer(), 3), DeviceError::ForeignMemory { bytes: 12, .. }, "8 bytes");
        refuses!(wrap(owned.pointer(), usize::MAX), DeviceError::TooLarge { .. }, "address space");
        let mut words = [5u32, 6];
        // SAFETY: the words outlive the wrapped buffer, and nothing else accesses them.
        let theirs = unsafe { other.wrap_memory(words.as_mut_ptr(), 2) }.unwrap();
        let stream = device.default_stream();
        let inserted = map.on(&stream).insert(&theirs, &theirs, None);
        refuses!(inserted, Error::OtherDevice { what: "keys", .. }, "map.device()");
        // SAFETY: refused, so nothing uses the stream.
        let stream = unsafe { device.wrap_stream(without_provenance_mut(8)) };
        refuses!(stream, DeviceError::ForeignStream { .. }, "pass null");
        is_unchanged(&map);
    }
    each_map!(check);
}
