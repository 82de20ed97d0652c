//! Small batches, and lookups in the tables of other ranks.
use crate::ranks::{Kind, cases, exchange_error, map, run, run_with, small};
use phalanx::exchange::{Error::PeerLost, Limits};
use phalanx::{Error, HashMap, Merge, ShardedMap};
use phalanx_kernels::sharded::owner_of;
use std::sync::Barrier;
use std::time::Duration;

#[test]
fn a_small_batch_waits_for_the_device_once() {
    let limits = Limits { part_bytes: 1 << 20, ..Limits::default() };
    for case in cases() {
        run(case, limits, |exchange| {
            let mut map = map::<u64, u64>(exchange, 1000)?;
            let keys: Vec<u64> = (0..300).map(|number| number * 7 + map.rank() as u64).collect();
            let waits = |map: &phalanx::ShardedMap<u64, u64>| map.traffic().waits;
            let before = waits(&map);
            assert!(map.insert(&keys, &keys)?.all_placed());
            assert_eq!(waits(&map) - before, 1, "{case:?}: an insertion");
            assert_eq!(map.get(&keys)?, keys.iter().copied().map(Some).collect::<Vec<_>>());
            assert_eq!(waits(&map) - before, 2, "{case:?}: a lookup");
            Ok(())
        });
    }
}

#[test]
fn small_and_large_batches_meet() {
    // One rank has too many elements for a small batch, the others few or none.
    let limits = Limits { part_bytes: 1 << 20, ..Limits::default() };
    for case in cases().into_iter().filter(|case| case.1 <= 3) {
        run(case, limits, |exchange| {
            let mut map = map::<u32, u32>(exchange, 30_000)?;
            let keys: Vec<u32> = match map.rank() {
                0 => (0..17_000).collect(),
                rank => (0..100 * (rank as u32 - 1)).collect(),
            };
            let ones = vec![1; keys.len()];
            assert!(map.upsert(Merge::Add, &keys, &ones)?.all_placed());
            assert_eq!(map.len()?, 17_000);
            assert_eq!(map.report().chunks, 1, "a large batch");
            let expected = |key: u32| Some(1 + u32::from(map.ranks() == 3 && key < 100));
            let expected = [expected(5), expected(16_999), None];
            assert_eq!(map.get(&[5, 16_999, 17_000])?, expected);
            assert_eq!(map.report().chunks, 0, "a small batch");
            Ok(())
        });
    }
}

#[test]
fn tables_of_other_ranks_are_read_without_them() {
    for case in cases() {
        let barrier = Barrier::new(case.1);
        run(case, small(), |exchange| {
            let mut map = map::<u64, u64>(exchange, 50)?;
            assert_eq!(map.is_readable(), case.0 != Kind::Nccl, "{case:?}");
            let first = 1000 * map.rank() as u64;
            let keys: Vec<u64> = (first..first + 150).collect();
            assert!(map.insert(&keys, &keys)?.all_placed()); // all tables have grown
            let all = map.len()?;
            assert_eq!(all, 150 * map.ranks());
            // One rank after the other: no other takes part.
            for turn in 0..map.ranks() {
                barrier.wait();
                if turn != map.rank() {
                    continue;
                }
                let asked: Vec<u64> = (0..map.ranks() as u64 * 1000).step_by(3).collect();
                let found = map.get_remote(&asked);
                if !map.is_readable() {
                    assert!(matches!(found, Err(Error::NotReadable)), "{found:?}");
                    continue;
                }
                let expected = asked.iter().map(|&key| (key % 1000 < 150).then_some(key));
                assert_eq!(found?, expected.collect::<Vec<_>>(), "{case:?}");
            }
            barrier.wait();
            Ok(())
        });
    }
}

/// A single rank that has executed no batch has no memory for messages yet.
#[test]
fn a_single_rank_reads_its_own_table_first() {
    for case in cases().into_iter().filter(|case| case.1 == 1) {
        run(case, small(), |exchange| {
            let shard = HashMap::<u64, u64>::builder().device(exchange.device()).capacity(100).build()?;
            assert!(shard.insert(&[1, 2], &[10, 20])?.all_placed());
            let mut map = ShardedMap::new(exchange, shard)?;
            if map.is_readable() {
                assert_eq!(map.get_remote(&[2, 3, 1])?, [Some(20), None, Some(10)]);
            }
            Ok(())
        });
    }
}

