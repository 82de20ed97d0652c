//! Shards that are slab hashes: the same code, but for lookups in other ranks' tables.
use crate::ranks::{cases, run, small};
use phalanx::sharded_map::share;
use phalanx::{Error, Merge, ShardedMap, SlabHash};
use std::collections::BTreeMap;

#[test]
fn slab_hashes_are_shards() {
    let keys: Vec<u32> = (0..900).map(|number| number * 13 % 701).collect();
    let mut model = BTreeMap::new();
    keys.iter().for_each(|&key| *model.entry(key).or_insert(0u32) += 2);
    for case in cases().into_iter().filter(|case| case.1 <= 3) {
        let exports = run(case, small(), |exchange| {
            let shard = SlabHash::<u32, u32>::builder().device(exchange.device()).capacity(100).build()?;
            let mut map = ShardedMap::new(exchange, shard)?;
            map.force_exchange(true);
            let own = share(keys.len(), map.rank(), map.ranks());
            let twos = vec![2; own.len()];
            assert!(map.upsert(Merge::Add, &keys[own.clone()], &twos)?.all_placed());
            assert_eq!(map.len()?, model.len());
            let expected: Vec<_> = keys[own.clone()].iter().map(|key| model.get(key).copied()).collect();
            assert_eq!(map.get(&keys[own])?, expected);
            assert_eq!(map.remove(&[900 + map.rank() as u32])?, [false]);
            assert!(!map.is_readable() && matches!(map.get_remote(&[1]), Err(Error::NotReadable)));
            map.export()
        });
        let all = exports.into_iter().flat_map(|(keys, values)| keys.into_iter().zip(values));
        assert_eq!(all.collect::<BTreeMap<_, _>>(), model, "{case:?}");
    }
}
