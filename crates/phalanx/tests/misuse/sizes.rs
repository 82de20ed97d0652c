//! Lengths, sizes and numbers that do not fit.
use super::{Family, emulator, is_unchanged};
use phalanx::gpu::{Error as DeviceError, Tier};
use phalanx::hash_map::Growth;
use phalanx::map::OpCode;
use phalanx::slab_alloc::Handle;
use phalanx::{
    BTree, Device, Error, HashMap, MultiVersionBTree, Outcome, SkipList, SlabAlloc, SlabHash, SlabMultiMap,
    SlabSet,
};
use phalanx_testing::refuses;
use simt::emulator::{Mode, Options};

#[test]
fn buffers_of_other_lengths() {
    fn check(map: impl Family) {
        let (device, stream) = (map.device().clone(), map.device().default_stream());
        let (two, one) = (device.from_slice(&[3u32, 4]).unwrap(), device.from_slice(&[3u32]).unwrap());
        let (mut values, mut outcomes) = (device.zeroed::<u32>(2).unwrap(), device.zeroed::<u8>(2).unwrap());
        let (mut short, codes) = (device.zeroed::<u8>(1).unwrap(), device.zeroed::<u8>(3).unwrap());
        let on = map.on(&stream);
        refuses!(on.insert(&two, &one, None), Error::Length { expected: 2, found: 1, .. }, "values");
        refuses!(on.insert(&one, &one, Some(&mut outcomes)), Error::Length { .. }, "outcomes");
        refuses!(on.insert_new(&one, &two, None), Error::Length { expected: 1, found: 2, .. }, "values");
        refuses!(on.get(&one, &mut values, &mut short), Error::Length { .. }, "values");
        refuses!(on.contains_key(&two, &mut short), Error::Length { .. }, "outcomes");
        refuses!(on.remove(&two, &mut short), Error::Length { .. }, "outcomes");
        refuses!(on.get_or_insert(&one, &one, &mut values, &mut short), Error::Length { .. }, "results");
        refuses!(on.execute(&codes, &two, &two, &mut values, &mut outcomes), Error::Length { .. }, "codes");
        is_unchanged(&map);
    }
    each_map!(check);
}

#[test]
fn buffers_of_queries_of_other_lengths() {
    macro_rules! check {
        ($($family:ident)*) => {$(
            let map = $family::filled(&emulator());
            let (device, stream) = (map.device().clone(), map.device().default_stream());
            let (two, one) = (device.from_slice(&[1u32, 2]).unwrap(), device.from_slice(&[1u32]).unwrap());
            let (mut keys, mut values) = (device.zeroed::<u32>(2).unwrap(), device.zeroed::<u32>(2).unwrap());
            let mut outcomes = device.zeroed::<u8>(2).unwrap();
            let mut counts = device.zeroed::<u64>(2).unwrap();
            let by_order = map.ordered_on(&stream);
            let successor = by_order.successor(&one, &mut keys, &mut values, &mut outcomes);
            refuses!(successor, Error::Length { .. }, "found");
            refuses!(by_order.count(&two, &one, &mut counts), Error::Length { .. }, "highs");
            refuses!(by_order.count(&one, &one, &mut counts), Error::Length { .. }, "counts");
            for room in [0, 2, u32::MAX] {
                let range = by_order.range(&two, &two, room, &mut keys, &mut values, &mut counts);
                refuses!(range, Error::Length { found: 2, .. }, "keys");
            }
            is_unchanged(&map);
        )*};
    }
    check!(BTree MultiVersionBTree SkipList);
}

#[test]
fn batches_of_empty_slices() {
    fn check(map: impl Family) {
        let (device, stream) = (map.device().clone(), map.device().stream().unwrap());
        let (mut words, mut bytes) = (device.zeroed::<u32>(4).unwrap(), device.zeroed::<u8>(4).unwrap());
        let keys = device.from_slice(&[1u32, 2]).unwrap();
        let none = keys.slice(2..).unwrap();
        let on = map.on(&stream);
        on.insert(none, none, None).unwrap();
        on.remove(none, bytes.slice_mut(4..).unwrap()).unwrap();
        on.get(none, words.slice_mut(1..1).unwrap(), bytes.slice_mut(..0).unwrap()).unwrap();
        let (results, outcomes) = (words.slice_mut(..0).unwrap(), bytes.slice_mut(..0).unwrap());
        on.execute(&device.zeroed::<u8>(0).unwrap(), none, none, results, outcomes).unwrap();
        stream.synchronize().unwrap();
        assert_eq!((words.read().unwrap(), bytes.read().unwrap()), (vec![0; 4], vec![0; 4]));
        is_unchanged(&map);
    }
    each_map!(check);
}

