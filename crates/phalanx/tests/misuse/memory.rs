//! Lack of memory at each place where a call asks for it. The emulator fails the allocations.
use super::{Family, emulator, is_unchanged};
use phalanx::gpu::{Error as DeviceError, Tier};
use phalanx::{
    BTree, Device, Error, HashMap, Merge, MultiVersionBTree, Outcome, Result, SkipList, SlabAlloc, SlabHash,
    SlabMultiMap, SlabSet,
};
use phalanx_testing::refuses;

/// Repeats `call`, with one more successful allocation each time, until it needs no more. Each failure must
/// be lack of memory; `check` follows each call. At least one call must fail.
#[track_caller]
fn starve<T>(device: &Device, mut call: impl FnMut() -> Result<T>, mut check: impl FnMut()) -> T {
    let emulator = device.emulator_handle().unwrap();
    for allocations in 0.. {
        // Otherwise a call may need no memory but that which an earlier one has left.
        device.release_staging();
        emulator.fail_allocations_after(allocations);
        let result = call();
        emulator.fail_allocations_after(u64::MAX);
        check();
        match result {
            Ok(done) => {
                assert!(allocations > 0, "the call allocates nothing");
                return done;
            }
            Err(error) => refuses!(
                Err::<(), _>(error),
                Error::Device(DeviceError::OutOfMemory { .. }),
                "memory requested"
            ),
        }
    }
    unreachable!("the loop ends with a call that succeeds")
}

#[test]
fn structures_for_which_there_is_no_memory() {
    macro_rules! check {
        ($($structure:ty),*) => {$({
            let device = emulator();
            let built = starve(&device, || <$structure>::builder().device(&device).build(), || ());
            assert_eq!(built.len().unwrap(), 0);
        })*};
    }
    check!(HashMap<u32, u32>, SlabHash<u32, u32>, BTree<u32, u32>, MultiVersionBTree<u32, u32>);
    check!(SkipList<u32, u32>, SlabSet<u32>, SlabMultiMap<u32, u32>);
    let device = emulator();
    let pool = || SlabAlloc::builder().device(&device).super_block_slabs(64).build();
    assert_eq!(starve(&device, pool, || ()).capacity(), 64);
}

