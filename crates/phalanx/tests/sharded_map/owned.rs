//! The kernel for lookups in the tables of other ranks, launched by itself.
use phalanx::{Device, HashMap, Key, Result, Value};
use phalanx_kernels::hash_map::{
    Config, DefaultTable, DefaultWide, MapView, OVERFLOW_BUCKETS, Packed, Scalar, Slot,
};
use phalanx_kernels::keyed::{COUNTER_SHARDS, SHARD_WORDS};
use phalanx_kernels::sharded::owned::{GetOwned, Owned};
use phalanx_kernels::sharded::owner_of;
use simt::{Instance, Word};

/// Value of elements that are not the rank's.
const OTHER: u8 = 99;

/// Looks up present, removed and absent keys in a table whose buckets are mostly full.
fn check<K, V, M>(number: impl Fn(u64) -> K, value: impl Fn(u64) -> V) -> Result<()>
where
    K: Key<Word = K> + Scalar,
    V: Value<Word = V> + Word,
    M: Config<Key = K, Value = V> + Instance,
{
    let device = Device::emulator(Default::default());
    let map = HashMap::<K, V>::builder().device(&device).capacity(900).build()?;
    let keys: Vec<K> = (0..2000).map(|index| number(index * 7)).collect();
    let values: Vec<V> = (0..900).map(value).collect();
    assert!(map.insert(&keys[..900], &values)?.all_placed());
    map.remove(&keys[300..400])?;
    // SAFETY: nothing replaces the table, and the map lives until all launches have ended.
    let view = unsafe { map.view::<M>()? };
    let (asked, stream) = (device.from_slice(&keys)?, device.stream()?);
    for (own, flags) in [0, 1, 2].into_iter().flat_map(|own| [(own, 0), (own, Owned::IN_STEPS)]) {
        let owned = Owned { owners: 3, own, flags };
        let (found, outcomes) =
            (device.zeroed::<V>(keys.len())?, device.from_slice(&vec![OTHER; keys.len()])?);
        let kernel = GetOwned::<M> {
            map: view,
            keys: asked.global().into(),
            owned,
            values: found.global(),
            outcomes: outcomes.global(),
        };
        // SAFETY: a thread for each key; the buffers and the map live until the copies below have ended, and
        // nothing changes the map.
        unsafe { stream.launch(gpu::Grid::new(keys.len().div_ceil(128) as u32, 128), kernel)? };
        stream.synchronize()?;
        let (found, outcomes) = (found.read()?, outcomes.read()?);
        for (index, &key) in keys.iter().enumerate() {
            let is_there = index < 900 && !(300..400).contains(&index);
            let expected = if is_there { 3 } else { 5 }; // found, absent
            let expected = if owner_of(key, 3) == own { expected } else { OTHER };
            assert_eq!(outcomes[index], expected, "{owned:?}, element {index}");
            assert!(expected != 3 || found[index] == values[index], "{owned:?}, element {index}");
        }
    }
    Ok(())
}

/// Looks up key 1 in a table with it in two slots of each bucket, whose values are their numbers. Returns the
/// value that was found.
fn value_of_two(slots: [usize; 2], flags: u32) -> Result<u32> {
    const BUCKETS: u32 = 3;
    let device = Device::emulator(Default::default());
    let mut bucket = [Packed::pack(2, 0); 8];
    for slot in slots {
        // Lane 0 has slots 0 to 3, lane 1 the others, and each load of a lane is two slots.
        let (lane, index) = (slot / 4, slot % 4);
        bucket[(index / 2 * 2 + lane) * 2 + index % 2] = Packed::pack(1, slot as u32);
    }
    let buckets = device.from_slice(&bucket.repeat((BUCKETS + OVERFLOW_BUCKETS) as usize))?;
    let filters = device.from_slice(&vec![u32::MAX; DefaultTable::filter_words(BUCKETS)])?;
    let counters = device.zeroed::<u64>(COUNTER_SHARDS * SHARD_WORDS)?;
    let (keys, found) = (device.from_slice(&[1u32])?, device.zeroed::<u32>(1)?);
    let outcomes = device.from_slice(&[OTHER])?;
    let [buckets_at, counters_at] = [&buckets, &counters].map(|words| words.global().as_ptr());
    // SAFETY: the table has so many buckets, its filters and its counters, which live until the copy below
    // has ended. It is full of pairs of this kind.
    let map = unsafe { MapView::new(buckets_at, filters.global().as_ptr(), counters_at, BUCKETS, BUCKETS) };
    let owned = Owned { owners: 1, own: 0, flags };
    let (keys, values) = (keys.global().into(), found.global());
    let kernel = GetOwned::<DefaultTable> { map, keys, owned, values, outcomes: outcomes.global() };
    // SAFETY: a thread for the key; as above.
    unsafe { device.default_stream().launch(gpu::Grid::new(1, 32), kernel)? };
    device.synchronize()?;
    assert_eq!(outcomes.read()?, [3], "{slots:?}, {flags}");
    Ok(found.read()?[0])
}

/// Removed pairs of a key may be read as they were, beside the key's next pair.
#[test]
fn of_two_slots_with_the_key_the_last_counts() -> Result<()> {
    for last in 1..8 {
        for first in 0..last {
            assert_eq!(value_of_two([first, last], 0)?, last as u32, "{first}");
        }
    }
    Ok(())
}

/// The second loads of both lanes are not looked at if the first ones have the key.
#[test]
fn steps_end_at_the_first_loads_with_the_key() -> Result<()> {
    for (of_first, of_second) in [(0, 2), (1, 7), (4, 6), (5, 3), (0, 7), (4, 3)] {
        assert_eq!(value_of_two([of_first, of_second], Owned::IN_STEPS)?, of_first as u32, "{of_second}");
    }
    assert_eq!(value_of_two([2, 7], Owned::IN_STEPS)?, 7);
    assert_eq!(value_of_two([0, 5], Owned::IN_STEPS)?, 5);
    Ok(())
}

#[test]
fn buckets_are_read_at_once_or_in_steps() -> Result<()> {
    check::<u32, u32, DefaultTable>(|key| key as u32, |value| value as u32 + 1)?;
    check::<u64, u64, DefaultWide<u64, u64>>(|key| key, |value| value << 40)
}