#[test]
fn questions_to_empty_structures() {
    macro_rules! check {
        ($($family:ident)*) => {$(
            let mut map = $family::<u32, u32>::builder().device(&emulator()).build().unwrap();
            assert_eq!((map.first().unwrap(), map.last().unwrap()), (None, None));
            assert_eq!(map.successor(&[0]).unwrap(), [None]);
            assert_eq!(map.floor(&[u32::MAX]).unwrap(), [None]);
            assert_eq!((map.count(&[..]).unwrap(), map.range(&[..]).unwrap()), (vec![0], vec![vec![]]));
            let nothing: [std::ops::Range<u32>; 0] = [];
            assert!(map.count(&nothing).unwrap().is_empty() && map.range(&nothing).unwrap().is_empty());
            map.bulk_build(&[], &[], 0.7).unwrap();
            map.compact(1.0).unwrap();
            assert!(map.try_eq(&map).unwrap() && map.is_empty().unwrap());
            map.try_extend([(1, 10), (2, 20)]).unwrap();
            is_unchanged(&map);
        )*};
    }
    check!(BTree MultiVersionBTree SkipList);
    let mut many = SlabMultiMap::<u32, u32>::builder().device(&emulator()).build().unwrap();
    assert!(many.get_all(&[1]).unwrap().of(0).is_empty() && !many.contains_key(&[1]).unwrap()[0]);
    assert_eq!((many.remove_all(&[1]).unwrap(), many.remove_one(&[1]).unwrap()), (vec![0], vec![false]));
    many.flush(&[]).unwrap();
    many.clear().unwrap();
    assert_eq!(many.len().unwrap(), 0);
}

/// A bound of probes above the number of buckets adds no probes, so a full table refuses at once.
#[test]
fn probes_that_no_table_has() {
    for (probes, least) in [(0, 0), (u32::MAX, 1)] {
        let builder = HashMap::<u32, u32>::builder().device(&emulator()).capacity(1).growth(Growth::Fixed);
        let map = builder.max_probes(probes).build().unwrap();
        let keys: Vec<u32> = (0..map.slots() as u32 + 100).collect();
        let outcomes = map.insert(&keys, &keys).unwrap();
        assert!(outcomes.refused() >= 100, "{probes}: {}", outcomes.refused());
        let placed = outcomes.asked() - outcomes.refused();
        assert!(placed >= least * map.slots(), "{probes}: {placed} of {} slots", map.slots());
        assert_eq!(map.len().unwrap(), placed);
        assert_eq!(map.get(&keys).unwrap().iter().flatten().count(), placed);
        assert_eq!(map.remove(&keys).unwrap().into_iter().filter(|&removed| removed).count(), placed);
    }
}

#[test]
fn slabs_that_no_pool_has() {
    let mut pool = SlabAlloc::builder().device(&emulator()).super_block_slabs(64).build().unwrap();
    refuses!(pool.allocate(usize::MAX), Error::Device(DeviceError::TooLarge { .. }), "address space");
    refuses!(
        pool.allocate(1 << 45),
        Error::Device(DeviceError::OutOfMemory { .. }),
        "bytes of device memory"
    );
    refuses!(pool.grow(0), Error::Zero { what: "slabs" }, "at least 1");
    refuses!(pool.grow(usize::MAX), Error::TooManySlabs { .. }, "larger super blocks");
    assert_eq!(pool.stats().unwrap().live, 0);
    let handles = pool.allocate(1000).unwrap();
    assert_eq!((handles.len(), pool.stats().unwrap().free), (64, 0), "it returns those that there are");
    pool.free(&handles).unwrap();
    pool.close().unwrap();
}

/// Slabs of another pool, freed twice, or not freed when the pool is closed.
#[test]
fn slabs_that_are_not_the_callers() {
    let pool = || SlabAlloc::builder().device(&emulator()).super_block_slabs(64).build().unwrap();
    let owner = pool();
    let handles = owner.allocate(3).unwrap();
    for stray in [handles[0], Handle::NONE, Handle::from_word(u32::MAX - 1), Handle::from_word(1 << 24)] {
        let other = pool();
        let _ = other.free(&[stray]); // counted, or reported by the emulator
        let _ = other.retire(&[stray]);
        let stats = other.stats().unwrap();
        assert_eq!((stats.live, stats.free), (0, 64), "{stray:?}");
        assert_eq!(other.allocate(64).unwrap().len(), 64, "{stray:?}");
    }
    owner.free(&handles[..1]).unwrap();
    let _ = owner.free(&handles[..1]);
    assert_eq!(owner.stats().unwrap().live, 2);
    refuses!(owner.close(), Error::Leak { live: 2, .. }, "2 slabs are live");
}

#[test]
fn buffers_that_no_machine_has() {
    fn check(map: impl Family) {
        let device = map.device();
        refuses!(device.buffer::<u64>(usize::MAX), DeviceError::TooLarge { element: 8, .. }, "address space");
        refuses!(device.zeroed::<u32>(usize::MAX / 2), DeviceError::TooLarge { .. }, "address space");
        for tier in [Tier::Device, Tier::Pinned, Tier::Managed] {
            let buffer = device.buffer_on::<u8>(tier, isize::MAX as usize);
            refuses!(
                buffer,
                DeviceError::OutOfMemory { .. },
                &format!("bytes of {tier} memory"),
                "drop buffers"
            );
        }
        refuses!(device.buffer_on::<u8>(Tier::File, 1), DeviceError::NeedsPath, "map_file");
        is_unchanged(&map);
    }
    each_map!(check);
}

