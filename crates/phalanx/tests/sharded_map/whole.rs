//! Operations on whole maps, and growth.
use crate::ranks::{Case, Kind, cases, exchange_error, is_cuda, map, run, run_with, small};
use phalanx::exchange::{Error::Refused, Exchange};
use phalanx::hash_map::Growth;
use phalanx::sharded_map::share;
use phalanx::{Error, HashMap, Outcome, Result, ShardedMap};
use std::collections::BTreeMap;

/// Returns the pairs of the tests.
fn squares(len: u64) -> (Vec<u64>, Vec<u64>) {
    (0..len).map(|number| (number * number + 3, 7 * number)).unzip()
}

/// Inserts this rank's share of pairs.
fn fill(map: &mut ShardedMap<u64, u64>, (keys, values): &(Vec<u64>, Vec<u64>)) -> Result<()> {
    let own = share(keys.len(), map.rank(), map.ranks());
    assert!(map.insert(&keys[own.clone()], &values[own])?.all_placed());
    Ok(())
}

/// Returns the pairs of all ranks' exports.
fn together(exports: Vec<(Vec<u64>, Vec<u64>)>) -> BTreeMap<u64, u64> {
    let len: usize = exports.iter().map(|(keys, _)| keys.len()).sum();
    let all: BTreeMap<_, _> =
        exports.into_iter().flat_map(|(keys, values)| keys.into_iter().zip(values)).collect();
    assert_eq!(all.len(), len, "no key is in two shards");
    all
}

fn expected(pairs: &(Vec<u64>, Vec<u64>), keep: impl Fn(u64, u64) -> bool) -> BTreeMap<u64, u64> {
    let all = pairs.0.iter().copied().zip(pairs.1.iter().copied());
    all.filter(|&(key, value)| keep(key, value)).collect()
}

#[test]
fn pairs_are_exported_retained_and_cleared() {
    let pairs = squares(700);
    for case in cases() {
        let exports = run(case, small(), |exchange| {
            let mut map = map::<u64, u64>(exchange, 2000)?;
            fill(&mut map, &pairs)?;
            let first = map.export()?;
            assert!(first.0.iter().all(|&key| map.owner(key) == map.rank()));
            map.retain(|_, value| value % 2 == 0)?;
            map.retain_keys(5..=200_000)?;
            let second = map.export()?;
            map.clear()?;
            assert!(map.is_empty()?);
            Ok((first, second))
        });
        let (first, second) = exports.into_iter().unzip();
        assert_eq!(together(first), expected(&pairs, |_, _| true), "{case:?}");
        let is_kept = |key, value| value % 2 == 0 && (5..=200_000).contains(&key);
        assert_eq!(together(second), expected(&pairs, is_kept), "{case:?}");
    }
}

fn saved(case: Case, pairs: &(Vec<u64>, Vec<u64>)) -> Vec<Vec<u8>> {
    run(case, small(), |exchange| {
        let (mut map, mut part) = (map::<u64, u64>(exchange, 2000)?, Vec::new());
        fill(&mut map, pairs)?;
        map.save(&mut part)?;
        Ok(part)
    })
}

/// Returns the parts that a rank loads.
fn parts_of(parts: &[Vec<u8>], rank: usize, ranks: usize) -> impl Iterator<Item = &[u8]> {
    parts.iter().skip(rank).step_by(ranks).map(|part| &part[..])
}

#[test]
fn maps_that_were_saved_on_some_ranks_are_loaded_on_others() {
    let (pairs, cases) = (squares(500), cases());
    for from in &cases {
        let parts = saved(*from, &pairs);
        for to in cases.iter().filter(|to| to.0 == from.0) {
            let exports = run(*to, small(), |exchange| {
                let mut map = map::<u64, u64>(exchange, 50)?; // grows
                map.load(parts_of(&parts, map.rank(), map.ranks()))?;
                map.export()
            });
            assert_eq!(together(exports), expected(&pairs, |_, _| true), "from {from:?} to {to:?}");
        }
    }
}

#[test]
fn parts_that_are_missing_twice_damaged_or_of_two_saves_are_errors_on_all() {
    let cases = cases();
    let case = *cases.iter().find(|case| case.1 == 2).unwrap_or(&cases[0]);
    let (good, other) = (saved(case, &squares(300)), saved(case, &squares(300)));
    let mut damaged = good.clone();
    let end = damaged[0].len() - 50;
    damaged[0][end] ^= 1;
    let mut mixed = good.clone();
    mixed[0] = other[0].clone();
    let twice = [good.clone(), good.clone()].concat();
    let missing = good[..case.1 - 1].to_vec();
    for (parts, message) in [
        (damaged, "checksum is wrong"),
        (mixed, "not of the same save"),
        (twice, "passed twice"),
        (missing, if case.1 == 1 { "no rank has a part" } else { "is missing" }),
    ] {
        if case.1 == 1 && message.contains("same save") {
            continue;
        }
        let results = run_with(case, small(), Vec::new(), |exchange| {
            let mut map = map::<u64, u64>(exchange, 1000)?;
            let loaded = map.load(parts_of(&parts, map.rank(), map.ranks()));
            assert!(map.is_empty()?, "nothing is inserted");
            loaded
        });
        let says = |result: &Result<()>| match result {
            Err(Error::Format(text)) => text.contains(message),
            result => matches!(exchange_error(result), Some(Refused { .. })),
        };
        assert!(results.iter().all(says), "{message}: {results:?}");
        assert!(results.iter().any(|result| matches!(result, Err(Error::Format(_)))), "{results:?}");
    }
}