#[test]
fn tables_are_not_read_after_a_loss() {
    let Some(case) = cases().into_iter().find(|case| case.1 > 1 && case.0 == Kind::Peer) else { return };
    let results = run_with(case, small(), Vec::new(), |exchange| {
        let mut map = map::<u64, u64>(exchange, 50)?;
        if map.rank() == 0 {
            return Ok(()); // drops its end
        }
        assert!(map.len().is_err());
        map.get_remote(&[1]).map(drop)
    });
    assert!(results[0].is_ok());
    assert!(results[1..].iter().all(|result| matches!(exchange_error(result), Some(PeerLost(_)))));
}

/// When a call on host slices has returned, a rank may change its shard by itself, and the next call of all
/// ranks finds the change, also if another rank begins it before.
#[test]
fn lookups_come_after_changes_of_a_rank_by_itself() {
    for case in cases().into_iter().filter(|case| case.1 > 1) {
        run(case, small(), |exchange| {
            let mut map = map::<u64, u64>(exchange, 500)?;
            map.set_most_remote(usize::MAX);
            let owned = |rank: usize| (0..).filter(move |&key| owner_of(key, case.1 as u32) as usize == rank);
            let keys: Vec<u64> = owned(1).take(20).collect();
            for value in [1, 2] {
                map.get(&keys)?; // the last operation of all ranks
                if map.rank() == 1 {
                    std::thread::sleep(Duration::from_millis(50));
                    assert!(map.shard().insert(&keys, &[value; 20])?.all_placed());
                }
                assert_eq!(map.get(&keys)?, [Some(value); 20], "{case:?}");
                // The same with buffers of the device.
                let (device, mut outcomes) = (map.device().clone(), map.device().zeroed::<u8>(20)?);
                let (asked, mut found) = (device.from_slice(&keys)?, device.zeroed::<u64>(20)?);
                map.batches().get(&asked, &mut found, &mut outcomes)?;
                map.wait()?;
                map.all_gather(0)?;
                if map.rank() == 1 {
                    std::thread::sleep(Duration::from_millis(50));
                    assert!(map.shard().insert(&keys, &[value + 10; 20])?.all_placed());
                }
                map.batches().get(&asked, &mut found, &mut outcomes)?;
                map.wait()?;
                assert_eq!(found.read()?, [value + 10; 20], "{case:?}");
                map.all_gather(0)?;
            }
            Ok(())
        });
    }
}

/// The ranks read each other's tables between changes of these, without a wait of the caller.
#[test]
fn gets_without_an_exchange_are_ordered_with_changes() {
    for case in cases() {
        run(case, small(), |exchange| {
            let mut map = map::<u64, u64>(exchange, 500)?;
            let (rank, ranks) = (map.rank() as u64, map.ranks() as u64);
            map.set_most_remote(usize::MAX);
            let (is_remote, keys) = (map.is_readable(), (0..40 * ranks).collect::<Vec<u64>>());
            for step in 0..6 {
                // Each rank changes the keys of its neighbour's share.
                let own: Vec<u64> = (0..40).map(|number| number * ranks + (rank + step) % ranks).collect();
                let values: Vec<u64> = own.iter().map(|key| 1000 * step + key).collect();
                assert!(map.insert(&own, &values)?.all_placed());
                let before = map.traffic().rounds;
                let expected: Vec<_> = keys.iter().map(|key| Some(1000 * step + key)).collect();
                assert_eq!(map.get(&keys)?, expected, "{case:?}, step {step}");
                assert_eq!(map.report().remote, if is_remote { keys.len() } else { 0 });
                if is_remote {
                    assert_eq!(map.traffic().rounds - before, 1, "a round orders the streams");
                    assert_eq!(map.get(&keys[..3])?, expected[..3]);
                    assert_eq!(map.traffic().rounds - before, 1, "nothing has changed since");
                }
                if step == 3 {
                    map.clear()?;
                    assert_eq!(map.get(&keys)?, vec![None; keys.len()]);
                }
            }
            // The smallest number of all ranks counts, and the longest batch.
            map.set_most_remote(if rank == 0 { 10 } else { usize::MAX });
            map.get(&keys[..if rank + 1 == ranks { 11 } else { 1 }])?;
            assert_eq!(map.report().remote, 0);
            Ok(())
        });
    }
}
