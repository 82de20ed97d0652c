//! Calls on slices of the host: in chunks, on pinned slices, from several threads, without memory; and what
//! small calls cost. On the emulator.
use phalanx::gpu::{Device, Tier, Work};
use phalanx::private::with_chunks;
use phalanx::{
    BTree, Error, HashMap, Map, Merge, MultiVersionBTree, Op, Outcome, SkipList, SlabHash, SlabMultiMap,
    SlabSet,
};
use simt::emulator::Options;
use std::collections::BTreeMap;
use std::thread;

fn emulator() -> Device {
    Device::emulator(Options { cas128: true, ..Options::default() })
}

/// Calls `$check` with a name, and a function that creates a map of each family on a device.
macro_rules! each_map {
    ($check:ident) => {
        each_map!($check: HashMap SlabHash BTree MultiVersionBTree SkipList);
    };
    ($check:ident: $($family:ident)*) => {$(
        $check(stringify!($family), |device: &Device| {
            $family::<u32, u64>::builder().device(device).build().unwrap()
        });
    )*};
}

/// Returns `len` distinct keys in no order, and their values.
fn columns(len: u32) -> (Vec<u32>, Vec<u64>) {
    let key = |n: u32| n.wrapping_mul(2_654_435_761);
    (0..len).map(|n| (key(n), u64::from(n) << 20 | 7)).unzip()
}

/// Executes every kind of call, and compares the results with those of `std`.
fn every_call_is_right<M: Map<Key = u32, Value = u64>>(name: &str, map: &M, len: u32) {
    let (keys, values) = columns(len);
    let half = keys.len() / 2;
    let mut model: BTreeMap<u32, u64> = BTreeMap::new();
    let outcomes = map.insert(&keys[..half], &values[..half]).unwrap();
    assert!(outcomes.iter().all(|&outcome| outcome == Outcome::Inserted), "{name}");
    model.extend(keys.iter().copied().zip(values.iter().copied()).take(half));

    let outcomes = map.insert_new(&keys, &values).unwrap();
    let expected = |index: usize| if index < half { Outcome::Found } else { Outcome::Inserted };
    assert!(outcomes.iter().enumerate().all(|(index, &outcome)| outcome == expected(index)), "{name}");
    assert_eq!(outcomes.len(), keys.len(), "{name}");
    model.extend(keys.iter().copied().zip(values.iter().copied()));

    assert_eq!(
        map.upsert(Merge::Add, &keys[half..], &values[half..]).unwrap().count(Outcome::Replaced),
        keys.len() - half
    );
    keys[half..].iter().zip(&values[half..]).for_each(|(key, value)| *model.get_mut(key).unwrap() += value);
    let old = map.replace(&keys[..half], &values[half..2 * half]).unwrap();
    assert!(old.iter().zip(&keys).all(|(old, key)| *old == Some(model[key])), "{name}");
    model.extend(keys.iter().copied().zip(values[half..2 * half].iter().copied()).take(half));

    let asked: Vec<u32> = keys.iter().rev().flat_map(|&key| [key, key ^ 1]).collect();
    let found: Vec<Option<u64>> = asked.iter().map(|key| model.get(key).copied()).collect();
    assert_eq!(map.get(&asked).unwrap(), found, "{name}");
    let present: Vec<bool> = found.iter().map(Option::is_some).collect();
    assert_eq!(map.contains_key(&asked).unwrap(), present, "{name}");
    let (mut values_into, mut found_into) = (vec![9; asked.len()], vec![true; asked.len()]);
    map.get_into(&asked, &mut values_into, &mut found_into).unwrap();
    assert_eq!(found_into, present, "{name}");
    assert!(values_into.iter().zip(&found).all(|(into, found)| found.is_none_or(|found| found == *into)));
    found_into.fill(true);
    map.contains_into(&asked, &mut found_into).unwrap();
    assert_eq!(found_into, present, "{name}");

    let operations: Vec<Op<u32, u64>> = asked.iter().map(|&key| Op::GetOrInsert(key, 5)).collect();
    for ((key, (_, value)), found) in asked.iter().zip(map.execute(&operations).unwrap()).zip(&found) {
        assert_eq!(value, Some(found.unwrap_or(5)), "{name}: {key}");
        model.entry(*key).or_insert(5);
    }
    let taken = map.take(&asked[..half]).unwrap();
    assert!(taken.iter().zip(&asked).all(|(taken, key)| *taken == model.remove(key)), "{name}");
    assert!(
        map.remove(&asked[half..])
            .unwrap()
            .into_iter()
            .zip(&asked[half..])
            .all(|(removed, key)| removed == model.remove(key).is_some())
    );
    assert!(model.is_empty() && map.is_empty().unwrap(), "{name}");
}

