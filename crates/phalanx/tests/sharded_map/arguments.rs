//! Arguments that do not fit: an error on all ranks, after which the map can be used.
use crate::ranks::{cases, exchange_error, map, run, small};
use phalanx::exchange::Error::{Mismatch, Refused};
use phalanx::{Error, Result, ShardedMap};

#[test]
fn a_mismatch_of_operations_is_an_error_on_all_ranks() {
    for case in cases().into_iter().filter(|case| case.1 > 1) {
        let results = run(case, small(), |exchange| {
            let mut map = map::<u32, u32>(exchange, 100)?;
            let mismatch: Result<()> = match map.rank() {
                0 => map.get(&[1, 2]).map(drop),
                _ => map.contains_key(&[1, 2]).map(drop),
            };
            assert!(map.insert(&[7], &[8])?.all_placed());
            Ok((mismatch, map.get(&[7])?))
        });
        for (mismatch, found) in results {
            let error = exchange_error(&mismatch);
            assert!(matches!(error, Some(Mismatch { what: "operation", .. })), "{mismatch:?}");
            assert_eq!(found, [Some(8)]);
        }
    }
}

/// Operations that are no batches, and a batch.
#[test]
fn different_operations_of_whole_maps_do_nothing() {
    type Call = fn(&mut ShardedMap<u32, u32>) -> Result<()>;
    let calls: [Call; 8] = [
        |map| map.len().map(drop),
        |map| map.all_gather(7).map(drop),
        |map| map.retain(|_, _| false),
        |map| map.retain_keys(1..=6),
        |map| map.clear(),
        |map| map.export().map(drop),
        |map| map.save(Vec::new()),
        |map| map.remove(&[7]).map(drop),
    ];
    for case in cases().into_iter().filter(|case| case.1 > 1) {
        run(case, small(), |exchange| {
            let mut map = map::<u32, u32>(exchange, 100)?;
            assert!(map.insert(&[7], &[8])?.all_placed());
            for first in 0..calls.len() {
                let second = (first + 1) % calls.len();
                let mismatch = calls[if map.rank() == 0 { first } else { second }](&mut map);
                let error = exchange_error(&mismatch);
                assert!(matches!(error, Some(Mismatch { what: "operation", .. })), "{first}: {mismatch:?}");
                assert_eq!((map.len()?, map.get(&[7])?), (1, vec![Some(8)]), "{first}");
            }
            Ok(())
        });
    }
}

#[test]
fn arguments_of_one_rank_are_refused_on_all() {
    for case in cases() {
        let results = run(case, small(), |exchange| {
            let mut map = map::<u64, u64>(exchange, 100)?;
            let values = if map.rank() == 0 { 1 } else { 2 };
            let refused = map.insert(&[1, 2], &[3; 2][..values]).map(drop);
            Ok((refused, map.len()?))
        });
        for (rank, (refused, len)) in results.into_iter().enumerate() {
            match (rank, &refused) {
                (0, Err(Error::Length { what: "values", expected: 2, found: 1 })) => {}
                (1.., _) if matches!(exchange_error(&refused), Some(Refused { rank: 0 })) => {}
                _ => panic!("{rank}: {refused:?}"),
            }
            assert_eq!(len, 0, "nothing was inserted");
        }
    }
}