/// Makes a rank's end whose shard has room for `capacity` pairs.
fn with_growth(exchange: Exchange, capacity: usize, growth: Growth) -> Result<ShardedMap<u64, u64>> {
    let builder = HashMap::builder().device(exchange.device()).capacity(capacity).growth(growth);
    let mut map = ShardedMap::new(exchange, builder.build()?)?;
    map.force_exchange(true);
    Ok(map)
}

#[test]
fn a_full_shard_grows_and_the_others_do_not() {
    let pairs = squares(3000);
    for case in cases() {
        let results = run(case, small(), |exchange| {
            let capacity = if exchange.rank() == 0 { 20 } else { 6000 };
            let mut map = with_growth(exchange, capacity, Growth::Doubling)?;
            let before = map.shard().slots();
            fill(&mut map, &pairs)?;
            Ok((map.shard().slots() > before, map.len()?, map.export()?))
        });
        for (rank, (has_grown, len, _)) in results.iter().enumerate() {
            assert_eq!((*has_grown, *len), (rank == 0, 3000), "{case:?}, rank {rank}");
        }
        let exports = results.into_iter().map(|(.., export)| export).collect();
        assert_eq!(together(exports), expected(&pairs, |_, _| true), "{case:?}");
    }
}

/// A rank whose allocations fail at any point of an insertion that grows shards: no rank is lost, and the
/// outcomes, or the error, tell what is in the map.
#[test]
fn a_rank_that_lacks_memory_is_not_lost() {
    if is_cuda() {
        return; // Its allocations do not fail on demand.
    }
    let (pairs, mut failed) = (squares(600), 0);
    for case in cases().into_iter().filter(|&(kind, ranks)| kind == Kind::Emulated && ranks < 4) {
        for allocations in 0..60 {
            let results = run(case, small(), |exchange| {
                let mut map = with_growth(exchange, 20, Growth::Doubling)?;
                let (own, device) = (share(pairs.0.len(), map.rank(), map.ranks()), map.device().clone());
                let emulator = device.emulator_handle().filter(|_| map.rank() == 0);
                let fail_after = |allocations| {
                    if let Some(emulator) = &emulator {
                        emulator.fail_allocations_after(allocations);
                    }
                };
                map.len()?; // All ranks are here.
                fail_after(allocations);
                let result = map.insert(&pairs.0[own.clone()], &pairs.1[own.clone()]);
                fail_after(u64::MAX);
                let placed = match &result {
                    Ok(outcomes) => outcomes.len() - outcomes.refused(),
                    Err(Error::NoRoom { outcomes, .. }) => outcomes.len() - outcomes.refused(),
                    Err(Error::Device(_)) => 0,
                    Err(_) if matches!(exchange_error(&result), Some(Refused { rank: 0 })) => 0,
                    Err(error) => panic!("{case:?}, {allocations}: {error}"),
                };
                let all: u64 = map.all_gather(placed as u64)?.iter().sum();
                assert_eq!(map.len()? as u64, all, "{case:?}, {allocations}: {result:?}");
                fill(&mut map, &pairs)?;
                assert_eq!(map.len()?, 600);
                Ok(usize::from(result.is_err()))
            });
            failed += results.iter().sum::<usize>();
        }
    }
    assert!(failed > 20, "only {failed} insertions lacked memory");
}

#[test]
fn shards_of_fixed_capacity_refuse_what_does_not_fit() {
    let pairs = squares(3000);
    for case in cases() {
        let results = run(case, small(), |exchange| {
            let mut map = with_growth(exchange, 100, Growth::Fixed)?;
            let own = share(pairs.0.len(), map.rank(), map.ranks());
            let outcomes = map.insert(&pairs.0[own.clone()], &pairs.1[own.clone()])?;
            let found = map.contains_key(&pairs.0[own])?;
            let is_right = |(outcome, found): (&Outcome, &bool)| (*outcome == Outcome::Inserted) == *found;
            assert!(outcomes.iter().zip(&found).all(is_right));
            Ok((outcomes.count(Outcome::Inserted), outcomes.refused(), map.len()?))
        });
        let inserted: usize = results.iter().map(|(inserted, ..)| inserted).sum();
        assert!(results.iter().any(|(_, refused, _)| *refused > 0), "{case:?}");
        assert!(results.iter().all(|(.., len)| *len == inserted), "{case:?}: {inserted}");
    }
}