fn chunks_are_no_different<M: Map<Key = u32, Value = u64>>(name: &str, make: impl Fn(&Device) -> M) {
    for (chunk, len) in [(1, 7), (3, 64), (64, 65), (500, 1100)] {
        with_chunks(chunk, || every_call_is_right(name, &make(&emulator()), len));
    }
}

#[test]
fn batches_in_chunks_of_the_usual_size_answer_as_whole_ones() {
    let map = HashMap::<u32, u64>::builder().device(&emulator()).capacity(70_000).build().unwrap();
    let (keys, values) = columns(70_000);
    assert!(map.insert(&keys, &values).unwrap().all_placed());
    assert!(map.get(&keys).unwrap().iter().zip(&values).all(|(got, value)| *got == Some(*value)));
    let (exported, _) = map.export().unwrap();
    assert_eq!(exported.len(), keys.len());
}

#[test]
fn batches_in_chunks_answer_as_whole_ones() {
    each_map!(chunks_are_no_different);
}

#[test]
fn searches_in_chunks_answer_as_whole_ones() {
    fn check(
        searched: impl Fn(&[u32]) -> [Vec<Option<(u32, u32)>>; 2],
        count: impl Fn(u32, u32) -> (u64, Vec<(u32, u32)>),
    ) {
        let keys: Vec<u32> = (0..2500).collect();
        for chunk in [1, 7, 1000, 5000] {
            let [next, own] = with_chunks(chunk, || searched(&keys));
            assert!(
                next.iter()
                    .zip(&keys)
                    .all(|(next, key)| *next == (*key < 1998).then_some(((key / 2 + 1) * 2, key / 2 + 1)))
            );
            assert!(
                own.iter()
                    .zip(&keys)
                    .all(|(own, key)| *own == Some((key.min(&1998) / 2 * 2, key.min(&1998) / 2)))
            );
            for (low, high) in [(0u32, 3000u32), (10, 12), (11, 11), (500, 4000)] {
                let expected: Vec<_> =
                    (low.div_ceil(2)..1000.min(high / 2 + 1)).map(|n| (2 * n, n)).collect();
                assert_eq!(with_chunks(chunk, || count(low, high)), (expected.len() as u64, expected));
            }
        }
    }
    let (keys, values): (Vec<u32>, Vec<u32>) = (0..1000).map(|n| (2 * n, n)).unzip();
    macro_rules! families {
        ($($family:ident)*) => {$(
            let map = $family::<u32, u32>::builder().device(&emulator()).build().unwrap();
            assert!(map.insert(&keys, &values).unwrap().all_placed());
            check(
                |keys| [map.successor(keys).unwrap(), map.floor(keys).unwrap()],
                |low, high| {
                    let count = map.count(&[low..=high, high + 1..=high]);
                    assert!(count.is_err(), "swapped");
                    let ranges = [5..=4 + 1, low..=high];
                    (map.count(&ranges).unwrap()[1], map.range(&ranges).unwrap().swap_remove(1))
                },
            );
        )*};
    }
    families!(BTree MultiVersionBTree SkipList);
}