#[test]
fn places_outside_of_a_buffer() {
    let mut words = emulator().from_slice(&[1u32, 2, 3, 4]).unwrap();
    for offset in [3, 5, usize::MAX] {
        refuses!(words.write_at(offset, &[9, 9]), DeviceError::Length { len: 4, .. }, "buffer of 4");
        refuses!(words.read_into(offset, &mut [0, 0]), DeviceError::Length { len: 4, .. }, "buffer of 4");
        refuses!(words.slice(offset..6), DeviceError::SliceRange { len: 4, .. }, "not within the 4 elements");
        refuses!(
            words.slice_mut(..=offset.saturating_add(1)).map(|_| ()),
            DeviceError::SliceRange { .. },
            "4 elements"
        );
    }
    assert_eq!(words.read().unwrap(), [1, 2, 3, 4]);
}

/// Builders of lists of slabs, whose numbers have bounds of their own.
#[test]
fn lists_that_no_memory_holds() {
    macro_rules! check {
        ($($structure:ty),*) => {$({
            let builder = || <$structure>::builder().device(&emulator());
            refuses!(builder().capacity(0).build(), Error::ZeroCapacity, "at least 1");
            refuses!(builder().capacity(usize::MAX).build(), Error::TooLarge { .. }, "`capacity`");
            refuses!(builder().buckets(0).build(), Error::Zero { .. }, "buckets");
            refuses!(builder().buckets(u32::MAX).build(), Error::TooLarge { .. }, "buckets");
            refuses!(builder().utilisation(f64::NAN).build(), Error::Utilisation { .. }, "above 0");
            refuses!(builder().super_block_slabs(usize::MAX).build(), Error::SuperBlock(_), "power of two");
            refuses!(builder().budget(0).build(), Error::Budget { budget: 0, .. }, "raise the budget");
            let mut lists = builder().buckets(3).build().unwrap();
            refuses!(lists.flush(&[0, 3]), Error::Bucket { bucket: 3, count: 3 }, "has 3");
            refuses!(lists.rehash(0), Error::Zero { .. }, "buckets");
            refuses!(lists.rehash(u32::MAX), Error::TooLarge { .. }, "buckets");
            lists.validate().unwrap();
        })*};
    }
    check!(SlabHash<u32, u32>, SlabMultiMap<u32, u32>, SlabSet<u32>);
}

/// Options that describe no sensible emulator: launches work, or return an error.
#[test]
fn emulators_without_threads_stacks_or_steps() {
    let with =
        |mode, stack_bytes, step_limit| Options { mode, stack_bytes, step_limit, ..Options::default() };
    let few = Mode::Fast { workers: 1 };
    for mode in [Mode::Fast { workers: 0 }, Mode::Fast { workers: usize::MAX }] {
        let map = HashMap::<u32, u32>::filled(&Device::emulator(with(mode, 256 << 10, 1 << 24)));
        is_unchanged(&map);
    }
    for (stack_bytes, step_limit) in [(0, 1 << 24), (usize::MAX, 1 << 24), (1 << 60, 1 << 24), (256 << 10, 0)]
    {
        let device = Device::emulator(with(few.clone(), stack_bytes, step_limit));
        let map = HashMap::<u32, u32>::builder().device(&device).build().unwrap();
        match map.insert(&[1], &[10]) {
            Ok(outcomes) => assert_eq!(outcomes, [Outcome::Inserted]),
            Err(error) => refuses!(Err::<(), _>(error), Error::Device(DeviceError::Emulator { .. })),
        }
    }
}

/// Codes of operations are bytes on the device: those that name no operation look up their keys.
#[test]
fn codes_of_no_operation() {
    fn check(map: impl Family) {
        let device = map.device().clone();
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        let known = [OpCode::GET, OpCode::INSERT, OpCode::INSERT_NEW, OpCode::GET_OR_INSERT, OpCode::REMOVE];
        let is_unknown = |byte: &u8| *byte > 100 && !known.iter().any(|code| code.code() as u8 == *byte);
        let codes: Vec<u8> = bytes.into_iter().filter(is_unknown).collect();
        let keys: Vec<u32> = (0..codes.len() as u32).map(|number| 1 + number % 3).collect();
        let (codes, keys) = (device.from_slice(&codes).unwrap(), device.from_slice(&keys).unwrap());
        let mut results = device.zeroed::<u32>(keys.len()).unwrap();
        let mut outcomes = device.zeroed::<u8>(keys.len()).unwrap();
        map.on(&device.default_stream()).execute(&codes, &keys, &keys, &mut results, &mut outcomes).unwrap();
        let expected = [Outcome::Found, Outcome::Found, Outcome::Absent].map(|outcome| outcome as u8);
        let outcomes = outcomes.read().unwrap();
        assert!(outcomes.iter().zip(expected.iter().cycle()).all(|(found, expected)| found == expected));
        is_unchanged(&map);
    }
    each_map!(check);
}