#[test]
fn files_for_which_there_is_no_memory() {
    fn check<M: Family>(map: M) {
        let mut file = Vec::new();
        map.save(&mut file).unwrap();
        let emulator = map.device().emulator_handle().unwrap();
        for allocations in 0.. {
            emulator.fail_allocations_after(allocations);
            let loaded = M::load_on(&file[..], map.device());
            emulator.fail_allocations_after(u64::MAX);
            match loaded {
                Ok(loaded) => return is_unchanged(&loaded),
                Err(Error::DoesNotFit { left_over, pairs }) => assert!(left_over == 2 && pairs == 2),
                Err(Error::Device(DeviceError::OutOfMemory { .. })) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    each_map!(check);
}

/// Calls that read return no part of an answer.
#[test]
fn reads_without_memory() {
    fn check(map: impl Family) {
        let (device, copy) = (map.device().clone(), vec![(1, 10), (2, 20)]);
        let unchanged = || is_unchanged(&map);
        assert_eq!(starve(&device, || map.get(&[1, 3]), unchanged), [Some(10), None]);
        assert_eq!(starve(&device, || map.contains_key(&[1, 3]), unchanged), [true, false]);
        let mut pairs: Vec<_> = starve(&device, || map.iter(), unchanged).collect();
        pairs.sort();
        assert_eq!(pairs, copy);
        assert_eq!(starve(&device, || map.export(), unchanged).0.len(), 2);
        starve(&device, || map.save(Vec::new()), unchanged);
        assert!(starve(&device, || map.try_eq(&map), unchanged));
    }
    each_map!(check);
}

#[test]
fn queries_without_memory() {
    macro_rules! queries {
        ($device:expr, $queries:expr) => {{
            let (device, queries) = ($device, $queries);
            assert_eq!(starve(device, || queries.first(), || ()), Some((1, 10)));
            assert_eq!(starve(device, || queries.successor(&[1]), || ()), [Some((2, 20))]);
            assert_eq!(starve(device, || queries.count(&[..]), || ()), [2]);
            assert_eq!(starve(device, || queries.range(&[..]), || ()), [[(1, 10), (2, 20)]]);
        }};
    }
    macro_rules! check {
        ($($family:ident)*) => {$(
            let map = $family::filled(&emulator());
            queries!(map.device(), &map);
            is_unchanged(&map);
        )*};
    }
    check!(BTree MultiVersionBTree SkipList);
    let mut tree = BTree::filled(&emulator());
    let device = tree.device().clone();
    queries!(&device, tree.frozen().unwrap());
    is_unchanged(&tree);
    let tree = MultiVersionBTree::filled(&emulator());
    let snapshot = tree.snapshot().unwrap();
    queries!(tree.device(), tree.at(&snapshot).unwrap());
    drop(snapshot);
    is_unchanged(&tree);
}

/// A batch whose elements cannot be copied to the device does nothing.
#[test]
fn batches_without_memory() {
    fn check(mut map: impl Family) {
        let device = map.device().clone();
        let unchanged = |map: &_| is_unchanged(map);
        let emulator = device.emulator_handle().unwrap();
        device.release_staging();
        emulator.fail_allocations_after(0);
        let is_refused = |result: Result<()>| {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Device(DeviceError::OutOfMemory { .. })), "{error}");
        };
        is_refused(map.insert(&[3], &[30]).map(drop));
        is_refused(map.insert_new(&[3], &[30]).map(drop));
        is_refused(map.upsert(Merge::Add, &[1], &[5]).map(drop));
        is_refused(map.get_or_insert(&[3], &[30]).map(drop));
        is_refused(map.remove(&[1]).map(drop));
        is_refused(map.execute(&[phalanx::Op::Remove(1)]).map(drop));
        is_refused(map.try_extend([(3, 30)]));
        is_refused(map.retain(|_, _| false));
        emulator.fail_allocations_after(u64::MAX);
        unchanged(&map);
        assert_eq!(map.insert(&[3], &[30]).unwrap(), [Outcome::Inserted]);
    }
    each_map!(check);
}

/// Repeats `call`, with one more successful allocation each time, until it succeeds. Returns the failures.
fn failures<T>(device: &Device, call: impl Fn() -> Result<T>) -> Vec<Error> {
    let emulator = device.emulator_handle().unwrap();
    let limited = |allocations| {
        device.release_staging();
        emulator.fail_allocations_after(allocations);
        let result = call();
        emulator.fail_allocations_after(u64::MAX);
        result.map(drop).err()
    };
    (0..).map_while(limited).collect()
}

/// Pinned memory of the host, on which the slabs of a pool may lie.
#[test]
fn pinned_memory_that_a_pool_lacks() {
    let device = emulator();
    let build = || {
        let pool = SlabAlloc::builder().device(&device).super_block_slabs(64);
        pool.tiers(Tier::Pinned, Tier::Pinned).build()
    };
    let is_pinned =
        |error: &Error| matches!(error, Error::Device(DeviceError::OutOfMemory { tier: Tier::Pinned, .. }));
    let refused = failures(&device, build).into_iter().find(is_pinned).unwrap();
    assert!(refused.to_string().contains("8192 bytes of pinned memory requested"), "{refused}");
    let mut pool = build().unwrap();
    let handles = pool.allocate(100).unwrap();
    starve(&device, || pool.grow(1), || ());
    assert_eq!((handles.len(), pool.capacity(), pool.stats().unwrap().live), (64, 128, 64));
    pool.free(&handles).unwrap();
    pool.close().unwrap();
}

/// Pinned memory of the host, on which the data nodes of a skip list may lie.
#[test]
fn pinned_memory_that_a_skip_list_lacks() {
    let device = emulator();
    let builder = || SkipList::<u32, u32>::builder().device(&device).data_tier(Tier::Pinned);
    let keys: Vec<u32> = (10..1500).collect();
    let lists = std::cell::RefCell::new(Vec::new());
    let refused = failures(&device, || {
        let list = builder().capacity(1).super_block_slabs(32).build()?;
        let inserted = list.insert(&keys, &keys);
        lists.borrow_mut().push(list);
        inserted
    });
    let lists = lists.into_inner();
    let told = refused.iter().rev().zip(lists.iter().rev().skip(1));
    let told: Vec<_> =
        told.filter_map(|(error, list)| Some((error.outcomes()?, list.len().unwrap()))).collect();
    assert!(!told.is_empty(), "no insertion ran out of memory when it had begun: {refused:?}");
    assert!(told.into_iter().all(|(outcomes, len)| len == outcomes.asked() - outcomes.refused()));
    for list in lists {
        list.validate().unwrap();
        assert!(list.insert(&keys, &keys).unwrap().all_placed());
    }
    let built = builder().data_tier(Tier::File).capacity(100_000).build();
    refuses!(built, Error::Device(DeviceError::NeedsPath), "map_file");
}

#[test]
fn maintenance_without_memory() {
    let device = emulator();
    let failures = device.emulator_handle().unwrap();
    let mut map = HashMap::filled(&device);
    let mut tree = BTree::filled(&device);
    let mut list = SkipList::filled(&device);
    failures.fail_allocations_after(0);
    let results = [map.compact(), map.shrink_to_fit(), map.reserve(1 << 20), tree.reserve(1 << 20)];
    let results = results.into_iter().chain([tree.compact(0.7), list.compact(0.7), list.reserve(1 << 20)]);
    let results: Vec<_> =
        results.chain([list.reclaim().map(drop), tree.bulk_build(&[9], &[9], 0.7)]).collect();
    failures.fail_allocations_after(u64::MAX);
    for (call, result) in results.into_iter().enumerate() {
        let error = result.map_err(|error| error.to_string()).unwrap_err();
        assert!(error.contains("memory requested"), "call {call}: {error}");
    }
    is_unchanged(&map);
    is_unchanged(&tree);
    is_unchanged(&list);
}

/// A batch that takes many values needs memory for them after it was executed.
#[test]
fn values_that_are_taken_without_memory_for_results() {
    let device = emulator();
    let emulator = device.emulator_handle().unwrap();
    let keys: Vec<u32> = (0..5000).collect();
    let values: Vec<u64> = keys.iter().map(|&key| u64::from(key) + 1_000_000).collect();
    macro_rules! check {
        ($($structure:ident)*) => {$(
            for allocations in 0.. {
                let builder = $structure::<u32, u64>::builder().device(&device);
                let map = builder.capacity(1 << 13).build().unwrap();
                assert!(map.insert(&keys, &values).unwrap().all_placed());
                device.release_staging();
                emulator.fail_allocations_after(allocations);
                let taken = map.take(&keys);
                let left = emulator.fail_allocations_after(u64::MAX);
                let rest = map.len().unwrap();
                match taken {
                    Ok(taken) => {
                        assert_eq!(rest + taken.iter().flatten().count(), keys.len());
                        let mut pairs = taken.iter().zip(&values);
                        assert!(pairs.all(|(taken, value)| taken.is_none_or(|taken| taken == *value)));
                    }
                    Err(error) => {
                        let lacks = matches!(error, Error::Device(DeviceError::OutOfMemory { .. }));
                        assert!(lacks, "{error}");
                        assert_eq!(rest, keys.len(), "nothing is removed");
                    }
                }
                if left > 0 {
                    break;
                }
            }
        )*};
    }
    check!(BTree SkipList MultiVersionBTree HashMap SlabHash);
}