#[test]
fn sets_and_multimaps_go_through_chunks() {
    let device = emulator();
    with_chunks(10, || {
        let set = SlabSet::<u32>::builder().device(&device).build().unwrap();
        let (keys, _) = columns(105);
        assert!(set.insert(&keys).unwrap().iter().all(|&outcome| outcome == Outcome::Inserted));
        assert_eq!(set.contains_key(&keys).unwrap(), vec![true; 105]);
        assert_eq!(set.remove(&keys).unwrap(), vec![true; 105]);
        let map = SlabMultiMap::<u32, u32>::builder().device(&device).build().unwrap();
        assert!(
            map.insert(&keys, &keys).unwrap().all_placed() && map.insert(&keys, &keys).unwrap().all_placed()
        );
        assert_eq!(map.count(&keys).unwrap(), vec![2; 105]);
        assert_eq!(map.remove_one(&keys).unwrap(), vec![true; 105]);
        assert_eq!(map.len().unwrap(), 105);
    });
}

/// Other types than words are converted, and bad words found, wherever they are.
#[test]
fn values_of_every_type_are_converted() {
    let device = emulator();
    let map = HashMap::<i32, bool>::builder().device(&device).build().unwrap();
    let keys: Vec<i32> = (-50..50).collect();
    let values: Vec<bool> = keys.iter().map(|key| key % 3 == 0).collect();
    with_chunks(9, || {
        assert!(map.insert(&keys, &values).unwrap().all_placed());
        assert!(map.get(&keys).unwrap().into_iter().eq(values.iter().copied().map(Some)));
        let (mut got, mut found) = (vec![false; 100], vec![false; 100]);
        map.get_into(&keys, &mut got, &mut found).unwrap();
        assert_eq!((got, found), (values, vec![true; 100]));
        let stream = device.stream().unwrap();
        let key = device.from_slice(&[phalanx::Key::encode(40i32)]).unwrap();
        map.on(&stream).insert(&key, &device.from_slice(&[2u32]).unwrap(), None).unwrap();
        assert!(matches!(map.get(&keys), Err(Error::Format(_))));
        let (mut got, mut found) = (vec![false; 100], vec![false; 100]);
        assert!(matches!(map.get_into(&keys, &mut got, &mut found), Err(Error::Format(_))));
        assert!(
            map.contains_key(&keys).unwrap().into_iter().all(|found| found),
            "the map is as usable as before"
        );
    });
}

#[test]
fn pinned_slices_are_filled_in_place() {
    fn check<M: Map<Key = u32, Value = u64>>(name: &str, make: impl Fn(&Device) -> M) {
        let device = emulator();
        let (map, (keys, values)) = (make(&device), columns(3000));
        let mut pinned_keys = device.buffer_on::<u32>(Tier::Pinned, 4000).unwrap();
        let mut pinned_values = device.buffer_on::<u64>(Tier::Pinned, 4000).unwrap();
        let mut flags = device.buffer_on::<u8>(Tier::Pinned, 4000).unwrap();
        pinned_keys.write_at(0, &keys).unwrap();
        pinned_keys.write_at(3000, &keys.iter().map(|key| key ^ 1).take(1000).collect::<Vec<_>>()).unwrap();
        pinned_values.write_at(0, &values).unwrap();
        let (keys, values) = (pinned_keys.as_slice().unwrap(), pinned_values.as_mut_slice().unwrap());
        // SAFETY: the bytes are zeros, which are booleans, as are those that the calls write.
        let found = unsafe {
            let flags = flags.as_mut_slice().unwrap();
            std::slice::from_raw_parts_mut(flags.as_mut_ptr().cast::<bool>(), flags.len())
        };
        for chunk in [700, 5000] {
            with_chunks(chunk, || {
                assert!(map.insert(&keys[..3000], &values[..3000]).unwrap().all_placed(), "{name}");
                values.fill(0);
                map.get_into(keys, values, found).unwrap();
                assert!(found.iter().enumerate().all(|(index, &found)| found == (index < 3000)), "{name}");
                assert!(values[..3000].iter().enumerate().all(|(n, &value)| value == (n as u64) << 20 | 7));
                found.fill(false);
                map.contains_into(keys, found).unwrap();
                assert!(found.iter().enumerate().all(|(index, &found)| found == (index < 3000)), "{name}");
                found.fill(true);
                map.contains_into(&keys[3000..], &mut found[..1000]).unwrap();
                assert!(found[..1000].iter().all(|&found| !found), "{name}");
            });
        }
    }
    each_map!(check);
}

