//! Ranks that are lost: an error on all others before the deadline, after which only own shards work.
use crate::ranks::{Case, Kind, exchange_error, is_cuda, map, run_with, small};
use phalanx::exchange::Error::PeerLost;
use phalanx::exchange::{Exchange, Fault, Limits, Planted};
use phalanx::{Error, HashMap, Result, ShardedMap};
use std::time::{Duration, Instant};

fn is_lost<R>(result: &Result<R>) -> bool {
    matches!(exchange_error(result), Some(PeerLost(_)))
}

/// Calls every operation once, with batches of some elements. A save is loaded again.
fn all_operations(map: &mut ShardedMap<u32, u32>, len: u32) -> Result<()> {
    let first = 10_000 * map.rank() as u32;
    let keys: Vec<u32> = (first..first + len).collect();
    assert!(map.insert(&keys, &keys)?.all_placed());
    map.get(&keys)?;
    map.retain_keys(0..=100_000)?;
    let mut saved = Vec::new();
    map.save(&mut saved)?;
    map.export()?;
    map.clear()?;
    map.load([&saved[..]])?;
    assert_eq!(map.len()?, len as usize * map.ranks());
    Ok(())
}

/// Checks what remains of a rank when another one is lost.
fn only_the_own_shard_works(map: &mut ShardedMap<u32, u32>) {
    assert!(is_lost(&map.get(&[1])), "a lookup after a loss");
    assert!(is_lost(&map.len()) && is_lost(&map.remove(&[1])) && is_lost(&map.retain(|_, _| true)));
    assert!(is_lost(&map.export()) && is_lost(&map.clear()) && is_lost(&map.load([&[][..]])));
    let own = (0..).find(|&key| map.owner(key) == map.rank()).unwrap();
    assert!(map.shard().insert(&[own], &[7]).unwrap().all_placed());
    assert_eq!(map.shard().get(&[own]).unwrap(), [Some(7)]);
}

/// Parts in which kernels write messages of 512 pairs.
fn in_three_chunks() -> Limits {
    Limits { part_bytes: 8 << 10, ..small() }
}

/// Runs all operations with faults. Returns the results of the ranks, and whether all faults have occurred.
fn run_all(case: Case, limits: Limits, planted: Vec<Planted>) -> Vec<Result<()>> {
    run_with(case, limits, planted, |exchange| {
        let mut map = map::<u32, u32>(exchange, 2000)?;
        let result = all_operations(
            &mut map,
            if limits.part_bytes == in_three_chunks().part_bytes { 1200 } else { 200 },
        );
        if result.is_err() {
            only_the_own_shard_works(&mut map);
        }
        result
    })
}

#[test]
fn a_rank_that_dies_at_any_step_is_an_error_on_all() {
    if is_cuda() {
        return; // Needs three ranks, whatever the machine has.
    }
    let both = [Kind::Emulated, Kind::Peer].map(|kind| (kind, small()));
    for (kind, limits) in both.into_iter().chain([(Kind::Peer, in_three_chunks())]) {
        let mut step = 0;
        loop {
            let planted = vec![Planted { rank: 1, step, fault: Fault::Die }];
            let results = run_all((kind, 3), limits, planted);
            if results.iter().all(Result::is_ok) {
                break; // There are fewer steps.
            }
            assert!(results.iter().all(is_lost), "{kind:?}, step {step}: {results:?}");
            step += 1;
        }
        println!("{kind:?}: {step} steps");
        assert!(step > 20, "{kind:?}: only {step} steps");
    }
}

#[test]
fn a_rank_that_stops_is_an_error_on_all_at_the_deadline() {
    if is_cuda() {
        return;
    }
    let deadline = Duration::from_millis(1500);
    let of_emulated = [0, 3, 5, 6, 9].map(|step| (Kind::Emulated, small(), step));
    let of_peer = [9, 11, 12, 13].map(|step| (Kind::Peer, in_three_chunks(), step));
    for (kind, limits, step) in of_emulated.into_iter().chain(of_peer) {
        let (start, limits) = (Instant::now(), Limits { deadline, ..limits });
        let planted = vec![Planted { rank: 0, step, fault: Fault::Stall }];
        let results = run_all((kind, 3), limits, planted);
        assert!(results.iter().all(is_lost), "step {step}: {results:?}");
        assert!(start.elapsed() < Duration::from_secs(15), "step {step}: {:?}", start.elapsed());
    }
}

#[test]
fn two_ranks_that_die_at_once_are_an_error_on_all() {
    if is_cuda() {
        return;
    }
    let dies = |rank| Planted { rank, step: 5, fault: Fault::Die };
    let results = run_all((Kind::Peer, 5), small(), vec![dies(1), dies(3)]);
    assert!(results.iter().all(is_lost), "{results:?}");
}

/// A shard on another device than the exchange's: a rank that fails while the map is made.
fn with_a_foreign_shard(exchange: Exchange) -> Result<ShardedMap<u32, u32>> {
    let device = phalanx::Device::emulator(Default::default());
    ShardedMap::new(exchange, HashMap::builder().device(&device).capacity(100).build()?)
}

#[test]
fn a_rank_that_fails_while_the_map_is_made_or_drops_it_is_an_error_on_all() {
    if is_cuda() {
        return;
    }
    let results = run_with((Kind::Peer, 3), small(), Vec::new(), |exchange| match exchange.rank() {
        2 => with_a_foreign_shard(exchange).map(drop),
        _ => map::<u32, u32>(exchange, 100).map(drop),
    });
    assert!(matches!(results[2], Err(Error::OtherDevice { what: "shard", .. })), "{:?}", results[2]);
    assert!(is_lost(&results[0]) && is_lost(&results[1]), "{results:?}");
    let results = run_with((Kind::Emulated, 3), small(), Vec::new(), |exchange| {
        let mut map = map::<u32, u32>(exchange, 100)?;
        if map.rank() == 1 {
            drop(map.into_shard());
            return Ok(());
        }
        let result = map.insert(&[1, 2, 3], &[1, 2, 3]);
        assert!(is_lost(&result), "{result:?}");
        only_the_own_shard_works(&mut map);
        Ok(())
    });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}
