//! Arguments that do not fit: an error on all ranks, after which the map can be used.
use crate::ranks::{cases, exchange_error, map, run, small};
use phalanx::exchange::Error::{Mismatch, Refused};
use phalanx::{Error, Result};

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