#[test]
fn lengths_that_differ_are_errors() {
    fn check<M: Map<Key = u32, Value = u64>>(name: &str, make: impl Fn(&Device) -> M) {
        let map = make(&emulator());
        let is_length = |result: phalanx::Result<()>, wanted: &str, sizes: (usize, usize)| match result {
            Err(Error::Length { what, expected, found }) => {
                assert_eq!((what, (expected, found)), (wanted, sizes), "{name}")
            }
            other => panic!("{name}: {other:?}"),
        };
        is_length(map.get_into(&[1, 2], &mut [0], &mut [true; 2]), "values", (2, 1));
        is_length(map.get_into(&[1, 2], &mut [0; 2], &mut [true; 3]), "found", (2, 3));
        is_length(map.get_into(&[], &mut [0], &mut []), "values", (0, 1));
        is_length(map.contains_into(&[1], &mut []), "found", (1, 0));
        map.get_into(&[], &mut [], &mut []).unwrap();
        map.contains_into(&[], &mut []).unwrap();
        assert!(map.insert(&[], &[]).unwrap().is_empty() && map.get(&[]).unwrap().is_empty());
        let (mut value, mut found) = ([0], [false]);
        assert_eq!(map.insert(&[u32::MAX], &[4]).unwrap(), [Outcome::Inserted]);
        map.get_into(&[u32::MAX], &mut value, &mut found).unwrap();
        assert_eq!((value, found), ([4], [true]), "{name}");
    }
    each_map!(check);
}

/// Returns the work and the number of allocations of a call.
fn cost(device: &Device, call: impl FnOnce()) -> (Work, u64) {
    let emulator = device.emulator_handle().unwrap();
    let before = device.emulated_work().unwrap();
    emulator.fail_allocations_after(1 << 40);
    call();
    let allocations = (1 << 40) - emulator.fail_allocations_after(u64::MAX);
    let after = device.emulated_work().unwrap();
    let mut work = Work::default();
    work.launches = after.launches - before.launches;
    work.copies = after.copies - before.copies;
    work.waits = after.waits - before.waits;
    (work, allocations)
}

/// A call on a map.
type Call<'a> = Box<dyn Fn() + 'a>;

