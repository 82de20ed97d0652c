//! Shards that are multiversion B-trees: their removals need memory, too.
use crate::ranks::{Case, cases, is_cuda, run, small};
use phalanx::mvbtree::Updates;
use phalanx::sharded_map::share;
use phalanx::{MultiVersionBTree, ShardedMap};

/// Inserts keys and removes all of them. Returns whether a tree has grown for the removals.
fn removals_grow(case: Case, keys: &[u32]) -> bool {
    let grown = run(case, small(), |exchange| {
        let shard = MultiVersionBTree::<u32, u32>::builder().device(exchange.device());
        let shard = shard.nodes(1).super_block_slabs(32).updates(Updates::OutOfPlace).build()?;
        let mut map = ShardedMap::new(exchange, shard)?;
        map.force_exchange(true);
        let own = &keys[share(keys.len(), map.rank(), map.ranks())];
        assert!(map.insert(own, own)?.all_placed());
        let before = map.shard().stats()?.capacity;
        assert_eq!(map.remove(own)?, vec![true; own.len()], "{case:?}");
        assert_eq!(map.len()?, 0, "{case:?}");
        Ok(map.shard().stats()?.capacity > before)
    });
    grown.contains(&true)
}

#[test]
fn refused_removals_are_tried_again() {
    let keys: Vec<u32> = (0..1200).collect();
    for case in cases().into_iter().filter(|case| case.1 <= 3) {
        // Some trees are almost full before the removals. A GPU may reclaim nodes in time.
        let grown = (1..=6).filter(|part| removals_grow(case, &keys[..200 * part])).count();
        assert!(grown > 0 || is_cuda(), "{case:?}: no removal lacked memory");
    }
}
