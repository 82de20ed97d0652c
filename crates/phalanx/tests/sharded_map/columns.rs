//! Device memory for batches on host slices.
use crate::ranks::{cases, map, run, small};
use phalanx::Merge;
use phalanx::gpu::Tier;

/// Memory for batches on host slices is kept, and elements in pinned memory have the same results.
#[test]
fn host_slices_share_memory() {
    for case in cases() {
        run(case, small(), |exchange| {
            let mut map = map::<u64, u64>(exchange, 5000)?;
            let own: Vec<u64> = (0..700).map(|number| 3 * number + map.rank() as u64 % 3).collect();
            let before = map.memory_usage();
            assert!(map.insert(&own, &own)?.all_placed());
            let (device, after) = (map.device().clone(), map.memory_usage());
            assert!(after - before >= 17 * own.len(), "{case:?}: {before}, {after} bytes");
            let mut pinned = device.buffer_on::<u64>(Tier::Pinned, own.len())?;
            pinned.as_mut_slice()?.copy_from_slice(&own);
            assert!(map.insert(pinned.as_slice()?, pinned.as_slice()?)?.all_placed());
            // Fewer elements than before: no memory is added, and no older element is seen.
            assert!(map.upsert(Merge::Max, &pinned.as_slice()?[1..], &own[1..])?.all_placed());
            assert_eq!(map.insert(&[], &[])?.len(), 0);
            assert_eq!(map.memory_usage(), after, "{case:?}");
            let found: Vec<_> = own.iter().copied().map(Some).collect();
            assert_eq!(map.get(pinned.as_slice()?)?, found);
            let all = map.memory_usage();
            assert_eq!(
                (map.get(&own[..2])?, map.contains_key(&[1 << 40])?),
                (found[..2].to_vec(), vec![false])
            );
            assert!(all - after >= 8 * own.len() && map.memory_usage() == all, "{case:?}");
            Ok(())
        });
    }
}