#[test]
fn small_calls_are_one_launch() {
    fn check<M: Map<Key = u32, Value = u64>>(name: &str, make: impl Fn(&Device) -> M) {
        let device = emulator();
        let (map, (keys, values)) = (make(&device), columns(400));
        assert!(map.insert(&keys, &values).unwrap().all_placed());
        map.get(&keys[..16]).unwrap();
        let (keys, values) = (&keys[..16], &values[..16]);
        let calls: [(&str, Call<'_>); 12] = [
            ("get", Box::new(|| drop(map.get(keys).unwrap()))),
            ("get_into", Box::new(|| map.get_into(keys, &mut [0; 16], &mut [false; 16]).unwrap())),
            ("contains", Box::new(|| drop(map.contains_key(keys).unwrap()))),
            ("contains_into", Box::new(|| map.contains_into(keys, &mut [false; 16]).unwrap())),
            ("insert", Box::new(|| drop(map.insert(keys, values).unwrap()))),
            ("insert_new", Box::new(|| drop(map.insert_new(keys, values).unwrap()))),
            ("upsert", Box::new(|| drop(map.upsert(Merge::Add, keys, values).unwrap()))),
            ("get_or_insert", Box::new(|| drop(map.get_or_insert(keys, values).unwrap()))),
            ("replace", Box::new(|| drop(map.replace(keys, values).unwrap()))),
            ("execute", Box::new(|| drop(map.execute(&[Op::Get(keys[0])]).unwrap()))),
            ("remove", Box::new(|| drop(map.remove(&[1, 2, 3]).unwrap()))),
            ("take", Box::new(|| drop(map.take(&[1, 2, 3]).unwrap()))),
        ];
        for (call, run) in calls {
            // Now and then a call reads the counters: after a sixteenth of the slots, which are few here.
            let costs: Vec<_> = (0..8).map(|_| cost(&device, &run)).collect();
            let is_least = |(work, allocations): &(Work, u64)| {
                (work.launches, work.copies, work.waits, *allocations) == (1, 0, 0, 0)
            };
            let least = costs.iter().filter(|cost| is_least(cost)).count();
            assert!(least >= 5, "{name}: {call}: {costs:?}");
        }
    }
    each_map!(check: HashMap SlabHash BTree);
}

#[test]
fn small_searches_are_one_launch() {
    let device = emulator();
    let map = BTree::<u32, u32>::builder().device(&device).build().unwrap();
    let (keys, _) = columns(400);
    assert!(map.insert(&keys, &keys).unwrap().all_placed());
    let calls: [&dyn Fn(); 4] = [
        &|| drop(map.successor(&keys[..16]).unwrap()),
        &|| assert!(map.first().unwrap().is_some()),
        &|| drop(map.count(&[0..1000, 5..6]).unwrap()),
        &|| drop(map.range(&[..100_000_000, ..300]).unwrap()),
    ];
    for (number, call) in calls.into_iter().enumerate() {
        call();
        let (work, allocations) = cost(&device, call);
        assert_eq!((work.launches, work.copies, work.waits, allocations), (1, 0, 0, 0), "{number}");
    }
    assert_eq!(map.range(&[..]).unwrap()[0].len(), 400);
    assert!(map.range(&[..; 100]).unwrap().iter().all(|pairs| pairs.len() == 400), "more than was guessed");
}

/// Large calls reuse memory: none of the second call's is new.
#[test]
fn large_calls_allocate_nothing_again() {
    fn check<M: Map<Key = u32, Value = u64>>(name: &str, make: impl Fn(&Device) -> M) {
        let device = emulator();
        let (map, (keys, values)) = (make(&device), columns(3000));
        assert!(map.insert(&keys, &values).unwrap().all_placed());
        let run = || {
            assert!(map.insert(&keys[..1500], &values[..1500]).unwrap().all_placed());
            assert!(map.get(&keys).unwrap().iter().all(Option::is_some));
        };
        run();
        let (used, (_, allocations)) = (device.staging_usage(), cost(&device, run));
        assert_eq!((allocations, used), (0, device.staging_usage()), "{name}");
        assert!(used.0 > 0 && used.1 > 0 && used.0 < 1 << 24, "{name}: {used:?}");
    }
    each_map!(check);
}

/// Each allocation of a call fails in turn: the call fails and nothing has changed, or it succeeds with less.
#[test]
fn calls_without_staging_memory_change_nothing() {
    fn check<M: Map<Key = u32, Value = u64>>(name: &str, make: impl Fn(&Device) -> M) {
        let (keys, values) = columns(2000);
        for (len, chunk) in [(10, 5000), (2000, 5000), (2000, 300)] {
            let device = emulator();
            let (map, mut failures) = (make(&device), 0);
            assert!(map.insert(&keys[1..], &values[1..]).unwrap().all_placed());
            loop {
                device.release_staging();
                assert_eq!(device.staging_usage(), (0, 0), "{name}");
                device.emulator_handle().unwrap().fail_allocations_after(failures);
                let got = with_chunks(chunk, || map.get(&keys[..len]));
                let is_limited = device.emulator_handle().unwrap().fail_allocations_after(u64::MAX) == 0;
                match got {
                    Ok(got) => {
                        assert!(got.iter().zip(&values).skip(1).all(|(got, value)| *got == Some(*value)))
                    }
                    Err(Error::Device(phalanx::gpu::Error::OutOfMemory { .. })) => assert!(is_limited),
                    Err(error) => panic!("{name}: {error}"),
                }
                if !is_limited {
                    break;
                }
                failures += 1;
            }
            assert!(failures > 0, "{name}");
        }
    }
    each_map!(check);
}

#[test]
fn threads_use_memory_of_their_own() {
    fn check<M: Map<Key = u32, Value = u64> + Sync>(name: &str, make: impl Fn(&Device) -> M) {
        let (map, (keys, values)) = (make(&emulator()), columns(4000));
        let (low, high) = (0..2000, 2000..4000);
        let run = |part: std::ops::Range<usize>, chunk: usize| {
            let (keys, values) = (&keys[part.clone()], &values[part]);
            with_chunks(chunk, || {
                for _ in 0..5 {
                    assert!(map.insert(keys, values).unwrap().all_placed());
                    assert!(
                        map.get(keys).unwrap().iter().zip(values).all(|(got, value)| *got == Some(*value))
                    );
                    assert!(map.remove(&keys[..7]).unwrap().into_iter().all(|removed| removed));
                }
            });
        };
        thread::scope(|scope| {
            let other = scope.spawn(|| run(high, 10_000));
            run(low, 333);
            other.join().unwrap();
        });
        assert_eq!(map.len().unwrap(), 4000 - 14, "{name}");
    }
    each_map!(check);
}

/// A blocking call sees what streams were told to do before, by this thread or another.
#[test]
fn calls_come_after_submitted_work() {
    let device = emulator();
    let map = HashMap::<u32, u32>::builder().device(&device).build().unwrap();
    let stream = device.stream().unwrap();
    let keys = device.from_slice(&[1u32, 2]).unwrap();
    map.get(&[1]).unwrap();
    map.on(&stream).insert(&keys, &keys, None).unwrap();
    let (work, _) = cost(&device, || assert_eq!(map.get(&[1, 2]).unwrap(), [Some(1), Some(2)]));
    assert_eq!(work.waits, 1, "the stream's work");
    let (work, _) = cost(&device, || assert_eq!(map.get(&[1, 2]).unwrap(), [Some(1), Some(2)]));
    assert_eq!(work.waits, 0);
}

/// The memory that a device keeps does not keep the device.
#[test]
fn devices_are_dropped_with_their_staging() {
    let device = emulator();
    let map = HashMap::<u32, u32>::builder().device(&device).build().unwrap();
    let (keys, _) = columns(3000);
    assert!(map.insert(&keys, &keys).unwrap().all_placed());
    assert_eq!(map.get(&keys[..3]).unwrap().len(), 3);
    drop(map);
    assert!(device.staging_usage().1 > 0);
    drop(device);
}

/// A table that fills up grows, however small the calls are.
#[test]
fn small_calls_grow_maps() {
    fn check<M: Map<Key = u32, Value = u64>>(name: &str, make: impl Fn(&Device) -> M) {
        let (map, (keys, values)) = (make(&emulator()), columns(5000));
        for (keys, values) in keys.chunks(37).zip(values.chunks(37)) {
            assert!(map.insert(keys, values).unwrap().all_placed(), "{name}");
        }
        assert_eq!(map.len().unwrap(), 5000, "{name}");
    }
    each_map!(check);
}
