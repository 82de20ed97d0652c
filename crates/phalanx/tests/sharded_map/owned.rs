//! The kernel for lookups in the tables of other ranks, launched by itself.
use phalanx::{Device, HashMap, Key, Result, Value};
use phalanx_kernels::hash_map::{Config, DefaultTable, DefaultWide, Scalar};
use phalanx_kernels::sharded::owned::{GetOwned, Owned};
use phalanx_kernels::sharded::owner_of;
use simt::{Instance, Word};

/// Value of elements that are not the rank's.
const OTHER: u8 = 99;

/// Looks up present and absent keys in a table whose buckets are mostly full, and some tombstones among them.
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

#[test]
fn buckets_are_read_at_once_or_in_steps() -> Result<()> {
    check::<u32, u32, DefaultTable>(|key| key as u32, |value| value as u32 + 1)?;
    check::<u64, u64, DefaultWide<u64, u64>>(|key| key, |value| value << 40)
}
